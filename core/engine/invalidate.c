/* SPDX-License-Identifier: BSD-3-Clause */

/* Send With Invalidate: which handle of the peer a Send of ours invalidates, and, in version 2,
 * which of ours the peer may. Each Send can take one. It saves its owner work, and is only
 * allowed if nothing still needs the handle: Writes were posted before the Send, which cannot
 * overtake them, but memory that is read must have been read to its end.
 *
 * In version 1 both sides have said beforehand that any handle will do (RFC 8797 §4.1); in
 * version 2 each header names one, or none (version-two-08 §3.3). With ring credits nothing is
 * invalidated, because a call may be given up and its memory fenced while the reply is on its
 * way, and a second invalidation would end the connection. */

#include "core/engine/engine_int.h"

/* --- the peer's ------------------------------------------------------------------------- */

static bool among(const struct rr_chunks *ch, const struct rr_wchunk *w, uint32_t handle)
{
	for (uint32_t i = 0; i < w->nsegs; i++)
		if (ch->segs[w->first + i].handle == handle)
			return true;
	return false;
}

static bool is_result(const struct rr_chunks *ch, uint32_t handle)
{
	bool found = ch->has_reply && among(ch, &ch->reply, handle);

	for (uint32_t i = 0; i < ch->nwrites && !found; i++)
		found = among(ch, &ch->writes[i], handle);
	return found;
}

static bool is_read(const struct rr_chunks *ch, uint32_t handle)
{
	for (uint32_t i = 0; i < ch->nreads; i++)
		if (ch->reads[i].seg.handle == handle)
			return true;
	return false;
}

/* Memory for results comes first, because the reply waits until it is fenced. */
static uint32_t first_result(const struct rr_chunks *ch)
{
	if (ch->has_reply && ch->reply.nsegs)
		return ch->segs[ch->reply.first].handle;
	for (uint32_t i = 0; i < ch->nwrites; i++)
		if (ch->writes[i].nsegs)
			return ch->segs[ch->writes[i].first].handle;
	return 0;
}

/* A handle that the header names but does not contain counts as none: it may not be
 * invalidated.
 *
 * req: rfc8797 4.1 #1 */
void rr_inv_keep(const struct rr_eng *e, struct rr_serve *s, const struct rr_in *in,
		 const struct rr_chunks *ch)
{
	uint32_t named = e->tmp->rx.inv_handle;

	s->result = first_result(ch);
	s->read = ch->nreads ? ch->reads[0].seg.handle : 0;
	if (e->traits->directed) {
		s->result = is_result(ch, named) ? named : 0;
		s->read = !s->result && is_read(ch, named) ? named : 0;
	}
	s->in = in->n.idx;
	s->in_gen = in->n.gen;
}

static bool still_reading(const struct rr_eng *e, const struct rr_serve *s)
{
	const struct rr_in *in = rr_table_find(&e->ins, s->in, s->in_gen);

	return in && !in->pulled;
}

static uint32_t choose_handle(const struct rr_eng *e, const struct rr_serve *s)
{
	if (s->result)
		return s->result;
	return still_reading(e, s) ? 0 : s->read;
}

static void invalidate_with(struct rr_eng *e, uint32_t handle, struct rr_op *op)
{
	op->inv_handle = handle;
	if (handle)
		rr_eng_count(e, RR_C_invalidations_sent);
}

/* req: rfc8797 4.1 #2 */
void rr_inv_reply(struct rr_eng *e, const struct rr_serve *s, struct rr_op *op)
{
	if (e->p.invalidate && !e->ring)
		invalidate_with(e, choose_handle(e, s), op);
}

void rr_inv_arrived(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	in->since = e->now;
	in->inv = ch->nreads ? ch->reads[0].seg.handle : 0;
	if (e->traits->directed)
		in->inv = is_read(ch, e->tmp->rx.inv_handle) ? e->tmp->rx.inv_handle : 0;
}

/* The message was pulled completely. If that, or waiting for a credit for DONE, took long, the
 * responder may have run out of patience and taken its keys back: invalidating them again would
 * end the connection.
 *
 * req: reliable-reply-00 - #7 #8 #9 */
void rr_inv_done(struct rr_eng *e, const struct rr_in *in, struct rr_op *op)
{
	if (e->p.invalidate && !e->ring && e->now - in->since <= e->p.done_timeout_pressure / 2)
		invalidate_with(e, in->inv, op);
}

/* --- ours ------------------------------------------------------------------------------- */

static uint32_t handle_of(const struct rr_mem *m)
{
	return m->state == RR_MEM_LIVE ? m->segs[0].handle : 0;
}

/* req: reliable-reply-00 - #8 */
uint32_t rr_inv_offer(const struct rr_eng *e, const struct rr_call *c, const struct rr_shown *s)
{
	uint32_t h = 0;

	if (e->ring)
		return 0;
	if (s)
		return handle_of(&s->mem);
	if (c)
		h = handle_of(&c->reply);
	if (c && !h)
		h = handle_of(&c->write);
	return c && !h ? handle_of(&c->args) : h;
}
