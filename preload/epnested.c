/* SPDX-License-Identifier: BSD-3-Clause */
/* An epoll set that poll(), select() or another set waits for: whether it is readable for the
 * app, and what makes its kernel object readable. */
#include "core/base/os.h"
#include "preload/epset.h"
#include "preload/real.h"

/* at watches that cannot be armed, though they have nothing for the app */
#define LOOKS	3

_Atomic bool rr_ep_nests;

bool rr_ep_managed(const struct rr_file *f)
{
	const struct rr_ep_set *s = container_of(f, const struct rr_ep_set, f);

	return atomic_load(&s->tagged) ||
	       s->inner >= 0 ||		/* an inner set may still show a kick */
	       atomic_load_explicit(&rr_ep_nests, memory_order_relaxed);
}

/* Takes in what rang and arms the watches that have nothing to report. Returns whether any has
 * something. What cannot be armed because something has come that is not for the app is taken
 * in and armed again, or looked at again soon. */
static bool any_news(struct rr_ep_set *s, rr_time *until)
{
	for (int i = 0; i < LOOKS; i++) {
		rr_ep_harvest(s);
		if (rr_ep_any_due(s))
			return true;
		if (rr_ep_arm_all(s, until))
			return false;
	}
	*until = rr_min(*until, rr_now() + RR_MSEC);
	return false;
}

/* s is in another epoll set, whose waiters ask the kernel alone. Makes the kernel's object
 * readable if a watch has something to report; what had rung is taken in. *until is lowered to
 * when that must be done again. */
static void show_set(struct rr_ep_set *s, rr_time *until)
{
	/* The kernel's object shows it already. Another kick would be another edge for the
	 * outer set. */
	if (s->kicked && rr_ep_any_due(s))
		return;
	if (any_news(s, until))
		rr_ep_kick(s);
}

void rr_ep_show(struct rr_ep_set *s, int epfd)
{
	rr_time until = RR_TIME_NEVER;

	rr_ep_use(s, epfd);
	show_set(s, &until);
}

void rr_ep_nest(struct rr_ep_set *s, int epfd)
{
	rr_time until = RR_TIME_NEVER;

	s->nested = s->in_set = true;
	atomic_store_explicit(&rr_ep_nests, true, memory_order_relaxed);
	rr_ep_use(s, epfd);
	show_set(s, &until);
	/* Threads that sleep on the outer set learn by this when to look. */
	if (until != RR_TIME_NEVER)
		rr_ep_kick(s);
}

rr_time rr_ep_show_all_nested(void)
{
	rr_time until = RR_TIME_NEVER;
	struct rr_ep_set *s = NULL;

	if (!rr_ep_lock())
		return until;
	while ((s = rr_ep_next(s)))
		if (s->in_set && !s->foreign)
			show_set(s, &until);
	rr_ep_unlock();
	return until;
}

/* The kernel's set is readable. Lets the connections in pass form take in what is for the
 * library only (an offer or an answer), and has those in managed form looked at, whose anchor
 * may show what the app does not want to hear of: so the caller can see whether anything
 * remains for the app. */
static void take_kernel_in(struct rr_ep_set *s)
{
	for (struct rr_ep_watch *w = s->all; w; w = w->set_next) {
		if (w->fired)
			continue;
		if (w->form == RR_EP_PASS)
			rr_ep_ask(w);
		else if (w->form == RR_EP_MANAGED)
			rr_ep_activate_one(w, false);
	}
}

/* The kernel's set is readable, and no watch has anything for the app: is that what the kernel
 * alone knows of? Or a doorbell that stays, because a thread that sleeps in poll() (this one,
 * too) has yet to see it? Then the inner set is silenced for the question. Whoever sleeps on
 * the set meanwhile hears of the doorbell afterwards: the MOD wakes them. */
static bool is_the_kernels(struct rr_ep_set *s, int epfd)
{
	struct epoll_event rings = { .events = EPOLLIN, .data.u64 = s->cookie };
	struct epoll_event mute = { .events = 0, .data.u64 = s->cookie };
	struct pollfd p = { epfd, POLLIN, 0 }, in = { s->inner, POLLIN, 0 };
	bool yes;

	if (rr_real.poll(&p, 1, 0) <= 0)
		return false;
	if (s->inner < 0 || s->foreign || rr_real.poll(&in, 1, 0) <= 0 ||
	    rr_real.epoll_ctl(epfd, EPOLL_CTL_MOD, s->inner, &mute))
		return true;
	yes = rr_real.poll(&p, 1, 0) > 0;
	rr_real.epoll_ctl(epfd, EPOLL_CTL_MOD, s->inner, &rings);
	return yes;
}

bool rr_ep_readable(struct rr_file *f, int epfd, rr_time *until)
{
	struct rr_ep_set *s = container_of(f, struct rr_ep_set, f);
	struct pollfd p = { epfd, POLLIN, 0 };
	bool yes;

	*until = RR_TIME_NEVER;
	if (!rr_ep_lock())
		return false;
	s->nested = true;
	rr_ep_use(s, epfd);
	yes = any_news(s, until);
	if (!yes && rr_real.poll(&p, 1, 0) > 0) {
		take_kernel_in(s);
		yes = any_news(s, until) || is_the_kernels(s, epfd);
	}
	if (yes && s->in_set)
		rr_ep_kick(s);	/* what rang was taken in, so the outer set would not see it */
	rr_ep_unlock();
	return yes;
}
