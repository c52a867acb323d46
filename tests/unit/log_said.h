/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_SAID_H
#define LOG_SAID_H

/* What is logged, for tests of what it says: rr_log_setup(level, hear), and said has all lines since the test emptied it. */

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/log.h"

static char said[1000];

static bool hear(enum rr_log_level level, const char *line, unsigned len, unsigned at)
{
	(void)level;
	(void)at;
	cr_assert_lt(strlen(said) + len, sizeof(said));
	strncat(said, line, len);
	return true;
}

#endif
