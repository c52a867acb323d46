/* SPDX-License-Identifier: BSD-3-Clause */

/* The queue of operations: releases, pulls, fences. Everything else that the driver has to do
 * is taken from the queues of messages when it asks (engine.c). */

#include <errno.h>

#include "core/engine/queues.h"

void rr_eng_fail(struct rr_eng *e, enum rr_eng_why why)
{
	if (e->failed == RR_WHY_NONE)
		e->failed = why;
}

void rr_eng_fail_op(struct rr_eng *e, int status)
{
	switch (status) {
	case -EIO:
		rr_eng_fail(e, RR_WHY_DEVICE);
		break;
	case -EACCES:
	case -EPROTO:
		rr_eng_fail(e, RR_WHY_PROTOCOL);
		break;
	default:
		rr_eng_fail(e, RR_WHY_PROVIDER);
	}
}

/* There is room for whatever an honest peer can cause (table_sizes() in engine_init.c), so a
 * full queue ends the connection. */
void rr_eng_push(struct rr_eng *e, enum rr_opcode code, uint32_t id, uint32_t buf, uint32_t inv,
		 uint16_t in)
{
	struct rr_qop *q;

	if (unlikely(e->ops_tail - e->ops_head == e->ops_cap)) {
		rr_eng_fail(e, RR_WHY_OVERRUN);	/* more messages than receives were posted */
		return;
	}
	q = &e->ops[e->ops_tail++ & (e->ops_cap - 1)];
	*q = (struct rr_qop){ .code = code, .id = id, .buf = buf, .inv = inv, .in = in };
}

/* How much of the message must be there before it is judged: all of it if parts of it are
 * elsewhere, more than the RPC header if the binding is to be asked. */
static void fill_pull(const struct rr_eng *e, const struct rr_in *in, struct rr_op *op)
{
	const struct rr_serve *s = in->serve ? rr_table_at(&e->serves, in->serve) : NULL;

	op->segs = in->segs;
	op->nsegs = in->nsegs;
	op->len = in->len;
	op->room = in->nparts ? in->room : 0;
	op->head = op->room ? in->len : s && s->nwrites ? RR_ULB_PEEK : RR_RPC_PEEK;
}

/* The segments of a Position-Zero Read chunk come first and have been fetched already; the
 * others hold the parts. */
static void fill_compose(const struct rr_in *in, struct rr_op *op)
{
	op->from = in->nsegs ? RR_FROM_PULL : RR_FROM_RECV;
	op->token = in->token;
	op->off = in->off;
	op->stream = in->stream;
	op->len = in->len;
	op->parts = in->parts;
	op->nparts = in->nparts;
	op->segs = in->segs + in->nsegs;
	op->nsegs = (uint32_t)in->nall - in->nsegs;
}

bool rr_eng_next_queued(struct rr_eng *e, struct rr_op *op)
{
	const struct rr_qop *q;

	if (e->ops_head == e->ops_tail)
		return false;
	q = &e->ops[e->ops_head++ & (e->ops_cap - 1)];
	op->code = q->code;
	op->id = q->id;
	op->buf = q->buf;
	op->inv_handle = q->inv;
	if (q->code == RR_OP_REPOST)
		op->token = q->buf;
	if (q->code == RR_OP_PULL)
		fill_pull(e, rr_table_at(&e->ins, q->in), op);
	if (q->code == RR_OP_COMPOSE)
		fill_compose(rr_table_at(&e->ins, q->in), op);
	if (e->ops_head == e->ops_tail)
		e->ops_head = e->ops_tail = 0;	/* touches little memory while idle */
	return true;
}
