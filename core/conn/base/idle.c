/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of idle connections goes back to the system: chunk memory, and when nothing is
 * under way the tables too. No thread of ours does it. A thread of the app's that is about to
 * sleep looks at all connections when that is due, and so does one that takes up a connection
 * (apps that wait where we cannot see them); and a connection that has just used much chunk
 * memory gives that back at once when the process keeps enough of it elsewhere. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/pages.h"
#include "core/conn/base/base.h"

#define PATIENCE	8u	/* times idle_trim, at most */
#define LOOK_MAX	128u	/* connections trimmed in one look: some ms at the worst */

_Atomic rr_time rr_idle_next;
static _Atomic bool in_haste;	/* the last look found more idle ones than it may trim */

/* If nothing is under way and nothing waits for the app, what the tables hold means nothing. */
static void trim_tables(struct rr_share *sh)
{
	size_t keep;

	/* a pull in use is a message that the engine has not done with */
	if (!rr_rx_is_empty(sh) || sh->pool.used || rr_handback_bytes(sh))
		return;
	keep = rr_eng_quiet(sh->eng);
	if (keep && rr_pool_quiet(&sh->pool)) {
		rr_calls_idle(sh);
		rr_pages_drop((uint8_t *)sh->eng + keep, (uint8_t *)sh + sh->size);
	}
}

/* Sets the next look, if none is set. */
static bool look_at_time(rr_time when)
{
	rr_time none = 0;

	return atomic_compare_exchange_strong_explicit(&rr_idle_next, &none, when,
						       memory_order_acq_rel,
						       memory_order_relaxed);
}

/* To be trimmed and to come back costs some twenty page faults. Who comes back soon is given
 * twice the time, so that a connection with a call now and then is soon left alone. */
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
	rr_slab_in_use(sh->index);
	atomic_store_explicit(&sh->active, now, memory_order_relaxed);
	if (!look_at_time(now + rr_cp->idle_trim))
		rr_idle_look(now);
}

struct look {
	rr_time now, next;
	uint32_t left;
};

static void look_at_conn(struct rr_conn *c, void *ctx)
{
	struct rr_share *sh = c->share;
	struct look *l = ctx;
	rr_time due = l->now + rr_cp->idle_trim;

	if (rr_lock_try(&sh->lock) == 0) {
		rr_budget_count(c);
		due = sh->trimmed ? RR_TIME_NEVER : sh->active + sh->patience;
		if (due <= l->now && l->left) {
			l->left--;
			rr_idle_trim(sh);
			trim_tables(sh);
			sh->trimmed = true;
			due = RR_TIME_NEVER;
		}
		if (sh->trimmed && atomic_load_explicit(&sh->procs, memory_order_relaxed) == 1)
			rr_slab_rests(c);
		rr_lock_drop(&sh->lock);
	}
	l->next = rr_min(l->next, due);
}

/* A thread that is awake anyway looks when that is due. One that sleeps is woken for it later:
 * a server with a call now and then is up in between, and to be woken once more for each would
 * cost it as much as the call. */
static rr_time wake_at(rr_time due)
{
	if (atomic_load_explicit(&in_haste, memory_order_relaxed))
		return due;
	return due + rr_cp->idle_trim;
}

/* A look costs some time for each connection that is in use, so there is some time between two,
 * however many connections come and go. */
rr_time rr_idle_look(rr_time now)
{
	rr_time due = atomic_load_explicit(&rr_idle_next, memory_order_relaxed);
	rr_time soon = now + rr_cp->idle_trim / 2;
	struct look l = { now, RR_TIME_NEVER, LOOK_MAX };

	if (!due)
		return RR_TIME_NEVER;
	if (now < due)
		return wake_at(due);
	/* From here on who takes up a connection sets the next look: it may be seen too early
	 * here. That it is seen if it was taken up before is the matter of its lock. */
	if (!atomic_compare_exchange_strong_explicit(&rr_idle_next, &due, 0,
						     memory_order_acq_rel,
						     memory_order_relaxed))
		return soon;
	if (!rr_slab_each_in_use(look_at_conn, &l))
		l.next = soon;
	atomic_store_explicit(&in_haste, !l.left, memory_order_relaxed);
	if (l.next != RR_TIME_NEVER)
		look_at_time(rr_max(l.next, soon));
	due = atomic_load_explicit(&rr_idle_next, memory_order_relaxed);
	return due ? wake_at(due) : RR_TIME_NEVER;
}
