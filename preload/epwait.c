/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll_wait() on a set that has watches of ours: which events are reported, spinning, and
 * sleeping. The watches themselves and what the kernel holds for them are epwatch.c's.
 *
 * A level-triggered watch is reported while its bits hold. An edge-triggered watch is reported
 * when a bit holds that did not hold when it was last asked; when a bit holds that the app has
 * used up since it was reported (a short read or write, or EAGAIN, in between); and when a
 * doorbell has rung or more bytes have come since. So no edge is lost. Some edges are reported
 * that the kernel would have merged into an earlier one. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "core/base/os.h"
#include "preload/epset.h"
#include "preload/real.h"

enum {
	/* ns of spinning between two looks at the kernel's own set */
	SPIN_LOOK = 4000,
	/* ns: a sleep this short was ended by something that was there before it */
	AT_ONCE = 20000,
	/* a watch that was asked in vain so often in a row is armed instead */
	MISSES = 32,
	/* doorbells taken in at one time */
	HARVEST = 64,
};

/* --- what watches have to report; called under the lock --- */

/* The bits among those the app waits for that hold now, or RR_CONN_KERNEL. */
static int ask_watch(struct rr_ep_watch *w)
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

/* Asks the active watches, each once, in turn: those that were asked go to the end. (Any of
 * them may leave the list meanwhile: one's answer changes the others of its connection.) looks:
 * this call does not wait. */
static int collect_events(struct rr_ep_set *s, struct epoll_event *evs, int max, bool looks)
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
		r = ask_watch(w);
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
 * in other sets too, whose waiters may find the doorbell already swallowed. */
static void rang(struct rr_ep_set *s, struct rr_ep_watch *w)
{
	struct rr_conn *c = rr_sock_conn(w->so);

	for (struct rr_ep_watch *o = w->so->watches; o; o = o->so_next) {
		rr_ep_activate_one(o, true);
		if (o->set != s && rr_ep_asleep(o->set))
			rr_ep_kick(o->set);
	}
	if (!c || rr_conn_drain(c))
		rr_ep_refresh(w, false);	/* the fd of a dead peer stays readable, so it
						 * leaves the inner set */
}

/* Takes in doorbells: the connections that rang become active. Only one handful is taken; the
 * rest keeps the inner set readable, and some doorbells must stay because another thread has
 * yet to see them. */
static void harvest(struct rr_ep_set *s)
{
	struct epoll_event evs[HARVEST];
	int n = s->inner < 0 ? 0 : rr_real.epoll_wait(s->inner, evs, HARVEST, 0);

	s->kicked = false;
	for (int i = 0; i < n; i++) {
		bool ours;
		struct rr_ep_watch *w = rr_ep_by_key(evs[i].data.u64, &ours);

		if (w)
			rang(s, w);
	}
}

/* The same after a sleep. Most of the time the watch that was laid to rest last is the one that
 * rang, and its connection's memory shows it; then the inner set need not be asked. Others that
 * rang keep the inner set readable, so the next sleep ends at once and finds them. */
static void harvest_slept(struct rr_ep_set *s, bool slept)
{
	struct rr_ep_watch *w = s->rested;
	struct rr_conn *c = w && slept ? rr_sock_conn(w->so) : NULL;

	if (c && !w->active && w->wake >= 0 && rr_conn_peek(c, rr_ev_want(w->app.events)))
		rang(s, w);
	else
		harvest(s);
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
	int r = ask_watch(w);

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

/* Of n events that the kernel returned, keeps those for the app; returns how many. Events of
 * the inner set and of watches in other forms than pass only make watches active. */
static int sift(struct rr_ep_set *s, struct epoll_event *evs, int n, bool slept)
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

/* --- waiting --- */

struct wait {
	struct rr_ep_set *s;	/* referenced */
	int epfd;
	struct epoll_event *evs;
	int max;
	rr_time deadline;	/* 0: do not wait */
	const sigset_t *mask;
	bool fine;		/* the caller gave nanoseconds */
	struct rr_fruitless fruitless;
	rr_time slept;		/* when the last sleep began */
	int cancel;
};

/* The watch is armed and leaves the active list; harvest_slept() looks at it first. */
static void lay_to_rest(struct rr_ep_watch *w)
{
	rr_ep_deactivate(w);
	w->set->rested = w;
}

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

/* Arms all active watches. False: one of them has something to report already. */
static bool arm_all(struct rr_ep_set *s, rr_time *until)
{
	struct rr_ep_watch *w, *next;
	bool armed = true;

	for (w = s->first; w; w = next) {
		next = w->next;
		armed &= arm_watch(w, until);
	}
	return armed;
}

/* This thread goes back to the app, so somebody else must look after the active watches: a
 * thread that sleeps on this set, and also has to learn of deadlines, or whoever waits for the
 * set itself. */
static void hand_over(struct rr_ep_set *s)
{
	rr_time until = RR_TIME_NEVER;

	if (s->first && rr_ep_asleep(s) && (!arm_all(s, &until) || (s->first && s->sleepers)))
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

/* Looks once: asks the active watches, then the kernel. Without `kernel` the kernel is asked
 * only if the active watches had something, or if it is its turn. Returns the number of events,
 * or -errno. Called after begin_look(); releases the lock. */
static int finish_look(struct wait *x, bool kernel)
{
	struct rr_ep_set *s = x->s;
	int n = 0, k, err;
	bool full;

	kernel |= s->kernel_first;
	if (!s->kernel_first)
		n = collect_events(s, x->evs, x->max, !x->deadline);
	full = s->kernel_first = n == x->max;
	if (full)
		hand_over(s);
	rr_ep_unlock();
	if (full || (!n && !kernel))
		return n;
	k = rr_real.epoll_wait(x->epfd, x->evs + n, x->max - n, 0);
	err = k < 0 ? -errno : 0;
	if (!rr_ep_lock())
		return n ? n : -EINTR;
	if (k > 0) {
		n += sift(s, x->evs + n, k, false);
		if (n < x->max)
			n += collect_events(s, x->evs + n, x->max - n, !x->deadline);
	}
	hand_over(s);
	rr_ep_unlock();
	return n ? n : err;
}

static int look_at_all(struct wait *x, bool kernel)
{
	return begin_look(x) ? finish_look(x, kernel) : -EINTR;
}

/* Does memory show that w, whose connection is c, may have something? */
static bool peek_watch(const struct rr_ep_watch *w, const struct rr_conn *c)
{
	unsigned ev = w->app.events;

	/* Bits that were reported already are no news for an edge-triggered watch. */
	if (ev & EPOLLET)
		ev &= ~w->seen | w->dry;
	return rr_conn_peek(c, rr_ev_want(ev));
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
		if (peek_watch(w, c))
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
	n = finish_look(x, false);
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
 * kernel's own set is looked at every SPIN_LOOK. */
static int epwait_spin_until(struct wait *x, struct rr_spin *spin)
{
	rr_time looked = spin->now;
	int n;

	do {
		if (!peek_spinning(x->s, spin) && spin->now - looked <= SPIN_LOOK)
			continue;
		n = look_at_all(x, true);
		if (n)
			return n;
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
	n = look_at_all(x, true);
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
	bool armed, slept;
	int n, k;

	x->slept = rr_now();
	if (end)
		end = rr_min(end, rr_conn_idle(x->slept));
	if (!rr_ep_lock())
		return -EINTR;
	rr_ep_use(s, x->epfd);
	/* Counted before the active list is emptied: a thread that makes a watch active later
	 * sees the sleeper and kicks (rr_ep_place()). */
	atomic_fetch_add(&s->sleepers, 1);
	armed = arm_all(s, &end);
	rr_ep_unlock();
	if (!armed) {
		atomic_fetch_sub(&s->sleepers, 1);
		return 0;
	}
	k = kernel_sleep(x, end);
	if (k < 0)
		return k;
	slept = rr_now() > x->slept + AT_ONCE;
	if (!rr_ep_lock())
		return -EINTR;
	s->pass++;
	n = sift(s, x->evs, k, slept);
	if (n < x->max)
		n += collect_events(s, x->evs + n, x->max - n, false);
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
		return look_at_all(x, true);
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
			return look_at_all(x, true);
		rr_fruitless_slept(&x->fruitless, x->slept, now.now);
		rr_fruitless_pause(&x->fruitless);
	}
}

/* No watch in the set is ours now: waits in the kernel once, as the plain call would. A watch
 * that becomes ours meanwhile rings or kicks, and then the kernel's events are sifted. False: a
 * watch is ours, or nothing was left after sifting. */
static int wait_plain(struct wait *x, int *n)
{
	atomic_fetch_add(&x->s->sleepers, 1);
	if (atomic_load(&x->s->tagged)) {	/* pairs with set_form(), which counts tagged
						 * before rr_ep_asleep() reads sleepers */
		atomic_fetch_sub(&x->s->sleepers, 1);
		return false;
	}
	*n = kernel_sleep(x, x->deadline);
	if (*n <= 0 || !atomic_load(&x->s->keyed) || !rr_ep_lock())
		return true;
	x->s->pass++;
	*n = sift(x->s, x->evs, *n, false);
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
	rr_ep_show_nested();
	if (atomic_load(&s->tagged) || !wait_plain(&x, &n))
		n = wait_events(&x);
	rr_file_put(&s->f);
	rr_cancel_back(x.cancel);
	if (n >= 0)
		errno = saved;
	return n;
}

/* --- a set that poll(), select() or another set waits for --- */

bool rr_ep_managed(const struct rr_file *f)
{
	const struct rr_ep_set *s = container_of(f, const struct rr_ep_set, f);

	return atomic_load(&s->tagged) || s->inner >= 0;	/* an inner set may still show a
								 * kick */
}

/* Has one of the active watches something to report? Reports nothing. */
static bool any_due(struct rr_ep_set *s)
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

/* Takes in what rang and arms the watches that have nothing to report. Returns whether any has
 * something. */
static bool any_news(struct rr_ep_set *s, rr_time *until)
{
	harvest(s);
	return any_due(s) || !arm_all(s, until);
}

/* s is in another epoll set, whose waiters ask the kernel alone. Makes the kernel's object
 * readable if a watch has something to report; what had rung is taken in. */
static void show_set(struct rr_ep_set *s)
{
	rr_time until = RR_TIME_NEVER;

	/* The kernel's object shows it already. Another kick would be another edge for the
	 * outer set. */
	if (s->kicked && any_due(s))
		return;
	if (any_news(s, &until) || until != RR_TIME_NEVER)
		rr_ep_kick(s);
}

static _Atomic bool nests;	/* some set has been put into another one */

void rr_ep_nest(struct rr_ep_set *s, int epfd)
{
	s->nested = s->in_set = true;
	atomic_store_explicit(&nests, true, memory_order_relaxed);
	rr_ep_use(s, epfd);
	show_set(s);
}

void rr_ep_show_nested(void)
{
	struct rr_ep_set *s = NULL;

	if (likely(!atomic_load_explicit(&nests, memory_order_relaxed)) || !rr_ep_lock())
		return;
	while ((s = rr_ep_next(s)))
		if (s->in_set && !s->foreign)
			show_set(s);
	rr_ep_unlock();
}

/* The kernel's set is readable. Lets the connections in pass form take in what is for the
 * library only (an offer or an answer), so that the caller can see whether anything remains for
 * the app. */
static void take_kernel_in(struct rr_ep_set *s)
{
	for (struct rr_ep_watch *w = s->all; w; w = w->set_next)
		if (w->form == RR_EP_PASS && !w->fired)
			ask_watch(w);
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
		harvest(s);
		yes = rr_real.poll(&p, 1, 0) > 0;
	}
	if (yes && s->in_set)
		rr_ep_kick(s);	/* what rang was taken in, so the outer set would not see it */
	rr_ep_unlock();
	return yes;
}
