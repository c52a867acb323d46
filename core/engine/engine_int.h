/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_INT_H
#define RR_ENGINE_INT_H

/* What the files of the engine share. Every table is bounded and lies in the memory that
 * rr_eng_init() was given:
 *
 *   calls    our calls without reply             requester.c
 *   serves   the peer's calls without reply      responder.c
 *   shown    our replies that the peer may pull  reliable_reply.c
 *   ins      messages taken in, not finished     inbound.c
 *   txs      messages taken from the app, not sent and completed   outbound.c
 *
 * What the dialects differ in beyond their headers is in dialect.c, and what the two ends say to each
 * other before anything else in opening.c.
 *
 * What upper-layer bindings allow to travel apart from its message (RFC 8166 §6) is the matter of
 * reduce_call.c (Read chunks) and reduce_reply.c (Write chunks).
 *
 * Messages go out in the order in which the app wrote them and are delivered in the order
 * in which they came; both queues are emptied by rr_eng_next_op() itself, so that the ring
 * of queued operations holds only small change (releases, pulls, invalidations). */

#include <errno.h>
#include <string.h>

#include "core/engine/credits.h"
#include "core/engine/engine.h"
#include "core/engine/pool.h"
#include "core/engine/reply_size.h"
#include "core/wire/codec.h"

#define RR_ENG_SEGS	8u	/* segments of one exposed buffer of ours */
#define RR_ENG_PADS	4u	/* items of a call of ours that are padded */
#define RR_ENG_RX_HEAD	128u	/* of a message without chunks this much is looked at */
#define RR_ENG_RX_MAX	6144u	/* longest header plus RR_RPC_PEEK */
#define RR_ENG_RETRY	RR_MSEC	/* when an exposure found no memory */
#define RR_ENG_OPENING	(10 * RR_SEC)	/* who has not answered by then does not speak the dialect */
#define RR_ENG_STARVED	(120 * RR_SEC)	/* longer than RPC programs wait for a reply */

/* An operation's id: what it is for, the entry, that entry's life. */
enum rr_kind {
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

static inline uint32_t rr_id(enum rr_kind kind, const struct rr_node *n)
{
	return (uint32_t)kind << 28 | (uint32_t)n->idx << 16 | n->gen;
}

/* Memory of ours that the peer can reach. */
enum rr_mem_state {
	RR_MEM_NONE,
	RR_MEM_LIVE,
	RR_MEM_FENCING,		/* RR_OP_INVALIDATE is out */
	RR_MEM_FENCED,		/* no access by the peer succeeds any more */
};

struct rr_mem {
	enum rr_mem_state state;
	uint32_t buf, len;
	uint32_t nsegs;		/* len, of RR_MEM_NONE: bytes to be exposed; 0 none */
	uint32_t gone;		/* of several keys, the one that the peer invalidated; 0 none */
	struct rr_seg segs[RR_ENG_SEGS];
};

struct rr_call {
	struct rr_node n;
	bool sent;
	uint32_t dones;		/* RDMA_DONEs that were sent before it */
	bool bare;		/* on the list of those that may be forgotten */
	bool bounded;		/* how large its reply gets was known */
	bool idempotent;	/* it may be executed twice */
	bool kept;		/* what tx names stays, and its buffer, until the call is over */
	bool again;		/* it is sent again when its memory is fenced, as next says */
	uint8_t tries;
	rr_time since;		/* when it was sent */
	uint16_t in;		/* the reply that waits for our memory to be fenced */
	uint32_t prog, vers, proc;
	struct rr_mem args;	/* Position-Zero Read chunk, or a Read chunk … */
	uint32_t position;	/* … at this one */
	uint16_t tx, tx_gen;	/* whose Send gathers from the buffer of args; 0 none */
	struct rr_mem reply;	/* Reply chunk */
	struct rr_mem write;	/* Write chunk … */
	uint32_t around;	/* … with room for the rest of the reply before and behind it */
	uint32_t max_segs;	/* of each of its chunks; 0 any number */
	struct {
		uint32_t reply, write;
		bool whole;	/* all of it in a Position-Zero Read chunk */
	} next;
	struct rr_ulb_rec rec;
};

/* How a call travels, and what it offers for its reply (plan.c). */
struct rr_plan {
	struct rr_ulb_rec rec;
	bool fits;		/* inline, but for item */
	bool bounded;
	bool idempotent;
	struct rr_range item;	/* of it goes into a Read chunk; no bytes: none does */
	uint32_t write;		/* bytes of Write chunk … */
	uint32_t around;	/* … and of the rest of such a reply at most */
	uint32_t reply;		/* bytes of Reply chunk */
	uint32_t session;	/* it asks for a session whose replies have so many bytes */
};

/* Part of a reply that goes into a Write chunk. */
struct rr_placed {
	uint32_t pos, len;	/* in the message, as the app wrote it; without padding */
	uint16_t chunk;		/* index into the Write list */
};

/* A call of the peer's: the chunks that its reply must repeat or use. */
struct rr_serve {
	struct rr_node n;
	struct rr_ulb_rec rec;	/* what its binding says of the reply, if it has Write chunks */
	uint16_t short_chunk;	/* first Write chunk that is too small for its item, from one; 0 none … */
	uint32_t short_len;	/* … and the bytes that it should have */
	uint32_t stream;	/* bytes of the reply that are not placed … */
	uint16_t nplaced;	/* … and what is, by ascending position */
	struct rr_placed placed[RR_ULB_ITEMS];
	uint16_t nwrites;
	uint16_t nsegs;
	bool has_reply;
	uint32_t result, read;	/* handle that its reply may invalidate, of a result or of what is read … */
	uint16_t in, in_gen;	/* … and who reads the latter */
	struct rr_wchunk reply;
	struct rr_wchunk writes[RR_MAX_WRITE_CHUNKS];
	struct rr_seg segs[];
};

struct rr_shown {
	struct rr_node n;
	rr_time since;		/* when it was sent */
	bool sent;
	struct rr_mem mem;
};

enum rr_in_state {
	RR_IN_PULL,		/* the head is awaited */
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
	bool held;		/* the receive is not the driver's yet */
	bool pulled;		/* the peer's memory is not read any more */
	bool done_due;
	bool composing;		/* RR_OP_COMPOSE is out, or due */
	bool reading;		/* is one of struct rr_eng.reading */
	uint8_t waits;		/* enum rr_opcode that is due when there are fewer of them; 0 none */
	bool credit_kept;	/* for its RDMA_DONE */
	bool credit_due;	/* delivery returns a credit: till then its receive is taken */
	bool placing;		/* parts[0] is in buf, where the message begins at room */
	uint8_t dir;		/* enum rr_dir: what its header said */
	uint16_t serve;		/* chunks that came with it, until its direction is known */
	uint32_t token;
	uint32_t buf, off, len;
	uint32_t credit, vers;
	uint32_t inv;		/* handle that may be invalidated when it has been pulled; 0 none … */
	rr_time since;		/* … and when it came */
	uint32_t err;		/* enum rr_errcode … */
	uint32_t arm[2];	/* … and what goes with it */
	struct rr_rpc rpc;
	uint32_t stream;	/* COMPOSE, PLACE: bytes of Payload stream */
	uint32_t room;		/* bytes of the message at most, with the Read chunks put back; PLACE: see placing */
	uint16_t nsegs;		/* of the Position-Zero Read chunk … */
	uint16_t nall;		/* … and behind them those of the parts */
	uint16_t npads;		/* MSGP: parts are padding in the receive */
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

struct rr_tx {
	struct rr_node n;
	enum rr_tx_state state;
	enum rr_tx_form form;
	bool kept;		/* see struct rr_call */
	uint32_t type;		/* enum rr_rpc_type */
	uint32_t pending;	/* operations without completion */
	uint32_t buf, len;
	struct rr_range item;	/* READ_CHUNK: what of the message is not in the Send */
	uint16_t call, call_gen;
	uint16_t serve, shown;
	uint16_t written;	/* RDMA Writes that are out */
	uint16_t npads;
	struct rr_range pads[RR_ENG_PADS]; /* PADDED: so many zeroes before this byte of the message */
};

/* A queued operation. */
struct rr_qop {
	enum rr_opcode code;
	uint32_t id;
	uint32_t buf;		/* or token */
	uint32_t inv;
	uint16_t in;		/* PULL */
};

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
	/* The word that in is due for, as a Send (rr_tx_encode()): the first one of who has connected, or
	 * the answer to in, which has come with its dir. */
	void (*say)(struct rr_eng *e, const struct rr_in *in, struct rr_op *op);
	/* A message has come, e->rx as rc says, its first have bytes at e->rxbuf. True: it was part of this, and in is taken care of. Asked of
	 * all messages until the opening is over, and of RDMA2_CONNPROP always. */
	bool (*hear)(struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc, uint32_t have);
};

/* What dialects do in other ways than version 1 (dialect.c): nothing else asks which one it is. */
struct rr_traits {
	uint32_t lists;		/* where in a header the chunk lists begin, of three words if empty */
	uint32_t errors;	/* 1 << enum rr_errcode: those that there are; ERR_CHUNK stands for others */
	bool reliable;		/* reliable replies are a matter of agreement */
	bool general;		/* so are chunks in reverse calls */
	bool reverse_types;	/* what goes against the connection's direction says so by its header
				 * type, and is inline */
	bool directed;		/* every header says its direction */
	bool full_errors;	/* the codec says how what it refuses is to be answered (msg.h) */
	bool falls_back;	/* to version 1, if the peer does not speak it */
	bool read_replies;	/* a reply may be in Read chunks, without agreement; RDMA_DONE ends that,
				 * and costs a credit */
	bool unbound_reads;	/* Read chunks stand anywhere in what no binding knows … */
	bool exact_reads;	/* … and elsewhere without XDR padding */
	bool padding;		/* RDMA_MSGP */
	bool zero_grants;	/* a grant of zero means: not before another reply */
	bool plain;		/* the header of a message without chunks is rr_v1_put_plain()'s */
	const struct rr_opening *opening; /* NULL: there is none */
};

/* The tables behind an engine, which rr_eng_size() reckons without one: on a small stack it has no room. */
#define RR_ENG_TABLES \
	struct rr_pool calls, serves, shown, ins, txs; \
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
	uint32_t hdr_read, hdr_write, hdr_reply; /* what the largest chunks of a call add to that */
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
	bool infer;		/* … but not what it takes in the reverse direction: its calls tell */
	bool fell_back;
	uint8_t opening;	/* enum rr_open_state … */
	rr_time open_until;	/* … and when it has taken too long */
	uint32_t pad_align;	/* of our calls' items; 0 they are not padded */
	uint32_t chunk_most;	/* bytes that a call may offer for its reply; 0 it never does */
	uint32_t session;	/* longest reply that a session of ours allows; 0 there is none */
	bool stalled;		/* the app's last message was not taken … */
	bool stalled_call;	/* … and was a call */
	bool short_of_memory;	/* an exposure failed: wait until retry_at */
	bool told;		/* RR_OP_FAIL is out */
	enum rr_eng_why failed;
	rr_time retry_at;

	/* requester */
	struct rr_credits cr;
	rr_time starved;	/* a call has waited for a credit since, and no reply has come; 0 */
	struct rr_list bare;

	/* responder */
	struct rr_list served;	/* what the map has, the oldest first */
	uint32_t serving;
	uint32_t reducing;	/* of them those whose reply may have to be reduced */
	uint32_t grant_min, grant_max, requested;
	struct rr_list shown_sent;
	uint32_t exposed;
	bool pressure;		/* max_exposed was reached: DONE is wanted sooner */
	uint32_t refused;	/* bytes of the app's next reply, for which there was no room; 0 none */

	/* in */
	struct rr_list arrived;
	struct rr_list control;	/* DONE and ERROR that are due */

	/* out */
	struct rr_list unsent;
	uint32_t nunsent;
	uint32_t window;	/* paced: Sends that the provider, and with ring credits the peer, can take */
	uint32_t window_max;	/* most it ever could */
	uint32_t reserve;	/* of them for control messages alone */

	uint32_t ops_head, ops_tail;

	/* scratch: from here on nothing outlives a call, and the tables follow; rr_eng_quiet() */
	struct rr_msg rx, tx;
	struct rr_seg wsegs[RR_OP_MAX_SEGS];
	struct rr_range parts[RR_OP_MAX_PARTS];
	uint8_t hdr[RR_ENG_RX_MAX];
	uint8_t rxbuf[RR_ENG_RX_MAX];
};

/* --- dialect.c --- */
const struct rr_traits *rr_traits_of(const struct rr_codec *codec);
/* Does the transport header say of its direction what the RPC message says (enum rr_rpc_type)? Where
 * dialects leave that to the message alone it always does. */
bool rr_dialect_agrees(const struct rr_eng *e, const struct rr_msg *m, uint32_t type);
/* The header of a message of ours, call or reply: its direction. */
void rr_dialect_mark(const struct rr_eng *e, struct rr_msg *m, bool call);

/* --- engine.c --- */
void rr_eng_push(struct rr_eng *e, enum rr_opcode code, uint32_t id, uint32_t buf, uint32_t inv,
		 uint16_t in);
void rr_eng_fail(struct rr_eng *e, enum rr_eng_why why);

/* As it is most often when it is asked: once behind each message, in each direction. */
static inline bool rr_eng_nothing_to_do(const struct rr_eng *e)
{
	return e->ops_head == e->ops_tail &&
	       !(e->arrived.head | e->control.head | e->unsent.head | e->failed);
}

static inline void rr_eng_release(struct rr_eng *e, uint32_t buf)
{
	rr_eng_push(e, RR_OP_RELEASE, 0, buf, 0, 0);
}

/* --- setup.c --- */
/* Speaks version vers from now on instead; false if that is not possible. Reliable replies were a matter of the
 * opening: there are none. */
bool rr_eng_fall_back(struct rr_eng *e, uint32_t vers);
/* Both sides have said what they can: reliable replies, and chunks in reverse calls. */
void rr_eng_agreed(struct rr_eng *e, bool reliable, bool reverse_chunks);

/* --- opening.c --- */
extern const struct rr_opening rr_opening_v2;
void rr_open_begin(struct rr_eng *e);
void rr_open_next_op(struct rr_eng *e, const struct rr_in *in, struct rr_op *op);
void rr_open_tick(struct rr_eng *e);
/* Bytes have arrived, and are not decoded yet. */
void rr_open_version(struct rr_eng *e, const uint8_t *buf, uint32_t len);
/* A reverse call with chunks has come: so may replies to it have. */
void rr_open_infer(struct rr_eng *e, const struct rr_chunks *ch);
/* True: that was all that there is to be done about in. */
bool rr_open_heard(struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc, uint32_t have);
void rr_open_over(struct rr_eng *e);
/* A word of ours is due in answer to in. */
void rr_open_answer(struct rr_eng *e, struct rr_in *in);

/* --- conf_rdma.c --- */
extern const struct rr_opening rr_opening_ccp;
/* A call of program ccp_prog has arrived, its message at stream. True: it is none for the app. */
bool rr_ccp_taken(struct rr_eng *e, struct rr_in *in, const uint8_t *stream);

/* --- mem.c --- */

/* Fences m: true if that is done (nothing exposed, or the peer invalidated its one key),
 * false if RR_OP_INVALIDATE with this id is out. */
bool rr_mem_fence(struct rr_eng *e, struct rr_mem *m, uint32_t id);
/* The peer has invalidated this key; false if it is none of m's. */
bool rr_mem_key_gone(struct rr_mem *m, uint32_t handle);
/* Takes what rr_eng_exposed() says; false if it cannot be used. */
bool rr_mem_set(struct rr_mem *m, uint32_t buf, uint32_t len, const struct rr_seg *segs, uint32_t n);

/* --- inbound.c --- */
/* in is over: gives its receive back, forgets it. */
void rr_in_drop(struct rr_eng *e, struct rr_in *in);
void rr_in_discard(struct rr_eng *e, struct rr_in *in);	/* the same, counted */
void rr_in_repost(struct rr_eng *e, struct rr_in *in);
/* in joins the queue of deliveries, in this state. */
void rr_in_arrive(struct rr_eng *e, struct rr_in *in, enum rr_in_state state);
bool rr_in_next_op(struct rr_eng *e, struct rr_op *op);
/* RR_OP_PULL or RR_OP_COMPOSE of in, now or when the peer can serve so many RDMA Reads. */
void rr_in_read(struct rr_eng *e, struct rr_in *in, enum rr_opcode code);
void rr_in_nomsg(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m);
/* live: the receive's own bytes, which the peer may still write to. */
void rr_in_msg(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m, const uint8_t *live,
	       uint32_t len, uint32_t have);
/* An entry for what we say unasked. NULL: there is none. */
struct rr_in *rr_in_own(struct rr_eng *e, uint32_t xid);
/* Errors in a call are answered, errors in a reply are discarded (RFC 8166 §4.5), and where neither
 * dir nor the message can say which it is, the connection's direction decides: we accept calls or make
 * them. */
void rr_in_refuse(struct rr_eng *e, struct rr_in *in, enum rr_dir dir, enum rr_errcode err);
/* The same with what rr_in_wrong() has put there. */
void rr_in_unfit(struct rr_eng *e, struct rr_in *in, enum rr_dir dir);

/* What there is to be said against in, should anything be. False, for its callers to return. */
static inline bool rr_in_wrong(struct rr_in *in, enum rr_errcode err, uint32_t arm0, uint32_t arm1)
{
	in->err = err;
	in->arm[0] = arm0;
	in->arm[1] = arm1;
	return false;
}

/* --- errors.c --- */
void rr_ctl_error(struct rr_eng *e, struct rr_in *in, enum rr_errcode err);
/* The same with what rr_in_wrong() has put there. */
void rr_ctl_refuse(struct rr_eng *e, struct rr_in *in);
void rr_ctl_done(struct rr_eng *e, struct rr_in *in);
/* An error for a call that has been answered by the app. False: no room. */
bool rr_ctl_error_for(struct rr_eng *e, uint32_t xid, enum rr_errcode err, uint32_t arm0,
		      uint32_t arm1);
bool rr_ctl_next_op(struct rr_eng *e, struct rr_op *op);
void rr_ctl_error_received(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m);

/* --- requester.c --- */
int rr_req_send(struct rr_eng *e, const struct rr_eng_out *out);
bool rr_req_writable(const struct rr_eng *e);
struct rr_call *rr_req_find(struct rr_eng *e, uint32_t xid);
/* A plain call has been sent. False: there is no room for it, or only when another is forgotten. */
bool rr_req_send_plain(struct rr_eng *e, const struct rr_rpc *rpc);
/* A plain reply has come. False: not to be delivered at once, or perhaps not at all. */
bool rr_req_reply_plain(struct rr_eng *e, uint32_t xid, uint32_t credit);
/* stream: the receive's own bytes, which the peer may still write to. */
void rr_req_reply_inline(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch,
			 const uint8_t *stream);
void rr_req_reply_chunk(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);
bool rr_req_key_gone(struct rr_eng *e, uint32_t handle);
/* in is a reply in Read chunks that is to be pulled, and is on the queue of deliveries already. Of its Payload stream have
 * bytes are at head: all, if it has Read chunks besides. False: it is not acceptable. */
bool rr_req_reply_pulled(struct rr_eng *e, struct rr_in *in, const uint8_t *head, uint32_t have);
/* When a call may be forgotten that cannot now, if that is waited for; or when waiting for a
 * credit ends. */
rr_time rr_req_deadline(const struct rr_eng *e);
void rr_req_tick(struct rr_eng *e);
/* A call was refused now. */
void rr_req_stalled(struct rr_eng *e);
/* ERR_CHUNK for c: what that means for later calls of its procedure. */
enum rr_eng_why rr_req_refused(struct rr_eng *e, const struct rr_call *c);
/* What it has exposed is taken back, and then it is sent again. */
void rr_req_withdraw(struct rr_eng *e, struct rr_call *c);
/* The call's Send is out. */
void rr_req_sent(struct rr_eng *e, struct rr_call *c);
void rr_req_fenced(struct rr_eng *e, struct rr_call *c, enum rr_kind which);
/* The reverse direction without agreement is inline or nothing (RFC 8167 §5.3). */
static inline bool rr_req_may_use_chunks(const struct rr_eng *e)
{
	return e->p.connector || e->reverse_chunks;
}

/* --- again.c --- */
bool rr_again_keeps(const struct rr_eng *e, const struct rr_plan *p);
/* An error for c: why the connection ends, or RR_WHY_NONE. */
enum rr_eng_why rr_again_error(struct rr_eng *e, struct rr_call *c, const struct rr_msg *m);
void rr_again_send(struct rr_eng *e, struct rr_call *c);
/* A call that was kept is over. */
void rr_again_over(struct rr_eng *e, struct rr_call *c);

/* draft-02 §3.4: may a reply have Read chunks, at any position? */
static inline bool rr_req_takes_reads(const struct rr_eng *e)
{
	return e->traits->read_replies && e->p.connector;
}

/* --- padding.c --- */
/* The peer's receives are aligned to this: what calls of ours are padded to, if any are. */
void rr_pad_to(struct rr_eng *e, uint32_t align);
/* Makes a call that goes inline and without chunks one with padding, if it can and should be. */
void rr_pad_call(const struct rr_eng *e, const struct rr_eng_out *out, struct rr_tx *t);
/* What its Send carries, behind the header. */
void rr_pad_parts(struct rr_eng *e, const struct rr_tx *t, struct rr_op *op);
/* Finds the padding of an RDMA_MSGP (e->rx), each word of whose stream is read once. False: it cannot be. */
bool rr_pad_in_call(struct rr_eng *e, struct rr_in *in, const uint8_t *stream);
bool rr_pad_in_reply(struct rr_eng *e, const struct rr_call *c, struct rr_in *in,
		     const uint8_t *stream);

/* --- plan.c --- */
/* With reliable replies nothing is planned but whether it fits: what does not is pulled; and where
 * the policy is so, memory for replies whose bound is known. */
void rr_plan(const struct rr_eng *e, const struct rr_eng_out *out, struct rr_plan *p);

/* --- responder.c --- */
int rr_resp_send(struct rr_eng *e, const struct rr_eng_out *out);
/* May a plain reply be sent? Not where its call has left chunks. */
bool rr_resp_send_plain(struct rr_eng *e, uint32_t xid);
bool rr_resp_writable(const struct rr_eng *e);
uint32_t rr_resp_grant(const struct rr_eng *e);
/* Keeps the chunks of a call to be; false: no room (the connection has been failed). */
bool rr_resp_keep(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);
void rr_resp_forget(struct rr_eng *e, struct rr_in *in);
/* A call is on the queue of deliveries, its chunks kept: it counts from now on. */
bool rr_resp_call(struct rr_eng *e, struct rr_in *in);
/* reads: Read chunks. False: in knows what is wrong, as after all that judge in's chunks. */
bool rr_resp_within_limits(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch,
			   uint32_t reads);
/* Does our side take chunks in the calls that it receives? */
bool rr_resp_takes_chunks(const struct rr_eng *e);
/* Does it take these? */
bool rr_resp_takes(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);

/* --- invalidate.c --- */
/* Keeps what of a call's chunks is needed for that. */
void rr_inv_keep(const struct rr_eng *e, struct rr_serve *s, const struct rr_in *in,
		 const struct rr_chunks *ch);
/* The same of a message that is to be pulled. */
void rr_inv_arrived(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);
/* The Send of this call's reply invalidates one of them at the requester, where it may. */
void rr_inv_reply(struct rr_eng *e, const struct rr_serve *s, struct rr_op *op);
/* The same of the DONE for a reply that was pulled. */
void rr_inv_done(struct rr_eng *e, const struct rr_in *in, struct rr_op *op);
/* Which handle of this call, or of this reply that we show, a peer that is invited to
 * (rr_eng_params.invited) may invalidate; 0 none. */
uint32_t rr_inv_offer(const struct rr_eng *e, const struct rr_call *c, const struct rr_shown *s);

/* --- reduce_call.c --- */
/* Keeps the Read list of a message in in: false if it is above the limits. */
bool rr_reads_take(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);
/* Judges a call that has Read chunks besides the Position-Zero one, or Write chunks, by its Payload
 * stream, of which have bytes are at stream: each word of it is read once, so they need not be
 * copied first. False: it must not be executed. Else its serve knows the binding if it needs it, and
 * parts, segs, stream and len of in are as RR_OP_COMPOSE has them. */
bool rr_reads_judge(struct rr_eng *e, struct rr_in *in, const uint8_t *stream, uint32_t have,
		    uint32_t len);
/* The same of a reply to c, all of whose stream is there. */
bool rr_reads_judge_reply(struct rr_eng *e, const struct rr_call *c, struct rr_in *in,
			  const uint8_t *stream, uint32_t len);
void rr_reads_compose(struct rr_eng *e, struct rr_in *in);

/* --- reduce_reply.c --- */
/* Do these Write chunks, of a reply, say that something was written to them? */
bool rr_writes_used(const struct rr_wchunk *w, uint32_t n, const struct rr_seg *segs);
/* Are these w's segments of ours, with lengths not larger, filled from the front (RFC 8166 §4.3.2.2,
 * §4.3.3)? *used: bytes that they hold. */
bool rr_writes_ours(const struct rr_chunks *ch, const struct rr_wchunk *w, const struct rr_mem *m,
		    uint32_t *used);
/* Judges the reply to a call that offered a Write chunk, by its Payload stream (each word of it is read
 * once): where the message will lie goes to in. False: the RPC has failed (RFC 8166 §6.1). */
bool rr_writes_judge(const struct rr_call *c, struct rr_in *in, const struct rr_chunks *ch,
		     const uint8_t *stream);
/* Decides what of a reply to s is written to its Write chunks. False: a chunk is too small. */
bool rr_writes_plan(struct rr_serve *s, const struct rr_eng_out *out);
/* The call's Write list and Reply chunk, with the lengths that were used (RFC 8166 §4.3.2.2,
 * §4.3.3): of the latter used bytes. */
void rr_writes_return(struct rr_chunks *ch, const struct rr_serve *s, uint32_t used);
/* RDMA Writes that the reply of len bytes needs before its Send. */
uint32_t rr_writes_count(const struct rr_serve *s, uint32_t len, bool reply_chunk);
/* The i-th of them into op and e->wsegs; len: bytes of the message. */
void rr_writes_op(struct rr_eng *e, const struct rr_serve *s, uint32_t i, uint32_t len,
		  struct rr_op *op);
/* What of the message the Send carries, into op and e->parts. */
void rr_writes_rest(struct rr_eng *e, const struct rr_serve *s, uint32_t len, struct rr_op *op);
/* The same as a Position-Zero Read chunk: all of the message is exposed at m. */
void rr_writes_show(struct rr_chunks *ch, const struct rr_serve *s, const struct rr_mem *m);
uint32_t rr_writes_room(const struct rr_serve *s, const struct rr_wchunk *w);

/* --- reliable_reply.c --- */
/* 0 and *out, or -EAGAIN, -EMSGSIZE. */
bool rr_rel_room(const struct rr_eng *e, uint32_t len);
int rr_rel_reserve(struct rr_eng *e, uint32_t xid, uint32_t buf, uint32_t len, struct rr_shown **out);
bool rr_rel_key_gone(struct rr_eng *e, uint32_t handle);
void rr_rel_sent(struct rr_eng *e, struct rr_shown *s);
void rr_rel_done_received(struct rr_eng *e, struct rr_in *in);
void rr_rel_fenced(struct rr_eng *e, struct rr_shown *s);
void rr_rel_tick(struct rr_eng *e);
rr_time rr_rel_deadline(const struct rr_eng *e);

/* --- outbound.c --- */
struct rr_tx *rr_tx_new(struct rr_eng *e, const struct rr_eng_out *out, enum rr_tx_form form);
bool rr_tx_room(const struct rr_eng *e);
bool rr_tx_next_op(struct rr_eng *e, struct rr_op *op);
void rr_tx_done(struct rr_eng *e, struct rr_tx *t);
/* The header in e->tx into op. */
void rr_tx_encode(struct rr_eng *e, struct rr_op *op);

static inline void rr_eng_count(struct rr_eng *e, enum rr_counter c)
{
	rr_count(e->count, c, 1);
}

#endif
