/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_QUEUE_H
#define RR_VERBS_QUEUE_H

/* A queue pair: its memory and keys, what is posted, and what has completed. */

#include <errno.h>

#include "core/prov/verbs/verbs_int.h"

/* Rights of memory that only this process uses. Nobody looks at it before a completion, which
 * the device writes in order, so the bytes before that may come in any order over PCI Express.
 * libibverbs clears the bit where the kernel does not know it. */
#define RR_VERBS_LOCAL	((int)IBV_ACCESS_LOCAL_WRITE | (int)IBV_ACCESS_RELAXED_ORDERING)

/* Does err say that the kernel refused an object because there are too many? EAGAIN means that
 * the rdma cgroup has reached its limit (rdma.max); among our own results it means "later". */
static inline bool rr_verbs_scarce(int err)
{
	return err == ENOMEM || err == EAGAIN;
}

/* Bytes of an entry of the send queue (mlx5 has the longest), and of the CQ. */
#define RR_VERBS_SQE	512u
#define RR_VERBS_CQE	64u

/* Entries of the send queue: three for each receive, because a message may need a bind and an
 * invalidation besides its Send. Requests beyond that wait (post.c). The number is a power of
 * two because drivers would round it up to one anyway. */
static inline uint32_t rr_verbs_sq(const struct rr_qp *qp)
{
	uint32_t n = RR_VERBS_SQ_LEAST;

	while (n < RR_VERBS_SQ && n < 3 * rr_verbs_recvs(qp))
		n *= 2;
	return n;
}

/* Bytes of the queues, at most. Drivers of most adapters keep them in memory of the process,
 * which is locked as any other. The CQ's length is rounded up to a power of two. */
static inline size_t rr_verbs_queues(const struct rr_qp *qp)
{
	size_t sq = rr_verbs_sq(qp), recvs = rr_verbs_recvs(qp);

	return rr_align(sq * RR_VERBS_SQE + 2 * (sq + recvs) * RR_VERBS_CQE, (size_t)RR_PAGE);
}

/* --- mr.c --- */

/* May this connection lock so much memory? 0, or -ENOMEM. In either case the caller calls
 * rr_verbs_mr_unreserve() later. */
int rr_verbs_mr_reserve(struct rr_vq *v, size_t need);
/* May it have receives of this kind? rr_verbs_mr_unreserve() gives back that as well. */
bool rr_verbs_mr_share(struct rr_vq *v, enum rr_verbs_share which);
void rr_verbs_mr_unreserve(struct rr_vq *v);
/* In a forked child, which has one thread: counts anew, since what its parent has locked does
 * not count for the child. */
void rr_verbs_mr_forked(void);
/* May so many more bytes be registered? False with errno ENOMEM. rr_verbs_mr_uncharge() gives
 * them back. */
bool rr_verbs_mr_charge(struct rr_vq *v, size_t len);
void rr_verbs_mr_uncharge(struct rr_vq *v, size_t len);
/* A registration of mem that covers local[0..len): its index, with one more user; or -errno. */
int rr_verbs_mr_use(struct rr_qp *qp, struct rr_vq *v, const void *local, size_t len);
void rr_verbs_mr_unuse(struct rr_vq *v, uint32_t i);
void rr_verbs_mr_free(struct rr_vq *v);
void rr_verbs_mr_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len),
		       void *ctx);

/* --- post.c --- */

/* How many messages may be sent now. */
uint32_t rr_verbs_post_window(const struct rr_vq *v);
/* Is there room for n more work requests, with none waiting before them? */
bool rr_verbs_post_has_room(const struct rr_vq *v, uint32_t n);
/* Numbers wr, decides whether it is signaled, enters it into our books and posts it together
 * with what was chained before it. If the send queue is full, all of that is posted later; wr
 * may then have one piece at most. */
int rr_verbs_post(struct rr_vq *v, struct ibv_send_wr *wr, struct rr_verbs_wqe w);
/* Posts what has waited for room, as far as there is some. */
void rr_verbs_post_catch_up(struct rr_vq *v);
/* Posts a Send of this payload, for which the peer has a receive. 1, or -errno (-EAGAIN: there
 * is no send slot). */
int rr_verbs_post_send_wr(struct rr_qp *qp, struct rr_vq *v, struct ibv_send_wr *wr,
			  const struct iovec *iov, int niov, uint64_t cookie);
int rr_verbs_post_recv(struct rr_qp *qp, struct rr_vq *v, uint32_t i);
/* Is anything on its way to a peer that is still there? */
bool rr_verbs_post_unsettled(const struct rr_vq *v);

/* --- keys.c --- */

int rr_verbs_keys_expose(struct rr_qp *qp, const void *local, uint32_t len,
			 enum rr_rights rights, struct rr_seg *out);
int rr_verbs_keys_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie);
/* The peer has invalidated this key. True: it existed. */
bool rr_verbs_keys_gone(struct rr_vq *v, uint32_t handle);
/* The flag that says whether the peer has read this exposure; NULL: there is no such key. */
bool *rr_verbs_keys_mark(struct rr_vq *v, uint32_t handle);
/* The peer says that it has read this exposure to its end. */
void rr_verbs_keys_read(struct rr_vq *v, uint32_t handle);
void rr_verbs_keys_free_window(struct rr_vq *v, uint16_t window);
/* To be called before the queue pair is destroyed: if a window is still bound to it, rxe of
 * Linux 6.1 waits for a minute. */
void rr_verbs_keys_free(struct rr_vq *v);

/* --- notes.c --- */

/* Tells the peer how much it may send, once that is worth a note: in the same post as the Send
 * that follows; … */
void rr_verbs_notes_chain(struct rr_qp *qp, struct rr_vq *v);
/* … or now. If waits is set, the note is left to the next Send as long as the peer can go on,
 * even with half of the receives held by unread messages. */
void rr_verbs_notes_count(struct rr_qp *qp, struct rr_vq *v, bool waits);
/* Asks the peer what it has read. */
void rr_verbs_notes_ask_read(struct rr_qp *qp, struct rr_vq *v);
/* Has the peer read this exposure? If that is not known, asks the peer. */
bool rr_verbs_notes_consumed(struct rr_qp *qp, uint32_t handle);
/* An exposure of the peer's was read to its end. The peer is told when it asks, or before the
 * handle could get another meaning. */
void rr_verbs_notes_keep(struct rr_vq *v, uint32_t handle);
void rr_verbs_notes_tell_read(struct rr_qp *qp, struct rr_vq *v);
/* Is this receive a note of the peer's? Then processes it; such receives do not count as
 * messages. */
bool rr_verbs_notes_is_one(struct rr_qp *qp, struct rr_vq *v, const struct rr_wc *wc);

/* --- prove.c --- */

/* Called before the queue pair is made: clears v->windows if the device cannot make one. */
void rr_verbs_prove_alloc(struct rr_vq *v);
/* Called when the connection is established, before anything else is posted to the send queue:
 * posts the trial, unless the device has passed one. */
void rr_verbs_prove(struct rr_qp *qp, struct rr_vq *v);
/* Takes a completion whose wr_id has RR_VERBS_PROOF. */
void rr_verbs_prove_result(struct rr_vq *v, const struct ibv_wc *raw);

/* --- cq.c --- */

/* Moves completions from the CQ to v->raw. False: another thread is doing so. */
bool rr_verbs_cq_pull(struct rr_vq *v);
/* Is there a completion? For any thread; "no" may be wrong while another thread looks. */
bool rr_verbs_cq_reap(struct rr_vq *v);
/* Makes the next completion ring. True: there is a completion already. */
bool rr_verbs_cq_arm(struct rr_vq *v);

/* --- books.c --- */

/* What a failed work request means for the connection: the peer is gone, our device has failed,
 * or one end has broken a rule. */
int rr_verbs_books_status(enum ibv_wc_status s);
/* Takes new completions into our books. From then on the send queue's entries in v->raw hold
 * the cookie and the operation, whatever becomes of their place in the queue. */
void rr_verbs_books_digest(struct rr_vq *v);

/* --- qp.c: the queue pair and its memory, on v->id's device. 0 or -errno; after an error, free
 * undoes what was done --- */

int rr_verbs_qp_make(struct rr_qp *qp, struct rr_vq *v);
void rr_verbs_qp_free(struct rr_qp *qp, struct rr_vq *v);
/* Frees everything that the kernel holds for it. */
void rr_verbs_qp_free_objects(struct rr_vq *v);

#endif
