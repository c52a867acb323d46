/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages from the peer, from their arrival to their delivery. They are delivered in order of
 * arrival: one whose direction is not known yet, or whose call's memory is still being fenced,
 * holds back those behind it. Credits and chunks are judged in requester.c, responder.c and
 * reduce_call.c. */

#include "core/engine/call.h"
#include "core/engine/engine_int.h"
#include "core/wire/cursor.h"

/* The direction of the message, as far as it can be read. */
static enum rr_dir dir_of(const uint8_t *head, uint32_t have)
{
	uint32_t type = have >= 8 ? rr_be32(head + 4) : UINT32_MAX;

	if (type == RR_RPC_CALL)
		return RR_DIR_CALL;
	return type == RR_RPC_REPLY ? RR_DIR_REPLY : RR_DIR_UNKNOWN;
}

/* May a call with these chunks be accepted? A message that is inline cannot be in a
 * Position-Zero Read chunk as well. */
static bool acceptable(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	if (!rr_resp_takes(e, in, ch) || !rr_reads_take(e, in, ch))
		return false;
	if (unlikely(e->infer))
		rr_open_infer(e, ch);
	return in->nsegs == 0 || rr_in_wrong(in, RR_ERR_BAD_XDR, 0, 0);
}

/* Does the payload stream agree with the binding? Asked only where something depends on that:
 * padding, Read chunks, or Write chunks for the reply. */
static bool judged(struct rr_eng *e, struct rr_in *in, const uint8_t *stream)
{
	if (e->tmp->rx.type == RR_MSGP)
		return rr_pad_in_call(e, in, stream);
	return rr_reads_judge(e, in, stream, in->len, in->len);
}

/* A call whose payload stream is in the Send. */
/* req: rfc8166 6.1 #2 */
static void call_inline(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch,
			const uint8_t *stream)
{
	if (unlikely(e->p.ccp_prog) && in->rpc.prog == e->p.ccp_prog &&
	    rr_ccp_taken(e, in, stream))
		return;
	if (!acceptable(e, in, ch)) {
		rr_ctl_refuse(e, in);
		return;
	}
	if (!rr_resp_keep(e, in, ch))
		return;
	if (unlikely(ch->nwrites || in->nparts || e->tmp->rx.type == RR_MSGP) &&
	    !judged(e, in, stream)) {
		rr_ctl_error(e, in, RR_ERR_CHUNK);
		return;
	}
	if (!rr_resp_call(e, in))
		return;
	rr_in_arrive(e, in, RR_IN_READY);
	if (unlikely(in->nparts))
		rr_reads_compose(e, in);
}

/* req: rfc8166 4.2.1 #1; rfc8167 5.1 #2 #3, 5.2 #2 #3 */
void rr_in_msg(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m, const uint8_t *live,
	       uint32_t len, uint32_t have)
{
	const uint8_t *head = e->tmp->rxbuf + m->hdr_len;

	have -= m->hdr_len;
	in->off = m->hdr_len;
	in->len = len - m->hdr_len;
	if (!rr_rpc_peek(head, have, &in->rpc) || in->rpc.xid != m->xid ||
	    !rr_dialect_agrees(e, m, in->rpc.type))
		rr_in_refuse(e, in, m->dir ? m->dir : dir_of(head, have), RR_ERR_CHUNK);
	else if (in->rpc.type == RR_RPC_CALL)
		call_inline(e, in, &m->ch, live + m->hdr_len);
	else
		rr_req_reply_inline(e, in, &m->ch, live + m->hdr_len);
}

/* --- messages that are to be pulled ---------------------------------------------------- */

/* Can it be refused already by what the header says of its direction? */
static bool pullable(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	if (in->dir == RR_DIR_CALL && !rr_resp_takes(e, in, ch))
		return false;
	if (in->dir == RR_DIR_REPLY && !e->reliable)
		return false;
	if (!rr_reads_take(e, in, ch))
		return false;
	if (unlikely(e->infer) && in->dir == RR_DIR_CALL)
		rr_open_infer(e, ch);
	return in->len || rr_in_wrong(in, RR_ERR_BAD_XDR, 0, 0);
}

/* RFC 8167 §4.1: is it a call or a late reply? Only the head of the message itself tells, and
 * until then the credit value means nothing, either. Read chunks at other positions wait for
 * that. */
static void start_pull(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	if (!pullable(e, in, ch)) {
		rr_in_unfit(e, in, in->dir);
		return;
	}
	if (!rr_resp_keep(e, in, ch))
		return;
	in->from = RR_FROM_PULL;
	rr_inv_arrived(e, in, ch);
	rr_in_arrive(e, in, RR_IN_PULL);
	rr_in_read(e, in, RR_OP_PULL);
	if (!e->ring)
		/* credits bound the pulls; with ring credits, receives do */
		rr_in_repost(e, in);
}

/* req: rfc8166 4.2.4 #2 */
void rr_in_nomsg(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m)
{
	const struct rr_chunks *ch = &m->ch;
	uint64_t len = 0;

	if (ch->nreads) {
		start_pull(e, in, ch);
		return;
	}
	for (uint32_t i = 0; i < ch->reply.nsegs; i++)
		len += ch->segs[ch->reply.first + i].length;
	if (len > 0)	/* in a Reply chunk, where only a reply can be */
		rr_req_reply_chunk(e, in, ch);
	else
		rr_in_refuse(e, in, m->dir, RR_ERR_CHUNK);
}

/* May it be refused now? What follows from that tells the peer that its memory is not read any
 * more, so a message that is still being fetched is refused when all of it is here. */
static bool refuses_now(struct rr_in *in, enum rr_dir dir)
{
	in->refused = dir;
	return !in->fetching;
}

/* The pull is refused: the driver ends it before it carries out anything that follows. */
static void end_pull(struct rr_eng *e, struct rr_in *in)
{
	rr_eng_push(e, RR_OP_RELEASE, rr_id(RR_K_PULL, &in->n), RR_BUF_NONE, 0, 0);
	rr_in_read_over(e, in);
	rr_list_del(&e->arrived, &e->ins, in);
	rr_in_repost(e, in);
}

/* reliable-reply-00, pull completion: DONE is sent whether or not anybody waited for the reply.
 * A peer with which this is not agreed is told nothing (RFC 8166 §4.6.2). */
/* req: rfc8166 4.6.2 #1; reliable-reply-00 - #4 */
static void refuse_reply(struct rr_eng *e, struct rr_in *in)
{
	if (!refuses_now(in, RR_DIR_REPLY))
		return;
	end_pull(e, in);
	if (e->pulls)
		rr_ctl_done(e, in);
	else
		rr_in_discard(e, in);
}

/* req: rfc8166 6.1 #3 */
static void refuse_call(struct rr_eng *e, struct rr_in *in)
{
	if (!refuses_now(in, RR_DIR_CALL))
		return;
	end_pull(e, in);
	rr_ctl_error(e, in, RR_ERR_CHUNK);
}

/* A reply that is refused leaves its XID pending (RFC 8166 §4.3.1). */
/* req: rfc8166 4.3.1 #1 */
static void judge_reply(struct rr_eng *e, struct rr_in *in, const uint8_t *head, uint32_t n)
{
	bool ok = e->reliable ? !in->nparts : rr_req_takes_reads(e);

	if (ok && !e->ring && !rr_call_find(e, in->n.xid)) {
		rr_eng_count(e, RR_C_unknown_xid);
		ok = false;
	}
	if (ok)
		ok = rr_req_reply_pulled(e, in, head, n);
	if (!ok)
		refuse_reply(e, in);
}

/* Must the binding of this call be asked? */
static bool asks_binding(const struct rr_eng *e, const struct rr_in *in)
{
	const struct rr_serve *s = in->serve ? rr_table_at(&e->serves, in->serve) : NULL;

	return in->nparts || (s && s->nwrites);
}

/* The message is known to be a call now. Its chunks were kept when it arrived; whether they may
 * be there at all depends on the direction, so that is asked here. */
static void judge_call(struct rr_eng *e, struct rr_in *in, const uint8_t *head, uint32_t n)
{
	if (!rr_resp_takes_chunks(e) ||
	    (asks_binding(e, in) && !rr_reads_judge(e, in, head, n, in->len))) {
		refuse_call(e, in);
		return;
	}
	if (!rr_resp_call(e, in))
		return;
	in->state = RR_IN_READY;
	if (in->nparts)
		rr_reads_compose(e, in);
}

/* The head is not that of an RPC message, or contradicts the transport header. */
static void judge_bad(struct rr_eng *e, struct rr_in *in, const uint8_t *head, uint32_t n)
{
	enum rr_dir dir = in->dir ? in->dir : dir_of(head, n);

	if (dir == RR_DIR_REPLY || (dir == RR_DIR_UNKNOWN && e->p.connector))
		refuse_reply(e, in);
	else
		refuse_call(e, in);
}

/* The message of this pull, if it waits to be judged; NULL. */
static struct rr_in *to_judge(struct rr_eng *e, uint32_t id)
{
	struct rr_in *in = rr_table_find(&e->ins, (id >> 16) & RR_TABLE_MAX, (uint16_t)id);

	return in && in->state == RR_IN_PULL && !e->failed ? in : NULL;
}

/* head may lie in memory that the peer can still write to, so the RPC header is copied before
 * it is judged. What is judged in place has each of its words read once only. */
static void judge_head(struct rr_eng *e, struct rr_in *in, const uint8_t *head, uint32_t n)
{
	uint32_t peek;

	n = rr_min(n, in->len);
	peek = rr_min(n, RR_RPC_PEEK);
	memcpy(e->tmp->rxbuf, head, peek);
	if (!rr_rpc_peek(e->tmp->rxbuf, peek, &in->rpc) || in->rpc.xid != in->n.xid ||
	    (unlikely(e->traits->directed) && in->dir != dir_of(e->tmp->rxbuf, peek)))
		judge_bad(e, in, e->tmp->rxbuf, peek);
	else if (in->rpc.type == RR_RPC_CALL)
		judge_call(e, in, head, n);
	else
		judge_reply(e, in, head, n);
}

void rr_eng_head(struct rr_eng *e, uint32_t id, int status, const uint8_t *head, uint32_t n,
		 rr_time now)
{
	struct rr_in *in = to_judge(e, id);

	e->now = now;
	if (!in)
		return;
	if (status < 0)
		rr_eng_fail_op(e, status);
	else
		judge_head(e, in, head, n);
}

void rr_eng_front(struct rr_eng *e, uint32_t id, const uint8_t *head, uint32_t n, rr_time now)
{
	struct rr_in *in = to_judge(e, id);

	e->now = now;
	if (!in)
		return;
	in->fetching = true;
	judge_head(e, in, head, n);
}

/* req: reliable-reply-00 - #3; draft-02 3.6 #1; rfc8166 4.6.2 #1 */
static void finish_pull(struct rr_eng *e, struct rr_in *in)
{
	rr_in_repost(e, in);
	if (in->done_due)
		rr_ctl_done(e, in);
	else
		rr_table_put(&e->ins, in);
}

/* All of a message is here that was judged by its front. What has waited for that goes on: the
 * messages behind it, and its own reply. False: it is refused, which has waited as well. */
static bool is_fetched(struct rr_eng *e, struct rr_in *in)
{
	in->fetching = false;
	if (in->refused == RR_DIR_CALL) {
		refuse_call(e, in);
	} else if (in->refused == RR_DIR_REPLY) {
		refuse_reply(e, in);
	} else if (in->state == RR_IN_PULLING) {
		rr_list_del(&e->arrived, &e->ins, in);
		rr_resp_fetched(e);
	}
	return in->refused == RR_DIR_UNKNOWN;
}

/* The peer's memory is not touched any more, so a DONE may go out now. A message may have been
 * handed to the app before that (RR_IN_PULLING): then it ends here. */
void rr_eng_pulled(struct rr_eng *e, uint32_t id, int status, rr_time now)
{
	struct rr_in *in = rr_table_find(&e->ins, (id >> 16) & RR_TABLE_MAX, (uint16_t)id);

	e->now = now;
	if (!in || in->from != RR_FROM_PULL || in->state > RR_IN_PULLING || e->failed)
		return;
	/* A message that waits for its turn to be read has not been fetched. */
	if (unlikely(in->waits))
		return;
	if (status < 0) {
		rr_eng_fail_op(e, status);
		return;
	}
	in->pulled = true;
	in->composing = false;
	rr_in_read_over(e, in);
	if (in->fetching && !is_fetched(e, in))
		return;
	if (in->state == RR_IN_COMPOSE)
		in->state = RR_IN_READY;
	else if (in->state == RR_IN_PULLING)
		finish_pull(e, in);
}

/* --- delivery -------------------------------------------------------------------------- */

static void count_delivery(struct rr_eng *e, const struct rr_in *in)
{
	bool call = in->rpc.type == RR_RPC_CALL;

	if (in->nparts)
		rr_eng_count(e, call ? RR_C_read_chunks_received : RR_C_write_chunks_received);
	rr_eng_count(e, call ? RR_C_calls_received : RR_C_replies_received);
	if (call && e->p.connector)
		rr_eng_count(e, RR_C_reverse_calls_received);
	rr_count(e->count, RR_C_received, in->len);
	if (in->from == RR_FROM_RECV || (in->nparts && !in->nsegs))
		rr_eng_count(e, RR_C_inline_received);
	else if (in->from == RR_FROM_BUF)
		rr_eng_count(e, RR_C_reply_chunks_received);
	else
		rr_eng_count(e,
			     call ? RR_C_long_calls_received : RR_C_reliable_replies_received);
}

/* A reply gives its call's credit back when it is delivered. If a DONE is still due for it, and
 * the dialect charges that, the credit is kept for the DONE. */
static void give_credit_back(struct rr_eng *e, struct rr_in *in)
{
	in->credit_due = false;
	in->credit_kept = in->done_due && e->traits->read_replies;
	if (unlikely(in->credit_kept))
		rr_credits_keep(&e->cr);
	else
		rr_credits_return(&e->cr);
	if (unlikely(rr_credits_stuck(&e->cr)))
		rr_eng_fail(e, RR_WHY_CREDITS);
}

/* A pull goes on for as long as the driver copies; its entry lasts until rr_eng_pulled(). Until
 * then one that is being fetched stays in the queue, and holds up those behind it. */
static void finish_delivery(struct rr_eng *e, struct rr_in *in)
{
	if (in->credit_due)
		give_credit_back(e, in);
	if (unlikely(in->fetching)) {
		in->state = RR_IN_PULLING;
		return;
	}
	rr_list_del(&e->arrived, &e->ins, in);
	if (in->from != RR_FROM_PULL) {
		rr_table_put(&e->ins, in);
		return;
	}
	in->state = RR_IN_PULLING;
	if (in->pulled)
		finish_pull(e, in);
}

/* The reply's data was written and is fenced: the rest of it is placed around the data, which
 * makes it one message. */
static void place_reply(struct rr_eng *e, struct rr_in *in, struct rr_op *op)
{
	op->code = RR_OP_PLACE;
	op->token = in->token;
	op->off = in->off;
	op->stream = in->stream;
	op->buf = in->buf;
	op->at = in->room;
	op->len = in->len;
	op->parts = in->parts;
	op->nparts = 1;
	in->placing = false;
	in->from = RR_FROM_BUF;
	in->off = in->room;
	rr_in_repost(e, in);
}

/* Only the oldest message is looked at: if it is not ready, those behind it wait. */
bool rr_in_next_op(struct rr_eng *e, struct rr_op *op)
{
	struct rr_in *in = rr_list_head(&e->arrived, &e->ins);

	if (!in || in->state != RR_IN_READY)
		return false;
	if (unlikely(in->placing)) {
		place_reply(e, in, op);
		return true;
	}
	op->code = RR_OP_DELIVER;
	op->from = in->from;
	op->token = in->token;
	op->buf = in->buf;
	op->off = in->off;
	op->len = in->len;
	op->rpc = in->rpc;
	if (unlikely(in->npads)) {
		op->parts = in->parts;
		op->nparts = in->npads;
	}
	if (in->from == RR_FROM_PULL)
		op->id = rr_id(RR_K_PULL, &in->n);
	if (in->from == RR_FROM_RECV)
		in->held = false;
	count_delivery(e, in);
	finish_delivery(e, in);
	return true;
}
