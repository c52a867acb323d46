/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds what a peer that does not read may cost, as socket buffers do for TCP. A connection is
 * full when the bytes that it has sent and the peer has not taken reach the connection's
 * budget. Then the next message waits; but a message under way is not cut short, so that the
 * longest message passes if nothing else is there. When all connections together have used up
 * the process's budget, each is full with much less, but never with nothing.
 *
 * There are two accounts. Chunk memory, in our own region, is counted as it is used: exposed
 * calls and replies, a record being collected, messages received ahead of the app. The peer's
 * ring, whose pages are charged to us where we touch them first, is reserved as long as the
 * connection lives, because a peer can keep it from ever being trimmed.
 *
 * Both accounts belong to this process alone, and so does each connection's part in them
 * (struct rr_conn). A process that dies takes its part with it, and what a family shares is
 * counted by each process that has it. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

#define GRAIN	65536u		/* small messages never change the account */
#define LEAST	65536u		/* each connection may always have so much, and one message */
#define USUAL	4096u		/* size of a receive; shorter ones count as much */
#define SLOT	384u		/* of a ring, beside the payload of each receive */

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

static uint64_t slot_size(uint32_t recv_size)
{
	return rr_max(recv_size, USUAL) + SLOT;
}

/* Memory that was used once stays allocated until the connection is idle or uses nothing
 * (rr_idle_warm()), so the peak is what counts. If the process is short of memory, the pages
 * above what is in use are given back first. */
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

	charge(&rings, &c->ring, qp->recvs * slot_size(qp->recv_size));
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

/* A native peer shows that it has read a call only by its reply, so the connection's budget
 * says nothing there: what is under way is bounded by the peer's credits, and by the memory
 * that can be pinned. */
bool rr_budget_room(const struct rr_share *sh)
{
	uint64_t out = (uint64_t)sh->pool.out * RR_POOL_PAGE;

	if (likely(out < rr_min(rr_cp->budget, LEAST)))
		return true;
	return !rr_budget_all_used() && (sh->qp->native || out < rr_cp->budget);
}

/* A short message takes up a whole page. That is not held against it while there are enough
 * pages. */
bool rr_budget_stash(const struct rr_share *sh, uint32_t len)
{
	uint64_t here = (uint64_t)(sh->pool.used - sh->pool.out) * RR_POOL_PAGE;

	if (rr_rx_stashed(sh) + len > rr_cp->max_stash)
		return false;
	return !rr_budget_all_used() || here + len <= LEAST;
}

/* Half of the process's budget is for rings, and no connection gets more than a small part of
 * what is left of that half. The first hundred connections do not notice; out of thousands,
 * each still gets one. */
uint32_t rr_budget_recvs(uint32_t recvs, uint32_t size)
{
	uint64_t most = rr_cp->process_budget / 2;
	uint64_t left = most - rr_min(most, atomic_load_explicit(&rings, memory_order_relaxed));
	uint64_t fit = rr_min(left / 16, (uint64_t)rr_cp->budget) / slot_size(size);

	return (uint32_t)rr_min((uint64_t)recvs, rr_max(fit, (uint64_t)RR_PROV_FEW));
}
