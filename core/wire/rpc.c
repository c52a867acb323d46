/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the first words of an RPC message, and nothing beyond the header. */

#include "core/base/compiler.h"
#include "core/wire/cursor.h"
#include "core/wire/rpc.h"

#define RPC_VERSION	2u	/* RFC 5531 §9 */
#define REPLY_MIN	8u
#define VERF_MAX	400u
#define SUCCESS		0u
#define PROC_UNAVAIL	3u	/* PROG_UNAVAIL and PROG_MISMATCH are below it */

static bool peek_call(const uint8_t *buf, uint32_t len, struct rr_rpc *out)
{
	if (len < RR_RPC_PEEK || rr_be32(buf + 8) != RPC_VERSION)
		return false;
	out->prog = rr_be32(buf + 12);
	out->vers = rr_be32(buf + 16);
	out->proc = rr_be32(buf + 20);
	out->cred_flavor = rr_be32(buf + 24);
	return true;
}

static bool peek_reply(const uint8_t *buf, uint32_t len, struct rr_rpc *out)
{
	out->prog = out->vers = out->proc = out->cred_flavor = 0;
	/* MSG_ACCEPTED or MSG_DENIED, where it can be seen */
	return len < REPLY_MIN + 4 || rr_be32(buf + 8) <= 1;
}

bool rr_rpc_peek(const uint8_t *buf, uint32_t len, struct rr_rpc *out)
{
	if (len < REPLY_MIN)
		return false;
	out->xid = rr_be32(buf);
	out->type = rr_be32(buf + 4);
	switch (out->type) {
	case RR_RPC_CALL:
		return peek_call(buf, len, out);
	case RR_RPC_REPLY:
		return peek_reply(buf, len, out);
	default:
		return false;
	}
}

enum rr_rpc_end rr_rpc_end(const uint8_t *buf, uint32_t len)
{
	uint32_t at, status;

	if (len >= REPLY_MIN + 4 && rr_be32(buf + 8))
		return RR_RPC_REFUSED;	/* MSG_DENIED */
	if (len < 20)
		return RR_RPC_DONE;
	at = rr_be32(buf + 16);	/* bytes of the verifier */
	if (at > VERF_MAX)
		return RR_RPC_DONE;
	at = 20 + rr_align(at, 4u);
	if (len < at + 4)
		return RR_RPC_DONE;
	status = rr_be32(buf + at);
	if (status == SUCCESS)
		return RR_RPC_DONE;
	return status <= PROC_UNAVAIL ? RR_RPC_REFUSED : RR_RPC_FAILED;
}
