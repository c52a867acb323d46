/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef D_MODEL_H
#define D_MODEL_H

/* Of d_calls: chance, telling, and the model of both streams. */

#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "tests/preload/calls.h"

enum {
	CONNS = 2, ENDS = 2 * CONNS, NUMBERS = 6, RECORDS = 8, TODO = 64, SETS = 2,
	ARGUMENT = 20000,	/* of a long call */
	UNREAD = 40000,		/* what may lie unread in one direction: less than any buffer holds */
	ROOM = UNREAD + ARGUMENT + 4096,
	NOBODYS = 60,		/* a number that is never open, and that select() looks at all the same */
};

/* One end of a connection. Its peer is at its index ^ 1. */
struct end {
	int fd[NUMBERS], nfds;	/* none: closed */
	int64_t sent, got;	/* bytes */
	int64_t ends[RECORDS];	/* of the records to it that are not read yet: where in the stream */
	uint32_t xid[RECORDS];	/* of a call; 0: of a reply */
	unsigned first, past;
	uint32_t todo[TODO];	/* calls that it has read, and not answered */
	unsigned ntodo;
	bool shut_rd, shut_wr, nonblock, timeout;
	int lowat;
};

/* Shared with forked children, which go on where the parent stops. */
static struct world {
	uint64_t random;
	uint32_t xid;
	int calls;
	int listed;	/* calls of a list that were made */
	struct end end[ENDS];
} *w;

static int sets[SETS], file = -1;
static bool half_way;	/* offers ride along: what docs/decisions/0020-crossing.md says falls short is left out */
static unsigned char out[ROOM], in[ROOM];
static volatile sig_atomic_t pipes;
static bool child, ended;

/* --- chance --- */

static uint32_t chance(uint32_t below)
{
	w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(w->random >> 33) % below;
}

static bool one_in(uint32_t n)
{
	return !chance(n);
}

#define ANY_OF(...) ({ \
	const int of_[] = { __VA_ARGS__ }; \
	of_[chance(sizeof(of_) / sizeof(*of_))]; \
})

/* --- telling --- */

static void say(const char *form, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *form, ...)
{
	va_list ap;

	va_start(ap, form);
	vprintf(form, ap);
	va_end(ap);
}

/* Makes the call and tells what it returned, errno if it failed and whether errno was left alone if not. */
#define TRY(call) ({ \
	errno = 4242; \
	long long r_ = (long long)(call); \
	say(" = %lld%s", r_, r_ >= 0 && errno != 4242 ? " and errno" : ""); \
	if (r_ < 0) \
		say(" %s", strerrorname_np(errno)); \
	r_; \
})

static uint32_t sum(const unsigned char *p, size_t n)
{
	uint32_t h = 2166136261u;

	while (n--)
		h = (h ^ *p++) * 16777619u;
	return h;
}

/* --- the model --- */

static int other(int e)
{
	return e ^ 1;
}

static int64_t unread(int e)
{
	return w->end[other(e)].sent - w->end[e].got;
}

static int a_number(int e)
{
	return w->end[e].nfds ? w->end[e].fd[chance((uint32_t)w->end[e].nfds)] : NOBODYS;
}

static int an_end(void)
{
	return (int)chance(ENDS);
}

/* An end that is open, if there is one. */
static int a_live_end(void)
{
	int e = an_end();

	for (int i = 0; i < ENDS && !w->end[e].nfds; i++)
		e = (e + 1) % ENDS;
	return e;
}

/* The peer will write no more. */
static bool over(int e)
{
	return !w->end[other(e)].nfds || w->end[other(e)].shut_wr;
}

/* It reads and writes no more. What the kernel makes of bytes that still come to it is not compared, nor
 * can a reset be told from it: an end mark is such bytes. */
static bool shut(int e)
{
	return w->end[e].shut_rd && w->end[e].shut_wr;
}

static short bits_of(int fd, short want)
{
	struct pollfd p = { fd, want, 0 };

	return poll(&p, 1, 0) > 0 ? p.revents : 0;
}

/* What e's peer did has arrived: its bytes, and its end. */
static void settle(int e)
{
	int fd = w->end[e].nfds ? w->end[e].fd[0] : -1, n = -1;

	for (int i = 0; fd >= 0 && i < 40000; i++) {
		short bits = bits_of(fd, POLLRDHUP);

		if (over(e) ? bits : bits & (POLLERR | POLLHUP) ||
				     (!ioctl(fd, FIONREAD, &n) && n == unread(e)))
			return;
		usleep(500);
	}
}

/* A reset after an end shows on nothing that could be waited for. But what this process has sent goes one
 * after another through the queue of its one CPU, and so do the answers to that: they are there
 * when a datagram that was sent behind them is. The library looks at the socket some milliseconds later. */
static void all_arrives(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(at);
	char c;

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&at, len));
	CHECK(!getsockname(fd, (struct sockaddr *)&at, &len));
	CHECK(!connect(fd, (struct sockaddr *)&at, len));
	for (int i = 0; i < 3; i++)
		CHECK(send(fd, "", 1, 0) == 1 && recv(fd, &c, 1, 0) == 1);
	close(fd);
	usleep(20000);
}

static void on_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
}

static void settle_all(void)
{
	if (ended)
		all_arrives();
	ended = false;
	for (int e = 0; e < ENDS; e++)
		settle(e);
}

/* e has read n bytes: calls that are whole now want an answer. */
static void has_read(int e, int64_t n)
{
	struct end *x = &w->end[e];

	for (x->got += n; x->first != x->past && x->ends[x->first % RECORDS] <= x->got; x->first++) {
		uint32_t xid = x->xid[x->first % RECORDS];

		if (xid && x->ntodo < TODO)
			x->todo[x->ntodo++] = xid;
	}
}

/* The number is no longer what it was. */
static void forget(int fd)
{
	for (int e = 0; e < ENDS; e++) {
		struct end *x = &w->end[e];

		for (int i = 0; i < x->nfds; i++)
			if (x->fd[i] == fd)
				x->fd[i--] = x->fd[--x->nfds];
		ended |= !x->nfds;
	}
}

static void add_number(int e, int fd)
{
	if (w->end[e].nfds < NUMBERS)
		w->end[e].fd[w->end[e].nfds++] = fd;
	else
		CHECK_EQ(close(fd), 0);
}

static void connect_pair(int c)
{
	int s[2], at_once = 1;

	rpc_pair(s);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(setsockopt(s[i], IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once)), 0);
		w->end[2 * c + i] = (struct end){ .fd = { s[i] }, .nfds = 1, .lowat = 1 };
	}
	say("connected: %d %d", s[0], s[1]);
}

#endif
