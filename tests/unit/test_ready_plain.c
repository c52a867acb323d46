/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() where the kernel has the first word of each connection of ours. */
#include <sys/epoll.h>

#include "preload/ready.h"
#include "tests/lib/ready_test.h"

static struct rr_conn *plain(int fd)
{
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_NEW);

	c->plain = true;
	return c;
}

static void write_byte(struct later *l)
{
	cr_assert_eq(write(l->fd, "x", 1), 1);
}

Test(ready_plain, what_the_kernel_says_is_asked_of_the_connection_once_and_told)
{
	int peer, fd = tcp(&peer), pp[2];
	struct rr_conn *c = plain(fd);
	struct pollfd p[2] = { { fd, POLLIN | POLLRDNORM | POLLWRBAND, 9 }, { -1, POLLIN, 9 } };

	cr_assert_eq(pipe(pp), 0);
	p[1].fd = pp[0];
	cr_assert_eq(write(peer, "call", 4), 4);
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[0].revents, POLLIN | POLLRDNORM);
	cr_assert_eq(p[1].revents, 0);
	cr_assert_eq(c->polls, 1);
	cr_assert_eq(c->asked, RR_ASK_TOLD);
	cr_assert_eq(c->arms, 1);
	cr_assert_eq(c->disarms, 1);
}

Test(ready_plain, of_which_the_kernel_says_nothing_is_not_asked)
{
	int peer, fd = tcp(&peer), pp[2];
	struct rr_conn *c = plain(fd);
	struct pollfd p[2] = { { fd, POLLIN, 9 }, { -1, POLLIN, 9 } };

	cr_assert_eq(pipe(pp), 0);
	p[1].fd = pp[0];
	cr_assert_eq(write(pp[1], "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[0].revents, 0);
	cr_assert_eq(p[1].revents, POLLIN);
	cr_assert_eq(rr_wrap_poll(p, 1, 0), 0);
	cr_assert_eq(p[0].revents, 0);
	cr_assert_eq(c->polls, 0);
	cr_assert_eq(c->sleepers, 0);
}

Test(ready_plain, a_reset_is_no_bytes)
{
	int peer, fd = tcp(&peer);
	struct linger now = { 1, 0 };
	struct rr_conn *c = plain(fd);
	struct pollfd p = { fd, POLLIN, 0 };

	cr_assert_eq(setsockopt(peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(peer);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN | POLLERR | POLLHUP);
	cr_assert_eq(c->asked, 0);
}

Test(ready_plain, an_offer_that_was_taken_in_does_not_count_and_waiting_goes_on)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = plain(fd);
	struct pollfd p = { fd, POLLIN, 0 };
	struct later l = { .fd = peer, .what = write_byte };
	rr_time from = rr_now();

	c->offer = true;
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(&p, 1, 30), 0);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
	cr_assert_eq(c->swallowed, 1);
	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	finish(&l);
	cr_assert_eq(c->sleepers, 0);
}

Test(ready_plain, one_that_is_carried_takes_the_long_way_with_all)
{
	int peer[2], fd[2] = { tcp(&peer[0]), tcp(&peer[1]) };
	struct rr_conn *c = plain(fd[0]), *d = rr_fake_conn(fd[1], RR_FAKE_CARRIED);
	struct pollfd p[2] = { { fd[0], POLLIN, 0 }, { fd[1], POLLIN, 0 } };

	d->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[0].revents, 0);
	cr_assert_eq(p[1].revents, POLLIN);
	cr_assert_eq(c->sleepers, 0);
	cr_assert_eq(d->sleepers, 0);
}

Test(ready_plain, an_epoll_set_of_ours_takes_the_long_way)
{
	int peer[2], fd[2] = { tcp(&peer[0]), tcp(&peer[1]) }, set = rr_wrap_epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN };
	struct rr_conn *c = plain(fd[0]), *d = rr_fake_conn(fd[1], RR_FAKE_CARRIED);
	struct pollfd p[2] = { { fd[0], POLLIN, 0 }, { set, POLLIN, 0 } };

	cr_assert_eq(rr_wrap_epoll_ctl(set, EPOLL_CTL_ADD, fd[1], &ev), 0);
	d->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[1].revents, POLLIN);
	cr_assert_eq(c->sleepers, 0);
}

enum { N = 20 };

static void many(struct rr_conn *c[N], struct pollfd p[N], int peer[N])
{
	for (int i = 0; i < N; i++) {
		p[i] = (struct pollfd){ tcp(&peer[i]), POLLIN, 9 };
		c[i] = plain(p[i].fd);
	}
}

Test(ready_plain, of_many_only_those_are_asked_of_which_the_kernel_speaks)
{
	struct rr_conn *c[N];
	struct pollfd p[N];
	int peer[N];

	many(c, p, peer);
	cr_assert_eq(write(peer[N - 1], "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(p, N, -1), 1);
	for (int i = 0; i < N; i++) {
		cr_assert_eq(p[i].revents, i == N - 1 ? POLLIN : 0);
		cr_assert_eq(c[i]->polls, i == N - 1);
		cr_assert_eq(c[i]->arms, 1);
		cr_assert_eq(c[i]->sleepers, 0);
	}
	cr_assert_eq(c[N - 1]->asked, RR_ASK_TOLD);
}

Test(ready_plain, of_many_one_with_an_offer_is_waited_for_again, .timeout = 20)
{
	struct later l = { .what = write_byte };
	struct rr_conn *c[N];
	struct pollfd p[N];
	int peer[N];

	many(c, p, peer);
	l.fd = peer[1];
	c[1]->offer = true;
	cr_assert_eq(write(peer[1], "x", 1), 1);
	start(&l);
	cr_assert_eq(rr_wrap_poll(p, N, -1), 1);
	cr_assert_eq(p[1].revents, POLLIN);
	finish(&l);
	cr_assert_eq(c[1]->swallowed, 1);
	for (int i = 0; i < N; i++)
		cr_assert_eq(c[i]->sleepers, 0);
}

Test(ready_plain, an_offer_that_was_refused_is_no_bytes)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = plain(fd);
	struct pollfd p = { fd, POLLIN, 0 };

	c->offer = c->refuses = true;
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(&p, 1, 30), 0);
	cr_assert_eq(c->swallowed, 1);
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	cr_assert_eq(c->sleepers, 0);
}

Test(ready_plain, an_offer_that_was_refused_is_no_event)
{
	int peer, fd = tcp(&peer), set = rr_wrap_epoll_create1(0);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_NEW);
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd }, out;

	cr_assert_eq(rr_wrap_epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
	c->offer = c->refuses = true;
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(rr_wrap_epoll_wait(set, &out, 1, 30), 0);
	cr_assert_eq(c->swallowed, 1);
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(rr_wrap_epoll_wait(set, &out, 1, -1), 1);
	cr_assert_eq(out.events, EPOLLIN);
	cr_assert_eq(out.data.fd, fd);
}

Test(ready_plain, of_many_one_that_was_refused_has_no_bytes)
{
	struct rr_conn *c[N];
	struct pollfd p[N];
	int peer[N];

	many(c, p, peer);
	c[1]->offer = c[1]->refuses = true;
	cr_assert_eq(write(peer[1], "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(p, N, 30), 0);
	cr_assert_eq(c[1]->swallowed, 1);
	for (int i = 0; i < N; i++)
		cr_assert_eq(c[i]->sleepers, 0);
}

Test(ready_plain, of_many_one_that_is_carried_has_news)
{
	struct rr_conn *c[N], *d;
	struct pollfd p[N + 1];
	int peer[N + 1];

	many(c, p, peer);
	p[N] = (struct pollfd){ tcp(&peer[N]), POLLIN, 9 };
	d = rr_fake_conn(p[N].fd, RR_FAKE_CARRIED);
	d->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(p, N + 1, -1), 1);
	for (int i = 0; i < N; i++) {
		cr_assert_eq(p[i].revents, 0);
		cr_assert_eq(c[i]->polls, 0);
		cr_assert_eq(c[i]->sleepers, 0);
	}
	cr_assert_eq(p[N].revents, POLLIN);
}

Test(ready_plain, one_that_has_left_to_tcp_is_the_kernels)
{
	int peer[2], fd[2] = { tcp(&peer[0]), tcp(&peer[1]) };
	struct rr_conn *c = plain(fd[0]), *d = rr_fake_conn(fd[1], RR_FAKE_TCP);
	struct pollfd p[2] = { { fd[0], POLLIN, 0 }, { fd[1], POLLIN, 0 } };

	cr_assert_eq(write(peer[1], "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[1].revents, POLLIN);
	cr_assert_eq(c->arms, 1, "by the short way");
	cr_assert_eq(d->arms, 0);
}

Test(ready_plain, one_that_an_upgrade_looked_at_meanwhile_is_asked)
{
	struct rr_conn *c[N];
	struct pollfd p[N];
	int peer[N];

	many(c, p, peer);
	rr_fake_unsure(c[3]);
	cr_assert_eq(write(peer[3], "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(p, N, -1), 1);
	cr_assert_eq(p[3].revents, POLLIN);
	cr_assert_geq(c[3]->polls, 1);
	cr_assert_eq(c[2]->polls, 0);
	for (int i = 0; i < N; i++)
		cr_assert_eq(c[i]->sleepers, 0);
}

Test(ready_plain, by_the_long_way_one_that_an_upgrade_looked_at_meanwhile_is_asked)
{
	struct rr_conn *c[N];
	struct pollfd p[N + 1];
	int peer[N + 1];

	many(c, p, peer);
	p[N] = (struct pollfd){ tcp(&peer[N]), POLLIN, 9 };
	rr_fake_conn(p[N].fd, RR_FAKE_CARRIED);
	rr_fake_unsure(c[3]);
	cr_assert_eq(write(peer[3], "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(p, N + 1, -1), 1);
	cr_assert_eq(p[3].revents, POLLIN);
	cr_assert_geq(c[3]->polls, 1);
	for (int i = 0; i < N; i++)
		cr_assert_eq(c[i]->sleepers, 0);
}

static int closed_peer;

static void close_and_write(struct later *l)
{
	rr_wrap_close(l->fd);
	cr_assert_eq(write(closed_peer, "x", 1), 1);
}

/* The kernel looks at the number again when it wakes, and its word is right. */
static void closed_in_mid_sleep(nfds_t n, int fd, int peer, struct pollfd *p)
{
	struct later l = { .fd = fd, .what = close_and_write };

	plain(fd);
	closed_peer = peer;
	p[0] = (struct pollfd){ fd, POLLIN, 9 };
	start(&l);
	cr_assert_eq(rr_wrap_poll(p, n, -1), 1);
	cr_assert_eq(p[0].revents, POLLNVAL);
	finish(&l);
}

Test(ready_plain, a_number_that_was_closed_meanwhile_is_the_kernels, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct pollfd p;

	closed_in_mid_sleep(1, fd, peer, &p);
}

Test(ready_plain, by_the_long_way_it_is_the_kernels_too, .timeout = 20)
{
	int peer[2], fd[2] = { tcp(&peer[0]), tcp(&peer[1]) };
	struct pollfd p[2] = { [1] = { fd[1], POLLIN, 0 } };

	rr_fake_conn(fd[1], RR_FAKE_CARRIED);
	closed_in_mid_sleep(2, fd[0], peer[0], p);
}

static void nothing(int sig RR_UNUSED)
{
}

Test(ready_plain, a_handler_ends_it)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = plain(fd);
	struct pollfd p = { fd, POLLIN, 0 };
	struct sigaction sa = { .sa_handler = nothing };
	struct later l = { .what = interrupt };

	sigaction(SIGUSR1, &sa, NULL);
	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), -1);
	cr_assert_eq(errno, EINTR);
	finish(&l);
	cr_assert_eq(c->sleepers, 0);
}

static void *wait_for_ever(void *arg)
{
	struct pollfd p = { *(int *)arg, POLLIN, 0 };

	rr_wrap_poll(&p, 1, -1);
	return NULL;
}

Test(ready_plain, a_cancelled_thread_leaves_nothing)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = plain(fd);
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, wait_for_ever, &fd), 0);
	cancel_asleep(t, &c->sleepers);
	cr_assert_eq(c->arms, c->disarms);
}

/* What the kernel told of a connection was told of its anchor: once that is TCP again, the kernel says what is the app's. */
Test(ready_plain, of_a_connection_that_became_tcp_the_kernel_is_asked_again)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = plain(fd);
	struct pollfd p = { fd, POLLIN | POLLOUT, 0 };

	cr_assert_eq(rr_still_told(c, &p, POLLPRI), POLLPRI, "it is none yet");
	c->face.state = RR_FAKE_TCP;
	cr_assert_eq(rr_still_told(c, &p, POLLPRI), POLLOUT);
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(rr_still_told(c, &p, POLLPRI), POLLIN | POLLOUT);
	p.events = POLLPRI;
	cr_assert_eq(rr_still_told(c, &p, POLLIN), 0);
}

Test(ready_plain, of_one_in_which_bytes_were_seen_the_kernel_is_not_asked_for_bytes_again)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = plain(fd);
	struct pollfd p = { fd, POLLIN, 0 };

	c->seen = true;		/* the kernel has none */
	cr_assert_eq(rr_wrap_poll(&p, 1, 0), 1);
	cr_assert_eq(p.revents, POLLIN);
	p.events = POLLIN | POLLPRI;
	cr_assert_eq(rr_wrap_poll(&p, 1, 0), 0, "for more than bytes it is asked");
	p.events = 0;
	cr_assert_eq(rr_wrap_poll(&p, 1, 0), 0);
	cr_assert_eq(p.revents, 0);
}
