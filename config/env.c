/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment: RDMARPC_<NAME> sets option <name>. Also what the process is called, for the
 * rules' key 'command'. */

#include <errno.h>
#include <string.h>

#include "config/internal.h"
#include "config/rundir.h"

#define PREFIX	"RDMARPC_"

/* Variables that set no option: the file and the rules, which are read before; the family mark
 * of rdmarpc-run; and those of the tests. */
static bool is_other(struct rr_text name)
{
	return rr_text_is(name, "CONF") || rr_text_is(name, "RULES") ||
	       rr_text_is(name, "LAST_RULES") || rr_text_is(name, "FAMILY") ||
		       (name.len > 5 && !memcmp(name.p, "TEST_", 5));
}

/* Is t the option's name in upper case? Variables are compared exactly: an environment may hold
 * many names, and only ours are meant. */
static bool is_env_name(struct rr_text t, const char *option)
{
	if (strlen(option) != t.len)
		return false;
	for (uint32_t i = 0; i < t.len; i++) {
		char c = option[i];

		if (t.p[i] != (c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c))
			return false;
	}
	return true;
}

static const struct rr_option *find_option(struct rr_text name)
{
	for (uint32_t i = 0; i < rr_noptions; i++)
		if (is_env_name(name, rr_options[i].name))
			return &rr_options[i];
	return NULL;
}

/* Notes a variable that is no option, with the name that was probably meant. */
static void unknown(struct rr_conf *c, struct rr_text name)
{
	const char *near = rr_option_nearest(name);
	char upper[40];
	uint32_t i = 0;

	for (; near && near[i] && i < sizeof(upper) - 1; i++)
		upper[i] = near[i] >= 'a' &&
			near[i] <= 'z' ? (char)(near[i] - 'a' + 'A') : near[i];
	upper[i] = '\0';
	rr_conf_problem(c, &(struct rr_where){ 0 },
			"environment: unknown " PREFIX "%.*s%s%s%s; ignored",
			(int)rr_min(name.len, 64u), name.p,
			near ? ", did you mean " PREFIX : "", upper, near ? "?" : "");
}

/* Takes in one variable; var is NAME=value, without the prefix. The value is cut off at 4096
 * bytes, which is more than any option allows. */
static void take_variable(struct rr_conf *c, const char *var)
{
	const char *equals = strchr(var, '='), *value;
	struct rr_text name = { var, equals ? (uint32_t)(equals - var) : 0 };
	const struct rr_option *o;
	char full[48];

	if (!equals || is_other(name))
		return;
	o = find_option(name);
	if (!o) {
		unknown(c, name);
		return;
	}
	value = equals + 1;
	rr_fmt(full, sizeof(full), PREFIX "%.*s", (int)name.len, name.p);
	rr_conf_assign(c, &(struct rr_where){ 0 }, full, o,
		       (struct rr_text){ value, (uint32_t)strnlen(value, 4096) });
}

void rr_conf_environ(struct rr_conf *c, char **envp)
{
	for (; envp && *envp; envp++)
		if (!strncmp(*envp, PREFIX, sizeof(PREFIX) - 1))
			take_variable(c, *envp + sizeof(PREFIX) - 1);
}

/* --- the process's name --- */

/* A '*' is tried with ever more of s: only the last one has to be tried again, because an
 * earlier one that matched less would leave more for the last. So the time is bounded by the
 * product of both lengths. */
bool rr_glob(const char *pattern, const char *end, const char *s)
{
	const char *star = NULL, *retry = NULL;

	for (;;) {
		if (pattern < end && *pattern == '*') {
			star = pattern++;
			retry = s;
		} else if (*s && pattern < end && (*pattern == '?' || *pattern == *s)) {
			pattern++;
			s++;
		} else if (!*s && pattern == end) {
			return true;
		} else if (star && *retry) {
			pattern = star + 1;
			s = ++retry;
		} else {
			return false;
		}
	}
}

/* Either name suffices: they differ for a script, and for a daemon that has renamed itself. */
bool rr_conf_is_command(struct rr_text pattern)
{
	const char *end = pattern.p + pattern.len;
	char comm[32];

	if (program_invocation_short_name &&
	    rr_glob(pattern.p, end, program_invocation_short_name))
		return true;
	rr_proc_comm(0, comm, sizeof(comm));
	return rr_glob(pattern.p, end, comm);
}
