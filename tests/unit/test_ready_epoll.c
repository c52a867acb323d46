/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets with scripted connections in them: what is told, and when. */
#include "tests/unit/ready_epoll.h"

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

/* What keeps it from going to sleep is none: the array has only what was told. */
Test(ready_epoll, news_that_is_not_the_apps_is_no_event)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	o.c->restless = true;
	cr_assert_eq(look(&o, 30), 0);
	cr_assert_gt(o.c->arms, 0);
	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
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

/* A set may come to tell edges later. */
Test(ready_epoll, a_bit_that_was_used_up_after_the_app_has_asked_for_edges_is_one)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	o.c->ready = POLLIN;
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLET);
	expect(&o, EPOLLIN);
	dry(&o, POLLIN);
	cr_assert_eq(look(&o, 0), 1);
	cr_assert_eq(look(&o, 0), 0);
}

static const struct rr_ep_watch *watch_of(const struct one *o)
{
	struct rr_sock *so = rr_fdt_sock(o->fd);
	const struct rr_ep_watch *w = so->watches;

	rr_file_put(&so->f);
	return w;
}

/* So a read that empties a socket does not take the lock of all sets. */
Test(ready_epoll, that_all_was_read_is_noted_for_edges_alone)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	dry(&o, POLLIN);
	cr_assert_eq(watch_of(&o)->dry, 0);
	dry(&o, POLLOUT);
	cr_assert_eq(watch_of(&o)->dry, POLLOUT);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLET);
	cr_assert_eq(watch_of(&o)->dry, 0);
	dry(&o, POLLIN);
	cr_assert_eq(watch_of(&o)->dry, POLLIN);
}

/* The read may have begun something that has a deadline. */
Test(ready_epoll, a_watch_is_looked_at_again_after_a_read_that_tcp_brought)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN);

	cr_assert_eq(watch_of(&o)->form, RR_EP_PASS);
	o.c->until = rr_now() + 60 * RR_SEC;
	o.c->face.state = RR_FAKE_WAITING;
	dry(&o, POLLIN);
	cr_assert_eq(watch_of(&o)->form, RR_EP_MANAGED);
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
