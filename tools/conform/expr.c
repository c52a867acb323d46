/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the numbers, sums, patterns, fields and segments of a case. Names are resolved later,
 * when the case is played: here it is only noted which ones are used and which are defined, and
 * case.c compares both at the end. */
#include <ctype.h>

#include "core/base/compiler.h"
#include "tools/conform/parse.h"

/* Numbers that the documents give a name. They are written out here and not taken from
 * core/wire: a judge must not share the constants of those whom it judges. */
static const struct { const char *name; uint32_t value; } constants[] = {
	{ "RDMA_MSG", 0 }, { "RDMA_NOMSG", 1 }, { "RDMA_MSGP", 2 }, { "RDMA_DONE", 3 },
		{ "RDMA_ERROR", 4 },
	{ "RDMA_BCALL", 5 }, { "RDMA_BRPLY", 6 }, { "RDMA2_CONNPROP", 5 },
		{ "RDMA2_DONE", 0x52444d03 },
	{ "ERR_VERS", 1 }, { "ERR_CHUNK", 2 }, { "ERR_BAD_XDR", 2 }, { "ERR_INVAL_HTYPE", 3 },
	{ "ERR_READ_CHUNKS", 4 }, { "ERR_WRITE_CHUNKS", 5 }, { "ERR_SEGMENTS", 6 },
	{ "ERR_WRITE_RESOURCE", 7 }, { "ERR_REPLY_RESOURCE", 8 }, { "ERR_SYSTEM", 9 },
	{ "CALL", 0 }, { "REPLY", 1 }, { "MSG_ACCEPTED", 0 }, { "MSG_DENIED", 1 },
	{ "SUCCESS", 0 }, { "PROG_UNAVAIL", 1 }, { "PROG_MISMATCH", 2 }, { "PROC_UNAVAIL", 3 },
	{ "GARBAGE_ARGS", 4 }, { "SYSTEM_ERR", 5 }, { "RPC_MISMATCH", 0 }, { "AUTH_ERROR", 1 },
	{ "AUTH_NONE", 0 }, { "AUTH_SYS", 1 }, { "RPCSEC_GSS", 6 }, { "CCP", 100417 },
	{ "RBSIZ", 1 }, { "BRS", 2 }, { "BRS_NONE", 0 }, { "BRS_INLINE", 1 }, { "BRS_GENL", 2 },
	{ "RELIABLE", 0x52444d01 },
};

static bool is_constant(const char *s, size_t len, uint64_t *v)
{
	for (size_t i = 0; i < rr_array_size(constants); i++)
		if (strlen(constants[i].name) == len && !memcmp(constants[i].name, s, len)) {
			*v = constants[i].value;
			return true;
		}
	return false;
}

/* Variables begin with a small letter, constants with a capital, so that a new constant never
 * takes the name of a variable. */
static bool is_variable_name(const char *s, size_t len)
{
	if (!len || !islower((unsigned char)*s))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return true;
}

/* Notes that the case gives this name a value somewhere. */
void rr_parse_defines(struct rr_parser *p, const char *name)
{
	struct rr_ref *r = rr_arena_get(&p->c->arena, sizeof(*r));

	r->name = name;
	r->next = p->names;
	p->names = r;
	if (!is_variable_name(name, strlen(name)))
		rr_parse_fail(p, "'%s' is no name: small letters, digits and _", name);
}

/* Notes that the case uses this name, and where. Returns a copy that lives as long as the
 * case. */
static const char *refers(struct rr_parser *p, const char *s, size_t len)
{
	struct rr_ref *r = rr_arena_get(&p->c->arena, sizeof(*r));

	r->name = rr_arena_text(&p->c->arena, s, len);
	r->line = p->line;
	r->next = p->refs;
	p->refs = r;
	return r->name;
}

/* Parses decimal or 0x... digits. False: s is no number, or too large for 64 bits; the caller
 * then tries other meanings. */
static bool parse_number(const char *s, size_t len, uint64_t *v)
{
	int base = len > 2 && s[0] == '0' && s[1] == 'x' ? 16 : 10;

	*v = 0;
	for (size_t i = base == 16 ? 2 : 0; i < len; i++) {
		int digit = isdigit((unsigned char)s[i]) ? s[i] - '0' :
			    base == 16 &&
				    isxdigit((unsigned char)s[i]) ? (s[i] | 32) - 'a' + 10 : -1;

		if (digit < 0 || __builtin_mul_overflow(*v, (uint64_t)base, v) ||
		    __builtin_add_overflow(*v, (uint64_t)digit, v))
			return false;
	}
	return len > 0;
}

/* Parses what is behind the dot of NAME.handle. */
static bool part_of(struct rr_parser *p, const char *s, size_t len, enum rr_part *part)
{
	static const char *const parts[] = { [RR_PART_HANDLE] = "handle",
					     [RR_PART_LENGTH] = "length",
					     [RR_PART_OFFSET] = "offset",
					     [RR_PART_SEGMENTS] = "segments" };
	int i = rr_parse_which(p, "part", rr_arena_text(&p->c->arena, s, len), parts,
			       rr_array_size(parts));

	*part = (enum rr_part)(i < 0 ? 0 : i);
	return i > 0;
}

/* Parses one term: a number, a constant, a variable, or a part of a variable. */
static bool term(struct rr_parser *p, const char *s, size_t len, struct rr_term *t)
{
	const char *dot = memchr(s, '.', len);
	size_t head = dot ? (size_t)(dot - s) : len;

	if (parse_number(s, len, &t->value) || is_constant(s, len, &t->value))
		return true;
	if (!is_variable_name(s, head))
		return rr_parse_fail(p,
				     "'%.*s': neither a number, a name nor a constant of the "
				     "documents", (int)len, s);
	t->name = refers(p, s, head);
	return !dot || part_of(p, dot + 1, len - head - 1, &t->part);
}

/* Terms are separated by + and -, without blanks, since a line is split into words at
 * blanks. There is no multiplication, and there are no parentheses: a case is easier to read
 * without. */
bool rr_parse_expr(struct rr_parser *p, const char *s, size_t len, struct rr_expr *e)
{
	const char *end = s + len;

	*e = (struct rr_expr){ 0 };
	for (bool minus = false;; s++) {
		const char *from = s;

		while (s < end && *s != '+' && *s != '-')
			s++;
		if (e->n == RR_EXPR_TERMS)
			return rr_parse_fail(p, "more than %u terms", RR_EXPR_TERMS);
		e->t[e->n].minus = minus;
		if (!term(p, from, (size_t)(s - from), &e->t[e->n++]))
			return false;
		if (s == end)
			return true;
		minus = *s == '-';
	}
}

/* Parses one alternative of a pattern: value, from..to, or from.. without an end. */
static bool one_alternative(struct rr_parser *p, const char *s, size_t len, struct rr_pat *pat)
{
	const char *dots = memmem(s, len, "..", 2);
	size_t head = dots ? (size_t)(dots - s) : len;
	uint32_t i = pat->n++;

	if (!rr_parse_expr(p, s, head, &pat->alt[i].lo))
		return false;
	if (!dots)
		pat->alt[i].hi = pat->alt[i].lo;
	else if (head + 2 == len)
		pat->alt[i].open = true;
	else
		return rr_parse_expr(p, dots + 2, len - head - 2, &pat->alt[i].hi);
	return true;
}

/* text must live as long as the case, because the name of a bound value points into it. */
bool rr_parse_pat(struct rr_parser *p, const char *text, struct rr_pat *pat)
{
	const char *q = strchr(text, '?');
	size_t len = q ? (size_t)(q - text) : strlen(text);

	*pat = (struct rr_pat){ 0 };
	if (q) {
		pat->bind = q + 1;
		rr_parse_defines(p, pat->bind);
	}
	pat->any = (q && !len) || (len == 3 && !memcmp(text, "any", 3));
	while (!pat->any) {
		const char *bar = memchr(text, '|', len);
		size_t head = bar ? (size_t)(bar - text) : len;

		if (pat->n == RR_PAT_ALTS)
			return rr_parse_fail(p, "more than %u alternatives", RR_PAT_ALTS);
		if (!one_alternative(p, text, head, pat))
			return false;
		if (!bar)
			break;
		text += head + 1;
		len -= head + 1;
	}
	return !rr_parse_failed(p);
}

/* What is sent must be a single value, so no range, alternative or name. */
static bool exactly_one(const struct rr_pat *pat)
{
	return !pat->any && !pat->bind && pat->n == 1 && !pat->alt[0].open &&
	       !memcmp(&pat->alt[0].lo, &pat->alt[0].hi, sizeof(pat->alt[0].lo));
}

/* Cuts the words at their '=' in place. exact: of a message that is sent. */
bool rr_parse_fields(struct rr_parser *p, uint32_t from, const char *const *allowed, bool exact,
		     struct rr_field **out)
{
	uint32_t n = 0;

	while (allowed[n])
		n++;
	for (uint32_t i = from; i < p->nwords; i++) {
		char *eq = strchr(p->word[i], '=');
		struct rr_field *f = rr_arena_get(&p->c->arena, sizeof(*f));

		if (!eq)
			return rr_parse_fail(p, "'%s' is not of the form field=value",
					     p->word[i]);
		*eq = '\0';
		f->name = p->word[i];
		if (rr_parse_which(p, "field", f->name, allowed, n) < 0 ||
		    !rr_parse_pat(p, eq + 1, &f->pat))
			return false;
		if (exact && !exactly_one(&f->pat))
			return rr_parse_fail(p, "%s: what is sent is one value", f->name);
		*out = f;
		out = &f->next;
	}
	return true;
}

/* Parses name[offset:length] from the bracket on. */
static bool part_of_memory(struct rr_parser *p, const char *text, const char *open,
			   struct rr_segspec *s)
{
	const char *colon = strchr(open, ':'), *close = strchr(open, ']');

	if (!colon || !close || close[1] || colon > close)
		return rr_parse_fail(p,
				     "'%s': part of memory is name[offset:length] or "
				     "name[offset:]", text);
	s->part = true;
	s->to_end = colon + 1 == close;
	return rr_parse_expr(p, open + 1, (size_t)(colon - open - 1), &s->num[0]) &&
	       (s->to_end || rr_parse_expr(p, colon + 1, (size_t)(close - colon - 1),
					   &s->num[1]));
}

/* Parses name{bytes} from the brace on. */
static bool filled(struct rr_parser *p, const char *text, const char *open,
		   struct rr_segspec *s)
{
	const char *close = strchr(open, '}');

	if (!close || close[1])
		return rr_parse_fail(p, "'%s': a chunk that is filled is name{bytes}", text);
	s->filled = true;
	return rr_parse_expr(p, open + 1, (size_t)(close - open - 1), &s->num[0]);
}

/* A word that begins with a variable's name is that variable's memory; anything else has to be
 * three numbers, handle:length:offset, which a case uses for memory that nobody has exposed. */
bool rr_parse_seg(struct rr_parser *p, const char *text, struct rr_segspec *s)
{
	const char *open = strpbrk(text, "[{"), *colon = strchr(text, ':'),
			   *last = strrchr(text, ':');
	size_t head = open ? (size_t)(open - text) : strlen(text);

	if (is_variable_name(text, head)) {
		s->name = refers(p, text, head);
		return !open || (*open == '{' ? filled : part_of_memory)(p, text, open, s);
	}
	if (!colon || colon == last)
		return rr_parse_fail(p,
				     "'%s': a segment is name, name[offset:length], "
				     "name{bytes} or "
				     "handle:length:offset", text);
	return rr_parse_expr(p, text, (size_t)(colon - text), &s->num[0]) &&
	       rr_parse_expr(p, colon + 1, (size_t)(last - colon - 1), &s->num[1]) &&
	       rr_parse_expr(p, last + 1, strlen(last + 1), &s->num[2]);
}
