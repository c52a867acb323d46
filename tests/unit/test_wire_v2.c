/* SPDX-License-Identifier: BSD-3-Clause */
/* The version 2 header. Sections are those of version-two-08. */
#include <criterion/criterion.h>

#include "core/wire/v2.h"
#include "tests/lib/bytes.h"
#include "tests/lib/msgs.h"

#define X	0xdeadbeefu
#define BUF	8192u
#define CALL	0u
#define RESP	1u		/* RPCRDMA2_F_RESPONSE */
#define DONE	0x52444d03u

static struct rr_msg msg;	/* what decode() found */

static const struct rr_codec *v2(void)
{
	return rr_codec_find(2, RR_DIALECT_V2);
}

/* Decodes an exact-size copy of buf[0..len) into msg. */
static enum rr_wire_rc decode(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	enum rr_wire_rc rc;

	memset(&msg, 0xee, sizeof(msg));
	rc = v2()->decode(p, len, &msg);
	edge_back();
	return rc;
}

/* Decodes the words. */
#define DECODE(...) ({ uint8_t b_[1024]; decode(b_, WORDS(b_, __VA_ARGS__)); })

/* The bytes that encode() makes of m, compared with the words. */
#define EXPECT_BYTES(m, ...) do { \
	uint8_t want_[1024], got_[1024]; \
	uint32_t len_ = WORDS(want_, __VA_ARGS__); \
	cr_assert_eq(v2()->encode((m), got_, sizeof(got_)), len_); \
	cr_assert_eq(v2()->size(m), len_); \
	cr_assert_arr_eq(got_, want_, len_); \
} while (0)

/* The answer that a refused message gets. */
static void expect_answer(uint32_t err, uint32_t first, uint32_t second)
{
	cr_assert_eq(msg.xid, X);
	cr_assert_eq(msg.err, err, "%u", msg.err);
	cr_assert_eq(msg.arm[0], first);
	cr_assert_eq(msg.arm[1], second);
}

Test(wire_v2, is_the_codec_that_its_dialect_starts_with)
{
	cr_assert_not_null(v2());
	cr_assert_eq(rr_codec_first(RR_DIALECT_V2), v2());
	cr_assert_eq(v2()->version, 2);
	cr_assert_str_eq(v2()->name, "v2");
	cr_assert_null(rr_codec_find(2, RR_DIALECT_V1));
}

/* --- §3: prefix and lists --- */

/* req: version-two-08 3.2 #1, 10.1 #1 */
Test(wire_v2, msg_without_chunks_is_nine_words)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_MSG, X, 2, 32);
	m.dir = RR_DIR_CALL;
	EXPECT_BYTES(&m, X, 2, 32, 0, CALL, 0, 0, 0, 0);
	cr_assert_eq(v2()->size(&m), RR_V2_HDR_MIN);
	cr_assert_eq(DECODE(X, 2, 32, 0, CALL, 0, 0, 0, 0, 77), RR_WIRE_OK);
	cr_assert_eq(msg.hdr_len, 36);
	cr_assert_eq(msg.proc, 0);
	cr_assert(msg_equal(&m, &msg));
}

/* req: version-two-08 3.2 #1 #2 */
Test(wire_v2, the_response_flag_is_the_direction)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_MSG, X, 2, 32);
	m.dir = RR_DIR_REPLY;
	EXPECT_BYTES(&m, X, 2, 32, 0, RESP, 0, 0, 0, 0);
	cr_assert_eq(DECODE(X, 2, 32, 0, RESP, 0, 0, 0, 0, 77), RR_WIRE_OK);
	cr_assert_eq(msg.dir, RR_DIR_REPLY);
	cr_assert_eq(DECODE(X, 2, 32, 0, CALL, 0, 0, 0, 0, 77), RR_WIRE_OK);
	cr_assert_eq(msg.dir, RR_DIR_CALL);
}

/* req: version-two-08 5.3.3 #4 */
Test(wire_v2, a_reserved_flag_is_refused)
{
	for (uint32_t bit = 1; bit < 32; bit++) {
		cr_assert_eq(DECODE(X, 2, 32, 0, 1u << bit, 0, 0, 0, 0, 77), RR_WIRE_BAD_XDR);
		expect_answer(RR_ERR_BAD_XDR, 0, 0);
		cr_assert_eq(msg.dir, RR_DIR_CALL);
	}
	cr_assert_eq(DECODE(X, 2, 32, 0, 3, 0, 0, 0, 0, 77), RR_WIRE_BAD_XDR);
	cr_assert_eq(msg.dir, RR_DIR_REPLY);
}

Test(wire_v2, chunk_lists_follow_the_handle_that_may_be_invalidated)
{
	static struct rr_msg m;

	rr_msg_init(&m, RR_NOMSG, X, 2, 32);
	m.dir = RR_DIR_CALL;
	m.inv_handle = 0x11;
	m.ch.nreads = 1;
	m.ch.reads[0] = (struct rr_read_seg){ 0, { 0x11, 5, UINT64_C(0x123456789abcdef0) } };
	m.ch.has_reply = true;
	m.ch.reply = (struct rr_wchunk){ 0, 1 };
	m.ch.nsegs = 1;
	m.ch.segs[0] = (struct rr_seg){ 0x31, 300, 3 };
#define LISTS	0x11, 1, 0, 0x11, 5, 0x12345678, 0x9abcdef0, 0, 0, 1, 1, 0x31, 300, 0, 3
	EXPECT_BYTES(&m, X, 2, 32, 1, CALL, LISTS);
	cr_assert_eq(DECODE(X, 2, 32, 1, CALL, LISTS), RR_WIRE_OK);
	cr_assert_eq(msg.inv_handle, 0x11);
	cr_assert(msg_equal(&m, &msg));
}

Test(wire_v2, a_msg_has_the_first_word_of_its_rpc_message)
{
	uint8_t buf[64];

	WORDS(buf, X, 2, 32, 0, CALL, 0, 0, 0, 0, 77);
	for (uint32_t n = 36; n < 40; n++)
		cr_assert_eq(decode(buf, n), RR_WIRE_BAD_XDR);
	cr_assert_eq(decode(buf, 40), RR_WIRE_OK);
}

Test(wire_v2, nomsg_without_any_chunk_is_refused)
{
	cr_assert_eq(DECODE(X, 2, 32, 1, CALL, 0, 0, 0, 0), RR_WIRE_BAD_XDR);
	cr_assert_eq(DECODE(X, 2, 32, 1, CALL, 0, 0, 0, 1, 0), RR_WIRE_OK);
	cr_assert_eq(DECODE(X, 2, 32, 1, CALL, 0, 0, 1, 0, 0, 0), RR_WIRE_OK);
}

/* --- §5.3.3: errors --- */

/* ERR_VERS cut to the length of version 1's: the same error, of another range. */
static bool looks_like_version_one(const struct rr_msg *m, uint32_t len)
{
	return m->type == RR_ERROR && m->err == RR_ERR_VERS && len == 28;
}

/* req: version-two-08 5.3.3 #15 #16 #18 */
Test(wire_v2, each_error_has_the_arm_of_its_code)
{
	static const struct {
		uint32_t err, words;
		uint32_t arm[2];
	} rows[] = {
		{ RR_ERR_VERS, 2, { 1, 2 } },
		{ RR_ERR_BAD_XDR, 0, { 0 } },
		{ RR_ERR_INVAL_HTYPE, 0, { 0 } },
		{ RR_ERR_READ_CHUNKS, 1, { 7, 0 } },
		{ RR_ERR_WRITE_CHUNKS, 1, { 8, 0 } },
		{ RR_ERR_SEGMENTS, 1, { 9, 0 } },
		{ RR_ERR_WRITE_RESOURCE, 2, { 3, 4000 } },
		{ RR_ERR_REPLY_RESOURCE, 1, { 0, 5000 } },
		{ RR_ERR_SYSTEM, 0, { 0 } },
		{ 10, 0, { 0 } },		/* §9.3: an extension's */
		{ 0xffffffff, 0, { 0 } },
	};
	uint8_t want[64], got[64];
	struct rr_msg m;

	for (size_t i = 0; i < rr_array_size(rows); i++) {
		uint32_t len = WORDS(want, X, 2, 32, 4, RESP, rows[i].err);

		for (uint32_t w = 0; w < rows[i].words; w++)
			len += WORDS(want + len, rows[i].arm[w + (rows[i].err == RR_ERR_REPLY_RESOURCE)]);
		rr_msg_init(&m, RR_ERROR, X, 2, 32);
		m.dir = RR_DIR_REPLY;
		m.err = rows[i].err;
		memcpy(m.arm, rows[i].arm, sizeof(m.arm));
		cr_assert_eq(v2()->encode(&m, got, sizeof(got)), len, "row %zu", i);
		cr_assert_eq(v2()->size(&m), len);
		cr_assert_arr_eq(got, want, len);
		cr_assert_eq(decode(want, len), RR_WIRE_OK, "row %zu", i);
		cr_assert(msg_equal(&m, &msg), "row %zu", i);
		cr_assert_eq(msg.hdr_len, len);
		for (uint32_t n = 16; n < len; n++)
			if (!looks_like_version_one(&m, n))
				cr_assert_eq(decode(want, n), RR_WIRE_DISCARD, "row %zu at %u", i, n);
	}
}

/* req: version-two-08 3.2 #5 */
Test(wire_v2, an_error_has_the_response_flag_whoever_encodes_it)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_ERROR, X, 2, 32);
	m.err = RR_ERR_SYSTEM;
	EXPECT_BYTES(&m, X, 2, 32, 4, RESP, 9);
	cr_assert_eq(DECODE(X, 2, 32, 4, CALL, 9), RR_WIRE_DISCARD);
	cr_assert_eq(DECODE(X, 2, 32, 4, RESP | 2, 9), RR_WIRE_DISCARD);
}

/* --- ERR_VERS in both forms (RFC 8166 §7, §7.2) --- */

/* req: version-two-08 7.2 #1 */
Test(wire_v2, err_vers_is_understood_in_version_ones_form)
{
	static const uint32_t vers[] = { 1, 2 };

	for (size_t i = 0; i < rr_array_size(vers); i++) {
		cr_assert_eq(DECODE(X, vers[i], 32, 4, 1, 1, 1), RR_WIRE_OK);
		cr_assert_eq(msg.type, RR_ERROR);
		cr_assert_eq(msg.dir, RR_DIR_REPLY);
		cr_assert_eq(msg.err, RR_ERR_VERS);
		cr_assert_eq(msg.vers_low, 1);
		cr_assert_eq(msg.vers_high, 1);
		cr_assert_eq(msg.hdr_len, 28);
		cr_assert_eq(DECODE(X, vers[i], 32, 4, 1, 3, 9), RR_WIRE_OK);
		cr_assert_eq(msg.err, RR_ERR_VERS);
		cr_assert_eq(msg.vers_low, 3);
	}
	cr_assert_eq(DECODE(X, 7, 32, 4, 1, 1, 1), RR_WIRE_DISCARD);
	cr_assert_eq(DECODE(X, 1, 32, 4, 2, 0, 0), RR_WIRE_DISCARD);
	cr_assert_eq(DECODE(X, 1, 32, 4, 1, 1, 1, 0), RR_WIRE_DISCARD);
}

Test(wire_v2, err_vers_of_32_bytes_is_version_twos)
{
	cr_assert_eq(DECODE(X, 2, 32, 4, RESP, 1, 1, 3), RR_WIRE_OK);
	cr_assert_eq(msg.err, RR_ERR_VERS);
	cr_assert_eq(msg.vers_low, 1);
	cr_assert_eq(msg.vers_high, 3);
	cr_assert_eq(msg.hdr_len, 32);
}

Test(wire_v2, an_error_of_28_bytes_with_one_word_is_not_taken_for_err_vers)
{
	static const uint32_t codes[] = { 4, 5, 6, 8 };

	for (size_t i = 0; i < rr_array_size(codes); i++) {
		cr_assert_eq(DECODE(X, 2, 32, 4, RESP, codes[i], 77), RR_WIRE_OK);
		cr_assert_eq(msg.err, codes[i]);
		cr_assert_eq(msg.arm[codes[i] == 8], 77);
	}
}

Test(wire_v2, err_vers_for_another_version_is_sent_in_version_ones_form)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_ERROR, X, 7, 32);
	m.err = RR_ERR_VERS;
	m.vers_low = 1;
	m.vers_high = 2;
	EXPECT_BYTES(&m, X, 7, 32, 4, 1, 1, 2);
	m.vers = 2;
	EXPECT_BYTES(&m, X, 2, 32, 4, RESP, 1, 1, 2);
}

Test(wire_v2, nothing_else_has_version_ones_form_whatever_version_it_names)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_ERROR, X, 7, 32);
	m.err = RR_ERR_BAD_XDR;
	EXPECT_BYTES(&m, X, 7, 32, 4, RESP, 2);
	rr_msg_init(&m, RR_MSG, X, 7, 32);
	m.dir = RR_DIR_CALL;
	EXPECT_BYTES(&m, X, 7, 32, 0, CALL, 0, 0, 0, 0);
	m.err = RR_ERR_VERS;		/* of no meaning */
	EXPECT_BYTES(&m, X, 7, 32, 0, CALL, 0, 0, 0, 0);
}

/* --- §5.3.4, §9.1 --- */

Test(wire_v2, connprop_says_what_is_given)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_CONNPROP, X, 2, 1);
	m.dir = RR_DIR_CALL;
	rr_props_init(&m.props);
	EXPECT_BYTES(&m, X, 2, 1, 5, CALL, 0);
	rr_props_set(&m.props, RR_PROP_BRS, RR_RVREQSUP_GENL);
	rr_props_set(&m.props, RR_PROP_RBSIZ, 8192);
	EXPECT_BYTES(&m, X, 2, 1, 5, CALL, 2, 1, 4, 8192, 2, 4, 2);
	cr_assert_lt(v2()->size(&m), RR_V2_FIRST_MAX);
	cr_assert_eq(DECODE(X, 2, 1, 5, CALL, 2, 1, 4, 8192, 2, 4, 2), RR_WIRE_OK);
	cr_assert_eq(msg.hdr_len, 48);
	cr_assert(msg_equal(&m, &msg));
}

/* req: version-two-08 4.1 #1 */
Test(wire_v2, a_connprop_that_cannot_be_parsed_is_bad_xdr_with_its_direction)
{
	cr_assert_eq(DECODE(X, 2, 1, 5, RESP, 1, 2, 4, 3), RR_WIRE_BAD_XDR);
	expect_answer(RR_ERR_BAD_XDR, 0, 0);
	cr_assert_eq(msg.type, RR_CONNPROP);
	cr_assert_eq(msg.dir, RR_DIR_REPLY);
}

/* req: version-two-08 3.2 #4 */
Test(wire_v2, done_is_a_prefix_that_names_the_senders_own_call)
{
	struct rr_msg m;

	rr_msg_init(&m, RR_DONE, X, 2, 32);
	m.dir = RR_DIR_CALL;
	EXPECT_BYTES(&m, X, 2, 32, DONE, CALL);
	cr_assert_eq(DECODE(X, 2, 32, DONE, CALL), RR_WIRE_OK);
	cr_assert_eq(msg.hdr_len, 20);
	cr_assert(msg_equal(&m, &msg));
	cr_assert_eq(DECODE(X, 2, 32, DONE, RESP), RR_WIRE_BAD_XDR);
}

/* --- what a peer's bytes deserve --- */

/* req: version-two-08 5.2 #2, 5.3.3 #3 */
Test(wire_v2, a_header_type_that_is_not_in_the_table_is_invalid)
{
	static const uint32_t types[] = { 2, 3, 6, 0x63, DONE - 1, DONE + 1, 0xffffffff };
	struct rr_msg m;

	for (size_t i = 0; i < rr_array_size(types); i++) {
		cr_assert_eq(DECODE(X, 2, 32, types[i], CALL), RR_WIRE_BAD_HTYPE);
		expect_answer(RR_ERR_INVAL_HTYPE, 0, 0);
		cr_assert_eq(msg.type, RR_HTYPE_OTHER);
		cr_assert_eq(msg.proc, types[i]);
	}
	for (int t = RR_MSGP; t <= RR_HTYPE_OTHER; t += RR_HTYPE_OTHER - RR_MSGP) {
		rr_msg_init(&m, (enum rr_htype)t, X, 2, 32);
		cr_assert_eq(v2()->size(&m), 0);
		cr_assert_eq(v2()->encode(&m, (uint8_t[64]){ 0 }, 64), 0);
	}
}

Test(wire_v2, below_the_prefix_everything_is_discarded)
{
	static const uint32_t procs[] = { 0, 1, 4, 5, 6, DONE };
	uint8_t buf[20];

	for (size_t i = 0; i < rr_array_size(procs); i++) {
		WORDS(buf, X, 2, 32, procs[i], CALL);
		for (uint32_t n = 0; n < 20; n++)
			cr_assert_eq(decode(buf, n), RR_WIRE_DISCARD);
	}
}

/* req: version-two-08 10.1 #2 */
Test(wire_v2, another_version_is_reported_and_its_errors_are_not)
{
	uint8_t buf[28];

	cr_assert_eq(DECODE(X, 1, 32, 0, 0, 0, 0), RR_WIRE_BAD_VERS);
	expect_answer(RR_ERR_VERS, 2, 2);
	cr_assert_eq(msg.vers, 1);
	cr_assert_eq(DECODE(X, 7, 32, 9, 0, 0, 0), RR_WIRE_BAD_VERS);
	cr_assert_eq(DECODE(X, 3, 32, 4, RESP, 9, 0), RR_WIRE_DISCARD);
	WORDS(buf, X, 7, 32, 0, 0, 0, 0);
	for (uint32_t n = 16; n < 28; n++)
		cr_assert_eq(decode(buf, n), RR_WIRE_DISCARD);
}

/* --- §5.3.3: which resource there is too much of --- */

static uint32_t read_segs(uint8_t *buf, uint32_t n, uint32_t step)
{
	uint32_t at = WORDS(buf, X, 2, 32, 0, CALL, 0);

	for (uint32_t i = 0; i < n; i++)
		at += WORDS(buf + at, 1, 4 + i / step * 4, 0x11, 100, 0, 8);
	return at + WORDS(buf + at, 0, 0, 0, 77);
}

static uint32_t write_chunks(uint8_t *buf, uint32_t n, uint32_t segs)
{
	uint32_t at = WORDS(buf, X, 2, 32, 0, CALL, 0, 0);

	for (uint32_t i = 0; i < n; i++) {
		at += WORDS(buf + at, 1, segs);
		for (uint32_t s = 0; s < segs; s++)
			at += WORDS(buf + at, 0x21, 100, 0, 8);
	}
	return at + WORDS(buf + at, 0, 0, 77);
}

/* req: version-two-08 5.3.3 #13 */
Test(wire_v2, one_read_chunk_of_too_many_segments_is_segments)
{
	uint8_t buf[BUF];

	cr_assert_eq(decode(buf, read_segs(buf, RR_MAX_SEGS, RR_MAX_SEGS)), RR_WIRE_OK);
	cr_assert_eq(decode(buf, read_segs(buf, RR_MAX_SEGS + 1, 1000)), RR_WIRE_TOO_MANY);
	expect_answer(RR_ERR_SEGMENTS, RR_MAX_SEGS, 0);
}

/* req: version-two-08 5.3.3 #6 */
Test(wire_v2, too_many_read_chunks_are_told_how_many_fit)
{
	uint8_t buf[BUF];

	cr_assert_eq(decode(buf, read_segs(buf, RR_MAX_SEGS, 1)), RR_WIRE_OK);
	cr_assert_eq(decode(buf, read_segs(buf, RR_MAX_SEGS + 1, 1)), RR_WIRE_TOO_MANY);
	expect_answer(RR_ERR_READ_CHUNKS, RR_MAX_SEGS, 0);
	cr_assert_eq(decode(buf, read_segs(buf, RR_MAX_SEGS + 1, 32)), RR_WIRE_TOO_MANY);
	expect_answer(RR_ERR_READ_CHUNKS, RR_MAX_SEGS / 32, 0);
	cr_assert_eq(decode(buf, read_segs(buf, RR_MAX_SEGS + 1, 100)), RR_WIRE_TOO_MANY);
	expect_answer(RR_ERR_READ_CHUNKS, 2, 0);
}

/* req: version-two-08 5.3.3 #10 */
Test(wire_v2, too_many_write_chunks_and_their_segments_are_told_apart)
{
	uint8_t buf[BUF];

	cr_assert_eq(decode(buf, write_chunks(buf, RR_MAX_WRITE_CHUNKS, 0)), RR_WIRE_OK);
	cr_assert_eq(decode(buf, write_chunks(buf, RR_MAX_WRITE_CHUNKS + 1, 0)), RR_WIRE_TOO_MANY);
	expect_answer(RR_ERR_WRITE_CHUNKS, RR_MAX_WRITE_CHUNKS, 0);
	cr_assert_eq(decode(buf, write_chunks(buf, 16, 8)), RR_WIRE_OK);
	cr_assert_eq(decode(buf, write_chunks(buf, 16, 9)), RR_WIRE_TOO_MANY);
	expect_answer(RR_ERR_SEGMENTS, RR_MAX_SEGS, 0);
}

/* --- whole headers --- */

/* A random header and the word that has to follow a MSG. */
static uint32_t random_bytes(uint64_t *seed, struct rr_msg *m, uint8_t *buf)
{
	uint32_t len;

	msg_random_v2(seed, m);
	len = v2()->encode(m, buf, BUF - 4);
	cr_assert_gt(len, 0);
	cr_assert_eq(v2()->size(m), len);
	return m->type == RR_MSG ? len + WORDS(buf + len, 77) : len;
}

Test(wire_v2, random_headers_come_back_and_have_the_size_foretold)
{
	uint64_t seed = 21;
	static struct rr_msg m;
	uint8_t buf[BUF];

	for (int i = 0; i < 5000; i++) {
		uint32_t len = random_bytes(&seed, &m, buf);

		cr_assert_eq(decode(buf, len), RR_WIRE_OK);
		cr_assert_eq(msg.hdr_len, m.type == RR_MSG ? len - 4 : len);
		cr_assert(msg_equal(&m, &msg));
	}
}

/* req: version-two-08 5.3.3 #4 */
Test(wire_v2, random_headers_cut_anywhere_are_never_whole)
{
	uint64_t seed = 22;
	static struct rr_msg m;
	uint8_t buf[BUF];

	for (int i = 0; i < 60; i++) {
		uint32_t len = random_bytes(&seed, &m, buf);

		for (uint32_t n = 0; n < len; n++) {
			bool silent = n < 20 || m.type == RR_ERROR;

			if (!looks_like_version_one(&m, n))
				cr_assert_eq(decode(buf, n), silent ? RR_WIRE_DISCARD : RR_WIRE_BAD_XDR,
					     "%u of %u", n, len);
		}
	}
}

Test(wire_v2, encode_writes_nothing_past_a_buffer_that_is_too_small)
{
	uint64_t seed = 23;
	static struct rr_msg m;

	for (int i = 0; i < 60; i++) {
		msg_random_v2(&seed, &m);
		for (uint32_t cap = 0; cap < v2()->size(&m); cap++) {
			uint8_t *p = malloc(cap ? cap : 1);

			cr_assert_eq(v2()->encode(&m, p, cap), 0);
			free(p);
		}
	}
}

Test(wire_v2, random_headers_with_a_changed_word_do_no_harm)
{
	uint64_t seed = 24;
	static struct rr_msg m;
	uint8_t buf[BUF];

	for (int i = 0; i < 20000; i++) {
		uint32_t len = random_bytes(&seed, &m, buf);

		rr_put_be32(buf + 4 * rng_below(&seed, len / 4),
			    rng_below(&seed, 2) ? rng_below(&seed, 10) : (uint32_t)rng_next(&seed));
		if (decode(buf, len) == RR_WIRE_OK) {
			cr_assert_leq(msg.hdr_len, len);
			cr_assert_leq(msg.ch.nreads, RR_MAX_SEGS);
			cr_assert_leq(msg.ch.nwrites, RR_MAX_WRITE_CHUNKS);
			cr_assert_leq(msg.ch.nsegs, RR_MAX_SEGS);
		}
	}
}
