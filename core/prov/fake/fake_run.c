/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes what was posted: bytes move, receives fill up, completions are made. */
#include "core/prov/fake/fake_int.h"

/* Executes a Send: the oldest posted receive takes it. Without a receive, or with one that is
 * too short, a device would end the connection, too. Send With Invalidate ends the key at the
 * peer before the receive is seen. */
static void run_send(struct rr_fake_qp *q, struct fake_wqe *w)
{
	struct rr_fake_qp *to = q->peer;
	uint32_t buf, len = 0;
	uint8_t *at;

	if (to->nposted == 0) {
		q->link->rnr++;
		rr_fake_break(q->link);
		return;
	}
	buf = to->posted[0];
	memmove(to->posted, to->posted + 1, --to->nposted * sizeof(*to->posted));
	at = to->bufs + (size_t)buf * to->qp.recv_size;
	for (int i = 0; i < w->niov; i++) {
		if (len + w->iov[i].iov_len > to->qp.recv_size) {
			rr_fake_violate(q);
			return;
		}
		memcpy(at + len, w->iov[i].iov_base, w->iov[i].iov_len);
		len += (uint32_t)w->iov[i].iov_len;
	}
	if (w->wc.inv_handle)
		rr_fake_kill_key(to, w->wc.inv_handle);
	to->rq[to->nrq++] = (struct rr_wc){
		.op = RR_WC_RECV, .cookie = buf, .buf = at, .len = len, .imm = w->wc.imm,
		.has_imm = w->wc.has_imm, .has_inv = w->wc.inv_handle,
			   .inv_handle = w->wc.inv_handle,
	};
}

/* Executes an operation: bytes move now, whenever its completion shows. */
void rr_fake_run(struct rr_fake_qp *q, struct fake_wqe *w)
{
	uint8_t *at;

	switch (w->wc.op) {
	case RR_WC_SEND:
		run_send(q, w);
		break;
	case RR_WC_READ:
		at = rr_fake_reach(q, w, RR_RIGHT_READ);
		if (at)
			memcpy(w->local, at, w->len);
		break;
	case RR_WC_WRITE:
		at = rr_fake_reach(q, w, RR_RIGHT_WRITE);
		if (at)
			memcpy(at, w->local, w->len);
		break;
	default:
		rr_fake_kill_key(q, w->wc.inv_handle);
		break;
	}
}

/* Gives the operation a completion that shows after a random number of steps. Without `reorder`
 * none shows before an earlier one. */
void rr_fake_complete(struct rr_fake_qp *q, struct fake_wqe *w)
{
	struct rr_fake_link *l = q->link;

	if (l->broken || w->silent)
		return;
	w->due = l->step + (l->conf.delay ? rr_fake_chance(l) % (l->conf.delay + 1) : 0);
	if (!l->conf.reorder && q->ncq && w->due < q->cq[q->ncq - 1].due)
		w->due = q->cq[q->ncq - 1].due;
	q->cq[q->ncq++] = *w;
}

/* The next operation of q: the oldest. With `reorder` a Read may be passed by what follows it,
 * as on a device, where only the order of Sends and Writes is kept. */
static uint32_t pick_wqe(struct rr_fake_qp *q)
{
	uint32_t i = 0;

	while (q->link->conf.reorder && i + 1 < q->nsq && q->sq[i].wc.op == RR_WC_READ &&
	       rr_fake_chance(q->link) % 2)
		i++;
	return i;
}

/* Takes an operation out of the queue before it runs, because it may break the link, which
 * empties the queue. */
static void execute(struct rr_fake_qp *q)
{
	uint32_t i = pick_wqe(q);
	struct fake_wqe w = q->sq[i];

	memmove(q->sq + i, q->sq + i + 1, (--q->nsq - i) * sizeof(*q->sq));
	rr_fake_run(q, &w);
	free(w.copy);
	rr_fake_complete(q, &w);
}

/* Four operations at most, each of an end that is drawn: so the ends advance at different
 * paces. */
void rr_fake_step(struct rr_fake_link *l)
{
	l->step++;
	if (l->break_at && l->step >= l->break_at)
		rr_fake_break(l);
	for (int n = 0; n < 4 && !l->broken; n++) {
		struct rr_fake_qp *q = l->end[rr_fake_chance(l) % 2];

		if (q && q->nsq)
			execute(q);
	}
}
