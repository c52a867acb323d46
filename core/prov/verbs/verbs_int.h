/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_INT_H
#define RR_VERBS_INT_H

/* The verbs provider: an RC queue pair by RDMA CM, in a plugin of its own, so that only a process
 * that uses it has rdma-core in it.
 *
 * What the kernel knows of a queue pair belongs to the process that made it. So struct rr_verbs,
 * which forked children share, holds nothing but a pointer that is good in that process; in
 * any other every call says that the connection is lost.
 *
 * The answering side listens on a port of its own, bound to the address that its end of the TCP
 * connection has; the offering side connects there, and says the token in its private data, behind
 * the eight bytes of RFC 8797. Nobody else gets in.
 *
 * With native peers there is none of that, and no counted receives: RFC 8166's credits are all.
 *
 * Flow control: each side counts the receives that the other has posted (its private data says how many
 * there are, notes say which came back), so that no Send finds none, and calls that are never
 * answered hold nothing.
 *
 * Memory: one PD per connection. mem is registered as far as it is used, and not before; when a connection
 * is idle it is given back. Receives, send slots and mem have local rights. What is exposed has
 * a memory window of type 2, bound under a fresh key with just the right that it needs, in one post
 * with the Send that tells of it, and invalidated by us, or by the peer on devices that are known to
 * stand that: one that does it twice, or while we do, brings down a kernel with the rxe of Linux 6.1. On
 * devices without such windows what is exposed is registered instead, for as long as it is
 * exposed: as tight, but a system call each time. */

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/prov/prov.h"

#define RR_VERBS_INLINE	256u		/* wished for */
#define RR_VERBS_SGE	4u
#define RR_VERBS_LONG	16u		/* connections of a process that have long receives */
#define RR_VERBS_FULL	128u		/* of the others, those that have as many as they ask for */
#define RR_VERBS_SENDS	32u		/* send slots, at most */
#define RR_VERBS_SQ	512u
#define RR_VERBS_LATE	2048u		/* work requests that wait for room: all keys taken back, and a message's */
#define RR_VERBS_DEPTH	16u		/* RDMA Reads at a time, each way, at most */
#define RR_VERBS_KEYS	1024u		/* exposed at once */
#define RR_VERBS_EVENTS	16u		/* of the CM, looked at in one call: anybody may bring them about */
#define RR_VERBS_CHAIN	RR_PROV_PIECES	/* binds that wait for the next post */
#define RR_VERBS_PRIVATE (8u + 4u + RR_TOKEN_LEN + 4u)	/* RFC 8797, magic, token, receives */
#define RR_VERBS_MRS	8u		/* registrations of mem at once */
#define RR_VERBS_NOTES	8u		/* receives on top, for the provider's own notes */

/* Immediate data of a note: so many receives were given back since the last one. Such a note is due
 * when a quarter of them was, and shares the doorbell of the next Send if that comes before a third was, and
 * before we sleep; of each other kind there is one under way at most. So RR_VERBS_NOTES
 * are enough. */
#define RR_VERBS_NOTE	0x52570000u
#define RR_VERBS_ASK	0x00008000u	/* say what you have read of mine */
#define RR_VERBS_READ	0x00004000u	/* its payload: handles whose last byte was read; … */
#define RR_VERBS_HEARD	0x00002000u	/* … the answer to that: another may come */
#define RR_VERBS_COUNT	0x00001fffu

/* Handles that were read to their end, kept until the peer asks, or until so many receives later.
 * It may have taken a handle back meanwhile and given it out again, but not so soon: each
 * time takes a message, and a key is new 255 times. */
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
	size_t locked;		/* bytes that count in the process's locked memory; 0 it has no limit … */
	size_t pinned, over;	/* … of memory for chunks, registered; and what of that counts on top */
	bool share[RR_V_SHARES]; /* one of those that have such receives */
	/* mem, from its beginning on, as far as it was used: one that is as long as needed, and shorter
	 * ones as long as somebody uses them */
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
	bool on_trial;		/* the first of them is; windows are used when it has stood that … */
	uint8_t trial_mr;	/* … bound to this one of v->mr */
	rr_time short_since;	/* rr_now_coarse(): nothing can be exposed since then; 0 it can */

	/* the send queue; free-running */
	struct rr_verbs_wqe wqe[RR_VERBS_SQ];
	uint32_t sq_cap, sq_head, sq_tail;
	uint32_t slot_head, slot_tail, sends;	/* of send slots; how many there are */
	uint32_t max_inline, max_sge;
	struct rr_verbs_late *late;		/* RR_VERBS_LATE of them, once there is one; free-running */
	uint32_t late_head, late_tail;
	rr_time full_since;			/* rr_now_coarse(), and sq_tail then; 0 it is not */
	uint32_t full_tail;

	/* receives that the peer has posted for us (native: UINT32_MAX), and of ours those that it does not know of yet */
	uint32_t window, untold;
	uint32_t unsignaled;
	uint32_t reads;		/* of them */

	/* what we have read of the peer's, and how many receives ago the first of it */
	uint32_t kept[RR_VERBS_KEPT], nkept, kept_age;
	uint32_t shown;		/* exposures of ours of which the peer has yet to say so */
	bool asked, told;	/* the peer wants to know; it has not yet heard */
	bool asking;		/* we want to */

	/* completions taken from the CQ and not yet looked at: peek() has no lock of the caller's */
	_Atomic bool cq_busy;
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
	struct rdma_event_channel *old;	/* requests that are not read yet were made on it; NULL */
	struct rdma_cm_id *id;
	struct rdma_cm_id *id4;		/* where id is that of IPv6's any-address: IPv4's, if it belongs to it; NULL */
	pid_t owner;
	int fd_floor;
};

/* The process that we are. In a forked child it is 0 at once, before any handler of pthread_atfork() runs. */
extern pid_t *rr_verbs_self;
#define rr_verbs_pid (*rr_verbs_self)

/* Descriptors that the app does not know: set, and taken back before they are closed. */
extern void (*rr_verbs_own_fd)(int fd, bool own);

/* librdmacm has opened devices in this process: it keeps them. In a forked child it would use them
 * on, and what it made would be the parent's: so such a child does without. */
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

/* Of work requests that prove something, in wr_id; below it their number. They are in no books. */
#define RR_VERBS_PROOF	(UINT64_C(1) << 62)

/* iWARP has no immediate data, and no other key for the sink of an RDMA Read than one that the peer may
 * write to. */
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

/* cm.c: what both kinds of set-up have in common, and the end. */
/* A descriptor of ours: moved to floor or above if there is room. */
int rr_verbs_high(int fd, int floor);
void rr_verbs_close_fd(int fd);	/* the end of one; -1: nothing */
int rr_verbs_quiet(int fd);	/* non-blocking; 0 or -errno */
int rr_verbs_epoll(int floor);	/* a set, or -errno */
int rr_verbs_watch(int set, int fd, uint32_t which);
int rr_verbs_channel(struct rdma_event_channel **cm, int floor);
/* NULL: nothing. In a forked child its descriptor is all that is the child's. */
void rr_verbs_channel_free(struct rdma_event_channel *cm);
void rr_verbs_channel_forked(const struct rdma_event_channel *cm);
/* For a process that has become somebody else: *cm, which is watched in set, is another channel then, with id on
 * it. Returns the old one; NULL and errno: nothing has changed. */
struct rdma_event_channel *rr_verbs_renew(struct rdma_event_channel **cm, struct rdma_cm_id *id, int set, int floor);
/* The next event, acknowledged (an id cannot be destroyed or moved before that), its private data
 * in data. False: none, or errno is EACCES: see rr_verbs_renew(). */
bool rr_verbs_event(struct rdma_event_channel *cm, struct rdma_cm_event *out,
		    uint8_t data[UINT8_MAX]);
int rr_verbs_start(struct rr_qp *qp, const struct rr_prov_params *p);	/* its state … */
int rr_verbs_open(struct rr_qp *qp, struct rr_vq *v);			/* … and channel */
int rr_verbs_undo(struct rr_qp *qp, int rc);	/* frees all of it; rc */
int rr_verbs_resolve(struct rr_vq *v, const struct sockaddr *to, const struct sockaddr *from, int ms);
/* Accepts the request that v->id is; refuses it if it fails. */
int rr_verbs_accept(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *req);
int rr_verbs_establish(struct rr_qp *qp);
int rr_verbs_withdraw(struct rr_qp *qp);
void rr_verbs_disconnect(struct rr_qp *qp);
void rr_verbs_close(struct rr_qp *qp);
/* Takes what the CM has to say about a connected queue pair. */
void rr_verbs_cm_events(struct rr_qp *qp, struct rr_vq *v);

/* pair.c: between two of ours. */
int rr_verbs_prepare(struct rr_qp *qp, const struct rr_prov_params *p, struct rr_prov_addr *offer);
int rr_verbs_answer(struct rr_qp *qp, const struct rr_prov_params *p,
		    const struct rr_prov_addr *offer, struct rr_prov_addr *answer);
int rr_verbs_join(struct rr_qp *qp, const struct rr_prov_addr *answer);
int rr_pair_requested(struct rr_qp *qp, struct rr_vq *v, struct rdma_cm_id *id,
		      const struct rdma_conn_param *req);
uint32_t rr_pair_private_put(const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE]);
/* The peer's private data; false if it does not know the token. */
bool rr_pair_private_get(struct rr_qp *qp, struct rr_vq *v, const uint8_t *buf, uint32_t len);

/* native.c: with anybody. */
size_t rr_native_lst_size(void);
int rr_native_listen(struct rr_lst *lst, const struct sockaddr *addr, const struct rr_prov_params *p);
void rr_native_unlisten(struct rr_lst *lst);
int rr_native_tend(struct rr_lst *lst);
int rr_native_take(struct rr_lst *lst, struct rr_qp *qp, const struct rr_prov_params *p,
		   struct sockaddr_in6 *peer, struct sockaddr_in6 *local);
int rr_native_connect(struct rr_qp *qp, const struct rr_prov_params *p, const struct sockaddr *to,
		      const struct sockaddr *from);
uint32_t rr_native_private_put(const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE]);
bool rr_native_private_get(struct rr_qp *qp, struct rr_vq *v, const uint8_t *buf, uint32_t len);

/* qp.c: the queue pair and its memory, on v->id's device. 0 or -errno; undone by free. */
int rr_verbs_qp_make(struct rr_qp *qp, struct rr_vq *v);
void rr_verbs_qp_free(struct rr_qp *qp, struct rr_vq *v);
/* All of it that is the kernel's. */
void rr_verbs_objects_free(struct rr_vq *v);

/* device.c */
/* Moves the device's descriptors to floor or above and makes them ours, unless that was done. Before each first use
 * of a device that the CM gives us. */
void rr_verbs_device(struct ibv_context *dev, int floor);
/* It was taken away: librdmacm may close them. */
void rr_verbs_device_gone(const struct ibv_context *dev);
void rr_verbs_device_forked(void);	/* a child has no use for them */
/* What was found out about the device's windows in this process; and that. */
enum rr_verbs_proof rr_verbs_windows_of(const struct ibv_context *dev);
void rr_verbs_windows_are(const struct ibv_context *dev, enum rr_verbs_proof is);
/* Has the device refused to post a Send With Invalidate, now (found) or before? */
bool rr_verbs_no_inv(const struct ibv_context *dev, bool found);

/* prove.c */
/* Before the connection is made: v->windows is no longer set if the device cannot make one. */
void rr_verbs_prove_alloc(struct rr_vq *v);
/* When it is made: posts the trial, if the device has not stood one. */
void rr_verbs_prove(struct rr_qp *qp, struct rr_vq *v);
/* What a completion says whose wr_id has RR_VERBS_PROOF. */
void rr_verbs_proof(struct rr_vq *v, const struct ibv_wc *raw);

/* creds.c */
/* rdma_create_event_channel(), so that any thread of this process can use it later. */
struct rdma_event_channel *rr_verbs_open_channel(void);
/* librdmacm's functions of these names, for any thread of this process: -1 and errno. No cancellation points. */
int rr_cm_create_id(struct rdma_event_channel *cm, struct rdma_cm_id **id);
int rr_cm_destroy_id(struct rdma_cm_id *id);
int rr_cm_v6only(struct rdma_cm_id *id, int *only);
int rr_cm_ack_timeout(struct rdma_cm_id *id, uint8_t *exponent);
int rr_cm_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int rr_cm_listen(struct rdma_cm_id *id, int backlog);
int rr_cm_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms);
int rr_cm_resolve_route(struct rdma_cm_id *id, int ms);
int rr_cm_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int rr_cm_connect(struct rdma_cm_id *id, struct rdma_conn_param *p);
int rr_cm_accept(struct rdma_cm_id *id, struct rdma_conn_param *p);
int rr_cm_reject(struct rdma_cm_id *id);
int rr_cm_disconnect(struct rdma_cm_id *id);
int rr_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *cm);
int rr_cm_get_event(struct rdma_event_channel *cm, struct rdma_cm_event **ev);
/* Is it of use to any thread of this process? */
bool rr_cm_usable(struct rdma_event_channel *cm);
/* See rr_refused. */
ssize_t rr_verbs_refused(int fd, const void *buf, size_t n);
void rr_verbs_creds_forked(void);

/* mem.c */
/* May this connection lock so much memory? 0, or -ENOMEM; to be given back in either case. */
int rr_verbs_mem_reserve(struct rr_vq *v, size_t need);
/* May it have such receives? That, too, is given back there: */
bool rr_verbs_mem_share(struct rr_vq *v, enum rr_verbs_share which);
void rr_verbs_mem_unreserve(struct rr_vq *v);
/* May so many bytes more be registered? False, and ENOMEM. And given back. */
bool rr_verbs_mem_charge(struct rr_vq *v, size_t len);
void rr_verbs_mem_uncharge(struct rr_vq *v, size_t len);
/* A registration of mem that has local[0..len), with one user more: its index, or -errno. */
int rr_verbs_mem_use(struct rr_qp *qp, struct rr_vq *v, const void *local, size_t len);
void rr_verbs_mem_unuse(struct rr_vq *v, uint32_t i);
void rr_verbs_mem_free(struct rr_vq *v);
void rr_verbs_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len), void *ctx);

/* keys.c */
int rr_verbs_expose(struct rr_qp *qp, const void *local, uint32_t len, enum rr_rights rights,
		    struct rr_seg *out);
int rr_verbs_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie);
bool rr_verbs_consumed(struct rr_qp *qp, uint32_t handle);
/* The peer has invalidated it: true, if it was there. */
bool rr_verbs_key_gone(struct rr_vq *v, uint32_t handle);
/* The peer has read it to its end, it says. */
void rr_verbs_key_read(struct rr_vq *v, uint32_t handle);
void rr_verbs_window_free(struct rr_vq *v, uint16_t window);
/* Before the queue pair is destroyed: of a window still bound to it the rxe of Linux 6.1 makes a wait
 * of a minute. */
void rr_verbs_keys_free(struct rr_vq *v);

/* notes.c */
/* Tells the peer what it may send, once that is worth it: in the post of the Send that follows; … */
void rr_verbs_note_chain(struct rr_qp *qp, struct rr_vq *v);
/* … or now. If that waits for a Send, then only as long as the peer can still go on, with half of the receives
 * held by messages that nobody has read. */
void rr_verbs_note_count(struct rr_qp *qp, struct rr_vq *v, bool waits);
/* Asks the peer what it has read. */
void rr_verbs_ask_read(struct rr_qp *qp, struct rr_vq *v);
/* One of the peer's was read to its end. That is told when the peer wants to know, and before the
 * handle could mean something else. */
void rr_verbs_keep(struct rr_vq *v, uint32_t handle);
void rr_verbs_tell_read(struct rr_qp *qp, struct rr_vq *v);
/* Is it one of the peer's? Then it is taken; its receive is not one of those that are counted. */
bool rr_verbs_is_note(struct rr_qp *qp, struct rr_vq *v, const struct rr_wc *wc);

/* data.c */
/* Messages that may be sent now. */
uint32_t rr_verbs_window(const struct rr_vq *v);
/* wr gets its number and signal, goes into our books, and off with what was chained before it; or, where the send queue
 * is full, all of that when it is not: it has one piece at most then. */
int rr_verbs_post(struct rr_vq *v, struct ibv_send_wr *wr, struct rr_verbs_wqe w);
int rr_verbs_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		  uint32_t inv_handle);
/* Posts a Send of this payload, for which the peer has a receive: 1, or -errno (-EAGAIN: no slot for it). */
int rr_verbs_send_wr(struct rr_qp *qp, struct rr_vq *v, struct ibv_send_wr *wr,
		     const struct iovec *iov, int niov, uint64_t cookie);
int rr_verbs_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie);
int rr_verbs_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		  uint32_t off, uint64_t cookie);
int rr_verbs_write(struct rr_qp *qp, const void *local, uint32_t len, const struct rr_seg *seg,
		   uint32_t off, uint64_t cookie);
int rr_verbs_poll(struct rr_qp *qp, struct rr_wc *wc, int n);
void rr_verbs_repost(struct rr_qp *qp, uint64_t buf_cookie);
int rr_verbs_post_recv(struct rr_qp *qp, struct rr_vq *v, uint32_t i);
/* Takes new completions into our books: the send queue's entries in v->raw have the cookie and
 * the operation from then on, whatever becomes of their place in the queue. */
void rr_verbs_digest(struct rr_vq *v);
int rr_verbs_probe(struct rr_qp *qp);
bool rr_verbs_settle(struct rr_qp *qp, rr_time most);
/* Is anything on its way to a peer that is there? */
bool rr_verbs_unsettled(const struct rr_vq *v);

/* cq.c */
/* Moves what the CQ has to v->raw; false: another thread is at it. */
bool rr_verbs_pull(struct rr_vq *v);
/* Is there a completion? Any thread; no may be wrong while another looks. */
bool rr_verbs_reap(struct rr_vq *v);
/* From now on the next completion rings; true: there is one already. */
bool rr_verbs_arm_cq(struct rr_vq *v);

#endif
