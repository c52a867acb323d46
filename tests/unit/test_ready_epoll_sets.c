/* SPDX-License-Identifier: BSD-3-Clause */
/* Several numbers, several sleepers, several sets, sets within sets. */
#include <errno.h>
#include <sys/syscall.h>

#include "tests/unit/ready_epoll.h"

TestSuite(ready_epoll_sets, .timeout = 60);

Test(ready_epoll_sets, closing_the_last_fd_ends_its_watch)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_sock *so = rr_fdt_sock(o.fd);
	struct rr_file *f;
	bool last;

	o.c->ready = POLLIN;
	f = rr_fdt_take(o.fd, &last);
	cr_assert(last);
	rr_ep_sock_gone(so, o.fd);
	close(o.fd);
	cr_assert_eq(look(&o, 10), 0);
	cr_assert_null(so->watches);
	rr_file_put(f);
	rr_file_put(&so->f);
}

Test(ready_epoll_sets, a_registration_outlives_its_number_while_a_dup_is_open)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_sock *so = rr_fdt_sock(o.fd);
	int fd = dup(o.fd);
	struct rr_file *f;
	bool last;

	rr_fdt_give(fd, &so->f);
	f = rr_fdt_take(o.fd, &last);
	cr_assert(!last);
	close(o.fd);
	rr_file_put(f);
	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
}

Test(ready_epoll_sets, dups_are_watched_each_for_itself)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_sock *so = rr_fdt_sock(o.fd);
	int fd = dup(o.fd);
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

	rr_fdt_give(fd, &so->f);
	ctl(o.ep, EPOLL_CTL_ADD, fd, EPOLLIN);
	start(&l);
	cr_assert_eq(look(&o, -1), 2);
	finish(&l);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	o.c->ready = 0;
	cr_assert_eq(look(&o, 10), 0);
	start(&l);
	cr_assert_eq(look(&o, -1), 1);
	finish(&l);
	cr_assert_eq(o.ev[0].data.u64 >> 32, (uint64_t)fd);
}

Test(ready_epoll_sets, two_sets_both_hear_of_a_doorbell)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct one p = o;
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

	p.ep = rr_wrap_epoll_create1(0);
	ctl(p.ep, EPOLL_CTL_ADD, p.fd, EPOLLIN | EPOLLET);
	cr_assert_eq(look(&o, 5), 0);
	cr_assert_eq(look(&p, 5), 0);
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
	expect(&p, EPOLLIN);
}

struct waiter {
	struct one o;
	pthread_t thread;
	_Atomic pid_t tid;
};

static void *wait_in(void *arg)
{
	struct waiter *w = arg;

	w->tid = gettid();
	expect(&w->o, EPOLLIN);
	return NULL;
}

static void start_waiter(struct waiter *w)
{
	cr_assert_eq(pthread_create(&w->thread, NULL, wait_in, w), 0);
	while (!w->tid)
		usleep(1000);
	await_asleep(w->tid);
}

Test(ready_epoll_sets, sleepers_of_several_sets_all_wake)
{
	struct waiter w[4] = { { .o = begin(RR_FAKE_CARRIED, EPOLLIN) } };

	for (int i = 0; i < 4; i++) {
		w[i].o = w[0].o;
		if (i) {
			w[i].o.ep = rr_wrap_epoll_create1(0);
			ctl(w[i].o.ep, EPOLL_CTL_ADD, w[i].o.fd, EPOLLIN);
		}
		start_waiter(&w[i]);
	}
	rr_fake_ready(w[0].o.c, POLLIN, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(w[i].thread, NULL);
}

Test(ready_epoll_sets, sleepers_of_one_set_are_told_a_level_one_after_the_other)
{
	struct waiter w[3] = { { .o = begin(RR_FAKE_CARRIED, EPOLLIN) } };

	for (int i = 0; i < 3; i++) {
		w[i].o = w[0].o;
		start_waiter(&w[i]);
	}
	rr_fake_ready(w[0].o.c, POLLIN, 0);
	for (int i = 0; i < 3; i++)
		pthread_join(w[i].thread, NULL);
}

Test(ready_epoll_sets, a_set_in_poll_is_readable_exactly_when_it_has_something)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct pollfd p = { o.ep, POLLIN, 0 };
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

	cr_assert_eq(rr_wrap_poll(&p, 1, 10), 0);
	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	finish(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, 0), 1);
	o.c->ready = 0;
	cr_assert_eq(rr_wrap_poll(&p, 1, 10), 0);
}

Test(ready_epoll_sets, an_offer_does_not_make_a_set_readable)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN);
	struct pollfd p = { o.ep, POLLIN, 0 };

	o.c->offer = true;
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(&p, 1, 20), 0);
	cr_assert_eq(o.c->swallowed, 1);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
}

Test(ready_epoll_sets, a_set_within_a_set_wakes_the_outer_one)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct one outer = { .ep = rr_wrap_epoll_create1(0), .fd = o.ep };
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

	ctl(outer.ep, EPOLL_CTL_ADD, o.ep, EPOLLIN);
	start(&l);
	do
		expect(&outer, EPOLLIN);
	while (!look(&o, 0));
	expect(&o, EPOLLIN);
	finish(&l);
	o.c->ready = 0;
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(look(&outer, 10), 0);
}

Test(ready_epoll_sets, a_level_left_unread_keeps_the_outer_set_ready)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct one outer = { .ep = rr_wrap_epoll_create1(0), .fd = o.ep };

	ctl(outer.ep, EPOLL_CTL_ADD, o.ep, EPOLLIN);
	rr_fake_ready(o.c, POLLIN, 0);
	for (int i = 0; i < 3; i++) {
		expect(&outer, EPOLLIN);
		expect(&o, EPOLLIN);
	}
}

/* One that another process has sent, or that was made behind our back: it is taken in with the first connection. What
 * is no set is not. */
Test(ready_epoll_sets, a_set_that_nobody_saw_being_made)
{
	struct one o = { .ep = (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC) };
	struct epoll_event ev = { .events = EPOLLIN }, once = { .events = EPOLLIN | EPOLLONESHOT };
	struct rr_ep_set *s;
	int pipes[2];

	cr_assert_eq(pipe(pipes), 0);
	once.data.u64 = 99;
	o.fd = tcp(&o.peer);
	o.c = rr_fake_conn(o.fd, RR_FAKE_CARRIED);
	cr_assert_null(rr_ep_at(o.ep));
	cr_assert_eq(write(pipes[1], "", 1), 1);
	cr_assert_eq(epoll_ctl(o.ep, EPOLL_CTL_ADD, pipes[0], &once), 0);
	errno = EXDEV;
	o.c->ready = POLLIN;
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
	cr_assert_eq(errno, EXDEV);
	s = rr_ep_at(o.ep);
	cr_assert_not_null(s);
	rr_file_put(&s->f);
	for (int seen = 0, i = 0; seen != 3; i++) {
		int n = look(&o, 10000);

		cr_assert_lt(i, 4);
		for (int k = 0; k < n; k++)
			seen |= o.ev[k].data.u64 == once.data.u64 ? 1 : 2;
	}
	cr_assert_eq(rr_wrap_epoll_ctl(pipes[0], EPOLL_CTL_ADD, o.fd, &ev), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(rr_ep_at(pipes[0]));
}

/* Who waits for the outer set looks at the inner one when the time of its connection is over, beside what it has itself. */
Test(ready_epoll_sets, a_set_within_is_shown_when_its_time_has_come)
{
	struct one in = begin(RR_FAKE_WAITING, EPOLLOUT), out = begin(RR_FAKE_CARRIED, EPOLLIN);
	rr_time from = rr_now();

	in.c->until = from + 50 * RR_MSEC;
	ctl(out.ep, EPOLL_CTL_ADD, in.ep, EPOLLIN);
	cr_assert_eq(look(&out, -1), 1);
	cr_assert_eq(out.ev[0].data.u64 >> 32, (uint64_t)in.ep);
	cr_assert_geq(rr_now(), from + 50 * RR_MSEC);
	expect(&in, EPOLLOUT);
}
