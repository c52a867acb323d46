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

/* --- which descriptor's recv() stands for the sleep --- */

static void handler(int sig RR_UNUSED)
{
}

static void handle(int sig, int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	cr_assert_eq(sigaction(sig, &sa, NULL), 0);
}

/* Those of the harness are gone. */
static void handle_both_kinds(void)
{
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
}

Test(ready_recv, the_handlers_are_looked_at_once_a_second_by_who_waits_often)
{
	const rr_time at = 1000 * RR_SEC;
	unsigned int n = 0;

	handle_both_kinds();
	cr_assert(handlers_mixed(at));
	handle(SIGUSR2, SA_RESTART);
	cr_assert(handlers_mixed(at + RR_SEC - 1));
	while (handlers_mixed(at + RR_SEC + 1))
		n++;
	cr_assert_eq(n, RR_STALE_USES);
	handle(SIGUSR2, 0);
	cr_assert_not(handlers_mixed(at + 2 * RR_SEC - 1));
	cr_assert_not(handlers_mixed(at + 40 * RR_SEC));
	cr_assert(handlers_mixed(at + 62 * RR_SEC), "once a minute in any case");
}

static int there;	/* what poll() says */
static rr_time until = RR_TIME_NEVER, for_us = RR_TIME_NEVER;
static int nap;		/* the option that says whether the nap has a time-out */

static int poll_played(struct pollfd *p RR_UNUSED, nfds_t n, int timeout)
{
	cr_assert(n <= 2 && timeout == 0);
	return there;
}

static bool piped;	/* its wake-up fd is no socket */

/* Which of the two (fd, events) it is: 0 or 1; -1: neither. n: how many there are. */
static int chosen(int n, struct pollfd first, struct pollfd second)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct sleeper s = { .so = rr_fdt_sock(fd), .c = c, .fd = OWN, .p = { first, second }, .n = n,
			     .option = nap };
	const struct pollfd *p;

	c->wake = WAKE;
	c->piped = piped;
	rr_real.poll = poll_played;
	p = recv_sleep_on(&s, RR_SEC, for_us, until);
	return p ? (int)(p - s.p) : -1;
}

Test(ready_recv, at_rest_it_is_the_wake_up_fd_alone_at_first)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct sleeper s = { .so = rr_fdt_sock(fd), .c = c, .fd = fd, .want = POLLIN };
	const rr_time at = 1000 * RR_SEC;

	c->wake = WAKE;
	c->look_at = RR_SEC;
	what_to_sleep_on(&s, at);
	cr_assert(s.n == 2 && s.p[0].fd == fd && s.until == RR_SEC && !s.naps && !s.napped);
	c->rests = true;
	what_to_sleep_on(&s, at);
	cr_assert(s.n == 1 && s.p[0].fd == WAKE && s.p[0].events == POLLIN && s.naps);
	cr_assert_eq(s.until, at + RR_SEC / 4, "the anchor may have news");
	what_to_sleep_on(&s, at);
	cr_assert(s.n == 2 && s.p[0].fd == fd && !s.naps, "so that is slept on the next time");
	s.napped = false;
	handle_both_kinds();
	what_to_sleep_on(&s, at + 100 * RR_SEC);
	cr_assert_eq(s.n, 2, "it takes recv() to know whether it is restarted");
}

Test(ready_recv, nobody_reads_a_pipe)
{
	const struct pollfd own = { OWN, POLLRDHUP, 0 }, wake = { WAKE, POLLIN, 0 };

	handle_both_kinds();
	piped = true;
	cr_assert_eq(chosen(2, own, wake), -1);
	cr_assert_eq(chosen(2, (struct pollfd){ OWN, POLLIN | POLLRDHUP, 0 }, wake), -1);
}

Test(ready_recv, with_handlers_of_both_kinds_it_is_one_that_can_be_read)
{
	const struct pollfd own = { OWN, POLLRDHUP, 0 }, wake = { WAKE, POLLIN, 0 };

	handle_both_kinds();
	cr_assert_eq(chosen(2, own, wake), 1);
	cr_assert_eq(chosen(2, own, (struct pollfd){ WAKE, POLLOUT, 0 }), -1, "not to be read");
	cr_assert_eq(chosen(2, (struct pollfd){ OWN, POLLIN, 0 }, wake), -1, "the app's bytes are on the anchor");
	cr_assert_eq(chosen(2, (struct pollfd){ OWN, POLLIN | POLLRDHUP, 0 }, wake), 1, "those are ours");
	cr_assert_eq(chosen(1, (struct pollfd){ OWN, POLLIN | POLLRDHUP, 0 }, own), 0);
	cr_assert_eq(chosen(1, own, own), -1);
	there = 1;
	cr_assert_eq(chosen(2, own, wake), -1, "there is something already");
	cr_assert_eq(chosen(1, (struct pollfd){ OWN, POLLIN | POLLRDHUP, 0 }, own), -1);
}

Test(ready_recv, with_other_handlers_it_is_the_one_that_is_slept_on)
{
	const struct pollfd own = { OWN, POLLIN, 0 }, wake = { WAKE, POLLIN, 0 };

	handle_both_kinds();
	handle(SIGUSR2, SA_RESTART);
	there = 1;	/* which is not asked */
	cr_assert_eq(chosen(1, own, wake), 0);
	cr_assert_eq(chosen(1, wake, own), 0);
	cr_assert_eq(chosen(0, wake, own), -1);
	cr_assert_eq(chosen(2, wake, own), -1, "of two poll() alone can sleep");
	cr_assert_eq(chosen(2, own, wake), -1);
	cr_assert_eq(chosen(1, (struct pollfd){ 7, POLLIN, 0 }, wake), -1, "nobody's");
	cr_assert_eq(chosen(1, (struct pollfd){ WAKE, POLLIN | POLLRDHUP, 0 }, own), -1);
	cr_assert_eq(chosen(1, (struct pollfd){ OWN, POLLIN | POLLRDHUP, 0 }, wake), -1);
	for_us = 2 * RR_SEC;
	cr_assert_eq(chosen(1, own, wake), -1, "it has to end for our sake");
}

/* The kernel knows the time-out of the app's socket, and no other. */
Test(ready_recv, with_a_time_out_it_is_the_apps_socket_if_that_has_it)
{
	const struct pollfd own = { OWN, POLLIN, 0 }, wake = { WAKE, POLLIN, 0 };

	handle_both_kinds();
	until = 2 * RR_SEC;
	cr_assert_eq(chosen(1, own, wake), -1);
	cr_assert_eq(chosen(1, wake, own), -1);
	nap = SO_RCVTIMEO;
	cr_assert_eq(chosen(1, own, wake), 0);
	cr_assert_eq(chosen(1, wake, own), -1);
	cr_assert_eq(chosen(2, own, wake), -1);
	cr_assert_eq(chosen(1, (struct pollfd){ OWN, POLLIN | POLLRDHUP, 0 }, wake), -1);
}

/* --- a spin that is over --- */

/* What was wanted first is forgotten. */
Test(ready_recv, when_a_spin_is_over_its_connection_is_asked_anew_for_how_long)
{
	int peer;
	struct rr_conn *c = rr_fake_conn(tcp(&peer), RR_FAKE_CARRIED);
	struct rr_spin spin = { .now = 1000, .began = 1000, .want = RR_SEC };

	c->longer = RR_MSEC;
	wait_spin_longer(c, &spin, RR_TIME_NEVER);
	cr_assert_eq(spin.want, RR_MSEC);
}
