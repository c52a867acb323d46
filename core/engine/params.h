/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENG_PARAMS_H
#define RR_ENG_PARAMS_H

/* What an engine is made with, and what follows from that before there is one. What the user
 * can choose of it is nested in struct rr_conn_params; the rest is agreed on with the peer and
 * the provider. */

#include "core/base/types.h"

struct rr_counters;
struct rr_sizes;	/* learned reply sizes; reply_size.h */

struct rr_eng_params {
	enum rr_dialect dialect;
	uint32_t caps;		/* enum rr_cap, as agreed */
	bool connector;		/* we called connect(): our calls are the forward direction */
	uint32_t inline_send;	/* the peer's receive size */
	uint32_t inline_recv;	/* our receive size */
	/* longest Send of the peer, unless the dialect can tell the peer how long that may be
	 * (RFC 8797 §4); 0: inline_recv */
	uint32_t inline_peer;
	/* v2: the longest Send we can make, should the peer say that it receives more; 0:
	 * inline_send */
	uint32_t inline_send_max;
	bool no_fallback;	/* v2: end the connection rather than fall back to version 1 */
	/* v2: do not agree on RDMA2_DONE, which is a private extension, nor on reliable
	 * replies, which need it */
	bool no_done;
	/* forward credits: requested by the requester; as responder the most that is granted
	 * (receives are posted for them) */
	uint32_t credits;
	uint32_t bc_credits;	/* the same for the reverse direction */
	uint32_t max_msg;	/* longest RPC message either way, bytes */
	/* default size of a Reply chunk without reliable replies; 0: never offer one */
	uint32_t reply_chunk;
	uint32_t reply_chunk_max;
	enum rr_reply_chunks reply_chunks;
	/* accept Read chunks at any position, whatever the binding says (RFC 8166 §6.1 wants
	 * ERR_CHUNK) */
	bool lenient_read_chunks;
	uint32_t max_chunks;	/* refuse messages with more chunks than this … */
	uint32_t max_segs;	/* … or with more segments in a chunk */
	uint32_t max_exposed;	/* bytes of reliable replies exposed at once; beyond: -EAGAIN */
	rr_time done_timeout;	/* reliable replies that nobody pulls are fenced after this … */
	rr_time done_timeout_pressure; /* … or after this when max_exposed is reached … */
	/* … or never: a peer with the library pulls when its app reads */
	bool patient;
	uint32_t recvs;		/* receives that the driver keeps posted; 0: rr_eng_recvs() */
	uint32_t pulls;		/* messages that the driver can pull at a time; 0: any number */
	/* draft02: opaque items of our calls with at least so many bytes are sent with padding
	 * (RDMA_MSGP), if their binding knows all of them; 0: never. */
	uint32_t pad_thresh;
	/* alignment for that, unless the server gives one (CCP); at most RR_PAD_MAX + 1. As
	 * server: what our receives are aligned to. 0: none */
	uint32_t pad_align;
	/* draft02: program of the Connection Configuration Protocol. As client it is asked
	 * before anything else, as server it is answered; 0: neither. inline_send_max counts,
	 * as with v2. */
	uint32_t ccp_prog;
	/* … RDMA Reads of the peer that we can serve at a time; 0: tells the peer that there
	 * are none */
	uint32_t rdma_reads;
	/* both sides have said that a Send may invalidate (RFC 8797 §4.1) */
	bool invalidate;
	/* v2: each exposure has keys of its own, which the peer may invalidate */
	bool invited;
	struct rr_sizes *sizes;	/* shared by the connections of a process; may be NULL */
	struct rr_counters *count;
};

/* The least number of receives for these parameters: for replies to our calls, the peer's
 * calls, its RDMA_DONEs and errors. The engine ends the connection (RR_WHY_OVERRUN) if far more
 * messages arrive than receives can be posted. With ring credits fewer will do, but not fewer
 * than two. */
uint32_t rr_eng_recvs(const struct rr_eng_params *p);

/* Reduces the credits if rr_eng_recvs(p) is more than recvs. */
void rr_eng_fit(struct rr_eng_params *p, uint32_t recvs);

/* Those of caps that can be used with a peer with which nothing was agreed, because the dialect
 * has its own way to agree or because one side's word is enough. */
uint32_t rr_eng_native_caps(enum rr_dialect dialect, uint32_t caps);
/* The dialect to speak with a peer that does not speak this one; the same: there is none. */
enum rr_dialect rr_eng_falls_back(enum rr_dialect dialect);
/* May a delivery come later than its receive, even if all pulls complete within their call? */
bool rr_eng_delays(enum rr_dialect dialect);

#endif
