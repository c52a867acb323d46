/* SPDX-License-Identifier: BSD-3-Clause */
/* The rounds of a wait of poll(): when the kernel is asked before the thread spins, for how long it sleeps, and what is
 * told after a sleep. The kernel, the clock, and what a connection wants of a spin are played. */
#include <errno.h>

#include "core/base/os.h"
#include "preload/looks.h"
#include "preload/pollrest.h"

static RR_UNUSED void spin_played(const struct rr_conn *c, struct rr_spin *s);
static RR_UNUSED bool spin_begins(struct rr_spin *s, rr_time deadline);

#define rr_conn_spin spin_played
#define rr_spin_begin spin_begins
#include "preload/ready_poll.c"
#undef rr_conn_spin
#undef rr_spin_begin

#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

static char order[16];		/* what was done, one letter each: Look, spiN, Sleep */
static unsigned norder;
static rr_time want, left[8];
static uint32_t yields;
static short kernel_says;	/* of the array's last entry, in a look */
static void (*in_sleep)(struct pollfd *fds, nfds_t n);

static void note(char what)
{
	cr_assert_lt(norder + 1, sizeof(order));
	order[norder++] = what;
}

static unsigned sleeps(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < norder; i++)
		n += order[i] == 'S';
	return n;
}

static void spin_played(const struct rr_conn *c RR_UNUSED, struct rr_spin *s)
{
	s->want = want;
	s->yields = yields;
}

static bool spin_begins(struct rr_spin *s, rr_time deadline)
{
	cr_assert(s->want == want && s->yields == yields && deadline);
	if (s->want || s->yields)
		note('N');
	return false;
}

static int look_played(struct pollfd *fds, nfds_t n, int timeout)
{
	cr_assert_eq(timeout, 0);
	note('L');
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = 0;
	fds[n - 1].revents = kernel_says;
	return kernel_says != 0;
}

static int sleep_played(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask RR_UNUSED)
{
	int ready = 0;

	cr_assert_lt(sleeps(), rr_array_size(left));
	left[sleeps()] = ts ? (rr_time)ts->tv_sec * RR_SEC + (rr_time)ts->tv_nsec : RR_TIME_NEVER;
	note('S');
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = 0;
	if (in_sleep)
		in_sleep(fds, n);
	for (nfds_t i = 0; i < n; i++)
		ready += fds[i].revents != 0;
	if (!ready && ts)
		now += left[sleeps() - 1];
	return ready;
}

static int fd, peer, pipes[2];
static struct rr_conn *c;
static struct pollfd p[2];

static void begin_rounds(void)
{
	now = START;
	fd = tcp(&peer);
	c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	cr_assert_eq(pipe(pipes), 0);
	p[0] = (struct pollfd){ fd, POLLIN, 9 };
	p[1] = (struct pollfd){ pipes[0], POLLIN, 9 };
	rr_real.poll = look_played;
	rr_real.ppoll = sleep_played;
}

TestSuite(ready_poll_rounds, .init = begin_rounds, .timeout = 60);

static int wait_with(rr_time spin, uint32_t yield)
{
	norder = 0;
	memset(order, 0, sizeof(order));
	want = spin;
	yields = yield;
	return rr_wrap_poll(p, 2, 50);
}

/* Few are armed without: the sleep asks the kernel. */
Test(ready_poll_rounds, the_kernel_is_asked_before_a_spin_and_before_it_yields)
{
	cr_assert_eq(wait_with(0, 0), 0);
	cr_assert(!strcmp(order, "SL"), "%s", order);
	cr_assert_eq(wait_with(1, 0), 0);
	cr_assert(!strcmp(order, "LNSL"), "%s", order);
	cr_assert_eq(wait_with(0, 1), 0);
	cr_assert(!strcmp(order, "LNSL"), "%s", order);
	kernel_says = POLLIN;
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(wait_with(!i, (uint32_t)i), 1);
		cr_assert(!strcmp(order, "L"), "%s", order);
		cr_assert(p[0].revents == 0 && p[1].revents == POLLIN);
	}
}

static void wakes_in_vain(struct pollfd *fds, nfds_t n)
{
	if (sleeps() < 3)
		fds[n - 1].revents = POLLIN;	/* the bell, or the anchor */
	else
		c->ready = POLLHUP;
}

/* No descriptor tells of another thread's SHUT_WR on a connection that is carried. */
Test(ready_poll_rounds, who_waits_to_write_on_one_that_is_carried_looks_now_and_then)
{
	static const struct { short events; bool looks; } t[] = {
		{ POLLIN, false }, { POLLPRI, false }, { 0, false }, { POLLOUT, true }, { POLLWRNORM, true },
		{ POLLIN | POLLOUT, true }, { POLLRDNORM | POLLWRNORM, true }, { POLLWRBAND, false },
	};

	in_sleep = wakes_in_vain;
	for (size_t i = 0; i < rr_array_size(t); i++) {
		norder = 0;
		c->ready = 0;
		p[0].events = t[i].events;
		cr_assert_eq(rr_wrap_poll(p, 1, -1), 1, "%zu", i);
		cr_assert_eq(left[0], t[i].looks ? RR_SHUT_LOOK : RR_TIME_NEVER, "%zu: %lu", i, (unsigned long)left[0]);
		cr_assert_eq(p[0].revents, POLLHUP);
	}
	/* Of one that is TCP still the kernel tells. */
	c->face.state = RR_FAKE_NEW;
	c->ready = 0;
	in_sleep = NULL;
	norder = 0;
	p[0].events = POLLOUT;
	cr_assert_eq(rr_wrap_poll(p, 1, 100), 0);
	cr_assert_eq(left[0], 100 * RR_MSEC);
}

/* The app closes the number, and another file has it by the time that the kernel looks. */
static void number_goes(struct pollfd *fds, nfds_t n)
{
	cr_assert(n >= 2 && fds[0].fd == fd);
	if (sleeps() > 1)
		return;
	cr_assert_eq(rr_wrap_close(fd), 0);
	cr_assert_eq(dup2(pipes[0], fd), fd);
	fds[0].revents = POLLIN | POLLHUP;
}

Test(ready_poll_rounds, the_kernels_word_of_a_number_that_went_is_told_as_it_is)
{
	int other = tcp(&peer);

	c->face.state = RR_FAKE_NEW;
	c->plain = true;
	rr_fake_conn(other, RR_FAKE_CARRIED);
	p[1].fd = other;
	in_sleep = number_goes;
	cr_assert_eq(wait_with(0, 0), 1);
	cr_assert_eq(sleeps(), 1);
	cr_assert(p[0].revents == (POLLIN | POLLHUP) && p[1].revents == 0, "%x %x", p[0].revents, p[1].revents);
}
