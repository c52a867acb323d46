/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets: what rarely happens to a registration, and what is done no more often than it must be. */
#include "tests/unit/ready_epoll.h"

/* The kernel replaces an exclusive registration, which it cannot modify. */
Test(ready_epoll_edges, bytes_on_the_anchor_are_not_the_apps_if_it_is_watched_exclusively_either)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLEXCLUSIVE);

	cr_assert_eq(write(o.peer, "mark", 4), 4);
	cr_assert_eq(look(&o, 30), 0);
	rr_fake_ready(o.c, POLLIN, 0);
	expect(&o, EPOLLIN);
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	o.c->ready = 0;
	expect(&o, EPOLLIN);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	cr_assert_eq(look(&o, 0), 0);
}

/* A socket may be watched before it is connected. */
Test(ready_epoll_edges, a_connection_that_comes_to_a_watched_socket_is_asked_before_the_app_is_told)
{
	struct one o = { .ep = rr_wrap_epoll_create1(0) };
	struct rr_sock *so;
	struct rr_conn *c;

	o.fd = tcp(&o.peer);
	o.c = rr_fake_conn(o.fd, RR_FAKE_NEW);
	so = rr_fdt_sock(o.fd);
	c = atomic_exchange(&so->conn, NULL);
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN);
	atomic_store(&so->conn, c);
	errno = EXDEV;
	rr_ep_sock_conn(so);
	cr_assert_eq(errno, EXDEV);
	c->offer = true;
	cr_assert_eq(write(o.peer, "offer", 5), 5);
	cr_assert_eq(look(&o, 20), 0);
	cr_assert_eq(c->swallowed, 1);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
	rr_file_put(&so->f);
}

/* Another thread has seen that it changed, and has yet to say so to the sets. */
Test(ready_epoll_edges, one_that_is_found_to_be_tcp_is_the_kernels_at_once)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	o.c->ready = 0;
	o.c->face.state = RR_FAKE_TCP;
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(look(&o, 0), 1);
	cr_assert_eq(o.ev[0].events, EPOLLIN);
}

Test(ready_epoll_edges, one_that_never_has_anything_is_not_asked_for_ever)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	for (int i = 0; i < 100; i++)
		cr_assert_eq(look(&o, 0), 0);
	cr_assert_gt(o.c->polls, 10);
	cr_assert_lt(o.c->polls, 50);
	cr_assert_eq(o.c->arms, 1);
	rr_fake_ready(o.c, POLLIN, 0);
	cr_assert_eq(look(&o, 0), 1);
	/* As long as it has something now and then, it stays where it is. */
	for (int i = 0; i < 100; i++) {
		o.c->ready = i % 20 ? 0 : POLLIN;
		cr_assert_eq(look(&o, 0), !(i % 20));
	}
	cr_assert_eq(o.c->arms, 1);
	/* It is asked by who waits, as long as that spins. */
	o.c->ready = 0;
	o.c->spin = RR_MSEC;
	cr_assert_eq(look(&o, 1), 0);
	cr_assert_leq(o.c->arms, 2);
}

/* Watches are made in lots; each has a key of its own. */
Test(ready_epoll_edges, hundreds_of_watches_are_told_apart)
{
	enum { N = 600 };
	static int fds[N];
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_conn *c[N];
	bool seen[N] = { false };

	for (int i = 0; i < N; i++) {
		fds[i] = dup(o.fd);
		c[i] = rr_fake_conn(fds[i], RR_FAKE_CARRIED);
		ctl(o.ep, EPOLL_CTL_ADD, fds[i], EPOLLIN);
	}
	cr_assert_eq(look(&o, 1), 0);
	for (int i = 0; i < N; i += 7)
		rr_fake_ready(c[i], POLLIN, 0);
	for (int left = (N + 6) / 7, n; left > 0; left -= n) {
		n = look(&o, 10000);
		cr_assert_gt(n, 0);
		for (int i = 0; i < n; i++) {
			int at = 0;

			while (fds[at] != (int)(o.ev[i].data.u64 >> 32))
				cr_assert_lt(++at, N);
			cr_assert(at % 7 == 0 && !seen[at]);
			seen[at] = true;
			rr_fake_ready(c[at], 0, POLLIN);
		}
	}
	cr_assert_eq(look(&o, 0), 0);
	/* And they are used again. */
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < N; i++) {
			cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, fds[i], NULL), 0);
			cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, fds[i], NULL), -1);
			ctl(o.ep, EPOLL_CTL_ADD, fds[i], EPOLLIN);
		}
	}
	c[N - 1]->ready = POLLIN;
	cr_assert_eq(look(&o, -1), 1);
	cr_assert_eq(o.ev[0].data.u64 >> 32, (uint64_t)fds[N - 1]);
}

/* The kernel holds the wake-up fd once for all numbers of a connection: whichever of them goes, the others are told. */
Test(ready_epoll_edges, of_three_numbers_any_may_go)
{
	for (int gone = 0; gone < 3; gone++) {
		struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
		struct rr_sock *so = rr_fdt_sock(o.fd);
		struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };
		int fd[3] = { o.fd, rr_wrap_dup(o.fd), rr_wrap_dup(o.fd) };

		ctl(o.ep, EPOLL_CTL_ADD, fd[1], EPOLLIN);
		ctl(o.ep, EPOLL_CTL_ADD, fd[2], EPOLLIN);
		cr_assert_eq(look(&o, 1), 0);
		cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, fd[gone], NULL), 0);
		start(&l);
		cr_assert_eq(look(&o, -1), 2);
		finish(&l);
		for (int i = 0; i < 2; i++)
			cr_assert_neq(o.ev[i].data.u64 >> 32, (uint64_t)fd[gone]);
		rr_file_put(&so->f);
	}
}

/* The number by which the set was last used is closed. */
Test(ready_epoll_edges, a_set_goes_on_by_its_other_number)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), p = o;

	cr_assert_eq(look(&o, 1), 0);
	p.ep = rr_wrap_dup(o.ep);
	cr_assert_eq(rr_wrap_close(o.ep), 0);
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(epoll_wait(p.ep, p.ev, 8, 10000), 1);
	cr_assert_eq(p.ev[0].data.u64, (uint64_t)o.fd << 32 | 7, "the app's own data");
	expect(&p, EPOLLIN);
}

static void used_up(struct later *l)
{
	struct rr_sock *so = rr_fdt_sock(l->fd);

	errno = EXDEV;
	rr_sock_dry(so, l->add);
	cr_assert_eq(errno, EXDEV);
	rr_file_put(&so->f);
}

/* Asleep it was armed for messages alone. */
Test(ready_epoll_edges, room_that_another_thread_has_used_up_and_that_is_there_again_is_an_edge)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLOUT | EPOLLET);
	struct later l = { .c = o.c, .fd = o.fd, .add = POLLOUT, .what = used_up };

	o.c->ready = POLLOUT;
	expect(&o, EPOLLOUT);
	cr_assert_eq(look(&o, 1), 0);
	start(&l);
	expect(&o, EPOLLOUT);
	finish(&l);
	cr_assert_eq(look(&o, 1), 0);
}

/* --- sets within sets --- */

Test(ready_epoll_edges, an_edge_of_a_set_within_a_set_is_told_once)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct one outer = { .ep = rr_wrap_epoll_create1(0), .fd = o.ep };

	ctl(outer.ep, EPOLL_CTL_ADD, o.ep, EPOLLIN | EPOLLET);
	cr_assert_eq(look(&outer, 1), 0);
	rr_fake_ready(o.c, POLLIN, 0);
	expect(&outer, EPOLLIN);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(look(&outer, 0), 0, "nobody has looked into it, and nothing more has come");
	expect(&o, EPOLLIN);
}

Test(ready_epoll_edges, who_polls_the_inner_set_takes_nothing_from_the_outer_one)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct one outer = { .ep = rr_wrap_epoll_create1(0), .fd = o.ep };
	struct pollfd p[2] = { { o.ep, POLLIN | POLLRDNORM | POLLOUT, 9 }, { -1, 0, 9 } };

	ctl(outer.ep, EPOLL_CTL_ADD, o.ep, EPOLLIN);
	cr_assert_eq(look(&outer, 1), 0);
	rr_fake_ready(o.c, POLLIN, 0);
	cr_assert_eq(rr_wrap_poll(p, 2, 0), 1);
	cr_assert_eq(p[0].revents, POLLIN | POLLRDNORM);
	cr_assert_eq(epoll_wait(outer.ep, outer.ev, 8, 10000), 1, "the kernel says so to whoever sleeps there");
	expect(&outer, EPOLLIN);
	p[0].events = POLLOUT;
	cr_assert_eq(rr_wrap_poll(p, 2, 0), 0, "a set is not for writing");
}

/* It is the inner set's own sleeper that has to look after what the outer one's left. */
Test(ready_epoll_edges, a_deadline_in_a_set_that_is_polled_bounds_the_sleep)
{
	struct one o = begin(RR_FAKE_WAITING, EPOLLOUT);
	struct pollfd p[2] = { { o.ep, POLLIN, 9 }, { -1, 0, 9 } };
	rr_time from = rr_now();

	o.c->until = from + 30 * RR_MSEC;
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[0].revents, POLLIN);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
	expect(&o, EPOLLOUT);
}

Test(ready_epoll_edges, a_wake_up_descriptor_that_was_taken_out_is_put_in_again)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

	for (int i = 0; i < 3; i++) {
		cr_assert_eq(look(&o, 1), 0);
		rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
		cr_assert_eq(look(&o, 1), 0);
		rr_fake_become(o.c, o.fd, RR_FAKE_CARRIED);
		start(&l);
		cr_assert_eq(look(&o, 20000), 1);
		finish(&l);
		rr_fake_ready(o.c, 0, POLLIN);
	}
}

/* A doorbell may have rung for a connection that its socket has lost meanwhile. */
Test(ready_epoll_edges, a_bell_without_a_connection_is_none)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_sock *so = rr_fdt_sock(o.fd);
	struct rr_conn *c;

	cr_assert_eq(look(&o, 5), 0);
	cr_assert_eq(look(&o, 5), 0);
	rr_fake_ready(o.c, POLLIN, 0);
	c = atomic_exchange(&so->conn, NULL);
	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(look(&o, 5), 0);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
	cr_assert_eq(c->drains, 0);
	rr_file_put(&so->f);
}
