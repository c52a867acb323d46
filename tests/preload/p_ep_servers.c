/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets at work: from before the upgrade, in servers, with many connections and threads. */

#include "tests/preload/ep.h"

static void a_connection_is_watched_from_before_its_upgrade(void)
{
	struct sockaddr_in at;
	pthread_t t;
	int l = p_listen(&at), c, a, ep = epoll_create1(0);

	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, c, EPOLLIN), 0);	/* not even connected */
	CHECK_EQ(event(ep, c, 0), EPOLLHUP);
	CHECK_EQ(connect(c, (struct sockaddr *)&at, sizeof(at)), 0);
	a = accept(l, NULL, NULL);
	CHECK_EQ(event(ep, c, NOT), 0);
	pthread_create(&t, NULL, rpc_null_server, &a);
	p_write_all(c, rec, rpc_call(rec, 1, 0));
	CHECK_EQ(event(ep, c, SOON), EPOLLIN);
	CHECK_EQ(rpc_read(c, rec, sizeof(rec)), RPC_REPLY_HEAD);
	pthread_join(t, NULL);
	CHECK_EQ(event(ep, c, NOT), 0);
	put(a);
	CHECK_EQ(event(ep, c, SOON), EPOLLIN);
}

/* A server that lives in its set, level- and edge-triggered: accept, read, reply. */
static int serve_set(int l, unsigned how, int calls)
{
	int ep = new_set(l, EPOLLIN), served = 0;

	while (served < calls) {
		struct epoll_event ev;
		int fd;

		CHECK_EQ(epoll_wait(ep, &ev, 1, SOON), 1);
		fd = (int)(ev.data.u64 & 0xffff);
		if (fd == l) {
			fd = accept4(l, NULL, NULL, SOCK_NONBLOCK);
			CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | how), 0);
			continue;
		}
		for (;;) {
			unsigned char mine[64];
			ssize_t r = read(fd, mine, RPC_CALL_HEAD);

			if (r <= 0) {
				if (!r)
					close(fd);
				break;
			}
			CHECK_EQ(r, RPC_CALL_HEAD);
			p_write_all(fd, mine, rpc_reply(mine, rpc_get(mine, 1), 0));
			served++;
		}
	}
	close(ep);
	return served;
}

static int listener;
static unsigned serve_how;

static void *server(void *arg P_UNUSED)
{
	CHECK_EQ(serve_set(listener, serve_how, 30), 30);
	return NULL;
}

static void a_server_in_a_set(void)
{
	static const unsigned how[] = { 0, EPOLLET };
	struct sockaddr_in at;
	pthread_t t;

	for (int i = 0; i < 2; i++) {
		int c[3];

		serve_how = how[i];
		listener = p_listen(&at);
		pthread_create(&t, NULL, server, NULL);
		for (int k = 0; k < 3; k++)
			c[k] = p_connect(&at);
		for (uint32_t x = 0; x < 10; x++)
			for (int k = 0; k < 3; k++)
				rpc_null(c[k], x + 1);
		pthread_join(t, NULL);
		for (int k = 0; k < 3; k++)
			close(c[k]);
		close(listener);
	}
}

static void all_of_many_are_told_in_turn(void)
{
	enum { N = sizeof(long) < 8 ? 12 : 40 };	/* each end maps 40 MB */
	int s[N][2], ep = epoll_create1(0), seen[N] = { 0 }, told = 0;
	struct epoll_event ev[7];

	for (int i = 0; i < N; i++) {
		rpc_pair(s[i]);
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, s[i][1],
				   &(struct epoll_event){ EPOLLIN, { .u32 = (unsigned)i } }), 0);
		put(s[i][0]);
	}
	for (int i = 0; i < N; i++)
		CHECK(p_readable(s[i][1], SOON));
	for (int round = 0; round < 50 && told < N; round++) {
		int n = epoll_wait(ep, ev, 7, -1);

		CHECK(n > 0);
		for (int i = 0; i < n; i++)
			told += !seen[ev[i].data.u32]++;
	}
	CHECK_EQ(told, N);
}

static _Atomic bool turns_over;

static void *caller_without_end(void *arg)
{
	for (uint32_t xid = 1; !turns_over; xid++)
		rpc_null(*(int *)arg, xid);
	return NULL;
}

static void *server_of_three(void *arg)
{
	for (;;) {
		struct epoll_event ev;

		CHECK_EQ(epoll_wait(*(int *)arg, &ev, 1, SOON), 1);
		if (ev.data.fd < 0)
			return NULL;
		rpc_serve_null(ev.data.fd);
	}
}

/* A server that sleeps finds the same connection most of the time; the others are heard all the
 * same, whenever they call. */
static void one_that_goes_on_calling_leaves_others_their_turn(void)
{
	int ep = epoll_create1(0);
	struct epoll_event end = { .events = EPOLLIN, .data.fd = -1 };
	pthread_t server, caller;
	int s[3][2], stop[2];

	for (int i = 0; i < 3; i++) {
		struct epoll_event ev = { .events = EPOLLIN };

		rpc_pair(s[i]);
		ev.data.fd = s[i][1];
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, s[i][1], &ev), 0);
	}
	CHECK_EQ(pipe(stop), 0);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, stop[0], &end), 0);
	turns_over = false;
	pthread_create(&server, NULL, server_of_three, &ep);
	pthread_create(&caller, NULL, caller_without_end, &s[0][0]);
	for (uint32_t xid = 1; xid <= 40; xid++) {
		rpc_null(s[1 + xid % 2][0], xid);
		usleep(xid % 4 * 700);
	}
	turns_over = true;
	pthread_join(caller, NULL);
	/* And when all are at rest, each in turn. */
	for (uint32_t xid = 1; xid <= 20; xid++) {
		rpc_null(s[xid % 3][0], xid);
		usleep(2000);
	}
	CHECK_EQ(write(stop[1], "", 1), 1);
	pthread_join(server, NULL);
}

static int shared_ep;
static _Atomic int taken;

static void *worker(void *arg P_UNUSED)
{
	unsigned char mine[SIZE];

	while (taken < 400) {
		struct epoll_event ev;
		int fd;

		if (epoll_wait(shared_ep, &ev, 1, 50) != 1)
			continue;
		fd = (int)(ev.data.u64 & 0xffff);
		p_read_all(fd, mine, SIZE);
		taken++;
		CHECK_EQ(ctl(shared_ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT), 0);
	}
	return NULL;
}

static void many_threads_on_one_set(void)
{
	int s[4][2];
	pthread_t t[4];

	shared_ep = epoll_create1(0);
	for (int i = 0; i < 4; i++) {
		rpc_pair(s[i]);
		CHECK_EQ(ctl(shared_ep, EPOLL_CTL_ADD, s[i][1], EPOLLIN | EPOLLONESHOT), 0);
		pthread_create(&t[i], NULL, worker, NULL);
	}
	for (int i = 0; i < 400; i++)
		put(s[i % 4][0]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK_EQ(taken, 400);
}

static _Atomic bool over;

static void *forever_waiting(void *arg P_UNUSED)
{
	struct epoll_event ev[4];

	while (!over)
		CHECK(epoll_wait(shared_ep, ev, 4, 1) >= 0);
	return NULL;
}

static void closing_while_others_wait(void)
{
	pthread_t t[2];
	int s[2];

	shared_ep = epoll_create1(0);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, forever_waiting, NULL);
	for (int i = 0; i < 60; i++) {
		rpc_pair(s);
		CHECK_EQ(ctl(shared_ep, EPOLL_CTL_ADD, s[1], EPOLLIN), 0);
		CHECK_EQ(ctl(shared_ep, EPOLL_CTL_ADD, s[0], EPOLLIN | EPOLLET), 0);
		put(s[0]);
		close(s[i & 1]);
		close(s[!(i & 1)]);
	}
	over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

static const struct p_case cases[] = {
	{ "a_connection_is_watched_from_before_its_upgrade",
	  a_connection_is_watched_from_before_its_upgrade },
	{ "a_server_in_a_set", a_server_in_a_set },
	{ "all_of_many_are_told_in_turn", all_of_many_are_told_in_turn },
	{ "one_that_goes_on_calling_leaves_others_their_turn",
	  one_that_goes_on_calling_leaves_others_their_turn },
	{ "many_threads_on_one_set", many_threads_on_one_set },
	{ "closing_while_others_wait", closing_while_others_wait },
};

P_MAIN(cases)
