/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of what has arrived for the app, in order, whole or in pieces, and where the stream
 * ends: at the peer's hatch, or for good. Copying to the app is stream.c's. */

#include <assert.h>
#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"
#include "core/wire/advance.h"

int rr_stream_error(struct rr_share *sh)
{
	int err = sh->err;

	sh->err = 0;
	return err;
}

static bool holds_receive(const struct rr_rx_ent *e)
{
	return e->from == RR_FROM_RECV || e->from == RR_FROM_PULL;
}

static struct rr_rx_ent *enqueue(struct rr_share *sh, const struct rr_rx_ent *e)
{
	struct rr_rx_ent *to;

	/* An empty queue begins anew at the same entries, so that it touches little memory. */
	if (sh->rx.head == sh->rx.tail)
		sh->rx.head = sh->rx.tail = RR_RX_FIRST;
	to = &sh->rx.ent[sh->rx.tail++ % RR_RX_ENTS];
	*to = *e;
	return to;
}

void rr_stream_push(struct rr_share *sh, const struct rr_rx_ent *e)
{
	struct rr_rx_ent *to = enqueue(sh, e);

	if (likely(e->piece == RR_PIECE_WHOLE))
		to->mark = RR_RM_LAST | e->len;
	else
		sh->rx.in_pieces++;
	sh->rx.records++;
	sh->rx.bytes += rr_rx_size(to);
	/* With ring credits, a message in the peer's memory holds its receive, too. */
	sh->rx.held += holds_receive(e);
	rr_hint(sh, RR_HINT_BYTES);
}

/* Is there a place for it behind what has come so far? */
static bool has_place(const struct rr_share *sh, uint32_t at)
{
	return at == sh->rx.ahead.len && !rr_rx_is_hatched(sh) &&
	       sh->rx.in_pieces < RR_IN_PIECES && rr_rx_has_room(sh, 2 * RR_POLL_BATCH);
}

/* Takes note of it, if it goes on where the last one has ended, or begins a fragment there. The
 * last byte of a message is never told of. */
static bool take_note(struct rr_ahead *h, const struct rr_advance *a)
{
	if (h->len && (a->xid != h->xid || (a->mark && (h->left || h->last))))
		return false;
	if (a->mark) {
		h->left = a->mark & ~RR_RM_LAST;
		h->last = a->mark & RR_RM_LAST;
	}
	if (!a->seg.length || a->seg.length > h->left || (h->last && a->seg.length == h->left))
		return false;
	h->left -= a->seg.length;
	h->len += a->seg.length;
	h->xid = a->xid;
	return true;
}

/* Queues it; false: it makes no sense. */
static bool push_piece(struct rr_share *sh, const struct rr_advance *a, rr_time now)
{
	struct rr_rx_ent e = {
		.from = RR_RX_ADVANCE, .piece = RR_PIECE_MORE, .since = now,
		.ref = a->seg.handle, .at = a->seg.offset, .len = a->seg.length,
		.mark = a->mark, .lead = a->mark ? 0 : a->seg.length,
	};

	if (!take_note(&sh->rx.ahead, a))
		return false;
	rr_count(sh->qp->count, RR_C_advances_received, 1);
	rr_stream_push(sh, &e);
	sh->rx.pieces++;
	return true;
}

bool rr_stream_advance(struct rr_share *sh, const struct rr_advance *a, rr_time now)
{
	/* It is of a message behind one that has arrived, and what is queued is of that one. */
	if (rr_eng_arriving(sh->eng))
		return true;
	if (a->at < sh->rx.ahead.len || a->at >= sh->ep.max_msg ||
	    a->seg.length > sh->ep.max_msg - a->at)
		return false;
	return !has_place(sh, a->at) || push_piece(sh, a, now);
}

bool rr_stream_rest(struct rr_share *sh, uint32_t xid, struct rr_rx_ent *e)
{
	struct rr_ahead h = sh->rx.ahead;
	uint32_t rest = e->len - h.len;

	if (xid != h.xid || e->from != RR_FROM_PULL || e->len < h.len || rest < h.left ||
	    (h.last && rest != h.left))
		return false;
	e->piece = RR_PIECE_LAST;
	e->off += h.len;
	e->len = rest;
	e->lead = h.left;
	e->mark = h.last ? 0 : RR_RM_LAST | (rest - h.left);
	sh->rx.ahead = (struct rr_ahead){ 0 };
	return true;
}

void rr_stream_lacks(struct rr_share *sh, uint32_t missing)
{
	sh->rx.bytes -= missing;
	sh->rx.missing = missing;
}

/* Nothing comes behind a message of which bytes are missing (rr_eng_front()): it is the last
 * one. */
void rr_stream_more(struct rr_share *sh, uint32_t n)
{
	struct rr_rx_ent *e = &sh->rx.ent[(sh->rx.tail - 1) % RR_RX_ENTS];

	assert(e->from == RR_RX_PART && n <= sh->rx.missing);
	sh->rx.bytes += n;
	sh->rx.missing -= n;
	sh->rx.records++;
	sh->rx.pieces++;
	if (!sh->rx.missing)
		e->from = RR_FROM_BUF;
	rr_hint(sh, RR_HINT_BYTES);
}

void rr_stream_moved(struct rr_share *sh, struct rr_rx_ent *e, uint32_t buf)
{
	sh->rx.held -= holds_receive(e);
	sh->rx.stash += e->len;
	e->from = RR_FROM_BUF;
	e->ref = buf;
	e->off = 0;
	e->stashed = true;
}

bool rr_stream_hatch(struct rr_share *sh)
{
	return rr_way_in_hatches(sh);
}

/* What was passed over of this segment, whose first byte is the message's byte `at`, is one
 * fragment with what comes next. */
static bool take_up(struct rr_share *sh, const struct rr_seg *seg, uint32_t at)
{
	const struct rr_advances *all = &sh->tables->ahead;
	struct rr_ahead *h = &sh->rx.ahead;

	while (h->len - at < seg->length) {
		struct rr_advance a = { .xid = all->xid, .at = h->len, .seg = *seg };

		a.seg.offset += h->len - at;
		a.seg.length -= h->len - at;
		if (h->left)
			a.seg.length = rr_min(a.seg.length, h->left);
		else
			a.mark = all->len - h->len + all->mark;
		if (!push_piece(sh, &a, rr_now_coarse()))
			return false;
	}
	return true;
}

/* The peer goes back to TCP within a message, and has said what it has told of it. False: it
 * has told of something else. */
static bool take_up_all(struct rr_share *sh)
{
	const struct rr_advances *all = &sh->tables->ahead;
	const struct rr_ahead *h = &sh->rx.ahead;

	if (all->len < h->len || all->len > sh->ep.max_msg || (h->len && all->xid != h->xid) ||
	    (all->mark & ~RR_RM_LAST) > ~RR_RM_LAST - all->len)
		return false;
	for (uint32_t i = 0, at = 0; i < all->nsegs; at += all->seg[i++].length)
		if (!take_up(sh, &all->seg[i], at))
			return false;
	return h->left == (all->mark & ~RR_RM_LAST);
}

void rr_stream_hatch_in_turn(struct rr_share *sh)
{
	struct rr_rx_ent e = { .from = RR_RX_HATCH };

	if (rr_eng_arriving(sh->eng))
		return;
	if (!take_up_all(sh))
		return rr_drv_fail(sh, ECONNRESET, RR_R_PROTOCOL);
	rr_way_in_hatched(sh);
	enqueue(sh, &e);
	rr_hint(sh, RR_HINT_IN);
}

/* Kept out of rr_stream_is_over(), which every poll asks. */
RR_NOINLINE bool rr_stream_lacks_records(const struct rr_share *sh)
{
	return sh->rx.missing || (rr_rx_is_marked(sh) &&
				  sh->rx.records - sh->rx.pieces < sh->rx.promised);
}

/* Has the peer's stream ended, and has all of it arrived? */
bool rr_stream_is_over(const struct rr_share *sh)
{
	return unlikely(rr_rx_has_ended(sh)) && !rr_stream_lacks_records(sh);
}

/* Has the app read everything before the peer's hatch? */
bool rr_stream_next_is_tcp(struct rr_share *sh)
{
	if (sh->rx.head != sh->rx.tail &&
	    sh->rx.ent[sh->rx.head % RR_RX_ENTS].from == RR_RX_HATCH) {
		sh->rx.head++;
		rr_way_in_tcp(sh);
	}
	return rr_rx_is_tcp(sh);
}

void rr_cross_told(struct rr_share *sh, uint32_t imm)
{
	uint32_t have = sh->rx.before.records, more = (imm - have) & RR_CROSS_COUNT;

	if (more > RR_CROSS_COUNT / 2 || !rr_way_in_crosses(sh, have + more))
		rr_drv_fail(sh, ECONNRESET, RR_R_PROTOCOL);
}
