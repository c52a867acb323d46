/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_READY_H
#define RR_READY_H

/* What the readiness calls share. (ready_poll.c, wait.c, ready_select.c, ready_epoll.c) */

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "core/base/compiler.h"
#include "core/conn/conn.h"
#include "preload/appmem.h"
#include "preload/libc.h"
#include "preload/sock.h"

/* Waiting calls are cancellation points only while they sleep: the system calls on the way
 * there would be too, with references and locks held. Returns what rr_cancel_back() wants. */
static inline int rr_cancel_off(void)
{
	int was;

	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

static inline void rr_cancel_back(int was)
{
	pthread_setcancelstate(was, &was);
}

/* The bits to ask a connection for when the app asks for ev, and what the app is told then:
 * tcp_poll() sets the *NORM bits together with IN and OUT, and never the *BAND bits. */
static inline unsigned rr_ev_want(unsigned ev)
{
	return (ev & POLLRDHUP) | (ev & (POLLIN | POLLRDNORM) ? POLLIN : 0) |
	       (ev & (POLLOUT | POLLWRNORM) ? POLLOUT : 0);
}

static inline unsigned rr_ev_told(unsigned got, unsigned ev)
{
	got |= (got & POLLIN ? POLLRDNORM : 0) | (got & POLLOUT ? POLLWRNORM : 0);
	return got & (ev | POLLERR | POLLHUP);
}

/* rr_conn_poll() in the app's own bits: bits, or RR_CONN_KERNEL, or -EDEADLK. how: 0, or one of
 * RR_ASK_*. */
static inline int rr_sock_poll(struct rr_sock *so, struct rr_conn *c, int fd, unsigned ev,
			       unsigned how)
{
	int r = rr_conn_poll(c, fd, rr_ev_want(ev) | how);

	rr_sock_after(so, c);
	return r < 0 ? r : (int)rr_ev_told((unsigned)r, ev);
}

/* The kernel has told so of a connection that was none of its own, and that now says that the
 * kernel's answer is the right one. If it has become TCP just then, what was told of may have
 * been an offer, which is read away: what the kernel says now. */
short rr_still_told(const struct rr_conn *c, const struct pollfd *p, short told);

/* A thread that waits to write wakes so often: another thread's SHUT_WR shows on nothing that a
 * sleep could watch, since the anchor can always be written. */
#define RR_SHUT_LOOK	(50 * RR_MSEC)

/* What is left of [now, end) for the kernel; NULL for ever. */
struct timespec *rr_left(struct timespec *ts, rr_time now, rr_time end);

/* CLOCK_MONOTONIC at ts from now; RR_TIME_NEVER if ts is NULL or too far to count. */
rr_time rr_deadline(const struct timespec *ts);

/* May this timespec be a time-out? */
bool rr_timespec_ok(const struct timespec *ts);

/* After sleeps that ended at once and brought nothing, one after the other: pauses a little, so
 * that a doorbell that is another thread's to swallow, or an event that lasts, costs no CPU. */
struct rr_fruitless {
	unsigned n;
};
void rr_fruitless_slept(struct rr_fruitless *f, rr_time from, rr_time to);
void rr_fruitless_pause(const struct rr_fruitless *f);

/* So many bytes may be on any stack. */
#define RR_STACK	512u
/* May so many bytes be on this thread's? Thousands are too many for a signal handler on an
 * alternate one. */
bool rr_fits_stack(size_t size);

/* poll() over fds of which some may be ours. fds[].revents are set. deadline 0: do not wait.
 * The count, or -errno. mask as for ppoll(). A cancellation point. */
int rr_poll_wait(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask);

/* The same, if of all connections of ours the kernel has the first word (struct rr_plainwait).
 * RR_POLL_ON: that is not so, or not any more, and rr_poll_wait() goes on. */
#define RR_POLL_ON	(-65537)
int rr_poll_plain(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask);

/* An epoll set in a poll or select. Is it readable for the app? Also readies the set's kernel
 * object so that sleeping on epfd wakes when this may have changed; *until as rr_conn_fds(). */
bool rr_ep_readable(struct rr_file *ep, int epfd, rr_time *until);
/* Before a wait for any set, or a poll() of one: those that are in another set show what they
 * have to tell by now, and no more what the app has used up since. */
void rr_ep_show_nested(void);
/* Has it anything that only rr_ep_readable() knows? Lock-free. */
bool rr_ep_managed(const struct rr_file *ep);

/* A thread that slept on so woke: sets that watch so see what it may have swallowed. */
void rr_ep_activate(struct rr_sock *so);

#endif
