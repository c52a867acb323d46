/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_H
#define RR_ENGINE_H

/* RPC-over-RDMA as a state machine: no I/O, no clock, no lock, no allocation.
 *
 * One engine serves one connection. It has two half-roles: the requester of the
 * calls that its own app sends, and the responder of the calls that the peer sends.
 * Neither is an afterthought: on the connection's accepting side the requester half
 * is what RFC 8167 calls the reverse direction.
 *
 *   driver                                engine
 *   ------                                ------
 *   rr_eng_send(message)          ──▶
 *   rr_eng_recv(bytes)            ──▶
 *   rr_eng_done(operation)        ──▶
 *   rr_eng_tick(now)              ──▶
 *                                 ◀──     rr_eng_next_op(): post this, expose that,
 *                                         deliver, release, fail
 *
 * After any call in, the driver takes operations until there are none. Operations
 * are to be carried out in the order in which they come. An operation with an id is
 * answered, at once or later, by rr_eng_done() (or rr_eng_exposed(), rr_eng_pulled());
 * the others need no answer.
 *
 * Payload never passes through the engine. The driver names its buffers by 32-bit
 * numbers of its own; the engine hands those numbers back.
 *
 * What happens to a buffer:
 *   given by rr_eng_send()         → engine's until RR_OP_RELEASE
 *   made for RR_OP_EXPOSE with RR_BUF_NEW (a Reply chunk) → engine's until
 *                                    RR_OP_DELIVER (then the driver's) or RR_OP_RELEASE
 *   a receive given by rr_eng_recv() → the driver's again by RR_OP_DELIVER (it reposts
 *                                    when the app has the bytes) or by RR_OP_REPOST (now) */

#include "core/base/stats.h"
#include "core/base/types.h"
#include "core/ulb/ulb.h"
#include "core/wire/rpc.h"

#define RR_BUF_NEW	UINT32_MAX	/* RR_OP_EXPOSE: the driver allocates */
#define RR_BUF_NONE	(UINT32_MAX - 1)
#define RR_OP_MAX_SEGS	64u		/* segments in one operation */
#define RR_OP_MAX_PARTS	(RR_ULB_ITEMS + 1) /* ranges in one operation */
/* offset of a range of RR_OP_SEND: zeroes, at most RR_PAD_MAX */
#define RR_PART_ZEROES	UINT32_MAX
#define RR_PAD_MAX	4095u		/* bytes of padding before one item */
#define RR_ENG_SHOWN	64u		/* reliable replies exposed at once, at most */
/* receives, or Sends of the window, for control messages */
#define RR_ENG_CONTROL	4u

struct rr_eng;
struct rr_sizes;	/* learned reply sizes; reply_size.h */

struct rr_eng_params {
	enum rr_dialect dialect;
	uint32_t caps;		/* enum rr_cap, as agreed */
	bool connector;		/* we called connect(): our calls are the forward direction */
	uint32_t inline_send;	/* the peer's receive size */
	uint32_t inline_recv;	/* our receive size */
	uint32_t inline_peer;	/* longest Send of the peer's, unless the dialect has a way to
				 * tell it how long that may be (RFC 8797 §4); 0 inline_recv */
	uint32_t inline_send_max; /* v2: what a Send of ours can hold, should the peer say that
				   * it receives more; 0 inline_send */
	bool no_fallback;	/* v2: rather no connection than one of version 1 */
	bool no_done;		/* v2: RDMA2_DONE, which is private, is not agreed on, nor
				 * reliable replies with it */
	uint32_t credits;	/* forward credits: asked for as requester, granted at most as
				 * responder (receives are posted for them) */
	uint32_t bc_credits;	/* the same for the reverse direction */
	uint32_t max_msg;	/* longest RPC message either way, bytes */
	uint32_t reply_chunk;	/* default Reply chunk, without reliable replies; 0 never offer
				 * one */
	uint32_t reply_chunk_max;
	enum rr_reply_chunks reply_chunks;
	bool lenient_read_chunks; /* take Read chunks at any position, binding or not (RFC 8166
				   * §6.1 wants ERR_CHUNK) */
	uint32_t max_chunks;	/* refuse messages with more chunks … */
	uint32_t max_segs;	/* … more segments in a chunk */
	uint32_t max_exposed;	/* bytes of reliable replies exposed at once; above: -EAGAIN */
	rr_time done_timeout;	/* reliable replies nobody pulled are fenced after this … */
	rr_time done_timeout_pressure; /* … or this, when max_exposed is reached */
	bool patient;		/* … or never: one of ours pulls when its app reads */
	uint32_t recvs;		/* receives that the driver keeps posted; 0 rr_eng_recvs() */
	uint32_t pulls;		/* messages that it can pull at a time; 0 any number */
	/* draft02: opaque items of our calls that have so many bytes at least are sent with
	 * padding (RDMA_MSGP), where their binding knows all of them; 0 none ever is */
	uint32_t pad_thresh;
	uint32_t pad_align;	/* to what, unless the server says that itself (CCP); at most
				 * RR_PAD_MAX + 1; as server: what our receives are aligned to.
				 * 0 nothing */
	/* draft02: the program of the Connection Configuration Protocol, asked first of all as
	 * client and answered as server; 0 neither. inline_send_max counts, as with v2 */
	uint32_t ccp_prog;
	uint32_t rdma_reads;	/* … RDMA Reads of the peer's that we can serve at a time; 0: it
				 * says none */
	bool invalidate;	/* both sides have said that a Send may invalidate (RFC 8797
				 * §4.1) */
	bool invited;		/* v2: each exposure has keys of its own, which the peer may
				 * invalidate */
	struct rr_sizes *sizes;	/* shared by the connections of a process; may be NULL */
	struct rr_counters *count;
};

/* Receives that these parameters need at the least: replies to our calls, the peer's calls,
 * its RDMA_DONEs and errors. The engine ends the connection (RR_WHY_OVERRUN) when far more
 * messages arrive than receives can be posted. With ring credits two at least. */
uint32_t rr_eng_recvs(const struct rr_eng_params *p);

/* Fewer credits, if rr_eng_recvs(p) are more than recvs. */
void rr_eng_fit(struct rr_eng_params *p, uint32_t recvs);

/* Of caps those that may be had of a peer with which nothing was agreed on: because the dialect
 * has its own way to agree, or because one side's word is enough. */
uint32_t rr_eng_native_caps(enum rr_dialect dialect, uint32_t caps);

/* Bytes of state for these parameters, and its set-up. mem is zeroed and aligned for
 * any type; it may be shared with forked children mapped at the same address. NULL: the
 * dialect is not in this build. */
size_t rr_eng_size(const struct rr_eng_params *p);
struct rr_eng *rr_eng_init(void *mem, const struct rr_eng_params *p, rr_time now);

/* A whole RPC message that the app has written. */
struct rr_eng_out {
	struct rr_rpc rpc;
	uint32_t len;		/* bytes */
	uint32_t buf;		/* the driver's name for them */
	/* The first of them, readable during the call: all, or as many as lie together.
	 * Upper-layer bindings look at them; with too few nothing is reduced. */
	const uint8_t *head;
	uint32_t have;
};

/* Takes a message. A short one (rr_eng_is_short()) that is taken comes out as RR_OP_SEND
 * before rr_eng_next_op() next returns false: its buf may be memory that is there for this
 * call only. 0 taken; -EAGAIN no credit, window, slot or exposure budget now:
 * nothing happened, ask again after a reply, a window update or a DONE; -EMSGSIZE it can
 * never be carried on this connection (the driver uses the escape hatch); -ECONNRESET after
 * RR_OP_FAIL. A reply that a strict peer cannot take is taken, and the peer told ERR_CHUNK.
 * In dialects whose ends have to come to terms first (version 2) nothing is taken before that.
 *
 * With RR_CAP_RING_CREDITS nothing is taken before the first rr_eng_window(), and a few
 * Sends of the window stay reserved for control messages. Calls that never get a reply
 * hold nothing then. Without it they hold a credit each: the app waits (-EAGAIN). */
int rr_eng_send(struct rr_eng *e, const struct rr_eng_out *out, rr_time now);

/* Would rr_eng_send() be taken now, of the message that was refused last; or else of a short
 * one of the forward direction (a call where we connected, a reply where we accepted)? For
 * POLLOUT. */
bool rr_eng_writable(const struct rr_eng *e);

/* The same of a message of this type (enum rr_rpc_type), which the app has begun to write. No
 * counts as a refusal. */
bool rr_eng_would_take(struct rr_eng *e, uint32_t type, rr_time now);

/* Can a message of len bytes be sent whole in one Send, whatever else is true? The
 * driver uses it to choose a buffer before the record is complete. False where memory may have
 * to be exposed first, for a call's reply; and while a call waits whose Write chunks the reply
 * may have to be written to, from memory of the driver's. */
bool rr_eng_is_short(const struct rr_eng *e, uint32_t type, uint32_t len);

/* May the peer send what is to be pulled? together: what has to lie together in the driver's
 * memory for that. */
bool rr_eng_may_pull(const struct rr_eng *e, bool together);

/* Replies that the peer has yet to pull. */
uint32_t rr_eng_shown(const struct rr_eng *e);

/* When the last call was sent whose chunks the peer has yet to read, as far as replies and
 * rr_eng_consumed() have said; 0: there is none. */
rr_time rr_eng_calls_unread(const struct rr_eng *e);

/* A receive completed: len bytes at buf, readable during this call only (the engine
 * copies what it judges). token names the receive buffer. inv: handle that the peer
 * invalidated remotely, 0 none. */
void rr_eng_recv(struct rr_eng *e, uint32_t token, const uint8_t *buf, uint32_t len,
		 uint32_t inv, rr_time now);

/* The short way of a message that is plain: whole in one Send, without chunks, with ring
 * credits, while the engine has nothing else to do. Both functions say false where the message
 * or the moment is not that simple; then nothing has happened, and rr_eng_send() or
 * rr_eng_recv() is to be called. After true there is no operation to be taken. */

#define RR_ENG_PLAIN_HDR 28u	/* bytes of transport header */

/* As rr_eng_send(), of a message for which rr_eng_is_short() is true. True: it is taken, and
 * hdr is what goes before it, in a Send of whose end nobody needs to hear. */
bool rr_eng_send_plain(struct rr_eng *e, const struct rr_eng_out *out, rr_time now,
		       uint8_t hdr[RR_ENG_PLAIN_HDR]);

/* As rr_eng_recv(), without inv. True: all that lies behind the first RR_ENG_PLAIN_HDR bytes is
 * a message for the app, as RR_OP_DELIVER with RR_FROM_RECV would say, and *rpc what it is. */
bool rr_eng_recv_plain(struct rr_eng *e, const uint8_t *buf, uint32_t len, rr_time now,
		       struct rr_rpc *rpc);

/* This many Sends can be taken from now on: with ring credits by the peer, and by the provider.
 * Without them there is no window until somebody speaks of one. */
void rr_eng_window(struct rr_eng *e, uint32_t sends);

/* Ring credits only: the peer has read all of buf, which RR_OP_EXPOSE exposed for one of our
 * calls (struct rr_prov_ops.consumed). Its memory is fenced and released although no reply
 * has come: that is how calls that never get one give theirs back. To be asked about when
 * rr_eng_send() says -EAGAIN or memory is short. */
void rr_eng_consumed(struct rr_eng *e, uint32_t buf, rr_time now);

/* Nothing comes from the peer any more but control messages: it is done with the memory that
 * calls offer for their replies, which need none from here on (a peer that has gone back to
 * TCP). */
void rr_eng_hatched(struct rr_eng *e);

/* Is there a message of the peer's that has arrived, and is not delivered: one that is pulled,
 * or waits for its memory to be fenced, or for one of those? */
bool rr_eng_arriving(const struct rr_eng *e);

/* When rr_eng_tick() next has something to do; RR_TIME_NEVER. */
rr_time rr_eng_deadline(const struct rr_eng *e);
void rr_eng_tick(struct rr_eng *e, rr_time now);

enum rr_opcode {
	RR_OP_NONE,
	RR_OP_SEND,		/* id (0 for RDMA_DONE and RDMA_ERROR, which have no buf).
				 * hdr[0..hdr_len) and, behind it, buf[0..len), or what parts
				 * name of buf, len bytes together */
	RR_OP_EXPOSE,		/* id → rr_eng_exposed(). buf[off..off+len) with rights; a new
				 * buf has room bytes */
	RR_OP_WRITE,		/* id. RDMA Write buf[off..off+len) to segs, in their order */
	RR_OP_PULL,		/* id → rr_eng_head(), then rr_eng_pulled(), with room after
				 * RR_OP_COMPOSE or RR_OP_DELIVER. RDMA Read of segs, len
				 * bytes */
	RR_OP_COMPOSE,		/* id → rr_eng_pulled(). A call whose arguments are in Read
				 * chunks: see parts */
	RR_OP_PLACE,		/* a reply whose data the peer has written to buf: see parts */
	RR_OP_INVALIDATE,	/* id. every key of buf, but inv_handle, which is gone
				 * already */
	RR_OP_DELIVER,		/* a message for the app: see from */
	RR_OP_RELEASE,		/* buf is the driver's again */
	RR_OP_REPOST,		/* the receive token is the driver's again */
	RR_OP_FAIL,		/* the connection is over: see why */
};

/* Where a delivered message is. */
enum rr_from {
	RR_FROM_RECV,		/* receive token, bytes off .. off+len */
	RR_FROM_BUF,		/* buf, bytes off .. off+len: the driver's own memory, fenced */
	RR_FROM_PULL,		/* the pull with this id; len bytes */
};

/* Why an engine gave up, or refused. */
enum rr_eng_why {
	RR_WHY_NONE,
	RR_WHY_ERR_CHUNK,	/* a call of ours was answered by ERR_CHUNK; more is offered
				 * next time */
	RR_WHY_ERR_VERS,
	RR_WHY_PROTOCOL,	/* the peer broke the protocol beyond repair */
	RR_WHY_PROVIDER,	/* an operation failed */
	RR_WHY_CREDITS,		/* strict peer: calls without reply hold all credits, too
				 * long */
	RR_WHY_OVERRUN,		/* the peer sent more than was granted */
	RR_WHY_TOO_LARGE,	/* ERR_CHUNK, and no more can be offered (RFC 8166 §4.5.3) */
	RR_WHY_REFUSED,		/* the peer does not take a call of ours, however it is sent */
	RR_WHY_NO_ANSWER,	/* the peer does not say how it speaks the dialect */
};

struct rr_range {
	uint32_t off, len;
};

struct rr_op {
	enum rr_opcode code;
	uint32_t id;		/* 0: no answer wanted */
	uint32_t buf;
	uint32_t off, len;
	/* RR_OP_SEND */
	const uint8_t *hdr;	/* valid until the next call into the engine */
	uint32_t hdr_len;
	uint32_t inv_handle;	/* invalidate this at the peer; 0 none */
	/* RR_OP_EXPOSE */
	enum rr_rights rights;
	uint32_t max_segs;	/* more of them the peer does not take, and end the connection;
				 * 0 any number */
	/* RR_OP_WRITE, RR_OP_PULL, RR_OP_COMPOSE: valid until the next call into the engine */
	const struct rr_seg *segs;
	uint32_t nsegs;
	/* RR_OP_EXPOSE: room. RR_OP_PULL: head is what rr_eng_head() needs. With room it needs
	 * all that lie together, in memory of the driver's, and RR_OP_COMPOSE may follow for a
	 * message of at most room bytes */
	uint32_t head, room;
	/* RR_OP_COMPOSE: the message has len bytes. parts[i].len of them at parts[i].off come
	 * by RDMA Read from segs, in their order, and zeroes up to the next multiple of four;
	 * all others, in their order, are the Payload stream: stream bytes at off of the
	 * receive token (from is RR_FROM_RECV), or what the pull with this id has fetched
	 * (RR_FROM_PULL). It is delivered as that pull. RR_OP_PLACE: the message is to lie at
	 * buf[at..at+len). parts[0] is there already; around it come, as above, zeroes and the
	 * stream, from off of the receive token. RR_OP_SEND: see there. RR_OP_DELIVER, from
	 * RR_FROM_RECV: of the bytes at off these are padding, and are to be left out; len are
	 * the others. Valid as long as segs */
	const struct rr_range *parts;
	uint32_t nparts;
	uint32_t stream, at;
	/* RR_OP_DELIVER */
	enum rr_from from;
	uint32_t token;		/* also RR_OP_REPOST */
	struct rr_rpc rpc;
	/* RR_OP_FAIL */
	enum rr_eng_why why;
};

/* The next operation into *op; false when there is none. */
bool rr_eng_next_op(struct rr_eng *e, struct rr_op *op);

/* A SEND, WRITE or INVALIDATE has ended: 0, or -errno. */
void rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now);

/* An EXPOSE has ended. 0: the range (of the new buf, if RR_BUF_NEW was asked for) lies at
 * segs[0..n), n at most 8, of exactly the length asked for. -EAGAIN: no memory or key now: it
 * is tried again (rr_eng_deadline()). -ENOMEM, of a new buf: never so much. A call then goes
 * without that chunk for its reply; with ring credits after -EAGAIN too, since there calls that
 * are never answered may have the memory. */
void rr_eng_exposed(struct rr_eng *e, uint32_t id, int status, uint32_t buf,
		    const struct rr_seg *segs, uint32_t n, rr_time now);

/* A PULL has the first n bytes (as many as the operation's head says, or all of a shorter
 * message), or failed. The engine judges them: RR_OP_COMPOSE or RR_OP_DELIVER with RR_FROM_PULL
 * follows, or the message is refused and the driver drops the pull at RR_OP_RELEASE
 * with buf = RR_BUF_NONE and this id: it touches the peer's memory no more once it takes the
 * next operation. */
void rr_eng_head(struct rr_eng *e, uint32_t id, int status, const uint8_t *head, uint32_t n,
		 rr_time now);

/* The whole of a PULL or COMPOSE has been copied out of the peer's memory, or failed: the
 * peer's memory is not touched again. The engine then says DONE where one is due. */
void rr_eng_pulled(struct rr_eng *e, uint32_t id, int status, rr_time now);

/* Nothing is under way: no message, no call without reply that the engine remembers, nothing
 * exposed, no operation that was not taken. Then of the memory that rr_eng_init() was given
 * only the first bytes matter, as many as this says: any part of the rest may be lost, which is
 * to say read as zeroes. 0: all of it is needed. */
size_t rr_eng_quiet(struct rr_eng *e);

/* For tests and rdmarpc-stat: a snapshot. */
struct rr_eng_info {
	uint32_t granted;	/* to us, by the peer */
	uint32_t inflight;	/* our calls without reply */
	uint32_t serving;	/* the peer's calls without reply */
	uint32_t exposed;	/* bytes of reliable replies */
	uint32_t window;
	uint32_t version;	/* of the headers, as it is now */
	bool opening;		/* the two ends have yet to come to terms */
	bool fell_back;		/* the peer does not speak what was begun with */
};
void rr_eng_info(const struct rr_eng *e, struct rr_eng_info *out);

#endif
