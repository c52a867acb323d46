/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "tests/lib/twopeers_int.h"

#define STEP	RR_USEC
#define IDLE_STEP (10 * STEP)	/* nothing is on its way: who waits for his time has it sooner */

uint64_t tp_random(struct tp *tp)
{
	tp->rng ^= tp->rng << 13;
	tp->rng ^= tp->rng >> 7;
	tp->rng ^= tp->rng << 17;
	return tp->rng;
}

bool tp_percent(struct tp *tp, uint32_t n)
{
	return n && tp_random(tp) % 100 < n;
}

void tp_wrong(struct tp *tp, const char *fmt, ...)
{
	va_list ap;

	if (tp->error[0])
		return;
	va_start(ap, fmt);
	vsnprintf(tp->error, sizeof(tp->error), fmt, ap);
	va_end(ap);
}

/* --- events ---------------------------------------------------------------------------- */

/* The peer has invalidated a key of ours. */
static void key_gone(struct tp_peer *p, uint32_t handle)
{
	for (uint32_t b = 0; b < rr_array_size(p->buf); b++)
		for (uint32_t i = 0; i < p->buf[b].nkeys; i++)
			if (p->buf[b].keys[i] == handle)
				p->buf[b].keys[i--] = p->buf[b].keys[--p->buf[b].nkeys];
}

static void take_wc(struct tp_peer *p, const struct rr_wc *wc)
{
	if (wc->op == RR_WC_RECV) {
		if (wc->has_inv)
			key_gone(p, wc->inv_handle);
		p->recv[wc->cookie] = wc->buf;
		rr_eng_recv(p->eng, (uint32_t)wc->cookie, wc->buf, wc->len,
			    wc->has_inv ? wc->inv_handle : 0, p->tp->now);
	} else {
		tp_pend_end(p, &p->pend[wc->cookie - 1]);
	}
	tp_run(p);
}

static void read_slowly(struct tp_peer *p)
{
	while (p->nheld && !tp_percent(p->tp, p->tp->conf.slow))
		p->qp->ops->repost(p->qp, p->held[--p->nheld]);
}

static bool all_consumed(struct tp_peer *p, const struct tp_buf *b)
{
	for (uint32_t i = 0; i < b->nkeys; i++)
		if (!p->qp->ops->consumed(p->qp, b->keys[i]))
			return false;
	return b->nkeys > 0;
}

static void reclaim(struct tp_peer *p)
{
	p->starved = false;
	for (uint32_t i = 0; i < TP_BUFS && !p->dead && p->tp->conf.link.ring; i++) {
		if (!p->buf[i].used || !all_consumed(p, &p->buf[i]))
			continue;
		rr_eng_consumed(p->eng, i, p->tp->now);
		tp_run(p);
	}
}

static void advance_pulls(struct tp_peer *p)
{
	if (p->nstarved)
		tp_pull_feed(p);
	for (uint32_t i = 0; i < TP_PULLS && p->npulls && !p->dead; i++) {
		if (!p->pull[i].used)
			continue;
		tp_pull_progress(p, &p->pull[i]);
		tp_run(p);
	}
}

static void step_peer(struct tp_peer *p)
{
	struct rr_wc wc[4];
	int n;

	if (p->dead)
		return;
	while ((n = p->qp->ops->poll(p->qp, wc, 1)) > 0 && !p->dead)
		take_wc(p, &wc[0]);
	if (n < 0)
		p->dead = true;
	read_slowly(p);
	advance_pulls(p);
	if (p->starved)
		reclaim(p);
	if (p->dead)
		return;
	if (p->tp->now >= rr_eng_deadline(p->eng))
		rr_eng_tick(p->eng, p->tp->now);
	if (p->tp->conf.link.ring)
		rr_eng_window(p->eng, p->qp->ops->window(p->qp));
	tp_run(p);
}

/* Some pages of what an idle engine can do without are lost, others are not. */
static void lose_tables(struct tp_peer *p)
{
	size_t keep = rr_eng_quiet(p->eng), end = rr_eng_size(&p->tp->conf.eng[p->side]);

	if (!keep)
		return;
	p->nquiet++;
	for (size_t at = keep, n; at < end; at += n) {
		n = rr_min(end - at, (size_t)(64 + tp_random(p->tp) % 4096));
		if (tp_random(p->tp) % 4)
			memset((uint8_t *)p->eng + at, 0, n);
	}
}

void tp_step(struct tp *tp)
{
	int first = tp_random(tp) % 2;

	tp->now += rr_fake_busy(&tp->link) ? STEP : IDLE_STEP;
	for (int i = 0; i < 2; i++)
		if (tp_percent(tp, tp->conf.quiet))
			lose_tables(&tp->peer[i]);
	rr_fake_step(&tp->link);
	step_peer(&tp->peer[first]);
	step_peer(&tp->peer[!first]);
	if (tp->link.rnr)
		tp_wrong(tp, "a Send found no receive");
	if (tp->link.violations)
		tp_wrong(tp, "access without key");
}

static bool quiet(const struct tp_peer *p)
{
	return p->npulls == 0 && p->sent.head == p->sent.tail && p->nheld == 0;
}

bool tp_settle(struct tp *tp, uint32_t n)
{
	while (n-- && !tp->error[0]) {
		tp_step(tp);
		if (tp->peer[0].dead && tp->peer[1].dead)
			return true;
		if (!rr_fake_busy(&tp->link) && quiet(&tp->peer[0]) && quiet(&tp->peer[1]))
			return true;
	}
	return false;
}

/* --- the app --------------------------------------------------------------------------- */

/* Version 2 and CCP grant before the first call (the opening); version 1, and in the reverse direction both, by
 * the first reply. */
static bool may_have_one_only(const struct tp_peer *p)
{
	struct rr_eng_info i;

	rr_eng_info(p->eng, &i);
	return !p->answered && (p->side == 1 || (i.version == 1 && !p->tp->conf.eng[0].ccp_prog));
}

static void check_credits(struct tp_peer *p)
{
	const struct rr_eng_params *us = &p->tp->conf.eng[p->side], *peer = &p->tp->conf.eng[!p->side];
	/* draft-02 §3.8: a server grants two at least */
	uint32_t least = peer->dialect == RR_DIALECT_DRAFT02 ? 2 : 0;
	uint32_t max = p->side == 0 ? rr_min(us->credits, rr_max(peer->credits, least))
				    : rr_min(us->bc_credits, peer->bc_credits);

	if (us->caps & RR_CAP_RING_CREDITS)
		return;
	if (p->outstanding > rr_max(max, 1u) || (p->outstanding > 1 && may_have_one_only(p)))
		tp_wrong(p->tp, "side %d: %u calls in flight", p->side, p->outstanding);
}

int tp_send(struct tp *tp, int side, uint32_t type, uint32_t xid, uint32_t proc, uint32_t len)
{
	struct tp_peer *p = &tp->peer[side];
	struct tp_msg m = { .xid = xid, .type = type, .proc = proc };
	struct rr_eng_out out = { 0 };
	int rc;

	if (p->dead)
		return -ECONNRESET;
	tp_measure(&m, len);
	out.len = len = m.len;
	/* half of the memory is for pulls and Reply chunks */
	out.buf = p->free_blocks - tp_blocks(len) < p->nblocks / 2 || p->free_blocks < tp_blocks(len)
		? RR_BUF_NONE : tp_buf_new(p, len);
	p->starved |= out.buf == RR_BUF_NONE;
	if (out.buf == RR_BUF_NONE)
		return -ENOBUFS;
	m.seed = tp_word(tp->conf.seed * 2 + (uint64_t)side, (uint32_t)p->nsent);
	tp_make(&m, p->buf[out.buf].at);
	out.head = p->buf[out.buf].at;
	out.have = len;
	if (!rr_rpc_peek(out.head, out.have, &out.rpc))
		abort();
	p->brief = rr_eng_is_short(p->eng, type, len) ? out.buf + 1 : 0;
	rc = rr_eng_send(p->eng, &out, tp->now);
	if (rc) {
		tp_buf_put(p, out.buf);
		p->starved = true;
		return rc;
	}
	p->nsent++;
	tp_push(tp, &p->sent, &m);
	if (type == RR_RPC_CALL) {
		p->outstanding++;
		check_credits(p);
	} else {
		tp->peer[!side].outstanding--;
		tp->peer[!side].answered = true;
	}
	tp_run(p);
	if (p->brief && !p->dead)
		tp_wrong(tp, "side %d: a short message of %u bytes is not sent", side, len);
	return 0;
}

/* --- set-up ---------------------------------------------------------------------------- */

static void set_up(struct tp *tp, int side, struct rr_prov_addr *addr)
{
	struct tp_peer *p = &tp->peer[side];
	struct rr_eng_params *e = &tp->conf.eng[side];
	struct rr_prov_params params = {
		.recv_size = e->inline_recv,
		.recvs = e->recvs ? e->recvs : rr_eng_recvs(e),
		.mem_size = tp->conf.mem_size,
	};
	struct rr_prov_addr none;

	p->tp = tp;
	p->side = side;
	e->connector = side == 0;
	e->count = &p->count;
	p->eng = rr_eng_init(calloc(1, rr_eng_size(e)), e, tp->now);
	p->qp = calloc(1, tp->link.ops.qp_size(&params));
	if (side == 0)
		tp->link.ops.prepare(p->qp, &params, addr);
	else if (tp->link.ops.answer(p->qp, &params, addr, &none))
		abort();
	p->nblocks = tp->conf.mem_size / TP_BLOCK;
	p->free_blocks = p->nblocks;
	p->blocks = calloc(p->nblocks, 1);
}

struct tp *tp_new(const struct tp_conf *conf)
{
	struct tp *tp = calloc(1, sizeof(*tp));
	struct rr_prov_addr addr;

	tp_noise();
	tp->conf = *conf;
	tp->now = RR_SEC;
	tp->rng = conf->seed * 2 + 1;
	rr_fake_link_init(&tp->link, &conf->link, conf->seed + 77);
	set_up(tp, 0, &addr);
	set_up(tp, 1, &addr);
	for (int i = 0; i < 2; i++)
		if (conf->link.ring)
			rr_eng_window(tp->peer[i].eng, tp->peer[i].qp->ops->window(tp->peer[i].qp));
	return tp;
}

void tp_free(struct tp *tp)
{
	for (int i = 0; i < 2; i++) {
		struct tp_peer *p = &tp->peer[i];

		for (uint32_t d = 0; d < TP_PENDS; d++)
			if (p->pend[d].left)
				free(p->pend[d].hdr);
		p->qp->ops->close(p->qp);
		free(p->qp);
		free(p->eng);
		free(p->blocks);
	}
	free(tp);
}

bool tp_all_released(const struct tp *tp)
{
	for (int i = 0; i < 2; i++) {
		const struct tp_peer *p = &tp->peer[i];

		for (uint32_t b = 0; b < TP_BUFS; b++)
			if (p->buf[b].used)
				return false;
		if (rr_fake_keys(p->qp))
			return false;
	}
	return true;
}
