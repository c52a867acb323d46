/* SPDX-License-Identifier: BSD-3-Clause */
/* Where what was posted would be lost with this process, its exit() (family/exit.c) and the
 * close() of a connection wait until the peer has it; close() does so in a thread, because the
 * peer decides how long it takes. The bytes of a TCP socket survive both. The wait is bounded,
 * and there is none at _exit() or when a signal ends the process. */

#include <errno.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"

#define LOOKS	200		/* looks by close() itself: most peers are done by then */
#define THREADS	64u		/* most threads; beyond that, what is under way is lost */

/* See carried.h. Calls that the peer has left unread for long do not count: it will not read
 * them now. A peer without the library shows that it has read a call only by its reply, which
 * may take long, so its calls do not count either. */
bool rr_conn_unread(struct rr_share *sh)
{
	rr_time since = rr_eng_calls_unread(sh->eng);

	if (rr_eng_shown(sh->eng))
		return true;
	if (!since || !(sh->ep.caps & RR_CAP_RING_CREDITS))
		return false;
	rr_drv_reclaim(sh);
	since = rr_eng_calls_unread(sh->eng);
	return since && rr_now_coarse() - since < RR_SETTLE_MOST;
}

void rr_conn_settle_until(struct rr_share *sh, rr_time end)
{
	rr_time now;

	if (rr_drv_outlives(sh))
		return;
	while (rr_link_is_up(sh) && rr_conn_unread(sh) && rr_now() < end) {
		struct pollfd p = { sh->qp->wake_fd, POLLIN, 0 };

		if (rr_drv_arm(sh, RR_ARM_RECV) == 0 && rr_os->poll(&p, 1, 10) > 0)
			rr_drv_drain(sh);
		rr_drv_progress(sh);
	}
	now = rr_now();
	if (now < end)
		rr_drv_settle(sh, end - now);
}

static bool is_settled(struct rr_share *sh)
{
	rr_drv_progress(sh);
	return !rr_link_is_up(sh) || (!rr_conn_unread(sh) && rr_drv_settle(sh, 0));
}

static _Atomic uint32_t lingering;

/* Sleeps until there may be something to do. Called with the lock, which is dropped
 * meanwhile. */
static void doze(struct rr_share *sh)
{
	struct pollfd p = { sh->qp->wake_fd, POLLIN, 0 };
	bool armed = rr_drv_arm(sh, RR_ARM_RECV) == 0, rang;

	rr_lock_drop(&sh->lock);
	rang = rr_os->poll(&p, armed, armed ? 10 : 1) > 0;
	rr_share_hold(sh);
	if (rang && !rr_link_is_dead(sh))
		rr_drv_drain(sh);
}

/* The app has closed the connection. This thread has the last reference, apart from iterations
 * over all connections. */
static void *linger(void *arg)
{
	struct rr_conn *c = arg;
	struct rr_share *sh = c->share;
	rr_time end = rr_now() + RR_SETTLE_MOST;

	rr_share_hold(sh);
	while (!is_settled(sh) && rr_now() < end)
		doze(sh);
	c->lingers = false;
	if (c->then)
		c->then(sh);
	rr_lock_drop(&sh->lock);
	rr_conn_free(c);
	atomic_fetch_sub_explicit(&lingering, 1, memory_order_relaxed);
	return NULL;
}

/* Starts a thread that waits for c to settle. False: there are too many, or none can be
 * made. */
static bool lingers(struct rr_conn *c, void (*then)(struct rr_share *sh))
{
	if (atomic_fetch_add_explicit(&lingering, 1, memory_order_relaxed) < THREADS &&
	    rr_conn_keep(c)) {
		c->lingers = true;
		c->then = then;
		if (!rr_thread(linger, c))
			return true;
		c->lingers = false;
		atomic_fetch_sub_explicit(&c->refs, 1, memory_order_relaxed);
	}
	atomic_fetch_sub_explicit(&lingering, 1, memory_order_relaxed);
	return false;
}

void rr_conn_settle(struct rr_conn *c, void (*then)(struct rr_share *sh))
{
	struct rr_share *sh = c->share;

	if (!rr_drv_outlives(sh)) {
		for (int i = 0; i < LOOKS; i++) {
			if (is_settled(sh))
				break;
			if (i == LOOKS - 1 && lingers(c, then))
				return;
		}
	}
	if (then)
		then(sh);
}
