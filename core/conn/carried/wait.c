/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a wait for a carried connection spins, and what is learned when it ends. spin.c
 * decides; this file collects what it needs: what is known of the peer, and of earlier
 * waits. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/spin.h"
#include "core/conn/carried/carried.h"

/* Times the longest spin: a sleep that short may have been caused by the other end's
 * wake-up. */
#define NEAR		4u
#define NEAR_MISSES	32u
#define TRIES		16u
#define ATTEMPTS	7u	/* which makes at most 4096 of them */
/* After so long without a message a connection, perhaps one of a thousand, is not worth looking
 * at its peer. */
#define IDLE	(20 * RR_MSEC)

/* How long to spin by what was learned; longer than the bound while that is on trial. */
static rr_time learned(struct rr_share *sh, bool first)
{
	uint32_t tries = atomic_load_explicit(&sh->tries, memory_order_relaxed);

	if (likely(!tries))
		return atomic_load_explicit(&sh->spin, memory_order_relaxed);
	if (first)
		atomic_store_explicit(&sh->tries, tries - 1, memory_order_relaxed);
	return NEAR * rr_cp->spin;
}

/* May the next bytes come by TCP? */
static bool asks_anchor(const struct rr_share *sh)
{
	uint32_t hint = atomic_load_explicit(&sh->hint, memory_order_relaxed);

	return (hint & (RR_HINT_EARLY | RR_HINT_AHEAD)) == RR_HINT_EARLY;
}

/* How many of the peer's calls have no reply yet. */
static uint32_t calls_open(const struct rr_calls *t)
{
	uint32_t open = rr_calls_open(t);

	return open == RR_CALLS_SOLO ? 1 : open;
}

/* Those of them on which threads of this process are at work. */
static uint32_t serving(struct rr_calls *t)
{
	uint32_t open = calls_open(t);
	uint32_t stale = atomic_load_explicit(&t->stale, memory_order_relaxed);

	if (likely(stale <= open))
		return open - stale;
	atomic_store_explicit(&t->stale, open, memory_order_relaxed);
	return 0;
}

void rr_conn_spin(const struct rr_conn *c, struct rr_spin *s)
{
	struct rr_spin_in in = { .bound = rr_cp->spin };
	struct rr_share *sh;
	rr_time most;

	if (!rr_conn_is_carried(c))
		return;
	sh = c->share;
	if (unlikely(asks_anchor(sh)))
		return;
	if (!s->now)
		rr_spin_look_around(s);
	/* These are two clocks; `active` is some milliseconds behind. */
	if (s->now > atomic_load_explicit(&sh->active, memory_order_relaxed) + IDLE)
		return;
	in.spun = s->began ? s->now - s->began : 0;
	in.learned = learned(sh, !s->began);
	in.cpu = s->cpu;
	in.cpus = s->cpus;
	in.spinners = s->began ? 0 : s->spinners;
	in.crowded = s->crowded;
	in.hogged = s->hogged;
	in.just_hogged = s->just_hogged;
	in.serving = serving(&sh->calls[1]);
	rr_tell_look(sh, &in);
	most = rr_spin_time(&in);
	atomic_store_explicit(&sh->spun, in.spun + most, memory_order_relaxed);
	if (most > s->want) {
		s->want = most;
		s->enough = most >= in.worth;
		s->count = sh->qp->count;
		s->clock = sh->seg ? &sh->seg->clock : NULL;
	} else if (!most) {
		s->yields = rr_max(s->yields, rr_spin_yields(&in));
	}
}

void rr_conn_seen(const struct rr_conn *c, const struct rr_spin *s)
{
	if (!rr_conn_is_carried(c))
		return;
	atomic_store_explicit(&c->share->seen, s->stamp, memory_order_relaxed);
	atomic_store_explicit(&c->share->seen_at, s->now, memory_order_relaxed);
}

void rr_conn_spun(const struct rr_spin *s, bool paid)
{
	if (!s->count)
		return;
	rr_count(s->count, RR_C_spins, 1);
	rr_count(s->count, RR_C_spins_paid, paid);
	rr_count(s->count, RR_C_spun_ns, s->now - s->began);
}

/* Is it time to try spinning for longer? Two ends that know nothing of each other can keep each
 * other waiting, by their wake-ups, for longer than either would spin, and neither gets out of
 * that alone. But both have slept equally often. So after a number of such sleeps both spin for
 * longer, a few times, and then go back to normal. If that did not help, twice as many sleeps
 * have to pass before the next attempt. The same happens if the wake-ups are known but the peer
 * was at work, because copies take longer on a CPU that has slept than on one that spins. */
static bool is_time_to_try(struct rr_share *sh, rr_time slept)
{
	if (slept >= NEAR * rr_cp->spin || (++sh->near >> sh->attempts) < NEAR_MISSES)
		return false;
	sh->near = 0;
	sh->attempts += sh->attempts < ATTEMPTS;
	return true;
}

/* A thread has woken after a sleep: learns how long the next wait should spin. */
void rr_wait_learn(struct rr_share *sh, rr_time now)
{
	rr_time slept = now - sh->armed_at;
	struct rr_spin_in in = { .bound = rr_cp->spin };
	struct rr_calls *t = &sh->calls[1];
	struct rr_spin_wait w = { 0 };
	uint32_t tries = 0;
	rr_time spin;

	if (!sh->armed_at)
		return;
	w.wakes = rr_tell_wakes(sh, now, slept);
	in.learned = atomic_load_explicit(&sh->spin, memory_order_relaxed);
	in.spun = w.took = slept + atomic_load_explicit(&sh->spun, memory_order_relaxed);
	rr_tell_look(sh, &in);
	w.at_work = in.at_work;
	spin = rr_spin_learn(&in, &w);
	if (spin > in.learned) {
		sh->near = sh->attempts = 0;
	} else if ((!w.wakes || w.at_work) && is_time_to_try(sh, slept)) {
		spin = in.worth;
		tries = TRIES;
	}
	sh->armed_at = 0;
	atomic_store_explicit(&sh->spin, spin, memory_order_relaxed);
	atomic_store_explicit(&sh->tries, tries, memory_order_relaxed);
	if (slept > IDLE)
		atomic_store_explicit(&t->stale, calls_open(t), memory_order_relaxed);
	rr_tell_doing(sh, RR_DOES_RUN);
}
