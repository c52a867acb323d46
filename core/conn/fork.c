/* SPDX-License-Identifier: BSD-3-Clause */
/* fork(): what a parent does for each connection before it, and its child for all of them. How
 * a connection is then shared is family's matter. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/spare.h"
#include "core/conn/kinds.h"
#include "core/conn/upgrade/when.h"

static bool fork_holds;		/* false: a signal handler that interrupted us forks */
static uint32_t fork_round;	/* counts forks; under the lock of the slabs */

void rr_conn_fork_prepare(void)
{
	rr_spare_forks();
	rr_prov_forks();
	fork_holds = rr_slab_hold();
	if (++fork_round == 0)
		fork_round = 1;
}

void rr_conn_fork_parent(void)
{
	if (fork_holds)
		rr_slab_let();
	rr_spare_forks();
	rr_prov_forks();
}

/* Was this connection counted for the child that this fork makes? */
static bool counted(const struct rr_conn *c)
{
	return c->fork_round == fork_round &&
	       rr_conn_is_shared(rr_conn_st(c));
}

void rr_conn_fork_child(void)
{
	bool apart = rr_lock_forked();
	struct rr_conn *c;

	rr_spare_forks();
	rr_prov_forks();
	rr_slab_forked();
	rr_report_forked();
	rr_cache_forked();
	rr_learned_forked();
	rr_evidence_forked();
	rr_budget_forked();
	rr_handback_forked();
	rr_half_forked();
	rr_plainwait_forked();
	rr_standing_forked();
	/* Threads of the parent that were inside do not exist here, so private locks are free.
	 * Locks in shared memory are held by the parent, which goes on and drops them. */
	for (uint32_t i = 0; (c = rr_slab_at(i)); i++) {
		rr_budget_inherit(c);
		c->lock = (struct rr_lock){ 0 };
		atomic_store_explicit(&c->half, 0, memory_order_relaxed);
		atomic_store_explicit(&c->sleepers, 0, memory_order_relaxed);
		atomic_store_explicit(&c->rest, 0, memory_order_relaxed);
		c->lingers = false;
		if (counted(c)) {
			rr_family_swap(c->share, 0, (int32_t)rr_pid());
			if (apart)
				rr_lock_mix(&c->share->lock);
		}
		if (rr_kinds[rr_conn_st(c)]->forked)
			rr_kinds[rr_conn_st(c)]->forked(c);
	}
}

/* Before a fork, in the parent. waits: waits for the connection's lock, which a caller that
 * holds the lock of the slabs must not do. */
static void prepare_conn(struct rr_conn *c, bool waits)
{
	enum rr_conn_st st = rr_conn_st(c);

	if (!rr_kinds[st]->forks ||
	    (waits ? rr_lock_take(&c->lock) == -EDEADLK : rr_lock_try(&c->lock)))
		return;
	st = rr_conn_st(c);
	if (rr_kinds[st]->forks)
		rr_kinds[st]->forks(c);
	rr_lock_drop(&c->lock);
}

void rr_conn_fork_nears(struct rr_conn *c)
{
	prepare_conn(c, true);
}

void rr_conn_forked(struct rr_conn *c)
{
	prepare_conn(c, false);		/* for states entered since rr_conn_fork_nears() */
	if (rr_relay_forks(c))
		return;
	/* Stored without the lock: it only decides whether the kernel is asked for an option
	 * again. */
	atomic_store_explicit(&c->forked, true, memory_order_relaxed);
	if (!rr_conn_is_shared(rr_conn_st(c)))
		return;
	if (rr_conn_is_carried(c) && !rr_conn_shareable(c->share))
		rr_handback_forks(c);
	/* Must come before the end of the rest below, for rr_rest_may() in another thread. */
	atomic_fetch_add(&c->share->procs, 1);
	rr_slab_mark(c->index, RR_MARK_IN_USE);	/* the child may wake it, and then die */
	atomic_store(&c->rest, 0);
	rr_standing_ceased(c);
	c->fork_round = fork_round;
}

void rr_conn_fork_failed(struct rr_conn *c)
{
	if (!counted(c))
		return;
	c->fork_round = 0;
	atomic_fetch_sub_explicit(&c->share->procs, 1, memory_order_relaxed);
}
