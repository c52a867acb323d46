/* SPDX-License-Identifier: BSD-3-Clause */
/* The look at an RPC header and the sniffing of a stream agree with its words, and with
 * each other. The input is a stream: a record mark, then a message. */
#include "core/nego/nego.h"
#include "core/wire/recmark.h"
#include "core/wire/rpc.h"
#include "tests/fuzz/fuzz.h"

static bool peek(const uint8_t *p, size_t len, struct rr_rpc *rpc)
{
	if (!rr_rpc_peek(p, (uint32_t)len, rpc))
		return false;
	fuzz_check(len >= 8 && rpc->xid == rr_be32(p) && rpc->type == rr_be32(p + 4));
	if (rpc->type == RR_RPC_REPLY) {
		fuzz_check((rpc->prog | rpc->vers | rpc->proc | rpc->cred_flavor) == 0);
		return true;
	}
	fuzz_check(rpc->type == RR_RPC_CALL && len >= RR_RPC_PEEK && rr_be32(p + 8) == 2);
	fuzz_check(rpc->prog == rr_be32(p + 12) && rpc->vers == rr_be32(p + 16));
	fuzz_check(rpc->proc == rr_be32(p + 20) && rpc->cred_flavor == rr_be32(p + 24));
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	enum rr_sniff s = rr_sniff(data, len);
	struct rr_rpc rpc = { 0 };
	bool rpc_call;

	peek(data, len, &rpc);
	fuzz_check((s == RR_SNIFF_SHORT) == (len < 16));
	if (len < RR_RM_HDR + RR_RPC_PEEK)
		return 0;
	rpc_call = peek(data + 4, len - 4, &rpc) && rpc.type == RR_RPC_CALL;
	if (s == RR_SNIFF_RPC || s == RR_SNIFF_TLS)
		fuzz_check(rpc_call);
	if (rpc_call && (rr_be32(data) & ~RR_RM_LAST) >= RR_RPC_PEEK)
		fuzz_check(s == (rpc.cred_flavor == RR_AUTH_TLS ? RR_SNIFF_TLS : RR_SNIFF_RPC));
	return 0;
}
