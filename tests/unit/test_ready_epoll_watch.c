/* SPDX-License-Identifier: BSD-3-Clause */
/* A watch's ways from one state to another, step by step: who makes it active, arms it, wakes a sleeper, and frees it. */
#include <errno.h>
#include <sys/resource.h>

#include "core/base/ownfd.h"
#include "tests/unit/ready_epoll.h"

static typeof(rr_real.poll) next_poll;

/* What is asked of the kernel under the lock is one descriptor, and takes no time. */
static int quick_poll(struct pollfd *p, nfds_t n, int timeout)
{
	cr_assert(n == 1 && timeout == 0, "%lu %d", (unsigned long)n, timeout);
	return next_poll(p, n, timeout);
}

static void be_quick(void)
{
	next_poll = poll;
	rr_real.poll = quick_poll;
}

TestSuite(ready_epoll_watch, .init = be_quick, .timeout = 60);

static struct rr_sock *sock_of(const struct one *o)
{
	struct rr_sock *so = rr_fdt_sock(o->fd);

	rr_file_put(&so->f);
	return so;
}

/* The newest watch of the socket. */
static struct rr_ep_watch *newest(const struct one *o)
{
	return sock_of(o)->watches;
}

/* With one thread asleep, as far as the set knows. */
static void sleepers(struct rr_ep_set *s, unsigned n)
{
	atomic_store(&s->sleepers, n);
	s->kicked = false;
}

/* Nothing holds the lock. */
static void assert_free(void)
{
	cr_assert(rr_ep_lock());
	rr_ep_unlock();
}

/* The number 0 is as good as any. */
Test(ready_epoll_watch, one_that_has_the_number_0)
{
	struct one o = { .ep = rr_wrap_epoll_create1(0) };
	struct pollfd p = { o.ep, POLLIN, 0 };
	struct later l = { .add = POLLIN, .what = make_ready };
	int fd = tcp(&o.peer);

	cr_assert_eq(dup2(fd, 0), 0);
	o.fd = 0;
	o.c = l.c = rr_fake_conn(0, RR_FAKE_CARRIED);
	ctl(o.ep, EPOLL_CTL_ADD, 0, EPOLLIN);
	cr_assert_eq(newest(&o)->form, RR_EP_MANAGED);
	cr_assert_eq(look(&o, 1), 0);
	cr_assert_not(newest(&o)->active, "it is armed");
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, 0), 1);
	expect(&o, EPOLLIN);
	rr_fake_become(o.c, 0, RR_FAKE_TCP);
	cr_assert_eq(newest(&o)->form, RR_EP_PLAIN);
	o.c->face.state = RR_FAKE_NEW;
	o.c->face.changed = true;
	rr_sock_turned(o.c, 0);
	cr_assert_eq(newest(&o)->form, RR_EP_PASS);
	o.c->offer = true;
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(look(&o, 20), 0);
	cr_assert_eq(o.c->swallowed, 1);
}

Test(ready_epoll_watch, without_memory_there_is_no_watch_and_no_registration)
{
	struct one o = { .ep = rr_wrap_epoll_create1(0) };
	struct epoll_event ev = { .events = EPOLLIN };
	struct rlimit was, none;

	o.fd = tcp(&o.peer);
	o.c = rr_fake_conn(o.fd, RR_FAKE_CARRIED);
	cr_assert_eq(getrlimit(RLIMIT_AS, &was), 0);
	none = (struct rlimit){ 4096, was.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	errno = 0;
	int rc = rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_ADD, o.fd, &ev), err = errno;
	setrlimit(RLIMIT_AS, &was);
	cr_assert(rc == -1 && err == ENOMEM, "%d %d", rc, err);
	cr_assert_null(newest(&o));
	cr_assert(epoll_ctl(o.ep, EPOLL_CTL_MOD, o.fd, &ev) == -1 && errno == ENOENT);
	assert_free();
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
	cr_assert(newest(&o)->key >> 63, "unlike a pointer or a number");
}

Test(ready_epoll_watch, no_lock_is_left_behind)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_sock *so = sock_of(&o);
	rr_time until;

	rr_ep_activate(so);
	assert_free();
	rr_sock_is_dry(so, POLLIN);
	assert_free();
	rr_sock_sync(so);
	assert_free();
	rr_sock_turned(o.c, o.fd);
	assert_free();
	rr_ep_wake_moved(o.c->wake);
	assert_free();
	cr_assert_not(rr_ep_move_fd(0));
	assert_free();
	rr_ep_readable(&newest(&o)->set->f, o.ep, &until);
	assert_free();
	rr_ep_show_all_nested();
	assert_free();
	look(&o, 0);
	assert_free();
	look(&o, 1);
	assert_free();
	rr_ep_sock_gone(so, o.fd);
	assert_free();
	rr_wrap_close(o.ep);
	assert_free();
}

/* --- active or idle --- */

Test(ready_epoll_watch, one_whose_bell_another_may_have_swallowed_is_asked_again)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = newest(&o);

	cr_assert(w->active && w->set->first == w && w->set->last == w);
	cr_assert_eq(look(&o, 1), 0);
	cr_assert(!w->active && !w->news && w->set->rested == w);
	errno = EXDEV;
	rr_ep_activate(sock_of(&o));
	cr_assert_eq(errno, EXDEV);
	cr_assert(w->active && w->news && w->set->first == w);
	cr_assert_not(w->set->kicked, "nobody sleeps");
	o.c->polls = 0;
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(o.c->polls, 1);
	/* Where somebody sleeps it is armed instead, and only what has news wakes it. */
	cr_assert_eq(look(&o, 1), 0);
	sleepers(w->set, 1);
	o.c->arms = 0;
	rr_ep_activate(sock_of(&o));
	cr_assert(o.c->arms == 1 && !w->active && !w->set->kicked);
	o.c->ready = POLLIN;
	rr_ep_activate(sock_of(&o));
	cr_assert(o.c->arms == 2 && w->active && w->set->kicked);
	sleepers(w->set, 1);
	rr_ep_activate(sock_of(&o));
	cr_assert(o.c->arms == 2 && !w->set->kicked, "it stands there already");
	sleepers(w->set, 0);
}

Test(ready_epoll_watch, one_that_waits_for_a_time_wakes_the_sleeper)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = newest(&o);

	cr_assert_eq(look(&o, 1), 0);
	sleepers(w->set, 1);
	o.c->until = rr_now() + 60 * RR_SEC;
	rr_fake_become(o.c, o.fd, RR_FAKE_WAITING);
	cr_assert(w->active && w->set->kicked);
	sleepers(w->set, 0);
}

Test(ready_epoll_watch, those_that_are_the_kernels_wake_nobody)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN), f = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLONESHOT);
	struct rr_ep_watch *w = newest(&o), *v = newest(&f);

	sleepers(w->set, 1);
	rr_ep_activate(sock_of(&o));
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLOUT);
	cr_assert(!w->active && !w->set->kicked && !o.c->arms);
	f.c->ready = POLLIN;
	expect(&f, EPOLLIN);
	cr_assert(v->fired && !v->active);
	sleepers(v->set, 1);
	f.c->arms = 0;
	rr_ep_activate(sock_of(&f));
	cr_assert(!v->active && !v->set->kicked && !f.c->arms);
	cr_assert_eq(v->form, RR_EP_MANAGED, "nothing is changed in the kernel for it");
	sleepers(w->set, 0);
	sleepers(v->set, 0);
}

Test(ready_epoll_watch, what_was_used_up_places_only_who_waits_for_room)
{
	static const struct { uint32_t events; unsigned dry; bool active; } c[] = {
		{ EPOLLIN | EPOLLOUT | EPOLLET, POLLIN, false }, { EPOLLIN | EPOLLOUT | EPOLLET, POLLOUT, true },
		{ EPOLLIN | EPOLLET, POLLOUT, false }, { EPOLLIN | EPOLLET, POLLIN, false },
		{ EPOLLOUT | EPOLLET, POLLOUT, true },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		struct one o = begin(RR_FAKE_CARRIED, c[i].events);
		struct rr_ep_watch *w = newest(&o);

		cr_assert_eq(look(&o, 1), 0);
		cr_assert_not(w->active);
		errno = EXDEV;
		dry(&o, c[i].dry);
		cr_assert_eq(errno, EXDEV);
		cr_assert(w->active == c[i].active && w->dry == c[i].dry, "%zu", i);
	}
}

/* Bytes that are no message yet. */
Test(ready_epoll_watch, more_bytes_are_no_edge_of_what_was_never_told)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLET);
	struct rr_ep_watch *w = newest(&o);

	o.c->inq = 5;
	cr_assert_eq(look(&o, 1), 0);
	cr_assert_not(w->active, "it is armed");
	rr_fake_ready(o.c, POLLIN, 0);
	expect(&o, EPOLLIN);
	cr_assert(w->inq == 5 && w->seen == POLLIN);
	o.c->inq = 6;
	cr_assert_not(rr_ep_arm(w));
	o.c->inq = 5;
	cr_assert(rr_ep_arm(w));
	o.c->inq = 6;
	expect(&o, EPOLLIN);
	cr_assert_eq(w->inq, 6);
	w->app.events &= ~(uint32_t)EPOLLET;
	cr_assert_not(rr_ep_arm(w), "a level holds");
	o.c->ready = 0;
	o.c->inq = 7;
	cr_assert(rr_ep_arm(w), "bytes that are no message are none");
}

/* A record that has come and was read since is no edge for who was told that there is room. */
Test(ready_epoll_watch, what_has_come_and_gone_keeps_nobody_awake)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLOUT | EPOLLET);
	struct rr_ep_watch *w = newest(&o);

	o.c->ready = POLLOUT;
	expect(&o, EPOLLOUT);
	cr_assert_eq(w->seen, EPOLLOUT);
	o.c->inq = 5;
	cr_assert(rr_ep_more(w, o.c, o.fd) && rr_ep_arm(w));
}

static int plain_says, plain_calls;
static unsigned plain_wants = POLLIN | RR_ASK_ALONE;

static int watch_plain_script(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED, unsigned want, int wake RR_UNUSED)
{
	cr_assert_eq(want, plain_wants);
	plain_calls++;
	return plain_says;
}

static void assert_unusual(struct rr_ep_watch *w, const char *what)
{
	plain_calls = 0;
	cr_assert_eq(rr_ep_arm_again(w), -EAGAIN, "%s", what);
	cr_assert_eq(plain_calls, 0, "%s", what);
}

Test(ready_epoll_watch, only_what_is_not_unusual_is_armed_in_one_step)
{
	struct one o = { .ep = rr_wrap_epoll_create1(0) };
	struct rr_ep_watch *w, was;
	struct rr_conn *c;

	rr_fake.watch_plain = watch_plain_script;
	o.fd = tcp(&o.peer);
	o.c = rr_fake_conn(o.fd, RR_FAKE_CARRIED);
	o.c->anchor = POLLIN | POLLRDHUP;
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
	w = newest(&o);
	cr_assert_eq(w->kmask, EPOLLIN | EPOLLRDHUP);
	was = *w;
	for (plain_says = 0; plain_says < 2; plain_says++)
		cr_assert_eq(rr_ep_arm_again(w), plain_says);
	cr_assert_eq(plain_calls, 2);
	w->wake = -1;
	assert_unusual(w, "no wake-up descriptor");
	w->wake = was.wake;
	w->form = RR_EP_PASS;
	assert_unusual(w, "another form");
	w->form = was.form;
	w->kmask = EPOLLRDHUP;
	assert_unusual(w, "another mask");
	w->kmask = was.kmask;
	w->fired = true;
	assert_unusual(w, "fired");
	w->fired = false;
	w->set->foreign = true;
	assert_unusual(w, "the parent's");
	w->set->foreign = false;
	w->app.events |= EPOLLET;
	assert_unusual(w, "edges");
	w->app.events = was.app.events;
	w->fd = o.peer;
	assert_unusual(w, "another number");
	w->fd = was.fd;
	c = atomic_exchange(&sock_of(&o)->conn, NULL);
	assert_unusual(w, "no connection");
	atomic_store(&sock_of(&o)->conn, c);
	/* In a wait: 0 lays it to rest, 1 leaves it where it is asked. */
	plain_says = 0;
	plain_calls = 0;
	cr_assert_eq(look(&o, 1), 0);
	cr_assert(plain_calls == 1 && !w->active && w->set->rested == w);
	/* Another set watches it, too: the connection keeps the descriptor that both have. */
	ctl(rr_wrap_epoll_create1(0), EPOLL_CTL_ADD, o.fd, EPOLLIN);
	plain_wants = POLLIN;
	cr_assert_eq(rr_ep_arm_again(w), 0);
	cr_assert_eq(rr_ep_arm_again(newest(&o)), 0);
}

/* While both directions are TCP's the kernel knows the edges. */
Test(ready_epoll_watch, the_kernel_is_asked_for_edges_while_it_has_the_sending)
{
	static const struct { unsigned anchor; uint32_t app, kmask; } c[] = {
		{ POLLIN | POLLOUT, EPOLLIN | EPOLLET, EPOLLIN | EPOLLOUT | EPOLLET },
		{ POLLIN | POLLOUT, EPOLLIN, EPOLLIN | EPOLLOUT }, { POLLIN, EPOLLIN | EPOLLET, EPOLLIN },
		{ POLLOUT, EPOLLOUT | EPOLLET | EPOLLONESHOT, EPOLLOUT | EPOLLET },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		struct one o = { .ep = rr_wrap_epoll_create1(0) };

		o.fd = tcp(&o.peer);
		o.c = rr_fake_conn(o.fd, RR_FAKE_CARRIED);
		o.c->anchor = c[i].anchor;
		ctl(o.ep, EPOLL_CTL_ADD, o.fd, c[i].app);
		cr_assert_eq(newest(&o)->kmask, c[i].kmask, "%zu: %x", i, newest(&o)->kmask);
	}
}

/* --- out of reach --- */

/* Closes the number of the registration; another one stays. */
static int leave_by(struct one *o)
{
	int fd = rr_wrap_dup(o->fd);

	cr_assert_eq(rr_wrap_close(o->fd), 0);
	return fd;
}

Test(ready_epoll_watch, a_registration_out_of_reach_stays_under_our_key)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), p = begin(RR_FAKE_NEW, EPOLLIN);
	struct rr_ep_watch *w = newest(&o), *v = newest(&p);
	int fd = leave_by(&o), fd2 = leave_by(&p);

	cr_assert_eq(rr_ep_watch_fd(w), fd);
	cr_assert_eq(rr_ep_other_fd(v), fd2);
	rr_fake_become(o.c, fd, RR_FAKE_TCP);
	cr_assert(w->form == RR_EP_PASS && w->kmask == EPOLLRDHUP && w->set->tagged == 1);
	rr_sock_sync(v->so);
	cr_assert(v->form == RR_EP_PASS && v->kmask == EPOLLIN && v->set->tagged == 1 && v->wake == -1);
	rr_fake_become(p.c, fd2, RR_FAKE_TCP);
	cr_assert(v->form == RR_EP_PASS && v->set->tagged == 1);
	cr_assert_eq(write(p.peer, "x", 1), 1);
	expect(&p, EPOLLIN);
	rr_fake_become(p.c, fd2, RR_FAKE_CARRIED);
	cr_assert(v->form == RR_EP_MANAGED && v->kmask == EPOLLIN);
}

Test(ready_epoll_watch, a_set_without_a_number_is_left_alone)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = newest(&o);
	struct rr_ep_set *s = rr_ep_at(o.ep);
	int other;

	/* By another number it is found again. */
	other = rr_wrap_dup(o.ep);
	cr_assert_eq(rr_wrap_close(o.ep), 0);
	rr_fake_become(o.c, o.fd, RR_FAKE_NEW);
	cr_assert(w->form == RR_EP_PASS && s->epfd == other);
	cr_assert_eq(s->f.refs, 2);
	cr_assert_eq(rr_wrap_close(other), 0);
	rr_fake_become(o.c, o.fd, RR_FAKE_CARRIED);
	cr_assert(w->form == RR_EP_PASS, "nobody can wait for it");
	cr_assert_eq(s->f.refs, 1);
	rr_file_put(&s->f);
	cr_assert_null(newest(&o));
}

Test(ready_epoll_watch, what_is_freed_is_on_no_list)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w[3] = { newest(&o) };
	struct rr_ep_set *s = w[0]->set;
	struct rr_sock *so = sock_of(&o);
	int fd[3] = { o.fd, rr_wrap_dup(o.fd), rr_wrap_dup(o.fd) };

	for (int i = 1; i < 3; i++) {
		ctl(o.ep, EPOLL_CTL_ADD, fd[i], EPOLLIN);
		w[i] = newest(&o);
	}
	cr_assert(s->first == w[0] && w[0]->next == w[1] && w[1]->next == w[2] && s->last == w[2] && !w[2]->next);
	cr_assert(rr_ep_find(s, so, fd[1]) == w[1] && !rr_ep_find(s, so, 9999) && !rr_ep_find(NULL, so, fd[1]));
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, fd[1], NULL), 0);
	cr_assert(s->first == w[0] && w[0]->next == w[2] && w[2]->prev == w[0] && s->last == w[2]);
	cr_assert(s->all == w[2] && w[2]->set_next == w[0] && so->watches == w[2] && w[2]->so_next == w[0]);
	cr_assert_eq(look(&o, 1), 0);
	cr_assert(!s->first && !s->last && s->rested);
	struct rr_ep_watch *rested = s->rested, *last = rested == w[0] ? w[2] : w[0];
	int at_rest = rested->fd;
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, last->fd, NULL), 0);
	cr_assert(s->rested == rested && s->all == rested && so->watches == rested && !rested->so_next);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, at_rest, NULL), 0);
	cr_assert(!s->rested && !s->all && !so->watches && !rested->set);
	/* The last one that was freed is the next one that is used, and begins anew. */
	ctl(o.ep, EPOLL_CTL_ADD, fd[2], EPOLLOUT | EPOLLET);
	cr_assert_eq(newest(&o), rested);
	cr_assert(rested->fd == fd[2] && rested->app.events == (EPOLLOUT | EPOLLET) && !rested->fired && rested->active);
	cr_assert(so->flags & RR_SOCK_EDGES);
}

/* --- doorbells --- */

static void ring_bell(const struct one *o)
{
	uint64_t one = 1;

	cr_assert_eq(write(o->c->wake, &one, sizeof(one)), sizeof(one));
}

Test(ready_epoll_watch, a_bell_is_for_all_sets_and_wakes_those_that_sleep)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), p = o, q = o;
	struct rr_ep_set *s[3] = { newest(&o)->set };
	struct rr_ep_watch *w[3] = { newest(&o) };

	p.ep = rr_wrap_epoll_create1(0);
	ctl(p.ep, EPOLL_CTL_ADD, p.fd, EPOLLIN);
	w[1] = newest(&p);
	q.ep = rr_wrap_epoll_create1(0);
	ctl(q.ep, EPOLL_CTL_ADD, q.fd, EPOLLIN);
	w[2] = newest(&q);
	for (int i = 1; i < 3; i++)
		s[i] = w[i]->set;
	cr_assert_eq(look(&o, 1) + look(&p, 1) + look(&q, 1), 0);
	cr_assert(!w[0]->active && !w[1]->active && !w[2]->active);
	atomic_store(&s[2]->sleepers, 1);
	ring_bell(&o);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert(w[0]->active && w[1]->active && w[2]->active && w[1]->news && w[2]->news);
	cr_assert(!s[0]->kicked && !s[1]->kicked && s[2]->kicked);
	atomic_store(&s[2]->sleepers, 0);
}

/* Its descriptor stays readable for ever, and would end each sleep. */
Test(ready_epoll_watch, the_bell_of_a_dead_peer_leaves_the_set_whoever_has_fired)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLONESHOT);
	struct rr_ep_watch *w = newest(&o);

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	cr_assert(w->fired && w->wake == o.c->wake);
	ring_bell(&o);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(o.c->drains, 1);
	cr_assert_eq(w->wake, o.c->wake, "one that lives stays");
	o.c->dead = true;
	ring_bell(&o);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(w->wake, -1);
	cr_assert_eq(o.c->drains, 2);
}

Test(ready_epoll_watch, one_that_has_nothing_is_asked_so_often_and_then_armed)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), p = begin(RR_FAKE_WAITING, EPOLLIN);
	struct rr_ep_watch *w = newest(&o), *v = newest(&p);

	p.c->until = rr_now() + 60 * RR_SEC;
	for (int i = 1; i <= 40; i++) {
		cr_assert_eq(look(&o, 0), 0);
		cr_assert_eq(w->active, i < 32, "%d", i);
		cr_assert_eq(look(&p, 0), 0);
		cr_assert(v->active, "its time must be looked at");
	}
	cr_assert(o.c->polls == 32 && o.c->arms == 1 && p.c->polls == 40);
	/* What is told begins the count anew. */
	rr_fake_ready(o.c, POLLIN, 0);
	cr_assert_eq(look(&o, 0), 1);
	cr_assert_eq(w->misses, 0);
	o.c->ready = 0;
	for (int i = 1; i <= 31; i++)
		cr_assert_eq(look(&o, 0), 0);
	cr_assert(w->active && w->misses == 31);
}

/* --- what a report changes --- */

Test(ready_epoll_watch, what_was_told_is_noted)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLOUT | EPOLLET);
	struct rr_ep_watch *w = newest(&o);

	o.c->inq = 9;
	o.c->ready = POLLIN;
	w->news = true;
	w->dry = POLLIN;
	w->misses = 3;
	expect(&o, EPOLLIN);
	cr_assert(!w->news && !w->dry && !w->misses && w->inq == 9 && w->seen == POLLIN && w->told == w->set->pass);
	o.c->ready = 0;
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(w->seen, 0);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLET);
	cr_assert(!w->inq && !w->seen && !w->dry && !w->misses && !w->news && !w->fired && !w->came);
}

/* --- sets that show what they have --- */

Test(ready_epoll_watch, a_set_in_a_set_shows_what_it_has)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), outer = { .ep = rr_wrap_epoll_create1(0), .fd = o.ep };
	struct rr_ep_set *s = newest(&o)->set;
	rr_time until;

	cr_assert_not(s->nested);
	cr_assert_not(rr_ep_nests);
	cr_assert(rr_ep_managed(&s->f));
	ctl(outer.ep, EPOLL_CTL_ADD, o.ep, EPOLLIN);
	cr_assert(s->nested && s->in_set && rr_ep_nests && !s->kicked);
	cr_assert_eq(rr_ep_show_all_nested(), RR_TIME_NEVER);
	cr_assert_not(s->kicked);
	o.c->ready = POLLIN;
	rr_ep_activate(sock_of(&o));
	cr_assert(s->kicked);
	s->kicked = false;
	rr_ep_show_all_nested();
	cr_assert(s->kicked);
	/* What is readable is readable for the outer set, too. */
	s->kicked = false;
	cr_assert(rr_ep_readable(&s->f, o.ep, &until));
	cr_assert(s->kicked && until == RR_TIME_NEVER);
	o.c->ready = 0;
	cr_assert_not(rr_ep_readable(&s->f, o.ep, &until));
	cr_assert_not(s->kicked);
	/* The parent's are the parent's. */
	o.c->ready = POLLIN;
	rr_ep_activate_one(newest(&o), true);
	s->foreign = true;
	rr_ep_show_all_nested();
	cr_assert_not(s->kicked);
	s->foreign = false;
	rr_ep_show_all_nested();
	cr_assert(s->kicked);
}

Test(ready_epoll_watch, a_time_in_a_set_in_a_set_is_told_to_who_waits)
{
	struct one o = begin(RR_FAKE_WAITING, EPOLLIN), outer = { .ep = rr_wrap_epoll_create1(0), .fd = o.ep };
	struct rr_ep_set *s = newest(&o)->set;
	rr_time until, when = rr_now() + 60 * RR_SEC;

	o.c->until = when;
	cr_assert_not(rr_ep_readable(&s->f, o.ep, &until));
	cr_assert_eq(until, when);
	s->nested = false;
	ctl(outer.ep, EPOLL_CTL_ADD, o.ep, EPOLLIN);
	cr_assert(s->kicked, "who sleeps on the outer set learns when to look");
	cr_assert_eq(rr_ep_show_all_nested(), when);
}

Test(ready_epoll_watch, what_has_nothing_of_ours_is_not_managed)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN);
	struct rr_ep_set *s = newest(&o)->set;

	cr_assert(rr_ep_managed(&s->f) && s->inner == -1);
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_not(rr_ep_managed(&s->f));
	rr_fake_become(o.c, o.fd, RR_FAKE_CARRIED);
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert(!s->tagged && s->inner >= 0);
	cr_assert(rr_ep_managed(&s->f), "the inner set may show a kick");
}

/* --- numbers that move --- */

Test(ready_epoll_watch, the_bell_and_inner_sets_make_way)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), p = begin(RR_FAKE_CARRIED, EPOLLIN), q = { 0 };
	struct rr_ep_set *s = newest(&o)->set, *t = newest(&p)->set;
	int inner = s->inner, bell = -1;

	q.ep = rr_wrap_epoll_create1(0);	/* has no inner set */
	cr_assert_eq(look(&o, 1) + look(&p, 1), 0);
	cr_assert_not(rr_ep_move_fd(o.fd));
	cr_assert(rr_ep_move_fd(inner));
	cr_assert(s->inner != inner && s->inner > 2 && rr_ownfd_is(s->inner) && !rr_ownfd_is(inner) && t->inner != inner);
	close(inner);
	for (int fd = rr_ownfd_next(0); fd >= 0; fd = rr_ownfd_next(fd + 1))
		if (fd != s->inner && fd != t->inner)
			bell = fd;
	cr_assert_geq(bell, 0);
	cr_assert(rr_ep_move_fd(bell));
	cr_assert_not(rr_ownfd_is(bell));
	close(bell);
	cr_assert(s->kicked && t->kicked, "an old kick may have been lost");
	/* And it rings by its new number, in both. */
	for (int i = 0; i < 2; i++) {
		struct one *one = i ? &p : &o;
		struct rr_ep_set *set = i ? t : s;
		struct pollfd k = { one->ep, POLLIN, 0 };

		cr_assert_eq(look(one, 0), 0);
		cr_assert_eq(poll(&k, 1, 0), 0);
		cr_assert(rr_ep_lock());
		rr_ep_kick(set);
		rr_ep_unlock();
		cr_assert_eq(poll(&k, 1, 0), 1);
		cr_assert_eq(look(one, 0), 0);
	}
	close(q.ep);
}
