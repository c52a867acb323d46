/* SPDX-License-Identifier: BSD-3-Clause */
/* A sleep where a filter of system calls forbids ppoll(): poll() has whole milliseconds. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "preload/real.h"

static struct { int calls, says; nfds_t n; struct pollfd *fds; int ms; } by_ppoll, by_poll;

static int forbidden_ppoll(struct pollfd *fds RR_UNUSED, nfds_t n RR_UNUSED, const struct timespec *t RR_UNUSED,
			   const sigset_t *mask RR_UNUSED)
{
	by_ppoll.calls++;
	if (by_ppoll.says < 0)
		errno = -by_ppoll.says;
	return by_ppoll.says < 0 ? -1 : by_ppoll.says;
}

static int told_poll(struct pollfd *fds, nfds_t n, int ms)
{
	by_poll.calls++;
	by_poll.fds = fds;
	by_poll.n = n;
	by_poll.ms = ms;
	return by_poll.says;
}

static void forbid(void)
{
	rr_real.ppoll = forbidden_ppoll;
	rr_real.poll = told_poll;
}

TestSuite(real_sleep, .init = forbid);

Test(real_sleep, only_what_is_forbidden_is_done_in_another_way)
{
	static const struct { int says; bool other; } c[] = {
		{ 0, false }, { 2, false }, { -EINTR, false }, { -EINVAL, false }, { -EFAULT, false },
		{ -EPERM, true }, { -EACCES, true }, { -ENOSYS, true },
	};
	struct pollfd fds[2];
	sigset_t mask;

	sigemptyset(&mask);
	by_poll.says = 1;
	for (size_t i = 0; i < rr_array_size(c); i++) {
		int own = c[i].says < 0 ? -1 : c[i].says;

		by_ppoll.says = c[i].says;
		by_poll.calls = 0;
		cr_assert_eq(rr_real_sleep(fds, 2, NULL, NULL), c[i].other ? 1 : own, "%zu", i);
		cr_assert_eq(by_poll.calls, c[i].other, "%zu", i);
		if (c[i].other)
			cr_assert(by_poll.fds == fds && by_poll.n == 2 && by_poll.ms == -1);
		cr_assert_eq(rr_real_sleep(fds, 2, NULL, &mask), own, "a mask is ppoll()'s alone");
		cr_assert_eq(by_poll.calls, c[i].other, "%zu", i);
	}
	cr_assert_eq(by_ppoll.calls, 2 * (int)rr_array_size(c));
}

Test(real_sleep, no_sleep_is_shorter_than_it_was_to_be)
{
	static const struct { struct timespec t; int ms; } c[] = {
		{ { 0, 0 }, 0 }, { { 0, 1 }, 1 }, { { 0, 999999 }, 1 }, { { 0, 1000000 }, 1 }, { { 0, 1000001 }, 2 },
		{ { 1, 0 }, 1000 }, { { 3, 500000001 }, 3501 }, { { 0, 999999999 }, 1000 },
		{ { INT_MAX / 1000 - 1, 999999999 }, (INT_MAX / 1000 - 1) * 1000 + 1000 },
		{ { INT_MAX / 1000, 0 }, INT_MAX }, { { INT_MAX / 1000 + 1, 0 }, INT_MAX },
	};
	struct pollfd p;

	by_ppoll.says = -ENOSYS;
	for (size_t i = 0; i < rr_array_size(c); i++) {
		cr_assert_eq(rr_real_sleep(&p, 1, &c[i].t, NULL), 0);
		cr_assert_eq(by_poll.ms, c[i].ms, "%zu: %d", i, by_poll.ms);
	}
}
