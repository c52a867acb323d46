/* SPDX-License-Identifier: BSD-3-Clause */

/* Entries of the app's messages, and the encoding of whatever header is sent. The order of
 * sending is outbound.c's. */

#include <assert.h>

#include "core/engine/queues.h"

/* Is there room for another message? Control messages that wait go first. */
bool rr_tx_room(const struct rr_eng *e)
{
	if (e->paced && e->window <= e->nunsent + e->reserve)
		return false;
	if (e->ring && e->control.head)
		return false;
	return e->txs.used < e->txs.n;
}

/* The message goes to the end of the queue; the caller fills in what its form needs beyond
 * that. */
struct rr_out *rr_tx_new(struct rr_eng *e, const struct rr_eng_out *out, enum rr_tx_form form)
{
	struct rr_out *t = rr_table_get(&e->txs);

	assert(t);	/* rr_tx_room() */
	t->n.xid = out->rpc.xid;
	t->state = RR_TX_READY;
	t->form = form;
	t->kept = false;
	t->type = out->rpc.type;
	t->pending = 0;
	t->buf = out->buf;
	t->len = out->len;
	t->item = (struct rr_range){ 0, 0 };
	t->npads = 0;
	t->written = 0;
	t->call = t->call_gen = t->serve = t->shown = 0;
	rr_list_add(&e->unsent, &e->txs, t);
	e->nunsent++;
	return t;
}

/* A header that does not fit means that the peer has left us no way to say anything; the
 * connection ends. Each Send uses up one of those that the window allows: callers have seen
 * that it allows one. */
void rr_tx_encode(struct rr_eng *e, struct rr_op *op)
{
	uint32_t cap = rr_min(e->p.inline_send, (uint32_t)sizeof(e->tmp->hdr));

	op->code = RR_OP_SEND;
	op->hdr = e->tmp->hdr;
	op->hdr_len = e->codec->encode(&e->tmp->tx, e->tmp->hdr, cap);
	if (unlikely(op->hdr_len == 0)) {
		op->code = RR_OP_NONE;
		rr_eng_fail(e, RR_WHY_PROTOCOL);
		return;
	}
	if (e->paced)
		e->window--;
}
