/* SPDX-License-Identifier: BSD-3-Clause */
/* What the peer may access: for each exposure a window of type 2, or a registration. Which
 * memory is exposed is decided by the caller; the registrations of mem are mr.c's. */
#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/queue.h"

#ifndef SHORT_WAIT
#define SHORT_WAIT	(5 * RR_SEC)
#endif

/* Turns the failure err into a result. -EAGAIN: there will be more when this connection takes
 * something back, or, for a limited time, when other connections do. */
static int short_of(struct rr_vq *v, int err)
{
	rr_time now;

	if (!rr_verbs_scarce(err))
		return err ? -err : -EIO;
	if (v->nkeys || v->nmw > v->nmw_free)
		return -EAGAIN;
	now = rr_now_coarse();
	if (!v->short_since)
		v->short_since = now;
	return now - v->short_since < SHORT_WAIT ? -EAGAIN : -ENOMEM;
}

/* --- registered as it is exposed ------------------------------------------------------- */

/* Registers local for this exposure alone, under a key of its own. A remote right to write
 * needs the local one as well (ibv_reg_mr(3)). */
static int reg_expose(struct rr_vq *v, const void *local, uint32_t len, enum rr_rights rights,
		      struct rr_seg *out)
{
	int access = rights == RR_RIGHT_READ ? IBV_ACCESS_REMOTE_READ
					     : RR_VERBS_LOCAL | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr;

	if (v->nkeys == RR_VERBS_KEYS)
		return -EAGAIN;
	if (!rr_verbs_mr_charge(v, len))
		return short_of(v, errno);
	mr = ibv_reg_mr(v->pd, (void *)(uintptr_t)local, len, access);
	if (!mr) {
		int err = errno;

		rr_verbs_mr_uncharge(v, len);
		return short_of(v, err);
	}
	v->key[v->nkeys++] = (struct rr_verbs_key){ .mr = mr };
	*out = (struct rr_seg){ .handle = mr->rkey, .length = len, .offset = (uintptr_t)local };
	return 0;
}

/* Returns 1, since deregistration is over when the call returns; nothing is posted for it.
 * -EINVAL: no exposure has this key. */
static int reg_invalidate(struct rr_vq *v, uint32_t handle)
{
	for (uint32_t i = 0; i < v->nkeys; i++) {
		if (v->key[i].mr->rkey != handle)
			continue;
		rr_verbs_mr_uncharge(v, v->key[i].mr->length);
		if (ibv_dereg_mr(v->key[i].mr))
			return -EIO;
		v->key[i] = v->key[--v->nkeys];
		return 1;
	}
	return -EINVAL;
}

/* --- windows ----------------------------------------------------------------------------- */

void rr_verbs_keys_free_window(struct rr_vq *v, uint16_t window)
{
	v->mw[window].live = false;
	rr_verbs_mr_unuse(v, v->mw[window].mr);
	v->mw_free[v->nmw_free++] = window;
}

/* A free window, or a new one. -EAGAIN: all are in use; or -errno. */
static int window_get(struct rr_vq *v)
{
	if (v->nmw_free)
		return v->mw_free[--v->nmw_free];
	if (v->nmw == RR_VERBS_KEYS)
		return -EAGAIN;
	errno = 0;
	v->mw[v->nmw].mw = ibv_alloc_mw(v->pd, IBV_MW_TYPE_2);
	if (v->mw[v->nmw].mw)
		return (int)v->nmw++;
	return rr_verbs_scarce(errno) ? -ENOMEM : errno ? -errno : -EIO;
}

/* Prepares a bind in v->chain. It is posted together with the Send that tells the peer of the
 * key, and before that Send, so the peer never has a key that is not bound yet.
 *
 * req: rfc8166 8.1 #1 */
static int window_expose(struct rr_qp *qp, struct rr_vq *v, const void *local, uint32_t len,
			 enum rr_rights rights, struct rr_seg *out)
{
	struct ibv_send_wr *wr = &v->chain[v->nchain];
	struct rr_verbs_mw *w;
	int i, mr;

	if (v->nchain >= RR_VERBS_CHAIN)
		return -EAGAIN;
	mr = rr_verbs_mr_use(qp, v, local, len);
	if (mr < 0)
		return mr;
	i = window_get(v);
	if (i < 0) {
		rr_verbs_mr_unuse(v, (uint32_t)mr);
		return i;
	}
	w = &v->mw[i];
	w->mr = (uint8_t)mr;
	/* The key's low byte is ours to change, so an old key opens nothing. */
	w->rkey = ibv_inc_rkey(w->mw->rkey);
	w->live = true;
	w->read = false;
	*wr = (struct ibv_send_wr){
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = w->mw, .rkey = w->rkey, .bind_info = {
			.mr = v->mr[mr].mr, .addr = (uintptr_t)local, .length = len,
			.mw_access_flags = rights == RR_RIGHT_READ ? IBV_ACCESS_REMOTE_READ
								   : IBV_ACCESS_REMOTE_WRITE,
		} },
	};
	v->nchain++;
	*out = (struct rr_seg){ .handle = w->rkey, .length = len, .offset = (uintptr_t)local };
	return 0;
}

/* The window with this key; NULL: none. */
static struct rr_verbs_mw *window_of(struct rr_vq *v, uint32_t handle)
{
	for (uint32_t i = 0; i < v->nmw; i++)
		if (v->mw[i].live && v->mw[i].rkey == handle)
			return &v->mw[i];
	return NULL;
}

/* The window becomes free when the completion of this request is entered (end_up_to() in
 * books.c), not earlier: until then the peer may still use it. */
static int window_invalidate(struct rr_vq *v, uint32_t handle, uint64_t cookie)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = handle };
	const struct rr_verbs_mw *w = window_of(v, handle);

	if (!w)
		return -EINVAL;
	return rr_verbs_post(v, &wr, (struct rr_verbs_wqe){
		.op = RR_WC_INVALIDATE, .window = (uint16_t)(w - v->mw), .cookie = cookie });
}

/* ----------------------------------------------------------------------------------------- */

int rr_verbs_keys_expose(struct rr_qp *qp, const void *local, uint32_t len,
			 enum rr_rights rights, struct rr_seg *out)
{
	struct rr_vq *v = rr_verbs_of(qp);
	int rc = rr_verbs_usable(v);

	if (rc || !v)
		return rc;
	rc = v->windows ? window_expose(qp, v, local, len, rights, out) : -EOPNOTSUPP;
	/* The device has no more windows, so the memory is registered. But a peer that may
	 * invalidate exposures must find a window. */
	if (rc && rc != -EAGAIN)
		rc = v->invite ? short_of(v, -rc) : reg_expose(v, local, len, rights, out);
	if (rc)
		return rc;
	v->short_since = 0;
	if (v->shown < UINT32_MAX)
		v->shown++;
	return 0;
}

int rr_verbs_keys_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie)
{
	struct rr_vq *v = rr_verbs_of(qp);
	int rc = rr_verbs_usable(v);

	/* A registration can be taken back even when the connection is lost. A window cannot,
	 * because that takes a working queue pair. */
	if (v && v->state != RR_V_GONE && !window_of(v, handle))
		return reg_invalidate(v, handle);
	return rc ? rc : window_invalidate(v, handle, cookie);
}

/* The handle comes from a completion. It counts only on a device that is trusted with remote
 * invalidation, and only if it is the key of a live window. */
bool rr_verbs_keys_gone(struct rr_vq *v, uint32_t handle)
{
	const struct rr_verbs_mw *w = v->invite ? window_of(v, handle) : NULL;

	if (w)
		rr_verbs_keys_free_window(v, (uint16_t)(w - v->mw));
	return w;
}

/* See queue.h. */
bool *rr_verbs_keys_mark(struct rr_vq *v, uint32_t handle)
{
	struct rr_verbs_mw *w = window_of(v, handle);

	for (uint32_t i = 0; i < v->nkeys; i++)
		if (v->key[i].mr->rkey == handle)
			return &v->key[i].read;
	return w ? &w->read : NULL;
}

void rr_verbs_keys_read(struct rr_vq *v, uint32_t handle)
{
	bool *read = rr_verbs_keys_mark(v, handle);

	if (read)
		*read = true;
}

/* A trial that is still posted ends with its window: that it succeeds no longer counts. */
void rr_verbs_keys_free(struct rr_vq *v)
{
	v->on_trial = false;
	while (v->nmw)
		ibv_dealloc_mw(v->mw[--v->nmw].mw);
	while (v->nkeys)
		ibv_dereg_mr(v->key[--v->nkeys].mr);
}
