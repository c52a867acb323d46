/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_INT_H
#define RR_ENGINE_INT_H

/* What the files of the engine call of each other, from the lowest to the highest: each file
 * calls only those that stand above it here, and the queues (queues.h). */

#include "core/engine/queues.h"

/* --- reduce_reply.c --- */

/* Do these Write chunks of a reply say that something was written to them? */
bool rr_writes_used(const struct rr_wchunk *w, uint32_t n, const struct rr_seg *segs);
/* Does w repeat our segments of m, with lengths that are not larger, filled from the front (RFC
 * 8166 §4.3.2.2, §4.3.3)? Adds to *used how many bytes they hold. */
bool rr_writes_ours(const struct rr_chunks *ch, const struct rr_wchunk *w,
		    const struct rr_mem *m, uint32_t *used);
/* Judges the reply to a call that offered a Write chunk, by its payload stream, each word of
 * which is read once. Notes in `in` where the message will lie. False: the RPC has failed (RFC
 * 8166 §6.1). */
bool rr_writes_judge(const struct rr_call *c, struct rr_in *in, const struct rr_chunks *ch,
		     const uint8_t *stream);
/* Decides which parts of a reply to s are written to its Write chunks. False: a chunk is too
 * small. */
bool rr_writes_plan(struct rr_serve *s, const struct rr_eng_out *out);
/* Adds the call's Write list and Reply chunk with the lengths that were used (RFC 8166
 * §4.3.2.2, §4.3.3); of the Reply chunk, `used` bytes. */
void rr_writes_return(struct rr_chunks *ch, const struct rr_serve *s, uint32_t used);
/* How many RDMA Writes a reply of len bytes needs before its Send. */
uint32_t rr_writes_count(const struct rr_serve *s, uint32_t len, bool reply_chunk);
/* Fills the i-th of them into op and e->tmp->wsegs; the message has len bytes. */
void rr_writes_op(struct rr_eng *e, const struct rr_serve *s, uint32_t i, uint32_t len,
		  struct rr_op *op);
/* Fills into op and e->tmp->parts which bytes of the message its Send carries. */
void rr_writes_rest(struct rr_eng *e, const struct rr_serve *s, uint32_t len, struct rr_op *op);
/* The same as a Position-Zero Read chunk, if all of the message is exposed at m. */
void rr_writes_show(struct rr_chunks *ch, const struct rr_serve *s, const struct rr_mem *m);
/* The bytes that the call's chunk w holds. */
uint32_t rr_writes_room(const struct rr_serve *s, const struct rr_wchunk *w);

/* --- invalidate.c --- */

/* Keeps which handles of a call's chunks its reply may invalidate. */
void rr_inv_keep(const struct rr_eng *e, struct rr_serve *s, const struct rr_in *in,
		 const struct rr_chunks *ch);
/* The same for a message that is to be pulled. */
void rr_inv_arrived(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);
/* Makes the Send of this call's reply invalidate one of them at the requester, if it may. */
void rr_inv_reply(struct rr_eng *e, const struct rr_serve *s, struct rr_op *op);
/* The same for the DONE of a reply that was pulled. */
void rr_inv_done(struct rr_eng *e, const struct rr_in *in, struct rr_op *op);
/* The handle of this call, or of this exposed reply, that the peer may invalidate if it was
 * invited to do so (rr_eng_params.invited); 0: none. */
uint32_t rr_inv_offer(const struct rr_eng *e, const struct rr_call *c,
		      const struct rr_shown *s);

/* --- padding.c --- */

/* The peer's receives are aligned to this: pads calls of ours to it, if any are padded. */
void rr_pad_to(struct rr_eng *e, uint32_t align);
/* Pads a call that goes inline and without chunks, if that is possible and wanted. */
void rr_pad_call(const struct rr_eng *e, const struct rr_eng_out *out, struct rr_out *t);
/* Fills in what its Send carries after the header. */
void rr_pad_parts(struct rr_eng *e, const struct rr_out *t, struct rr_op *op);
/* Finds the padding of an RDMA_MSGP (tmp->rx), each word of whose stream is read once. False:
 * that is not possible. */
bool rr_pad_in_call(struct rr_eng *e, struct rr_in *in, const uint8_t *stream);
bool rr_pad_in_reply(struct rr_eng *e, const struct rr_call *c, struct rr_in *in,
		     const uint8_t *stream);

/* --- plan.c --- */

/* Plans how a call travels. With reliable replies, a plan only says whether the call fits
 * inline, because a reply that does not fit is pulled. If the policy says so, it also has
 * memory for replies whose bound is known. */
void rr_plan(const struct rr_eng *e, const struct rr_eng_out *out, struct rr_plan *p);

/* --- again.c --- */

/* The entry of the call's Send, which is kept. */
static inline struct rr_out *rr_again_tx(const struct rr_eng *e, const struct rr_call *c)
{
	return rr_table_at(&e->txs, c->tx);
}

bool rr_again_keeps(const struct rr_eng *e, const struct rr_plan *p);
void rr_again_send(struct rr_eng *e, struct rr_call *c);
/* A call that was kept has ended. */
void rr_again_over(struct rr_eng *e, struct rr_call *c);

/* --- reliable_reply.c --- */

bool rr_rel_room(const struct rr_eng *e, uint32_t len);
/* Reserves an entry for a reply of len bytes. Returns 0 and the entry in *out, or
 * -EAGAIN. */
int rr_rel_reserve(struct rr_eng *e, uint32_t xid, uint32_t len, struct rr_shown **out);
bool rr_rel_key_gone(struct rr_eng *e, uint32_t handle);
void rr_rel_sent(struct rr_eng *e, struct rr_shown *s);
void rr_rel_done_received(struct rr_eng *e, struct rr_in *in);
void rr_rel_fenced(struct rr_eng *e, struct rr_shown *s);
void rr_rel_tick(struct rr_eng *e);
rr_time rr_rel_deadline(const struct rr_eng *e);

/* --- responder.c --- */

int rr_resp_send(struct rr_eng *e, const struct rr_eng_out *out);
bool rr_resp_writable(const struct rr_eng *e);
/* Would a long reply to this call be exposed, for the peer to pull? */
bool rr_resp_exposes(const struct rr_eng *e, uint32_t xid);
uint32_t rr_resp_grant(const struct rr_eng *e);
/* Keeps the chunks of what may be a call. False: there is no room, and the connection has been
 * failed. */
bool rr_resp_keep(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);
/* A call that was being fetched is here: its reply can go. */
void rr_resp_fetched(struct rr_eng *e);
/* A call is in the queue of deliveries and its chunks are kept: it counts from now on. */
bool rr_resp_call(struct rr_eng *e, struct rr_in *in);
/* reads: number of Read chunks. False: the fault is noted in `in`, as by all functions that
 * judge its chunks. */
bool rr_resp_within_limits(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch,
			   uint32_t reads);
/* Does our side accept chunks in the calls that it receives? */
bool rr_resp_takes_chunks(const struct rr_eng *e);
/* Does it accept these? */
bool rr_resp_takes(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);

/* --- reduce_call.c --- */

/* Keeps the Read list of a message in `in`. False: it exceeds the limits. */
bool rr_reads_take(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);
/* Judges a call with Write chunks, or with Read chunks besides the Position-Zero one, by its
 * payload stream, of which `have` bytes are at stream. Each word is read once, so they need not
 * be copied first. False: the call must not be executed. Otherwise its serve knows the binding
 * if it needs it, and parts, segs, stream and len of `in` are set as for RR_OP_COMPOSE. */
bool rr_reads_judge(struct rr_eng *e, struct rr_in *in, const uint8_t *stream, uint32_t have,
		    uint32_t len);
/* The same for a reply to c, whose stream is there completely. */
bool rr_reads_judge_reply(struct rr_eng *e, const struct rr_call *c, struct rr_in *in,
			  const uint8_t *stream, uint32_t len);
void rr_reads_compose(struct rr_eng *e, struct rr_in *in);

/* --- requester.c --- */

int rr_req_send(struct rr_eng *e, const struct rr_eng_out *out);
bool rr_req_writable(const struct rr_eng *e);
/* stream: the receive's own bytes, which the peer may still write to. */
void rr_req_reply_inline(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch,
			 const uint8_t *stream);
void rr_req_reply_chunk(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch);
bool rr_req_key_gone(struct rr_eng *e, uint32_t handle);
/* `in` is a reply in Read chunks that must be pulled, and is in the queue of deliveries
 * already. `have` bytes of its payload stream are at head: all of them if it has further Read
 * chunks. False: it is not acceptable. */
bool rr_req_reply_pulled(struct rr_eng *e, struct rr_in *in, const uint8_t *head,
			 uint32_t have);
/* When the oldest call may be forgotten, if an app's message waits for that; or when the wait
 * for a credit ends. */
rr_time rr_req_deadline(const struct rr_eng *e);
void rr_req_tick(struct rr_eng *e);
/* A call has just been refused. */
void rr_req_stalled(struct rr_eng *e);
/* ERR_CHUNK has come for c: what that means for later calls of its procedure. */
enum rr_eng_why rr_req_refused(struct rr_eng *e, const struct rr_call *c);
/* Takes back what the call has exposed, and then sends it again. */
void rr_req_withdraw(struct rr_eng *e, struct rr_call *c);
void rr_req_fenced(struct rr_eng *e, struct rr_call *c, enum rr_op_kind which);

/* --- amend.c --- */

/* An error has come for c. Returns why the connection ends, or RR_WHY_NONE. */
enum rr_eng_why rr_amend_error(struct rr_eng *e, struct rr_call *c, const struct rr_msg *m);

/* --- opening.c --- */

extern const struct rr_opening rr_opening_v2;
void rr_open_begin(struct rr_eng *e);
void rr_open_next_op(struct rr_eng *e, const struct rr_in *in, struct rr_op *op);
void rr_open_tick(struct rr_eng *e);
/* Bytes have arrived and are not decoded yet. */
void rr_open_version(struct rr_eng *e, const uint8_t *buf, uint32_t len);
/* A reverse call with chunks has come, so replies to the peer may have chunks, too. */
void rr_open_infer(struct rr_eng *e, const struct rr_chunks *ch);
/* True: `in` has been dealt with completely. */
bool rr_open_heard(struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc, uint32_t have);
void rr_open_over(struct rr_eng *e);
/* A word of ours is due in answer to `in`. */
void rr_open_answer(struct rr_eng *e, struct rr_in *in);

/* --- conf_rdma.c --- */

extern const struct rr_opening rr_opening_ccp;
/* A call of program ccp_prog has arrived, its message at stream. True: it is not for the
 * app. */
bool rr_ccp_taken(struct rr_eng *e, struct rr_in *in, const uint8_t *stream);

/* --- inbound.c --- */

bool rr_in_next_op(struct rr_eng *e, struct rr_op *op);
void rr_in_nomsg(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m);
/* live: the receive's own bytes, which the peer may still write to. */
void rr_in_msg(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m, const uint8_t *live,
	       uint32_t len, uint32_t have);

/* --- errors.c --- */

bool rr_ctl_next_op(struct rr_eng *e, struct rr_op *op);
void rr_ctl_error_received(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m);

/* --- outbound.c --- */

bool rr_tx_next_op(struct rr_eng *e, struct rr_op *op);
void rr_tx_done(struct rr_eng *e, struct rr_out *t);

/* --- traits.c --- */

const struct rr_traits *rr_traits_of(const struct rr_codec *codec);

#endif
