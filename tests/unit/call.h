/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CALL_H
#define CALL_H

/* For tests of single calls: a socket whose connection answers by a script, and what must hold after each call. */

#include <errno.h>
#include <limits.h>

#include "preload/sock.h"
#include "tests/lib/ready_test.h"

#define MINE 4711	/* the app's errno */

static struct {
	int fd, peer;
	struct rr_conn *c;
	struct rr_sock *so;
	int set;		/* watches it for edges */
} at;

static inline void begin_call(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };

	at.fd = tcp(&at.peer);
	at.c = rr_fake_conn(at.fd, RR_FAKE_CARRIED);
	at.so = rr_fdt_sock(at.fd);
	rr_file_put(&at.so->f);
	at.set = rr_wrap_epoll_create1(0);
	cr_assert_eq(rr_wrap_epoll_ctl(at.set, EPOLL_CTL_ADD, at.fd, &ev), 0);
	errno = MINE;
}

/* The call has returned r, as it was to; no reference stays, and errno says what it has to. */
#define assert_said(r, says) do {							\
	ssize_t r_ = (r);								\
	int e_ = errno;									\
	long says_ = (says);								\
											\
	cr_assert_eq(r_, says_ < 0 ? -1 : says_, "%zd", r_);				\
	cr_assert_eq(e_, says_ < 0 ? -says_ : MINE, "errno %d", e_);			\
	cr_assert_eq(at.so->f.refs, 1);							\
	errno = MINE;									\
} while (0)

#endif
