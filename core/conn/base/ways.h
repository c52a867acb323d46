/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_WAYS_H
#define RR_CONN_WAYS_H

/* Which way each direction of a carried connection goes, and how it ends: four enums whose
 * values are the only states that can occur. ways.c alone changes them; streams.h has the
 * questions that others ask of them. Under the connection's lock.
 *
 * Zero stands for a connection that has just become carried and has no bytes left on TCP. */

struct rr_share;

/* The app's bytes.
 *
 *   EARLY ──▶ RDMA ──▶ TCP          EARLY ──▶ TCP: it never crosses
 *     │         │
 *     ▼         ▼
 *   EARLY_SHUT  RDMA_SHUT           EARLY_SHUT ──▶ TCP_SHUT: it never crosses
 */
enum rr_way_out {
	RR_WAY_OUT_RDMA,
	/* Not crossed yet: the anchor carries the bytes. */
	RR_WAY_OUT_EARLY,
	/* The anchor carries the bytes for good. */
	RR_WAY_OUT_TCP,
	/* The app has ended its stream (SHUT_WR). Behind a hatch the kernel knows that
	 * itself. */
	RR_WAY_OUT_RDMA_SHUT,
	RR_WAY_OUT_EARLY_SHUT,
	RR_WAY_OUT_TCP_SHUT,
};

/* The peer's bytes: where the app reads, and what the peer has said of what is to come.
 *
 *   EARLY ──▶ CROSSING ──▶ CROSSING_HATCHING ──▶ CROSSING_HATCHED      EARLY ──▶ TCP: the
 *                │                 │                    │              peer never crosses
 *                ▼                 ▼                    ▼
 *              RDMA ─────────▶ HATCHING ──────────▶ HATCHED ──▶ TCP
 *
 * And CROSSING_HATCHED ──▶ TCP, where nothing stands between the crossing and the hatch. */
enum rr_way_in {
	RR_WAY_IN_RDMA,
	/* The peer has opened its hatch, but messages sent before it are still being
	 * fetched. */
	RR_WAY_IN_HATCHING,
	/* The hatch stands in the queue, behind all of those messages. */
	RR_WAY_IN_HATCHED,
	/* The app has read everything before the hatch: what comes on the anchor is the
	 * app's. */
	RR_WAY_IN_TCP,
	/* The peer has not crossed yet: what comes on the anchor is the app's. */
	RR_WAY_IN_EARLY,
	/* The peer has crossed after rx.until records, of which the app has yet to read some;
	 * … */
	RR_WAY_IN_CROSSING,
	/* … and the peer has opened its hatch as well. */
	RR_WAY_IN_CROSSING_HATCHING,
	RR_WAY_IN_CROSSING_HATCHED,
};

/* How the peer's bytes end, as far as the peer has told. MARKED: the end mark has come, so the
 * stream ends after rx.promised records, even if the FIN arrives before the last of them. */
enum rr_in_end {
	RR_ENDS_NOT,
	RR_ENDS_MARKED,		/* a FIN is about to follow */
	RR_ENDS_FIN,
	RR_ENDS_FIN_MARKED,
	RR_ENDS_RESET,		/* there is nobody to write to, either */
	RR_ENDS_RESET_MARKED,
};

/* The provider's connection.
 *
 *   UP ──▶ LOST ──▶ MORE ──▶ VOID          any of them ──▶ FAILED or FAILED_LOST
 *            └───────────────▶             FAILED ──▶ FAILED_LOST
 */
enum rr_link {
	RR_LINK_UP,
	/* The peer is gone, and the anchor will tell how: … */
	RR_LINK_LOST,
	/* … but bytes that the app has yet to read may precede that. */
	RR_LINK_MORE,
	/* LOST or MORE, and the app has written although nobody is there. */
	RR_LINK_VOID,
	/* This end has given the connection up: it is dead; … */
	RR_LINK_FAILED,
	/* … and the peer is gone as well. */
	RR_LINK_FAILED_LOST,
};

/* ways.c */
/* Both directions begin on TCP: neither has crossed. */
void rr_ways_are_early(struct rr_share *sh);
/* Neither direction will cross: both stay on TCP. */
void rr_ways_stay_tcp(struct rr_share *sh);

void rr_way_out_crossed(struct rr_share *sh);
void rr_way_out_hatched(struct rr_share *sh);
void rr_way_out_shut(struct rr_share *sh);

/* The peer has crossed, after `until` records. False: the peer is not allowed to do that
 * now. */
bool rr_way_in_crosses(struct rr_share *sh, uint32_t until);
/* The app has read all records from before the crossing. */
void rr_way_in_crossed(struct rr_share *sh);
/* The peer has opened its hatch. False: it had opened it already, or has yet to cross. */
bool rr_way_in_hatches(struct rr_share *sh);
/* The hatch is in the queue, behind the messages before it. */
void rr_way_in_hatched(struct rr_share *sh);
/* The app has read everything before the hatch. If records from before the crossing are still
 * unread, nothing else was: then everything that there is has come by TCP. */
void rr_way_in_tcp(struct rr_share *sh);

/* The end mark has come: the peer has sent `promised` records by RDMA. */
void rr_way_in_marked(struct rr_share *sh, uint64_t promised);
/* The end mark no longer counts. */
void rr_way_in_unmarked(struct rr_share *sh);
void rr_way_in_fin(struct rr_share *sh);
void rr_way_in_reset(struct rr_share *sh);

/* The provider's peer is gone. False: that was known. */
bool rr_link_lose(struct rr_share *sh);
/* The peer is gone, and there are bytes on the anchor. */
void rr_link_has_more(struct rr_share *sh);
/* The peer is gone, and the app writes. False: it has done so before. */
bool rr_link_void(struct rr_share *sh);
/* Gives the connection up. False: it was dead already. */
bool rr_link_fail(struct rr_share *sh);

#endif
