/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAYED_SLEEPS_H
#define PLAYED_SLEEPS_H

/* With which times the kernel is asked to sleep: syscall(), which the Makefile wraps, notes them while `played`. */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
	bool played, has_time;
	struct timespec time, left;	/* what it was, and what is written back of a select() */
	int calls;
} sleeping;

long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);

static void note_time(const struct timespec *t)
{
	sleeping.calls++;
	sleeping.has_time = t;
	if (t)
		sleeping.time = *t;
}

long __wrap_syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (sleeping.played && nr == SYS_ppoll) {
		note_time((struct timespec *)a[2]);
		return 0;
	}
	if (sleeping.played && nr == SYS_pselect6) {
		note_time((struct timespec *)a[4]);
		if (a[4])
			*(struct timespec *)a[4] = sleeping.left;
		return 0;
	}
	if (sleeping.played && nr == SYS_epoll_pwait2) {
		note_time((struct timespec *)a[3]);
		return 0;
	}
	return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif
