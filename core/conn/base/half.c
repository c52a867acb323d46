/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that nobody has taken up yet. Each holds a descriptor and memory for a client that
 * may never come; after upgrade_timeout it is TCP's. The connection's own next step would see
 * to that, but its app may never look at it again. So these connections stand in a list, the
 * oldest first, which upgrade/expire.c looks at.
 *
 * The list's lock comes before those of connections, which are only tried for under it. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

#define BUSY	RR_MSEC		/* another thread is at it */

static struct rr_lock lock;
static struct rr_conn *oldest, *newest;
static _Atomic rr_time due;	/* of the oldest; 0 there is none */

static void set_due(rr_time at_least)
{
	atomic_store_explicit(&due, oldest ? rr_max(oldest->deadline, at_least) : 0,
			      memory_order_relaxed);
}

static void link_in(struct rr_conn *c, struct rr_conn *prev, struct rr_conn *next)
{
	c->half_prev = prev;
	c->half_next = next;
	*(prev ? &prev->half_next : &oldest) = c;
	*(next ? &next->half_prev : &newest) = c;
	atomic_store_explicit(&c->half, true, memory_order_relaxed);
}

static void take_out(struct rr_conn *c)
{
	*(c->half_prev ? &c->half_prev->half_next : &oldest) = c->half_next;
	*(c->half_next ? &c->half_next->half_prev : &newest) = c->half_prev;
	atomic_store_explicit(&c->half, false, memory_order_relaxed);
}

void rr_half_add(struct rr_conn *c)
{
	if (rr_lock_take(&lock) == -EDEADLK)
		return;		/* a signal handler's: its own next step has to do */
	link_in(c, newest, NULL);
	set_due(0);
	rr_lock_drop(&lock);
}

void rr_half_leave(struct rr_conn *c)
{
	if (likely(!atomic_load_explicit(&c->half, memory_order_relaxed)) ||
	    rr_lock_take(&lock) == -EDEADLK)
		return;
	if (atomic_load_explicit(&c->half, memory_order_relaxed)) {
		take_out(c);
		set_due(0);
	}
	rr_lock_drop(&lock);
}

rr_time rr_half_due(void)
{
	return atomic_load_explicit(&due, memory_order_relaxed);
}

int rr_half_pick(rr_time until, rr_time now, int (*take)(struct rr_conn *c),
		 struct rr_conn **out)
{
	struct rr_conn *c;
	int rc = -ESRCH;

	if (rr_lock_try(&lock))
		return -EAGAIN;
	for (c = oldest; c && c->deadline <= until; c = c->half_next) {
		rc = take(c);
		if (rc != -ESRCH)
			break;
	}
	if (rc == 0)
		take_out(c);
	if (rc != -ESRCH)
		set_due(rc == 0 ? 0 : now + BUSY);
	rr_lock_drop(&lock);
	*out = c;
	return rc;
}

/* In a forked child: those of the parent are the parent's. */
void rr_half_forked(void)
{
	lock = (struct rr_lock){ 0 };
	oldest = newest = NULL;
	atomic_store_explicit(&due, 0, memory_order_relaxed);
}
