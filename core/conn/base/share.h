/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_SHARE_H
#define RR_CONN_SHARE_H

/* What a family of processes shares of a connection.
 *
 * A connection has two halves. struct rr_conn (state.h) is this process's: the state of the
 * upgrade, which is over within milliseconds. struct rr_share is made at the upgrade in memory
 * that forked children share (MAP_SHARED, same address): queue pair, engine, both streams, and
 * the lock over them, so that a parent may read a call and its child write the reply. */

#include <netinet/in.h>
#include <stdatomic.h>

#include "core/base/capture.h"
#include "core/base/compiler.h"
#include "core/base/lock.h"
#include "core/base/stats_abi.h"
#include "core/conn/base/calls.h"
#include "core/conn/base/pool.h"
#include "core/conn/base/track.h"
#include "core/conn/conn.h"
#include "core/engine/engine.h"
#include "core/engine/reply_size.h"
#include "core/nego/nego.h"
#include "core/prov/prov.h"
#include "core/wire/recmark.h"

/* Immediate data of Sends that are the connection's own, not the engine's. */
enum { RR_IMM_HATCH = 0x52480001, RR_IMM_NOTE = 0x52480002, RR_IMM_BACK = 0x52480003 };
/* and how many records went by TCP before, the lower half: */
#define RR_IMM_CROSS	0x52580000u
#define RR_CROSS_COUNT	0xffffu

#define RR_BRIEF	(300 * RR_USEC)	/* what a call of a non-blocking app may spend */

/* What poll() calls readable and writable. */
#define RR_IN_BITS	(POLLIN | POLLRDNORM)
#define RR_OUT_BITS	(POLLOUT | POLLWRNORM)

/* payload is in the app's memory, for this call only */
#define RR_BUF_APP	(RR_BUF_NONE - 1)
/* power of two: the most receives (two times 1024 credits) and buffers */
#define RR_RX_ENTS	4096u
#define RR_PULLS	256u
#define RR_RECVS	4096u
#define RR_POLL_BATCH	8	/* on the app's stack, which may be a signal handler's */
#define RR_FAMILY	32u

/* A message on its way to the app. */
struct rr_rx_ent {
	const uint8_t *ptr;	/* RR_FROM_RECV */
	uint32_t ref;		/* receive token, buffer, or index of a pull */
	uint32_t off;		/* in a buffer: where the payload begins */
	uint32_t len;		/* payload bytes */
	uint8_t from;		/* enum rr_from, or RR_RX_HATCH */
	bool stashed;
	bool reply;
	rr_time since;
};
#define RR_RX_HATCH	0xff	/* from here on the peer's bytes come by TCP */

/* A message that is, at least in part, still in the peer's memory. On a DIRECT provider it
 * stays there until the app reads, unless Read chunks have to be put into it; otherwise it is
 * fetched into our own memory, in the order of arrival. */
struct rr_pull {
	bool used;
	bool local;		/* into our own memory */
	bool composed;		/* what is fetched are Read chunks; see parts */
	uint32_t id;		/* the engine's */
	uint32_t len;		/* of the message, as far as it is known */
	uint32_t nsegs;
	struct rr_seg segs[RR_OP_MAX_SEGS];
	/* local */
	uint32_t turn;
	uint32_t buf;		/* where to; RR_BUF_NONE yet */
	uint32_t room;		/* bytes that it needs of that */
	uint32_t fetch;		/* bytes in segs */
	uint32_t asked;		/* for which RDMA Reads are posted … */
	uint32_t pending;	/* … and those that have not completed */
	/* composed */
	/* the Payload stream is in a receive; NULL: at the front of buf */
	const uint8_t *recv;
	uint32_t stream;	/* bytes of it; 0 once it is where it belongs */
	uint32_t nparts;
	struct rr_range parts[RR_OP_MAX_PARTS]; /* where in the message segs belong */
};

/* The app's bytes, outbound. */
struct rr_tx {
	struct rr_rm rm;
	uint32_t buf;		/* collects the current record; RR_BUF_NONE */
	uint32_t len;		/* payload bytes collected */
	uint32_t want;		/* room for so much was not to be had; 0: nothing is missing */
	bool full;		/* nor may a record be begun before the peer has taken others */
	uint64_t records;	/* sent by RDMA */
	bool shut;		/* SHUT_WR was done */
	bool tcp;		/* hatched: the anchor carries this direction */
	bool early;		/* not crossed yet: it still does, and all of it is in … */
	struct rr_track before;
	bool void_once;		/* a write has gone to a peer that is gone */
	/* What was collected before the hatch and goes out by TCP first: a fragment of
	 * flush_len bytes, then the rest of a fragment header. */
	uint32_t flush_len, flush_off;
	uint8_t flush_hdr[4], flush_tail[4];
	uint8_t flush_ntail;
};

struct rr_rx {
	uint32_t head, tail;	/* free-running */
	uint32_t off;		/* bytes of the head entry that the app has, mark included */
	uint32_t lowat;		/* the app's SO_RCVLOWAT */
	uint64_t bytes;		/* ready for the app */
	uint64_t stash;		/* bytes held in our own memory to free receives */
	uint32_t held;		/* entries that hold a receive */
	uint64_t records;	/* received by RDMA */
	bool shut;		/* SHUT_RD was done */
	bool hatched;		/* RR_IMM_HATCH has come: bytes on the anchor are the app's */
	bool hatch_due;		/* … and stands behind messages that are still being fetched */
	bool tcp;		/* and everything before it was read */
	bool early;		/* what comes by TCP has yet to be read, and is in … */
	struct rr_track before;
	/* at a boundary: so many bytes are the next record's; 0 not looked at */
	size_t most;
	bool told;		/* the peer has crossed, after so many records: */
	uint32_t until;
	/* behind a hatch: the app had yet to read bytes when the provider was lost */
	bool more;
	bool fin;		/* the anchor has ended … */
	bool marked;		/* … and said after how many records */
	uint64_t end;
	rr_time checked;	/* when the anchor was last looked at … */
	uint32_t since;		/* … and messages that have come since */
	struct rr_rx_ent *ent;	/* RR_RX_ENTS of them */
};

#define RR_RING		65536u		/* power of two */

/* On the way back to TCP, because a process of the family has it that cannot use the queue
 * pair. The one that can, the owner, receives what the peer still sends by RDMA into a ring,
 * from which all read. */
struct rr_handback {
	int32_t owner;
	int door;		/* where its children ask it; -1: it cannot */
	bool reads;		/* not only the owner's app does */
	bool left;		/* that does not at all any more */
	bool told;		/* the peer was asked to come back, too */
	bool tx, rx;		/* this direction is the kernel's (rx: behind the ring) */
	bool busy;		/* a thread of the owner's is at it */
	rr_time since;		/* a child waits for that … */
	rr_time again;		/* … and asks once more */
	uint32_t head, tail;	/* free-running */
	uint8_t *ring;		/* RR_RING bytes */
};

/* TCP's keepalive on the anchor: while it is ours, this is what the app has set of it. */
#define RR_KEEP_OPTS	4u
struct rr_anchor_keep {
	bool ours;
	int app[RR_KEEP_OPTS];
};

/* What a connection with nothing under way can do without: zeroes are as good then. */
struct rr_tables {
	struct rr_call_open call[2][RR_CALLS - RR_CALLS_HEAD];
	struct rr_rx_ent ent[RR_RX_ENTS];
	struct rr_pull pull[RR_PULLS];
	struct rr_pool_tables pool;
	const uint8_t *recv_at[RR_RECVS];	/* by token, where a delivery may come later */
};

/* One mapping. What an idle connection keeps is two pages of it, those with a *:
 *
 *   share* | queue pair*: head, tables || engine*: head, scratch, tables | rr_tables | ring
 *
 * Times in here are of rr_now_coarse(), unless they say otherwise. */
struct rr_share {
	struct rr_lock lock;
	size_t size;		/* of this mapping */
	struct rr_share *next;	/* during an offer: the same by the next provider */
	bool called_back;	/* the peer goes back to TCP, and we are to */
	_Atomic uint32_t procs;	/* processes that have the connection … */
	/* … and who they are: most end without closing */
	_Atomic int32_t family[RR_FAMILY];
	_Atomic uint32_t hint;	/* for rr_conn_peek() */
	bool dead;
	bool reset;		/* the anchor was: there is nobody to write to */
	bool prov_lost;
	rr_time prov_lost_at;
	int err;		/* for the app's next call; 0 none */
	uint8_t token[RR_TOKEN_LEN];
	int far;		/* native: the other end of the app's TCP socket; else -1 */
	bool relayed;		/* … which a relay uses */
	/* of a request that nobody has accepted; see struct rr_conn */
	struct sockaddr_in6 name[2];
	/* of the connecting side: whom it called; else zeroes */
	struct sockaddr_in6 peer;
	struct rr_qp *qp;
	struct rr_eng *eng;
	struct rr_eng_params ep;
	struct rr_stat_seg *seg;
	struct rr_stat_conn *st;
	struct rr_cap_ends ends;	/* its addresses */
	/* last message; rr_conn_spin() reads it without the lock */
	_Atomic uint64_t active;
	struct rr_anchor_keep anchor;
	/* so long after that a native peer is asked whether it is there; 0 never */
	rr_time keep_idle;
	rr_time probed;		/* when it last was … */
	bool probing;		/* … without an answer yet */
	bool delays;		/* a delivery may come later than its receive */
	/* a message has come: what is spoken does not change any more */
	bool heard;
	bool trimmed;
	uint32_t index;		/* the connection's: its maker's, and each forked child's */
	rr_time patience;	/* idle so long it is trimmed */
	uint32_t warm;		/* pages counted in the process's warm memory */
	/* when the peer was last told where this end runs: once in a tick of the clock */
	rr_time cpu_told;
	/* spinning, learned (ready.c) */
	_Atomic uint64_t spin;
	_Atomic uint64_t spun;	/* in the wait that goes on */
	/* as it stood at the wait's beginning, or when last looked at */
	_Atomic uint32_t peer_work;
	_Atomic bool peer_slept;	/* … when we had sent what it is to answer */
	_Atomic uint32_t moved;	/* large pieces, told to the peer */
	uint32_t woke;		/* ns that wake-ups of this end take */
	rr_time armed_at;	/* rr_now() */
	uint32_t near;		/* sleeps that were a little longer than one spins … */
	uint32_t attempts;	/* … and how often it was tried to do without */
	_Atomic uint32_t tries;	/* this time, still */
	struct rr_calls calls[2];	/* sent; received */
	struct rr_tx tx;
	struct rr_rx rx;
	struct rr_pull *pull;	/* RR_PULLS of them */
	uint32_t pulls;		/* begun, free-running; the next one's turn … */
	uint32_t pull_turn;	/* … and whose turn it is to get memory */
	uint32_t pulls_short;	/* that want memory, or room to post */
	uint64_t pull_bytes;	/* of memory that they have */
	struct rr_pool pool;
	uint32_t fences;	/* keys of it being taken back … */
	rr_time fences_since;	/* … and since when there are such */
	struct rr_tables *tables;
	struct rr_handback back;
};

/* What there may be for the app; and that the provider has nothing to say any more. */
enum {
	RR_HINT_IN = 1,
	RR_HINT_OVER = 2,
	RR_HINT_LOST = 4,
	RR_HINT_EARLY = 8,	/* ask the anchor, too */
	RR_HINT_BYTES = 16,	/* as IN, until they have been read */
	RR_HINT_AHEAD = 32,	/* with EARLY: we have crossed, and are answered by memory */
};

/* Under the lock; only rr_conn_peek() reads it without. */
static inline void rr_hint(struct rr_share *sh, uint32_t what)
{
	atomic_store_explicit(&sh->hint, sh->hint | what, memory_order_relaxed);
}

/* The app has read all bytes that had arrived. */
static inline void rr_hint_read(struct rr_share *sh)
{
	uint32_t left = sh->hint & ~(uint32_t)RR_HINT_BYTES;

	atomic_store_explicit(&sh->hint, left, memory_order_relaxed);
}

/* The app has just seen that there is nothing. */
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

/* Does all that is posted end inside the call? */
static inline bool rr_drv_direct(const struct rr_share *sh)
{
	return sh->qp->ops->caps & RR_PROV_DIRECT;
}

/* share.c */
/* For carrier.c: with room for a queue pair of qp_size bytes, zeroed. NULL: no memory. */
struct rr_share *rr_share_new(const struct rr_prov_params *p, size_t qp_size);
/* another process's: nothing in there is ours */
void rr_share_unmap(struct rr_share *sh);

#endif
