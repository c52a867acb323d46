/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TIME64_H
#define RR_TIME64_H

/* Programs of a 32-bit machine that were built with -D_TIME_BITS=64 call other names. Five of
 * these take times, which time64.c converts to those of the ordinary names. Those hold 68
 * years, which suffices: all five are durations, none a date. */

#include "preload/libc.h"

#if defined(__TIMESIZE) && __TIMESIZE == 32
#define RR_TIME64 1

struct rr_timespec64 {
	int64_t tv_sec;
#if __BYTE_ORDER == __BIG_ENDIAN
	int32_t pad;
#endif
	int32_t tv_nsec;
#if __BYTE_ORDER == __LITTLE_ENDIAN
	int32_t pad;	/* padding */
#endif
};

struct rr_timeval64 {
	int64_t tv_sec, tv_usec;
};

int rr_wrap_ppoll64(struct pollfd *fds, nfds_t n, const struct rr_timespec64 *timeout,
		    const sigset_t *mask);
int rr_wrap_select64(int n, fd_set *r, fd_set *w, fd_set *x, struct rr_timeval64 *timeout);
int rr_wrap_pselect64(int n, fd_set *r, fd_set *w, fd_set *x,
		      const struct rr_timespec64 *timeout, const sigset_t *mask);
int rr_wrap_pwait64(int epfd, struct epoll_event *evs, int n,
		    const struct rr_timespec64 *timeout, const sigset_t *mask);
int rr_wrap_recvmmsg64(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		       struct rr_timespec64 *timeout);
#endif

#endif
