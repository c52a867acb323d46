/* SPDX-License-Identifier: BSD-3-Clause */
/* Withdraws answers that nobody has taken up in time, which turns their connections over to
 * TCP. That is done by whichever thread of the process is about to sleep or takes up a new
 * connection; and for all of them at once when the app is short of descriptors. The list itself
 * is in base/half.c. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

#define MOST	64u		/* connections in one look */

/* Turns c over to TCP if its answer can be withdrawn; its share must then be freed by
 * release(), without the lock. Under its lock. */
static bool turn_to_tcp(struct rr_conn *c)
{
	enum rr_conn_st st = rr_conn_st(c);

	if ((st != RR_S_ANSWERED && st != RR_S_HEARD && st != RR_S_SAID) ||
	    !rr_answer_withdraw(c))
		return false;
	/* If the app had several descriptors, it may have closed the one that we know. */
	if (rr_cp->fd_of)
		atomic_store_explicit(&c->fd, rr_cp->fd_of(c), memory_order_relaxed);
	rr_conn_become(c, RR_S_TCP, RR_R_ABANDONED);
	return true;
}

/* Tells preload that the connection is TCP's, and frees its share. */
static void release(struct rr_conn *c)
{
	struct rr_share *sh;

	if (rr_cp->turned)
		rr_cp->turned(c, atomic_load_explicit(&c->fd, memory_order_relaxed));
	if (rr_lock_take(&c->lock) == -EDEADLK)
		return;		/* freed with the connection */
	sh = c->share;
	c->share = NULL;
	rr_lock_drop(&c->lock);
	rr_carrier_free(sh);
}

/* For rr_half_pick(): 0 with a reference and c's lock; -ESRCH: c is ending and will leave the
 * list by itself; -EBUSY with a reference only. */
static int take_half(struct rr_conn *c)
{
	if (!rr_conn_keep(c))
		return -ESRCH;
	return rr_lock_try(&c->lock) ? -EBUSY : 0;
}

/* The oldest connection that was due before `until`, with a reference and its lock; NULL:
 * none. */
static struct rr_conn *pick(rr_time until, rr_time now)
{
	struct rr_conn *c;
	int rc = rr_half_pick(until, now, take_half, &c);

	if (rc == -EBUSY)
		rr_conn_free(c);
	return rc ? NULL : c;
}

/* Returns how many connections were turned over to TCP. */
static uint32_t end_some(rr_time until, rr_time now)
{
	uint32_t n = 0;
	struct rr_conn *c;

	for (uint32_t i = 0; i < MOST && (c = pick(until, now)); i++) {
		bool gone = turn_to_tcp(c);

		rr_lock_drop(&c->lock);
		if (gone)
			release(c);
		n += gone;
		rr_conn_free(c);
	}
	return n;
}

rr_time rr_half_expire(rr_time now)
{
	rr_time when = rr_half_due();

	if (likely(!when))
		return RR_TIME_NEVER;
	if (now >= when) {
		end_some(now, now);
		when = rr_half_due();
	}
	return when ? when : RR_TIME_NEVER;
}

bool rr_conn_scarce(void)
{
	int saved = errno;
	bool any = end_some(RR_TIME_NEVER - 1, rr_now()) > 0;

	any |= rr_prov_spare();
	errno = saved;
	return any;
}

rr_time rr_conn_idle(rr_time now)
{
	return rr_min(rr_idle_look(now), rr_half_expire(now));
}
