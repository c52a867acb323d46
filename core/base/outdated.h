/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_OUTDATED_H
#define RR_OUTDATED_H

/* When to look up again what an app or an administrator may change, such as affinity. Once a
 * second is seldom enough where there are many calls. With a call every few seconds each would
 * look, some sixty system calls at a client, so there an answer serves several. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/types.h"

#define RR_FRESH	RR_SEC
#define RR_STALE	(60 * RR_SEC)	/* it serves nobody any more */
#define RR_STALE_USES	16u		/* between the two it serves so many */

/* Is an answer of this age to be looked up again? *uses counts those whom it serves although it
 * is no longer fresh. Lock-free. */
static inline bool rr_is_outdated(rr_time age, _Atomic uint32_t *uses)
{
	if (likely(age < RR_FRESH))
		return false;
	if (age < RR_STALE &&
	    atomic_fetch_add_explicit(uses, 1, memory_order_relaxed) < RR_STALE_USES)
		return false;
	atomic_store_explicit(uses, 0, memory_order_relaxed);
	return true;
}

#endif
