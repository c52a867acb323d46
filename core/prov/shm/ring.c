/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in the rings: sends into the peer's, receives from our own. An index that the peer
 * writes is read once and checked before it is used. Chunks are xfer.c's. */

#include "core/prov/shm/shm_int.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/base/pages.h"

enum {	/* slots whose long payloads have their pages made in one go */
	MAKE_LEAST = 2,
	MAKE_MOST = 16,		/* as many pages as Linux maps with one fault */
};

/* A round may end after each so many slots. The first ones lie beside the control words. */
#define ROUND	8u
/* Of so many positions a few go through a whole round: no slot is left alone for so long that
 * the words in it look like those of the future. */
#define WHOLE	(UINT32_C(1) << 28)

/* --- sending: we write the peer's ring --- */

static uint32_t known_back(const struct rr_shm *q)
{
	return atomic_load_explicit(&q->tx_reposted, memory_order_relaxed);
}

/* Reads how many receives the peer has given back. */
static int tx_refresh(struct rr_shm *q)
{
	uint32_t sent = atomic_load_explicit(&q->tx_sent, memory_order_relaxed);
	/* Pairs with the release in rr_shm_repost(): slots that are counted here are found to
	 * be free below. */
	uint32_t back = atomic_load_explicit(&q->peer.ctl->reposted, memory_order_acquire);

	/* The peer can neither take back what it gave, nor give back what was not sent. */
	if (sent - back > sent - known_back(q))
		return rr_shm_fail(q, -EPROTO);
	atomic_store_explicit(&q->tx_reposted, back, memory_order_relaxed);
	return 0;
}

static uint32_t tx_room(const struct rr_shm *q)
{
	uint32_t sent = atomic_load_explicit(&q->tx_sent, memory_order_relaxed);
	uint32_t back = atomic_load_explicit(&q->tx_reposted, memory_order_relaxed);

	return q->peer.geo.recvs - (sent - back);
}

static void learn_tail(struct rr_shm *q)
{
	/* Pairs with the release in rr_shm_repost(): the peer has finished reading. */
	q->tx_tail = atomic_load_explicit(&q->peer.ctl->tail, memory_order_acquire);
}

/* May the slot at tx_pos be written? A tail that makes no sense proves nothing: the unsigned
 * difference is large then. */
static bool tx_slot_free(struct rr_shm *q)
{
	const uint32_t slots = q->peer.geo.slots;
	uint32_t i = rr_shm_index(&q->peer, q->tx_pos), used = q->slot[i].tx_used;

	if (likely(q->tx_pos - q->tx_tail < slots) || !used)
		return true;
	learn_tail(q);
	if (q->tx_pos - q->tx_tail < slots)
		return true;
	/* Pairs as in learn_tail(). */
	return atomic_load_explicit(&q->peer.freed[i], memory_order_acquire) == used;
}

/* The next free slot; slots that are not free are passed over. NULL: *rc says why. */
static struct rr_shm_slot *claim_slot(struct rr_shm *q, int *rc)
{
	if (unlikely(tx_room(q) == 0)) {
		*rc = tx_refresh(q);
		if (*rc)
			return NULL;
		*rc = -EAGAIN;
		if (tx_room(q) == 0)
			return NULL;
	}
	for (uint32_t n = 0; n < q->peer.geo.slots; n++) {
		struct rr_shm_slot *s = rr_shm_slot(&q->peer, q->tx_pos);

		if (likely(tx_slot_free(q)))
			return s;
		/* Orders nothing, because no data goes with it. */
		atomic_store_explicit(&s->skip, rr_shm_seq(q->tx_pos), memory_order_relaxed);
		q->tx_pos++;
	}
	*rc = rr_shm_fail(q, -EPROTO);	/* the peer counted a receive that does not exist */
	return NULL;
}

static int dead(const struct rr_shm *q)
{
	int err = atomic_load_explicit(&q->err, memory_order_relaxed);

	if (unlikely(err))
		return err;
	if (unlikely(atomic_load_explicit(&q->lost, memory_order_relaxed)))
		return -ECONNRESET;
	return 0;
}

/* Even a short message reaches into this line, which is in the other end's cache: prefetched
 * while there is something else to do. */
static const void *second_line(const struct rr_shm_slot *s)
{
	return (const uint8_t *)s + RR_CACHELINE;
}

/* Makes pages for coming long messages. A page that is touched for the first time costs each
 * side a fault of several us. A sender that goes on sending long messages makes the pages for
 * more and more of them in one call, at most as many as it has used so far; the peer's next
 * fault then maps them, too. */
static RR_NOINLINE void make_pages(struct rr_shm *q)
{
	const struct rr_shm_geo *g = &q->peer.geo;
	uint32_t i = rr_shm_index(&q->peer, q->tx_pos), n = rr_min(q->tx_made, g->slots - i);
	uint8_t *from = rr_shm_long(&q->peer, q->tx_pos), *last;

	n = rr_min(n, (uint32_t)MAKE_MOST);
	last = from + (n ? n - 1 : 0) * (size_t)g->stride;
	if (g->stride > 2 * RR_PAGE || (n && !rr_pages_make(from, last + RR_CACHELINE)))
		n = g->slots;	/* each page when it is touched */
	q->tx_made = i + rr_max(n, (uint32_t)MAKE_LEAST);
	q->qp.bulky = true;
}

/* Does the round end with the message at tx_pos? Only if the peer has given back half of the
 * round: whoever is not so far behind finds free slots at the ring's beginning. So few of the
 * ring's pages are ever touched, and its lines stay in the caches, however many messages there
 * are; and one that has fallen behind, or holds a message, gets as many slots as it needs. */
static bool ends_round(struct rr_shm *q)
{
	uint32_t used = rr_shm_index(&q->peer, q->tx_pos) + 1, slots = q->peer.geo.slots;

	if (likely(used % ROUND) || used == slots ||
	    (q->tx_pos & (WHOLE - 1)) - WHOLE / 2 < slots)
		return false;
	learn_tail(q);
	return q->tx_pos + 1 - q->tx_tail <= used / 2;
}

static void publish(struct rr_shm *q, struct rr_shm_slot *s, uint32_t len, uint32_t arg)
{
	uint32_t sent = atomic_load_explicit(&q->tx_sent, memory_order_relaxed);
	uint32_t seq = rr_shm_seq(q->tx_pos), i = rr_shm_index(&q->peer, q->tx_pos);
	bool last = ends_round(q);

	q->slot[i].tx_used = seq;
	q->tx_slots = rr_max(q->tx_slots, i + 1);
	q->tx_pos = rr_shm_next(&q->peer, q->tx_pos, last);
	atomic_store_explicit(&q->tx_sent, sent + 1, memory_order_relaxed);
	q->unkicked |= RR_ARM_RECV;
	atomic_store_explicit(&s->len, len | (last ? RR_SHM_LAST : 0u), memory_order_relaxed);
	atomic_store_explicit(&s->arg, arg, memory_order_relaxed);
	/* A skip word that was left alone for 2^30 positions would look like one of the
	 * future. */
	atomic_store_explicit(&s->skip, 0, memory_order_relaxed);
	/* Pairs with the acquire in rx_step(): the record is complete. */
	atomic_store_explicit(&s->seq, seq, memory_order_release);
	if (unlikely((len & RR_SHM_LEN_MASK) > RR_SHM_SHORT) &&
	    rr_shm_index(&q->peer, q->tx_pos) >= q->tx_made)
		make_pages(q);
	/* The peer looks at the first line of the next slot only. */
	__builtin_prefetch(second_line(rr_shm_slot(&q->peer, q->tx_pos)), 1);
}

int rr_shm_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		uint32_t inv_handle)
{
	struct rr_shm *q = rr_shm_of(qp);
	struct rr_shm_slot *s;
	size_t len = 0;
	uint8_t *to;
	int rc = dead(q);

	(void)cookie;
	if (unlikely(rc))
		return rc;
	for (int i = 0; i < niov; i++)
		if (unlikely(__builtin_add_overflow(len, iov[i].iov_len, &len)))
			return -EMSGSIZE;
	if (unlikely(len > qp->send_size))
		return -EMSGSIZE;
	s = claim_slot(q, &rc);
	if (unlikely(!s))
		return rc;
	to = likely(len <= RR_SHM_SHORT) ? s->data : rr_shm_long(&q->peer, q->tx_pos);
	for (int i = 0; i < niov; to += iov[i].iov_len, i++)
		if (iov[i].iov_len)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
	publish(q, s, (uint32_t)len | (inv_handle ? RR_SHM_INV : 0u), inv_handle);
	return 1;
}

/* Immediate data, with a few bytes or none. */
static int send_with_imm(struct rr_shm *q, uint32_t kind, uint32_t imm, const void *note,
			 uint32_t len)
{
	struct rr_shm_slot *s;
	int rc = dead(q);

	if (unlikely(rc))
		return rc;
	s = claim_slot(q, &rc);
	if (!s)
		return rc;
	memcpy(s->data, note, len);
	publish(q, s, len | kind, imm);
	return 1;
}

int rr_shm_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
{
	(void)cookie;
	return send_with_imm(rr_shm_of(qp), RR_SHM_IMM, imm, "", 0);
}

int rr_shm_send_note(struct rr_qp *qp, uint32_t imm, const void *note, uint32_t len)
{
	return send_with_imm(rr_shm_of(qp), RR_SHM_NOTE, imm, note, len);
}

/* Always reads what the peer last said, however much room there is: while there is something
 * that we have not read, rr_shm_tx_peek() stays true and nobody could sleep. */
uint32_t rr_shm_window(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);

	if (unlikely(dead(q)) || tx_refresh(q))
		return 0;
	return tx_room(q);
}

/* Has the peer given receives back since window() last looked? This does not ask whether there
 * is room, because then a caller that keeps some room in reserve could never sleep. */
bool rr_shm_tx_peek(const struct rr_shm *q)
{
	/* The caller acts on this only through window(), which orders. */
	uint32_t back = atomic_load_explicit(&q->peer.ctl->reposted, memory_order_relaxed);

	return back != known_back(q);
}

bool rr_shm_tx_idle(struct rr_shm *q)
{
	/* Pairs with the release in rr_shm_repost(): the peer does not read any slot. */
	uint32_t tail = atomic_load_explicit(&q->peer.ctl->tail, memory_order_acquire);

	return !dead(q) && !tx_refresh(q) && tx_room(q) == q->peer.geo.recvs &&
		tail == q->tx_pos;
}

/* --- receiving: we read our ring --- */

enum slot_look { EMPTY, RECORD, PASSED, NONSENSE };

/* Does this word hold a position of this slot, and how far is it ahead of pos (modulo 2^31)? */
static bool slot_distance(uint32_t word, uint32_t pos, uint32_t slots, uint32_t *ahead)
{
	*ahead = ((word >> 1) - pos) & (UINT32_MAX >> 1);
	return (word & 1) && *ahead % slots == 0;
}

/* What the words of the slot at pos say. */
static enum slot_look look_at_slot(uint32_t seq, uint32_t skip, uint32_t pos, uint32_t slots)
{
	uint32_t ahead;

	if (likely(seq == rr_shm_seq(pos)))
		return RECORD;
	if (seq) {
		if (!slot_distance(seq, pos, slots, &ahead))
			return NONSENSE;
		if (ahead < UINT32_C(1) << 30)
			return PASSED;
	}
	if (skip) {
		if (!slot_distance(skip, pos, slots, &ahead))
			return NONSENSE;
		if (ahead < UINT32_C(1) << 30)
			return PASSED;
	}
	return EMPTY;
}

bool rr_shm_rx_peek(const struct rr_shm *q)
{
	uint32_t pos = atomic_load_explicit(&q->rx_pos, memory_order_relaxed);
	struct rr_shm_slot *s = rr_shm_slot(&q->own, pos);
	/* The caller acts on this only through poll(), which orders. */
	uint32_t seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
	uint32_t skip = atomic_load_explicit(&s->skip, memory_order_relaxed);

	return look_at_slot(seq, skip, pos, q->own.geo.slots) != EMPTY;
}

/* On to the position after pos, with which the round ends if it is the last. */
static void rx_advance(struct rr_shm *q, uint32_t pos, bool last)
{
	uint32_t next = rr_shm_next(&q->own, pos, last), slots = q->own.geo.slots;

	atomic_store_explicit(&q->rx_pos, next, memory_order_relaxed);
	if (next - q->rx_tail > slots)
		q->rx_tail = next - slots;
}

/* Judges the record in the slot at pos, whose len is in word, without RR_SHM_LAST. Afterwards
 * only its payload is looked at again. */
static int take_record(struct rr_shm *q, struct rr_shm_slot *s, uint32_t pos, uint32_t word,
		       struct rr_wc *wc)
{
	uint32_t i = rr_shm_index(&q->own, pos);
	uint32_t arg = atomic_load_explicit(&s->arg, memory_order_relaxed);
	uint32_t len = word & RR_SHM_LEN_MASK;
	uint8_t *data = likely(len <= RR_SHM_SHORT) ? s->data : rr_shm_long(&q->own, pos);

	__builtin_prefetch(likely(data == s->data) ? second_line(s) : data);
	if (unlikely(data != s->data))
		q->busy = true;
	if (word & ~(uint32_t)(RR_SHM_LEN_MASK | RR_SHM_IMM | RR_SHM_INV | RR_SHM_NOTE))
		return -EPROTO;
	if (len > q->own.geo.recv_size || ((word & RR_SHM_IMM) && word != RR_SHM_IMM))
		return -EPROTO;
	if ((word & RR_SHM_NOTE) && (len > RR_PROV_NOTE || word != (len | RR_SHM_NOTE)))
		return -EPROTO;
	/* More messages than we have posted receives, or one over a message that we still
	 * hold. */
	if (q->rx_held == q->own.geo.recvs || q->slot[i].rx_seq)
		return -EPROTO;
	if ((word & RR_SHM_INV) && !rr_shm_key_live(q, arg))
		return -EPROTO;
	*wc = (struct rr_wc){ .op = RR_WC_RECV, .cookie = i, .buf = data, .len = len };
	if (word & (RR_SHM_IMM | RR_SHM_NOTE)) {
		wc->has_imm = true;
		wc->imm = arg;
	} else if (word & RR_SHM_INV) {
		wc->has_inv = true;
		wc->inv_handle = arg;
	}
	q->slot[i].rx_seq = q->slot[i].rx_last = rr_shm_seq(pos);
	q->rx_slots = rr_max(q->rx_slots, i + 1);
	q->rx_held++;
	return 1;
}

/* One step along the ring. 1: *wc is a receive; 0: a slot was passed over; -EAGAIN: there is
 * nothing; else the peer lies. */
static int rx_step(struct rr_shm *q, struct rr_wc *wc)
{
	uint32_t pos = atomic_load_explicit(&q->rx_pos, memory_order_relaxed);
	struct rr_shm_slot *s = rr_shm_slot(&q->own, pos);
	/* Pairs with the release in publish(). */
	uint32_t seq = atomic_load_explicit(&s->seq, memory_order_acquire);
	uint32_t skip = atomic_load_explicit(&s->skip, memory_order_relaxed), word = 0;
	int rc = 0;

	/* This record was taken already, however long ago. */
	if (seq == q->slot[rr_shm_index(&q->own, pos)].rx_last)
		seq = 0;
	switch (look_at_slot(seq, skip, pos, q->own.geo.slots)) {
	case EMPTY:
		return -EAGAIN;
	case NONSENSE:
		return -EPROTO;
	case RECORD:
		word = atomic_load_explicit(&s->len, memory_order_relaxed);
		rc = take_record(q, s, pos, word & ~(uint32_t)RR_SHM_LAST, wc);
		break;
	case PASSED:
		break;
	}
	if (rc >= 0)
		rx_advance(q, pos, word & RR_SHM_LAST);
	/* The key must be invalid before the message is seen. A truthful sender no longer
	 * copies under it. */
	if (rc == 1 && wc->has_inv && rr_shm_invalidate(&q->qp, wc->inv_handle, 0) == 0)
		return -EPROTO;
	return rc;
}

static int poll_ring(struct rr_shm *q, struct rr_wc *wc, int n)
{
	int got = 0, rc = atomic_load_explicit(&q->err, memory_order_relaxed);

	/* Bounded even if the peer sends us skips for ever. */
	for (uint32_t step = 0; !rc && got < n && step <= q->own.geo.slots; step++) {
		rc = rx_step(q, &wc[got]);
		if (rc == 1) {
			got++;
			rc = atomic_load_explicit(&q->err, memory_order_relaxed);
		}
	}
	if (unlikely(!rc && got == 0 && n > 0))
		rc = -EPROTO;	/* a whole round of skips, for which there was no reason */
	if (unlikely(rc && rc != -EAGAIN))
		rr_shm_fail(q, rc);
	if (got)
		return got;
	if (unlikely(rc == -EAGAIN && atomic_load_explicit(&q->lost, memory_order_relaxed)))
		return rr_shm_fail(q, -ECONNRESET);
	return rc == -EAGAIN ? 0 : rc;
}

int rr_shm_poll(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	struct rr_shm *q = rr_shm_of(qp);
	int done = unlikely(q->fence_list) ? rr_shm_fenced(q, wc, n) : 0, got;

	if (unlikely(done && done == n))
		return n;
	got = poll_ring(q, wc + done, n - done);
	return unlikely(done) ? done + rr_max(got, 0) : got;
}

void rr_shm_repost(struct rr_qp *qp, uint64_t buf_cookie)
{
	struct rr_shm *q = rr_shm_of(qp);
	const uint32_t mask = q->own.geo.slots - 1;
	const uint32_t pos = atomic_load_explicit(&q->rx_pos, memory_order_relaxed);
	uint32_t i = (uint32_t)buf_cookie;

	assert(buf_cookie <= mask && q->slot[i].rx_seq);
	/* These releases pair with the acquires in tx_slot_free() and tx_refresh(): we have
	 * finished reading the slot. reposted comes last, so that what it counts can be
	 * found. */
	atomic_store_explicit(&q->own.freed[i], q->slot[i].rx_seq, memory_order_release);
	q->slot[i].rx_seq = 0;
	q->rx_held--;
	if (likely(q->rx_held == 0))
		q->rx_tail = pos;
	while (q->rx_tail != pos && !q->slot[q->rx_tail & mask].rx_seq)
		q->rx_tail++;
	atomic_store_explicit(&q->own.ctl->tail, q->rx_tail, memory_order_release);
	atomic_store_explicit(&q->own.ctl->reposted, ++q->rx_reposted, memory_order_release);
	q->unkicked |= RR_ARM_SEND;
}
