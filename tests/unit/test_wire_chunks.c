/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/chunks.h"
#include "tests/lib/bytes.h"

#define BUF	16384u

static struct rr_chunks got;

/* What the chunk lists in an exact-size copy of buf[0..len) deserve. */
static enum rr_wire_rc decode(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	struct rr_rcur c;

	memset(&got, 0xee, sizeof(got));
	rr_rcur_init(&c, p, len);
	rr_chunks_get(&c, &got);
	edge_back();
	return c.rc;
}

#define DECODE(...) ({ uint8_t b_[1024]; decode(b_, WORDS(b_, __VA_ARGS__)); })

/* n Read segments at position 4, and two empty lists. */
static uint32_t reads(uint8_t *buf, uint32_t n)
{
	uint32_t at = 0;

	while (n--)
		at += WORDS(buf + at, 1, 4, 0x11, 100, 0, 8);
	return at + WORDS(buf + at, 0, 0, 0);
}

/* A Write list of n chunks of segs segments, and a Reply chunk of rsegs. */
static uint32_t writes(uint8_t *buf, uint32_t n, uint32_t segs, uint32_t rsegs)
{
	uint32_t at = WORDS(buf, 0);

	for (uint32_t i = 0; i < n; i++) {
		at += WORDS(buf + at, 1, segs);
		for (uint32_t s = 0; s < segs; s++)
			at += WORDS(buf + at, 0x21, 100, 0, 8);
	}
	at += WORDS(buf + at, 0, 1, rsegs);
	for (uint32_t s = 0; s < rsegs; s++)
		at += WORDS(buf + at, 0x31, 100, 0, 8);
	return at;
}

Test(wire_chunks, read_segments_up_to_the_limit_are_taken)
{
	uint8_t buf[BUF];

	cr_assert_eq(decode(buf, reads(buf, RR_MAX_SEGS)), RR_WIRE_OK);
	cr_assert_eq(got.nreads, RR_MAX_SEGS);
	cr_assert_eq(got.reads[RR_MAX_SEGS - 1].seg.handle, 0x11);
	cr_assert_eq(decode(buf, reads(buf, RR_MAX_SEGS + 1)), RR_WIRE_TOO_MANY);
	cr_assert_eq(got.over, RR_OVER_READS);
}

Test(wire_chunks, write_chunks_up_to_the_limit_are_taken)
{
	uint8_t buf[BUF];

	cr_assert_eq(decode(buf, writes(buf, RR_MAX_WRITE_CHUNKS, 1, 1)), RR_WIRE_OK);
	cr_assert_eq(got.nwrites, RR_MAX_WRITE_CHUNKS);
	cr_assert_eq(decode(buf, writes(buf, RR_MAX_WRITE_CHUNKS + 1, 0, 0)), RR_WIRE_TOO_MANY);
	cr_assert_eq(got.over, RR_OVER_WRITES);
	cr_assert_eq(got.nwrites, RR_MAX_WRITE_CHUNKS);
}

Test(wire_chunks, segments_of_all_chunks_draw_on_one_pool)
{
	uint8_t buf[BUF];

	cr_assert_eq(decode(buf, writes(buf, 1, RR_MAX_SEGS, 0)), RR_WIRE_OK);
	cr_assert_eq(decode(buf, writes(buf, 1, RR_MAX_SEGS + 1, 0)), RR_WIRE_TOO_MANY);
	cr_assert_eq(got.over, RR_OVER_SEGS);
	cr_assert_eq(got.nsegs | got.writes[0].nsegs, 0, "a chunk that is too long has no segments");
	cr_assert_eq(decode(buf, writes(buf, 2, RR_MAX_SEGS / 2, 0)), RR_WIRE_OK);
	cr_assert_eq(decode(buf, writes(buf, 2, RR_MAX_SEGS / 2, 1)), RR_WIRE_TOO_MANY);
	cr_assert_eq(decode(buf, writes(buf, 0, 0, RR_MAX_SEGS)), RR_WIRE_OK);
	cr_assert_eq(got.reply.nsegs, RR_MAX_SEGS);
	cr_assert_eq(decode(buf, writes(buf, 0, 0, RR_MAX_SEGS + 1)), RR_WIRE_TOO_MANY);
}

Test(wire_chunks, huge_segment_count_is_refused_before_any_segment_is_read)
{
	static const uint32_t counts[] = {
		0xffffffff, 0x10000000, 0x10000001, 0x80000000, 65536, 2,
	};

	for (size_t i = 0; i < rr_array_size(counts); i++) {
		cr_assert_eq(DECODE(0, 1, counts[i], 0x21, 100, 0, 8, 0, 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(got.nsegs | got.writes[0].nsegs, 0);
		cr_assert_eq(DECODE(0, 0, 1, counts[i], 0x31, 100, 0, 8), RR_WIRE_BAD_XDR);
		cr_assert_eq(got.nsegs, 0);
	}
}

/* RFC 4506 §4.19: the word in front of an item is 0 or 1. */
Test(wire_chunks, discriminators_are_zero_or_one)
{
	static const uint32_t bad[] = { 2, 0x100, 0x01000000, 0x80000000, 0xffffffff };

	for (size_t i = 0; i < rr_array_size(bad); i++) {
		cr_assert_eq(DECODE(bad[i], 4, 1, 1, 1, 1, 0, 0, 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(DECODE(1, 4, 1, 1, 1, 1, bad[i], 0, 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(DECODE(0, bad[i], 0, 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(DECODE(0, 1, 0, bad[i], 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(DECODE(0, 0, bad[i], 0), RR_WIRE_BAD_XDR);
	}
}

/* RFC 8166 §3.4.5 */
/* req: rfc8166 3.4.5 #2 */
Test(wire_chunks, positions_are_multiples_of_four)
{
	for (uint32_t pos = 0; pos < 16; pos++)
		cr_assert_eq(DECODE(1, pos, 0x11, 100, 0, 8, 0, 0, 0),
			     pos % 4 ? RR_WIRE_BAD_XDR : RR_WIRE_OK);
	cr_assert_eq(DECODE(1, 0xfffffffc, 0x11, 100, 0, 8, 0, 0, 0), RR_WIRE_OK);
	cr_assert_eq(DECODE(1, 0, 0x11, 1, 0, 8, 1, 2, 0x11, 1, 0, 8, 0, 0, 0), RR_WIRE_BAD_XDR);
}

Test(wire_chunks, lists_that_do_not_end_are_refused)
{
	uint8_t buf[BUF];
	uint32_t len;

	len = reads(buf, 20);
	cr_assert_eq(decode(buf, len - 12), RR_WIRE_BAD_XDR);
	cr_assert_eq(decode(buf, len - 8), RR_WIRE_BAD_XDR);
	cr_assert_eq(decode(buf, len - 4), RR_WIRE_BAD_XDR);
	len = writes(buf, 5, 2, 1);
	for (uint32_t n = 0; n < len; n++)
		cr_assert_eq(decode(buf, n), RR_WIRE_BAD_XDR);
	cr_assert_eq(decode(buf, len), RR_WIRE_OK);
}

Test(wire_chunks, without_a_reply_chunk_there_are_no_segments_of_it)
{
	cr_assert_eq(DECODE(0, 0, 0), RR_WIRE_OK);
	cr_assert_not(got.has_reply);
	cr_assert_eq(got.reply.first | got.reply.nsegs, 0);
}

Test(wire_chunks, what_follows_is_left_alone)
{
	uint8_t buf[64];
	uint32_t len = WORDS(buf, 0, 0, 0, 0xffffffff, 2, 3);
	struct rr_rcur c;

	rr_rcur_init(&c, buf, len);
	rr_chunks_get(&c, &got);
	cr_assert_eq(c.rc, RR_WIRE_OK);
	cr_assert_eq(rr_rcur_left(&c), 12);
}

Test(wire_chunks, segments_of_zero_length_and_empty_chunks_are_kept)
{
	/* RFC 8166 §3.4.6: unused and empty Write chunks */
	cr_assert_eq(DECODE(0, 1, 2, 0x21, 0, 0, 8, 0x22, 0, 0, 9, 1, 0, 0, 1, 0), RR_WIRE_OK);
	cr_assert_eq(got.nwrites, 2);
	cr_assert_eq(got.writes[0].nsegs, 2);
	cr_assert_eq(got.segs[1].handle, 0x22);
	cr_assert_eq(got.segs[1].length, 0);
	cr_assert_eq(got.writes[1].nsegs, 0);
	cr_assert(got.has_reply);
	cr_assert_eq(got.reply.nsegs, 0);
}

Test(wire_cursor, the_first_error_stays_and_reads_are_zero_from_then_on)
{
	uint8_t buf[8];
	struct rr_rcur c;

	WORDS(buf, 7, 8);
	rr_rcur_init(&c, buf, 8);
	cr_assert_eq(rr_get_u32(&c), 7);
	rr_rcur_fail(&c, RR_WIRE_TOO_MANY);
	cr_assert_eq(rr_get_u32(&c), 0);
	cr_assert_eq(rr_get_u64(&c), 0);
	cr_assert_not(rr_get_bool(&c));
	cr_assert_eq(c.rc, RR_WIRE_TOO_MANY);
}

Test(wire_cursor, a_full_writer_stays_full)
{
	uint8_t buf[8] = { 0 };
	struct rr_wcur c;

	rr_wcur_init(&c, buf, 6);
	rr_put_u32(&c, 1);
	rr_put_u32(&c, 2);
	cr_assert(c.full);
	cr_assert_null(rr_wcur_take(&c, 1));
	cr_assert_eq(c.p, buf + 4);
	cr_assert_eq(buf[4] | buf[5], 0);
}
