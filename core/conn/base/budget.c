/* SPDX-License-Identifier: BSD-3-Clause */
/* What peers that do not read may cost, as socket buffers bound it on TCP. A connection is full
 * when what it has sent and its peer has not taken reaches its budget: a next message waits
 * then, but what is under way is not cut short, so that the longest message passes where
 * nothing else does. When all connections of the process together have used up the process's
 * budget, each is full with much less, but never with nothing.
 *
 * Two accounts. Chunk memory, in our own region, is counted as it is used: calls and replies
 * that are exposed, a record being collected, messages received ahead of the app. The peer's
 * ring, whose pages are charged to us where we touch them first, is reserved for as long as the
 * connection lives, since a peer can keep it from ever being trimmed.
 *
 * They are this process's alone, and so is each connection's part in them (struct rr_conn): who
 * dies takes all with it, and what a family shares is counted by each process that has it. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

#define GRAIN	65536u		/* small messages never touch the account */
#define LEAST	65536u		/* what a connection has in any case, and one message */
#define SLOT	(4096u + 128u)	/* of a ring with receives of the usual size */

static _Atomic uint64_t used, rings;

bool rr_budget_all_used(void)
{
	return atomic_load_explicit(&used, memory_order_relaxed) >= rr_cp->process_budget;
}

static void charge(_Atomic uint64_t *account, uint64_t *part, uint64_t now)
{
	atomic_fetch_add_explicit(account, now - *part, memory_order_relaxed);
	*part = now;
}

/* What was used once is there until the connection is idle, or uses nothing (rr_idle_warm());
 * where it is missed it is given back sooner. */
void rr_budget_recount(struct rr_conn *c)
{
	struct rr_pool *p = &c->share->pool;
	uint64_t now;

	if (unlikely(p->used && p->peak - p->used > GRAIN / RR_POOL_PAGE &&
		     rr_budget_all_used()))
		rr_idle_trim(c->share);
	now = (uint64_t)(p->used ? p->peak : 0) * RR_POOL_PAGE;
	now = rr_align(now, (uint64_t)GRAIN);
	if (unlikely(now != c->charged))
		charge(&used, &c->charged, now);
}

void rr_budget_carry(struct rr_conn *c)
{
	const struct rr_qp *qp = c->share->qp;

	charge(&rings, &c->ring, (uint64_t)qp->recvs * rr_max(qp->recv_size, SLOT));
}

void rr_budget_end(struct rr_conn *c)
{
	charge(&used, &c->charged, 0);
	charge(&rings, &c->ring, 0);
}

void rr_budget_forked(void)
{
	atomic_store_explicit(&used, 0, memory_order_relaxed);
	atomic_store_explicit(&rings, 0, memory_order_relaxed);
}

void rr_budget_inherit(const struct rr_conn *c)
{
	atomic_fetch_add_explicit(&used, c->charged, memory_order_relaxed);
	atomic_fetch_add_explicit(&rings, c->ring, memory_order_relaxed);
}

/* A native peer is known to have read a call by its reply only: what is under way there is
 * bounded by its credits, and by memory that is pinned. */
bool rr_budget_room(const struct rr_share *sh)
{
	uint64_t out = (uint64_t)sh->pool.out * RR_POOL_PAGE;

	if (likely(out < rr_min(rr_cp->budget, LEAST)))
		return true;
	return !rr_budget_all_used() && (sh->qp->native || out < rr_cp->budget);
}

/* A short message takes up a page, which does not count while there is enough of them. */
bool rr_budget_stash(const struct rr_share *sh, uint32_t len)
{
	uint64_t here = (uint64_t)(sh->pool.used - sh->pool.out) * RR_POOL_PAGE;

	if (rr_rx_stashed(sh) + len > rr_cp->max_stash)
		return false;
	return !rr_budget_all_used() || here + len <= LEAST;
}

/* Half of the process's budget is for rings, and no connection gets more than a small part of
 * what is left of that: the first hundred are not aware of it, of thousands each still has
 * one. */
uint32_t rr_budget_recvs(uint32_t recvs, uint32_t size)
{
	uint64_t slot = rr_max(size, SLOT), most = rr_cp->process_budget / 2;
	uint64_t left = most - rr_min(most, atomic_load_explicit(&rings, memory_order_relaxed));
	uint64_t fit = rr_min(left / 16, (uint64_t)rr_cp->budget) / slot;

	return (uint32_t)rr_min((uint64_t)recvs, rr_max(fit, (uint64_t)RR_PROV_FEW));
}
