/* SPDX-License-Identifier: BSD-3-Clause */
/* Learns how long a tick of the CPU's counter takes. Reading the counter is in ticks.h. */

#include "core/base/ticks.h"

#include <string.h>

#ifdef __x86_64__

#define APART (50 * RR_MSEC)
#define CLOSE 40000u /* ticks: some 15 us */

enum { UNUSED, WANTED, BUSY, BEGUN, KNOWN };

void rr_ticks_source(struct rr_ticks *t, const char *name)
{
	if (!strcmp(name, "tsc") || !strcmp(name, "tsc\n"))
		atomic_store_explicit(&t->state, WANTED, memory_order_relaxed);
}

/* Reads both clocks at one moment. False: too much time passed in between. */
static bool look_at_clocks(uint64_t *ticks, rr_time *ns)
{
	uint64_t before = __builtin_ia32_rdtsc();

	*ns = rr_now();
	*ticks = __builtin_ia32_rdtsc();
	return *ticks - before < CLOSE;
}

static void begin_rate(struct rr_ticks *t)
{
	uint64_t ticks;
	rr_time ns;
	bool ok = look_at_clocks(&ticks, &ns);

	t->ticks = ticks;
	t->ns = ns;
	/* Pairs with the acquire in rr_ticks_learn(). */
	atomic_store_explicit(&t->state, ok ? BEGUN : WANTED, memory_order_release);
}

/* 100 MHz to 10 GHz; otherwise the counter is not what it seems. */
static bool is_sane_rate(uint64_t rate)
{
	return rate > (UINT64_C(1) << 32) / 10 && rate < UINT64_C(10) << 32;
}

static void finish_rate(struct rr_ticks *t)
{
	uint64_t ticks, rate;
	rr_time ns;
	uint32_t state = BEGUN;

	if (look_at_clocks(&ticks, &ns) && ticks > t->ticks) {
		rate = (uint64_t)(((rr_u128)(ns - t->ns) << 32) / (ticks - t->ticks));
		state = is_sane_rate(rate) ? KNOWN : UNUSED;
		if (state == KNOWN)
			atomic_store_explicit(&t->rate, rate, memory_order_relaxed);
	}
	atomic_store_explicit(&t->state, state, memory_order_release);
}

rr_time rr_ticks_learn(struct rr_ticks *t)
{
	/* Pairs with the release in begin_rate(). */
	uint32_t state = atomic_load_explicit(&t->state, memory_order_acquire);
	rr_time now = rr_now();

	if (state != WANTED && !(state == BEGUN && now - t->ns >= APART))
		return now;
	if (!atomic_compare_exchange_strong_explicit(
		&t->state, &state, BUSY, memory_order_acquire, memory_order_relaxed))
		return now;
	if (state == WANTED)
		begin_rate(t);
	else
		finish_rate(t);
	return now;
}

#else

void rr_ticks_source(struct rr_ticks *t, const char *name)
{
	(void)t, (void)name;
}

rr_time rr_ticks_learn(struct rr_ticks *t)
{
	(void)t;
	return rr_now();
}

#endif
