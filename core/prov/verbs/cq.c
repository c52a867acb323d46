/* SPDX-License-Identifier: BSD-3-Clause */
/* The completion queue, and what was taken from it but not yet looked at: v->raw. One thread
 * has the connection's lock; any number of others spin, and take completions, too. */
#include <sched.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"

bool rr_verbs_pull(struct rr_vq *v)
{
	uint32_t not_busy = 0;
	uint32_t head, tail, at, room;
	int n;

	if (!atomic_compare_exchange_strong_explicit(&v->cq_busy, &not_busy, true,
						     memory_order_acquire,
						     memory_order_relaxed))
		return false;
	/* Only the holder of cq_busy adds. */
	head = atomic_load_explicit(&v->raw_head, memory_order_relaxed);
	tail = atomic_load_explicit(&v->raw_tail, memory_order_acquire);
	do {
		at = head & (v->raw_cap - 1);
		room = rr_min(v->raw_cap - (head - tail), v->raw_cap - at);
		n = room ? ibv_poll_cq(v->cq, (int)room, &v->raw[at]) : 0;
		head += n > 0 ? (uint32_t)n : 0;
	} while (n > 0 && (uint32_t)n == room);
	/* pairs with the acquires of raw_head: the entries are there once it says so */
	atomic_store_explicit(&v->raw_head, head, memory_order_release);
	atomic_store_explicit(&v->cq_busy, false, memory_order_release);
	return true;
}

static bool has_taken(const struct rr_vq *v)
{
	return atomic_load_explicit(&v->raw_head, memory_order_acquire) !=
	       atomic_load_explicit(&v->raw_tail, memory_order_acquire);
}

bool rr_verbs_reap(struct rr_vq *v)
{
	if (!has_taken(v))
		rr_verbs_pull(v);
	return has_taken(v);
}

/* Asked for first, looked at second, and by this thread itself: another that is at it may have
 * looked just before. */
bool rr_verbs_arm_cq(struct rr_vq *v)
{
	if (ibv_req_notify_cq(v->cq, 0))
		v->err = v->err ? v->err : -EIO;
	while (!has_taken(v) && !rr_verbs_pull(v))
		sched_yield();
	return has_taken(v);
}
