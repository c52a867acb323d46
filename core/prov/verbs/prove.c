/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a device has memory windows of type 2, found out and not believed: capabilities are
 * what the kernel's driver says, and the driver's half in user space may know nothing of them
 * (bnxt_re: no alloc_mw, no BIND_MW) or of type 1 only (irdma, cxgb4).
 *
 * The first connection by a device allocates a window and, when there is a queue pair,
 * binds one and invalidates it, before anything else is posted. It does not wait for that:
 * what it exposes is registered until the window has been taken back. Where one of the
 * three is refused, this connection and every other by that device register. A bind that
 * fails later ends this one connection: its queue pair is in error.
 *
 * No window is older than the queue pair it is bound by: of a process that is killed the
 * kernel frees the newest first, and rxe takes a minute to destroy such a queue pair, and
 * complains. */
#include <errno.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"

#define TRIAL	4096u	/* bytes of mem that the window is bound to */

static void refute(struct rr_vq *v)
{
	rr_verbs_windows_are(v->id->verbs, RR_V_REFUTED);
	v->windows = false;
}

/* NULL: v->windows is no longer set. */
static struct ibv_mw *alloc_window(struct rr_vq *v)
{
	struct ibv_mw *mw;

	errno = 0;
	mw = ibv_alloc_mw(v->pd, IBV_MW_TYPE_2);
	if (!mw && errno != ENOMEM)	/* of those another connection may have more */
		refute(v);
	v->windows = mw;
	return mw;
}

static bool to_prove(const struct rr_vq *v)
{
	return v->windows && rr_verbs_windows_of(v->id->verbs) != RR_V_PROVEN;
}

void rr_verbs_prove_alloc(struct rr_vq *v)
{
	struct ibv_mw *mw = to_prove(v) ? alloc_window(v) : NULL;

	if (mw)
		ibv_dealloc_mw(mw);
}

/* Bound, and taken back. 0, or errno: refused, and nothing is posted that matters. */
static int post_trial(struct rr_qp *qp, struct rr_vq *v)
{
	struct ibv_mw *mw = v->mw[0].mw;
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr inv = {
		.wr_id = RR_VERBS_PROOF | 1, .opcode = IBV_WR_LOCAL_INV,
			 .send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	};
	struct ibv_send_wr bind = {
		.wr_id = RR_VERBS_PROOF, .next = &inv, .opcode = IBV_WR_BIND_MW,
			 .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw, .rkey = rkey, .bind_info = {
			.mr = v->mr[v->trial_mr].mr, .addr = (uintptr_t)qp->mem,
			      .length = TRIAL,
			.mw_access_flags = IBV_ACCESS_REMOTE_READ,
		} },
	}, *bad = &bind;
	int rc = ibv_post_send(v->id->qp, &bind, &bad);

	if (!rc || bad != &bind)
		mw->rkey = rkey;
	return rc;
}

void rr_verbs_prove(struct rr_qp *qp, struct rr_vq *v)
{
	int mr;

	/* Who is invited (v->invite) is so by drivers of which it is known. */
	if (v->invite || !to_prove(v))
		return;
	v->mw[0].mw = alloc_window(v);
	if (!v->mw[0].mw)
		return;
	v->mw_free[0] = 0;
	v->nmw = v->nmw_free = 1;
	mr = rr_verbs_mem_use(qp, v, qp->mem, TRIAL);
	v->trial_mr = (uint8_t)rr_max(mr, 0);
	if (mr >= 0 && !post_trial(qp, v)) {
		v->windows = false;
		v->on_trial = true;
		return;
	}
	/* It may be a registration that can be bound to that was refused. */
	rr_verbs_keys_free(v);
	v->nmw_free = 0;
	if (mr >= 0)
		rr_verbs_mem_unuse(v, (uint32_t)mr);
	rr_verbs_mem_free(v);
	if (mr != -ENOMEM)
		refute(v);
	v->windows = false;
}

/* A queue pair that was flushed, since the peer has left, says nothing of the device. */
void rr_verbs_proof(struct rr_vq *v, const struct ibv_wc *raw)
{
	if (raw->status != IBV_WC_SUCCESS && raw->status != IBV_WC_WR_FLUSH_ERR)
		refute(v);
	if (raw->status != IBV_WC_SUCCESS || raw->wr_id == RR_VERBS_PROOF || !v->on_trial)
		return;		/* the last: taken back, or refused meanwhile */
	rr_verbs_windows_are(v->id->verbs, RR_V_PROVEN);
	rr_verbs_mem_unuse(v, v->trial_mr);
	v->on_trial = false;
	v->windows = true;
}
