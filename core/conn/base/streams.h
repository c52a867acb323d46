/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_STREAMS_H
#define RR_CONN_STREAMS_H

/* Questions about the two streams of a connection: how they stand, which way they go and how
 * they end (ways.h). Under the connection's lock. */

#include "core/conn/base/share.h"

/* --- the link ----------------------------------------------------------------------------- */

/* The connection has been given up: nothing is done for it any more, and nothing can be
 * read. */
static inline bool rr_link_is_dead(const struct rr_share *sh)
{
	return sh->link >= RR_LINK_FAILED;
}

/* Is the provider's peer gone from a connection that we had not given up, or have given up as
 * well? */
static inline bool rr_link_is_lost(const struct rr_share *sh)
{
	return sh->link != RR_LINK_UP && sh->link != RR_LINK_FAILED;
}

/* The link is lost, and the anchor has shown nothing since. */
static inline bool rr_link_has_just_gone(const struct rr_share *sh)
{
	return sh->link == RR_LINK_LOST;
}

/* Neither dead nor lost. */
static inline bool rr_link_is_up(const struct rr_share *sh)
{
	return sh->link == RR_LINK_UP;
}

/* --- how the outbound stream goes, and ends ----------------------------------------------- */

/* Does the outbound stream still go by TCP because it has yet to cross? */
static inline bool rr_tx_is_early(const struct rr_share *sh)
{
	return sh->tx.way == RR_WAY_OUT_EARLY || sh->tx.way == RR_WAY_OUT_EARLY_SHUT;
}

/* Does the outbound stream go by TCP for good? */
static inline bool rr_tx_is_tcp(const struct rr_share *sh)
{
	return sh->tx.way == RR_WAY_OUT_TCP || sh->tx.way == RR_WAY_OUT_TCP_SHUT;
}

/* Has the app ended the outbound stream, other than after a hatch? */
static inline bool rr_tx_is_shut(const struct rr_share *sh)
{
	return sh->tx.way >= RR_WAY_OUT_RDMA_SHUT;
}

/* Does the outbound stream go by RDMA? (The connection may be dead, though.) */
static inline bool rr_tx_is_rdma(const struct rr_share *sh)
{
	return sh->tx.way == RR_WAY_OUT_RDMA;
}

/* May the app still write by RDMA? */
static inline bool rr_tx_carried(const struct rr_share *sh)
{
	return rr_tx_is_rdma(sh) && !rr_link_is_dead(sh);
}

/* --- how the inbound stream comes, and ends ----------------------------------------------- */

/* Are there bytes from before the crossing that the app has yet to read from TCP? */
static inline bool rr_rx_is_early(const struct rr_share *sh)
{
	return sh->rx.way >= RR_WAY_IN_EARLY;
}

/* Has the peer yet to cross? */
static inline bool rr_rx_is_uncrossed(const struct rr_share *sh)
{
	return sh->rx.way == RR_WAY_IN_EARLY;
}

/* Does the app read from TCP because everything before the peer's hatch has been read? */
static inline bool rr_rx_is_tcp(const struct rr_share *sh)
{
	return sh->rx.way == RR_WAY_IN_TCP;
}

/* Does the app read from TCP, after a hatch or before the crossing? */
static inline bool rr_rx_is_read_by_tcp(const struct rr_share *sh)
{
	return sh->rx.way >= RR_WAY_IN_TCP;
}

/* Has the peer opened its hatch while a message sent before it is still being fetched? */
static inline bool rr_rx_hatch_is_due(const struct rr_share *sh)
{
	return sh->rx.way == RR_WAY_IN_HATCHING || sh->rx.way == RR_WAY_IN_CROSSING_HATCHING;
}

/* Has the peer opened its hatch? Then what follows it on the anchor is the app's. */
static inline bool rr_rx_is_hatched(const struct rr_share *sh)
{
	return sh->rx.way != RR_WAY_IN_RDMA && sh->rx.way != RR_WAY_IN_EARLY &&
	       sh->rx.way != RR_WAY_IN_CROSSING;
}

/* Has the app called shutdown(SHUT_RD)? */
static inline bool rr_rx_is_shut(const struct rr_share *sh)
{
	return sh->rx.shut;
}

static inline void rr_rx_shut(struct rr_share *sh)
{
	sh->rx.shut = true;
}

/* Has the peer ended its stream, or will it end after what has arrived? */
static inline bool rr_rx_has_ended(const struct rr_share *sh)
{
	return sh->rx.end >= RR_ENDS_FIN;
}

/* Was the anchor reset? Then there is nobody to write to. */
static inline bool rr_rx_is_reset(const struct rr_share *sh)
{
	return sh->rx.end >= RR_ENDS_RESET;
}

/* Has the peer said how many records it has sent by RDMA? */
static inline bool rr_rx_is_marked(const struct rr_share *sh)
{
	return sh->rx.end == RR_ENDS_MARKED || sh->rx.end == RR_ENDS_FIN_MARKED ||
	       sh->rx.end == RR_ENDS_RESET_MARKED;
}

/* Is there nothing to read, and has neither the peer nor the app ended the inbound stream? */
static inline bool rr_rx_is_quiet(const struct rr_share *sh)
{
	return sh->rx.way == RR_WAY_IN_RDMA && sh->rx.end == RR_ENDS_NOT && !sh->rx.bytes &&
	       !sh->rx.shut;
}

/* May further messages come by RDMA, as far as is known? */
static inline bool rr_rx_goes_on(const struct rr_share *sh)
{
	return !rr_rx_is_hatched(sh) && !rr_rx_has_ended(sh) && !rr_link_is_lost(sh);
}

/* --- both --------------------------------------------------------------------------------- */

/* Does the provider still matter? After the peer's hatch the anchor is the app's, but the
 * provider has to live while our own direction uses it, or a message sent before the hatch is
 * still to come. */
static inline bool rr_prov_matters(const struct rr_share *sh)
{
	return !rr_rx_is_hatched(sh) || rr_rx_hatch_is_due(sh) || rr_tx_carried(sh);
}

/* Has the provider lost the peer, while the anchor has not yet told whether by a FIN or a
 * reset? */
static inline bool rr_stream_peer_unsure(const struct rr_share *sh)
{
	return rr_link_has_just_gone(sh) && sh->rx.end == RR_ENDS_NOT;
}

/* May the app's next bytes go by RDMA, with nothing to report to the app first? */
static inline bool rr_stream_is_usual(const struct rr_share *sh)
{
	return rr_tx_is_rdma(sh) && rr_link_is_up(sh) && !rr_rx_is_early(sh) &&
	       !rr_rx_is_reset(sh) && !sh->err && !sh->called_back;
}

/* --- what has arrived --------------------------------------------------------------------- */

static inline bool rr_rx_is_empty(const struct rr_share *sh)
{
	return sh->rx.head == sh->rx.tail;
}

/* Points at the table in which messages are queued; called when the share is made. */
static inline void rr_rx_init(struct rr_share *sh, struct rr_rx_ent *ent)
{
	sh->rx.ent = ent;
}

/* Are pieces of a message queued that is not complete? */
static inline bool rr_rx_is_ahead(const struct rr_share *sh)
{
	return sh->rx.ahead.len;
}

/* Is there room for n more messages in the queue? */
static inline bool rr_rx_has_room(const struct rr_share *sh, uint32_t n)
{
	return sh->rx.tail - sh->rx.head + n < RR_RX_ENTS;
}

/* The i-th message that the app has yet to read completely; NULL: there are fewer. */
static inline struct rr_rx_ent *rr_rx_nth(struct rr_share *sh, uint32_t i)
{
	return i < sh->rx.tail - sh->rx.head ? &sh->rx.ent[(sh->rx.head + i) % RR_RX_ENTS]
					     : NULL;
}

/* Do unread messages hold so many receives that the peer may run out of credits? */
static inline bool rr_rx_is_crowded(const struct rr_share *sh)
{
	return sh->rx.held > sh->qp->recvs / 2;
}

/* Bytes that the app has yet to read, without those in the ring of a hand-back. */
static inline uint64_t rr_rx_unread(const struct rr_share *sh)
{
	return sh->rx.bytes;
}

/* Differs from before if a record has come by RDMA, or a further piece of one. */
static inline uint64_t rr_rx_came(const struct rr_share *sh)
{
	return sh->rx.records;
}

/* When the anchor was last looked at, by rr_now_coarse(); 0: it must be looked at next time. */
static inline rr_time rr_rx_looked_at(const struct rr_share *sh)
{
	return sh->rx.checked;
}

/* The anchor has just been looked at. */
static inline void rr_rx_look(struct rr_share *sh, rr_time now)
{
	sh->rx.checked = now;
	sh->rx.since = 0;
}

/* Counts n completions, most of which are messages. */
static inline void rr_rx_count(struct rr_share *sh, uint32_t n)
{
	sh->rx.since += n;
}

/* Have so many messages come since the anchor was last looked at that the peer may have had no
 * room for the note by which it announces its end? */
static inline bool rr_rx_may_lack_note(const struct rr_share *sh)
{
	return !sh->rx.checked || sh->rx.since >= sh->qp->recvs / 2;
}

/* The anchor may have news: makes the next call look at it. */
static inline void rr_rx_look_again(struct rr_share *sh)
{
	sh->rx.checked = 0;
}

/* Has an end mark come without its FIN, so that the anchor is worth another look at once? So
 * many times at most: a peer may send none. */
#define RR_RX_HURRY	64u
static inline bool rr_rx_hurries(struct rr_share *sh)
{
	return rr_rx_is_marked(sh) && !rr_rx_has_ended(sh) && sh->rx.hurried++ < RR_RX_HURRY;
}

/* The app's SO_RCVLOWAT, at least 1. It is shared by the family, as the kernel shares it. */
static inline uint32_t rr_rx_lowat(const struct rr_share *sh)
{
	return sh->rx.lowat;
}

static inline void rr_rx_set_lowat(struct rr_share *sh, int low)
{
	sh->rx.lowat = (uint32_t)low;
}

/* Drops everything that has arrived and not been read. */
static inline void rr_rx_forget(struct rr_share *sh)
{
	sh->rx.head = sh->rx.tail;
	sh->rx.off = 0;
	sh->rx.bytes = 0;
	sh->rx.missing = 0;
	sh->rx.in_pieces = 0;
	sh->rx.begun = false;
	sh->rx.ahead = (struct rr_ahead){ 0 };
}

/* Bytes held in our own memory so that receives are free again; rr_rx_stash() adds to them. */
static inline uint64_t rr_rx_stashed(const struct rr_share *sh)
{
	return sh->rx.stash;
}

static inline void rr_rx_stash(struct rr_share *sh, uint32_t len)
{
	sh->rx.stash += len;
}

#endif
