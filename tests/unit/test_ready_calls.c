/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() and ppoll(): whose call it is, what one connection tells at once, and how long the wait may last. */
#include <sys/resource.h>

#include "preload/pollrest.h"

static int wait_played(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask);
static int limit_played(int which, struct rlimit *lim);

static bool peek_played(struct rr_conn *of, unsigned want);

#define rr_poll_wait wait_played
#define rr_conn_peek peek_played
#define getrlimit(which, lim) limit_played((int)(which), lim)
#include "preload/poll_calls.c"
#undef rr_poll_wait
#undef rr_conn_peek
#undef getrlimit

#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

/* What the wait and the kernel were called with. */
static struct { int waits, polls, ppolls; nfds_t n; rr_time deadline; const void *fds, *timeout, *mask; int ms; } told;
static int wait_says;

static int wait_played(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask)
{
	told.waits++;
	told.fds = fds;
	told.n = n;
	told.deadline = deadline;
	told.mask = mask;
	return wait_says;
}

static int poll_played(struct pollfd *fds, nfds_t n, int ms)
{
	told.polls++;
	told.fds = fds;
	told.n = n;
	told.ms = ms;
	return 42;
}

static int ppoll_played(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	told.ppolls++;
	told.fds = fds;
	told.n = n;
	told.timeout = timeout;
	told.mask = mask;
	return 43;
}

static rlim_t limit = RLIM_INFINITY;
static bool limit_fails;

static int limit_played(int which, struct rlimit *lim)
{
	cr_assert_eq(which, RLIMIT_NOFILE);
	lim->rlim_cur = limit;
	return limit_fails ? -1 : 0;
}

static bool shows_more;

static bool peek_played(struct rr_conn *of, unsigned want)
{
	return shows_more || rr_conn_peek(of, want);
}

static struct rr_conn *c;
static struct rr_sock *so;
static struct pollfd p[100];

static void begin_call(void)
{
	int peer, fd = tcp(&peer);

	now = START;
	c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	so = container_of(rr_fdt_peek(fd), struct rr_sock, f);
	for (int i = 0; i < 100; i++)
		p[i] = (struct pollfd){ -1, POLLIN, 9 };
	p[0].fd = fd;
	rr_real.poll = poll_played;
	rr_real.ppoll = ppoll_played;
	wait_says = 3;
	errno = ENOKEY;
}

TestSuite(ready_calls, .init = begin_call);

/* Whose is a poll() of n? */
static bool is_ours(struct pollfd *fds, nfds_t n)
{
	int was = told.waits + told.polls, rc = rr_wrap_poll(fds, n, -1);

	cr_assert_eq(told.waits + told.polls, was + 1);
	cr_assert(told.fds == fds && told.n == n);
	was = told.waits;
	told.waits = 0;
	cr_assert_eq(rc, was ? 3 : 42);
	return was;
}

Test(ready_calls, a_call_with_one_of_ours_anywhere_is_ours)
{
	int fd = p[0].fd;

	cr_assert(is_ours(p, 1) && is_ours(p, 3));
	p[0].fd = -1;
	cr_assert(!is_ours(p, 1) && !is_ours(p, 3));
	p[2].fd = fd;
	cr_assert(is_ours(p, 3) && !is_ours(p, 2), "none behind the array");
	p[1].fd = 9999;
	cr_assert(is_ours(p, 3));
	p[2].fd = 9999;
	cr_assert_not(is_ours(p, 3));
	cr_assert_eq(dup2(fd, 0), 0);
	rr_fake_conn(0, RR_FAKE_CARRIED);
	p[2].fd = 0;
	cr_assert(is_ours(p, 3), "a number as any other");
}

Test(ready_calls, an_array_that_cannot_be_read_is_the_kernels)
{
	cr_assert(!is_ours(NULL, 0) && !is_ours(p, 0) && !is_ours(NULL, 1) && !is_ours((struct pollfd *)8, 1));
	cr_assert(!is_ours((struct pollfd *)8, 2) && !is_ours((struct pollfd *)-8, 1));
}

Test(ready_calls, an_array_longer_than_the_limit_is_the_kernels)
{
	limit = 64;
	cr_assert(is_ours(p, 64) && !is_ours(p, 65));
	limit--;
	cr_assert_not(is_ours(p, 64));
	limit = 1;
	cr_assert(is_ours(p, 63), "short ones are not judged by it");
	limit = RLIM_INFINITY;
	cr_assert(is_ours(p, 100));
	limit_fails = true;
	cr_assert(!is_ours(p, 64) && is_ours(p, 63));
}

/* What one connection tells at once; 0: it is waited for. */
static short told_at_once(short events)
{
	int rc;

	p[0].events = events;
	p[0].revents = 9;
	told.waits = 0;
	rc = rr_wrap_poll(p, 1, 5);
	cr_assert_eq(errno, ENOKEY);
	cr_assert_eq(so->f.refs, 1);
	cr_assert_eq(rc, told.waits ? 3 : 1);
	cr_assert(!told.waits || p[0].revents == 9, "the entry is untouched");
	return told.waits ? 0 : p[0].revents;
}

Test(ready_calls, what_memory_shows_is_told_at_once)
{
	cr_assert_eq(told_at_once(POLLIN), 0);
	cr_assert_eq(c->polls, 0);
	c->ready = POLLIN;
	cr_assert_eq(told_at_once(POLLIN | POLLRDNORM), POLLIN | POLLRDNORM);
	cr_assert(c->polls == 1 && c->asked == 0);
	cr_assert_eq(told_at_once(POLLOUT), 0);
	cr_assert_eq(c->polls, 1);
	c->ready = POLLHUP;
	cr_assert_eq(told_at_once(0), POLLHUP);
	c->busy_from = 1;
	cr_assert_eq(told_at_once(POLLIN), 0);
	c->busy_from = 0;
	c->face.state = RR_FAKE_TCP;
	cr_assert_eq(told_at_once(POLLIN), 0);
}

/* Another thread takes it between the two looks. */
Test(ready_calls, what_is_taken_meanwhile_is_not_told)
{
	shows_more = true;
	cr_assert_eq(told_at_once(POLLIN), 0);
	cr_assert_eq(c->polls, 1);
}

Test(ready_calls, bytes_that_were_seen_are_told_to_who_asks_for_bytes_alone)
{
	c->seen = true;
	cr_assert_eq(told_at_once(POLLIN), POLLIN);
	cr_assert_eq(told_at_once(POLLRDNORM), POLLRDNORM);
	cr_assert_eq(told_at_once(POLLIN | POLLRDNORM), POLLIN | POLLRDNORM);
	cr_assert_eq(told_at_once(POLLIN | POLLPRI), 0);
	cr_assert_eq(told_at_once(POLLOUT), 0);
	cr_assert_eq(told_at_once(0), 0);
	cr_assert_eq(c->polls, 0);
	c->seen = false;
	cr_assert_eq(told_at_once(POLLIN), 0);
}

/* Of two, one does not answer for both. */
Test(ready_calls, only_one_is_told_of_at_once)
{
	c->ready = POLLIN;
	cr_assert(is_ours(p, 2));
	cr_assert_eq(c->polls, 0);
}

static int cancelled_where;

static void *poll_cancelled_before(void *arg RR_UNUSED)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	pthread_cancel(pthread_self());
	cancelled_where = 1;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	rr_wrap_poll(p, 1, 0);
	cancelled_where = 2;
	return NULL;
}

Test(ready_calls, it_is_a_cancellation_point_where_it_does_not_wait)
{
	pthread_t t;
	void *how;

	c->ready = POLLIN;
	cr_assert_eq(pthread_create(&t, NULL, poll_cancelled_before, NULL), 0);
	pthread_join(t, &how);
	cr_assert(how == PTHREAD_CANCELED && cancelled_where == 1);
}

/* --- how long --- */

Test(ready_calls, how_long_poll_waits)
{
	static const struct { int ms; rr_time deadline; } t[] = {
		{ -1, RR_TIME_NEVER }, { -7, RR_TIME_NEVER }, { 0, 0 }, { 1, START + RR_MSEC }, { 2500, START + 2500 * RR_MSEC },
		{ INT32_MAX, START + (rr_time)INT32_MAX * RR_MSEC },
	};

	for (size_t i = 0; i < rr_array_size(t); i++) {
		cr_assert_eq(rr_wrap_poll(p, 2, t[i].ms), 3);
		cr_assert(told.deadline == t[i].deadline && told.mask == NULL, "%zu", i);
	}
	wait_says = -EINTR;
	cr_assert_eq(rr_wrap_poll(p, 2, 0), -1);
	cr_assert_eq(errno, EINTR);
	p[0].fd = -1;
	rr_wrap_poll(p, 2, 77);
	cr_assert_eq(told.ms, 77);
}

Test(ready_calls, how_long_ppoll_waits)
{
	static const struct { struct timespec t; rr_time deadline; } t[] = {
		{ { 0, 0 }, 0 }, { { 0, 1 }, START + 1 }, { { 1, 0 }, START + RR_SEC }, { { 2, 3 }, START + 2 * RR_SEC + 3 },
	};
	sigset_t mask;

	for (size_t i = 0; i < rr_array_size(t); i++) {
		cr_assert_eq(rr_wrap_ppoll(p, 2, &t[i].t, i ? &mask : NULL), 3);
		cr_assert(told.deadline == t[i].deadline && told.mask == (i ? &mask : NULL) && told.n == 2 && told.fds == p, "%zu", i);
	}
	cr_assert_eq(rr_wrap_ppoll(p, 2, NULL, &mask), 3);
	cr_assert(told.deadline == RR_TIME_NEVER && told.mask == &mask);
	cr_assert_eq(rr_wrap_ppoll(p, 2, NULL, NULL), 3);
	cr_assert(told.deadline == RR_TIME_NEVER && told.mask == NULL && told.ppolls == 0);
	wait_says = -EINTR;
	cr_assert_eq(rr_wrap_ppoll(p, 2, NULL, NULL), -1);
	cr_assert_eq(errno, EINTR);
}

static void assert_kernels(nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	told.ppolls = 0;
	cr_assert_eq(rr_wrap_ppoll(p, n, timeout, mask), 43);
	cr_assert(told.ppolls == 1 && told.waits == 0 && told.fds == p && told.n == n && told.timeout == timeout && told.mask == mask);
}

Test(ready_calls, what_is_wrong_with_ppoll_is_the_kernels_to_refuse)
{
	static const struct timespec fine = { 1, 0 }, bad = { 0, -1 };
	sigset_t mask;

	assert_kernels(2, (void *)8, NULL);
	assert_kernels(2, (void *)8, &mask);
	assert_kernels(2, NULL, (void *)8);
	assert_kernels(2, &fine, (void *)8);
	assert_kernels(2, &bad, NULL);
	assert_kernels(2, &bad, &mask);
	p[0].fd = -1;
	assert_kernels(2, &fine, &mask);
	assert_kernels(2, NULL, NULL);
}
