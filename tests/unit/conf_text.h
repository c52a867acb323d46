/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONF_TEXT_H
#define CONF_TEXT_H

/* For tests of the configuration: a text is parsed into conf. */

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/internal.h"

static struct rr_conf conf;

static inline void defaults(void)
{
	memset(&conf, 0, sizeof(conf));
	for (uint32_t i = 0; i < rr_noptions; i++)
		rr_option_default(&conf, &rr_options[i]);
}

/* Parses text in a block of its exact size, for ASan to see the edge. */
static inline void parse(const char *text)
{
	size_t n = strlen(text);
	char *copy = malloc(n);

	memcpy(copy, text, n);
	rr_conf_bytes(&conf, "f", copy, n);
	free(copy);
}

static inline void parse_ok(const char *text)
{
	parse(text);
	cr_assert_str_eq(conf.problems, "");
	cr_assert_eq(conf.nproblems, 0);
}

/* One problem, word for word. */
static inline void parse_bad(const char *text, const char *problem)
{
	char line[512];

	defaults();
	parse(text);
	snprintf(line, sizeof(line), "%s\n", problem);
	cr_assert_str_eq(conf.problems, line);
	cr_assert_eq(conf.nproblems, 1);
}

#endif
