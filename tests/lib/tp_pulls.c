/* SPDX-License-Identifier: BSD-3-Clause */
/* What is posted and has not completed; messages in the other peer's memory. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "tests/lib/twopeers_int.h"

/* --- pending operations ---------------------------------------------------------------- */

struct tp_pend *tp_pend_new(struct tp_peer *p, uint32_t id)
{
	uint32_t i = 0;

	while (i < TP_PENDS && p->pend[++p->next_pend % TP_PENDS].left)
		i++;
	if (i == TP_PENDS)
		abort();
	i = p->next_pend % TP_PENDS;
	p->pend[i] = (struct tp_pend){ .id = id, .left = 1 };
	return &p->pend[i];
}

uint64_t tp_cookie(const struct tp_peer *p, const struct tp_pend *d)
{
	return (uint64_t)(d - p->pend) + 1;
}

void tp_pend_end(struct tp_peer *p, struct tp_pend *d)
{
	if (--d->left > 0)
		return;
	free(d->hdr);
	d->hdr = NULL;
	if (d->fenced)
		p->buf[d->fenced - 1].nkeys = 0;
	if (d->pull) {
		p->pull[d->pull - 1].reading = false;
		tp_pull_progress(p, &p->pull[d->pull - 1]);
	} else if (d->id) {
		rr_eng_done(p->eng, d->id, d->status, p->tp->now);
	}
}

void tp_posted(struct tp_peer *p, struct tp_pend *d, int rc)
{
	if (rc == -ECONNRESET)
		p->dead = true;
	else if (rc < 0)
		tp_wrong(p->tp, "side %d: post failed: %d", p->side, rc);
	if (rc == 0)
		d->left++;
}

/* --- pulls ----------------------------------------------------------------------------- */

static void pull_read(struct tp_peer *p, struct tp_pull *u, uint32_t from, uint32_t to)
{
	struct tp_pend *d = tp_pend_new(p, 0);
	uint32_t at = 0;

	d->pull = (uint32_t)(u - p->pull) + 1;
	u->reading = true;
	for (uint32_t i = 0; i < u->nsegs && !p->dead; i++) {
		uint32_t lo = rr_max(at, from), hi = rr_min(at + u->segs[i].length, to);

		if (lo < hi)
			tp_posted(p, d, p->qp->ops->read(p->qp, p->buf[u->buf].at + lo, hi - lo,
							 &u->segs[i], lo - at, tp_cookie(p, d)));
		at += u->segs[i].length;
	}
	tp_pend_end(p, d);
}

/* Nothing more is read of its segments. */
static void pull_end_read(struct tp_peer *p, struct tp_pull *u)
{
	for (uint32_t i = 0; i < u->nsegs; i++)
		p->qp->ops->consume(p->qp, &u->segs[i]);
	u->pulled = true;
	rr_eng_pulled(p->eng, u->id, 0, p->tp->now);
}

/* Puts the Payload stream around the parts. */
static void compose(struct tp_pull *u, uint8_t *at)
{
	const uint8_t *from = u->recv ? u->recv : at;
	uint8_t *stream = malloc(u->stream);
	uint32_t to = 0, done = 0;

	memcpy(stream, from, u->stream);
	memset(at, 0, u->len);
	for (uint32_t i = 0; i <= u->nparts; i++) {
		uint32_t end = i < u->nparts ? u->parts[i].off : u->len;

		memcpy(at + to, stream + done, end - to);
		done += end - to;
		if (i < u->nparts)
			to = end + u->parts[i].len + rr_ulb_pad(u->parts[i].len);
	}
	free(stream);
}

static void compose_read(struct tp_peer *p, struct tp_pull *u)
{
	struct tp_pend *d = tp_pend_new(p, 0);
	uint32_t seg = 0, off = 0;

	compose(u, p->buf[u->buf].at);
	d->pull = (uint32_t)(u - p->pull) + 1;
	u->reading = true;
	for (uint32_t i = 0; i < u->nparts; i++) {
		uint32_t at = u->parts[i].off, end = at + u->parts[i].len;

		while (at < end && !p->dead) {
			uint32_t n = rr_min(u->segs[seg].length - off, end - at);

			if (n)
				tp_posted(p, d, p->qp->ops->read(p->qp, p->buf[u->buf].at + at, n,
								 &u->segs[seg], off, tp_cookie(p, d)));
			at += n;
			off += n;
			if (off == u->segs[seg].length) {
				seg++;
				off = 0;
			}
		}
	}
	tp_pend_end(p, d);
}

static void pull_fetch(struct tp_peer *p, struct tp_pull *u)
{
	if (u->composing)
		compose_read(p, u);
	else
		pull_read(p, u, 0, u->head);
}

/* Memory goes to pulls in the order of their arrival: they are delivered in that order too,
 * and a later one must not keep what an earlier one needs. */
static void pull_start(struct tp_peer *p, struct tp_pull *u)
{
	u->buf = p->nstarved ? RR_BUF_NONE : tp_buf_new(p, u->room);
	u->starved = u->buf == RR_BUF_NONE;
	if (u->starved)
		p->nstarved++;
	else
		pull_fetch(p, u);
}

void tp_pull_end(struct tp_peer *p, struct tp_pull *u)
{
	tp_buf_put(p, u->buf);
	u->used = false;
	p->npulls--;
}

void tp_pull_feed(struct tp_peer *p)
{
	struct tp_pull *first = NULL;

	for (uint32_t i = 0; i < TP_PULLS; i++)
		if (p->pull[i].used && p->pull[i].starved && (!first || p->pull[i].seq < first->seq))
			first = &p->pull[i];
	first->buf = tp_buf_new(p, first->room);
	if (first->buf == RR_BUF_NONE)
		return;
	first->starved = false;
	p->nstarved--;
	pull_fetch(p, first);
}

static void pull_finish(struct tp_peer *p, struct tp_pull *u)
{
	if (!tp_same(&u->msg, p->buf[u->buf].at))
		tp_wrong(p->tp, "side %d: pulled bytes differ, xid %x", p->side, u->msg.xid);
	tp_push(p->tp, &p->inbox, &u->msg);
	tp_pull_end(p, u);
}

void tp_pull_progress(struct tp_peer *p, struct tp_pull *u)
{
	if (!u->used || u->reading || u->starved || p->dead)
		return;
	if (u->composing) {
		u->composing = false;
		pull_end_read(p, u);
		return;
	}
	if (!u->headed) {
		u->headed = true;
		if (u->early) {
			uint32_t from = u->head;

			u->head = u->len;
			rr_eng_front(p->eng, u->id, p->buf[u->buf].at, from, p->tp->now);
			pull_read(p, u, from, u->len);
			return;
		}
		rr_eng_head(p->eng, u->id, 0, p->buf[u->buf].at, u->head, p->tp->now);
		if (u->head == u->len)
			pull_end_read(p, u);
		return;
	}
	if (u->early && !u->pulled)
		pull_end_read(p, u);
	if (!u->delivered)
		return;
	if (u->pulled) {
		pull_finish(p, u);
	} else if (u->head < u->len) {
		if (tp_percent(p->tp, p->tp->conf.slow))
			return;
		uint32_t from = u->head;

		u->head = u->len;
		pull_read(p, u, from, u->len);
	} else {
		pull_end_read(p, u);
		pull_finish(p, u);
	}
}

struct tp_pull *tp_pull_find(struct tp_peer *p, uint32_t id)
{
	for (uint32_t i = 0; i < TP_PULLS; i++)
		if (p->pull[i].used && p->pull[i].id == id)
			return &p->pull[i];
	return NULL;
}

static struct tp_pull *pull_new(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pull *u = p->pull;

	while (u < p->pull + TP_PULLS && u->used)
		u++;
	if (u == p->pull + TP_PULLS)
		abort();
	*u = (struct tp_pull){ .used = true, .id = op->id, .len = op->len, .nsegs = op->nsegs };
	memcpy(u->segs, op->segs, op->nsegs * sizeof(*op->segs));
	u->room = rr_max(op->len, op->room);
	u->seq = ++p->pull_seq;
	p->npulls++;
	return u;
}

void tp_pull_begin(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pull *u = pull_new(p, op);

	u->head = op->room || tp_random(p->tp) % 2 ? op->len : rr_min(op->len, op->head);
	u->early = u->head < op->len && tp_random(p->tp) % 2;
	pull_start(p, u);
}

void tp_pull_compose(struct tp_peer *p, const struct rr_op *op)
{
	bool fresh = op->from == RR_FROM_RECV;
	struct tp_pull *u = fresh ? pull_new(p, op) : tp_pull_find(p, op->id);

	u->composing = true;
	u->headed = true;
	u->recv = fresh ? p->recv[op->token] + op->off : NULL;
	u->len = op->len;
	u->stream = op->stream;
	u->nparts = op->nparts;
	memcpy(u->parts, op->parts, op->nparts * sizeof(*op->parts));
	u->nsegs = op->nsegs;
	memcpy(u->segs, op->segs, op->nsegs * sizeof(*op->segs));
	if (fresh)
		pull_start(p, u);
	else
		pull_fetch(p, u);
}
