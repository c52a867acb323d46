/* SPDX-License-Identifier: BSD-3-Clause */
/* What has arrived for the app, in order, and where that ends: at the peer's hatch, or for
 * good. */

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
	if (sh->rx.head == sh->rx.tail)
		sh->rx.head = sh->rx.tail = 0;	/* touches little memory */
	sh->rx.ent[sh->rx.tail++ % RR_RX_ENTS] = *e;
}

void rr_stream_push(struct rr_share *sh, const struct rr_rx_ent *e)
{
	enqueue(sh, e);
	sh->rx.records++;
	sh->rx.bytes += (uint64_t)RR_RM_HDR + e->len;
	/* With ring credits, what lies in the peer's memory holds its receive, too. */
	sh->rx.held += holds_receive(e);
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
	if (sh->rx.hatched)
		return false;
	sh->rx.hatched = sh->rx.hatch_due = true;
	return true;
}

void rr_stream_hatch_in_turn(struct rr_share *sh)
{
	struct rr_rx_ent e = { .from = RR_RX_HATCH };

	if (rr_eng_arriving(sh->eng))
		return;
	sh->rx.hatch_due = false;
	enqueue(sh, &e);
	rr_hint(sh, RR_HINT_IN);
}

/* Has the peer's stream ended, and all of it arrived? */
bool rr_stream_is_over(const struct rr_share *sh)
{
	return sh->rx.fin && (!sh->rx.marked || sh->rx.records >= sh->rx.end);
}

/* Has everything before the peer's hatch been read? */
bool rr_stream_next_is_tcp(struct rr_share *sh)
{
	if (sh->rx.head != sh->rx.tail &&
	    sh->rx.ent[sh->rx.head % RR_RX_ENTS].from == RR_RX_HATCH) {
		sh->rx.head++;
		sh->rx.tcp = true;
	}
	return sh->rx.tcp;
}

void rr_cross_told(struct rr_share *sh, uint32_t imm)
{
	uint32_t have = sh->rx.before.records, more = (imm - have) & RR_CROSS_COUNT;

	if (!sh->rx.early || sh->rx.told || more > RR_CROSS_COUNT / 2) {
		rr_drv_fail(sh, ECONNRESET, RR_R_PROTOCOL);
		return;
	}
	sh->rx.told = true;
	sh->rx.until = have + more;
}
