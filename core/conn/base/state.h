/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_STATE_H
#define RR_CONN_STATE_H

/* A connection of this process, and the state that it is in. */

#include "core/conn/base/share.h"

enum rr_conn_st {
	RR_S_FREE,
	RR_S_NEW,		/* nothing was said */
	RR_S_OFFERED,		/* client: the offer is out */
	RR_S_JOINING,		/* client: answered, provider connecting */
	RR_S_ANSWERED,		/* server: the client decides */
	RR_S_CARRIED,
	RR_S_FORKED,		/* carried, but only our parent can use it; see inherited.c */
	RR_S_SWALLOW,		/* client: on TCP, but an answer may still come */
	/* calls go on by TCP, and somebody looks on (ride.c) */
	RR_S_WATCH,		/* client: may offer; server: there may be an offer */
	RR_S_ASKED,		/* client: the offer is out */
	RR_S_MEETING,		/* client: answered, provider connecting */
	RR_S_HEARD,		/* server: the answer goes with the app's next reply */
	RR_S_SAID,		/* server: it has gone, the client may join */
	RR_S_TCP,
	RR_S_REFUSED,		/* a require rule, and it cannot be carried */
	RR_S_LISTEN,		/* no connection: a listener of native peers */
	RR_S_TAKEN,		/* server, native: provider connecting */
	RR_S_DIALING,		/* client, native: the same */
	RR_S_RELAYED,		/* a forked child's; see relayed */
	RR_S_COUNT
};

struct rr_conn {
	/* First what a wait looks at, of each connection in its array. */
	_Atomic uint32_t state;		/* enum rr_conn_st; written under lock */
	/* 0 or 1: not every machine exchanges bytes without a library */
	_Atomic uint32_t changed;
	/* used by a forked child: for the app it is the kernel's */
	_Atomic bool relayed;
	/* it may know what the kernel does not; false: rr_conn_is_plain() */
	_Atomic bool own_word;
	/* at rest (rr_conn_rest()): 1 + its wake_fd; 0 not; see rr_conn_hold() */
	_Atomic int rest;
	/* threads asleep for it (rr_conn_arm(), rr_conn_rest()) */
	_Atomic uint32_t sleepers;
	_Atomic uint32_t refs;		/* the caller's, and a relay's */
	uint32_t index;			/* of its place in the slabs, for good */
	struct rr_lock lock;		/* until it is carried: then share->lock */
	_Atomic bool relay;		/* a thread waits for that */
	bool relay_asked;		/* the child has told it */
	int anchor;			/* of a hand-back's thread */
	/* the app has closed it, and a thread sees to what is under way … */
	_Atomic bool lingers;
	void (*then)(struct rr_share *sh);	/* … and to this */
	bool watched;			/* an epoll set keeps it armed */
	bool server;
	bool require;
	uint8_t dialect;		/* enum rr_dialect that its rule wants */
	int32_t owner;			/* pid that negotiates */
	bool left;			/* this process has it no longer */
	/* the number by which the app last used it; -1 it is gone */
	_Atomic int fd;
	struct sockaddr_in6 peer;	/* client: as given to connect() (v4 or v6) */
	socklen_t peer_len;
	struct rr_share *share;
	struct rr_listener *listener;	/* freed with it … */
	uint32_t listener_size;
	struct sockaddr_in6 name[2];	/* native: of the own end, and the peer's; v4 or v6 */
	/* of any other the same, as the kernel has told us or the app (ends.c) … */
	struct sockaddr_in6 end[2];
	bool told[2];			/* … when it was connected */
	bool dial;			/* client, native */
	bool dial_wait;			/* connect() waits, and goes on by TCP itself */
	bool dial_told;			/* connect() has said that it is connected */
	int dial_err;			/* why it failed, for SO_ERROR or connect() */
	/* an error of the kernel's, for the app's next call (ride.c) */
	int kept;
	struct rr_stat_seg *seg;
	struct rr_stat_conn *st;
	/* the upgrade */
	uint32_t xid;
	rr_time deadline;
	rr_time part_since;		/* server: half an offer is here since */
	rr_time hold_until;		/* a verdict waits for other sleepers to wake */
	/* client: why a provider was not offered; enum rr_reason */
	uint8_t lack;
	_Atomic bool half;		/* server: in the list of half.c */
	struct rr_conn *half_next, *half_prev;
	bool lowat_set;			/* SO_RCVLOWAT is ours */
	int lowat;			/* the app's SO_RCVLOWAT, until it is carried */
	_Atomic bool forked;		/* a child may have set such options since */
	bool shut_rd, shut_wr;		/* the app's shutdown() during the upgrade */
	uint64_t charged, ring;		/* bytes of this process's accounts; see budget.c */
	/* the last fork that counted it; see rr_conn_forked() */
	uint32_t fork_round;
	bool skipping;			/* within an answer that is none */
	/* riding along */
	struct rr_track in, out;	/* in: also while an answer may come too late */
	/* of the app's next record, at a boundary; 0 not looked at */
	size_t most;
	bool whole;			/* … and that is all there was when last asked */
	uint32_t asked_in, asked_out;	/* records when the offer went */
	uint32_t prog;			/* of the first call … */
	bool called;			/* … if that was seen */
	uint32_t usual;			/* calls of such connections; see when.h */
	bool learned;			/* and looked up */
	struct rr_hello heard;
	struct rr_conn *next;		/* free list, or list of all */
};

static inline bool rr_conn_rides(enum rr_conn_st st)
{
	return st >= RR_S_WATCH && st <= RR_S_SAID;
}

/* The same, or an answer may still come: the app's calls are made here (ride.c). */
static inline bool rr_conn_looks_on(enum rr_conn_st st)
{
	return st >= RR_S_SWALLOW && st <= RR_S_SAID;
}

/* Is the share's lock the connection's? */
static inline bool rr_conn_is_shared(enum rr_conn_st st)
{
	return st == RR_S_CARRIED || st == RR_S_FORKED;
}

static inline enum rr_conn_st rr_conn_st(const struct rr_conn *c)
{
	/* pairs with the release in rr_conn_turn(): share is seen
	 * once CARRIED is */
	return (enum rr_conn_st)atomic_load_explicit(&c->state, memory_order_acquire);
}

/* rr_conn_is_kernels(), for those below it. */
static inline bool rr_conn_begins(const struct rr_conn *c)
{
	enum rr_conn_st st = rr_conn_st(c);

	return st == RR_S_NEW || st == RR_S_WATCH;
}

/* Under its lock: has it nothing to tell, until the kernel says that something came in? */
static inline bool rr_conn_is_plain(const struct rr_conn *c)
{
	return rr_conn_begins(c) && !c->kept && !c->part_since && !c->hold_until &&
	       c->lowat <= 1;
}

/* A wait on many connections asks this one before it goes to sleep; until rr_conn_arm() finds
 * that it is plain again. Under its lock, or before the app's call returns. */
static inline void rr_conn_has_word(struct rr_conn *c)
{
	/* pairs with the acquire in rr_plainwait_stays() */
	atomic_store_explicit(&c->own_word, true, memory_order_release);
}

/* Is it the kernel's for the app, that calls by fd? A relay has none. */
static inline bool rr_conn_relayed(const struct rr_conn *c, int fd)
{
	return unlikely(atomic_load_explicit(&c->relayed, memory_order_relaxed)) && fd >= 0;
}

/* The bare change of state, which readiness must hear of. */
static inline void rr_conn_turn(struct rr_conn *c, enum rr_conn_st st)
{
	/* pairs with the acquire in rr_conn_st() */
	atomic_store_explicit(&c->state, st, memory_order_release);
	atomic_store_explicit(&c->changed, true, memory_order_release);
}

/* state.c */
void rr_conn_become(struct rr_conn *c, enum rr_conn_st st, enum rr_reason why);
/* SO_RCVLOWAT of ours, as long as half an offer is there. */
void rr_conn_lowat(struct rr_conn *c, int bytes);

/* ref.c */
/* One more reference, for rr_conn_free() to give back; false: the last one is going. */
bool rr_conn_keep(struct rr_conn *c);

#endif
