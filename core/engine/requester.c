/* SPDX-License-Identifier: BSD-3-Clause */

/* Our calls and their replies. How a call travels is planned in plan.c.
 *
 * Strict (RFC 8166 §3.3.1): a call without reply holds a credit and its entry for ever. Once
 * such calls hold all credits nothing more can be sent. When a call has waited very long and no
 * reply has come, the connection is given up.
 *
 * With ring credits the peer's posted receives are the flow control, and a call without reply
 * must hold nothing that later calls need. When the table is full, entries whose memory the
 * peer cannot access are forgotten, the oldest first; if their replies come after all they are
 * delivered like those of unknown calls, as TCP would. A Position-Zero Read chunk holds its
 * entry until rr_eng_consumed() says that the peer has read it. A Reply chunk (without reliable
 * replies) holds it for done_timeout and is then fenced: a reply that is written there even
 * later ends the connection. */

#include "core/engine/call.h"
#include "core/engine/engine_int.h"

/* Gives back the buffer of its arguments. If their Send still gathers from it, rr_tx_done()
 * does so. */
static void args_back(struct rr_eng *e, const struct rr_call *c)
{
	if (!rr_table_find(&e->txs, c->tx, c->tx_gen))
		rr_eng_release(e, c->args.buf);
}

/* Gives back memory for the reply, except what the app gets. */
/* req: draft-02 3.4 #5 */
static void result_back(struct rr_eng *e, const struct rr_mem *m, const struct rr_in *in)
{
	if (m->state == RR_MEM_FENCED && !(in && in->buf == m->buf))
		rr_eng_release(e, m->buf);
}

/* c's memory is fenced: gives it back, and lets the reply that waited for it go on. */
static void finish_call(struct rr_eng *e, struct rr_call *c)
{
	struct rr_in *in = c->in ? rr_table_at(&e->ins, c->in) : NULL;

	result_back(e, &c->reply, in);
	result_back(e, &c->write, in);
	if (unlikely(c->again)) {
		rr_again_send(e, c);
		return;
	}
	if (c->kept)
		rr_again_over(e, c);
	else if (c->args.state == RR_MEM_FENCED)
		args_back(e, c);
	rr_table_put(&e->calls, c);
	if (in)
		in->state = in->composing ? RR_IN_COMPOSE : RR_IN_READY;
}

static bool out_of_reach(const struct rr_mem *m)
{
	return m->state == RR_MEM_NONE || m->state == RR_MEM_FENCED;
}

static bool is_fenced(const struct rr_call *c)
{
	return out_of_reach(&c->args) && out_of_reach(&c->reply) && out_of_reach(&c->write);
}

/* RFC 8166 §8.1.3: the app gets no byte before the peer's access to the call's memory has
 * ended. */
static void fence_call(struct rr_eng *e, struct rr_call *c, struct rr_in *in)
{
	c->in = in ? in->n.idx : 0;
	rr_mem_fence(e, &c->args, rr_id(RR_K_INV_ARGS, &c->n));
	rr_mem_fence(e, &c->reply, rr_id(RR_K_INV_REPLY, &c->n));
	rr_mem_fence(e, &c->write, rr_id(RR_K_INV_WRITE, &c->n));
	if (is_fenced(c))
		finish_call(e, c);
}

/* req: rfc8797 4.1 #1 */
bool rr_req_key_gone(struct rr_eng *e, uint32_t handle)
{
	for (uint16_t i = 1; i <= e->calls.fresh; i++) {
		struct rr_call *c = rr_table_at(&e->calls, i);

		if (c->n.live && (rr_mem_key_gone(&c->args, handle) ||
				  rr_mem_key_gone(&c->reply, handle) ||
				  rr_mem_key_gone(&c->write, handle)))
			return true;
	}
	return false;
}

/* req: rfc8166 8.1 #1 */
void rr_req_fenced(struct rr_eng *e, struct rr_call *c, enum rr_op_kind which)
{
	struct rr_mem *m = which == RR_K_INV_ARGS ? &c->args :
			   which == RR_K_INV_REPLY ? &c->reply : &c->write;

	if (m->state != RR_MEM_FENCING)
		return;
	m->state = RR_MEM_FENCED;
	if (!c->n.mapped || c->again) {
		if (is_fenced(c))
			finish_call(e, c);
		return;
	}
	args_back(e, c);	/* the peer has read it; the call still waits for its reply */
	m->state = RR_MEM_NONE;
	rr_call_make_bare(e, c);
}

void rr_eng_consumed(struct rr_eng *e, uint32_t buf, rr_time now)
{
	e->now = now;
	for (uint16_t i = 1; i <= e->calls.fresh; i++) {
		struct rr_call *c = rr_table_at(&e->calls, i);

		if (c->n.live && c->sent && c->args.state == RR_MEM_LIVE &&
		    c->args.buf == buf) {
			rr_mem_fence(e, &c->args, rr_id(RR_K_INV_ARGS, &c->n));
			return;
		}
	}
}

rr_time rr_eng_calls_unread(const struct rr_eng *e)
{
	rr_time last = 0;

	for (uint16_t i = 1; i <= e->calls.fresh; i++) {
		const struct rr_call *c = rr_table_at(&e->calls, i);

		if (c->n.live && c->sent && c->args.state == RR_MEM_LIVE)
			last = rr_max(last, c->since);
	}
	return last;
}

void rr_req_withdraw(struct rr_eng *e, struct rr_call *c)
{
	c->again = true;
	c->sent = false;
	fence_call(e, c, NULL);
}

/* --- sending --------------------------------------------------------------------------- */

/* What ERR_CHUNK means. Nothing is learned from calls whose bound was known: what other calls
 * of the same procedure needed (COMPOUND is one procedure for everything) says nothing about
 * the next. If they were sent again they would go in the same way. */
enum rr_eng_why rr_req_refused(struct rr_eng *e, const struct rr_call *c)
{
	uint32_t had = rr_max(c->reply.len, e->p.inline_recv);

	if (e->p.reply_chunks == RR_REPLY_CHUNKS_NEVER ||
	    (e->p.reply_chunks == RR_REPLY_CHUNKS_BOUNDED && !c->bounded))
		return RR_WHY_TOO_LARGE;
	if (c->bounded)
		return RR_WHY_REFUSED;
	if (!e->p.sizes ||
	    rr_sizes_too_small(e->p.sizes, c->prog, c->vers, c->proc, had, e->chunk_most))
		return RR_WHY_ERR_CHUNK;
	return RR_WHY_TOO_LARGE;
}

static rr_time forgettable_at(const struct rr_eng *e, const struct rr_call *c)
{
	if (e->hatched || (c->reply.state != RR_MEM_LIVE && c->write.state != RR_MEM_LIVE))
		return 0;
	return c->since > RR_TIME_NEVER - e->p.done_timeout ? RR_TIME_NEVER
							    : c->since + e->p.done_timeout;
}

/* The oldest call that may be forgotten now. */
static struct rr_call *forgettable(const struct rr_eng *e)
{
	struct rr_call *c = rr_list_head(&e->bare, &e->calls);

	while (c && forgettable_at(e, c) > e->now)
		c = c->n.next ? rr_table_at(&e->calls, c->n.next) : NULL;
	return c;
}

rr_time rr_req_deadline(const struct rr_eng *e)
{
	const struct rr_call *c = rr_list_head(&e->bare, &e->calls);
	rr_time at;

	if (e->starved)
		return e->starved + RR_ENG_STARVED;
	if (!c || !e->stalled || e->calls.used < e->calls.n)
		return RR_TIME_NEVER;
	at = forgettable_at(e, c);
	return at > e->now ? at : RR_TIME_NEVER;
}

void rr_req_stalled(struct rr_eng *e)
{
	if (!e->ring && !rr_credits_left(&e->cr) && !e->starved)
		e->starved = e->now;
}

/* Nothing can be sent before a reply comes, and none comes: without this the app would wait for
 * ever. */
void rr_req_tick(struct rr_eng *e)
{
	if (e->starved && e->now >= e->starved + RR_ENG_STARVED)
		rr_eng_fail(e, RR_WHY_CREDITS);
}

/* Forgets the oldest call that may be forgotten; call_room() has said that there is one. Its
 * entry is free at once unless its memory has to be fenced first. */
static void forget_one(struct rr_eng *e)
{
	struct rr_call *c = forgettable(e);

	assert(c);
	rr_call_unlink(e, c);
	rr_credits_return(&e->cr);
	fence_call(e, c, NULL);
}

static bool call_room(const struct rr_eng *e)
{
	if (!e->ring)
		return rr_credits_left(&e->cr) && e->calls.used < e->calls.n;
	return e->calls.used < e->calls.n || forgettable(e);
}

bool rr_req_writable(const struct rr_eng *e)
{
	return rr_tx_room(e) && call_room(e);
}

/* Called while there is call_room(). NULL: every entry is in use, and the memory of the call
 * that was forgotten is still being fenced. */
static struct rr_call *call_new(struct rr_eng *e, const struct rr_rpc *rpc)
{
	struct rr_call *c = rr_call_open(e, rpc);

	if (!c) {
		forget_one(e);
		c = rr_call_open(e, rpc);
	}
	return c;
}

static enum rr_tx_form form_of(const struct rr_plan *p)
{
	if (p->item.len)
		return RR_TX_READ_CHUNK;
	return p->fits ? RR_TX_INLINE : RR_TX_LONG_CALL;
}

/* Notes what the plan wants exposed before the call goes. */
static void set_up_call(struct rr_eng *e, struct rr_call *c, struct rr_out *t,
			const struct rr_plan *p)
{
	c->rec = p->rec;
	c->bounded = p->bounded;
	c->idempotent = p->idempotent;
	c->around = p->around;
	c->position = p->item.off;
	c->reply.len = p->reply;
	c->write.len = p->write;
	if (t->form == RR_TX_LONG_CALL)
		c->args.len = t->len;
	if (t->form == RR_TX_READ_CHUNK)
		c->args.len = p->item.len;
	c->kept = t->kept = unlikely(e->traits->full_errors) && rr_again_keeps(e, p);
	if (t->form == RR_TX_READ_CHUNK || c->kept) {
		c->tx = t->n.idx;
		c->tx_gen = t->n.gen;
	}
	t->item = p->item;
	e->session = rr_max(e->session, p->session);
	if (c->args.len || c->reply.len || c->write.len)
		t->state = RR_TX_SETUP;
}

/* req: rfc8166 3.5.3 #1; slides - #3; draft-02 6.2 #3; rfc8267 6.5.2 #1 #2 */
int rr_req_send(struct rr_eng *e, const struct rr_eng_out *out)
{
	struct rr_plan plan;
	struct rr_call *c;
	struct rr_out *t;

	rr_plan(e, out, &plan);
	if ((!plan.fits && (e->reads_barred || !rr_req_may_use_chunks(e))) || e->mute)
		return -EMSGSIZE;
	c = rr_req_writable(e) ? call_new(e, &out->rpc) : NULL;
	if (!c)
		return -EAGAIN;
	e->starved = 0;
	t = rr_tx_new(e, out, form_of(&plan));
	t->call = c->n.idx;
	t->call_gen = c->n.gen;
	set_up_call(e, c, t, &plan);
	if (unlikely(e->pad_align))
		rr_pad_call(e, out, t);
	return 0;
}

/* --- replies --------------------------------------------------------------------------- */

/* in is a reply to c: its grant counts now, and the call is over. The credit comes back with
 * the delivery only: a message that is held back keeps its receive, and the reply to another
 * call would find none. */
/* req: rfc8166 3.3.3 #2 */
static void answered(struct rr_eng *e, struct rr_call *c, struct rr_in *in)
{
	e->starved = 0;
	if (!e->pulls && !c->bounded && e->p.sizes)
		rr_sizes_seen(e->p.sizes, c->prog, c->vers, c->proc, in->len);
	rr_credits_grant(&e->cr, in->credit, e->traits->zero_grants);
	rr_credits_done_back(&e->cr, c->dones);
	rr_call_unlink(e, c);
	in->credit_due = true;
	in->state = RR_IN_FENCE;
	fence_call(e, c, in);
}

/* Is the Reply chunk of this reply the call's own (RFC 8166 §4.3.3)? *used: how many bytes it
 * holds. */
static bool returns_ours(const struct rr_call *c, const struct rr_chunks *ch, uint32_t *used)
{
	*used = 0;
	return !ch->has_reply || rr_writes_ours(ch, &ch->reply, &c->reply, used);
}

static bool nothing_written(const struct rr_chunks *ch)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ch->nsegs; i++)
		sum += ch->segs[i].length;
	return sum == 0;
}

/* With ring credits nothing is held for a call that was forgotten. A reply that leaves its
 * chunks unused needs nothing: the app gets what it asked for, and that is no error. */
/* req: rfc8166 3.3.3 #2 */
static void unknown_inline(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	if (e->ring && nothing_written(ch) && e->tmp->rx.type == RR_MSG) {
		rr_in_arrive(e, in, RR_IN_READY);
		return;
	}
	rr_eng_count(e, RR_C_unknown_xid);
	rr_in_discard(e, in);
}

/* The reply to c (or NULL) is in Read chunks: the peer keeps memory exposed for it until
 * RDMA_DONE. We never ask for a reply that has Write chunks as well. */
static void take_read_reply(struct rr_eng *e, struct rr_in *in, struct rr_call *c)
{
	in->done_due = true;
	if (in->nparts)
		rr_reads_compose(e, in);
	if (c)
		answered(e, c, in);
	else
		in->state = RR_IN_READY;
}

/* An inline reply with parts in Read chunks (draft-02 §3.4), which version 1 does not have (RFC
 * 8166 §4.3.1). The peer is told DONE, whatever becomes of the reply. */
static void reply_reads(struct rr_eng *e, struct rr_in *in, struct rr_call *c,
			const struct rr_chunks *ch, const uint8_t *stream)
{
	if (!rr_req_takes_reads(e)) {
		rr_in_discard(e, in);
		return;
	}
	rr_inv_arrived(e, in, ch);
	if (!c)
		rr_eng_count(e, RR_C_unknown_xid);
	if (c && e->tmp->rx.type == RR_MSG &&
	    !rr_writes_used(ch->writes, ch->nwrites, ch->segs) &&
	    rr_reads_take(e, in, ch) && in->nsegs == 0 &&
	    rr_reads_judge_reply(e, c, in, stream, in->len)) {
		rr_in_arrive(e, in, RR_IN_COMPOSE);
		take_read_reply(e, in, c);
		return;
	}
	rr_in_repost(e, in);
	rr_ctl_done(e, in);
}

/* If the reply's data is not what its call asked for (RFC 8166 §6.1), the app would wait for
 * ever: it sees what TCP would show it instead, a lost connection. */
void rr_req_reply_inline(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch,
			 const uint8_t *stream)
{
	struct rr_call *c = rr_call_find(e, in->n.xid);
	uint32_t used;

	if (ch->nreads) {
		reply_reads(e, in, c, ch, stream);
	} else if (!c) {
		unknown_inline(e, in, ch);
	} else if (!returns_ours(c, ch, &used) || used > 0 ||
		   (ch->nwrites && c->write.state == RR_MEM_NONE)) {
		rr_in_discard(e, in);
	} else if (unlikely(e->tmp->rx.type == RR_MSGP) ? !rr_pad_in_reply(e, c, in, stream) :
		   c->write.state != RR_MEM_NONE && !rr_writes_judge(c, in, ch, stream)) {
		rr_in_drop(e, in);
		rr_eng_fail(e, RR_WHY_PROTOCOL);
	} else {
		rr_in_arrive(e, in, RR_IN_FENCE);
		answered(e, c, in);
	}
}

/* req: rfc8166 4.5 #3 */
void rr_req_reply_chunk(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	struct rr_call *c = rr_call_find(e, in->n.xid);
	uint32_t used;

	if (!c)
		rr_eng_count(e, RR_C_unknown_xid);
	if (!c || ch->nwrites || !returns_ours(c, ch, &used)) {
		rr_in_discard(e, in);
		return;
	}
	in->from = RR_FROM_BUF;
	in->buf = c->reply.buf;
	in->off = 0;
	in->len = used;
	in->rpc = (struct rr_rpc){ .xid = in->n.xid, .type = RR_RPC_REPLY };
	rr_in_repost(e, in);
	rr_in_arrive(e, in, RR_IN_FENCE);
	answered(e, c, in);
}

bool rr_req_reply_pulled(struct rr_eng *e, struct rr_in *in, const uint8_t *head, uint32_t have)
{
	struct rr_call *c = rr_call_find(e, in->n.xid);
	const struct rr_serve *s = in->serve ? rr_table_at(&e->serves, in->serve) : NULL;

	if (s && rr_writes_used(s->writes, s->nwrites, s->segs))
		return false;
	if (in->nparts && (!c || have < in->len ||
			   !rr_reads_judge_reply(e, c, in, head, in->len)))
		return false;
	rr_in_forget_chunks(e, in);
	take_read_reply(e, in, c);
	return true;
}
