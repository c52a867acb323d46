/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the indented lines of a case: what a message or a piece of memory holds. The same line
 * can describe what is sent or what is expected; where that differs, the functions take
 * `expect`. A table says which line may stand where. */
#include <ctype.h>

#include "core/base/compiler.h"
#include "tools/conform/parse.h"

static const char *const call_fields[] = { "xid", "type", "rpcvers", "prog", "vers", "proc",
					   "cred", NULL };
static const char *const reply_fields[] = { "xid", "type", "stat", "accept", "low", "high",
					    NULL };

/* Checks the number of words. Called with bounds that nothing meets (0, 0) it just fails, with
 * the line's form in the message. */
static bool check_words(struct rr_parser *p, uint32_t least, uint32_t most, const char *form)
{
	if (p->nwords >= least && p->nwords <= most)
		return true;
	return rr_parse_fail(p, "%s: should be '%s'", p->word[0], form);
}

static bool item_expr_at(struct rr_parser *p, uint32_t i, struct rr_expr *e)
{
	return rr_parse_expr(p, p->word[i], strlen(p->word[i]), e);
}

/* Parses the words from `from` on as segments, in their order. */
static bool segments(struct rr_parser *p, uint32_t from, struct rr_item *it)
{
	struct rr_segspec **out = &it->segs;

	for (uint32_t i = from; i < p->nwords; i++, out = &(*out)->next) {
		*out = rr_arena_get(&p->c->arena, sizeof(**out));
		if (!rr_parse_seg(p, p->word[i], *out))
			return false;
	}
	return true;
}

/* Parses "-> name" at the end of the line. False: it is not there. */
static bool arrow(struct rr_parser *p, uint32_t i, struct rr_item *it)
{
	if (i + 2 != p->nwords || strcmp(p->word[i], "->") != 0)
		return false;
	it->name = p->word[i + 1];
	rr_parse_defines(p, it->name);
	return true;
}

/* The end of an expected Write or Reply chunk: either "-> name" or a pattern for each segment's
 * length. */
static bool lengths(struct rr_parser *p, uint32_t from, struct rr_item *it)
{
	struct rr_field **out = &it->lens;

	if (arrow(p, from, it))
		return true;
	for (uint32_t i = from; i < p->nwords; i++, out = &(*out)->next) {
		*out = rr_arena_get(&p->c->arena, sizeof(**out));
		if (!rr_parse_pat(p, p->word[i], &(*out)->pat))
			return false;
	}
	return true;
}

/* Segments are sent, but of an expected chunk only the position can be said and a name given:
 * handles and offsets are the peer's own. */
static bool get_read(struct rr_parser *p, bool expect, struct rr_item *it)
{
	if (!expect)
		return check_words(p, 3, RR_WORDS, "read POSITION SEGMENT...") &&
		       item_expr_at(p, 1, &it->a) && segments(p, 2, it);
	return check_words(p, 2, 4, "read POSITION [-> NAME]") &&
	       rr_parse_pat(p, p->word[1], &it->pat) &&
	       (p->nwords == 2 || arrow(p, 2, it) ||
		check_words(p, 0, 0, "read POSITION [-> NAME]"));
}

static bool get_write(struct rr_parser *p, bool expect, struct rr_item *it)
{
	return expect ? lengths(p, 1, it) : segments(p, 1, it);
}

static bool parse_lists(struct rr_parser *p, bool expect, struct rr_item *it)
{
	(void)it;
	if (!expect)
		return rr_parse_fail(p, "lists: only of what is expected");
	return check_words(p, 2, 2, "lists any") &&
	       (!strcmp(p->word[1], "any") || check_words(p, 0, 0, "lists any"));
}

bool rr_parse_hex(struct rr_parser *p, uint32_t from, struct rr_item *it)
{
	uint8_t *out = rr_arena_get(&p->c->arena, strlen(p->rest) / 2 + 1);
	uint32_t digits = 0;

	for (uint32_t i = from; i < p->nwords; i++)
		for (const char *s = p->word[i]; *s; s++) {
			int c = *s | 32;

			if (!isxdigit((unsigned char)*s))
				return rr_parse_fail(p, "'%c' is no hex digit", *s);
			c = c >= 'a' ? c - 'a' + 10 : *s - '0';
			out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | c);
			digits++;
		}
	if (digits & 1)
		return rr_parse_fail(p, "hex: half a byte");
	it->bytes = out;
	it->len = digits / 2;
	return true;
}

/* prop ID [VALUE], or prop ID hex BYTES. In an expectation VALUE is a pattern. */
static bool get_prop(struct rr_parser *p, bool expect, struct rr_item *it)
{
	if (!check_words(p, 2, RR_WORDS, "prop ID [VALUE | hex BYTES]") ||
	    !item_expr_at(p, 1, &it->a))
		return false;
	if (p->nwords == 2)
		return true;
	if (!expect && !strcmp(p->word[2], "hex"))
		return rr_parse_hex(p, 3, it);
	if (!check_words(p, 3, 3, "prop ID [VALUE | hex BYTES]"))
		return false;
	it->lens = rr_arena_get(&p->c->arena, sizeof(*it->lens));
	return rr_parse_pat(p, p->word[2], &it->lens->pat);
}

/* The kind in the table is a placeholder: the second word says whether it is a call or a
 * reply. */
static bool get_rpc(struct rr_parser *p, bool expect, struct rr_item *it)
{
	static const char *const types[] = { "call", "reply" };
	int i = p->nwords < 2 ? rr_parse_which(p, "rpc", "", types, 2) :
				rr_parse_which(p, "rpc", p->word[1], types, 2);

	if (i < 0)
		return false;
	it->kind = i ? RR_I_RPC_REPLY : RR_I_RPC_CALL;
	return rr_parse_fields(p, 2, i ? reply_fields : call_fields, !expect, &it->fields);
}

static bool parse_word(struct rr_parser *p, bool expect, struct rr_item *it)
{
	(void)expect;
	return check_words(p, 2, 2, "u32 VALUE") && rr_parse_pat(p, p->word[1], &it->pat);
}

static bool get_hex(struct rr_parser *p, bool expect, struct rr_item *it)
{
	(void)expect;
	return check_words(p, 2, RR_WORDS, "hex BYTES...") && rr_parse_hex(p, 1, it);
}

static bool get_string(struct rr_parser *p, bool expect, struct rr_item *it)
{
	size_t len;

	(void)expect;
	if (!check_words(p, 2, 2, "string \"TEXT\""))
		return false;
	len = strlen(p->word[1]);
	if (len < 2 || p->word[1][0] != '"' || p->word[1][len - 1] != '"')
		return check_words(p, 0, 0, "string \"TEXT\"");
	it->bytes = (const uint8_t *)p->word[1] + 1;
	it->len = (uint32_t)len - 2;
	return true;
}

/* Lines with one number. `expect` makes no difference: what is sent is also what is
 * expected. */
static bool get_length(struct rr_parser *p, bool expect, struct rr_item *it)
{
	(void)expect;
	return check_words(p, 2, 2, "opaque, pattern, skip or cut LENGTH") &&
	       item_expr_at(p, 1, &it->a);
}

static bool get_two(struct rr_parser *p, bool expect, struct rr_item *it)
{
	(void)expect;
	return check_words(p, 3, 3,
			   it->kind == RR_I_FILL ? "fill LENGTH BYTE" : "at OFFSET WORD") &&
	       item_expr_at(p, 1, &it->a) && item_expr_at(p, 2, &it->b);
}

static bool get_mark(struct rr_parser *p, bool expect, struct rr_item *it)
{
	(void)expect;
	if (!check_words(p, 2, 2, "mark NAME"))
		return false;
	it->name = p->word[1];
	rr_parse_defines(p, it->name);
	return true;
}

static bool get_copy(struct rr_parser *p, bool expect, struct rr_item *it)
{
	(void)expect;
	return check_words(p, 2, 2, "copy NAME[OFFSET:LENGTH]") && segments(p, 1, it);
}

static bool get_rest(struct rr_parser *p, bool expect, struct rr_item *it)
{
	(void)it;
	return expect ? check_words(p, 1, 1, "rest") :
	       rr_parse_fail(p, "rest: only of what is expected");
}

/* Where a line may stand: among the chunk lists of a message or in a body; of what is sent or
 * of what is expected. */
enum where { LISTS = 1, BODY = 2, SENT = 4, EXPECTED = 8, BOTH = SENT | EXPECTED };

static const struct {
	const char *name;
	enum rr_item_kind kind;
	uint32_t where;
	bool (*get)(struct rr_parser *p, bool expect, struct rr_item *it);
} forms[] = {
	{ "read", RR_I_READ, LISTS | BOTH, get_read },
		{ "write", RR_I_WRITE, LISTS | BOTH, get_write },
	{ "reply", RR_I_REPLY, LISTS | BOTH, get_write },
		{ "lists", RR_I_LISTS, LISTS | EXPECTED, parse_lists },
	{ "prop", RR_I_PROP, LISTS | BOTH, get_prop },
		{ "rpc", RR_I_RPC_CALL, BODY | BOTH, get_rpc },
	{ "u32", RR_I_U32, BODY | BOTH, parse_word },
		{ "u64", RR_I_U64, BODY | BOTH, parse_word },
	{ "hex", RR_I_HEX, BODY | BOTH, get_hex },
		{ "string", RR_I_STRING, BODY | BOTH, get_string },
	{ "opaque", RR_I_OPAQUE, BODY | BOTH, get_length },
		{ "pattern", RR_I_PATTERN, BODY | BOTH, get_length },
	{ "fill", RR_I_FILL, BODY | BOTH, get_two },
		{ "mark", RR_I_MARK, BODY | BOTH, get_mark },
	{ "copy", RR_I_COPY, BODY | BOTH, get_copy },
	{ "skip", RR_I_SKIP, BODY | EXPECTED, get_length },
		{ "rest", RR_I_REST, BODY | EXPECTED, get_rest },
	{ "at", RR_I_AT, LISTS | SENT, get_two }, { "cut", RR_I_CUT, LISTS | SENT, get_length },
};

/* Parses a line by the table. Names that may not stand here are left out, so that an error
 * lists only those that may. */
static bool one_item(struct rr_parser *p, bool expect, bool lists, struct rr_item *it)
{
	const char *names[rr_array_size(forms)];
	int i;

	for (size_t k = 0; k < rr_array_size(forms); k++)
		names[k] = (forms[k].where & (lists ? LISTS | BODY : BODY)) &&
			   (forms[k].where & (expect ? EXPECTED : SENT)) ? forms[k].name : NULL;
	i = rr_parse_which(p, "item", p->word[0], names, rr_array_size(forms));
	if (i < 0)
		return false;
	it->line = p->line;
	it->kind = forms[i].kind;
	return forms[i].get(p, expect, it);
}

bool rr_parse_items(struct rr_parser *p, bool expect, bool lists, struct rr_item **out)
{
	while (rr_parse_indented(p)) {
		*out = rr_arena_get(&p->c->arena, sizeof(**out));
		if (!one_item(p, expect, lists, *out))
			return false;
		out = &(*out)->next;
	}
	return !rr_parse_failed(p);
}
