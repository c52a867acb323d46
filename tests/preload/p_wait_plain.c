/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that waits for the same connections again and again, by poll(), before any of them is carried. What has
 * changed between two waits, or changes within one, counts. */

#include <stdatomic.h>
#include <sys/syscall.h>

#include "tests/preload/calls.h"
#include "tests/preload/rpc.h"

enum { MANY = 70, SHORT = 5 };

static int s[MANY][2];
static struct pollfd p[MANY];
static unsigned char buf[4096];

static void make_pairs(void)
{
	for (int i = 0; i < MANY; i++) {
		rpc_new_pair(s[i]);
		p[i] = (struct pollfd){ .fd = s[i][1], .events = POLLIN };
	}
}

/* Nothing is ready, as often as it is asked. */
static void quiet(int n)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(poll(p, (nfds_t)n, i == 2 ? SHORT : 0), 0);
}

/* The entry, and it alone, can be read. */
static void ready(int n, int which)
{
	CHECK_EQ(poll(p, (nfds_t)n, P_SOON), 1);
	CHECK(p[which].revents & POLLIN);
}

static void some_bytes(int i)
{
	p_write_all(s[i][0], buf, rpc_call(buf, 7, 0));
	ready(MANY, i);
	p_read_all(s[i][1], buf, RPC_CALL_HEAD);
}

static void calls_come_by_and_by(void)
{
	make_pairs();
	for (int i = 0; i < MANY; i += 9) {
		quiet(MANY);
		rpc_check_leg(s[i], 1);
		quiet(MANY);
	}
}

/* In the legs where connections are carried, this one is then. A thread of its own serves, as an offer wants an answer. */
static void many_calls(int pair[2])
{
	for (uint32_t xid = 1; xid < 9; xid++) {
		pthread_t server;

		CHECK_EQ(pthread_create(&server, NULL, rpc_null_server, &pair[1]), 0);
		rpc_null(pair[0], xid);
		CHECK_EQ(pthread_join(server, NULL), 0);
	}
}

static void a_connection_that_comes_to_be_carried(void)
{
	make_pairs();
	for (int i = 0; i < MANY; i += 23) {
		quiet(MANY);
		many_calls(s[i]);
		quiet(MANY);
		some_bytes(i);
		p_write_all(s[i][1], buf, rpc_reply(buf, 7, 0));
		CHECK_EQ(rpc_read(s[i][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		some_bytes((i + 1) % MANY);
	}
}

static void a_number_that_comes_to_be_another_files(void)
{
	int fds[2];

	make_pairs();
	quiet(MANY);
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(close(s[20][1]), 0);
	CHECK_EQ(fcntl(fds[0], F_DUPFD, s[20][1]), s[20][1]);
	ready(MANY, 20);
	CHECK_EQ(read(s[20][1], buf, 1), 1);
	quiet(MANY);
	some_bytes(21);
}

/* Of another connection, which is carried (where there are such), and has news. */
static void a_number_that_comes_to_be_another_connections(void)
{
	int other[2];

	make_pairs();
	rpc_pair(other);
	many_calls(other);
	for (int i = 30; i < 33; i++) {
		quiet(MANY);
		CHECK_EQ(dup2(other[1], s[i][1]), s[i][1]);
		quiet(MANY);
		p_write_all(other[0], buf, rpc_call(buf, 5, 0));
		CHECK_EQ(poll(p, MANY, P_SOON), i - 29);
		CHECK(p[i].revents & POLLIN);
		p_read_all(s[i][1], buf, RPC_CALL_HEAD);
	}
}

/* The system call, which no library sees. */
static void a_number_that_is_closed_unseen(void)
{
	int fds[2];

	make_pairs();
	CHECK_EQ(pipe(fds), 0);
	quiet(MANY);
	CHECK_EQ(syscall(SYS_close, s[40][1]), 0);
	if (!p_leg("carried")) {	/* there it is noticed later */
		CHECK_EQ(poll(p, MANY, 0), 1);
		CHECK_EQ(p[40].revents, POLLNVAL);
	}
	CHECK_EQ(syscall(SYS_dup3, fds[0], s[40][1], 0), s[40][1]);
	quiet(MANY);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	ready(MANY, 40);
}

static void fewer_and_others(void)
{
	make_pairs();
	for (int n = MANY; n > 20; n -= 10) {
		struct pollfd first = p[0];

		quiet(n);
		p_write_all(s[n - 1][0], buf, rpc_call(buf, 7, 0));
		ready(n, n - 1);
		CHECK_EQ(poll(p, (nfds_t)n - 1, 0), 0);
		p_read_all(s[n - 1][1], buf, RPC_CALL_HEAD);
		p[0].fd = p[n - 1].fd;		/* twice in the array */
		quiet(n);
		p[0] = (struct pollfd){ .fd = -1, .events = POLLIN };
		quiet(n);
		p[0] = first;
	}
}

static void one_more_each_time(void)
{
	for (int i = 0; i < MANY; i++) {
		rpc_new_pair(s[i]);
		p[i] = (struct pollfd){ .fd = s[i][1], .events = POLLIN };
		quiet(i + 1);
		p_write_all(s[i][0], buf, rpc_call(buf, 7, 0));
		ready(i + 1, i);
		p_read_all(s[i][1], buf, RPC_CALL_HEAD);
	}
}

static void the_least_that_is_readable(void)
{
	int least = 2 * RPC_CALL_HEAD;

	make_pairs();
	quiet(MANY);
	CHECK_EQ(setsockopt(s[9][1], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)), 0);
	p_write_all(s[9][0], buf, rpc_call(buf, 7, 0));
	quiet(MANY);
	p_write_all(s[9][0], buf, rpc_call(buf, 8, 0));
	ready(MANY, 9);
}

static void the_peer_ends(void)
{
	make_pairs();
	quiet(MANY);
	CHECK_EQ(shutdown(s[50][0], SHUT_WR), 0);
	ready(MANY, 50);
	CHECK_EQ(read(s[50][1], buf, 1), 0);
	p[50].fd = -1;
	quiet(MANY);
	CHECK_EQ(close(s[51][0]), 0);
	ready(MANY, 51);
}

/* --- two threads wait, for the same and for others --- */

struct sleeper {
	pthread_t thread;
	int from, n, which;
	_Atomic pid_t tid;
};

static void *waits(void *arg)
{
	struct sleeper *w = arg;
	struct pollfd mine[MANY];

	memcpy(mine, p + w->from, (size_t)w->n * sizeof(mine[0]));
	for (int i = 0; i < 3; i++)
		CHECK_EQ(poll(mine, (nfds_t)w->n, SHORT), 0);
	w->tid = (pid_t)syscall(SYS_gettid);
	CHECK_EQ(poll(mine, (nfds_t)w->n, P_SOON), 1);
	for (int i = 0; i < w->n; i++)
		w->which = mine[i].revents ? w->from + i : w->which;
	return NULL;
}

static void by_threads(int from, int n, int news)
{
	struct sleeper w[2] = { { .n = MANY, .which = -1 }, { .from = from, .n = n, .which = -1 } };

	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&w[i].thread, NULL, waits, &w[i]), 0);
	for (int i = 0; i < 2; i++) {
		while (!w[i].tid)
			usleep(100);
		p_asleep(w[i].tid);
	}
	p_write_all(s[news][0], buf, rpc_call(buf, 7, 0));
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_join(w[i].thread, NULL), 0);
		CHECK_EQ(w[i].which, news);
	}
	p_read_all(s[news][1], buf, RPC_CALL_HEAD);
}

static void two_threads_wait(void)
{
	make_pairs();
	quiet(MANY);
	for (int i = 0; i < 4; i++) {
		by_threads(0, MANY, 11 + i);
		by_threads(10, 20, 15 + i);
	}
	quiet(MANY);
}

static const struct p_case cases[] = {
	{ "calls_come_by_and_by", calls_come_by_and_by },
	{ "a_connection_that_comes_to_be_carried", a_connection_that_comes_to_be_carried },
	{ "a_number_that_comes_to_be_another_files", a_number_that_comes_to_be_another_files },
	{ "a_number_that_comes_to_be_another_connections", a_number_that_comes_to_be_another_connections },
	{ "a_number_that_is_closed_unseen", a_number_that_is_closed_unseen },
	{ "fewer_and_others", fewer_and_others },
	{ "one_more_each_time", one_more_each_time },
	{ "the_least_that_is_readable", the_least_that_is_readable },
	{ "the_peer_ends", the_peer_ends },
	{ "two_threads_wait", two_threads_wait },
};

P_MAIN(cases)
