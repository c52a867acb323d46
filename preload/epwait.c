/* SPDX-License-Identifier: BSD-3-Clause */
/* What epoll sets tell, and waiting for it.
 *
 * Level-triggered watches are told while their bits hold. Edge-triggered ones are told when a
 * bit has come that did not hold when last asked; when a bit holds that the app has used up
 * since it was told (a short read or write, or EAGAIN, in between); and when a doorbell or more
 * to read came since. So no edge is lost; some are told that the kernel would have merged into
 * an earlier one. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "core/base/os.h"
#include "preload/epset.h"
#include "preload/real.h"

enum {
	SPIN_LOOK = 4000,
	AT_ONCE = 20000,	/* ns: a sleep that was ended by what was there before */
	MISSES = 32,
	HARVEST = 64,
};

/* --- what watches have to tell; under the lock --- */

/* The app's bits that hold now, or RR_CONN_KERNEL. */
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

/* Would an edge-triggered watch be told of bits? */
static bool is_edge(const struct rr_ep_watch *w, unsigned bits)
{
	struct rr_conn *c;

	if (bits & ~w->seen || bits & w->dry || (bits && w->news))
		return true;
	c = rr_sock_conn(w->so);
	return bits & POLLIN && c && rr_ep_more(w, c, rr_ep_watch_fd(w));
}

static bool due(const struct rr_ep_watch *w, unsigned bits)
{
	return bits && !w->fired && (!(w->app.events & EPOLLET) || is_edge(w, bits));
}

static void tell_event(struct rr_ep_watch *w, unsigned bits, struct epoll_event *out)
{
	struct rr_conn *c = rr_sock_conn(w->so);

	*out = (struct epoll_event){ .events = bits, .data = w->app.data };
	w->told = w->set->pass;
	w->news = false;
	w->dry = 0;
	if (w->app.events & EPOLLET && bits & POLLIN && c) {
		w->came = rr_conn_came(c);	/* first: nothing is missed in between */
		w->inq = rr_conn_inq(c, rr_ep_watch_fd(w));
	}
	if (w->app.events & EPOLLONESHOT) {
		w->fired = true;
		rr_ep_deactivate(w);
	}
}

/* A watch that has had nothing for a while need not be asked: it rings. */
static void rest(struct rr_ep_watch *w)
{
	if (++w->misses < MISSES)
		return;
	w->misses = 0;
	if (rr_ep_refresh(w, false) == RR_TIME_NEVER && w->active && rr_ep_arm(w))
		rr_ep_deactivate(w);
}

/* Asks the active watches, each once, in turn: those that were asked go to the end. (Any of
 * them may leave the list meanwhile: one's answer changes the others of its connection.) */
static int collect_events(struct rr_ep_set *s, struct epoll_event *evs, int max)
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
		else if (w->active)
			rest(w);
		w->seen = (unsigned)r;
	}
	return n;
}

/* A connection rang: whoever watches it looks. In other sets too, which may find nothing on
 * the fd afterwards. */
static void rang(struct rr_ep_set *s, struct rr_ep_watch *w)
{
	struct rr_conn *c = rr_sock_conn(w->so);

	for (struct rr_ep_watch *o = w->so->watches; o; o = o->so_next) {
		rr_ep_activate_one(o, true);
		if (o->set != s && rr_ep_asleep(o->set))
			rr_ep_kick(o->set);
	}
	if (!c || rr_conn_drain(c))
		rr_ep_refresh(w, false);	/* a dead peer's fd stays readable: it goes */
}

/* Doorbells: the connections that rang are active. One handful: what is left keeps the inner
 * set readable, and some may have to stay so (another thread has yet to see them). */
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

/* The same after a sleep. Most of the time it was the watch that was laid to rest last that
 * rang, and its connection's memory says so: then the inner set need not be asked. But others
 * that rang keep the set readable, so that the next sleep ends at once, and then they have
 * their turn. */
static void harvest_slept(struct rr_ep_set *s, bool slept)
{
	struct rr_ep_watch *w = s->rested;
	struct rr_conn *c = w && slept ? rr_sock_conn(w->so) : NULL;

	if (c && !w->active && w->wake >= 0 && rr_conn_peek(c, rr_ev_want(w->app.events)))
		rang(s, w);
	else
		harvest(s);
}

/* What the kernel has for a watch, of which it has told told; turned: of a connection that has
 * become TCP since (rr_still_told()). */
static unsigned kernel_bits(const struct rr_ep_watch *w, unsigned told, bool turned)
{
	uint32_t ev = w->app.events & ~(uint32_t)EPOLLEXCLUSIVE;
	struct pollfd p = { rr_ep_watch_fd(w), (short)rr_ev_want(ev), 0 };
	unsigned bits;

	if (likely(w->kmask == ev && !turned))
		return told;
	/* Or it was managed, and its number is closed: the kernel has another mask. */
	bits = rr_real.poll(&p, 1, 0) > 0 ? rr_ev_told((unsigned short)p.revents, ev) : 0;
	return due(w, bits) ? bits : 0;
}

/* An event of the kernel's on a watch in pass form: is it for the app? */
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
	/* Taken in: the kernel's ONESHOT has fired in vain. */
	rr_ep_refresh(w, !bits && w->app.events & EPOLLONESHOT && w->form == RR_EP_PASS);
	rr_ep_activate_one(w, false);
	return bits != 0;
}

/* Of what the kernel returned, keeps what is for the app. */
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

/* --- epoll_wait --- */

struct wait {
	struct rr_ep_set *s;	/* referenced */
	int epfd;
	struct epoll_event *evs;
	int max;
	rr_time deadline;	/* 0: do not wait */
	const sigset_t *mask;
	bool fine;		/* the caller gave nanoseconds */
	struct rr_fruitless fruitless;
	rr_time slept;		/* since when, the last time */
	int cancel;
};

static void lay_to_rest(struct rr_ep_watch *w)
{
	rr_ep_deactivate(w);
	w->set->rested = w;
}

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

/* False: it has something already. */
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

/* Arms what is active. False: something is there already. */
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

/* Somebody else has to look after what is active when this thread goes back to the app: a
 * sleeper of this set, who also has to learn of deadlines, or whoever waits for the set
 * itself. */
static void hand_over(struct rr_ep_set *s)
{
	rr_time until = RR_TIME_NEVER;

	if (s->first && rr_ep_asleep(s) && (!arm_all(s, &until) || (s->first && s->sleepers)))
		rr_ep_kick(s);
}

/* Locks the sets, for a look at this one. False: they cannot be had. */
static bool begin_look(struct wait *x)
{
	if (!rr_ep_lock())
		return false;
	x->s->pass++;
	rr_ep_use(x->s, x->epfd);
	return true;
}

/* One look at everything, or, if there is time to sleep, at what is in memory alone when that
 * has nothing: how many events, or -errno. After begin_look(); unlocks. */
static int finish_look(struct wait *x, bool kernel)
{
	struct rr_ep_set *s = x->s;
	int n = 0, k, err;
	bool full;

	kernel |= s->kernel_first;
	if (!s->kernel_first)
		n = collect_events(s, x->evs, x->max);
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
			n += collect_events(s, x->evs + n, x->max - n);
	}
	hand_over(s);
	rr_ep_unlock();
	return n ? n : err;
}

static int look_at_all(struct wait *x, bool kernel)
{
	return begin_look(x) ? finish_look(x, kernel) : -EINTR;
}

/* Might one of the active have something, by what memory shows? spin: also how long to spin. */
static bool peek_locked(struct rr_ep_set *s, struct rr_spin *spin)
{
	bool found = false;

	for (struct rr_ep_watch *w = s->first; w && !found; w = w->next) {
		struct rr_conn *c = rr_sock_conn(w->so);
		unsigned ev = w->app.events;

		if (!c)
			continue;
		/* An edge-triggered one may have bits that were told. */
		if (ev & EPOLLET)
			ev &= ~w->seen | w->dry;
		found = rr_conn_peek(c, rr_ev_want(ev));
		if (spin && !spin->enough)
			rr_conn_spin(c, spin);
	}
	return found;
}

static bool peek_active(struct rr_ep_set *s, struct rr_spin *spin)
{
	bool found = rr_ep_lock();

	if (found) {
		found = peek_locked(s, spin);
		rr_ep_unlock();
	}
	return found;
}

/* Does memory tell all about it? Not of connections that are not carried, nor of edges, which
 * depend on what a watch was asked last. */
static bool memory_tells(const struct rr_ep_watch *w)
{
	struct rr_conn *c = rr_sock_conn(w->so);

	return c && rr_conn_is_carried(c) && !(w->app.events & EPOLLET);
}

/* Does memory say that there is nothing new of any? spin: also how long to spin. */
static bool has_nothing_new(struct rr_ep_set *s, struct rr_spin *spin)
{
	bool quiet = !s->kernel_first;

	for (struct rr_ep_watch *w = s->first; w && quiet; w = w->next)
		quiet = memory_tells(w);
	return quiet && !peek_locked(s, spin);
}

/* The look before spinning and sleeping; if nothing is there, *spin says how long to spin. The
 * active ones need not be asked first if memory has nothing of any: they will be when they are
 * armed. */
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
	peek_active(x->s, spin);
	return 0;
}

static bool epwait_spin_longer(struct wait *x, struct rr_spin *spin)
{
	spin->want = 0;
	spin->enough = false;
	peek_active(x->s, spin);
	return rr_spin_longer(spin, x->deadline);
}

static int epwait_spin_until(struct wait *x, struct rr_spin *spin)
{
	rr_time looked = spin->now;
	int n;

	do {
		if (!peek_active(x->s, NULL) && spin->now - looked <= SPIN_LOOK)
			continue;
		n = look_at_all(x, true);
		if (n)
			return n;
		looked = spin->now;
	} while (rr_spin_on(spin) || epwait_spin_longer(x, spin));
	return 0;
}

static int epwait_spin(struct wait *x, struct rr_spin *spin)
{
	int n;

	if (!spin->want && !spin->yields)	/* the kernel says what it has at the sleep */
		return 0;
	n = look_at_all(x, true);
	if (n || !rr_spin_begin(spin, x->deadline))
		return n;
	n = epwait_spin_until(x, spin);
	rr_spin_end(spin, n > 0);
	rr_conn_spun(spin, n > 0);
	return n;
}

static void epwait_cancelled(void *arg)
{
	struct wait *x = arg;

	atomic_fetch_sub(&x->s->sleepers, 1);
	rr_file_put(&x->s->f);
}

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

/* Sleeps once: events, 0 look again, or -errno. */
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
	/* Before the active list is emptied: who activates later sees it, and kicks. */
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
		n += collect_events(s, x->evs + n, x->max - n);
	hand_over(s);
	rr_ep_unlock();
	return n;
}

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

/* No watch in the set is ours now: one wait in the kernel, as it stands. One that becomes ours
 * meanwhile rings or kicks, and then there is something to sift. */
static int wait_plain(struct wait *x, int *n)
{
	atomic_fetch_add(&x->s->sleepers, 1);
	if (atomic_load(&x->s->tagged)) {	/* pairs with tagged, then sleepers, of who
						 * adds */
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

/* --- a set in a poll, select or another set --- */

bool rr_ep_managed(const struct rr_file *f)
{
	const struct rr_ep_set *s = container_of(f, const struct rr_ep_set, f);

	return atomic_load(&s->tagged) || s->inner >= 0;	/* that may still show a kick */
}

/* Has one of the active watches something to tell? Tells nothing. */
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

/* Takes in what rang and arms what has nothing to tell. Returns whether something has. */
static bool any_news(struct rr_ep_set *s, rr_time *until)
{
	harvest(s);
	return any_due(s) || !arm_all(s, until);
}

/* s is in another set: the kernel's object is made readable if its watches have something to
 * tell, and what had rung is taken in. */
static void show_set(struct rr_ep_set *s)
{
	rr_time until = RR_TIME_NEVER;

	/* It shows it already. Another kick would be another edge. */
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

/* The kernel's set is readable: is that more than events that would be taken in? Takes them
 * in. */
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
		rr_ep_kick(s);	/* what rang was taken in: the outer set would not see it */
	rr_ep_unlock();
	return yes;
}
