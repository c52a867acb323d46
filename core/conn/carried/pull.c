/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that lie in the peer's memory. If an RDMA Read completes within the call (DIRECT
 * providers), a message is fetched when the app reads it; otherwise it is fetched into our own
 * memory as soon as there is room. Messages that Read chunks must be put into are always
 * fetched. What a message means is the engine's matter. Under the connection's lock.
 *
 * A message that is fetched is judged, and handed to the app, as soon as enough of its front is
 * here; the app reads on while further Reads complete. Its memory is free again when the app
 * has read its last byte, which is here only after all of them. Until then neither the peer nor
 * the engine is told that the peer's memory is not needed any more.
 *
 * A completion says that the bytes of its own Read are here, no more. A queue pair's Reads
 * complete in the order in which they were posted (InfiniBand: so do all work requests of a
 * send queue; iWARP: the responses to Reads come in order, RFC 5040). Nothing but the gain
 * depends on that: behind a completion that comes out of turn the front stays where it is until
 * all is here. */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"

/* Reads bytes [off, off+len) of a message from the peer's memory. */
int rr_drv_read_pull(struct rr_share *sh, const struct rr_pull *p, uint32_t off, void *dst,
		     uint32_t len)
{
	uint8_t *to = dst;

	for (uint32_t i = 0; i < p->nsegs && len; i++) {
		const struct rr_seg *s = &p->segs[i];
		uint32_t take;
		int rc;

		if (off >= s->length) {
			off -= s->length;
			continue;
		}
		take = rr_min(s->length - off, len);
		rc = rr_drv_read(sh, to, take, s, off, 0);
		if (rc < 0)
			return rc;
		to += take;
		len -= take;
		off = 0;
	}
	return len ? -EPROTO : 0;
}

int rr_pull_entry(struct rr_share *sh, const struct rr_rx_ent *e, uint32_t off, void *dst,
		  uint32_t len)
{
	struct rr_seg seg = { .handle = e->ref, .length = e->len, .offset = e->at };
	int rc;

	if (e->from == RR_FROM_PULL)
		return rr_drv_read_pull(sh, &sh->pull[e->ref], e->off + off, dst, len);
	rc = rr_drv_read(sh, dst, len, &seg, off, 0);
	return rc < 0 ? rc : 0;
}

/* Tells the peer that it may reuse the memory. */
static void pull_consumed(struct rr_share *sh, const struct rr_pull *p)
{
	for (uint32_t i = 0; i < p->nsegs; i++)
		rr_drv_consume(sh, &p->segs[i]);
}

static struct rr_pull *pull_new(struct rr_share *sh)
{
	for (uint32_t i = 0; i < RR_PULLS; i++)
		if (!sh->pull[i].used)
			return &sh->pull[i];
	return NULL;
}

static struct rr_pull *pull_find(struct rr_share *sh, uint32_t id)
{
	for (uint32_t i = 0; i < RR_PULLS; i++)
		if (sh->pull[i].used && sh->pull[i].id == id)
			return &sh->pull[i];
	return NULL;
}

/* --- into our own memory ------------------------------------------------------------------ */

/* Which Read of which pull a completion is for. */
static uint64_t read_cookie(const struct rr_share *sh, const struct rr_pull *p, uint32_t nth)
{
	return rr_drv_cookie(RR_FOR_PULL, (uint32_t)(p - sh->pull) + nth * RR_PULLS);
}

static void pull_failed(struct rr_share *sh, struct rr_pull *p, int rc, rr_time now)
{
	p->broken = true;
	if (p->composed || p->judged)
		rr_eng_pulled(sh->eng, p->id, rc, now);
	else
		rr_eng_head(sh->eng, p->id, rc, NULL, 0, now);
}

static void pull_end(struct rr_share *sh, struct rr_pull *p)
{
	p->used = false;
	if (p->local)
		sh->pull_bytes -= p->room;
}

/* Bytes of the front that lie together, for the engine to judge. */
static const uint8_t *pull_head(const struct rr_share *sh, const struct rr_pull *p, uint32_t *n)
{
	size_t room;
	const uint8_t *head = rr_pool_at(&sh->pool, p->buf, 0, &room);

	*n = (uint32_t)rr_min((size_t)p->front, room);
	return head;
}

/* So many bytes are here now, and others are still to come. */
static void pull_front(struct rr_share *sh, struct rr_pull *p, uint32_t front, rr_time now)
{
	uint32_t more = front - p->front, n;
	const uint8_t *head;

	p->front = front;
	if (p->delivered) {
		rr_stream_more(sh, more);
	} else if (!p->judged && front >= p->head) {
		p->judged = true;
		head = pull_head(sh, p, &n);
		rr_eng_front(sh->eng, p->id, head, n, now);
	}
}

/* Everything is here. If the engine has not judged the message yet, it does so now. */
static void pull_complete(struct rr_share *sh, struct rr_pull *p, rr_time now)
{
	const uint8_t *head;
	uint32_t n;

	pull_consumed(sh, p);
	if (p->composed) {
		rr_eng_pulled(sh->eng, p->id, 0, now);
	} else if (p->judged) {
		pull_front(sh, p, p->fetch, now);
		if (p->delivered)
			pull_end(sh, p);
		rr_eng_pulled(sh->eng, p->id, 0, now);
	} else {
		p->front = p->fetch;
		head = pull_head(sh, p, &n);
		rr_eng_head(sh->eng, p->id, 0, head, n, now);
	}
}

/* Finds memory for p, when it is p's turn. Messages that the app has yet to read get at most
 * half of the memory, because the app may need the other half to make them go away. One message
 * alone gets what it needs. */
static bool pull_memory(struct rr_share *sh, struct rr_pull *p)
{
	uint64_t held = rr_rx_stashed(sh) + sh->pull_bytes;
	int64_t buf;

	if (p->turn != sh->pull_turn ||
	    (held && (held + p->room > rr_own_ahead() || rr_budget_all_used())))
		return false;
	buf = rr_pool_alloc(&sh->pool, p->room);
	if (buf < 0)
		return false;
	p->buf = (uint32_t)buf;
	sh->pull_bytes += p->room;
	sh->pull_turn++;
	return true;
}

/* A buffer is contiguous within a page: the length of the last contiguous piece that ends at
 * `end`, at most n. */
static uint32_t tail_piece(uint32_t end, uint32_t n)
{
	return rr_min(n, (end - 1) % RR_POOL_PAGE + 1);
}

/* Moves n bytes of a buffer to a later position, the last ones first. */
static void slide(struct rr_share *sh, uint32_t buf, uint32_t from, uint32_t to, uint32_t n)
{
	while (n) {
		uint32_t take = tail_piece(from + n, tail_piece(to + n, n));
		size_t room;

		n -= take;
		memmove(rr_pool_at(&sh->pool, buf, to + n, &room),
			rr_pool_at(&sh->pool, buf, from + n, &room), take);
	}
}

/* Spreads the payload stream, which lies at the front of the buffer, to where its parts belong
 * in the message: from its end on, so that nothing is overwritten that has yet to move. */
static void spread(struct rr_share *sh, struct rr_pull *p)
{
	uint32_t end = p->len, left = p->stream;

	rr_count(sh->qp->count, RR_C_copied, p->stream);
	if (p->recv)
		rr_pool_fill(&sh->pool, p->buf, 0, p->recv, p->stream);
	for (uint32_t i = p->nparts; i-- > 0;) {
		const struct rr_range *r = &p->parts[i];
		uint32_t pad = rr_ulb_pad(r->len), behind = r->off + r->len + pad;

		left -= end - behind;
		slide(sh, p->buf, left, behind, end - behind);
		rr_pool_fill(&sh->pool, p->buf, r->off + r->len, NULL, pad);
		end = r->off;
	}
	p->stream = 0;
}

/* The place in the peer's memory of byte `at` of what is fetched: its segment, and the offset
 * in it. */
static const struct rr_seg *pull_at(const struct rr_pull *p, uint32_t at, uint32_t *off)
{
	const struct rr_seg *s = p->segs;

	for (*off = at; *off >= s->length; s++)
		*off -= s->length;
	return s;
}

/* Where in the message that byte belongs, and in *n how many bytes belong there with it. */
static uint32_t pull_to(const struct rr_pull *p, uint32_t at, uint32_t *n)
{
	const struct rr_range *r = p->parts;

	*n = p->fetch - at;
	if (!p->composed)
		return at;
	for (; at >= r->len; r++)
		at -= r->len;
	*n = r->len - at;
	return r->off + at;
}

/* One RDMA Read: bytes that lie together at both ends. */
struct pull_piece {
	uint8_t *to;
	uint32_t len;
	const struct rr_seg *seg;
	uint32_t off;		/* in seg */
};

/* The Read that begins with byte `at` of what is fetched. */
static struct pull_piece piece_at(const struct rr_share *sh, const struct rr_pull *p,
				  uint32_t at)
{
	struct pull_piece q;
	uint32_t n, in = pull_to(p, at, &n);
	size_t room;

	q.to = rr_pool_at(&sh->pool, p->buf, in, &room);
	q.seg = pull_at(p, at, &q.off);
	n = rr_min(rr_min(n, p->most), q.seg->length - q.off);
	q.len = (uint32_t)rr_min(room, (size_t)n);
	return q;
}

/* Posts as many RDMA Reads as there is room for. 0: all are posted; -EAGAIN: some are left; or
 * why the message fails. */
static int pull_ask(struct rr_share *sh, struct rr_pull *p)
{
	if (p->buf == RR_BUF_NONE && !pull_memory(sh, p))
		return -EAGAIN;
	if (p->stream)
		spread(sh, p);
	while (p->asked < p->fetch) {
		struct pull_piece q = piece_at(sh, p, p->asked);
		int rc = rr_drv_read(sh, q.to, q.len, q.seg, q.off,
				     read_cookie(sh, p, p->reads));

		if (rc < 0)
			return rc;
		p->reads++;
		p->pending += rc == 0;
		p->asked += q.len;
	}
	return 0;
}

static void pull_go(struct rr_share *sh, struct rr_pull *p, rr_time now)
{
	int rc = pull_ask(sh, p);

	if (rc == -EAGAIN)
		sh->pulls_short++;
	else if (rc == -ECONNRESET)
		rr_drv_lost(sh);
	else if (rc < 0)
		pull_failed(sh, p, rc, now);
	else if (!p->pending)
		pull_complete(sh, p, now);
}

static bool unfinished(const struct rr_pull *p)
{
	return p->used && p->local && !p->broken &&
	       (p->buf == RR_BUF_NONE || p->asked < p->fetch);
}

/* Tries again after memory, or room to post, may have become free. */
void rr_pull_again(struct rr_share *sh, rr_time now)
{
	uint32_t turn = sh->pull_turn - 1;

	while (sh->pulls_short && turn != sh->pull_turn) {
		turn = sh->pull_turn;
		sh->pulls_short = 0;
		for (uint32_t i = 0; i < RR_PULLS; i++)
			if (unfinished(&sh->pull[i]))
				pull_go(sh, &sh->pull[i], now);
	}
}

static struct rr_pull *pull_start(struct rr_share *sh, const struct rr_op *op)
{
	struct rr_pull *p = pull_new(sh);

	if (!p)
		return NULL;
	p->used = true;
	p->local = p->composed = p->judged = p->delivered = p->broken = false;
	p->id = op->id;
	p->len = op->len;
	p->stream = p->nparts = 0;
	return p;
}

/* Queues p for `room` bytes of our memory. */
static void pull_local(struct rr_share *sh, struct rr_pull *p, uint32_t room)
{
	p->local = true;
	p->turn = sh->pulls++;
	p->buf = RR_BUF_NONE;
	p->room = room;
}

static void pull_segs(struct rr_pull *p, const struct rr_op *op, uint32_t fetch)
{
	p->nsegs = op->nsegs;
	memcpy(p->segs, op->segs, op->nsegs * sizeof(p->segs[0]));
	p->fetch = fetch;
	p->asked = p->reads = p->pending = p->front = p->in_turn = 0;
	p->most = UINT32_MAX;
}

/* How much of the message the engine is to see before it judges it. A capture has to see all
 * of it first, and so has who puts it together. */
static uint32_t head_needed(const struct rr_op *op)
{
	return op->room || rr_cap_asked() ? op->len : rr_min(op->len, op->head);
}

/* Begins to fetch a message. On a DIRECT provider the payload stays in the peer's memory until
 * the app reads, and only the head is fetched now, unless there are Read chunks to be put
 * in. */
void rr_pull_begin(struct rr_share *sh, const struct rr_op *op, rr_time now)
{
	struct rr_pull *p = pull_start(sh, op);
	uint8_t head[RR_ULB_PEEK];
	uint32_t n = rr_min(op->len, op->head), id = op->id;
	int rc;

	if (!p) {
		rr_eng_head(sh->eng, id, -ENOBUFS, NULL, 0, now);
		return;
	}
	pull_segs(p, op, op->len);
	if (!rr_drv_direct(sh) || op->room) {
		pull_local(sh, p, rr_max(op->len, op->room));
		p->head = head_needed(op);
		if (p->head < op->len && sh->qp->read_piece)
			p->most = sh->qp->read_piece;
		pull_go(sh, p, now);
		return;
	}
	rc = rr_drv_read_pull(sh, p, 0, head, n);
	if (rc < 0)
		p->used = false;
	rr_eng_head(sh->eng, id, rc, head, rc ? 0 : n, now);
}

/* recv: the payload stream is in this receive, which stays ours until the end; NULL: it was
 * pulled itself. */
void rr_pull_compose(struct rr_share *sh, const struct rr_op *op, const uint8_t *recv,
		     rr_time now)
{
	struct rr_pull *p = recv ? pull_start(sh, op) : pull_find(sh, op->id);
	uint32_t fetch = 0;

	if (!p) {
		rr_eng_pulled(sh->eng, op->id, -ENOBUFS, now);
		return;
	}
	if (recv)
		pull_local(sh, p, op->len);
	for (uint32_t i = 0; i < op->nparts; i++)
		fetch += op->parts[i].len;
	pull_segs(p, op, fetch);
	p->composed = true;
	p->recv = recv ? recv + op->off : NULL;
	p->stream = op->stream;
	p->len = op->len;
	p->nparts = op->nparts;
	memcpy(p->parts, op->parts, op->nparts * sizeof(p->parts[0]));
	pull_go(sh, p, now);
}

void rr_pull_done(struct rr_share *sh, uint32_t pull, int status, rr_time now)
{
	struct rr_pull *p = &sh->pull[pull];

	pull_consumed(sh, p);
	p->used = false;
	rr_eng_pulled(sh->eng, p->id, status, now);
}

/* See carried.h. The memory counts as the app's from here on. */
uint32_t rr_pull_deliver(struct rr_share *sh, uint32_t id, struct rr_rx_ent *e, rr_time now)
{
	struct rr_pull *p = pull_find(sh, id);

	assert(p);	/* the engine has been told of it */
	if (!p->local) {
		e->ref = (uint32_t)(p - sh->pull);
		return 0;
	}
	e->from = RR_FROM_BUF;
	e->ref = p->buf;
	e->stashed = true;
	rr_rx_stash(sh, p->len);
	if (p->judged && p->front < p->fetch) {
		e->from = RR_RX_PART;
		p->delivered = true;
		sh->pull_bytes -= p->room;
		p->room = 0;
		return p->fetch - p->front;
	}
	pull_end(sh, p);
	if (!p->judged)		/* else it has been told */
		rr_eng_pulled(sh->eng, id, 0, now);
	return 0;
}

/* The engine refuses the message. */
void rr_pull_drop(struct rr_share *sh, uint32_t id)
{
	struct rr_pull *p = pull_find(sh, id);

	if (!p)
		return;
	assert(!p->pending);	/* nothing is refused before it has been fetched */
	if (p->local)
		rr_pool_free(&sh->pool, p->buf);
	pull_end(sh, p);
}

/* One more Read has completed, and others have not. The front goes on if it is the next one. */
static void pull_some(struct rr_share *sh, struct rr_pull *p, uint32_t nth, rr_time now)
{
	if (nth == p->in_turn) {
		p->in_turn++;
		pull_front(sh, p, p->front + piece_at(sh, p, p->front).len, now);
	} else {
		p->in_turn = UINT32_MAX;
	}
}

/* An RDMA Read has completed. If the connection is gone, no further completions come. */
void rr_pull_read(struct rr_share *sh, uint32_t which, int status, rr_time now)
{
	struct rr_pull *p = &sh->pull[which % RR_PULLS];

	p->pending--;
	if (status == -ECONNRESET)
		p->broken = true;
	if (p->broken)
		return;
	if (status)
		pull_failed(sh, p, status, now);
	else if (!p->pending && p->asked == p->fetch)
		pull_complete(sh, p, now);
	else if (!p->composed)
		pull_some(sh, p, which / RR_PULLS, now);
}
