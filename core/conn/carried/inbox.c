/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of what has arrived for the app, in order, and where the stream ends: at the peer's
 * hatch, or for good. Copying to the app is stream.c's. */

#include <assert.h>
#include <errno.h>

#include "core/base/compiler.h"
#include "core/conn/carried/carried.h"

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

static void enqueue(struct rr_share *sh, const struct rr_rx_ent *e)
{
	/* An empty queue begins anew at the same entries, so that it touches little memory. */
	if (sh->rx.head == sh->rx.tail)
		sh->rx.head = sh->rx.tail = RR_RX_FIRST;
	sh->rx.ent[sh->rx.tail++ % RR_RX_ENTS] = *e;
}

void rr_stream_push(struct rr_share *sh, const struct rr_rx_ent *e)
{
	enqueue(sh, e);
	sh->rx.records++;
	sh->rx.bytes += (uint64_t)RR_RM_HDR + e->len;
	/* With ring credits, a message in the peer's memory holds its receive, too. */
	sh->rx.held += holds_receive(e);
	rr_hint(sh, RR_HINT_BYTES);
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
	e->stashed = true;
}

bool rr_stream_hatch(struct rr_share *sh)
{
	return rr_way_in_hatches(sh);
}

void rr_stream_hatch_in_turn(struct rr_share *sh)
{
	struct rr_rx_ent e = { .from = RR_RX_HATCH };

	if (rr_eng_arriving(sh->eng))
		return;
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
