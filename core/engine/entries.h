/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_ENTRIES_H
#define RR_ENGINE_ENTRIES_H

/* The entries of the engine's tables. Every table is bounded and lies in the memory that
 * rr_eng_init() was given:
 *
 *   calls    our calls without reply             requester.c
 *   serves   the peer's calls without reply      responder.c
 *   shown    our replies that the peer may pull  reliable_reply.c
 *   ins      messages taken in, not finished     inbound.c
 *   txs      messages taken from the app, not sent and completed   outbound.c
 *
 * How dialects differ beyond their headers is in traits.c, and what the two ends say to each
 * other before anything else in opening.c. Which parts of a message upper-layer bindings allow
 * to travel apart from it (RFC 8166 §6) is the matter of reduce_call.c (Read chunks) and
 * reduce_reply.c (Write chunks).
 *
 * Messages go out in the order in which the app wrote them, and are delivered in the order in
 * which they came. rr_eng_next_op() empties both queues itself, so the ring of queued
 * operations only holds releases, pulls and invalidations. */

#include "core/engine/engine.h"
#include "core/engine/table.h"
#include "core/wire/codec.h"

#define RR_ENG_SEGS	8u	/* segments of one exposed buffer of ours */
#define RR_ENG_PADS	4u	/* padded items of a call of ours */
#define RR_ENG_RX_HEAD	128u	/* bytes looked at of a message without chunks */
#define RR_ENG_RX_MAX	6144u	/* the longest header plus RR_RPC_PEEK */
#define RR_ENG_RETRY	RR_MSEC	/* wait after an exposure found no memory */
/* A peer that has not answered by then does not speak the dialect. */
#define RR_ENG_OPENING	(10 * RR_SEC)
#define RR_ENG_STARVED	(120 * RR_SEC)	/* longer than RPC programs wait for a reply */

/* The parts of an operation's id: its purpose, the entry, and the entry's generation. */
enum rr_op_kind {
	RR_K_NONE,
	RR_K_SEND,		/* tx */
	RR_K_WRITE,		/* tx */
	RR_K_EXPOSE,		/* tx */
	RR_K_PULL,		/* in */
	RR_K_INV_ARGS,		/* call: its Position-Zero Read chunk */
	RR_K_INV_REPLY,		/* call: its Reply chunk */
	RR_K_INV_SHOWN,		/* shown */
	RR_K_INV_WRITE,		/* call: its Write chunk */
};

static inline uint32_t rr_id(enum rr_op_kind kind, const struct rr_node *n)
{
	return (uint32_t)kind << 28 | (uint32_t)n->idx << 16 | n->gen;
}

/* Memory of ours that the peer can access. */
enum rr_mem_state {
	RR_MEM_NONE,
	RR_MEM_LIVE,
	RR_MEM_FENCING,		/* RR_OP_INVALIDATE is out */
	RR_MEM_FENCED,		/* no access by the peer succeeds any more */
};

struct rr_mem {
	enum rr_mem_state state;
	uint32_t buf, len;	/* len, while RR_MEM_NONE: bytes to be exposed; 0: none */
	uint32_t nsegs;
	/* of several keys, the one that the peer has invalidated; 0: none */
	uint32_t gone;
	struct rr_seg segs[RR_ENG_SEGS];
};

struct rr_call {
	struct rr_node n;
	bool sent;
	uint32_t dones;		/* RDMA_DONEs that were sent before it was */
	bool bare;		/* on the list of calls that may be forgotten */
	bool bounded;		/* the largest size of its reply was known */
	bool idempotent;	/* it may be executed twice without harm */
	bool kept;		/* its tx and the buffer stay until the call is over */
	bool again;		/* it is sent again, as next says, once its memory is fenced */
	uint8_t tries;
	rr_time since;		/* when it was sent */
	uint16_t in;		/* the reply that waits for our memory to be fenced */
	uint32_t prog, vers, proc;
	struct rr_mem args;	/* Position-Zero Read chunk, or a Read chunk … */
	uint32_t position;	/* … at this one */
	uint16_t tx, tx_gen;	/* the tx whose Send gathers from args' buffer; 0: none */
	struct rr_mem reply;	/* Reply chunk */
	struct rr_mem write;	/* Write chunk … */
	/* … with so much room before and after it for the rest of the reply */
	uint32_t around;
	uint32_t max_segs;	/* of each of its chunks; 0 any number */
	struct {
		uint32_t reply, write;
		bool whole;	/* all of the message goes in a Position-Zero Read chunk */
	} next;
	struct rr_ulb_rec rec;
};

/* How a call travels, and which memory it offers for its reply (plan.c). */
struct rr_plan {
	struct rr_ulb_rec rec;
	bool fits;		/* fits inline, apart from item */
	bool bounded;
	bool idempotent;
	struct rr_range item;	/* goes into a Read chunk; no bytes: nothing does */
	uint32_t write;		/* bytes of the Write chunk … */
	uint32_t around;	/* … and at most so many of the rest of such a reply */
	uint32_t reply;		/* bytes of the Reply chunk */
	/* it asks for a session with replies of at most so many bytes */
	uint32_t session;
};

/* A part of a reply that goes into a Write chunk. */
struct rr_placed {
	uint32_t pos, len;	/* in the message, as the app wrote it; without padding */
	uint16_t chunk;		/* index into the Write list */
};

/* A call of the peer: the chunks that its reply must repeat or use. */
struct rr_serve {
	struct rr_node n;
	/* what its binding says about the reply, if it has Write chunks */
	struct rr_ulb_rec rec;
	/* the first Write chunk that is too small for its item, counted from 1; 0: none … */
	uint16_t short_chunk;
	uint32_t short_len;	/* … and how many bytes it should have */
	uint32_t stream;	/* bytes of the reply that are not placed … */
	uint16_t nplaced;	/* … and the placed ones, by ascending position */
	struct rr_placed placed[RR_ULB_ITEMS];
	uint16_t nwrites;
	uint16_t nsegs;
	bool has_reply;
	/* the handles that its reply may invalidate: of a result, or of what is read … */
	uint32_t result, read;
	uint16_t in, in_gen;	/* … by this message */
	struct rr_wchunk reply;
	struct rr_wchunk writes[RR_MAX_WRITE_CHUNKS];
	struct rr_seg segs[];
};

struct rr_shown {
	struct rr_node n;
	rr_time since;		/* when it was sent */
	struct rr_mem mem;
};

enum rr_in_state {
	RR_IN_PULL,		/* waits for the head */
	RR_IN_COMPOSE,		/* data of Read chunks is being read */
	RR_IN_FENCE,		/* memory of its call is being fenced */
	RR_IN_READY,		/* to be delivered */
	RR_IN_PULLING,		/* delivered; the driver still reads the peer's memory */
	RR_IN_DONE,		/* RDMA_DONE is due */
	RR_IN_ERROR,		/* RDMA_ERROR is due */
	RR_IN_OPENING,		/* a word of the opening is due */
};

struct rr_in {
	struct rr_node n;
	enum rr_in_state state;
	enum rr_from from;
	bool held;		/* the driver does not have the receive back yet */
	bool pulled;		/* the peer's memory is not read any more */
	/* it was judged by its front: the driver has yet to fetch the rest */
	bool fetching;
	uint8_t refused;	/* enum rr_dir: refused as such, once all of it is here */
	bool done_due;
	bool composing;		/* RR_OP_COMPOSE is out, or due */
	bool reading;		/* counts in struct rr_eng.reading */
	uint8_t waits;		/* enum rr_opcode that waits for a turn to read; 0: none */
	bool credit_kept;	/* a credit is kept for its RDMA_DONE */
	/* its delivery returns a credit: until then its receive is taken */
	bool credit_due;
	bool placing;		/* parts[0] is in buf, and the message begins at offset room */
	uint8_t dir;		/* enum rr_dir, as its header says */
	uint16_t serve;		/* chunks that came with it, while its direction is not known */
	uint32_t token;
	uint32_t buf, off, len;
	uint32_t credit, vers;
	/* the handle to invalidate once it has been pulled; 0: none … */
	uint32_t inv;
	rr_time since;		/* … and when it came */
	uint32_t err;		/* enum rr_errcode … */
	uint32_t arm[2];	/* … and what goes with it */
	struct rr_rpc rpc;
	uint32_t stream;	/* COMPOSE, PLACE: bytes of Payload stream */
	/* most bytes of the message with its Read chunks put back; PLACE: see placing */
	uint32_t room;
	uint16_t nsegs;		/* of the Position-Zero Read chunk … */
	uint16_t nall;		/* … and in all, followed by those of the parts */
	uint16_t npads;		/* MSGP: so many of parts are padding in the receive */
	uint16_t nparts;	/* Read chunks at other positions, by ascending position */
	struct rr_range parts[RR_ULB_ITEMS];
	struct rr_seg segs[];
};

enum rr_tx_form {
	RR_TX_INLINE,		/* MSG */
	RR_TX_LONG_CALL,	/* NOMSG, Position-Zero Read chunk */
	RR_TX_READ_CHUNK,	/* MSG, Read chunk */
	RR_TX_REPLY_CHUNK,	/* RDMA Write, then NOMSG */
	RR_TX_PADDED,		/* MSGP */
	RR_TX_RELIABLE,		/* NOMSG, responder's Position-Zero Read chunk */
};

enum rr_tx_state {
	RR_TX_SETUP,		/* memory must be exposed first */
	RR_TX_WAIT,		/* and is being */
	RR_TX_READY,
	RR_TX_SENT,
};

struct rr_out {
	struct rr_node n;
	enum rr_tx_state state;
	enum rr_tx_form form;
	bool kept;		/* see struct rr_call */
	uint32_t type;		/* enum rr_rpc_type */
	uint32_t pending;	/* operations without a completion yet */
	uint32_t buf, len;
	/* READ_CHUNK: the part of the message that is not in the Send */
	struct rr_range item;
	uint16_t call, call_gen;
	uint16_t serve, shown;
	uint16_t written;	/* RDMA Writes that were handed out */
	uint16_t npads;
	/* PADDED: so many zeroes go before this byte of the message */
	struct rr_range pads[RR_ENG_PADS];
};

/* A queued operation. */
struct rr_qop {
	enum rr_opcode code;
	uint32_t id;
	uint32_t buf;		/* or token */
	uint32_t inv;
	uint16_t in;		/* PULL */
};

#endif
