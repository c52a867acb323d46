/* SPDX-License-Identifier: BSD-3-Clause */
/* A provider for tests: a link between two queue pairs of one process, driven step by step,
 * whose chances come from a seed. It is in no product.
 *
 * A post puts an operation into the sender's queue; a step executes some from either queue,
 * touches memory and makes completions; poll() hands those out. With `direct` a post does all
 * of it at once. It is strict where hardware is strict: whatever a device would refuse breaks
 * the link and is counted, so that a test can demand that it never happened. */
#include <errno.h>

#include "core/prov/fake/fake_int.h"

/* The link to which queue pairs that are made now belong. One at a time, in one thread. */
static struct rr_fake_link *current;

/* --- set-up --- */

static size_t fake_qp_size(const struct rr_prov_params *p)
{
	(void)p;
	return sizeof(struct rr_fake_qp);
}

/* Makes memory and receive buffers, and posts all receives. The queues have a fixed size, so
 * too many receives are refused. */
static int fake_set_up(struct rr_qp *qp, const struct rr_prov_params *p)
{
	struct rr_fake_qp *q = rr_fake_of(qp);

	if (p->recvs > FAKE_QUEUE / 2)
		return -EINVAL;
	q->link = current;
	q->bufs = calloc(p->recvs, p->recv_size);
	qp->mem = calloc(1, p->mem_size + 1);
	if (!q->bufs || !qp->mem)
		abort();
	qp->ops = &current->ops;
	qp->mem_size = p->mem_size;
	qp->recv_size = p->recv_size;
	qp->recvs = p->recvs;
	qp->wake_fd = -1;
	for (uint32_t i = 0; i < p->recvs; i++)
		q->posted[q->nposted++] = i;
	return 0;
}

/* The offer is the address of the queue pair, which only this process can use. */
static int fake_prepare(struct rr_qp *qp, const struct rr_prov_params *p,
			struct rr_prov_addr *offer)
{
	struct rr_fake_qp *q = rr_fake_of(qp);

	offer->len = sizeof(q);
	memcpy(offer->bytes, &q, sizeof(q));
	current->end[0] = q;
	return fake_set_up(qp, p);
}

static void join_ends(struct rr_fake_qp *q, struct rr_fake_qp *peer)
{
	q->peer = peer;
	q->qp.send_size = peer->qp.recv_size;
	q->qp.peer_recvs = peer->qp.recvs;
	q->qp.read_piece = q->link->conf.piece;
	q->qp.peer_inv = q->qp.own_inv = q->link->conf.inv;
}

static int fake_answer(struct rr_qp *qp, const struct rr_prov_params *p,
		       const struct rr_prov_addr *offer, struct rr_prov_addr *out)
{
	struct rr_fake_qp *q = rr_fake_of(qp), *peer = current->end[0];
	int rc;

	/* The offer is a peer's bytes: what they point to is only compared. */
	if (!peer || peer->peer || offer->len != sizeof(peer) ||
	    memcmp(offer->bytes, &peer, sizeof(peer)))
		return -ECONNREFUSED;
	rc = fake_set_up(qp, p);
	if (rc)
		return rc;
	out->len = 0;
	current->end[1] = q;
	join_ends(q, peer);
	join_ends(peer, q);
	return 0;
}

/* Both ends may send from here on; before that establish() says that it is too early. */
static int fake_join(struct rr_qp *qp, const struct rr_prov_addr *out)
{
	struct rr_fake_qp *q = rr_fake_of(qp);

	(void)out;
	if (!q->peer)
		return -ECONNREFUSED;
	q->joined = q->peer->joined = true;
	return 0;
}

static int fake_establish(struct rr_qp *qp)
{
	return rr_fake_of(qp)->joined ? 0 : -EAGAIN;
}

static void fake_disconnect(struct rr_qp *qp)
{
	rr_fake_break(rr_fake_of(qp)->link);
}

/* Ends the link for both ends. The other end's structure stays until it is closed as well. */
static void fake_close(struct rr_qp *qp)
{
	struct rr_fake_qp *q = rr_fake_of(qp);

	if (!q->link)
		return;		/* it never came so far */
	rr_fake_break(q->link);
	for (int i = 0; i < 2; i++)
		if (q->link->end[i] == q)
			q->link->end[i] = NULL;
	if (q->peer)
		q->peer->peer = NULL;
	free(q->bufs);
	free(qp->mem);
	qp->mem = NULL;
}

/* --- completions --- */

/* Takes the first completion that is due. */
static bool take_cq(struct rr_fake_qp *q, struct rr_wc *wc)
{
	uint32_t i = 0;

	while (i < q->ncq && q->cq[i].due > q->link->step)
		i++;
	if (i == q->ncq)
		return false;
	rr_fake_has_read(q, &q->cq[i]);
	*wc = q->cq[i].wc;
	memmove(q->cq + i, q->cq + i + 1, (--q->ncq - i) * sizeof(*q->cq));
	return true;
}

/* Takes the oldest message that has arrived; receives keep their order. */
static bool take_rq(struct rr_fake_qp *q, struct rr_wc *wc)
{
	if (q->nrq == 0)
		return false;
	*wc = q->rq[0];
	memmove(q->rq, q->rq + 1, --q->nrq * sizeof(*q->rq));
	return true;
}

/* Receives and completions are mixed by chance, since a device has two queues for them. A lost
 * connection is reported only when nothing is left to take. */
static int fake_poll(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	struct rr_fake_qp *q = rr_fake_of(qp);
	int got = 0;

	if (q->link->conf.eager)
		rr_fake_step(q->link);
	while (got < n) {
		bool rq_first = rr_fake_chance(q->link) % 2;

		if ((rq_first && take_rq(q, &wc[got])) || take_cq(q, &wc[got]) ||
		    take_rq(q, &wc[got]))
			got++;
		else
			break;
	}
	return got || !rr_fake_lost(q) ? got : -ECONNRESET;
}

static void fake_repost(struct rr_qp *qp, uint64_t cookie)
{
	struct rr_fake_qp *q = rr_fake_of(qp);

	/* so that a byte read after this is seen to be wrong */
	if (cookie >= qp->recvs || q->nposted >= qp->recvs)
		abort();	/* given back twice */
	memset(q->bufs + cookie * qp->recv_size, 0xee, qp->recv_size);
	q->posted[q->nposted++] = (uint32_t)cookie;
}

/* --- sleeping: tests do not, they step --- */

static bool fake_peek(const struct rr_qp *qp, enum rr_arm what)
{
	const struct rr_fake_qp *q = container_of(qp, struct rr_fake_qp, qp);

	return rr_fake_lost(q) || q->nrq || q->ncq ||
	       (what & RR_ARM_SEND && rr_fake_window((struct rr_qp *)(uintptr_t)qp));
}

static void fake_kick(struct rr_qp *qp)
{
	(void)qp;
}

static int fake_arm(struct rr_qp *qp, enum rr_arm what)
{
	return fake_peek(qp, what);
}

static int fake_drain(struct rr_qp *qp)
{
	return rr_fake_lost(rr_fake_of(qp)) ? -ECONNRESET : 0;
}

static void fake_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len),
		      void *ctx)
{
	(void)qp;
	(void)used;
	(void)ctx;
}

static const struct rr_prov_ops fake_ops = {
	.name = "fake", .id = RR_PROV_ID_FAKE,
	.qp_size = fake_qp_size, .prepare = fake_prepare, .answer = fake_answer,
	.join = fake_join, .establish = fake_establish, .disconnect = fake_disconnect,
	.close = fake_close, .send = rr_fake_send, .send_imm = rr_fake_send_imm,
	.send_note = rr_fake_send_note,
	.read = rr_fake_read, .write = rr_fake_write, .expose = rr_fake_expose,
	.invalidate = rr_fake_invalidate, .consumed = rr_fake_consumed,
	.consume = rr_fake_consume, .poll = fake_poll, .repost = fake_repost,
	.window = rr_fake_window, .peek = fake_peek, .kick = fake_kick, .arm = fake_arm,
	.disarm = fake_kick, .drain = fake_drain, .trim = fake_trim,
};

void rr_fake_link_init(struct rr_fake_link *l, const struct rr_fake_conf *conf, uint64_t seed)
{
	*l = (struct rr_fake_link){ .ops = fake_ops, .conf = *conf, .rng = seed * 2 + 1 };
	l->ops.caps = (conf->direct ? RR_PROV_DIRECT : 0) | (conf->ring ? RR_PROV_RING : 0) |
		      RR_PROV_FAMILY;
	current = l;
}
