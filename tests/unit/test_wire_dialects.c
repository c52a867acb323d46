/* SPDX-License-Identifier: BSD-3-Clause */
/* What dialects draft02 and slides have more than version 1; the rest they share with it. */
#include <criterion/criterion.h>

#include "core/wire/draft02.h"
#include "core/wire/v1.h"
#include "tests/lib/bytes.h"
#include "tests/lib/msgs.h"

#define X	0xdeadbeefu
#define BUF	8192u

static struct rr_msg msg;

static enum rr_wire_rc decode(const struct rr_codec *k, const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	enum rr_wire_rc rc;

	memset(&msg, 0xee, sizeof(msg));
	rc = k->decode(p, len, &msg);
	edge_back();
	return rc;
}

#define DECODE(k, ...) ({ uint8_t b_[1024]; decode((k), b_, WORDS(b_, __VA_ARGS__)); })

#define EXPECT_BYTES(k, m, ...) do { \
	uint8_t want_[1024], got_[1024]; \
	uint32_t len_ = WORDS(want_, __VA_ARGS__); \
	cr_assert_eq((k)->encode((m), got_, sizeof(got_)), len_); \
	cr_assert_eq((k)->size(m), len_); \
	cr_assert_arr_eq(got_, want_, len_); \
} while (0)

Test(wire_dialects, are_found_by_version_and_dialect)
{
	cr_assert_eq(rr_codec_find(1, RR_DIALECT_DRAFT02), &rr_draft02_codec);
	cr_assert_eq(rr_codec_first(RR_DIALECT_DRAFT02), &rr_draft02_codec);
	cr_assert_eq(rr_codec_find(1, RR_DIALECT_SLIDES), &rr_slides_codec);
	cr_assert_eq(rr_codec_first(RR_DIALECT_SLIDES), &rr_slides_codec);
	cr_assert_null(rr_codec_first((enum rr_dialect)(RR_DIALECT_SLIDES + 1)));
	cr_assert_str_eq(rr_draft02_codec.name, "draft02");
	cr_assert_str_eq(rr_slides_codec.name, "slides");
}

/* The same verdict and header as version 1's, on headers of version 1, whole, cut, changed. */
static void expect_version_one(const struct rr_codec *k, const uint8_t *buf, uint32_t len)
{
	static struct rr_msg want;
	uint8_t *p = tight(buf, len);
	enum rr_wire_rc rc = rr_v1_codec.decode(p, len, &want);

	cr_assert_eq(decode(k, buf, len), rc);
	if (rc == RR_WIRE_OK) {
		cr_assert(msg_equal(&want, &msg));
		cr_assert_eq(msg.hdr_len, want.hdr_len);
	}
	free(p);
}

static void same_as_version_one(const struct rr_codec *k)
{
	uint64_t seed = 31;
	static struct rr_msg m;
	uint8_t buf[BUF], want[BUF];

	for (int i = 0; i < 2000; i++) {
		uint32_t len;

		msg_random(&seed, &m);
		len = k->encode(&m, buf, sizeof(buf));
		cr_assert_eq(len, rr_v1_codec.encode(&m, want, sizeof(want)));
		cr_assert_eq(len, k->size(&m));
		cr_assert_arr_eq(buf, want, len);
		expect_version_one(k, buf, len);
		expect_version_one(k, buf, rng_below(&seed, len));
		rr_put_be32(buf + 12, rng_below(&seed, 4));
		expect_version_one(k, buf, len);
	}
}

/* req: draft-02 4.2 #1 */
Test(wire_dialects, draft02_shares_version_ones_headers)
{
	same_as_version_one(&rr_draft02_codec);
}

Test(wire_dialects, slides_shares_version_ones_headers)
{
	same_as_version_one(&rr_slides_codec);
}

/* --- draft02 --- */

/* req: draft-02 4.3 #1 */
Test(wire_dialects, draft02_takes_other_errors_with_eight_words_more)
{
	static const uint32_t codes[] = { 0, 3, 0xffffffff };
	uint8_t buf[64];

	for (size_t i = 0; i < rr_array_size(codes); i++) {
		uint32_t len = WORDS(buf, X, 1, 32, 4, codes[i], 1, 2, 3, 4, 5, 6, 7, 8);

		cr_assert_eq(decode(&rr_draft02_codec, buf, len), RR_WIRE_OK);
		cr_assert_eq(msg.type, RR_ERROR);
		cr_assert_eq(msg.xid, X);
		cr_assert_eq(msg.err, codes[i]);
		cr_assert_eq(msg.hdr_len, 52);
		for (uint32_t n = 0; n < len; n++)
			cr_assert_eq(decode(&rr_draft02_codec, buf, n), RR_WIRE_DISCARD);
		cr_assert_eq(decode(&rr_v1_codec, buf, len), RR_WIRE_DISCARD);
		cr_assert_eq(msg.xid, X);
		cr_assert_eq(rr_draft02_codec.size(&msg), 0);	/* never sent */
	}
}

Test(wire_dialects, draft02_takes_no_error_of_another_version)
{
	uint8_t buf[64];
	uint32_t len = WORDS(buf, X, 2, 32, 4, 3, 1, 2, 3, 4, 5, 6, 7, 8);

	cr_assert_eq(decode(&rr_draft02_codec, buf, len), RR_WIRE_DISCARD);
}

/* draft-02 §3.5: from the threshold on, up to the next multiple */
/* req: draft-02 3.5 #1 */
Test(wire_dialects, msgp_pads_what_is_large_enough_to_the_next_multiple)
{
	cr_assert_eq(rr_msgp_pad(4096, 1024, 100, 1023), 0);
	cr_assert_eq(rr_msgp_pad(4096, 1024, 100, 1024), 3996);
	cr_assert_eq(rr_msgp_pad(4096, 1024, 4096, 1024), 0);
	cr_assert_eq(rr_msgp_pad(4096, 1024, 4097, 1024), 4095);
	cr_assert_eq(rr_msgp_pad(4096, 0, 8191, 0), 1);
	cr_assert_eq(rr_msgp_pad(1, 0, 8191, 5), 0);
}

Test(wire_dialects, msgp_pads_nothing_where_the_peer_gives_no_alignment)
{
	cr_assert_eq(rr_msgp_pad(0, 0, 100, 1024), 0);
	cr_assert_eq(rr_msgp_pad(UINT32_MAX, 0, 1, 1), UINT32_MAX - 1);
}

/* --- slides --- */

/* req: slides - #1 #2 */
Test(wire_dialects, slides_have_types_for_reverse_calls_and_replies)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_MSG, X, 1, 4);
	m.reverse = true;
	m.dir = RR_DIR_CALL;
	EXPECT_BYTES(&rr_slides_codec, &m, X, 1, 4, 5, 0, 0, 0);
	cr_assert_eq(DECODE(&rr_slides_codec, X, 1, 4, 5, 0, 0, 0, 77), RR_WIRE_OK);
	cr_assert(msg_equal(&m, &msg));
	cr_assert_eq(msg.proc, 5);
	cr_assert_eq(msg.hdr_len, 28);
	m.dir = RR_DIR_REPLY;
	EXPECT_BYTES(&rr_slides_codec, &m, X, 1, 4, 6, 0, 0, 0);
	cr_assert_eq(DECODE(&rr_slides_codec, X, 1, 4, 6, 0, 0, 0, 77), RR_WIRE_OK);
	cr_assert(msg_equal(&m, &msg));
}

/* req: slides - #3 */
Test(wire_dialects, slides_reverse_messages_are_inline_only)
{
	const struct rr_codec *k = &rr_slides_codec;
	static struct rr_msg m;

	for (uint32_t proc = 5; proc <= 6; proc++) {
		cr_assert_eq(DECODE(k, X, 1, 4, proc, 1, 4, 2, 3, 4, 0, 0, 0, 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(DECODE(k, X, 1, 4, proc, 0, 1, 0, 0, 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(DECODE(k, X, 1, 4, proc, 0, 0, 1, 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(msg.xid, X);
		cr_assert_eq(msg.proc, proc);
		cr_assert_eq(DECODE(k, X, 1, 4, proc, 2, 0, 0, 0), RR_WIRE_BAD_XDR);
		cr_assert_eq(DECODE(k, X, 1, 4, proc, 0, 0), RR_WIRE_DISCARD);
		cr_assert_eq(DECODE(k, X, 1, 4, proc, 1, 4, 2), RR_WIRE_BAD_XDR);	/* cut */
		cr_assert_eq(DECODE(&rr_v1_codec, X, 1, 4, proc, 0, 0, 0, 77), RR_WIRE_BAD_XDR);
	}
	rr_msg_init(&m, RR_MSG, X, 1, 4);
	m.reverse = true;
	m.dir = RR_DIR_CALL;
	m.ch.has_reply = true;
	cr_assert_eq(rr_slides_codec.size(&m), 0);
	cr_assert_eq(rr_slides_codec.encode(&m, (uint8_t[64]){ 0 }, 64), 0);
	m.type = RR_NOMSG;
	cr_assert_eq(rr_slides_codec.size(&m), 0);
	rr_msg_init(&m, RR_MSG, X, 1, 4);
	m.reverse = true;
	cr_assert_eq(rr_slides_codec.size(&m), 0);	/* call or reply? */
	m.dir = RR_DIR_CALL;
	cr_assert_gt(rr_slides_codec.size(&m), 0);
	m.type = RR_NOMSG;
	cr_assert_eq(rr_slides_codec.size(&m), 0);
	cr_assert_eq(rr_slides_codec.encode(&m, (uint8_t[64]){ 0 }, 64), 0);
}

/* The type is put in place of version 1's, but not where there was no room even for that. */
Test(wire_dialects, slides_write_nothing_past_a_buffer_that_is_too_small)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_MSG, X, 1, 4);
	m.reverse = true;
	m.dir = RR_DIR_CALL;
	for (uint32_t cap = 0; cap < 28; cap++) {
		uint8_t buf[28];

		memset(buf, 0xee, sizeof(buf));
		cr_assert_eq(rr_slides_codec.encode(&m, buf, cap), 0);
		for (uint32_t i = cap; i < sizeof(buf); i++)
			cr_assert_eq(buf[i], 0xee, "%u of %u", i, cap);
	}
}

Test(wire_dialects, slides_know_no_other_types)
{
	cr_assert_eq(DECODE(&rr_slides_codec, X, 1, 4, 7, 0, 0, 0), RR_WIRE_BAD_XDR);
	cr_assert_eq(msg.type, RR_HTYPE_OTHER);
	cr_assert_eq(DECODE(&rr_slides_codec, X, 2, 4, 5, 0, 0, 0), RR_WIRE_BAD_VERS);
}
