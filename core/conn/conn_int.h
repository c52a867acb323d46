/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_INT_H
#define RR_CONN_INT_H

/* What the files of core/conn share.
 *
 * A connection has two halves. struct rr_conn is this process's: the state of the upgrade,
 * which is over within milliseconds. struct rr_share is made at the upgrade in memory that
 * forked children share (MAP_SHARED, same address): queue pair, engine, both streams, and the
 * lock over them, so that a parent may read a call and its child write the reply.
 *
 *   base/params.c  options                                base/share.c   what a family shares
 *   base/state.c   state                                  base/ref.c     references, the last one
 *   base/warm.c    chunk memory kept                      upgrade/expire.c  answers not taken up in time
 *   base/iov.c     the app's iovecs                       base/socket.c  the kernel's socket
 *   fork.c     fork()                                     move.c     numbers of our descriptors
 *   conn.c     making and ending, options                 upgrade.c  from TCP to carried:
 *   offer.c    the client's side                          answer.c   the server's side
 *   own.c      what we say of ourselves                   half.c     answers not taken up yet
 *   slab.c     where they live                            late.c     an answer that comes too late
 *   stream.c   record stream <-> messages                 driver.c   engine <-> provider
 *   pull.c     messages in the peer's memory
 *   hatch.c    back to TCP at a record boundary           anchor.c   end mark, FIN, loss
 *   rest.c     armed across waits
 *   carried/ready.c  readiness, arming                   carried/wait.c  spinning, what is learned
 *   poll.c     what waits need to know                    report.c   statistics, log
 *   spin.c     how long to spin: the decision, pure       spinning.c the threads that do
 *   native.c   listeners and connections of native peers  pair.c     the TCP connection under one
 *   dial.c     calling a native peer                      relay.c    one that is forked
 *   handback.c back to TCP for the sake of forked children inherited.c what those do meanwhile
 *   idle.c     memory of idle connections                settle.c   what is under way at the end
 *   keepalive.c a peer that does not answer any more      budget.c   memory that peers may cost
 *   guests.c   native peers that say nothing
 *   cache.c    peers that had no shim a moment ago        pool.c     chunk memory
 *   ride.c     offers and answers that ride along, while calls go on by TCP
 *   queue.c    what the kernel has of those
 *   cross.c    carried, but not crossed yet              track.c    records of a TCP stream that goes by
 *   when.c     when an offer pays: the decision, pure     learned.c  what earlier connections were like
 *   tap.c      what a capture sees
 *   evidence.c servers of this host that have the library */

#include <netinet/in.h>
#include <stdatomic.h>

#include "core/base/capture.h"
#include "core/base/compiler.h"
#include "core/base/lock.h"
#include "core/base/stats_abi.h"
#include "core/base/thread.h"
#include "core/conn/conn.h"
#include "core/conn/base/pool.h"
#include "core/conn/base/track.h"
#include "core/engine/engine.h"
#include "core/engine/reply_size.h"
#include "core/nego/nego.h"
#include "core/prov/prov.h"
#include "core/wire/recmark.h"

extern const struct rr_conn_params *rr_cp;
extern struct rr_sizes rr_conn_sizes;

/* Immediate data of Sends that are the connection's own, not the engine's. */
enum { RR_IMM_HATCH = 0x52480001, RR_IMM_NOTE = 0x52480002, RR_IMM_BACK = 0x52480003 };
#define RR_IMM_CROSS	0x52580000u	/* and how many records went by TCP before, the lower half: */
#define RR_CROSS_COUNT	0xffffu

#define RR_BRIEF	(300 * RR_USEC)	/* what a call of a non-blocking app may spend */

/* What poll() calls readable and writable. */
#define RR_IN_BITS	(POLLIN | POLLRDNORM)
#define RR_OUT_BITS	(POLLOUT | POLLWRNORM)

#define RR_BUF_APP	(RR_BUF_NONE - 1) /* payload is in the app's memory, for this call only */
#define RR_RX_ENTS	4096u		/* power of two: the most receives (two times 1024 credits) and buffers */
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

/* A message that is, at least in part, still in the peer's memory. On a DIRECT provider it stays there
 * until the app reads, unless Read chunks have to be put into it; otherwise it is fetched into
 * our own memory, in the order of arrival. */
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
	const uint8_t *recv;	/* the Payload stream is in a receive; NULL: at the front of buf */
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
	size_t most;		/* at a boundary: so many bytes are the next record's; 0 not looked at */
	bool told;		/* the peer has crossed, after so many records: */
	uint32_t until;
	bool more;		/* behind a hatch: the app had yet to read bytes when the provider was lost */
	bool fin;		/* the anchor has ended … */
	bool marked;		/* … and said after how many records */
	uint64_t end;
	rr_time checked;	/* when the anchor was last looked at … */
	uint32_t since;		/* … and messages that have come since */
	struct rr_rx_ent *ent;	/* RR_RX_ENTS of them */
};

#define RR_RING		65536u		/* power of two */

/* On the way back to TCP, because a process of the family has it that cannot use the queue pair. The one
 * that can, the owner, receives what the peer still sends by RDMA into a ring, from which all read. */
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
	struct rr_rx_ent ent[RR_RX_ENTS];
	struct rr_pull pull[RR_PULLS];
	struct rr_pool_tables pool;
	const uint8_t *recv_at[RR_RECVS];	/* by token, where a delivery may come later */
};

/* One mapping. What an idle connection keeps is two pages of it, those with a *:
 *
 *   share* | queue pair*: head, tables || engine*: head, scratch, tables | struct rr_tables | ring
 *
 * Times in here are of rr_now_coarse(), unless they say otherwise. */
struct rr_share {
	struct rr_lock lock;
	size_t size;		/* of this mapping */
	struct rr_share *next;	/* during an offer: the same by the next provider */
	bool called_back;	/* the peer goes back to TCP, and we are to */
	_Atomic uint32_t procs;	/* processes that have the connection … */
	_Atomic int32_t family[RR_FAMILY];	/* … and who they are: most end without closing */
	_Atomic uint32_t hint;	/* for rr_conn_peek() */
	bool dead;
	bool reset;		/* the anchor was: there is nobody to write to */
	bool prov_lost;
	rr_time prov_lost_at;
	int err;		/* for the app's next call; 0 none */
	uint8_t token[RR_TOKEN_LEN];
	int far;		/* native: the other end of the app's TCP socket; else -1 */
	bool relayed;		/* … which a relay uses */
	struct sockaddr_in6 name[2];	/* of a request that nobody has accepted; see struct rr_conn */
	struct sockaddr_in6 peer;	/* of the connecting side: whom it called; else zeroes */
	struct rr_qp *qp;
	struct rr_eng *eng;
	struct rr_eng_params ep;
	struct rr_stat_seg *seg;
	struct rr_stat_conn *st;
	struct rr_cap_ends ends;	/* its addresses */
	_Atomic uint64_t active;	/* last message; rr_conn_spin() reads it without the lock */
	struct rr_anchor_keep anchor;
	rr_time keep_idle;	/* so long after it a native peer is asked whether it is there; 0 never */
	rr_time probed;		/* when it last was … */
	bool probing;		/* … without an answer yet */
	bool delays;		/* a delivery may come later than its receive */
	bool heard;		/* a message has come: what is spoken does not change any more */
	bool trimmed;
	uint32_t index;		/* the connection's: its maker's, and each forked child's */
	rr_time patience;	/* idle so long it is trimmed */
	uint32_t warm;		/* pages counted in the process's warm memory */
	rr_time cpu_told;	/* when the peer was last told where this end runs: once in a tick of the clock */
	/* spinning, learned (ready.c) */
	_Atomic uint64_t spin;
	_Atomic uint64_t spun;	/* in the wait that goes on */
	_Atomic uint32_t peer_work;	/* as it stood at the wait's beginning, or when last looked at */
	_Atomic bool peer_slept;	/* … when we had sent what it is to answer */
	_Atomic uint32_t moved;	/* large pieces, told to the peer */
	uint32_t woke;		/* ns that wake-ups of this end take */
	rr_time armed_at;	/* rr_now() */
	uint32_t near;		/* sleeps that were a little longer than one spins … */
	uint32_t attempts;	/* … and how often it was tried to do without */
	_Atomic uint32_t tries;	/* this time, still */
	/* one latency sample at a time */
	uint32_t lat_xid, lat_n;
	rr_time lat_start;	/* rr_now() */
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
	atomic_store_explicit(&sh->hint, sh->hint & (RR_HINT_LOST | RR_HINT_EARLY), memory_order_relaxed);
}

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
};

struct rr_conn {
	/* First what a wait looks at, of each connection in its array. */
	_Atomic uint32_t state;		/* enum rr_conn_st; written under lock */
	_Atomic uint32_t changed;	/* 0 or 1: not every machine exchanges bytes without a library */
	_Atomic bool relayed;		/* used by a forked child: for the app it is the kernel's */
	_Atomic int rest;		/* at rest (rr_conn_rest()): 1 + its wake_fd; 0 not; see rr_conn_hold() */
	_Atomic uint32_t sleepers;	/* threads asleep for it (rr_conn_arm(), rr_conn_rest()) */
	_Atomic uint32_t refs;		/* the caller's, and a relay's */
	struct rr_lock lock;		/* until it is carried: then share->lock */
	_Atomic bool relay;		/* a thread waits for that */
	bool relay_asked;		/* the child has told it */
	int anchor;			/* of a hand-back's thread */
	_Atomic bool lingers;		/* the app has closed it, and a thread sees to what is under way … */
	void (*then)(struct rr_share *sh);	/* … and to this */
	bool watched;			/* an epoll set keeps it armed */
	bool server;
	bool require;
	uint8_t dialect;		/* enum rr_dialect that its rule wants */
	int32_t owner;			/* pid that negotiates */
	bool left;			/* this process has it no longer */
	_Atomic int fd;			/* the number by which the app last used it; -1 it is gone */
	struct sockaddr_in6 peer;	/* client: as given to connect() (v4 or v6) */
	socklen_t peer_len;
	struct rr_share *share;
	struct rr_listener *listener;	/* freed with it … */
	uint32_t listener_size;
	struct sockaddr_in6 name[2];	/* native: of the own end, and the peer's; v4 or v6 */
	struct sockaddr_in6 end[2];	/* of any other the same, once the kernel was asked (ends.c) … */
	bool ends;			/* … when it was connected */
	bool dial;			/* client, native */
	bool dial_wait;			/* connect() waits, and goes on by TCP itself */
	bool dial_told;			/* connect() has said that it is connected */
	int dial_err;			/* why it failed, for SO_ERROR or connect() */
	int kept;			/* an error of the kernel's, for the app's next call (ride.c) */
	struct rr_stat_seg *seg;
	struct rr_stat_conn *st;
	/* the upgrade */
	uint32_t xid;
	rr_time deadline;
	rr_time part_since;		/* server: half an offer is here since */
	rr_time hold_until;		/* a verdict waits for other sleepers to wake */
	uint8_t lack;			/* client: why a provider was not offered; enum rr_reason */
	_Atomic bool half;		/* server: in the list of half.c */
	struct rr_conn *half_next, *half_prev;
	bool lowat_set;			/* SO_RCVLOWAT is ours */
	int lowat;			/* the app's SO_RCVLOWAT */
	bool shut_rd, shut_wr;		/* the app's shutdown() during the upgrade */
	uint64_t charged, ring;		/* bytes of this process's accounts; see budget.c */
	uint32_t fork_round;		/* the last fork that counted it; see rr_conn_forked() */
	bool skipping;			/* within an answer that is none */
	/* riding along */
	struct rr_track in, out;	/* in: also while an answer may come too late */
	size_t most;			/* of the app's next record, at a boundary; 0 not looked at */
	uint32_t asked_in, asked_out;	/* records when the offer went */
	uint32_t prog;			/* of the first call … */
	bool called;			/* … if that was seen */
	uint32_t usual;			/* calls of such connections; see when.h */
	bool learned;			/* and looked up */
	struct rr_hello heard;
	uint32_t index;			/* of its place in the slabs, for good */
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

static inline enum rr_conn_st rr_conn_st(const struct rr_conn *c)
{
	/* pairs with the release in rr_conn_turn(): share is seen
	 * once CARRIED is */
	return (enum rr_conn_st)atomic_load_explicit(&c->state, memory_order_acquire);
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

/* conn.c */
/* One more reference, for rr_conn_free() to give back; false: the last one is going. */
bool rr_conn_keep(struct rr_conn *c);
struct rr_conn *rr_conn_make(bool server, int fd, const struct sockaddr *peer, socklen_t len);
void rr_conn_become(struct rr_conn *c, enum rr_conn_st st, enum rr_reason why);
/* SO_RCVLOWAT of ours, as long as half an offer is there. */
void rr_conn_lowat(struct rr_conn *c, int bytes);
struct rr_share *rr_share_new(const struct rr_prov_ops *ops, const struct rr_prov_params *p);
void rr_share_free(struct rr_share *sh);
void rr_share_unmap(struct rr_share *sh);	/* another process's: nothing in there is ours */

/* slab.c */
struct rr_conn *rr_slab_get(bool server, int fd);	/* NULL: no memory */
void rr_slab_carried(struct rr_conn *c);	/* its state becomes RR_S_CARRIED */
void rr_slab_end(struct rr_conn *c);		/* its share is about to go … */
void rr_slab_put(struct rr_conn *c);		/* … and has gone */
/* This process is one that has the connection (0, its pid) or no longer (its pid, 0): a slot of its own, if one is free. */
void rr_family_swap(struct rr_share *sh, int32_t was, int32_t now);
/* This process has it no longer: how many still do. Under its lock. */
uint32_t rr_conn_leave(struct rr_share *sh);
/* Can forked children use it as we do? */
bool rr_conn_shareable(const struct rr_share *sh);
/* How many processes have the connection, but for those that have ended. Under its lock. Some
 * system calls for each other one. */
uint32_t rr_conn_procs(struct rr_share *sh);
/* fn sees connections that do not end meanwhile. False: another thread is at it, try later. */
bool rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx);
/* The same with those that are in use, or have been since they were last found trimmed. */
bool rr_slab_each_in_use(void (*fn)(struct rr_conn *, void *), void *ctx);
/* The connection at this index is in use from now on, or rests: under its lock, or before
 * anybody can have it. */
void rr_slab_in_use(uint32_t index);
void rr_slab_rests(const struct rr_conn *c);
/* Connection i of those that this process has had at one time, in whatever state; NULL: there are no more. */
struct rr_conn *rr_slab_at(uint32_t i);
/* The lock of the slabs: no connection is made, or becomes carried. False: a signal handler's, that interrupted
 * who has it. */
bool rr_slab_hold(void);
void rr_slab_let(void);
/* The same with the one that holds off the end of connections. */
bool rr_slab_hold_ends(void);
void rr_slab_let_ends(void);
void rr_slab_forked(void);		/* in a child, before all else */

/* Takes the lock that goes with the state: the state, with *l held; or without it -EDEADLK, or -EBUSY: another
 * process of the family has it and does not go on. Nothing is known then, and nothing to be waited for.
 * Whoever does so ends the connection's rest: it may be changed. */
int rr_conn_hold(struct rr_conn *c, struct rr_lock **l);
/* Its lock, wherever the process that had it has died: then it is lost. Not one that this thread has. Waits for
 * one that does not go on: for threads of ours. */
void rr_share_hold(struct rr_share *sh);

/* The same, and brings an upgrade forward; also -ECONNRESET, without the lock. */
int rr_conn_enter(struct rr_conn *c, int fd, struct rr_lock **l);

/* rest.c; under its lock. Is the wake-up fd all that can tell of news for a reader, and nothing
 * due at any time? */
bool rr_rest_may(const struct rr_share *sh);
/* A thread that waits for want has armed: from now on the connection is at rest, if it can. */
void rr_rest_begin(struct rr_conn *c, unsigned want);
/* The rest is over. */
void rr_rest_end(struct rr_conn *c);
/* The app has done something itself that those of its threads which sleep on the wake-up fd alone have to see. */
void rr_rest_rouse(struct rr_conn *c);

/* The short entrance: of a connection that is carried, by the number that it was last used by, and that no relay serves.
 * Its share, with the lock held; NULL: rr_conn_enter() has to look. */
static inline struct rr_share *rr_conn_enter_carried(struct rr_conn *c, int fd)
{
	if (rr_conn_st(c) != RR_S_CARRIED || fd != atomic_load_explicit(&c->fd, memory_order_relaxed) ||
	    atomic_load_explicit(&c->relay, memory_order_relaxed) ||
	    atomic_load_explicit(&c->relayed, memory_order_relaxed) || rr_lock_try(&c->share->lock))
		return NULL;
	if (likely(rr_conn_st(c) == RR_S_CARRIED)) {
		if (unlikely(atomic_load_explicit(&c->rest, memory_order_relaxed)))
			rr_rest_end(c);
		return c->share;
	}
	rr_lock_drop(&c->share->lock);
	return NULL;
}

/* May connections of this process still be carried by what its children could not use? */
extern _Atomic bool rr_conn_forks;

/* upgrade.c */
/* The provider is connected. */
void rr_upgrade_carry(struct rr_conn *c);
/* Its connection is TCP's from now on. */
void rr_upgrade_fails(struct rr_conn *c, enum rr_reason why);
/* The smaller of both sides' words becomes the connection's. */
void rr_upgrade_agree(struct rr_share *sh, const struct rr_hello *h, enum rr_dialect dialect);
/* What a provider's error says, if it says more than other does. */
enum rr_reason rr_upgrade_why(const struct rr_prov_ops *ops, int rc, enum rr_reason other);
/* Not what a child could not use in a process whose children do. */
bool rr_upgrade_usable(const struct rr_prov_ops *ops);
/* Has the user stopped it? */
bool rr_upgrade_stopped(void);
/* Has anything been written to the socket, by calls that nobody sees (stdio, syscall(2))? Then its
 * stream is no longer at its beginning. */
bool rr_upgrade_spoken(int fd);
/* Other threads sleep on the anchor because nothing was there. What came wakes them; it is taken
 * only when they are up, or they would sleep on. True: wait a little. */
bool rr_upgrade_waits(struct rr_conn *c);
/* After that: do some sleep still, for want of a CPU, or since they want something else? They went to sleep when
 * there was nothing but TCP, and what another carrier brings would not wake them. */
bool rr_upgrade_unseen(const struct rr_conn *c);

/* offer.c: the client's side. */
/* Afterwards the state says what to do with the write; -EAGAIN: the socket is not connected yet. */
int rr_upgrade_first_write(struct rr_conn *c, int fd, const struct iovec *iov, int n);
ssize_t rr_upgrade_first_read(struct rr_conn *c, int fd);
void rr_offer_step(struct rr_conn *c, int fd);	/* the offer is out, or was taken */
void rr_offer_join(struct rr_conn *c);		/* it was taken */

/* Makes the providers' side, and h. RR_R_NONE, or why it cannot be. */
enum rr_reason rr_offer_make(struct rr_conn *c, int fd, struct rr_hello *h);
/* May the connection whose first call was of this program (NULL: not known) be upgraded? RR_R_NONE, or why not. */
enum rr_reason rr_offer_may(struct rr_conn *c, const uint32_t *prog);
bool rr_offer_required(struct rr_conn *c);	/* by a rule, of what is known of its first call */
/* What it begins with: RR_R_NONE a call. */
enum rr_reason rr_offer_sniff(const uint8_t *head, size_t have);
void rr_offer_peer(struct rr_conn *c);	/* learns who it goes to */
bool rr_offer_by_loopback(const struct rr_conn *c);
/* An answer h: joins the provider that was chosen, or why that cannot be. */
enum rr_reason rr_offer_join_chosen(struct rr_conn *c, const struct rr_hello *h);
enum rr_reason rr_offer_declined(const struct rr_conn *c, enum rr_nego what);
void rr_offer_negative(struct rr_conn *c);

/* ride.c; under the connection's lock. What is neither bytes nor -errno is RR_CONN_KERNEL, or RR_RIDE_OVER: the state is another
 * now, ask again. */
#define RR_RIDE_OVER	(-65537)
/* The app's first write on a connection that may be offered on later; 0: it is TCP's, for it is none. */
ssize_t rr_ride_first(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
void rr_ride_begin(struct rr_conn *c, const uint8_t *head, size_t have);	/* server: the first bytes, which are no offer */
void rr_ride_heard(struct rr_conn *c, const struct rr_hello *h, uint32_t xid);
ssize_t rr_ride_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* *done: what was read, also if the rest is not to be had here. */
ssize_t rr_ride_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags, size_t *done);
int rr_ride_poll(struct rr_conn *c, int fd, unsigned want);
int rr_ride_inq(struct rr_conn *c, int fd);
void rr_ride_step(struct rr_conn *c);
bool rr_ride_let_go(struct rr_conn *c);
/* Before a fork, in the parent. Under the slab's lock nobody waits for a connection's. */
void rr_ride_forks(struct rr_conn *c, bool waits);
/* The answer has gone: is it carried now? Then it has another lock. */
bool rr_ride_joined(struct rr_conn *c);
/* The error that the app has yet to be told, once; 0 none. */
int rr_ride_error(struct rr_conn *c);
void rr_ride_yield(struct rr_conn *c);		/* the app wants a number of ours: gives up what may have it */
/* In a forked child: what the parent has under way is not ours. */
void rr_ride_orphan(struct rr_conn *c);
void rr_ride_end(struct rr_conn *c);		/* the app closes it: what there is to learn */

/* queue.c. The bytes of iov that the kernel takes, or has, now: how many, or -errno. */
ssize_t rr_ride_kernel_send(int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_ride_kernel_recv(int fd, const struct iovec *iov, int n, size_t skip, size_t most,
			    int flags);
/* Bytes in the kernel's queue. What is pending of an error stays so, unlike where one reads. */
size_t rr_ride_queued(int fd);
/* Is there room for len more bytes, so that all of them are taken? */
bool rr_ride_is_room(int fd, size_t len);
#define RR_RIDE_REACH	65536u	/* bytes of the queue that are looked at */
/* The bytes from at on, which stay there: how many. */
size_t rr_ride_peek_at(int fd, size_t at, uint8_t *buf, size_t len);
/* What of the queue goes to nowhere: iovecs for n bytes, at most max. */
int rr_ride_nowhere(struct iovec *iov, int max, size_t n);

/* cross.c; carried, under the share's lock */
void rr_cross_begin(struct rr_share *sh, const struct rr_conn *c);
#define RR_CROSSED	(-65538)	/* this direction goes by RDMA: go on there */
ssize_t rr_cross_send(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_cross_recv(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags, size_t *done);
unsigned rr_cross_in_bits(struct rr_share *sh, int fd, int lowat);	/* lowat: the app's SO_RCVLOWAT */
int rr_cross_inq(struct rr_share *sh, int fd);
void rr_cross_check(struct rr_share *sh, int fd, rr_time now);
/* Has TCP an error? Then it is the connection's, for its app's next call: who writes by RDMA
 * has to hear of it, too. */
void rr_cross_error(struct rr_share *sh, int fd);
/* An error may be what our own end mark has brought about, of a peer that is gone: none that
 * TCP would have had. */
static inline bool rr_cross_marked(const struct rr_share *sh)
{
	return sh->tx.shut && !sh->tx.early;
}
/* Crosses at once, to go back: 0; -EAGAIN not now. */
int rr_cross_now(struct rr_share *sh);
/* May it stay TCP for good, the peer being none the wiser? Then it is. */
bool rr_cross_never(struct rr_share *sh);

/* evidence.c */
bool rr_evidence_look(const struct sockaddr_in6 *peer);
bool rr_evidence_move(int fd);	/* as rr_conn_move_fd() */
void rr_evidence_forked(void);

/* answer.c: the server's side. */
/* Can and may we? Makes our side of the first provider that both have, and says so in *answer. */
bool rr_answer_accept(struct rr_conn *c, int fd, const struct rr_hello *h, struct rr_hello *answer,
		      enum rr_reason *why);
enum rr_reason rr_answer_why_not(struct rr_conn *c, const struct rr_hello *h);
/* What a client is told of that. */
enum rr_nego rr_answer_refusal(enum rr_reason why);
void rr_answer_step(struct rr_conn *c, int fd);	/* nothing was said */
void rr_answer_wait(struct rr_conn *c, int fd);	/* the answer is out */
void rr_answer_rides(struct rr_conn *c);	/* and rode along */
/* It has not been taken up, and from now on cannot be: the client will hear so before it sends a message. False: it has
 * been. The provider's part is still to be freed. */
bool rr_answer_withdraw(struct rr_conn *c);

/* ends.c; under its lock. The addresses of its own end, and of the peer's: the kernel is asked once. Of a family AF_UNSPEC: not
 * known. */
const struct sockaddr *rr_ends_own(struct rr_conn *c);
const struct sockaddr *rr_ends_peer(struct rr_conn *c);
bool rr_ends_known(struct rr_conn *c);		/* both of them? */
void rr_ends_changed(struct rr_conn *c);	/* its socket was connected anew */

/* half.c */
void rr_half_add(struct rr_conn *c);	/* the answer is out, until c->deadline; under its lock */
void rr_half_leave(struct rr_conn *c);
rr_time rr_half_due(void);		/* the oldest's deadline, or when to try again; 0 there is none */
/* The oldest that was answered before until and that take() does not pass over by -ESRCH: out of the list if that gives 0.
 * What take() has said; -ESRCH none, -EAGAIN another thread is at it. */
int rr_half_pick(rr_time until, rr_time now, int (*take)(struct rr_conn *c), struct rr_conn **out);
void rr_half_forked(void);

/* expire.c */
rr_time rr_half_expire(rr_time now);	/* when to look again; RR_TIME_NEVER */

/* own.c */
uint32_t rr_own_caps(void);		/* enum rr_cap */
void rr_own_hello(struct rr_hello *h);
/* What c's rule wants spoken. program: of the first call, or NULL. */
enum rr_dialect rr_own_dialect(struct rr_conn *c, const uint32_t *program);
/* What may be spoken on c, as an offer has it. */
uint32_t rr_own_dialects(const struct rr_conn *c);
/* Is the peer that says this on our host? */
bool rr_own_host(const struct rr_hello *h);
/* Does it see the same two addresses as c, the server's end of its connection, has? */
bool rr_own_ends(const struct rr_hello *h, struct rr_conn *c);
/* Both, into what the client says by fd; after the token. */
void rr_own_place(struct rr_hello *h, struct rr_conn *c);
/* Would the app still have its reserve of descriptors if its connection fd (-1: it has none yet) got one of ours? */
bool rr_own_spare(int fd);
/* What we want of a provider for the app's socket fd (-1: it is not there yet) and its connection
 * (NULL: any that a listener gets), with an upgrade's token or none; false: descriptors are scarce. */
bool rr_own_params(struct rr_prov_params *p, struct rr_conn *c, const uint8_t *token,
		   int fd);

/* native.c; under the lock but for the first */
void rr_native_forks(struct rr_conn *l);	/* before a fork; any connection */
void rr_native_forked(struct rr_conn *l);	/* in a child that has inherited the listener */
int rr_native_poll(struct rr_conn *l, int fd, unsigned want);
int rr_native_fds(struct rr_conn *l, int fd, unsigned want, struct pollfd out[2], rr_time *until);
void rr_native_look(struct rr_conn *l, int fd);
void rr_native_close(struct rr_conn *l);
void rr_native_step(struct rr_conn *c);
void rr_native_carry(struct rr_conn *c);
/* relay.c. Before a fork, in the parent: true, if it is for a relay. And in the child. */
bool rr_relay_forks(struct rr_conn *c);	/* relaying.c */
/* Another process has used it, or this one uses it no more: what its far end shows then. */
#define RR_RELAY_WANTED	(POLLIN | POLLPRI | POLLRDHUP)
/* Under its lock. From here on its bytes go over the socket. False: that will not be. */
bool rr_relay_take_over(struct rr_conn *c);
/* The parent's app is about to use it by fd: has another process used it since? */
void rr_relay_look(struct rr_conn *c);
static inline void rr_relay_see(struct rr_conn *c, int fd)
{
	if (unlikely(atomic_load_explicit(&c->relay, memory_order_relaxed)) && fd >= 0)
		rr_relay_look(c);
}
/* The child's app wants to read. */
void rr_relay_ask(struct rr_conn *c, int fd);
/* The parent's closes it: true, it goes on without. */
bool rr_relay_takes(struct rr_conn *c, int fd);
void rr_relay_forked(struct rr_conn *c);	/* relaying.c */
/* guests.c: fn sees those in state RR_S_TAKEN, under their locks. How many then still are. */
uint32_t rr_guests_each(void (*fn)(struct rr_conn *));
/* Is there no room for one more, with so many of which nothing has become yet? When to ask again; 0 there is, perhaps since
 * one that has never said anything was shown out. Under a listener's lock. */
rr_time rr_guests_full(uint32_t unmet, rr_time now);
/* dial.c */
void rr_dial_step(struct rr_conn *c, int fd);
int rr_dial_verdict(struct rr_conn *c, int fd, int st);	/* in state st, for connect() */

/* pair.c: a TCP connection of this process to itself, over loopback. One end is the app's: a new
 * number, made with flags as of accept4(); the other is ours. -errno. */
int rr_pair_new(sa_family_t family, int flags, int *far);
/* The same for the app's own socket fd, which is not connected. 0 or -errno; then it is as before. */
int rr_pair_connect(int fd, int *far);
/* Takes our end away: the app's has the peer's FIN then, or its reset. */
void rr_pair_end(int *far, bool reset);
/* The other end of fd has a reset; nothing more goes by fd. */
void rr_pair_reset(int fd);

/* late.c */
/* What is there for the app, and stays there. -errno; -EAGAIN nothing; -EIO an error, which is the app's too. */
ssize_t rr_upgrade_peek(int fd, void *buf, size_t len);
/* Reads away n bytes that were peeked at. */
bool rr_upgrade_consume(int fd, uint32_t n);
/* The answer is longer than any of a shim: reads away what is there of it. RR_RIDE_OVER that was
 * all; -EAGAIN; 0 the kernel has an end or an error for the app. */
int rr_upgrade_skip(struct rr_conn *c, int fd);

/* ready.c; under the lock. As rr_conn_poll(), rr_conn_arm() (thread) or rr_conn_watch(), and rr_conn_fds(). */
unsigned rr_ready_poll(struct rr_conn *c, int fd, unsigned want);
int rr_ready_arm(struct rr_conn *c, int fd, unsigned want, bool thread);
int rr_ready_fds(struct rr_share *sh, int fd, unsigned want, struct pollfd out[2], rr_time *until);
/* The doorbell rings no more. */
void rr_ready_drain(struct rr_share *sh);

/* wait.c: a thread woke after sleeping. */
void rr_wait_learn(struct rr_share *sh, rr_time now);

/* tell.c */
/* A piece of a large message was copied. */
#define RR_LARGE	16384u
void rr_ready_moved(struct rr_share *sh);
/* This end does not sleep any more. */
void rr_ready_runs(struct rr_share *sh);
/* What it does now: enum rr_doing. */
void rr_tell_doing(struct rr_share *sh, uint32_t doing);
void rr_tell_cpu(struct rr_share *sh, rr_time now);	/* once in a tick of the clock */

/* What a work request was for: a kind, and which. 0: nobody waits for it. */
enum { RR_FOR_ENGINE = 1, RR_FOR_PULL, RR_FOR_FENCE };
static inline uint64_t rr_drv_cookie(uint32_t kind, uint32_t which)
{
	return (uint64_t)kind << 32 | which;
}

/* Does all that is posted end inside the call? */
static inline bool rr_drv_direct(const struct rr_share *sh)
{
	return sh->qp->ops->caps & RR_PROV_DIRECT;
}

/* pull.c */
void rr_pull_begin(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* recv: the bytes of op's receive, if that is where its stream is. */
void rr_pull_compose(struct rr_share *sh, const struct rr_op *op, const uint8_t *recv, rr_time now);
void rr_pull_deliver(struct rr_share *sh, uint32_t id, struct rr_rx_ent *e, rr_time now);
void rr_pull_drop(struct rr_share *sh, uint32_t id);
void rr_pull_read(struct rr_share *sh, uint32_t pull, int status, rr_time now);
void rr_pull_again(struct rr_share *sh, rr_time now);
int rr_drv_read_pull(struct rr_share *sh, const struct rr_pull *p, uint32_t off, void *dst, uint32_t len);
/* It has been read where it lies, or -errno. */
void rr_pull_done(struct rr_share *sh, uint32_t pull, int status, rr_time now);

/* fate.c */
/* The provider's peer is gone; what it sent can still be read. */
void rr_drv_lost(struct rr_share *sh);
void rr_drv_fail(struct rr_share *sh, int err, enum rr_reason why);
/* By the provider's error rc, which is not that the peer is gone. */
void rr_drv_broken(struct rr_share *sh, int rc);
/* A post call's verdict, told to the engine if it is final. What goes to a peer that is gone
 * goes nowhere, as on TCP: what it sent before can still be read. */
void rr_drv_posted(struct rr_share *sh, uint32_t id, int rc, rr_time now);
/* For the app's next connection to the same peer. */
void rr_drv_remember(const struct rr_share *sh, enum rr_reason why);

/* expose.c */
/* RR_OP_EXPOSE: the peer gets keys, and the engine is told. */
void rr_expose(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* RR_OP_INVALIDATE: takes all keys of a buffer back, and tells the engine when that is done. */
void rr_expose_fence(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* One of a buffer's keys has been taken back … */
void rr_expose_fenced(struct rr_share *sh, uint32_t buf, rr_time now);
/* … or by the peer: it is not to be done again. */
void rr_expose_key_gone(struct rr_share *sh, uint32_t handle);
/* The connection is gone, and every key with it, whether or not completions still come. */
void rr_expose_all_fenced(struct rr_share *sh, rr_time now);
/* The buffer is nobody's any more: free once the peer cannot reach it. */
void rr_expose_drop(struct rr_share *sh, uint32_t buf);
/* Has the peer read all of it? */
bool rr_expose_consumed(struct rr_share *sh, const struct rr_buf *b);
/* When to look whether the peer has ended its access to what is being taken back, if nothing tells
 * us; RR_TIME_NEVER. */
rr_time rr_drv_fence_due(const struct rr_share *sh);

/* driver.c */
struct rr_app_iov {		/* RR_BUF_APP: */
	struct iovec *iov;	/* the first of them is for the transport header … */
	int n;			/* … and the others are the message */
};
/* Carries out what the engine wants. True: there was something; whoever calls this makes sure of a kick(). */
bool rr_drv_run(struct rr_share *sh, rr_time now);
/* The same when it has just taken a message whose buffer is RR_BUF_APP. */
void rr_drv_run_app(struct rr_share *sh, const struct rr_app_iov *app, rr_time now);
/* Posts a short message from the app's memory at once, if it is plain (rr_eng_send_plain()). */
bool rr_drv_send_plain(struct rr_share *sh, const struct rr_eng_out *out,
		       const struct rr_app_iov *app, rr_time now);
/* Takes in what has come. The time, if anything has; else perhaps 0. */
rr_time rr_drv_progress(struct rr_share *sh);
/* A Send of the connection's own, RR_IMM_..., as send_imm(). */
int rr_drv_say(struct rr_share *sh, uint32_t imm);
/* As rr_pull_done(), and what the engine wants then. */
void rr_drv_pull_done(struct rr_share *sh, uint32_t pull, int status);
void rr_drv_stash(struct rr_share *sh, rr_time now);
void rr_drv_reclaim(struct rr_share *sh);

/* stream.c */
ssize_t rr_stream_send(struct rr_share *sh, int fd, const struct iovec *iov, int n);
ssize_t rr_stream_recv(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags);

/* outroom.c */
/* May the write that had no room now have it? */
bool rr_stream_room(struct rr_share *sh);
/* May another record be begun that has to be collected? One that has been goes on. */
bool rr_stream_may_begin(struct rr_share *sh);
/* So many bytes for the record that is collected; 0; -EAGAIN none now, -ENOMEM never. */
int rr_stream_try_room(struct rr_share *sh, size_t need);
/* Was it asked, or a write, and there was none? */
static inline bool rr_stream_waits(const struct rr_share *sh)
{
	return sh->tx.want || sh->tx.full;
}

/* inbox.c */
void rr_stream_push(struct rr_share *sh, const struct rr_rx_ent *e);
bool rr_stream_is_over(const struct rr_share *sh);
/* The error that the app has yet to be told, once; 0 none. */
int rr_stream_error(struct rr_share *sh);
/* May the app still write by the provider? */
static inline bool rr_tx_carried(const struct rr_share *sh)
{
	return !sh->tx.tcp && !sh->tx.early && !sh->tx.shut && !sh->dead;
}
/* Behind the peer's hatch the anchor is the app's, but the provider has to live while our own direction is not TCP, or
 * something that stands before the hatch is to come. */
static inline bool rr_prov_matters(const struct rr_share *sh)
{
	return !sh->rx.hatched || sh->rx.hatch_due || rr_tx_carried(sh);
}
/* The provider lost the peer, and the anchor has not yet said how: by an end or a reset. */
static inline bool rr_stream_peer_unsure(const struct rr_share *sh)
{
	return sh->prov_lost && !sh->rx.fin && !sh->rx.marked && !sh->rx.more && !sh->dead;
}
bool rr_stream_next_is_tcp(struct rr_share *sh);
/* The peer's other direction crosses, as it says by RR_IMM_CROSS. */
void rr_cross_told(struct rr_share *sh, uint32_t imm);
size_t rr_iov_total(const struct iovec *iov, int n);
size_t rr_iov_copy_out(uint8_t *dst, size_t want, const struct iovec *iov, int n, size_t off);

/* settle.c: has the peer memory of ours to read, calls or replies? Under its lock. And what waits for that: at close,
 * under its lock; and at exit. */
bool rr_conn_unread(struct rr_share *sh);
/* then(): under its lock, now or when it has settled. May be NULL. */
void rr_conn_settle(struct rr_conn *c, void (*then)(struct rr_share *sh));
void rr_conn_settle_until(struct rr_share *sh, rr_time end);
#define RR_SETTLE_MOST	(2 * RR_SEC)

/* exit.c */
void rr_conn_exit(void);

/* hatch.c */
/* 0 open; -EAGAIN not now, nothing has changed; -ECONNRESET the connection is over: with a peer that has
 * no hatch for the reason that would have opened it. */
int rr_hatch_open(struct rr_share *sh, enum rr_reason why);
int rr_hatch_flush(struct rr_share *sh, int fd);

/* anchor.c */
/* What the kernel's poll() says now of the app's socket, or of another of ours. */
unsigned rr_anchor_poll(int fd, unsigned want);
void rr_anchor_check(struct rr_share *sh, int fd, rr_time now);
bool rr_anchor_mark(struct rr_share *sh, int fd);
void rr_anchor_note(struct rr_share *sh);
void rr_anchor_break(int fd);
/* Its close, whose ever it is, will be a reset. */
void rr_anchor_reset(int fd);

/* The peer has asked for it, or gone back itself where one process has it: opens it, where that can be. Before
 * a record is begun, and when nothing is. */
void rr_hatch_answer(struct rr_share *sh);

/* handback.c; the owner's. Before it forks; and in the child. */
void rr_handback_forks(struct rr_conn *c);
void rr_handback_forked(void);
/* Under its lock: the app closes it (by fd, or -1), and other processes have it. */
void rr_handback_leave(struct rr_conn *c, int fd);
/* Under its lock: the process ends, and other processes have it. */
void rr_handback_exit(struct rr_conn *c, rr_time end);
/* A child asks the owner for it, by its own descriptor of the anchor: 0 or -errno. */
int rr_handback_ask(struct rr_share *sh, int fd);
/* What the ring has, to whoever reads next. */
ssize_t rr_handback_take(struct rr_share *sh, const struct iovec *iov, int n, int flags);
static inline uint32_t rr_handback_bytes(const struct rr_share *sh)
{
	return sh->back.tail - sh->back.head;
}

/* inherited.c: state RR_S_FORKED, under the lock. */
ssize_t rr_inherited_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_inherited_send(struct rr_conn *c, int fd);
int rr_inherited_poll(struct rr_conn *c, int fd, unsigned want);
int rr_inherited_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2], rr_time *until);
int rr_inherited_inq(struct rr_conn *c, int fd);
int rr_inherited_shutdown(struct rr_conn *c, int fd, bool rd, bool wr);
void rr_inherited_close(struct rr_conn *c, int fd);

/* keepalive.c; under its lock. Carried from now on, by the anchor fd; its bytes may be TCP's again; does the app have
 * another value of this option than the kernel says? */
void rr_keep_anchor(struct rr_share *sh, int fd);
void rr_keep_leave(struct rr_share *sh, int fd);
bool rr_keep_hides(const struct rr_share *sh, int level, int name, int *val);
/* Is it one of those that matter here? And the app has set it, on the anchor fd. */
bool rr_keep_cares(int level, int name);
void rr_keep_set(struct rr_share *sh, int fd, int level, int name);
/* What the app has said of fd, of which a native peer is at the other end. */
void rr_keep_learn(struct rr_share *sh, int fd);
/* When to look again; RR_TIME_NEVER. */
rr_time rr_keep_due(const struct rr_share *sh);
void rr_keep_look(struct rr_share *sh, rr_time now);
/* What has become of a probe: as a completion's status. */
void rr_keep_answer(struct rr_share *sh, int status);

/* idle.c */
extern _Atomic rr_time rr_idle_next;	/* when to look; 0 nothing to do, or somebody is looking */

/* The connection is carried from now on, or in use again. Under its lock. */
void rr_idle_wake(struct rr_share *sh, rr_time now);

/* A message has come or gone. That this process has no look before it although the connection was
 * not trimmed means that another of its family woke it, and may be gone by now. */
static inline void rr_idle_used(struct rr_share *sh, rr_time now)
{
	if (unlikely(sh->trimmed || !atomic_load_explicit(&rr_idle_next, memory_order_relaxed)))
		rr_idle_wake(sh, now);
}

/* Looks at connections that may be idle, if it is time to: when to do so again. RR_TIME_NEVER */
rr_time rr_idle_look(rr_time now);

/* warm.c */
void rr_idle_warm(struct rr_share *sh);
/* Chunk memory that is not in use goes back; not the connection's own tables, which one that is at
 * work would have again at once. */
void rr_idle_trim(struct rr_share *sh);

/* tap.c: packets for a capture, if rr_cap_asked(); under its lock. A record that the engine has
 * just taken, from the app's memory or (app NULL) out->buf; one that is delivered, with what
 * reads the peer's memory; a transport message either way. */
struct rr_app_iov;
typedef int rr_tap_read(struct rr_share *sh, const struct rr_pull *p, uint32_t off, void *dst,
			uint32_t len);
void rr_tap_sent(struct rr_share *sh, const struct rr_eng_out *out,
		 const struct rr_app_iov *app);
void rr_tap_delivered(struct rr_share *sh, const struct rr_rx_ent *e, rr_tap_read *read);
void rr_tap_posted(struct rr_share *sh, const struct iovec *iov, int n);
void rr_tap_received(struct rr_share *sh, const struct rr_wc *wc);

/* report.c */
void rr_report_open(struct rr_conn *c, int fd);
void rr_report(struct rr_conn *c, enum rr_conn_state st, enum rr_carrier carrier, enum rr_reason why);
/* What the engine speaks. */
void rr_report_dialect(struct rr_share *sh);
/* The same, and what the first message that has come says. */
void rr_report_first(struct rr_share *sh, const struct rr_rpc *rpc);
/* Both ends' addresses, into its entry. */
void rr_report_ends(struct rr_conn *c);
void rr_report_share(struct rr_share *sh, enum rr_conn_state st, enum rr_reason why);
void rr_report_adopt(struct rr_conn *c);
void rr_report_close(struct rr_conn *c);
void rr_report_latency(struct rr_share *sh, rr_time ns);

/* room.c */
size_t rr_own_memory(void);	/* for chunks, that each connection has */
/* Bytes of it that messages may take which the app has yet to read. */
size_t rr_own_ahead(void);
/* So many of the first bytes of a connection's memory are for … */
size_t rr_room_out(const struct rr_share *sh);	/* … what the app sends */
size_t rr_room_reply(const struct rr_share *sh); /* … what calls offer for their replies */

/* budget.c; those that take a connection: under its lock, or when nobody has it any more */
void rr_budget_carry(struct rr_conn *c);	/* it is carried … */
void rr_budget_count(struct rr_conn *c);	/* … something may have changed … */
void rr_budget_end(struct rr_conn *c);		/* … and this process has it no longer */
/* In a forked child: what another thread had half counted begins again from the connections' parts. */
void rr_budget_forked(void);
void rr_budget_inherit(const struct rr_conn *c);
/* Has this process nothing left but what each connection has in any case? */
bool rr_budget_all_used(void);
/* May it take another message that needs memory? */
bool rr_budget_room(const struct rr_share *sh);
/* And receive one ahead of the app? */
bool rr_budget_stash(const struct rr_share *sh, uint32_t len);
/* How many receives of this size, of those that one would like. */
uint32_t rr_budget_recvs(uint32_t recvs, uint32_t size);

/* cache.c */
/* Why this peer is not asked now; RR_R_NONE: it may be. */
enum rr_reason rr_cache_look(const struct sockaddr_in6 *peer, rr_time now);
void rr_cache_add(const struct sockaddr_in6 *peer, enum rr_reason why, rr_time until);
void rr_cache_forked(void);
/* The same family, address and port? */
bool rr_cache_same(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b);

#endif
