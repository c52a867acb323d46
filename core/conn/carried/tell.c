/* SPDX-License-Identifier: BSD-3-Clause */
/* What this end tells its peer of itself beside the messages, where the provider can: whether
 * it looks at memory when next it waits, on which CPU it runs, that a long copy goes on. */

#include "core/base/compiler.h"
#include "core/base/cpus.h"
#include "core/conn/carried/carried.h"

/* Whether this end looks at memory, when next it waits, is for the peer to know: it need not
 * sleep then, either. */
void rr_tell_doing(struct rr_share *sh, uint32_t doing)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	bool spins = atomic_load_explicit(&sh->spin, memory_order_relaxed);

	if (ops->tell && !sh->prov_lost)
		ops->tell(sh->qp, RR_TELL_DOING, doing | (spins ? RR_DOES_SPIN : 0u));
}

void rr_ready_runs(struct rr_share *sh)
{
	rr_tell_doing(sh, RR_DOES_RUN);
}

/* For whoever waits for it meanwhile: the copying of a large message goes on. */
void rr_ready_moved(struct rr_share *sh)
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
