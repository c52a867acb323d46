/* SPDX-License-Identifier: BSD-3-Clause */
/* Our books of the send queue. A posted work request has ended when a completion for it, or for
 * a later one, says so. An RDMA Read ends by its own completion only, because siw reports later
 * requests before the data of a Read have arrived. Posting is post.c's, the CQ itself
 * cq.c's. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"

/* Sorts completion codes by who is at fault. Flushed requests and those that nobody has
 * acknowledged mean that the peer is gone. -EACCES: a key of the peer's does not permit what we
 * tried. -EIO: our own device or our own request is at fault. Anything else breaks a rule of
 * the transport. */
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

	/* Indices run freely, so this asks whether seq is outside of [tail, head). A completion
	 * that fits nothing in the queue must not move the indices. */
	if (seq - v->sq_tail >= v->sq_head - v->sq_tail)
		return (struct rr_verbs_wqe){ .op = RR_WC_SEND };
	last->reads = false;
	if (seq - v->sq_tail >= v->sq_done - v->sq_tail)
		v->sq_done = seq + 1;
	/* Places are given back in order only, because numbers and send slots are: a Read in
	 * progress holds up everything behind it. */
	for (; v->sq_tail != v->sq_done; v->sq_tail++) {
		const struct rr_verbs_wqe *w = &v->wqe[v->sq_tail % RR_VERBS_SQ];

		if (w->reads)
			break;
		v->slot_tail += w->slot;
		if (w->op == RR_WC_INVALIDATE)
			rr_verbs_keys_free_window(v, w->window);
		v->reads -= w->op == RR_WC_READ;
		if (w->mr)
			rr_verbs_mr_unuse(v, w->mr - 1u);
		if (w->handle)
			rr_verbs_notes_keep(v, w->handle);
	}
	return *last;
}

/* See queue.h. Only the holder of the connection's lock gets here. Between raw_seen and
 * raw_head nobody else touches the entries, so they can be rewritten where they lie. The
 * acquire pairs with the release in rr_verbs_cq_pull(). */
void rr_verbs_books_digest(struct rr_vq *v)
{
	rr_verbs_cq_pull(v);
	for (; v->raw_seen != atomic_load_explicit(&v->raw_head, memory_order_acquire);
	     v->raw_seen++) {
		struct ibv_wc *raw = &v->raw[v->raw_seen & (v->raw_cap - 1)];
		struct rr_verbs_wqe w;

		/* after an error the entry is still taken off: its memory and its window become
		 * free */
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
