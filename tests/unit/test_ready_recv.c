/* SPDX-License-Identifier: BSD-3-Clause */
/* What a sleep in the kernel's recv() comes to, by how it ends and on which descriptor it was. The kernel is played. */
#include <errno.h>

#include "preload/wait_one.c"

#include "tests/lib/ready_test.h"

#define OWN	5	/* the app's descriptor */
#define WAKE	6

static int error, calls;

static ssize_t recv_played(int fd, void *buf, size_t n, int flags)
{
	cr_assert((fd == OWN || fd == WAKE) && buf && n == 1 && flags == MSG_PEEK);
	calls++;
	errno = error < 0 ? ENOKEY : error;
	return error < 0 ? error + 2 : -1;	/* -1: a byte is there; -2: the end */
}

static int sleeps(int fd, int how)
{
	struct sleeper s = { .fd = OWN };
	struct pollfd p = { fd, POLLIN, 0 };

	rr_real.recv = recv_played;
	error = how;
	calls = 0;
	return sleep_in_recv(&s, &p);
}

TestSuite(ready_recv, .timeout = 60);

Test(ready_recv, what_is_there_is_looked_at)
{
	for (int fd = OWN; fd <= WAKE; fd++) {
		cr_assert_eq(sleeps(fd, -1), 0);
		cr_assert_eq(sleeps(fd, -2), 0, "the end, too");
		cr_assert_eq(calls, 1);
	}
}

Test(ready_recv, a_signal_ends_it_and_who_may_not_wait_sleeps_elsewhere)
{
	for (int fd = OWN; fd <= WAKE; fd++) {
		cr_assert_eq(sleeps(fd, EINTR), -EINTR);
		cr_assert_eq(sleeps(fd, EAGAIN), -EAGAIN);
	}
}

Test(ready_recv, an_error_of_the_apps_socket_is_the_apps)
{
	cr_assert_eq(sleeps(OWN, ECONNRESET), -ECONNRESET);
	cr_assert_eq(sleeps(OWN, ENOTCONN), -ENOTCONN);
}

Test(ready_recv, one_of_ours_is_looked_at)
{
	cr_assert_eq(sleeps(WAKE, ECONNRESET), 0);
	cr_assert_eq(sleeps(WAKE, EBADF), 0);
}
