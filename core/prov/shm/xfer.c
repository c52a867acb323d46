/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read and Write are plain copies from and to the peer's mapping, under its keys. Rings
 * are ring.c's.
 *
 * Fencing. A copy cannot be stopped from outside, so invalidate() must know whether one is in
 * progress. The calls on a queue pair are serialized by its owner's lock, so there is at most
 * one copy in each direction, and one word describes it. The copier writes the handle into
 * accessing and then looks whether the key is still there; the exporter removes the key and
 * then looks at accessing. With a full fence between the two steps on both sides, at least one
 * side sees the other. The exporter never waits for a copy in progress, because its end is up
 * to the peer: it looks a few more times, and then the completion comes later, from poll().
 * Until then the key belongs to nobody. A copy that does not end (the peer is stopped, or lies)
 * costs the connection; and because a region is never used for another connection, what such a
 * peer may still write harms nobody. A peer that ignores all of this can read and write the
 * whole of mem at any time: mem must hold nothing but this connection's messages, and what is
 * found there is copied before it is judged. */
#include "core/prov/shm/shm_int.h"

#include <errno.h>
#include <string.h>

#include "core/base/os.h"

/* A throttled peer (cpu.max) may stand still for some periods of 100 ms. */
#define FENCE_WAIT	(500 * RR_MSEC)
#define FENCE_LOOKS	200	/* some microseconds: as long as most copies take */
#define KEY_MASK	(RR_SHM_KEYS - 1)

/* --- our keys --- */

/* The part above the index counts modulo 2^22 and is never 0. */
static uint32_t fresh_handle(struct rr_shm *q, uint32_t i)
{
	uint32_t handle;

	do
		handle = q->key_gen++ << RR_SHM_KEY_BITS | i;
	while (handle >> RR_SHM_KEY_BITS == 0);
	return handle;
}

static int take_key(struct rr_shm *q, uint32_t *i)
{
	if (q->key_free) {
		*i = q->key_free - 1;
		q->key_free = q->key[*i].next;
	} else if (q->key_fresh < RR_SHM_KEYS) {
		*i = q->key_fresh++;
	} else {
		return -EAGAIN;
	}
	return 0;
}

int rr_shm_expose(struct rr_qp *qp, const void *local, uint32_t len, enum rr_rights rights,
		  struct rr_seg *out)
{
	struct rr_shm *q = rr_shm_of(qp);
	size_t off = (uintptr_t)local - (uintptr_t)q->own.mem;
	struct rr_shm_key *k;
	uint32_t i;
	int rc = atomic_load_explicit(&q->err, memory_order_relaxed);

	if (unlikely(rc))
		return rc;
	if (off > qp->mem_size || len > qp->mem_size - off)
		return -EINVAL;
	rc = take_key(q, &i);
	if (rc)
		return rc;
	q->key[i].handle = fresh_handle(q, i);
	q->key[i].live = true;
	q->key_live++;
	k = &q->own.keys[i];
	atomic_store_explicit(&k->rights, (uint32_t)rights, memory_order_relaxed);
	atomic_store_explicit(&k->offset, off, memory_order_relaxed);
	atomic_store_explicit(&k->length, len, memory_order_relaxed);
	atomic_store_explicit(&k->consumed, 0, memory_order_relaxed);
	/* Pairs with the acquire in enter(): whoever knows the handle sees the rest. */
	atomic_store_explicit(&k->handle, q->key[i].handle, memory_order_release);
	*out = (struct rr_seg){ .handle = q->key[i].handle, .length = len, .offset = off };
	return 0;
}

bool rr_shm_key_live(const struct rr_shm *q, uint32_t handle)
{
	const struct rr_shm_keyinfo *k = &q->key[handle & KEY_MASK];

	return handle && k->live && k->handle == handle;
}

static void give_key(struct rr_shm *q, uint32_t i)
{
	q->key[i].next = (uint16_t)q->key_free;
	q->key_free = i + 1;
}

/* The handle under which the peer is copying; 0: none. Pairs with the release in
 * leave_access(): copies under any other handle have ended. */
static uint32_t copying(const struct rr_shm *q)
{
	return atomic_load_explicit(&q->own.ctl->accessing, memory_order_acquire);
}

/* Has the copy under handle ended, or does it within some more looks? A dead peer has none in
 * progress. */
static bool fence_out(const struct rr_shm *q, uint32_t handle)
{
	/* Pairs with the fence in enter(). */
	rr_fence();
	if (likely(copying(q) != handle) ||
	    atomic_load_explicit(&q->lost, memory_order_relaxed))
		return true;
	for (int i = 0; i < FENCE_LOOKS; i++) {
		rr_relax();
		if (copying(q) != handle)
			return true;
	}
	return false;
}

/* From now on the peer's time for the copy under handle runs. */
static void fence_await(struct rr_shm *q, uint32_t handle)
{
	q->fence_end = rr_now_coarse() + FENCE_WAIT;
	atomic_store_explicit(&q->fencing, handle, memory_order_relaxed);
}

/* The peer copies under key i, so it does not copy under any other key in the list;
 * rr_shm_fenced() will notice that. */
static void fence_add(struct rr_shm *q, uint32_t i, uint64_t cookie)
{
	if (!q->fence_list)
		fence_await(q, q->key[i].handle);
	q->fence_cookie[i] = cookie;
	q->key[i].next = q->fence_list;
	q->fence_list = (uint16_t)(i + 1);
}

/* handle: the one copy that has not ended, or 0. Has it used up its time? */
static void fence_judge(struct rr_shm *q, uint32_t handle)
{
	if (!handle)
		atomic_store_explicit(&q->fencing, 0, memory_order_relaxed);
	else if (handle != atomic_load_explicit(&q->fencing, memory_order_relaxed))
		fence_await(q, handle);
	else if (rr_now_coarse() >= q->fence_end)
		rr_shm_fail(q, -ETIMEDOUT);
}

/* req: rfc8166 4.5.4 #1 */
int rr_shm_fenced(struct rr_shm *q, struct rr_wc *wc, int n)
{
	uint32_t under = atomic_load_explicit(&q->lost, memory_order_relaxed) ? 0 : copying(q);
	uint32_t left = 0;
	uint16_t *at = &q->fence_list;
	int got = 0;

	while (*at && got < n) {
		uint32_t i = *at - 1u;
		struct rr_shm_keyinfo *k = &q->key[i];

		if (k->handle == under) {
			left = under;
			at = &k->next;
			continue;
		}
		*at = k->next;
		wc[got++] = (struct rr_wc){ .op = RR_WC_INVALIDATE,
					    .cookie = q->fence_cookie[i] };
		give_key(q, i);
	}
	if (left || !q->fence_list)
		fence_judge(q, left);
	return got;
}

/* A handle that is not valid (any more) needs nothing: the peer may have invalidated it
 * itself. */
int rr_shm_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie)
{
	struct rr_shm *q = rr_shm_of(qp);
	uint32_t i = handle & KEY_MASK;

	if (!rr_shm_key_live(q, handle))
		return 1;
	atomic_store_explicit(&q->own.keys[i].handle, 0, memory_order_relaxed);
	q->key[i].live = false;
	q->key_live--;
	if (unlikely(!fence_out(q, handle))) {
		fence_add(q, i, cookie);
		return 0;
	}
	give_key(q, i);
	return 1;
}

bool rr_shm_consumed(struct rr_qp *qp, uint32_t handle)
{
	struct rr_shm *q = rr_shm_of(qp);
	struct rr_shm_key *k = &q->own.keys[handle & KEY_MASK];

	/* The peer's copy is over by then; pairs with the release in rr_shm_consume(). */
	return rr_shm_key_live(q, handle) &&
		atomic_load_explicit(&k->consumed, memory_order_acquire) == handle;
}

/* --- the peer's keys --- */

static void leave_access(struct rr_shm *q)
{
	/* Pairs with the acquire in copying(). */
	atomic_store_explicit(&q->peer.ctl->accessing, 0, memory_order_release);
}

/* Checks the segment from the wire and the key table against each other and against the
 * mapping. The result lies in our own memory, where the peer cannot change it. */
/* req: rfc8166 8.1 #1 */
static bool covers(const struct rr_shm *q, struct rr_shm_key *k, enum rr_rights right,
		   const struct rr_seg *seg, uint32_t off, uint32_t len, uint64_t *start)
{
	uint32_t rights = atomic_load_explicit(&k->rights, memory_order_relaxed);
	uint64_t base = atomic_load_explicit(&k->offset, memory_order_relaxed);
	uint64_t size = atomic_load_explicit(&k->length, memory_order_relaxed);

	if (!(rights & right))
		return false;
	if (base > q->peer.geo.mem_size || size > q->peer.geo.mem_size - base)
		return false;
	if (off > seg->length || len > seg->length - off)
		return false;
	if (__builtin_add_overflow(seg->offset, (uint64_t)off, start))
		return false;
	return *start >= base && *start - base <= size && len <= size - (*start - base);
}

/* Asks for permission to copy. Returns the address, or NULL: a remote access error. */
static uint8_t *enter(struct rr_shm *q, enum rr_rights right, const struct rr_seg *seg,
		      uint32_t off, uint32_t len)
{
	struct rr_shm_key *k = &q->peer.keys[seg->handle & KEY_MASK];
	uint64_t start;

	if (!seg->handle)
		return NULL;
	q->busy = true;
	atomic_store_explicit(&q->peer.ctl->accessing, seg->handle, memory_order_relaxed);
	/* Pairs with the fence in fence_out(). */
	rr_fence();
	/* Pairs with the release in rr_shm_expose(). */
	if (atomic_load_explicit(&k->handle, memory_order_acquire) != seg->handle ||
	    !covers(q, k, right, seg, off, len, &start)) {
		leave_access(q);
		return NULL;
	}
	return q->peer.mem + start;
}

/* The peer may be dead: what it exposed outlives it. */
int rr_shm_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		uint32_t off, uint64_t cookie)
{
	struct rr_shm *q = rr_shm_of(qp);
	int rc = atomic_load_explicit(&q->err, memory_order_relaxed);
	const uint8_t *from;

	(void)cookie;
	if (unlikely(rc && rc != -ECONNRESET))
		return rc;
	from = enter(q, RR_RIGHT_READ, seg, off, len);
	if (unlikely(!from))
		return -EACCES;
	if (len)
		memcpy(local, from, len);
	leave_access(q);
	return 1;
}

void rr_shm_consume(struct rr_qp *qp, const struct rr_seg *seg)
{
	struct rr_shm_key *k = &rr_shm_of(qp)->peer.keys[seg->handle & KEY_MASK];

	/* Pairs with the acquire in rr_shm_consumed(). */
	atomic_store_explicit(&k->consumed, seg->handle, memory_order_release);
}

int rr_shm_write(struct rr_qp *qp, const void *local, uint32_t len, const struct rr_seg *seg,
		 uint32_t off, uint64_t cookie)
{
	struct rr_shm *q = rr_shm_of(qp);
	int rc = atomic_load_explicit(&q->err, memory_order_relaxed);
	uint8_t *to;

	(void)cookie;
	if (unlikely(rc))
		return rc;
	to = enter(q, RR_RIGHT_WRITE, seg, off, len);
	if (unlikely(!to))
		return -EACCES;
	if (len)
		memcpy(to, local, len);
	leave_access(q);
	return 1;
}
