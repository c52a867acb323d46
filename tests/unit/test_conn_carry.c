/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engine and the driver begin with when a connection becomes carried: what was agreed on, bounded by what the
 * provider can do. */
#include "core/conn/upgrade/upgrade.h"
#include "tests/unit/conn_played.h"

TestSuite(conn_carry, .timeout = 60);

static struct rr_share *sh;
static struct rr_conn *c;

/* The client's connection, which is carried, is about to become so once more. */
static void again(bool direct, uint32_t caps, enum rr_conn_st st)
{
	sh = play(direct);
	c = p.client.c;
	pl.ops.caps = (pl.ops.caps & ~(uint32_t)RR_PROV_RING) | (caps & RR_PROV_RING);
	sh->ep.dialect = RR_DIALECT_V1;
	sh->ep.caps = RR_CAP_HATCH;
	sh->rx.shut = false;
	sh->tx.way = RR_WAY_OUT_RDMA;
	memset(&sh->peer, 0, sizeof(sh->peer));
	sh->index = 4711;
	rr_conn_turn(c, st);
}

static void credits_fit(bool ring, bool agreed)
{
	uint32_t credits, bc_credits, others;

	again(true, ring ? RR_PROV_RING : 0, RR_S_ANSWERED);
	sh->ep.caps |= agreed ? RR_CAP_RING_CREDITS : 0;
	sh->ep.credits = credits = 60;
	sh->ep.bc_credits = bc_credits = 20;
	others = rr_eng_recvs(&sh->ep) - credits - bc_credits;
	sh->ep.recvs = 1000;
	sh->qp->recvs = others + 40;
	rr_upgrade_carry(c);
	cr_assert_eq(sh->ep.recvs, others + 40, "no more than are posted");
	cr_assert(sh->ep.credits == (agreed ? 60 : 30) && sh->ep.bc_credits == (agreed ? 20 : 10), "%d %d: %u %u", ring, agreed,
		  sh->ep.credits, sh->ep.bc_credits);
}

/* Where a ring says what there is room for, credits may be more than receives. */
Test(conn_carry, credits_are_no_more_than_receives_but_on_a_ring)
{
	credits_fit(true, true);
	rr_pair_close(&p);
	credits_fit(true, false);
	rr_pair_close(&p);
	credits_fit(false, false);
}

Test(conn_carry, fewer_receives_than_are_posted_stay_so)
{
	again(true, RR_PROV_RING, RR_S_ANSWERED);
	sh->ep.recvs = 64;
	sh->qp->recvs = 128;
	rr_upgrade_carry(c);
	cr_assert_eq(sh->ep.recvs, 64);
}

/* A device may send more than the peer has said, up to the size of its own receives; a ring is as large as it is. */
Test(conn_carry, sizes_are_the_queue_pairs)
{
	for (int ring = 0; ring < 2; ring++) {
		again(true, ring ? RR_PROV_RING : 0, RR_S_ANSWERED);
		sh->qp->send_size = 2048;
		sh->qp->recv_size = 3072;
		sh->qp->peer_send = 1500;
		sh->qp->peer_inv = ring;
		sh->qp->own_inv = !ring;
		sh->ep.connector = false;
		sh->ep.inline_send_max = 0;
		sh->ep.max_msg = UINT32_MAX;
		rr_upgrade_carry(c);
		cr_assert(sh->ep.inline_send == 2048 && sh->ep.inline_recv == 3072 && sh->ep.inline_peer == 1500);
		cr_assert(sh->ep.invalidate == ring && sh->ep.invited == !ring);
		cr_assert_eq(sh->ep.inline_send_max, ring ? 0 : 3072);
		cr_assert_eq(sh->qp->send_size, ring ? 2048 : 3072);
		cr_assert(sh->ep.connector, "a client");
		cr_assert_eq(sh->ep.max_msg, sh->qp->mem_size / 2);
		sh->ep.max_msg = 5000;
		sh->qp->send_size = 4096;
		rr_upgrade_carry(c);
		cr_assert(sh->ep.max_msg == 5000 && sh->ep.inline_send == 4096 && sh->qp->send_size == 4096);
		rr_pair_close(&p);
	}
}

Test(conn_carry, what_comes_may_be_delayed_by_the_dialect_or_by_the_provider)
{
	for (int i = 0; i < 3; i++) {
		again(i != 1, RR_PROV_RING, RR_S_ANSWERED);
		sh->ep.dialect = i == 2 ? RR_DIALECT_DRAFT02 : RR_DIALECT_V1;
		cr_assert_eq(rr_eng_delays(sh->ep.dialect), i == 2);
		sh->delays = i == 0;
		rr_upgrade_carry(c);
		cr_assert_eq(sh->delays, i != 0, "%d", i);
		rr_pair_close(&p);
	}
}

/* Its statistics, its place among the connections, the peer's address and what the app has shut are the connection's. */
Test(conn_carry, what_the_connection_knows_counts_for_the_new_way)
{
	uint64_t upgraded;

	for (int shut = 0; shut < 4; shut++) {
		again(true, RR_PROV_RING, RR_S_ANSWERED);
		upgraded = rr_stats_counters(c->st)->v[RR_C_upgraded];
		sh->seg = NULL;
		sh->st = NULL;
		sh->qp->count = sh->ep.count = NULL;
		c->shut_rd = shut & 1;
		c->shut_wr = shut & 2;
		rr_upgrade_carry(c);
		cr_assert(sh->seg == c->seg && sh->st == c->st);
		cr_assert(sh->qp->count == rr_stats_counters(c->st) && sh->ep.count == sh->qp->count);
		cr_assert_eq(sh->qp->count->v[RR_C_upgraded], upgraded + 1);
		cr_assert_eq(sh->index, c->index);
		cr_assert_eq(memcmp(&sh->peer, &c->peer, sizeof(sh->peer)), 0);
		cr_assert_neq(sh->peer.sin6_family, 0);
		cr_assert_eq(sh->rx.shut, (shut & 1) != 0);
		cr_assert_eq(rr_tx_is_shut(sh), (shut & 2) != 0);
		cr_assert(rr_conn_st(c) == RR_S_CARRIED && reported(sh) == RR_R_NONE);
		rr_pair_close(&p);
	}
}

/* Whose records still come by TCP crosses at the end of one. */
Test(conn_carry, both_streams_are_early_where_the_offer_rode_along)
{
	for (int rides = 0; rides < 2; rides++) {
		again(true, RR_PROV_RING, rides ? RR_S_ASKED : RR_S_ANSWERED);
		c->out.records = 12;
		c->in.records = 34;
		atomic_store(&sh->hint, 0);
		rr_upgrade_carry(c);
		cr_assert_eq(sh->tx.before.records == 12, rides);
		cr_assert_eq(sh->rx.before.records == 34, rides);
		cr_assert_eq((atomic_load(&sh->hint) & RR_HINT_EARLY) != 0, rides);
		cr_assert_eq(rr_conn_st(c), RR_S_CARRIED);
		rr_pair_close(&p);
	}
}
