/* SPDX-License-Identifier: BSD-3-Clause */

/* Sends calls again, with other chunks, that were answered by an error (version-two-08 §5.3.3).
 * amend.c decides which calls, and with which chunks.
 *
 * A responder notices before it does anything that it does not accept such Read chunks, or so
 * many segments: then any call may be sent again. It notices only after the call was executed
 * that the reply has no room: then only a call may be sent again whose binding says that this
 * does no harm. The first exposures are taken back before anything is exposed anew. The message
 * is still where it was, because the entry of its Send and its buffer stay as long as the call
 * may need them. With ring credits nothing is kept, because calls that are never answered must
 * hold nothing. */

#include "core/engine/engine_int.h"

bool rr_again_keeps(const struct rr_eng *e, const struct rr_plan *p)
{
	if (e->ring)
		return false;
	/* Short calls without chunks may lie in the app's own memory, unless any call has
	 * chunks. */
	return p->item.len || !p->fits ||
	       (e->chunk_most && (p->reply || p->write || p->idempotent));
}

void rr_again_over(struct rr_eng *e, struct rr_call *c)
{
	struct rr_out *t = rr_again_tx(e, c);

	if (t->pending)		/* rr_tx_done() sees that the call is gone */
		return;
	rr_eng_release(e, t->buf);
	rr_table_put(&e->txs, t);
}

/* Is the inline part of the message too long beside chunks that it did not have before? */
static bool too_long_inline(const struct rr_eng *e, const struct rr_call *c,
			    const struct rr_out *t)
{
	uint32_t hdr = e->hdr.min + (c->reply.len ? e->hdr.reply : 0) +
		       (c->write.len ? e->hdr.write : 0);
	uint64_t placed = rr_ulb_padded(t->item.len);

	if (placed)
		hdr += e->hdr.read;
	return hdr + t->len - placed > e->p.inline_send;
}

static uint32_t args_of(const struct rr_out *t)
{
	if (t->form == RR_TX_LONG_CALL)
		return t->len;
	return t->form == RR_TX_READ_CHUNK ? t->item.len : 0;
}

/* Called when all of its first exposures are fenced. */
void rr_again_send(struct rr_eng *e, struct rr_call *c)
{
	struct rr_out *t = rr_again_tx(e, c);

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
