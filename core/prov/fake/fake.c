/* SPDX-License-Identifier: BSD-3-Clause */
/* A provider for tests: a link between two queue pairs of one process, driven step by step,
 * whose chances come from a seed. It is in no product.
 *
 * A post puts an operation into the sender's queue; a step executes some from either queue,
 * touches memory and makes completions; poll() hands those out. With `direct` a post does all
 * of it at once. It is strict where hardware is strict: whatever a device would refuse breaks
 * the link and is counted, so that a test can demand that it never happened. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/prov/fake/fake.h"

#define KEYS	256u
#define QUEUE	512u
#define IOVS	32

struct fake_key {
	uint32_t handle;
	uint32_t len;
	const uint8_t *local;
	uint64_t base;		/* offset of its first byte, as the peer names it */
	uint64_t read;		/* bytes that the peer has read, and knows it; direct: all, once
				 * it reads no more */
	enum rr_rights rights;
	bool live;
};

/* A posted operation, and later its completion. */
struct fake_wqe {
	struct rr_wc wc;
	uint64_t due;		/* the completion shows from this step on */
	bool silent;		/* done inside the post call: no completion */
	struct iovec iov[IOVS];
	int niov;
	uint8_t *copy;		/* of pieces that the poster gets back at once */
	void *local;
	uint32_t len, off;
	struct rr_seg seg;
};

struct rr_fake_qp {
	struct rr_qp qp;
	struct rr_fake_link *link;
	struct rr_fake_qp *peer;
	bool joined;		/* the offering side has decided */
	uint8_t *bufs;
	struct fake_key keys[KEYS];
	uint32_t next_key;
	/* posted: executed in order, except Reads, which may linger */
	struct fake_wqe sq[QUEUE], cq[QUEUE];
	uint32_t nsq, ncq;
	/* receives */
	uint32_t posted[QUEUE], nposted;
	struct rr_wc rq[QUEUE];
	uint32_t nrq;
};

/* The link to which queue pairs that are made now belong. One at a time, in one thread. */
static struct rr_fake_link *current;

static struct rr_fake_qp *fake_of(struct rr_qp *qp)
{
	return container_of(qp, struct rr_fake_qp, qp);
}

/* The next random number of the link (xorshift). Everything that is left to chance is drawn
 * from here, so a seed repeats a run exactly. */
static uint64_t chance(struct rr_fake_link *l)
{
	l->rng ^= l->rng << 13;
	l->rng ^= l->rng >> 7;
	l->rng ^= l->rng << 17;
	return l->rng;
}

/* Is the connection over for q: broken, or its peer gone? */
static bool is_lost(const struct rr_fake_qp *q)
{
	return q->link->broken || !q->peer;
}

/* What was posted or has completed is lost, as on a device. Receives that have arrived stay,
 * and are still handed out by poll(). */
void rr_fake_break(struct rr_fake_link *l)
{
	l->broken = true;
	for (int i = 0; i < 2; i++) {
		struct rr_fake_qp *q = l->end[i];

		for (uint32_t k = 0; q && k < q->nsq; k++)
			free(q->sq[k].copy);
		if (q)
			q->nsq = q->ncq = 0;
	}
}

/* --- set-up ---------------------------------------------------------------------------- */

static size_t fake_qp_size(const struct rr_prov_params *p)
{
	(void)p;
	return sizeof(struct rr_fake_qp);
}

/* Makes memory and receive buffers, and posts all receives. The queues have a fixed size, so
 * too many receives are refused. */
static int fake_set_up(struct rr_qp *qp, const struct rr_prov_params *p)
{
	struct rr_fake_qp *q = fake_of(qp);

	if (p->recvs > QUEUE / 2)
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
static int prepare(struct rr_qp *qp, const struct rr_prov_params *p, struct rr_prov_addr *offer)
{
	struct rr_fake_qp *q = fake_of(qp);

	offer->len = sizeof(q);
	memcpy(offer->bytes, &q, sizeof(q));
	current->end[0] = q;
	return fake_set_up(qp, p);
}

static void join_to(struct rr_fake_qp *q, struct rr_fake_qp *peer)
{
	q->peer = peer;
	q->qp.send_size = peer->qp.recv_size;
	q->qp.peer_recvs = peer->qp.recvs;
	q->qp.peer_inv = q->qp.own_inv = q->link->conf.inv;
}

static int fake_answer(struct rr_qp *qp, const struct rr_prov_params *p,
		       const struct rr_prov_addr *offer, struct rr_prov_addr *out)
{
	struct rr_fake_qp *q = fake_of(qp), *peer = current->end[0];
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
	join_to(q, peer);
	join_to(peer, q);
	return 0;
}

/* Both ends may send from here on; before that establish() says that it is too early. */
static int fake_join(struct rr_qp *qp, const struct rr_prov_addr *out)
{
	struct rr_fake_qp *q = fake_of(qp);

	(void)out;
	if (!q->peer)
		return -ECONNREFUSED;
	q->joined = q->peer->joined = true;
	return 0;
}

static int establish(struct rr_qp *qp)
{
	return fake_of(qp)->joined ? 0 : -EAGAIN;
}

static void fake_disconnect(struct rr_qp *qp)
{
	rr_fake_break(fake_of(qp)->link);
}

/* Ends the link for both ends. The other end's structure stays until it is closed as well. */
static void close_qp(struct rr_qp *qp)
{
	struct rr_fake_qp *q = fake_of(qp);

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

/* --- keys ------------------------------------------------------------------------------ */

/* The live key with this handle. Its low bits are the key's place, the others are random: so a
 * handle of an earlier exposure finds nothing. */
static struct fake_key *key_find(struct rr_fake_qp *q, uint32_t handle)
{
	struct fake_key *k = &q->keys[handle % KEYS];

	return k->live && k->handle == handle ? k : NULL;
}

uint32_t rr_fake_keys(const struct rr_qp *qp)
{
	const struct rr_fake_qp *q = container_of(qp, struct rr_fake_qp, qp);
	uint32_t n = 0;

	for (uint32_t i = 0; i < KEYS; i++)
		n += q->keys[i].live;
	return n;
}

bool rr_fake_key(const struct rr_qp *qp, uint32_t n, struct rr_seg *out)
{
	const struct rr_fake_qp *q = container_of(qp, struct rr_fake_qp, qp);

	for (uint32_t i = 0; i < KEYS; i++) {
		const struct fake_key *k = &q->keys[i];

		if (!k->live || n--)
			continue;
		*out = (struct rr_seg){ .handle = k->handle, .length = k->len,
					.offset = k->base };
		return true;
	}
	return false;
}

/* Handle and offset are random, so that an engine that mixes them up, or computes with an
 * address, is caught. */
static int expose(struct rr_qp *qp, const void *local, uint32_t len, enum rr_rights rights,
		  struct rr_seg *out)
{
	struct rr_fake_qp *q = fake_of(qp);
	struct fake_key *k = NULL;

	for (uint32_t i = 0; i < KEYS && !k; i++)
		if (!q->keys[++q->next_key % KEYS].live)
			k = &q->keys[q->next_key % KEYS];
	if (!k)
		return -EAGAIN;
	*k = (struct fake_key){
		.handle = (uint32_t)(chance(q->link) >> 20) / KEYS * KEYS +
			  (uint32_t)(k - q->keys),
		.len = len, .local = local, .rights = rights, .live = true,
		.base = chance(q->link) >> 8,
	};
	*out = (struct rr_seg){ .handle = k->handle, .length = len, .offset = k->base };
	return 0;
}

/* All bytes were read, and the reader knows that. */
static bool consumed(struct rr_qp *qp, uint32_t handle)
{
	struct fake_key *k = key_find(fake_of(qp), handle);

	return k && k->read >= k->len;
}

/* Only with `direct` the reader says so itself; otherwise has_read() counts bytes as reads
 * complete. */
static void consume(struct rr_qp *qp, const struct rr_seg *seg)
{
	struct rr_fake_qp *q = fake_of(qp);
	struct fake_key *k = q->peer ? key_find(q->peer, seg->handle) : NULL;

	if (k && q->link->conf.direct)
		k->read = k->len;
}

/* Something that no device would let happen: counts it and breaks the link. */
static void violate(struct rr_fake_qp *q)
{
	q->link->violations++;
	rr_fake_break(q->link);
}

/* The bytes of the peer's memory that w means; NULL, and the connection is lost, if no key
 * allows it. The right must be exactly the one that the operation needs. The sum of offsets is
 * of 64 bits and is checked by subtraction, so it cannot wrap into the key's range. */
static uint8_t *reach(struct rr_fake_qp *q, const struct fake_wqe *w, enum rr_rights right)
{
	struct fake_key *k = key_find(q->peer, w->seg.handle);
	uint64_t at = w->seg.offset + w->off;

	if (!k || k->rights != right || at < k->base || at - k->base > k->len ||
	    w->len > k->len - (at - k->base)) {
		violate(q);
		return NULL;
	}
	return (uint8_t *)(uintptr_t)k->local + (at - k->base);
}

/* The completion of a Read has reached its poster: only now the peer may be told that the bytes
 * were read. */
static void has_read(struct rr_fake_qp *q, const struct fake_wqe *w)
{
	struct fake_key *k = q->peer &&
			     w->wc.op == RR_WC_READ ? key_find(q->peer, w->seg.handle) : NULL;

	if (k)
		k->read += w->len;
}

static void kill_key(struct rr_fake_qp *q, uint32_t handle)
{
	struct fake_key *k = key_find(q, handle);

	if (k)
		k->live = false;
	else
		violate(q);	/* a key twice invalidated is a bug of ours */
}

/* --- execution ------------------------------------------------------------------------- */

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
			violate(q);
			return;
		}
		memcpy(at + len, w->iov[i].iov_base, w->iov[i].iov_len);
		len += (uint32_t)w->iov[i].iov_len;
	}
	if (w->wc.inv_handle)
		kill_key(to, w->wc.inv_handle);
	to->rq[to->nrq++] = (struct rr_wc){
		.op = RR_WC_RECV, .cookie = buf, .buf = at, .len = len, .imm = w->wc.imm,
		.has_imm = w->wc.has_imm, .has_inv = w->wc.inv_handle,
			   .inv_handle = w->wc.inv_handle,
	};
}

/* Executes an operation: bytes move now, whenever its completion shows. */
static void run_wqe(struct rr_fake_qp *q, struct fake_wqe *w)
{
	uint8_t *at;

	switch (w->wc.op) {
	case RR_WC_SEND:
		run_send(q, w);
		break;
	case RR_WC_READ:
		at = reach(q, w, RR_RIGHT_READ);
		if (at)
			memcpy(w->local, at, w->len);
		break;
	case RR_WC_WRITE:
		at = reach(q, w, RR_RIGHT_WRITE);
		if (at)
			memcpy(at, w->local, w->len);
		break;
	default:
		kill_key(q, w->wc.inv_handle);
		break;
	}
}

/* Gives the operation a completion that shows after a random number of steps. Without `reorder`
 * none shows before an earlier one. */
static void complete(struct rr_fake_qp *q, struct fake_wqe *w)
{
	struct rr_fake_link *l = q->link;

	if (l->broken || w->silent)
		return;
	w->due = l->step + (l->conf.delay ? chance(l) % (l->conf.delay + 1) : 0);
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
	       chance(q->link) % 2)
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
	run_wqe(q, &w);
	free(w.copy);
	complete(q, &w);
}

/* Four operations at most, each of an end that is drawn: so the ends advance at different
 * paces. */
void rr_fake_step(struct rr_fake_link *l)
{
	l->step++;
	if (l->break_at && l->step >= l->break_at)
		rr_fake_break(l);
	for (int n = 0; n < 4 && !l->broken; n++) {
		struct rr_fake_qp *q = l->end[chance(l) % 2];

		if (q && q->nsq)
			execute(q);
	}
}

bool rr_fake_busy(const struct rr_fake_link *l)
{
	for (int i = 0; i < 2; i++)
		if (l->end[i] && (l->end[i]->nsq || l->end[i]->ncq || l->end[i]->nrq))
			return true;
	return false;
}

/* --- posts ----------------------------------------------------------------------------- */

/* Queues the operation, or with `direct` executes it. Results are those of prov.h. Completions
 * count in the limit, so that complete() always has room. */
static int post(struct rr_fake_qp *q, struct fake_wqe *w)
{
	if (is_lost(q))
		return -ECONNRESET;
	if (q->link->conf.direct) {
		w->silent = true;
		run_wqe(q, w);
		return q->link->broken ? -ECONNRESET : 1;
	}
	if (q->nsq + q->ncq >= QUEUE)
		return -EAGAIN;
	q->sq[q->nsq++] = *w;
	return 0;
}

/* How many Sends the peer's receives allow, less those that are on their way. */
static uint32_t fake_window(struct rr_qp *qp)
{
	struct rr_fake_qp *q = fake_of(qp);
	uint32_t queued = 0;

	if (!q->link->conf.ring)
		return UINT32_MAX;
	if (is_lost(q))
		return 0;
	for (uint32_t i = 0; i < q->nsq; i++)
		queued += q->sq[i].wc.op == RR_WC_SEND;
	return q->peer->nposted > queued ? q->peer->nposted - queued : 0;
}

static bool in_mem(const struct rr_qp *qp, const void *local, size_t len)
{
	const uint8_t *p = local;

	return p >= qp->mem && p + len <= qp->mem + qp->mem_size;
}

/* Copies pieces that are not registered, since those are the poster's again when the call
 * returns. Registered pieces are read when the Send is executed: whoever changes them too early
 * is found out. */
static void take_pieces(struct rr_qp *qp, struct fake_wqe *w)
{
	size_t total = 0;

	for (int i = 0; i < w->niov; i++)
		total += w->iov[i].iov_len;
	w->copy = malloc(total + 1);
	if (!w->copy)
		abort();
	total = 0;
	for (int i = 0; i < w->niov; i++) {
		if (in_mem(qp, w->iov[i].iov_base, w->iov[i].iov_len))
			continue;
		memcpy(w->copy + total, w->iov[i].iov_base, w->iov[i].iov_len);
		w->iov[i].iov_base = w->copy + total;
		total += w->iov[i].iov_len;
	}
}

static int fake_post_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
			  uint32_t inv)
{
	struct fake_wqe w = { .wc = { .op = RR_WC_SEND, .cookie = cookie, .inv_handle = inv } };
	int rc;

	if (fake_window(qp) == 0)
		return is_lost(fake_of(qp)) ? -ECONNRESET : -EAGAIN;
	for (; w.niov < niov && w.niov < IOVS; w.niov++)
		w.iov[w.niov] = iov[w.niov];
	if (!fake_of(qp)->link->conf.direct)
		take_pieces(qp, &w);
	rc = post(fake_of(qp), &w);
	if (rc < 0)
		free(w.copy);
	return rc;
}

static int send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
{
	struct fake_wqe w = { .wc = { .op = RR_WC_SEND, .cookie = cookie, .imm = imm,
				      .has_imm = true } };

	if (fake_window(qp) == 0)
		return is_lost(fake_of(qp)) ? -ECONNRESET : -EAGAIN;
	return post(fake_of(qp), &w);
}

/* Local memory must be registered, but for `direct`, as prov.h has it. */
static int fake_rdma(struct rr_qp *qp, enum rr_wc_op op, void *local, uint32_t len,
		     const struct rr_seg *seg, uint32_t off, uint64_t cookie)
{
	struct fake_wqe w = { .wc = { .op = op, .cookie = cookie }, .local = local, .len = len,
			      .off = off, .seg = *seg };

	if (!fake_of(qp)->link->conf.direct && !in_mem(qp, local, len))
		return -EFAULT;	/* not registered */
	return post(fake_of(qp), &w);
}

static int rdma_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		     uint32_t off, uint64_t cookie)
{
	return fake_rdma(qp, RR_WC_READ, local, len, seg, off, cookie);
}

static int rdma_write(struct rr_qp *qp, const void *local, uint32_t len,
		      const struct rr_seg *seg, uint32_t off, uint64_t cookie)
{
	return fake_rdma(qp, RR_WC_WRITE, (void *)(uintptr_t)local, len, seg, off, cookie);
}

/* As on shm while the peer copies: the key is dead at once, so the peer can begin nothing any
 * more, but the completion comes later. */
static int invalidate_later(struct rr_fake_qp *q, struct fake_wqe *w)
{
	if (q->ncq == QUEUE)
		return -EAGAIN;
	run_wqe(q, w);
	complete(q, w);
	return q->link->broken ? -ECONNRESET : 0;
}

static int fake_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie)
{
	struct fake_wqe w = { .wc = { .op = RR_WC_INVALIDATE, .cookie = cookie,
				      .inv_handle = handle } };
	struct rr_fake_qp *q = fake_of(qp);

	if (q->link->conf.direct && q->link->conf.delay && !is_lost(q) &&
	    chance(q->link) % 4 == 0)
		return invalidate_later(q, &w);
	return post(q, &w);
}

/* --- completions ----------------------------------------------------------------------- */

/* Takes the first completion that is due. */
static bool take_cq(struct rr_fake_qp *q, struct rr_wc *wc)
{
	uint32_t i = 0;

	while (i < q->ncq && q->cq[i].due > q->link->step)
		i++;
	if (i == q->ncq)
		return false;
	has_read(q, &q->cq[i]);
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
static int poll_cq(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	struct rr_fake_qp *q = fake_of(qp);
	int got = 0;

	if (q->link->conf.eager)
		rr_fake_step(q->link);
	while (got < n) {
		bool rq_first = chance(q->link) % 2;

		if ((rq_first && take_rq(q, &wc[got])) || take_cq(q, &wc[got]) ||
		    take_rq(q, &wc[got]))
			got++;
		else
			break;
	}
	return got || !is_lost(q) ? got : -ECONNRESET;
}

static void repost(struct rr_qp *qp, uint64_t cookie)
{
	struct rr_fake_qp *q = fake_of(qp);

	/* so that a byte read after this is seen to be wrong */
	if (cookie >= qp->recvs || q->nposted >= qp->recvs)
		abort();	/* given back twice */
	memset(q->bufs + cookie * qp->recv_size, 0xee, qp->recv_size);
	q->posted[q->nposted++] = (uint32_t)cookie;
}

/* --- sleeping: tests do not, they step ------------------------------------------------- */

static bool fake_peek(const struct rr_qp *qp, enum rr_arm what)
{
	const struct rr_fake_qp *q = container_of(qp, struct rr_fake_qp, qp);

	return is_lost(q) || q->nrq || q->ncq ||
	       (what & RR_ARM_SEND && fake_window((struct rr_qp *)(uintptr_t)qp));
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
	return is_lost(fake_of(qp)) ? -ECONNRESET : 0;
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
	.qp_size = fake_qp_size, .prepare = prepare, .answer = fake_answer, .join = fake_join,
	.establish = establish, .disconnect = fake_disconnect, .close = close_qp,
	.send = fake_post_send, .send_imm = send_imm, .read = rdma_read, .write = rdma_write,
	.expose = expose, .invalidate = fake_invalidate, .consumed = consumed,
		  .consume = consume,
	.poll = poll_cq, .repost = repost, .window = fake_window,
	.peek = fake_peek, .kick = fake_kick, .arm = fake_arm, .disarm = fake_kick,
		.drain = fake_drain, .trim = fake_trim,
};

void rr_fake_link_init(struct rr_fake_link *l, const struct rr_fake_conf *conf, uint64_t seed)
{
	*l = (struct rr_fake_link){ .ops = fake_ops, .conf = *conf, .rng = seed * 2 + 1 };
	l->ops.caps = (conf->direct ? RR_PROV_DIRECT : 0) | (conf->ring ? RR_PROV_RING : 0) |
		      RR_PROV_FAMILY;
	current = l;
}
