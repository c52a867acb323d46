/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "preload/rawos.h"

static int told_right(void)
{
	return rr_pid() == getpid() && rr_pid() == getpid() ? 0 : 1;
}

static int status_of(pid_t pid)
{
	int st = -1;

	waitpid(pid, &st, 0);
	return st;
}

/* By libc's fork(), and by the kernel's, of which nobody is told. */
Test(os, a_child_however_forked_has_its_own_pid)
{
	pid_t pid;

	errno = EXDEV;
	cr_assert_eq(told_right(), 0);
	cr_assert_eq(errno, EXDEV);
	pid = fork();
	if (!pid)
		_exit(told_right());
	cr_assert_eq(status_of(pid), 0);
#ifdef SYS_fork
	pid = (pid_t)syscall(SYS_fork);
	if (!pid)
		_exit(told_right());
	cr_assert_eq(status_of(pid), 0);
#endif
	cr_assert_eq(told_right(), 0);
}

/* As the library itself waits for the kernel. */
Test(os, a_raw_poll_waits_as_long_as_it_is_told, .timeout = 60)
{
	rr_time from = rr_now();
	int two[2];

	cr_assert_eq(rr_raw_os.poll(NULL, 0, 0), 0);
	cr_assert_eq(rr_raw_os.poll(NULL, 0, 20), 0);
	cr_assert_geq(rr_now() - from, 20 * RR_MSEC);
	for (int ms = 999; ms <= 1000; ms++) {
		from = rr_now();
		cr_assert_eq(rr_raw_os.poll(NULL, 0, ms), 0, "%d: %d", ms, errno);
		cr_assert_geq(rr_now() - from, (rr_time)ms * RR_MSEC);
	}
	cr_assert_eq(pipe(two), 0);
	cr_assert_eq(write(two[1], "x", 1), 1);
	cr_assert_eq(rr_raw_os.poll(&(struct pollfd){ two[0], POLLIN, 0 }, 1, -1), 1);
}
