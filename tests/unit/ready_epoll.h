/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef READY_EPOLL_H
#define READY_EPOLL_H

/* For tests of epoll sets: a set with a scripted connection in it. */

#include <sys/epoll.h>
#include <sys/wait.h>

#include "preload/epset.h"
#include "tests/lib/ready_test.h"

struct one {
	int ep, fd, peer;
	struct rr_conn *c;
	struct epoll_event ev[8];
};

static inline void ctl(int ep, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = (uint64_t)fd << 32 | 7 };

	cr_assert_eq(rr_wrap_epoll_ctl(ep, op, fd, &ev), 0);
}

static inline struct one begin(enum rr_fake_state state, uint32_t events)
{
	struct one o = { .ep = rr_wrap_epoll_create1(EPOLL_CLOEXEC) };

	o.fd = tcp(&o.peer);
	o.c = rr_fake_conn(o.fd, state);
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, events);
	return o;
}

static inline int look(struct one *o, int timeout)
{
	return rr_wrap_epoll_wait(o->ep, o->ev, 8, timeout);
}

static inline void expect(struct one *o, uint32_t bits)
{
	cr_assert_eq(look(o, -1), 1);
	cr_assert_eq(o->ev[0].events, bits, "%x", o->ev[0].events);
	cr_assert_eq(o->ev[0].data.u64, (uint64_t)o->fd << 32 | 7);
}

static inline void dry(struct one *o, unsigned want)
{
	struct rr_sock *so = rr_fdt_sock(o->fd);

	rr_sock_dry(so, want);
	rr_file_put(&so->f);
}

#endif
