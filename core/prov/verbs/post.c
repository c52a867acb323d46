/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts to the send queue and the receive queue: in which order, and what has to wait for room.
 * It does not look at completions (books.c), and never waits itself. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"

/* Posts receive number i, whose buffer is part i of the slab. 0 or -errno; 0 also when the
 * device is gone, where nothing can be posted any more. */
int rr_verbs_post_recv(struct rr_qp *qp, struct rr_vq *v, uint32_t i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(v->slab + (size_t)i * qp->recv_size),
			.length = qp->recv_size,
	};
	struct ibv_recv_wr wr = { .wr_id = RR_VERBS_RECV | i, .sg_list = &sge, .num_sge = 1 },
				*bad;

	if (v->state == RR_V_GONE)
		return 0;
	sge.lkey = v->slab_mr->lkey;
	return -abs(ibv_post_recv(v->id->qp, &wr, &bad));
}

static uint32_t sq_used(const struct rr_vq *v)
{
	return v->sq_head - v->sq_tail;
}

/* How much the send queue takes: less while the trial is posted, which is not in our books. */
static uint32_t sq_room(const struct rr_vq *v)
{
	return v->sq_cap - 2u * v->on_trial;
}

static bool has_send_slot(const struct rr_vq *v)
{
	return v->slot_head - v->slot_tail < v->sends;
}

/* See queue.h. */
bool rr_verbs_post_has_room(const struct rr_vq *v, uint32_t n)
{
	return v->late_head == v->late_tail && sq_used(v) + v->nchain + n <= sq_room(v);
}

uint32_t rr_verbs_post_window(const struct rr_vq *v)
{
	return v->late_head == v->late_tail && has_send_slot(v) ? v->window : 0;
}

/* Gives wr the next number, by which its completion will be known, and enters it. */
static void book(struct rr_vq *v, struct ibv_send_wr *wr, struct rr_verbs_wqe w)
{
	wr->wr_id = v->sq_head;
	w.reads = wr->opcode == IBV_WR_RDMA_READ;
	v->wqe[v->sq_head++ % RR_VERBS_SQ] = w;
	v->reads += w.op == RR_WC_READ;
}

/* Completions cost time, so a Send asks for one only now and then. A send slot is free only
 * when a completion says so; asking after half of the slots leaves time for it to come.
 * Requests of other kinds have a caller who waits for them. */
static void sign(struct rr_vq *v, struct ibv_send_wr *wr, enum rr_wc_op op)
{
	if (op != RR_WC_SEND || ++v->unsignaled >= v->sends / 2) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		v->unsignaled = 0;
	}
}

/* A bind names the window by its old key; once it is posted, the new key is the window's. */
static void note_bound(const struct ibv_send_wr *wr)
{
	if (wr->opcode == IBV_WR_BIND_MW)
		wr->bind_mw.mw->rkey = wr->bind_mw.rkey;
}

/* Posts a refused Send With Invalidate as a plain Send. Some drivers (bnxt_re, ocrdma) lack
 * that operation although their kernel half claims it. Whatever came before it in the chain is
 * posted. The requester finds its key still valid and invalidates it itself. */
static int post_plainly(struct rr_vq *v, struct ibv_send_wr *bad)
{
	if (!bad || bad->opcode != IBV_WR_SEND_WITH_INV)
		return -1;
	v->can_inv = false;
	rr_verbs_device_no_inv(v->id->verbs, true);
	bad->opcode = IBV_WR_SEND;
	return ibv_post_send(v->id->qp, bad, &bad);
}

/* libsiw's errors are negative. It names no request if it has accepted all of them and only the
 * doorbell failed, as happens at the end of a connection. */
static int post_now(struct rr_vq *v, struct ibv_send_wr *first)
{
	struct ibv_send_wr *bad = first;
	int rc = abs(ibv_post_send(v->id->qp, first, &bad));

	if (likely(!rc) || (rc != ENOMEM && !post_plainly(v, bad)))
		return 0;
	rr_verbs_fail(v, -EIO);
	return -EIO;
}

/* Keeps a work request that has no room. How soon the queue moves is the peer's choice, because
 * its device may hold up the oldest request for as long as it likes (RNR, no answer), and
 * nobody waits for that. Requests that have no room are kept in order. Sends of messages stop
 * meanwhile, and only they cause more requests, except for the rest of one message and for keys
 * that are taken back. */
static int keep_late(struct rr_vq *v, const struct ibv_send_wr *wr, struct rr_verbs_wqe w)
{
	struct rr_verbs_late *l;

	if (!v->late) {
		l = mmap(NULL, RR_VERBS_LATE * sizeof(*l), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

/* Puts the chain and wr behind those that wait already. To the caller it makes no difference: a
 * Send counts as posted (1), all else completes later (0). */
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

/* See queue.h. */
void rr_verbs_post_catch_up(struct rr_vq *v)
{
	while (unlikely(v->late_tail != v->late_head) && sq_used(v) < sq_room(v) &&
	       !rr_verbs_usable(v)) {
		struct rr_verbs_late *l = &v->late[v->late_tail++ % RR_VERBS_LATE];

		l->wr.sg_list = &l->sge;
		sign(v, &l->wr, l->w.op);
		book(v, &l->wr, l->w);
		if (post_now(v, &l->wr))
			return;
		note_bound(&l->wr);
		if (v->late_tail == v->late_head)	/* touches little memory */
			v->late_tail = v->late_head = 0;
	}
}

/* See queue.h. What waits in the chain is linked before wr, so the device executes it first. In
 * our books each of those is a Send without a completion. */
int rr_verbs_post(struct rr_vq *v, struct ibv_send_wr *wr, struct rr_verbs_wqe w)
{
	struct ibv_send_wr *first = wr;
	uint32_t n = v->nchain;

	v->slot_head += w.slot;
	if (unlikely(!rr_verbs_post_has_room(v, 1)))
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
		note_bound(&v->chain[i]);
	return w.op == RR_WC_SEND;
}

/* siw refuses a Send With Invalidate whose data are inline (EINVAL). */
static bool may_be_inline(const struct rr_vq *v, const struct ibv_send_wr *wr)
{
	return wr->opcode != IBV_WR_SEND_WITH_INV || !rr_verbs_iwarp(v->id);
}

/* Describes the pieces for the device: where they lie if they go inline, else copied into a
 * slot. In either case the caller may reuse them at once. True: the slot is used. */
static bool gather(struct rr_vq *v, uint8_t *slot, const struct iovec *iov, int niov,
		   size_t len, struct ibv_send_wr *wr)
{
	struct ibv_sge *sge = wr->sg_list;

	if (len <= v->max_inline && niov <= (int)v->max_sge && may_be_inline(v, wr) &&
	    (rr_verbs_post_has_room(v, 1) || !len)) {
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

/* See queue.h. Slots lie behind the receives in the slab; each is as long as a receive of ours,
 * and send_size is never more than that (private.c). */
int rr_verbs_post_send_wr(struct rr_qp *qp, struct rr_vq *v, struct ibv_send_wr *wr,
			  const struct iovec *iov, int niov, uint64_t cookie)
{
	struct rr_verbs_wqe w = { .op = RR_WC_SEND, .cookie = cookie };
	struct ibv_sge sge[RR_VERBS_SGE];
	size_t len = 0;

	for (int i = 0; i < niov; i++)
		len += iov[i].iov_len;
	if (len > qp->send_size)
		return -EMSGSIZE;
	if (len && !has_send_slot(v))
		return -EAGAIN;
	wr->sg_list = sge;
	w.slot = gather(v, v->slab + (size_t)rr_verbs_recvs(qp) * qp->recv_size +
			   (size_t)(v->slot_head % v->sends) * v->param.recv_size,
			iov, niov, len, wr);
	return rr_verbs_post(v, wr, w);
}

bool rr_verbs_post_unsettled(const struct rr_vq *v)
{
	return !rr_verbs_usable(v) && (sq_used(v) || v->late_head != v->late_tail);
}
