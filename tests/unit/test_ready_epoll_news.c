/* SPDX-License-Identifier: BSD-3-Clause */
/* What a watch has to report, by its parts: what is an edge, what is noted of what was told, when a watch is armed
 * because it has nothing, and when the inner set need not be asked after a sleep. */
#include "preload/epnews.c"
#include "tests/unit/ready_epoll.h"

static struct one o;
static struct rr_ep_watch *w;
static struct rr_ep_set *s;
static typeof(rr_real.epoll_wait) next_wait;
static int asked;	/* how often the inner set was */

static int counted_wait(int epfd, struct epoll_event *evs, int max, int timeout)
{
	asked += epfd == s->inner;
	cr_assert(epfd != s->inner || !timeout, "the lock is held meanwhile");
	return next_wait(epfd, evs, max, timeout);
}

static void begin_news(void)
{
	struct rr_sock *so;

	o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLOUT | EPOLLET);
	so = rr_fdt_sock(o.fd);
	w = so->watches;
	s = w->set;
	rr_file_put(&so->f);
	next_wait = epoll_wait;
	rr_real.epoll_wait = counted_wait;
	cr_assert(w->active && s->first == w);
}

TestSuite(ready_epoll_news, .init = begin_news, .timeout = 60);

Test(ready_epoll_news, what_is_an_edge)
{
	static const struct { unsigned bits, seen, dry; bool news; int inq; bool is; } c[] = {
		{ POLLIN, 0, 0, false, 0, true }, { POLLIN, POLLOUT, 0, false, 0, true }, { POLLIN, POLLIN, 0, false, 0, false },
		{ POLLIN, POLLIN, POLLIN, false, 0, true }, { POLLIN, POLLIN, POLLOUT, false, 0, false },
		{ POLLIN, POLLIN, 0, true, 0, true }, { POLLIN, POLLIN, 0, false, 5, false }, { POLLIN, POLLIN, 0, false, 6, true },
		{ POLLOUT, POLLOUT, 0, false, 6, false }, { POLLOUT, POLLIN | POLLOUT, POLLIN, false, 6, false },
		{ POLLIN | POLLOUT, POLLIN, 0, false, 0, true }, { POLLIN | POLLOUT, POLLIN | POLLOUT, 0, false, 0, false },
		{ POLLRDHUP, 0, 0, false, 0, true },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		w->seen = c[i].seen;
		w->dry = c[i].dry;
		w->news = c[i].news;
		w->inq = 5;
		o.c->inq = c[i].inq;
		cr_assert_eq(is_edge(w, c[i].bits), c[i].is, "%zu", i);
		cr_assert_eq(due(w, c[i].bits), c[i].is, "%zu", i);
		w->app.events &= ~(uint32_t)EPOLLET;
		cr_assert(due(w, c[i].bits), "%zu: a level", i);
		w->fired = true;
		cr_assert_not(due(w, c[i].bits), "%zu", i);
		w->fired = false;
		w->app.events |= EPOLLET;
		cr_assert_not(due(w, 0), "%zu", i);
	}
	/* Without a connection nobody knows of more bytes. */
	w->seen = POLLIN;
	w->dry = 0;
	w->news = false;
	o.c->inq = 6;
	o.c->face.state = RR_FAKE_TCP;
	cr_assert_not(is_edge(w, POLLIN));
	cr_assert(is_edge(w, POLLOUT));
}

Test(ready_epoll_news, what_is_noted_of_what_was_told)
{
	struct epoll_event ev;

	s->pass = 7;
	o.c->inq = 12;
	for (int oneshot = 0; oneshot < 2; oneshot++) {
		w->app.events = EPOLLIN | EPOLLET | (oneshot ? (uint32_t)EPOLLONESHOT : 0);
		w->news = true;
		w->dry = POLLIN;
		w->misses = 3;
		w->inq = 0;
		w->told = 0;
		tell_event(w, POLLIN, &ev);
		cr_assert(ev.events == POLLIN && ev.data.u64 == ((uint64_t)o.fd << 32 | 7));
		cr_assert(w->told == 7 && !w->news && !w->dry && !w->misses && w->inq == 12);
		cr_assert(w->fired == oneshot && w->active == !oneshot);
	}
	/* Of one that has gone to TCP nobody asks how much there is. */
	w->inq = 1;
	o.c->face.state = RR_FAKE_TCP;
	tell_event(w, POLLIN, &ev);
	cr_assert_eq(w->inq, 1);
}

Test(ready_epoll_news, one_that_has_nothing_is_armed_each_time_that_it_was_asked_so_often)
{
	for (int round = 1; round < 4; round++) {
		for (unsigned i = 1; i < MISSES; i++) {
			rest(w);
			cr_assert(w->active && w->misses == i && o.c->arms + 1 == (unsigned)round);
		}
		rest(w);
		cr_assert(!w->active && !w->misses && o.c->arms == (unsigned)round && w->form == RR_EP_MANAGED);
		rr_ep_activate_one(w, false);
	}
	/* Not where it has something by then, … */
	o.c->ready = POLLIN;
	w->misses = MISSES - 1;
	rest(w);
	cr_assert(w->active && !w->misses);
	/* … has to be looked at again, … */
	o.c->ready = 0;
	o.c->look_at = rr_now() + RR_SEC;
	o.c->arms = 0;
	w->misses = MISSES - 1;
	rest(w);
	cr_assert(w->active && !o.c->arms && !w->misses);
	/* … or is the kernel's. */
	o.c->look_at = 0;
	o.c->face.state = RR_FAKE_TCP;
	w->misses = MISSES - 1;
	rest(w);
	cr_assert(!w->active && !o.c->arms && w->form == RR_EP_PLAIN);
}

/* Lays w to rest as a sleep does; news: its connection's memory shows some. */
static void sleeps(bool news)
{
	w->app.events = EPOLLIN;
	rr_ep_refresh(w, false);
	rr_ep_deactivate(w);
	w->news = false;
	s->rested = w;
	s->kicked = true;
	o.c->ready = news ? POLLIN : 0;
	asked = 0;
}

Test(ready_epoll_news, after_a_sleep_the_one_that_was_laid_to_rest_last_is_looked_at_first)
{
	struct rr_ep_watch *none = NULL;
	int wake;

	sleeps(true);
	harvest_slept(s, AT_ONCE + 1);
	cr_assert(!asked && w->active && w->news && o.c->drains == 1);
	/* Otherwise the inner set is asked. */
	sleeps(true);
	harvest_slept(s, AT_ONCE);
	cr_assert(asked == 1 && !w->active && !s->kicked);
	sleeps(false);
	harvest_slept(s, AT_ONCE + 1);
	cr_assert(asked == 1 && !w->active);
	sleeps(true);
	s->rested = none;
	harvest_slept(s, AT_ONCE + 1);
	cr_assert_eq(asked, 1);
	sleeps(true);
	rr_ep_activate_one(w, false);
	harvest_slept(s, AT_ONCE + 1);
	cr_assert(asked == 1 && !w->news);
	sleeps(true);
	wake = w->wake;
	w->wake = -1;
	harvest_slept(s, AT_ONCE + 1);
	cr_assert(asked == 1 && !w->active);
	w->wake = wake;
	sleeps(true);
	o.c->face.state = RR_FAKE_TCP;
	harvest_slept(s, AT_ONCE + 1);
	cr_assert(asked == 1 && !w->active);
}

/* Not if the next wait may spin, nor if anybody else would find the inner set readable. */
Test(ready_epoll_news, after_a_long_sleep_the_bell_may_wait)
{
	struct rr_ep_watch other = { .set = s };

	sleeps(true);
	harvest_slept(s, LONG);
	cr_assert(o.c->drains == 1 && o.c->later == 0);
	sleeps(true);
	harvest_slept(s, LONG + 1);
	cr_assert(o.c->drains == 2 && o.c->later == 1);
	sleeps(true);
	s->nested = true;
	harvest_slept(s, LONG + 1);
	s->nested = false;
	cr_assert(o.c->drains == 3 && o.c->later == 1);
	for (int i = 0; i < 2; i++) {
		sleeps(true);
		w->app.events |= i ? EPOLLET : EPOLLONESHOT;
		harvest_slept(s, LONG + 1);
		cr_assert_eq(o.c->later, 1, "%d", i);
	}
	o.c->drains = 3;
	sleeps(true);
	w->so_next = &other;
	harvest_slept(s, LONG + 1);
	w->so_next = NULL;
	cr_assert(o.c->drains == 4 && o.c->later == 1);
}

/* It lies unread: not it has ended the sleep, so those that have must be looked for. */
Test(ready_epoll_news, what_an_edge_was_told_of_is_no_news_after_a_sleep)
{
	for (int dry = 0; dry < 2; dry++) {
		sleeps(true);
		w->app.events = EPOLLIN | EPOLLET;
		w->seen = EPOLLIN;
		w->dry = dry ? EPOLLIN : 0;
		harvest_slept(s, AT_ONCE + 1);
		cr_assert(asked == !dry && w->active == dry && w->news == dry);
	}
}

/* What the array holds behind them may be of another look. */
static int told, its_place;

static int wait_of_two(int epfd RR_UNUSED, struct epoll_event *evs, int max, int timeout RR_UNUSED)
{
	cr_assert_geq(max, 2);
	for (int i = 0; i < 2; i++)
		evs[i] = (struct epoll_event){ .events = EPOLLIN, .data.u64 = i == its_place ? w->key : 0 };
	return told;
}

Test(ready_epoll_news, as_many_have_rung_as_the_kernel_says)
{
	rr_real.epoll_wait = wait_of_two;
	for (its_place = 0; its_place < 2; its_place++) {
		sleeps(false);
		for (told = -1; told < 3; told++) {
			rr_ep_harvest(s);
			cr_assert_eq(w->active, told > its_place, "%d %d", told, its_place);
		}
	}
}

Test(ready_epoll_news, where_there_is_no_inner_set_none_is_asked)
{
	struct one p = begin(RR_FAKE_NEW, EPOLLIN);
	struct rr_sock *so = rr_fdt_sock(p.fd);
	struct rr_ep_watch *v = so->watches;

	rr_file_put(&so->f);
	s = v->set;
	cr_assert_eq(s->inner, -1);
	s->kicked = true;
	asked = 0;
	rr_ep_harvest(s);
	cr_assert(!asked && !s->kicked && !v->active);
}

Test(ready_epoll_news, what_the_kernel_has_told_stands_or_is_asked_anew)
{
	w->app.events = EPOLLIN | EPOLLOUT | EPOLLEXCLUSIVE;
	w->kmask = EPOLLIN | EPOLLOUT;
	cr_assert_eq(kernel_bits(w, EPOLLIN, false), EPOLLIN, "whatever it would say now");
	cr_assert_eq(kernel_bits(w, EPOLLIN, true), EPOLLOUT);
	w->kmask = EPOLLIN;
	cr_assert_eq(kernel_bits(w, EPOLLIN, false), EPOLLOUT);
	w->app.events = EPOLLIN;
	cr_assert_eq(kernel_bits(w, EPOLLIN, true), 0);
	/* And no edge is told twice. */
	w->app.events = EPOLLOUT | EPOLLET;
	w->seen = w->dry = 0;
	w->news = false;
	cr_assert_eq(kernel_bits(w, EPOLLOUT, true), EPOLLOUT);
	w->seen = POLLOUT;
	cr_assert_eq(kernel_bits(w, EPOLLOUT, true), 0);
}

/* --- epoll_ctl() begins anew --- */

Test(ready_epoll_news, a_changed_registration_has_told_nothing_yet)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = 4711 };

	w->fired = w->news = true;
	w->seen = w->dry = POLLIN;
	w->misses = 9;
	w->inq = 5;
	w->came = 6;
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_MOD, o.fd, &ev), 0);
	cr_assert(!w->fired && !w->news && !w->seen && !w->dry && !w->misses && !w->inq && !w->came);
	cr_assert(w->app.events == ev.events && w->app.data.u64 == 4711 && w->active);
}

Test(ready_epoll_news, a_plain_registration_is_changed_in_the_kernel)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 4711 };

	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(w->form, RR_EP_PLAIN);
	atomic_fetch_and(&w->so->flags, ~(uint32_t)RR_SOCK_EDGES);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_MOD, o.fd, &ev), 0);
	cr_assert(w->kmask == EPOLLIN && w->app.events == EPOLLIN && w->app.data.u64 == 4711);
	cr_assert_not(w->so->flags & RR_SOCK_EDGES);
	ev.events |= EPOLLET;
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_MOD, o.fd, &ev), 0);
	cr_assert(w->so->flags & RR_SOCK_EDGES);
	cr_assert_eq(w->kmask, EPOLLIN | EPOLLET);
}
