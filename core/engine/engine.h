/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_H
#define RR_ENGINE_H

/* RPC-over-RDMA as a state machine: no I/O, no clock, no lock, no allocation.
 *
 * One engine serves one connection. It has two half-roles: the requester of the calls that its
 * own app sends, and the responder to the calls that the peer sends. On the connection's
 * accepting side the requester half is what RFC 8167 calls the reverse direction.
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
 * After any call into the engine, the driver takes operations until there are none, and carries
 * them out in the order in which they come. An operation with an id is answered, at once or
 * later, by rr_eng_done() (or rr_eng_exposed(), rr_eng_pulled()); the others need no answer.
 *
 * Payload never passes through the engine. The driver names its buffers by 32-bit numbers of
 * its own, and the engine hands those numbers back.
 *
 * Who owns a buffer:
 *   given by rr_eng_send()         → the engine until RR_OP_RELEASE
 *   made for RR_OP_EXPOSE with RR_BUF_NEW (a Reply chunk) → the engine until
 *                                    RR_OP_DELIVER (then the driver) or RR_OP_RELEASE
 *   a receive given by rr_eng_recv() → the driver again at RR_OP_DELIVER (it reposts
 *                                    when the app has the bytes) or RR_OP_REPOST (at once) */

#include "core/base/stats.h"
#include "core/engine/params.h"
#include "core/ulb/ulb.h"
#include "core/wire/rpc.h"

#define RR_BUF_NEW	UINT32_MAX	/* RR_OP_EXPOSE: the driver allocates */
#define RR_BUF_NONE	(UINT32_MAX - 1)
#define RR_OP_MAX_SEGS	64u		/* segments in one operation */
#define RR_OP_MAX_PARTS	(RR_ULB_ITEMS + 1) /* ranges in one operation */
/* Offset of a range of RR_OP_SEND that consists of zeroes, at most RR_PAD_MAX. */
#define RR_PART_ZEROES	UINT32_MAX
#define RR_PAD_MAX	4095u		/* bytes of padding before one item */
#define RR_ENG_SHOWN	64u		/* reliable replies exposed at once at most */
/* Receives, or Sends of the window, that are kept for control messages. */
#define RR_ENG_CONTROL	4u

struct rr_eng;

/* The bytes of state for these parameters, and its initialization. mem is zeroed and aligned
 * for any type; it may be shared with forked children that map it at the same address. NULL:
 * this build lacks the dialect. */
size_t rr_eng_size(const struct rr_eng_params *p);
struct rr_eng *rr_eng_init(void *mem, const struct rr_eng_params *p, rr_time now);

/* A whole RPC message that the app has written. */
struct rr_eng_out {
	struct rr_rpc rpc;
	uint32_t len;		/* bytes */
	uint32_t buf;		/* the driver's name for them */
	/* The first bytes, readable during the call: all, or as many as are contiguous.
	 * Upper-layer bindings look at them; if there are too few, nothing is reduced. */
	const uint8_t *head;
	uint32_t have;
};

/* Takes a message. A short one (rr_eng_is_short()) that is taken comes out as RR_OP_SEND before
 * rr_eng_next_op() next returns false, so its buf may be memory that is valid during this call
 * only. 0: taken. -EAGAIN: no credit, window, slot or exposure budget now, and nothing has
 * happened: ask again after a reply, a window update or a DONE. -EMSGSIZE: it can never be
 * carried on this connection (the driver opens the hatch). -ECONNRESET: the engine has failed.
 * Without a hatch, a reply that cannot be conveyed in any way is taken as well, and the peer is
 * told ERR_CHUNK. In dialects with an opening (version 2) nothing is taken before the opening
 * is over.
 *
 * With RR_CAP_RING_CREDITS nothing is taken before the first rr_eng_window(), and a few Sends
 * of the window stay reserved for control messages. Calls that never get a reply hold nothing
 * then. Without ring credits they hold a credit each, and the app waits (-EAGAIN). */
int rr_eng_send(struct rr_eng *e, const struct rr_eng_out *out, rr_time now);

/* Would rr_eng_send() take the message that it refused last, or else a short message of the
 * forward direction (a call if we connected, a reply if we accepted)? For POLLOUT. */
bool rr_eng_writable(const struct rr_eng *e);

/* The same for a message of this type (enum rr_rpc_type), which the app has begun to write.
 * "No" counts as a refusal. */
bool rr_eng_would_take(struct rr_eng *e, uint32_t type, rr_time now);

/* Can a message of len bytes always be sent whole in one Send? The driver uses this to choose a
 * buffer before the record is complete. False if memory may have to be exposed first, for a
 * call's reply; if calls may be padded; and while a call waits whose reply may have to be
 * written to Write chunks, from memory of the driver. */
bool rr_eng_is_short(const struct rr_eng *e, uint32_t type, uint32_t len);

/* May the peer send messages that have to be pulled? together: ones that must lie in one piece
 * of the driver's memory for that. */
bool rr_eng_may_pull(const struct rr_eng *e, bool together);

/* Will a message of at least len bytes, if it is sent, be read by the peer from where it lies,
 * whole, by a Position-Zero Read chunk? */
bool rr_eng_exposes(const struct rr_eng *e, const struct rr_rpc *rpc, uint32_t len);
bool rr_eng_unsent(const struct rr_eng *e);	/* is one that was taken yet to be sent? */

/* The number of replies that the peer has yet to pull. */
uint32_t rr_eng_shown(const struct rr_eng *e);

/* When the last call was sent whose chunks the peer has yet to read, as far as replies and
 * rr_eng_consumed() have shown; 0: there is none. */
rr_time rr_eng_calls_unread(const struct rr_eng *e);

/* A receive has completed: len bytes at buf, readable during this call only (the engine copies
 * what it judges). token names the receive buffer. inv: the handle that the peer has
 * invalidated; 0: none. */
void rr_eng_recv(struct rr_eng *e, uint32_t token, const uint8_t *buf, uint32_t len,
		 uint32_t inv, rr_time now);

/* The short way for a plain message: one that is whole in one Send, without chunks, with ring
 * credits, while the engine has nothing else to do. Both functions return false if the message
 * or the moment is not that simple; then nothing has happened, and rr_eng_send() or
 * rr_eng_recv() must be called. After true there is no operation to take. */

#define RR_ENG_PLAIN_HDR 28u	/* bytes of transport header */

/* As rr_eng_send(), for a message for which rr_eng_is_short() is true. True: it is taken, and
 * hdr goes in front of it, in a Send whose completion nobody needs. */
bool rr_eng_send_plain(struct rr_eng *e, const struct rr_eng_out *out, rr_time now,
		       uint8_t hdr[RR_ENG_PLAIN_HDR]);

/* As rr_eng_recv(), without inv. True: everything after the first RR_ENG_PLAIN_HDR bytes is a
 * message for the app, as RR_OP_DELIVER with RR_FROM_RECV would say, and *rpc describes it. */
bool rr_eng_recv_plain(struct rr_eng *e, const uint8_t *buf, uint32_t len, rr_time now,
		       struct rr_rpc *rpc);

/* So many Sends can be made from now on: allowed by the provider and, with ring credits, by the
 * peer. Without ring credits there is no window until this is called. */
void rr_eng_window(struct rr_eng *e, uint32_t sends);

/* Ring credits only: the peer has read all of buf, which RR_OP_EXPOSE exposed for a call of
 * ours (struct rr_prov_ops.consumed). The memory is fenced and released although no reply has
 * come, so that calls that never get one give theirs back. The driver asks for this when
 * rr_eng_send() returns -EAGAIN or memory is short. */
void rr_eng_consumed(struct rr_eng *e, uint32_t buf, rr_time now);

/* From now on only control messages come from the peer, because it has gone back to TCP. It is
 * done with the memory that calls offer for their replies, and further calls offer none. */
void rr_eng_hatched(struct rr_eng *e);

/* Has a message of the peer arrived that is not delivered yet, because it is being pulled,
 * waits for its memory to be fenced, or waits behind such a message? */
bool rr_eng_arriving(const struct rr_eng *e);

/* When rr_eng_tick() has something to do next; RR_TIME_NEVER. */
rr_time rr_eng_deadline(const struct rr_eng *e);
void rr_eng_tick(struct rr_eng *e, rr_time now);

enum rr_opcode {
	RR_OP_NONE,
	/* id (0 for RDMA_DONE and RDMA_ERROR, which have no buf). hdr[0..hdr_len), followed by
	 * buf[0..len), or by those parts of buf that parts names, len bytes in all */
	RR_OP_SEND,
	/* id → rr_eng_exposed(). buf[off..off+len) with rights; a new buf has room bytes */
	RR_OP_EXPOSE,
	RR_OP_WRITE,		/* id. RDMA Write buf[off..off+len) to segs, in their order */
	RR_OP_PULL,		/* id → rr_eng_head(), then rr_eng_pulled(), with room after
				 * RR_OP_COMPOSE or RR_OP_DELIVER. RDMA Read of segs, len
				 * bytes */
	/* id → rr_eng_pulled(). A call with arguments in Read chunks: see parts */
	RR_OP_COMPOSE,
	RR_OP_PLACE,		/* a reply whose data the peer has written to buf: see parts */
	/* id. Takes back every key of buf except inv_handle, which is gone already */
	RR_OP_INVALIDATE,
	RR_OP_DELIVER,		/* a message for the app: see from */
	RR_OP_RELEASE,		/* buf belongs to the driver again */
	RR_OP_REPOST,		/* the receive token belongs to the driver again */
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
	/* a call of ours was answered by ERR_CHUNK; more is offered next time */
	RR_WHY_ERR_CHUNK,
	RR_WHY_ERR_VERS,
	RR_WHY_PROTOCOL,	/* the peer broke the protocol beyond repair */
	RR_WHY_PROVIDER,	/* an operation failed: the peer may be gone */
	RR_WHY_DEVICE,		/* one failed, and our own device is at fault (-EIO) */
	/* without ring credits: there is no credit, and no reply comes that could bring one */
	RR_WHY_CREDITS,
	RR_WHY_OVERRUN,		/* the peer sent more than was granted */
	RR_WHY_TOO_LARGE,	/* ERR_CHUNK, and no more can be offered (RFC 8166 §4.5.3) */
	/* the peer does not accept a call of ours, however it is sent */
	RR_WHY_REFUSED,
	RR_WHY_NO_ANSWER,	/* the peer does not answer the opening */
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
	/* the peer accepts no more segments, and would end the connection; 0: any number */
	uint32_t max_segs;
	/* RR_OP_WRITE, RR_OP_PULL, RR_OP_COMPOSE: valid until the next call into the engine */
	const struct rr_seg *segs;
	uint32_t nsegs;
	/* RR_OP_EXPOSE: room. RR_OP_PULL: rr_eng_head() needs the first `head` bytes. If room
	 * is set, rr_eng_head() needs the whole message in one piece, in the driver's memory,
	 * and RR_OP_COMPOSE may follow for a message of at most room bytes. */
	uint32_t head, room;
	/* RR_OP_COMPOSE: the message has len bytes. parts[i].len of them at parts[i].off come
	 * by RDMA Read from segs, in this order, followed by zeroes up to a multiple of four.
	 * All other bytes, in this order, are the payload stream: `stream` bytes at off of the
	 * receive token (from is RR_FROM_RECV), or what the pull with this id has fetched
	 * (RR_FROM_PULL). The message is delivered as that pull. RR_OP_PLACE: the message must
	 * end up at buf[at..at+len). parts[0] is there already; around it go, as above, zeroes
	 * and the stream, from off of the receive token. RR_OP_SEND: see there. RR_OP_DELIVER
	 * with RR_FROM_RECV: these ranges of the bytes at off are padding to be left out; len
	 * counts the others. Valid as long as segs. */
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

/* Puts the next operation into *op. False: there is none. */
bool rr_eng_next_op(struct rr_eng *e, struct rr_op *op);

/* A SEND, WRITE or INVALIDATE has ended with status 0 or -errno. */
void rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now);

/* An EXPOSE has ended. 0: the range (of the new buf, if RR_BUF_NEW was asked for) lies at
 * segs[0..n), n at most 8, and has exactly the length asked for. -EAGAIN: no memory or key now:
 * it is tried again (rr_eng_deadline()). -ENOMEM for a new buf: there will never be so much.
 * The call then goes without that chunk for its reply; with ring credits after -EAGAIN as well,
 * because there the memory may be held by calls that are never answered. */
void rr_eng_exposed(struct rr_eng *e, uint32_t id, int status, uint32_t buf,
		    const struct rr_seg *segs, uint32_t n, rr_time now);

/* A PULL has its first n bytes (as many as the operation's head says, or all of a shorter
 * message), or has failed. The engine judges them. Either RR_OP_COMPOSE or RR_OP_DELIVER with
 * RR_FROM_PULL follows; or the message is refused, and the driver drops the pull at
 * RR_OP_RELEASE with buf = RR_BUF_NONE and this id: after taking the next operation it no
 * longer touches the peer's memory. */
void rr_eng_head(struct rr_eng *e, uint32_t id, int status, const uint8_t *head, uint32_t n,
		 rr_time now);

/* As rr_eng_head() for a PULL without room, while the driver still fetches the rest. If the
 * message is accepted, RR_OP_DELIVER follows, and nothing that has come later is delivered
 * before rr_eng_pulled(); nor is the message's own reply taken, because with the reply the peer
 * takes its memory back. If it is refused, RR_OP_RELEASE comes after rr_eng_pulled() only. */
void rr_eng_front(struct rr_eng *e, uint32_t id, const uint8_t *head, uint32_t n, rr_time now);

/* All of a PULL or COMPOSE has been copied from the peer's memory, or it has failed: the peer's
 * memory is not touched again. The engine then sends DONE if one is due. */
void rr_eng_pulled(struct rr_eng *e, uint32_t id, int status, rr_time now);

/* If nothing is in progress (no message, no unanswered call that the engine remembers, nothing
 * exposed, no operation left), returns how many of the first bytes of rr_eng_init()'s memory
 * matter: any part of the rest may be lost, that is, read as zeroes afterwards. 0: all of it is
 * needed. */
size_t rr_eng_quiet(struct rr_eng *e);

/* For tests and rdmarpc-stat: a snapshot. */
struct rr_eng_info {
	uint32_t granted;	/* credits granted to us by the peer */
	uint32_t inflight;	/* our calls without reply */
	uint32_t serving;	/* the peer's calls without reply */
	uint32_t exposed;	/* bytes of reliable replies */
	uint32_t window;
	uint32_t version;	/* of the headers at present */
	bool opening;		/* the opening is not over */
	bool fell_back;		/* the peer did not speak the dialect that was tried first */
};
void rr_eng_info(const struct rr_eng *e, struct rr_eng_info *out);

#endif
