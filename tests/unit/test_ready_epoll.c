/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets with scripted connections in them. */
#include <sys/epoll.h>
#include <sys/wait.h>

#include "core/base/ownfd.h"
#include "preload/epset.h"
#include "tests/lib/ready_test.h"

struct one {
	int ep, fd, peer;
	struct rr_conn *c;
	struct epoll_event ev[8];
};

static void ctl(int ep, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = (uint64_t)fd << 32 | 7 };

	cr_assert_eq(rr_wrap_epoll_ctl(ep, op, fd, &ev), 0);
}

static struct one begin(enum rr_fake_state state, uint32_t events)
{
	struct one o = { .ep = rr_wrap_epoll_create1(EPOLL_CLOEXEC) };

	o.fd = tcp(&o.peer);
	o.c = rr_fake_conn(o.fd, state);
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, events);
	return o;
}

static int look(struct one *o, int timeout)
{
	return rr_wrap_epoll_wait(o->ep, o->ev, 8, timeout);
}

static void expect(struct one *o, uint32_t bits)
{
	cr_assert_eq(look(o, -1), 1);
	cr_assert_eq(o->ev[0].events, bits, "%x", o->ev[0].events);
	cr_assert_eq(o->ev[0].data.u64, (uint64_t)o->fd << 32 | 7);
}

static void dry(struct one *o, unsigned want)
{
	struct rr_sock *so = rr_fdt_sock(o->fd);

	rr_sock_dry(so, want);
	rr_file_put(&so->f);
}

Test(ready_epoll, level_triggered_is_told_while_it_holds)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLRDNORM);

	cr_assert_eq(look(&o, 0), 0);
	o.c->ready = POLLIN;
	for (int i = 0; i < 3; i++)
		expect(&o, EPOLLIN | EPOLLRDNORM);
	o.c->ready = 0;
	cr_assert_eq(look(&o, 0), 0);
}

Test(ready_epoll, a_doorbell_wakes_a_sleeper)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
}

Test(ready_epoll, wake_up_fds_that_stay_readable_do_not_keep_a_wait_busy)
{
	enum { N = 150 };
	struct one o[N];

	o[0] = begin(RR_FAKE_CARRIED, EPOLLIN);
	for (int i = 1; i < N; i++) {
		o[i] = o[0];
		o[i].fd = tcp(&o[i].peer);
		o[i].c = rr_fake_conn(o[i].fd, RR_FAKE_CARRIED);
		ctl(o[0].ep, EPOLL_CTL_ADD, o[i].fd, EPOLLIN);
	}
	cr_assert_eq(look(&o[0], 5), 0);
	for (int i = 0; i < N; i++) {
		o[i].c->dead = true;
		rr_fake_ready(o[i].c, 0, 0);
	}
	cr_assert_eq(look(&o[0], 30), 0);
	for (int i = 0; i < N; i++)
		cr_assert_leq(o[i].c->drains, 3, "%u", o[i].c->drains);
}

Test(ready_epoll, bytes_on_the_anchor_are_not_the_apps)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	cr_assert_eq(write(o.peer, "mark", 4), 4);
	cr_assert_eq(look(&o, 30), 0);
}

Test(ready_epoll, hang_up_and_error_are_told_unasked)
{
	struct one o = begin(RR_FAKE_CARRIED, 0);

	o.c->ready = POLLHUP | POLLERR | POLLIN;
	expect(&o, EPOLLHUP | EPOLLERR);
}

Test(ready_epoll, an_edge_is_told_once)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLOUT | EPOLLET);

	o.c->ready = POLLIN | POLLOUT;
	expect(&o, EPOLLIN | EPOLLOUT);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(look(&o, 20), 0);
}

Test(ready_epoll, a_bit_that_went_and_came_is_an_edge)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLET);

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	o.c->ready = 0;
	cr_assert_eq(look(&o, 0), 0);
	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
}

Test(ready_epoll, a_bit_that_the_app_used_up_in_between_is_an_edge)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLET);

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	dry(&o, POLLIN);
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 0), 0);
}

Test(ready_epoll, more_to_read_is_an_edge_even_if_the_app_left_some)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLET);
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	start(&l);	/* asleep, armed for more although IN holds */
	expect(&o, EPOLLIN);
	finish(&l);
	o.c->inq = 100;
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 0), 0);
}

Test(ready_epoll, oneshot_is_told_once_until_mod)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLONESHOT);

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 0), 0);
	rr_fake_ready(o.c, POLLHUP, 0);
	cr_assert_eq(look(&o, 20), 0);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLONESHOT);
	expect(&o, EPOLLIN | EPOLLHUP);
	cr_assert_eq(look(&o, 0), 0);
}

static void modify(struct later *l)
{
	ctl((int)l->add, EPOLL_CTL_MOD, l->fd, EPOLLIN | EPOLLONESHOT);
}

Test(ready_epoll, mod_by_another_thread_wakes_a_sleeper)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLONESHOT);
	struct later l = { .fd = o.fd, .add = (unsigned)o.ep, .what = modify };

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
}

static void add_it(struct later *l)
{
	ctl((int)l->add, EPOLL_CTL_ADD, l->fd, EPOLLIN);
}

Test(ready_epoll, add_by_another_thread_wakes_a_sleeper_of_an_empty_set)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .fd = o.fd, .what = add_it };

	o.c->ready = POLLIN;
	o.ep = rr_wrap_epoll_create(1);
	l.add = (unsigned)o.ep;
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
}

Test(ready_epoll, ctl_errors_are_the_kernels)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct epoll_event ev = { .events = EPOLLIN };
	int other, fd = tcp(&other);

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_ADD, o.fd, &ev), -1);
	cr_assert_eq(errno, EEXIST);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_MOD, fd, &ev), -1);
	cr_assert_eq(errno, ENOENT);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, fd, &ev), -1);
	cr_assert_eq(errno, ENOENT);
	cr_assert_eq(rr_wrap_epoll_ctl(o.fd, EPOLL_CTL_ADD, fd, &ev), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(rr_wrap_epoll_ctl(999, EPOLL_CTL_ADD, fd, &ev), -1);
	cr_assert_eq(errno, EBADF);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_ADD, fd, NULL), -1);
	cr_assert_eq(errno, EFAULT);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), -1);
	cr_assert_eq(errno, ENOENT);
	cr_assert_eq(rr_wrap_epoll_wait(o.ep, o.ev, 0, 0), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(rr_wrap_epoll_wait(o.fd, o.ev, 1, 0), -1);
	cr_assert_eq(errno, EINVAL);
}

Test(ready_epoll, exclusive_has_the_kernels_limits)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLEXCLUSIVE);
	struct epoll_event ev = { .events = EPOLLIN };

	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_MOD, o.fd, &ev), -1);
	cr_assert_eq(errno, EINVAL);
	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	ev.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_ADD, o.fd, &ev), -1);
	cr_assert_eq(errno, EINVAL);
}

Test(ready_epoll, a_new_connection_behaves_as_in_the_kernel)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN | EPOLLET);

	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 10), 0);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLONESHOT);
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 10), 0);
}

Test(ready_epoll, an_offer_is_taken_in_and_the_oneshot_stays_armed)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN | EPOLLONESHOT);
	struct later l = { .fd = o.peer, .what = write_pipe };

	o.c->offer = true;
	start(&l);
	cr_assert_eq(look(&o, 60), 0);
	finish(&l);
	if (!o.c->swallowed)	/* a busy machine: it came after the time-out */
		cr_assert_eq(look(&o, 60), 0);
	cr_assert_eq(o.c->swallowed, 1);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
}

struct become {
	struct one *o;
	enum rr_fake_state state;
	pthread_t thread;
};

static void *become_later(void *arg)
{
	struct become *b = arg;

	usleep(20000);
	rr_fake_become(b->o->c, b->o->fd, b->state);
	usleep(20000);
	if (b->state == RR_FAKE_CARRIED)
		rr_fake_ready(b->o->c, POLLIN, 0);
	else
		cr_assert_eq(write(b->o->peer, "x", 1), 1);
	return NULL;
}

Test(ready_epoll, a_connection_becomes_carried_while_a_thread_sleeps_in_its_set)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN);
	struct become b = { .o = &o, .state = RR_FAKE_CARRIED };

	pthread_create(&b.thread, NULL, become_later, &b);
	expect(&o, EPOLLIN);
	pthread_join(b.thread, NULL);
}

Test(ready_epoll, a_connection_goes_back_to_tcp_while_a_thread_sleeps_in_its_set)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct become b = { .o = &o, .state = RR_FAKE_TCP };

	pthread_create(&b.thread, NULL, become_later, &b);
	expect(&o, EPOLLIN);
	pthread_join(b.thread, NULL);
	/* The kernel has the app's own data again. */
	cr_assert_eq(epoll_wait(o.ep, o.ev, 8, 0), 1);
	cr_assert_eq(o.ev[0].data.u64, (uint64_t)o.fd << 32 | 7);
}

Test(ready_epoll, a_fired_oneshot_stays_quiet_when_its_connection_becomes_tcp)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLONESHOT);

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(look(&o, 20), 0);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLONESHOT);
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 0), 0);
}

Test(ready_epoll, a_deadline_bounds_the_sleep)
{
	struct one o = begin(RR_FAKE_WAITING, EPOLLOUT);
	rr_time from = rr_now();

	o.c->until = from + 30 * RR_MSEC;
	expect(&o, EPOLLOUT);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
}

static void hold(struct later *l)
{
	struct rr_sock *so = rr_fdt_sock(l->fd);

	l->c->until = rr_now() + 20 * RR_MSEC;
	l->c->state = RR_FAKE_WAITING;
	rr_sock_dry(so, POLLOUT);
	rr_file_put(&so->f);
}

Test(ready_epoll, a_send_that_was_held_back_elsewhere_gives_a_sleeper_its_deadline)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN | EPOLLOUT | EPOLLET);
	struct later l = { .c = o.c, .fd = o.fd, .what = hold };

	expect(&o, EPOLLOUT);
	start(&l);
	expect(&o, EPOLLOUT);
	cr_assert(rr_conn_is_tcp(o.c));
	finish(&l);
}

Test(ready_epoll, idle_connections_are_not_asked)
{
	enum { N = 100 };
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_conn *c[N];

	for (int i = 0; i < N; i++) {
		int fd = dup(o.fd);

		c[i] = rr_fake_conn(fd, RR_FAKE_CARRIED);
		ctl(o.ep, EPOLL_CTL_ADD, fd, EPOLLIN);
	}
	cr_assert_eq(look(&o, 5), 0);
	for (int i = 0; i < N; i++)
		c[i]->polls = 0;
	o.c->ready = POLLIN;
	for (int i = 0; i < 100; i++)
		look(&o, 0);
	for (int i = 0; i < N; i++)
		cr_assert_eq(c[i]->polls, 0);
	rr_fake_ready(c[42], POLLIN, 0);
	cr_assert_eq(look(&o, 0), 1);
	cr_assert_eq(c[42]->polls, 1);
}

Test(ready_epoll, small_arrays_starve_nobody)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	int pp[2], other, fd = tcp(&other), seen[3] = { 0 };
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);

	cr_assert_eq(pipe(pp), 0);
	ctl(o.ep, EPOLL_CTL_ADD, fd, EPOLLIN);
	ctl(o.ep, EPOLL_CTL_ADD, pp[0], EPOLLIN);
	cr_assert_eq(write(pp[1], "x", 1), 1);
	o.c->ready = c->ready = POLLIN;
	for (int i = 0; i < 12; i++) {
		cr_assert_eq(rr_wrap_epoll_wait(o.ep, o.ev, 1, -1), 1);
		int at = (int)(o.ev[0].data.u64 >> 32);

		seen[at == o.fd ? 0 : at == fd ? 1 : 2]++;
	}
	for (int i = 0; i < 3; i++)
		cr_assert_geq(seen[i], 2);
}

Test(ready_epoll, ours_and_the_kernels_come_together)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	int pp[2];

	cr_assert_eq(pipe(pp), 0);
	ctl(o.ep, EPOLL_CTL_ADD, pp[0], EPOLLIN);
	cr_assert_eq(write(pp[1], "x", 1), 1);
	o.c->ready = POLLIN;
	cr_assert_eq(look(&o, -1), 2);
}

Test(ready_epoll, closing_the_last_fd_ends_its_watch)
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

Test(ready_epoll, a_registration_outlives_its_number_while_a_dup_is_open)
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

Test(ready_epoll, dups_are_watched_each_for_itself)
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

Test(ready_epoll, two_sets_both_hear_of_a_doorbell)
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
};

static void *wait_in(void *arg)
{
	struct waiter *w = arg;

	expect(&w->o, EPOLLIN);
	return NULL;
}

Test(ready_epoll, sleepers_of_several_sets_all_wake)
{
	struct waiter w[4] = { { .o = begin(RR_FAKE_CARRIED, EPOLLIN) } };

	for (int i = 0; i < 4; i++) {
		w[i].o = w[0].o;
		if (i) {
			w[i].o.ep = rr_wrap_epoll_create1(0);
			ctl(w[i].o.ep, EPOLL_CTL_ADD, w[i].o.fd, EPOLLIN);
		}
		pthread_create(&w[i].thread, NULL, wait_in, &w[i]);
	}
	usleep(30000);
	rr_fake_ready(w[0].o.c, POLLIN, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(w[i].thread, NULL);
}

Test(ready_epoll, sleepers_of_one_set_are_told_a_level_one_after_the_other)
{
	struct waiter w[3] = { { .o = begin(RR_FAKE_CARRIED, EPOLLIN) } };

	for (int i = 0; i < 3; i++) {
		w[i].o = w[0].o;
		pthread_create(&w[i].thread, NULL, wait_in, &w[i]);
	}
	usleep(30000);
	rr_fake_ready(w[0].o.c, POLLIN, 0);
	for (int i = 0; i < 3; i++)
		pthread_join(w[i].thread, NULL);
}

Test(ready_epoll, a_set_in_poll_is_readable_exactly_when_it_has_something)
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

Test(ready_epoll, an_offer_does_not_make_a_set_readable)
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

Test(ready_epoll, a_set_within_a_set_wakes_the_outer_one)
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

Test(ready_epoll, a_level_left_unread_keeps_the_outer_set_ready)
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

Test(ready_epoll, spinning_sees_ours_and_the_kernels)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };
	struct later m = { .what = write_pipe };
	int pp[2];

	cr_assert_eq(pipe(pp), 0);
	m.fd = pp[1];
	ctl(o.ep, EPOLL_CTL_ADD, pp[0], EPOLLIN);
	o.c->spin = 5 * RR_SEC;
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
	o.c->ready = 0;
	start(&m);
	cr_assert_eq(look(&o, -1), 1);
	cr_assert_eq(o.ev[0].data.u64 >> 32, (uint64_t)pp[0]);
	finish(&m);
	cr_assert_eq(o.c->arms, 0);
}

static void on_signal(int sig RR_UNUSED)
{
}

Test(ready_epoll, pwait_lets_a_pending_signal_in)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct timespec none = { 0, 0 };
	sigset_t block;

	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, NULL);
	sigemptyset(&block);
	raise(SIGUSR1);
	cr_assert_eq(rr_wrap_epoll_pwait(o.ep, o.ev, 8, 1000, &block), -1);
	cr_assert_eq(errno, EINTR);
	cr_assert_eq(rr_wrap_epoll_pwait(o.ep, o.ev, 8, 0, &block), 0);
	raise(SIGUSR1);
	/* Who does not wait is not interrupted: so the kernel does it. */
	cr_assert_eq(rr_wrap_epoll_pwait2(o.ep, o.ev, 8, &none, &block), 0);
	cr_assert_eq(rr_wrap_epoll_pwait2(o.ep, o.ev, 8, NULL, &block), -1);
	cr_assert_eq(errno, EINTR);
}

Test(ready_epoll, pwait2_waits_at_least_its_nanoseconds)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct timespec ts = { 0, 1500000 }, bad = { 0, -1 };
	rr_time from = rr_now();

	cr_assert_eq(rr_wrap_epoll_pwait2(o.ep, o.ev, 8, &ts, NULL), 0);
	cr_assert_geq(rr_now() - from, 1500 * RR_USEC);
	cr_assert_eq(rr_wrap_epoll_pwait2(o.ep, o.ev, 8, &bad, NULL), -1);
	cr_assert_eq(errno, EINVAL);
}

static void *wait_for_ever(void *arg)
{
	look(arg, -1);
	return NULL;
}

Test(ready_epoll, a_cancelled_sleeper_lets_go)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = rr_ep_at(o.ep);
	pthread_t t;
	void *how;

	pthread_create(&t, NULL, wait_for_ever, &o);
	while (!s->sleepers)
		usleep(1000);
	pthread_cancel(t);
	pthread_join(t, &how);
	cr_assert_eq(how, PTHREAD_CANCELED);
	cr_assert_eq(s->sleepers, 0);
	cr_assert_eq(s->f.refs, 2);
}

Test(ready_epoll, a_child_that_closes_what_it_inherited_changes_nothing_for_its_parent)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };
	bool last;
	pid_t pid;

	cr_assert_eq(look(&o, 5), 0);
	pid = fork();
	if (!pid) {
		struct rr_file *f;

		f = rr_fdt_take(o.fd, &last);
		rr_ep_sock_gone(container_of(f, struct rr_sock, f), o.fd);
		close(o.fd);
		f = rr_fdt_take(o.ep, &last);
		close(o.ep);
		rr_file_put(f);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
}

Test(ready_epoll, a_child_whose_parent_is_gone_takes_a_set_over)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	int status;
	pid_t pid;

	cr_assert_eq(look(&o, 5), 0);
	pid = fork();
	if (!pid) {
		struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

		start(&l);
		_exit(look(&o, -1) == 1 && o.ev[0].events == EPOLLIN ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	cr_assert_eq(status, 0);
}

Test(ready_epoll, success_leaves_errno_alone)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	errno = 4711;
	cr_assert_eq(look(&o, 5), 0);
	o.c->ready = POLLIN;
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN);
	expect(&o, EPOLLIN);
	cr_assert_eq(errno, 4711);
}

Test(ready_epoll, our_own_fds_are_known_to_be_ours)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = rr_ep_at(o.ep);
	int inner = s->inner;

	cr_assert(rr_ownfd_is(inner));
	cr_assert(!rr_ownfd_is(o.ep));
	cr_assert_gt(inner, 900);
	rr_file_put(&s->f);
	close(o.ep);
	rr_fdt_evict(o.ep);
	cr_assert(!rr_ownfd_is(inner));
}

/* It forks within a call of ours: what that holds it goes on to hold. */
Test(ready_epoll, a_handler_that_forks_leaves_the_lock_to_who_has_it)
{
	cr_assert(rr_ep_lock());
	rr_ep_fork_prepare();
	rr_ep_fork_parent();
	cr_assert_not(rr_ep_lock(), "it was dropped");
	rr_ep_unlock();
}
