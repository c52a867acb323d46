/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives the memory of idle connections back to the system: chunk memory, and the tables as well
 * if nothing is under way. The library has no thread for this. A thread of the app that is
 * about to sleep looks at all connections when that is due; so does one that takes up a
 * connection, because some apps wait where we cannot see them. A connection that has just used
 * much chunk memory gives it back at once if the process keeps enough elsewhere (warm.c). */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

#define PATIENCE	8u	/* times idle_trim, at most */
#define STAY		64u	/* times idle_trim, where more would stay than may */
#define LOOK_MAX	16u	/* connections trimmed in one look, each in some 20 us */
#define HASTE		64u	/* while there are more idle ones: looks per idle_trim … */
#define BUSY		4u	/* … if threads do nothing but wait; if they are busy */
#define LULL		(2 * RR_MSEC)

_Atomic rr_time rr_idle_next;
static _Atomic bool left_over;	/* the last look found more idle ones than it trimmed */
static _Atomic bool crowded;	/* one more would stay if it might */
/* A message may come while connections are trimmed, most likely the reply that a thread is
 * about to wait for. So they are when a thread that was told to wake at this time does so, and
 * none has gone to sleep meanwhile. */
static _Atomic rr_time lull_end;

/* Drops the tables if nothing is under way and nothing waits for the app: they hold nothing
 * then. */
static void trim_tables(struct rr_share *sh)
{
	size_t keep;

	/* A pull in use is a message that the engine is not done with: rr_eng_quiet() covers
	 * it. */
	if (!rr_rx_is_empty(sh) || sh->pool.used || rr_handback_bytes(sh))
		return;
	keep = rr_eng_quiet(sh->eng);
	if (keep && rr_pool_quiet(&sh->pool)) {
		rr_calls_idle(sh);
		rr_share_trim(sh, keep);
	}
}

/* Schedules the next look for this time at the latest. False: that is so already. */
static bool look_at_time(rr_time when)
{
	rr_time due = atomic_load_explicit(&rr_idle_next, memory_order_relaxed);

	while (!due || due > when)
		if (atomic_compare_exchange_weak_explicit(&rr_idle_next, &due, when,
							  memory_order_acq_rel,
							  memory_order_relaxed))
			return true;
	return false;
}

/* --- a few stay as they are --------------------------------------------------------------- */

static bool is_crowded(void)
{
	return atomic_load_explicit(&crowded, memory_order_relaxed);
}

/* When the memory of this connection is to be given back, as things are. */
static rr_time due_at(const struct rr_share *sh)
{
	if (sh->trimmed)
		return RR_TIME_NEVER;
	if (!rr_idle_stays(sh))
		return sh->active + sh->patience;
	return is_crowded() ? sh->active + STAY * rr_cp->idle_trim : RR_TIME_NEVER;
}

/* May the connection, which is idle, stay as it is? To give its memory back and to take it up
 * again costs more than a call by TCP does, and one that is called every few seconds would have
 * to pay for that each time. The few that stay need no look either. */
static bool may_stay(const struct rr_share *sh)
{
	if (!rr_idle_is_light(sh))
		return false;
	if (rr_slab_count(RR_MARK_STAYS) >= rr_cp->idle_stay) {
		atomic_store_explicit(&crowded, true, memory_order_relaxed);
		return false;
	}
	return true;
}

static void begin_stay(struct rr_share *sh)
{
	rr_slab_mark(sh->index, RR_MARK_STAYS);
	atomic_store_explicit(&sh->stays, true, memory_order_relaxed);
}

static void end_stay(struct rr_share *sh)
{
	if (atomic_exchange_explicit(&sh->stays, false, memory_order_relaxed))
		rr_slab_unmark(sh->index, RR_MARK_STAYS);
}

/* --- looks -------------------------------------------------------------------------------- */

/* How long this connection may be idle from now on. Trimming and coming back cost some twenty
 * page faults. A connection that comes back soon is given twice the time, so that one with a
 * call now and then is soon left alone. */
static rr_time patience(const struct rr_share *sh, rr_time now)
{
	rr_time most = PATIENCE * rr_cp->idle_trim;

	if (!sh->trimmed)
		return sh->patience;
	if (now - sh->active >= most)
		return rr_cp->idle_trim;
	return rr_min(2 * sh->patience, most);
}

void rr_idle_wake(struct rr_share *sh, rr_time now)
{
	sh->patience = patience(sh, now);
	sh->trimmed = false;
	end_stay(sh);
	rr_slab_mark(sh->index, RR_MARK_IN_USE);
	atomic_store_explicit(&sh->active, now, memory_order_relaxed);
	if (!look_at_time(now + rr_cp->idle_trim))
		rr_idle_look(now);
}

struct look {
	rr_time now, next;
	uint32_t left;		/* how many it may still trim */
	bool more;		/* there is one that it may not */
};

static void give_back(struct rr_share *sh)
{
	end_stay(sh);
	rr_idle_trim(sh);
	trim_tables(sh);
	sh->trimmed = true;
}

static bool look_at_conn(struct rr_conn *c, void *ctx)
{
	struct rr_share *sh = c->share;
	struct look *l = ctx;
	rr_time due = l->now + rr_cp->idle_trim;

	if (rr_lock_try(&sh->lock) == 0) {
		rr_budget_count(c);
		due = due_at(sh);
		if (due <= l->now && !sh->stays && may_stay(sh)) {
			begin_stay(sh);
			due = due_at(sh);
		} else if (due <= l->now && l->left) {
			l->left--;
			give_back(sh);
			due = RR_TIME_NEVER;
		}
		l->more = due <= l->now;
		if (sh->trimmed && atomic_load_explicit(&sh->procs, memory_order_relaxed) == 1)
			rr_slab_unmark(c->index, RR_MARK_IN_USE);
		rr_lock_drop(&sh->lock);
	}
	l->next = rr_min(l->next, due);
	return !l->more;
}

/* Is nobody busy, as far as can be seen? */
static bool is_lull(rr_time now)
{
	rr_time end = atomic_load_explicit(&lull_end, memory_order_relaxed);

	return end <= now && now < end + LULL / 2;
}

static rr_time begin_lull(rr_time end)
{
	atomic_store_explicit(&lull_end, end, memory_order_relaxed);
	return end;
}

/* When a look is late, and trims whatever threads do. */
static rr_time late(rr_time due)
{
	return due + rr_cp->idle_trim / BUSY;
}

/* Trims nothing yet. A thread that is not alone leaves it to the last one that goes to sleep,
 * or none of several would ever find that nobody else did. */
static rr_time put_off(rr_time now, rr_time due)
{
	bool alone = now >= atomic_load_explicit(&lull_end, memory_order_relaxed);
	rr_time end = begin_lull(now + LULL);

	return alone ? end : rr_max(end, late(due));
}

/* When a sleeping thread has to wake up for a look. A thread that is awake anyway looks as soon
 * as that is due, but a sleeping one is woken later: a server with a call now and then is awake
 * in between, and an extra wake-up for each would cost as much as the call. */
static rr_time wake_at(rr_time now, rr_time due)
{
	if (atomic_load_explicit(&left_over, memory_order_relaxed))
		return begin_lull(rr_max(due, now + LULL));
	return due + rr_cp->idle_trim;
}

/* Looks at all connections in use, which was due; returns when to look next, RR_TIME_NEVER. */
static rr_time look_at_conns(rr_time now, rr_time due, bool trims)
{
	struct look l = { now, RR_TIME_NEVER, trims ? LOOK_MAX : 0, false };
	rr_time soon = now + rr_cp->idle_trim / 2;

	if (!rr_slab_each(RR_MARK_IN_USE, look_at_conn, &l))
		l.next = soon;
	else if (rr_slab_count(RR_MARK_STAYS) < rr_cp->idle_stay)
		atomic_store_explicit(&crowded, false, memory_order_relaxed);
	atomic_store_explicit(&left_over, l.more, memory_order_relaxed);
	if (l.more)
		return trims ? now + rr_cp->idle_trim / HASTE : due;
	return rr_max(l.next, soon);
}

/* A look costs some time for each connection in use. So there is a minimum time between two
 * looks, however many connections come and go. */
rr_time rr_idle_look(rr_time now)
{
	rr_time due = atomic_load_explicit(&rr_idle_next, memory_order_relaxed), next;
	bool trims;

	if (!due)
		return RR_TIME_NEVER;
	if (now < due)
		return wake_at(now, due);
	trims = is_lull(now) || now >= late(due);
	if (!trims && atomic_load_explicit(&left_over, memory_order_relaxed))
		return put_off(now, due);
	/* From here on, a thread that takes up a connection schedules the next look itself. If
	 * it did so before, this look sees the connection, because both take its lock. */
	if (!atomic_compare_exchange_strong_explicit(&rr_idle_next, &due, 0,
						     memory_order_acq_rel,
						     memory_order_relaxed))
		return now + rr_cp->idle_trim / 2;
	next = look_at_conns(now, due, trims);
	if (next != RR_TIME_NEVER)
		look_at_time(next);
	due = atomic_load_explicit(&rr_idle_next, memory_order_relaxed);
	return due ? wake_at(now, due) : RR_TIME_NEVER;
}
