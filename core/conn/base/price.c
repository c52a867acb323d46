/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps for each part of an upgrade, and for calls by TCP, about the least time that it has
 * lately taken: a thread may lose its processor in the middle, so a mean would say how busy the
 * machine is. */
#include "core/conn/base/price.h"

#include <stdatomic.h>

#include "core/base/compiler.h"

#define CREEP	8u	/* a longer time raises what is kept by this part of it */

static _Atomic rr_time least[RR_PRICE_PARTS];
/* The first calls of a process take long: nothing of theirs is in any cache. */
static _Atomic rr_time trip = RR_PRICE_TRIP;

static void keep_least(_Atomic rr_time *least_of, rr_time took)
{
	rr_time kept = atomic_load_explicit(least_of, memory_order_relaxed);

	if (kept)
		took = rr_min(took, kept + kept / CREEP + 1);
	atomic_store_explicit(least_of, took, memory_order_relaxed);
}

void rr_price_paid(enum rr_price part, rr_time took)
{
	keep_least(&least[part], took);
}

rr_time rr_price_sum(void)
{
	rr_time sum = 0;

	for (int i = 0; i < RR_PRICE_PARTS; i++)
		sum += atomic_load_explicit(&least[i], memory_order_relaxed);
	return sum;
}

void rr_price_tripped(rr_time took)
{
	keep_least(&trip, rr_max(took, (rr_time)1));
}

rr_time rr_price_trip(void)
{
	return atomic_load_explicit(&trip, memory_order_relaxed);
}
