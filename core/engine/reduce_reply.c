/* SPDX-License-Identifier: BSD-3-Clause */

/* Replies whose result data goes into Write chunks (RFC 8166 §3.4.6, §4.3.2; RFC 8267 §6.4.1).
 *
 * The i-th eligible item belongs in the i-th chunk. An empty chunk means that the item is
 * wanted inline, and an item without bytes uses up its chunk (decision 6). The rest of the
 * message, its payload stream, is sent inline or by the Reply chunk, as an unreduced reply
 * would be. All Writes are posted before the Send on the same queue pair, so it overtakes none
 * of them.
 *
 * As requester we offer one Write chunk at most. It lies in a buffer with room before and after
 * it, so that the rest of the reply can be put around the data in place. Which items are
 * eligible is core/ulb's knowledge. */

#include "core/engine/engine_int.h"

static uint32_t placed_end(const struct rr_placed *p)
{
	return p->pos + p->len + rr_ulb_pad(p->len);
}

uint32_t rr_writes_room(const struct rr_serve *s, const struct rr_wchunk *w)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < w->nsegs; i++)
		sum += s->segs[w->first + i].length;
	return (uint32_t)rr_min(sum, (uint64_t)UINT32_MAX);
}

/* Would the requester misplace the data? Linux's client expects attributes in a READ reply of
 * NFSv3. If they are absent, it takes the bytes behind the shorter message for the first bytes
 * of the data (decision 6). It can be recognized by its offsets, which hold the XID. */
static bool misplaces(const struct rr_serve *s, const struct rr_ulb_reply *r, uint32_t xid)
{
	const struct rr_wchunk *w = &s->writes[0];

	return r->nitems && r->items[0].early && w->nsegs &&
	       s->segs[w->first].offset >> 32 == xid;
}

/* req: rfc8166 3.4.2 #1, 4.3.2 #1, 4.3.2.3 #1; draft-02 3.7 #1 #2; rfc8267 6.4.1 #1 #2 #3 #5 */
bool rr_writes_plan(struct rr_serve *s, const struct rr_eng_out *out)
{
	struct rr_ulb_view v = { .buf = out->head, .have = out->have, .len = out->len };
	struct rr_ulb_reply r;

	s->nplaced = s->short_chunk = 0;
	s->stream = out->len;
	if (!s->nwrites || !s->rec.reduce || rr_ulb_reply(&s->rec, &v, &r) != RR_ULB_OK ||
	    misplaces(s, &r, out->rpc.xid))
		return true;
	for (uint16_t i = 0; i < rr_min(r.nitems, (uint32_t)s->nwrites); i++) {
		struct rr_placed p = { r.items[i].pos, r.items[i].len, i };

		if (p.len == 0 || s->writes[i].nsegs == 0)
			continue;
		if (p.len > rr_writes_room(s, &s->writes[i])) {
			s->short_chunk = i + 1;
			s->short_len = p.len;
			return false;
		}
		s->placed[s->nplaced++] = p;
		s->stream -= placed_end(&p) - p.pos;
	}
	return true;
}

/* Limits w to its first `used` bytes. */
static void use(struct rr_chunks *ch, const struct rr_wchunk *w, uint32_t used)
{
	for (uint32_t i = 0; i < w->nsegs; i++) {
		struct rr_seg *seg = &ch->segs[w->first + i];

		seg->length = rr_min(used, seg->length);
		used -= seg->length;
	}
}

/* A chunk that was not written to goes back with length zero. Of the Write chunks `placed` says
 * what was written, in the order of the chunks. */
/* req: rfc8166 3.4.6 #2, 3.4.6.2 #3, 4.3.2.2 #3, 4.3.2.3 #2, 4.3.3 #2; rfc8267 6.4.1 #4 */
void rr_writes_return(struct rr_chunks *ch, const struct rr_serve *s, uint32_t used)
{
	const struct rr_placed *p = s->placed, *end = p + s->nplaced;

	ch->nwrites = s->nwrites;
	ch->nsegs = s->nsegs;
	ch->has_reply = s->has_reply;
	ch->reply = s->reply;
	memcpy(ch->writes, s->writes, s->nwrites * sizeof(*s->writes));
	memcpy(ch->segs, s->segs, s->nsegs * sizeof(*s->segs));
	for (uint32_t i = 0; i < s->nwrites; i++)
		use(ch, &ch->writes[i], p < end && p->chunk == i ? p++->len : 0);
	use(ch, &ch->reply, used);
}

bool rr_writes_used(const struct rr_wchunk *w, uint32_t n, const struct rr_seg *segs)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < w[i].nsegs; k++)
			used |= segs[w[i].first + k].length;
	return used;
}

bool rr_writes_ours(const struct rr_chunks *ch, const struct rr_wchunk *w,
		    const struct rr_mem *m, uint32_t *used)
{
	bool partial = false;

	/* FENCED: the peer has just invalidated it. */
	if ((m->state != RR_MEM_LIVE && m->state != RR_MEM_FENCED) || w->nsegs != m->nsegs)
		return false;
	for (uint32_t i = 0; i < m->nsegs; i++) {
		const struct rr_seg *got = &ch->segs[w->first + i], *ours = &m->segs[i];

		/* chunks are filled from the front: nothing may follow a segment that is not
		 * full */
		if (got->handle != ours->handle || got->offset != ours->offset ||
		    got->length > ours->length || (partial && got->length))
			return false;
		partial = got->length < ours->length;
		*used += got->length;
	}
	return true;
}

/* Lays the message of len bytes out around the item, in place. False: there is no room for
 * it. */
static bool lay_out_reply(const struct rr_call *c, struct rr_in *in,
			  const struct rr_ulb_item *it, uint32_t len)
{
	uint32_t end = it->pos + it->len + rr_ulb_pad(it->len);

	if (it->pos > c->around || len - end > c->around)
		return false;
	in->stream = in->len;
	in->len = len;
	in->parts[in->nparts++] = (struct rr_range){ it->pos, it->len };
	in->buf = c->write.buf;
	in->room = c->around - it->pos;
	in->placing = true;
	return true;
}

/* The one item that was written, if any, has to be where our Write chunk is; the rest of the
 * reply is then laid out around it. */
/* req: rfc8166 3.4.6.2 #3, 4.3.2.2 #4, 6.1 #4 #5 */
bool rr_writes_judge(const struct rr_call *c, struct rr_in *in, const struct rr_chunks *ch,
		     const uint8_t *stream)
{
	struct rr_ulb_chunk chunk = { 0 };
	struct rr_ulb_view v = {
		.buf = stream, .have = in->len, .len = in->len, .chunks = &chunk, .nchunks = 1,
	};
	struct rr_ulb_reply r;
	enum rr_ulb_rc rc;

	if (ch->nwrites > 1 ||
	    (ch->nwrites && !rr_writes_ours(ch, &ch->writes[0], &c->write, &chunk.len)))
		return false;
	rc = rr_ulb_reply(&c->rec, &v, &r);
	if (rc != RR_ULB_OK)	/* NONE: nothing was written, and the app may judge it */
		return rc == RR_ULB_NONE;
	for (uint32_t i = 0; i < r.nitems; i++) {
		const struct rr_ulb_item *it = &r.items[i];

		if (it->chunk == 0 && it->len)
			return it->placed && lay_out_reply(c, in, it, r.len);
	}
	return true;
}

/* What lies before the i-th placed item, after the one before it, in a message of len bytes. */
static struct rr_range between(const struct rr_serve *s, uint32_t i, uint32_t len)
{
	uint32_t from = i ? placed_end(&s->placed[i - 1]) : 0;
	uint32_t to = i < s->nplaced ? s->placed[i].pos : len;

	return (struct rr_range){ from, to - from };
}

/* req: rfc8166 3.4.4.1 #1, 3.4.4.4 #2 */
void rr_writes_rest(struct rr_eng *e, const struct rr_serve *s, uint32_t len, struct rr_op *op)
{
	op->parts = e->tmp->parts;
	op->len = s->stream;
	for (uint32_t i = 0; i <= s->nplaced; i++) {
		struct rr_range r = between(s, i, len);

		if (r.len)
			e->tmp->parts[op->nparts++] = r;
	}
}

/* Shows the part r of the message, which lies in m. */
static void show_part(struct rr_chunks *ch, const struct rr_mem *m, struct rr_range r)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < m->nsegs; at += m->segs[i++].length) {
		uint32_t from = rr_max(r.off, at),
				to = rr_min(r.off + r.len, at + m->segs[i].length);
		struct rr_seg seg = m->segs[i];

		if (from >= to)
			continue;
		seg.offset += from - at;
		seg.length = to - from;
		ch->reads[ch->nreads++] = (struct rr_read_seg){ .seg = seg };
	}
}

void rr_writes_show(struct rr_chunks *ch, const struct rr_serve *s, const struct rr_mem *m)
{
	for (uint32_t i = 0; i <= s->nplaced; i++)
		show_part(ch, m, between(s, i, m->len));
}

/* Nothing may follow the last item, but there is always something before each. */
uint32_t rr_writes_count(const struct rr_serve *s, uint32_t len, bool reply_chunk)
{
	if (!reply_chunk)
		return s->nplaced;
	return 2u * s->nplaced + (between(s, s->nplaced, len).len > 0);
}

/* Puts bytes skip .. skip+len of chunk w into e->tmp->wsegs. */
static void slice(struct rr_eng *e, const struct rr_serve *s, const struct rr_wchunk *w,
		  uint32_t skip, uint32_t len, struct rr_op *op)
{
	op->len = len;
	op->segs = e->tmp->wsegs;
	for (uint32_t i = 0; i < w->nsegs && len; i++) {
		struct rr_seg seg = s->segs[w->first + i];
		uint32_t past = rr_min(skip, seg.length);

		skip -= past;
		seg.offset += past;
		seg.length = rr_min(seg.length - past, len);
		len -= seg.length;
		if (seg.length)
			e->tmp->wsegs[op->nsegs++] = seg;
	}
}

/* req: rfc8166 3.4.4.1 #2, 3.4.6.2 #2, 3.5.3 #4 */
void rr_writes_op(struct rr_eng *e, const struct rr_serve *s, uint32_t i, uint32_t len,
		  struct rr_op *op)
{
	const struct rr_placed *p = &s->placed[i];
	uint32_t removed = 0;
	struct rr_range r;

	if (i < s->nplaced) {
		op->off = p->pos;
		slice(e, s, &s->writes[p->chunk], 0, p->len, op);
		return;
	}
	i -= s->nplaced;
	for (uint32_t k = 0; k < i; k++)
		removed += placed_end(&s->placed[k]) - s->placed[k].pos;
	r = between(s, i, len);
	op->off = r.off;
	slice(e, s, &s->reply, r.off - removed, r.len, op);
}
