/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables themselves: what core/ulb/binding.h asks of a format. */
#include <criterion/criterion.h>

#include <string.h>

#include "core/base/compiler.h"
#include "core/ulb/walk.h"
#include "core/wire/cursor.h"

/* Checks the elements up to a closing bracket and moves f there. Returns the least number of
 * words that they take. */
static unsigned elements(const char *all, const char **f, bool res, bool counted);

static void closed(const char *all, const char **f, char c)
{
	cr_assert_eq(**f, c, "%s: '%s'", all, *f);
	(*f)++;
}

static unsigned number(const char **f)
{
	unsigned n = 0;

	while (**f >= '0' && **f <= '9')
		n = n * 10 + (unsigned)(*(*f)++ - '0');
	return n;
}

static unsigned arms(const char *all, const char **f, bool res, bool counted)
{
	unsigned least = ~0u;

	do {
		bool is_default = *++*f == ':';
		unsigned n;

		number(f);
		closed(all, f, ':');
		n = elements(all, f, res, counted);
		least = rr_min(least, n);
		cr_assert(!is_default || **f == '}', "%s: the default is last", all);
	} while (**f == '|');
	closed(all, f, '}');
	return 1 + least;
}

static unsigned element(const char *all, const char **f, bool res, bool counted)
{
	char c = *(*f)++;
	unsigned n;

	switch (c) {
	case '[':
		cr_assert_gt(elements(all, f, res, counted), 0, "%s: elements without bytes", all);
		closed(all, f, ']');
		number(f);
		return 1;
	case '*':
		cr_assert(!res || counted, "%s: a list without bound", all);
		cr_assert_eq(*(*f)++, '(', "%s", all);
		/* fallthrough */
	case '(':
		elements(all, f, res, counted);
		closed(all, f, ')');
		return 1;
	case '<':
		cr_assert(res, "%s", all);
		n = elements(all, f, res, true);
		closed(all, f, '>');
		return n;
	case '{':
		(*f)--;
		return arms(all, f, res, counted);
	}
	cr_assert(strchr(res ? "wodtf%" : "wodtcbsSq%", c) && c, "%s: '%c'", all, c);
	n = number(f);
	cr_assert(n == 0 || strchr("wod", c), "%s", all);
	if (c == 'w' && n)
		return n;
	return c == 'f' ? 2 : c != 'q';
}

static unsigned elements(const char *all, const char **f, bool res, bool counted)
{
	unsigned n = 0;

	while (**f && !strchr("|])>}", **f))
		n += element(all, f, res, counted);
	return n;
}

static void format(const char *all, bool res)
{
	const char *f = all;

	if (!all)
		return;
	elements(all, &f, res, false);
	cr_assert_eq(*f, 0, "%s: '%s'", all, f);
}

static void table(const struct rr_ulb_proc *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		format(p[i].args, false);
		format(p[i].res, true);
	}
}

Test(ulb_formats, every_format_is_well_formed)
{
	const struct rr_ulb_binding *b;
	uint32_t n;

	for (n = 1; (b = rr_ulb_at(n)); n++) {
		cr_assert_leq(b->nprocs, 256);		/* rec.proc */
		table(b->procs, b->nprocs);
		table(b->ops, b->nops);
		for (uint32_t i = 0; i < b->nops; i++)
			cr_assert(!b->ops[i].res == !b->ops[i].args);
	}
	cr_assert_gt(n, 10);
	cr_assert_lt(n, 256);
	cr_assert_null(rr_ulb_at(0));
}

Test(ulb_formats, no_program_is_bound_twice)
{
	const struct rr_ulb_binding *b;
	uint8_t number;

	for (uint32_t n = 1; (b = rr_ulb_at(n)); n++) {
		cr_assert_eq(rr_ulb_find(b->prog, b->vers, &number), b);
		cr_assert_eq(number, n);
	}
}

/* --- the language ------------------------------------------------------------------------- */

static struct rr_ulb_item items[RR_ULB_ITEMS];
static uint32_t results[RR_ULB_ITEMS];

static uint64_t bound(const char *f, uint64_t count)
{
	struct rr_ulb_view v = { 0 };
	struct rr_walk w;

	rr_walk_init(&w, &v);
	w.items = items;
	w.results = results;
	w.count = count;
	w.tag = 6;
	return rr_bound_format(&w, f).all;
}

Test(ulb_formats, bounds)
{
	cr_assert_eq(bound("", 0), 0);
	cr_assert_eq(bound("w", 0), 4);
	cr_assert_eq(bound("w3o5w", 0), 12 + 4 + 8 + 4);
	cr_assert_eq(bound("o", 0), RR_BOUND_NONE);
	cr_assert_eq(bound("wow", 0), RR_BOUND_NONE);
	cr_assert_eq(bound("d", 9), 4 + 12);
	cr_assert_eq(bound("d8", 9), 4 + 8);
	cr_assert_eq(bound("d", RR_BOUND_NONE), RR_BOUND_NONE);
	cr_assert_eq(bound("d8", RR_BOUND_NONE), 12);
	cr_assert_eq(bound("(w2)w", 0), 16);
	cr_assert_eq(bound("[w2]3w", 0), 4 + 24 + 4);
	cr_assert_eq(bound("[w]", 0), RR_BOUND_NONE);
	cr_assert_eq(bound("[w]9w", 0), 4 + 36 + 4);
	cr_assert_eq(bound("[o9]10", 0), 4 + 160);
	cr_assert_eq(bound("[o]5", 0), RR_BOUND_NONE);
	cr_assert_eq(bound("{0:w2|7:w5(w)|:w}w", 0), 4 + 28 + 4);
	cr_assert_eq(bound("{0:{1:w|:w9}|:}", 0), 4 + 4 + 36);
	cr_assert_eq(bound("w<*(ow)>w", 13), 4 + 16 + 4);
	cr_assert_eq(bound("t", 0), 4 + 8);
	cr_assert_eq(bound("{0:w2|:}w3", 0), 4 + 8 + 12);
	cr_assert_eq(bound("cw", 0), 4);	/* a count stands for no bytes of its own */
}

static enum rr_walk_rc walk_part(const char *f, const uint32_t *words, uint32_t n, uint32_t have, uint32_t *at)
{
	uint8_t b[64];
	struct rr_ulb_view v = { .buf = b, .have = have, .len = 4 * n };
	struct rr_walk w;

	for (uint32_t i = 0; i < n; i++)
		rr_put_be32(b + 4 * i, words[i]);
	rr_walk_init(&w, &v);
	w.items = items;
	w.results = results;
	rr_walk_format(&w, f);
	*at = w.at;
	return w.rc;
}

static enum rr_walk_rc walk(const char *f, const uint32_t *words, uint32_t n, uint32_t *at)
{
	return walk_part(f, words, n, 4 * n, at);
}

#define walks(f, ...) do { \
	uint32_t ws_[] = { __VA_ARGS__ }, at_; \
	cr_assert_eq(walk(f, ws_, rr_array_size(ws_), &at_), RR_WALK_OK); \
	cr_assert_eq(at_, sizeof(ws_)); \
} while (0)

#define garbage(f, ...) do { \
	uint32_t ws_[] = { __VA_ARGS__ }, at_; \
	cr_assert_eq(walk(f, ws_, rr_array_size(ws_), &at_), RR_WALK_GARBAGE); \
} while (0)

Test(ulb_formats, walks)
{
	walks("w2", 1, 2);
	walks("ow", 5, 0, 0, 1);
	walks("[w2]9w", 2, 1, 2, 3, 4, 5);
	walks("[{0:w|:}]", 3, 0, 7, 1, 2);
	walks("(w)(w)", 0, 1, 5);
	walks("*(w2)w", 1, 5, 5, 1, 6, 6, 0, 7);
	walks("{3:w|4:w2|:}w", 4, 1, 1, 9);
	walks("{3:w|4:w2|:}w", 5, 9);
	walks("{3:w|:w2}w", 5, 1, 1, 9);
	walks("{3:{1:w|:}|4:w2}w", 3, 1, 7, 9);
	walks("<w*(w)>w", 1, 1, 2, 0, 3);
	garbage("w3", 1, 2);
	garbage("{3:w|4:w2}", 5, 9);
	garbage("(w)", 2, 9);
	garbage("*(w)", 1, 9, 3);
	garbage("o", 0xfffffffd, 0);
	garbage("[w]", 0x40000000, 0);
	garbage("[(w)]", 0xffffffff, 0, 0);
}

/* A count is work only as far as its elements are there. */
Test(ulb_formats, an_array_is_walked_as_far_as_it_is_there)
{
	static const uint32_t words[] = { 3, 1, 2, 3, 4 };
	uint32_t at;

	cr_assert_eq(walk_part("[w]w", words, 5, 16, &at), RR_WALK_OK);
	cr_assert_eq(at, 20);
	cr_assert_eq(walk_part("[w]w", words, 5, 8, &at), RR_WALK_UNSEEN);
	cr_assert_eq(at, 12);
}

Test(ulb_formats, what_is_not_bound_has_no_number)
{
	uint8_t number = 9;

	cr_assert_null(rr_ulb_find(100004, 2, &number));
	cr_assert_eq(number, 0);
}

/* Calls of these procedures change nothing: RFC 1094 §2.2, RFC 1813 §3.3, RFC 8881 §16; Solaris' ACLs. */
Test(ulb_formats, what_may_be_executed_twice_only_reads)
{
	static const struct { uint32_t prog, vers; int8_t proc[12]; } row[] = {
		{ 100003, 2, { 0, 1, 4, 5, 6, 16, 17, -1 } },
		{ 100003, 3, { 0, 1, 3, 4, 5, 6, 16, 17, 18, 19, 20, -1 } },
		{ 100003, 4, { 0, 1, -1 } },	/* COMPOUND: as its operations say */
		{ 100227, 2, { 0, 1, 3, 4, -1 } },
		{ 100227, 3, { 0, 1, -1 } },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		uint64_t want = 0;
		uint8_t number;
		const struct rr_ulb_binding *b = rr_ulb_find(row[i].prog, row[i].vers, &number);

		for (const int8_t *p = row[i].proc; *p >= 0; p++)
			want |= UINT64_C(1) << *p;
		cr_assert_not_null(b);
		cr_assert_eq(b->procs_twice, want, "%u.%u: %llx", row[i].prog, row[i].vers,
			     (unsigned long long)b->procs_twice);
	}
}

/* RFC 8881 §5, RFC 7862, RFC 8276, RFC 9754: bitmaps are taken to have eight words at most. */
Test(ulb_formats, attributes_have_the_size_of_their_type)
{
	static const struct { uint32_t attr, size; } row[] = {
		{ 0, 36 }, { 1, 4 }, { 3, 8 }, { 8, 16 }, { 19, 4 + 128 }, { 36, 4 + 512 }, { 47, 12 }, { 55, 8 },
		{ 75, 36 }, { 86, 5 * 36 },
	};
	uint8_t number;
	const struct rr_ulb_binding *b = rr_ulb_find(100003, 4, &number);

	cr_assert_eq(b->nattrs, 87);
	for (size_t i = 0; i < rr_array_size(row); i++)
		cr_assert_eq(b->attrs[row[i].attr], row[i].size, "%u: %u", row[i].attr, b->attrs[row[i].attr]);
}
