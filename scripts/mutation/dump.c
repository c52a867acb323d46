/* SPDX-License-Identifier: BSD-3-Clause */
/* For scripts/mutate: gcov writes at exit(), and most tests end their children by _exit(). Compiled twice: into each
 * program and library that counts lines, where a constructor tells how to write; and with EXIT, as a library for
 * LD_PRELOAD that writes at _exit(), and at SIGUSR1, which tests/ends sends before it kills. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef EXIT
void (*rr_mutate_dump)(void);

static void on_usr1(int sig)
{
	(void)sig;
	if (rr_mutate_dump)
		rr_mutate_dump();
}

__attribute__((constructor)) static void listen_to_usr1(void)
{
	struct sigaction sa = { .sa_handler = on_usr1, .sa_flags = SA_RESTART };

	if (getenv("RR_MUTATE_KILLS"))
		sigaction(SIGUSR1, &sa, NULL);
}

void _exit(int status)
{
	if (rr_mutate_dump)
		rr_mutate_dump();
	for (;;)
		syscall(SYS_exit_group, status);
}
#else
extern void (*rr_mutate_dump)(void) __attribute__((weak, visibility("default")));
void __gcov_dump(void);

static char prefix[4096];

/* gcov asks the environment where to write when it writes. A test may have cleared that by then. */
__attribute__((destructor)) static void keep_prefix(void)
{
	if (prefix[0] && !getenv("GCOV_PREFIX"))
		setenv("GCOV_PREFIX", prefix, 1);
}

static void dump(void)
{
	keep_prefix();
	__gcov_dump();
}

__attribute__((constructor)) static void say_how(void)
{
	const char *was = getenv("GCOV_PREFIX");

	if (was && strlen(was) < sizeof(prefix))
		strcpy(prefix, was);
	if (&rr_mutate_dump)
		rr_mutate_dump = dump;
}
#endif
