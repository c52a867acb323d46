/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_QUEUES_H
#define RR_ENGINE_QUEUES_H

/* The engine's lower floor: queues and entries, through which all other files say what they
 * want done. Nothing here calls functions of engine_int.h. */

#include "core/engine/engine_state.h"

static inline void rr_eng_count(struct rr_eng *e, enum rr_counter c)
{
	rr_count(e->count, c, 1);
}

/* Without agreement, messages of the reverse direction go inline or not at all (RFC 8167
 * §5.3). */
static inline bool rr_req_may_use_chunks(const struct rr_eng *e)
{
	return e->p.connector || e->reverse_chunks;
}

/* draft-02 §3.4: may a reply have Read chunks, at any position? */
/* req: rfc8166 4.2.4 #3; reliable-reply-00 - #10 */
static inline bool rr_req_takes_reads(const struct rr_eng *e)
{
	return e->traits->read_replies && e->p.connector;
}

/* Notes what is wrong with `in`, in case an error must be sent. Returns false, for callers to
 * return. */
static inline bool rr_in_wrong(struct rr_in *in, enum rr_errcode err, uint32_t arm0,
			       uint32_t arm1)
{
	in->err = err;
	in->arm[0] = arm0;
	in->arm[1] = arm1;
	return false;
}

/* --- op_queue.c --- */

void rr_eng_push(struct rr_eng *e, enum rr_opcode code, uint32_t id, uint32_t buf, uint32_t inv,
		 uint16_t in);
/* Moves the oldest queued operation to op. False: there is none. */
bool rr_eng_next_queued(struct rr_eng *e, struct rr_op *op);
/* Makes the connection end; the first reason counts. */
void rr_eng_fail(struct rr_eng *e, enum rr_eng_why why);
/* The same for an operation that has failed with this -errno of the provider's. */
void rr_eng_fail_op(struct rr_eng *e, int status);

/* True in most cases: this is asked once after each message, in each direction. */
static inline bool rr_eng_nothing_to_do(const struct rr_eng *e)
{
	return e->ops_head == e->ops_tail &&
	       !(e->arrived.head | e->control.head | e->unsent.head | e->failed);
}

static inline void rr_eng_release(struct rr_eng *e, uint32_t buf)
{
	rr_eng_push(e, RR_OP_RELEASE, 0, buf, 0, 0);
}

/* --- entry.c --- */

/* An entry for what has arrived in the receive token. NULL: the table is full. */
struct rr_in *rr_in_new(struct rr_eng *e, uint32_t token);
/* An entry for something that we say unasked. NULL: the table is full. */
struct rr_in *rr_in_own(struct rr_eng *e, uint32_t xid);
/* Frees the chunks that came with `in`. */
void rr_in_forget_chunks(struct rr_eng *e, struct rr_in *in);
/* Ends `in`: gives its receive back and frees the entry. */
void rr_in_drop(struct rr_eng *e, struct rr_in *in);
void rr_in_discard(struct rr_eng *e, struct rr_in *in);	/* the same, and counts it */
void rr_in_repost(struct rr_eng *e, struct rr_in *in);
/* Puts `in` into the queue of deliveries, in this state. */
void rr_in_arrive(struct rr_eng *e, struct rr_in *in, enum rr_in_state state);
/* Queues RR_OP_PULL or RR_OP_COMPOSE for `in`, now or when the peer can serve one more RDMA
 * Read. */
void rr_in_read(struct rr_eng *e, struct rr_in *in, enum rr_opcode code);
/* The operation has ended: the next one that waits may begin. */
void rr_in_read_over(struct rr_eng *e, struct rr_in *in);

/* --- control.c --- */

void rr_ctl_error(struct rr_eng *e, struct rr_in *in, enum rr_errcode err);
/* The same with the fault that rr_in_wrong() has noted. */
void rr_ctl_refuse(struct rr_eng *e, struct rr_in *in);
void rr_ctl_done(struct rr_eng *e, struct rr_in *in);
/* An error for a call that the app has answered already. False: the table is full. */
bool rr_ctl_error_for(struct rr_eng *e, uint32_t xid, enum rr_errcode err, uint32_t arm0,
		      uint32_t arm1);
/* Refuses `in`. Errors in a call are answered and errors in a reply discarded (RFC 8166 §4.5).
 * If neither dir nor the message says which it is, the connection's direction decides: we
 * either accept calls or make them. */
void rr_in_refuse(struct rr_eng *e, struct rr_in *in, enum rr_dir dir, enum rr_errcode err);
/* The same with the fault that rr_in_wrong() has noted. */
void rr_in_unfit(struct rr_eng *e, struct rr_in *in, enum rr_dir dir);

/* --- tx.c --- */

/* An entry for a message of the app; rr_tx_room() must have said that there is one. */
struct rr_out *rr_tx_new(struct rr_eng *e, const struct rr_eng_out *out, enum rr_tx_form form);
bool rr_tx_room(const struct rr_eng *e);
/* Encodes the header in e->tmp->tx for op. */
void rr_tx_encode(struct rr_eng *e, struct rr_op *op);

/* --- mem.c --- */

/* Fences m. True: done (nothing was exposed, or the peer has invalidated the only key); false:
 * RR_OP_INVALIDATE with this id is queued. */
bool rr_mem_fence(struct rr_eng *e, struct rr_mem *m, uint32_t id);
/* The peer has invalidated this key. False: it is not one of m's. */
bool rr_mem_key_gone(struct rr_mem *m, uint32_t handle);
/* Takes the result of rr_eng_exposed(). False: it cannot be used. */
bool rr_mem_set(struct rr_mem *m, uint32_t buf, uint32_t len, const struct rr_seg *segs,
		uint32_t n);

/* --- dialect.c --- */

/* Does the transport header agree with the RPC message about the direction (enum rr_rpc_type)?
 * Always true in dialects whose header does not say. */
bool rr_dialect_agrees(const struct rr_eng *e, const struct rr_msg *m, uint32_t type);
/* Sets the direction in the header of a message of ours. */
void rr_dialect_mark(const struct rr_eng *e, struct rr_msg *m, bool call);

/* --- agree.c --- */

/* Headers are this codec's from now on, and traits says what else is different. */
void rr_eng_speak(struct rr_eng *e, const struct rr_codec *codec,
		  const struct rr_traits *traits);
/* Are chunks in reverse calls subject to agreement, and wanted? */
bool rr_eng_may_reverse(const struct rr_eng *e);
/* Goes on in version vers. False: that is not possible. Reliable replies are agreed on in the
 * opening, so there are none then. */
bool rr_eng_fall_back(struct rr_eng *e, uint32_t vers);
/* Both sides have said what they can do: reliable replies, and chunks in reverse calls. */
void rr_eng_agreed(struct rr_eng *e, bool reliable, bool reverse_chunks);

#endif
