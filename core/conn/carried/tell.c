/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two ends of a connection tell each other about themselves beside the messages, if
 * the provider can do that: whether an end will spin when it waits next, which CPU it runs on,
 * that a long copy is in progress, how long its wake-ups take. It only influences how long
 * somebody waits, so a lie does little harm. */

#include "core/base/compiler.h"
#include "core/base/cpus.h"
#include "core/conn/base/spin.h"
#include "core/conn/carried/carried.h"

/* --- of this end --- */

/* Says what this end does, and whether it will spin when it waits next: then the peer need not
 * sleep, either. */
void rr_tell_doing(struct rr_share *sh, uint32_t doing)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	bool spins = atomic_load_explicit(&sh->spin, memory_order_relaxed);

	if (ops->tell && !rr_link_is_lost(sh))
		ops->tell(sh->qp, RR_TELL_DOING, doing | (spins ? RR_DOES_SPIN : 0u));
}

void rr_tell_runs(struct rr_share *sh)
{
	rr_tell_doing(sh, RR_DOES_RUN);
}

/* Tells a peer that waits meanwhile that the copying of a large message goes on. */
void rr_tell_moved(struct rr_share *sh)
{
	uint32_t n = atomic_load_explicit(&sh->moved, memory_order_relaxed) + 1;

	atomic_store_explicit(&sh->moved, n, memory_order_relaxed);
	if (sh->qp->ops->tell && !rr_link_is_lost(sh))
		sh->qp->ops->tell(sh->qp, RR_TELL_WORK, n);
}

/* Tells the peer on which CPU this end takes messages in, before the reply is sent, so that the
 * peer does not spin on that CPU. An end that finds each message there already never waits, and
 * has no other occasion to tell. */
void rr_tell_cpu(struct rr_share *sh, rr_time now)
{
	sh->cpu_told = now;
	if (sh->qp->ops->tell && !rr_link_is_lost(sh))
		sh->qp->ops->tell(sh->qp, RR_TELL_CPU, rr_cpu_here());
}

/* --- of the peer --- */

/* Keeps what it sees at the beginning of a wait, to learn from the difference. If the peer
 * cannot be seen, the longest spin is as good as any: what lies between (a device, a network)
 * is not known either, and two ends that both sleep get out of that only by trials. */
void rr_tell_look(struct rr_share *sh, struct rr_spin_in *in)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	struct rr_peer_look p;
	uint32_t work;
	bool slept;

	in->worth = rr_cp->spin_worth;
	if (!ops->observe) {
		in->worth = in->worth ? rr_cp->spin : 0;
		/* Where there is one CPU a peer on this host is on it. */
		in->peer_cpu = rr_cpu_is_only() ? in->cpu : 0;
		return;
	}
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

bool rr_tell_peer_looks(const struct rr_share *sh)
{
	struct rr_peer_look p = { 0 };

	if (sh->qp->ops->observe)
		sh->qp->ops->observe(sh->qp, 0, &p);
	if (!p.doing)
		return true;
	return (p.doing & RR_DOES_SPIN) && !(p.doing & RR_DOES_SLEEP) &&
	       p.cpu != rr_cpu_here();
}

/* How much of a sleep was this end's wake-up, plus the peer's if it slept as well. Also tells
 * the peer how long our wake-ups take when nothing else delays them. */
rr_time rr_tell_wakes(struct rr_share *sh, rr_time now, rr_time slept)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	struct rr_peer_look p;
	rr_time took;

	if (!ops->observe || rr_link_is_lost(sh))
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
