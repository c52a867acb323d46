/* SPDX-License-Identifier: BSD-3-Clause */
/* What the watches of an epoll set have to report: they are asked, their doorbells are taken
 * in, the kernel's events are sifted, and watches that have nothing to report are armed.
 * Waiting is epwait.c's; the watches themselves and what the kernel holds for them are
 * epwatch.c's.
 *
 * A level-triggered watch is reported while its bits hold. An edge-triggered watch is reported
 * when a bit holds that did not hold when it was last asked; when a bit holds that the app has
 * used up since it was reported (a short read or write, or EAGAIN, in between); and when a
 * doorbell has rung or more bytes have come since. So no edge is lost. Some edges are reported
 * that the kernel would have merged into an earlier one. */
#include "preload/epset.h"
#include "preload/real.h"

enum {
	/* a watch that was asked in vain so often in a row is armed instead */
	MISSES = 32,
	/* doorbells taken in at one time */
	HARVEST = 64,
	/* ns: a sleep this short was ended by something that was there before it */
	AT_ONCE = 20000,
	/* ns: who has slept for so long will hardly spin next */
	LONG = 2000000,
};

int rr_ep_ask(struct rr_ep_watch *w)
{
	struct rr_conn *c = rr_sock_conn(w->so);
	int r, fd = rr_ep_watch_fd(w);

	if (!c || fd < 0)
		return RR_CONN_KERNEL;
	r = rr_conn_poll(c, fd, rr_ev_want(w->app.events));
	if (unlikely(rr_conn_changed(c)))
		rr_ep_sync(w->so);
	return r < 0 ? r : (int)rr_ev_told((unsigned)r, w->app.events);
}

/* Would an edge-triggered watch be reported for bits? */
static bool is_edge(const struct rr_ep_watch *w, unsigned bits)
{
	struct rr_conn *c;

	if (bits & ~w->seen || bits & w->dry || (bits && w->news))
		return true;
	c = rr_sock_conn(w->so);
	return bits & POLLIN && c && rr_ep_more(w, c, rr_ep_watch_fd(w));
}

/* Is the watch to be reported to the app, with bits? */
static bool due(const struct rr_ep_watch *w, unsigned bits)
{
	return bits && !w->fired && (!(w->app.events & EPOLLET) || is_edge(w, bits));
}

/* Reports bits to the app in *out and notes that they were reported. After ONESHOT the watch
 * leaves the active list. */
static void tell_event(struct rr_ep_watch *w, unsigned bits, struct epoll_event *out)
{
	struct rr_conn *c = rr_sock_conn(w->so);

	*out = (struct epoll_event){ .events = bits, .data = w->app.data };
	w->told = w->set->pass;
	w->news = false;
	w->dry = 0;
	w->misses = 0;
	if (w->app.events & EPOLLET && bits & POLLIN && c) {
		w->came = rr_conn_came(c);	/* before inq, so that a record in between
						 * counts as new */
		w->inq = rr_conn_inq(c, rr_ep_watch_fd(w));
	}
	if (w->app.events & EPOLLONESHOT) {
		w->fired = true;
		rr_ep_deactivate(w);
	}
}

/* A thread that does not wait need not ask a watch again and again that has had nothing for a
 * while: the watch is armed instead, and rings. (A thread that waits arms it before its sleep
 * anyway, and asks it all the more while it spins.) */
static void rest(struct rr_ep_watch *w)
{
	if (++w->misses < MISSES)
		return;
	w->misses = 0;
	if (rr_ep_refresh(w, false) == RR_TIME_NEVER && w->active && rr_ep_arm(w))
		rr_ep_deactivate(w);
}

/* Bits that were reported already are no news for an edge-triggered watch. */
bool rr_ep_peek(const struct rr_ep_watch *w, const struct rr_conn *c)
{
	unsigned ev = w->app.events;

	if (ev & EPOLLET)
		ev &= ~w->seen | w->dry;
	return rr_conn_peek(c, rr_ev_want(ev));
}

/* A watch that is asked goes to the end of the list. Any of them may leave the list meanwhile:
 * the answer of one changes the others of its connection. */
int rr_ep_collect(struct rr_ep_set *s, struct epoll_event *evs, int max, bool looks)
{
	struct rr_ep_watch *w;
	int n = 0;

	s->round++;
	while (n < max && (w = s->first) && w->asked != s->round) {
		int r;

		w->asked = s->round;
		rr_ep_deactivate(w);
		rr_ep_activate_one(w, false);
		if (!w->active || w->told == s->pass)
			continue;
		r = rr_ep_ask(w);
		if (r == RR_CONN_KERNEL)
			rr_ep_refresh(w, false);
		r = r > 0 ? r : 0;
		if (due(w, (unsigned)r))
			tell_event(w, (unsigned)r, &evs[n++]);
		else if (looks && w->active)
			rest(w);
		w->seen = (unsigned)r;
	}
	return n;
}

/* The doorbell of w's connection has rung: all watches of that connection become active, those
 * in other sets too, whose waiters may find the doorbell already swallowed. later: it may be
 * swallowed when w is armed again. */
static void rang(struct rr_ep_set *s, struct rr_ep_watch *w, bool later)
{
	struct rr_conn *c = rr_sock_conn(w->so);

	for (struct rr_ep_watch *o = w->so->watches; o; o = o->so_next) {
		rr_ep_activate_one(o, true);
		if (o->set != s && rr_ep_asleep(o->set))
			rr_ep_kick(o->set);
	}
	if (!c || (later ? rr_conn_drain_later(c) : rr_conn_drain(c)))
		rr_ep_refresh(w, false);	/* the fd of a dead peer stays readable, so it
						 * leaves the inner set */
}

/* The doorbells that are not taken keep the inner set readable, and so do those that another
 * thread has yet to see. */
void rr_ep_harvest(struct rr_ep_set *s)
{
	struct epoll_event evs[HARVEST];
	int n = s->inner < 0 ? 0 : rr_real.epoll_wait(s->inner, evs, HARVEST, 0);

	s->kicked = false;
	for (int i = 0; i < n; i++) {
		bool ours;
		struct rr_ep_watch *w = rr_ep_by_key(evs[i].data.u64, &ours);

		if (w)
			rang(s, w, false);
	}
}

/* May its doorbell be found a second time? Not by anybody else; and for an edge it would be
 * news. */
static bool may_ring_again(const struct rr_ep_watch *w)
{
	return !w->set->nested && !w->so->watches->so_next &&
	       !(w->app.events & (EPOLLET | EPOLLONESHOT));
}

/* The same after a sleep. Most of the time the watch that was laid to rest last is the one that
 * rang, and its connection's memory shows it; then the inner set need not be asked. Others that
 * rang keep the inner set readable, so the next sleep ends at once and finds them. After a long
 * sleep the next wait will hardly be a spin, which would look at the inner set time and again;
 * so that may stay readable until the watch is armed. */
static void harvest_slept(struct rr_ep_set *s, rr_time slept)
{
	struct rr_ep_watch *w = s->rested;
	struct rr_conn *c = w && slept > AT_ONCE ? rr_sock_conn(w->so) : NULL;

	if (c && !w->active && w->wake >= 0 && rr_ep_peek(w, c))
		rang(s, w, slept > LONG && may_ring_again(w));
	else
		rr_ep_harvest(s);
}

/* The bits to report for a watch that the kernel answers. told is what the kernel has reported;
 * turned: the connection has become TCP since, so the kernel is asked again
 * (rr_still_told()). */
static unsigned kernel_bits(const struct rr_ep_watch *w, unsigned told, bool turned)
{
	uint32_t ev = w->app.events & ~(uint32_t)EPOLLEXCLUSIVE;
	struct pollfd p = { rr_ep_watch_fd(w), (short)rr_ev_want(ev), 0 };
	unsigned bits;

	if (likely(w->kmask == ev && !turned))
		return told;
	/* The kernel is asked anew: for the sake of `turned`, or because the watch was managed,
	 * its number is closed and the kernel still has another mask. */
	bits = rr_real.poll(&p, 1, 0) > 0 ? rr_ev_told((unsigned short)p.revents, ev) : 0;
	return due(w, bits) ? bits : 0;
}

/* The kernel has reported ev for a watch in pass form. Asks its connection and returns whether
 * ev, with the bits corrected, is for the app. */
static bool pass(struct rr_ep_watch *w, struct epoll_event *ev)
{
	struct rr_conn *c = rr_sock_conn(w->so);
	unsigned bits = ev->events;
	int r = rr_ep_ask(w);

	bits = r == RR_CONN_KERNEL ? kernel_bits(w, bits, c && rr_conn_is_tcp(c)) :
	       r > 0		   ? (unsigned)r : 0;
	if (bits)
		tell_event(w, bits, ev);
	w->seen = bits;
	/* The connection took the event in, so the kernel's ONESHOT has fired in vain: force
	 * arms it again. */
	rr_ep_refresh(w, !bits && w->app.events & EPOLLONESHOT && w->form == RR_EP_PASS);
	rr_ep_activate_one(w, false);
	return bits != 0;
}

int rr_ep_sift(struct rr_ep_set *s, struct epoll_event *evs, int n, rr_time slept)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		struct epoll_event ev = evs[i];
		struct rr_ep_watch *w;
		bool ours;

		if (ev.data.u64 == s->cookie) {
			harvest_slept(s, slept);
			continue;
		}
		w = rr_ep_by_key(ev.data.u64, &ours);
		if (!ours) {
			evs[kept++] = ev;
			continue;
		}
		if (!w || w->set != s || w->told == s->pass)
			continue;
		if (w->form == RR_EP_PASS && !w->fired) {
			if (pass(w, &ev))
				evs[kept++] = ev;
		} else if (w->fired) {
			rr_ep_refresh(w, false);
		} else {
			rr_ep_activate_one(w, true);
		}
	}
	return kept;
}

/* The watch is armed and leaves the active list; harvest_slept() looks at it first. */
static void lay_to_rest(struct rr_ep_watch *w)
{
	rr_ep_deactivate(w);
	w->set->rested = w;
}

/* Arms one watch. False: it has something to report already. *until is lowered to when it must
 * be looked at again. */
static bool arm_watch(struct rr_ep_watch *w, rr_time *until)
{
	int rc = rr_ep_arm_again(w);
	rr_time t;

	if (rc != -EAGAIN) {
		if (!rc)
			lay_to_rest(w);
		return !rc;
	}
	t = rr_ep_refresh(w, false);
	if (!w->active)
		return true;
	*until = rr_min(*until, t);
	if (!rr_ep_arm(w))
		return false;
	if (t == RR_TIME_NEVER)
		lay_to_rest(w);
	return true;
}

bool rr_ep_arm_all(struct rr_ep_set *s, rr_time *until)
{
	struct rr_ep_watch *w, *next;
	bool armed = true;

	for (w = s->first; w; w = next) {
		next = w->next;
		armed &= arm_watch(w, until);
	}
	return armed;
}

bool rr_ep_any_due(struct rr_ep_set *s)
{
	for (struct rr_ep_watch *w = s->first; w; w = w->next) {
		struct rr_conn *c = rr_sock_conn(w->so);
		int fd = rr_ep_watch_fd(w), r;

		if (!c || fd < 0)
			continue;
		r = rr_conn_poll(c, fd, rr_ev_want(w->app.events));
		if (r > 0 && due(w, rr_ev_told((unsigned)r, w->app.events)))
			return true;
	}
	return false;
}
