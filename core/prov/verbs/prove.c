/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out whether a device has memory windows of type 2, instead of believing its
 * capabilities. Those are set by the kernel driver, while the driver's half in user space may
 * lack windows (bnxt_re: no alloc_mw, no BIND_MW) or have only type 1 (irdma, cxgb4).
 *
 * The first connection on a device allocates a window and, when there is a queue pair, binds
 * one and invalidates it before anything else is posted. It does not wait for that: until the
 * window has been taken back, exposures are registered. If one of the three steps is refused,
 * this connection and all others on that device register. A bind that fails later ends only its
 * own connection, whose queue pair is then in error.
 *
 * No window is older than the queue pair that it is bound by: when a process is killed the
 * kernel frees the newest objects first, and rxe takes a minute to destroy a queue pair with
 * bound windows, and complains. */
#include <errno.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"

#define TRIAL	4096u	/* bytes of mem that the window is bound to */

static void refute(struct rr_vq *v)
{
	rr_verbs_device_windows_are(v->id->verbs, RR_V_REFUTED);
	v->windows = false;
}

/* A window. NULL: v->windows is cleared. */
static struct ibv_mw *alloc_window(struct rr_vq *v)
{
	struct ibv_mw *mw;

	errno = 0;
	mw = ibv_alloc_mw(v->pd, IBV_MW_TYPE_2);
	/* If windows are only scarce, other connections have them: that refutes nothing. */
	if (!mw && !rr_verbs_scarce(errno))
		refute(v);
	v->windows = mw;
	return mw;
}

static bool to_prove(const struct rr_vq *v)
{
	return v->windows && rr_verbs_device_windows_of(v->id->verbs) != RR_V_PROVEN;
}

void rr_verbs_prove_alloc(struct rr_vq *v)
{
	struct ibv_mw *mw = to_prove(v) ? alloc_window(v) : NULL;

	if (mw)
		ibv_dealloc_mw(mw);
}

/* Binds a window and invalidates it. 0, or an errno: it was refused, and nothing of importance
 * is posted. */
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

	/* Devices with v->invite are known to have them. */
	if (v->invite || !to_prove(v))
		return;
	v->mw[0].mw = alloc_window(v);
	if (!v->mw[0].mw)
		return;
	v->mw_free[0] = 0;
	v->nmw = v->nmw_free = 1;
	mr = rr_verbs_mr_use(qp, v, qp->mem, TRIAL);
	v->trial_mr = (uint8_t)rr_max(mr, 0);
	if (mr >= 0 && !post_trial(qp, v)) {
		v->windows = false;
		v->on_trial = true;
		return;
	}
	/* What was refused may have been a registration that allows binds: the next one is made
	 * without that right. */
	rr_verbs_keys_free(v);
	v->nmw_free = 0;
	if (mr >= 0)
		rr_verbs_mr_unuse(v, (uint32_t)mr);
	rr_verbs_mr_free(v);
	if (mr != -ENOMEM)
		refute(v);
	v->windows = false;
}

/* Completions that were flushed because the peer has left say nothing about the device. A
 * trial that has ended has no result any more: its device may be gone, and v->id with it. */
void rr_verbs_prove_result(struct rr_vq *v, const struct ibv_wc *raw)
{
	if (!v->on_trial)
		return;
	if (raw->status != IBV_WC_SUCCESS && raw->status != IBV_WC_WR_FLUSH_ERR)
		refute(v);
	if (raw->status != IBV_WC_SUCCESS || raw->wr_id == RR_VERBS_PROOF)
		return;		/* the bind */
	rr_verbs_device_windows_are(v->id->verbs, RR_V_PROVEN);
	rr_verbs_mr_unuse(v, v->trial_mr);
	v->on_trial = false;
	v->windows = true;
}
