/* SPDX-License-Identifier: BSD-3-Clause */
/* The next definitions of all interposed names (libc's, or another library's), each looked up
 * when it is called first. Those that the libc does not have are made as system calls here. */

#include "preload/real.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "preload/next.h"

/* --- fallbacks that take more than the system call of the same name --- */

/* bindresvport() is no system call: without libc's it is refused. */
static int rr_real_none(int fd RR_UNUSED, const void *p RR_UNUSED)
{
	errno = EAGAIN;
	return -1;
}

/* fork() without libc's part would leave a child that can do next to nothing. */
static pid_t rr_real_nofork(void)
{
	errno = EAGAIN;
	return -1;
}

static int rr_real_noclone(int (*fn)(void *) RR_UNUSED, ...)
{
	errno = EAGAIN;
	return -1;
}

static int rr_real_nodaemon(int nochdir RR_UNUSED, int noclose RR_UNUSED)
{
	errno = EAGAIN;
	return -1;
}

static FILE *rr_real_nofile(int fd RR_UNUSED, const char *mode RR_UNUSED)
{
	errno = ENOMEM;
	return NULL;
}

static int rr_real_dup2(int fd, int to)
{
	if (fd == to)
		return syscall(SYS_fcntl, fd, F_GETFD) < 0 ? -1 : to;
	return (int)syscall(SYS_dup3, fd, to, 0);
}

/* Aborts like __chk_fail(), but without its message. */
static size_t rr_real_room(size_t n, size_t room)
{
	if (n > room)
		abort();
	return n;
}

/* Passes the offset in two words, of which a 64-bit kernel reads the first. */
static ssize_t rr_real_preadv(long nr, int fd, const struct iovec *iov, int n, off64_t off,
			      int flags)
{
	return syscall(nr, fd, iov, n, (long)off, (long)(off >> 32), flags);
}

static off64_t rr_real_lseek64(int fd, off64_t off, int whence)
{
#ifdef SYS__llseek
	off64_t at;

	return syscall(SYS__llseek, fd, (long)(off >> 32), (long)off, &at, whence) ? -1 : at;
#else
	return syscall(SYS_lseek, fd, off, whence);
#endif
}

/* Takes times of 64 bits on all machines, since it came after them. */
static int rr_real_pwait2(int epfd, struct epoll_event *evs, int n,
			  const struct timespec *timeout, const sigset_t *mask)
{
	struct { int64_t sec, nsec; } ts;

	if (timeout) {
		ts.sec = timeout->tv_sec;
		ts.nsec = timeout->tv_nsec;
	}
	return (int)syscall(SYS_epoll_pwait2, epfd, evs, n, timeout ? &ts : NULL, mask, 8);
}

static int rr_real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask)
{
	struct timespec ts;

	if (timeout)
		ts = *timeout;	/* the system call writes back the time left */
	return (int)syscall(SYS_ppoll, fds, n, timeout ? &ts : NULL, mask, 8);
}

static int rr_real_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec ts = { timeout / 1000, timeout % 1000 * 1000000L };

	return rr_real_ppoll(fds, n, timeout < 0 ? NULL : &ts, NULL);
}

static int rr_real_pselect(int n, fd_set *r, fd_set *w, fd_set *x,
			   const struct timespec *timeout, const sigset_t *mask)
{
	struct { const sigset_t *mask; size_t size; } sig = { mask, 8 };
	struct timespec ts;

	if (timeout)
		ts = *timeout;
	return (int)syscall(SYS_pselect6, n, r, w, x, timeout ? &ts : NULL, &sig);
}

static int rr_real_select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *timeout)
{
	struct timespec ts;
	int rc;

	if (!timeout)
		return rr_real_pselect(n, r, w, x, NULL, NULL);
	ts = (struct timespec){ timeout->tv_sec, timeout->tv_usec * 1000 };
	rc = (int)syscall(SYS_pselect6, n, r, w, x, &ts, NULL);
	timeout->tv_sec = ts.tv_sec;	/* as Linux does */
	timeout->tv_usec = ts.tv_nsec / 1000;
	return rc;
}

#define RR_CALL(ret, name, params, args, fallback) \
	static ret direct_##name params { return (ret)(fallback); }
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) \
	static ret direct_##name vparams { RR_LAST_ARG(arg, last); return (ret)(fallback); }
#define RR_TWICE(ret, name, fallback) \
	static ret direct_##name(void) { return (ret)(fallback); }
#include "preload/calls.def"

/* --- the table --- */

/* The next definition, or, for a name that this libc does not have, the system call. memcpy()
 * because C has no cast between object and function pointers. Threads that come at the same
 * time find the same, and an entry is one pointer whose values are all valid, so relaxed order
 * suffices. Callers read it by calling through it. gcc has no atomic form of that, not even for
 * an _Atomic entry, and TSan's report of it is suppressed (tests/san/tsan.supp). */
#define BIND(name) do { \
	void *sym_ = rr_next(#name); \
	__typeof__(rr_real.name) fn_ = direct_##name; \
	_Static_assert(sizeof(fn_) == sizeof(sym_), "POSIX"); \
	if (sym_) \
		memcpy(&fn_, &sym_, sizeof(fn_)); \
	__atomic_store_n(&rr_real.name, fn_, __ATOMIC_RELAXED); \
} while (0)

#define RR_CALL(ret, name, params, args, fallback) \
	static ret first_##name params \
	{ \
		BIND(name); \
		return rr_real.name args; \
	}
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) \
	static ret first_##name vparams \
	{ \
		RR_LAST_ARG(arg, last); \
		BIND(name); \
		return rr_real.name args; \
	}
#include "preload/calls.def"

struct rr_real rr_real = {
#define RR_CALL(ret, name, params, args, fallback) .name = first_##name,
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) .name = first_##name,
#define RR_TWICE(ret, name, fallback) .name = direct_##name,
#include "preload/calls.def"
};

void rr_real_bind_twice(void)
{
#define RR_TWICE(ret, name, fallback) BIND(name);
#include "preload/calls.def"
}

static int whole_ms(const struct timespec *t)
{
	if (!t)
		return -1;
	if (t->tv_sec >= INT_MAX / 1000)
		return INT_MAX;
	return (int)t->tv_sec * 1000 + (int)((t->tv_nsec + 999999) / 1000000);
}

int rr_real_sleep(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask)
{
	int rc = rr_real.ppoll(fds, n, timeout, mask);

	if (likely(rc >= 0 || !rr_os_is_filtered(errno) || mask))
		return rc;
	return rr_real.poll(fds, n, whole_ms(timeout));
}
