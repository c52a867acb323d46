/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/rpc.h"
#include "tests/lib/bytes.h"

static struct rr_rpc rpc;

static bool peek(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	bool ok;

	memset(&rpc, 0xee, sizeof(rpc));
	ok = rr_rpc_peek(p, len, &rpc);
	edge_back();
	return ok;
}

/* RFC 5531 §9: xid, CALL, 2, program, version, procedure, credential, verifier */
#define CALL	7, 0, 2, 100003, 3, 6, RR_AUTH_SYS, 0, 0, 0

Test(wire_rpc, a_call_shows_what_it_calls)
{
	uint8_t b[40];

	WORDS(b, CALL);
	cr_assert(peek(b, sizeof(b)));
	cr_assert_eq(rpc.xid, 7);
	cr_assert_eq(rpc.type, RR_RPC_CALL);
	cr_assert_eq(rpc.prog, 100003);
	cr_assert_eq(rpc.vers, 3);
	cr_assert_eq(rpc.proc, 6);
	cr_assert_eq(rpc.cred_flavor, RR_AUTH_SYS);
}

Test(wire_rpc, a_call_has_forty_bytes)
{
	uint8_t b[40];

	WORDS(b, CALL);
	for (uint32_t n = 0; n < RR_RPC_PEEK; n++)
		cr_assert_not(peek(b, n), "%u", n);
}

Test(wire_rpc, a_call_of_another_rpc_version_is_none)
{
	uint8_t b[40];

	for (uint32_t vers = 0; vers < 5; vers++) {
		WORDS(b, 7, 0, vers, 100003, 3, 6, 0, 0, 0, 0);
		cr_assert_eq(peek(b, sizeof(b)), vers == 2);
	}
}

Test(wire_rpc, a_reply_shows_its_xid_and_nothing_else)
{
	uint8_t b[24];

	WORDS(b, 8, 1, 0, 0, 0, 0);
	for (uint32_t n = 0; n <= sizeof(b); n++) {
		cr_assert_eq(peek(b, n), n >= 8, "%u", n);
		if (n < 8)
			continue;
		cr_assert_eq(rpc.xid, 8);
		cr_assert_eq(rpc.type, RR_RPC_REPLY);
		cr_assert_eq(rpc.prog | rpc.vers | rpc.proc | rpc.cred_flavor, 0);
	}
}

Test(wire_rpc, a_reply_is_accepted_or_denied)
{
	uint8_t b[12];

	WORDS(b, 8, 1, 1);
	cr_assert(peek(b, 12));
	WORDS(b, 8, 1, 2);
	cr_assert(peek(b, 11));
	cr_assert_not(peek(b, 12));
}

Test(wire_rpc, nothing_but_calls_and_replies_is_rpc)
{
	uint8_t b[40];

	WORDS(b, 7, 2, 2, 100003, 3, 6, 0, 0, 0, 0);
	cr_assert_not(peek(b, 40));
	WORDS(b, 7, 0x01000000, 0, 0, 0, 0, 0, 0, 0, 0);
	cr_assert_not(peek(b, 40));
}

static enum rr_rpc_end end_of(const uint8_t *buf, uint32_t len)
{
	enum rr_rpc_end end = rr_rpc_end(edged(buf, len), len);

	edge_back();
	return end;
}

Test(wire_rpc, a_reply_says_how_its_call_has_ended)
{
	static const struct { uint32_t stat; enum rr_rpc_end end; } accepted[] = {
		{ 0, RR_RPC_DONE }, { 1, RR_RPC_REFUSED }, { 2, RR_RPC_REFUSED },
		{ 3, RR_RPC_REFUSED }, { 4, RR_RPC_FAILED }, { 5, RR_RPC_FAILED },
		{ UINT32_MAX, RR_RPC_FAILED },
	};
	uint8_t b[20 + 400 + 4 + 4];

	for (unsigned i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		WORDS(b, 8, 1, 0, 0, 0, accepted[i].stat);
		cr_assert_eq(end_of(b, 24), accepted[i].end);
		cr_assert_eq(end_of(b, 23), RR_RPC_DONE, "it is not there");
		WORDS(b, 8, 1, 0, 6, 5, 0, 0, accepted[i].stat);	/* padded verifier */
		cr_assert_eq(end_of(b, 32), accepted[i].end);
		cr_assert_eq(end_of(b, 31), RR_RPC_DONE);
	}
	WORDS(b, 8, 1, 1, 1, 1);
	for (uint32_t n = 8; n <= 20; n++)
		cr_assert_eq(end_of(b, n), n < 12 ? RR_RPC_DONE : RR_RPC_REFUSED);
	memset(b, 5, sizeof(b));	/* whatever is taken for a status is a failure */
	WORDS(b, 8, 1, 0, 6, 401);
	cr_assert_eq(end_of(b, sizeof(b)), RR_RPC_DONE, "no such verifier");
	for (uint32_t n = 8; n < 24; n++) {
		WORDS(b, 8, 1, 0, 0, 0, 5);
		cr_assert_eq(end_of(b, n), RR_RPC_DONE, "%u", n);
	}
	WORDS(b, 8, 1, 0, 6, 400);
	memset(b + 20, 0, sizeof(b) - 20);
	b[20 + 400 + 3] = 5;
	cr_assert_eq(end_of(b, 20 + 400 + 4), RR_RPC_FAILED);
	cr_assert_eq(end_of(b, 20 + 400 + 3), RR_RPC_DONE);
	memset(b, 5, sizeof(b));
	WORDS(b, 8, 1, 0, 6, UINT32_MAX);
	cr_assert_eq(end_of(b, sizeof(b)), RR_RPC_DONE);
}
