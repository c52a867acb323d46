/* SPDX-License-Identifier: BSD-3-Clause */
/* System calls that a filter refuses: found out when the configuration is read. The kernel is played. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

static long refuses, refusal, tried[16];
static int tries;

static long played_syscall(long nr, ...)
{
	va_list ap;

	va_start(ap, nr);
	if (nr == SYS_ppoll) {
		const struct timespec *ts = (va_arg(ap, void *), va_arg(ap, int), va_arg(ap, struct timespec *));

		cr_assert(ts && ts->tv_sec == 0 && ts->tv_nsec == 0, "it does not sleep");
	} else {
		cr_assert_eq(va_arg(ap, int), -1, "%ld is tried on nothing", nr);
	}
	va_end(ap);
	cr_assert_lt(tries, 16);
	tried[tries++] = nr;
	if (nr == refuses) {
		errno = (int)refusal;
		return -1;
	}
	errno = EBADF;
	return nr == SYS_ppoll ? 0 : -1;
}

#define syscall played_syscall
#include "preload/setup.c"
#undef syscall

static void begin_filter(void)
{
	clearenv();
	setenv("RDMARPC_CONF", "/dev/null", 1);
	errno = ENOKEY;
}

TestSuite(call_filter, .init = begin_filter, .timeout = 60);

static void set_up(long nr, int with)
{
	refuses = nr;
	refusal = with;
	tries = 0;
	rr_setup_conf();
	cr_assert_eq(errno, ENOKEY);
}

static const struct { long nr; const char *name; } all[] = {
	{ SYS_ppoll, "ppoll" }, { RR_SYS_FCNTL, "fcntl" }, { SYS_recvfrom, "recvfrom" }, { SYS_sendto, "sendto" },
	{ SYS_getsockopt, "getsockopt" }, { SYS_setsockopt, "setsockopt" }, { SYS_getsockname, "getsockname" },
	{ SYS_getpeername, "getpeername" },
};

Test(call_filter, where_all_are_allowed_each_is_tried_once)
{
	set_up(-1, 0);
	cr_assert(!refused && conf.enabled);
	cr_assert_eq(tries, (int)rr_array_size(all));
	for (size_t i = 0; i < rr_array_size(all); i++)
		cr_assert_eq(tried[i], all[i].nr, "%s", all[i].name);
}

Test(call_filter, one_that_is_refused_is_named_and_nothing_is_upgraded)
{
	static const int errors[] = { EPERM, EACCES, ENOSYS };

	for (size_t i = 0; i < rr_array_size(all); i++) {
		for (size_t k = 0; k < rr_array_size(errors); k++) {
			set_up(all[i].nr, errors[k]);
			cr_assert(refused && !strcmp(refused, all[i].name), "%s", all[i].name);
			cr_assert_not(conf.enabled);
			cr_assert_eq(tries, (int)i + 1, "one is enough");
		}
	}
}

Test(call_filter, one_that_fails_as_the_kernel_lets_it_fail_is_not_refused)
{
	for (size_t i = 0; i < rr_array_size(all); i++) {
		set_up(all[i].nr, ENOTSOCK);
		cr_assert(!refused && conf.enabled, "%s", all[i].name);
	}
}
