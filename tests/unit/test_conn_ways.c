/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way the directions of a carried connection go, and how they end: what each change makes
 * of each value, and that what is asked of a value agrees with itself. */
#include <criterion/criterion.h>

#include "core/base/compiler.h"
#include "core/conn/carried/carried.h"

static struct rr_share sh;

#define ALIKE(n, v)	cr_assert_eq(sh.n, v, "%s of %d is %d", #n, from, (int)sh.n)

#define OUT(v)		RR_WAY_OUT_##v
Test(conn_ways, outbound)
{
	static const enum rr_way_out of[][3] = {
		/*			crossed		hatched		shut */
		[OUT(RDMA)] =	      { OUT(RDMA),	OUT(TCP),	OUT(RDMA_SHUT) },
		[OUT(EARLY)] =	      { OUT(RDMA),	OUT(EARLY),	OUT(EARLY_SHUT) },
		[OUT(TCP)] =	      { OUT(TCP),	OUT(TCP),	OUT(TCP) },
		[OUT(RDMA_SHUT)] =    { OUT(RDMA_SHUT), OUT(RDMA_SHUT), OUT(RDMA_SHUT) },
		[OUT(EARLY_SHUT)] =   { OUT(EARLY_SHUT), OUT(EARLY_SHUT), OUT(EARLY_SHUT) },
		[OUT(TCP_SHUT)] =     { OUT(TCP_SHUT),	OUT(TCP_SHUT),	OUT(TCP_SHUT) },
	};
	static void (*const change[])(struct rr_share *) = {
		rr_way_out_crossed, rr_way_out_hatched, rr_way_out_shut,
	};

	for (int from = 0; from <= OUT(TCP_SHUT); from++)
		for (int i = 0; i < 3; i++) {
			sh.tx.way = (enum rr_way_out)from;
			change[i](&sh);
			ALIKE(tx.way, of[from][i]);
		}
}

#define IN(v)		RR_WAY_IN_##v
Test(conn_ways, inbound)
{
	static const struct {
		enum rr_way_in crosses, crossed, hatches, hatched, tcp;
	} of[] = {
		[IN(RDMA)] = { IN(RDMA), IN(RDMA), IN(HATCHING), IN(RDMA), IN(RDMA) },
		[IN(HATCHING)] = { IN(HATCHING), IN(HATCHING), IN(HATCHING), IN(HATCHED),
				   IN(HATCHING) },
		[IN(HATCHED)] = { IN(HATCHED), IN(HATCHED), IN(HATCHED), IN(HATCHED), IN(TCP) },
		[IN(TCP)] = { IN(TCP), IN(TCP), IN(TCP), IN(TCP), IN(TCP) },
		[IN(EARLY)] = { IN(CROSSING), IN(EARLY), IN(EARLY), IN(EARLY), IN(EARLY) },
		[IN(CROSSING)] = { IN(CROSSING), IN(RDMA), IN(CROSSING_HATCHING), IN(CROSSING),
				   IN(CROSSING) },
		[IN(CROSSING_HATCHING)] = { IN(CROSSING_HATCHING), IN(HATCHING),
					    IN(CROSSING_HATCHING), IN(CROSSING_HATCHED),
					    IN(CROSSING_HATCHING) },
		[IN(CROSSING_HATCHED)] = { IN(CROSSING_HATCHED), IN(HATCHED),
					   IN(CROSSING_HATCHED), IN(CROSSING_HATCHED), IN(TCP) },
	};

	for (int from = 0; from <= IN(CROSSING_HATCHED); from++) {
		sh.rx.way = (enum rr_way_in)from;
		sh.rx.until = 0;
		cr_assert_eq(rr_way_in_crosses(&sh, 7), from == IN(EARLY));
		cr_assert_eq(sh.rx.until, from == IN(EARLY) ? 7 : 0);
		ALIKE(rx.way, of[from].crosses);
		sh.rx.way = (enum rr_way_in)from;
		rr_way_in_crossed(&sh);
		ALIKE(rx.way, of[from].crossed);
		sh.rx.way = (enum rr_way_in)from;
		cr_assert_eq(rr_way_in_hatches(&sh), (int)of[from].hatches != from);
		ALIKE(rx.way, of[from].hatches);
		sh.rx.way = (enum rr_way_in)from;
		rr_way_in_hatched(&sh);
		ALIKE(rx.way, of[from].hatched);
		sh.rx.way = (enum rr_way_in)from;
		rr_way_in_tcp(&sh);
		ALIKE(rx.way, of[from].tcp);
	}
}

#define ENDS(v)		RR_ENDS_##v
Test(conn_ways, the_end_of_what_comes)
{
	static const enum rr_in_end of[][3] = {
		/*			fin		reset		  unmarked */
		[ENDS(NOT)] =	      { ENDS(FIN),	  ENDS(RESET),	      ENDS(NOT) },
		[ENDS(MARKED)] =      { ENDS(FIN_MARKED), ENDS(RESET_MARKED), ENDS(NOT) },
		[ENDS(FIN)] =	      { ENDS(FIN),	  ENDS(RESET),	      ENDS(FIN) },
		[ENDS(FIN_MARKED)] =  { ENDS(FIN_MARKED), ENDS(RESET_MARKED), ENDS(FIN) },
		[ENDS(RESET)] =	      { ENDS(RESET),	  ENDS(RESET),	      ENDS(RESET) },
		[ENDS(RESET_MARKED)] = { ENDS(RESET_MARKED), ENDS(RESET_MARKED), ENDS(RESET) },
	};
	static void (*const change[])(struct rr_share *) = {
		rr_way_in_fin, rr_way_in_reset, rr_way_in_unmarked,
	};

	for (int from = 0; from <= ENDS(RESET_MARKED); from++) {
		bool ended, reset;

		for (int i = 0; i < 3; i++) {
			sh.rx.end = (enum rr_in_end)from;
			change[i](&sh);
			ALIKE(rx.end, of[from][i]);
		}
		sh.rx.end = (enum rr_in_end)from;
		ended = rr_rx_has_ended(&sh);
		reset = rr_rx_is_reset(&sh);
		cr_assert(ended || !reset);
		rr_way_in_marked(&sh, 3);
		cr_assert(rr_rx_is_marked(&sh) && sh.rx.promised == 3);
		cr_assert_eq(rr_rx_has_ended(&sh), ended, "a mark is no end");
		cr_assert_eq(rr_rx_is_reset(&sh), reset);
		sh.rx.records = 2;
		cr_assert(rr_stream_lacks_records(&sh));
		sh.rx.records = 5;
		sh.rx.pieces = 3;	/* of two records */
		cr_assert(rr_stream_lacks_records(&sh));
		sh.rx.pieces = 2;
		cr_assert_not(rr_stream_lacks_records(&sh));
		sh.rx.missing = 1;
		cr_assert(rr_stream_lacks_records(&sh));
		cr_assert_eq(rr_stream_is_over(&sh), false);
		sh.rx.missing = 0;
		cr_assert_eq(rr_stream_is_over(&sh), ended);
		sh.rx.pieces = 0;
		rr_way_in_unmarked(&sh);
		cr_assert_not(rr_rx_is_marked(&sh));
		cr_assert_eq(rr_rx_has_ended(&sh), ended);
	}
}

#define LINK(v)		RR_LINK_##v
Test(conn_ways, the_link)
{
	static const struct {
		enum rr_link lose, more, nobody, fail;
	} of[] = {
		[LINK(UP)] = { LINK(LOST), LINK(UP), LINK(UP), LINK(FAILED) },
		[LINK(LOST)] = { LINK(LOST), LINK(MORE), LINK(VOID), LINK(FAILED_LOST) },
		[LINK(MORE)] = { LINK(MORE), LINK(MORE), LINK(VOID), LINK(FAILED_LOST) },
		[LINK(VOID)] = { LINK(VOID), LINK(VOID), LINK(VOID), LINK(FAILED_LOST) },
		[LINK(FAILED)] = { LINK(FAILED_LOST), LINK(FAILED), LINK(FAILED), LINK(FAILED) },
		[LINK(FAILED_LOST)] = { LINK(FAILED_LOST), LINK(FAILED_LOST), LINK(FAILED_LOST),
					LINK(FAILED_LOST) },
	};

	for (int from = 0; from <= LINK(FAILED_LOST); from++) {
		bool lost, dead;

		sh.link = (enum rr_link)from;
		lost = rr_link_is_lost(&sh);
		dead = rr_link_is_dead(&sh);
		cr_assert_eq(rr_link_is_up(&sh), !lost && !dead);
		cr_assert_neq(rr_link_lose(&sh), lost, "only the first time");
		cr_assert(rr_link_is_lost(&sh) && rr_link_is_dead(&sh) == dead);
		ALIKE(link, of[from].lose);
		sh.link = (enum rr_link)from;
		rr_link_has_more(&sh);
		ALIKE(link, of[from].more);
		sh.link = (enum rr_link)from;
		cr_assert_eq(rr_link_void(&sh), from == LINK(LOST) || from == LINK(MORE));
		ALIKE(link, of[from].nobody);
		sh.link = (enum rr_link)from;
		cr_assert_neq(rr_link_fail(&sh), dead, "only the first time");
		cr_assert(rr_link_is_dead(&sh) && rr_link_is_lost(&sh) == lost);
		ALIKE(link, of[from].fail);
	}
}

/* Of what rides along; the app may have shut it down before. */
Test(conn_ways, both_begin_by_tcp_and_may_stay_there)
{
	for (int shut = 0; shut < 2; shut++) {
		sh.tx.way = OUT(RDMA);
		sh.rx.way = IN(RDMA);
		if (shut)
			rr_way_out_shut(&sh);
		rr_ways_are_early(&sh);
		cr_assert(rr_tx_is_early(&sh) && rr_rx_is_early(&sh) && rr_rx_is_uncrossed(&sh));
		cr_assert_eq(rr_tx_is_shut(&sh), shut);
		rr_ways_stay_tcp(&sh);
		cr_assert(rr_tx_is_tcp(&sh) && rr_rx_is_tcp(&sh) && rr_rx_is_hatched(&sh));
		cr_assert_eq(rr_tx_is_shut(&sh), shut);
	}
}

/* One way at a time, and what follows from it. */
Test(conn_ways, a_direction_goes_one_way)
{
	for (int i = 0; i <= OUT(TCP_SHUT); i++) {
		sh.tx.way = (enum rr_way_out)i;
		cr_assert_leq(rr_tx_is_early(&sh) + rr_tx_is_tcp(&sh) + rr_tx_is_rdma(&sh), 1);
		cr_assert_not(rr_tx_is_rdma(&sh) && rr_tx_is_shut(&sh));
		cr_assert(rr_tx_is_early(&sh) || rr_tx_is_tcp(&sh) || rr_tx_is_rdma(&sh) ||
			  rr_tx_is_shut(&sh));
	}
	for (int i = 0; i <= IN(CROSSING_HATCHED); i++) {
		sh.rx.way = (enum rr_way_in)i;
		cr_assert_not(rr_rx_is_early(&sh) && rr_rx_is_tcp(&sh));
		cr_assert_eq(rr_rx_is_read_by_tcp(&sh), rr_rx_is_early(&sh) || rr_rx_is_tcp(&sh));
		cr_assert(rr_rx_is_early(&sh) || !rr_rx_is_uncrossed(&sh));
		cr_assert(rr_rx_is_hatched(&sh) || !(rr_rx_is_tcp(&sh) || rr_rx_hatch_is_due(&sh)));
		cr_assert_not(rr_rx_is_hatched(&sh) && rr_rx_is_uncrossed(&sh));
	}
}
