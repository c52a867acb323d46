/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/recmark.h"
#include "core/wire/rpc.h"
#include "tests/lib/hello.h"

#define XID	0x01020304u
#define LAST	RR_RM_LAST

static enum rr_nego judge(const uint8_t *buf, size_t len, struct rr_hello *h, uint32_t *need)
{
	uint8_t *p = edged(buf, len);
	enum rr_nego rc = rr_nego_get_answer(p, len, XID, h, need);

	edge_back();
	return rc;
}

static uint32_t small_answer(uint8_t *buf, uint32_t nprov)
{
	uint64_t seed = 3;
	struct rr_hello h = hello_random(&seed, nprov);

	h.version = RR_NEGO_VERSION;
	if (!nprov)
		return rr_nego_put_refusal(RR_NEGO_DECLINED, XID, NULL, buf, RR_ANSWER_MAX);
	return rr_nego_put_answer(&h, XID, buf, RR_ANSWER_MAX);
}

/* One record, cut into pieces of n bytes. */
static uint32_t fragment(uint8_t *out, const uint8_t *record, uint32_t len, uint32_t n)
{
	uint32_t at = 0;

	for (uint32_t off = 0; off < len; off += n) {
		uint32_t piece = rr_min(n, len - off);

		rr_rm_put(out + at, piece, off + piece == len);
		memcpy(out + at + 4, record + off, piece);
		at += 4 + piece;
	}
	return at;
}

/* What strangers are told is no, and nothing of who says it. */
Test(nego_answer, that_declines_has_these_bytes)
{
	static const uint8_t start[] = {
		0x80, 0, 0, 40,				/* RFC 5531 §11 */
		1, 2, 3, 4,
		0, 0, 0, 1,  0, 0, 0, 0,		/* RFC 5531 §9: REPLY, MSG_ACCEPTED */
		0, 0, 0, 0,  0, 0, 0, 0,		/* verifier AUTH_NONE */
		0, 0, 0, 0,				/* SUCCESS */
		'r', 'd', 'm', 'a', 'r', 'p', 'c', 0x0a,
		0, 0, 0, 2,				/* version */
		0, 0, 0, 2,				/* declined */
	};
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = small_answer(buf, 0);

	cr_assert_eq(len, sizeof(start));
	cr_assert_arr_eq(buf, start, sizeof(start));
	cr_assert_eq(rr_nego_put_refusal(RR_NEGO_ELSEWHERE, XID, NULL, buf, sizeof(buf)), sizeof(start));
	cr_assert_arr_eq(buf, start, sizeof(start) - 1);
	cr_assert_eq(buf[43], 3, "other addresses");
	for (uint32_t cap = 0; cap < sizeof(start); cap++)
		cr_assert_eq(rr_nego_put_refusal(RR_NEGO_DECLINED, XID, NULL, buf, cap), 0);
}

Test(nego_answer, for_other_addresses_is_told_from_other_declines)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = rr_nego_put_refusal(RR_NEGO_ELSEWHERE, XID, NULL, buf, sizeof(buf)), need = 0;
	struct rr_hello h;

	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_ELSEWHERE);
	cr_assert_eq(need, len);
	len = rr_nego_put_refusal(RR_NEGO_ONE_HOST, XID, NULL, buf, sizeof(buf));
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_ONE_HOST);
	cr_assert_eq(need, len);
}

/* A hello with what a client that asks is told. */
static struct rr_hello told(void)
{
	uint64_t seed = 5;
	struct rr_hello h = hello_random(&seed, 0);

	h.version = RR_NEGO_VERSION;
	memset(h.token, 0xaa, sizeof(h.token));
	memset(h.release, 0, sizeof(h.release));
	memcpy(h.release, "1.2.3", 5);
	h.nlack = 2;
	h.lack[0] = (struct rr_nego_lack){ 1, 49 };
	h.lack[1] = (struct rr_nego_lack){ 2, 33 };
	return h;
}

Test(nego_answer, that_declines_tells_who_asks_the_release_and_what_is_lacking)
{
	static const uint8_t fields[] = {
		0, 1, 0, 16,  0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
		0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
		0, 6, 0, 5,  '1', '.', '2', '.', '3', 0, 0, 0,
		0, 7, 0, 4,  1, 49, 2, 33,
	};
	uint8_t buf[RR_ANSWER_MAX];
	struct rr_hello in = told(), h;
	uint32_t len = rr_nego_put_refusal(RR_NEGO_ONE_HOST, XID, &in, buf, sizeof(buf)), need = 0;

	buf[len] = 0x5a;
	cr_assert_eq(rr_nego_put_refusal(RR_NEGO_ONE_HOST, XID, &in, buf, sizeof(buf)), len);
	cr_assert_eq(buf[len], 0x5a, "what is behind it stays");
	cr_assert_eq(len, 44 + sizeof(fields));
	cr_assert_arr_eq(buf + 44, fields, sizeof(fields));
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_ONE_HOST);
	cr_assert_eq(need, len);
	cr_assert_str_eq(h.release, "1.2.3");
	cr_assert_eq(h.nlack, 2);
	cr_assert_arr_eq(h.lack, in.lack, sizeof(h.lack[0]) * 2);
	for (uint32_t cap = 0; cap < len; cap++)
		cr_assert_eq(rr_nego_put_refusal(RR_NEGO_ONE_HOST, XID, &in, buf, cap), 0);
	in.release[0] = '\0';
	cr_assert_eq(rr_nego_put_refusal(RR_NEGO_DECLINED, XID, &in, buf, sizeof(buf)), 44);
	memset(in.release, 'x', sizeof(in.release));
	in.nlack = 0;
	len = rr_nego_put_refusal(RR_NEGO_DECLINED, XID, &in, buf, sizeof(buf));
	cr_assert_eq(buf[44 + 20 + 3], RR_NEGO_RELEASE - 1, "room for what ends it");
	judge(buf, len, &h, &need);
	cr_assert_eq(strlen(h.release), RR_NEGO_RELEASE - 1);
	buf[44 + 20 + 3] = RR_NEGO_RELEASE;	/* its padding as well */
	buf[44 + 20 + 4 + RR_NEGO_RELEASE - 1] = 'x';
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED);
	cr_assert_not_null(memchr(h.release, 0, sizeof(h.release)));
}

Test(nego_answer, that_declines_without_telling_leaves_nothing_of_what_was_told_before)
{
	uint8_t buf[RR_ANSWER_MAX];
	struct rr_hello in = told(), h;
	uint32_t len = rr_nego_put_refusal(RR_NEGO_DECLINED, XID, &in, buf, sizeof(buf)), need;

	judge(buf, len, &h, &need);
	len = rr_nego_put_refusal(RR_NEGO_DECLINED, XID, NULL, buf, sizeof(buf));
	judge(buf, len, &h, &need);
	cr_assert_eq(h.release[0], '\0');
	cr_assert_eq(h.nlack, 0);
}

Test(nego_answer, that_declines_stays_one_if_what_it_tells_is_malformed)
{
	uint8_t buf[RR_ANSWER_MAX];
	struct rr_hello in = told(), h;
	uint32_t need;

	for (uint32_t at = 64; at < 64 + 20; at += 4) {	/* where release and lacks are */
		uint32_t len = rr_nego_put_refusal(RR_NEGO_DECLINED, XID, &in, buf, sizeof(buf));

		rr_put_be32(buf + at, 0x00060100);
		cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED, "at %u", at);
		for (size_t i = 0; i < sizeof(h) && (at == 64 || at == 76); i++)	/* a field's head */
			cr_assert_eq(((const uint8_t *)&h)[i], 0, "it tells nothing");
	}
}

Test(nego_answer, comes_back_as_it_was)
{
	uint64_t seed = 4;

	for (int i = 0; i < 2000; i++) {
		struct rr_hello in = hello_random(&seed, 1), out;
		uint8_t buf[RR_ANSWER_MAX];
		uint32_t len = rr_nego_put_answer(&in, XID, buf, sizeof(buf)), need = 0;

		cr_assert(len > 0 && len % 4 == 0 && len <= RR_ANSWER_MAX);
		cr_assert_eq(judge(buf, len, &out, &need), RR_NEGO_OURS);
		cr_assert_eq(need, len);
		cr_assert(hello_equal(&in, &out));
	}
}

Test(nego_answer, that_does_not_fit_is_not_written)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = small_answer(buf, 1);
	uint64_t seed = 3;
	struct rr_hello h = hello_random(&seed, 1);

	for (uint32_t cap = 0; cap < len; cap++) {
		uint8_t *p = malloc(cap ? cap : 1);

		cr_assert_eq(rr_nego_put_answer(&h, XID, p, cap), 0);
		free(p);
	}
}

Test(nego_answer, of_a_shim_that_declines_is_not_taken_for_a_peer_without_shim)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = small_answer(buf, 0), need = 0;
	struct rr_hello h;

	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED);
	cr_assert_eq(need, len);
}

Test(nego_answer, cut_anywhere_is_a_part_that_asks_for_the_next_step)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = small_answer(buf, 1);
	struct rr_hello h;

	for (uint32_t n = 0; n < len; n++) {
		uint32_t need = 0;

		cr_assert_eq(judge(buf, n, &h, &need), RR_NEGO_PART, "at %u", n);
		cr_assert_eq(need, n < 4 ? 4 : n < 12 ? 12 : len, "at %u: %u", n, need);
	}
}

/* What real servers say to a program they do not have, and what others may say. */
Test(nego_answer, any_other_reply_to_our_xid_means_no_shim)
{
	static const struct {
		uint32_t n, w[12];
	} replies[] = {
		{ 6, { XID, 1, 0, 0, 0, 1 } },			/* PROG_UNAVAIL */
		{ 8, { XID, 1, 0, 0, 0, 2, 0, 0 } },		/* PROG_MISMATCH 0-0 */
		{ 6, { XID, 1, 0, 0, 0, 3 } },			/* PROC_UNAVAIL */
		{ 6, { XID, 1, 0, 0, 0, 4 } },			/* GARBAGE_ARGS */
		{ 6, { XID, 1, 0, 0, 0, 5 } },			/* SYSTEM_ERR */
		{ 6, { XID, 1, 0, 0, 0, 0 } },			/* SUCCESS of whom? */
		{ 12, { XID, 1, 0, 0, 0, 0, 0x72646d61, 0x72706331, 1, 1, 0, 0 } },
		{ 8, { XID, 1, 0, 1, 8, 7, 7, 1 } },		/* with a verifier */
		{ 6, { XID, 1, 1, 0, 2, 2 } },			/* RPC_MISMATCH */
		{ 5, { XID, 1, 1, 1, 5 } },			/* AUTH_TOOWEAK */
		{ 3, { XID, 1, 77 } },
		{ 2, { XID, 1 } },
	};
	struct rr_hello h;

	for (size_t i = 0; i < rr_array_size(replies); i++) {
		uint8_t rec[48], buf[256];
		uint32_t len = put_words(rec, replies[i].w, replies[i].n);

		for (uint32_t piece = 1; piece <= len; piece++) {
			uint32_t total = fragment(buf, rec, len, piece), need = 0;

			cr_assert_eq(judge(buf, total, &h, &need), RR_NEGO_NO, "%zu/%u", i, piece);
			cr_assert_eq(need, total);
			for (uint32_t n = 0; n < total; n++) {
				cr_assert_eq(judge(buf, n, &h, &need), RR_NEGO_PART,
					     "%zu/%u at %u", i, piece, n);
				cr_assert(need > n && need <= total);
			}
		}
	}
}

Test(nego_answer, bytes_behind_the_reply_are_not_its)
{
	uint8_t buf[RR_ANSWER_MAX + 28];
	uint32_t len = small_answer(buf, 1), need;
	struct rr_hello h;

	WORDS(buf + len, LAST | 24, XID + 1, 1, 0, 0, 0, 0);
	cr_assert_eq(judge(buf, len + 28, &h, &need), RR_NEGO_OURS);
	cr_assert_eq(need, len);
}

Test(nego_answer, another_xid_or_a_call_is_the_apps_from_the_first_wrong_byte)
{
	uint8_t buf[28];
	uint32_t need;
	struct rr_hello h;

	WORDS(buf, LAST | 24, XID + 1, 1, 0, 0, 0, 0);
	for (uint32_t n = 0; n <= 28; n++)
		cr_assert_eq(judge(buf, n, &h, &need), n < 8 ? RR_NEGO_PART : RR_NEGO_OTHER);
	WORDS(buf, LAST | 24, XID, 0, 2, 0, 0, 0);
	for (uint32_t n = 0; n <= 28; n++)
		cr_assert_eq(judge(buf, n, &h, &need), n < 12 ? RR_NEGO_PART : RR_NEGO_OTHER);
}

Test(nego_answer, a_record_too_short_for_a_reply_is_the_apps)
{
	uint8_t buf[12];
	uint32_t need;
	struct rr_hello h;

	WORDS(buf, LAST | 4, XID);
	cr_assert_eq(judge(buf, 8, &h, &need), RR_NEGO_OTHER);
	WORDS(buf, LAST);
	cr_assert_eq(judge(buf, 4, &h, &need), RR_NEGO_OTHER);
	WORDS(buf, 4, XID, LAST);
	cr_assert_eq(judge(buf, 12, &h, &need), RR_NEGO_OTHER);
}

Test(nego_answer, a_long_reply_says_so_once_the_xid_has_matched)
{
	uint8_t buf[20];
	uint32_t need = 0;
	struct rr_hello h;

	WORDS(buf, 0x7fffffff, XID, 1, 0, 0);
	cr_assert_eq(judge(buf, 4, &h, &need), RR_NEGO_PART);
	cr_assert_eq(need, 12);
	cr_assert_eq(judge(buf, 12, &h, &need), RR_NEGO_PART);
	cr_assert_eq(need, 0x80000003u);
	cr_assert_gt(need, RR_ANSWER_MAX);
}

Test(nego_answer, in_one_fragment_only_is_a_shims)
{
	uint8_t one[RR_ANSWER_MAX], two[5 * RR_ANSWER_MAX];
	uint32_t len = small_answer(one, 1), need;
	struct rr_hello h;

	for (uint32_t piece = 1; piece < len - 4; piece++) {
		uint32_t total = fragment(two, one + 4, len - 4, piece);

		if (total <= sizeof(two))
			cr_assert_eq(judge(two, total, &h, &need), RR_NEGO_NO, "%u", piece);
	}
}

Test(nego_answer, empty_fragments_for_ever_are_the_apps)
{
	uint8_t buf[RR_ANSWER_MAX + 4] = { 0 };
	struct rr_hello h;
	uint32_t need;

	for (uint32_t n = 0; n <= sizeof(buf); n++) {
		enum rr_nego rc = judge(buf, n, &h, &need);

		cr_assert_eq(rc, n < RR_ANSWER_MAX ? RR_NEGO_PART : RR_NEGO_OTHER, "at %u", n);
	}
}

/* The reply behind them begins past RR_ANSWER_MAX: whoever read more at once took it. */
Test(nego_answer, behind_too_many_empty_fragments_is_the_apps_however_much_was_read)
{
	uint8_t buf[RR_ANSWER_MAX + 28] = { 0 };
	struct rr_hello h;
	uint32_t need;

	WORDS(buf + RR_ANSWER_MAX, LAST | 24, XID, 1, 0, 0, 0, 1);
	for (uint32_t n = RR_ANSWER_MAX; n <= sizeof(buf); n++)
		cr_assert_eq(judge(buf, n, &h, &need), RR_NEGO_OTHER, "at %u", n);
}

Test(nego_answer, with_our_magic_but_without_sense_is_a_decline)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = small_answer(buf, 1), need;
	struct rr_hello h, in;

	rr_put_be32(buf + 40, 5);		/* an unknown verdict */
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED);
	len = small_answer(buf, 1);
	rr_put_be32(buf + 36, 0);		/* version zero */
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED);
	len = small_answer(buf, 1);
	rr_put_be32(buf + 44, 0x000100ff);	/* the token past the end */
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED);
	len = small_answer(buf, 0);
	rr_put_be32(buf + 40, 1);		/* chosen: nothing */
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED);
	len = small_answer(buf, 1);
	rr_put_be32(buf + 40, 2);		/* declined, although something is chosen */
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED);
	in = told();
	len = rr_nego_put_refusal(RR_NEGO_DECLINED, XID, &in, buf, sizeof(buf));
	rr_put_be32(buf + 40, 1);		/* chosen: nothing, in fields that are sound */
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_DECLINED);
	cr_assert_str_eq(h.release, "1.2.3");
}

/* An answer of len bytes with all that one has, and a field that no release knows behind it. */
static uint32_t filled_answer(uint8_t *buf, uint32_t len)
{
	uint32_t at = small_answer(buf, 1);

	rr_put_be32(buf + at, 0xffffu << 16 | (len - at - 4));
	memset(buf + at + 4, 0, len - at - 4);
	rr_rm_put(buf, len - 4, true);
	return len;
}

Test(nego_answer, has_a_greatest_length_and_a_shortest)
{
	uint8_t buf[RR_ANSWER_MAX + 4];
	struct rr_hello h;
	uint32_t need;

	cr_assert_eq(judge(buf, filled_answer(buf, RR_ANSWER_MAX), &h, &need), RR_NEGO_OURS);
	cr_assert_eq(judge(buf, filled_answer(buf, RR_ANSWER_MAX + 4), &h, &need), RR_NEGO_NO);
	small_answer(buf, 0);
	for (uint32_t len = 12; len < 44; len++) {
		rr_rm_put(buf, len - 4, true);
		cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_NO, "%u", len);
	}
}

Test(nego_answer, with_a_fixed_bit_wrong_is_no_shims)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = small_answer(buf, 1), need;
	struct rr_hello h;

	for (uint32_t bit = 8 * 12; bit < 8 * 36; bit++) {
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_NO, "bit %u", bit);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* --- sniffing --- */

static enum rr_sniff sniff(const uint8_t *buf, size_t len)
{
	uint8_t *p = edged(buf, len);
	enum rr_sniff s = rr_sniff(p, len);

	edge_back();
	return s;
}

Test(nego_sniff, needs_sixteen_bytes_of_a_call)
{
	uint8_t buf[44];

	WORDS(buf, LAST | 40, 7, 0, 2, 100003, 3, 0, 0, 0, 0, 0);
	for (uint32_t n = 0; n <= 44; n++)
		cr_assert_eq(sniff(buf, n), n < 16 ? RR_SNIFF_SHORT : RR_SNIFF_RPC);
	WORDS(buf, 12, 7, 0, 2);	/* its first fragment ends here */
	cr_assert_eq(sniff(buf, 16), RR_SNIFF_RPC);
}

Test(nego_sniff, knows_what_is_no_call)
{
	static const uint32_t bad[][4] = {
		{ LAST | 40, 7, 1, 0 },		/* a reply */
		{ LAST | 40, 7, 1, 2 },
		{ LAST | 40, 7, 0x01000000, 2 },
		{ LAST | 40, 7, 0, 3 },		/* RPC version 3 */
		{ LAST | 36, 7, 0, 2 },		/* RFC 5531 §9: a call has 40 bytes */
		{ LAST, 7, 0, 2 },
		{ 8, 7, 0, 2 },
		{ 0, 7, 0, 2 },
		{ 0x47455420, 0x2f204854, 0x54502f31, 0x2e310d0a },	/* GET / HTTP/1.1 */
		{ 0x16030102, 0x00010001, 0xfc030300, 0 },		/* TLS */
	};
	uint8_t buf[16];

	for (size_t i = 0; i < rr_array_size(bad); i++) {
		put_words(buf, bad[i], 4);
		cr_assert_eq(sniff(buf, 16), RR_SNIFF_OTHER, "%zu", i);
	}
}

Test(nego_sniff, leaves_rpc_with_tls_alone)
{
	uint8_t buf[44];

	WORDS(buf, LAST | 40, 7, 0, 2, 100003, 3, 0, RR_AUTH_TLS, 0, 0, 0);
	cr_assert_eq(sniff(buf, 44), RR_SNIFF_TLS);
	cr_assert_eq(sniff(buf, 32), RR_SNIFF_TLS);
	WORDS(buf, 28, 7, 0, 2, 100003, 3, 0, RR_AUTH_TLS);
	cr_assert_eq(sniff(buf, 32), RR_SNIFF_TLS);
	WORDS(buf, 24, 7, 0, 2, 100003, 3, 0, RR_AUTH_TLS);	/* that is a fragment header */
	cr_assert_eq(sniff(buf, 32), RR_SNIFF_RPC);
}

/* --- the end mark --- */

Test(nego_mark, is_the_token_and_the_count)
{
#define TOKEN	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
	static const uint8_t token[RR_TOKEN_LEN] = { TOKEN };
	static const uint8_t want[RR_MARK_LEN] = { TOKEN, 0, 0, 0, 1, 0, 0, 0, 2 };
	uint8_t buf[RR_MARK_LEN];
	uint64_t records = 0;

	rr_nego_put_mark(buf, token, UINT64_C(0x100000002));
	cr_assert_arr_eq(buf, want, sizeof(want));
	cr_assert(rr_nego_get_mark(buf, token, &records));
	cr_assert_eq(records, UINT64_C(0x100000002));
	for (uint32_t bit = 0; bit < 8 * RR_TOKEN_LEN; bit++) {
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_assert_not(rr_nego_get_mark(buf, token, &records));
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}
