/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_ENTER_H
#define RR_CONN_ENTER_H

/* What the app's calls enter by: the top of core/conn, whose functions are those of conn.h. */

#include "core/conn/family/family.h"

/* conn.c */
/* As rr_conn_hold(), and brings an upgrade forward; also -ECONNRESET, without the lock. */
int rr_conn_enter(struct rr_conn *c, int fd, struct rr_lock **l);

/* relaying.c. Before a fork, in the parent: true, if it is for a relay. And in the child. */
bool rr_relay_forks(struct rr_conn *c);
void rr_relay_forked(struct rr_conn *c);

#endif
