/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_ENTER_H
#define RR_CONN_ENTER_H

/* What the app's calls enter by: the top of core/conn, whose functions are those of conn.h. */

#include "core/conn/family/family.h"

/* conn.c */
/* As rr_conn_hold(), and brings an upgrade forward; also -ECONNRESET, without the lock.
 * told: RR_ASK_TOLD. */
int rr_conn_enter_told(struct rr_conn *c, int fd, bool told, struct rr_lock **l);

static inline int rr_conn_enter(struct rr_conn *c, int fd, struct rr_lock **l)
{
	return rr_conn_enter_told(c, fd, false, l);
}

/* Before it enters: is the call the kernel's anyway? reads: it wants what comes in. */
static inline bool rr_conn_passes(struct rr_conn *c, int fd, bool reads)
{
	rr_relay_see(c, fd);
	if (reads && rr_conn_relayed(c, fd))
		rr_relay_ask(c, fd);
	return rr_conn_is_tcp(c) || rr_conn_relayed(c, fd);
}

/* relaying.c. Before a fork, in the parent: true, if it is for a relay. */
bool rr_relay_forks(struct rr_conn *c);

#endif
