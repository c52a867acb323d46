/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine wants done. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "tests/lib/twopeers_int.h"

static bool lost_done(struct tp_peer *p, const struct rr_op *op)
{
	return op->id == 0 && op->hdr_len >= 16 && op->hdr[15] == 3 &&
	       tp_percent(p->tp, p->tp->conf.lose_done);
}

static const uint8_t zeroes[RR_PAD_MAX];

static void do_send(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pend *d;
	struct iovec iov[1 + RR_OP_MAX_PARTS] = { 0 };
	int n = 1;

	if (op->buf + 1 == p->brief)
		p->brief = 0;
	if (lost_done(p, op))
		return;
	if (op->hdr_len + op->len > p->qp->send_size)
		tp_wrong(p->tp, "side %d: Send of %u bytes", p->side, op->hdr_len + op->len);
	d = tp_pend_new(p, op->id);
	d->hdr = malloc(op->hdr_len);
	memcpy(d->hdr, op->hdr, op->hdr_len);
	iov[0] = (struct iovec){ d->hdr, op->hdr_len };
	for (uint32_t i = 0; i < op->nparts; i++) {
		const uint8_t *at = op->parts[i].off == RR_PART_ZEROES
					    ? zeroes : p->buf[op->buf].at + op->parts[i].off;

		iov[n++] = (struct iovec){ (void *)at, op->parts[i].len };
	}
	if (op->len && !op->nparts)
		iov[n++] = (struct iovec){ p->buf[op->buf].at, op->len };
	tp_posted(p, d, p->qp->ops->send(p->qp, iov, n, tp_cookie(p, d), op->inv_handle));
	tp_pend_end(p, d);
}

static void do_expose(struct tp_peer *p, const struct rr_op *op)
{
	uint32_t b = op->buf, n = 1, at = op->off, end = op->off + op->len;
	struct rr_seg segs[4];
	struct tp_buf *buf;

	if (tp_percent(p->tp, p->tp->conf.scarce) ||
	    (b == RR_BUF_NEW && (b = tp_buf_new(p, op->room)) == RR_BUF_NONE)) {
		rr_eng_exposed(p->eng, op->id, -EAGAIN, 0, NULL, 0, p->tp->now);
		return;
	}
	buf = &p->buf[b];
	if (op->len > 8)
		n += tp_random(p->tp) % (op->max_segs ? op->max_segs : 4);
	buf->nkeys = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = i + 1 < n ? op->len / n : end - at;

		if (p->qp->ops->expose(p->qp, buf->at + at, len, op->rights, &segs[i]))
			tp_wrong(p->tp, "side %d: no key", p->side);
		buf->keys[buf->nkeys++] = segs[i].handle;
		at += len;
	}
	rr_eng_exposed(p->eng, op->id, 0, b, segs, n, p->tp->now);
}

static void do_write(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pend *d = tp_pend_new(p, op->id);
	uint32_t at = op->off;

	if (op->buf + 1 == p->brief)
		tp_wrong(p->tp, "side %d: a short message is written", p->side);
	for (uint32_t i = 0; i < op->nsegs && !p->dead; i++) {
		tp_posted(p, d, p->qp->ops->write(p->qp, p->buf[op->buf].at + at, op->segs[i].length,
						  &op->segs[i], 0, tp_cookie(p, d)));
		at += op->segs[i].length;
	}
	if (at - op->off != op->len)
		tp_wrong(p->tp, "side %d: Write of %u bytes into %u", p->side, op->len, at);
	tp_pend_end(p, d);
}

/* What the peer has written stays; the rest goes around it. */
static void do_place(struct tp_peer *p, const struct rr_op *op)
{
	const uint8_t *stream = p->recv[op->token] + op->off;
	uint8_t *at = p->buf[op->buf].at + op->at;
	uint32_t end = op->parts[0].off + op->parts[0].len, pad = rr_ulb_pad(op->parts[0].len);

	if (p->buf[op->buf].nkeys)
		tp_wrong(p->tp, "side %d: placed before it was fenced", p->side);
	if (op->at + op->len > p->buf[op->buf].len)
		tp_wrong(p->tp, "side %d: placed beyond the buffer", p->side);
	memcpy(at, stream, op->parts[0].off);
	memset(at + end, 0, pad);
	memcpy(at + end + pad, stream + op->parts[0].off, op->stream - op->parts[0].off);
}

static void do_invalidate(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pend *d = tp_pend_new(p, op->id);
	struct tp_buf *buf = &p->buf[op->buf];

	for (uint32_t i = 0; i < buf->nkeys && !p->dead; i++)
		if (buf->keys[i] != op->inv_handle)
			tp_posted(p, d, p->qp->ops->invalidate(p->qp, buf->keys[i], tp_cookie(p, d)));
	d->fenced = op->buf + 1;
	tp_pend_end(p, d);
}

/* A call that was refused first comes later than those behind it: it goes to the head of the queue. */
static void overtaken(struct tp_queue *q, const struct rr_op *op)
{
	uint32_t i = q->head;
	struct tp_msg m;

	while (i != q->tail && (q->msg[i % TP_LOG].xid != op->rpc.xid ||
				q->msg[i % TP_LOG].type != op->rpc.type))
		i++;
	if (i == q->tail)
		return;
	m = q->msg[i % TP_LOG];
	for (; i != q->head; i--)
		q->msg[i % TP_LOG] = q->msg[(i - 1) % TP_LOG];
	q->msg[q->head % TP_LOG] = m;
}

/* The message that must come now: the next of what the other side wrote. */
static bool expected(struct tp_peer *p, const struct rr_op *op, struct tp_msg *m)
{
	struct tp_queue *q = &p->tp->peer[!p->side].sent;

	if (q->head == q->tail) {
		tp_wrong(p->tp, "side %d: a message that nobody sent, xid %x", p->side, op->rpc.xid);
		return false;
	}
	if (p->tp->conf.resent)
		overtaken(q, op);
	*m = q->msg[q->head++ % TP_LOG];
	if (m->xid != op->rpc.xid || m->type != op->rpc.type || m->len != op->len) {
		tp_wrong(p->tp, "side %d: xid %x type %u len %u where xid %x type %u len %u was due",
			 p->side, op->rpc.xid, op->rpc.type, op->len, m->xid, m->type, m->len);
		return false;
	}
	return true;
}

static void give_back(struct tp_peer *p, uint32_t token)
{
	if (p->tp->conf.link.ring && p->tp->conf.slow && p->nheld < TP_BUFS)
		p->held[p->nheld++] = token;
	else
		p->qp->ops->repost(p->qp, token);
}

/* Is it m, when its padding is left out, which is zero? */
static bool same_unpadded(const struct rr_op *op, const struct tp_msg *m, const uint8_t *at)
{
	uint8_t *msg = malloc(op->len);
	uint32_t to = 0, from = 0;
	bool ok = true;

	for (uint32_t i = 0; i < op->nparts; i++) {
		memcpy(msg + to, at + from, op->parts[i].off - from);
		to += op->parts[i].off - from;
		from = op->parts[i].off + op->parts[i].len;
		ok &= memcmp(at + op->parts[i].off, zeroes, op->parts[i].len) == 0;
	}
	memcpy(msg + to, at + from, op->len - to);
	ok &= tp_same(m, msg);
	free(msg);
	return ok;
}

static void do_deliver(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_msg m;
	struct tp_pull *u;
	const uint8_t *at;

	if (!expected(p, op, &m))
		return;
	for (u = p->pull; u < p->pull + TP_PULLS; u++)
		if (u->used && u->early && u->delivered && !u->pulled)
			tp_wrong(p->tp, "side %d: delivered behind a message that is here in part", p->side);
	if (op->from == RR_FROM_PULL) {
		u = tp_pull_find(p, op->id);
		u->delivered = true;
		u->msg = m;
		tp_pull_progress(p, u);
		return;
	}
	at = (op->from == RR_FROM_RECV ? p->recv[op->token] : p->buf[op->buf].at) + op->off;
	if (op->from == RR_FROM_BUF && p->buf[op->buf].nkeys)
		tp_wrong(p->tp, "side %d: delivered before it was fenced", p->side);
	if (op->nparts ? !same_unpadded(op, &m, at) : !tp_same(&m, at))
		tp_wrong(p->tp, "side %d: bytes differ, xid %x len %u", p->side, m.xid, m.len);
	tp_push(p->tp, &p->inbox, &m);
	if (op->from == RR_FROM_RECV)
		give_back(p, op->token);
	else
		tp_buf_put(p, op->buf);
}

static void do_release(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pull *u;

	if (op->buf != RR_BUF_NONE) {
		if (p->buf[op->buf].nkeys)
			tp_wrong(p->tp, "side %d: released before it was fenced", p->side);
		tp_buf_put(p, op->buf);
		return;
	}
	u = tp_pull_find(p, op->id);
	if (u->reading)
		tp_wrong(p->tp, "side %d: a pull refused before its head", p->side);
	tp_pull_end(p, u);
}

static void do_op(struct tp_peer *p, const struct rr_op *op)
{
	switch (op->code) {
	case RR_OP_SEND:
		do_send(p, op);
		break;
	case RR_OP_EXPOSE:
		do_expose(p, op);
		break;
	case RR_OP_WRITE:
		do_write(p, op);
		break;
	case RR_OP_PULL:
		tp_pull_begin(p, op);
		break;
	case RR_OP_COMPOSE:
		tp_pull_compose(p, op);
		break;
	case RR_OP_PLACE:
		do_place(p, op);
		break;
	case RR_OP_INVALIDATE:
		do_invalidate(p, op);
		break;
	case RR_OP_DELIVER:
		do_deliver(p, op);
		break;
	case RR_OP_RELEASE:
		do_release(p, op);
		break;
	case RR_OP_REPOST:
		p->qp->ops->repost(p->qp, op->token);
		break;
	case RR_OP_FAIL:
		p->failed = op->why;
		p->dead = true;
		break;
	case RR_OP_NONE:
		tp_wrong(p->tp, "an operation without a code");
		break;
	}
}

void tp_run(struct tp_peer *p)
{
	struct rr_op op;

	for (int i = 0; !p->dead && rr_eng_next_op(p->eng, &op); i++) {
		do_op(p, &op);
		if (i > 100000) {
			tp_wrong(p->tp, "side %d: operations without end", p->side);
			return;
		}
	}
}
