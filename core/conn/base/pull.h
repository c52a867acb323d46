/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_PULL_H
#define RR_CONN_PULL_H

/* Messages of the peer's that lie in its memory; carried/pull.c fetches them. */

#include "core/engine/engine.h"

#define RR_PULLS	256u

/* A message that is still, at least in part, in the peer's memory. On a DIRECT provider it
 * stays there until the app reads, unless Read chunks have to be put into it; otherwise it is
 * fetched into our own memory, in order of arrival. */
struct rr_pull {
	bool used;
	bool local;		/* fetched into our own memory */
	bool composed;		/* made of Read chunks; see parts */
	uint32_t id;		/* the engine's */
	uint32_t len;		/* of the message, as far as known */
	uint32_t nsegs;
	struct rr_seg segs[RR_OP_MAX_SEGS];
	/* local */
	uint32_t turn;
	uint32_t buf;		/* destination; RR_BUF_NONE: none yet */
	uint32_t room;		/* bytes that it needs in buf */
	uint32_t fetch;		/* bytes in segs */
	uint32_t most;		/* bytes of one RDMA Read */
	uint32_t asked;		/* bytes for which Reads were posted */
	uint32_t reads;		/* Reads that were posted … */
	uint32_t pending;	/* … and have not completed yet */
	uint32_t in_turn;	/* … or have, in the order of their posts; more: out of turn */
	uint32_t front;		/* so many bytes are here, from the first one on … */
	uint32_t head;		/* … and so many it takes for the engine to judge it */
	bool judged;		/* by its front */
	bool delivered;		/* … and the app reads that */
	bool broken;		/* a Read has failed: nothing more of it counts */
	/* composed */
	/* The payload stream lies in a receive; NULL: at the front of buf. */
	const uint8_t *recv;
	uint32_t stream;	/* its length; 0 once it is in its place */
	uint32_t nparts;
	struct rr_range parts[RR_OP_MAX_PARTS]; /* where in the message segs belong */
};

#endif
