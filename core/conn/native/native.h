/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_NATIVE_H
#define RR_CONN_NATIVE_H

/* Peers that have no library, by RDMA CM.
 *
 *   native.c     listeners and connections        dial.c       calling a native peer
 *   guests.c     those that say nothing */

#include "core/conn/upgrade/upgrade.h"

/* native.c; under the lock but for the first */
void rr_native_forks(struct rr_conn *l);	/* before a fork; any connection */
void rr_native_forked(struct rr_conn *l);	/* in a child that has inherited the listener */
int rr_native_poll(struct rr_conn *l, int fd, unsigned want);
int rr_native_fds(struct rr_conn *l, int fd, unsigned want, struct pollfd out[2],
		  rr_time *until);
void rr_native_look(struct rr_conn *l, int fd);
void rr_native_close(struct rr_conn *l);
void rr_native_step(struct rr_conn *c);
void rr_native_carry(struct rr_conn *c);

/* guests.c: fn sees those in state RR_S_TAKEN, under their locks. How many then still are. */
uint32_t rr_guests_each(void (*fn)(struct rr_conn *));
/* Is there no room for one more, with so many of which nothing has become yet? When to ask
 * again; 0 there is, perhaps since one that has never said anything was shown out. Under a
 * listener's lock. */
rr_time rr_guests_full(uint32_t unmet, rr_time now);
/* dial.c */
void rr_dial_step(struct rr_conn *c, int fd);
/* A refusal, for connect(): its -errno; or RR_RIDE_OVER, it was told, and is tried again. */
int rr_dial_again(struct rr_conn *c, int fd);

#endif
