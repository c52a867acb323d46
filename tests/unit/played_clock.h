/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAYED_CLOCK_H
#define PLAYED_CLOCK_H

/* A monotonic clock that the test sets; as long as it is 0, the kernel's. In one file of a program. */

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/types.h"

#define START	(1000 * RR_SEC)

static rr_time now;

int clock_gettime(clockid_t which, struct timespec *ts)
{
	if (!now || (which != CLOCK_MONOTONIC && which != CLOCK_MONOTONIC_COARSE))
		return (int)syscall(SYS_clock_gettime, which, ts);
	ts->tv_sec = (time_t)(now / RR_SEC);
	ts->tv_nsec = (long)(now % RR_SEC);
	return 0;
}

#endif
