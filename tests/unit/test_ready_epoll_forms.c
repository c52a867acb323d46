/* SPDX-License-Identifier: BSD-3-Clause */
/* What is registered in the kernel for an epoll set, and in which form. */
#include <errno.h>

#include "tests/lib/open_fds.h"
#include "tests/unit/ready_epoll.h"

static struct call {
	int epfd, op, fd;
	uint32_t events;
	uint64_t data;
} calls[32];
static unsigned ncalls;
static typeof(rr_real.epoll_ctl) next_ctl;

static int noted_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	cr_assert_lt(ncalls, rr_array_size(calls));
	calls[ncalls++] = (struct call){ epfd, op, fd, ev ? ev->events : 0, ev ? ev->data.u64 : 0 };
	return next_ctl(epfd, op, fd, ev);
}

static void note_ctl(void)
{
	next_ctl = epoll_ctl;
	rr_real.epoll_ctl = noted_ctl;
}

TestSuite(ready_epoll_forms, .init = note_ctl, .timeout = 60);

static void assert_call(unsigned i, int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	cr_assert_lt(i, ncalls);
	cr_assert(calls[i].epfd == epfd && calls[i].op == op && calls[i].fd == fd &&
		  (op == EPOLL_CTL_DEL || (calls[i].events == events && calls[i].data == data)),
		  "%u: %d %d %d %x %lx", i, calls[i].epfd, calls[i].op, calls[i].fd, calls[i].events,
		  (unsigned long)calls[i].data);
}

static uint64_t app_data(const struct one *o)
{
	return (uint64_t)o->fd << 32 | 7;
}

static struct rr_ep_watch *watch_at(const struct one *o, int fd)
{
	struct rr_sock *so = rr_fdt_sock(fd);
	struct rr_ep_set *s = rr_ep_at(o->ep);
	struct rr_ep_watch *w = rr_ep_find(s, so, fd);

	rr_file_put(&s->f);
	rr_file_put(&so->f);
	return w;
}

static int inner_of(const struct one *o)
{
	struct rr_ep_set *s = rr_ep_at(o->ep);

	rr_file_put(&s->f);
	return s->inner;
}

static bool readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

Test(ready_epoll_forms, one_that_is_carried)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLRDNORM);
	struct rr_ep_watch *w = watch_at(&o, o.fd);
	int in = inner_of(&o);
	struct rr_ep_set *s = w->set;

	cr_assert_eq(ncalls, 5);
	assert_call(0, o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN | EPOLLRDNORM, app_data(&o));
	cr_assert(calls[1].epfd == in && calls[1].op == EPOLL_CTL_ADD && calls[1].events == EPOLLONESHOT, "the bell");
	assert_call(2, o.ep, EPOLL_CTL_ADD, in, EPOLLIN, s->cookie);
	assert_call(3, in, EPOLL_CTL_ADD, o.c->wake, EPOLLIN, w->key);
	assert_call(4, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLRDHUP, w->key);
	cr_assert(w->form == RR_EP_MANAGED && w->kmask == EPOLLRDHUP && w->wake == o.c->wake);
	cr_assert_eq(s->tagged, 1);
	cr_assert(s->keyed);
	cr_assert_not(readable(in), "nobody sleeps");
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(look(&o, 1), 0);
	rr_fake_ready(o.c, POLLIN, 0);
	expect(&o, EPOLLIN | EPOLLRDNORM);
	cr_assert_eq(ncalls, 5, "nothing has changed");
	/* It becomes TCP: the kernel has all as the app gave it. */
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(ncalls, 7);
	assert_call(5, in, EPOLL_CTL_DEL, o.c->wake, 0, 0);
	assert_call(6, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLRDNORM, app_data(&o));
	cr_assert(w->form == RR_EP_PLAIN && w->wake == -1 && !w->active);
	cr_assert_eq(s->tagged, 0);
	cr_assert_null(s->first);
	cr_assert_null(s->last);
}

/* What a thread has left in the wake-up descriptor is no edge. */
Test(ready_epoll_forms, a_bell_that_was_left_is_taken_when_a_set_begins_with_it)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	cr_assert_eq(o.c->in_set, 1);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLOUT);
	cr_assert_eq(o.c->in_set, 1);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLET);
	cr_assert_eq(o.c->in_set, 2, "left when it was level-triggered");
}

/* At worst, where the process may have no more descriptors, it stays what the kernel has given. */
Test(ready_epoll_forms, a_bell_may_have_the_number_0)
{
	struct one o = { .ep = rr_wrap_epoll_create1(0) };

	o.fd = tcp(&o.peer);
	o.c = rr_fake_conn(o.fd, RR_FAKE_CARRIED);
	cr_assert_eq(dup2(o.c->wake, 0), 0);
	close(o.c->wake);
	o.c->wake = 0;
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
	cr_assert_eq(watch_at(&o, o.fd)->wake, 0);
	ncalls = 0;
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(ncalls, 2);
	assert_call(0, inner_of(&o), EPOLL_CTL_DEL, 0, 0, 0);
	cr_assert_eq(watch_at(&o, o.fd)->wake, -1);
}

Test(ready_epoll_forms, one_of_which_nobody_knows_yet)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN | EPOLLET);
	struct rr_ep_watch *w = watch_at(&o, o.fd);

	cr_assert_eq(ncalls, 2);
	assert_call(0, o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN | EPOLLET, app_data(&o));
	assert_call(1, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLET, w->key);
	cr_assert(w->form == RR_EP_PASS && w->set->tagged == 1 && !w->active);
	cr_assert_eq(inner_of(&o), -1);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLOUT);
	cr_assert_eq(ncalls, 3);
	assert_call(2, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLOUT, w->key);
	/* The same again, which arms edges and ONESHOT anew. */
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLOUT);
	cr_assert_eq(ncalls, 4);
	cr_assert_eq(look(&o, 0), 1);
	cr_assert_eq(ncalls, 4);
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(ncalls, 5);
	assert_call(4, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLOUT, app_data(&o));
	cr_assert(w->form == RR_EP_PLAIN && !w->set->tagged);
	/* And from here on it is the kernel's own. */
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN);
	cr_assert_eq(ncalls, 6);
	assert_call(5, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN, app_data(&o));
	cr_assert_eq(w->kmask, EPOLLIN);
	cr_assert_eq(w->app.events, EPOLLIN);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	cr_assert_eq(ncalls, 7);
	assert_call(6, o.ep, EPOLL_CTL_DEL, o.fd, 0, 0);
}

/* The kernel's hang-up of what is not connected is told once. */
Test(ready_epoll_forms, one_that_awaits_an_answer)
{
	struct one o = begin(RR_FAKE_WAITING, EPOLLIN);
	struct rr_ep_watch *w = watch_at(&o, o.fd);

	o.c->until = rr_now() + 60 * RR_SEC;
	cr_assert_eq(ncalls, 5);
	assert_call(3, inner_of(&o), EPOLL_CTL_ADD, o.c->wake, EPOLLIN, w->key);
	assert_call(4, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLET, w->key);
	cr_assert_eq(w->kmask, EPOLLET);
	cr_assert_eq(look(&o, 1), 0);
	cr_assert(w->active, "its time must be looked at");
}

/* What the kernel has told was the connection's, and the kernel tells a level again by itself. */
Test(ready_epoll_forms, a_level_that_was_not_the_apps_is_not_armed_again)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN);

	o.c->offer = true;
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert(o.c->swallowed == 1 && ncalls == 2);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
	cr_assert_eq(ncalls, 2);
}

Test(ready_epoll_forms, a_oneshot_that_has_fired_is_hushed)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLONESHOT);
	struct rr_ep_watch *w = watch_at(&o, o.fd);

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	cr_assert(w->fired && !w->active);
	cr_assert_eq(ncalls, 5);
	rr_fake_become(o.c, o.fd, RR_FAKE_NEW);
	cr_assert_eq(ncalls, 7);
	assert_call(5, inner_of(&o), EPOLL_CTL_DEL, o.c->wake, 0, 0);
	assert_call(6, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLET | EPOLLONESHOT, w->key);
	cr_assert(w->form == RR_EP_HUSHED && w->set->tagged == 1);
	rr_fake_become(o.c, o.fd, RR_FAKE_CARRIED);
	cr_assert_eq(ncalls, 8);
	assert_call(7, inner_of(&o), EPOLL_CTL_ADD, o.c->wake, EPOLLIN, w->key);
	cr_assert_eq(w->form, RR_EP_HUSHED);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN);
	cr_assert_eq(ncalls, 9);
	assert_call(8, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLRDHUP, w->key);
	cr_assert(w->form == RR_EP_MANAGED && !w->fired && w->active);
	expect(&o, EPOLLIN);
	expect(&o, EPOLLIN);
}

/* What the kernel cannot modify is taken out and put in; in our forms it goes without. */
Test(ready_epoll_forms, one_that_is_exclusive)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN | EPOLLEXCLUSIVE);
	struct rr_ep_watch *w = watch_at(&o, o.fd);

	cr_assert_eq(ncalls, 3);
	assert_call(0, o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN | EPOLLEXCLUSIVE, app_data(&o));
	assert_call(1, o.ep, EPOLL_CTL_DEL, o.fd, 0, 0);
	assert_call(2, o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN, w->key);
	cr_assert_not(w->exclusive);
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(ncalls, 5);
	assert_call(3, o.ep, EPOLL_CTL_DEL, o.fd, 0, 0);
	assert_call(4, o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN | EPOLLEXCLUSIVE, app_data(&o));
	cr_assert(w->exclusive);
	cr_assert_eq(w->kmask, EPOLLIN | EPOLLEXCLUSIVE);
}

/* The kernel holds the wake-up descriptor once; who goes leaves it to another. */
Test(ready_epoll_forms, numbers_of_one_connection_share_its_bell)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	int fd = rr_wrap_dup(o.fd), in = inner_of(&o);
	struct rr_ep_watch *w, *v;
	struct rr_ep_set *s;

	ctl(o.ep, EPOLL_CTL_ADD, fd, EPOLLIN);
	w = watch_at(&o, o.fd);
	v = watch_at(&o, fd);
	s = w->set;
	cr_assert_eq(ncalls, 8);
	assert_call(6, in, EPOLL_CTL_ADD, o.c->wake, EPOLLIN, v->key);
	assert_call(7, o.ep, EPOLL_CTL_MOD, fd, EPOLLRDHUP, v->key);
	cr_assert(w->wake == o.c->wake && v->wake == o.c->wake);
	cr_assert_eq(s->tagged, 2);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	cr_assert_eq(ncalls, 10);
	assert_call(8, o.ep, EPOLL_CTL_DEL, o.fd, 0, 0);
	assert_call(9, in, EPOLL_CTL_MOD, o.c->wake, EPOLLIN, v->key);
	cr_assert(!w->set && v->wake == o.c->wake && s->all == v && !v->set_next);
	cr_assert_eq(s->tagged, 1);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, fd, NULL), 0);
	cr_assert_eq(ncalls, 12);
	assert_call(11, in, EPOLL_CTL_DEL, o.c->wake, 0, 0);
	cr_assert(!s->all && !s->first && !s->last && !s->tagged);
}

Test(ready_epoll_forms, an_error_of_the_kernels_leaves_no_watch)
{
	struct one o = begin(RR_FAKE_TCP, EPOLLIN);
	struct epoll_event ev = { .events = EPOLLOUT };
	struct rr_ep_watch *w = watch_at(&o, o.fd);
	int fd = tcp(&o.peer);

	cr_assert_eq(ncalls, 1, "it is the app's own");
	cr_assert_eq(w->form, RR_EP_PLAIN);
	rr_fake_conn(fd, RR_FAKE_CARRIED);
	ev.events = EPOLLET | EPOLLEXCLUSIVE | EPOLLONESHOT;
	errno = 0;
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_ADD, fd, &ev), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(watch_at(&o, fd));
	ev.events = EPOLLIN | EPOLLEXCLUSIVE;
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_MOD, o.fd, &ev), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(w->app.events, EPOLLIN, "it is as it was");
	cr_assert_eq(w->kmask, EPOLLIN);
}

Test(ready_epoll_forms, what_succeeds_leaves_errno_alone)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	errno = 4711;
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLOUT);
	cr_assert_eq(errno, 4711);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	cr_assert_eq(errno, 4711);
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
	cr_assert_eq(errno, 4711);
}

/* --- without an inner set --- */

static int no_create(int flags RR_UNUSED)
{
	errno = EMFILE;
	return -1;
}

static int refused_op;	/* the call in an inner set's making that fails: 1, 2 */

static int refuse_inner(int epfd, int op, int fd, struct epoll_event *ev)
{
	if (op == EPOLL_CTL_ADD && refused_op && !--refused_op) {
		errno = ENOSPC;
		return -1;
	}
	return noted_ctl(epfd, op, fd, ev);
}

/* It is asked when somebody waits, and put in when there is one. */
Test(ready_epoll_forms, where_no_inner_set_can_be_made_there_is_none)
{
	typeof(rr_real.epoll_create1) create = epoll_create1;
	struct one o = { .ep = rr_wrap_epoll_create1(EPOLL_CLOEXEC) };
	struct rr_ep_watch *w;

	rr_real.epoll_create1 = no_create;
	o.fd = tcp(&o.peer);
	o.c = rr_fake_conn(o.fd, RR_FAKE_CARRIED);
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
	w = watch_at(&o, o.fd);
	cr_assert_eq(ncalls, 2, "nothing is put into what is not there");
	assert_call(1, o.ep, EPOLL_CTL_MOD, o.fd, EPOLLRDHUP, w->key);
	cr_assert(w->wake == -1 && inner_of(&o) == -1);
	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	rr_real.epoll_create1 = create;
	o.c->ready = 0;
	cr_assert_eq(look(&o, 1), 0);
	cr_assert_eq(w->wake, o.c->wake);
	cr_assert_geq(inner_of(&o), 0);
}

Test(ready_epoll_forms, an_inner_set_that_is_not_put_in_is_closed)
{
	for (int op = 1; op <= 2; op++) {
		struct one o = { .ep = rr_wrap_epoll_create1(EPOLL_CLOEXEC) };
		struct one first = begin(RR_FAKE_CARRIED, EPOLLIN);	/* makes the bell */
		int before;

		o.fd = tcp(&o.peer);
		o.c = rr_fake_conn(o.fd, RR_FAKE_NEW);
		ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
		before = open_fds();
		rr_real.epoll_ctl = refuse_inner;
		refused_op = op;
		rr_fake_become(o.c, o.fd, RR_FAKE_CARRIED);
		cr_assert_eq(refused_op, 0);
		cr_assert_eq(inner_of(&o), -1);
		cr_assert_eq(watch_at(&o, o.fd)->wake, -1);
		cr_assert_eq(open_fds(), before);
		rr_real.epoll_ctl = noted_ctl;
		rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
		rr_fake_become(first.c, first.fd, RR_FAKE_TCP);
		ncalls = 0;
	}
}

/* --- keys --- */

Test(ready_epoll_forms, a_key_is_known_after_its_watch_is_gone)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = watch_at(&o, o.fd);
	uint64_t key = w->key, no_keys[] = { 0, 7, key ^ UINT64_C(1) << 20, key ^ UINT64_C(1) << 63, key | 0xfffff,
					     (key & ~UINT64_C(0xfffff)) | 256 };
	bool ours = false;

	cr_assert_eq(rr_ep_by_key(key, &ours), w);
	cr_assert(ours);
	for (size_t i = 0; i < rr_array_size(no_keys); i++) {
		ours = true;
		cr_assert_null(rr_ep_by_key(no_keys[i], &ours), "%zu", i);
		cr_assert_not(ours, "%zu", i);
	}
	cr_assert_null(rr_ep_by_key((key & ~UINT64_C(0xfffff)) | 255, &ours));
	cr_assert(ours, "a watch that was never used");
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	ours = false;
	cr_assert_null(rr_ep_by_key(key, &ours));
	cr_assert(ours);
}

/* An event that the kernel had under way for it is not the app's. */
Test(ready_epoll_forms, an_event_of_a_watch_that_is_gone_is_nobodys)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), other = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = watch_at(&o, o.fd);
	struct rr_ep_set *s = w->set;
	struct epoll_event ev[3] = { { EPOLLIN, { .u64 = w->key } }, { EPOLLOUT, { .u64 = 4711 } },
				     { EPOLLIN, { .u64 = watch_at(&other, other.fd)->key } } };

	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	cr_assert(rr_ep_lock());
	cr_assert_eq(rr_ep_sift(s, ev, 3, 0), 1);
	rr_ep_unlock();
	cr_assert(ev[0].events == EPOLLOUT && ev[0].data.u64 == 4711);
	cr_assert_null(s->first);
	cr_assert_not(watch_at(&other, other.fd)->news, "it is another set's");
}

/* --- who goes on looking when a thread goes back to the app --- */

Test(ready_epoll_forms, a_deadline_is_left_to_who_sleeps_and_to_nobody_else)
{
	struct one o = begin(RR_FAKE_WAITING, EPOLLIN);
	struct rr_ep_set *s = watch_at(&o, o.fd)->set;

	o.c->until = rr_now() + 60 * RR_SEC;
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_not(s->kicked, "nobody sleeps");
	s->nested = true;
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_not(s->kicked, "who waits for the set knows the deadline");
	cr_assert_not(readable(s->inner));
	atomic_store(&s->sleepers, 1);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert(s->kicked);
	cr_assert(readable(s->inner));
	cr_assert(readable(o.ep));
	atomic_store(&s->sleepers, 0);
}

Test(ready_epoll_forms, news_are_left_to_who_sleeps)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = watch_at(&o, o.fd)->set;

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	cr_assert_not(s->kicked);
	atomic_store(&s->sleepers, 1);
	expect(&o, EPOLLIN);
	cr_assert(s->kicked, "there is more");
	atomic_store(&s->sleepers, 0);
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 0), 1);
	cr_assert_not(s->kicked, "whoever looks has taken it in");
	o.c->ready = 0;
	cr_assert_eq(look(&o, 0), 0);
	atomic_store(&s->sleepers, 1);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_not(s->kicked, "it is armed");
	cr_assert_null(s->first);
	atomic_store(&s->sleepers, 0);
}

Test(ready_epoll_forms, what_did_not_fit_is_left_to_who_sleeps)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = watch_at(&o, o.fd)->set;
	int peer, fd = tcp(&peer);

	rr_fake_conn(fd, RR_FAKE_CARRIED)->ready = POLLIN;
	ctl(o.ep, EPOLL_CTL_ADD, fd, EPOLLIN);
	o.c->ready = POLLIN;
	cr_assert_eq(rr_wrap_epoll_wait(o.ep, o.ev, 1, 0), 1);
	cr_assert(s->kernel_first && !s->kicked);
	cr_assert_eq(rr_wrap_epoll_wait(o.ep, o.ev, 8, 0), 2, "it is the kernel's turn, which has nothing");
	cr_assert_not(s->kernel_first);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(rr_wrap_epoll_wait(o.ep, o.ev, 1, 0), 1, "%d", i);
	cr_assert_eq(rr_wrap_epoll_wait(o.ep, o.ev, 8, 0), 2);
	s->kicked = false;
	atomic_store(&s->sleepers, 1);
	cr_assert_eq(rr_wrap_epoll_wait(o.ep, o.ev, 1, 0), 1);
	cr_assert(s->kicked);
	atomic_store(&s->sleepers, 0);
}

/* --- sockets that turn and go --- */

Test(ready_epoll_forms, what_turns_without_a_number_is_nobodys)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	int peer, other = tcp(&peer);

	rr_sock_turned(o.c, -1);
	rr_sock_turned(o.c, other);
	cr_assert_eq(ncalls, 5);
	/* By another connection's number its own is not told. */
	rr_fake_conn(other, RR_FAKE_CARRIED);
	o.c->face.state = RR_FAKE_TCP;
	o.c->face.changed = true;
	rr_sock_turned(o.c, other);
	cr_assert_eq(ncalls, 5);
	cr_assert(o.c->face.changed);
}

Test(ready_epoll_forms, what_turns_is_told_by_its_number)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN);
	struct rr_sock *so = rr_fdt_sock(o.fd);

	o.c->face.state = RR_FAKE_CARRIED;
	o.c->face.changed = true;
	rr_sock_turned(o.c, o.fd);
	cr_assert_eq(watch_at(&o, o.fd)->form, RR_EP_MANAGED);
	cr_assert_eq(so->f.refs, 2);
	rr_file_put(&so->f);
}

static unsigned count_dels(int epfd, int fd)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ncalls; i++)
		n += calls[i].op == EPOLL_CTL_DEL && calls[i].epfd == epfd && calls[i].fd == fd;
	return n;
}

/* A child of a fork may keep the file open: what bears a key of ours goes while the number reaches it. */
Test(ready_epoll_forms, a_socket_that_goes_takes_what_bears_our_key_along)
{
	static const struct { enum rr_fake_state state; unsigned dels; } c[] = {
		{ RR_FAKE_CARRIED, 1 }, { RR_FAKE_NEW, 1 }, { RR_FAKE_TCP, 0 },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		struct one o = begin(c[i].state, EPOLLIN);
		struct rr_sock *so = rr_fdt_sock(o.fd);

		ncalls = 0;
		errno = 4711;
		rr_ep_sock_gone(so, o.fd);
		cr_assert_eq(errno, 4711);
		cr_assert_eq(count_dels(o.ep, o.fd), c[i].dels, "%zu", i);
		cr_assert_null(so->watches);
		rr_file_put(&so->f);
	}
}

Test(ready_epoll_forms, what_went_by_another_number_is_out_of_reach)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_sock *so = rr_fdt_sock(o.fd);
	int fd = rr_wrap_dup(o.fd), peer, other = tcp(&peer);

	ctl(o.ep, EPOLL_CTL_ADD, fd, EPOLLIN);
	ncalls = 0;
	rr_ep_sock_gone(so, fd);
	cr_assert_eq(count_dels(o.ep, fd), 1);
	cr_assert_eq(count_dels(o.ep, o.fd), 0);
	cr_assert_null(so->watches);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN);	/* by the kernel alone */
	/* The number is another file's by now. */
	ctl(o.ep, EPOLL_CTL_DEL, o.fd, 0);
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
	cr_assert_eq(dup2(other, o.fd), o.fd);
	ncalls = 0;
	rr_ep_sock_gone(so, o.fd);
	cr_assert_eq(count_dels(o.ep, o.fd), 0);
	cr_assert_null(so->watches);
	rr_file_put(&so->f);
}
