/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_INT_H
#define RR_VERBS_INT_H

/* The verbs provider: an RC queue pair by RDMA CM, in a plugin of its own, so that only a
 * process that uses it has rdma-core loaded.
 *
 * What the kernel knows of a queue pair belongs to the process that made it. So struct
 * rr_verbs, which forked children share, holds nothing but a pointer that is valid in that
 * process; in any other process every call says that the connection is lost.
 *
 * The answering side listens on a port of its own, at the address of its end of the TCP
 * connection. The offering side connects there and puts the token into its private data, after
 * the eight bytes of RFC 8797. Nobody else is let in.
 *
 * With native peers there is no token, and receives are not counted: RFC 8166's credits are all
 * there is.
 *
 * Flow control between two of ours: each side counts the receives that the other has posted
 * (the private data says how many there are, notes say how many came back). So no Send arrives
 * without a receive, and calls that are never answered hold nothing.
 *
 * Memory: one PD for each connection. mem is registered only as far as it has been used, and
 * given back when the connection is idle. Receives, send slots and mem have local rights. Each
 * exposure has a memory window of type 2, bound under a fresh key with only the right that it
 * needs, in one post with the Send that announces it. It is invalidated by us, or by the peer
 * if the device is known to handle that: a peer that invalidates twice, or while we do, crashes
 * a kernel with the rxe of Linux 6.1. On devices without such windows each exposure is
 * registered for as long as it lasts: just as tight, but one system call each time. */

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/prov/prov.h"

#define RR_VERBS_INLINE	256u		/* bytes of inline data that we wish for */
#define RR_VERBS_SGE	4u
#define RR_VERBS_LONG	16u		/* connections of a process with long receives */
#define RR_VERBS_FULL	128u		/* of the others: those with all receives they want */
#define RR_VERBS_SENDS	32u		/* send slots at most */
#define RR_VERBS_SQ	512u		/* send queue at most … */
#define RR_VERBS_SQ_LEAST 128u		/* … and of a connection with few receives */
/* Work requests that may wait for room: all keys being taken back, and those of one message. */
#define RR_VERBS_LATE	2048u
#define RR_VERBS_DEPTH	16u		/* RDMA Reads in progress, each way, at most */
#define RR_VERBS_KEYS	1024u		/* exposed at once */
/* CM events processed in one call: anybody may cause them. */
#define RR_VERBS_EVENTS	16u
#define RR_VERBS_CHAIN	RR_PROV_PIECES	/* binds that may wait for the next post */
#define RR_VERBS_PRIVATE (8u + 4u + RR_TOKEN_LEN + 4u)	/* RFC 8797, magic, token, receives */
#define RR_VERBS_MRS	8u		/* registrations of mem at once */
#define RR_VERBS_NOTES	8u		/* further receives, for the provider's own notes */

/* Immediate data of a note: this many receives were given back since the last one. Such a note
 * is due when a quarter of the receives was given back. It goes with the next Send, if one
 * comes before a third was given back and before we sleep. Of each other kind at most one note
 * is in progress. Therefore RR_VERBS_NOTES are enough. */
#define RR_VERBS_NOTE	0x52570000u
#define RR_VERBS_ASK	0x00008000u	/* asks what the other end has read */
#define RR_VERBS_READ	0x00004000u	/* payload: handles that were read to their end; … */
#define RR_VERBS_HEARD	0x00002000u	/* … and the acknowledgement: another may follow */
#define RR_VERBS_COUNT	0x00001fffu

/* Handles that were read to their end. The peer is told of them when it asks, and RR_VERBS_AGE
 * receives after the first of them at the latest. By then the peer may have taken a handle
 * back, but cannot have given the same one out again: each time takes a message, and a key
 * changes 255 times before it repeats. */
#define RR_VERBS_KEPT	RR_VERBS_SQ
#define RR_VERBS_AGE	128u
#define RR_VERBS_TELL	256u	/* handles in a note at most: they fit into 1024 bytes */

enum rr_verbs_state {
	RR_V_LISTENING, RR_V_ADDR, RR_V_ROUTE, RR_V_CONNECTING, RR_V_ACCEPTING, RR_V_READY,
	RR_V_GONE,	/* the device was removed; received messages can still be read */
};

/* Kinds of receives that only some connections of a process can have. */
enum rr_verbs_share { RR_V_LONG, RR_V_FULL, RR_V_SHARES };

/* What is known about windows of type 2 on a device whose kernel driver claims to have them. */
enum rr_verbs_proof { RR_V_UNPROVEN, RR_V_PROVEN, RR_V_REFUTED };

/* A posted work request that may still be in progress. */
struct rr_verbs_wqe {
	enum rr_wc_op op;
	bool slot;		/* it uses the oldest send slot in use */
	bool reads;		/* an RDMA Read in progress */
	uint16_t window;	/* RR_WC_INVALIDATE: the window that becomes free */
	uint8_t mr;		/* RR_WC_READ, RR_WC_WRITE: index in v->mr + 1; 0: none */
	uint32_t handle;	/* RR_WC_READ: the handle that is read to its end; else 0 */
	uint64_t cookie;
};

/* A work request that had no room on the send queue. */
struct rr_verbs_late {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rr_verbs_wqe w;
};

/* One process's part. */
struct rr_vq {
	enum rr_verbs_state state;
	int err;		/* the -errno that ended it; 0: none */
	bool lost;		/* the peer is gone; what has arrived can still be read */
	struct rr_prov_params param;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *listener, *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	uint32_t strangers;	/* connections to our port without the token */
	bool remote_inv;	/* the peer accepts Send With Invalidate */
	bool invite;		/* … and so do we */
	bool can_inv;		/* the device can post one, as far as is known */
	bool said_inv;		/* our private data has announced it */
	uint8_t depth, depth_in; /* most RDMA Reads in progress: ours, the peer's; 0: none */
	int resolve_ms;
	rr_time cm_seen;	/* when its events were last looked at without a wake-up */

	/* Device events (events.c). struck: the -errno by which one ends this connection; 0:
	 * none. The rest is guarded by the lock there: wake_fd shows the device's events;
	 * what rouses who sleeps on wake_fd (-1: nothing). qp is NULL while it is not on the
	 * list of connections. */
	_Atomic int struck;
	_Atomic bool watches;
	int bell;
	struct rr_qp *qp;
	struct rr_vq *next, **prev;	/* prev: what points to it */

	uint8_t *slab;		/* receives, then send slots */
	size_t slab_size;
	struct ibv_mr *slab_mr;
	/* bytes that count as this process's locked memory; 0: it has no limit … */
	size_t locked;
	/* … bytes registered of chunk memory, and how many of those count extra */
	size_t pinned, over;
	bool share[RR_V_SHARES]; /* has receives of this kind */
	/* Registrations of mem, each from its beginning, as far as it was used: one that is
	 * long enough, and shorter ones as long as they have users. */
	struct rr_verbs_mr {
		struct ibv_mr *mr;
		size_t len;
		uint32_t users;	/* work requests and windows */
	} mr[RR_VERBS_MRS];
	/* Without windows: the exposures. */
	struct rr_verbs_key {
		struct ibv_mr *mr;
		bool read;	/* the peer says that it has read it */
	} key[RR_VERBS_KEYS];
	uint32_t nkeys;
	/* With windows: all that were made, and a stack of the free ones. */
	bool windows;
	struct rr_verbs_mw {
		struct ibv_mw *mw;
		uint32_t rkey;	/* equals mw->rkey once the bind is posted */
		bool live, read;
		uint8_t mr;	/* index in v->mr of the registration it is bound to */
	} mw[RR_VERBS_KEYS];
	uint16_t mw_free[RR_VERBS_KEYS];
	uint32_t nmw, nmw_free;
	struct ibv_send_wr chain[RR_VERBS_CHAIN + 1];	/* binds, and a note */
	uint32_t nchain;
	bool on_trial;		/* window 0 is (prove.c): none is used before it has passed */
	uint8_t trial_mr;	/* index in v->mr of the registration it is bound to */
	rr_time short_since;	/* nothing can be exposed since then; 0: it can */

	/* The send queue, free-running. */
	struct rr_verbs_wqe wqe[RR_VERBS_SQ];
	uint32_t sq_cap, sq_head, sq_tail, sq_done;	/* [tail, done): Reads in progress */
	uint32_t slot_head, slot_tail, sends;	/* send slots in use; how many there are */
	uint32_t max_inline, max_sge;
	/* RR_VERBS_LATE of them, once one is needed; free-running */
	struct rr_verbs_late *late;
	uint32_t late_head, late_tail;
	/* rr_now_coarse() when the send queue became full, and sq_tail then; 0: not full */
	rr_time full_since;
	uint32_t full_tail;

	/* Receives that the peer has posted for us (native: UINT32_MAX), and those of ours that
	 * it does not know of yet. */
	uint32_t window, untold;
	uint32_t unsignaled;
	uint32_t reads;		/* RDMA Reads in the send queue */

	/* Handles of the peer's that we have read, and how many receives ago the first was
	 * added. */
	uint32_t kept[RR_VERBS_KEPT], nkept, kept_age;
	uint32_t shown;		/* exposures of ours that the peer has not said to have read */
	bool asked, told;	/* the peer has asked; our answer is not acknowledged yet */
	bool asking;		/* we have asked */

	/* Completions taken from the CQ and not looked at yet. Atomic because peek() runs
	 * without the caller's lock. */
	_Atomic uint32_t cq_busy;
	_Atomic uint32_t raw_head, raw_tail;
	uint32_t raw_seen;	/* those before this one are in our books */
	uint32_t raw_cap;	/* power of two */
	struct ibv_wc raw[];
};

struct rr_verbs {
	struct rr_qp qp;
	struct rr_vq *v;
	pid_t owner;
};

struct rr_verbs_lst {
	struct rr_lst lst;	/* its fd is an epoll set that watches cm */
	struct rdma_event_channel *cm;
	struct rdma_event_channel *old;	/* has requests that are not read yet; or NULL */
	struct rdma_cm_id *id;
	struct rdma_cm_id *id4;		/* IPv4's, if id is at IPv6's any-address; or NULL */
	pid_t owner;
};

/* The pid of this process. In a forked child it reads 0 at once, before any handler of
 * pthread_atfork() has run. */
extern pid_t *rr_verbs_process_self;
#define rr_verbs_pid (*rr_verbs_process_self)

/* rr_ownfd_set(), for a descriptor that is to be closed; and rr_ownfd_raise(). */
extern void (*rr_verbs_process_own_fd)(int fd, bool own);
extern int (*rr_verbs_process_raise_fd)(int fd);

/* used: librdmacm has opened devices in this process, and keeps them. What a forked child made
 * with them would be its parent's. So such a child, an orphan, does without RDMA. */
extern bool rr_verbs_process_used, rr_verbs_process_orphan;

/* For tests: any device with windows counts as trusted with remote invalidation. */
extern bool rr_verbs_process_invite;

/* See struct rr_verbs_env. */
extern const struct rr_verbs_say *rr_verbs_process_say;
extern void (*rr_verbs_process_on_event)(const char *device, const char *event, unsigned port,
					 unsigned ended);

/* Memory windows must not be used. */
extern bool rr_verbs_process_no_windows;

/* Ends the connection for a reason; the first one counts. */
static inline void rr_verbs_fail(struct rr_vq *v, int err)
{
	if (!v->err)
		v->err = err;
}

/* This process's part of qp; NULL: it has none. */
static inline struct rr_vq *rr_verbs_of(const struct rr_qp *qp)
{
	const struct rr_verbs *q = container_of(qp, struct rr_verbs, qp);

	return q->owner == rr_verbs_pid ? q->v : NULL;
}

/* wr_id of a receive; the lower bits are the buffer's index. */
#define RR_VERBS_RECV	(UINT64_C(1) << 63)
/* wr_id of the trial (prove.c); the lower bits number it. It is not in our books. */
#define RR_VERBS_PROOF	(UINT64_C(1) << 62)

/* Is it iWARP? That has no immediate data, and needs the sink of an RDMA Read to be registered
 * with a right for the peer to write. */
static inline bool rr_verbs_iwarp(const struct rdma_cm_id *id)
{
	return id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

/* Can it be used? 0, or -errno. */
static inline int rr_verbs_usable(const struct rr_vq *v)
{
	if (!v || v->state != RR_V_READY || v->lost)
		return -ECONNRESET;
	return v->err;
}

/* Receives that are posted: the caller's, and those for notes. */
static inline uint32_t rr_verbs_recvs(const struct rr_qp *qp)
{
	return qp->native ? qp->recvs : qp->recvs + RR_VERBS_NOTES;
}

/* Send slots, a power of two: fewer for long messages, and if there are few receives. */
static inline uint32_t rr_verbs_sends(const struct rr_qp *qp)
{
	if (qp->recv_size > 8192 || qp->recvs < RR_VERBS_SENDS)
		return RR_VERBS_SENDS / 4;
	return qp->recv_size > 4096 ? RR_VERBS_SENDS / 2 : RR_VERBS_SENDS;
}

/* Bytes of the receives and the send slots, which follow them. */
static inline size_t rr_verbs_slab(const struct rr_qp *qp, const struct rr_vq *v)
{
	return rr_align((size_t)(rr_verbs_recvs(qp) + v->sends) * qp->recv_size,
			(size_t)RR_PAGE);
}

#endif
