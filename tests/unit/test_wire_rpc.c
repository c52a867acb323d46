/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/rpc.h"
#include "tests/lib/bytes.h"

static struct rr_rpc rpc;

static bool peek(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = tight(buf, len);
	bool ok;

	memset(&rpc, 0xee, sizeof(rpc));
	ok = rr_rpc_peek(p, len, &rpc);
	free(p);
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
