/* SPDX-License-Identifier: BSD-3-Clause */
/* References to a connection, and what the last one ends. */

#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"

bool rr_conn_keep(struct rr_conn *c)
{
	uint32_t refs = atomic_load_explicit(&c->refs, memory_order_relaxed);

	while (refs && !atomic_compare_exchange_weak_explicit(&c->refs, &refs, refs + 1,
							      memory_order_relaxed,
							      memory_order_relaxed))
		;
	return refs;
}

/* Nobody has a reference any more. */
static void end_conn(struct rr_conn *c)
{
	struct rr_share *sh = c->share;
	bool carried = rr_conn_st(c) == RR_S_CARRIED;
	bool family = carried && rr_conn_shareable(sh);
	/* An upgrade that another process of the family has under way: the numbers and
	 * addresses in there are of what that process has got since the fork. Or we have given
	 * up our part. */
	bool foreign = sh && !carried && c->owner != (int32_t)rr_pid();

	if (carried && rr_conn_relayed(c, 0))	/* nobody has closed it in so many words */
		rr_conn_leave(sh);
	/* The entry is the family's: the last that closes the connection gives it back. */
	if (family ? !atomic_load_explicit(&sh->procs, memory_order_relaxed)
				  : c->owner == (int32_t)rr_pid())
		rr_report_close(c);
	rr_half_leave(c);
	rr_slab_end(c);
	rr_budget_end(c);
	c->share = NULL;
	if (foreign)
		rr_share_unmap(sh);
	else
		rr_carrier_free(sh);
	if (c->listener)
		munmap(c->listener, c->listener_size);
	c->listener = NULL;
	rr_slab_put(c);
}

void rr_conn_free(struct rr_conn *c)
{
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
		end_conn(c);
}
