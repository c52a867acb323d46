/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/os.h"

#include <time.h>

const struct rr_os *rr_os;

static rr_time now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (rr_time)ts.tv_sec * RR_SEC + (rr_time)ts.tv_nsec;
}

rr_time rr_now(void)
{
	return now(CLOCK_MONOTONIC);
}

rr_time rr_now_coarse(void)
{
	return now(CLOCK_MONOTONIC_COARSE);
}
