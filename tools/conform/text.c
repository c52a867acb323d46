/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the lines and words of a case, and notes errors. Words are separated by blanks; one
 * that is in quotation marks may contain them. Nothing here knows what a word means. */
#include <ctype.h>
#include <stdarg.h>

#include "tools/conform/parse.h"

bool rr_parse_failed(const struct rr_parser *p)
{
	return p->err[0] != '\0';
}

/* Only the first error is kept: the others are most often its consequences. */
bool rr_parse_fail(struct rr_parser *p, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (rr_parse_failed(p))
		return false;
	n = snprintf(p->err, p->errcap, "%s:%d: ", p->c->path, p->line);
	if (n < 0 || (size_t)n >= p->errcap)
		return false;
	va_start(ap, fmt);
	vsnprintf(p->err + n, p->errcap - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

/* A '#' begins a comment if a blank or nothing follows it; "#1" does not. */
static bool is_comment(const char *s, const char *end)
{
	return *s == '#' && (s + 1 == end || isblank((unsigned char)s[1]));
}

/* Takes the next word from *at on, as a copy in the arena. The quotation marks stay part of
 * it. */
static bool one_word(struct rr_parser *p, const char **at, const char *end)
{
	const char *s = *at, *from = s;
	bool quoted = false;

	while (s < end && (quoted || !isblank((unsigned char)*s))) {
		quoted ^= *s == '"';
		s++;
	}
	if (quoted)
		return rr_parse_fail(p, "a quotation mark without its other");
	if (p->nwords == RR_WORDS)
		return rr_parse_fail(p, "more than %u words on a line", RR_WORDS);
	p->word[p->nwords++] = rr_arena_text(&p->c->arena, from, (size_t)(s - from));
	*at = s;
	return true;
}

/* Splits a line into words. rest is the line from its second word on, as it was written: a
 * title is not made of words. */
static bool split_line(struct rr_parser *p, const char *s, const char *end)
{
	p->nwords = 0;
	p->rest = "";
	p->indented = s < end && isblank((unsigned char)*s);
	for (;;) {
		while (s < end && isspace((unsigned char)*s))
			s++;
		if (s == end || is_comment(s, end))
			return true;
		if (p->nwords == 1 && !*p->rest)
			p->rest = rr_arena_text(&p->c->arena, s, (size_t)(end - s));
		if (!one_word(p, &s, end))
			return false;
	}
}

/* A line that is held is returned again: its reader has found that it belongs to somebody
 * else. */
bool rr_parse_line(struct rr_parser *p)
{
	if (p->held) {
		p->held = false;
		return true;
	}
	while (p->at < p->end) {
		const char *s = p->at, *nl = memchr(s, '\n', (size_t)(p->end - s));
		const char *end = nl ? nl : p->end;

		p->at = nl ? nl + 1 : p->end;
		p->line++;
		if (memchr(s, '\0', (size_t)(end - s)))
			return rr_parse_fail(p, "a zero byte");
		if (!split_line(p, s, end))
			return false;
		if (p->nwords)
			return true;
	}
	return false;
}

bool rr_parse_indented(struct rr_parser *p)
{
	if (!rr_parse_line(p))
		return false;
	p->held = !p->indented;
	return p->indented;
}

/* Names that are NULL may not stand here, and are not listed. */
int rr_parse_which(struct rr_parser *p, const char *what, const char *word,
		   const char *const *names, uint32_t n)
{
	char list[256];
	size_t at = 0;

	list[0] = '\0';
	for (uint32_t i = 0; i < n; i++) {
		if (!names[i])
			continue;
		if (!strcmp(word, names[i]))
			return (int)i;
		if (at < sizeof(list))
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s",
					       at ? ", " : "", names[i]);
	}
	rr_parse_fail(p, "%s '%s': there is %s", what, word, list);
	return -1;
}
