/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that open and close connections, processes that are forked meanwhile, and everything
 * that can happen while a connection is being upgraded. */

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "tests/preload/rpc.h"

enum { ROOM = 200000 };

static void check_fill(const unsigned char *p, size_t n, uint32_t xid)
{
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(p[i], (unsigned char)(xid * 31 + i * 7 + (i >> 8)));
}

/* --- connections come and go --- */

/* Answers with as many bytes as it was asked with, until the client goes. */
static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	unsigned char *buf = malloc(ROOM);

	while (recv(fd, buf, 4, MSG_WAITALL) == 4) {
		size_t n = rpc_get(buf, 0) & 0x7fffffff;
		uint32_t xid;

		p_read_all(fd, buf + 4, n);
		xid = rpc_get(buf, 1);
		n += 4 - RPC_CALL_HEAD;
		check_fill(buf + RPC_CALL_HEAD, n, xid);
		p_write_all(fd, buf, rpc_reply(buf, xid, n));
	}
	CHECK_EQ(close(fd), 0);
	free(buf);
	return NULL;
}

static struct sockaddr_in at;
static int listener;

static void *accepting(void *arg)
{
	int left = *(int *)arg;

	while (left-- > 0) {
		int fd = accept(listener, NULL, NULL);
		pthread_t t;

		CHECK(fd >= 0);
		CHECK_EQ(pthread_create(&t, NULL, serve, (void *)(intptr_t)fd), 0);
		pthread_detach(t);
	}
	return NULL;
}

static void call(int fd, uint32_t xid, size_t arg, unsigned char *buf)
{
	p_write_all(fd, buf, rpc_call(buf, xid, arg));
	CHECK_EQ(rpc_read(fd, buf, ROOM), RPC_REPLY_HEAD + arg);
	CHECK_EQ(rpc_get(buf, 1), xid);
	check_fill(buf + RPC_REPLY_HEAD, arg, xid);
}

/* As in rpc_check_leg(), of one end. */
static void check_leg(int fd, unsigned char *buf)
{
	int64_t before = rpc_tcp_received(fd);

	call(fd, 99, 0, buf);
	if (before >= 0 && !p_leg("crossing"))
		CHECK_EQ(rpc_tcp_received(fd) - before, p_leg("carried") ? 0 : RPC_REPLY_HEAD);
}

enum { CLIENTS = 4, CONNECTIONS = 20 };

static void *client(void *arg)
{
	unsigned char *buf = malloc(ROOM);
	uint32_t me = (uint32_t)(uintptr_t)arg << 16;

	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		int fd = p_connect(&at);

		call(fd, me | i, 0, buf);
		check_leg(fd, buf);
		call(fd, me | i, 5000, buf);
		call(fd, me | i, 100000, buf);
		if (i % 2) {
			CHECK_EQ(shutdown(fd, SHUT_WR), 0);
			CHECK_EQ(read(fd, buf, 1), 0);
		}
		CHECK_EQ(close(fd), 0);
	}
	free(buf);
	return NULL;
}

static void connections_come_and_go_in_several_threads(void)
{
	int total = CLIENTS * CONNECTIONS;
	pthread_t t[CLIENTS], a;

	listener = p_listen(&at);
	pthread_create(&a, NULL, accepting, &total);
	for (uintptr_t i = 0; i < CLIENTS; i++)
		pthread_create(&t[i], NULL, client, (void *)i);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(t[i], NULL);
	pthread_join(a, NULL);
}

/* --- fork while other threads call --- */

static _Atomic bool over;

static void *calling(void *arg P_UNUSED)
{
	unsigned char *buf = malloc(ROOM);
	int fd = p_connect(&at);

	call(fd, 1, 0, buf);
	for (uint32_t i = 0; !over; i++)
		call(fd, i, i % 3 * 3000, buf);
	check_leg(fd, buf);
	CHECK_EQ(close(fd), 0);
	free(buf);
	return NULL;
}

static void *coming_and_going(void *arg P_UNUSED)
{
	unsigned char *buf = malloc(ROOM);

	while (!over) {
		int fd = p_connect(&at);

		call(fd, 7, 0, buf);
		CHECK_EQ(close(fd), 0);
	}
	free(buf);
	return NULL;
}

static void *accepting_on(void *arg P_UNUSED)
{
	for (;;) {
		struct pollfd p = { listener, POLLIN, 0 };
		pthread_t t;

		if (poll(&p, 1, 20) == 0) {
			if (over)
				return NULL;
			continue;
		}
		CHECK_EQ(pthread_create(&t, NULL, serve, (void *)(intptr_t)accept(listener, NULL, NULL)),
			 0);
		pthread_detach(t);
	}
}

/* What a forked child does before it ends. */
static void child(int how)
{
	alarm(P_LIMIT);
	if (how == 1)
		closefrom(3);
	if (how == 2) {
		int s[2];

		p_pair(s);
		p_write_all(s[0], "not RPC, and still", 18);
		close(s[0]);
	}
	_exit(0);
}

static void forking_while_other_threads_call(void)
{
	enum { CHILDREN = 24 };
	pthread_t t[3], a;
	int status;

	listener = p_listen(&at);
	pthread_create(&a, NULL, accepting_on, NULL);
	pthread_create(&t[0], NULL, calling, NULL);
	pthread_create(&t[1], NULL, calling, NULL);
	pthread_create(&t[2], NULL, coming_and_going, NULL);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (!pid)
			child(i % 3);
		usleep(2000);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
	}
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	pthread_join(a, NULL);
}

/* What the parent gets for the connection after the fork, the child has as fds of its own. */
static void a_child_forked_amid_an_upgrade_closes_only_its_own(void)
{
	enum { FDS = 2000 };
	const struct rlimit lim = { FDS, FDS };
	static unsigned char dups[FDS], buf[256];
	int s[2], go[2], status, last = 0;
	size_t n = rpc_call(buf, 1, 0);
	pthread_t server;
	pid_t pid;

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &lim), 0);
	p_pair(s);
	CHECK_EQ(pipe(go), 0);
	p_nonblock(s[0], true);
	if (write(s[0], buf, n) >= 0)
		n = 0;
	pid = fork();
	if (!pid) {
		alarm(P_LIMIT);
		CHECK_EQ(read(go[0], buf, 1), 1);
		for (int fd; (fd = dup(go[0])) >= 0;)
			dups[last = fd] = 1;
		close(s[0]);
		close(s[1]);
		for (int fd = 3; fd <= last; fd++)
			CHECK(dups[fd] == 0 || fcntl(fd, F_GETFD) >= 0);
		_exit(0);
	}
	pthread_create(&server, NULL, rpc_null_server, &s[1]);
	p_nonblock(s[0], false);
	p_write_all(s[0], buf, n);
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	pthread_join(server, NULL);
	CHECK_EQ(write(go[1], "", 1), 1);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	rpc_check_leg(s, 2);
}

/* --- upgrades --- */

struct end {
	int fd;
	unsigned delay;		/* us before it writes */
	uint32_t xid;		/* of the call it writes; it reads that of the other end */
	uint32_t expect;
	size_t arg;
	pthread_mutex_t writing;
};

static void wait_io(int fd, short events)
{
	struct pollfd p = { fd, events, 0 };

	CHECK_EQ(poll(&p, 1, P_LIMIT * 1000), 1);
}

static void write_in_pieces(const struct end *e, const unsigned char *p, size_t n)
{
	while (n) {
		ssize_t r = write(e->fd, p, n);

		if (r < 0) {
			CHECK_EQ(errno, EAGAIN);
			wait_io(e->fd, POLLOUT);
			continue;
		}
		p += r;
		n -= (size_t)r;
	}
}

static void read_in_pieces(const struct end *e, unsigned char *p, size_t n)
{
	while (n) {
		ssize_t r = read(e->fd, p, n);

		if (r < 0) {
			CHECK_EQ(errno, EAGAIN);
			wait_io(e->fd, POLLIN);
			continue;
		}
		CHECK(r > 0);
		p += r;
		n -= (size_t)r;
	}
}

static void *write_call(void *arg)
{
	struct end *e = arg;
	unsigned char *buf = malloc(ROOM);

	if (e->delay)
		usleep(e->delay);
	pthread_mutex_lock(&e->writing);
	write_in_pieces(e, buf, rpc_call(buf, e->xid, e->arg));
	pthread_mutex_unlock(&e->writing);
	free(buf);
	return NULL;
}

static size_t read_record(const struct end *e, unsigned char *buf)
{
	size_t n;

	read_in_pieces(e, buf, 4);
	n = rpc_get(buf, 0) & 0x7fffffff;
	CHECK(n + 4 <= ROOM);
	read_in_pieces(e, buf + 4, n);
	return n + 4;
}

/* A call to a program that is not ours gets the answer of every server: PROG_UNAVAIL. */
static void refuse(struct end *e, unsigned char *buf)
{
	size_t n = rpc_reply(buf, rpc_get(buf, 1), 0);

	rpc_put(buf, 6, 1);
	pthread_mutex_lock(&e->writing);
	write_in_pieces(e, buf, n);
	pthread_mutex_unlock(&e->writing);
}

/* An accepting end that writes first is not looked for offers any more. One that crosses is the
 * program's, as it is without the library. */
static void *read_call(void *arg)
{
	struct end *e = arg;
	unsigned char *buf = malloc(ROOM);

	while (read_record(e, buf) != RPC_CALL_HEAD + e->arg || rpc_get(buf, 4) != 0x20000099)
		refuse(e, buf);
	CHECK_EQ(rpc_get(buf, 1), e->expect);
	check_fill(buf + RPC_CALL_HEAD, e->arg, e->expect);
	free(buf);
	return NULL;
}

/* Both ends write a call of their own, each end in one thread, and read the other's in another. */
static void cross(bool nonblock, size_t arg)
{
	for (unsigned i = 0; i < 30; i++) {
		struct end e[2] = { { .xid = 100 + i, .expect = 200 + i, .delay = i % 3 * 150 },
				    { .xid = 200 + i, .expect = 100 + i, .delay = i % 5 * 100 } };
		pthread_t t[4];
		int s[2];

		p_pair(s);
		for (int k = 0; k < 2; k++) {
			e[k].fd = s[k];
			e[k].arg = arg;
			pthread_mutex_init(&e[k].writing, NULL);
			p_nonblock(s[k], nonblock);
			pthread_create(&t[2 * k], NULL, read_call, &e[k]);
			pthread_create(&t[2 * k + 1], NULL, write_call, &e[k]);
		}
		for (int k = 0; k < 4; k++)
			pthread_join(t[k], NULL);
		close(s[i % 2]);
		close(s[!(i % 2)]);
	}
}

static void both_ends_write_at_once(void)
{
	cross(false, 0);
	cross(false, 60000);
}

static void both_ends_write_at_once_without_blocking(void)
{
	cross(true, 0);
	cross(true, 60000);
}

/* Two threads have the first write; a third reads since before it; a fourth waits for the fd. */
static void *reads_reply(void *arg)
{
	unsigned char buf[256];
	uint32_t seen = 0;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rpc_read(*(int *)arg, buf, sizeof(buf)), RPC_REPLY_HEAD);
		seen |= rpc_get(buf, 1);
	}
	CHECK_EQ(seen, 3);
	return NULL;
}

static void *waits(void *arg)
{
	int fd = *(int *)arg, ep = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
	CHECK(epoll_wait(ep, &ev, 1, 20) >= 0);	/* it may have been served by then */
	close(ep);
	return NULL;
}

/* known: whether it is carried then is known. */
static void at_the_first_write(unsigned delay, bool known)
{
	struct end e[2] = { { .xid = 1 }, { .xid = 2, .delay = delay } };
	pthread_t t[5];
	int s[2];

	p_pair(s);
	pthread_create(&t[0], NULL, reads_reply, &s[0]);
	pthread_create(&t[1], NULL, waits, &s[1]);
	for (int k = 0; k < 2; k++) {
		e[k].fd = s[0];
		pthread_mutex_init(&e[k].writing, NULL);
		pthread_create(&t[2 + k], NULL, write_call, &e[k]);
	}
	wait_io(s[1], POLLIN);
	rpc_serve_null(s[1]);
	rpc_serve_null(s[1]);
	for (int k = 0; k < 4; k++)
		pthread_join(t[k], NULL);
	if (known)
		rpc_check_leg(s, 9);
	close(s[0]);
	close(s[1]);
}

/* Where two threads are the first to call a function, TSan makes a report that is suppressed. To find that out takes
 * it longer than an upgrade waits for a thread, and that one stays on TCP. */
static void several_threads_are_at_the_first_write(void)
{
	for (unsigned i = 0; i < 30; i++)
		at_the_first_write(i % 4 * 50, !P_TSAN || i >= 4);
}

/* The library has not met a connection from before the first thread, and two threads meet it at once. A process has one
 * chance of that. */
static void the_connection_is_older_than_the_threads(void)
{
	/* With TSan a process has two threads from the start, and those that a forked child makes run as it suits them. */
	for (int i = 0; i < (P_TSAN ? 0 : 100); i++) {
		pid_t pid = fork();
		int st;

		if (!pid) {
			alarm(P_LIMIT / 2);
			at_the_first_write((unsigned)i % 4 * 50, true);
			_exit(0);
		}
		CHECK(pid > 0 && waitpid(pid, &st, 0) == pid);
		CHECK_EQ(st, 0);
	}
}

static const struct p_case cases[] = {
	{ "connections_come_and_go_in_several_threads", connections_come_and_go_in_several_threads },
	{ "forking_while_other_threads_call", forking_while_other_threads_call },
	{ "a_child_forked_amid_an_upgrade_closes_only_its_own",
	  a_child_forked_amid_an_upgrade_closes_only_its_own },
	{ "both_ends_write_at_once", both_ends_write_at_once },
	{ "both_ends_write_at_once_without_blocking", both_ends_write_at_once_without_blocking },
	{ "several_threads_are_at_the_first_write", several_threads_are_at_the_first_write },
	{ "the_connection_is_older_than_the_threads", the_connection_is_older_than_the_threads },
};

P_MAIN(cases)
