/* SPDX-License-Identifier: BSD-3-Clause */
/* rr_rpc_peek() and the negotiation's messages against libtirpc: what it writes we read,
 * what we write it reads. */
#include "core/wire/rpc.h"
#include "tests/lib/hello.h"
#include "tests/oracle/oracle.h"

#define ROUNDS	5000
#define PROGRAM	0x20000777u

static void a_call_of_libtirpc_is_seen(uint64_t *seed)
{
	char cred[MAX_AUTH_BYTES], verf[MAX_AUTH_BYTES], buf[1024];
	struct rpc_msg m = { .rm_xid = (uint32_t)rng_next(seed), .rm_direction = CALL };
	struct rr_rpc rpc;
	XDR x;

	m.rm_call.cb_rpcvers = 2;
	m.rm_call.cb_prog = (uint32_t)rng_next(seed);
	m.rm_call.cb_vers = (uint32_t)rng_next(seed);
	m.rm_call.cb_proc = (uint32_t)rng_next(seed);
	m.rm_call.cb_cred = random_auth(seed, cred);
	m.rm_call.cb_verf = random_auth(seed, verf);
	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	check(xdr_callmsg(&x, &m));
	check(rr_rpc_peek((uint8_t *)buf, xdr_getpos(&x), &rpc));
	check(rpc.xid == m.rm_xid && rpc.type == RR_RPC_CALL);
	check(rpc.prog == m.rm_call.cb_prog && rpc.vers == m.rm_call.cb_vers);
	check(rpc.proc == m.rm_call.cb_proc);
	check(rpc.cred_flavor == (uint32_t)m.rm_call.cb_cred.oa_flavor);
}

static bool_t no_results(XDR *x, ...)
{
	(void)x;
	return TRUE;
}

/* Any reply that libtirpc can write, to our offer's xid. */
static uint32_t random_reply(uint64_t *seed, uint32_t xid, char *buf, uint32_t cap)
{
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg m = { .rm_xid = xid, .rm_direction = REPLY };
	XDR x;

	if (rng_below(seed, 2)) {
		m.rm_reply.rp_stat = MSG_ACCEPTED;
		m.acpted_rply.ar_verf = random_auth(seed, verf);
		m.acpted_rply.ar_stat = rng_below(seed, 6);
		if (m.acpted_rply.ar_stat == SUCCESS)
			m.acpted_rply.ar_results.proc = (xdrproc_t)no_results;
		else
			m.acpted_rply.ar_vers.high = 2;
	} else {
		m.rm_reply.rp_stat = MSG_DENIED;
		m.rjcted_rply.rj_stat = rng_below(seed, 2);
		if (m.rjcted_rply.rj_stat == AUTH_ERROR)
			m.rjcted_rply.rj_why = rng_below(seed, 8);
	}
	xdrmem_create(&x, buf, cap, XDR_ENCODE);
	check(xdr_replymsg(&x, &m));
	return xdr_getpos(&x);
}

static void a_reply_of_libtirpc_to_our_offer_is_no(uint64_t *seed)
{
	uint32_t xid = (uint32_t)rng_next(seed), len, need = 0;
	char buf[1024];
	struct rr_rpc rpc;
	struct rr_hello h;

	len = random_reply(seed, xid, buf + 4, sizeof(buf) - 4);
	rr_put_be32((uint8_t *)buf, 0x80000000u | len);
	check(rr_rpc_peek((uint8_t *)buf + 4, len, &rpc));
	check(rpc.xid == xid && rpc.type == RR_RPC_REPLY);
	check(rr_nego_get_answer((uint8_t *)buf, len + 4, xid, &h, &need) == RR_NEGO_NO);
	check(need == len + 4);
}

static void our_offer_is_a_call_to_libtirpc(uint64_t *seed)
{
	struct rr_hello h = hello_random(seed, rng_below(seed, 4));
	uint8_t buf[RR_OFFER_MAX];
	uint32_t xid = (uint32_t)rng_next(seed);
	uint32_t len = rr_nego_put_offer(&h, PROGRAM, xid, buf, sizeof(buf));
	char cred[MAX_AUTH_BYTES], verf[MAX_AUTH_BYTES];
	struct rpc_msg m = { 0 };
	XDR x;

	m.rm_call.cb_cred.oa_base = cred;
	m.rm_call.cb_verf.oa_base = verf;
	xdrmem_create(&x, (char *)buf + 4, len - 4, XDR_DECODE);
	check(xdr_callmsg(&x, &m));
	check(m.rm_xid == xid && m.rm_call.cb_prog == PROGRAM);
	check(m.rm_call.cb_cred.oa_flavor == AUTH_NONE && m.rm_call.cb_cred.oa_length == 0);
	check(m.rm_call.cb_verf.oa_flavor == AUTH_NONE && m.rm_call.cb_verf.oa_length == 0);
	check(xdr_getpos(&x) == 40);
}

static void our_answer_is_a_success_to_libtirpc(uint64_t *seed)
{
	struct rr_hello h = hello_random(seed, 1);
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t xid = (uint32_t)rng_next(seed);
	uint32_t len = rng_below(seed, 2) ? rr_nego_put_answer(&h, xid, buf, sizeof(buf)) :
		rr_nego_put_refusal(RR_NEGO_DECLINED + rng_below(seed, 3), xid, &h, buf,
				    sizeof(buf));
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg m = { 0 };
	XDR x;

	m.acpted_rply.ar_verf.oa_base = verf;
	m.acpted_rply.ar_results.proc = (xdrproc_t)no_results;
	xdrmem_create(&x, (char *)buf + 4, len - 4, XDR_DECODE);
	check(xdr_replymsg(&x, &m));
	check(m.rm_xid == xid && m.rm_reply.rp_stat == MSG_ACCEPTED);
	check(m.acpted_rply.ar_stat == SUCCESS);
	check(xdr_getpos(&x) == 24);
}

int main(void)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t seed = round_seed = i;

		a_call_of_libtirpc_is_seen(&seed);
		a_reply_of_libtirpc_to_our_offer_is_no(&seed);
		our_offer_is_a_call_to_libtirpc(&seed);
		our_answer_is_a_success_to_libtirpc(&seed);
	}
	printf("%d rounds\n", ROUNDS);
	return 0;
}
