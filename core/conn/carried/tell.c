/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two ends of a connection tell each other of themselves beside the messages, where
 * the provider can: whether an end looks at memory when next it waits, on which CPU it runs,
 * that a long copy goes on, how long its wake-ups take. Nothing depends on it but how long
 * somebody waits. */

#include "core/base/compiler.h"
#include "core/base/cpus.h"
#include "core/conn/base/spin.h"
#include "core/conn/carried/carried.h"

/* --- of this end --- */

/* Whether this end looks at memory, when next it waits, is for the peer to know: it need not
 * sleep then, either. */
void rr_tell_doing(struct rr_share *sh, uint32_t doing)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	bool spins = atomic_load_explicit(&sh->spin, memory_order_relaxed);

	if (ops->tell && !sh->prov_lost)
		ops->tell(sh->qp, RR_TELL_DOING, doing | (spins ? RR_DOES_SPIN : 0u));
}

void rr_tell_runs(struct rr_share *sh)
{
	rr_tell_doing(sh, RR_DOES_RUN);
}

/* For whoever waits for it meanwhile: the copying of a large message goes on. */
void rr_tell_moved(struct rr_share *sh)
{
	uint32_t n = atomic_load_explicit(&sh->moved, memory_order_relaxed) + 1;

	atomic_store_explicit(&sh->moved, n, memory_order_relaxed);
	if (sh->qp->ops->tell && !sh->prov_lost)
		sh->qp->ops->tell(sh->qp, RR_TELL_WORK, n);
}

/* On which CPU this end takes its messages in the peer is to know before it is answered: it
 * does not spin there. Whoever finds each message there already never waits, and tells it
 * nowhere else. */
void rr_tell_cpu(struct rr_share *sh, rr_time now)
{
	sh->cpu_told = now;
	if (sh->qp->ops->tell && !sh->prov_lost)
		sh->qp->ops->tell(sh->qp, RR_TELL_CPU, rr_cpu_here());
}

/* --- of the peer --- */

/* At the beginning of a wait this is kept, for what is learned from it. Of a peer that cannot
 * be seen the longest spin is as good as any: what is behind it (a device, a network) is not
 * known either, and two ends that sleep get out of that by trials alone. */
void rr_tell_look(struct rr_share *sh, struct rr_spin_in *in)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	struct rr_peer_look p;
	uint32_t work;
	bool slept;

	in->worth = rr_cp->spin_worth;
	if (!ops->observe) {
		in->worth = in->worth ? rr_cp->spin : 0;
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

/* What of a sleep was this end's wake-up, and the peer's where it slept, too. The peer
 * is told what they take when nobody is in the way. */
rr_time rr_tell_wakes(struct rr_share *sh, rr_time now, rr_time slept)
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
