/* SPDX-License-Identifier: BSD-3-Clause */

/* How large the results that a format describes can get. Reads no message: what the arguments
 * say about the results has been noted by the walk (walk.c). The recursion is as deep as the
 * format. */

#include "core/base/compiler.h"
#include "core/ulb/walk.h"

/* A size that no Write chunk can reduce. */
static struct rr_bound both(uint64_t n)
{
	return (struct rr_bound){ n, n };
}

static struct rr_bound bound_sum(struct rr_bound a, struct rr_bound b)
{
	return (struct rr_bound){ rr_bound_add(a.all, b.all), rr_bound_add(a.rest, b.rest) };
}

static struct rr_bound times(struct rr_bound a, uint64_t n)
{
	if (n >= RR_BOUND_NONE)
		return both(RR_BOUND_NONE);
	return (struct rr_bound){ rr_min(a.all * n, RR_BOUND_NONE),
				  rr_min(a.rest * n, RR_BOUND_NONE) };
}

static struct rr_bound larger(struct rr_bound a, struct rr_bound b)
{
	return (struct rr_bound){ rr_max(a.all, b.all), rr_max(a.rest, b.rest) };
}

/* Length word, data, padding. */
static uint64_t opaque(uint64_t data)
{
	return data >= RR_BOUND_NONE ? RR_BOUND_NONE : rr_bound_add(4, rr_align(data, 4));
}

/* An item that can go by Write chunk leaves its length word in the reply (RFC 8166 §3.4.4.1),
 * and no padding (§3.4.4.4). Items beyond RR_ULB_ITEMS count as ones that cannot. */
static struct rr_bound bound_eligible(struct rr_walk *w, uint64_t limit)
{
	uint64_t data = rr_min(w->count, limit);

	if (!w->reduce || w->nresults == RR_ULB_ITEMS)
		return both(opaque(data));
	w->results[w->nresults++] = (uint32_t)rr_min(data, (uint64_t)RR_ULB_UNKNOWN);
	return (struct rr_bound){ opaque(data), 4 };
}

/* The number of elements stands behind the closing bracket; an array without one has no
 * bound. */
static struct rr_bound bound_array(struct rr_walk *w, const char **f)
{
	const char *inner = *f + 1;
	uint64_t n;

	*f = rr_format_close(*f) + 1;
	n = rr_format_number(f, RR_BOUND_NONE);
	return bound_sum(both(4), times(rr_bound_format(w, inner), n));
}

/* Optional-data counts as present. */
static struct rr_bound bound_optional(struct rr_walk *w, const char **f)
{
	const char *inner = *f + 1;

	*f = rr_format_close(*f) + 1;
	return bound_sum(both(4), rr_bound_format(w, inner));
}

/* Nobody knows which arm the server will choose, so the largest counts, in either respect. */
static struct rr_bound bound_choice(struct rr_walk *w, const char **f)
{
	const char *arm = *f + 1, *end = rr_format_close(*f);
	struct rr_bound most = both(0);

	while (arm <= end) {
		rr_format_number(&arm, 0);
		most = larger(most, rr_bound_format(w, arm + 1));
		arm = rr_format_arm_end(arm) + 1;
	}
	*f = end + 1;
	return bound_sum(both(4), most);
}

/* Letters that stand for nothing in results take no bytes. */
static struct rr_bound bound_letter(struct rr_walk *w, char c, uint64_t number)
{
	switch (c) {
	case 'w':
		return both(4 * number);
	case 'o':
		return both(opaque(number));
	case 'd':
		return bound_eligible(w, number);
	case 't':
		return both(opaque(w->tag));
	case 'f':
		return both(w->attrs);
	case '%':
		return w->ops;
	}
	return both(0);
}

/* The bound of the element at *f, which is moved behind it. */
static struct rr_bound bound_element(struct rr_walk *w, const char **f)
{
	const char *at = *f;
	char c = *at;
	uint64_t number;

	switch (c) {
	case '[':
		return bound_array(w, f);
	case '(':
		return bound_optional(w, f);
	case '{':
		return bound_choice(w, f);
	case '<':
		*f = rr_format_close(at) + 1;
		return both(rr_align(w->count, 4));
	}
	(*f)++;
	number = rr_format_number(f, c == 'w' ? 1 : RR_BOUND_NONE);
	return bound_letter(w, c, number);
}

struct rr_bound rr_bound_format(struct rr_walk *w, const char *f)
{
	struct rr_bound total = both(0);

	while (*f && *f != '|' && *f != ']' && *f != ')' && *f != '}')
		total = bound_sum(total, bound_element(w, &f));
	return total;
}
