/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_NATIVE_H
#define RR_CONN_NATIVE_H

/* Peers without the library, by RDMA CM.
 *
 *   native.c     listeners and connections        dial.c       dialling a native peer
 *   guests.c     peers that have said nothing yet */

#include "core/conn/upgrade/upgrade.h"

/* native.c; under the lock. */
void rr_native_forks(struct rr_conn *l);	/* before a fork, in the parent */
void rr_native_forked(struct rr_conn *l);	/* in a child that has inherited the listener */
int rr_native_poll(struct rr_conn *l, int fd, unsigned want);
int rr_native_fds(struct rr_conn *l, int fd, unsigned want, struct pollfd out[2],
		  rr_time *until);
void rr_native_look(struct rr_conn *l, int fd);
void rr_native_close(struct rr_conn *l);
void rr_native_step(struct rr_conn *c);
void rr_native_carry(struct rr_conn *c);

/* guests.c. c has been accepted, its state is RR_S_TAKEN … */
void rr_guests_enters(const struct rr_conn *c);
void rr_guests_comes(const struct rr_conn *c);	/* … and becomes carried */
/* Calls fn for each connection in state RR_S_TAKEN of this process, under its lock.
 * Returns how many are still in that state. */
uint32_t rr_guests_each(void (*fn)(struct rr_conn *));
/* Is there room for one more guest, if `unmet` others have connected and not become carried?
 * Returns 0 if so (perhaps because a silent guest was ended), else when to ask again. Under a
 * listener's lock. */
rr_time rr_guests_full(uint32_t unmet, rr_time now);
/* dial.c */
void rr_dial_step(struct rr_conn *c, int fd);
/* Why connect() failed: a -errno; or RR_RIDE_OVER: that was reported before, and the call is
 * made again. */
int rr_dial_again(struct rr_conn *c, int fd);

#endif
