/* SPDX-License-Identifier: BSD-3-Clause */
/* req: rfc8166 4 #1 */
/* Encodes and decodes the three chunk lists. Whether a list makes sense for its message is the
 * engine's business. */
#include <assert.h>

#include "core/wire/chunks.h"

#define SEG_LEN		16u	/* handle, length, offset: RFC 8166 §3.4.3 */
#define READ_SEG_LEN	24u	/* present word, position, segment */

static void get_segment(struct rr_rcur *c, struct rr_seg *s)
{
	s->handle = rr_get_u32(c);
	s->length = rr_get_u32(c);
	s->offset = rr_get_u64(c);
}

static void put_segment(struct rr_wcur *c, const struct rr_seg *s)
{
	rr_put_u32(c, s->handle);
	rr_put_u32(c, s->length);
	rr_put_u64(c, s->offset);
}

static void note_too_many(struct rr_rcur *c, struct rr_chunks *ch, enum rr_over what)
{
	ch->over = what;
	rr_rcur_fail(c, RR_WIRE_TOO_MANY);
}

/* RFC 8166 §3.4.5: the position is a multiple of four. */
/* req: rfc8166 3.4.5 #2 */
static void get_read_list(struct rr_rcur *c, struct rr_chunks *ch)
{
	ch->nreads = 0;
	while (rr_get_bool(c)) {
		struct rr_read_seg *r = &ch->reads[ch->nreads];

		if (ch->nreads == RR_MAX_SEGS) {
			note_too_many(c, ch, RR_OVER_READS);
			return;
		}
		r->position = rr_get_u32(c);
		get_segment(c, &r->seg);
		if (r->position & 3)
			rr_rcur_fail(c, RR_WIRE_BAD_XDR);
		ch->nreads++;
	}
}

/* A counted array. The count is checked first against what is left of the message, then against
 * what we can hold, and all that before any segment is read. */
static void get_wchunk(struct rr_rcur *c, struct rr_chunks *ch, struct rr_wchunk *w)
{
	uint32_t n = rr_get_u32(c);

	w->first = ch->nsegs;
	w->nsegs = 0;
	if (n > rr_rcur_left(c) / SEG_LEN) {
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
		return;
	}
	if (n > RR_MAX_SEGS - ch->nsegs) {
		note_too_many(c, ch, RR_OVER_SEGS);
		return;
	}
	w->nsegs = (uint16_t)n;
	while (n--)
		get_segment(c, &ch->segs[ch->nsegs++]);
}

static void get_write_list(struct rr_rcur *c, struct rr_chunks *ch)
{
	ch->nwrites = 0;
	while (rr_get_bool(c)) {
		if (ch->nwrites == RR_MAX_WRITE_CHUNKS) {
			note_too_many(c, ch, RR_OVER_WRITES);
			return;
		}
		get_wchunk(c, ch, &ch->writes[ch->nwrites++]);
	}
}

void rr_chunks_get(struct rr_rcur *c, struct rr_chunks *ch)
{
	ch->nsegs = 0;
	get_read_list(c, ch);
	get_write_list(c, ch);
	ch->reply = (struct rr_wchunk){ 0 };
	ch->has_reply = rr_get_bool(c);
	if (ch->has_reply)
		get_wchunk(c, ch, &ch->reply);
}

static void put_wchunk(struct rr_wcur *c, const struct rr_chunks *ch, const struct rr_wchunk *w)
{
	assert(w->first + w->nsegs <= RR_MAX_SEGS);
	rr_put_u32(c, w->nsegs);
	for (uint32_t i = 0; i < w->nsegs; i++)
		put_segment(c, &ch->segs[w->first + i]);
}

void rr_chunks_put(struct rr_wcur *c, const struct rr_chunks *ch)
{
	assert(ch->nreads <= RR_MAX_SEGS && ch->nwrites <= RR_MAX_WRITE_CHUNKS);
	for (uint32_t i = 0; i < ch->nreads; i++) {
		rr_put_u32(c, 1);
		rr_put_u32(c, ch->reads[i].position);
		put_segment(c, &ch->reads[i].seg);
	}
	rr_put_u32(c, 0);
	for (uint32_t i = 0; i < ch->nwrites; i++) {
		rr_put_u32(c, 1);
		put_wchunk(c, ch, &ch->writes[i]);
	}
	rr_put_u32(c, 0);
	rr_put_u32(c, ch->has_reply);
	if (ch->has_reply)
		put_wchunk(c, ch, &ch->reply);
}

uint32_t rr_chunks_size(const struct rr_chunks *ch)
{
	uint32_t size = 3 * 4 + ch->nreads * READ_SEG_LEN;

	for (uint32_t i = 0; i < ch->nwrites; i++)
		size += 2 * 4 + ch->writes[i].nsegs * SEG_LEN;
	if (ch->has_reply)
		size += 4 + ch->reply.nsegs * SEG_LEN;
	return size;
}
