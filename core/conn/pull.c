/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that lie in the peer's memory: fetched when the app reads where an RDMA Read ends
 * inside the call (DIRECT providers), else into our own memory as soon as there is any for
 * them. Under the connection's lock. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/conn_int.h"

/* Bytes [off, off+len) of a message in the peer's memory into ours. */
int rr_drv_read_pull(struct rr_share *sh, const struct rr_pull *p, uint32_t off, void *dst,
		     uint32_t len)
{
	uint8_t *to = dst;

	for (uint32_t i = 0; i < p->nsegs && len; i++) {
		const struct rr_seg *s = &p->segs[i];
		uint32_t take;
		int rc;

		if (off >= s->length) {
			off -= s->length;
			continue;
		}
		take = rr_min(s->length - off, len);
		rc = sh->qp->ops->read(sh->qp, to, take, s, off, 0);
		if (rc < 0)
			return rc;
		to += take;
		len -= take;
		off = 0;
	}
	return len ? -EPROTO : 0;
}

static struct rr_pull *pull_new(struct rr_share *sh)
{
	for (uint32_t i = 0; i < RR_PULLS; i++)
		if (!sh->pull[i].used)
			return &sh->pull[i];
	return NULL;
}

static struct rr_pull *pull_find(struct rr_share *sh, uint32_t id)
{
	for (uint32_t i = 0; i < RR_PULLS; i++)
		if (sh->pull[i].used && sh->pull[i].id == id)
			return &sh->pull[i];
	return NULL;
}

/* All of it is here: the engine judges its head. */
static void pull_complete(struct rr_share *sh, struct rr_pull *p, rr_time now)
{
	size_t room;
	const uint8_t *head = rr_pool_at(&sh->pool, p->buf, 0, &room);

	rr_eng_head(sh->eng, p->id, 0, head, rr_min(p->len, RR_RPC_PEEK), now);
}

/* Messages that the app has yet to read get half of the memory: it may need the other half to
 * make them go away. One alone gets what it needs. */
static bool pull_memory(struct rr_share *sh, struct rr_pull *p)
{
	uint64_t held = sh->rx.stash + sh->pull_bytes;
	int64_t buf;

	if (p->turn != sh->pull_turn || (held && held + p->len > sh->qp->mem_size / 2))
		return false;
	buf = rr_pool_alloc(&sh->pool, p->len);
	if (buf < 0)
		return false;
	p->buf = (uint32_t)buf;
	sh->pull_bytes += p->len;
	sh->pull_turn++;
	return true;
}

/* The byte of the peer's memory that p->asked means: its segment, and where in that. */
static const struct rr_seg *pull_at(const struct rr_pull *p, uint32_t *off)
{
	const struct rr_seg *s = p->segs;

	for (*off = p->asked; *off >= s->length; s++)
		*off -= s->length;
	return s;
}

/* As many RDMA Reads as there is room for; 0, -EAGAIN, or why it fails. */
static int pull_ask(struct rr_share *sh, struct rr_pull *p)
{
	uint64_t who = rr_drv_cookie(RR_FOR_PULL, (uint32_t)(p - sh->pull));

	if (p->buf == RR_BUF_NONE && !pull_memory(sh, p))
		return -EAGAIN;
	while (p->asked < p->len) {
		size_t room;
		uint8_t *to = rr_pool_at(&sh->pool, p->buf, p->asked, &room);
		uint32_t off, take;
		const struct rr_seg *s = pull_at(p, &off);
		int rc;

		take = (uint32_t)rr_min(rr_min(room, (size_t)(p->len - p->asked)),
					(size_t)(s->length - off));
		rc = sh->qp->ops->read(sh->qp, to, take, s, off, who);
		if (rc < 0)
			return rc;
		p->pending += rc == 0;
		p->asked += take;
	}
	return 0;
}

static void pull_go(struct rr_share *sh, struct rr_pull *p, rr_time now)
{
	int rc = pull_ask(sh, p);

	if (rc == -EAGAIN)
		sh->pulls_short++;
	else if (rc == -ECONNRESET)
		rr_drv_lost(sh);
	else if (rc < 0)
		rr_eng_head(sh->eng, p->id, rc, NULL, 0, now);
	else if (!p->pending)
		pull_complete(sh, p, now);
}

/* There may be memory now, or room to post. */
void rr_pull_again(struct rr_share *sh, rr_time now)
{
	uint32_t turn = sh->pull_turn - 1;

	while (sh->pulls_short && turn != sh->pull_turn) {
		turn = sh->pull_turn;
		sh->pulls_short = 0;
		for (uint32_t i = 0; i < RR_PULLS; i++)
			if (sh->pull[i].used && sh->pull[i].asked < sh->pull[i].len)
				pull_go(sh, &sh->pull[i], now);
	}
}

static void pull_end(struct rr_share *sh, struct rr_pull *p)
{
	p->used = false;
	if (!rr_drv_direct(sh))
		sh->pull_bytes -= p->len;
}

/* On a DIRECT provider the payload stays where it is until the app reads: only the head is
 * fetched now. */
void rr_pull_begin(struct rr_share *sh, const struct rr_op *op, rr_time now)
{
	struct rr_pull *p = pull_new(sh);
	uint8_t head[RR_RPC_PEEK];
	uint32_t n = rr_min(op->len, RR_RPC_PEEK), id = op->id;
	int rc;

	if (!p || op->nsegs > RR_OP_MAX_SEGS) {
		rr_eng_head(sh->eng, id, -ENOBUFS, NULL, 0, now);
		return;
	}
	p->used = true;
	p->id = id;
	p->len = op->len;
	p->nsegs = op->nsegs;
	memcpy(p->segs, op->segs, op->nsegs * sizeof(p->segs[0]));
	if (!rr_drv_direct(sh)) {
		p->turn = sh->pulls++;
		p->buf = RR_BUF_NONE;
		p->asked = p->pending = 0;
		pull_go(sh, p, now);
		return;
	}
	rc = rr_drv_read_pull(sh, p, 0, head, n);
	if (rc < 0)
		p->used = false;
	rr_eng_head(sh->eng, id, rc, head, rc ? 0 : n, now);
}

void rr_drv_pull_done(struct rr_share *sh, uint32_t pull, int status)
{
	struct rr_pull *p = &sh->pull[pull];
	rr_time now = rr_now_coarse();

	p->used = false;
	rr_eng_pulled(sh->eng, p->id, status, now);
	rr_drv_run(sh, now);
}

/* The engine takes the message: e says where the app finds it. */
void rr_pull_deliver(struct rr_share *sh, uint32_t id, struct rr_rx_ent *e, rr_time now)
{
	struct rr_pull *p = pull_find(sh, id);

	if (rr_drv_direct(sh)) {
		e->ref = (uint32_t)(p - sh->pull);
		sh->rx.held++;	/* with ring credits, until it is pulled */
		return;
	}
	e->from = RR_FROM_BUF;
	e->ref = p->buf;
	e->stashed = true;
	sh->rx.stash += p->len;
	pull_end(sh, p);
	rr_eng_pulled(sh->eng, id, 0, now);
}

/* The engine refuses it. */
void rr_pull_drop(struct rr_share *sh, uint32_t id)
{
	struct rr_pull *p = pull_find(sh, id);

	if (!p)
		return;
	if (!rr_drv_direct(sh))
		rr_pool_free(&sh->pool, p->buf);
	pull_end(sh, p);
}

/* One of its RDMA Reads has ended. What a connection that is gone still owed does not come. */
void rr_pull_read(struct rr_share *sh, uint32_t pull, int status, rr_time now)
{
	struct rr_pull *p = &sh->pull[pull];

	p->pending--;
	if (status == -ECONNRESET)
		return;
	if (status)
		rr_eng_head(sh->eng, p->id, status, NULL, 0, now);
	else if (!p->pending && p->asked == p->len)
		pull_complete(sh, p, now);
}
