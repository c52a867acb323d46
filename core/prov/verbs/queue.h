/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_QUEUE_H
#define RR_VERBS_QUEUE_H

/* A queue pair: its memory and keys, what is posted, what has completed. */

#include "core/prov/verbs/verbs_int.h"

/* --- mem.c --- */

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
void rr_verbs_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len),
		   void *ctx);

/* --- post.c --- */

/* Messages that may be sent now. */
uint32_t rr_verbs_window(const struct rr_vq *v);
/* Is there room for n more work requests, and nothing that stands before them? */
bool rr_verbs_has_room(const struct rr_vq *v, uint32_t n);
/* wr gets its number and signal, goes into our books, and off with what was chained before
 * it; or, where the send queue is full, all of that when it is not: it has one piece at most
 * then. */
int rr_verbs_post(struct rr_vq *v, struct ibv_send_wr *wr, struct rr_verbs_wqe w);
/* Posts what has waited, as far as there is room. */
void rr_verbs_catch_up(struct rr_vq *v);
/* Posts a Send of this payload, for which the peer has a receive: 1, or -errno (-EAGAIN: no
 * slot for it). */
int rr_verbs_send_wr(struct rr_qp *qp, struct rr_vq *v, struct ibv_send_wr *wr,
		     const struct iovec *iov, int niov, uint64_t cookie);
int rr_verbs_post_recv(struct rr_qp *qp, struct rr_vq *v, uint32_t i);
/* Is anything on its way to a peer that is there? */
bool rr_verbs_unsettled(const struct rr_vq *v);

/* --- keys.c --- */

int rr_verbs_expose(struct rr_qp *qp, const void *local, uint32_t len, enum rr_rights rights,
		    struct rr_seg *out);
int rr_verbs_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie);
/* The peer has invalidated it: true, if it was there. */
bool rr_verbs_key_gone(struct rr_vq *v, uint32_t handle);
/* Whether the peer has read it; NULL: there is no such key. */
bool *rr_verbs_key_mark(struct rr_vq *v, uint32_t handle);
/* The peer has read it to its end, it says. */
void rr_verbs_key_read(struct rr_vq *v, uint32_t handle);
void rr_verbs_window_free(struct rr_vq *v, uint16_t window);
/* Before the queue pair is destroyed: of a window still bound to it the rxe of Linux 6.1 makes
 * a wait of a minute. */
void rr_verbs_keys_free(struct rr_vq *v);

/* --- notes.c --- */

/* Tells the peer what it may send, once that is worth it: in the post of the Send that follows;
 * … */
void rr_verbs_note_chain(struct rr_qp *qp, struct rr_vq *v);
/* … or now. If that waits for a Send, then only as long as the peer can still go on, with half
 * of the receives held by messages that nobody has read. */
void rr_verbs_note_count(struct rr_qp *qp, struct rr_vq *v, bool waits);
/* Asks the peer what it has read. */
void rr_verbs_ask_read(struct rr_qp *qp, struct rr_vq *v);
/* Has the peer read it? If that is not known, the peer is asked. */
bool rr_verbs_consumed(struct rr_qp *qp, uint32_t handle);
/* One of the peer's was read to its end. That is told when the peer wants to know, and before
 * the handle could mean something else. */
void rr_verbs_keep(struct rr_vq *v, uint32_t handle);
void rr_verbs_tell_read(struct rr_qp *qp, struct rr_vq *v);
/* Is it one of the peer's? Then it is taken; its receive is not one of those that are
 * counted. */
bool rr_verbs_is_note(struct rr_qp *qp, struct rr_vq *v, const struct rr_wc *wc);

/* --- prove.c --- */

/* Before the queue pair is made: v->windows is no longer set if the device cannot make one. */
void rr_verbs_prove_alloc(struct rr_vq *v);
/* When it is made: posts the trial, if the device has not stood one. */
void rr_verbs_prove(struct rr_qp *qp, struct rr_vq *v);
/* What a completion says whose wr_id has RR_VERBS_PROOF. */
void rr_verbs_proof(struct rr_vq *v, const struct ibv_wc *raw);

/* --- cq.c --- */

/* Moves what the CQ has to v->raw; false: another thread is at it. */
bool rr_verbs_pull(struct rr_vq *v);
/* Is there a completion? Any thread; no may be wrong while another looks. */
bool rr_verbs_reap(struct rr_vq *v);
/* From now on the next completion rings; true: there is one already. */
bool rr_verbs_arm_cq(struct rr_vq *v);

/* --- books.c --- */

/* What a failed work request says of the connection: gone, our device could not, or one of us
 * has broken a rule. */
int rr_verbs_status(enum ibv_wc_status s);
/* Takes new completions into our books: the send queue's entries in v->raw have the cookie and
 * the operation from then on, whatever becomes of their place in the queue. */
void rr_verbs_digest(struct rr_vq *v);

/* --- qp.c: the queue pair and its memory, on v->id's device. 0 or -errno; undone by free
 * --- */

int rr_verbs_qp_make(struct rr_qp *qp, struct rr_vq *v);
void rr_verbs_qp_free(struct rr_qp *qp, struct rr_vq *v);
/* All of it that is the kernel's. */
void rr_verbs_objects_free(struct rr_vq *v);

#endif
