/* SPDX-License-Identifier: BSD-3-Clause */
/* Upper-layer bindings. The input: a byte of choices, a binding, a procedure, then an RPC
 * message, which is looked at as a call and as a reply to that procedure. Items lie within
 * the message, in order, behind their own length; and what is taken out as the items say
 * is found again at the same places by its chunks. */
#include "core/ulb/ulb.h"
#include "tests/fuzz/fuzz.h"

#define PADDED	1u	/* Read chunks include the roundup padding */
#define SOME	2u	/* every second item stays in the stream */

static uint32_t padded(uint32_t len)
{
	return len + rr_ulb_pad(len);
}

static void items_are_right(const struct rr_ulb_item *it, uint32_t n, const uint8_t *p,
			    uint32_t len)
{
	uint64_t end = 0;

	fuzz_check(n <= RR_ULB_ITEMS);
	for (uint32_t i = 0; i < n; i++) {
		fuzz_check(it[i].pos % 4 == 0 && it[i].pos >= end + 4);
		end = (uint64_t)it[i].pos + padded(it[i].len);
		fuzz_check(end <= len);
		fuzz_check(rr_be32(p + it[i].pos - 4) == it[i].len);
		fuzz_check(!it[i].placed && it[i].chunk == RR_ULB_INLINE);
	}
}

static void same_items(const struct rr_ulb_item *a, const struct rr_ulb_item *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		fuzz_check(a[i].pos == b[i].pos && a[i].len == b[i].len);
}

static bool taken(uint32_t i, unsigned choice)
{
	return !(choice & SOME) || i % 2 == 0;
}

/* data without those of it that choice says, and the chunks that then hold them; for a reply a
 * chunk that was not written to stands for each of the others. */
static uint8_t *reduced(const uint8_t *data, uint32_t *len, const struct rr_ulb_item *it,
			uint32_t n, unsigned choice, bool reply, struct rr_ulb_chunk *c,
			uint32_t *nc)
{
	uint8_t *all = malloc(*len + 1), *out = all, *p;
	uint32_t from = 0;

	*nc = 0;
	for (uint32_t i = 0; i < n; i++) {
		bool take = taken(i, choice);
		uint32_t size = choice & PADDED && !reply ? padded(it[i].len) : it[i].len;

		if (take || reply)
			c[(*nc)++] = (struct rr_ulb_chunk){ it[i].pos, take ? size : 0 };
		if (!take)
			continue;
		memcpy(out, data + from, it[i].pos - from);
		out += it[i].pos - from;
		from = it[i].pos + padded(it[i].len);
	}
	memcpy(out, data + from, *len - from);
	out += *len - from;
	*len = (uint32_t)(out - all);
	p = tight(all, *len);
	free(all);
	return p;
}

static void same_call(const struct rr_ulb_call *a, const struct rr_ulb_call *b)
{
	fuzz_check(a->nargs == b->nargs && a->nresults == b->nresults && a->len == b->len);
	fuzz_check(a->reply_max == b->reply_max && a->reply_rest == b->reply_rest);
	fuzz_check(!memcmp(&a->rec, &b->rec, sizeof(a->rec)));
	same_items(a->args, b->args, a->nargs);
}

static void call_with_chunks(const struct rr_ulb_call *k, const uint8_t *data, uint32_t len,
			     unsigned choice)
{
	struct rr_ulb_chunk c[RR_ULB_ITEMS + 1];
	struct rr_ulb_call again;
	uint32_t n;
	uint8_t *p = reduced(data, &len, k->args, k->nargs, choice, false, c, &n);
	struct rr_ulb_view v = { .buf = p, .have = len, .len = len, .chunks = c, .nchunks = n };

	fuzz_check(rr_ulb_call(&v, 0, &again) == RR_ULB_OK);
	same_call(k, &again);
	for (uint32_t i = 0; i < k->nargs; i++)
		fuzz_check(again.args[i].placed == taken(i, choice));
	c[n] = (struct rr_ulb_chunk){ 4, 4 };
	v.nchunks = n + 1;
	fuzz_check(rr_ulb_call(&v, 0, &again) == RR_ULB_VIOLATION && again.nargs == 0);
	free(p);
}

static void call(const uint8_t *data, uint32_t len, unsigned choice)
{
	struct rr_ulb_view v = { .buf = data, .have = len, .len = len };
	struct rr_ulb_call k, part;
	enum rr_ulb_rc rc = rr_ulb_call(&v, 0, &k);

	fuzz_check(rc != RR_ULB_VIOLATION);
	items_are_right(k.args, k.nargs, data, len);
	fuzz_check(k.nresults <= RR_ULB_ITEMS && k.reply_rest <= k.reply_max);
	if (rc == RR_ULB_OK) {
		fuzz_check(k.len == len && k.reply_rest >= 424);
		call_with_chunks(&k, data, len, choice);
	} else {
		fuzz_check(k.nargs + k.nresults == 0 && k.reply_rest == RR_ULB_UNKNOWN);
	}
	for (uint32_t have = choice & 4; have < len && have < 512; have += 8) {
		uint8_t *p = tight(data, have);

		v = (struct rr_ulb_view){ .buf = p, .have = have, .len = len };
		rr_ulb_call(&v, 0, &part);
		items_are_right(part.args, part.nargs, data, len);
		fuzz_check(part.nargs == 0 || part.args[part.nargs - 1].pos <= have);
		free(p);
	}
}

static void reply(const struct rr_ulb_rec *rec, const uint8_t *data, uint32_t len,
		  unsigned choice)
{
	struct rr_ulb_view v = { .buf = data, .have = len, .len = len };
	struct rr_ulb_chunk c[RR_ULB_ITEMS + 1];
	struct rr_ulb_reply r, again;
	enum rr_ulb_rc rc = rr_ulb_reply(rec, &v, &r);
	uint32_t n;
	uint8_t *p;

	fuzz_check(rc != RR_ULB_VIOLATION);
	items_are_right(r.items, r.nitems, data, len);
	if (rc != RR_ULB_OK)
		return;
	p = reduced(data, &len, r.items, r.nitems, choice, true, c, &n);
	v = (struct rr_ulb_view){ .buf = p, .have = len, .len = len, .chunks = c, .nchunks = n };
	fuzz_check(rr_ulb_reply(rec, &v, &again) == RR_ULB_OK);
	fuzz_check(again.nitems == r.nitems && again.len == r.len);
	same_items(r.items, again.items, r.nitems);
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct rr_ulb_rec rec = { .reduce = true };

	if (len < 3)
		return 0;
	rec.binding = data[1];
	rec.proc = data[2];
	call(data + 3, (uint32_t)len - 3, data[0]);
	reply(&rec, data + 3, (uint32_t)len - 3, data[0]);
	return 0;
}
