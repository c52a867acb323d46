/* SPDX-License-Identifier: BSD-3-Clause */
/* walker: a client and a server, which is its child, with one connection between them. After some
 * calls to get there, the recorder notes, ROUNDS times, the way of a write() of one record of 104
 * bytes, of the epoll_wait() that sleeps until the reply is there, and of the read() of it; then of
 * an epoll_wait() that finds the reply there (epoll_found). */

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern void way_begin(void) __attribute__((weak));
extern void way_end(const char *name) __attribute__((weak));

enum { RECORD = 104, WARM = 40, ROUNDS = 5, THINKS = 5000 };	/* us, the server */

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		_exit(1);
	}
}

/* A call of a program that nobody has: mark, XID, CALL, RPC 2, program, version, procedure, no
 * credential, no verifier, then the argument. */
static void record(unsigned char m[RECORD], uint32_t xid)
{
	uint32_t w[RECORD / 4] = { 0x80000000u | (RECORD - 4), xid, 0, 2, 0x20005246, 1, 1 };

	for (int i = 0; i < RECORD / 4; i++) {
		w[i] = htonl(w[i]);
		memcpy(m + 4 * i, &w[i], 4);
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
		uint32_t w[7] = { htonl(0x80000000u | 24), 0, htonl(1) };

		memcpy(&w[1], m + 4, 4);
		usleep(THINKS);	/* the client sleeps by then */
		must(write(fd, w, sizeof(w)) == sizeof(w), "reply");
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
	unsigned char m[RECORD];
	ssize_t n;

	record(m, xid);
	begin(noted);
	n = write(fd, m, sizeof(m));
	end(noted, "write");
	must(n == RECORD, "write");
}

static void await_reply(int ep, const char *name, int noted)
{
	struct epoll_event ev;
	int n;

	begin(noted);
	n = epoll_wait(ep, &ev, 1, -1);
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
	must(n == 28, "read");
}

static void call(int fd, int ep, uint32_t xid, int noted)
{
	send_call(fd, xid, noted);
	await_reply(ep, "epoll_wait", noted);
	read_reply(fd, noted);
}

int main(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	struct epoll_event ev = { .events = EPOLLIN };
	int lfd = socket(AF_INET, SOCK_STREAM, 0), fd, ep, status;
	pid_t pid;

	must(!bind(lfd, (struct sockaddr *)&a, len) && !listen(lfd, 1), "listen");
	must(!getsockname(lfd, (struct sockaddr *)&a, &len), "getsockname");
	if ((pid = fork()) == 0)
		serve(lfd);
	close(lfd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	must(!connect(fd, (struct sockaddr *)&a, len), "connect");
	ep = epoll_create1(0);
	must(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), "epoll_ctl");
	for (uint32_t i = 0; i < WARM; i++)
		call(fd, ep, i + 1, 0);
	must(way_begin != NULL, "no recorder");
	for (uint32_t i = 0; i < ROUNDS; i++) {
		call(fd, ep, WARM + 2 * i + 1, 1);
		send_call(fd, WARM + 2 * i + 2, 0);
		usleep(10 * THINKS);
		await_reply(ep, "epoll_found", 1);
		read_reply(fd, 0);
	}
	close(fd);
	must(waitpid(pid, &status, 0) == pid && status == 0, "server");
	return 0;
}
