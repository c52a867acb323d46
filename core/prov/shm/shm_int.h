/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SHM_INT_H
#define RR_SHM_INT_H

/* The shm provider's private half. Nothing in here is ever shared with the peer. It lies where
 * the caller puts it, perhaps in memory shared with forked children, who have both regions
 * mapped at the same addresses.
 *
 * Everything that the peer writes (in both regions) is read once, checked against what is in
 * here, and then used. A peer that lies gets -EPROTO, which sticks. What it can overwrite are
 * only its own messages and its own mem, never an address or index that we use unchecked.
 *
 * SIGBUS: sizes are sealed and checked before mapping, so no access lies beyond the end of a
 * file. Pages are allocated on first touch. memfds have no file system limit, and a full memory
 * cgroup leads to reclaim and the OOM killer, as for any other memory. The one case left is
 * vm.overcommit_memory=2 with the commit limit reached: there the first touch of a page raises
 * SIGBUS, as for every user of shared memory. The control page is allocated up front, so that
 * such a system refuses the connection instead. */

#include <stdatomic.h>

#include "core/base/berth.h"
#include "core/prov/prov.h"
#include "core/prov/shm/layout.h"

/* A mapped region. */
struct rr_shm_view {
	struct rr_berth berth;	/* at NULL: not mapped */
	struct rr_shm_geo geo;
	struct rr_shm_ctl *ctl;
	_Atomic uint32_t *freed;
	struct rr_shm_key *keys;
	struct rr_shm_slot *ring;
	uint8_t *longs;
	uint8_t *mem;
};

enum rr_shm_state { RR_SHM_NONE, RR_SHM_LISTENING, RR_SHM_ANSWERED, RR_SHM_READY };

struct rr_shm_keyinfo {
	uint32_t handle;	/* the last one handed out; 0: never used */
	uint16_t next;		/* list link, of free keys or of fence_list: index + 1 */
	bool live;
};

struct rr_shm_slotinfo {
	uint32_t tx_used;	/* in the peer's ring: seq of the last message in it, or 0 if
				 * there was none since all were free */
	uint32_t rx_seq;	/* in ours: seq of the message held there, or 0 … */
	uint32_t rx_last;	/* … and of the last one that was taken from it */
};

struct rr_shm {
	struct rr_qp qp;
	_Atomic int state;	/* enum rr_shm_state */
	_Atomic int err;	/* 0, or the -errno that ended it */
	_Atomic bool lost;	/* the peer is gone; what it left in the ring still counts */
	/* a handle taken back while the peer copies under it; 0: none */
	_Atomic uint32_t fencing;
	struct rr_shm_view own, peer;

	/* Receiving, in `own`. Atomic because peek() reads it without the lock. */
	_Atomic uint32_t rx_pos;	/* next position to look at */
	uint32_t rx_tail;		/* positions below are free; rx_pos - slots .. rx_pos */
	uint32_t rx_slots;		/* those before had a message at some time */
	uint32_t rx_held;		/* receives reported and not yet given back */
	uint32_t rx_reposted;

	/* Sending, in `peer`. */
	_Atomic uint32_t tx_sent;	/* messages, skips not counted */
	uint32_t tx_pos;
	/* our checked copy of the peer's; peek() reads this one */
	_Atomic uint32_t tx_reposted;
	uint32_t tx_tail;
	uint32_t tx_slots;		/* as rx_slots */
	/* slots before have had the pages of their long payloads made by us, since we last
	 * trimmed; 0: we have sent none */
	uint32_t tx_made;

	/* enum rr_arm bits that the peer may be armed for, posted since the last kick(). */
	uint32_t unkicked;

	/* keys */
	uint32_t key_fresh;		/* keys at and above were never used */
	/* last freed: index + 1; reused first, to touch few pages */
	uint32_t key_free;
	uint32_t key_live;
	uint32_t key_gen;
	/* taken back, not completed: index + 1, linked by next */
	uint16_t fence_list;
	rr_time fence_end;		/* until then the peer may copy under `fencing` */

	/* set-up */
	struct {			/* as in struct rr_prov_params */
		uint32_t recv_size, recvs;
		size_t mem_size;
		uint8_t token[RR_TOKEN_LEN];
		struct sockaddr_in6 peer;
		bool near;
	} param;
	int listener[2];		/* abstract, file; -1 */
	bool keeps_place;		/* its answer counts in place.c */
	/* owns the sockets until the connection is ready, and unlinks path */
	pid_t creator;
	/* the kernel lets no descriptors into wake_fd any more */
	bool refusing;
	bool plain;			/* … and none is in it */
	/* disconnect() was called: no process uses it any more */
	bool ended;
	bool busy;			/* it has had a long message, or Reads or Writes */
	bool roused;			/* rouse(): wake_fd is readable for good */
	bool asked, asks;		/* pipe.c: for one of its own; not sent yet */
	/* the peer's is taken, or not wanted; it may come; it lies in the socket */
	bool took, admits, come;
	uint8_t pipes;			/* that count among its process's */
	uint8_t eased;			/* sleeps that ease() has counted, … */
	uint32_t eased_pos;		/* … rx_pos at the last one, … */
	rr_time eased_at;		/* … and when that was */
	char path[108];			/* "" none */
	struct {
		uint32_t era;		/* forks before */
		uint32_t slots;		/* rx_slots of the one before */
		bool stays;		/* the client will look for them again */
		bool called;		/* this is the offering side */
		bool taken;		/* they are those of an earlier connection */
	} again;

	/* Of the tables below only what the rings and the keys in use need is ever touched;
	 * when nothing is in use, trim() makes them as new. */
	struct rr_shm_slotinfo slot[RR_SHM_RECVS];
	struct rr_shm_keyinfo key[RR_SHM_KEYS];
	uint64_t fence_cookie[RR_SHM_KEYS];	/* for those in fence_list */
};

static inline struct rr_shm *rr_shm_of(struct rr_qp *qp)
{
	return container_of(qp, struct rr_shm, qp);
}

static inline bool rr_shm_ready(const struct rr_shm *q)
{
	return atomic_load_explicit(&q->state, memory_order_acquire) == RR_SHM_READY;
}

static inline uint32_t rr_shm_index(const struct rr_shm_view *v, uint32_t pos)
{
	return pos & (v->geo.slots - 1);
}

/* The position after pos, where a round ends or not. */
static inline uint32_t rr_shm_next(const struct rr_shm_view *v, uint32_t pos, bool last)
{
	return (last ? pos | (v->geo.slots - 1) : pos) + 1;
}

/* The slot at position pos of v. */
static inline struct rr_shm_slot *rr_shm_slot(const struct rr_shm_view *v, uint32_t pos)
{
	return &v->ring[rr_shm_index(v, pos)];
}

/* Where the payload of a message at position pos lies if it is not short. */
static inline uint8_t *rr_shm_long(const struct rr_shm_view *v, uint32_t pos)
{
	return v->longs + (size_t)rr_shm_index(v, pos) * v->geo.stride;
}

/* Ends the connection for a reason; the first reason sticks. Returns it. */
static inline int rr_shm_fail(struct rr_shm *q, int err)
{
	int none = 0;

	if (atomic_compare_exchange_strong_explicit(&q->err, &none, err, memory_order_relaxed,
						    memory_order_relaxed))
		return err;
	return none;
}

/* --- region.c --- */

/* Makes our region for q->param and maps it into q->own. Returns its memfd, which the caller
 * closes, or -errno. */
int rr_shm_region_make(struct rr_shm *q);
/* Maps the peer's memfd into q->peer, if it has size g and the right seals. */
int rr_shm_region_take(struct rr_shm *q, int memfd, const struct rr_shm_geo *g);
/* Unmaps both, as far as they are mapped. Leaves q as it is. */
void rr_shm_regions_drop(struct rr_shm *q);
void rr_shm_views_drop(const struct rr_shm_view *own, const struct rr_shm_view *peer);
/* Makes our region, which an earlier connection has used, as new; the peer does not use it. */
void rr_shm_region_clear(struct rr_shm *q);
void rr_shm_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len), void *ctx);

/* --- addr.c: where the offering side listens. errno may change --- */

/* Opens the listeners and puts their address into the offer. */
int rr_shm_listen(struct rr_shm *q, const char *run_dir, struct rr_prov_addr *offer);
/* Takes the regions that the offer, with which rr_shm_connect() has succeeded, names. */
void rr_shm_offered_again(struct rr_shm *q, const struct rr_prov_addr *offer);
/* Closes the listeners, and removes the file if this process made it. Leaves q as it is. */
void rr_shm_unlisten(struct rr_shm *q);
/* The same when the peer has connected; one listener may be kept. alone: nobody else
 * connected. */
void rr_shm_unlisten_joined(struct rr_shm *q, bool alone);
/* A connected, non-blocking socket; or -errno. */
int rr_shm_connect(const struct rr_prov_addr *offer, const char *run_dir);

/* --- rendezvous.c --- */
int rr_shm_prepare(struct rr_qp *qp, const struct rr_prov_params *p,
		   struct rr_prov_addr *offer);
int rr_shm_answer(struct rr_qp *qp, const struct rr_prov_params *p,
		  const struct rr_prov_addr *offer, struct rr_prov_addr *answer);
int rr_shm_join(struct rr_qp *qp, const struct rr_prov_addr *answer);
int rr_shm_establish(struct rr_qp *qp);
int rr_shm_withdraw(struct rr_qp *qp);
void rr_shm_close(struct rr_qp *qp);

/* --- kept.c: one listener kept for the next offer. errno may change --- */
#define RR_SHM_PREFIX	"rdmarpc-"
/* length of a listener's name: prefix and digits, not terminated */
#define RR_SHM_NAME	40u
bool rr_shm_is_name(const char *name);
void rr_shm_listener_keep(int fd);
/* The kept listener and its name, if nobody waits at it; -1. */
int rr_shm_listener_take(char name[RR_SHM_NAME]);
bool rr_shm_listener_forget(int fd);	/* as rr_prov_forget() */
bool rr_shm_listener_spare(void);	/* as rr_prov_spare() */

/* --- reuse.c: regions kept for the next connection of the same two processes --- */
/* Of a q that has no regions yet. */
void rr_shm_again_init(struct rr_shm *q, bool called);
/* Keeps q's regions, if they may be of use; false: they are still the caller's. */
bool rr_shm_again_keep(const struct rr_shm *q);
/* The offering side: takes regions kept from an earlier connection to the same server, and puts
 * what the server knows them by into *id. */
bool rr_shm_again_offer(struct rr_shm *q, uint64_t *id);
/* The answering side: takes those that the client names. */
bool rr_shm_again_find(struct rr_shm *q, uint64_t id);

/* --- place.c: a descriptor number that is held for a descriptor yet to come --- */
int rr_shm_place_keep(void);	/* one more answer is out; 0 or -errno */
void rr_shm_place_drop(void);		/* … and no longer is */
/* Frees the number: true if there was one. rr_shm_place_back() takes a new one, if that can be
 * had. */
bool rr_shm_place_lend(void);
void rr_shm_place_back(void);

/* --- ring.c --- */
int rr_shm_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		uint32_t inv_handle);
int rr_shm_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie);
int rr_shm_send_note(struct rr_qp *qp, uint32_t imm, const void *note, uint32_t len);
int rr_shm_poll(struct rr_qp *qp, struct rr_wc *wc, int n);
void rr_shm_repost(struct rr_qp *qp, uint64_t buf_cookie);
uint32_t rr_shm_window(struct rr_qp *qp);
/* Could poll() find something in the ring? */
bool rr_shm_rx_peek(const struct rr_shm *q);
/* Does the peer have a receive posted, by what it last said? */
bool rr_shm_tx_peek(const struct rr_shm *q);
bool rr_shm_tx_idle(struct rr_shm *q);	/* is nothing of ours left, by what it last said? */

/* --- xfer.c --- */
int rr_shm_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		uint32_t off, uint64_t cookie);
int rr_shm_write(struct rr_qp *qp, const void *local, uint32_t len, const struct rr_seg *seg,
		 uint32_t off, uint64_t cookie);
int rr_shm_expose(struct rr_qp *qp, const void *local, uint32_t len, enum rr_rights rights,
		  struct rr_seg *out);
int rr_shm_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie);
bool rr_shm_consumed(struct rr_qp *qp, uint32_t handle);
void rr_shm_consume(struct rr_qp *qp, const struct rr_seg *seg);
/* Completions of invalidate(): at most n, returns how many. Fails the connection if the peer
 * has used up its time. */
int rr_shm_fenced(struct rr_shm *q, struct rr_wc *wc, int n);
/* Could rr_shm_fenced() report something? No bell rings for it. */
static inline bool rr_shm_fence_peek(const struct rr_shm *q)
{
	uint32_t handle = atomic_load_explicit(&q->fencing, memory_order_relaxed);

	return unlikely(handle) &&
		atomic_load_explicit(&q->own.ctl->accessing, memory_order_relaxed) != handle;
}
/* Is this a key of ours that the peer may use at present? */
bool rr_shm_key_live(const struct rr_shm *q, uint32_t handle);

#endif
