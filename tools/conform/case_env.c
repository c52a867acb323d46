/* SPDX-License-Identifier: BSD-3-Clause */
/* The variables of a case: looked up, set, computed with, compared with patterns and printed;
 * and how the dialects' header types differ. Sums are of 64 bits and wrap: a case may compute
 * with the offsets of memory. */
#include <err.h>

#include "core/base/compiler.h"
#include "tools/conform/wire.h"

/* Grows by doubling. The result is valid until the next call that appends. */
uint8_t *rr_bytes_more(struct rr_bytes *b, size_t n)
{
	if (b->len + n > b->cap) {
		b->cap = rr_max(2 * b->cap, b->len + n + 256);
		b->p = realloc(b->p, b->cap);
		if (!b->p)
			err(3, NULL);
	}
	b->len += n;
	return b->p + b->len - n;
}

void rr_bytes_add(struct rr_bytes *b, const void *p, size_t n)
{
	if (n)
		memcpy(rr_bytes_more(b, n), p, n);
}

void rr_bytes_word(struct rr_bytes *b, uint32_t v)
{
	const uint8_t be[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
				(uint8_t)v };

	rr_bytes_add(b, be, 4);
}

void rr_bytes_free(struct rr_bytes *b)
{
	free(b->p);
	*b = (struct rr_bytes){ 0 };
}

void rr_env_free(struct rr_env *e)
{
	rr_arena_free(&e->arena);
	*e = (struct rr_env){ 0 };
}

/* Variables are few, so a list will do. The newest is in front. */
struct rr_var *rr_env_find(struct rr_env *e, const char *name)
{
	struct rr_var *v = e->vars;

	while (v && strcmp(v->name, name) != 0)
		v = v->next;
	return v;
}

uint64_t rr_env_num(struct rr_env *e, const char *name)
{
	const struct rr_var *v = rr_env_find(e, name);

	return v ? v->num : 0;
}

/* name is not copied; it belongs to the case, which outlives its run. */
struct rr_var *rr_env_var(struct rr_env *e, const char *name)
{
	struct rr_var *v = rr_env_find(e, name);

	if (v)
		return v;
	v = rr_arena_get(&e->arena, sizeof(*v));
	v->name = name;
	v->next = e->vars;
	e->vars = v;
	return v;
}

void rr_env_set(struct rr_env *e, const char *name, uint64_t n)
{
	rr_env_var(e, name)->num = n;
}

const struct rr_pat *rr_field_pat(const struct rr_field *f, const char *name)
{
	while (f && strcmp(f->name, name) != 0)
		f = f->next;
	return f ? &f->pat : NULL;
}

/* A property of a variable. The length of memory that is not exposed is that of the memory
 * itself. */
static uint64_t part(const struct rr_var *v, enum rr_part part)
{
	uint64_t sum = 0;

	switch (part) {
	case RR_PART_HANDLE:
		return v->chunk.n ? v->chunk.seg[0].handle : 0;
	case RR_PART_OFFSET:
		return v->chunk.n ? v->chunk.seg[0].offset : 0;
	case RR_PART_SEGMENTS:
		return v->chunk.n;
	case RR_PART_LENGTH:
		for (uint32_t i = 0; i < v->chunk.n; i++)
			sum += v->chunk.seg[i].length;
		return v->chunk.n ? sum : v->len;
	default:
		return v->num;
	}
}

/* A variable without a value counts as 0. Its name is noted in `missing`, and the step that
 * used it fails afterwards (run_steps()): so no caller has to check. */
uint64_t rr_env_eval(struct rr_env *e, const struct rr_expr *x)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < x->n; i++) {
		const struct rr_term *t = &x->t[i];
		const struct rr_var *v = t->name ? rr_env_find(e, t->name) : NULL;
		uint64_t n = v ? part(v, t->part) : t->value;

		if (t->name && !v)
			e->missing = t->name;
		sum = t->minus ? sum - n : sum + n;
	}
	return sum;
}

/* Alternatives are tried from the left, and any of them suffices. The value is bound only if it
 * matches. */
bool rr_env_match(struct rr_env *e, const struct rr_pat *pat, uint64_t v)
{
	bool ok = pat->any;

	for (uint32_t i = 0; i < pat->n && !ok; i++)
		ok = v >= rr_env_eval(e, &pat->alt[i].lo) &&
		     (pat->alt[i].open || v <= rr_env_eval(e, &pat->alt[i].hi));
	if (ok && pat->bind)
		rr_env_set(e, pat->bind, v);
	return ok;
}

/* Writes what the pattern stands for now, "4|7..9", for a message to the user. */
void rr_env_print(struct rr_env *e, const struct rr_pat *pat, char *out, size_t cap)
{
	size_t at = 0;

	snprintf(out, cap, "any");
	for (uint32_t i = 0; i < pat->n && at < cap; i++) {
		uint64_t lo = rr_env_eval(e, &pat->alt[i].lo),
			      hi = rr_env_eval(e, &pat->alt[i].hi);

		at += (size_t)snprintf(out + at, cap - at, "%s%llu", i ? "|" : "",
				       (unsigned long long)lo);
		if (at < cap && pat->alt[i].open)
			at += (size_t)snprintf(out + at, cap - at, "..");
		else if (at < cap && hi != lo)
			at += (size_t)snprintf(out + at, cap - at, "..%llu",
					       (unsigned long long)hi);
	}
}

/* Returns what there is of the named part: less than was asked for if the memory ends before.
 * *len is 0 if there is no such memory. */
const uint8_t *rr_env_bytes(struct rr_env *e, const struct rr_segspec *s, uint32_t *len)
{
	const struct rr_var *v = s->name ? rr_env_find(e, s->name) : NULL;
	uint64_t off = s->part ? rr_env_eval(e, &s->num[0]) : 0, n;

	*len = 0;
	if (!v || !v->at || off > v->len) {
		e->missing = s->name ? s->name : "copy";
		return NULL;
	}
	n = s->part && !s->to_end ? rr_env_eval(e, &s->num[1]) : v->len - off;
	*len = (uint32_t)rr_min(n, v->len - off);
	return v->at + off;
}

/* --- how dialects differ --- */

/* Numbers of the header types: RFC 8166 §4.2.4, the bidirection slides, and version-two-08
 * §5.2; UINT32_MAX: the dialect has no such type. Version 2's DONE, 0x52444d03, is in no draft:
 * it is rdmarpc's own (docs/conformance.md). */
static const uint32_t numbers[2][RR_KINDS] = {
	{ 0, 1, 2, 3, 4, 5, 6, UINT32_MAX, UINT32_MAX, UINT32_MAX },
	{ 0, 1, UINT32_MAX, 0x52444d03, 4, UINT32_MAX, UINT32_MAX, 5, UINT32_MAX, UINT32_MAX },
};

bool rr_kind_number(enum rr_dialect d, enum rr_msg_kind kind, uint32_t *number)
{
	*number = numbers[d == RR_DIALECT_V2][kind];
	return *number != UINT32_MAX;
}

bool rr_kind_has_lists(enum rr_msg_kind kind)
{
	return kind == RR_K_MSG || kind == RR_K_NOMSG || kind == RR_K_MSGP ||
	       kind == RR_K_BCALL || kind == RR_K_BRPLY;
}

/* Only version 2 has two layouts: its ends may fall back to version 1. The dialects other than
 * v2 are all laid out as version 1 is. */
enum rr_dialect rr_layout(enum rr_dialect d, uint32_t vers)
{
	return d == RR_DIALECT_V2 && vers == 1 ? RR_DIALECT_V1 : d;
}

uint32_t rr_dialect_version(enum rr_dialect d)
{
	return d == RR_DIALECT_V2 ? 2 : 1;
}
