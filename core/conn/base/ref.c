/* SPDX-License-Identifier: BSD-3-Clause */
/* References to a connection, and what is torn down with the last one. What the app's close()
 * does before that is in core/conn/close.c. */

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

/* The last reference is gone: frees everything that the connection has. */
static void end_conn(struct rr_conn *c)
{
	struct rr_share *sh = c->share;
	bool carried = rr_conn_st(c) == RR_S_CARRIED;
	bool family = carried && rr_conn_shareable(sh);
	/* Another process of the family negotiates this upgrade, or we have given up our part
	 * in it: the descriptors and addresses in the share are those of that process and not
	 * ours to close. */
	bool foreign = sh && !carried && c->owner != (int32_t)rr_pid();

	/* The entry belongs to the family: the last process that closes the connection releases
	 * it. */
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
