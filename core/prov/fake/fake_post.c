/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts: an operation goes into the sender's queue, or with `direct` is executed at once. */
#include <errno.h>

#include "core/prov/fake/fake_int.h"

static bool in_mem(const struct rr_qp *qp, const void *local, size_t len)
{
	const uint8_t *p = local;

	return p >= qp->mem && p + len <= qp->mem + qp->mem_size;
}

/* Copies pieces that are not registered, since those are the poster's again when the call
 * returns; the result is freed with the operation. Registered pieces are read when the Send is
 * executed: whoever changes them too early is found out. */
static uint8_t *take_pieces(const struct rr_qp *qp, struct iovec *iov, int n)
{
	size_t total = 0;
	uint8_t *copy;

	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	copy = malloc(total + 1);
	if (!copy)
		abort();
	total = 0;
	for (int i = 0; i < n; i++) {
		if (in_mem(qp, iov[i].iov_base, iov[i].iov_len))
			continue;
		memcpy(copy + total, iov[i].iov_base, iov[i].iov_len);
		iov[i].iov_base = copy + total;
		total += iov[i].iov_len;
	}
	return copy;
}

/* Queues the operation, or with `direct` executes it. Results are those of prov.h. Completions
 * count in the limit, so that rr_fake_complete() always has room. */
static int post(struct rr_fake_qp *q, struct fake_wqe *w)
{
	struct fake_wqe *queued;

	if (rr_fake_lost(q))
		return -ECONNRESET;
	if (q->link->conf.direct) {
		w->silent = true;
		rr_fake_run(q, w);
		return q->link->broken ? -ECONNRESET : 1;
	}
	if (q->nsq + q->ncq >= FAKE_QUEUE)
		return -EAGAIN;
	queued = &q->sq[q->nsq++];
	*queued = *w;
	if (w->niov)
		queued->copy = take_pieces(&q->qp, queued->iov, w->niov);
	return 0;
}

/* How many Sends the peer's receives allow, less those that are on their way. */
uint32_t rr_fake_window(struct rr_qp *qp)
{
	struct rr_fake_qp *q = rr_fake_of(qp);
	uint32_t queued = 0;

	if (!q->link->conf.ring)
		return UINT32_MAX;
	if (rr_fake_lost(q))
		return 0;
	for (uint32_t i = 0; i < q->nsq; i++)
		queued += q->sq[i].wc.op == RR_WC_SEND;
	return q->peer->nposted > queued ? q->peer->nposted - queued : 0;
}

static int post_message(struct rr_qp *qp, struct fake_wqe *w)
{
	if (rr_fake_window(qp) == 0)
		return rr_fake_lost(rr_fake_of(qp)) ? -ECONNRESET : -EAGAIN;
	return post(rr_fake_of(qp), w);
}

int rr_fake_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		 uint32_t inv)
{
	struct fake_wqe w = { .wc = { .op = RR_WC_SEND, .cookie = cookie, .inv_handle = inv } };

	for (; w.niov < niov && w.niov < FAKE_IOVS; w.niov++)
		w.iov[w.niov] = iov[w.niov];
	return post_message(qp, &w);
}

int rr_fake_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
{
	struct fake_wqe w = { .wc = { .op = RR_WC_SEND, .cookie = cookie, .imm = imm,
				      .has_imm = true } };

	return post_message(qp, &w);
}

int rr_fake_send_note(struct rr_qp *qp, uint32_t imm, const void *note, uint32_t len)
{
	struct fake_wqe w = { .wc = { .op = RR_WC_SEND, .imm = imm, .has_imm = true },
			      .iov = { { (void *)(uintptr_t)note, len } }, .niov = 1 };

	return post_message(qp, &w);
}

/* Local memory must be registered, but for `direct`, as prov.h has it. */
static int fake_rdma(struct rr_qp *qp, enum rr_wc_op op, void *local, uint32_t len,
		     const struct rr_seg *seg, uint32_t off, uint64_t cookie)
{
	struct fake_wqe w = { .wc = { .op = op, .cookie = cookie }, .local = local, .len = len,
			      .off = off, .seg = *seg };

	if (!rr_fake_of(qp)->link->conf.direct && !in_mem(qp, local, len))
		return -EFAULT;	/* not registered */
	return post(rr_fake_of(qp), &w);
}

int rr_fake_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		 uint32_t off, uint64_t cookie)
{
	return fake_rdma(qp, RR_WC_READ, local, len, seg, off, cookie);
}

int rr_fake_write(struct rr_qp *qp, const void *local, uint32_t len, const struct rr_seg *seg,
		  uint32_t off, uint64_t cookie)
{
	return fake_rdma(qp, RR_WC_WRITE, (void *)(uintptr_t)local, len, seg, off, cookie);
}

/* As on shm while the peer copies: the key is dead at once, so the peer can begin nothing any
 * more, but the completion comes later. */
static int invalidate_later(struct rr_fake_qp *q, struct fake_wqe *w)
{
	if (q->ncq == FAKE_QUEUE)
		return -EAGAIN;
	rr_fake_run(q, w);
	rr_fake_complete(q, w);
	return q->link->broken ? -ECONNRESET : 0;
}

int rr_fake_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie)
{
	struct fake_wqe w = { .wc = { .op = RR_WC_INVALIDATE, .cookie = cookie,
				      .inv_handle = handle } };
	struct rr_fake_qp *q = rr_fake_of(qp);

	if (q->link->conf.direct && q->link->conf.delay && !rr_fake_lost(q) &&
	    rr_fake_chance(q->link) % 4 == 0)
		return invalidate_later(q, &w);
	return post(q, &w);
}
