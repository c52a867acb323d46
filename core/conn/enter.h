/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_ENTER_H
#define RR_CONN_ENTER_H

/* How calls of the app enter core/conn. The functions of conn.h use this. */

#include "core/conn/family/family.h"

/* conn.c */
/* As rr_conn_hold(), and brings the upgrade forward. Also -ECONNRESET, without the lock. told:
 * RR_ASK_TOLD. */
int rr_conn_enter_told(struct rr_conn *c, int fd, bool told, struct rr_lock **l);

static inline int rr_conn_enter(struct rr_conn *c, int fd, struct rr_lock **l)
{
	return rr_conn_enter_told(c, fd, false, l);
}

/* Asked before entering: does the call go to the kernel anyway? reads: the call wants incoming
 * bytes. */
static inline bool rr_conn_passes(struct rr_conn *c, int fd, bool reads)
{
	bool relayed;

	rr_relay_see(c, fd);
	relayed = rr_conn_relayed(c, fd);
	if (reads && relayed)
		rr_relay_ask(c, fd);
	return relayed || rr_conn_is_tcp(c);
}

/* As rr_conn_hold(), for a call of the app's that brings no upgrade forward. RR_CONN_KERNEL,
 * without the lock: a relay uses the connection. */
static inline int rr_conn_hold_apps(struct rr_conn *c, int fd, struct rr_lock **l)
{
	int st = rr_conn_relayed(c, fd) ? RR_CONN_KERNEL : rr_conn_hold(c, l);

	if (st >= 0 && rr_conn_relayed(c, fd)) {	/* since a moment ago */
		rr_lock_drop(*l);
		st = RR_CONN_KERNEL;
	}
	return st;
}

/* relaying.c. In the parent, before a fork. True: a relay serves this connection. */
bool rr_relay_forks(struct rr_conn *c);

#endif
