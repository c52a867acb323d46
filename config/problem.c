/* SPDX-License-Identifier: BSD-3-Clause */
/* Problems of a configuration: collected as text, and given to a tool's listener if there is
 * one. */

#include "config/internal.h"

#include <stdarg.h>

const struct rr_conf_listener *rr_conf_listener;

/* The line is written to where the next one would go, and is taken off again if it does not fit
 * or a listener has taken it. */
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
	if (n + 2 > room) {	/* does not fit: only whole lines are kept */
		*to = '\0';
		return;
	}
	/* The lines are separated by newlines, so a name in the text must not have one. */
	for (unsigned i = 0; i < n; i++)
		if (to[i] == '\n')
			to[i] = '?';
	if (rr_conf_listener) {		/* a listener hears of all problems, however many */
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
