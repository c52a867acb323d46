/* SPDX-License-Identifier: BSD-3-Clause */

/* RDMA_MSGP (draft-02 §3.5): padding before the data of large items, so that the data is
 * aligned in the server's receives. The header only says from which length on items are padded,
 * and to what alignment, but not where: only an end that knows the items of a message can
 * insert padding or remove it. We send calls in this way if they have no chunks, and accept
 * calls and replies without Read chunks. Which items there are is core/ulb's knowledge. */

#include "core/engine/engine_int.h"

#define MSGP_LEN	(RR_V1_HDR_MIN + 8u)	/* length of its header without chunks */

/* A number that would need more padding than RR_PAD_MAX changes nothing. */
void rr_pad_to(struct rr_eng *e, uint32_t align)
{
	if (e->traits->padding && e->p.connector && e->p.pad_thresh && align <= RR_PAD_MAX + 1)
		e->pad_align = align > 1 ? align : 0;
}

/* All of the call has to be there, and all of its items known; otherwise it goes without
 * padding, which is always right. */
/* req: draft-02 3.5 #1 */
void rr_pad_call(const struct rr_eng *e, const struct rr_eng_out *out, struct rr_out *t)
{
	struct rr_ulb_view v = { .buf = out->head, .have = out->have, .len = out->len };
	struct rr_ulb_padding p = {
		.align = e->pad_align, .thresh = e->p.pad_thresh, .base = MSGP_LEN,
	};
	uint64_t len = (uint64_t)MSGP_LEN + out->len;

	if (t->form != RR_TX_INLINE || t->state != RR_TX_READY || out->have < out->len ||
	    rr_ulb_pad_call(&v, &p) != RR_ULB_OK || p.n > rr_array_size(t->pads))
		return;
	for (uint32_t i = 0; i < p.n; i++) {
		t->pads[i] = (struct rr_range){ p.at[i].pos, p.at[i].len };
		len += p.at[i].len;
	}
	if (p.n == 0 || len > e->p.inline_send)
		return;
	t->form = RR_TX_PADDED;
	t->npads = (uint16_t)p.n;
}

/* The Send alternates between parts of the message and zeroes. */
void rr_pad_parts(struct rr_eng *e, const struct rr_out *t, struct rr_op *op)
{
	uint32_t at = 0;

	op->parts = e->tmp->parts;
	for (uint32_t i = 0; i < t->npads; i++) {
		e->tmp->parts[op->nparts++] = (struct rr_range){ at, t->pads[i].off - at };
		e->tmp->parts[op->nparts++] =
			(struct rr_range){ RR_PART_ZEROES, t->pads[i].len };
		op->len += t->pads[i].len;
		at = t->pads[i].off;
	}
	if (at < t->len)
		e->tmp->parts[op->nparts++] = (struct rr_range){ at, t->len - at };
}

/* Notes where the padding is, for the driver to leave it out when it delivers the message. */
static void take_padding(struct rr_in *in, const struct rr_ulb_padding *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		in->parts[i] = (struct rr_range){ p->at[i].pos, p->at[i].len };
		in->len -= p->at[i].len;
	}
	in->npads = (uint16_t)p->n;
}

static struct rr_ulb_padding found(const struct rr_msg *m)
{
	return (struct rr_ulb_padding){
		.align = m->align, .thresh = m->thresh, .base = m->hdr_len, .there = true,
	};
}

/* Can no item in it be long enough? */
static bool none(const struct rr_in *in, const struct rr_msg *m)
{
	return m->align <= 1 || m->thresh > in->len;
}

/* req: draft-02 3.5 #1 */
bool rr_pad_in_call(struct rr_eng *e, struct rr_in *in, const uint8_t *stream)
{
	struct rr_serve *s = in->serve ? rr_table_at(&e->serves, in->serve) : NULL;
	struct rr_ulb_view v = { .buf = stream, .have = in->len, .len = in->len };
	struct rr_ulb_padding p = found(&e->tmp->rx);
	bool known = rr_ulb_pad_call(&v, &p) == RR_ULB_OK;

	if (in->nparts || (!known && !none(in, &e->tmp->rx)))
		return false;
	if (known)
		take_padding(in, &p);
	if (known && s && s->nwrites)
		s->rec = p.rec;
	return true;
}

/* req: draft-02 3.5 #1 */
bool rr_pad_in_reply(struct rr_eng *e, const struct rr_call *c, struct rr_in *in,
		     const uint8_t *stream)
{
	struct rr_ulb_view v = { .buf = stream, .have = in->len, .len = in->len };
	struct rr_ulb_padding p = found(&e->tmp->rx);
	const struct rr_chunks *ch = &e->tmp->rx.ch;

	if (rr_writes_used(ch->writes, ch->nwrites, ch->segs))
		return false;
	if (rr_ulb_pad_reply(&c->rec, &v, &p) == RR_ULB_OK)
		take_padding(in, &p);
	else
		return none(in, &e->tmp->rx);
	return true;
}
