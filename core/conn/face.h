/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_FACE_H
#define RR_CONN_FACE_H

/* What a connection shows to those who do not enter it: its state, and whether that has
 * changed. Lock-free; what is seen may be over by the time it is acted on. */

#include <stdatomic.h>

#include "core/base/types.h"

enum rr_conn_st {
	RR_S_FREE,
	RR_S_NEW,		/* nothing was said */
	RR_S_OFFERED,		/* client: the offer is out */
	RR_S_JOINING,		/* client: answered, provider connecting */
	RR_S_ANSWERED,		/* server: the client decides */
	RR_S_CARRIED,
	RR_S_FORKED,		/* carried, but only the parent can use it; see inherited.c */
	RR_S_SWALLOW,		/* client: stays on TCP, but an answer may still come */
	/* From here to RR_S_SAID calls go on by TCP while the connection looks on (ride.c). */
	RR_S_WATCH,		/* client: may offer; server: there may be an offer */
	RR_S_ASKED,		/* client: the offer is out */
	RR_S_MEETING,		/* client: answered, provider connecting */
	RR_S_HEARD,		/* server: the answer goes with the app's next reply */
	RR_S_SAID,		/* server: the answer has gone, the client may join */
	RR_S_TCP,
	RR_S_REFUSED,		/* its rule says 'require', and it cannot be carried */
	RR_S_LISTEN,		/* no connection: a listener of native peers */
	RR_S_TAKEN,		/* server, native: provider connecting */
	RR_S_DIALING,		/* client, native: the same */
	RR_S_RELAYED,		/* a forked child's, served by a relay; see `relayed` */
	RR_S_COUNT
};

/* The first member of struct rr_conn. */
struct rr_conn_face {
	_Atomic uint32_t state;		/* enum rr_conn_st; written under its lock */
	/* 0 or 1. Not a bool: some machines cannot exchange single bytes without a library
	 * call. */
	_Atomic uint32_t changed;
	/* A forked child uses the connection through a relay in this process: to this process's
	 * own app the socket is the kernel's. */
	_Atomic bool relayed;
	bool server;			/* the accepting side; never changes */
	bool within;			/* carried, and the other end is this process's, too */
	_Atomic uint64_t standing;	/* its membership of the standing wait (standing.h) */
};

static inline struct rr_conn_face *rr_conn_face(const struct rr_conn *c)
{
	return (struct rr_conn_face *)(uintptr_t)c;
}

static inline enum rr_conn_st rr_conn_st(const struct rr_conn *c)
{
	/* Pairs with the release in rr_conn_turn(): whoever sees CARRIED sees share, too. */
	return (enum rr_conn_st)atomic_load_explicit(&rr_conn_face(c)->state,
						     memory_order_acquire);
}

/* Is it on TCP for ever? If so, only rr_conn_close() and rr_conn_free() still need to be
 * called. */
static inline bool rr_conn_is_tcp(const struct rr_conn *c)
{
	return rr_conn_st(c) == RR_S_TCP;
}

/* Is it carried, so that rr_conn_wake_fd() counts? */
static inline bool rr_conn_is_carried(const struct rr_conn *c)
{
	return rr_conn_st(c) == RR_S_CARRIED &&
	       !atomic_load_explicit(&rr_conn_face(c)->relayed, memory_order_relaxed);
}

/* What the app does to a connection of which this is true, it may look for at the other end
 * with its next call. */
static inline bool rr_conn_is_within(const struct rr_conn *c)
{
	return rr_conn_is_carried(c) && rr_conn_face(c)->within;
}

/* Is nothing of ours under way, so that the kernel alone can end it? */
static inline bool rr_st_is_kernels(enum rr_conn_st st)
{
	return st == RR_S_NEW || st == RR_S_WATCH;
}

static inline bool rr_conn_is_kernels(const struct rr_conn *c)
{
	return rr_st_is_kernels(rr_conn_st(c));
}

/* Has is_tcp, is_carried or what rr_conn_fds() says changed since the last call? Tests and
 * clears; the wrapper then updates its epoll registrations. */
static inline bool rr_conn_changed(struct rr_conn *c)
{
	_Atomic uint32_t *changed = &rr_conn_face(c)->changed;

	return atomic_load_explicit(changed, memory_order_relaxed) &&
	       atomic_exchange_explicit(changed, false, memory_order_acquire);
}

#endif
