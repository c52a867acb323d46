/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads a configuration: defaults, then the file and the environment, then the options that
 * bound one another. The text is read by parse.c and env.c, values by value.c. */

#include "config/conf.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "config/internal.h"

/* Enforces the bounds between options. The user is told of a lowered max_message, which may
 * have been set; the sizes of Reply chunks follow it silently. */
static void check(struct rr_conf *c)
{
	if (c->max_message > c->memory / 2) {
		rr_conf_problem(c, &(struct rr_where){ 0 },
				"option 'max_message': %u is more than half of option "
				"'memory'; "
				"using %u", c->max_message, c->memory / 2);
		c->max_message = c->memory / 2;
	}
	c->reply_chunk_max = rr_min(c->reply_chunk_max, c->max_message);
	c->reply_chunk = rr_min(c->reply_chunk, c->reply_chunk_max);
}

/* The value of an environment variable; NULL: not set. */
static const char *env(char **envp, const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (!strncmp(*envp, name, n) && (*envp)[n] == '=')
			return *envp + n + 1;
	return NULL;
}

/* Reads the rules in an environment variable, if it is set. */
static void rules(struct rr_conf *c, char **envp, const char *name)
{
	const char *text = env(envp, name);

	if (text)
		rr_conf_rules(c, name, text, strlen(text));
}

/* Order decides: for rules the first that matches, for options the last that is set. So the
 * rules of RDMARPC_RULES are read before those of the file, and single options of the
 * environment after it. Bounds between options are checked when all are known. */
void rr_conf_load(struct rr_conf *c, char **envp)
{
	int saved = errno;
	const char *path;

	if (getauxval(AT_SECURE))
		envp = NULL;
	memset(c, 0, offsetof(struct rr_conf, problems) + 1);
	for (uint32_t i = 0; i < rr_noptions; i++)
		rr_option_default(c, &rr_options[i]);
	rules(c, envp, "RDMARPC_RULES");
	path = env(envp, "RDMARPC_CONF");
	if (path && *path)
		rr_conf_file(c, path, true);
	else
		rr_conf_file(c, RR_CONF_FILE, false);
	rules(c, envp, "RDMARPC_LAST_RULES");
	rr_conf_environ(c, envp);
	check(c);
	errno = saved;
}

/* The text may hold fewer problems than there were; the rest is counted. */
void rr_conf_log_problems(const struct rr_conf *c)
{
	const char *line = c->problems;
	uint32_t shown = 0;

	for (; *line; shown++) {
		int n = (int)(strchr(line, '\n') - line);

		rr_err("%.*s", n, line);
		line += n + 1;
	}
	if (shown < c->nproblems)
		rr_err("configuration: %u more problems", c->nproblems - shown);
}
