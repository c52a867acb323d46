/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_CALLS_H
#define RR_CONN_CALLS_H

/* The calls of a connection that have no reply yet, as its statistics know them. */

#include "core/base/types.h"

/* A call without reply, for the statistics of its procedure. */
struct rr_call_open {
	uint64_t stamp;		/* when it was sent, or taken in; rr_ticks_stamp() */
	uint32_t xid, program, version, procedure;
	uint32_t len;		/* bytes of the message */
	uint16_t tally;		/* where it is counted (calls.c); 0: it is not yet */
	uint8_t next;		/* of those of one hash: 1 + index; 0 none */
};
#define RR_CALLS	192u	/* of each direction: above credits that are usual */
#define RR_CALLS_HEAD	8u

/* Those of one direction, by XID (calls.c). Zeroes: there are none. */
struct rr_calls {
	uint32_t open;
	bool solo;		/* one, in head[0], of which live and chain say nothing */
	uint32_t replies;
	uint32_t victim;	/* whose turn it is, where all are in use */
	uint64_t live[RR_CALLS / 64];
	uint8_t chain[64];
	struct rr_call_open head[RR_CALLS_HEAD];
};

#endif
