/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel is asked for an epoll set: how long it is to sleep. */
#include <errno.h>
#include <limits.h>

#include "tests/unit/ready_epoll.h"

static struct {
	int calls, epfd, max, timeout;
	const struct epoll_event *evs;
	const sigset_t *mask;
	struct timespec ts;
	bool has_ts;
} pwait, pwait2;
static int pwait_says, pwait2_says;	/* < 0: -errno */

static int answer(int says)
{
	if (says < 0)
		errno = -says;
	return says < 0 ? -1 : says;
}

static int fake_pwait(int epfd, struct epoll_event *evs, int max, int timeout, const sigset_t *mask)
{
	pwait.calls++;
	pwait.epfd = epfd;
	pwait.evs = evs;
	pwait.max = max;
	pwait.timeout = timeout;
	pwait.mask = mask;
	return answer(pwait_says);
}

static int fake_pwait2(int epfd, struct epoll_event *evs, int max, const struct timespec *ts, const sigset_t *mask)
{
	pwait2.calls++;
	pwait2.epfd = epfd;
	pwait2.evs = evs;
	pwait2.max = max;
	pwait2.has_ts = ts;
	if (ts)
		pwait2.ts = *ts;
	pwait2.mask = mask;
	return answer(pwait2_says);
}

static struct epoll_event evs[8];
static int set;

/* A set that has nothing of ours: the wait is one sleep. */
static void fake_sleeps(void)
{
	set = rr_wrap_epoll_create1(EPOLL_CLOEXEC);
	rr_real.epoll_pwait = fake_pwait;
	rr_real.epoll_pwait2 = fake_pwait2;
}

TestSuite(ready_epoll_sleep, .init = fake_sleeps, .timeout = 60);

Test(ready_epoll_sleep, milliseconds_are_the_kernels_own)
{
	static const int says[] = { 0, 1, 3, -EINTR, -EBADF };
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < rr_array_size(says); i++) {
		pwait_says = says[i];
		errno = 4711;
		cr_assert_eq(rr_wrap_epoll_pwait(set, evs, 5, -1, &mask), says[i] < 0 ? -1 : says[i]);
		cr_assert_eq(errno, says[i] < 0 ? -says[i] : 4711);
		cr_assert_eq(pwait.calls, (int)i + 1);
		cr_assert_eq(pwait.timeout, -1);
		cr_assert(pwait.epfd == set && pwait.evs == evs && pwait.max == 5 && pwait.mask == &mask);
	}
	pwait_says = 0;
	cr_assert_eq(rr_wrap_epoll_wait(set, evs, 8, 0), 0);
	cr_assert_eq(pwait.timeout, 0);
	cr_assert(pwait.max == 8 && !pwait.mask);
	cr_assert_eq(rr_wrap_epoll_wait(set, evs, 8, INT_MAX), 0);
	cr_assert_geq(pwait.timeout, INT_MAX - 3600000);
	cr_assert_eq(pwait2.calls, 0);
}

/* What has gone by since the call began does not shorten it below what was asked for. */
Test(ready_epoll_sleep, a_part_of_a_millisecond_is_a_whole_one)
{
	for (int i = 0; pwait.timeout != 1000000; i++) {
		cr_assert_eq(rr_wrap_epoll_wait(set, evs, 8, 1000000), 0);
		cr_assert_leq(pwait.timeout, 1000000);
		cr_assert_geq(pwait.timeout, 900000);
		cr_assert_lt(i, 10000);
	}
}

Test(ready_epoll_sleep, nanoseconds_are_the_kernels_where_it_has_them)
{
	static const int says[] = { 0, 2, -EINTR, -EFAULT };
	struct timespec ts = { 1000, 500 };
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < rr_array_size(says); i++) {
		pwait2_says = says[i];
		errno = ENOSYS;
		cr_assert_eq(rr_wrap_epoll_pwait2(set, evs, 5, &ts, &mask), says[i] < 0 ? -1 : says[i]);
		cr_assert_eq(errno, says[i] < 0 ? -says[i] : ENOSYS);
		cr_assert_eq(pwait2.calls, (int)i + 1);
		cr_assert(pwait2.has_ts && pwait2.ts.tv_sec <= 1000 && pwait2.ts.tv_sec > 900);
		cr_assert(pwait2.epfd == set && pwait2.evs == evs && pwait2.max == 5 && pwait2.mask == &mask);
	}
	cr_assert_eq(pwait.calls, 0, "asked once");
}

/* Less than a millisecond, too, if it is not over before the kernel is asked. */
Test(ready_epoll_sleep, a_part_of_a_millisecond_is_one_in_nanoseconds)
{
	struct timespec ts = { 0, 900000 };

	for (int i = 0; !pwait2.calls; i++) {
		cr_assert_eq(rr_wrap_epoll_pwait2(set, evs, 8, &ts, NULL), 0);
		cr_assert_lt(i, 10000);
	}
	cr_assert(pwait2.has_ts && !pwait2.ts.tv_sec && pwait2.ts.tv_nsec <= 900000 && pwait2.ts.tv_nsec > 0);
}

Test(ready_epoll_sleep, without_them_it_sleeps_at_least_so_many_milliseconds)
{
	struct timespec ts = { 1000, 500 }, ages = { 10000000, 1 };
	sigset_t mask;

	sigemptyset(&mask);
	pwait2_says = -ENOSYS;
	pwait_says = 4;
	errno = 4711;
	cr_assert_eq(rr_wrap_epoll_pwait2(set, evs, 5, &ts, &mask), 4);
	cr_assert_eq(errno, 4711);
	cr_assert(pwait2.calls == 1 && pwait.calls == 1);
	cr_assert(pwait.timeout <= 1000001 && pwait.timeout >= 900000, "%d", pwait.timeout);
	cr_assert(pwait.epfd == set && pwait.evs == evs && pwait.max == 5 && pwait.mask == &mask);
	cr_assert_eq(rr_wrap_epoll_pwait2(set, evs, 5, &ages, NULL), 4);
	cr_assert_eq(pwait.timeout, INT_MAX);
}

Test(ready_epoll_sleep, for_ever_and_not_at_all_need_no_nanoseconds)
{
	struct timespec none = { 0, 0 }, ages = { (time_t)UINT32_MAX + 1, 0 };

	cr_assert_eq(rr_wrap_epoll_pwait2(set, evs, 8, NULL, NULL), 0);
	cr_assert_eq(pwait.timeout, -1);
	cr_assert_eq(rr_wrap_epoll_pwait2(set, evs, 8, &none, NULL), 0);
	cr_assert_eq(pwait.timeout, 0);
	cr_assert_eq(rr_wrap_epoll_pwait2(set, evs, 8, &ages, NULL), 0);
	cr_assert_eq(pwait.timeout, -1);
	cr_assert(pwait.calls == 3 && pwait2.calls == 0);
}
