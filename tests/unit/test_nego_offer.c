/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/rpc.h"
#include "tests/lib/hello.h"

#define PROGRAM	0x20000777u
#define XID	0x01020304u
#define FIELDS	56u	/* where the fields of an offer begin */

/* A small offer with one provider; its length. */
static uint32_t small_offer(uint8_t *buf)
{
	struct rr_hello h = { .version = RR_NEGO_VERSION, .caps = 5, .inline_size = 4096, .recvs = 64,
			      .credits = 32, .bc_credits = 8, .max_msg = 1 << 20, .dialects = 0x03010000,
			      .nprov = 1 };

	memset(h.token, 0xaa, sizeof(h.token));
	memset(h.host, 0xbb, sizeof(h.host));
	memset(h.ends, 0xcc, sizeof(h.ends));
	h.prov[0].id = 1;
	h.prov[0].addr.len = 5;
	memcpy(h.prov[0].addr.bytes, "\0addr", 5);
	return rr_nego_put_offer(&h, PROGRAM, XID, buf, RR_OFFER_MAX);
}

/* What get_offer says of an exact-size copy of buf[0..len). */
static enum rr_nego judge(const uint8_t *buf, size_t len, struct rr_hello *h, uint32_t *need)
{
	uint8_t *p = edged(buf, len);
	uint32_t xid = 0;
	enum rr_nego rc = rr_nego_get_offer(p, len, PROGRAM, &xid, h, need);

	edge_back();
	if (rc == RR_NEGO_OURS)
		cr_assert_eq(xid, rr_be32(buf + 4));
	return rc;
}

/* The small offer with other fields behind its fixed part. */
static enum rr_nego judge_fields(const uint8_t *fields, uint32_t len, struct rr_hello *h)
{
	uint8_t buf[1024];
	uint32_t need;

	small_offer(buf);
	if (len)
		memcpy(buf + FIELDS, fields, len);
	rr_put_be32(buf, 0x80000000u | (FIELDS + len - 4));
	return judge(buf, FIELDS + len, h, &need);
}

Test(nego_offer, has_these_bytes)
{
	static const uint8_t start[] = {
		0x80, 0x00, 0x00, 0xb4,			/* RFC 5531 §11: last, 180 bytes */
		0x01, 0x02, 0x03, 0x04,			/* xid */
		0, 0, 0, 0,  0, 0, 0, 2,		/* RFC 5531 §9: CALL, version 2 */
		0x20, 0x00, 0x07, 0x77,  0, 0, 0, 1,  0, 0, 0, 1,
		0, 0, 0, 0,  0, 0, 0, 0,		/* RFC 5531 §8.2: AUTH_NONE, empty */
		0, 0, 0, 0,  0, 0, 0, 0,
		'r', 'd', 'm', 'a', 'r', 'p', 'c', 0x0a,
		0, 0, 0, 2,
		0, 1, 0, 16,				/* token */
	};
	static const uint8_t who[] = {
		0, 4, 0, 16,  0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb,
		0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb,
		0, 5, 0, 16,  0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
		0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
		0, 16, 0, 4,  0, 0, 0, 5,		/* caps */
	};
	static const uint8_t end[] = {
		0, 21, 0, 4,  0, 0x10, 0, 0,		/* max_msg */
		0, 22, 0, 4,  3, 1, 0, 0,		/* dialects: draft02, then v1 */
		0, 3, 0, 6,  1, 0, 'a', 'd', 'd', 'r', 0, 0,
	};
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = small_offer(buf);

	cr_assert_eq(len, 184);
	cr_assert_arr_eq(buf, start, sizeof(start));
	cr_assert_arr_eq(buf + FIELDS + 20, who, sizeof(who));
	cr_assert_arr_eq(buf + len - sizeof(end), end, sizeof(end));
}

Test(nego_offer, names_dialects_in_the_order_of_preference)
{
	uint32_t d = rr_dialects_add(0, RR_DIALECT_SLIDES);

	cr_assert_eq(d, 0x04000000);
	cr_assert_eq(rr_dialects_add(d, RR_DIALECT_V1), 0x04010000);
}

Test(nego_offer, the_first_dialect_that_both_allow_is_chosen)
{
	static const struct {
		uint32_t offered, ours;
		int chosen;	/* -1 none */
	} c[] = {
		{ 0x02010000, 0x02010000, RR_DIALECT_V2 },
		{ 0x02010000, 0x01000000, RR_DIALECT_V1 },
		{ 0x01000000, 0x02010000, RR_DIALECT_V1 },
		{ 0x03010000, 0x02010000, RR_DIALECT_V1 },
		{ 0x01020304, 0x04030200, RR_DIALECT_V2 },
		{ 0x02000000, 0x01000000, -1 },
		{ 0, 0x02010000, RR_DIALECT_V1 },	/* knows of none */
		{ 0, 0x02000000, -1 },
		{ 0xff020000, 0x02000000, RR_DIALECT_V2 },	/* and one of a later version */
		{ 0x05060708, 0x01000000, -1 },
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		enum rr_dialect d = RR_DIALECT_SLIDES;
		bool any = rr_dialects_choose(c[i].offered, c[i].ours, &d);

		cr_assert_eq(any, c[i].chosen >= 0, "%zu", i);
		cr_assert(!any || (int)d == c[i].chosen, "%zu", i);
	}
}

Test(nego_offer, is_a_call_that_any_server_understands)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = small_offer(buf);
	struct rr_rpc rpc;

	cr_assert_eq(rr_sniff(buf, len), RR_SNIFF_RPC);
	cr_assert(rr_rpc_peek(buf + 4, len - 4, &rpc));
	cr_assert_eq(rpc.xid, XID);
	cr_assert_eq(rpc.prog, PROGRAM);
	cr_assert_eq(rpc.cred_flavor, RR_AUTH_NONE);
}

Test(nego_offer, comes_back_as_it_was_and_is_aligned_and_bounded)
{
	uint64_t seed = 1;

	for (int i = 0; i < 2000; i++) {
		struct rr_hello in = hello_random(&seed, rng_below(&seed, 4)), out;
		uint8_t buf[RR_OFFER_MAX];
		uint32_t len = rr_nego_put_offer(&in, PROGRAM, XID, buf, sizeof(buf)), need = 0;

		cr_assert(len > 0 && len % 4 == 0 && len <= RR_OFFER_MAX);
		cr_assert_eq(judge(buf, len, &out, &need), RR_NEGO_OURS);
		cr_assert_eq(need, len);
		cr_assert(hello_equal(&in, &out));
	}
}

Test(nego_offer, that_does_not_fit_is_not_written)
{
	uint64_t seed = 2;
	struct rr_hello h = hello_random(&seed, RR_NEGO_PROVS);
	uint8_t buf[2 * RR_OFFER_MAX];
	uint32_t len;

	for (uint32_t i = 0; i < RR_NEGO_PROVS; i++)
		h.prov[i].addr.len = RR_PROV_ADDR;
	cr_assert_eq(rr_nego_put_offer(&h, PROGRAM, XID, buf, sizeof(buf)), 0);
	h.nprov = 3;
	len = rr_nego_put_offer(&h, PROGRAM, XID, buf, sizeof(buf));
	cr_assert(len > 0 && len <= RR_OFFER_MAX);
	for (uint32_t cap = 0; cap < len; cap++) {
		uint8_t *p = malloc(cap ? cap : 1);

		cr_assert_eq(rr_nego_put_offer(&h, PROGRAM, XID, p, cap), 0);
		free(p);
	}
}

Test(nego_offer, cut_anywhere_is_a_part_that_says_how_far_to_read)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = small_offer(buf);
	struct rr_hello h;

	for (uint32_t n = 0; n < len; n++) {
		uint32_t need = 0;

		cr_assert_eq(judge(buf, n, &h, &need), RR_NEGO_PART, "at %u", n);
		cr_assert_eq(need, n < 4 ? 4 : len);
	}
}

Test(nego_offer, may_have_bytes_behind_it)
{
	uint8_t buf[RR_OFFER_MAX + 40];
	uint32_t len = small_offer(buf), need = 0;
	struct rr_hello h;

	memset(buf + len, 0x5a, 40);
	cr_assert_eq(judge(buf, len + 40, &h, &need), RR_NEGO_OURS);
	cr_assert_eq(need, len);
}

/* Any wrong bit in the fixed part makes it the app's, as soon as its byte is there. */
Test(nego_offer, with_a_fixed_bit_wrong_is_the_apps)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = small_offer(buf), need;
	struct rr_hello h;

	for (uint32_t bit = 0; bit < 8 * 52; bit++) {
		uint32_t at = bit / 8;

		if (at >= 4 && at < 8)	/* the xid may be any */
			continue;
		buf[at] ^= (uint8_t)(1 << bit % 8);
		cr_assert_neq(judge(buf, len, &h, &need), RR_NEGO_OURS, "bit %u", bit);
		if (at >= 8)
			cr_assert_eq(judge(buf, at + 1, &h, &need), RR_NEGO_OTHER, "bit %u", bit);
		buf[at] ^= (uint8_t)(1 << bit % 8);
	}
}

Test(nego_offer, with_any_byte_changed_never_reads_out_of_bounds)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = small_offer(buf), need;
	struct rr_hello h;

	for (uint32_t at = 0; at < len; at++) {
		uint8_t was = buf[at];

		for (int v = 0; v < 256; v++) {
			enum rr_nego rc;

			buf[at] = (uint8_t)v;
			rc = judge(buf, len, &h, &need);
			cr_assert(rc == RR_NEGO_OURS || rc == RR_NEGO_OTHER || rc == RR_NEGO_PART);
			if (rc == RR_NEGO_OURS)
				cr_assert(h.nprov <= RR_NEGO_PROVS);
		}
		buf[at] = was;
	}
}

Test(nego_offer, record_marks_that_cannot_be_ours_are_refused_from_the_first_byte)
{
	static const uint32_t bad[] = {
		0x00000098,	/* not the last fragment */
		0x80000000,	/* empty */
		0x80000028,	/* a NULL call */
		0x80000096, 0x80000099,	/* odd */
		0x80000200,	/* 516 bytes */
		0x80010098, 0xffffffff,
	};
	uint8_t buf[RR_OFFER_MAX];
	struct rr_hello h;
	uint32_t need, len = small_offer(buf);

	for (size_t i = 0; i < rr_array_size(bad); i++) {
		rr_put_be32(buf, bad[i]);
		cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_OTHER, "%08x", bad[i]);
		cr_assert_eq(judge(buf, 4, &h, &need), RR_NEGO_OTHER, "%08x", bad[i]);
	}
	cr_assert_eq(judge((const uint8_t *)"\x16\x03\x01", 3, &h, &need), RR_NEGO_OTHER);
	cr_assert_eq(judge((const uint8_t *)"\x80\x01", 2, &h, &need), RR_NEGO_OTHER);
	cr_assert_eq(judge((const uint8_t *)"\x80\x00\x01", 3, &h, &need), RR_NEGO_PART);
	cr_assert_eq(judge((const uint8_t *)"\x80\x00\x01\xfc", 4, &h, &need), RR_NEGO_PART);
	cr_assert_eq(need, RR_OFFER_MAX);
	for (uint32_t frag = 0; frag <= 60; frag += 4) {	/* all that is fixed, and its end */
		rr_put_be32(buf, 0x80000000 | frag);
		cr_assert_eq(judge(buf, 4, &h, &need), frag < 52 ? RR_NEGO_OTHER : RR_NEGO_PART, "%u bytes", frag);
	}
}

Test(nego_offer, an_apps_first_call_is_never_held_back)
{
	uint8_t buf[44];
	uint32_t need, len;
	struct rr_hello h;

	/* RFC 5531 §9: a NULL call to NFS 3 */
	len = WORDS(buf, 0x80000028, 7, 0, 2, 100003, 3, 0, 0, 0, 0, 0);
	for (uint32_t n = 4; n <= len; n++)
		cr_assert_eq(judge(buf, n, &h, &need), RR_NEGO_OTHER, "at %u", n);
}

Test(nego_offer, version_zero_does_not_exist)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = small_offer(buf), need;
	struct rr_hello h;

	rr_put_be32(buf + 52, 0);
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_OTHER);
	rr_put_be32(buf + 52, 9);
	cr_assert_eq(judge(buf, len, &h, &need), RR_NEGO_OURS);
	cr_assert_eq(h.version, 9);
}

/* --- fields --- */

#define TOKEN	0, 1, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16

Test(nego_fields, only_the_token_is_needed_and_the_rest_is_zero)
{
	static const uint8_t token[] = { TOKEN };
	static const uint8_t host[20] = { 0, 4, 0, 16, 1, 2, 3, 4 };
	struct rr_hello h;

	memset(&h, 0xee, sizeof(h));
	cr_assert_eq(judge_fields(token, sizeof(token), &h), RR_NEGO_OURS);
	cr_assert_eq(h.token[15], 16);
	cr_assert_eq(h.caps | h.inline_size | h.recvs | h.credits | h.bc_credits | h.max_msg, 0);
	cr_assert_eq(h.nprov, 0);
	cr_assert_eq(judge_fields(host, sizeof(host), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(NULL, 0, &h), RR_NEGO_OTHER);
}

Test(nego_fields, unknown_ones_are_skipped_wherever_they_stand)
{
	static const uint8_t fields[] = {
		0, 0, 0, 0,				/* tag 0, empty */
		0xff, 0xff, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0,
		TOKEN,
		0, 2, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,	/* of version 1 */
		0, 6, 0, 1, 9, 0, 0, 0,
		0, 15, 0, 0,
		0, 24, 0, 0,				/* the first that no word has */
		0, 22, 0, 4, 1, 2, 3, 4,
		0, 32, 0, 4, 1, 2, 3, 4,		/* would wrap in a 32-bit set */
		0, 33, 0, 4, 1, 2, 3, 4,
		0, 33, 0, 4, 1, 2, 3, 4,
		0, 16, 0, 4, 0, 0, 0, 7,
	};
	struct rr_hello h;

	cr_assert_eq(judge_fields(fields, sizeof(fields), &h), RR_NEGO_OURS);
	cr_assert_eq(h.caps, 7);
}

Test(nego_fields, known_ones_come_once)
{
	static const uint8_t token[] = { TOKEN, TOKEN };
	static const uint8_t words[] = { TOKEN, 0, 17, 0, 4, 0, 0, 0, 1, 0, 17, 0, 4, 0, 0, 0, 1 };
	struct rr_hello h;

	cr_assert_eq(judge_fields(token, sizeof(token), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(words, sizeof(words), &h), RR_NEGO_OTHER);
}

Test(nego_fields, known_ones_have_their_length)
{
	static const uint8_t word[] = { TOKEN, 0, 17, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1 };
	static const uint8_t empty[] = { TOKEN, 0, 17, 0, 0 };
	static const uint8_t host[] = { TOKEN, 0, 4, 0, 4, 1, 2, 3, 4 };
	static const uint8_t ends[] = { TOKEN, 0, 5, 0, 4, 1, 2, 3, 4 };
	static const uint8_t prov[] = { TOKEN, 0, 3, 0, 0 };
	static const uint8_t token[] = { 0, 1, 0, 4, 1, 2, 3, 4 };
	static const uint8_t release[] = { TOKEN, 0, 6, 0, 0 };
	static const uint8_t lack[] = { TOKEN, 0, 7, 0, 1, 5, 0, 0, 0 };
	uint8_t longest[20 + 4 + RR_NEGO_RELEASE] = { TOKEN, 0, 6, 0, RR_NEGO_RELEASE };
	struct rr_hello h;

	cr_assert_eq(judge_fields(word, sizeof(word), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(empty, sizeof(empty), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(host, sizeof(host), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(ends, sizeof(ends), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(prov, sizeof(prov), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(token, sizeof(token), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(release, sizeof(release), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(lack, sizeof(lack), &h), RR_NEGO_OTHER);
	memset(longest + 24, 'x', RR_NEGO_RELEASE);
	cr_assert_eq(judge_fields(longest, sizeof(longest), &h), RR_NEGO_OTHER);
	longest[23]--;
	longest[sizeof(longest) - 1] = 0;
	cr_assert_eq(judge_fields(longest, sizeof(longest), &h), RR_NEGO_OURS);
}

/* The last bytes of the record are the last that are read. */
Test(nego_fields, whose_value_ends_the_record_may_be_of_any_length)
{
	for (uint8_t n = 1; n <= 12; n++) {
		uint8_t fields[20 + 4 + 12] = { TOKEN, 0, 3, 0, n };
		struct rr_hello h;

		cr_assert_eq(judge_fields(fields, 24 + (n + 3u) / 4 * 4, &h), RR_NEGO_OURS);
		cr_assert_eq(h.prov[0].addr.len, n - 1);
		for (uint32_t have = 0; have < n; have += 4)
			cr_assert_eq(judge_fields(fields, 24 + have, &h), RR_NEGO_OTHER, "%u of %u", have, n);
	}
}

Test(nego_fields, end_with_the_record_and_are_padded_with_zeroes)
{
	static const uint8_t past[] = { TOKEN, 0, 99, 0, 5, 1, 2, 3, 4 };
	static const uint8_t far[] = { TOKEN, 0, 99, 0xff, 0xff, 1, 2, 3, 4 };
	static const uint8_t pad[] = { TOKEN, 0, 99, 0, 5, 1, 2, 3, 4, 5, 0, 1, 0 };
	struct rr_hello h;

	cr_assert_eq(judge_fields(past, sizeof(past), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(far, sizeof(far), &h), RR_NEGO_OTHER);
	cr_assert_eq(judge_fields(pad, sizeof(pad), &h), RR_NEGO_OTHER);
}

Test(nego_fields, providers_that_do_not_fit_are_skipped)
{
	uint8_t fields[20 + 104 + 8 * 6] = { TOKEN, 0, 3, 0, 98, 77 };	/* address of 97 bytes */
	struct rr_hello h;

	for (int i = 0; i < 6; i++)
		memcpy(fields + 124 + 8 * i,
		       (const uint8_t[]){ 0, 3, 0, 2, (uint8_t)(i + 1), 5, 0, 0 }, 8);
	cr_assert_eq(judge_fields(fields, sizeof(fields), &h), RR_NEGO_OURS);
	cr_assert_eq(h.nprov, RR_NEGO_PROVS);
	for (uint32_t i = 0; i < h.nprov; i++) {
		cr_assert_eq(h.prov[i].id, i + 1);
		cr_assert_eq(h.prov[i].addr.len, 1);
	}
}
