/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts and completions. */
#include <errno.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/verbs_int.h"

#define RECV_ID		(UINT64_C(1) << 63)	/* wr_id of a receive; below it the buffer */
#ifndef FULL_WAIT
#define FULL_WAIT	(10 * RR_SEC)	/* a device gives up sooner, but not on a peer that says it is not ready */
#endif
#define CM_LOOK		(100 * RR_MSEC)

/* IB_WC_WITH_INVALIDATE as the kernel's rxe hands it through; elsewhere on RC this bit is not set. */
#define WC_WITH_INV	(IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK)

/* --- completions ----------------------------------------------------------------------- */

/* What a failed work request says of the connection: gone, our device could not, or one of us has broken a rule. */
static int status_err(enum ibv_wc_status s)
{
	switch (s) {
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
	case IBV_WC_REM_ABORT_ERR:
		return -ECONNRESET;
	case IBV_WC_REM_ACCESS_ERR:
		return -EACCES;
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_FATAL_ERR:
	case IBV_WC_GENERAL_ERR:
		return -EIO;
	default:
		return -EPROTO;
	}
}

/* Everything up to the work request with this number has ended. */
static struct rr_verbs_wqe ended(struct rr_vq *v, uint32_t seq)
{
	struct rr_verbs_wqe last = v->wqe[seq % RR_VERBS_SQ];

	if (seq - v->sq_tail >= v->sq_head - v->sq_tail)
		return (struct rr_verbs_wqe){ .op = RR_WC_SEND };
	for (; v->sq_tail != seq + 1; v->sq_tail++) {
		const struct rr_verbs_wqe *w = &v->wqe[v->sq_tail % RR_VERBS_SQ];

		v->slot_tail += w->slot;
		if (w->op == RR_WC_INVALIDATE)
			rr_verbs_window_free(v, w->window);
		v->reads -= w->op == RR_WC_READ;
		if (w->mr)
			rr_verbs_mem_unuse(v, w->mr - 1u);
		if (w->handle)
			rr_verbs_keep(v, w->handle);
	}
	return last;
}

static void catch_up(struct rr_vq *v);

void rr_verbs_digest(struct rr_vq *v)
{
	rr_verbs_pull(v);
	for (; v->raw_seen != atomic_load_explicit(&v->raw_head, memory_order_acquire);
	     v->raw_seen++) {
		struct ibv_wc *raw = &v->raw[v->raw_seen & (v->raw_cap - 1)];
		struct rr_verbs_wqe w;

		if (raw->status != IBV_WC_SUCCESS)
			rr_verbs_fail(v, status_err(raw->status));
		if (raw->wr_id & RECV_ID)
			continue;
		if (unlikely(raw->wr_id & RR_VERBS_PROOF)) {
			rr_verbs_proof(v, raw);
			raw->byte_len = RR_WC_SEND;	/* nobody is told */
			continue;
		}
		w = ended(v, (uint32_t)raw->wr_id);
		raw->wr_id = w.cookie;
		raw->byte_len = w.op;
	}
	catch_up(v);
}

static void received(struct rr_qp *qp, struct rr_vq *v, const struct ibv_wc *raw, struct rr_wc *wc)
{
	uint32_t i = (uint32_t)raw->wr_id;

	*wc = (struct rr_wc){
		.op = RR_WC_RECV, .cookie = i, .buf = v->slab + (size_t)i * qp->recv_size,
		.len = rr_min(raw->byte_len, qp->recv_size),
	};
	if (raw->wc_flags & IBV_WC_WITH_IMM) {
		if (qp->native)
			return;		/* RFC 8166 has none */
		wc->has_imm = true;
		wc->imm = be32toh(raw->imm_data);
	} else if (raw->wc_flags & WC_WITH_INV && raw->invalidated_rkey) {
		wc->has_inv = rr_verbs_key_gone(v, raw->invalidated_rkey);
		wc->inv_handle = wc->has_inv ? raw->invalidated_rkey : 0;
	}
}

/* One completion; false: it is nothing to be told. */
static bool tell(struct rr_qp *qp, struct rr_vq *v, const struct ibv_wc *raw, struct rr_wc *wc)
{
	if (raw->wr_id & RECV_ID) {
		if (raw->status != IBV_WC_SUCCESS)
			return false;
		received(qp, v, raw, wc);
		if (rr_verbs_is_note(qp, v, wc))
			return false;
		v->kept_age++;
		return true;
	}
	*wc = (struct rr_wc){ .op = (enum rr_wc_op)raw->byte_len, .cookie = raw->wr_id,
			      .status = raw->status ? status_err(raw->status) : 0 };
	if (wc->op == RR_WC_PROBE && raw->status == IBV_WC_RETRY_EXC_ERR)
		wc->status = -ETIMEDOUT;
	return wc->op != RR_WC_SEND;
}

/* Who never sleeps hears of the CM's events too, if later. */
static void look_at_cm(struct rr_qp *qp, struct rr_vq *v)
{
	rr_time now = rr_now_coarse();

	if (now - v->cm_seen < CM_LOOK)
		return;
	v->cm_seen = now;
	rr_verbs_cm_events(qp, v);
}

static bool is_full(const struct rr_vq *v)
{
	return v->late_head != v->late_tail || v->slot_head - v->slot_tail == v->sends;
}

/* Full, and nothing leaves: that is no slow app at the other end, which has receives all the same. */
static void look_at_full(struct rr_vq *v)
{
	rr_time now;

	if (likely(!is_full(v))) {
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

int rr_verbs_poll(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	struct rr_vq *v = rr_verbs_of(qp);
	uint32_t tail;
	int got = 0;

	if (!v || (v->state != RR_V_READY && v->state != RR_V_GONE))
		return v && !v->err ? 0 : -ECONNRESET;
	if (v->state == RR_V_READY)
		rr_verbs_digest(v);
	tail = atomic_load_explicit(&v->raw_tail, memory_order_relaxed);
	for (; got < n && tail != v->raw_seen; tail++)
		got += tell(qp, v, &v->raw[tail & (v->raw_cap - 1)], &wc[got]);
	atomic_store_explicit(&v->raw_tail, tail, memory_order_release);
	rr_verbs_tell_read(qp, v);
	look_at_full(v);
	if (got)
		return got;
	look_at_cm(qp, v);
	return v->err ? v->err : v->lost ? -ECONNRESET : 0;
}

/* --- receives -------------------------------------------------------------------------- */

int rr_verbs_post_recv(struct rr_qp *qp, struct rr_vq *v, uint32_t i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(v->slab + (size_t)i * qp->recv_size), .length = qp->recv_size,
	};
	struct ibv_recv_wr wr = { .wr_id = RECV_ID | i, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (v->state == RR_V_GONE)
		return 0;
	sge.lkey = v->slab_mr->lkey;
	return -ibv_post_recv(v->id->qp, &wr, &bad);
}

/* --- posts ----------------------------------------------------------------------------- */

static uint32_t sq_used(const struct rr_vq *v)
{
	return v->sq_head - v->sq_tail;
}

/* What the send queue takes: less, as long as the trial is there, which is in no books. */
static uint32_t sq_room(const struct rr_vq *v)
{
	return v->sq_cap - 2u * v->on_trial;
}

static bool slot_free(const struct rr_vq *v)
{
	return v->slot_head - v->slot_tail < v->sends;
}

/* Room for n more, and nothing that stands before them. */
static bool has_room(const struct rr_vq *v, uint32_t n)
{
	return v->late_head == v->late_tail && sq_used(v) + v->nchain + n <= sq_room(v);
}

uint32_t rr_verbs_window(const struct rr_vq *v)
{
	return v->late_head == v->late_tail && slot_free(v) ? v->window : 0;
}

static void book(struct rr_vq *v, struct ibv_send_wr *wr, struct rr_verbs_wqe w)
{
	wr->wr_id = v->sq_head;
	v->wqe[v->sq_head++ % RR_VERBS_SQ] = w;
	v->reads += w.op == RR_WC_READ;
}

static void sign(struct rr_vq *v, struct ibv_send_wr *wr, enum rr_wc_op op)
{
	if (op != RR_WC_SEND || ++v->unsignaled >= v->sends / 2) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		v->unsignaled = 0;
	}
}

/* A bind names the window by its old key; from now on this is the old one. */
static void bound(const struct ibv_send_wr *wr)
{
	if (wr->opcode == IBV_WR_BIND_MW)
		wr->bind_mw.mw->rkey = wr->bind_mw.rkey;
}

/* Some drivers (bnxt_re, ocrdma) have no Send With Invalidate, though their kernel half says so. What came before it in
 * the chain is posted. The requester that is not told finds its key as it was, and invalidates it itself. */
static int post_plainly(struct rr_vq *v, struct ibv_send_wr *bad)
{
	if (bad->opcode != IBV_WR_SEND_WITH_INV)
		return -1;
	v->can_inv = false;
	rr_verbs_no_inv(v->id->verbs, true);
	bad->opcode = IBV_WR_SEND;
	return ibv_post_send(v->id->qp, bad, &bad);
}

static int post_now(struct rr_vq *v, struct ibv_send_wr *first)
{
	struct ibv_send_wr *bad = first;
	int rc = ibv_post_send(v->id->qp, first, &bad);

	if (likely(!rc) || (rc != ENOMEM && !post_plainly(v, bad)))
		return 0;
	rr_verbs_fail(v, -EIO);
	return -EIO;
}

/* Whose data the queue can take now is the peer's choice: its device may keep the oldest work request for as long as
 * it likes (RNR, no answer). Nobody waits for that. What has no room is kept here, in its order, and Sends of messages
 * stop, which are all that makes more of it, but for what one message takes and keys that are taken back. */
static int keep_late(struct rr_vq *v, const struct ibv_send_wr *wr, struct rr_verbs_wqe w)
{
	struct rr_verbs_late *l;

	if (!v->late) {
		l = mmap(NULL, RR_VERBS_LATE * sizeof(*l), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		v->late = l == MAP_FAILED ? NULL : l;
	}
	if (!v->late || v->late_head - v->late_tail == RR_VERBS_LATE) {
		rr_verbs_fail(v, -ECONNRESET);
		return v->err;
	}
	l = &v->late[v->late_head++ % RR_VERBS_LATE];
	*l = (struct rr_verbs_late){ .wr = *wr, .w = w };
	l->wr.next = NULL;
	if (wr->num_sge)
		l->sge = wr->sg_list[0];
	return 0;
}

static int post_late(struct rr_vq *v, const struct ibv_send_wr *wr, struct rr_verbs_wqe w)
{
	uint32_t n = v->nchain;
	int rc = 0;

	v->nchain = 0;
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = keep_late(v, &v->chain[i], (struct rr_verbs_wqe){ .op = RR_WC_SEND });
	if (!rc)
		rc = keep_late(v, wr, w);
	return rc ? rc : w.op == RR_WC_SEND;
}

/* What was kept, as far as there is room. */
static void catch_up(struct rr_vq *v)
{
	while (unlikely(v->late_tail != v->late_head) && sq_used(v) < sq_room(v) && !rr_verbs_usable(v)) {
		struct rr_verbs_late *l = &v->late[v->late_tail++ % RR_VERBS_LATE];

		l->wr.sg_list = &l->sge;
		sign(v, &l->wr, l->w.op);
		book(v, &l->wr, l->w);
		if (post_now(v, &l->wr))
			return;
		bound(&l->wr);
		if (v->late_tail == v->late_head)	/* touches little memory */
			v->late_tail = v->late_head = 0;
	}
}

int rr_verbs_post(struct rr_vq *v, struct ibv_send_wr *wr, struct rr_verbs_wqe w)
{
	struct ibv_send_wr *first = wr;
	uint32_t n = v->nchain;

	v->slot_head += w.slot;
	if (unlikely(!has_room(v, 1)))
		return post_late(v, wr, w);
	for (uint32_t i = 0; i < n; i++) {
		book(v, &v->chain[i], (struct rr_verbs_wqe){ .op = RR_WC_SEND });
		v->chain[i].next = i + 1 < n ? &v->chain[i + 1] : wr;
		first = v->chain;
	}
	v->unsignaled += n;
	v->nchain = 0;
	sign(v, wr, w.op);
	book(v, wr, w);
	if (post_now(v, first))
		return -EIO;
	for (uint32_t i = 0; i < n; i++)
		bound(&v->chain[i]);
	return w.op == RR_WC_SEND;
}

/* The pieces as the device shall take them: from where they are if they go inline, otherwise
 * copied into a slot. They are the caller's again at once in either case. */
static bool gather(struct rr_vq *v, uint8_t *slot, const struct iovec *iov, int niov, size_t len,
		   struct ibv_send_wr *wr)
{
	struct ibv_sge *sge = wr->sg_list;

	if (len <= v->max_inline && niov <= (int)v->max_sge && (has_room(v, 1) || !len)) {
		for (int i = 0; i < niov; i++)
			sge[i] = (struct ibv_sge){ .addr = (uintptr_t)iov[i].iov_base,
						   .length = (uint32_t)iov[i].iov_len };
		wr->num_sge = len ? niov : 0;
		wr->send_flags = IBV_SEND_INLINE;
		return false;
	}
	sge[0] = (struct ibv_sge){ .addr = (uintptr_t)slot, .length = (uint32_t)len,
				   .lkey = v->slab_mr->lkey };
	for (int i = 0; i < niov; i++) {
		memcpy(slot, iov[i].iov_base, iov[i].iov_len);
		slot += iov[i].iov_len;
	}
	wr->num_sge = 1;
	return true;
}

int rr_verbs_send_wr(struct rr_qp *qp, struct rr_vq *v, struct ibv_send_wr *wr,
		     const struct iovec *iov, int niov, uint64_t cookie)
{
	struct rr_verbs_wqe w = { .op = RR_WC_SEND, .cookie = cookie };
	struct ibv_sge sge[RR_VERBS_SGE];
	size_t len = 0;

	for (int i = 0; i < niov; i++)
		len += iov[i].iov_len;
	if (len > qp->send_size)
		return -EMSGSIZE;
	if (len && !slot_free(v))
		return -EAGAIN;
	wr->sg_list = sge;
	w.slot = gather(v, v->slab + (size_t)rr_verbs_recvs(qp) * qp->recv_size +
			   (size_t)(v->slot_head % v->sends) * v->param.recv_size,
			iov, niov, len, wr);
	return rr_verbs_post(v, wr, w);
}

int rr_verbs_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		  uint32_t inv_handle)
{
	struct rr_vq *v = rr_verbs_of(qp);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	int rc = rr_verbs_usable(v);

	if (!rc && !v->window)
		rc = -EAGAIN;
	if (rc)
		return rc;
	if (inv_handle && qp->peer_inv && v->can_inv) {	/* otherwise the peer does it itself */
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.invalidate_rkey = inv_handle;
		wr.wr.rdma.rkey = inv_handle;	/* where libsiw looks for it */
	}
	rr_verbs_note_chain(qp, v);
	rc = rr_verbs_send_wr(qp, v, &wr, iov, niov, cookie);
	v->window -= rc >= 0 && !qp->native;
	return rc;
}

int rr_verbs_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
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
	rc = rr_verbs_send_wr(qp, v, &wr, NULL, 0, cookie);
	v->window -= rc >= 0;
	return rc;
}

void rr_verbs_repost(struct rr_qp *qp, uint64_t buf_cookie)
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
	rr_verbs_note_count(qp, v, true);
}

static int rdma(struct rr_qp *qp, enum ibv_wr_opcode op, const void *local, uint32_t len,
		const struct rr_seg *seg, uint32_t off, uint64_t cookie)
{
	struct rr_vq *v = rr_verbs_of(qp);
	const uint8_t *p = local;
	struct ibv_sge sge = { .addr = (uintptr_t)p, .length = len };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op };
	bool read = op == IBV_WR_RDMA_READ;
	int rc = rr_verbs_usable(v);

	if (rc)
		return rc;
	if (p < qp->mem || len > qp->mem_size || (size_t)(p - qp->mem) > qp->mem_size - len)
		return -EFAULT;
	if (read && !v->depth)
		return -EOPNOTSUPP;
	/* Reads wait for the peer's memory: half of the queue is theirs. */
	if (read && (v->reads >= v->sq_cap / 2 || !has_room(v, 1)))
		return -EAGAIN;
	rc = rr_verbs_mem_use(qp, v, p, len);
	if (rc < 0)
		return rc;
	sge.lkey = v->mr[rc].mr->lkey;
	wr.wr.rdma.remote_addr = seg->offset + off;
	wr.wr.rdma.rkey = seg->handle;
	return rr_verbs_post(v, &wr, (struct rr_verbs_wqe){
		.op = read ? RR_WC_READ : RR_WC_WRITE, .cookie = cookie, .mr = (uint8_t)(rc + 1),
		.handle = read && !qp->native && len == seg->length - off ? seg->handle : 0 });
}

int rr_verbs_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		  uint32_t off, uint64_t cookie)
{
	return rdma(qp, IBV_WR_RDMA_READ, local, len, seg, off, cookie);
}

int rr_verbs_write(struct rr_qp *qp, const void *local, uint32_t len, const struct rr_seg *seg,
		   uint32_t off, uint64_t cookie)
{
	return rdma(qp, IBV_WR_RDMA_WRITE, local, len, seg, off, cookie);
}

/* A Write of no bytes: the peer's device looks at neither key nor address, and answers. Not so on iWARP, where a Write has
 * ended when TCP has taken it: there it is a Read of no bytes. */
int rr_verbs_probe(struct rr_qp *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct rr_vq *v = rr_verbs_of(qp);
	struct ibv_sge sge = { 0 };
	int rc = rr_verbs_usable(v);

	if (!rc && !has_room(v, 1))
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

bool rr_verbs_unsettled(const struct rr_vq *v)
{
	return !rr_verbs_usable(v) && (sq_used(v) || v->late_head != v->late_tail);
}

bool rr_verbs_settle(struct rr_qp *qp, rr_time most)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct rr_vq *v = rr_verbs_of(qp);
	rr_time end = rr_now() + most;

	if (!v || !rr_verbs_unsettled(v))
		return true;
	/* The last one may be unsignaled: a Write of no bytes behind it tells. */
	if (v->unsignaled && rr_verbs_post(v, &wr, (struct rr_verbs_wqe){ .op = RR_WC_WRITE }) < 0)
		return true;
	do {
		rr_verbs_digest(v);
		rr_verbs_cm_events(qp, v);	/* the peer may have left first */
		sched_yield();
	} while (rr_verbs_unsettled(v) && rr_now() < end);
	return !rr_verbs_unsettled(v);
}
