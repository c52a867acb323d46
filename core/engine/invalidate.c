/* SPDX-License-Identifier: BSD-3-Clause */

/* Send With Invalidate, as responder: which handle of a call its reply takes back at the requester, where
 * that is agreed on. One goes with each Send, and saves the requester work only if nothing of ours still
 * needs it: Writes were posted before the Send and cannot be overtaken by it, but what is read
 * must have been read to its end. */

#include "core/engine/engine_int.h"

void rr_inv_keep(struct rr_serve *s, const struct rr_in *in, const struct rr_chunks *ch)
{
	s->read = ch->nreads ? ch->reads[0].seg.handle : 0;
	s->in = in->n.idx;
	s->in_gen = in->n.gen;
}

static bool still_reading(const struct rr_eng *e, const struct rr_serve *s)
{
	const struct rr_in *in = rr_pool_find(&e->ins, s->in, s->in_gen);

	return in && !in->pulled;
}

/* RFC 8797 §4.1: any handle that the call itself has named. Memory for results first: the reply
 * waits until that is fenced.
 * req: rfc8797 4.1 #1 */
static uint32_t choose(const struct rr_eng *e, const struct rr_serve *s)
{
	if (s->has_reply && s->reply.nsegs)
		return s->segs[s->reply.first].handle;
	for (uint32_t i = 0; i < s->nwrites; i++)
		if (s->writes[i].nsegs)
			return s->segs[s->writes[i].first].handle;
	return still_reading(e, s) ? 0 : s->read;
}

/* With ring credits a call may be given up, and its memory fenced, while the reply is on its way: what
 * was invalidated already ends the connection.
 * req: rfc8797 4.1 #2 */
void rr_inv_reply(struct rr_eng *e, const struct rr_serve *s, struct rr_op *op)
{
	if (!e->p.invalidate || e->ring)
		return;
	op->inv_handle = choose(e, s);
	if (op->inv_handle)
		rr_eng_count(e, RR_C_invalidations_sent);
}
