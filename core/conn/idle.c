/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of idle connections goes back to the system. No thread of ours does it: a
 * thread of the app's that is about to sleep does, and a connection that has just used much
 * does it at once when the process has enough warm memory elsewhere. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/conn/conn_int.h"

#define WARM_MIN	64u	/* pages that are not worth counting */

static _Atomic rr_time next_look;	/* 0: nothing to do */
static _Atomic uint64_t warm;		/* pages of chunk memory kept by idle connections */

static bool page_in_use(void *ctx, size_t off, size_t len)
{
	return rr_pool_in_use(ctx, off, len);
}

static void trim(struct rr_share *sh)
{
	sh->qp->ops->trim(sh->qp, page_in_use, &sh->pool);
	sh->pool.peak = sh->pool.used;
	atomic_fetch_sub_explicit(&warm, sh->warm, memory_order_relaxed);
	sh->warm = 0;
}

/* A connection that had given its memory back is in use again. */
void rr_idle_active(rr_time now)
{
	rr_time none = 0;

	atomic_compare_exchange_strong_explicit(&next_look, &none, now + rr_cp->idle_trim,
						memory_order_relaxed, memory_order_relaxed);
}

/* A buffer may just have been freed. */
void rr_idle_warm(struct rr_share *sh)
{
	if (likely(sh->pool.used || sh->pool.peak <= WARM_MIN || sh->pool.peak <= sh->warm))
		return;
	atomic_fetch_add_explicit(&warm, sh->pool.peak - sh->warm, memory_order_relaxed);
	sh->warm = sh->pool.peak;
	if (atomic_load_explicit(&warm, memory_order_relaxed) * RR_POOL_PAGE > rr_cp->warm_memory)
		trim(sh);
}

struct look {
	rr_time now, next;
};

static void look_at(struct rr_conn *c, void *ctx)
{
	struct rr_share *sh = c->share;
	struct look *l = ctx;

	if (rr_lock_try(&sh->lock)) {
		l->next = rr_min(l->next, l->now + rr_cp->idle_trim);
		return;
	}
	if (!sh->trimmed && l->now - sh->active >= rr_cp->idle_trim) {
		trim(sh);
		sh->trimmed = true;
	} else if (!sh->trimmed) {
		l->next = rr_min(l->next, sh->active + rr_cp->idle_trim);
	}
	rr_lock_drop(&sh->lock);
}

rr_time rr_conn_idle(rr_time now)
{
	rr_time due = atomic_load_explicit(&next_look, memory_order_relaxed);
	struct look l = { now, RR_TIME_NEVER };

	if (!due)
		return RR_TIME_NEVER;
	if (now < due)
		return due;
	rr_conn_each_carried(look_at, &l);
	atomic_store_explicit(&next_look, l.next == RR_TIME_NEVER ? 0 : l.next,
			      memory_order_relaxed);
	return l.next;
}
