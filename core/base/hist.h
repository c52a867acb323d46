/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_HIST_H
#define RR_HIST_H

/* A log-linear histogram of times: 16 buckets for each power of two, so that the middle of a
 * bucket is at most 3.1 % away from any value in it. It covers 32 ns to 18 minutes; values
 * beyond count in the first or last bucket. Pure. */

#include "core/base/types.h"

#define RR_HIST_BUCKETS	512u

/* The bucket of a time in ns. */
static inline unsigned rr_hist_bucket(uint64_t ns)
{
	uint64_t u = ns >> 5;
	unsigned shift;

	if (u >> 35)
		return RR_HIST_BUCKETS - 1;
	shift = 59 - (unsigned)__builtin_clzll(u | 16);	/* 0 for the first 32 */
	return shift * 16 + (unsigned)(u >> shift);
}

/* The smallest time of a bucket, ns; bucket RR_HIST_BUCKETS is the end of the last. */
uint64_t rr_hist_low(unsigned bucket);

/* The time that a share (0..1) of the counts does not exceed: the middle of its bucket,
 * ns; 0 if there are no counts. Copes with any counts, their sum past 2^64 included. */
uint64_t rr_hist_quantile(const uint64_t count[RR_HIST_BUCKETS], double share);

/* The middle of the highest bucket with a count; 0 if there is none. */
uint64_t rr_hist_max(const uint64_t count[RR_HIST_BUCKETS]);

#endif
