/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_CALLS_H
#define RR_CONN_CALLS_H

/* The calls of a connection that have no reply yet, as its statistics see them. */

#include <stdatomic.h>

#include "core/base/types.h"

/* A call without a reply yet, for the statistics of its procedure. */
struct rr_call_open {
	uint64_t stamp;		/* when it was sent, or taken in; rr_ticks_stamp() */
	uint32_t xid, program, version, procedure;
	uint32_t len;		/* bytes of the message, for as long as tally is 0 */
	uint16_t tally;		/* where the procedure is counted (calls.c); 0: nowhere yet */
	uint8_t next;		/* next entry of the same hash: 1 + index; 0: none */
	uint8_t unconfirmed;	/* where it is counted until then (unconfirmed.h); 0: nowhere */
};
#define RR_CALLS	192u	/* for each direction: more than usual credits allow */
#define RR_CALLS_HEAD	8u

#define RR_CALLS_SOLO	UINT32_MAX	/* one, in head[0], which live and chain ignore */

/* The open calls of one direction, by XID (calls.c). All zero: there are none. */
struct rr_calls {
	/* How many, or RR_CALLS_SOLO; whoever spins reads it without the lock. */
	_Atomic uint32_t open;
	/* Of them, those without a reply after a long sleep: nobody is at work on them. */
	_Atomic uint32_t stale;
	uint32_t replies;
	uint32_t victim;	/* which entry is replaced next if all are in use */
	uint64_t live[RR_CALLS / 64];
	uint8_t chain[64];
	struct rr_call_open head[RR_CALLS_HEAD];
};

static inline uint32_t rr_calls_open(const struct rr_calls *t)
{
	return atomic_load_explicit(&t->open, memory_order_relaxed);
}

static inline void rr_calls_set_open(struct rr_calls *t, uint32_t n)
{
	atomic_store_explicit(&t->open, n, memory_order_relaxed);
}

#endif
