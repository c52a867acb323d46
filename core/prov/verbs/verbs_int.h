/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_INT_H
#define RR_VERBS_INT_H

/* The verbs provider: an RC queue pair by RDMA CM, in a plugin of its own, so that only a
 * process that uses it has rdma-core in it.
 *
 * What the kernel knows of a queue pair belongs to the process that made it. So struct
 * rr_verbs, which forked children share, holds nothing but a pointer that is good in that
 * process; in any other every call says that the connection is lost.
 *
 * The answering side listens on a port of its own, bound to the address that its end of the TCP
 * connection has; the offering side connects there, and says the token in its private data,
 * behind the eight bytes of RFC 8797. Nobody else gets in.
 *
 * With native peers there is none of that, and no counted receives: RFC 8166's credits are all.
 *
 * Flow control: each side counts the receives that the other has posted (its private data says
 * how many there are, notes say which came back), so that no Send finds none, and calls that
 * are never answered hold nothing.
 *
 * Memory: one PD per connection. mem is registered as far as it is used, and not before; when a
 * connection is idle it is given back. Receives, send slots and mem have local rights. What is
 * exposed has a memory window of type 2, bound under a fresh key with just the right that it
 * needs, in one post with the Send that tells of it, and invalidated by us, or by the peer on
 * devices that are known to stand that: one that does it twice, or while we do, brings down a
 * kernel with the rxe of Linux 6.1. On devices without such windows what is exposed is
 * registered instead, for as long as it is exposed: as tight, but a system call each time. */

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/prov/prov.h"

#define RR_VERBS_INLINE	256u		/* wished for */
#define RR_VERBS_SGE	4u
#define RR_VERBS_LONG	16u		/* connections of a process that have long receives */
#define RR_VERBS_FULL	128u		/* of the others, those that get all they ask for */
#define RR_VERBS_SENDS	32u		/* send slots, at most */
#define RR_VERBS_SQ	512u
/* work requests that wait for room: all keys taken back, and a message's */
#define RR_VERBS_LATE	2048u
#define RR_VERBS_DEPTH	16u		/* RDMA Reads at a time, each way, at most */
#define RR_VERBS_KEYS	1024u		/* exposed at once */
/* of the CM, looked at in one call: anybody may bring them about */
#define RR_VERBS_EVENTS	16u
#define RR_VERBS_CHAIN	RR_PROV_PIECES	/* binds that wait for the next post */
#define RR_VERBS_PRIVATE (8u + 4u + RR_TOKEN_LEN + 4u)	/* RFC 8797, magic, token, receives */
#define RR_VERBS_MRS	8u		/* registrations of mem at once */
#define RR_VERBS_NOTES	8u		/* receives on top, for the provider's own notes */

/* Immediate data of a note: so many receives were given back since the last one. Such a note is
 * due when a quarter of them was, and shares the doorbell of the next Send if that comes before
 * a third was, and before we sleep; of each other kind there is one under way at most. So
 * RR_VERBS_NOTES are enough. */
#define RR_VERBS_NOTE	0x52570000u
#define RR_VERBS_ASK	0x00008000u	/* say what you have read of mine */
#define RR_VERBS_READ	0x00004000u	/* its payload: handles whose last byte was read; … */
#define RR_VERBS_HEARD	0x00002000u	/* … the answer to that: another may come */
#define RR_VERBS_COUNT	0x00001fffu

/* Handles that were read to their end, kept until the peer asks, or until so many receives
 * later. It may have taken a handle back meanwhile and given it out again, but not so soon:
 * each time takes a message, and a key is new 255 times. */
#define RR_VERBS_KEPT	RR_VERBS_SQ
#define RR_VERBS_AGE	128u
#define RR_VERBS_TELL	256u	/* handles in a note, at most: they fit in 1024 bytes */

enum rr_verbs_state {
	RR_V_LISTENING, RR_V_ADDR, RR_V_ROUTE, RR_V_CONNECTING, RR_V_ACCEPTING, RR_V_READY,
	RR_V_GONE,	/* with its device: what was received is left */
};

/* What not every connection of a process can have. */
enum rr_verbs_share { RR_V_LONG, RR_V_FULL, RR_V_SHARES };

/* Windows of type 2, of a device whose kernel driver says that it has them. */
enum rr_verbs_proof { RR_V_UNPROVEN, RR_V_PROVEN, RR_V_REFUTED };

/* A posted work request that is not known to have ended. */
struct rr_verbs_wqe {
	enum rr_wc_op op;
	bool slot;		/* it holds the oldest send slot in use */
	bool reads;		/* an RDMA Read under way */
	uint16_t window;	/* RR_WC_INVALIDATE: the window that is free then */
	uint8_t mr;		/* RR_WC_READ, RR_WC_WRITE: of v->mr, index + 1; 0 none */
	uint32_t handle;	/* RR_WC_READ: read to its end; 0 not */
	uint64_t cookie;
};

/* One that has no room on the send queue. */
struct rr_verbs_late {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rr_verbs_wqe w;
};

/* One process's part. */
struct rr_vq {
	enum rr_verbs_state state;
	int err;		/* -errno that ended it; 0 */
	bool lost;		/* the peer is gone; what has arrived still counts */
	struct rr_prov_params param;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *listener, *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	uint32_t strangers;	/* who have come to our port without the token */
	bool remote_inv;	/* the peer takes Send With Invalidate */
	bool invite;		/* so do we */
	bool can_inv;		/* the device can post one, as far as is known */
	bool said_inv;		/* our private data speaks for it */
	uint8_t depth, depth_in; /* RDMA Reads that we, and the peer, may have out; 0 none */
	int resolve_ms;
	rr_time cm_seen;	/* when its events were looked at without being told to */

	uint8_t *slab;		/* receives, then send slots */
	size_t slab_size;
	struct ibv_mr *slab_mr;
	size_t locked;		/* bytes that count in the process's locked memory; 0 it has no
				 * limit … */
	size_t pinned, over;	/* … of memory for chunks, registered; and what of that counts
				 * on top */
	bool share[RR_V_SHARES]; /* one of those that have such receives */
	/* mem, from its beginning on, as far as it was used: one that is as long as needed, and
	 * shorter ones as long as somebody uses them */
	struct rr_verbs_mr {
		struct ibv_mr *mr;
		size_t len;
		uint32_t users;	/* work requests, windows */
	} mr[RR_VERBS_MRS];
	/* Without windows: what is exposed. */
	struct rr_verbs_key {
		struct ibv_mr *mr;
		bool read;	/* the peer says so */
	} key[RR_VERBS_KEYS];
	uint32_t nkeys;
	/* With windows: those that were made; which of them are free, last in first out. */
	bool windows;
	struct rr_verbs_mw {
		struct ibv_mw *mw;
		uint32_t rkey;	/* mw->rkey once the bind is posted */
		bool live, read;
		uint8_t mr;	/* of v->mr, that it is bound to */
	} mw[RR_VERBS_KEYS];
	uint16_t mw_free[RR_VERBS_KEYS];
	uint32_t nmw, nmw_free;
	struct ibv_send_wr chain[RR_VERBS_CHAIN + 1];	/* binds, a note */
	uint32_t nchain;
	bool on_trial;		/* the first of them is; windows are used when it has stood that
				 * … */
	uint8_t trial_mr;	/* … bound to this one of v->mr */
	rr_time short_since;	/* rr_now_coarse(): nothing can be exposed since then; 0 it
				 * can */

	/* the send queue; free-running */
	struct rr_verbs_wqe wqe[RR_VERBS_SQ];
	uint32_t sq_cap, sq_head, sq_tail, sq_done;	/* [tail, done): only RDMA Reads */
	uint32_t slot_head, slot_tail, sends;	/* of send slots; how many there are */
	uint32_t max_inline, max_sge;
	struct rr_verbs_late *late;		/* RR_VERBS_LATE of them, once there is one;
						 * free-running */
	uint32_t late_head, late_tail;
	rr_time full_since;			/* rr_now_coarse(), and sq_tail then; 0 it is
						 * not */
	uint32_t full_tail;

	/* receives that the peer has posted for us (native: UINT32_MAX), and of ours those that
	 * it does not know of yet */
	uint32_t window, untold;
	uint32_t unsignaled;
	uint32_t reads;		/* of them */

	/* what we have read of the peer's, and how many receives ago the first of it */
	uint32_t kept[RR_VERBS_KEPT], nkept, kept_age;
	uint32_t shown;		/* exposures of ours of which the peer has yet to say so */
	bool asked, told;	/* the peer wants to know; it has not yet heard */
	bool asking;		/* we want to */

	/* completions taken from the CQ and not yet looked at: peek() has no lock of the
	 * caller's */
	_Atomic uint32_t cq_busy;
	_Atomic uint32_t raw_head, raw_tail;
	uint32_t raw_seen;	/* of them, those before this are in our books */
	uint32_t raw_cap;	/* power of two */
	struct ibv_wc raw[];
};

struct rr_verbs {
	struct rr_qp qp;
	struct rr_vq *v;
	pid_t owner;
};

struct rr_verbs_lst {
	struct rr_lst lst;	/* its fd is an epoll set, of cm */
	struct rdma_event_channel *cm;
	struct rdma_event_channel *old;	/* requests that are not read yet were made on it;
					 * NULL */
	struct rdma_cm_id *id;
	struct rdma_cm_id *id4;		/* where id is that of IPv6's any-address: IPv4's, if it
					 * belongs to it; NULL */
	pid_t owner;
	int fd_floor;
};

/* The process that we are. In a forked child it is 0 at once, before any handler of
 * pthread_atfork() runs. */
extern pid_t *rr_verbs_self;
#define rr_verbs_pid (*rr_verbs_self)

/* Descriptors that the app does not know: set, and taken back before they are closed. */
extern void (*rr_verbs_own_fd)(int fd, bool own);

/* librdmacm has opened devices in this process: it keeps them. In a forked child it would use
 * them on, and what it made would be the parent's: so such a child does without. */
extern bool rr_verbs_used, rr_verbs_orphan;

/* For tests: any device that has windows is known to stand remote invalidation. */
extern bool rr_verbs_invite;

/* See struct rr_verbs_env. */
extern const struct rr_verbs_say *rr_verbs_say;

/* Memory windows are not to be used. */
extern bool rr_verbs_no_windows;

/* The first reason counts. */
static inline void rr_verbs_fail(struct rr_vq *v, int err)
{
	if (!v->err)
		v->err = err;
}

/* This process's part of qp; NULL if it has none. */
static inline struct rr_vq *rr_verbs_of(const struct rr_qp *qp)
{
	const struct rr_verbs *q = container_of(qp, struct rr_verbs, qp);

	return q->owner == rr_verbs_pid ? q->v : NULL;
}

/* wr_id of a receive; below it the buffer. */
#define RR_VERBS_RECV	(UINT64_C(1) << 63)
/* wr_id of what proves something; below it its number. It is in no books. */
#define RR_VERBS_PROOF	(UINT64_C(1) << 62)

/* iWARP has no immediate data, and no other key for the sink of an RDMA Read than one that the
 * peer may write to. */
static inline bool rr_verbs_iwarp(const struct rdma_cm_id *id)
{
	return id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

/* RDMA CM takes no v4-mapped addresses: a is then the one of IPv4. */
static inline void rr_verbs_unmap(struct sockaddr_in6 *a)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = a->sin6_port };

	if (a->sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->sin6_addr))
		return;
	memcpy(&v4.sin_addr, a->sin6_addr.s6_addr + 12, 4);
	memset(a, 0, sizeof(*a));
	memcpy(a, &v4, sizeof(v4));
}

/* 0, or -errno: can it be used? */
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

/* Send slots, a power of two: fewer for long messages, and where there are few receives. */
static inline uint32_t rr_verbs_sends(const struct rr_qp *qp)
{
	if (qp->recv_size > 8192 || qp->recvs < RR_VERBS_SENDS)
		return RR_VERBS_SENDS / 4;
	return qp->recv_size > 4096 ? RR_VERBS_SENDS / 2 : RR_VERBS_SENDS;
}

/* Receives, then send slots. */
static inline size_t rr_verbs_slab(const struct rr_qp *qp, const struct rr_vq *v)
{
	return rr_align((size_t)(rr_verbs_recvs(qp) + v->sends) * qp->recv_size,
			(size_t)RR_PAGE);
}

#endif
