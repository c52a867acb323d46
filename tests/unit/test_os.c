/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"

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
