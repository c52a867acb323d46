/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls that were answered by an error, sent again with other chunks (version-two-08 §5.3.3).
 *
 * A responder sees that it takes no such Read chunks, or not so many segments, before it does anything: then any call
 * may be sent again. That a reply has no room it finds when the call has been executed: then
 * only one whose binding says that it does no harm. The first exposures are taken back before anything is
 * exposed anew. The message is where it was: the entry of its Send stays, and its buffer with it,
 * as long as the call may need them. With ring credits nothing is kept: calls that are never
 * answered must hold nothing. */

#include "core/engine/engine_int.h"

#define TRIES	4u	/* of one call: a responder that always wants it otherwise never gets it */

bool rr_again_keeps(const struct rr_eng *e, const struct rr_plan *p)
{
	if (e->ring)
		return false;
	/* short calls without chunks may lie in memory of the app's own, unless any call has some */
	return p->item.len || !p->fits || (e->chunk_most && (p->reply || p->write || p->idempotent));
}

static struct rr_tx *tx_of(const struct rr_eng *e, const struct rr_call *c)
{
	return rr_pool_at(&e->txs, c->tx);	/* kept: it is there */
}

void rr_again_over(struct rr_eng *e, struct rr_call *c)
{
	struct rr_tx *t = tx_of(e, c);

	if (t->pending)		/* rr_tx_done() sees that the call is gone */
		return;
	rr_eng_release(e, t->buf);
	rr_pool_put(&e->txs, t);
}

/* --- what would be better ---------------------------------------------------------------- */

static bool by_whole(struct rr_call *c, const struct rr_tx *t)
{
	c->next.whole = true;
	return t->form == RR_TX_READ_CHUNK;
}

static uint32_t segs_of(const struct rr_mem *m)
{
	return m->state == RR_MEM_NONE ? 0 : m->nsegs;
}

static bool by_fewer_segments(struct rr_call *c, uint32_t limit)
{
	uint32_t had = rr_max(segs_of(&c->args), rr_max(segs_of(&c->reply), segs_of(&c->write)));

	c->max_segs = limit;
	return limit && limit < had;
}

/* A Reply chunk, and no Write chunk, for a reply of which so much has to go there; what would have gone to
 * the Write chunk too. */
static bool by_reply_chunk(const struct rr_eng *e, struct rr_call *c, uint32_t needed)
{
	uint64_t placed = c->write.len ? c->around + rr_ulb_padded(c->write.len) : 0;
	uint64_t size = rr_max(rr_align((uint64_t)needed, (uint64_t)4), placed);

	c->next.write = 0;
	c->next.reply = (uint32_t)size;
	return size > c->reply.len && size <= e->chunk_most;
}

/* Of one Write chunk the index says nothing new. */
static bool by_write_chunk(const struct rr_eng *e, struct rr_call *c, uint32_t needed)
{
	c->next.write = needed;
	return needed > c->write.len && c->write.len && rr_ulb_padded(needed) <= e->chunk_most;
}

/* req: version-two-08 5.3.3 #8 #9 #12 */
static bool amend(const struct rr_eng *e, struct rr_call *c, const struct rr_tx *t,
		  const struct rr_msg *m)
{
	switch (m->err) {
	case RR_ERR_READ_CHUNKS:
		return m->limit == 0 && by_whole(c, t);
	case RR_ERR_SEGMENTS:
		return by_fewer_segments(c, m->limit);
	case RR_ERR_WRITE_CHUNKS:
		return c->idempotent && c->write.len && by_reply_chunk(e, c, 0);
	case RR_ERR_WRITE_RESOURCE:
		return c->idempotent && by_write_chunk(e, c, m->needed);
	case RR_ERR_REPLY_RESOURCE:
		return c->idempotent && by_reply_chunk(e, c, m->needed);
	default:
		return false;
	}
}

/* --- sending ----------------------------------------------------------------------------- */

/* What of its message is in the Send does not fit beside chunks that it did not have. */
static bool too_long_inline(const struct rr_eng *e, const struct rr_call *c, const struct rr_tx *t)
{
	uint32_t hdr = e->hdr_min + (c->reply.len ? e->hdr_reply : 0) + (c->write.len ? e->hdr_write : 0);
	uint64_t placed = rr_ulb_padded(t->item.len);

	if (placed)
		hdr += e->hdr_read;
	return hdr + t->len - placed > e->p.inline_send;
}

static uint32_t args_of(const struct rr_tx *t)
{
	if (t->form == RR_TX_LONG_CALL)
		return t->len;
	return t->form == RR_TX_READ_CHUNK ? t->item.len : 0;
}

/* All of its first exposures are fenced. */
void rr_again_send(struct rr_eng *e, struct rr_call *c)
{
	struct rr_tx *t = tx_of(e, c);

	c->again = false;
	c->args.state = c->reply.state = c->write.state = RR_MEM_NONE;
	c->reply.len = c->next.reply;
	c->write.len = c->next.write;
	if (c->next.whole || too_long_inline(e, c, t)) {
		t->form = RR_TX_LONG_CALL;
		t->item = (struct rr_range){ 0, 0 };
		c->position = 0;
	}
	c->args.len = args_of(t);
	t->state = c->args.len || c->reply.len || c->write.len ? RR_TX_SETUP : RR_TX_READY;
	rr_list_add(&e->unsent, &e->txs, t);
	e->nunsent++;
	rr_eng_count(e, RR_C_resends);
}

/* --- errors ------------------------------------------------------------------------------ */

/* What the next call of its procedure is to offer. */
static enum rr_eng_why learn(struct rr_eng *e, const struct rr_call *c, const struct rr_msg *m)
{
	bool size = m->err == RR_ERR_WRITE_RESOURCE || m->err == RR_ERR_REPLY_RESOURCE;

	if (!size)
		return RR_WHY_REFUSED;
	if (c->bounded || !e->p.sizes || m->needed == 0 || m->needed > e->chunk_most)
		return RR_WHY_TOO_LARGE;
	rr_sizes_seen(e->p.sizes, c->prog, c->vers, c->proc, m->needed);
	return RR_WHY_ERR_CHUNK;
}

/* The app's call cannot be answered by an error of RPC's own: if it is not sent again the app sees what TCP
 * would show it, a lost connection. */
/* req: version-two-08 5.3.3 #2 #19 */
enum rr_eng_why rr_again_error(struct rr_eng *e, struct rr_call *c, const struct rr_msg *m)
{
	enum rr_eng_why why = learn(e, c, m);

	e->starved = 0;
	c->next.reply = c->reply.len;
	c->next.write = c->write.len;
	c->next.whole = false;
	if (!c->kept || ++c->tries == TRIES || !amend(e, c, tx_of(e, c), m))
		return why;
	rr_req_withdraw(e, c);
	return RR_WHY_NONE;
}
