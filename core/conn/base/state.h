/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_STATE_H
#define RR_CONN_STATE_H

/* A connection of this process, and the state that it is in. */

#include "core/conn/base/plainwait.h"
#include "core/conn/base/price.h"
#include "core/conn/base/share.h"
#include "core/conn/face.h"
#include "core/conn/standing.h"

struct rr_conn {
	/* The first fields are what a wait looks at, for each connection in its array. */
	struct rr_conn_face face;
	/* It may have something to tell that the kernel does not know; false:
	 * rr_conn_is_plain(). */
	_Atomic bool own_word;
	/* At rest (rr_conn_rest()): 1 + its wake_fd; 0: not at rest. See rr_conn_hold(). */
	_Atomic int rest;
	/* Threads asleep on this connection (rr_conn_arm(), rr_conn_rest()). */
	_Atomic uint32_t sleepers;
	_Atomic uint32_t refs;		/* held by the caller, and by a relay */
	uint32_t index;			/* its place in the slabs, which never changes */
	struct rr_lock lock;		/* until it is carried: then share->lock */
	_Atomic bool relay;		/* a relay's thread waits for this connection */
	bool relay_asked;		/* the child has asked the relay to begin */
	int anchor;			/* for the thread of a hand-back */
	/* The app has closed it, and a thread finishes what is under way … */
	_Atomic bool lingers;
	void (*then)(struct rr_share *sh);	/* … and then calls this */
	bool watched;			/* an epoll set has its wake-up fd, keeps it armed */
	bool require;
	uint8_t dialect;		/* enum rr_dialect that its rule wants */
	int32_t owner;			/* pid of the process that negotiates */
	bool left;			/* this process has it no longer */
	/* The descriptor by which the app last used it; -1: the descriptor is closed. */
	_Atomic int fd;
	struct sockaddr_in6 peer;	/* client: as given to connect() (v4 or v6) */
	socklen_t peer_len;
	struct rr_share *share;
	struct rr_listener *listener;	/* freed with the connection */
	uint32_t listener_size;
	struct sockaddr_in6 name[2];	/* native: own end, peer's end; v4 or v6 */
	/* The same for any other connection, as the kernel or the app has told us (ends.c). */
	struct sockaddr_in6 end[2];
	bool told[2];			/* which of the two are known */
	bool dial;			/* client, native */
	/* a thread in connect() waits, and falls back to TCP itself */
	bool dial_wait;
	bool dial_told;			/* connect() has said that it is connected */
	int dial_err;			/* why it failed, for SO_ERROR or connect() */
	/* A socket error that we met, kept for the app's next call (ride.c). */
	int kept;
	struct rr_stat_seg *seg;
	struct rr_stat_conn *st;
	/* the upgrade */
	uint32_t xid;
	rr_time deadline;
	rr_time part_since;		/* server: when the first half of an offer came */
	/* until when a verdict waits for other sleepers to wake */
	rr_time hold_until;
	/* Client: why a provider was not offered; enum rr_reason. */
	uint8_t lack;
	_Atomic uint8_t half;		/* server: in which queue of half.c; 0 in none */
	struct rr_conn *half_next, *half_prev;
	bool lowat_set;			/* SO_RCVLOWAT currently has our value */
	int lowat;			/* the app's SO_RCVLOWAT, until it is carried */
	_Atomic bool forked;		/* a child may have changed socket options since */
	bool shut_rd, shut_wr;		/* the app's shutdown() during the upgrade */
	uint64_t charged, ring;		/* its part of this process's accounts; see budget.c */
	/* The last fork that counted this connection; see rr_conn_forked(). */
	uint32_t fork_round;
	bool skipping;			/* inside a reply to the offer that is not an answer */
	/* While looking on (ride.c): */
	struct rr_track in, out;	/* in: also while a late answer may come */
	/* At a record boundary: how many bytes belong to the app's next record; 0: not known
	 * yet. */
	size_t most;
	rr_time looked;			/* … and when the kernel last said that bytes or an end
					 * are there, by the coarse clock */
	bool whole;			/* … and the queue held nothing more when last asked */
	bool ended;			/* the peer's end is all that the queue holds */
	uint32_t asked_in, asked_out;	/* records counted when the offer went */
	/* Client: when the only call under way went, for its round trip; 0: there are none or
	 * several. */
	rr_time alone_since;
	uint32_t prog;			/* program of the first call … */
	bool called;			/* … if a call was seen */
	bool meanwhile;			/* RR_CAP_MEANWHILE was offered */
	struct rr_usual usual;		/* such connections */
	bool learned;			/* `usual` has been looked up */
	struct rr_conn *next;		/* free list, or list of all */
	struct rr_hello heard;		/* the offer's answer. Last, since few connections have
					 * one: what stands here before is not defined */
};

_Static_assert(offsetof(struct rr_conn, face) == 0, "rr_conn_face() relies on it");

/* Is a thread of this process asleep on it, by rr_conn_arm(), rr_conn_rest() or as a member of
 * the standing wait? Asked under its lock, which has ended its rest. */
static inline bool rr_conn_is_slept_on(const struct rr_conn *c)
{
	/* Pairs with the release in rr_conn_rested() and rr_conn_disarm(). */
	return atomic_load(&c->sleepers) || rr_standing_sleeps(c);
}

/* Does the connection look on while calls go by TCP? */
static inline bool rr_conn_rides(enum rr_conn_st st)
{
	return st >= RR_S_WATCH && st <= RR_S_SAID;
}

/* The same, or waiting for a late answer: in all these states the app's calls are made in
 * ride.c. */
static inline bool rr_conn_looks_on(enum rr_conn_st st)
{
	return st >= RR_S_SWALLOW && st <= RR_S_SAID;
}

/* Is the share's lock the connection's? */
static inline bool rr_conn_is_shared(enum rr_conn_st st)
{
	return st == RR_S_CARRIED || st == RR_S_FORKED;
}

/* Has the connection nothing to tell until the kernel says that something came in? Under its
 * lock. */
static inline bool rr_conn_is_plain(const struct rr_conn *c)
{
	return rr_conn_is_kernels(c) && !c->kept && !c->part_since && !c->hold_until &&
	       c->lowat <= 1;
}

/* Makes every wait ask this connection before it sleeps, until rr_conn_arm() finds it plain
 * again. Under its lock, or before the app's call returns. */
static inline void rr_conn_has_word(struct rr_conn *c)
{
	/* Pairs with the acquire in rr_plainwait_stays(). */
	atomic_store_explicit(&c->own_word, true, memory_order_release);
	rr_plainwait_stir();
}

/* Does the app's call on fd go to the kernel because a relay uses the connection? The relay
 * itself passes -1 as fd. */
static inline bool rr_conn_relayed(const struct rr_conn *c, int fd)
{
	return unlikely(atomic_load_explicit(&c->face.relayed, memory_order_relaxed)) &&
	       fd >= 0;
}

/* What rr_conn_fds() says, or whose the connection is, has changed: rr_conn_changed() will tell
 * the wrapper. */
static inline void rr_conn_set_changed(struct rr_conn *c)
{
	/* Pairs with the acquire in rr_conn_changed(). */
	atomic_store_explicit(&c->face.changed, true, memory_order_release);
}

/* Changes the state and nothing else, and lets readiness know. */
static inline void rr_conn_turn(struct rr_conn *c, enum rr_conn_st st)
{
	/* Pairs with the acquire in rr_conn_st(). */
	atomic_store_explicit(&c->face.state, st, memory_order_release);
	if (!rr_st_is_kernels(st))
		rr_plainwait_stir();
	rr_conn_set_changed(c);
}

/* state.c */
void rr_conn_become(struct rr_conn *c, enum rr_conn_st st, enum rr_reason why);
/* Sets SO_RCVLOWAT in the kernel, while half an offer is in the queue. */
void rr_conn_lowat(struct rr_conn *c, int bytes);

/* ref.c */
/* Takes a reference, to be given back by rr_conn_free(). False: the last one is just being
 * dropped. */
bool rr_conn_keep(struct rr_conn *c);

#endif
