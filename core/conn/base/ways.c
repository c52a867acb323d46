/* SPDX-License-Identifier: BSD-3-Clause */
/* All changes of the states that ways.h defines. A change that is not possible leaves the state
 * as it is, because it may be a peer that asks for it. What follows from a state is decided
 * elsewhere (streams.h). */

#include "core/conn/base/base.h"

/* --- both directions ---------------------------------------------------------------------- */

void rr_ways_are_early(struct rr_share *sh)
{
	sh->tx.way = rr_tx_is_shut(sh) ? RR_WAY_OUT_EARLY_SHUT : RR_WAY_OUT_EARLY;
	sh->rx.way = RR_WAY_IN_EARLY;
}

void rr_ways_stay_tcp(struct rr_share *sh)
{
	sh->tx.way = rr_tx_is_shut(sh) ? RR_WAY_OUT_TCP_SHUT : RR_WAY_OUT_TCP;
	sh->rx.way = RR_WAY_IN_TCP;
}

/* --- outbound ----------------------------------------------------------------------------- */

void rr_way_out_crossed(struct rr_share *sh)
{
	if (sh->tx.way == RR_WAY_OUT_EARLY)
		sh->tx.way = RR_WAY_OUT_RDMA;
}

void rr_way_out_hatched(struct rr_share *sh)
{
	if (sh->tx.way == RR_WAY_OUT_RDMA)
		sh->tx.way = RR_WAY_OUT_TCP;
}

void rr_way_out_shut(struct rr_share *sh)
{
	if (sh->tx.way == RR_WAY_OUT_RDMA)
		sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	else if (sh->tx.way == RR_WAY_OUT_EARLY)
		sh->tx.way = RR_WAY_OUT_EARLY_SHUT;
}

/* --- inbound ------------------------------------------------------------------------------ */

bool rr_way_in_crosses(struct rr_share *sh, uint32_t until)
{
	if (sh->rx.way != RR_WAY_IN_EARLY)
		return false;
	sh->rx.way = RR_WAY_IN_CROSSING;
	sh->rx.until = until;
	return true;
}

void rr_way_in_crossed(struct rr_share *sh)
{
	if (sh->rx.way == RR_WAY_IN_CROSSING)
		sh->rx.way = RR_WAY_IN_RDMA;
	else if (sh->rx.way == RR_WAY_IN_CROSSING_HATCHING)
		sh->rx.way = RR_WAY_IN_HATCHING;
	else if (sh->rx.way == RR_WAY_IN_CROSSING_HATCHED)
		sh->rx.way = RR_WAY_IN_HATCHED;
}

bool rr_way_in_hatches(struct rr_share *sh)
{
	if (sh->rx.way == RR_WAY_IN_RDMA)
		sh->rx.way = RR_WAY_IN_HATCHING;
	else if (sh->rx.way == RR_WAY_IN_CROSSING)
		sh->rx.way = RR_WAY_IN_CROSSING_HATCHING;
	else
		return false;
	return true;
}

void rr_way_in_hatched(struct rr_share *sh)
{
	if (sh->rx.way == RR_WAY_IN_HATCHING)
		sh->rx.way = RR_WAY_IN_HATCHED;
	else if (sh->rx.way == RR_WAY_IN_CROSSING_HATCHING)
		sh->rx.way = RR_WAY_IN_CROSSING_HATCHED;
}

void rr_way_in_tcp(struct rr_share *sh)
{
	if (sh->rx.way == RR_WAY_IN_HATCHED || sh->rx.way == RR_WAY_IN_CROSSING_HATCHED)
		sh->rx.way = RR_WAY_IN_TCP;
}

void rr_way_in_marked(struct rr_share *sh, uint64_t promised)
{
	sh->rx.promised = promised;
	if (sh->rx.end == RR_ENDS_NOT)
		sh->rx.end = RR_ENDS_MARKED;
	else if (sh->rx.end == RR_ENDS_FIN)
		sh->rx.end = RR_ENDS_FIN_MARKED;
	else if (sh->rx.end == RR_ENDS_RESET)
		sh->rx.end = RR_ENDS_RESET_MARKED;
}

void rr_way_in_unmarked(struct rr_share *sh)
{
	if (sh->rx.end == RR_ENDS_MARKED)
		sh->rx.end = RR_ENDS_NOT;
	else if (sh->rx.end == RR_ENDS_FIN_MARKED)
		sh->rx.end = RR_ENDS_FIN;
	else if (sh->rx.end == RR_ENDS_RESET_MARKED)
		sh->rx.end = RR_ENDS_RESET;
}

void rr_way_in_fin(struct rr_share *sh)
{
	if (sh->rx.end == RR_ENDS_NOT)
		sh->rx.end = RR_ENDS_FIN;
	else if (sh->rx.end == RR_ENDS_MARKED)
		sh->rx.end = RR_ENDS_FIN_MARKED;
}

void rr_way_in_reset(struct rr_share *sh)
{
	sh->rx.end = rr_rx_is_marked(sh) ? RR_ENDS_RESET_MARKED : RR_ENDS_RESET;
}

/* --- the link ----------------------------------------------------------------------------- */

bool rr_link_lose(struct rr_share *sh)
{
	if (rr_link_is_lost(sh))
		return false;
	sh->link = rr_link_is_dead(sh) ? RR_LINK_FAILED_LOST : RR_LINK_LOST;
	return true;
}

void rr_link_has_more(struct rr_share *sh)
{
	if (sh->link == RR_LINK_LOST)
		sh->link = RR_LINK_MORE;
}

bool rr_link_void(struct rr_share *sh)
{
	if (sh->link != RR_LINK_LOST && sh->link != RR_LINK_MORE)
		return false;
	sh->link = RR_LINK_VOID;
	return true;
}

bool rr_link_fail(struct rr_share *sh)
{
	if (rr_link_is_dead(sh))
		return false;
	sh->link = rr_link_is_lost(sh) ? RR_LINK_FAILED_LOST : RR_LINK_FAILED;
	return true;
}
