/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_REAL_H
#define RR_REAL_H

/* The next definition of everything that we interpose: libc's, or another preloaded library's.
 *
 * rr_real.<name> may be called by anybody at any time: before our constructor, in a malloc that
 * does I/O inside dlsym(), in a signal handler. Each entry begins as a function that binds the
 * table and goes on. While the binding is under way, on whatever thread, and for names that
 * this libc does not have, the entry makes the system call itself. */

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

/* Binds the whole table unless that is done or under way. errno is left alone. */
void rr_real_bind(void);

/* In a forked child: a binding that another thread had under way starts anew. */
void rr_real_fork_child(void);

#endif
