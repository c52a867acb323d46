/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of system calls through which core reaches the kernel, which others fill in, and
 * the calls that bypass it. */

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"

const struct rr_os *rr_os;

int rr_os_open(const char *path, int flags)
{
	return rr_os_openat(AT_FDCWD, path, flags);
}

int rr_os_openat(int dir, const char *name, int flags)
{
	return (int)syscall(SYS_openat, dir, name, flags | O_LARGEFILE, 0);
}

int rr_os_pipe(int fds[2])
{
	return (int)syscall(SYS_pipe2, fds, O_NONBLOCK | O_CLOEXEC);
}

ssize_t rr_os_read(int fd, void *buf, size_t n)
{
	return syscall(SYS_read, fd, buf, n);
}

ssize_t rr_os_write(int fd, const void *buf, size_t n)
{
	return syscall(SYS_write, fd, buf, n);
}

int rr_os_fallocate(int fd, int mode, off_t off, off_t len)
{
#if __SIZEOF_LONG__ < 8
	return (int)syscall(SYS_fallocate, fd, mode,
			    __LONG_LONG_PAIR((long)(off >> 32), (long)off),
			    __LONG_LONG_PAIR((long)(len >> 32), (long)len));
#else
	return (int)syscall(SYS_fallocate, fd, mode, off, len);
#endif
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

enum { PAGE_WORTH = 8 };	/* system calls that cost about as much as the page */

/* A page that the kernel zeroes in a forked child; NULL: the kernel cannot do that, or the pid
 * has not been asked for so often yet that the page would cost less than the system calls. */
static _Atomic int32_t *wiped_page(void)
{
	static _Atomic int32_t *_Atomic page;
	static _Atomic uint32_t asked;
	_Atomic int32_t *p = atomic_load_explicit(&page, memory_order_acquire);
	void *fresh;

	if (likely(p != NULL) ||
	    atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) != PAGE_WORTH)
		return p;
	fresh = mmap(NULL, RR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fresh == MAP_FAILED)
		return NULL;
	if (madvise(fresh, RR_PAGE, MADV_WIPEONFORK)) {
		munmap(fresh, RR_PAGE);
		return NULL;
	}
	/* Written before it is read, the page costs one fault and not two. */
	*(int32_t *)fresh = getpid();
	/* Pairs with the acquire at the top. */
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
