/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_SHARE_H
#define RR_CONN_SHARE_H

/* The part of a connection that a family of processes shares.
 *
 * A connection has two halves. struct rr_conn (state.h) belongs to one process and holds the
 * state of the upgrade, which is over within milliseconds. struct rr_share is made at the
 * upgrade, in memory that forked children share (MAP_SHARED, at the same address): queue pair,
 * engine, both streams, and the lock that protects them, so that a parent can read a call and
 * its child write the reply. */

#include <netinet/in.h>
#include <stdatomic.h>

#include "core/base/capture.h"
#include "core/base/compiler.h"
#include "core/base/lock.h"
#include "core/base/stats_abi.h"
#include "core/conn/base/calls.h"
#include "core/conn/base/flows.h"
#include "core/conn/base/pool.h"
#include "core/conn/base/pull.h"
#include "core/conn/conn.h"
#include "core/engine/engine.h"
#include "core/engine/reply_size.h"
#include "core/nego/nego.h"
#include "core/prov/prov.h"

/* Immediate data of Sends that belong to the connection itself, not to the engine. */
enum { RR_IMM_HATCH = 0x52480001, RR_IMM_NOTE = 0x52480002, RR_IMM_BACK = 0x52480003,
       RR_IMM_ADVANCE = 0x52480004 };
/* A crossing; the lower half holds how many records went by TCP before it. */
#define RR_IMM_CROSS	0x52580000u
#define RR_CROSS_COUNT	0xffffu

#define RR_BRIEF	(300 * RR_USEC)	/* how long a call of a non-blocking app may take */

/* What poll() reports for a readable and for a writable socket. */
#define RR_IN_BITS	(POLLIN | POLLRDNORM)
#define RR_OUT_BITS	(POLLOUT | POLLWRNORM)

/* The payload is in the app's memory, valid for this call only. */
#define RR_BUF_APP	(RR_BUF_NONE - 1)
#define RR_RECVS	4096u
#define RR_POLL_BATCH	8	/* on the app's stack, which may be a signal handler's */
#define RR_FAMILY	32u

#define RR_RING		65536u		/* power of two */

/* The way back to TCP of a connection that has come to a process that cannot use the queue
 * pair. The owner, which can, receives what the peer still sends by RDMA into a ring, from
 * which all processes of the family read. */
struct rr_handback {
	int32_t owner;
	int door;		/* socket where children ask the owner; -1: none */
	bool reads;		/* processes other than the owner read from the ring */
	bool left;		/* the owner's app does not read from it any more */
	bool told;		/* the peer was asked to go back to TCP as well */
	bool tx, rx;		/* this direction is the kernel's (rx: after the ring) */
	bool busy;		/* a thread of the owner's works on it */
	rr_time since;		/* when a child began to wait for the owner … */
	rr_time again;		/* … and when it asks again */
	uint32_t head, tail;	/* free-running */
	uint8_t *ring;		/* RR_RING bytes */
};

/* TCP's keepalive on the anchor. While the anchor's settings are ours, app[] holds what the app
 * has set. */
#define RR_KEEP_OPTS	4u
struct rr_anchor_keep {
	bool ours;
	int app[RR_KEEP_OPTS];
};

/* Tables that a connection with nothing under way can lose: zeroes mean the same then. */
struct rr_tables {
	struct rr_call_open call[2][RR_CALLS - RR_CALLS_HEAD];
	struct rr_pull pull[RR_PULLS];
	struct rr_pool_tables pool;
	struct rr_told told;
	/* Of a peer that opens its hatch within a message, until the hatch stands in the
	 * queue. */
	struct rr_advances ahead;
	/* by receive token, for deliveries that come later */
	const uint8_t *recv_at[RR_RECVS];
};

/* One mapping. An idle connection keeps two pages of it, the parts marked *:
 *
 *   share* | queue pair* || messages for the app* | engine*, its tables | rr_tables || ring
 *
 * Short messages touch no other page: the queue of messages for the app ends in the page in
 * which the engine begins, and begins anew in there when it is empty (RR_RX_FIRST).
 * Times in here are those of rr_now_coarse() unless a field says otherwise. */
struct rr_share {
	struct rr_lock lock;
	size_t size;		/* of this mapping */
	uint32_t forks;		/* this process had made so many when it was made (spare.c) */
	struct rr_share *next;	/* during an offer: the share of the next provider */
	bool called_back;	/* the peer goes back to TCP, and so must we */
	_Atomic uint32_t procs;	/* processes that have the connection … */
	_Atomic int32_t family[RR_FAMILY];	/* … and which: most end without closing */
	_Atomic uint32_t hint;	/* for rr_conn_peek() */
	enum rr_link link;
	/* When the peer's end of the link went, or when bytes were last seen on the anchor
	 * after that. */
	rr_time lost_at;
	int err;		/* for the app's next call to return; 0: none */
	uint8_t token[RR_TOKEN_LEN];
	int far;		/* native: the other end of the app's TCP socket; else -1 */
	bool relayed;		/* native: a relay uses the connection */
	/* Of a native peer's request that has not been accepted yet; see struct rr_conn. */
	struct sockaddr_in6 name[2];
	/* On the connecting side: the address that was called; else zeroes. */
	struct sockaddr_in6 peer;
	struct rr_qp *qp;
	struct rr_eng *eng;
	struct rr_eng_params ep;
	struct rr_stat_seg *seg;
	struct rr_stat_conn *st;
	struct rr_cap_ends ends;	/* its addresses */
	/* When the last message came or went; rr_conn_spin() reads it without the lock. */
	_Atomic uint64_t active;
	struct rr_anchor_keep anchor;
	/* Idle time after which a native peer is probed; 0: never. */
	rr_time keep_idle;
	rr_time probed;		/* when it was last probed */
	bool probing;		/* a probe is out and has not been answered */
	bool delays;		/* a delivery may come later than its receive */
	/* A message has come: the dialect is settled. */
	_Atomic bool heard;
	bool trimmed;
	bool rung;		/* a doorbell has yet to be consumed (rr_conn_disarm_later()) */
	_Atomic uint32_t look_uses;	/* of the last look at the anchor (rr_is_outdated()) */
	_Atomic bool stays;	/* as it is when idle, if rr_idle_is_light() */
	uint32_t index;		/* in the slabs: equal in all processes of the family */
	rr_time patience;	/* trimmed after being idle for so long */
	uint32_t warm;		/* pages counted in the process's warm memory */
	/* When the peer was last told which CPU this end runs on: at most once in a tick of the
	 * clock. */
	rr_time cpu_told;
	/* What spinning has learned (carried/wait.c). */
	_Atomic uint64_t spin;
	_Atomic uint64_t spun;	/* in the wait that goes on */
	/* The peer's counter when the wait began, or when it was last looked at. */
	_Atomic uint32_t peer_work;
	_Atomic bool peer_slept;	/* the peer slept when we sent what it is to answer */
	_Atomic uint32_t moved;	/* count of large pieces moved, told to the peer */
	uint32_t woke;		/* how long a wake-up of this end takes, in ns */
	rr_time armed_at;	/* rr_now() */
	uint32_t near;		/* sleeps that were only a little longer than a spin … */
	uint32_t attempts;	/* … and how often a longer spin was tried instead */
	_Atomic uint32_t tries;	/* tries that are left in this attempt */
	/* What a spin's clock said before the spin found the message that is to be taken in, as
	 * rr_ticks_stamp() and as rr_now(); the latter is 0 once that is used. */
	_Atomic uint64_t seen, seen_at;
	struct rr_calls calls[2];	/* sent; received */
	struct rr_tx tx;
	struct rr_rx rx;
	struct rr_pull *pull;	/* RR_PULLS of them */
	uint32_t pulls;		/* begun so far, free-running: the next one's turn */
	uint32_t pull_turn;	/* the turn that gets memory next */
	uint32_t pulls_short;	/* pulls that lack memory, or room to post */
	uint64_t pull_bytes;	/* chunk memory that pulls hold */
	struct rr_pool pool;
	uint32_t fences;	/* keys that are being taken back … */
	rr_time fences_since;	/* … and since when there are any */
	struct rr_tables *tables;
	struct rr_handback back;
};

/* What rr_conn_peek() can say without the lock: what there may be for the app, and whether the
 * provider is done. */
enum {
	RR_HINT_IN = 1,
	RR_HINT_OVER = 2,
	RR_HINT_LOST = 4,
	RR_HINT_EARLY = 8,	/* bytes may come by TCP: look at the anchor, too */
	RR_HINT_BYTES = 16,	/* like IN, but until the bytes have been read */
	/* with EARLY: our direction has crossed, so replies come by RDMA */
	RR_HINT_AHEAD = 32,
};

/* Under the lock; only rr_conn_peek() reads the hint without it. */
static inline void rr_hint(struct rr_share *sh, uint32_t what)
{
	atomic_store_explicit(&sh->hint, sh->hint | what, memory_order_relaxed);
}

/* The app has read everything that had arrived. */
static inline void rr_hint_read(struct rr_share *sh)
{
	uint32_t left = sh->hint & ~(uint32_t)RR_HINT_BYTES;

	atomic_store_explicit(&sh->hint, left, memory_order_relaxed);
}

/* The app has just been told that there is nothing to read. */
static inline void rr_hint_none(struct rr_share *sh)
{
	atomic_store_explicit(&sh->hint,
			      sh->hint & (RR_HINT_LOST | RR_HINT_EARLY | RR_HINT_AHEAD),
			      memory_order_relaxed);
}

static inline uint32_t rr_handback_bytes(const struct rr_share *sh)
{
	return sh->back.tail - sh->back.head;
}

/* Does everything that is posted complete within the call? */
static inline bool rr_drv_direct(const struct rr_share *sh)
{
	return rr_qp_caps(sh->qp) & RR_PROV_DIRECT;
}

/* share.c */
/* For carrier.c: a share with a queue pair of qp_size bytes, zeroed. NULL: no memory. */
struct rr_share *rr_share_new(const struct rr_prov_params *p, size_t qp_size);
/* Gives back the tables of a share with nothing under way; of its engine `keep` bytes stay. */
void rr_share_trim(struct rr_share *sh, size_t keep);
/* Unmaps shares whose contents belong to another process: what they name is not closed. */
void rr_share_unmap(struct rr_share *sh);

#endif
