/* SPDX-License-Identifier: BSD-3-Clause */
/* Time-outs of the app's as deadlines, and deadlines as time-outs of the kernel's, at their bounds. */
#include <criterion/criterion.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "preload/ready.h"

Test(wait_time, what_the_kernel_takes_for_a_time)
{
	static const struct { long s, ns; bool ok; } c[] = {
		{ 0, 0, true }, { 0, 999999999, true }, { LONG_MAX, 0, true }, { 0, 1000000000, false }, { 0, -1, false }, { -1, 0, false },
		{ 1, LONG_MAX, false },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		struct timespec ts = { c[i].s, c[i].ns };

		cr_assert_eq(rr_timespec_ok(&ts), c[i].ok, "%zu", i);
	}
}

Test(wait_time, a_deadline_is_now_and_what_is_left_or_never)
{
	static const struct { long s, ns; } c[] = { { 0, 0 }, { 0, 1 }, { 1, 999999999 }, { 77, 5 }, { UINT32_MAX, 0 } };
	struct timespec far = { (time_t)UINT32_MAX + 1, 0 };
	rr_time before, d;

	cr_assert_eq(rr_deadline(NULL), RR_TIME_NEVER);
	if (sizeof(time_t) > 4)
		cr_assert_eq(rr_deadline(&far), RR_TIME_NEVER);
	for (size_t i = 0; i < rr_array_size(c); i++) {
		struct timespec ts = { c[i].s, c[i].ns };
		rr_time left = (rr_time)c[i].s * RR_SEC + (rr_time)c[i].ns;

		if (ts.tv_sec < 0)	/* of 32 bits */
			continue;
		before = rr_now();
		d = rr_deadline(&ts);
		cr_assert(d >= before + left && d <= rr_now() + left, "%zu", i);
	}
}

Test(wait_time, what_is_left_until_a_deadline)
{
	static const struct { rr_time now, end; long s, ns; } c[] = {
		{ 5, 5, 0, 0 }, { 5, 4, 0, 0 }, { 5, 6, 0, 1 }, { 1, RR_SEC, 0, 999999999 }, { 1, RR_SEC + 1, 1, 0 },
		{ 7, 7 + 12 * RR_SEC + 34, 12, 34 }, { 5, 0, 0, 0 },
	};
	struct timespec ts;

	cr_assert_null(rr_left(&ts, 5, RR_TIME_NEVER));
	for (size_t i = 0; i < rr_array_size(c); i++) {
		cr_assert_eq(rr_left(&ts, c[i].now, c[i].end), &ts);
		cr_assert(ts.tv_sec == c[i].s && ts.tv_nsec == c[i].ns, "%zu", i);
	}
}

Test(wait_time, the_time_out_of_a_socket_is_a_deadline_from_now)
{
	static const struct { long s, us; } c[] = { { 2, 500000 }, { 3, 0 }, { 0, 100000 }, { 0, 0 } };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	rr_time before, d;

	for (size_t i = 0; i < rr_array_size(c); i++) {
		struct timeval tv = { c[i].s, c[i].us };
		rr_time left = (rr_time)c[i].s * RR_SEC + (rr_time)c[i].us * RR_USEC;

		cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
		before = rr_now();
		d = rr_wait_deadline(fd, SO_RCVTIMEO);
		if (left)	/* which the kernel keeps in ticks */
			cr_assert(d >= before + left && d <= rr_now() + left + 10 * RR_MSEC, "%zu", i);
		else
			cr_assert_eq(d, RR_TIME_NEVER);
		cr_assert_eq(rr_wait_deadline(fd, SO_SNDTIMEO), RR_TIME_NEVER);
	}
	close(fd);
	cr_assert_eq(rr_wait_deadline(fd, SO_RCVTIMEO), RR_TIME_NEVER);
}

/* A sleep that was ended at once for nothing is one of a row; a longer one ends the row. */
Test(wait_time, sleeps_for_nothing_are_counted_in_a_row)
{
	struct rr_fruitless f = { 0 };

	for (unsigned i = 1; i <= 5; i++) {
		rr_fruitless_slept(&f, 100, 100 + RR_MSEC - 1);
		cr_assert_eq(f.n, i);
	}
	rr_fruitless_slept(&f, 100, 100 + RR_MSEC);
	cr_assert_eq(f.n, 0);
}
