/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_STREAMS_H
#define RR_CONN_STREAMS_H

/* How the two streams of a connection stand, and how they end: questions, for those who have
 * nothing else to do with them. Under the connection's lock. */

#include "core/conn/base/share.h"

/* --- inbound --- */

static inline bool rr_rx_is_empty(const struct rr_share *sh)
{
	return sh->rx.head == sh->rx.tail;
}

/* Where what arrives is queued: once. */
static inline void rr_rx_init(struct rr_share *sh)
{
	sh->rx.ent = sh->tables->ent;
}

/* Would so many more messages find room in the queue? */
static inline bool rr_rx_has_room(const struct rr_share *sh, uint32_t n)
{
	return sh->rx.tail - sh->rx.head + n < RR_RX_ENTS;
}

/* The i-th of those that the app has yet to read; it may have a part of the first. NULL: there
 * are not so many. */
static inline struct rr_rx_ent *rr_rx_nth(struct rr_share *sh, uint32_t i)
{
	return i < sh->rx.tail - sh->rx.head ? &sh->rx.ent[(sh->rx.head + i) % RR_RX_ENTS]
					     : NULL;
}

/* Do those hold so many receives that the peer may not be able to go on? */
static inline bool rr_rx_is_crowded(const struct rr_share *sh)
{
	return sh->rx.held > sh->qp->recvs / 2;
}

/* Bytes that the app has yet to read, those of a hand-back aside. */
static inline uint64_t rr_rx_unread(const struct rr_share *sh)
{
	return sh->rx.bytes;
}

/* Records that have come by RDMA, so far. */
static inline uint64_t rr_rx_came(const struct rr_share *sh)
{
	return sh->rx.records;
}

/* Nothing is there, and nothing has been said of an end: neither by the peer nor by the app. */
static inline bool rr_rx_is_quiet(const struct rr_share *sh)
{
	const struct rr_rx *rx = &sh->rx;

	return !rx->early && !rx->bytes && !rx->shut && !rx->hatched && !rx->fin && !rx->marked;
}

/* Do messages still come by RDMA, as far as anybody knows? */
static inline bool rr_rx_goes_on(const struct rr_share *sh)
{
	return !sh->rx.hatched && !sh->rx.fin && !sh->prov_lost;
}

/* The peer has opened its hatch: what is on the anchor is the app's. */
static inline bool rr_rx_is_hatched(const struct rr_share *sh)
{
	return sh->rx.hatched;
}

/* The same, and a message from before is still being fetched. */
static inline bool rr_rx_hatch_is_due(const struct rr_share *sh)
{
	return sh->rx.hatch_due;
}

/* Does the app read by TCP, everything before that being read? */
static inline bool rr_rx_is_tcp(const struct rr_share *sh)
{
	return sh->rx.tcp;
}

static inline bool rr_rx_is_early(const struct rr_share *sh)
{
	return sh->rx.early;
}

/* The app has said that it reads no more. */
static inline bool rr_rx_is_shut(const struct rr_share *sh)
{
	return sh->rx.shut;
}

static inline void rr_rx_shut(struct rr_share *sh)
{
	sh->rx.shut = true;
}

/* The peer's stream ends, behind what has arrived. */
static inline bool rr_rx_has_ended(const struct rr_share *sh)
{
	return sh->rx.fin;
}

/* The same has been told otherwise than by the anchor. */
static inline void rr_rx_end(struct rr_share *sh)
{
	sh->rx.fin = true;
}

/* Has the peer said how many records there will have been? */
static inline bool rr_rx_is_marked(const struct rr_share *sh)
{
	return sh->rx.marked;
}

/* When the anchor was last looked at, by rr_now_coarse(); 0 it has to be. */
static inline rr_time rr_rx_looked_at(const struct rr_share *sh)
{
	return sh->rx.checked;
}

/* So many completions have come: messages, for the most part. */
static inline void rr_rx_count(struct rr_share *sh, uint32_t n)
{
	sh->rx.since += n;
}

/* Have so many come since then that the peer may have had no room for the note by which it
 * tells of its end? */
static inline bool rr_rx_may_lack_note(const struct rr_share *sh)
{
	return !sh->rx.checked || sh->rx.since >= sh->qp->recvs / 2;
}

/* The anchor may have news: it is looked at next time. */
static inline void rr_rx_look_again(struct rr_share *sh)
{
	sh->rx.checked = 0;
}

/* The app's SO_RCVLOWAT, at least 1: the family's, as the kernel keeps it for all of them. */
static inline uint32_t rr_rx_lowat(const struct rr_share *sh)
{
	return sh->rx.lowat;
}

static inline void rr_rx_set_lowat(struct rr_share *sh, int low)
{
	sh->rx.lowat = (uint32_t)low;
}

/* What has arrived is not looked at any more. */
static inline void rr_rx_forget(struct rr_share *sh)
{
	sh->rx.head = sh->rx.tail;
	sh->rx.off = 0;
	sh->rx.bytes = 0;
}

/* Bytes that are held in our own memory, to free receives; and there are so many more. */
static inline uint64_t rr_rx_stashed(const struct rr_share *sh)
{
	return sh->rx.stash;
}

static inline void rr_rx_stash(struct rr_share *sh, uint32_t len)
{
	sh->rx.stash += len;
}

/* --- outbound --- */

static inline bool rr_tx_is_early(const struct rr_share *sh)
{
	return sh->tx.early;
}

/* May the app still write by the provider? */
static inline bool rr_tx_carried(const struct rr_share *sh)
{
	return !sh->tx.tcp && !sh->tx.early && !sh->tx.shut && !sh->dead;
}

/* --- both --- */

/* Behind the peer's hatch the anchor is the app's, but the provider has to live while our own
 * direction is not TCP, or something that stands before the hatch is to come. */
static inline bool rr_prov_matters(const struct rr_share *sh)
{
	return !sh->rx.hatched || sh->rx.hatch_due || rr_tx_carried(sh);
}

/* The provider lost the peer, and the anchor has not yet said how: by an end or a reset. */
static inline bool rr_stream_peer_unsure(const struct rr_share *sh)
{
	return sh->prov_lost && !sh->rx.fin && !sh->rx.marked && !sh->rx.more && !sh->dead;
}

#endif
