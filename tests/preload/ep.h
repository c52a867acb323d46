/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef P_EP_H
#define P_EP_H

/* What the tests of epoll sets share: one record of SIZE bytes, a set, and the event of one
 * descriptor in it. */

#include "tests/preload/calls.h"

static unsigned char rec[4096];
enum { SIZE = RPC_CALL_HEAD + 600 };

static inline void put(int fd)
{
	p_write_all(fd, rec, rpc_call(rec, 5, SIZE - RPC_CALL_HEAD));
}

static inline void get(int fd)
{
	p_read_all(fd, rec, SIZE);
}

static inline int ctl(int ep, int op, int fd, unsigned events)
{
	struct epoll_event ev = { .events = events, .data.u64 = 0x123400000000 + (unsigned)fd };

	return epoll_ctl(ep, op, fd, &ev);
}

static inline int new_set(int fd, unsigned events)
{
	int ep = epoll_create1(0);

	CHECK(ep >= 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, fd, events), 0);
	return ep;
}

/* The only event within ms, which must be fd's own; 0 none. */
static inline unsigned event(int ep, int fd, int ms)
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

#endif
