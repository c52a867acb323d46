/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantiles of a histogram whose buckets grow with their values. Counting is up to the
 * caller. */

#include "core/base/hist.h"

/* The inverse of rr_hist_bucket(). The first 32 buckets are 32 ns wide; from then on 16 buckets
 * cover each power of two. */
uint64_t rr_hist_low(unsigned bucket)
{
	unsigned shift;

	if (bucket < 32)
		return (uint64_t)bucket << 5;
	shift = bucket / 16 - 1;
	return (uint64_t)(bucket % 16 + 16) << shift << 5;
}

/* All values of a bucket are shown as its middle. */
static uint64_t middle(unsigned bucket)
{
	return (rr_hist_low(bucket) + rr_hist_low(bucket + 1)) / 2;
}

/* Calculated in doubles: counts may be anything, and their sum must not wrap. */
uint64_t rr_hist_quantile(const uint64_t count[RR_HIST_BUCKETS], double share)
{
	double total = 0, sum = 0;
	unsigned last = 0;

	for (unsigned i = 0; i < RR_HIST_BUCKETS; i++)
		total += (double)count[i];
	if (total == 0)
		return 0;
	for (unsigned i = 0; i < RR_HIST_BUCKETS; i++) {
		if (!count[i])
			continue;
		last = i;
		sum += (double)count[i];
		if (sum >= share * total)
			break;
	}
	return middle(last);
}

uint64_t rr_hist_max(const uint64_t count[RR_HIST_BUCKETS])
{
	for (unsigned i = RR_HIST_BUCKETS; i-- > 0;)
		if (count[i])
			return middle(i);
	return 0;
}
