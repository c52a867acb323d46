/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that nobody has taken up yet. Each holds a descriptor and memory for a client that may never come; after
 * upgrade_timeout it is TCP's. The connection's own next step would see to that, but its app may never look at it again. So
 * these connections stand in a list, the oldest first, which is looked at whenever any thread of the process is about to
 * sleep, or takes up a new connection; and all of them go at once when the app itself is short of descriptors.
 *
 * The list's lock comes before those of connections, which are only tried for under it. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/conn_int.h"

#define MOST	64u		/* in one look */
#define BUSY	RR_MSEC		/* another thread is at it */

static struct rr_lock lock;
static struct rr_conn *oldest, *newest;
static _Atomic rr_time due;	/* of the oldest; 0 there is none */

static void set_due(rr_time at_least)
{
	atomic_store_explicit(&due, oldest ? rr_max(oldest->deadline, at_least) : 0, memory_order_relaxed);
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
	if (likely(!atomic_load_explicit(&c->half, memory_order_relaxed)) || rr_lock_take(&lock) == -EDEADLK)
		return;
	if (atomic_load_explicit(&c->half, memory_order_relaxed)) {
		take_out(c);
		set_due(0);
	}
	rr_lock_drop(&lock);
}

/* In a forked child: those of the parent are the parent's. */
void rr_half_forked(void)
{
	lock = (struct rr_lock){ 0 };
	oldest = newest = NULL;
	atomic_store_explicit(&due, 0, memory_order_relaxed);
}

/* Under its lock: is it TCP's now? Then its provider's part is to be freed when nobody waits for that any more. */
static bool turn(struct rr_conn *c)
{
	enum rr_conn_st st = rr_conn_st(c);

	if ((st != RR_S_ANSWERED && st != RR_S_HEARD && st != RR_S_SAID) || !rr_answer_withdraw(c))
		return false;
	/* The number may have been closed, if it was one of several. */
	if (rr_cp->fd_of)
		atomic_store_explicit(&c->fd, rr_cp->fd_of(c), memory_order_relaxed);
	rr_conn_become(c, RR_S_TCP, RR_R_ABANDONED);
	return true;
}

static void release(struct rr_conn *c)
{
	struct rr_share *sh;

	if (rr_cp->turned)
		rr_cp->turned(c, atomic_load_explicit(&c->fd, memory_order_relaxed));
	if (rr_lock_take(&c->lock) == -EDEADLK)
		return;		/* with the connection */
	sh = c->share;
	c->share = NULL;
	rr_lock_drop(&c->lock);
	rr_share_free(sh);
}

/* The oldest, with a reference and its lock, if it was answered before until; NULL. */
static struct rr_conn *pick(rr_time until, rr_time now)
{
	struct rr_conn *c = NULL, *next;

	if (rr_lock_try(&lock))
		return NULL;
	for (c = oldest; c && c->deadline <= until; c = next) {
		next = c->half_next;
		if (!rr_conn_keep(c))	/* it ends, and leaves by itself */
			continue;
		if (rr_lock_try(&c->lock) == 0)
			break;
		rr_lock_drop(&lock);
		rr_conn_free(c);
		if (rr_lock_try(&lock))
			return NULL;
		set_due(now + BUSY);
		c = NULL;
		break;
	}
	if (c && c->deadline > until)
		c = NULL;
	if (c) {
		take_out(c);
		set_due(0);
	}
	rr_lock_drop(&lock);
	return c;
}

/* How many are not any more. */
static uint32_t end_some(rr_time until, rr_time now)
{
	uint32_t n = 0;
	struct rr_conn *c;

	for (uint32_t i = 0; i < MOST && (c = pick(until, now)); i++) {
		bool gone = turn(c);

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
	rr_time when = atomic_load_explicit(&due, memory_order_relaxed);

	if (likely(!when))
		return RR_TIME_NEVER;
	if (now >= when) {
		end_some(now, now);
		when = atomic_load_explicit(&due, memory_order_relaxed);
	}
	return when ? when : RR_TIME_NEVER;
}

bool rr_conn_scarce(void)
{
	int saved = errno;
	bool any = end_some(RR_TIME_NEVER - 1, rr_now()) > 0;

	errno = saved;
	return any;
}
