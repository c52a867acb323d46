/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll_wait() on a set that has watches of ours: looking, spinning and sleeping. Which events
 * are reported is epnews.c's. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "core/base/os.h"
#include "preload/epset.h"
#include "preload/real.h"

enum {
	/* ns of spinning between two looks at the kernel's own set */
	SPIN_LOOK = 4000,
};

/* Is the kernel asked at a look, unless it is its turn? */
enum ask {
	ASK,
	ASK_IF_READY,	/* if the active watches have something */
	ASKED,		/* no: it had nothing some microseconds ago, within this wait */
};

struct wait {
	struct rr_ep_set *s;	/* referenced */
	int epfd;
	struct epoll_event *evs;
	int max;
	rr_time deadline;	/* 0: do not wait */
	rr_time nested;		/* when rr_ep_show_nested() is due */
	const sigset_t *mask;
	bool fine;		/* the caller gave nanoseconds */
	struct rr_fruitless fruitless;
	rr_time slept;		/* when the last sleep began */
	int cancel;
};

/* The kernel's epoll_wait() until end, which is to the millisecond unless the app gave
 * nanoseconds. */
static int kernel_wait(const struct wait *x, rr_time end)
{
	rr_time now, left = 0;
	struct timespec ts;
	int rc;

	if (end != RR_TIME_NEVER && end) {
		now = rr_now();
		left = end > now ? end - now : 0;
	}
	if (x->fine && end != RR_TIME_NEVER && left % RR_MSEC) {
		rc = rr_real.epoll_pwait2(x->epfd, x->evs, x->max, rr_left(&ts, 0, left),
					  x->mask);
		if (rc >= 0 || errno != ENOSYS)
			return rc;
	}
	left = rr_min((left + RR_MSEC - 1) / RR_MSEC, (rr_time)INT_MAX);
	return rr_real.epoll_pwait(x->epfd, x->evs, x->max,
				   end == RR_TIME_NEVER ? -1 : (int)left, x->mask);
}

/* This thread goes back to the app, so somebody else must look after the active watches: a
 * thread that sleeps on this set, and also has to learn of deadlines, or whoever waits for the
 * set itself. */
static void hand_over(struct rr_ep_set *s)
{
	rr_time until = RR_TIME_NEVER;

	if (s->first && rr_ep_asleep(s) &&
	    (!rr_ep_arm_all(s, &until) || (s->first && s->sleepers)))
		rr_ep_kick(s);
}

/* Takes the lock for a look at x's set. False: the lock cannot be had (a signal handler). */
static bool begin_look(struct wait *x)
{
	if (!rr_ep_lock())
		return false;
	x->s->pass++;
	rr_ep_use(x->s, x->epfd);
	return true;
}

/* Looks once: asks the active watches, then the kernel; in the opposite order if it is the
 * kernel's turn. Returns the number of events, or -errno. Called after begin_look(); releases
 * the lock. */
static int finish_look(struct wait *x, enum ask ask)
{
	struct rr_ep_set *s = x->s;
	bool ours_first = !s->kernel_first, enough;
	int n = 0, k, err;

	if (ours_first)
		n = rr_ep_collect(s, x->evs, x->max, !x->deadline);
	else
		ask = ASK;
	s->kernel_first = n == x->max;
	enough = s->kernel_first || (n && ask == ASKED);
	if (enough)
		hand_over(s);
	rr_ep_unlock();
	if (enough || (!n && ask != ASK))
		return n;
	k = rr_real.epoll_wait(x->epfd, x->evs + n, x->max - n, 0);
	err = k < 0 ? -errno : 0;
	if (!rr_ep_lock())
		return n ? n : -EINTR;
	if (k > 0)
		n += rr_ep_sift(s, x->evs + n, k, 0);
	if ((k > 0 || !ours_first) && n < x->max)
		n += rr_ep_collect(s, x->evs + n, x->max - n, !x->deadline);
	hand_over(s);
	rr_ep_unlock();
	return n ? n : err;
}

static int look_at_all(struct wait *x, enum ask ask)
{
	return begin_look(x) ? finish_look(x, ask) : -EINTR;
}

/* The first connection among those of the active watches of which memory shows that it may have
 * something; NULL: there is none. spin: also collects how long to spin; may be NULL. */
static struct rr_conn *peek_active(struct rr_ep_set *s, struct rr_spin *spin)
{
	for (struct rr_ep_watch *w = s->first; w; w = w->next) {
		struct rr_conn *c = rr_sock_conn(w->so);

		if (!c)
			continue;
		if (spin && !spin->enough)
			rr_conn_spin(c, spin);
		if (rr_ep_peek(w, c))
			return c;
	}
	return NULL;
}

/* Collects how long to spin. */
static void ask_spin(struct rr_ep_set *s, struct rr_spin *spin)
{
	if (!rr_ep_lock())
		return;
	peek_active(s, spin);
	rr_ep_unlock();
}

/* Does its connection's memory tell everything about w? Not if the connection is not carried,
 * nor for edges, which depend on what the watch was asked last. */
static bool memory_tells(const struct rr_ep_watch *w)
{
	struct rr_conn *c = rr_sock_conn(w->so);

	return c && rr_conn_is_carried(c) && !(w->app.events & EPOLLET);
}

/* Does memory show that no active watch has anything new? Also collects how long to spin. */
static bool has_nothing_new(struct rr_ep_set *s, struct rr_spin *spin)
{
	bool quiet = !s->kernel_first;

	for (struct rr_ep_watch *w = s->first; w && quiet; w = w->next)
		quiet = memory_tells(w);
	return quiet && !peek_active(s, spin);
}

/* The look before spinning and sleeping. Returns the number of events or -errno; if 0, *spin
 * says how long to spin. The first time, active watches for which memory shows nothing are not
 * asked: they are when they are armed for the sleep. */
static int look_before_sleep(struct wait *x, bool first, struct rr_spin *spin)
{
	int n;

	*spin = (struct rr_spin){ 0 };
	if (!begin_look(x))
		return -EINTR;
	if (first && has_nothing_new(x->s, spin)) {
		rr_ep_unlock();
		return 0;
	}
	n = finish_look(x, ASK_IF_READY);
	if (n)
		return n;
	*spin = (struct rr_spin){ 0 };
	ask_spin(x->s, spin);
	return 0;
}

/* Looks at memory in a round of a spin, whose clock then says when the message came. */
static bool peek_spinning(struct rr_ep_set *s, const struct rr_spin *spin)
{
	struct rr_conn *c;

	if (!rr_ep_lock())
		return false;
	c = peek_active(s, NULL);
	if (c)
		rr_conn_seen(c, spin);
	rr_ep_unlock();
	return c;
}

/* The time is over: do the connections want to spin for longer by now? */
static bool epwait_spin_longer(struct wait *x, struct rr_spin *spin)
{
	spin->want = 0;
	spin->enough = false;
	ask_spin(x->s, spin);
	return rr_spin_longer(spin, x->deadline);
}

/* Spins until a look finds events; returns their number, 0 if the time is over, or -errno. The
 * kernel's own set, at which the caller has just looked, is looked at every SPIN_LOOK. */
static int epwait_spin_until(struct wait *x, struct rr_spin *spin)
{
	rr_time looked = spin->now;
	int n;

	do {
		bool due = spin->now - looked > SPIN_LOOK;

		if (!peek_spinning(x->s, spin) && !due)
			continue;
		n = look_at_all(x, due ? ASK : ASKED);
		if (n)
			return n;
		if (due)
			looked = spin->now;
	} while (rr_spin_on(spin) || epwait_spin_longer(x, spin));
	return 0;
}

/* Spins if the connections say that it pays. Returns as epwait_spin_until(). */
static int epwait_spin(struct wait *x, struct rr_spin *spin)
{
	int n;

	if (!spin->want && !spin->yields)	/* the sleep asks the kernel anyway */
		return 0;
	n = look_at_all(x, ASK);
	if (n || !rr_spin_begin(spin, x->deadline))
		return n;
	n = epwait_spin_until(x, spin);
	rr_spin_end(spin, n > 0);
	rr_conn_spun(spin, n > 0);
	return n;
}

/* Cleanup handler of a thread that is cancelled in its sleep. */
static void epwait_cancelled(void *arg)
{
	struct wait *x = arg;

	atomic_fetch_sub(&x->s->sleepers, 1);
	rr_file_put(&x->s->f);
}

/* Sleeps in the kernel; the caller has counted itself among the sleepers. A cancellation
 * point. */
static int kernel_sleep(struct wait *x, rr_time end)
{
	int k;

	pthread_cleanup_push(epwait_cancelled, x);
	rr_cancel_back(x->cancel);
	k = kernel_wait(x, end);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &x->cancel);
	pthread_cleanup_pop(0);
	atomic_fetch_sub(&x->s->sleepers, 1);
	return k < 0 ? -errno : k;
}

/* Sleeps once. Returns the number of events, 0 to look again, or -errno. */
static int epwait_sleep_once(struct wait *x)
{
	struct rr_ep_set *s = x->s;
	rr_time end = x->deadline;
	rr_time slept;
	bool armed;
	int n, k;

	x->slept = rr_now();
	if (end)
		end = rr_min(rr_min(end, x->nested), rr_conn_idle(x->slept));
	if (!rr_ep_lock())
		return -EINTR;
	rr_ep_use(s, x->epfd);
	/* Counted before the active list is emptied: a thread that makes a watch active later
	 * sees the sleeper and kicks (rr_ep_place()). */
	atomic_fetch_add(&s->sleepers, 1);
	armed = rr_ep_arm_all(s, &end);
	rr_ep_unlock();
	if (!armed) {
		atomic_fetch_sub(&s->sleepers, 1);
		return 0;
	}
	k = kernel_sleep(x, end);
	if (k < 0)
		return k;
	slept = rr_now() - x->slept;
	if (!rr_ep_lock())
		return -EINTR;
	s->pass++;
	n = rr_ep_sift(s, x->evs, k, slept);
	if (n < x->max)
		n += rr_ep_collect(s, x->evs + n, x->max - n, false);
	hand_over(s);
	rr_ep_unlock();
	return n;
}

/* Looks, spins and sleeps until there are events or the deadline is over; returns their number
 * or -errno. */
static int wait_events(struct wait *x)
{
	struct rr_spin now;
	bool first;
	int n;

	if (!x->deadline)
		return look_at_all(x, ASK);
	for (first = true;; first = false) {
		n = look_before_sleep(x, first, &now);
		if (!n)
			n = epwait_spin(x, &now);
		if (!n)
			n = epwait_sleep_once(x);
		if (n)
			return n;
		now.now = rr_now();
		if (now.now >= x->deadline)
			return look_at_all(x, ASK);
		if (now.now >= x->nested)
			x->nested = rr_ep_show_nested();
		rr_fruitless_slept(&x->fruitless, x->slept, now.now);
		rr_fruitless_pause(&x->fruitless);
	}
}

/* No watch in the set is ours now: waits in the kernel once, as the plain call would. A watch
 * that becomes ours meanwhile rings or kicks, and then the kernel's events are sifted. False: a
 * watch is ours, nothing was left after sifting, or sets within sets were due. */
static int wait_plain(struct wait *x, int *n)
{
	rr_time end = rr_min(x->deadline, x->nested);

	atomic_fetch_add(&x->s->sleepers, 1);
	if (atomic_load(&x->s->tagged)) {	/* pairs with set_form(), which counts tagged
						 * before rr_ep_asleep() reads sleepers */
		atomic_fetch_sub(&x->s->sleepers, 1);
		return false;
	}
	*n = kernel_sleep(x, end);
	if (!*n && end < x->deadline) {
		x->nested = rr_ep_show_nested();
		return false;
	}
	if (*n <= 0 || !atomic_load(&x->s->keyed) || !rr_ep_lock())
		return true;
	x->s->pass++;
	*n = rr_ep_sift(x->s, x->evs, *n, 0);
	rr_ep_unlock();
	return *n != 0;
}

int rr_ep_wait(struct rr_ep_set *s, int epfd, struct epoll_event *evs, int max,
	       rr_time deadline, const sigset_t *mask, bool fine)
{
	struct wait x = { .s = s, .epfd = epfd, .evs = evs, .max = max, .deadline = deadline,
			  .mask = mask, .fine = fine };
	int n, saved = errno;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &x.cancel);
	x.nested = rr_ep_show_nested();
	if (atomic_load(&s->tagged) || !wait_plain(&x, &n))
		n = wait_events(&x);
	rr_file_put(&s->f);
	rr_cancel_back(x.cancel);
	if (n >= 0)
		errno = saved;
	return n;
}
