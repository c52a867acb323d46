/* SPDX-License-Identifier: BSD-3-Clause */

/* Plain messages: those that are sent whole in one Send, without chunks, while nothing else is
 * under way. That is nearly every message of a program whose calls and replies are short. What
 * there is to do for one fits into a return value, so it takes up no entry of the queues and
 * needs no operation.
 *
 * Everything less simple is left to rr_eng_send() and rr_eng_recv() before anything has been
 * changed for it. All judgements about such messages are made there. */

#include "core/engine/call.h"
#include "core/engine/engine_int.h"
#include "core/wire/v1.h"

_Static_assert(RR_ENG_PLAIN_HDR == RR_V1_HDR_MIN, "a header with three empty lists");

bool rr_eng_is_short(const struct rr_eng *e, uint32_t type, uint32_t len)
{
	uint32_t hdr = e->hdr_returned;

	if (unlikely(type == RR_RPC_CALL ? e->chunk_most | e->pad_align : e->reducing))
		return false;
	if (type == RR_RPC_CALL)
		hdr = e->hdr.min;
	return (uint64_t)len + hdr <= e->p.inline_send;
}

/* May the next message bypass the queues? The order of messages is kept because none is
 * waiting, and control messages still go first because none is due. */
static bool is_simple(const struct rr_eng *e)
{
	return e->simple && rr_eng_nothing_to_do(e);
}

static void count_plain(struct rr_eng *e, bool call, bool ours, uint32_t len)
{
	if (ours) {
		rr_eng_count(e, call ? RR_C_calls_sent : RR_C_replies_sent);
		rr_eng_count(e, RR_C_inline_sent);
		rr_count(e->count, RR_C_sent, len);
	} else {
		rr_eng_count(e, call ? RR_C_calls_received : RR_C_replies_received);
		rr_eng_count(e, RR_C_inline_received);
		rr_count(e->count, RR_C_received, len);
	}
	if (unlikely(call && ours != e->p.connector))
		rr_eng_count(e, ours ? RR_C_reverse_calls_sent : RR_C_reverse_calls_received);
}

/* --- calls of ours ------------------------------------------------------------------------ */

/* What rr_req_send() does for other calls. What plans note in a call is zero in every entry,
 * because with a peer of plain messages nothing is planned (rr_eng_agreed()). False: there is
 * no room for it, or only if another call is forgotten. */
static bool open_plain(struct rr_eng *e, const struct rr_rpc *rpc)
{
	struct rr_call *c = rr_call_open(e, rpc);

	if (!c)
		return false;
	rr_call_sent(e, c);
	return true;
}

/* Has c exposed nothing that must be fenced before its reply is delivered, and does nothing
 * else wait for its end? */
static bool ends_at_once(const struct rr_call *c)
{
	return c->args.state == RR_MEM_NONE && c->reply.state == RR_MEM_NONE &&
	       c->write.state == RR_MEM_NONE && !c->again && !c->kept;
}

/* What rr_req_reply_inline() does for other replies: the grant counts, and the call, if we know
 * it, is over. False: the reply must not be delivered at once, perhaps not at all. */
static bool close_plain(struct rr_eng *e, uint32_t xid, uint32_t credit)
{
	struct rr_call *c = rr_call_find(e, xid);

	if (unlikely(!c))
		return true;
	if (unlikely(!ends_at_once(c)))
		return false;
	rr_credits_grant(&e->cr, credit, e->traits->zero_grants);
	rr_credits_done_back(&e->cr, c->dones);
	rr_call_unlink(e, c);
	rr_credits_return(&e->cr);
	rr_table_put(&e->calls, c);
	return true;
}

/* --- calls of the peer -------------------------------------------------------------------- */

/* What rr_resp_send() does for other replies. False: the call has left chunks. */
static bool answer_plain(struct rr_eng *e, uint32_t xid)
{
	/* A map that was never used is not touched here. */
	if (e->serves.used && rr_xmap_find(&e->serve_map, &e->serves, xid))
		return false;
	e->refused = 0;
	return true;
}

/* --- both --------------------------------------------------------------------------------- */

bool rr_eng_send_plain(struct rr_eng *e, const struct rr_eng_out *out, rr_time now,
		       uint8_t hdr[RR_ENG_PLAIN_HDR])
{
	bool call = out->rpc.type == RR_RPC_CALL;

	if (!is_simple(e) || e->window <= e->reserve || out->len > e->p.max_msg)
		return false;
	e->now = now;
	if (call ? !open_plain(e, &out->rpc) : !answer_plain(e, out->rpc.xid))
		return false;
	rr_v1_put_plain(hdr, out->rpc.xid, call ? e->cr.asked : rr_resp_grant(e));
	e->stalled = false;
	e->window--;
	count_plain(e, call, true, out->len);
	return true;
}

/* The peer may still write to buf, so whatever is judged here is copied first. */
bool rr_eng_recv_plain(struct rr_eng *e, const uint8_t *buf, uint32_t len, rr_time now,
		       struct rr_rpc *rpc)
{
	enum { REPLY = RR_ENG_PLAIN_HDR + RR_RPC_REPLY_PEEK,
	       CALL = RR_ENG_PLAIN_HDR + RR_RPC_PEEK };
	uint8_t head[CALL];
	uint32_t have = REPLY;

	if (len < REPLY || !is_simple(e))
		return false;
	memcpy(head, buf, REPLY);
	if (!rr_v1_is_plain(head))
		return false;
	if (rr_be32(head + RR_ENG_PLAIN_HDR + 4) == RR_RPC_CALL && len >= CALL) {
		memcpy(head + REPLY, buf + REPLY, CALL - REPLY);
		have = CALL;
	}
	if (!rr_rpc_peek(head + RR_ENG_PLAIN_HDR, have - RR_ENG_PLAIN_HDR, rpc) ||
	    rpc->xid != rr_be32(head))
		return false;
	e->now = now;
	if (rpc->type == RR_RPC_CALL)
		e->requested = rr_v1_plain_credit(head);
	else if (!close_plain(e, rpc->xid, rr_v1_plain_credit(head)))
		return false;
	count_plain(e, rpc->type == RR_RPC_CALL, false, len - RR_ENG_PLAIN_HDR);
	return true;
}
