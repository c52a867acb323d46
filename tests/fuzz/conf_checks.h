/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_CONF_CHECKS_H
#define RR_FUZZ_CONF_CHECKS_H

/* What holds of a configuration, wherever it was read from. */

#include <string.h>

#include "config/internal.h"
#include "tests/fuzz/fuzz.h"

static void check_numbers(const struct rr_conf *c)
{
	for (uint32_t i = 0; i < rr_noptions; i++) {
		const struct rr_option *o = &rr_options[i];
		const char *field = (const char *)c + o->offset;

		if (o->type == RR_OPT_COUNT || o->type == RR_OPT_SIZE) {
			fuzz_check(*(const uint32_t *)field >= o->min);
			fuzz_check(*(const uint32_t *)field <= o->max);
		} else if (o->type == RR_OPT_PATH) {
			fuzz_check(memchr(field, '\0', RR_CONF_TEXT));
		}
	}
	fuzz_check(c->mode <= RR_MODE_REQUIRE);
	fuzz_check(c->log_level <= RR_LOG_DEBUG);
}

static void check_problems(const struct rr_conf *c)
{
	fuzz_check(c->problems_len < sizeof(c->problems));
	fuzz_check(strlen(c->problems) == c->problems_len);
	fuzz_check(!c->problems_len || c->problems[c->problems_len - 1] == '\n');
}

static void ask(const struct rr_conf *c)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = 28416 };
	struct sockaddr_in b = { .sin_family = AF_INET, .sin_port = 28416 };

	fuzz_check(c->nrules <= RR_CONF_RULES);
	for (uint32_t i = 0; i < c->nrules; i++) {
		fuzz_check(c->rules[i].mode <= RR_MODE_REQUIRE);
		fuzz_check(c->rules[i].prefix <= (c->rules[i].family == 6 ? 128 : 32));
		fuzz_check(c->rules[i].port_lo <= c->rules[i].port_hi);
	}
	rr_conf_mode(c, true, (struct sockaddr *)&a, (struct sockaddr *)&b);
	rr_conf_mode_call(c, (struct sockaddr *)&b, (struct sockaddr *)&a, 100003);
}

#endif
