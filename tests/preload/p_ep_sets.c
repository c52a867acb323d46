/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets: triggers, ONESHOT, EXCLUSIVE, MOD, nesting, dup, close, threads. */

#include "tests/preload/calls.h"

static unsigned char rec[4096];
enum { SIZE = RPC_CALL_HEAD + 600 };

static void put(int fd)
{
	p_write_all(fd, rec, rpc_call(rec, 5, SIZE - RPC_CALL_HEAD));
}

static void get(int fd)
{
	p_read_all(fd, rec, SIZE);
}

static int ctl(int ep, int op, int fd, unsigned events)
{
	struct epoll_event ev = { .events = events, .data.u64 = 0x123400000000 + (unsigned)fd };

	return epoll_ctl(ep, op, fd, &ev);
}

static int new_set(int fd, unsigned events)
{
	int ep = epoll_create1(0);

	CHECK(ep >= 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, fd, events), 0);
	return ep;
}

/* The only event within ms, which must be fd's own; 0 none. */
static unsigned event(int ep, int fd, int ms)
{
	struct epoll_event ev[4];
	int n = epoll_wait(ep, ev, 4, ms);

	CHECK(n == 0 || n == 1);
	if (!n)
		return 0;
	CHECK_EQ(ev[0].data.u64, 0x123400000000 + (unsigned)fd);
	return ev[0].events;
}

enum { SOON = P_SOON, NOT = 10 };

/* --- errors --- */

static void errors_are_the_kernels(void)
{
	volatile int below = -1;	/* not a constant: the compiler would know better */
	struct epoll_event ev[2];
	int s[2], ep, other;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_ERR(ctl(ep, EPOLL_CTL_ADD, s[1], EPOLLIN), EEXIST);
	CHECK_ERR(ctl(ep, EPOLL_CTL_MOD, s[0], EPOLLIN), ENOENT);
	CHECK_ERR(ctl(ep, EPOLL_CTL_DEL, s[0], EPOLLIN), ENOENT);
	CHECK_ERR(ctl(ep, EPOLL_CTL_ADD, 900, EPOLLIN), EBADF);
	CHECK_ERR(ctl(900, EPOLL_CTL_ADD, s[1], EPOLLIN), EBADF);
	CHECK_ERR(ctl(s[0], EPOLL_CTL_ADD, s[1], EPOLLIN), EINVAL);
	CHECK_ERR(ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN), EINVAL);
	CHECK_ERR(ctl(ep, 77, s[1], EPOLLIN), EINVAL);
	CHECK_ERR(epoll_ctl(ep, EPOLL_CTL_MOD, s[1], NULL), EFAULT);
	CHECK_ERR(epoll_wait(ep, ev, 0, 0), EINVAL);
	CHECK_ERR(epoll_wait(ep, ev, below, 0), EINVAL);
	CHECK_ERR(epoll_wait(s[0], ev, 2, 0), EINVAL);
	CHECK_ERR(epoll_wait(900, ev, 2, 0), EBADF);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_DEL, s[1], NULL), 0);
	CHECK_ERR(epoll_ctl(ep, EPOLL_CTL_DEL, s[1], NULL), ENOENT);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, s[1], EPOLLIN), 0);
	CHECK_ERR(epoll_create(0), EINVAL);
	other = epoll_create(1);
	CHECK(other >= 0 && fcntl(other, F_GETFD) == 0);
	CHECK_EQ(fcntl(epoll_create1(EPOLL_CLOEXEC), F_GETFD), FD_CLOEXEC);
	CHECK_ERR(epoll_create1(0x777), EINVAL);
	CHECK_ERR(epoll_pwait2(ep, ev, 2, &(struct timespec){ 0, -1 }, NULL), EINVAL);
}

/* --- triggers --- */

static void level_triggered_as_long_as_it_holds(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_EQ(event(ep, s[1], 0), 0);
	put(s[0]);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	CHECK_EQ(event(ep, s[1], 0), EPOLLIN);
	p_read_all(s[1], rec, 10);
	CHECK_EQ(event(ep, s[1], -1), EPOLLIN);
	p_read_all(s[1], rec, SIZE - 10);
	CHECK_EQ(event(ep, s[1], 0), 0);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLOUT | EPOLLRDHUP), 0);
	CHECK_EQ(event(ep, s[1], -1), EPOLLOUT);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(event(ep, s[1], -1), EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

static void edge_triggered_when_it_comes(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLET);
	for (int i = 0; i < 3; i++) {
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		/* not twice, though nothing was read; but where the carrier changes meanwhile */
		CHECK(!event(ep, s[1], NOT) || p_leg("crossing"));
		get(s[1]);
		CHECK_EQ(event(ep, s[1], NOT), 0);
	}
	put(s[0]);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	put(s[0]);	/* more has come: an edge */
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLET), 0);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);	/* MOD looks anew */
	get(s[1]);
	get(s[1]);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
}

/* What was told has been read, as many bytes as there were: what comes then is an edge, though it is the
 * same bit again, and the end as well. */
static void an_edge_after_all_was_read(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLET);
	for (int i = 0; i < 5; i++) {
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		get(s[1]);
	}
	for (int i = 0; i < 5; i++) {
		put(s[0]);
		put(s[0]);
		CHECK(p_readable(s[1], SOON));
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		get(s[1]);
		get(s[1]);
	}
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
}

/* The way of every edge-triggered server: read until EAGAIN, wait. */
static void *sender(void *arg)
{
	for (int i = 0; i < 500; i++) {
		unsigned char mine[SIZE];

		p_write_all(*(int *)arg, mine, rpc_call(mine, 5, SIZE - RPC_CALL_HEAD));
		if (i % 50 == 0)
			usleep(1000);
	}
	return NULL;
}

static void no_edge_is_lost(void)
{
	size_t got = 0;
	pthread_t t;
	int s[2], ep;
	ssize_t r;

	rpc_pair(s);
	p_nonblock(s[1], true);
	ep = new_set(s[1], EPOLLIN | EPOLLOUT | EPOLLET);
	pthread_create(&t, NULL, sender, &s[0]);
	while (got < 500 * SIZE) {
		CHECK(event(ep, s[1], SOON) & (EPOLLIN | EPOLLOUT));
		while ((r = read(s[1], rec, 777)) > 0)
			got += (size_t)r;
		CHECK_EQ(errno, EAGAIN);
	}
	pthread_join(t, NULL);
	CHECK_EQ(got, 500 * SIZE);
}

static void edge_of_room_after_eagain(void)
{
	static unsigned char big[30000];
	size_t n = rpc_call(big, 9, sizeof(big) - RPC_CALL_HEAD), at = 0;
	int s[2], ep, vain = 0;
	ssize_t r;

	rpc_pair(s);
	p_nonblock(s[0], true);
	p_nonblock(s[1], true);
	ep = new_set(s[0], EPOLLOUT | EPOLLET);
	CHECK_EQ(event(ep, s[0], SOON), EPOLLOUT);
	CHECK_EQ(event(ep, s[0], NOT), 0);
	while (vain < 2) {	/* an acknowledgement may be late */
		r = write(s[0], big + at % n, n - at % n);
		at += r > 0 ? (size_t)r : 0;
		vain = r > 0 ? 0 : vain + 1;
		if (r < 0)
			rpc_tcp_settles(s[0]);
	}
	while (read(s[1], big, sizeof(big)) > 0 || p_readable(s[1], 50))
		;
	CHECK_EQ(event(ep, s[0], SOON), EPOLLOUT);
}

static void oneshot_fires_once(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLONESHOT);
	for (int i = 0; i < 3; i++) {
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		put(s[0]);
		CHECK_EQ(event(ep, s[1], NOT), 0);
		CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLONESHOT), 0);
		CHECK_EQ(event(ep, s[1], -1), EPOLLIN);
		get(s[1]);
		get(s[1]);
		CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLONESHOT), 0);
		CHECK_EQ(event(ep, s[1], NOT), 0);
	}
	CHECK_ERR(ctl(ep, EPOLL_CTL_ADD, s[1], EPOLLIN), EEXIST);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLOUT | EPOLLONESHOT | EPOLLET), 0);
	CHECK_EQ(event(ep, s[1], -1), EPOLLOUT);
	CHECK_EQ(event(ep, s[1], NOT), 0);
}

/* Others that wait for the connection, and swallow its doorbells, change nothing. */
static void a_fired_oneshot_stays_quiet(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLONESHOT);
	put(s[0]);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	get(s[1]);
	for (int i = 0; i < 3; i++) {
		CHECK(!p_readable(s[1], NOT));
		put(s[0]);
		CHECK(p_readable(s[1], SOON));
		CHECK_EQ(event(ep, s[1], NOT), 0);
		get(s[1]);
	}
}

static void a_reset_and_the_end_are_told_unasked(void)
{
	struct linger l = { 1, 0 };
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], 0);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLERR | EPOLLHUP);
	CHECK_ERR(read(s[1], rec, 1), ECONNRESET);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLHUP);
}

static void exclusive_sets_hear_all_the_same(void)
{
	int s[2], a, b;

	rpc_pair(s);
	a = new_set(s[1], EPOLLIN | EPOLLEXCLUSIVE);
	b = new_set(s[1], EPOLLIN | EPOLLEXCLUSIVE);
	CHECK_ERR(ctl(a, EPOLL_CTL_MOD, s[1], EPOLLIN), EINVAL);
	CHECK_ERR(ctl(a, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLEXCLUSIVE), EINVAL);
	put(s[0]);
	while (!(event(a, s[1], NOT) | event(b, s[1], NOT)))
		;
	get(s[1]);
	CHECK_EQ(event(a, s[1], NOT) | event(b, s[1], NOT), 0);
	close(a);
	put(s[0]);
	CHECK_EQ(event(b, s[1], SOON), EPOLLIN);
}

/* --- registered before it is carried --- */

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

/* --- numbers: dup, close --- */

static void a_dup_is_a_registration_of_its_own(void)
{
	struct epoll_event ev[4];
	int s[2], ep, d;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	d = dup(s[1]);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, d, EPOLLIN), 0);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(epoll_wait(ep, ev, 4, -1), 2);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_DEL, s[1], NULL), 0);
	CHECK_EQ(event(ep, d, -1), EPOLLIN);
}

/* epoll(7), question 6: the registration lives as long as the open file. */
static void a_closed_number_is_told_while_a_dup_lives(void)
{
	int s[2], ep, d;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	d = dup(s[1]);
	CHECK_EQ(close(s[1]), 0);
	put(s[0]);
	CHECK(p_readable(d, SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	get(d);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	CHECK_EQ(close(d), 0);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	CHECK_ERR(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN), EBADF);
}

/* Of a connection whose upgrade comes to nothing, too. */
static void so_is_one_that_stays_on_tcp(void)
{
	int s[2], ep, d;

	rpc_new_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLOUT | EPOLLWRNORM);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLOUT | EPOLLWRNORM);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN | EPOLLOUT | EPOLLWRNORM);
	d = dup(s[1]);
	CHECK_EQ(close(s[1]), 0);
	/* All numbers that are free for the app, and so those of an upgrade under way, which ends. */
	for (int n = 3; n < 1200; n++)
		if (n != s[0] && n != d && n != ep && dup2(d, n) == n)
			close(n);
	get(d);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLOUT | EPOLLWRNORM);
	put(s[0]);
	CHECK(p_readable(d, SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN | EPOLLOUT | EPOLLWRNORM);
	get(d);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLOUT | EPOLLWRNORM);
}

/* A number of ours that the app wants is given another one: the set must not keep the old one, which nothing could take
 * out again. */
static void a_set_that_is_empty_again_has_nothing(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	for (int n = 3; n < 1200; n++)
		if (n != s[0] && n != s[1] && n != ep && dup2(s[0], n) == n)
			close(n);
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	CHECK_EQ(ctl(ep, EPOLL_CTL_DEL, s[1], 0), 0);
	CHECK(!p_readable(ep, 0));
}

/* Of a set in another one only the kernel is asked. */
static void a_set_in_a_set_has_nothing_until_something_comes(void)
{
	int s[2], ep, outer, empty;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	empty = new_set(s[0], EPOLLIN);
	CHECK_EQ(ctl(empty, EPOLL_CTL_DEL, s[0], 0), 0);
	outer = new_set(ep, EPOLLIN);
	CHECK_EQ(ctl(outer, EPOLL_CTL_ADD, empty, EPOLLIN), 0);
	CHECK_EQ(event(outer, ep, NOT), 0);
	CHECK(!p_readable(outer, 0));
	put(s[0]);
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
	get(s[1]);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	CHECK_EQ(event(outer, ep, NOT), 0);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(close(outer), 0);
	outer = new_set(ep, EPOLLIN);	/* in which it is put when something is there */
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLPRI), 0);
	CHECK_EQ(event(outer, ep, NOT), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLONESHOT), 0);
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
	CHECK(p_readable(outer, 0));
	get(s[1]);	/* of which the set is not asked */
	CHECK(!p_readable(outer, 0));
	CHECK_EQ(event(outer, ep, NOT), 0);
	put(s[0]);
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
}

static void a_closed_number_can_be_added_again(void)
{
	int s[2], t[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_EQ(close(s[1]), 0);
	CHECK_EQ(close(s[0]), 0);
	rpc_pair(t);
	CHECK_EQ(event(ep, t[1], 0), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, t[1], EPOLLIN), 0);
	put(t[0]);
	CHECK_EQ(event(ep, t[1], SOON), EPOLLIN);
	CHECK_EQ(dup2(t[0], 100), 100);
	CHECK_EQ(dup2(ep, 101), 101);
	CHECK_EQ(event(101, t[1], SOON), EPOLLIN);
	CHECK_EQ(close(ep), 0);
	CHECK_EQ(event(101, t[1], SOON), EPOLLIN);
}

static void closing_the_set_leaves_the_connection(void)
{
	int s[2], ep, fds;

	rpc_pair(s);
	close(new_set(s[1], EPOLLIN));
	fds = p_open_fds();
	for (int i = 0; i < 5; i++) {
		ep = new_set(s[1], EPOLLIN);
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		CHECK_EQ(close(ep), 0);
		get(s[1]);
	}
	CHECK_EQ(p_open_fds(), fds);
}

/* --- sets in sets, in poll, in select --- */

static void a_set_can_be_polled(void)
{
	int s[2], ep, outer;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	outer = new_set(ep, EPOLLIN);
	for (int i = 0; i < 3; i++) {
		CHECK(!p_readable(ep, NOT));
		CHECK_EQ(event(outer, ep, NOT), 0);
		put(s[0]);
		CHECK(p_readable(ep, SOON));
		CHECK_EQ(v_select(ep, POLLIN, SOON), 1);
		CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
		CHECK_EQ(event(ep, s[1], 0), EPOLLIN);
		get(s[1]);
	}
	CHECK(!p_readable(ep, NOT));
	CHECK_EQ(event(outer, ep, NOT), 0);
}

static void *late_put(void *arg)
{
	usleep(30000);
	put(*(int *)arg);
	return NULL;
}

static void who_sleeps_for_a_set_wakes(void)
{
	int s[2], ep, outer;
	pthread_t t;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	outer = new_set(ep, EPOLLIN);
	for (int i = 0; i < 3; i++) {
		pthread_create(&t, NULL, late_put, &s[0]);
		if (i == 0)
			CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
		else
			CHECK_EQ(i == 1 ? v_poll(ep, POLLIN, SOON) : v_select(ep, POLLIN, SOON), 1);
		pthread_join(t, NULL);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		get(s[1]);
	}
}

/* --- many --- */

static void all_of_many_are_told_in_turn(void)
{
	enum { N = 40 };
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

static void adding_one_that_is_ready(void)
{
	struct epoll_event ev;
	int s[2], ep = epoll_create1(0);

	rpc_pair(s);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(epoll_wait(ep, &ev, 1, 0), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, s[0], EPOLLIN), 0);
	CHECK_EQ(event(ep, s[0], NOT), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, s[1], EPOLLIN), 0);
	CHECK_EQ(event(ep, s[1], -1), EPOLLIN);
}

static void a_forked_child_takes_its_set_over(void)
{
	int s[2], ep, status;
	pid_t pid;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_EQ(event(ep, s[1], 0), 0);
	pid = fork();
	if (!pid) {	/* as after daemon(): the parent only waits */
		CHECK_EQ(event(ep, s[1], NOT), 0);
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		get(s[1]);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static const struct p_case cases[] = {
	{ "errors_are_the_kernels", errors_are_the_kernels },
	{ "level_triggered_as_long_as_it_holds", level_triggered_as_long_as_it_holds },
	{ "edge_triggered_when_it_comes", edge_triggered_when_it_comes },
	{ "an_edge_after_all_was_read", an_edge_after_all_was_read },
	{ "no_edge_is_lost", no_edge_is_lost },
	{ "edge_of_room_after_eagain", edge_of_room_after_eagain },
	{ "oneshot_fires_once", oneshot_fires_once },
	{ "a_fired_oneshot_stays_quiet", a_fired_oneshot_stays_quiet },
	{ "a_reset_and_the_end_are_told_unasked", a_reset_and_the_end_are_told_unasked },
	{ "exclusive_sets_hear_all_the_same", exclusive_sets_hear_all_the_same },
	{ "a_connection_is_watched_from_before_its_upgrade",
	  a_connection_is_watched_from_before_its_upgrade },
	{ "a_server_in_a_set", a_server_in_a_set },
	{ "a_dup_is_a_registration_of_its_own", a_dup_is_a_registration_of_its_own },
	{ "a_closed_number_is_told_while_a_dup_lives", a_closed_number_is_told_while_a_dup_lives },
	{ "so_is_one_that_stays_on_tcp", so_is_one_that_stays_on_tcp },
	{ "a_set_that_is_empty_again_has_nothing", a_set_that_is_empty_again_has_nothing },
	{ "a_set_in_a_set_has_nothing_until_something_comes",
	  a_set_in_a_set_has_nothing_until_something_comes },
	{ "a_closed_number_can_be_added_again", a_closed_number_can_be_added_again },
	{ "closing_the_set_leaves_the_connection", closing_the_set_leaves_the_connection },
	{ "a_set_can_be_polled", a_set_can_be_polled },
	{ "who_sleeps_for_a_set_wakes", who_sleeps_for_a_set_wakes },
	{ "all_of_many_are_told_in_turn", all_of_many_are_told_in_turn },
	{ "one_that_goes_on_calling_leaves_others_their_turn",
	  one_that_goes_on_calling_leaves_others_their_turn },
	{ "many_threads_on_one_set", many_threads_on_one_set },
	{ "closing_while_others_wait", closing_while_others_wait },
	{ "adding_one_that_is_ready", adding_one_that_is_ready },
	{ "a_forked_child_takes_its_set_over", a_forked_child_takes_its_set_over },
};

P_MAIN(cases)
