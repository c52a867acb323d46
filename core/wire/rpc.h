/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RPC_H
#define RR_RPC_H

/* A look at an ONC RPC message's own header (RFC 5531 §9). */

#include "core/base/types.h"
#include "core/wire/be.h"

enum rr_rpc_type { RR_RPC_CALL = 0, RR_RPC_REPLY = 1 };

/* RFC 5531 §8.2, §9 */
enum { RR_AUTH_NONE = 0, RR_AUTH_SYS = 1, RR_RPCSEC_GSS = 6, RR_AUTH_TLS = 7 };

#define RR_RPC_VERSION	2u	/* RFC 5531 §9 */

/* Bytes that hold everything rr_rpc_peek() looks at. */
#define RR_RPC_PEEK	40u
#define RR_RPC_REPLY_PEEK 12u	/* in a reply */
#define RR_RPC_REPLY_MIN 8u	/* the shortest that may be one */

struct rr_rpc {
	uint32_t xid;
	uint32_t type;		/* enum rr_rpc_type */
	/* calls only, zero in replies */
	uint32_t prog, vers, proc;
	uint32_t cred_flavor;
};

/* Looks at the first len bytes of an RPC message. False if it is neither a version
 * 2 call (at least RR_RPC_PEEK bytes) nor a reply (at least 8 bytes; 12 or more
 * with a legal reply_stat) of ONC RPC. */
static inline bool rr_rpc_peek(const uint8_t *buf, uint32_t len, struct rr_rpc *out);

/* How a call has ended, as far as its reply's header says it (RFC 5531 §9). */
enum rr_rpc_end {
	RR_RPC_DONE,		/* a success; or too little of the reply is there */
	RR_RPC_FAILED,		/* the server has the procedure, but could not execute it */
	RR_RPC_REFUSED,		/* denied, or there is no such program, version or procedure */
};

/* Looks at the first len bytes of a reply that rr_rpc_peek() has accepted. */
enum rr_rpc_end rr_rpc_end(const uint8_t *buf, uint32_t len);

/* --- rr_rpc_peek(), inline: stream and engine look at each message by it --- */

static inline bool rr_rpc_peek_call(const uint8_t *buf, uint32_t len, struct rr_rpc *out)
{
	if (len < RR_RPC_PEEK || rr_be32(buf + 8) != RR_RPC_VERSION)
		return false;
	out->prog = rr_be32(buf + 12);
	out->vers = rr_be32(buf + 16);
	out->proc = rr_be32(buf + 20);
	out->cred_flavor = rr_be32(buf + 24);
	return true;
}

static inline bool rr_rpc_peek_reply(const uint8_t *buf, uint32_t len, struct rr_rpc *out)
{
	out->prog = out->vers = out->proc = out->cred_flavor = 0;
	/* MSG_ACCEPTED or MSG_DENIED, where it can be seen */
	return len < RR_RPC_REPLY_PEEK || rr_be32(buf + 8) <= 1;
}

static inline bool rr_rpc_peek(const uint8_t *buf, uint32_t len, struct rr_rpc *out)
{
	if (len < RR_RPC_REPLY_MIN)
		return false;
	out->xid = rr_be32(buf);
	out->type = rr_be32(buf + 4);
	switch (out->type) {
	case RR_RPC_CALL:
		return rr_rpc_peek_call(buf, len, out);
	case RR_RPC_REPLY:
		return rr_rpc_peek_reply(buf, len, out);
	default:
		return false;
	}
}

#endif
