/* SPDX-License-Identifier: BSD-3-Clause */
/* A look at the first words of an RPC message. No more of it is read. */

#include "core/wire/cursor.h"
#include "core/wire/rpc.h"

#define RPC_VERSION	2u	/* RFC 5531 §9 */
#define REPLY_MIN	8u

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
