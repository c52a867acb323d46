/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes the Connection Configuration Protocol of draft-02. What is agreed by it
 * is the engine's business. */

#include "core/wire/ccp.h"
#include "core/wire/cursor.h"
#include "core/wire/rpc.h"

#define CCP_VERSION	1u
#define CONF_RDMA	1u
#define AUTH_MAX	400u	/* RFC 5531 §8.2 */

/* RFC 5531 §9: accept_stat */
enum { SUCCESS = 0, PROG_MISMATCH = 2, PROC_UNAVAIL = 3, GARBAGE_ARGS = 4 };

/* Skips a credential or verifier of any flavour. */
static void skip_auth(struct rr_rcur *c)
{
	uint32_t len;

	rr_get_u32(c);
	len = rr_get_u32(c);
	if (len > AUTH_MAX)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
	rr_rcur_take(c, len);
	rr_rcur_take(c, -len & 3);
}

static enum rr_ccp get_args(struct rr_rcur *c, struct rr_ccp_req *req)
{
	req->maxcall = rr_get_u32(c);
	req->maxreply = rr_get_u32(c);
	req->maxrdmaread = rr_get_u32(c);
	return c->rc == RR_WIRE_OK ? RR_CCP_CONF : RR_CCP_GARBAGE;
}

/* req: draft-02 6.2 #2 */
enum rr_ccp rr_ccp_get_call(const uint8_t *buf, uint32_t len, uint32_t program, uint32_t *xid,
			    struct rr_ccp_req *req)
{
	struct rr_rpc call;
	struct rr_rcur c;

	if (!rr_rpc_peek(buf, len, &call) || call.type != RR_RPC_CALL || call.prog != program)
		return RR_CCP_OTHER;
	*xid = call.xid;
	if (call.vers != CCP_VERSION)
		return RR_CCP_BAD_VERS;
	if (call.proc > CONF_RDMA)
		return RR_CCP_BAD_PROC;
	rr_rcur_init(&c, buf + 24, len - 24);	/* behind the procedure */
	skip_auth(&c);
	skip_auth(&c);
	if (c.rc != RR_WIRE_OK)
		return RR_CCP_GARBAGE;
	return call.proc == CONF_RDMA ? get_args(&c, req) : RR_CCP_NULL;
}

static void put_auth_none(struct rr_wcur *c)
{
	rr_put_u32(c, RR_AUTH_NONE);
	rr_put_u32(c, 0);
}

static uint32_t finish_message(const struct rr_wcur *c, const uint8_t *buf)
{
	return c->full ? 0 : (uint32_t)(c->p - buf);
}

static void put_results(struct rr_wcur *c, enum rr_ccp what, const struct rr_ccp_res *res)
{
	switch (what) {
	case RR_CCP_CONF:
		rr_put_u32(c, SUCCESS);
		rr_put_u32(c, res->maxcall);
		rr_put_u32(c, res->align);
		rr_put_u32(c, res->maxrdmaread);
		break;
	case RR_CCP_NULL:
		rr_put_u32(c, SUCCESS);
		break;
	case RR_CCP_BAD_VERS:
		rr_put_u32(c, PROG_MISMATCH);
		rr_put_u32(c, CCP_VERSION);
		rr_put_u32(c, CCP_VERSION);
		break;
	case RR_CCP_BAD_PROC:
		rr_put_u32(c, PROC_UNAVAIL);
		break;
	default:
		rr_put_u32(c, GARBAGE_ARGS);
	}
}

uint32_t rr_ccp_put_reply(enum rr_ccp what, uint32_t xid, const struct rr_ccp_res *res,
			  uint8_t *buf, uint32_t cap)
{
	struct rr_wcur c;

	rr_wcur_init(&c, buf, cap);
	rr_put_u32(&c, xid);
	rr_put_u32(&c, RR_RPC_REPLY);
	rr_put_u32(&c, 0);	/* MSG_ACCEPTED */
	put_auth_none(&c);
	put_results(&c, what, res);
	return finish_message(&c, buf);
}

uint32_t rr_ccp_put_call(uint32_t program, uint32_t xid, const struct rr_ccp_req *req,
			 uint8_t *buf, uint32_t cap)
{
	struct rr_wcur c;

	rr_wcur_init(&c, buf, cap);
	rr_put_u32(&c, xid);
	rr_put_u32(&c, RR_RPC_CALL);
	rr_put_u32(&c, RR_RPC_VERSION);
	rr_put_u32(&c, program);
	rr_put_u32(&c, CCP_VERSION);
	rr_put_u32(&c, CONF_RDMA);
	put_auth_none(&c);
	put_auth_none(&c);
	rr_put_u32(&c, req->maxcall);
	rr_put_u32(&c, req->maxreply);
	rr_put_u32(&c, req->maxrdmaread);
	return finish_message(&c, buf);
}

/* req: draft-02 6.2 #1 */
enum rr_ccp_verdict rr_ccp_get_reply(const uint8_t *buf, uint32_t len, uint32_t xid,
				     struct rr_ccp_res *res)
{
	struct rr_rcur c;
	uint32_t stat;

	rr_rcur_init(&c, buf, len);
	if (rr_get_u32(&c) != xid || rr_get_u32(&c) != RR_RPC_REPLY)
		return RR_CCP_NOT_OURS;
	stat = rr_get_u32(&c);	/* MSG_ACCEPTED is 0 as SUCCESS is */
	skip_auth(&c);
	stat |= rr_get_u32(&c);
	res->maxcall = rr_get_u32(&c);
	res->align = rr_get_u32(&c);
	res->maxrdmaread = rr_get_u32(&c);
	return stat == 0 && c.rc == RR_WIRE_OK ? RR_CCP_AGREED : RR_CCP_REFUSED;
}
