/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks a message by its format, and matches chunks with eligible items. How large the results
 * can get is calculated in bound.c. */

#include "core/base/compiler.h"
#include "core/ulb/walk.h"
#include "core/wire/cursor.h"
#include "core/wire/draft02.h"

/* --- the stream ------------------------------------------------------------------------- */

void rr_walk_init(struct rr_walk *w, const struct rr_ulb_view *v)
{
	*w = (struct rr_walk){
		.v = v, .count = RR_BOUND_NONE, .attrs = RR_BOUND_NONE, .tag = RR_BOUND_NONE,
		.ops = { RR_BOUND_NONE, RR_BOUND_NONE },
		.idempotent = true,
	};
}

void rr_walk_fail(struct rr_walk *w, enum rr_walk_rc rc)
{
	if (w->rc == RR_WALK_OK)
		w->rc = rc;
}

/* w->at never exceeds the message's length, so the subtraction cannot wrap; n has 64 bits, so
 * it cannot either, however long an item claims to be. */
void rr_walk_skip(struct rr_walk *w, uint64_t n)
{
	if (w->rc)
		return;
	if (n > w->v->len - w->at)
		rr_walk_fail(w, RR_WALK_GARBAGE);
	else
		w->at += (uint32_t)n;
}

uint32_t rr_walk_word(struct rr_walk *w)
{
	uint32_t at = w->at;

	rr_walk_skip(w, 4);
	if (w->rc == RR_WALK_OK && w->at > w->v->have)
		rr_walk_fail(w, RR_WALK_UNSEEN);
	return w->rc ? 0 : rr_be32(w->v->buf + at);
}

/* Padding that the message already has is part of the stream and is skipped; padding that is
 * still to be inserted is only recorded. */
static void walk_padding(struct rr_walk *w, uint32_t len)
{
	struct rr_ulb_padding *p = w->padding;
	uint32_t at = p->base + w->at + (p->there ? 0 : w->padded);
	uint32_t n = w->rc ? 0 : rr_msgp_pad(p->align, p->thresh, at, len);

	if (n == 0)
		return;
	if (p->n == rr_array_size(p->at) || n > UINT32_MAX - at) {
		rr_walk_fail(w, RR_WALK_GARBAGE);
		return;
	}
	p->at[p->n].pos = w->at;
	p->at[p->n++].len = n;
	w->padded += n;
	if (p->there)
		rr_walk_skip(w, n);
}

uint32_t rr_walk_opaque(struct rr_walk *w)
{
	uint32_t len = rr_walk_word(w);

	if (unlikely(w->padding))
		walk_padding(w, len);
	rr_walk_skip(w, rr_ulb_padded(len));
	return w->rc ? 0 : len;
}

static bool get_bool(struct rr_walk *w)
{
	uint32_t v = rr_walk_word(w);

	if (v > 1)
		rr_walk_fail(w, RR_WALK_GARBAGE);
	return v == 1;
}

/* --- eligible items --------------------------------------------------------------------- */

/* RFC 8166 §3.4.5.2: a Read chunk may include the roundup padding. A chunk whose position is
 * not that of an item matches none, nor do those behind it; verdict_of() finds that at the end
 * of the walk. */
/* req: rfc8166 3.4.5.2 #3, 3.4.5 #1; draft-02 3.4 #4 */
static void match_read_chunk(struct rr_walk *w, struct rr_ulb_item *it)
{
	const struct rr_ulb_chunk *c;

	if (w->chunk == w->v->nchunks || w->v->chunks[w->chunk].pos != it->pos)
		return;
	c = &w->v->chunks[w->chunk];
	if (c->len != it->len && c->len != rr_ulb_padded(it->len)) {
		rr_walk_fail(w, RR_WALK_VIOLATION);
		return;
	}
	it->chunk = (uint16_t)w->chunk++;
	it->placed = true;
}

/* RFC 8267 §6.4.1: the next item has the next chunk. An item without bytes leaves a chunk that
 * was written to for the item behind it, because some servers do not count such items (decision
 * 6). */
/* req: rfc8166 4.3.2.2 #1; rfc8267 6.4.1 #1 */
static void match_write_chunk(struct rr_walk *w, struct rr_ulb_item *it)
{
	uint32_t written;

	if (w->chunk == w->v->nchunks)
		return;
	written = w->v->chunks[w->chunk].len;
	if (written && it->len == 0)
		return;
	if (written && written != it->len) {	/* RFC 8166 §3.4.6.2: no padding */
		rr_walk_fail(w, RR_WALK_VIOLATION);
		return;
	}
	it->chunk = (uint16_t)w->chunk++;
	it->placed = written > 0;
}

/* The bytes of an item that is in a chunk count for the positions of everything behind it. The
 * whole message must still have a 32-bit length. */
static void put_item_back(struct rr_walk *w, uint32_t len)
{
	w->shift += rr_ulb_padded(len);
	if (w->v->len + w->shift > UINT32_MAX)
		rr_walk_fail(w, RR_WALK_VIOLATION);
}

/* An item is in a chunk or in the stream. Its length word is in the stream in either case (RFC
 * 8166 §3.4.4.1). */
static void walk_eligible(struct rr_walk *w)
{
	struct rr_ulb_item it = { .chunk = RR_ULB_INLINE, .early = w->absent };

	it.len = rr_walk_word(w);
	it.pos = (uint32_t)(w->at + w->shift);
	if (w->rc)
		return;
	/* more than we report: this one has to be in the stream, or the message is refused */
	if (w->nitems == RR_ULB_ITEMS) {
		rr_walk_skip(w, rr_ulb_padded(it.len));
		return;
	}
	if (w->reply && !w->v->reads)
		match_write_chunk(w, &it);
	else
		match_read_chunk(w, &it);
	if (it.placed)
		put_item_back(w, it.len);
	else
		rr_walk_skip(w, rr_ulb_padded(it.len));
	if (w->rc == RR_WALK_OK)
		w->items[w->nitems++] = it;
}

bool rr_walk_has_chunks(const struct rr_walk *w, uint32_t from)
{
	for (uint32_t i = from; i < w->v->nchunks; i++) {
		if (!w->reply || w->v->reads || w->v->chunks[i].len)
			return true;
	}
	return false;
}

/* --- elements --------------------------------------------------------------------------- */

/* The count is the sender's. Each element takes a word at least, so the bytes that are there
 * limit the work. */
static const char *walk_array(struct rr_walk *w, const char *f)
{
	const char *end = rr_format_close(f) + 1;

	for (uint32_t n = rr_walk_word(w); n && !w->rc; n--) {
		rr_walk_format(w, f + 1);
		if (w->at > w->v->have)		/* no work for elements that are not here */
			rr_walk_fail(w, RR_WALK_UNSEEN);
	}
	rr_format_number(&end, 0);
	return end;
}

/* Absence is noted, because some clients misplace what follows it (struct rr_ulb_item.early,
 * reduce_reply.c). */
static const char *walk_optional(struct rr_walk *w, const char *f)
{
	if (get_bool(w))
		rr_walk_format(w, f + 1);
	else
		w->absent = true;
	return rr_format_close(f) + 1;
}

static const char *walk_list(struct rr_walk *w, const char *f)
{
	while (get_bool(w) && !w->rc)
		rr_walk_format(w, f + 1);
	return rr_format_close(f) + 1;
}

/* A value that no arm has, in a union without a default, makes the message garbage. */
static const char *walk_choice(struct rr_walk *w, const char *f)
{
	const char *end = rr_format_close(f) + 1, *arm = f + 1;
	uint64_t v = rr_walk_word(w), is;

	while (!w->rc) {
		is = rr_format_number(&arm, v);		/* the default is any */
		if (is == v) {
			rr_walk_format(w, arm + 1);
			return end;
		}
		arm = rr_format_arm_end(arm);
		if (*arm++ == '}')
			rr_walk_fail(w, RR_WALK_GARBAGE);
	}
	return end;
}

/* A number that was read from the arguments; no bound if it could not be read. */
static uint64_t known(const struct rr_walk *w, uint64_t n)
{
	return w->rc ? RR_BOUND_NONE : n;
}

/* A bitmap4 of the attributes that are asked for: how large the fattr4 that answers it can get.
 * The bitmap that is returned is no longer than the one in the call, or than the table
 * needs. */
static void attributes(struct rr_walk *w)
{
	uint32_t n = rr_walk_word(w);
	uint64_t sum = 4 + 4 + 4 * (uint64_t)rr_max(n, (w->b->nattrs + 31) / 32);

	for (uint32_t i = 0; i < n && !w->rc; i++) {
		uint32_t bits = rr_walk_word(w);

		for (uint64_t attr = (uint64_t)i * 32; bits; bits >>= 1, attr++) {
			if (!(bits & 1))
				continue;
			if (attr >= w->b->nattrs || w->b->attrs[attr] == RR_ULB_ATTR_ANY)
				sum = RR_BOUND_NONE;
			else
				sum = rr_bound_add(sum, w->b->attrs[attr]);
		}
	}
	w->attrs = known(w, sum);
}

/* The next operation of a COMPOUND. NULL: the walk ends, with RR_WALK_STOP if the operation is
 * one that the table does not have; what has been walked before it still counts. */
static const struct rr_ulb_proc *operation(struct rr_walk *w)
{
	uint32_t num = rr_walk_word(w);

	if (w->rc)
		return NULL;
	if (num < w->b->nops && w->b->ops[num].res) {
		w->idempotent &= w->b->ops_twice[num / 64] >> num % 64 & 1;
		return &w->b->ops[num];
	}
	rr_walk_fail(w, RR_WALK_STOP);
	return NULL;
}

/* Walks the arguments of one operation, and adds the bound of its result, in front of which its
 * number stands. */
static void one_call(struct rr_walk *w, const struct rr_ulb_proc *op)
{
	struct rr_bound b;

	w->count = w->attrs = RR_BOUND_NONE;
	rr_walk_format(w, op->args);
	if (w->rc)
		return;
	b = rr_bound_format(w, op->res);
	w->ops.all = rr_bound_add(w->ops.all, b.all + 4);
	w->ops.rest = rr_bound_add(w->ops.rest, b.rest + 4);
}

/* All operations of a COMPOUND; the results together have a bound only if every operation was
 * walked. */
static void operations(struct rr_walk *w)
{
	const struct rr_ulb_proc *op;

	w->ops = (struct rr_bound){ 4, 4 };
	for (uint32_t n = rr_walk_word(w); n && !w->rc; n--) {
		op = operation(w);
		if (op && w->reply)
			rr_walk_format(w, op->res);
		else if (op)
			one_call(w, op);
	}
	if (w->rc)
		w->ops = (struct rr_bound){ RR_BOUND_NONE, RR_BOUND_NONE };
}

/* --- the walk --------------------------------------------------------------------------- */

static void walk_letter(struct rr_walk *w, char c, uint64_t number)
{
	uint32_t v;

	switch (c) {
	case 'w':
		rr_walk_skip(w, 4 * number);
		break;
	case 'd':
		if (w->reduce) {
			walk_eligible(w);
			break;
		}
		/* fallthrough */
	case 'o':
		rr_walk_opaque(w);
		break;
	case 't':
		v = rr_walk_opaque(w);
		w->tag = known(w, rr_ulb_padded(v));
		break;
	case 'c':
		v = rr_walk_word(w);
		w->count = known(w, v);
		break;
	case 'b':
		attributes(w);
		break;
	case 'f':
		rr_walk_format(w, "[w]o");
		break;
	case 'q':
		w->session = true;
		break;
	case 's':
		w->fore_max = rr_walk_word(w);
		break;
	case 'S':
		w->back_max = rr_walk_word(w);
		break;
	case '%':
		operations(w);
		break;
	}
}

/* Walks the element at f; returns where the next one begins. */
static const char *walk_element(struct rr_walk *w, const char *f)
{
	char c = *f;
	uint64_t number;

	switch (c) {
	case '[':
		return walk_array(w, f);
	case '(':
		return walk_optional(w, f);
	case '*':
		return walk_list(w, f + 1);
	case '{':
		return walk_choice(w, f);
	case '<':
		rr_walk_format(w, f + 1);
		return rr_format_close(f) + 1;
	}
	f++;
	number = rr_format_number(&f, 1);
	walk_letter(w, c, number);
	return f;
}

void rr_walk_format(struct rr_walk *w, const char *f)
{
	while (!w->rc && *f && *f != '|' && !rr_format_closes(*f))
		f = walk_element(w, f);
}
