/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STATS_H
#define RR_STATS_H

/* Counters. Each carried connection counts into its own entry of the process's
 * statistics segment (stats_abi.h); whoever holds the connection's lock is the
 * only writer, so counting is a plain add and readers see whole words. */

#include <stdatomic.h>

#include "core/base/types.h"

enum rr_counter {
#define RR_COUNTER(group, name, help) RR_C_##name,
#include "core/base/counters.def"
#undef RR_COUNTER
	RR_C_COUNT
};

struct rr_counters {
	_Atomic uint64_t v[RR_C_COUNT];
};

static inline void rr_count(struct rr_counters *c, enum rr_counter which, uint64_t n)
{
	uint64_t v = atomic_load_explicit(&c->v[which], memory_order_relaxed);

	atomic_store_explicit(&c->v[which], v + n, memory_order_relaxed);
}

#endif
