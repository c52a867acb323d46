/* SPDX-License-Identifier: BSD-3-Clause */
/* The completion queue, and the completions that were taken from it and not looked at yet:
 * v->raw. One thread has the connection's lock; any number of other threads spin, and take
 * completions as well. What a completion means is books.c's. */
#include <sched.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"

bool rr_verbs_cq_pull(struct rr_vq *v)
{
	uint32_t not_busy = 0;
	uint32_t head, tail, at, room;
	int n;

	if (!atomic_compare_exchange_strong_explicit(&v->cq_busy, &not_busy, true,
						     memory_order_acquire,
						     memory_order_relaxed))
		return false;
	/* Only the holder of cq_busy adds entries. The acquire pairs with the release in
	 * rr_verbs_traffic_poll(): entries before raw_tail have been copied out. */
	head = atomic_load_explicit(&v->raw_head, memory_order_relaxed);
	tail = atomic_load_explicit(&v->raw_tail, memory_order_acquire);
	do {
		at = head & (v->raw_cap - 1);
		room = rr_min(v->raw_cap - (head - tail), v->raw_cap - at);
		n = room ? ibv_poll_cq(v->cq, (int)room, &v->raw[at]) : 0;
		head += n > 0 ? (uint32_t)n : 0;
	} while (n > 0 && (uint32_t)n == room);
	/* Pairs with the acquires in has_taken() and rr_verbs_books_digest(): entries are
	 * visible to whoever sees raw_head count them. */
	atomic_store_explicit(&v->raw_head, head, memory_order_release);
	atomic_store_explicit(&v->cq_busy, false, memory_order_release);
	return true;
}

static bool has_taken(const struct rr_vq *v)
{
	return atomic_load_explicit(&v->raw_head, memory_order_acquire) !=
	       atomic_load_explicit(&v->raw_tail, memory_order_acquire);
}

bool rr_verbs_cq_reap(struct rr_vq *v)
{
	if (!has_taken(v))
		rr_verbs_cq_pull(v);
	return has_taken(v);
}

/* Requests the notification first and polls afterwards, and does so itself: another thread that
 * is polling may have looked just before the request. */
bool rr_verbs_cq_arm(struct rr_vq *v)
{
	if (ibv_req_notify_cq(v->cq, 0))
		v->err = v->err ? v->err : -EIO;
	while (!has_taken(v) && !rr_verbs_cq_pull(v))
		sched_yield();
	return has_taken(v);
}
