/* SPDX-License-Identifier: BSD-3-Clause */
/* The Connection Configuration Protocol against libtirpc and rpcgen: what they write we read,
 * what we write they read. */
#include "core/wire/ccp.h"
#include "oracle/rpcrdma_draft02.h"
#include "tests/oracle/oracle.h"

#define ROUNDS	4000
#define BUF	2048u

static uint32_t word(uint64_t *seed)
{
	return (uint32_t)rng_next(seed);
}

static void their_call(uint64_t *seed)
{
	config_rdma_req args = { word(seed), word(seed), word(seed) };
	char cred[MAX_AUTH_BYTES], verf[MAX_AUTH_BYTES], buf[BUF];
	struct rpc_msg m = { .rm_xid = word(seed), .rm_direction = CALL };
	struct rr_ccp_req req;
	uint32_t xid;
	uint8_t *p;
	XDR x;

	m.rm_call.cb_rpcvers = 2;
	m.rm_call.cb_prog = RR_CCP_PROG;
	m.rm_call.cb_vers = m.rm_call.cb_proc = 1;
	m.rm_call.cb_cred = random_auth(seed, cred);
	m.rm_call.cb_verf = random_auth(seed, verf);
	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	check(xdr_callmsg(&x, &m) && xdr_config_rdma_req(&x, &args));
	p = tight(buf, xdr_getpos(&x));
	check(rr_ccp_get_call(p, xdr_getpos(&x), RR_CCP_PROG, &xid, &req) == RR_CCP_CONF);
	free(p);
	check(xid == m.rm_xid && req.maxcall == args.maxcall_sendsize);
	check(req.maxreply == args.maxreply_sendsize && req.maxrdmaread == args.maxrdmaread);
}

static void our_call(uint64_t *seed)
{
	struct rr_ccp_req req = { word(seed), word(seed), word(seed) };
	uint32_t xid = word(seed), len;
	uint8_t buf[RR_CCP_MAX];
	config_rdma_req args;
	struct rpc_msg m;
	XDR x;

	memset(&m, 0, sizeof(m));
	len = rr_ccp_put_call(RR_CCP_PROG, xid, &req, buf, sizeof(buf));
	xdrmem_create(&x, (char *)buf, len, XDR_DECODE);
	check(xdr_callmsg(&x, &m) && xdr_config_rdma_req(&x, &args));
	check(m.rm_xid == xid && m.rm_call.cb_prog == RR_CCP_PROG);
	check(m.rm_call.cb_vers == 1 && m.rm_call.cb_proc == 1);
	check(args.maxcall_sendsize == req.maxcall && args.maxreply_sendsize == req.maxreply);
	check(args.maxrdmaread == req.maxrdmaread);
}

static bool_t no_results(XDR *x, ...)
{
	(void)x;
	return TRUE;
}

/* Any reply that libtirpc can write: agreed if, and only if, it is a success. */
static void their_reply(uint64_t *seed)
{
	config_rdma_reply out = { word(seed), word(seed), word(seed) };
	struct rpc_msg m = { .rm_xid = word(seed), .rm_direction = REPLY };
	struct accepted_reply *a = &m.acpted_rply;
	char verf[MAX_AUTH_BYTES], buf[BUF];
	enum rr_ccp_verdict v;
	struct rr_ccp_res res;
	uint8_t *p;
	XDR x;

	m.rm_reply.rp_stat = rng_below(seed, 4) ? MSG_ACCEPTED : MSG_DENIED;
	if (m.rm_reply.rp_stat == MSG_ACCEPTED) {
		a->ar_verf = random_auth(seed, verf);
		a->ar_stat = rng_below(seed, 2) ? SUCCESS : (enum accept_stat)rng_below(seed, 6);
		if (a->ar_stat == SUCCESS) {
			a->ar_results.where = (caddr_t)&out;
			a->ar_results.proc = (xdrproc_t)xdr_config_rdma_reply;
		}
	} else {
		m.rjcted_rply.rj_stat = rng_below(seed, 2) ? AUTH_ERROR : RPC_MISMATCH;
	}
	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	check(xdr_replymsg(&x, &m));
	p = tight(buf, xdr_getpos(&x));
	v = rr_ccp_get_reply(p, xdr_getpos(&x), (uint32_t)m.rm_xid, &res);
	free(p);
	check(v == (m.rm_reply.rp_stat == MSG_ACCEPTED && a->ar_stat == SUCCESS ? RR_CCP_AGREED
									       : RR_CCP_REFUSED));
	if (v == RR_CCP_AGREED)
		check(res.maxcall == out.maxcall_sendsize && res.align == out.align &&
		      res.maxrdmaread == out.maxrdmaread);
}

static void our_replies(uint64_t *seed)
{
	static const enum accept_stat stats[] = {
		[RR_CCP_CONF] = SUCCESS, [RR_CCP_NULL] = SUCCESS, [RR_CCP_BAD_VERS] = PROG_MISMATCH,
		[RR_CCP_BAD_PROC] = PROC_UNAVAIL, [RR_CCP_GARBAGE] = GARBAGE_ARGS,
	};
	struct rr_ccp_res res = { word(seed), word(seed), word(seed) };
	enum rr_ccp what = RR_CCP_CONF + rng_below(seed, RR_CCP_GARBAGE);
	uint32_t xid = word(seed), len;
	config_rdma_reply in = { 0, 0, 0 };
	uint8_t buf[RR_CCP_MAX];
	struct rpc_msg m;
	XDR x;

	memset(&m, 0, sizeof(m));
	m.acpted_rply.ar_results.where = (caddr_t)&in;
	m.acpted_rply.ar_results.proc = what == RR_CCP_CONF ? (xdrproc_t)xdr_config_rdma_reply
							    : (xdrproc_t)no_results;
	len = rr_ccp_put_reply(what, xid, &res, buf, sizeof(buf));
	xdrmem_create(&x, (char *)buf, len, XDR_DECODE);
	check(xdr_replymsg(&x, &m));
	check(m.rm_xid == xid && m.rm_reply.rp_stat == MSG_ACCEPTED);
	check(m.acpted_rply.ar_stat == stats[what]);
	if (what == RR_CCP_CONF)
		check(in.maxcall_sendsize == res.maxcall && in.align == res.align &&
		      in.maxrdmaread == res.maxrdmaread);
	if (what == RR_CCP_BAD_VERS)
		check(m.acpted_rply.ar_vers.low == 1 && m.acpted_rply.ar_vers.high == 1);
}

int main(void)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t seed = round_seed = i;

		their_call(&seed);
		our_call(&seed);
		their_reply(&seed);
		our_replies(&seed);
	}
	printf("%d messages\n", 4 * ROUNDS);
	return 0;
}
