/* SPDX-License-Identifier: BSD-3-Clause */
/* Readiness of a connection for poll, select, epoll and blocking calls, by its state; and
 * sleeping for it. The loops that sleep are in preload. */

#include <errno.h>
#include <sched.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/kinds.h"

#define STUCK_LOOK	(10 * RR_MSEC)

static RR_NOINLINE int other_poll(struct rr_conn *c, int fd, unsigned want)
{
	const struct rr_kind *k;
	struct rr_lock *l;
	int st, rc;

	if (rr_conn_passes(c, fd, true))
		return RR_CONN_KERNEL;
again:
	st = rr_conn_enter_told(c, fd, want & RR_ASK_TOLD, &l);
	if (st == -ECONNRESET)
		return (int)(((RR_IN_BITS | RR_OUT_BITS) & want) | POLLERR | POLLHUP);
	if (st < 0)
		return 0;
	k = rr_kinds[st];
	rc = k->poll ? k->poll(c, fd, want) : k->kernels ? RR_CONN_KERNEL : 0;
	rr_lock_drop(l);
	if (rc == RR_RIDE_OVER)
		goto again;
	return rc;
}

int rr_conn_poll(struct rr_conn *c, int fd, unsigned want)
{
	struct rr_share *sh = rr_conn_enter_carried(c, fd);
	int rc;

	if (unlikely(!sh))
		return other_poll(c, fd, want);
	rc = (int)rr_ready_poll(c, fd, want);
	rr_lock_drop(&sh->lock);
	return rc;
}

bool rr_conn_has_seen(struct rr_conn *c)
{
	struct rr_lock *l;
	bool has;

	if (!rr_conn_is_kernels(c) || rr_conn_hold(c, &l) < 0)
		return false;
	has = rr_conn_is_plain(c) && c->most && c->looked == rr_now_coarse();
	rr_lock_drop(l);
	return has;
}

bool rr_conn_peek(const struct rr_conn *c, unsigned want)
{
	uint32_t in = want & (RR_IN_BITS | POLLRDHUP) ? RR_HINT_IN | RR_HINT_BYTES : 0;
	uint32_t mask = RR_HINT_OVER | in, hint;
	const struct rr_share *sh;

	if (!rr_conn_is_carried(c))
		return false;
	sh = c->share;
	if (unlikely(rr_lock_is_stuck(&sh->lock)))
		return false;
	hint = atomic_load_explicit(&sh->hint, memory_order_relaxed);
	if (unlikely(hint & RR_HINT_EARLY))	/* memory does not show what comes by TCP */
		return hint & RR_HINT_AHEAD && want & RR_IN_BITS &&
		       rr_drv_peek(sh, RR_ARM_RECV);
	if (hint & (mask | RR_HINT_LOST))
		return hint & mask;
	return rr_drv_peek(sh, want & RR_OUT_BITS ? RR_ARM_RECV | RR_ARM_SEND : RR_ARM_RECV);
}

/* --- sleeping ------------------------------------------------------------------------- */

static int arm(struct rr_conn *c, int fd, unsigned want, bool thread)
{
	const struct rr_kind *k;
	struct rr_lock *l;
	int rc = 0, st;

	st = rr_conn_enter(c, fd, &l);
	/* rr_conn_fds() says when to look again, or that the kernel tells everything. */
	if (st == -EBUSY || st == RR_CONN_KERNEL) {
		atomic_fetch_add_explicit(&c->sleepers, thread, memory_order_acq_rel);
		return 0;
	}
	if (st < 0)
		return 1;
	k = rr_kinds[st];
	if (k->arm)
		rc = k->arm(c, fd, want, thread);
	else if (c->hold_until && rr_now() < c->hold_until)
		rc = 1;		/* a verdict has come, and waits for threads to wake */
	if (rc == 0 && thread) {
		atomic_fetch_add_explicit(&c->sleepers, 1, memory_order_acq_rel);
		if (k->armed)
			k->armed(c, want);
		if (rr_conn_is_plain(c))
			atomic_store_explicit(&c->own_word, false, memory_order_relaxed);
	}
	if (rc == 0 && !thread)
		c->watched = true;
	rr_lock_drop(l);
	/* What there is may be for another thread, which has yet to run. */
	if (rc && !rr_conn_is_shared((enum rr_conn_st)st))
		sched_yield();
	return rc;
}

int rr_conn_arm(struct rr_conn *c, int fd, unsigned want)
{
	return arm(c, fd, want, true);
}

int rr_conn_watch(struct rr_conn *c, int fd, unsigned want)
{
	return arm(c, fd, want, false);
}

int rr_conn_watch_plain(struct rr_conn *c, int fd, unsigned want, int wake)
{
	struct rr_share *sh = rr_conn_enter_carried(c, fd);
	int rc = -EAGAIN;
	bool alone;

	if (!sh)
		return rc;
	alone = atomic_load_explicit(&sh->procs, memory_order_relaxed) == 1;
	if (alone && sh->qp->wake_fd == wake && rr_rest_may(sh)) {
		rc = rr_ready_arm(c, fd, want, false);
		/* because of what it has just looked at, or for a cheaper bell */
		if (!rc && (!rr_rest_may(sh) || sh->qp->wake_fd != wake))
			rc = -EAGAIN;
		c->watched |= !rc;
	}
	rr_lock_drop(&sh->lock);
	return rc;
}

static void disarm(struct rr_conn *c, int fd, bool later)
{
	const struct rr_kind *k;
	struct rr_lock *l;

	/* Pairs with the acquire in listens(). */
	atomic_fetch_sub_explicit(&c->sleepers, 1, memory_order_acq_rel);
	k = rr_kinds[rr_conn_st(c)];
	if (!k->disarm || rr_conn_hold_apps(c, fd, &l) < 0)
		return;
	k->disarm(c, later);
	rr_lock_drop(l);
}

void rr_conn_disarm(struct rr_conn *c, int fd)
{
	disarm(c, fd, false);
}

void rr_conn_disarm_later(struct rr_conn *c, int fd)
{
	disarm(c, fd, true);
}

static bool drain(struct rr_conn *c, bool later)
{
	const struct rr_kind *k = rr_kinds[rr_conn_st(c)];
	struct rr_lock *l;
	bool changed;

	if (!k->drain || rr_conn_hold_apps(c, 0, &l) < 0)
		return true;
	changed = k->drain(c, later);
	rr_lock_drop(l);
	return changed;
}

bool rr_conn_drain(struct rr_conn *c)
{
	return drain(c, false);
}

bool rr_conn_drain_later(struct rr_conn *c)
{
	return drain(c, true);
}

void rr_conn_in_set(struct rr_conn *c)
{
	struct rr_lock *l;

	if (rr_conn_hold_apps(c, 0, &l) < 0)
		return;
	c->watched = true;
	if (rr_conn_is_carried(c) && c->share->rung)
		rr_drv_drain(c->share);
	rr_lock_drop(l);
}

uint64_t rr_conn_came(struct rr_conn *c)
{
	uint64_t came = 0;
	struct rr_lock *l;

	if (!rr_conn_is_carried(c) || rr_conn_hold(c, &l) < 0)
		return 0;
	if (rr_conn_is_carried(c))
		came = rr_rx_came(c->share) + rr_stream_is_over(c->share);
	rr_lock_drop(l);
	return came;
}

int rr_conn_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2], rr_time *until)
{
	struct rr_lock *l;
	int n = 1, st;

	*until = RR_TIME_NEVER;
	out[0] = (struct pollfd){ fd, (short)want, 0 };
	if (rr_conn_is_tcp(c))
		return 1;
	st = rr_conn_hold_apps(c, fd, &l);
	if (st == -EBUSY) {
		out[0].events = 0;
		*until = rr_now() + STUCK_LOOK;
	}
	if (st < 0)
		return 1;
	if (rr_kinds[st]->fds)
		n = rr_kinds[st]->fds(c, fd, want, out, until);
	rr_lock_drop(l);
	return n;
}

int rr_conn_wake_fd(const struct rr_conn *c)
{
	return rr_conn_is_carried(c) ? c->share->qp->wake_fd : -1;
}

bool rr_conn_wakes_by_socket(const struct rr_conn *c)
{
	return !rr_conn_is_carried(c) || !c->share->qp->piped;
}

void rr_conn_wake_by_socket(struct rr_conn *c)
{
	struct rr_lock *l;

	if (rr_conn_hold(c, &l) < 0)
		return;
	if (rr_conn_is_carried(c)) {
		c->share->qp->loud = true;
		c->share->qp->easy = false;
	}
	rr_lock_drop(l);
}
