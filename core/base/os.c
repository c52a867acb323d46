/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of system calls by which core reaches the kernel, and what needs no table. */

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"

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

/* A page that is zero in a forked child; NULL: it cannot be had, or not yet. */
static _Atomic int32_t *wiped_page(void)
{
	static _Atomic int32_t *_Atomic page;
	static _Atomic uint32_t tried;
	_Atomic int32_t *p = atomic_load_explicit(&page, memory_order_acquire);
	void *fresh;

	if (likely(p != NULL) || atomic_exchange_explicit(&tried, true, memory_order_relaxed))
		return p;
	fresh = mmap(NULL, RR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fresh == MAP_FAILED)
		return NULL;
	if (madvise(fresh, RR_PAGE, MADV_WIPEONFORK)) {
		munmap(fresh, RR_PAGE);
		return NULL;
	}
	/* pairs with the acquire above */
	atomic_store_explicit(&page, fresh, memory_order_release);
	return fresh;
}

pid_t rr_pid(void)
{
	_Atomic int32_t *kept = wiped_page();
	int32_t pid = kept ? atomic_load_explicit(kept, memory_order_relaxed) : 0;
	int saved = errno;

	if (likely(pid))
		return pid;
	pid = getpid();
	if (kept)
		atomic_store_explicit(kept, pid, memory_order_relaxed);
	errno = saved;
	return pid;
}
