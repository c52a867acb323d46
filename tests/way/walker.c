/* SPDX-License-Identifier: BSD-3-Clause */
/* walker: a client and a server, which is its child, with one connection between them. After some
 * calls to get there, the recorder notes, ROUNDS times, the way of a write() of one record of 104
 * bytes, of the epoll_wait() that sleeps until the reply is there, and of the read() of it; then of
 * an epoll_wait() that finds the reply there (epoll_found). */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "tests/lib/rpc.h"

#define NOBODYS	0x20005246u	/* program */

extern void way_begin(void) __attribute__((weak));
extern void way_end(const char *name) __attribute__((weak));

enum {
	RECORD = 104, WARM = 40, ROUNDS = 5,
	THINKS = 5000,	/* us, the server */
	SPARE = 2,	/* events: one more than there are, since after a full array the kernel is asked first */
};

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		_exit(1);
	}
}

/* Never sleeps for it: a write() to who sleeps rings a bell, which would be counted on busy machines alone. */
static ssize_t await_call(int fd, unsigned char m[RECORD])
{
	ssize_t n;

	while ((n = recv(fd, m, RECORD, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		sched_yield();
	return n;
}

static void serve(int lfd)
{
	unsigned char m[RECORD];
	int fd = accept(lfd, NULL, NULL);

	must(fd >= 0, "accept");
	while (await_call(fd, m) == RECORD) {
		usleep(THINKS);	/* the client sleeps by then */
		must(rpc_write_all(fd, m, rpc_put_reply(m, rpc_get(m, RPC_XID), 0)), "reply");
	}
	_exit(0);
}

static void begin(int noted)
{
	if (noted)
		way_begin();
}

static void end(int noted, const char *name)
{
	if (noted)
		way_end(name);
}

static void send_call(int fd, uint32_t xid, int noted)
{
	unsigned char m[RECORD] = "";
	ssize_t n;

	rpc_put_call(m, xid, NOBODYS, 1, 1, RECORD - RPC_CALL_HEAD);
	begin(noted);
	n = write(fd, m, sizeof(m));
	end(noted, "write");
	must(n == RECORD, "write");
}

static void await_reply(int ep, int max, const char *name, int noted)
{
	struct epoll_event evs[SPARE];
	int n;

	begin(noted);
	n = epoll_wait(ep, evs, max, -1);
	end(noted, name);
	must(n == 1, "epoll_wait");
}

static void read_reply(int fd, int noted)
{
	unsigned char r[4096];
	ssize_t n;

	begin(noted);
	n = read(fd, r, sizeof(r));
	end(noted, "read");
	must(n == RPC_REPLY_HEAD, "read");
}

static void call(int fd, int ep, uint32_t xid, int noted)
{
	send_call(fd, xid, noted);
	await_reply(ep, SPARE, "epoll_wait", noted);
	read_reply(fd, noted);
}

int main(void)
{
	struct sockaddr_in a = rpc_address("127.0.0.1", 0);
	struct epoll_event ev = { .events = EPOLLIN };
	int lfd = rpc_listen(&a), fd, ep, status;
	pid_t pid;

	must(lfd >= 0, "listen");
	if ((pid = fork()) == 0)
		serve(lfd);
	close(lfd);
	fd = rpc_connect(&a);
	must(fd >= 0, "connect");
	ep = epoll_create1(0);
	must(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), "epoll_ctl");
	for (uint32_t i = 0; i < WARM; i++)
		call(fd, ep, i + 1, 0);
	must(way_begin != NULL, "no recorder");
	for (uint32_t i = 0; i < ROUNDS; i++) {
		call(fd, ep, WARM + 2 * i + 1, 1);
		send_call(fd, WARM + 2 * i + 2, 0);
		usleep(10 * THINKS);
		await_reply(ep, 1, "epoll_found", 1);
		read_reply(fd, 0);
	}
	close(fd);
	must(waitpid(pid, &status, 0) == pid && status == 0, "server");
	return 0;
}
