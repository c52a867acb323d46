/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_PARSE_H
#define RR_CONFORM_PARSE_H

/* What the parts of the parser share. The first error counts: the function that meets it
 * returns, and nothing of the case is used. */

#include "tools/conform/case.h"

#define RR_WORDS	40u	/* words on one line */
#define RR_DEPTH	4u	/* repeats within each other */

struct rr_parser {
	struct rr_case *c;
	const char *at, *end;		/* of the text */
	int line;
	bool indented;
	uint32_t nwords;
	char *word[RR_WORDS];
	const char *rest;		/* the line after its first word */
	bool held;			/* the line is still to be used */
	uint32_t depth;			/* repeats that are open */
	char *err;
	size_t errcap;
	struct rr_ref { struct rr_ref *next; const char *name; int line; } *refs, *names;
};

/* Notes an error with its place. Returns false. */
bool rr_parse_fail(struct rr_parser *p, const char *fmt,
		   ...) __attribute__((format(printf, 2, 3)));
bool rr_parse_failed(const struct rr_parser *p);

/* Reads the next line that is not empty; false at the end, or after an error. */
bool rr_parse_line(struct rr_parser *p);
/* Reads the next such line if it is indented. */
bool rr_parse_indented(struct rr_parser *p);

/* The index of word in names; -1, and an error that lists the names. */
int rr_parse_which(struct rr_parser *p, const char *what, const char *word,
		   const char *const *names, uint32_t n);

/* --- expr.c --- */
bool rr_parse_expr(struct rr_parser *p, const char *text, size_t len, struct rr_expr *e);
bool rr_parse_pat(struct rr_parser *p, const char *text, struct rr_pat *pat);
/* Parses words [from..) as name=pattern, of the allowed names (terminated by NULL). */
bool rr_parse_fields(struct rr_parser *p, uint32_t from, const char *const *allowed, bool exact,
		     struct rr_field **out);
bool rr_parse_seg(struct rr_parser *p, const char *text, struct rr_segspec *s);
void rr_parse_defines(struct rr_parser *p, const char *name);

/* --- items.c --- */

/* Parses words [from..) as hex digits into it->bytes and it->len. */
bool rr_parse_hex(struct rr_parser *p, uint32_t from, struct rr_item *it);

/* Parses the indented lines that follow, each as an item. expect: they are compared, not made.
 * lists: they may be chunk lists, too. */
bool rr_parse_items(struct rr_parser *p, bool expect, bool lists, struct rr_item **out);

#endif
