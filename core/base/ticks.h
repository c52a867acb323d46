/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TICKS_H
#define RR_TICKS_H

/* A clock for times that are taken twice a call. Where the kernel's own clock is the CPU's
 * counter (x86-64, clocksource tsc) that is read as it is, a third of what rr_now() costs, and
 * its rate is found by two looks at both clocks, TICKS_APART from each other. Until then, and
 * everywhere else, it is rr_now(). Async-signal-safe, any thread. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/stats_abi.h"

#ifdef __x86_64__
#define RR_TICKS_OF_CPU (UINT64_C(1) << 63)
__extension__ typedef unsigned __int128 rr_u128;

static inline uint64_t rr_ticks_cpu(void)
{
	return __builtin_ia32_rdtsc() | RR_TICKS_OF_CPU;
}
#endif

/* While the rate is not known: what both clocks say, now and then. Returns rr_now(). */
rr_time rr_ticks_learn(struct rr_ticks *t);

/* What the kernel's clock source is, as sysfs has it; before the first use. Without this it is
 * always rr_now(). */
void rr_ticks_source(struct rr_ticks *t, const char *name);

/* A moment; only rr_ticks_since() knows what the number means. t is of the same segment for
 * both. */
static inline uint64_t rr_ticks_stamp(struct rr_ticks *t)
{
#ifdef __x86_64__
	if (likely(atomic_load_explicit(&t->rate, memory_order_relaxed)))
		return rr_ticks_cpu();
#endif
	return rr_ticks_learn(t);
}

/* ns since that moment; 0 if it lies ahead. */
static inline uint64_t rr_ticks_since(struct rr_ticks *t, uint64_t stamp)
{
	rr_time now;

#ifdef __x86_64__
	if (likely(stamp & RR_TICKS_OF_CPU)) {
		uint64_t d = rr_ticks_cpu() - stamp;
		uint64_t rate = atomic_load_explicit(&t->rate, memory_order_relaxed);

		return (int64_t)d < 0 ? 0 : (uint64_t)((rr_u128)d * rate >> 32);
	}
#endif
	now = rr_ticks_learn(t);
	return now < stamp ? 0 : now - stamp;
}

#endif
