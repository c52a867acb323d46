/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() and ppoll(): leaves arrays without fds of ours to the kernel, and answers the common
 * case of one ready fd at once. All other waiting is ready_poll.c's. */
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "core/base/os.h"
#include "preload/pollrest.h"
#include "preload/real.h"
#include "preload/wrap.h"

enum { JUDGED = 64 };	/* nobody has a limit below this */

static bool any_is_ours(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (rr_fdt_has(fds[i].fd))
			return true;
	return false;
}

/* Is the call the kernel's? It is if the array has no fd of ours, or cannot be read. */
static bool none_is_ours(const struct pollfd *fds, nfds_t n)
{
	struct rlimit lim;

	if (!n || rr_bad_ptr(fds))
		return true;
	/* The kernel refuses it: its array is not looked through for that, and what stands for
	 * it may be shorter. */
	if (n >= JUDGED && (getrlimit(RLIMIT_NOFILE, &lim) || n > lim.rlim_cur))
		return true;
	return !any_is_ours(fds, n);
}

/* The short way of poll() for one descriptor whose connection has something for the app
 * already. libtirpc polls so before each read, even after a poll() of all its fds has said that
 * there is something. False: nothing is known, and p is untouched. */
static bool poll_one(struct pollfd *p)
{
	unsigned ev = (unsigned short)p->events;
	struct rr_sock *so;
	struct rr_conn *c = rr_conn_met(p->fd, &so);
	int r = 0, saved;

	if (!c)
		return false;
	if (rr_conn_peek(c, rr_ev_want(ev))) {
		saved = errno;
		r = rr_sock_poll(so, c, p->fd, ev, 0);
		errno = saved;
	} else if (ev && !(ev & ~(POLLIN | POLLRDNORM)) && rr_conn_has_seen(c)) {
		r = (int)ev;
	}
	rr_file_put(&so->f);
	if (r <= 0)
		return false;
	p->revents = (short)r;
	return true;
}

int rr_wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	rr_time deadline = RR_TIME_NEVER;
	int r;

	if (n == 1 && !rr_bad_ptr(fds) && unlikely(rr_fdt_has(fds->fd))) {
		/* poll() is a cancellation point even where it does not wait */
		pthread_testcancel();
		if (rr_unmet_any()) {
			r = rr_unmet_poll(fds, &timeout);
			if (r != RR_POLL_ON)
				return r;
		}
		if (poll_one(fds))
			return 1;
	}
	if (likely(none_is_ours(fds, n)))
		return rr_real.poll(fds, n, timeout);
	if (timeout >= 0)
		deadline = timeout ? rr_now() + (rr_time)timeout * RR_MSEC : 0;
	return (int)rr_ret(rr_poll_wait(fds, n, deadline, NULL));
}

int rr_wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask)
{
	rr_time deadline;

	if (likely(none_is_ours(fds, n)) || (timeout && rr_bad_ptr(timeout)) ||
	    (mask && rr_bad_ptr(mask)) || (timeout && !rr_timespec_ok(timeout)))
		return rr_real.ppoll(fds, n, timeout, mask);
	deadline = rr_deadline(timeout);
	if (timeout && !timeout->tv_sec && !timeout->tv_nsec)
		deadline = 0;
	return (int)rr_ret(rr_poll_wait(fds, n, deadline, mask));
}
