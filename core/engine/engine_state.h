/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_STATE_H
#define RR_ENGINE_STATE_H

/* The engine's state, and what a dialect is to it. */

#include <errno.h>
#include <string.h>

#include "core/engine/credits.h"
#include "core/engine/entries.h"
#include "core/engine/reply_size.h"

/* The state before the app's first message. */
enum rr_open_state {
	RR_OPEN_OVER,
	RR_OPEN_ASKED,		/* our first word is due, or its answer */
	RR_OPEN_AWAITED,	/* the peer's first message is due */
};

/* The XID of what the engine says itself, while no call of the app is out. */
#define RR_OPEN_XID	0x52444d04u

struct rr_opening {
	/* How a connection begins. */
	enum rr_open_state (*begin)(const struct rr_eng *e);
	/* Encodes the word that `in` is due for, as a Send (rr_tx_encode()): the first word of
	 * the side that has connected, or the answer to `in`, which has that message's dir. */
	void (*say)(struct rr_eng *e, const struct rr_in *in, struct rr_op *op);
	/* A message has come: tmp->rx as rc says, its first `have` bytes at tmp->rxbuf. True:
	 * it was part of the opening, and `in` has been dealt with. Called for all messages
	 * until the opening is over, and for RDMA2_CONNPROP always. */
	bool (*hear)(struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc, uint32_t have);
};

/* How a dialect differs from version 1 (traits.c). No other code asks which dialect it is. */
struct rr_traits {
	/* where the chunk lists begin in a header; three words if they are empty */
	uint32_t lists;
	/* bits 1 << enum rr_errcode: errors that exist; others become ERR_CHUNK */
	uint32_t errors;
	bool reliable;		/* reliable replies are subject to agreement */
	bool general;		/* … and so are chunks in reverse calls */
	/* reverse messages have header types of their own, and are inline */
	bool reverse_types;
	bool directed;		/* every header says its direction */
	bool full_errors;	/* the codec says how to answer what it refuses (msg.h) */
	/* spoken instead if the peer does not speak this one; or NULL */
	const struct rr_traits *falls_back;
	/* a reply may be in Read chunks without agreement; RDMA_DONE ends that, and costs a
	 * credit */
	bool read_replies;
	bool unbound_reads;	/* Read chunks may be anywhere if no binding is known … */
	bool exact_reads;	/* … and have no XDR padding otherwise */
	bool padding;		/* RDMA_MSGP */
	bool zero_grants;	/* a grant of zero means: nothing before another reply */
	/* the header of a message without chunks is rr_v1_put_plain()'s */
	bool plain;
	bool prompt;		/* only lack of memory delays a delivery whose pulls are done */
	const struct rr_opening *opening; /* NULL: there is no opening */
};

/* Bytes of a header without chunks, and what a call's largest chunks add to that. */
struct rr_hdr_sizes { uint32_t min, read, write, reply; };

/* Nothing in here outlives a call into the engine. It lies behind the table that plain messages
 * use (plain.c), so that the table's first entries share a page with the engine's head. */
struct rr_scratch {
	struct rr_msg rx, tx;
	struct rr_seg wsegs[RR_OP_MAX_SEGS];
	struct rr_range parts[RR_OP_MAX_PARTS];
	uint8_t hdr[RR_ENG_RX_MAX];
	uint8_t rxbuf[RR_ENG_RX_MAX];
};

/* The tables behind an engine. rr_eng_size() computes their layout without an engine, for which
 * a small stack would have no room. */
#define RR_ENG_TABLES \
	struct rr_table calls, serves, shown, ins, txs; \
	struct rr_xmap call_map, serve_map; \
	struct rr_qop *ops; \
	struct rr_scratch *tmp; \
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
	struct rr_hdr_sizes hdr;
	/* longest header of a reply, given the chunks that calls have offered */
	uint32_t hdr_returned;
	bool ring, reliable;
	/* Sends are limited by the window; always so with ring credits */
	bool paced;
	bool hatched;		/* replies come by TCP now */
	bool plans;		/* calls offer memory for their replies */
	bool pulls;		/* replies may be in Read chunks, by agreement or dialect */
	bool reads_barred;	/* the peer serves no RDMA Reads at all */
	uint32_t reads_max;	/* messages read at a time at most; 0: any number */
	uint32_t reading;	/* messages that are being read, if that is limited … */
	uint32_t waiting;	/* … and that wait for their turn */
	bool reverse_chunks;	/* chunks in reverse calls */
	bool reverse_reads;	/* Read chunks in replies to reverse calls */
	bool mute;		/* the peer accepts no calls of ours */
	bool simple;		/* plain messages may go the short way (plain.c) */
	bool props_known;	/* the peer's properties are known … */
	/* … except what it accepts in the reverse direction: its calls show that */
	bool infer;
	bool fell_back;
	uint8_t opening;	/* enum rr_open_state … */
	rr_time open_until;	/* … and when it has taken too long */
	uint32_t pad_align;	/* alignment for our calls' items; 0: they are not padded */
	uint32_t chunk_most;	/* bytes that a call may offer for its reply; 0: none */
	uint32_t session;	/* longest reply that a session of ours allows; 0: no session */
	bool stalled;		/* the app's last message was not taken … */
	bool stalled_call;	/* … and was a call */
	bool short_of_memory;	/* an exposure has failed: wait until retry_at */
	bool told;		/* RR_OP_FAIL was handed out */
	enum rr_eng_why failed;
	rr_time retry_at;

	/* requester */
	struct rr_credits cr;
	/* since when a call has waited for a credit without any reply; 0: none */
	rr_time starved;
	struct rr_list bare;

	/* responder */
	struct rr_list served;	/* entries of the map, the oldest first */
	uint32_t serving;
	uint32_t reducing;	/* of them, those whose reply may have to be reduced */
	uint32_t grant_min, grant_max, requested;
	struct rr_list shown_sent;
	uint32_t exposed;
	bool pressure;		/* max_exposed was reached: DONE is wanted sooner */
	/* bytes of the app's next reply, which found no room; 0: none */
	uint32_t refused;

	/* in */
	struct rr_list arrived;
	struct rr_list control;	/* control messages that are due */

	/* out */
	struct rr_list unsent;
	uint32_t nunsent;
	/* paced: Sends that the provider (and with ring credits the peer) can take */
	uint32_t window;
	uint32_t window_max;	/* the largest it has been */
	uint32_t reserve;	/* how much of it is for control messages only */

	uint32_t ops_head, ops_tail;
};

#endif
