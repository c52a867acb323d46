/* SPDX-License-Identifier: BSD-3-Clause */
/* Many connections that do nothing, and a thread that waits for all of them: whatever
 * happens to one of them, by its peer or by another thread of the same process, the thread
 * is told as if it had nothing else to wait for. */

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "tests/preload/calls.h"
#include "tests/preload/rpc.h"

enum { MANY = sizeof(long) < 8 ? 12 : 70, /* each end maps 40 MB */
        FEW = 3, SHORT = 15 };

static int s[MANY][2];
static int n_pairs;

static void make_pairs(int n)
{
	for (n_pairs = 0; n_pairs < n; n_pairs++)
		rpc_pair(s[n_pairs]);
}

/* --- ways to wait until one of the second ends may be read: how many may, and one of them
 * in *which --- */

typedef int all_fn(int ms, int *which);

static int index_of(int fd)
{
	int i = 0;

	while (i < n_pairs && s[i][1] != fd)
		i++;
	return i;
}

static int by_poll(int ms, int *which, bool p_poll)
{
	struct pollfd p[MANY];
	struct timespec ts;
	int n;

	for (int i = 0; i < n_pairs; i++)
		p[i] = (struct pollfd){ s[i][1], POLLIN, -1 };
	n = p_poll ? ppoll(p, (nfds_t)n_pairs, p_timespec(&ts, ms), NULL) : poll(p, (nfds_t)n_pairs, ms);
	for (int i = 0; i < n_pairs; i++) {
		CHECK(!p[i].revents || p[i].revents & POLLIN);
		*which = p[i].revents ? i : *which;
	}
	return n;
}

static int all_poll(int ms, int *which)
{
	return by_poll(ms, which, false);
}

static int all_ppoll(int ms, int *which)
{
	return by_poll(ms, which, true);
}

static int by_select(int ms, int *which, bool p_select)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	struct timespec ts;
	fd_set in;
	int n, most = 0;

	FD_ZERO(&in);
	for (int i = 0; i < n_pairs; i++) {
		FD_SET(s[i][1], &in);
		most = most > s[i][1] ? most : s[i][1];
	}
	n = p_select ? pselect(most + 1, &in, NULL, NULL, p_timespec(&ts, ms), NULL)
		     : select(most + 1, &in, NULL, NULL, ms < 0 ? NULL : &tv);
	for (int i = 0; n > 0 && i < n_pairs; i++)
		*which = FD_ISSET(s[i][1], &in) ? i : *which;
	return n;
}

static int all_select(int ms, int *which)
{
	return by_select(ms, which, false);
}

static int all_pselect(int ms, int *which)
{
	return by_select(ms, which, true);
}

/* The same sets for all waits of a case. */
static int ep = -1;

static int by_epoll(int ms, int *which, uint32_t how)
{
	struct epoll_event ev[MANY];
	int n;

	for (int i = 0; ep < 0 || i; i++) {
		if (ep < 0)
			CHECK((ep = epoll_create1(EPOLL_CLOEXEC)) >= 0);
		ev[0] = (struct epoll_event){ .events = EPOLLIN | how, .data.fd = s[i][1] };
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, s[i][1], &ev[0]), 0);
		if (i == n_pairs - 1)
			break;
	}
	n = epoll_wait(ep, ev, MANY, ms);
	for (int i = 0; i < n; i++) {
		*which = index_of(ev[i].data.fd);
		ev[i].events = EPOLLIN | how;
		if (how & EPOLLONESHOT)
			CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_MOD, ev[i].data.fd, &ev[i]), 0);
	}
	return n;
}

static int all_level(int ms, int *which)
{
	return by_epoll(ms, which, 0);
}

static int all_edge(int ms, int *which)
{
	return by_epoll(ms, which, EPOLLET);
}

static int all_oneshot(int ms, int *which)
{
	return by_epoll(ms, which, EPOLLONESHOT);
}

static const struct {
	const char *name;
	all_fn *fn;
} all[] = {
	{ "poll", all_poll }, { "ppoll", all_ppoll }, { "select", all_select }, { "pselect", all_pselect },
	{ "level", all_level }, { "edge", all_edge }, { "oneshot", all_oneshot },
};

static void next_way(unsigned k)
{
	if (ep >= 0)
		close(ep);
	ep = -1;
	p_what = all[k].name;
}

/* --- cases --- */

static void one_is_found(int n)
{
	unsigned char buf[256];
	int which = -1;

	make_pairs(n);
	for (unsigned k = 0; k < P_COUNT(all); k++) {
		next_way(k);
		for (int i = 0; i < 12; i++) {
			int who = i * 7 % n;

			CHECK_EQ(all[k].fn(i % 3 ? SHORT : 0, &which), 0);
			p_write_all(s[who][0], buf, rpc_call(buf, 5, 0));
			CHECK_EQ(all[k].fn(-1, &which), 1);
			CHECK_EQ(which, who);
			rpc_serve_null(s[who][1]);
			CHECK_EQ(rpc_read(s[who][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		}
	}
}

static void one_of_few_is_found(void)
{
	one_is_found(FEW);
}

static void one_of_many_is_found(void)
{
	one_is_found(MANY);
}

/* All that have news at once are told of at once. */
static void several_are_found(void)
{
	unsigned char buf[256];
	int which = -1;

	make_pairs(MANY);
	for (unsigned k = 0; k < P_COUNT(all); k++) {
		next_way(k);
		CHECK_EQ(all[k].fn(SHORT, &which), 0);
		for (int i = 0; i < MANY; i += 2)
			p_write_all(s[i][0], buf, rpc_call(buf, 6, 0));
		CHECK_EQ(all[k].fn(-1, &which), MANY / 2);
		for (int i = 0; i < MANY; i += 2) {
			rpc_serve_null(s[i][1]);
			CHECK_EQ(rpc_read(s[i][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		}
	}
}

static void shut_write(int fd)
{
	CHECK_EQ(shutdown(fd, SHUT_WR), 0);
}

static void closes(int fd)
{
	CHECK_EQ(close(fd), 0);
}

static void writes_a_call(int fd)
{
	unsigned char buf[256];

	p_write_all(fd, buf, rpc_call(buf, 7, 0));
}

/* The wait before has found another one some microseconds ago, and the kernel may have been
 * asked about this one then. */
static void one_that_this_thread_has(void (*done)(int fd), bool for_good)
{
	unsigned char buf[256];
	int which = -1;

	make_pairs(for_good ? 12 : FEW);
	for (unsigned k = 0; k < P_COUNT(all); k++) {
		next_way(k);
		for (int i = 0; i < (for_good ? 1 : 8); i++) {
			CHECK_EQ(all[k].fn(SHORT, &which), 0);
			writes_a_call(s[0][0]);
			CHECK_EQ(all[k].fn(-1, &which), 1);
			CHECK_EQ(which, 0);
			CHECK_EQ(all[k].fn(0, &which), all[k].fn != all_edge);
			done(s[n_pairs - 1][0]);
			if (all[k].fn == all_edge)
				usleep(5000);	/* the first is no news, however long it lies */
			CHECK_EQ(all[k].fn(-1, &which), all[k].fn == all_edge ? 1 : 2);
			CHECK(all[k].fn != all_edge || which == n_pairs - 1);
			rpc_serve_null(s[0][1]);
			CHECK_EQ(rpc_read(s[0][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
			if (for_good) {
				CHECK_EQ(read(s[n_pairs - 1][1], buf, sizeof(buf)), 0);
				n_pairs--;	/* it would be ready */
			} else {
				rpc_serve_null(s[n_pairs - 1][1]);
				CHECK_EQ(rpc_read(s[n_pairs - 1][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
			}
		}
	}
}

static void one_that_this_thread_has_called_is_found_at_once(void)
{
	one_that_this_thread_has(writes_a_call, false);
}

static void one_that_this_thread_has_shut_is_found_at_once(void)
{
	one_that_this_thread_has(shut_write, true);
}

static void one_that_this_thread_has_closed_is_found_at_once(void)
{
	one_that_this_thread_has(closes, true);
}

struct waiter_thread {
	pthread_t thread;
	all_fn *fn;
	_Atomic pid_t tid;
	int n, which;
};

static void *waits(void *arg)
{
	struct waiter_thread *w = arg;

	CHECK_EQ(w->fn(SHORT, &w->which), 0);
	w->tid = (pid_t)syscall(SYS_gettid);
	w->n = w->fn(-1, &w->which);
	return NULL;
}

static void start_waiting(struct waiter_thread *w, all_fn *fn)
{
	*w = (struct waiter_thread){ .fn = fn, .which = -1 };
	CHECK_EQ(pthread_create(&w->thread, NULL, waits, w), 0);
	while (!w->tid)
		usleep(100);
	p_asleep(w->tid);
}

static void shut_read(int fd)
{
	CHECK_EQ(shutdown(fd, SHUT_RD), 0);
}

static void shut_both(int fd)
{
	CHECK_EQ(shutdown(fd, SHUT_RDWR), 0);
}

static void wakes(int end, void (*what)(int fd))
{
	unsigned char buf[256];
	struct waiter_thread w;

	make_pairs(P_COUNT(all) + 2);
	for (unsigned k = 0; k < P_COUNT(all); k++) {
		next_way(k);
		n_pairs = (int)(P_COUNT(all) + 2 - k);	/* those that are over would be ready */
		start_waiting(&w, all[k].fn);
		what(s[n_pairs - 1][end]);
		CHECK_EQ(pthread_join(w.thread, NULL), 0);
		CHECK_EQ(w.n, 1);
		CHECK_EQ(w.which, n_pairs - 1);
		CHECK_EQ(read(s[n_pairs - 1][1], buf, sizeof(buf)), 0);
		if (what == shut_read) {	/* and what is written still arrives */
			p_write_all(s[n_pairs - 1][1], buf, rpc_reply(buf, 9, 0));
			CHECK_EQ(rpc_read(s[n_pairs - 1][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		}
	}
}

static void another_threads_shut_rd_wakes(void)
{
	wakes(1, shut_read);
}

static void another_threads_shut_rdwr_wakes(void)
{
	wakes(1, shut_both);
}

static void the_peers_shut_wr_wakes(void)
{
	wakes(0, shut_write);
}

static void the_peers_shut_rdwr_wakes(void)
{
	wakes(0, shut_both);
}

static void the_peers_close_wakes(void)
{
	wakes(0, closes);
}

/* Both threads have to see what neither of them reads. */
static void two_threads_are_told(void)
{
	struct waiter_thread a, b;
	unsigned char buf[256];

	make_pairs(FEW);
	for (unsigned k = 0; k < 4; k++) {
		next_way(k);
		start_waiting(&a, all[k].fn);
		start_waiting(&b, all[k].fn);
		p_write_all(s[1][0], buf, rpc_call(buf, 7, 0));
		CHECK_EQ(pthread_join(a.thread, NULL), 0);
		CHECK_EQ(pthread_join(b.thread, NULL), 0);
		CHECK(a.n == 1 && b.n == 1 && a.which == 1 && b.which == 1);
		rpc_serve_null(s[1][1]);
		CHECK_EQ(rpc_read(s[1][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	}
}

/* --- a peer that is killed --- */

static int listener;
static struct sockaddr_in where;

static void be_killed(int n)
{
	int fd;

	for (int i = 0; i < n; i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(fd >= 0 && !connect(fd, (struct sockaddr *)&where, sizeof(where)));
		rpc_null(fd, 3);
		rpc_null(fd, 4);
	}
	for (;;)
		pause();
}

static pid_t peers_of_another_process(int n)
{
	pid_t pid = fork();

	if (!pid)
		be_killed(n);
	CHECK(pid > 0);
	for (n_pairs = 0; n_pairs < n; n_pairs++) {
		s[n_pairs][1] = accept(listener, NULL, NULL);
		CHECK(s[n_pairs][1] >= 0);
		rpc_serve_null(s[n_pairs][1]);
		rpc_serve_null(s[n_pairs][1]);
	}
	return pid;
}

static void listen_somewhere(void)
{
	socklen_t len = sizeof(where);

	where = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&where, len), 0);
	CHECK_EQ(listen(listener, MANY), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&where, &len), 0);
}

static void killed(pid_t pid)
{
	int status;

	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
}

static void the_peers_death_wakes(void)
{
	struct waiter_thread w;
	unsigned char buf[64];

	listen_somewhere();
	for (unsigned k = 0; k < P_COUNT(all); k++) {
		pid_t pid = peers_of_another_process(k % 2 ? FEW : MANY);

		next_way(k);
		start_waiting(&w, all[k].fn);
		killed(pid);
		CHECK_EQ(pthread_join(w.thread, NULL), 0);
		CHECK(w.n >= 1);
		for (int i = 0; i < n_pairs; i++) {
			CHECK_EQ(read(s[i][1], buf, sizeof(buf)), 0);
			close(s[i][1]);
		}
	}
}

static void *reads(void *arg)
{
	struct waiter_thread *w = arg;
	unsigned char buf[64];

	w->tid = (pid_t)syscall(SYS_gettid);
	w->n = (int)read(s[0][1], buf, sizeof(buf));
	return NULL;
}

static void the_peers_death_ends_a_read(void)
{
	struct waiter_thread w = { .n = -2 };
	pid_t pid;

	listen_somewhere();
	pid = peers_of_another_process(1);
	CHECK_EQ(pthread_create(&w.thread, NULL, reads, &w), 0);
	while (!w.tid)
		usleep(100);
	p_asleep(w.tid);
	killed(pid);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.n, 0);
}

/* --- a number that is another file's now, by calls that nobody sees --- */

static void a_number_is_reused_unseen(void)
{
	unsigned char c;
	int p[2], which;

	make_pairs(FEW);
	for (unsigned k = 0; k < 4; k++) {
		next_way(k);
		if (k)
			rpc_pair(s[1]);
		CHECK_EQ(all[k].fn(SHORT, &which), 0);
		CHECK_EQ(pipe(p), 0);
		CHECK_EQ(syscall(SYS_dup3, p[0], s[1][1], 0), s[1][1]);
		CHECK_EQ(write(p[1], "x", 1), 1);
		CHECK_EQ(all[k].fn(-1, &which), 1);
		CHECK_EQ(which, 1);
		CHECK_EQ(read(s[1][1], &c, 1), 1);
		close(s[1][1]);
		close(s[1][0]);
		close(p[0]);
		close(p[1]);
	}
}

/* A child inherits all of it, and uses some; then the parent goes on. */
static void a_forked_child_shares_them(void)
{
	unsigned char buf[256];
	int which, status;
	pid_t pid;

	make_pairs(MANY);
	for (unsigned k = 0; k < 4; k++) {
		next_way(k);
		CHECK_EQ(all[k].fn(SHORT, &which), 0);
		pid = fork();
		if (!pid) {
			p_write_all(s[5][0], buf, rpc_call(buf, 8, 0));
			CHECK_EQ(all[k].fn(-1, &which), 1);
			CHECK_EQ(which, 5);
			rpc_serve_null(s[5][1]);
			_exit(0);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
		CHECK_EQ(rpc_read(s[5][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		CHECK_EQ(all[k].fn(SHORT, &which), 0);
		p_write_all(s[6][0], buf, rpc_call(buf, 8, 0));
		CHECK_EQ(all[k].fn(-1, &which), 1);
		CHECK_EQ(which, 6);
		rpc_serve_null(s[6][1]);
		CHECK_EQ(rpc_read(s[6][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	}
}

/* Some are closed, and others come in their places; arrays change. */
static void they_come_and_go(void)
{
	unsigned char buf[256];
	int which;

	make_pairs(MANY);
	for (unsigned k = 0; k < 4; k++) {
		next_way(k);
		for (int i = 0; i < 10; i++) {
			int who = (i * 13 + (int)k) % MANY;

			n_pairs = i % 2 ? MANY : MANY - 4;
			CHECK_EQ(all[k].fn(i % 3 ? SHORT : 0, &which), 0);
			close(s[who][1]);
			close(s[who][0]);
			rpc_pair(s[who]);
			n_pairs = MANY;
			CHECK_EQ(all[k].fn(0, &which), 0);
			p_write_all(s[who][0], buf, rpc_call(buf, 11, 0));
			CHECK_EQ(all[k].fn(-1, &which), 1);
			CHECK_EQ(which, who);
			rpc_serve_null(s[who][1]);
			CHECK_EQ(rpc_read(s[who][0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		}
	}
}

static const struct p_case cases[] = {
	{ "one_of_few_is_found", one_of_few_is_found },
	{ "one_of_many_is_found", one_of_many_is_found },
	{ "several_are_found", several_are_found },
	{ "one_that_this_thread_has_called_is_found_at_once", one_that_this_thread_has_called_is_found_at_once },
	{ "one_that_this_thread_has_shut_is_found_at_once", one_that_this_thread_has_shut_is_found_at_once },
	{ "one_that_this_thread_has_closed_is_found_at_once", one_that_this_thread_has_closed_is_found_at_once },
	{ "another_threads_shut_rd_wakes", another_threads_shut_rd_wakes },
	{ "another_threads_shut_rdwr_wakes", another_threads_shut_rdwr_wakes },
	{ "the_peers_shut_wr_wakes", the_peers_shut_wr_wakes },
	{ "the_peers_shut_rdwr_wakes", the_peers_shut_rdwr_wakes },
	{ "the_peers_close_wakes", the_peers_close_wakes },
	{ "two_threads_are_told", two_threads_are_told },
	{ "the_peers_death_wakes", the_peers_death_wakes },
	{ "the_peers_death_ends_a_read", the_peers_death_ends_a_read },
	{ "a_number_is_reused_unseen", a_number_is_reused_unseen },
	{ "a_forked_child_shares_them", a_forked_child_shares_them },
	{ "they_come_and_go", they_come_and_go },
};

P_MAIN(cases)
