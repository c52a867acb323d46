/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SHM_INT_H
#define RR_SHM_INT_H

/* The shm provider's private half. Nothing here is ever shared with the peer: it lies where
 * the caller puts it, perhaps shared with forked children, who have both regions mapped at
 * the same addresses.
 *
 * What the peer writes (both regions) is read once, checked against what stands here, then
 * used. A peer that lies gets -EPROTO, which sticks; what it can overwrite is only its own
 * messages and its own mem, never an address or an index that we use unchecked.
 *
 * SIGBUS: the sizes are sealed and checked before mapping, so no access lies beyond the end
 * of a file. Pages come into being on first touch; memfds have no file system limit, and a
 * full memory cgroup means reclaim and the OOM killer, as for any other memory. The one
 * case left is vm.overcommit_memory=2 with the commit limit reached: there a touch of
 * a new page raises SIGBUS, as it does for every user of shared memory. The control page is
 * allocated up front so that such a system refuses the connection first. */

#include <stdatomic.h>

#include "core/prov/prov.h"
#include "core/prov/shm/layout.h"

/* A mapped region. */
struct rr_shm_view {
	uint8_t *base;		/* NULL: not mapped */
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
	uint32_t handle;	/* the last one given out; 0 never used */
	uint16_t next;		/* in the list of free keys, or in fence_list: index + 1 */
	bool live;
};

struct rr_shm_slotinfo {
	uint32_t tx_used;	/* of the peer's ring: seq of the last message in it */
	uint32_t rx_seq;	/* of ours: seq of the message held there, or 0 … */
	uint32_t rx_last;	/* … and of the last one that was taken from it */
};

struct rr_shm {
	struct rr_qp qp;
	_Atomic int state;	/* enum rr_shm_state */
	_Atomic int err;	/* 0, or the -errno that ended it */
	_Atomic bool lost;	/* the peer is gone; what it left in the ring still counts */
	_Atomic uint32_t fencing; /* a handle taken back while the peer copies under it; 0
				   * none */
	struct rr_shm_view own, peer;

	/* receiving, in own; atomic because peek() reads without the lock */
	_Atomic uint32_t rx_pos;	/* next position to look at */
	uint32_t rx_tail;		/* rx_pos - slots .. rx_pos */
	uint32_t rx_held;		/* receives reported and not yet given back */
	uint32_t rx_reposted;

	/* sending, in peer */
	_Atomic uint32_t tx_sent;	/* messages, skips not counted */
	uint32_t tx_pos;
	_Atomic uint32_t tx_reposted;	/* copies of the peer's, checked; peek() reads this
					 * one */
	uint32_t tx_tail;
	uint32_t tx_made;		/* slots for whose long payloads this side has made
					 * pages, since it last trimmed; 0 it has sent none … */
	uint32_t tx_next_make;		/* … and the position at which it makes more */

	/* posted since the last kick(): enum rr_arm bits that the peer may be armed for */
	uint32_t unkicked;

	/* keys */
	uint32_t key_fresh;		/* keys at and above were never used */
	uint32_t key_free;		/* last freed: index + 1; reused first: few pages */
	uint32_t key_live;
	uint32_t key_gen;
	uint16_t fence_list;		/* taken back, not completed: index + 1, by next */
	rr_time fence_end;		/* so long the peer may copy under fencing */

	/* set-up */
	struct rr_prov_params param;	/* run_dir is not kept */
	int listener[2];		/* abstract, file; -1 */
	bool keeps_place;		/* place.c */
	pid_t creator;			/* who unlinks path, and whose the sockets are until it
					 * is ready */
	bool refusing;			/* the kernel lets none into wake_fd any more */
	bool plain;			/* and none is in it */
	bool ended;			/* disconnect(): it is nobody's any more */
	bool roused;			/* rouse(): wake_fd is readable for good */
	char path[108];			/* "" none */

	/* Only what the rings and the keys in use need of these is ever touched; when nothing
	 * is in use, trim() makes them as new. */
	struct rr_shm_slotinfo slot[RR_SHM_RECVS];
	struct rr_shm_keyinfo key[RR_SHM_KEYS];
	uint64_t fence_cookie[RR_SHM_KEYS];	/* of those in fence_list */
};

static inline struct rr_shm *rr_shm_of(struct rr_qp *qp)
{
	return container_of(qp, struct rr_shm, qp);
}

static inline bool rr_shm_ready(const struct rr_shm *q)
{
	return atomic_load_explicit(&q->state, memory_order_acquire) == RR_SHM_READY;
}

/* The slot of position pos in v. */
static inline struct rr_shm_slot *rr_shm_slot(const struct rr_shm_view *v, uint32_t pos)
{
	return &v->ring[pos & (v->geo.slots - 1)];
}

/* Where the payload of a message at position pos lies, if it is not short. */
static inline uint8_t *rr_shm_long(const struct rr_shm_view *v, uint32_t pos)
{
	return v->longs + (size_t)(pos & (v->geo.slots - 1)) * v->geo.stride;
}

/* Ends the connection for a reason, the first of which stays. Returns it. */
static inline int rr_shm_fail(struct rr_shm *q, int err)
{
	int none = 0;

	if (atomic_compare_exchange_strong_explicit(&q->err, &none, err, memory_order_relaxed,
						    memory_order_relaxed))
		return err;
	return none;
}

/* --- region.c --- */

/* Makes our region for q->param, maps it into q->own and returns its memfd, which
 * the caller closes; or -errno. */
int rr_shm_region_make(struct rr_shm *q);
/* Maps the peer's memfd into q->peer, if it is one of the size g with the right seals. */
int rr_shm_region_take(struct rr_shm *q, int memfd, const struct rr_shm_geo *g);
void rr_shm_region_drop(struct rr_shm_view *v);
void rr_shm_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len), void *ctx);

/* --- addr.c: where the offering side listens. errno may change --- */

/* Opens the listeners and writes their address. */
int rr_shm_listen(struct rr_shm *q, const char *run_dir, struct rr_prov_addr *offer);
/* Closes them, removes the file if this process made it. Leaves q as it is. */
void rr_shm_unlisten(struct rr_shm *q);
/* The same when the peer has come: one may be kept. alone: nobody else did. */
void rr_shm_unlisten_joined(struct rr_shm *q, bool alone);
/* A connected, non-blocking socket; or -errno. */
int rr_shm_connect(const struct rr_prov_addr *offer, const char *run_dir);

/* --- foreign.c: descriptors that nobody asked for. errno may change --- */

/* The one descriptor that comes with the next packet, which stays where it is: -EPROTO there is
 * none, or more than one; -EMFILE no number is left for it. */
int rr_shm_peek_fd(int sock);
/* Closes a descriptor that has come in and is not what it should be. */
void rr_shm_drop_fd(int fd);
/* Ends a connection that others can send to, and closes it. */
void rr_shm_drop_sock(int sock);
void rr_shm_drop_shut(int sock);	/* … which was shut down already */
/* Closes a socket that others can connect to. alone: no other process of the family has it. */
void rr_shm_drop_listener(int sock, bool alone);
/* From here on no descriptor comes in by this socket; false: the kernel cannot do that. */
bool rr_shm_refuse_fds(int sock);
/* Are there descriptors in the next packet? */
bool rr_shm_foreign_next(int sock);
/* As recv() of one byte. A packet with descriptors is the end, and stays where it is, for
 * rr_shm_drop_sock(). */
ssize_t rr_shm_read_bell(int sock);
/* Is there no packet now? */
bool rr_shm_is_empty(int sock);
/* Are so many of those about that there should be no new connections? */
bool rr_shm_burdened(void);

/* --- peer.c --- */
int rr_shm_prepare(struct rr_qp *qp, const struct rr_prov_params *p,
		   struct rr_prov_addr *offer);
int rr_shm_answer(struct rr_qp *qp, const struct rr_prov_params *p,
		  const struct rr_prov_addr *offer, struct rr_prov_addr *answer);
int rr_shm_join(struct rr_qp *qp, const struct rr_prov_addr *answer);
int rr_shm_establish(struct rr_qp *qp);
int rr_shm_withdraw(struct rr_qp *qp);
void rr_shm_close(struct rr_qp *qp);

/* --- kept.c: one listener, for the next offer. errno may change --- */
#define RR_SHM_PREFIX	"rdmarpc-"
#define RR_SHM_NAME	40u	/* a listener's: that and digits, not terminated */
bool rr_shm_is_name(const char *name);
void rr_shm_listener_keep(int fd);
/* Its number and name, nobody waiting at it; -1. */
int rr_shm_listener_take(char name[RR_SHM_NAME]);
bool rr_shm_listener_forget(int fd);	/* as rr_prov_forget() */
bool rr_shm_listener_spare(void);	/* as rr_prov_spare() */

/* --- place.c: a descriptor that is kept for the one that is to come --- */
int rr_shm_place_keep(void);	/* one more has answered: 0 or -errno */
void rr_shm_place_drop(void);		/* and waits no longer */
/* Makes room: true, if there was one. Then once more as before, if that can be. */
bool rr_shm_place_lend(void);
void rr_shm_place_back(void);

/* --- ring.c --- */
int rr_shm_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		uint32_t inv_handle);
int rr_shm_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie);
int rr_shm_poll(struct rr_qp *qp, struct rr_wc *wc, int n);
void rr_shm_repost(struct rr_qp *qp, uint64_t buf_cookie);
uint32_t rr_shm_window(struct rr_qp *qp);
/* Might poll() find something in the ring? */
bool rr_shm_rx_peek(const struct rr_shm *q);
/* Does the peer have a receive posted, by its own latest word? */
bool rr_shm_tx_peek(const struct rr_shm *q);
/* Is nothing of ours in the peer's ring, by its own latest word? */
bool rr_shm_tx_idle(struct rr_shm *q);

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
/* Completions of invalidate(): how many of at most n. Fails the connection if the peer's time
 * is over. */
int rr_shm_fenced(struct rr_shm *q, struct rr_wc *wc, int n);
/* Might rr_shm_fenced() report one? No bell rings for it. */
static inline bool rr_shm_fence_peek(const struct rr_shm *q)
{
	uint32_t handle = atomic_load_explicit(&q->fencing, memory_order_relaxed);

	return unlikely(handle) &&
		atomic_load_explicit(&q->own.ctl->accessing, memory_order_relaxed) != handle;
}
/* Is this a key of ours that the peer may use now? */
bool rr_shm_key_live(const struct rr_shm *q, uint32_t handle);

#endif
