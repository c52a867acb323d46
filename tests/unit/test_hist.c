/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/base/hist.h"

Test(hist, buckets_are_contiguous_and_ascending)
{
	for (unsigned b = 0; b < RR_HIST_BUCKETS; b++) {
		cr_assert_lt(rr_hist_low(b), rr_hist_low(b + 1));
		cr_assert_eq(rr_hist_bucket(rr_hist_low(b)), b);
		cr_assert_eq(rr_hist_bucket(rr_hist_low(b + 1) - 1), b);
	}
}

Test(hist, the_middle_of_a_bucket_is_within_3_2_percent)
{
	for (unsigned b = 16; b < RR_HIST_BUCKETS; b++) {
		double low = (double)rr_hist_low(b), high = (double)rr_hist_low(b + 1) - 1;
		double mid = (double)((rr_hist_low(b) + rr_hist_low(b + 1)) / 2);

		cr_assert_leq((mid - low) / low, 0.032, "bucket %u", b);
		cr_assert_leq((high - mid) / high, 0.032, "bucket %u", b);
	}
}

Test(hist, extremes_land_in_the_first_and_last_bucket)
{
	cr_assert_eq(rr_hist_bucket(0), 0);
	cr_assert_eq(rr_hist_bucket(31), 0);
	cr_assert_eq(rr_hist_bucket(UINT64_C(1) << 40), RR_HIST_BUCKETS - 1);
	cr_assert_eq(rr_hist_bucket((UINT64_C(1) << 40) - 1), RR_HIST_BUCKETS - 1);
	cr_assert_eq(rr_hist_bucket(UINT64_MAX), RR_HIST_BUCKETS - 1);
}

static bool near(uint64_t got, double want)
{
	return (double)got > want * 0.965 && (double)got < want * 1.035;
}

Test(hist, quantiles_of_a_uniform_distribution)
{
	static uint64_t c[RR_HIST_BUCKETS];

	for (uint64_t ns = 1000; ns <= 1000000; ns += 10)
		c[rr_hist_bucket(ns)]++;
	cr_assert(near(rr_hist_quantile(c, 0.5), 500000));
	cr_assert(near(rr_hist_quantile(c, 0.9), 900000));
	cr_assert(near(rr_hist_quantile(c, 0.99), 990000));
	cr_assert(near(rr_hist_quantile(c, 1.0), 1000000));
	cr_assert(near(rr_hist_max(c), 1000000));
}

Test(hist, a_single_value_is_every_quantile)
{
	static uint64_t c[RR_HIST_BUCKETS];

	c[rr_hist_bucket(920)] = 1;
	cr_assert(near(rr_hist_quantile(c, 0.5), 920));
	cr_assert(near(rr_hist_quantile(c, 0.99), 920));
	cr_assert(near(rr_hist_max(c), 920));
}

Test(hist, no_counts_give_zero)
{
	static uint64_t c[RR_HIST_BUCKETS];

	cr_assert_eq(rr_hist_quantile(c, 0.5), 0);
	cr_assert_eq(rr_hist_max(c), 0);
}

Test(hist, counts_whose_sum_wraps_do_not_mislead)
{
	static uint64_t c[RR_HIST_BUCKETS];

	c[100] = UINT64_MAX;
	c[200] = UINT64_MAX;
	c[300] = 3;
	cr_assert_eq(rr_hist_bucket(rr_hist_quantile(c, 0.4)), 100);
	cr_assert_eq(rr_hist_bucket(rr_hist_quantile(c, 0.9)), 200);
}
