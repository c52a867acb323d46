/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a system call is refused is not known from an error that was there before. */
#include <errno.h>

#include "config/conf.h"

static void load_played(struct rr_conf *conf, char **env);

#define rr_conf_load load_played
#include "preload/setup.c"
#undef rr_conf_load

#include "tests/unit/call.h"

static int left;	/* by a call that came before */

static void load_played(struct rr_conf *into, char **env)
{
	rr_conf_load(into, env);
	errno = left;
}

TestSuite(call_refused, .timeout = 60);

Test(call_refused, an_earlier_error_refuses_nothing)
{
	static const int errors[] = { EPERM, EACCES, ENOSYS, 0 };

	clearenv();
	setenv("RDMARPC_CONF", "/dev/null", 1);
	for (size_t i = 0; i < rr_array_size(errors); i++) {
		left = errors[i];
		rr_setup_conf();
		cr_assert(!refused && conf.enabled, "%zu: %s", i, refused);
	}
}
