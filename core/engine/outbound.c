/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages of the app, from rr_eng_send() to their Send. They leave in the order in which the
 * app wrote them: one whose memory is still being exposed holds back those behind it. Control
 * messages are errors.c's. */

#include "core/engine/call.h"
#include "core/engine/engine_int.h"

static struct rr_call *call_of(const struct rr_eng *e, const struct rr_out *t)
{
	return rr_table_find(&e->calls, t->call, t->call_gen);
}

/* --- the header ------------------------------------------------------------------------ */

/* req: rfc8166 3.4.5 #1, 3.5.3 #2 */
static void add_read_chunk(struct rr_chunks *ch, const struct rr_mem *m, uint32_t position)
{
	for (uint32_t i = 0; i < m->nsegs; i++)
		ch->reads[i] = (struct rr_read_seg){ .position = position, .seg = m->segs[i] };
	ch->nreads = (uint16_t)m->nsegs;
}

static struct rr_wchunk add_segs(struct rr_chunks *ch, const struct rr_mem *m)
{
	struct rr_wchunk w = { ch->nsegs, (uint16_t)m->nsegs };

	memcpy(ch->segs + ch->nsegs, m->segs, m->nsegs * sizeof(*m->segs));
	ch->nsegs += w.nsegs;
	return w;
}

/* Memory that could not be exposed for the reply is simply not offered (not_exposed()). */
static void add_call_chunks(struct rr_chunks *ch, const struct rr_call *c)
{
	if (c->args.state == RR_MEM_LIVE)
		add_read_chunk(ch, &c->args, c->position);
	if (c->write.state == RR_MEM_LIVE)
		ch->writes[ch->nwrites++] = add_segs(ch, &c->write);
	if (c->reply.state == RR_MEM_LIVE) {
		ch->reply = add_segs(ch, &c->reply);
		ch->has_reply = true;
	}
}

/* Does part of the message follow the header? */
static bool has_stream(const struct rr_out *t)
{
	return t->form == RR_TX_INLINE || t->form == RR_TX_READ_CHUNK ||
	       t->form == RR_TX_PADDED;
}

static struct rr_serve *serve_of(const struct rr_eng *e, const struct rr_out *t)
{
	return t->serve ? rr_table_at(&e->serves, t->serve) : NULL;
}

/* Builds the header of t in e->tmp->tx. Its chunks are those of the call that t is, or those
 * that the call it answers has come with. */
/* req: rfc8166 4.2.1 #1, 4.3.1 #1, 4.6.1 #1; rfc8167 5.1 #1, 5.2 #1; version-two-08 7.3 #1 */
static void build(struct rr_eng *e, const struct rr_out *t)
{
	bool call = t->type == RR_RPC_CALL;
	struct rr_call *c = call ? call_of(e, t) : NULL;
	const struct rr_serve *s = serve_of(e, t);
	const struct rr_shown *shown = t->shown ? rr_table_at(&e->shown, t->shown) : NULL;

	rr_msg_init(&e->tmp->tx, has_stream(t) ? RR_MSG : RR_NOMSG, t->n.xid,
		    e->codec->version, call ? e->cr.asked : rr_resp_grant(e));
	rr_dialect_mark(e, &e->tmp->tx, call);
	if (unlikely(t->form == RR_TX_PADDED)) {
		e->tmp->tx.type = RR_MSGP;
		e->tmp->tx.align = e->pad_align;
		e->tmp->tx.thresh = e->p.pad_thresh;
	}
	if (c)
		add_call_chunks(&e->tmp->tx.ch, c);
	if (s)
		rr_writes_return(&e->tmp->tx.ch, s,
				 t->form == RR_TX_REPLY_CHUNK ? s->stream : 0);
	if (shown && s)
		rr_writes_show(&e->tmp->tx.ch, s, &shown->mem);
	else if (shown)
		add_read_chunk(&e->tmp->tx.ch, &shown->mem, 0);
	if (unlikely(e->p.invited && e->traits->directed))
		e->tmp->tx.inv_handle = rr_inv_offer(e, c, shown);
}

/* --- operations ------------------------------------------------------------------------ */

static void count_sent(struct rr_eng *e, const struct rr_out *t)
{
	const struct rr_serve *s = serve_of(e, t);
	bool call = t->type == RR_RPC_CALL;
	static const uint8_t form[] = {
		[RR_TX_INLINE] = RR_C_inline_sent,
		[RR_TX_LONG_CALL] = RR_C_long_calls_sent,
		[RR_TX_READ_CHUNK] = RR_C_inline_sent,
		[RR_TX_PADDED] = RR_C_inline_sent,
		[RR_TX_REPLY_CHUNK] = RR_C_reply_chunks_sent,
		[RR_TX_RELIABLE] = RR_C_reliable_replies_sent,
	};

	rr_eng_count(e, call ? RR_C_calls_sent : RR_C_replies_sent);
	if (call && !e->p.connector)
		rr_eng_count(e, RR_C_reverse_calls_sent);
	rr_eng_count(e, (enum rr_counter)form[t->form]);
	if (s && s->nplaced)
		rr_eng_count(e, RR_C_write_chunks_sent);
	if (t->form == RR_TX_READ_CHUNK)
		rr_eng_count(e, RR_C_read_chunks_sent);
	rr_count(e->count, RR_C_sent, t->len);
}

/* Describes which bytes of a message go into its Send. */
/* req: rfc8166 3.4.4.1 #1, 3.4.4.4 #2 */
static void add_stream(struct rr_eng *e, const struct rr_out *t, const struct rr_serve *s,
		       struct rr_op *op)
{
	uint32_t end = t->item.off + t->item.len + rr_ulb_pad(t->item.len);

	op->buf = t->buf;
	op->len = t->len;
	if (s && s->nplaced)
		rr_writes_rest(e, s, t->len, op);
	if (unlikely(t->form == RR_TX_PADDED))
		rr_pad_parts(e, t, op);
	if (t->form != RR_TX_READ_CHUNK)
		return;
	e->tmp->parts[op->nparts++] = (struct rr_range){ 0, t->item.off };
	if (end < t->len)
		e->tmp->parts[op->nparts++] = (struct rr_range){ end, t->len - end };
	op->parts = e->tmp->parts;
	op->len = t->item.off + t->len - end;
}

/* The Send ends what had to be prepared: what the reply needed of its call is freed, the call
 * counts as sent, an exposed reply begins to wait for its DONE. False: the window does not
 * allow it now, or the header cannot be encoded. */
static bool emit_send(struct rr_eng *e, struct rr_out *t, struct rr_op *op)
{
	struct rr_serve *s = serve_of(e, t);

	if (e->paced && e->window <= e->reserve)
		return false;
	build(e, t);
	rr_tx_encode(e, op);
	if (unlikely(e->failed))
		return false;
	op->id = rr_id(RR_K_SEND, &t->n);
	if (has_stream(t))
		add_stream(e, t, s, op);
	count_sent(e, t);
	if (s)
		rr_inv_reply(e, s, op);
	if (t->call)
		rr_call_sent(e, call_of(e, t));
	if (s)
		rr_table_put(&e->serves, s);
	if (t->shown)
		rr_rel_sent(e, rr_table_at(&e->shown, t->shown));
	rr_list_del(&e->unsent, &e->txs, t);
	e->nunsent--;
	t->state = RR_TX_SENT;
	t->pending++;
	return true;
}

/* The next RDMA Write that a reply needs. False: all were handed out. */
static bool emit_write(struct rr_eng *e, struct rr_out *t, struct rr_op *op)
{
	const struct rr_serve *s = serve_of(e, t);

	if (!s || t->written == rr_writes_count(s, t->len, t->form == RR_TX_REPLY_CHUNK))
		return false;
	op->code = RR_OP_WRITE;
	op->id = rr_id(RR_K_WRITE, &t->n);
	op->buf = t->buf;
	rr_writes_op(e, s, t->written++, t->len, op);
	t->pending++;
	return true;
}

static bool is_wanted(const struct rr_mem *m)
{
	return m->len && m->state == RR_MEM_NONE;
}

/* The memory that t still needs exposed; NULL: none. */
static struct rr_mem *next_exposure(struct rr_eng *e, const struct rr_out *t)
{
	struct rr_call *c = call_of(e, t);
	struct rr_shown *s;

	if (t->form == RR_TX_RELIABLE) {
		s = rr_table_at(&e->shown, t->shown);
		return is_wanted(&s->mem) ? &s->mem : NULL;
	}
	assert(c);	/* a call is not forgotten before it is sent */
	if (is_wanted(&c->args))
		return &c->args;
	if (is_wanted(&c->write))
		return &c->write;
	return is_wanted(&c->reply) ? &c->reply : NULL;
}

/* Is m memory for a call's reply, which the driver allocates? */
static bool wants_new(const struct rr_call *c, const struct rr_mem *m)
{
	return c && m != &c->args;
}

/* A Write chunk has room around it for the rest of the reply. */
/* req: rfc8166 3.4.4.1 #2, 3.4.5.2 #1; draft-02 3.4 #2 */
static void expose_op(struct rr_eng *e, struct rr_out *t, const struct rr_mem *m,
		      struct rr_op *op)
{
	const struct rr_call *c = call_of(e, t);
	bool fresh = wants_new(c, m);

	op->code = RR_OP_EXPOSE;
	op->id = rr_id(RR_K_EXPOSE, &t->n);
	op->buf = fresh ? RR_BUF_NEW : t->buf;
	op->off = t->item.off;
	op->len = op->room = m->len;
	op->rights = fresh ? RR_RIGHT_WRITE : RR_RIGHT_READ;
	if (fresh)
		op->off = 0;
	if (c && m == &c->write) {
		op->off = c->around;
		op->room = 2 * c->around + m->len + rr_ulb_pad(m->len);
	}
	op->max_segs = c ? c->max_segs : 0;
	t->state = RR_TX_WAIT;
}

/* True: *op was filled in. False: wait, or go on if t is READY. */
/* req: rfc8166 3.5.3 #4 */
static bool set_up_exposure(struct rr_eng *e, struct rr_out *t, struct rr_op *op)
{
	struct rr_mem *m = next_exposure(e, t);

	if (!m) {
		t->state = RR_TX_READY;
		return false;
	}
	if (e->short_of_memory)
		return false;
	expose_op(e, t, m, op);
	return true;
}

/* Only the oldest message is looked at. The Writes of a reply are handed out before its Send: a
 * queue pair keeps that order, so the peer's memory is complete when the Send arrives. */
bool rr_tx_next_op(struct rr_eng *e, struct rr_op *op)
{
	struct rr_out *t = rr_list_head(&e->unsent, &e->txs);

	if (!t)
		return false;
	if (t->state == RR_TX_SETUP && set_up_exposure(e, t, op))
		return true;
	if (t->state != RR_TX_READY)
		return false;
	return emit_write(e, t, op) || emit_send(e, t, op);
}

/* --- completions ----------------------------------------------------------------------- */

/* The message waits for memory; or it does without, if that was for a reply and there may never
 * be any. */
static void not_exposed(struct rr_eng *e, struct rr_out *t, struct rr_mem *m, int status)
{
	t->state = RR_TX_SETUP;
	if (wants_new(call_of(e, t), m) && (e->ring || status == -ENOMEM)) {
		m->len = 0;
		return;
	}
	e->short_of_memory = true;
	e->retry_at = e->now + RR_ENG_RETRY;
}

void rr_eng_exposed(struct rr_eng *e, uint32_t id, int status, uint32_t buf,
		    const struct rr_seg *segs, uint32_t n, rr_time now)
{
	struct rr_out *t = rr_table_find(&e->txs, (id >> 16) & RR_TABLE_MAX, (uint16_t)id);
	const struct rr_call *c;
	struct rr_mem *m;
	bool fresh;

	e->now = now;
	if (!t || t->state != RR_TX_WAIT || e->failed)
		return;
	m = next_exposure(e, t);
	assert(m);	/* it is what WAIT is for */
	c = call_of(e, t);
	fresh = wants_new(c, m);
	/* the peer would refuse the call again for the same reason */
	if (status == 0 && c && c->max_segs && n > c->max_segs)
		rr_eng_fail(e, RR_WHY_TOO_LARGE);
	else if (status == -EAGAIN || (status == -ENOMEM && fresh))
		not_exposed(e, t, m, status);
	else if (status < 0 || !rr_mem_set(m, fresh ? buf : t->buf, m->len, segs, n))
		rr_eng_fail_op(e, status);
	else
		t->state = RR_TX_SETUP;
}

/* The buffer of a Read chunk belongs to its call as long as it is exposed. */
void rr_tx_done(struct rr_eng *e, struct rr_out *t)
{
	const struct rr_call *c;

	if (t->pending == 0 || --t->pending > 0 || t->state != RR_TX_SENT)
		return;
	c = call_of(e, t);
	if (c && t->kept)
		return;
	if (t->kept || t->form == RR_TX_INLINE || t->form == RR_TX_PADDED ||
	    t->form == RR_TX_REPLY_CHUNK ||
	    (t->form == RR_TX_READ_CHUNK && !(c && c->args.state)))
		rr_eng_release(e, t->buf);
	rr_table_put(&e->txs, t);
}
