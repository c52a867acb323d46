/* SPDX-License-Identifier: BSD-3-Clause */
/* Our memory that the peer may read or write: gives the peer keys, and takes them back. Which
 * memory and when is the engine's decision. Under the connection's lock. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"

#define FENCE_LOOK_MIN	RR_MSEC
#define FENCE_LOOK_MAX	(50 * RR_MSEC)

static void fence_begins(struct rr_share *sh, struct rr_buf *b)
{
	b->fencing++;
	if (!sh->fences++)
		sh->fences_since = rr_now_coarse();
}

/* Looks soon at first, then at growing intervals. */
rr_time rr_drv_fence_due(const struct rr_share *sh)
{
	rr_time now, waited;

	if (likely(!sh->fences) || !rr_drv_direct(sh))
		return RR_TIME_NEVER;
	now = rr_now();
	waited = now > sh->fences_since ? now - sh->fences_since : 0;
	return now + rr_min(rr_max(waited / 4, FENCE_LOOK_MIN), FENCE_LOOK_MAX);
}

/* Takes a buffer's keys back, from the nth on. True: done; false: completions are to come. */
static bool unexpose(struct rr_share *sh, uint32_t buf, uint32_t nth)
{
	struct rr_buf *b = &sh->pool.buf[buf];

	for (uint32_t i = nth; i < b->nkeys; i++) {
		int rc = rr_drv_invalidate(sh, b->key[i], rr_drv_cookie(RR_FOR_FENCE, buf));

		if (unlikely(rc == 0))
			fence_begins(sh, b);
		if (rc < 0)	/* the peer cannot use the key any more, either */
			rr_drv_posted(sh, 0, rc, 0);
	}
	b->nkeys = rr_min(b->nkeys, nth);
	b->early = rr_min(b->early, nth);
	return !b->fencing;
}

void rr_expose_key_gone(struct rr_share *sh, uint32_t handle)
{
	for (uint32_t i = 0; i < sh->pool.fresh_buf; i++) {
		struct rr_buf *b = &sh->pool.buf[i];

		for (uint32_t k = 0; k < b->nkeys; k++) {
			if (b->key[k] != handle)
				continue;
			if (k < b->early) {	/* they stay in front */
				b->key[k] = b->key[--b->early];
				k = b->early;
			}
			b->key[k] = b->key[--b->nkeys];
			return;
		}
	}
}

void rr_expose_drop(struct rr_share *sh, uint32_t buf)
{
	if (unexpose(sh, buf, 0))
		rr_pool_free(&sh->pool, buf);
	else
		sh->pool.buf[buf].dying = true;
}

void rr_expose_fence(struct rr_share *sh, const struct rr_op *op, rr_time now)
{
	if (unexpose(sh, op->buf, 0))
		rr_eng_done(sh->eng, op->id, 0, now);
	else
		sh->pool.buf[op->buf].fence_id = op->id;
}

void rr_expose_fenced(struct rr_share *sh, uint32_t buf, rr_time now)
{
	struct rr_buf *b = &sh->pool.buf[buf];

	if (!b->fencing)
		return;
	sh->fences--;
	if (--b->fencing)
		return;
	if (b->fence_id)
		rr_eng_done(sh->eng, b->fence_id, 0, now);
	b->fence_id = 0;
	if (b->dying)
		rr_pool_free(&sh->pool, buf);
	b->dying = false;
}

void rr_expose_all_fenced(struct rr_share *sh, rr_time now)
{
	for (uint32_t i = 0; i < sh->pool.fresh_buf; i++) {
		if (sh->pool.buf[i].fencing) {
			sh->fences -= sh->pool.buf[i].fencing - 1u;
			sh->pool.buf[i].fencing = 1;
			rr_expose_fenced(sh, i, now);
		}
	}
}

bool rr_expose_consumed(struct rr_share *sh, const struct rr_buf *b)
{
	/* An early key says nothing: what was read by it comes before the message. */
	for (uint32_t i = b->early; i < b->nkeys; i++)
		if (!rr_drv_consumed(sh, b->key[i]))
			return false;
	return b->nkeys > b->early;
}

static void add_key(struct rr_buf *b, uint32_t handle)
{
	b->key[b->nkeys++] = handle;
}

bool rr_expose_early(struct rr_share *sh, uint32_t buf, void *from, uint32_t len,
		     struct rr_seg *seg)
{
	struct rr_buf *b = &sh->pool.buf[buf];
	struct rr_seg got;

	if (b->early == RR_BUF_EARLY || rr_drv_expose(sh, from, len, RR_RIGHT_READ, &got))
		return false;
	add_key(b, got.handle);
	b->early = b->nkeys;
	*seg = got;
	return true;
}

RR_NOINLINE void rr_expose(struct rr_share *sh, const struct rr_op *op, rr_time now)
{
	struct rr_seg segs[RR_BUF_EXTS];
	size_t end = op->buf == RR_BUF_NEW ? rr_room_reply(sh) : rr_room_out(sh);
	uint32_t buf = op->buf, id = op->id, n = 0;
	uint32_t had = buf == RR_BUF_NEW ? 0 : sh->pool.buf[buf].nkeys;
	size_t left = op->len;
	int rc = 0;

	if (buf == RR_BUF_NEW) {
		int64_t got = rr_pool_alloc_below(&sh->pool, op->room, end);

		if (got < 0) {
			rr_count(sh->qp->count, RR_C_memory_stalls, 1);
			rr_eng_exposed(sh->eng, id, (int)got, RR_BUF_NONE, NULL, 0, now);
			return;
		}
		buf = (uint32_t)got;
	}
	if (unlikely(op->max_segs && sh->pool.buf[buf].nexts > op->max_segs))
		rc = rr_pool_gather(&sh->pool, buf, end);
	for (size_t off = op->off; left && !rc; n++) {
		size_t room;
		uint8_t *p = rr_pool_at(&sh->pool, buf, off, &room);
		size_t take = rr_min(room, left);

		rc = rr_drv_expose(sh, p, (uint32_t)take, op->rights, &segs[n]);
		if (rc)
			break;
		add_key(&sh->pool.buf[buf], segs[n].handle);
		off += take;
		left -= take;
	}
	if (rc) {
		if (op->buf == RR_BUF_NEW)
			rr_expose_drop(sh, buf);
		else
			unexpose(sh, buf, had);
		rr_eng_exposed(sh->eng, id, rc, RR_BUF_NONE, NULL, 0, now);
		return;
	}
	rr_eng_exposed(sh->eng, id, 0, buf, segs, n, now);
}
