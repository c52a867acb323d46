/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the head of a case and its steps. text.c splits the lines, items.c parses the indented
 * ones, expr.c the values. A parser's function returns false after rr_parse_fail(), and its
 * caller passes that on; there is no recovery, since one error at a time is enough for a file
 * of some lines. */
#include "core/base/compiler.h"
#include "tools/conform/parse.h"

const char *const rr_level_names[] = { "MUST", "SHOULD", "MAY" };
const char *const rr_role_names[] = { "responder", "requester" };
const char *const rr_target_names[] = { "null", "lab", "nfs3", "nfs4", "reverse", "tight" };
const char *const rr_kind_names[] = { "msg", "nomsg", "msgp", "done", "error", "bcall", "brply",
				      "connprop", "other", "raw" };

/* Variables that every case may refer to. */
static const char *const known[] = { "xid", "program", "version", "credits", "grant", "inline",
				     "ours", "len",
				     "patience" };

static bool step_expr_at(struct rr_parser *p, uint32_t i, struct rr_expr *e)
{
	return rr_parse_expr(p, p->word[i], strlen(p->word[i]), e);
}

/* Checks the number of words; text is the line's form, for the message. */
static bool form(struct rr_parser *p, uint32_t least, uint32_t most, const char *text)
{
	return (p->nwords >= least && p->nwords <= most) ||
	       rr_parse_fail(p, "should be '%s'", text);
}

/* --- head --- */

static bool head_title(struct rr_parser *p)
{
	p->c->title = p->rest;
	return *p->rest || rr_parse_fail(p, "a title that says nothing");
}

/* Appends a requirement: document and section are words 1 and 2. ordinal is "#N", or NULL for
 * the whole section. */
static bool one_requirement(struct rr_parser *p, const char *ordinal)
{
	struct rr_requirement **at = &p->c->requires, *r;

	while (*at)
		at = &(*at)->next;
	r = *at = rr_arena_get(&p->c->arena, sizeof(*r));
	r->document = p->word[1];
	r->section = p->word[2];
	return !ordinal || (sscanf(ordinal, "#%u", &r->ordinal) == 1 && r->ordinal) ||
	       rr_parse_fail(p, "'%s' is no ordinal: #1, #2, ...", ordinal);
}

static bool head_requires(struct rr_parser *p)
{
	bool ok = form(p, 3, RR_WORDS, "requires DOCUMENT SECTION [#ORDINAL...]");

	if (ok && p->nwords == 3)
		return one_requirement(p, NULL);
	for (uint32_t i = 3; i < p->nwords && ok; i++)
		ok = one_requirement(p, p->word[i]);
	return ok;
}

/* Parses a line of two words, of which the second is one of names. out points to an enum of the
 * size of int. */
static bool head_word(struct rr_parser *p, const char *const *names, uint32_t n, void *out)
{
	int i = p->nwords == 2 ? rr_parse_which(p, p->word[0], p->word[1], names, n) :
				 rr_parse_which(p, p->word[0], "", names, n);

	if (i >= 0)
		*(int *)out = i;
	return i >= 0;
}

static bool head_level(struct rr_parser *p)
{
	return head_word(p, rr_level_names, 3, &p->c->level);
}

static bool head_role(struct rr_parser *p)
{
	return head_word(p, rr_role_names, 2, &p->c->role);
}

static bool head_target(struct rr_parser *p)
{
	return head_word(p, rr_target_names, RR_TARGETS, &p->c->target);
}

/* A case for several dialects is played in each of them. */
static bool head_dialect(struct rr_parser *p)
{
	for (uint32_t i = 1; i < p->nwords; i++) {
		int d = rr_parse_which(p, "dialect", p->word[i], rr_dialect_names, 4);

		if (d < 0)
			return false;
		p->c->dialects |= 1u << d;
	}
	return form(p, 2, 5, "dialect NAME...");
}

static bool head_peer(struct rr_parser *p)
{
	static const char *const words[] = { "reliable", "native" };

	for (uint32_t i = 1; i < p->nwords; i++)
		switch (rr_parse_which(p, "peer", p->word[i], words, 2)) {
		case 0: p->c->caps |= RR_CAP_RELIABLE_REPLY; break;
		case 1: p->c->native = true; break;
		default: return false;
		}
	return form(p, 2, RR_WORDS, "peer WORD...");
}

static bool head_private(struct rr_parser *p)
{
	struct rr_item it = { 0 };

	p->c->says = true;
	if (p->nwords == 2 && !strcmp(p->word[1], "none"))
		return true;
	if (!form(p, 2, RR_WORDS, "private none, private BYTES") || !rr_parse_hex(p, 1, &it))
		return false;
	p->c->private_data = it.bytes;
	p->c->private_len = it.len;
	return it.len <= RR_PRIVATE_MAX ||
	       rr_parse_fail(p, "more than %u bytes", RR_PRIVATE_MAX);
}

static bool head_ends(struct rr_parser *p)
{
	p->c->ends = true;
	return form(p, 1, 1, "ends");
}

/* --- steps --- */

/* The fields that a header of this kind can be given, ending with NULL. */
static const char *const *fields_of(enum rr_msg_kind kind)
{
	static const char *const none[] = { NULL };
	static const char *const lists[] = { "xid", "vers", "credit", "proc", "flags", "inv",
					     NULL };
	static const char *const prefix[] = { "xid", "vers", "credit", "proc", "flags", NULL };
	static const char *const msgp[] = { "xid", "vers", "credit", "proc", "align", "thresh",
					    NULL };
	static const char *const error[] = { "xid", "vers", "credit", "proc", "flags", "err",
					     "low", "high",
					     "limit", "chunk", "needed", NULL };

	switch (kind) {
	case RR_K_MSG: case RR_K_NOMSG: return lists;
	case RR_K_MSGP: return msgp;
	case RR_K_ERROR: return error;
	case RR_K_RAW: return none;
	default: return prefix;
	}
}

/* word[1] is the kind of a message, or one of the other words. Returns 0 for a message, n for
 * the n-th other word, -1 for neither. */
static int kind_or(struct rr_parser *p, const char *const *others, uint32_t n,
		   enum rr_msg_kind *kind)
{
	const char *names[RR_KINDS + 8];
	int i;

	for (uint32_t k = 0; k < RR_KINDS; k++)
		names[k] = rr_kind_names[k];
	for (uint32_t k = 0; k < n; k++)
		names[RR_KINDS + k] = others[k];
	i = rr_parse_which(p, p->word[0], p->nwords > 1 ? p->word[1] : "", names, RR_KINDS + n);
	if (i >= RR_KINDS)
		return i - RR_KINDS + 1;
	*kind = (enum rr_msg_kind)rr_max(i, 0);
	return i < 0 ? -1 : 0;
}

/* The fields of an expected message: its own, and two that are no words of it. */
static bool expected_fields(struct rr_parser *p, struct rr_step *s)
{
	const char *const *own = fields_of(s->kind);
	const char *names[16] = { "size", "invalidated" };

	for (uint32_t i = 0; own[i]; i++)
		names[i + 2] = own[i];
	return rr_parse_fields(p, 2, *own ? names : own, false, &s->fields);
}

/* send KIND [FIELD=VALUE...] [invalidate HANDLE] */
static bool parse_send(struct rr_parser *p, struct rr_step *s)
{
	if (kind_or(p, NULL, 0, &s->kind) < 0)
		return false;
	if (p->nwords > 3 && !strcmp(p->word[p->nwords - 2], "invalidate")) {
		if (!step_expr_at(p, p->nwords - 1, &s->a))
			return false;
		p->nwords -= 2;
	}
	return rr_parse_fields(p, 2, fields_of(s->kind), true, &s->fields) &&
	       rr_parse_items(p, false, true, &s->items);
}

/* Parses what is expected other than a message. The lists of `others` in one_expectation() and
 * of enum rr_expect have the same order. */
static bool expect_other(struct rr_parser *p, struct rr_step *s)
{
	switch (s->what) {
	case RR_E_SILENCE:
		return form(p, 2, 3, "expect silence [MILLISECONDS]") &&
		       (p->nwords == 2 || step_expr_at(p, 2, &s->a));
	case RR_E_CLOSE:
		return form(p, 2, 2, "expect close");
	case RR_E_EXIT:
		s->fields = rr_arena_get(&p->c->arena, sizeof(*s->fields));
		s->fields->name = "status";
		return form(p, 3, 3, "expect exit STATUS") &&
		       rr_parse_pat(p, p->word[2], &s->fields->pat);
	case RR_E_VALUE:
		return form(p, 4, 4, "expect value VALUE PATTERN") &&
		       step_expr_at(p, 2, &s->a) && rr_parse_pat(p, p->word[3], &s->pat);
	default:
		if (!form(p, 3, 3, "expect memory NAME, expect read NAME"))
			return false;
		s->name = p->word[2];
		return rr_parse_expr(p, s->name, strlen(s->name), &s->a) &&
		       (s->what == RR_E_READ || rr_parse_items(p, true, false, &s->items));
	}
}

/* Takes "as NAME" off the end of a line: this alternative is what that implementation does. */
static void expected_of(struct rr_parser *p, struct rr_step *s)
{
	if (p->nwords > 3 && !strcmp(p->word[p->nwords - 2], "as")) {
		s->who = p->word[p->nwords - 1];
		p->nwords -= 2;
	}
}

static bool one_expectation(struct rr_parser *p, struct rr_step *s)
{
	static const char *const others[] = { "silence", "close", "memory", "read", "exit",
					      "value" };
	int i = kind_or(p, others, 6, &s->kind);

	expected_of(p, s);
	s->line = p->line;
	s->op = RR_STEP_EXPECT;
	s->what = i > 0 ? (enum rr_expect)i : RR_E_MESSAGE;
	if (i < 0)
		return false;
	if (i > 0)
		return expect_other(p, s);
	return expected_fields(p, s) && rr_parse_items(p, true, true, &s->items);
}

/* Parses "expect THIS" and the lines "or THAT" after it. */
static bool step_expect(struct rr_parser *p, struct rr_step *s)
{
	for (struct rr_step *last = s;; last = last->other) {
		if (!one_expectation(p, last))
			return false;
		if (!rr_parse_line(p))
			return !rr_parse_failed(p);
		if (p->indented || strcmp(p->word[0], "or") != 0) {
			p->held = true;
			return true;
		}
		last->other = rr_arena_get(&p->c->arena, sizeof(*s));
	}
}

/* The rights are enum rr_rights, in the order of the words: none is 0. */
static bool step_memory(struct rr_parser *p, struct rr_step *s)
{
	static const char *const rights[] = { "none", "read", "write" };
	int i;

	if (!form(p, 3, 4, "memory NAME read|write|none [LENGTH]"))
		return false;
	s->name = p->word[1];
	i = rr_parse_which(p, "rights", p->word[2], rights, 3);
	if (i < 0 || (p->nwords == 4 && !step_expr_at(p, 3, &s->a)))
		return false;
	s->rights = (enum rr_rights)i;
	rr_parse_defines(p, s->name);
	return rr_parse_items(p, false, false, &s->items);
}

/* Parses NAME, which must be defined already. */
static bool named(struct rr_parser *p, struct rr_step *s)
{
	s->name = p->word[1];
	return step_expr_at(p, 1, &s->a);
}

/* The same, or with "refused": the peer must refuse it. */
static bool named_or_refused(struct rr_parser *p, struct rr_step *s, const char *text)
{
	s->refused = p->nwords == 3 && !strcmp(p->word[2], "refused");
	return form(p, 2, s->refused ? 3 : 2, text) && named(p, s);
}

static bool step_withdraw(struct rr_parser *p, struct rr_step *s)
{
	return form(p, 2, 2, "withdraw NAME") && named(p, s);
}

static bool step_pull(struct rr_parser *p, struct rr_step *s)
{
	return named_or_refused(p, s, "pull NAME [refused]");
}

static bool step_push(struct rr_parser *p, struct rr_step *s)
{
	return named_or_refused(p, s, "push NAME [refused]") &&
	       (s->refused || rr_parse_items(p, false, false, &s->items));
}

static bool parse_set(struct rr_parser *p, struct rr_step *s)
{
	if (!form(p, 3, 3, "set NAME VALUE") || !step_expr_at(p, 2, &s->a))
		return false;
	s->name = p->word[1];
	rr_parse_defines(p, s->name);
	return true;
}

static bool parse_wait(struct rr_parser *p, struct rr_step *s)
{
	return form(p, 2, 2, "wait MILLISECONDS") && step_expr_at(p, 1, &s->a);
}

static bool step_plain(struct rr_parser *p, struct rr_step *s)
{
	(void)s;
	return form(p, 1, 1, p->word[0]);
}

static bool parse_call(struct rr_parser *p, struct rr_step *s)
{
	if (!form(p, 2, 3, "call VERB [N]") || (p->nwords == 3 && !step_expr_at(p, 2, &s->a)))
		return false;
	s->verb = p->word[1];
	return true;
}

static bool steps(struct rr_parser *p, bool inner, struct rr_step **out);

/* The body is parsed by steps(), which ends at the line "end". Depth is bounded, since both
 * recurse. */
static bool parse_repeat(struct rr_parser *p, struct rr_step *s)
{
	if (!form(p, 3, 3, "repeat NAME TIMES") || !step_expr_at(p, 2, &s->a))
		return false;
	s->name = p->word[1];
	rr_parse_defines(p, s->name);
	if (p->depth++ == RR_DEPTH)
		return rr_parse_fail(p, "more than %u repeats in each other", RR_DEPTH);
	if (!steps(p, true, &s->body))
		return false;
	p->depth--;
	return true;
}

/* What a line that is not indented begins with: a word of the head, or a step. */
static const struct {
	const char *name;
	bool (*head)(struct rr_parser *p);
	bool (*step)(struct rr_parser *p, struct rr_step *s);
	enum rr_step_op op;
} lines[] = {
	{ "title", head_title, NULL, 0 }, { "requires", head_requires, NULL, 0 },
	{ "level", head_level, NULL, 0 }, { "role", head_role, NULL, 0 },
	{ "dialect", head_dialect, NULL, 0 }, { "target", head_target, NULL, 0 },
	{ "peer", head_peer, NULL, 0 }, { "private", head_private, NULL, 0 },
	{ "ends", head_ends, NULL, 0 },
	{ "send", NULL, parse_send, RR_STEP_SEND },
		{ "expect", NULL, step_expect, RR_STEP_EXPECT },
	{ "memory", NULL, step_memory, RR_STEP_MEMORY },
		{ "withdraw", NULL, step_withdraw, RR_STEP_WITHDRAW },
	{ "pull", NULL, step_pull, RR_STEP_PULL }, { "push", NULL, step_push, RR_STEP_PUSH },
	{ "set", NULL, parse_set, RR_STEP_SET }, { "wait", NULL, parse_wait, RR_STEP_WAIT },
	{ "repeat", NULL, parse_repeat, RR_STEP_REPEAT },
		{ "end", NULL, step_plain, RR_STEP_NULL },
	{ "close", NULL, step_plain, RR_STEP_CLOSE },
		{ "call", NULL, parse_call, RR_STEP_CALL },
	{ "null", NULL, step_plain, RR_STEP_NULL },
};

/* The index in lines[] of the line's first word; -1 and an error if it may not stand here. head
 * and step say what may. */
static int line_of(struct rr_parser *p, bool head, bool step)
{
	const char *names[rr_array_size(lines)];

	for (size_t i = 0; i < rr_array_size(lines); i++)
		names[i] = (lines[i].head ? head : step) ? lines[i].name : NULL;
	if (p->indented) {
		rr_parse_fail(p, "indented, but there is nothing that it could belong to");
		return -1;
	}
	return rr_parse_which(p, step ? "step" : "line", p->word[0], names,
			      rr_array_size(lines));
}

/* Parses steps up to the end of the file, or if inner is set, up to the "end" of the repeat. */
static bool steps(struct rr_parser *p, bool inner, struct rr_step **out)
{
	int from = p->line;

	while (rr_parse_line(p)) {
		int i = line_of(p, false, true);

		if (i < 0)
			return false;
		if (inner && !strcmp(p->word[0], "end"))
			return true;
		if (!inner && !strcmp(p->word[0], "end"))
			return rr_parse_fail(p, "end: of what? It ends a repeat");
		*out = rr_arena_get(&p->c->arena, sizeof(**out));
		(*out)->op = lines[i].op;
		(*out)->line = p->line;
		if (!lines[i].step(p, *out))
			return false;
		out = &(*out)->next;
	}
	return !inner || rr_parse_fail(p, "the repeat of line %d has no end", from);
}

/* Parses the head. The first line that is a step ends it, and is held for steps(). */
static bool head(struct rr_parser *p)
{
	while (rr_parse_line(p)) {
		int i = line_of(p, true, true);

		if (i < 0)
			return false;
		if (!lines[i].head) {
			p->held = true;
			break;
		}
		if (!lines[i].head(p))
			return false;
	}
	if (rr_parse_failed(p))
		return false;
	if (!p->c->title || !p->c->requires || !p->c->dialects)
		return rr_parse_fail(p, "a case begins with title, requires and dialect");
	return true;
}

static bool defined(const struct rr_parser *p, const char *name)
{
	for (size_t i = 0; i < rr_array_size(known); i++)
		if (!strcmp(known[i], name))
			return true;
	for (const struct rr_ref *d = p->names; d; d = d->next)
		if (!strcmp(d->name, name))
			return true;
	return false;
}

/* Is each name that is used given a value somewhere? The order is not checked here; a variable
 * that has no value yet fails its step when the case is played. A case that names `patience` is
 * noted. */
static bool all_defined(struct rr_parser *p)
{
	for (const struct rr_ref *r = p->refs; r; r = r->next) {
		p->c->patience |= !strcmp(r->name, "patience");
		if (!defined(p, r->name)) {
			p->line = r->line;
			return rr_parse_fail(p, "'%s' is nowhere defined", r->name);
		}
	}
	return true;
}

/* Names the case by directory/file, without .case. */
static void name_case(struct rr_case *c)
{
	const char *slash = strrchr(c->path, '/'), *s = c->path;
	size_t len;

	while (slash && slash > s && slash[-1] != '/')
		slash--;
	s = slash ? slash : s;
	len = strlen(s);
	if (len > 5 && !strcmp(s + len - 5, ".case"))
		len -= 5;
	snprintf(c->name, sizeof(c->name), "%.*s", (int)len, s);
}

/* The text may be anything (tests/fuzz/fuzz_conform.c): counts and depths are bounded, and
 * nothing of it is kept but copies in the arena. */
struct rr_case *rr_case_parse(const char *path, const char *text, size_t len, char *err,
			      size_t cap)
{
	struct rr_case *c = calloc(1, sizeof(*c));
	struct rr_parser p = { .c = c, .at = text, .end = text + len, .err = err,
			       .errcap = cap };

	if (!c)
		return NULL;
	err[0] = '\0';
	c->path = rr_arena_text(&c->arena, path, strlen(path));
	name_case(c);
	if (head(&p) && steps(&p, false, &c->steps) && !rr_parse_failed(&p) &&
	    all_defined(&p)) {
		if (c->steps)
			return c;
		rr_parse_fail(&p, "a case without steps");
	}
	rr_case_free(c);
	return NULL;
}

void rr_case_free(struct rr_case *c)
{
	rr_arena_free(&c->arena);
	free(c);
}
