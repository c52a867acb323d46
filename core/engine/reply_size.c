/* SPDX-License-Identifier: BSD-3-Clause */
/* How large the replies of a procedure have been, so that a call can offer memory for the next:
 * a small hash table that forgets. It is a guess; bounds that are known come from core/ulb. */

#include "core/base/compiler.h"
#include "core/engine/reply_size.h"

#define HDR_WORST	164u	/* a v1 header that returns a Write chunk of eight segments */
#define PROBES		8u

/* A key is never 0, which stands for a free slot. Two procedures with the same key share a
 * guess, which does no harm. */
static uint64_t key_of(uint32_t prog, uint32_t vers, uint32_t proc)
{
	uint64_t k = ((uint64_t)prog << 32 | proc) * UINT64_C(0x9e3779b97f4a7c15);

	k ^= k >> 29;
	k = (k + vers) * UINT64_C(0xbf58476d1ce4e5b9);
	k ^= k >> 32;
	return k ? k : 1;
}

static uint32_t probe_at(uint64_t key, uint32_t i)
{
	return ((uint32_t)key + i) % RR_SIZES_SLOTS;
}

/* The acquire pairs with the release in size_slot(): whoever sees a key in a slot also sees
 * that its predecessor's size was reset. */
uint32_t rr_sizes_get(const struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc)
{
	uint64_t key = key_of(prog, vers, proc);

	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t at = probe_at(key, i);

		if (atomic_load_explicit(&s->slot[at].key, memory_order_acquire) == key)
			return atomic_load_explicit(&s->slot[at].max, memory_order_relaxed);
	}
	return 0;
}

/* The slot of key, made if need be: a free one within reach, or else the first, whose owner is
 * forgotten. If two threads make it twice, the first that is found counts. */
static uint32_t size_slot(struct rr_sizes *s, uint64_t key)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t at = probe_at(key, i);
		uint64_t old = atomic_load_explicit(&s->slot[at].key, memory_order_acquire);

		if (old == key)
			return at;
		if (old == 0 && atomic_compare_exchange_strong(&s->slot[at].key, &old, key))
			return at;
	}
	atomic_store_explicit(&s->slot[probe_at(key, 0)].max, 0, memory_order_relaxed);
	atomic_store_explicit(&s->slot[probe_at(key, 0)].key, key, memory_order_release);
	return probe_at(key, 0);
}

static void raise_to(struct rr_sizes *s, uint64_t key, uint32_t len)
{
	_Atomic uint32_t *max = &s->slot[size_slot(s, key)].max;
	uint32_t old = atomic_load_explicit(max, memory_order_relaxed);

	while (old < len && !atomic_compare_exchange_weak(max, &old, len))
		;
}

void rr_sizes_seen(struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc,
		   uint32_t len)
{
	raise_to(s, key_of(prog, vers, proc), len);
}

/* The error does not say how much would have been enough, so twice as much is tried next.
 * False: what was offered was the most already. */
bool rr_sizes_too_small(struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc,
			uint32_t had, uint32_t max)
{
	uint64_t need = (uint64_t)had * 2;

	if (had >= max)
		return false;
	raise_to(s, key_of(prog, vers, proc), (uint32_t)rr_min(need, (uint64_t)max));
	return true;
}

bool rr_reply_fits_inline(uint32_t bound, uint32_t inline_recv)
{
	return (uint64_t)bound + HDR_WORST <= inline_recv;
}
