/* SPDX-License-Identifier: BSD-3-Clause */

/* The Connection Configuration Protocol of dialect draft02 (draft-02 §6): CONF_RDMA of program
 * 100417. A client's connection begins with it, and any answer except the program's own leaves
 * everything as it was. A server answers before the app could see the call, at any time; if
 * that is not wanted the app itself answers that it has no such program. The messages are
 * encoded in core/wire/ccp.c.
 *
 * The draft can be read in two ways. Sizes that we observe are of Sends, including the header;
 * sizes that we ask others to observe are of RPC messages, leaving room for any header. */

#include "core/engine/engine_int.h"
#include "core/wire/ccp.h"

/* Bytes of a Send: with fewer not even a header with one chunk is sure to fit. */
#define LEAST	256u

/* --- what both sides say ----------------------------------------------------------------- */

/* Receives of inline_recv bytes were posted before the first message. */
/* req: draft-02 6 #1, 6.2 #1 */
static uint32_t our_size(const struct rr_eng *e)
{
	uint32_t hdr = e->hdr.min + e->hdr.read + e->hdr.write;

	return rr_max(e->p.inline_recv, hdr) - hdr;
}

static void take_size(struct rr_eng *e, uint32_t size)
{
	e->p.inline_send = rr_min(size, rr_max(e->p.inline_send_max, e->p.inline_send));
	if (e->p.inline_send < LEAST)
		rr_eng_fail(e, RR_WHY_PROTOCOL);
}

/* req: draft-02 6.2 #2 #3 */
static void take_read_limit(struct rr_eng *e, uint32_t reads)
{
	e->reads_barred = reads == 0;
	if (reads && (!e->reads_max || reads < e->reads_max))
		e->reads_max = reads;
}

/* --- the client ------------------------------------------------------------------------- */

static enum rr_open_state begin_ccp(const struct rr_eng *e)
{
	return e->p.connector && e->p.ccp_prog ? RR_OPEN_ASKED : RR_OPEN_OVER;
}

static uint32_t put_ccp_call(const struct rr_eng *e, const struct rr_in *in, uint8_t *at)
{
	struct rr_ccp_req req = {
		.maxcall = rr_max(e->p.inline_send_max, e->p.inline_send),
		.maxreply = our_size(e),
		.maxrdmaread = e->p.rdma_reads,
	};

	return rr_ccp_put_call(e->p.ccp_prog, in->n.xid, &req, at, RR_CCP_MAX);
}

/* req: draft-02 6.2 #1 */
static void take_agreement(struct rr_eng *e, const struct rr_ccp_res *res)
{
	take_size(e, res->maxcall);
	take_read_limit(e, res->maxrdmaread);
	rr_pad_to(e, res->align);
	e->p.inline_peer = e->p.inline_recv;
}

/* The draft's rule for a first reply applies to this one, too: it grants credits. */
static void replied(struct rr_eng *e, struct rr_in *in)
{
	rr_credits_grant(&e->cr, in->credit, e->traits->zero_grants);
	if (rr_credits_stuck(&e->cr))
		rr_eng_fail(e, RR_WHY_CREDITS);
	rr_open_over(e);
	rr_in_drop(e, in);
}

static bool hear_reply(struct rr_eng *e, struct rr_in *in, uint32_t have)
{
	uint32_t at = e->tmp->rx.hdr_len;
	struct rr_ccp_res res;

	switch (rr_ccp_get_reply(e->tmp->rxbuf + at, have - at, in->n.xid, &res)) {
	case RR_CCP_NOT_OURS:
		return false;
	case RR_CCP_AGREED:
		take_agreement(e, &res);
		break;
	case RR_CCP_REFUSED:
		break;
	}
	replied(e, in);
	return true;
}

static bool hear_ccp(struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc, uint32_t have)
{
	if (e->opening != RR_OPEN_ASKED || rc != RR_WIRE_OK || in->n.xid != RR_OPEN_XID)
		return false;
	if (e->tmp->rx.type == RR_MSG)
		return hear_reply(e, in, have);
	if (e->tmp->rx.type != RR_ERROR)
		return false;
	if (e->tmp->rx.err == RR_ERR_VERS)
		rr_eng_fail(e, RR_WHY_ERR_VERS);
	replied(e, in);
	return true;
}

/* --- the server ------------------------------------------------------------------------- */

/* Memory that is, or may be, exposed for replies is not affected: the client has said what
 * holds from the next reply on. */
bool rr_ccp_taken(struct rr_eng *e, struct rr_in *in, const uint8_t *stream)
{
	uint32_t len = rr_min(in->len, (uint32_t)sizeof(e->tmp->rxbuf)), xid;
	struct rr_ccp_req req;
	enum rr_ccp what;

	if (e->p.connector)
		return false;
	memcpy(e->tmp->rxbuf, stream, len);	/* the peer may still write to it */
	what = rr_ccp_get_call(e->tmp->rxbuf, len, e->p.ccp_prog, &xid, &req);
	if (what == RR_CCP_OTHER)
		return false;
	e->requested = in->credit;
	if (what == RR_CCP_CONF) {
		take_size(e, req.maxreply);
		take_read_limit(e, req.maxrdmaread);
	}
	in->err = what;
	rr_open_answer(e, in);
	return true;
}

static uint32_t put_ccp_reply(const struct rr_eng *e, const struct rr_in *in, uint8_t *at)
{
	struct rr_ccp_res res = {
		.maxcall = our_size(e),
		.align = e->p.pad_align,
		.maxrdmaread = e->p.rdma_reads,
	};

	return rr_ccp_put_reply((enum rr_ccp)in->err, in->n.xid, &res, at, RR_CCP_MAX);
}

/* The RPC message is not in a buffer of the driver: it goes with the header. */
static void say_ccp(struct rr_eng *e, const struct rr_in *in, struct rr_op *op)
{
	bool call = e->p.connector;

	rr_msg_init(&e->tmp->tx, RR_MSG, in->n.xid, e->codec->version,
		    call ? e->cr.asked : rr_resp_grant(e));
	rr_tx_encode(e, op);
	if (op->hdr_len)
		op->hdr_len += call ? put_ccp_call(e, in, e->tmp->hdr + op->hdr_len) :
				      put_ccp_reply(e, in, e->tmp->hdr + op->hdr_len);
}

const struct rr_opening rr_opening_ccp = { .begin = begin_ccp, .say = say_ccp,
					   .hear = hear_ccp };
