/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() of few fds, one of them a connection that may rest: one sleep on its wake-up fd and on what is the kernel's, and
 * nothing else is looked at. */
#include "tests/lib/ready_test.h"

/* What is asked for is told by one look at the connection after one sleep; nothing is held in the end. */
Test(ready_nap, one_that_rings_is_asked_once, .timeout = 20)
{
	static const struct { short events; unsigned comes; short told; } c[] = {
		{ POLLIN, POLLIN, POLLIN }, { POLLIN | POLLRDNORM, POLLIN, POLLIN | POLLRDNORM },
		{ POLLRDNORM, POLLIN, POLLRDNORM }, { POLLIN, POLLHUP, POLLHUP }, { POLLIN, POLLIN | POLLERR, POLLIN | POLLERR },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		int peer, fd = tcp(&peer);
		struct rr_conn *conn = conn_that_rests(fd);
		struct rr_sock *so = rr_fdt_sock(fd);
		struct pollfd p = { fd, c[i].events, 9 };
		struct later l = { .c = conn, .add = c[i].comes, .what = make_ready };

		errno = ENOKEY;
		start(&l);
		cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1, "%zu", i);
		finish(&l);
		cr_assert_eq(p.revents, c[i].told, "%zu", i);
		cr_assert_eq(errno, ENOKEY);
		cr_assert_eq(conn->arms, 1, "%zu", i);
		cr_assert_eq(conn->polls, 1, "%zu: asked before the sleep, too", i);
		cr_assert_eq(conn->disarms, 1, "%zu", i);
		cr_assert_eq(conn->sleepers, 0, "%zu", i);
		cr_assert_eq(so->f.refs, 2, "%zu", i);
		rr_file_put(&so->f);
	}
}

/* The time is over: nobody has taken the connection's lock, and it goes on resting for the next call, which need not arm it. */
Test(ready_nap, one_that_does_not_ring_rests_on, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = conn_that_rests(fd);
	struct pollfd p = { fd, POLLIN, 9 };
	struct later l = { .c = c, .add = POLLIN, .what = make_ready };

	for (int i = 0; i < 3; i++) {
		p.revents = 9;
		cr_assert_eq(rr_wrap_poll(&p, 1, 3), 0);
		cr_assert_eq(p.revents, 0);
		cr_assert(c->rests);
		cr_assert_eq(c->sleepers, 0);
	}
	cr_assert_eq(c->arms, 1);
	cr_assert_eq(c->polls, 0);
	cr_assert_eq(c->disarms, 0);
	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	finish(&l);
	cr_assert_eq(p.revents, POLLIN);
	cr_assert_eq(c->arms, 1);
	cr_assert_eq(c->sleepers, 0);
}

/* The other way takes over after the first sleep, which is shorter than this, and finds what comes then. */
static void ring_late(struct later *l)
{
	usleep(400000);
	rr_fake_ready(l->c, POLLIN, 0);
}

Test(ready_nap, a_long_wait_goes_on_behind_it, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = conn_that_rests(fd);
	struct pollfd p = { fd, POLLIN, 9 };
	struct later l = { .c = c, .what = ring_late };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, 10000), 1);
	finish(&l);
	cr_assert_eq(p.revents, POLLIN);
	cr_assert_eq(c->arms, 1);
	cr_assert_eq(c->sleepers, 0);
}

/* A message that is none of the app's ends the first sleep; what comes behind it ends the call. */
Test(ready_nap, one_that_rings_for_nothing_is_waited_for_again, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = conn_that_rests(fd);
	struct pollfd p = { fd, POLLIN, 9 };
	struct later l = { .c = c, .what = ring_twice };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	finish(&l);
	cr_assert_eq(p.revents, POLLIN);
	cr_assert_eq(c->sleepers, 0);
}

static void handler(int sig)
{
	(void)sig;
}

/* poll() ends for any handler, SA_RESTART or not. */
Test(ready_nap, a_handler_ends_it, .timeout = 20)
{
	for (int restart = 0; restart < 2; restart++) {
		int peer, fd = tcp(&peer);
		struct rr_conn *c = conn_that_rests(fd);
		struct sigaction sa = { .sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0 };
		struct pollfd p = { fd, POLLIN, 9 };
		struct later l = { .c = c, .what = interrupt };

		sigaction(SIGUSR1, &sa, NULL);
		start(&l);
		cr_assert_eq(rr_wrap_poll(&p, 1, 10000), -1);
		cr_assert_eq(errno, EINTR);
		finish(&l);
		cr_assert_eq(p.revents, 0);
		cr_assert_eq(c->sleepers, 0);
	}
}

/* Another thread closes the number, and another file gets it: the kernel, too, looks it up anew after the sleep. */
static void replace_and_ring(struct later *l)
{
	struct rr_conn *c = l->c;
	int pipes[2];

	cr_assert_eq(pipe(pipes), 0);
	cr_assert_eq(rr_wrap_dup2(pipes[0], l->fd), l->fd);
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	rr_fake_ready(c, POLLHUP, 0);
}

Test(ready_nap, a_number_that_is_another_files_by_then, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = conn_that_rests(fd);
	struct pollfd p = { fd, POLLIN, 9 };
	struct later l = { .c = c, .fd = fd, .what = replace_and_ring };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, 10000), 1);
	finish(&l);
	cr_assert_eq(p.revents, POLLIN);
}

/* The same where the library does not see it. */
static void replace_unseen(struct later *l)
{
	int pipes[2];

	cr_assert_eq(pipe(pipes), 0);
	usleep(20000);		/* the inode is verified once in a tick */
	cr_assert_eq(dup2(pipes[0], l->fd), l->fd);
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	rr_fake_ready(l->c, POLLHUP, 0);
}

Test(ready_nap, a_number_that_was_taken_unseen, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = conn_that_rests(fd);
	struct pollfd p = { fd, POLLIN, 9 };
	struct later l = { .c = c, .fd = fd, .what = replace_unseen };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, 10000), 1);
	finish(&l);
	cr_assert_eq(p.revents, POLLIN);
}

static void *poll_for_ever(void *arg)
{
	struct pollfd p = { *(int *)arg, POLLIN, 0 };

	rr_wrap_poll(&p, 1, -1);
	return NULL;
}

Test(ready_nap, a_cancelled_thread_holds_nothing, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = conn_that_rests(fd);
	struct rr_sock *so = rr_fdt_sock(fd);
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, poll_for_ever, &fd), 0);
	cancel_asleep(t, &c->sleepers);
	cr_assert_eq(so->f.refs, 2);
	rr_file_put(&so->f);
}

/* Whatever is asked for beside reading, or does not rest, is waited for as in a longer array. */
Test(ready_nap, what_is_not_for_it, .timeout = 20)
{
	static const struct { short events; bool rests; enum rr_fake_state state; } c[] = {
		{ POLLIN | POLLOUT, true, RR_FAKE_CARRIED }, { POLLOUT, true, RR_FAKE_CARRIED },
		{ POLLIN | POLLRDHUP, true, RR_FAKE_CARRIED }, { 0, true, RR_FAKE_CARRIED }, { POLLIN, false, RR_FAKE_CARRIED },
		{ POLLIN, true, RR_FAKE_WAITING }, { POLLIN, true, RR_FAKE_NEW },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		int peer, fd = tcp(&peer);
		struct rr_conn *conn = rr_fake_conn(fd, c[i].state);
		struct pollfd p = { fd, c[i].events, 9 };

		conn->can_rest = c[i].rests;
		conn->until = RR_TIME_NEVER;
		cr_assert_eq(rr_wrap_poll(&p, 1, 1), 0, "%zu", i);
		cr_assert_eq(p.revents, 0, "%zu", i);
		cr_assert_gt(conn->polls, 0, "%zu", i);
		cr_assert_eq(conn->sleepers, 0, "%zu", i);
	}
}

/* It spins where that pays, and then nobody is armed. */
Test(ready_nap, a_spin_comes_before_it, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = conn_that_rests(fd);
	struct pollfd p = { fd, POLLIN, 9 };
	struct later l = { .c = c, .add = POLLIN, .spins = true, .what = make_ready };

	c->spin = 10 * RR_SEC;
	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, 10000), 1);
	finish(&l);
	cr_assert_eq(p.revents, POLLIN);
	cr_assert_eq(c->arms, 0);
}

/* --- beside what is the kernel's --- */

/* The read ends of two pipes, a connection that rests between them, and nothing. */
struct few {
	struct pollfd p[4];
	struct rr_conn *c;
	int in[2];
};

static void begin_few(struct few *w)
{
	int peer, a[2], b[2], fd = tcp(&peer);

	cr_assert(!pipe(a) && !pipe(b));
	w->c = conn_that_rests(fd);
	w->p[0] = (struct pollfd){ a[0], POLLIN, 9 };
	w->p[1] = (struct pollfd){ fd, POLLIN, 9 };
	w->p[2] = (struct pollfd){ b[0], POLLIN, 9 };
	w->p[3] = (struct pollfd){ -1, POLLIN, 9 };
	w->in[0] = a[1];
	w->in[1] = b[1];
}

static void assert_told(const struct few *w, short a, short conn, short b)
{
	cr_assert_eq(w->p[0].revents, a);
	cr_assert_eq(w->p[1].revents, conn);
	cr_assert_eq(w->p[2].revents, b);
	cr_assert_eq(w->p[3].revents, 0);
	cr_assert_eq(w->c->sleepers, 0);
}

Test(ready_nap, the_connection_rings_beside_others, .timeout = 20)
{
	struct few w;
	struct later l = { .add = POLLIN, .what = make_ready };

	begin_few(&w);
	l.c = w.c;
	start(&l);
	cr_assert_eq(rr_wrap_poll(w.p, 4, -1), 1);
	finish(&l);
	assert_told(&w, 0, POLLIN, 0);
	cr_assert(w.c->arms == 1 && w.c->polls == 1 && w.c->disarms == 1);
}

static void write_byte(struct later *l)
{
	cr_assert_eq(write(l->fd, "x", 1), 1);
}

/* The connection is not asked, and its rest goes on. */
Test(ready_nap, one_of_the_others_is_ready, .timeout = 20)
{
	struct few w;
	struct later l = { .what = write_byte };

	begin_few(&w);
	l.c = w.c;
	l.fd = w.in[1];
	start(&l);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 1);
	finish(&l);
	assert_told(&w, 0, 0, POLLIN);
	cr_assert(w.c->rests && w.c->polls == 0 && w.c->disarms == 0);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 1);
	assert_told(&w, 0, 0, POLLIN);
	cr_assert(w.c->rests && w.c->arms == 1 && w.c->polls == 0);
}

/* All that is ready when the thread wakes is told by one call. */
static void all_at_once(struct later *l)
{
	cr_assert_eq(write(l->fd, "x", 1), 1);
	rr_fake_ready(l->c, POLLIN, 0);
}

Test(ready_nap, all_are_told_together, .timeout = 20)
{
	struct few w;
	struct later l = { .what = all_at_once };

	begin_few(&w);
	cr_assert_eq(write(w.in[0], "x", 1), 1);
	l.c = w.c;
	l.fd = w.in[1];
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 1);
	assert_told(&w, POLLIN, 0, 0);
	all_at_once(&l);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 3);
	assert_told(&w, POLLIN, POLLIN, POLLIN);
}

/* A bell for nothing does not hide another's news, nor end a wait without any. */
static void ring_for_nothing(struct later *l)
{
	cr_assert_eq(write(l->fd, "x", 1), 1);
	rr_fake_ready(l->c, 0, 0);
}

Test(ready_nap, a_bell_for_nothing_beside_others, .timeout = 20)
{
	struct few w;
	struct later l = { .what = ring_for_nothing }, twice = { .what = ring_twice };

	begin_few(&w);
	l.c = twice.c = w.c;
	l.fd = w.in[0];
	start(&l);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 1);
	finish(&l);
	assert_told(&w, POLLIN, 0, 0);
	w.p[0].fd = -1;
	start(&twice);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 1);
	finish(&twice);
	assert_told(&w, 0, POLLIN, 0);
}

Test(ready_nap, the_time_is_over_beside_others, .timeout = 20)
{
	struct few w;

	begin_few(&w);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 3), 0);
	assert_told(&w, 0, 0, 0);
	cr_assert(w.c->rests && w.c->polls == 0);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 400), 0);	/* longer than a nap */
	assert_told(&w, 0, 0, 0);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 0), 0);
	assert_told(&w, 0, 0, 0);
}

/* With two connections, or a spin that pays, the other way looks at all of them. */
Test(ready_nap, what_is_for_a_longer_way, .timeout = 20)
{
	struct few w;
	struct later l = { .add = POLLIN, .spins = true, .what = make_ready };
	int peer, fd = tcp(&peer);
	struct rr_conn *other = conn_that_rests(fd);

	begin_few(&w);
	cr_assert_eq(write(w.in[0], "x", 1), 1);
	rr_fake_ready(w.c, POLLIN, 0);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 2);
	assert_told(&w, POLLIN, POLLIN, 0);

	begin_few(&w);
	l.c = w.c;
	w.c->spin = 10 * RR_SEC;
	start(&l);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 1);
	finish(&l);
	assert_told(&w, 0, POLLIN, 0);
	cr_assert_eq(w.c->arms, 0);

	begin_few(&w);
	w.p[3].fd = fd;
	rr_fake_ready(other, POLLIN, 0);
	cr_assert_eq(rr_wrap_poll(w.p, 4, 10000), 1);
	cr_assert(w.p[3].revents == POLLIN && !w.p[1].revents);
	cr_assert(w.c->sleepers == 0 && other->sleepers == 0);
}
