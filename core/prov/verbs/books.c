/* SPDX-License-Identifier: BSD-3-Clause */
/* Our books of the send queue. A posted work request has ended when a completion for it, or for
 * a later one, says so. An RDMA Read ends by its own completion only, because siw reports later
 * requests before the data of a Read have arrived. Posting is post.c's, the CQ itself
 * cq.c's. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"

/* See queue.h. */
int rr_verbs_books_status(enum ibv_wc_status s)
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

/* The work request with this number has ended, and with it everything before it except RDMA
 * Reads in progress. Returns its entry. */
static struct rr_verbs_wqe end_up_to(struct rr_vq *v, uint32_t seq)
{
	struct rr_verbs_wqe *last = &v->wqe[seq % RR_VERBS_SQ];

	if (seq - v->sq_tail >= v->sq_head - v->sq_tail)
		return (struct rr_verbs_wqe){ .op = RR_WC_SEND };
	last->reads = false;
	if (seq - v->sq_tail >= v->sq_done - v->sq_tail)
		v->sq_done = seq + 1;
	for (; v->sq_tail != v->sq_done; v->sq_tail++) {
		const struct rr_verbs_wqe *w = &v->wqe[v->sq_tail % RR_VERBS_SQ];

		if (w->reads)
			break;
		v->slot_tail += w->slot;
		if (w->op == RR_WC_INVALIDATE)
			rr_verbs_keys_free_window(v, w->window);
		v->reads -= w->op == RR_WC_READ;
		if (w->mr)
			rr_verbs_mem_unuse(v, w->mr - 1u);
		if (w->handle)
			rr_verbs_notes_keep(v, w->handle);
	}
	return *last;
}

void rr_verbs_books_digest(struct rr_vq *v)
{
	rr_verbs_cq_pull(v);
	for (; v->raw_seen != atomic_load_explicit(&v->raw_head, memory_order_acquire);
	     v->raw_seen++) {
		struct ibv_wc *raw = &v->raw[v->raw_seen & (v->raw_cap - 1)];
		struct rr_verbs_wqe w;

		if (raw->status != IBV_WC_SUCCESS)
			rr_verbs_fail(v, rr_verbs_books_status(raw->status));
		if (raw->wr_id & RR_VERBS_RECV)
			continue;
		if (unlikely(raw->wr_id & RR_VERBS_PROOF)) {
			rr_verbs_prove_result(v, raw);
			raw->byte_len = RR_WC_SEND;	/* nobody is told */
			continue;
		}
		w = end_up_to(v, (uint32_t)raw->wr_id);
		raw->wr_id = w.cookie;
		raw->byte_len = w.op;
	}
	rr_verbs_post_catch_up(v);
}
