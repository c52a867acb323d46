/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a wait for a carried connection spins, and what is learned from its end. The
 * decision is spin.c's; here stands what it is made from: what is known of the peer, and of
 * earlier waits. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/spin.h"
#include "core/conn/carried/carried.h"

/* times the longest spin: a sleep that may have been the other end's wake-up */
#define NEAR		4u
#define NEAR_MISSES	32u
#define TRIES		16u
#define ATTEMPTS	7u	/* and so 4096 of them at most */
/* A connection on which nothing has happened for so long is not worth looking at its peer, one
 * of a thousand perhaps. */
#define IDLE	(20 * RR_MSEC)

/* Of a peer that cannot be seen the longest is as good as any: what is behind it (a device, a
 * network) is not known either, and two ends that sleep get out of that by trials alone. */
static rr_time worth_of(const struct rr_share *sh)
{
	return sh->qp->ops->observe || !rr_cp->spin_worth ? rr_cp->spin_worth : rr_cp->spin;
}

/* What is known of the peer now. At the beginning of a wait this is kept, for what is learned
 * from it. */
static void look_at_peer(struct rr_share *sh, struct rr_spin_in *in)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	struct rr_peer_look p;
	uint32_t work;
	bool slept;

	if (!ops->observe)
		return;
	ops->observe(sh->qp, in->cpu, &p);
	in->peer_cpu = p.cpu;
	in->peer_spins = p.doing & RR_DOES_SPIN;
	if (p.doing)
		in->peer = p.doing & RR_DOES_SLEEP ? RR_PEER_SLEEPS : RR_PEER_RUNS;
	work = atomic_load_explicit(&sh->peer_work, memory_order_relaxed);
	atomic_store_explicit(&sh->peer_work, p.work, memory_order_relaxed);
	in->at_work = in->spun && (p.work != work || ops->is_copying(sh->qp));
	slept = in->peer == RR_PEER_SLEEPS;
	if (!in->spun)
		atomic_store_explicit(&sh->peer_slept, slept, memory_order_relaxed);
}

/* Longer than the bound on trial. */
static rr_time learned(struct rr_share *sh, bool first)
{
	uint32_t tries = atomic_load_explicit(&sh->tries, memory_order_relaxed);

	if (likely(!tries))
		return atomic_load_explicit(&sh->spin, memory_order_relaxed);
	if (first)
		atomic_store_explicit(&sh->tries, tries - 1, memory_order_relaxed);
	return NEAR * rr_cp->spin;
}

void rr_conn_spin(const struct rr_conn *c, struct rr_spin *s)
{
	struct rr_spin_in in = { .bound = rr_cp->spin };
	struct rr_share *sh;
	rr_time most;

	if (!rr_conn_is_carried(c))
		return;
	sh = c->share;
	if (unlikely(atomic_load_explicit(&sh->hint, memory_order_relaxed) & RR_HINT_EARLY))
		return;
	if (!s->now)
		rr_spin_look_around(s);
	/* two clocks, of which this one is some milliseconds behind */
	if (s->now > atomic_load_explicit(&sh->active, memory_order_relaxed) + IDLE)
		return;
	in.worth = worth_of(sh);
	in.spun = s->began ? s->now - s->began : 0;
	in.learned = learned(sh, !s->began);
	in.cpu = s->cpu;
	in.cpus = s->cpus;
	in.spinners = s->began ? 0 : s->spinners;
	in.crowded = s->crowded;
	in.hogged = s->hogged;
	in.just_hogged = s->just_hogged;
	look_at_peer(sh, &in);
	most = rr_spin_time(&in);
	atomic_store_explicit(&sh->spun, in.spun + most, memory_order_relaxed);
	if (most > s->want) {
		s->want = most;
		s->enough = most >= in.worth;
		s->count = sh->qp->count;
	} else if (!most) {
		s->yields = rr_max(s->yields, rr_spin_yields(&in));
	}
}

void rr_conn_spun(const struct rr_spin *s, bool paid)
{
	if (!s->count)
		return;
	rr_count(s->count, RR_C_spins, 1);
	rr_count(s->count, RR_C_spins_paid, paid);
	rr_count(s->count, RR_C_spun_ns, s->now - s->began);
}

/* Two ends of which neither knows what the other does keep each other waiting for longer than
 * either would spin: by their wake-ups. Neither gets out of that alone. They have slept as
 * often, so after some such sleeps both spin for longer, a few times, and then go on as in the
 * beginning. If it was no use, twice as many sleeps have to come before the next attempt. The
 * same where the wake-ups are known, but the peer was at work: copies take longer on CPUs that
 * have slept than on those that spin. */
static bool is_time_to_try(struct rr_share *sh, rr_time slept)
{
	if (slept >= NEAR * rr_cp->spin || (++sh->near >> sh->attempts) < NEAR_MISSES)
		return false;
	sh->near = 0;
	sh->attempts += sh->attempts < ATTEMPTS;
	return true;
}

/* What of a sleep was this end's wake-up, and the peer's where it slept, too. The peer
 * is told what they take when nobody is in the way. */
static rr_time wakes(struct rr_share *sh, rr_time now, rr_time slept)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	struct rr_peer_look p;
	rr_time took;

	if (!ops->observe || sh->prov_lost)
		return 0;
	took = ops->rung(sh->qp, now);
	if (took < slept) {
		sh->woke = (uint32_t)rr_min(took,
					    sh->woke ? sh->woke + sh->woke / 8 + 1 : took);
		ops->tell(sh->qp, RR_TELL_WOKE, sh->woke);
	} else {
		took = 0;
	}
	ops->observe(sh->qp, 0, &p);
	if (atomic_load_explicit(&sh->peer_slept, memory_order_relaxed))
		took += p.woke;
	return took;
}

/* A thread woke after sleeping. */
void rr_wait_learn(struct rr_share *sh, rr_time now)
{
	rr_time slept = now - sh->armed_at;
	struct rr_spin_in in = { .bound = rr_cp->spin, .worth = worth_of(sh) };
	struct rr_spin_wait w = { 0 };
	uint32_t tries = 0;
	rr_time spin;

	if (!sh->armed_at)
		return;
	w.wakes = wakes(sh, now, slept);
	in.learned = atomic_load_explicit(&sh->spin, memory_order_relaxed);
	in.spun = w.took = slept + atomic_load_explicit(&sh->spun, memory_order_relaxed);
	look_at_peer(sh, &in);
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
	rr_tell_doing(sh, RR_DOES_RUN);
}
