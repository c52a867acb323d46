/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/ticks.h"

#define WAY 200	/* naps of a ms until the rate is known, at most */

static struct rr_ticks t;

/* Is what the clock says between two moments what rr_now() says? To a part in a thousand, and
 * what it takes to look. */
static void agrees(void)
{
	rr_time before = rr_now(), since, all, within;
	uint64_t stamp = rr_ticks_stamp(&t);

	within = rr_now();
	rr_os_nap(5 * RR_MSEC);
	within = rr_now() - within;
	since = rr_ticks_since(&t, stamp);
	all = rr_now() - before;
	cr_assert_leq(since, all + all / 1000 + RR_USEC);
	cr_assert_geq(since + since / 1000 + RR_USEC, within);
}

Test(ticks, without_a_source_it_is_the_kernels_clock)
{
	rr_time now = rr_now();

	for (int i = 0; i < WAY; i++) {
		rr_time at = rr_ticks_stamp(&t);

		cr_assert(at >= now && at <= rr_now());
		rr_os_nap(RR_MSEC);
	}
	cr_assert_eq(t.rate, 0);
	agrees();
}

Test(ticks, another_source_is_not_the_cpus_counter)
{
	rr_ticks_source(&t, "kvm-clock\n");
	rr_ticks_source(&t, "tsc2\n");
	rr_ticks_source(&t, "");
	cr_assert_eq(t.state, 0);
}

#ifdef __x86_64__
/* A stamp of before the rate was known is still one of the kernel's clock afterwards. */
Test(ticks, the_cpus_counter_is_used_when_its_rate_is_known)
{
	uint64_t early;

	rr_ticks_source(&t, "tsc\n");
	early = rr_ticks_stamp(&t);
	cr_assert_not(early & RR_TICKS_OF_CPU);
	for (int i = 0; i < WAY && !t.rate; i++) {
		rr_os_nap(RR_MSEC);
		rr_ticks_stamp(&t);
	}
	cr_assert(t.rate, "some machines may have no such counter, but not one whose clock it is");
	cr_assert(rr_ticks_stamp(&t) & RR_TICKS_OF_CPU);
	agrees();
	cr_assert_leq(rr_ticks_since(&t, early), rr_now() - early + RR_MSEC);
	cr_assert_geq(rr_ticks_since(&t, early), RR_MSEC);
}

Test(ticks, a_moment_that_lies_ahead_is_no_time_ago)
{
	t.rate = UINT64_C(1) << 32;
	cr_assert_eq(rr_ticks_since(&t, rr_ticks_cpu() + (UINT64_C(1) << 40)), 0);
	t.rate = 0;
	cr_assert_eq(rr_ticks_since(&t, rr_now() + RR_SEC), 0);
}

Test(ticks, moments_of_two_clocks_have_no_order)
{
	uint64_t cpu = rr_ticks_cpu();

	t.rate = UINT64_C(2) << 32;
	cr_assert_eq(rr_ticks_between(&t, cpu, cpu + 7), 14);
	cr_assert_eq(rr_ticks_between(&t, 100, 107), 7);
	cr_assert_eq(rr_ticks_between(&t, 107, 100), 0);
	cr_assert_eq(rr_ticks_between(&t, 100, cpu), 0);
	cr_assert_eq(rr_ticks_between(&t, cpu, 100), 0);
	cr_assert(!rr_ticks_in_order(100, cpu) && !rr_ticks_in_order(cpu, 100));
	cr_assert(rr_ticks_in_order(cpu, cpu) && !rr_ticks_in_order(cpu + 1, cpu));
	/* Wherever the two clocks stand: a counter may have begun before, or long after. */
	cr_assert(!rr_ticks_in_order(1, RR_TICKS_OF_CPU | UINT64_C(1) << 61));
	cr_assert(!rr_ticks_in_order(UINT64_C(1) << 61, RR_TICKS_OF_CPU | 1));
	cr_assert(!rr_ticks_in_order(RR_TICKS_OF_CPU | 1, UINT64_C(1) << 61));
	cr_assert(!rr_ticks_in_order(RR_TICKS_OF_CPU | UINT64_C(1) << 61, 1));
	cr_assert_eq(rr_ticks_between(&t, UINT64_C(1) << 61, RR_TICKS_OF_CPU | 1), 0);
}
#endif
