/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_STATE_H
#define RR_ENGINE_STATE_H

/* The engine: what a dialect is to it, and its state. */

#include <errno.h>
#include <string.h>

#include "core/engine/credits.h"
#include "core/engine/entries.h"
#include "core/engine/reply_size.h"

/* Before the app's first message. */
enum rr_open_state {
	RR_OPEN_OVER,
	RR_OPEN_ASKED,		/* our first word is due, or its answer */
	RR_OPEN_AWAITED,	/* the peer's first message is */
};

/* The XID of what we say ourselves, while no call of the app's is out. */
#define RR_OPEN_XID	0x52444d04u

struct rr_opening {
	/* How a connection begins. */
	enum rr_open_state (*begin)(const struct rr_eng *e);
	/* The word that in is due for, as a Send (rr_tx_encode()): the first one of who has
	 * connected, or the answer to in, which has come with its dir. */
	void (*say)(struct rr_eng *e, const struct rr_in *in, struct rr_op *op);
	/* A message has come, e->rx as rc says, its first have bytes at e->rxbuf. True: it was
	 * part of this, and in is taken care of. Asked of all messages until the opening is
	 * over, and of RDMA2_CONNPROP always. */
	bool (*hear)(struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc, uint32_t have);
};

/* What dialects do in other ways than version 1 (traits.c): nothing else asks which one it
 * is. */
struct rr_traits {
	uint32_t lists;		/* where in a header the chunk lists begin, of three words if
				 * empty */
	uint32_t errors;	/* 1 << enum rr_errcode: those that there are; ERR_CHUNK stands
				 * for others */
	bool reliable;		/* reliable replies are a matter of agreement */
	bool general;		/* so are chunks in reverse calls */
	bool reverse_types;	/* what goes against the connection's direction says so by its
				 * header type, and is inline */
	bool directed;		/* every header says its direction */
	bool full_errors;	/* the codec says how what it refuses is to be answered
				 * (msg.h) */
	const struct rr_traits *falls_back; /* to this, if the peer does not speak it; NULL
					     * not */
	bool read_replies;	/* a reply may be in Read chunks, without agreement; RDMA_DONE
				 * ends that, and costs a credit */
	bool unbound_reads;	/* Read chunks stand anywhere in what no binding knows … */
	bool exact_reads;	/* … and elsewhere without XDR padding */
	bool padding;		/* RDMA_MSGP */
	bool zero_grants;	/* a grant of zero means: not before another reply */
	bool plain;		/* the header of a message without chunks is
				 * rr_v1_put_plain()'s */
	const struct rr_opening *opening; /* NULL: there is none */
};

/* The tables behind an engine, which rr_eng_size() reckons without one: on a small stack it has
 * no room. */
#define RR_ENG_TABLES \
	struct rr_table calls, serves, shown, ins, txs; \
	struct rr_xmap call_map, serve_map; \
	struct rr_qop *ops; \
	uint32_t ops_cap; \
	uint32_t in_segs	/* Read segments that a call may have */
struct rr_eng_tables { RR_ENG_TABLES; };

struct rr_eng {
	union {
		struct { RR_ENG_TABLES; };
		struct rr_eng_tables tables;
	};
	struct rr_eng_params p;
	const struct rr_codec *codec;
	const struct rr_traits *traits;
	struct rr_counters *count;
	rr_time now;
	uint32_t hdr_min;	/* header without chunks */
	uint32_t hdr_read, hdr_write, hdr_reply; /* what the largest chunks of a call add to
						  * that */
	uint32_t hdr_returned;	/* longest of a reply, by the chunks that calls have offered */
	bool ring, reliable;
	bool paced;		/* Sends go within the window; always, with ring credits */
	bool hatched;		/* replies come another way */
	bool plans;		/* calls offer memory for their replies */
	bool pulls;		/* replies may be Read chunks, by agreement or dialect */
	bool reads_barred;	/* the peer does no RDMA Reads at all */
	uint32_t reads_max;	/* messages that are read at a time, at most; 0 any */
	uint32_t reading;	/* messages that are, if that matters … */
	uint32_t waiting;	/* … and that wait for one of them to end */
	bool reverse_chunks;	/* chunks in reverse calls */
	bool reverse_reads;	/* Read chunks in replies to reverse calls */
	bool mute;		/* the peer takes no calls of ours */
	bool simple;		/* plain messages may go the short way (plain.c) */
	bool props_known;	/* its properties are … */
	bool infer;		/* … but not what it takes in the reverse direction: its calls
				 * tell */
	bool fell_back;
	uint8_t opening;	/* enum rr_open_state … */
	rr_time open_until;	/* … and when it has taken too long */
	uint32_t pad_align;	/* of our calls' items; 0 they are not padded */
	uint32_t chunk_most;	/* bytes that a call may offer for its reply; 0 it never does */
	uint32_t session;	/* longest reply that a session of ours allows; 0 there is
				 * none */
	bool stalled;		/* the app's last message was not taken … */
	bool stalled_call;	/* … and was a call */
	bool short_of_memory;	/* an exposure failed: wait until retry_at */
	bool told;		/* RR_OP_FAIL is out */
	enum rr_eng_why failed;
	rr_time retry_at;

	/* requester */
	struct rr_credits cr;
	rr_time starved;	/* a call has waited for a credit since, and no reply has come;
				 * 0 */
	struct rr_list bare;

	/* responder */
	struct rr_list served;	/* what the map has, the oldest first */
	uint32_t serving;
	uint32_t reducing;	/* of them those whose reply may have to be reduced */
	uint32_t grant_min, grant_max, requested;
	struct rr_list shown_sent;
	uint32_t exposed;
	bool pressure;		/* max_exposed was reached: DONE is wanted sooner */
	uint32_t refused;	/* bytes of the app's next reply, for which there was no room; 0
				 * none */

	/* in */
	struct rr_list arrived;
	struct rr_list control;	/* DONE and ERROR that are due */

	/* out */
	struct rr_list unsent;
	uint32_t nunsent;
	uint32_t window;	/* paced: Sends that the provider, and with ring credits the
				 * peer, can take */
	uint32_t window_max;	/* most it ever could */
	uint32_t reserve;	/* of them for control messages alone */

	uint32_t ops_head, ops_tail;

	/* scratch: from here on nothing outlives a call, and the tables follow;
	 * rr_eng_quiet() */
	struct rr_msg rx, tx;
	struct rr_seg wsegs[RR_OP_MAX_SEGS];
	struct rr_range parts[RR_OP_MAX_PARTS];
	uint8_t hdr[RR_ENG_RX_MAX];
	uint8_t rxbuf[RR_ENG_RX_MAX];
};

#endif
