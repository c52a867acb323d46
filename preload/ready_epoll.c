/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll_create(), epoll_ctl() and epoll_wait() by their names: which registrations get a watch
 * (epset.h), and which waits are ours to do. How they wait is epwait.c's. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/os.h"
#include "preload/epset.h"
#include "preload/guard.h"
#include "preload/real.h"
#include "preload/wrap.h"

/* --- creation --- */

/* Enters the new set epfd into the table. Returns epfd; errno is left alone. */
static int created(int epfd)
{
	int saved = errno;

	if (epfd < 0 || !rr_may_track())
		return epfd;
	rr_fdt_evict(epfd);
	rr_ep_new(epfd);
	errno = saved;
	return epfd;
}

int rr_wrap_epoll_create(int size)
{
	return created(rr_real.epoll_create(size));
}

int rr_wrap_epoll_create1(int flags)
{
	return created(rr_real.epoll_create1(flags));
}

/* --- epoll_ctl --- */

/* EPOLL_CTL_ADD: the kernel registers first, so that its errors are the app's. Returns 0 or
 * -errno. */
static int add_watch(struct rr_ep_set *s, struct rr_sock *so, int fd, struct epoll_event *ev)
{
	struct rr_ep_watch *w, *was;
	int rc = rr_real.epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, ev);

	if (rc)
		return -errno;
	was = rr_ep_find(s, so, fd);
	if (was)	/* the number was closed and has been given to the same file again */
		rr_ep_watch_free(was, false);
	w = rr_ep_watch_new(s, so, fd, ev);
	if (!w) {
		rr_real.epoll_ctl(s->epfd, EPOLL_CTL_DEL, fd, NULL);
		return -ENOMEM;
	}
	rr_ep_refresh(w, false);
	rr_ep_place(w);
	return 0;
}

/* The app's mask and data are these now. */
static void set_wanted(struct rr_ep_watch *w, const struct epoll_event *ev)
{
	w->app = *ev;
	if (ev->events & EPOLLET)
		atomic_fetch_or_explicit(&w->so->flags, RR_SOCK_EDGES, memory_order_relaxed);
}

/* EPOLL_CTL_MOD. A plain registration is the kernel's, and so is the result. In all other forms
 * the shadow changes, which arms ONESHOT and edges anew; the kernel's registration is touched
 * only as far as its form wants it. */
static int mod(struct rr_ep_watch *w, struct epoll_event *ev)
{
	struct rr_conn *c;

	if (w->form == RR_EP_PLAIN) {
		if (rr_real.epoll_ctl(w->set->epfd, EPOLL_CTL_MOD, w->fd, ev))
			return -errno;
		set_wanted(w, ev);
		w->kmask = ev->events;
		return 0;
	}
	if ((ev->events | w->app.events) & EPOLLEXCLUSIVE)
		return -EINVAL;
	set_wanted(w, ev);
	w->fired = w->news = false;
	w->seen = w->dry = w->misses = 0;
	w->inq = 0;
	w->came = 0;
	c = rr_sock_conn(w->so);
	if (c && ev->events & EPOLLET)	/* what was left when it was level-triggered */
		rr_conn_in_set(c);
	rr_ep_refresh(w, w->form != RR_EP_MANAGED);
	rr_ep_place(w);
	return 0;
}

/* EPOLL_CTL_DEL. The kernel may know nothing of a registration whose number was closed. */
static int del(struct rr_ep_watch *w)
{
	if (rr_real.epoll_ctl(w->set->epfd, EPOLL_CTL_DEL, w->fd, NULL) && errno != ENOENT)
		return -errno;
	rr_ep_watch_free(w, false);
	return 0;
}

/* epoll_ctl() for a socket of ours; called under the lock. Returns 0 or -errno. */
static int ctl(struct rr_ep_set *s, struct rr_sock *so, int op, int fd, struct epoll_event *ev)
{
	/* Another thread may be closing fd: no watch may be made after rr_ep_sock_gone(). */
	bool here = rr_sock_at(so, fd);
	struct rr_ep_watch *w = here ? rr_ep_find(s, so, fd) : NULL;

	if (here && op == EPOLL_CTL_ADD)
		return add_watch(s, so, fd, ev);
	if (w)
		return op == EPOLL_CTL_MOD ? mod(w, ev) : del(w);
	return rr_real.epoll_ctl(s->epfd, op, fd, ev) ? -errno : 0;
}

/* Does something with fd if it is an epoll set itself. */
static void with_set(int fd, void (*what)(struct rr_ep_set *, int epfd))
{
	struct rr_ep_set *s = rr_ep_at(fd);

	if (!s)
		return;
	if (rr_ep_lock()) {
		what(s, fd);
		rr_ep_unlock();
	}
	rr_file_put(&s->f);
}

/* epoll_ctl() for what is no socket of ours, and may be an epoll set. */
static int ctl_other(int epfd, int op, int fd, struct epoll_event *ev)
{
	int rc, saved = errno;

	if (op != EPOLL_CTL_DEL)
		with_set(fd, rr_ep_show);
	errno = saved;
	rc = rr_real.epoll_ctl(epfd, op, fd, ev);
	if (rc || op != EPOLL_CTL_ADD)
		return rc;
	with_set(fd, rr_ep_nest);
	errno = saved;
	return 0;
}

/* Does this registration need a watch? Listeners do not, unless native peers reach them. */
static bool shadowed(struct rr_sock *so)
{
	return !(atomic_load_explicit(&so->flags, memory_order_relaxed) &
		 (RR_SOCK_LISTENER | RR_SOCK_PLAIN)) || rr_sock_conn(so) ||
	       atomic_load_explicit(&so->watches, memory_order_relaxed);
}

/* The set at epfd, or NULL. A set that was made elsewhere (passed by SCM_RIGHTS) enters the
 * table when it gets a connection of ours. */
static struct rr_ep_set *set_for(int epfd, int op, struct rr_sock *so)
{
	struct rr_ep_set *s = rr_ep_at(epfd);

	if (s || op != EPOLL_CTL_ADD || !rr_sock_conn(so) || !rr_may_track())
		return s;
	/* epoll_pwait() with a NULL array: a set that has events answers EFAULT and keeps them;
	 * what is not a set answers EINVAL. */
	if (syscall(SYS_epoll_pwait, epfd, NULL, 1, 0, NULL, 8) < 0 && errno != EFAULT &&
	    errno != EINTR)
		return NULL;
	rr_ep_new(epfd);
	return rr_ep_at(epfd);
}

/* Only operations on a socket of ours need the lock. Bad pointers and unknown operations are
 * the kernel's to refuse. */
int rr_wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct rr_ep_set *s;
	struct rr_sock *so;
	int rc, saved = errno;

	if (likely(!rr_fdt_has(fd)) || op < EPOLL_CTL_ADD || op > EPOLL_CTL_MOD ||
	    (op != EPOLL_CTL_DEL && rr_bad_ptr(ev)))
		return rr_real.epoll_ctl(epfd, op, fd, ev);
	so = rr_fdt_sock(fd);
	if (so && rr_unmet_is(so))
		rr_unmet_meet(so, fd);
	if (!so)
		return ctl_other(epfd, op, fd, ev);
	rr_sock_check(so, fd);
	s = shadowed(so) ? set_for(epfd, op, so) : NULL;
	if (s && rr_ep_lock()) {
		rr_ep_use(s, epfd);
		rc = ctl(s, so, op, fd, ev);
		rr_ep_unlock();
		if (!rc)
			errno = saved;
		rc = (int)rr_ret(rc);
	} else {
		rc = rr_real.epoll_ctl(epfd, op, fd, ev);
	}
	if (s)
		rr_file_put(&s->f);
	rr_file_put(&so->f);
	return rc;
}

/* --- epoll_wait --- */

/* The set at epfd, referenced, if this wait is ours to do; else NULL. */
static struct rr_ep_set *waiting(int epfd, const struct epoll_event *evs, int max,
				 const sigset_t *mask)
{
	if (!rr_fdt_has(epfd) || max <= 0 || max > INT_MAX / (int)sizeof(*evs) ||
	    rr_bad_ptr(evs) || (mask && rr_bad_ptr(mask)))
		return NULL;
	pthread_testcancel();	/* before a reference is held that a cancelled thread would
				 * leak */
	return rr_ep_at(epfd);
}

/* The deadline for a time-out in milliseconds: 0 does not wait, a negative one is for ever. */
static rr_time ms_deadline(int timeout)
{
	if (timeout < 0)
		return RR_TIME_NEVER;
	return timeout ? rr_now() + (rr_time)timeout * RR_MSEC : 0;
}

int rr_wrap_epoll_pwait(int epfd, struct epoll_event *evs, int max, int timeout,
			const sigset_t *mask)
{
	struct rr_ep_set *s = waiting(epfd, evs, max, mask);

	if (!s)
		return rr_real.epoll_pwait(epfd, evs, max, timeout, mask);
	return (int)rr_ret(rr_ep_wait(s, epfd, evs, max, ms_deadline(timeout), mask, false));
}

int rr_wrap_epoll_wait(int epfd, struct epoll_event *evs, int max, int timeout)
{
	struct rr_ep_set *s = waiting(epfd, evs, max, NULL);

	if (!s)
		return rr_real.epoll_wait(epfd, evs, max, timeout);
	return (int)rr_ret(rr_ep_wait(s, epfd, evs, max, ms_deadline(timeout), NULL, false));
}

int rr_wrap_epoll_pwait2(int epfd, struct epoll_event *evs, int max,
			 const struct timespec *timeout, const sigset_t *mask)
{
	struct rr_ep_set *s = NULL;
	rr_time deadline;

	if (!timeout || (!rr_bad_ptr(timeout) && rr_timespec_ok(timeout)))
		s = waiting(epfd, evs, max, mask);
	if (!s)
		return rr_real.epoll_pwait2(epfd, evs, max, timeout, mask);
	deadline = rr_deadline(timeout);
	if (timeout && !timeout->tv_sec && !timeout->tv_nsec)
		deadline = 0;
	return (int)rr_ret(rr_ep_wait(s, epfd, evs, max, deadline, mask, true));
}
