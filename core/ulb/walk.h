/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ULB_WALK_H
#define RR_ULB_WALK_H

/* Walks an RPC message, as much of it as is there, by the formats of binding.h, and calculates
 * from the same formats how large a reply can get. A walk ends at its first error, which it
 * remembers; from then on it reads zeroes and moves no further. */

#include "core/ulb/binding.h"
#include "core/ulb/ulb.h"

/* The largest number of bytes that a bound can say. Sums are held at or below it; it means that
 * there is no bound. */
#define RR_BOUND_NONE	(UINT64_C(1) << 40)

enum rr_walk_rc {
	RR_WALK_OK,
	/* an operation that is not in the table: nothing behind it can be walked */
	RR_WALK_STOP,
	RR_WALK_UNSEEN,		/* needs bytes that have not arrived */
	RR_WALK_GARBAGE,
	RR_WALK_VIOLATION,	/* a chunk where none may be */
};

/* How large something can get: as a whole, and without what Write chunks take. */
struct rr_bound {
	uint64_t all, rest;
};

struct rr_walk {
	const struct rr_ulb_view *v;
	const struct rr_ulb_binding *b;
	enum rr_walk_rc rc;
	bool reply;		/* v->chunks are Write chunks */
	bool reduce;		/* eligible items (d) may be in chunks */
	/* RDMA_MSGP's padding, to be found or put; NULL: there is none */
	struct rr_ulb_padding *padding;
	uint32_t padded;	/* bytes of padding so far */
	bool absent;		/* some optional-data was absent */
	uint32_t at;		/* bytes of the stream walked */
	uint64_t shift;		/* bytes of placed items so far, with their padding */
	uint32_t chunk;		/* the next of v->chunks */
	struct rr_ulb_item *items;
	uint32_t nitems;

	/* what the arguments say about the results, RR_BOUND_NONE where they do not */
	uint64_t count;		/* c */
	uint64_t attrs;		/* b: bytes of f */
	uint64_t tag;		/* t */
	bool session;		/* q */
	bool idempotent;	/* all operations so far may be executed twice */
	uint32_t fore_max, back_max;
	struct rr_bound ops;	/* of all operations' results together; % */
	uint32_t nresults;
	uint32_t *results;
};

/* A walk from the message's first byte on. items and results: RR_ULB_ITEMS of each. */
void rr_walk_init(struct rr_walk *w, const struct rr_ulb_view *v);

/* Walks what f describes. */
void rr_walk_format(struct rr_walk *w, const char *f);

/* Ends the walk with rc, unless it has ended with another error before. */
void rr_walk_fail(struct rr_walk *w, enum rr_walk_rc rc);

/* Moves over n bytes, which need not be there. */
void rr_walk_skip(struct rr_walk *w, uint64_t n);
/* One word; 0 after an error. */
uint32_t rr_walk_word(struct rr_walk *w);
/* An opaque<>: its length. Its bytes need not be there. */
uint32_t rr_walk_opaque(struct rr_walk *w);

/* Does any chunk from index from on matter? Read chunks always do; a Write chunk does if it was
 * written to. */
bool rr_walk_has_chunks(const struct rr_walk *w, uint32_t from);

/* --- bounds, bound.c --- */

/* The bound of the results that f describes, given what w found in the arguments. With
 * w->reduce, appends their eligible items to w->results. */
struct rr_bound rr_bound_format(struct rr_walk *w, const char *f);

static inline uint64_t rr_bound_add(uint64_t a, uint64_t b)
{
	return a + b < RR_BOUND_NONE ? a + b : RR_BOUND_NONE;
}

/* --- formats, format.c --- */

/* Is c a bracket that closes a part of a format? */
bool rr_format_closes(char c);
/* The bracket that closes the one at f. */
const char *rr_format_close(const char *f);
/* The end of the union arm that begins at f: at its '|' or '}'. */
const char *rr_format_arm_end(const char *f);
/* The number at *f, and *f is moved behind it; absent if there is no number. */
uint64_t rr_format_number(const char **f, uint64_t absent);

#endif
