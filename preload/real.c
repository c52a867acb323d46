/* SPDX-License-Identifier: BSD-3-Clause */
/* The next definitions of all interposed names, bound when the first of them is called. */

#include "preload/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/base/compiler.h"

/* --- fallbacks that are more than one system call of the same name --- */

/* No system call does it; who calls it that early does without. */
static int rr_real_none(int fd RR_UNUSED, const void *p RR_UNUSED)
{
	errno = EAGAIN;
	return -1;
}

/* Without libc's part in it a child could do next to nothing. */
static pid_t rr_real_nofork(void)
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

/* What __chk_fail is for, without its message. */
static size_t rr_real_room(size_t n, size_t room)
{
	if (n > room)
		abort();
	return n;
}

static int rr_real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask)
{
	struct timespec ts;

	if (timeout)
		ts = *timeout;	/* the system call writes back what is left */
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
	timeout->tv_sec = ts.tv_sec;	/* Linux says what was left */
	timeout->tv_usec = ts.tv_nsec / 1000;
	return rc;
}

#define RR_CALL(ret, name, params, args, fallback) \
	static ret direct_##name params { return (ret)(fallback); }
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) \
	static ret direct_##name params { return (ret)(fallback); }
#include "preload/calls.def"

/* --- the table before it is bound --- */

/* Entries are written by the binder while others read them: whole pointers, all of them
 * right, so the order does not matter. */
#define LOAD(slot)	__atomic_load_n(&(slot), __ATOMIC_RELAXED)

#define RR_CALL(ret, name, params, args, fallback) \
	static ret first_##name params \
	{ \
		rr_real_bind(); \
		if (LOAD(rr_real.name) == first_##name) \
			return direct_##name args; \
		return rr_real.name args; \
	}
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) \
	static ret first_##name vparams \
	{ \
		__builtin_va_list ap; \
		void *arg; \
		__builtin_va_start(ap, last); \
		arg = __builtin_va_arg(ap, void *); \
		__builtin_va_end(ap); \
		rr_real_bind(); \
		if (LOAD(rr_real.name) == first_##name) \
			return direct_##name args; \
		return rr_real.name args; \
	}
#include "preload/calls.def"

struct rr_real rr_real = {
#define RR_CALL(ret, name, params, args, fallback) .name = first_##name,
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) .name = first_##name,
#include "preload/calls.def"
};

/* --- binding --- */

enum { UNBOUND, BINDING, BOUND };

static _Atomic int state;

/* Leaves an entry that has no next definition as it is: that makes the system call. The copy
 * is what spares a cast between object and function pointers. */
#define BIND(name) do { \
	void *sym_ = dlsym(RTLD_NEXT, #name); \
	__typeof__(rr_real.name) fn_; \
	_Static_assert(sizeof(fn_) == sizeof(sym_), "POSIX"); \
	if (sym_) { \
		memcpy(&fn_, &sym_, sizeof(fn_)); \
		__atomic_store_n(&rr_real.name, fn_, __ATOMIC_RELAXED); \
	} \
} while (0)

void rr_real_bind(void)
{
	int was = UNBOUND, saved = errno;

	/* No waiting: dlsym may be stuck in a malloc that came here. Whoever comes while
	 * another binds makes system calls for that long. */
	if (!atomic_compare_exchange_strong_explicit(&state, &was, BINDING,
						     memory_order_acquire,
						     memory_order_relaxed))
		return;
#define RR_CALL(ret, name, params, args, fallback) BIND(name);
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) BIND(name);
#include "preload/calls.def"
	atomic_store_explicit(&state, BOUND, memory_order_release);
	errno = saved;
}

void rr_real_fork_child(void)
{
	int was = BINDING;

	atomic_compare_exchange_strong(&state, &was, UNBOUND);
}
