/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls and replies of the Connection Configuration Protocol. */
#include "core/wire/ccp.h"
#include "tests/fuzz/fuzz.h"

static void check_call(const uint8_t *data, uint32_t len)
{
	struct rr_ccp_res res = { 1, 2, 3 }, back;
	struct rr_ccp_req req;
	uint8_t buf[RR_CCP_MAX];
	enum rr_ccp what;
	uint32_t xid, n;

	what = rr_ccp_get_call(data, len, RR_CCP_PROG, &xid, &req);
	if (what == RR_CCP_OTHER)
		return;
	fuzz_check(len >= 40 && xid == rr_be32(data) && rr_be32(data + 12) == RR_CCP_PROG);
	if (what == RR_CCP_CONF)
		fuzz_check(len >= 52 && memcmp(&(uint32_t){ 0 }, data + 4, 4) == 0);
	n = rr_ccp_put_reply(what, xid, &res, buf, sizeof(buf));
	fuzz_check(n >= 24 && n % 4 == 0);
	fuzz_check(rr_ccp_get_reply(buf, n, xid, &back) ==
		   (what == RR_CCP_CONF ? RR_CCP_AGREED : RR_CCP_REFUSED));
	if (what == RR_CCP_CONF)
		fuzz_check(back.maxcall == 1 && back.align == 2 && back.maxrdmaread == 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint32_t xid = len >= 4 ? rr_be32(data) : 0;
	struct rr_ccp_res res;
	enum rr_ccp_verdict v;

	check_call(data, (uint32_t)len);
	v = rr_ccp_get_reply(data, (uint32_t)len, xid, &res);
	fuzz_check((v == RR_CCP_NOT_OURS) == (len < 8 || rr_be32(data + 4) != 1));
	if (v == RR_CCP_AGREED)
		fuzz_check(len >= 36 && rr_be32(data + 8) == 0);
	return 0;
}
