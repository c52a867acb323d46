/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_READY_H
#define RR_READY_H

/* What the readiness calls share (ready_poll.c, ready_plain.c, ready_select.c, ready_epoll.c,
 * wait_one.c). */

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "core/base/compiler.h"
#include "core/conn/conn.h"
#include "preload/appmem.h"
#include "preload/libc.h"
#include "preload/sock.h"

/* A waiting call is a cancellation point only while it sleeps. The system calls on the way
 * there would be, too, with references and locks held. Returns the argument for
 * rr_cancel_back(). */
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

/* Which bits to ask a connection for when the app asks for ev, and what the app is told then.
 * The kernel's tcp_poll() sets the *NORM bits together with IN and OUT, and never the *BAND
 * bits. */
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

/* rr_conn_poll() in the app's own bits. Returns bits, RR_CONN_KERNEL or -EDEADLK. how is 0 or
 * one of RR_ASK_*. */
static inline int rr_sock_poll(struct rr_sock *so, struct rr_conn *c, int fd, unsigned ev,
			       unsigned how)
{
	int r = rr_conn_poll(c, fd, rr_ev_want(ev) | how);

	rr_sock_after(so, c);
	return r < 0 ? r : (int)rr_ev_told((unsigned)r, ev);
}

/* The kernel has reported told for the fd p of connection c, and c says that the kernel's
 * answer counts. If c has become TCP just then, the report may have been for an offer, which
 * has been read: asks the kernel anew. Returns the bits for the app. */
short rr_still_told(const struct rr_conn *c, const struct pollfd *p, short told);

/* How often a thread that waits to write wakes up. No descriptor tells it of another thread's
 * SHUT_WR, because the anchor can always be written. */
#define RR_SHUT_LOOK	(50 * RR_MSEC)

/* The time from now to end as a timespec for the kernel; NULL if end is never. */
struct timespec *rr_left(struct timespec *ts, rr_time now, rr_time end);

/* CLOCK_MONOTONIC at ts from now; RR_TIME_NEVER if ts is NULL or too far off to count. */
rr_time rr_deadline(const struct timespec *ts);

/* Is ts a valid time-out? */
bool rr_timespec_ok(const struct timespec *ts);

/* Counts sleeps in a row that ended at once and brought nothing, and then pauses: a doorbell
 * that another thread has to swallow, or an event that lasts, must not cost a CPU. */
struct rr_fruitless {
	unsigned n;
};
void rr_fruitless_slept(struct rr_fruitless *f, rr_time from, rr_time to);
void rr_fruitless_pause(const struct rr_fruitless *f);

/* So many bytes are fine on any stack. */
#define RR_STACK	512u
/* Are size bytes fine on this thread's stack? Thousands are too many for a signal handler on an
 * alternate stack. */
bool rr_fits_stack(size_t size);

/* poll() over fds some of which may be ours. Sets fds[].revents. deadline 0: does not wait;
 * mask as for ppoll(). Returns the count or -errno. A cancellation point. */
int rr_poll_wait(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask);

/* The same where the kernel has the first word about all connections of ours (struct
 * rr_plainwait). RR_POLL_ON: that is not the case, or no longer, and rr_poll_wait() goes on. */
#define RR_POLL_ON	(-65537)
int rr_poll_plain(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask);

/* The same for up to RR_NAP_FEW fds, one of them a connection at rest, by one sleep at most:
 * whatever is not decided by that returns RR_POLL_ON. There is a deadline other than 0, and no
 * mask. */
#define RR_NAP_FEW	4
int rr_poll_nap(struct pollfd *fds, nfds_t n, rr_time deadline);

/* Spins until c may have one of want, if spinning pays. Returns whether it may. */
bool rr_wait_spin(struct rr_conn *c, unsigned want, rr_time deadline);

/* An epoll set in a poll() or select(): is it readable for the app? Also prepares the set's
 * kernel object so that a sleep on epfd ends when this may have changed. *until as for
 * rr_conn_fds(). */
bool rr_ep_readable(struct rr_file *ep, int epfd, rr_time *until);
extern _Atomic bool rr_ep_nests;	/* some set has been put into another one */
rr_time rr_ep_show_all_nested(void);
/* Called before a wait for any set, or a poll() of one. Sets that are in another set show what
 * they have to report by now, and no longer what the app has used up. Returns when to call it
 * again, because of what no descriptor reports; RR_TIME_NEVER if there is nothing like that. */
static inline rr_time rr_ep_show_nested(void)
{
	if (likely(!atomic_load_explicit(&rr_ep_nests, memory_order_relaxed)))
		return RR_TIME_NEVER;
	return rr_ep_show_all_nested();
}
/* Has the set anything that only rr_ep_readable() knows? Lock-free. */
bool rr_ep_managed(const struct rr_file *ep);

/* A thread that slept on so has woken: epoll sets that watch so look for what it may have
 * swallowed. */
void rr_ep_activate(struct rr_sock *so);

#endif
