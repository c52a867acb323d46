/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/conf.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "config/internal.h"

const struct rr_conf_listener *rr_conf_listener;

void rr_conf_problem(struct rr_conf *c, const struct rr_where *at, const char *fmt, ...)
{
	char *to = c->problems + c->problems_len;
	unsigned room = (unsigned)sizeof(c->problems) - c->problems_len, n = 0;
	va_list ap;

	c->nproblems++;
	if (at->file)
		n = rr_fmt(to, room, "%s:%u:%u: ", at->file, at->line, at->column);
	va_start(ap, fmt);
	n += rr_vfmt(to + n, room - n, fmt, ap);
	va_end(ap);
	if (n + 2 > room) {	/* cut: whole lines only */
		*to = '\0';
		return;
	}
	for (unsigned i = 0; i < n; i++)
		if (to[i] == '\n')
			to[i] = '?';
	if (rr_conf_listener) {		/* it wants all of them, however many */
		rr_conf_listener->problem(to, n);
		*to = '\0';
		return;
	}
	to[n] = '\n';
	to[n + 1] = '\0';
	c->problems_len += n + 1;
}

void rr_conf_assign(struct rr_conf *c, const struct rr_where *at, const char *name,
		    const struct rr_option *o, struct rr_text text)
{
	const char *wrong = rr_option_set(c, o, text);
	char allowed[80];

	if (!wrong && rr_conf_listener)
		rr_conf_listener->option(at, name, o);
	if (!wrong)
		return;
	rr_option_default(c, o);
	rr_conf_problem(c, at, "option '%s': '%.*s' is %s (allowed: %s); using default '%s'",
			name, (int)rr_min(text.len, 64u), text.p, wrong,
			rr_option_allowed(o, allowed, sizeof(allowed)), o->def);
}

/* Bounds of one option that hang on another. */
static void check(struct rr_conf *c)
{
	if (c->max_message > c->memory / 2) {
		rr_conf_problem(c, &(struct rr_where){ 0 },
				"option 'max_message': %u is more than half of option 'memory'; "
				"using %u", c->max_message, c->memory / 2);
		c->max_message = c->memory / 2;
	}
	c->reply_chunk_max = rr_min(c->reply_chunk_max, c->max_message);
	c->reply_chunk = rr_min(c->reply_chunk, c->reply_chunk_max);
}

static const char *env(char **envp, const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (!strncmp(*envp, name, n) && (*envp)[n] == '=')
			return *envp + n + 1;
	return NULL;
}

static void rules(struct rr_conf *c, char **envp, const char *name)
{
	const char *text = env(envp, name);

	if (text)
		rr_conf_rules(c, name, text, strlen(text));
}

void rr_conf_load(struct rr_conf *c, char **envp)
{
	int saved = errno;
	const char *path;

	if (getauxval(AT_SECURE))
		envp = NULL;
	memset(c, 0, sizeof(*c));
	for (uint32_t i = 0; i < rr_noptions; i++)
		rr_option_default(c, &rr_options[i]);
	rules(c, envp, "RDMARPC_RULES");	/* the first that matches decides */
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
