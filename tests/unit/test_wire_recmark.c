/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/recmark.h"
#include "tests/lib/bytes.h"

#define LAST	RR_RM_LAST

/* What a stream turned out to be, whatever its split. */
struct seen {
	uint32_t records;
	uint32_t ends[64];	/* offset in the payload at which each record ended */
	uint32_t fragments;
	uint32_t bytes;
	uint8_t payload[4096];
	bool boundary;		/* at the end */
};

/* Takes one piece of the stream, all of it. */
static void feed(struct rr_rm *rm, const uint8_t *buf, size_t len, struct seen *s)
{
	uint8_t *p = edged(buf, len);
	size_t at = 0;

	while (at < len || (rm->last && rm->left == 0)) {
		size_t n = SIZE_MAX;
		enum rr_rm_what what = rr_rm_next(rm, p + at, len - at, &n);

		cr_assert_leq(n, len - at);
		if (what == RR_RM_MORE)
			cr_assert_eq(at + n, len, "a header is cut only where the piece is");
		if (what == RR_RM_FRAGMENT)
			s->fragments++;
		if (what == RR_RM_DATA)
			cr_assert_gt(n, 0);
		if (what == RR_RM_DATA || what == RR_RM_RECORD) {
			memcpy(s->payload + s->bytes, p + at, n);
			s->bytes += (uint32_t)n;
		}
		if (what == RR_RM_RECORD)
			s->ends[s->records++] = s->bytes;
		cr_assert_eq(what == RR_RM_RECORD, rr_rm_at_boundary(rm));
		at += n;
	}
	edge_back();
}

static void expect_equal(const struct seen *a, const struct seen *b)
{
	cr_assert_eq(a->records, b->records);
	cr_assert_eq(a->fragments, b->fragments);
	cr_assert_eq(a->bytes, b->bytes);
	cr_assert_arr_eq(a->ends, b->ends, sizeof(a->ends));
	cr_assert_arr_eq(a->payload, b->payload, a->bytes);
	cr_assert_eq(a->boundary, b->boundary);
}

static struct seen whole(const uint8_t *buf, size_t len)
{
	struct seen s = { 0 };
	struct rr_rm rm;

	rr_rm_init(&rm);
	feed(&rm, buf, len, &s);
	s.boundary = rr_rm_at_boundary(&rm);
	return s;
}

/* Three records: one plain, one of many fragments with empty ones among them, one empty. */
static uint32_t stream(uint8_t *b)
{
	uint32_t at = WORDS(b, LAST | 8, 1, 2);

	at += WORDS(b + at, 0, 4, 3, 0, 0);
	rr_rm_put(b + at, 3, false);
	memcpy(b + at + 4, "abc", 3);
	at += 7;
	rr_rm_put(b + at, 1, false);
	b[at + 4] = 'd';
	at += 5;
	at += WORDS(b + at, LAST);	/* an empty last fragment ends it */
	at += WORDS(b + at, LAST);	/* an empty record */
	at += WORDS(b + at, LAST | 4, 9);
	return at;
}

Test(wire_recmark, a_stream_is_cut_into_records)
{
	uint8_t b[256];
	uint32_t len = stream(b);
	struct seen s = whole(b, len);

	cr_assert_eq(s.records, 4);
	cr_assert_eq(s.ends[0], 8);
	cr_assert_eq(s.ends[1], 16);
	cr_assert_eq(s.ends[2], 16);
	cr_assert_eq(s.ends[3], 20);
	cr_assert_eq(s.fragments, 10);
	cr_assert_arr_eq(s.payload + 8, "\0\0\0\3abcd", 8);
	cr_assert(s.boundary);
}

Test(wire_recmark, byte_by_byte_is_the_same)
{
	uint8_t b[256];
	uint32_t len = stream(b);
	struct seen want = whole(b, len), s = { 0 };
	struct rr_rm rm;

	rr_rm_init(&rm);
	for (uint32_t i = 0; i < len; i++)
		feed(&rm, b + i, 1, &s);
	s.boundary = rr_rm_at_boundary(&rm);
	expect_equal(&s, &want);
}

Test(wire_recmark, any_two_cuts_are_the_same)
{
	uint8_t b[256];
	uint32_t len = stream(b);
	struct seen want = whole(b, len);

	for (uint32_t i = 0; i <= len; i++)
		for (uint32_t k = i; k <= len; k++) {
			struct seen s = { 0 };
			struct rr_rm rm;

			rr_rm_init(&rm);
			feed(&rm, b, i, &s);
			feed(&rm, b + i, k - i, &s);
			feed(&rm, b + k, len - k, &s);
			s.boundary = rr_rm_at_boundary(&rm);
			expect_equal(&s, &want);
		}
}

Test(wire_recmark, random_streams_in_random_pieces_are_the_same)
{
	uint64_t seed = 21;

	for (int i = 0; i < 500; i++) {
		uint8_t b[1024];
		uint32_t len = 0;
		struct seen want, s = { 0 };
		struct rr_rm rm;

		while (len < 900) {
			uint32_t n = rng_below(&seed, rng_below(&seed, 4) ? 6 : 80);

			rr_rm_put(b + len, n, rng_below(&seed, 3) == 0);
			rng_bytes(&seed, b + len + 4, n);
			len += 4 + n;
		}
		len -= rng_below(&seed, 8);	/* it need not end with a record */
		want = whole(b, len);
		rr_rm_init(&rm);
		for (uint32_t at = 0; at < len;) {
			uint32_t n = rr_min(1 + rng_below(&seed, 30), len - at);

			feed(&rm, b + at, n, &s);
			at += n;
		}
		s.boundary = rr_rm_at_boundary(&rm);
		expect_equal(&s, &want);
	}
}

Test(wire_recmark, fragment_headers_say_what_is_to_come)
{
	uint8_t b[8];
	struct rr_rm rm;
	size_t n;

	WORDS(b, LAST | 0x12345);
	rr_rm_init(&rm);
	cr_assert_eq(rr_rm_next(&rm, b, 4, &n), RR_RM_FRAGMENT);
	cr_assert_eq(n, 4);
	cr_assert(rm.last);
	cr_assert_eq(rm.left, 0x12345);
	cr_assert_eq(rr_rm_next(&rm, b, 1, &n), RR_RM_DATA);
	cr_assert_eq(rm.left, 0x12344);
	cr_assert_eq(rm.record, 1);
}

Test(wire_recmark, an_empty_last_fragment_ends_its_record_at_the_next_call)
{
	uint8_t b[4];
	struct rr_rm rm;
	size_t n;

	WORDS(b, LAST);
	rr_rm_init(&rm);
	cr_assert_eq(rr_rm_next(&rm, b, 4, &n), RR_RM_FRAGMENT);
	cr_assert_not(rr_rm_at_boundary(&rm));
	cr_assert_eq(rr_rm_next(&rm, NULL, 0, &n), RR_RM_RECORD);
	cr_assert_eq(n, 0);
	cr_assert(rr_rm_at_boundary(&rm));
}

/* An empty first fragment has left the record at 0 bytes, but inside. */
Test(wire_recmark, between_two_fragments_is_no_boundary)
{
	uint8_t b[12];
	struct seen s = { 0 };
	struct rr_rm rm;

	WORDS(b, 0, 4, 7);
	rr_rm_init(&rm);
	cr_assert(rr_rm_at_boundary(&rm));
	feed(&rm, b, 4, &s);
	cr_assert_not(rr_rm_at_boundary(&rm));
	feed(&rm, b + 4, 8, &s);
	cr_assert_not(rr_rm_at_boundary(&rm));
}

Test(wire_recmark, part_of_a_header_is_no_boundary)
{
	uint8_t b[4] = { 0x80, 0, 0, 0 };
	struct rr_rm rm;
	size_t n;

	for (uint32_t len = 1; len < 4; len++) {
		rr_rm_init(&rm);
		cr_assert_eq(rr_rm_next(&rm, b, len, &n), RR_RM_MORE);
		cr_assert_eq(n, len);
		cr_assert_not(rr_rm_at_boundary(&rm));
	}
}

/* A record of more than 2^32 bytes must not look like a short one to a size limit. */
Test(wire_recmark, the_length_of_a_record_saturates)
{
	struct rr_rm rm;
	uint8_t b[4];
	size_t n;

	rr_rm_init(&rm);
	for (int i = 0; i < 4; i++) {
		rr_rm_put(b, 0x7fffffff, false);
		cr_assert_eq(rr_rm_next(&rm, b, 4, &n), RR_RM_FRAGMENT);
		/* the bytes need not exist to be counted */
		cr_assert_eq(rr_rm_next(&rm, b, 0x7fffffff, &n), RR_RM_DATA);
		cr_assert_eq(n, 0x7fffffff);
		if (i < 2)
			cr_assert_eq(rm.record, (uint32_t)(i + 1) * 0x7fffffff);
	}
	cr_assert_eq(rm.record, UINT32_MAX);
}
