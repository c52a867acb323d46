/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections at rest: they stay armed across waits. The kernel's answer to the app's own call
 * then says which of them have news, and each of the others costs a wait no more than a look at
 * one word.
 *
 * A rest begins when a thread arms the connection and there is nothing to read; it ends when
 * anybody takes the connection's lock. Every thread that goes to sleep in between can rely on
 * this: everything that has come since has made the wake-up fd readable, and nobody consumes
 * that before all these threads are awake. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"

#define QUIET	(5 * RR_MSEC)

bool rr_rest_may(const struct rr_share *sh)
{
	bool plain = rr_link_is_up(sh) && !sh->err && !sh->called_back &&
		     !rr_tx_is_tcp(sh) && !rr_tx_is_early(sh);

	return plain && rr_rx_is_quiet(sh) && !rr_handback_bytes(sh) &&
	       rr_qp_caps(sh->qp) & RR_PROV_TELLS &&
	       rr_eng_deadline(sh->eng) == RR_TIME_NEVER && rr_keep_due(sh) == RR_TIME_NEVER &&
	       rr_drv_fence_due(sh) == RR_TIME_NEVER;
}

void rr_rest_begin(struct rr_conn *c, unsigned want)
{
	struct rr_share *sh = c->share;

	if (!(want & RR_IN_BITS) || want & RR_OUT_BITS || rr_rx_lowat(sh) != 1 ||
	    !rr_rest_may(sh))
		return;
	atomic_store(&c->rest, sh->qp->wake_fd + 1);
	/* Another thread may have begun to fork (rr_conn_forked()), and the child could consume
	 * bells. */
	if (atomic_load(&sh->procs) > 1) {
		atomic_store(&c->rest, 0);
		rr_standing_ceased(c);
	}
}

void rr_rest_end(struct rr_conn *c)
{
	/* Pairs with rr_conn_rest(): whoever counts the sleepers after this store sees all
	 * threads that found the connection at rest. */
	atomic_store(&c->rest, 0);
	rr_standing_ceased(c);
	if (c->share && !rr_link_is_lost(c->share))
		rr_tell_runs(c->share);
}

void rr_rest_rouse(struct rr_conn *c)
{
	if (rr_conn_is_slept_on(c))
		rr_drv_rouse(c->share);
}

int rr_conn_rest(struct rr_conn *c)
{
	int fd = atomic_load_explicit(&c->rest, memory_order_relaxed);

	if (!fd)
		return -1;
	/* Pairs with rr_rest_end(): this thread is counted before the drain that follows there,
	 * or refused. */
	atomic_fetch_add(&c->sleepers, 1);
	fd = atomic_load(&c->rest);
	if (unlikely(!fd))
		rr_conn_rested(c);
	return fd - 1;
}

void rr_conn_rested(struct rr_conn *c)
{
	/* Pairs with the acquire in listens() (family/handback.c). */
	atomic_fetch_sub_explicit(&c->sleepers, 1, memory_order_acq_rel);
}

bool rr_conn_stands(struct rr_conn *c, uint32_t at)
{
	if (!rr_standing_join(c, at))
		return false;
	if (atomic_load(&c->rest))
		return true;
	rr_standing_part(c);
	return false;
}

void rr_conn_sleeps(struct rr_conn *c)
{
	atomic_fetch_add(&c->sleepers, 1);
}

int rr_conn_rests(const struct rr_conn *c)
{
	return atomic_load_explicit(&c->rest, memory_order_acquire) - 1;
}

bool rr_conn_may_rest(const struct rr_conn *c)
{
	return rr_conn_is_carried(c) && rr_qp_caps(c->share->qp) & RR_PROV_TELLS &&
	       atomic_load_explicit(&c->share->procs, memory_order_relaxed) == 1;
}

bool rr_conn_is_quiet(const struct rr_conn *c)
{
	return rr_conn_may_rest(c) &&
	       rr_now_coarse() >
		       atomic_load_explicit(&c->share->active, memory_order_relaxed) + QUIET;
}
