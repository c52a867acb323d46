/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_REAL_H
#define RR_REAL_H

/* The next definition of everything that we interpose: libc's, or another preloaded library's.
 *
 * rr_real.<name> may be called by anybody at any time: before our constructor, in a signal
 * handler, in a forked child. Each entry begins as a function that looks the name up (next.h),
 * keeps what it finds, and goes on there. If there is no such function, it is the system
 * call. */

#include "preload/libc.h"

struct rr_real {
#define RR_CALL(ret, name, params, args, fallback) ret (*name) params;
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) ret (*name) vparams;
#define RR_TWICE(ret, name, fallback) ret (*name)(void);
#include "preload/calls.def"
};

extern struct rr_real rr_real;

/* ppoll(); but poll() where mask is NULL and a filter of system calls forbids ppoll() with an
 * error: the app itself may have called poll(), which the filter allows. A cancellation
 * point. */
int rr_real_sleep(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask);

/* Looks up those that return twice, before rr_real has them: their entries cannot do so. */
void rr_real_bind_twice(void);

#endif
