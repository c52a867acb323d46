/* SPDX-License-Identifier: BSD-3-Clause */
/* When this end follows a peer that goes back to TCP, and what it sends by TCP first. */
#include "tests/unit/conn_played.h"

TestSuite(hatch, .timeout = 60);

static struct rr_share *sh;

/* The client's end, whose peer has called it back. */
static void called_back(uint32_t caps)
{
	sh = play(true);
	sh->ep.caps = caps;
	sh->called_back = true;
	pl.on_say.first = 1;
}

static void follows(bool does)
{
	uint64_t hatches = sh->qp->count->v[RR_C_hatches];

	rr_hatch_follow(sh);
	cr_assert_not(sh->called_back);
	cr_assert_eq(pl.says, does);
	cr_assert_eq(sh->qp->count->v[RR_C_hatches], hatches + does);
	if (does) {
		cr_assert_eq(pl.said[0].imm, RR_IMM_HATCH);
		cr_assert(rr_tx_is_tcp(sh) && pl.kicks == 1);
	}
	cr_assert(rr_link_is_up(sh) || !does);
	rr_pair_close(&p);
	memset(&pl, 0, sizeof(pl));
}

Test(hatch, who_is_called_back_follows_if_it_can)
{
	called_back(RR_CAP_HATCH);
	follows(true);
	called_back(0);
	rr_hatch_follow(sh);
	cr_assert(rr_link_is_up(sh), "one without a hatch is not ended by it");
	sh->called_back = true;
	follows(false);
	called_back(RR_CAP_HATCH);
	sh->tx.way = RR_WAY_OUT_TCP;
	follows(false);
	called_back(RR_CAP_HATCH);
	sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	follows(false);
	called_back(RR_CAP_HATCH);
	sh->link = RR_LINK_LOST;
	follows(false);
}

Test(hatch, where_there_is_no_room_for_it_it_follows_later)
{
	called_back(RR_CAP_HATCH);
	pl.on_say.first = -EAGAIN;
	rr_hatch_follow(sh);
	cr_assert(sh->called_back && rr_tx_is_rdma(sh) && pl.says == 1 && rr_link_is_up(sh));
	pl.says = 0;
	pl.on_say.first = 1;
	follows(true);
}

Test(hatch, a_hatch_that_cannot_be_said_ends_the_connection)
{
	called_back(0);
	cr_assert_eq(rr_hatch_open(sh, RR_R_FORKED), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_FORKED && pl.says == 0);
	cr_assert_eq(sh->qp->count->v[RR_C_hatches], 0);
	rr_pair_close(&p);
	memset(&pl, 0, sizeof(pl));
	called_back(RR_CAP_HATCH);
	pl.on_say.first = -EIO;
	cr_assert_eq(rr_hatch_open(sh, RR_R_FORKED), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_DEVICE && rr_tx_is_rdma(sh));
}
