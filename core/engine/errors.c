/* SPDX-License-Identifier: BSD-3-Clause */

/* Sends control messages (RDMA_ERROR and RDMA_DONE) when the peer can take a Send, and receives
 * RDMA_ERROR. What makes one due is in control.c. */

#include "core/engine/call.h"
#include "core/engine/engine_int.h"

/* DONE gets no reply that would give its credit back, so it is not charged unless the dialect
 * says so. But a peer that does charge it must not be overrun: if there is no credit, DONE
 * waits for one. */
/* req: reliable-reply-00 i #4 */
static bool may_send(const struct rr_eng *e, const struct rr_in *in)
{
	if (e->paced && !e->window)
		return false;
	if (e->ring)
		return true;
	return in->state != RR_IN_DONE || in->credit_kept || rr_credits_left(&e->cr);
}

/* req: rfc8166 4.5 #4 #5, 4.5.1 #1; version-two-08 7.2 #1; rfc8267 6.4.2 #3 */
static void build_error(struct rr_eng *e, const struct rr_in *in)
{
	rr_msg_init(&e->tmp->tx, RR_ERROR, in->n.xid, in->vers, rr_resp_grant(e));
	e->tmp->tx.err = e->traits->errors >> in->err & 1 ? in->err : RR_ERR_CHUNK;
	memcpy(e->tmp->tx.arm, in->arm, sizeof(e->tmp->tx.arm));
	rr_eng_count(e, in->err == RR_ERR_VERS ? RR_C_err_vers_sent : RR_C_err_chunk_sent);
	if (in->err != RR_ERR_VERS)
		return;
	e->tmp->tx.vers_low = e->tmp->tx.vers_high = e->codec->version;
	if (e->opening == RR_OPEN_AWAITED && e->traits->falls_back && !e->p.no_fallback)
		e->tmp->tx.vers_low = 1;
}

/* req: reliable-reply-00 - #7 */
static void build_done(struct rr_eng *e, const struct rr_in *in)
{
	rr_msg_init(&e->tmp->tx, RR_DONE, in->n.xid, e->codec->version, e->cr.asked);
	e->tmp->tx.dir = RR_DIR_CALL;
	if (e->traits->read_replies)
		rr_credits_done(&e->cr, in->credit_kept);
	rr_eng_count(e, RR_C_done_sent);
}

/* The first that may be sent: a DONE without credit does not hold up an ERROR. */
bool rr_ctl_next_op(struct rr_eng *e, struct rr_op *op)
{
	struct rr_in *in = rr_list_head(&e->control, &e->ins);

	while (in && !may_send(e, in))
		in = in->n.next ? rr_table_at(&e->ins, in->n.next) : NULL;
	if (!in)
		return false;
	if (unlikely(in->state == RR_IN_OPENING)) {
		rr_open_next_op(e, in, op);
	} else {
		if (in->state == RR_IN_ERROR)
			build_error(e, in);
		else
			build_done(e, in);
		rr_tx_encode(e, op);
		if (in->state == RR_IN_DONE)
			rr_inv_done(e, in, op);
	}
	rr_list_del(&e->control, &e->ins, in);
	rr_table_put(&e->ins, in);
	return true;
}

/* RFC 8166 §4.5: the error ends the call. The app's call cannot be answered by an error of
 * RPC's own, so the app sees what TCP would show it: a lost connection. */
/* req: rfc8166 4.2.4 #4; draft-02 4.3 #1; rfc8267 6.4.2 #4 #5, 6.7.2 #2 */
void rr_ctl_error_received(struct rr_eng *e, struct rr_in *in, const struct rr_msg *m)
{
	struct rr_call *c = rr_call_find(e, m->xid);
	enum rr_eng_why why = RR_WHY_ERR_VERS;

	if (!c) {
		rr_in_discard(e, in);
		return;
	}
	rr_eng_count(e,
		     m->err == RR_ERR_VERS ? RR_C_err_vers_received : RR_C_err_chunk_received);
	if (e->traits->full_errors && m->err != RR_ERR_VERS)
		why = rr_amend_error(e, c, m);
	else if (m->err == RR_ERR_CHUNK)
		why = rr_req_refused(e, c);
	else if (m->err != RR_ERR_VERS)	/* draft-02 §4.3 */
		why = RR_WHY_PROTOCOL;
	if (why)
		rr_eng_fail(e, why);
	rr_in_drop(e, in);
}
