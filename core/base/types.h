/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TYPES_H
#define RR_TYPES_H

/* Words that every layer shares. */

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

/* Nanoseconds of CLOCK_MONOTONIC. Pure layers are given the time and never read the clock. */
typedef uint64_t rr_time;
#define RR_TIME_NEVER	UINT64_MAX
#define RR_USEC		UINT64_C(1000)
#define RR_MSEC		UINT64_C(1000000)
#define RR_SEC		UINT64_C(1000000000)

/* An RDMA segment (RFC 8166 §3.4.3): a piece of one peer's exposed memory. */
/* req: rfc8166 2.3.2 #1 */
struct rr_seg {
	uint32_t handle;	/* R_key, STag */
	uint32_t length;	/* bytes */
	uint64_t offset;
};

/* What an exposed region allows the peer to do. */
enum rr_rights {
	RR_RIGHT_READ	= 1,	/* RDMA Read by the peer */
	RR_RIGHT_WRITE	= 2,	/* RDMA Write by the peer */
};

/* The document whose rules a connection follows; fixed at its start. A number on the wire only
 * has a meaning together with (version, dialect). */
enum rr_dialect {
	RR_DIALECT_V1,		/* RFC 8166, 8167, 8797 */
	RR_DIALECT_V2,		/* version-two-08 */
	RR_DIALECT_DRAFT02,	/* draft-ietf-nfsv4-rpcrdma-01/-02 */
	RR_DIALECT_SLIDES,	/* RDMA_BCALL, RDMA_BRPLY */
};

/* When the requester offers a Reply chunk for a reply that may be too long for a Send. */
enum rr_reply_chunks {
	RR_REPLY_CHUNKS_AUTO,	/* never if reliable replies are agreed, else always */
	RR_REPLY_CHUNKS_NEVER,
	RR_REPLY_CHUNKS_BOUNDED, /* if an upper-layer binding knows the reply's largest size */
};

/* What waiting may cost. */
enum rr_profile {
	RR_PROFILE_BALANCED,	/* spin no longer than the sleep that it saves */
	RR_PROFILE_LATENCY,	/* CPU time is free */
	RR_PROFILE_THRIFT,	/* nobody spins */
};

/* Which connections may be upgraded: what a rule of the configuration says. */
enum rr_mode {
	RR_MODE_AUTO,		/* if the peer can, else TCP */
	RR_MODE_TCP,		/* never */
	RR_MODE_REQUIRE,	/* always: staying on TCP is an error */
};

/* What two peers may agree on beyond the base protocol. */
enum rr_cap {
	/* a Position-Zero Read chunk by the responder, and RDMA_DONE */
	RR_CAP_RELIABLE_REPLY	= 1 << 0,
	/* a credit is back once its receive is reposted, as the ring shows (shm) */
	RR_CAP_RING_CREDITS	= 1 << 1,
	RR_CAP_HATCH		= 1 << 2, /* either direction may go back to TCP */
	RR_CAP_REVERSE_CHUNKS	= 1 << 3, /* reverse calls may have chunks */
	/* offer and answer ride along, and calls go on meanwhile */
	RR_CAP_CROSSING		= 1 << 4,
	/* the offer comes first and is answered at once; after that, or if the answer is late,
	 * calls go on as with CROSSING */
	RR_CAP_MEANWHILE	= 1 << 5,
	/* pieces of a long message may be read before it is complete (shm) */
	RR_CAP_ADVANCES		= 1 << 6,
};

#endif
