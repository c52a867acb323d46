/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/codec.h"
#include "tests/lib/bytes.h"
#include "tests/lib/msgs.h"

#define X	0xdeadbeefu
#define BUF	8192u

static struct rr_msg msg;	/* what decode() found */

static const struct rr_codec *v1(void)
{
	return rr_codec_find(1, RR_DIALECT_V1);
}

/* Decodes an exact-size copy of buf[0..len) into msg. */
static enum rr_wire_rc decode(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	enum rr_wire_rc rc;

	memset(&msg, 0xee, sizeof(msg));
	rc = v1()->decode(p, len, &msg);
	edge_back();
	return rc;
}

/* Decodes the words. */
#define DECODE(...) ({ uint8_t b_[1024]; decode(b_, WORDS(b_, __VA_ARGS__)); })

static void expect_prefix(uint32_t vers, uint32_t proc)
{
	cr_assert_eq(msg.xid, X);
	cr_assert_eq(msg.vers, vers);
	cr_assert_eq(msg.credit, 32);
	cr_assert_eq(msg.proc, proc);
}

/* The bytes that encode() makes of m, compared with the words. */
#define EXPECT_BYTES(m, ...) do { \
	uint8_t want_[1024], got_[1024]; \
	uint32_t len_ = WORDS(want_, __VA_ARGS__); \
	cr_assert_eq(v1()->encode((m), got_, sizeof(got_)), len_); \
	cr_assert_eq(v1()->size(m), len_); \
	cr_assert_arr_eq(got_, want_, len_); \
} while (0)

Test(wire_v1, is_the_only_codec_of_its_dialect)
{
	cr_assert_not_null(v1());
	cr_assert_eq(rr_codec_first(RR_DIALECT_V1), v1());
	cr_assert_eq(v1()->version, 1);
	cr_assert_str_eq(v1()->name, "v1");
	cr_assert_null(rr_codec_find(2, RR_DIALECT_V1));
	cr_assert_null(rr_codec_find(1, RR_DIALECT_V2));
	cr_assert_null(rr_codec_find(2, RR_DIALECT_SLIDES));
}

/* --- the bytes of each header type --- */

/* req: rfc8166 4.2.2 #1 */
Test(wire_v1, msg_without_chunks_is_seven_words)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_MSG, X, 1, 32);
	EXPECT_BYTES(&m, X, 1, 32, 0, 0, 0, 0);	/* RFC 8166 §4.7, last paragraph */
	cr_assert_eq(DECODE(X, 1, 32, 0, 0, 0, 0, 77), RR_WIRE_OK);
	expect_prefix(1, 0);
	cr_assert_eq(msg.type, RR_MSG);
	cr_assert_eq(msg.hdr_len, 28);
	cr_assert(msg_equal(&m, &msg));
}

/* req: rfc8166 2.3.2 #1 */
Test(wire_v1, chunk_lists_are_as_rfc8166_draws_them)
{
	static struct rr_msg m;

	rr_msg_init(&m, RR_NOMSG, X, 1, 32);
	m.ch.nreads = 2;
	m.ch.reads[0] = (struct rr_read_seg){ 0, { 0x11, 5, UINT64_C(0x123456789abcdef0) } };
	m.ch.reads[1] = (struct rr_read_seg){ 64, { 0x12, 3, 1 } };
	m.ch.nwrites = 2;
	m.ch.writes[0] = (struct rr_wchunk){ 1, 2 };
	m.ch.writes[1] = (struct rr_wchunk){ 0, 0 };	/* RFC 8166 §3.4.6: an empty Write chunk */
	m.ch.has_reply = true;
	m.ch.reply = (struct rr_wchunk){ 0, 1 };
	m.ch.nsegs = 3;
	m.ch.segs[0] = (struct rr_seg){ 0x31, 300, 3 };
	m.ch.segs[1] = (struct rr_seg){ 0x21, 100, 1 };
	m.ch.segs[2] = (struct rr_seg){ 0x22, 200, UINT64_MAX };
#define LISTS \
	1, 0, 0x11, 5, 0x12345678, 0x9abcdef0, \
	1, 64, 0x12, 3, 0, 1, 0,			/* §4.7: 1 PHLOO 1 PHLOO 0 */ \
	1, 2, 0x21, 100, 0, 1, 0x22, 200, 0xffffffff, 0xffffffff, \
	1, 0, 0,					/* §4.7: 1 2 HLOO HLOO 1 0 0 */ \
	1, 1, 0x31, 300, 0, 3				/* §4.7: 1 1 HLOO */
	EXPECT_BYTES(&m, X, 1, 32, 1, LISTS);
	cr_assert_eq(DECODE(X, 1, 32, 1, LISTS), RR_WIRE_OK);
	cr_assert_eq(msg.hdr_len, 4 * (4 + 32));
	cr_assert(msg_equal(&m, &msg));
}

/* req: rfc8166 4.5 #5 #6 */
Test(wire_v1, errors_have_two_arms)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_ERROR, X, 7, 32);	/* RFC 8166 §4.5: the version of the request */
	m.err = RR_ERR_VERS;
	m.vers_low = m.vers_high = 1;
	EXPECT_BYTES(&m, X, 7, 32, 4, 1, 1, 1);
	m.vers = 1;
	m.err = RR_ERR_CHUNK;
	EXPECT_BYTES(&m, X, 1, 32, 4, 2);
	m.err = 3;
	cr_assert_eq(v1()->size(&m), 0);
	cr_assert_eq(v1()->encode(&m, (uint8_t[64]){ 0 }, 64), 0);

	cr_assert_eq(DECODE(X, 1, 32, 4, 1, 1, 2), RR_WIRE_OK);
	expect_prefix(1, 4);
	cr_assert_eq(msg.type, RR_ERROR);
	cr_assert_eq(msg.err, RR_ERR_VERS);
	cr_assert_eq(msg.vers_low, 1);
	cr_assert_eq(msg.vers_high, 2);
	cr_assert_eq(msg.hdr_len, 28);
	cr_assert_eq(DECODE(X, 1, 32, 4, 2), RR_WIRE_OK);
	cr_assert_eq(msg.err, RR_ERR_CHUNK);
	cr_assert_eq(msg.hdr_len, 20);
}

Test(wire_v1, a_type_it_does_not_have_is_not_encoded)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_HTYPE_OTHER, X, 1, 32);
	cr_assert_eq(v1()->size(&m), 0);
	cr_assert_eq(v1()->encode(&m, (uint8_t[64]){ 0 }, 64), 0);
}

/* --- what a peer's bytes deserve --- */

Test(wire_v1, under_sixteen_bytes_everything_is_discarded)
{
	uint8_t buf[28];

	WORDS(buf, X, 1, 32, 0, 0, 0, 0);
	for (uint32_t n = 0; n < 16; n++)
		cr_assert_eq(decode(buf, n), RR_WIRE_DISCARD, "%u", n);
}

/* req: rfc8166 4.5 #1 */
Test(wire_v1, from_sixteen_bytes_on_the_minimum_goes_by_type)
{
	static const struct {
		uint32_t vers, proc, min;
	} rows[] = {
		{ 1, 0, 28 }, { 1, 1, 28 }, { 1, 2, 28 }, { 1, 0x63, 28 }, { 1, 5, 28 },
		{ 1, 3, 16 },	/* RDMA_DONE has no more */
		{ 7, 0, 28 }, { 7, 3, 28 }, { 0, 0, 28 },
	};
	uint8_t buf[28];

	for (size_t i = 0; i < rr_array_size(rows); i++) {
		WORDS(buf, X, rows[i].vers, 32, rows[i].proc, 0, 0, 0);
		for (uint32_t n = 16; n <= 28; n++)
			cr_assert_eq(decode(buf, n) == RR_WIRE_DISCARD, n < rows[i].min,
				     "row %zu, %u bytes", i, n);
	}
}

/* req: rfc8166 4.2.2 #1 */
Test(wire_v1, another_version_is_reported_with_what_the_answer_needs)
{
	cr_assert_eq(DECODE(X, 7, 32, 0, 0, 0, 0, 77), RR_WIRE_BAD_VERS);
	expect_prefix(7, 0);
	cr_assert_eq(DECODE(X, 0, 32, 9, 0, 0, 0), RR_WIRE_BAD_VERS);
	cr_assert_eq(DECODE(X, 2, 32, 3, 0, 0, 0), RR_WIRE_BAD_VERS);
}

Test(wire_v1, an_error_of_another_version_is_never_answered)
{
	cr_assert_eq(DECODE(X, 2, 32, 4, 1, 1, 1), RR_WIRE_DISCARD);
	cr_assert_eq(DECODE(X, 7, 32, 4, 2, 0, 0, 0, 0), RR_WIRE_DISCARD);
}

Test(wire_v1, a_procedure_that_does_not_exist_is_refused)
{
	static const uint32_t procs[] = { 5, 6, 0x63, 0x100, 0x80000000, 0xffffffff };

	for (size_t i = 0; i < rr_array_size(procs); i++) {
		cr_assert_eq(DECODE(X, 1, 32, procs[i], 0, 0, 0), RR_WIRE_BAD_XDR);
		expect_prefix(1, procs[i]);
		cr_assert_eq(msg.type, RR_HTYPE_OTHER);
	}
}

/* RFC 8166 §4.5.2 */
/* req: rfc8166 4.2.4 #1 */
Test(wire_v1, nomsg_without_any_chunk_is_refused)
{
	cr_assert_eq(DECODE(X, 1, 32, 1, 0, 0, 0), RR_WIRE_BAD_XDR);
	expect_prefix(1, 1);
	cr_assert_eq(DECODE(X, 1, 32, 1, 0, 0, 1, 0), RR_WIRE_OK);
	cr_assert_eq(DECODE(X, 1, 32, 1, 0, 1, 0, 0, 0), RR_WIRE_OK);
	cr_assert_eq(DECODE(X, 1, 32, 1, 1, 0, 1, 2, 3, 4, 0, 0, 0), RR_WIRE_OK);
}

/* req: rfc8166 4.5 #7 */
Test(wire_v1, an_error_that_cannot_be_decoded_is_discarded)
{
	uint8_t buf[28];

	WORDS(buf, X, 1, 32, 4, 1, 1, 1);
	for (uint32_t n = 16; n < 28; n++)
		cr_assert_eq(decode(buf, n), RR_WIRE_DISCARD);
	WORDS(buf, X, 1, 32, 4, 2, 0, 0);
	for (uint32_t n = 16; n < 20; n++)
		cr_assert_eq(decode(buf, n), RR_WIRE_DISCARD);
	for (uint32_t n = 20; n <= 28; n++)
		cr_assert_eq(decode(buf, n), RR_WIRE_OK);
	cr_assert_eq(DECODE(X, 1, 32, 4, 0, 1, 1), RR_WIRE_DISCARD);
	cr_assert_eq(DECODE(X, 1, 32, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0), RR_WIRE_DISCARD);
}

/* RFC 8166 §4.6.2; what becomes of it is the engine's business */
Test(wire_v1, done_is_recognised_with_or_without_bytes_behind_it)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_DONE, X, 1, 32);
	EXPECT_BYTES(&m, X, 1, 32, 3);
	cr_assert_eq(DECODE(X, 1, 32, 3), RR_WIRE_OK);
	expect_prefix(1, 3);
	cr_assert_eq(msg.type, RR_DONE);
	cr_assert_eq(msg.hdr_len, 16);
	cr_assert_eq(DECODE(X, 1, 32, 3, 0, 0, 0), RR_WIRE_OK);
}

/* RFC 8166 §4.6.1 */
Test(wire_v1, msgp_is_recognised)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_MSGP, X, 1, 32);
	m.align = 64;
	m.thresh = 128;
	EXPECT_BYTES(&m, X, 1, 32, 2, 64, 128, 0, 0, 0);
	cr_assert_eq(DECODE(X, 1, 32, 2, 64, 128, 0, 0, 0), RR_WIRE_OK);
	cr_assert_eq(msg.type, RR_MSGP);
	cr_assert_eq(msg.hdr_len, 36);
	cr_assert(msg_equal(&m, &msg));
	cr_assert_eq(DECODE(X, 1, 32, 2, 64, 128, 0), RR_WIRE_BAD_XDR);
}

/* --- whole headers --- */

Test(wire_v1, random_headers_come_back_and_have_the_size_foretold)
{
	uint64_t seed = 11;
	static struct rr_msg m;
	uint8_t buf[BUF];

	for (int i = 0; i < 5000; i++) {
		uint32_t len;

		msg_random(&seed, &m);
		len = v1()->encode(&m, buf, sizeof(buf));
		cr_assert_gt(len, 0);
		cr_assert_eq(v1()->size(&m), len);
		cr_assert_eq(decode(buf, len), RR_WIRE_OK);
		cr_assert_eq(msg.hdr_len, len);
		cr_assert(msg_equal(&m, &msg));
	}
}

Test(wire_v1, random_headers_cut_anywhere_are_never_whole)
{
	uint64_t seed = 12;
	static struct rr_msg m;
	uint8_t buf[BUF];

	for (int i = 0; i < 60; i++) {
		uint32_t len;

		msg_random(&seed, &m);
		len = v1()->encode(&m, buf, sizeof(buf));
		for (uint32_t n = 0; n < len; n++) {
			enum rr_wire_rc rc = decode(buf, n);

			cr_assert(rc == RR_WIRE_DISCARD || (rc == RR_WIRE_BAD_XDR && n >= 28),
				  "%d at %u of %u", rc, n, len);
			if (rc == RR_WIRE_BAD_XDR)
				cr_assert_eq(msg.xid, m.xid);
		}
	}
}

Test(wire_v1, encode_writes_nothing_past_a_buffer_that_is_too_small)
{
	uint64_t seed = 13;
	static struct rr_msg m;

	for (int i = 0; i < 60; i++) {
		msg_random(&seed, &m);
		for (uint32_t cap = 0; cap < v1()->size(&m); cap++) {
			uint8_t *p = malloc(cap ? cap : 1);

			cr_assert_eq(v1()->encode(&m, p, cap), 0);
			free(p);
		}
	}
}

Test(wire_v1, random_headers_with_a_changed_word_do_no_harm)
{
	uint64_t seed = 14;
	static struct rr_msg m;
	uint8_t buf[BUF];

	for (int i = 0; i < 20000; i++) {
		uint32_t len;

		if (i % 8 == 0)
			msg_random(&seed, &m);
		len = v1()->encode(&m, buf, sizeof(buf));
		rr_put_be32(buf + 4 * rng_below(&seed, len / 4),
			    rng_below(&seed, 2) ? rng_below(&seed, 5) : (uint32_t)rng_next(&seed));
		if (decode(buf, len) == RR_WIRE_OK) {
			cr_assert_leq(msg.hdr_len, len);
			cr_assert_leq(msg.ch.nreads, RR_MAX_SEGS);
			cr_assert_leq(msg.ch.nwrites, RR_MAX_WRITE_CHUNKS);
			cr_assert_leq(msg.ch.nsegs, RR_MAX_SEGS);
		}
	}
}
