/* SPDX-License-Identifier: BSD-3-Clause */
/* The waits of programs that have 64-bit times on a 32-bit machine. Each calls the ordinary
 * wait with the time converted, and converts the time left back. Empty on machines that have no
 * such programs. */

#include "preload/time64.h"

#ifdef RR_TIME64

#include <stdint.h>

#include "core/base/compiler.h"
#include "preload/appmem.h"
#include "preload/wrap.h"

/* More seconds than fit are longer than anybody waits; negative ones stay negative, for
 * EINVAL. */
static int32_t narrow_seconds(int64_t s)
{
	return s > INT32_MAX ? INT32_MAX : s < 0 ? -1 : (int32_t)s;
}

/* *to is the time for the ordinary call, NULL for NULL. False: t cannot be read (EFAULT). */
static bool narrow(const struct rr_timespec64 *t, struct timespec *room,
		   const struct timespec **to)
{
	*to = t ? room : NULL;
	if (!t)
		return true;
	if (rr_bad_ptr(t))
		return false;
	*room = (struct timespec){ narrow_seconds(t->tv_sec), t->tv_nsec };
	return true;
}

int rr_wrap_ppoll64(struct pollfd *fds, nfds_t n, const struct rr_timespec64 *timeout,
		    const sigset_t *mask)
{
	const struct timespec *to;
	struct timespec room;

	if (!narrow(timeout, &room, &to))
		return (int)rr_ret(-EFAULT);
	return rr_wrap_ppoll(fds, n, to, mask);
}

int rr_wrap_select64(int n, fd_set *r, fd_set *w, fd_set *x, struct rr_timeval64 *timeout)
{
	struct timeval room;
	int rc;

	if (!timeout)
		return rr_wrap_select(n, r, w, x, NULL);
	if (rr_bad_ptr(timeout))
		return (int)rr_ret(-EFAULT);
	room = (struct timeval){ narrow_seconds(timeout->tv_sec),
				 narrow_seconds(timeout->tv_usec) };
	rc = rr_wrap_select(n, r, w, x, &room);
	timeout->tv_sec = room.tv_sec;
	timeout->tv_usec = room.tv_usec;
	return rc;
}

int rr_wrap_pselect64(int n, fd_set *r, fd_set *w, fd_set *x,
		      const struct rr_timespec64 *timeout, const sigset_t *mask)
{
	const struct timespec *to;
	struct timespec room;

	if (!narrow(timeout, &room, &to))
		return (int)rr_ret(-EFAULT);
	return rr_wrap_pselect(n, r, w, x, to, mask);
}

int rr_wrap_pwait64(int epfd, struct epoll_event *evs, int n,
		    const struct rr_timespec64 *timeout, const sigset_t *mask)
{
	const struct timespec *to;
	struct timespec room;

	if (!narrow(timeout, &room, &to))
		return (int)rr_ret(-EFAULT);
	return rr_wrap_epoll_pwait2(epfd, evs, n, to, mask);
}

int rr_wrap_recvmmsg64(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		       struct rr_timespec64 *timeout)
{
	const struct timespec *to;
	struct timespec room;
	int rc;

	if (!narrow(timeout, &room, &to))
		return (int)rr_ret(-EFAULT);
	rc = rr_wrap_recvmmsg(fd, msgs, n, flags, to ? &room : NULL);
	if (to) {
		timeout->tv_sec = room.tv_sec;
		timeout->tv_nsec = (int32_t)room.tv_nsec;
	}
	return rc;
}

#else
typedef int rr_no_time64;	/* ISO C wants a declaration in each file */
#endif
