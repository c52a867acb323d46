/* SPDX-License-Identifier: BSD-3-Clause */
/* The Connection Configuration Protocol, draft-02 §6 and RFC 5666 §6. */
#include <criterion/criterion.h>

#include "core/wire/ccp.h"
#include "tests/lib/bytes.h"

#define X	0xdeadbeefu
#define PROG	RR_CCP_PROG

static struct rr_ccp_req req;
static struct rr_ccp_res res;

static enum rr_ccp call(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	uint32_t xid = 0;
	enum rr_ccp what = rr_ccp_get_call(p, len, PROG, &xid, &req);

	edge_back();
	cr_assert_eq(xid, what == RR_CCP_OTHER ? 0 : X);
	return what;
}

static enum rr_ccp_verdict reply(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	enum rr_ccp_verdict v = rr_ccp_get_reply(p, len, X, &res);

	edge_back();
	return v;
}

#define CALL(...) ({ uint8_t b_[1024]; call(b_, WORDS(b_, __VA_ARGS__)); })
#define REPLY(...) ({ uint8_t b_[1024]; reply(b_, WORDS(b_, __VA_ARGS__)); })

#define EXPECT_REPLY(what, res, ...) do { \
	uint8_t want_[256], got_[RR_CCP_MAX]; \
	uint32_t len_ = WORDS(want_, __VA_ARGS__); \
	cr_assert_eq(rr_ccp_put_reply((what), X, (res), got_, sizeof(got_)), len_); \
	cr_assert_arr_eq(got_, want_, len_); \
	cr_assert_eq(rr_ccp_put_reply((what), X, (res), got_, len_ - 1), 0); \
} while (0)

/* req: draft-02 6.2 #2 */
Test(wire_ccp, a_call_says_three_numbers)
{
	static const struct rr_ccp_req ask = { 4096, 8192, 16 };
	uint8_t buf[RR_CCP_MAX], want[256];
	uint32_t len = WORDS(want, X, 0, 2, 100417, 1, 1, 0, 0, 0, 0, 4096, 8192, 16);

	cr_assert_eq(rr_ccp_put_call(PROG, X, &ask, buf, sizeof(buf)), len);
	cr_assert_arr_eq(buf, want, len);
	cr_assert_eq(call(buf, len), RR_CCP_CONF);
	cr_assert_eq(req.maxcall, 4096);
	cr_assert_eq(req.maxreply, 8192);
	cr_assert_eq(req.maxrdmaread, 16);
	for (uint32_t cap = 0; cap < len; cap++)
		cr_assert_eq(rr_ccp_put_call(PROG, X, &ask, buf, cap), 0);
}

Test(wire_ccp, a_call_cut_anywhere_is_never_agreed_to)
{
	uint8_t buf[256];
	uint32_t len = WORDS(buf, X, 0, 2, PROG, 1, 1, 1, 8, 7, 7, 0, 0, 1, 2, 3);

	cr_assert_eq(call(buf, len), RR_CCP_CONF);
	for (uint32_t n = 0; n < len; n++)
		cr_assert_eq(call(buf, n), n < 40 ? RR_CCP_OTHER : RR_CCP_GARBAGE, "%u", n);
}

Test(wire_ccp, any_credential_will_do_up_to_its_limit)
{
	uint8_t buf[2048];

	for (uint32_t n = 398; n <= 402; n++) {
		uint32_t len = WORDS(buf, X, 0, 2, PROG, 1, 1, 6, n);

		memset(buf + len, 0x5a, 404);
		len += (n + 3) & ~3u;
		len += WORDS(buf + len, 0, 3, 0xffffffff, 1, 2, 3);
		cr_assert_eq(call(buf, len), n <= 400 ? RR_CCP_CONF : RR_CCP_GARBAGE, "%u", n);
	}
	cr_assert_eq(CALL(X, 0, 2, PROG, 1, 1, 0, 0xfffffffd, 0, 0, 1, 2, 3), RR_CCP_GARBAGE);
	cr_assert_eq(CALL(X, 0, 2, PROG, 1, 1, 0, 0, 0, 0xffffffff, 1, 2, 3), RR_CCP_GARBAGE);
	cr_assert_eq(CALL(X, 0, 2, PROG, 1, 0, 0, 8, 0, 0), RR_CCP_GARBAGE);	/* NULL: no arguments, but these */
}

/* A reply names no program: none is taken for a call of program 0. */
Test(wire_ccp, a_reply_is_no_call)
{
	uint8_t buf[64];
	uint32_t xid = 0, len = WORDS(buf, X, 1, 0, 0, 0, 0, 0, 0, 0, 0);

	cr_assert_eq(rr_ccp_get_call(buf, len, 0, &xid, &req), RR_CCP_OTHER);
	cr_assert_eq(xid, 0);
}

Test(wire_ccp, other_programs_are_the_apps)
{
	cr_assert_eq(CALL(X, 0, 2, PROG + 1, 1, 1, 0, 0, 0, 0, 1, 2, 3), RR_CCP_OTHER);
	cr_assert_eq(CALL(X, 0, 3, PROG, 1, 1, 0, 0, 0, 0, 1, 2, 3), RR_CCP_OTHER);
	cr_assert_eq(CALL(X, 1, 0, PROG, 1, 1, 0, 0, 0, 0, 1, 2, 3), RR_CCP_OTHER);
}

Test(wire_ccp, each_call_gets_the_reply_that_rpc_has_for_it)
{
	static const struct rr_ccp_res have = { 1024, 4096, 0 };

	cr_assert_eq(CALL(X, 0, 2, PROG, 1, 0, 0, 0, 0, 0), RR_CCP_NULL);
	cr_assert_eq(CALL(X, 0, 2, PROG, 1, 2, 0, 0, 0, 0), RR_CCP_BAD_PROC);
	cr_assert_eq(CALL(X, 0, 2, PROG, 2, 1, 0, 0, 0, 0, 1, 2, 3), RR_CCP_BAD_VERS);
	cr_assert_eq(CALL(X, 0, 2, PROG, 0, 1, 0, 0, 0, 0, 1, 2, 3), RR_CCP_BAD_VERS);
	EXPECT_REPLY(RR_CCP_CONF, &have, X, 1, 0, 0, 0, 0, 1024, 4096, 0);
	EXPECT_REPLY(RR_CCP_NULL, NULL, X, 1, 0, 0, 0, 0);
	EXPECT_REPLY(RR_CCP_BAD_VERS, NULL, X, 1, 0, 0, 0, 2, 1, 1);
	EXPECT_REPLY(RR_CCP_BAD_PROC, NULL, X, 1, 0, 0, 0, 3);
	EXPECT_REPLY(RR_CCP_GARBAGE, NULL, X, 1, 0, 0, 0, 4);
}

/* req: draft-02 6.2 #1 */
Test(wire_ccp, a_reply_says_three_numbers)
{
	cr_assert_eq(REPLY(X, 1, 0, 0, 0, 0, 1024, 4096, 5), RR_CCP_AGREED);
	cr_assert_eq(res.maxcall, 1024);
	cr_assert_eq(res.align, 4096);
	cr_assert_eq(res.maxrdmaread, 5);
	cr_assert_eq(REPLY(X, 1, 0, 6, 5, 1, 2, 0, 1024, 4096, 5), RR_CCP_AGREED);
}

/* req: draft-02 6.2 #1 */
Test(wire_ccp, any_other_reply_is_a_refusal)
{
	cr_assert_eq(REPLY(X, 1, 0, 0, 0, 1), RR_CCP_REFUSED);		/* PROG_UNAVAIL */
	cr_assert_eq(REPLY(X, 1, 0, 0, 0, 2, 1, 1, 1), RR_CCP_REFUSED);
	cr_assert_eq(REPLY(X, 1, 1, 0, 0, 0, 1, 2, 3), RR_CCP_REFUSED);	/* MSG_DENIED */
	cr_assert_eq(REPLY(X, 1, 0, 0, 401, 0, 1, 2, 3), RR_CCP_REFUSED);
	cr_assert_eq(REPLY(X, 1), RR_CCP_REFUSED);
}

Test(wire_ccp, what_is_not_our_reply_is_not_judged)
{
	uint8_t buf[64];
	uint32_t len = WORDS(buf, X, 1, 0, 0, 0, 0, 1024, 4096, 5);

	cr_assert_eq(REPLY(X + 1, 1, 0, 0, 0, 0, 1024, 4096, 5), RR_CCP_NOT_OURS);
	cr_assert_eq(REPLY(X, 0, 2, PROG, 1, 1, 0, 0, 0, 0), RR_CCP_NOT_OURS);
	for (uint32_t n = 0; n < len; n++)
		cr_assert_eq(reply(buf, n), n < 8 ? RR_CCP_NOT_OURS : RR_CCP_REFUSED);
	cr_assert_eq(rr_ccp_get_reply(buf, 0, 0, &res), RR_CCP_NOT_OURS);
}
