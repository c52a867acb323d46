/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that has more rights than who starts it (set-user-ID): nothing in the environment counts. */
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/conf_text.h"

static bool secure;

/* A sanitizer's runtime asks, too, and early: so this needs nothing but the kernel. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("address", "thread", "undefined")))
#endif
unsigned long getauxval(unsigned long what)
{
	unsigned long pair[2], says = 0;
	long fd;

	if (what == AT_SECURE && secure)
		return 1;
	fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/auxv", O_RDONLY | O_CLOEXEC);
	while (syscall(SYS_read, fd, pair, sizeof(pair)) == sizeof(pair) && pair[0] != AT_NULL)
		if (pair[0] == what)
			says = pair[1];
	syscall(SYS_close, fd);
	return says;
}

TestSuite(conf_secure);

static void load_with(bool is_secure)
{
	char conf_none[] = "RDMARPC_CONF=/dev/null/none", rules[] = "RDMARPC_RULES=mode=require", credits[] = "RDMARPC_CREDITS=5",
	     last[] = "RDMARPC_LAST_RULES=mode=tcp";
	char *env[] = { conf_none, rules, credits, last, NULL };

	secure = is_secure;
	rr_conf_load(&conf, env);
}

Test(conf_secure, who_starts_a_program_with_more_rights_cannot_configure_it)
{
	uint32_t usual;

	load_with(true);
	cr_assert_eq(conf.nrules, 0);
	cr_assert(!strstr(conf.problems, "/dev/null/none"), "%s", conf.problems);
	usual = conf.credits;
	cr_assert_neq(usual, 5);
	load_with(false);
	cr_assert_eq(conf.nrules, 2);
	cr_assert_eq(conf.credits, 5);
	cr_assert(strstr(conf.problems, "/dev/null/none"));
}
