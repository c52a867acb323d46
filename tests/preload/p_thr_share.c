/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads on one connection: several write, one reads at each end, and others look at it in
 * every way there is, all at once. And threads that use a number while it is closed. */

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>

#include "tests/preload/rpc.h"

enum { WRITERS = 3, CALLS = 150, AHEAD = 8, BIG = 120000 };

static int s[2];
static _Atomic bool over;
static size_t arg_of_call;		/* 0: small, and without the app's lock */
static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned answered[WRITERS];

static size_t size_of(uint32_t xid)
{
	return arg_of_call ? arg_of_call + xid % 7 * 4 : xid % 25 * 4;
}

/* xid: the writer above, its count below. Small records need no lock of the app's: they are
 * written whole while there is room, and AHEAD keeps it so. */
static void *writer(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	unsigned char *buf = malloc(RPC_CALL_HEAD + BIG + 64);

	for (uint32_t i = 1; i <= CALLS; i++) {
		uint32_t xid = me << 16 | i;
		size_t n = rpc_call(buf, xid, size_of(xid));

		while (i - answered[me] > AHEAD)
			usleep(50);
		if (arg_of_call)
			pthread_mutex_lock(&big_lock);
		p_write_all(s[0], buf, n);
		if (arg_of_call)
			pthread_mutex_unlock(&big_lock);
	}
	free(buf);
	return NULL;
}

static void check_fill(const unsigned char *p, size_t n, uint32_t xid)
{
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(p[i], (unsigned char)(xid * 31 + i * 7 + (i >> 8)));
}

static void *server(void *arg P_UNUSED)
{
	unsigned char *buf = malloc(RPC_CALL_HEAD + BIG + 64);

	for (int i = 0; i < WRITERS * CALLS; i++) {
		size_t n = rpc_read(s[1], buf, RPC_CALL_HEAD + BIG + 64) - RPC_CALL_HEAD;
		uint32_t xid = rpc_get(buf, 1);

		CHECK_EQ(n, size_of(xid));
		check_fill(buf + RPC_CALL_HEAD, n, xid);
		p_write_all(s[1], buf, rpc_reply(buf, xid, n));
	}
	free(buf);
	return NULL;
}

static void read_replies(void)
{
	unsigned char *buf = malloc(RPC_CALL_HEAD + BIG + 64);

	for (int i = 0; i < WRITERS * CALLS; i++) {
		size_t n = rpc_read(s[0], buf, RPC_CALL_HEAD + BIG + 64) - RPC_REPLY_HEAD;
		uint32_t xid = rpc_get(buf, 1);

		CHECK_EQ(n, size_of(xid));
		check_fill(buf + RPC_REPLY_HEAD, n, xid);
		CHECK_EQ(xid & 0xffff, ++answered[xid >> 16]);
	}
	free(buf);
}

/* --- those that look --- */

static void *in_poll(void *arg P_UNUSED)
{
	while (!over) {
		struct pollfd p[2] = { { s[0], POLLIN | POLLOUT, 0 }, { s[1], POLLIN | POLLRDHUP, 0 } };

		CHECK(poll(p, 2, 2) >= 0);
		CHECK(!((p[0].revents | p[1].revents) & (POLLNVAL | POLLERR | POLLHUP)));
		p[0].events = POLLIN;
		CHECK(poll(p, 2, 2) >= 0);
	}
	return NULL;
}

static void *in_select(void *arg P_UNUSED)
{
	while (!over) {
		struct timeval tv = { 0, 2000 };
		fd_set r;

		FD_ZERO(&r);
		FD_SET(s[0], &r);
		FD_SET(s[1], &r);
		CHECK(select((s[0] > s[1] ? s[0] : s[1]) + 1, &r, NULL, NULL, &tv) >= 0);
	}
	return NULL;
}

static void watch(int ep, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	CHECK_EQ(epoll_ctl(ep, op, fd, &ev), 0);
}

/* Two threads of it have one set: level-triggered, edge-triggered, one-shot, by turns. */
static void *in_epoll(void *arg)
{
	int ep = *(int *)arg;
	struct epoll_event ev[2];
	static const uint32_t how[] = { 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLOUT };

	for (unsigned i = 0; !over; i++) {
		CHECK(epoll_wait(ep, ev, 2, 2) >= 0);
		if (i % 4 == 0)
			watch(ep, EPOLL_CTL_MOD, s[i / 4 % 2], EPOLLIN | how[i / 8 % 4]);
	}
	return NULL;
}

static void *in_set_of_its_own(void *arg P_UNUSED)
{
	struct epoll_event ev[2];

	while (!over) {
		int ep = epoll_create1(EPOLL_CLOEXEC);

		CHECK(ep >= 0);
		watch(ep, EPOLL_CTL_ADD, s[0], EPOLLIN);
		watch(ep, EPOLL_CTL_ADD, s[1], EPOLLIN | EPOLLET);
		CHECK(epoll_wait(ep, ev, 2, 1) >= 0);
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_DEL, s[0], NULL), 0);
		CHECK(epoll_wait(ep, ev, 2, 0) >= 0);
		close(ep);
	}
	return NULL;
}

static void *asking(void *arg P_UNUSED)
{
	while (!over) {
		socklen_t len = sizeof(int);
		int n, fd = dup(s[0]);
		char c;

		CHECK(fd >= 0);
		CHECK_EQ(ioctl(s[1], FIONREAD, &n), 0);
		CHECK_EQ(getsockopt(s[0], SOL_SOCKET, SO_ERROR, &n, &len), 0);
		CHECK_EQ(n, 0);
		recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
		close(fd);
		usleep(200);
	}
	return NULL;
}

static void calls_under_observation(size_t arg)
{
	void *(*const lookers[])(void *) = { in_poll, in_select, in_epoll, in_epoll,
					     in_set_of_its_own, asking };
	enum { LOOKERS = sizeof(lookers) / sizeof(lookers[0]) };
	pthread_t w[WRITERS], l[LOOKERS], srv;
	int ep = epoll_create1(0);

	rpc_pair(s);
	arg_of_call = arg;
	watch(ep, EPOLL_CTL_ADD, s[0], EPOLLIN);
	watch(ep, EPOLL_CTL_ADD, s[1], EPOLLIN);
	for (int i = 0; i < LOOKERS; i++)
		pthread_create(&l[i], NULL, lookers[i], &ep);
	pthread_create(&srv, NULL, server, NULL);
	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&w[i], NULL, writer, (void *)i);
	read_replies();
	over = true;
	for (int i = 0; i < WRITERS; i++)
		pthread_join(w[i], NULL);
	for (int i = 0; i < LOOKERS; i++)
		pthread_join(l[i], NULL);
	pthread_join(srv, NULL);
	rpc_check_leg(s, 3);
}

static void small_calls_of_many_threads(void)
{
	calls_under_observation(0);
}

static void big_calls_of_many_threads(void)
{
	calls_under_observation(BIG);
}

/* --- a number that is closed under those who use it --- */

/* Everything may fail, with the errno of any moment; nothing may hang, nor hit another file. */
static void *user(void *arg)
{
	unsigned turn = (unsigned)(uintptr_t)arg;
	int ep = epoll_create1(0), fd = s[0], n;
	struct epoll_event ev = { .events = EPOLLIN };
	struct timeval tv = { 0, 500 };
	socklen_t len = sizeof(n);
	unsigned char buf[64];
	fd_set r;

	for (; !over; turn++) {
		struct pollfd p = { fd, POLLIN | POLLOUT, 0 };

		switch (turn % 8) {
		case 0: recv(fd, buf, sizeof(buf), MSG_DONTWAIT); break;
		case 1: send(fd, buf, rpc_call(buf, turn, 0), MSG_DONTWAIT | MSG_NOSIGNAL); break;
		case 2: poll(&p, 1, 1); break;
		case 3: epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev); break;
		case 4: epoll_wait(ep, &ev, 1, 1); break;
		case 5: getsockopt(fd, SOL_SOCKET, SO_ERROR, &n, &len); break;
		case 6: ioctl(fd, FIONREAD, &n); break;
		case 7:
			FD_ZERO(&r);
			FD_SET(fd, &r);
			select(fd + 1, &r, NULL, NULL, &tv);
			break;
		}
	}
	close(ep);
	return NULL;
}

static void *answering(void *arg)
{
	int fd = *(int *)arg;
	unsigned char buf[256];

	for (;;) {
		ssize_t r = recv(fd, buf, RPC_CALL_HEAD, MSG_WAITALL);

		if (r != RPC_CALL_HEAD)
			return NULL;
		send(fd, buf, rpc_reply(buf, rpc_get(buf, 1), 0), MSG_NOSIGNAL);
	}
}

static void closing_under_those_who_use_it(void)
{
	enum { USERS = 4, ROUNDS = 25, FREE = 64 };
	pthread_t t[USERS], srv;
	int fd, other, low[FREE];

	signal(SIGPIPE, SIG_IGN);
	/* A number that is free has to stay so until dup2() takes it: who makes a descriptor of his own meanwhile, the
	 * library for one, gets a lower one. */
	for (int i = 0; i < FREE; i++)
		low[i] = dup(0);
	rpc_pair(s);
	fd = s[0];
	for (int i = 0; i < FREE; i++)
		close(low[i]);
	for (uintptr_t i = 0; i < USERS; i++)
		pthread_create(&t[i], NULL, user, (void *)(2 * i));
	for (int i = 0; i < ROUNDS; i++) {
		int pair[2];

		other = s[1];
		pthread_create(&srv, NULL, answering, &other);
		usleep(3000);
		/* The other end stays until its thread has seen the end. */
		if (i % 2)
			shutdown(fd, SHUT_RDWR);
		p_pair(pair);
		if (i % 4 < 2)
			CHECK_EQ(close(fd), 0);
		CHECK_EQ(dup2(pair[0], fd), fd);
		close(pair[0]);
		pthread_join(srv, NULL);
		close(other);
		s[1] = pair[1];
	}
	over = true;
	for (int i = 0; i < USERS; i++)
		pthread_join(t[i], NULL);
	close(fd);
	close(s[1]);
	rpc_pair(s);
}

/* --- who asks first is not who goes on --- */

static void *closing(void *arg)
{
	CHECK_EQ(close(*(int *)arg), 0);
	return NULL;
}

static void what_one_thread_asked_about_another_may_close(void)
{
	pthread_t t;
	int n = 0;

	p_pair(s);
	p_write_all(s[0], "this is no RPC at all", 21);
	while (n != 21)
		CHECK_EQ(ioctl(s[1], FIONREAD, &n), 0);
	pthread_create(&t, NULL, closing, &s[1]);
	pthread_join(t, NULL);
}

static const struct p_case cases[] = {
	{ "small_calls_of_many_threads", small_calls_of_many_threads },
	{ "big_calls_of_many_threads", big_calls_of_many_threads },
	{ "closing_under_those_who_use_it", closing_under_those_who_use_it },
	{ "what_one_thread_asked_about_another_may_close",
	  what_one_thread_asked_about_another_may_close },
};

P_MAIN(cases)
