/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/os.h"

#include <time.h>

const struct rr_os *rr_os;

rr_time rr_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (rr_time)ts.tv_sec * RR_SEC + (rr_time)ts.tv_nsec;
}
