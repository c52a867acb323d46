/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_QUEUES_H
#define RR_ENGINE_QUEUES_H

/* The engine's lower floor: queues and entries, by what all others say what they want done.
 * Nothing here calls what is in engine_int.h. */

#include "core/engine/state.h"

static inline void rr_eng_count(struct rr_eng *e, enum rr_counter c)
{
	rr_count(e->count, c, 1);
}

/* The reverse direction without agreement is inline or nothing (RFC 8167 §5.3). */
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

/* What there is to be said against in, should anything be. False, for its callers to return. */
static inline bool rr_in_wrong(struct rr_in *in, enum rr_errcode err, uint32_t arm0,
			       uint32_t arm1)
{
	in->err = err;
	in->arm[0] = arm0;
	in->arm[1] = arm1;
	return false;
}

/* --- queue.c --- */

void rr_eng_push(struct rr_eng *e, enum rr_opcode code, uint32_t id, uint32_t buf, uint32_t inv,
		 uint16_t in);
/* The oldest that is queued, into op; false: there is none. */
bool rr_eng_next_queued(struct rr_eng *e, struct rr_op *op);
/* The connection is to end; the first reason counts. */
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

/* --- entry.c --- */

/* An entry for what has come in the receive token. NULL: there is none. */
struct rr_in *rr_in_new(struct rr_eng *e, uint32_t token);
/* An entry for what we say unasked. NULL: there is none. */
struct rr_in *rr_in_own(struct rr_eng *e, uint32_t xid);
/* The chunks that came with in are needed no more. */
void rr_in_forget_chunks(struct rr_eng *e, struct rr_in *in);
/* in is over: gives its receive back, forgets it. */
void rr_in_drop(struct rr_eng *e, struct rr_in *in);
void rr_in_discard(struct rr_eng *e, struct rr_in *in);	/* the same, counted */
void rr_in_repost(struct rr_eng *e, struct rr_in *in);
/* in joins the queue of deliveries, in this state. */
void rr_in_arrive(struct rr_eng *e, struct rr_in *in, enum rr_in_state state);
/* RR_OP_PULL or RR_OP_COMPOSE of in, now or when the peer can serve so many RDMA Reads. */
void rr_in_read(struct rr_eng *e, struct rr_in *in, enum rr_opcode code);
/* It has ended: the next that waits may begin. */
void rr_in_read_over(struct rr_eng *e, struct rr_in *in);

/* --- control.c --- */

void rr_ctl_error(struct rr_eng *e, struct rr_in *in, enum rr_errcode err);
/* The same with what rr_in_wrong() has put there. */
void rr_ctl_refuse(struct rr_eng *e, struct rr_in *in);
void rr_ctl_done(struct rr_eng *e, struct rr_in *in);
/* An error for a call that has been answered by the app. False: no room. */
bool rr_ctl_error_for(struct rr_eng *e, uint32_t xid, enum rr_errcode err, uint32_t arm0,
		      uint32_t arm1);
/* Errors in a call are answered, errors in a reply are discarded (RFC 8166 §4.5), and where
 * neither dir nor the message can say which it is, the connection's direction decides: we
 * accept calls or make them. */
void rr_in_refuse(struct rr_eng *e, struct rr_in *in, enum rr_dir dir, enum rr_errcode err);
/* The same with what rr_in_wrong() has put there. */
void rr_in_unfit(struct rr_eng *e, struct rr_in *in, enum rr_dir dir);

/* --- tx.c --- */

/* The entry of a message of the app's, where rr_tx_room() has said that there is one. */
struct rr_out *rr_tx_new(struct rr_eng *e, const struct rr_eng_out *out, enum rr_tx_form form);
bool rr_tx_room(const struct rr_eng *e);
/* The header in e->tx into op. */
void rr_tx_encode(struct rr_eng *e, struct rr_op *op);

/* --- mem.c --- */

/* Fences m: true if that is done (nothing exposed, or the peer invalidated its one key),
 * false if RR_OP_INVALIDATE with this id is out. */
bool rr_mem_fence(struct rr_eng *e, struct rr_mem *m, uint32_t id);
/* The peer has invalidated this key; false if it is none of m's. */
bool rr_mem_key_gone(struct rr_mem *m, uint32_t handle);
/* Takes what rr_eng_exposed() says; false if it cannot be used. */
bool rr_mem_set(struct rr_mem *m, uint32_t buf, uint32_t len, const struct rr_seg *segs,
		uint32_t n);

/* --- dialect.c --- */

/* Does the transport header say of its direction what the RPC message says (enum rr_rpc_type)?
 * Where dialects leave that to the message alone it always does. */
bool rr_dialect_agrees(const struct rr_eng *e, const struct rr_msg *m, uint32_t type);
/* The header of a message of ours, call or reply: its direction. */
void rr_dialect_mark(const struct rr_eng *e, struct rr_msg *m, bool call);

/* --- agree.c --- */

/* Headers are this codec's from now on, and this row of the table says what else is
 * different. */
void rr_eng_speak(struct rr_eng *e, const struct rr_codec *codec,
		  const struct rr_traits *traits);
/* Are chunks in reverse calls a matter of agreement, and wanted? */
bool rr_eng_may_reverse(const struct rr_eng *e);
/* Speaks version vers from now on instead; false if that is not possible. Reliable replies were
 * a matter of the opening: there are none. */
bool rr_eng_fall_back(struct rr_eng *e, uint32_t vers);
/* Both sides have said what they can: reliable replies, and chunks in reverse calls. */
void rr_eng_agreed(struct rr_eng *e, bool reliable, bool reverse_chunks);

#endif
