/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/os.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

int rr_os_open(const char *path, int flags)
{
	return rr_os_openat(AT_FDCWD, path, flags);
}

int rr_os_openat(int dir, const char *name, int flags)
{
	return (int)syscall(SYS_openat, dir, name, flags, 0);
}

int rr_os_fallocate(int fd, int mode, off_t off, off_t len)
{
	return (int)syscall(SYS_fallocate, fd, mode, off, len);
}

bool rr_os_random(void *buf, size_t n)
{
	return syscall(SYS_getrandom, buf, n, GRND_NONBLOCK) == (long)n;
}

void rr_os_nap(rr_time t)
{
	struct timespec ts = { (time_t)(t / RR_SEC), (long)(t % RR_SEC) };

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL);
}
