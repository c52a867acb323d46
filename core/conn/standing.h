/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_STANDING_H
#define RR_CONN_STANDING_H

/* A wait that lasts from one poll() to the next. A thread that waits for thousands of
 * connections, again and again, does not say at each of them each time that it sleeps:
 * connections at rest become members of the standing wait once, and from then on the thread
 * says once for all members that it sleeps. Of those that no longer rest it learns by a count.
 *
 * The process has one. The functions of the waiting side are for one thread at a time; all are
 * lock-free and make no system call. */

#include <stdbool.h>
#include <stdint.h>

struct rr_conn;

/* --- the waiting side --- */

/* The thread is about to sleep, or to look: from now on it counts as asleep on each member.
 * Returns the count of members that have ceased to rest; if it is what it was at the last
 * rr_standing_begin(), all members rest. */
uint32_t rr_standing_begin(void);
/* The thread is awake. Members stay members. */
void rr_standing_end(void);

/* c becomes the member `at` (below UINT32_MAX); for rr_conn_stands() alone, which then looks
 * whether it rests. False: it is a member already. */
bool rr_standing_join(struct rr_conn *c, uint32_t at);
/* The number by which c is a member, or UINT32_MAX. */
uint32_t rr_standing_at(const struct rr_conn *c);
/* c is a member no longer. */
void rr_standing_part(struct rr_conn *c);
/* Nobody is a member any longer. */
void rr_standing_dissolve(void);

/* --- the other side --- */

/* c has just ceased to rest. */
void rr_standing_ceased(const struct rr_conn *c);
/* Does the waiting thread count as asleep on c? Asked after c has ceased to rest. */
bool rr_standing_sleeps(const struct rr_conn *c);
/* In a forked child, which has one thread. */
void rr_standing_forked(void);

#endif
