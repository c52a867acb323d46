/* SPDX-License-Identifier: BSD-3-Clause */
/* What core/conn asks of a connection and hears from it: messages, RDMA Reads and Writes,
 * completions. The queues below are post.c's and books.c's. */

#include <errno.h>
#include <sched.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/connections.h"

#ifndef FULL_WAIT
/* A device gives up sooner, except on a peer that says it is not ready. */
#define FULL_WAIT	(10 * RR_SEC)
#endif
#define EVENT_LOOK	(100 * RR_MSEC)

/* IB_WC_WITH_INVALIDATE as the kernel's rxe passes it through; on RC no other device sets this
 * bit. */
#define WC_WITH_INV	(IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK)

/* --- completions ----------------------------------------------------------------------- */

/* Describes a received message. An invalidation counts only if the key belongs to a live window
 * of ours; what else a peer or a driver says of it is ignored. */
static void fill_received(struct rr_qp *qp, struct rr_vq *v, const struct ibv_wc *raw,
			  struct rr_wc *wc)
{
	uint32_t i = (uint32_t)raw->wr_id;

	*wc = (struct rr_wc){
		.op = RR_WC_RECV, .cookie = i, .buf = v->slab + (size_t)i * qp->recv_size,
		.len = rr_min(raw->byte_len, qp->recv_size),
	};
	if (raw->wc_flags & IBV_WC_WITH_IMM) {
		if (qp->native)
			return;		/* RFC 8166 gives immediate data no meaning */
		wc->has_imm = true;
		wc->imm = be32toh(raw->imm_data);
	} else if (raw->wc_flags & WC_WITH_INV && raw->invalidated_rkey) {
		wc->has_inv = rr_verbs_keys_gone(v, raw->invalidated_rkey);
		wc->inv_handle = wc->has_inv ? raw->invalidated_rkey : 0;
	}
}

/* Translates one completion. False: there is nothing to report. */
static bool tell_completion(struct rr_qp *qp, struct rr_vq *v, const struct ibv_wc *raw,
			    struct rr_wc *wc)
{
	if (raw->wr_id & RR_VERBS_RECV) {
		if (raw->status != IBV_WC_SUCCESS)
			return false;
		fill_received(qp, v, raw, wc);
		if (rr_verbs_notes_is_one(qp, v, wc))
			return false;
		v->kept_age++;
		return true;
	}
	*wc = (struct rr_wc){ .op = (enum rr_wc_op)raw->byte_len, .cookie = raw->wr_id,
			      .status = raw->status ? rr_verbs_books_status(raw->status) : 0 };
	if (wc->op == RR_WC_PROBE && raw->status == IBV_WC_RETRY_EXC_ERR)
		wc->status = -ETIMEDOUT;
	return wc->op != RR_WC_SEND;
}

/* A thread that only polls must process the events of CM and device as well, if somewhat
 * later. */
static void look_at_events(struct rr_qp *qp, struct rr_vq *v)
{
	rr_time now = rr_now_coarse();

	if (now - v->cm_seen >= EVENT_LOOK) {
		v->cm_seen = now;
		rr_verbs_cm_events(qp, v);
		if (v->state == RR_V_READY)
			rr_verbs_events_look(v->id->verbs);
	}
	rr_verbs_cm_struck(v);
}

static bool queue_is_full(const struct rr_vq *v)
{
	return v->late_head != v->late_tail || v->slot_head - v->slot_tail == v->sends;
}

/* Ends the connection if the queue has been full for long and nothing leaves it. That is not a
 * slow app at the other end: its device would still have receives. */
static void look_at_full(struct rr_vq *v)
{
	rr_time now;

	if (likely(!queue_is_full(v))) {
		v->full_since = 0;
		return;
	}
	now = rr_now_coarse();
	if (!v->full_since || v->full_tail != v->sq_tail) {
		v->full_since = now;
		v->full_tail = v->sq_tail;
	} else if (now - v->full_since > FULL_WAIT) {
		rr_verbs_fail(v, -ECONNRESET);
	}
}

/* Takes from the CQ and reports, in its order. Storing raw_tail gives places back to
 * rr_verbs_cq_pull() (pairs with its acquire), after the entries have been copied out. */
static int take_completions(struct rr_qp *qp, struct rr_vq *v, struct rr_wc *wc, int n)
{
	uint32_t tail;
	int got = 0;

	if (v->state == RR_V_READY)
		rr_verbs_books_digest(v);
	tail = atomic_load_explicit(&v->raw_tail, memory_order_relaxed);
	for (; got < n && tail != v->raw_seen; tail++)
		got += tell_completion(qp, v, &v->raw[tail & (v->raw_cap - 1)], &wc[got]);
	atomic_store_explicit(&v->raw_tail, tail, memory_order_release);
	return got;
}

/* Errors come last, so that whatever arrived before the connection broke is delivered first:
 * also what has come since the CQ was looked at, since the event that the peer has left shows
 * only afterwards. */
int rr_verbs_traffic_poll(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	struct rr_vq *v = rr_verbs_of(qp);
	int got;

	if (!v || (v->state != RR_V_READY && v->state != RR_V_GONE))
		return v && !v->err ? 0 : -ECONNRESET;
	got = take_completions(qp, v, wc, n);
	rr_verbs_notes_tell_read(qp, v);
	look_at_full(v);
	if (got)
		return got;
	look_at_events(qp, v);
	if (likely(!v->err && !v->lost))
		return 0;
	got = take_completions(qp, v, wc, n);
	return got ? got : v->err ? v->err : -ECONNRESET;
}

/* --- posts ----------------------------------------------------------------------------- */

/* A message takes one of the receives that the peer has told us of, and is counted only if it
 * was posted. A native peer tells of none; there window stays UINT32_MAX. */
int rr_verbs_traffic_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
			  uint32_t inv_handle)
{
	struct rr_vq *v = rr_verbs_of(qp);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	int rc = rr_verbs_usable(v);

	if (!rc && !v->window)
		rc = -EAGAIN;
	if (rc)
		return rc;
	/* Where we do not invalidate its key, the peer does so itself. */
	if (inv_handle && qp->peer_inv && v->can_inv) {
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.invalidate_rkey = inv_handle;
		wr.wr.rdma.rkey = inv_handle;	/* where libsiw looks for it */
	}
	rr_verbs_notes_chain(qp, v);
	rc = rr_verbs_post_send_wr(qp, v, &wr, iov, niov, cookie);
	v->window -= rc >= 0 && !qp->native;
	return rc;
}

int rr_verbs_traffic_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
{
	struct rr_vq *v = rr_verbs_of(qp);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(imm) };
	int rc = rr_verbs_usable(v);

	if (!rc && qp->native)
		rc = -EOPNOTSUPP;
	if (!rc && !v->window)
		rc = -EAGAIN;
	if (rc)
		return rc;
	rc = rr_verbs_post_send_wr(qp, v, &wr, NULL, 0, cookie);
	v->window -= rc >= 0;
	return rc;
}

/* Posts the receive again and counts it as not yet told to the peer. If that fails the
 * connection ends, because from then on the peer would count a receive that is not there. */
void rr_verbs_traffic_repost(struct rr_qp *qp, uint64_t buf_cookie)
{
	struct rr_vq *v = rr_verbs_of(qp);
	int rc;

	if (!v || v->err || v->lost || buf_cookie >= rr_verbs_recvs(qp))
		return;
	rc = rr_verbs_post_recv(qp, v, (uint32_t)buf_cookie);
	if (rc)
		rr_verbs_fail(v, rc);
	if (qp->native)
		return;
	v->untold++;
	rr_verbs_notes_count(qp, v, true);
}

/* Posts one Read or Write between mem and the peer's segment. The local side is checked here;
 * that the peer's side stays within its key is for the peer's device to see. */
static int post_rdma(struct rr_qp *qp, enum ibv_wr_opcode op, const void *local, uint32_t len,
		     const struct rr_seg *seg, uint32_t off, uint64_t cookie)
{
	struct rr_vq *v = rr_verbs_of(qp);
	const uint8_t *p = local;
	struct ibv_sge sge = { .addr = (uintptr_t)p, .length = len };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op };
	bool read = op == IBV_WR_RDMA_READ;
	int rc = rr_verbs_usable(v);
	size_t rest;

	if (rc)
		return rc;
	if (p < qp->mem || len > qp->mem_size || (size_t)(p - qp->mem) > qp->mem_size - len)
		return -EFAULT;
	if (read && !v->depth)
		return -EOPNOTSUPP;
	/* Reads wait for the peer's memory, so they may use only half of the queue. */
	if (read && (v->reads >= v->sq_cap / 2 || !rr_verbs_post_has_room(v, 1)))
		return -EAGAIN;
	/* What else the segment has is likely to be read next, to behind this: it is registered
	 * at once. */
	rest = rr_min((size_t)(seg->length - off), qp->mem_size - (size_t)(p - qp->mem));
	rc = rr_verbs_mr_use(qp, v, p, read ? rr_max(rest, (size_t)len) : len);
	if (rc < 0)
		return rc;
	/* The registration has one user more until the completion. A Read that reaches the end
	 * of the segment notes its handle, for the peer to be told (notes.c). */
	sge.lkey = v->mr[rc].mr->lkey;
	wr.wr.rdma.remote_addr = seg->offset + off;
	wr.wr.rdma.rkey = seg->handle;
	return rr_verbs_post(v, &wr, (struct rr_verbs_wqe){
		.op = read ? RR_WC_READ : RR_WC_WRITE, .cookie = cookie,
		      .mr = (uint8_t)(rc + 1),
		.handle = read && !qp->native && len == seg->length - off ? seg->handle : 0 });
}

int rr_verbs_traffic_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
			  uint32_t off, uint64_t cookie)
{
	return post_rdma(qp, IBV_WR_RDMA_READ, local, len, seg, off, cookie);
}

int rr_verbs_traffic_write(struct rr_qp *qp, const void *local, uint32_t len,
			   const struct rr_seg *seg, uint32_t off, uint64_t cookie)
{
	return post_rdma(qp, IBV_WR_RDMA_WRITE, local, len, seg, off, cookie);
}

/* A Write of zero bytes: the peer's device looks at neither key nor address, and acknowledges
 * it. On iWARP a Write completes as soon as TCP has taken it, so there it is a Read of zero
 * bytes. */
int rr_verbs_traffic_probe(struct rr_qp *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct rr_vq *v = rr_verbs_of(qp);
	struct ibv_sge sge = { 0 };
	int rc = rr_verbs_usable(v);

	if (!rc && !rr_verbs_post_has_room(v, 1))
		rc = -EAGAIN;
	if (rc)
		return rc;
	if (rr_verbs_iwarp(v->id) && v->depth) {
		sge = (struct ibv_sge){ .addr = (uintptr_t)v->slab, .lkey = v->slab_mr->lkey };
		wr.opcode = IBV_WR_RDMA_READ;
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	return rr_verbs_post(v, &wr, (struct rr_verbs_wqe){ .op = RR_WC_PROBE });
}

bool rr_verbs_traffic_settle(struct rr_qp *qp, rr_time most)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct rr_vq *v = rr_verbs_of(qp);
	rr_time end = rr_now() + most;

	if (!v || !rr_verbs_post_unsettled(v))
		return true;
	/* The last one may be unsignaled: a Write of zero bytes after it completes when it
	 * has. */
	if (v->unsignaled && rr_verbs_post(v, &wr,
					   (struct rr_verbs_wqe){ .op = RR_WC_WRITE }) < 0)
		return true;
	do {
		rr_verbs_books_digest(v);
		rr_verbs_cm_events(qp, v);	/* the peer may have left */
		rr_verbs_cm_struck(v);
		sched_yield();
	} while (rr_verbs_post_unsettled(v) && rr_now() < end);
	return !rr_verbs_post_unsettled(v);
}
