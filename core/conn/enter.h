/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_ENTER_H
#define RR_CONN_ENTER_H

/* How calls of the app enter core/conn. The functions of conn.h use this. */

#include "core/conn/family/family.h"

/* conn.c */
/* As rr_conn_hold_apps(), and brings the upgrade forward. Also -ECONNRESET, without the lock.
 * told: RR_ASK_TOLD. */
int rr_conn_enter_told(struct rr_conn *c, int fd, bool told, struct rr_lock **l);

static inline int rr_conn_enter(struct rr_conn *c, int fd, struct rr_lock **l)
{
	return rr_conn_enter_told(c, fd, false, l);
}

/* relaying.c. In the parent, before a fork. True: a relay serves this connection. */
bool rr_relay_forks(struct rr_conn *c);

#endif
