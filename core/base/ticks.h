/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TICKS_H
#define RR_TICKS_H

/* A clock for times that are taken twice in each call, and in each round of a spin. If the
 * kernel's own clock is the CPU's counter (x86-64, clocksource tsc), the counter is read
 * directly, which costs a third of rr_now(). Its rate is found by reading both clocks twice, at
 * an interval (ticks.c). Until then, and everywhere else, the clock is rr_now().
 * Async-signal-safe, any thread. */

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

/* Called until the rate is known: compares both clocks now and then. Returns rr_now(). */
rr_time rr_ticks_learn(struct rr_ticks *t);

/* Sets the name of the kernel's clock source, as sysfs has it, before the first use. Without
 * this the clock is always rr_now(). */
void rr_ticks_source(struct rr_ticks *t, const char *name);

/* A moment; only rr_ticks_since() knows what the number means. Both must get the t of the same
 * segment. */
static inline uint64_t rr_ticks_stamp(struct rr_ticks *t)
{
#ifdef __x86_64__
	if (likely(atomic_load_explicit(&t->rate, memory_order_relaxed)))
		return rr_ticks_cpu();
#endif
	return rr_ticks_learn(t);
}

/* Are both of one clock, and b not the earlier one? Stamps of one clock are never 2^62 apart,
 * and those of two clocks differ by 2^63 and less than that, either way. */
static inline bool rr_ticks_in_order(uint64_t a, uint64_t b)
{
	return !((b - a) >> 62);
}

/* ns between two moments that are in order; else 0. */
static inline uint64_t rr_ticks_between(struct rr_ticks *t, uint64_t a, uint64_t b)
{
	if (unlikely(!rr_ticks_in_order(a, b)))
		return 0;
#ifdef __x86_64__
	if (likely(a & RR_TICKS_OF_CPU)) {
		uint64_t rate = atomic_load_explicit(&t->rate, memory_order_relaxed);

		return (uint64_t)((rr_u128)(b - a) * rate >> 32);
	}
#else
	(void)t;
#endif
	return b - a;
}

/* Now, by the clock that stamp is of. */
static inline uint64_t rr_ticks_again(struct rr_ticks *t, uint64_t stamp)
{
#ifdef __x86_64__
	if (likely(stamp & RR_TICKS_OF_CPU))
		return rr_ticks_cpu();
#else
	(void)stamp;
#endif
	return rr_ticks_learn(t);
}

/* ns since that moment; 0 if it lies in the future. */
static inline uint64_t rr_ticks_since(struct rr_ticks *t, uint64_t stamp)
{
	return rr_ticks_between(t, stamp, rr_ticks_again(t, stamp));
}

#endif
