/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunk memory that is not in use: counts how much of it the process keeps, and gives it back
 * to the system. When a connection is idle is decided in idle.c. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

#define WARM_MIN	64u	/* fewer pages are not worth counting */

static _Atomic uint64_t warm;		/* pages that connections keep and do not use */

void rr_idle_trim(struct rr_share *sh)
{
	rr_carrier_trim(sh);
	sh->pool.peak = sh->pool.used;
	atomic_fetch_sub_explicit(&warm, sh->warm, memory_order_relaxed);
	sh->warm = 0;
}

void rr_idle_count_warm(struct rr_share *sh)
{
	if (sh->pool.peak <= WARM_MIN)
		return;
	atomic_fetch_add_explicit(&warm, sh->pool.peak - sh->warm, memory_order_relaxed);
	sh->warm = sh->pool.peak;
	if (atomic_load_explicit(&warm, memory_order_relaxed) * RR_POOL_PAGE >
	    rr_cp->warm_memory)
		rr_idle_trim(sh);
}
