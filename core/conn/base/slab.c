/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that connections live in, and iterating over those in some state. Slabs are never
 * freed, and this file decides nothing about a connection's life. */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"

#define SLAB	64u

/* Type-stable: memory of a connection is only ever reused for a connection, so that a stale
 * pointer can be looked at. */
static struct rr_lock slab_lock;
/* held while connections are iterated over, so that none ends */
static struct rr_lock reap_lock;
static struct rr_conn *free_list;
static struct {
	struct rr_conn *conns;		/* SLAB of them */
	/* Those without the mark are skipped without touching them: a server may have
	 * thousands, of which few have it. */
	_Atomic uint64_t marked[RR_MARKS];
} slabs[4096];
_Static_assert(SLAB == 64, "a bit for each");
static struct rr_conn first_slab[SLAB];	/* most processes need no other */
static _Atomic uint32_t nslabs;

/* connections at the end of the last slab that were never touched */
static uint32_t unused;

static struct rr_conn *new_slab(void)
{
	void *p = mmap(NULL, SLAB * sizeof(struct rr_conn), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void slab_more(void)
{
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_relaxed);
	struct rr_conn *slab;

	if (n == rr_array_size(slabs))
		return;
	slab = n ? new_slab() : first_slab;
	if (!slab)
		return;
	unused = SLAB;
	slabs[n].conns = slab;
	/* Pairs with the acquire in rr_conn_each_carried(). */
	atomic_store_explicit(&nslabs, n + 1, memory_order_release);
}

/* A connection's memory; NULL: there is none. */
static struct rr_conn *take_free(void)
{
	struct rr_conn *c = free_list;
	uint32_t n;

	if (c) {
		free_list = c->next;
		return c;
	}
	if (!unused)
		slab_more();
	if (!unused)
		return NULL;
	n = atomic_load_explicit(&nslabs, memory_order_relaxed) - 1;
	c = &slabs[n].conns[SLAB - unused];
	c->index = n * SLAB + SLAB - unused--;
	return c;
}

/* Clears a connection for reuse. A wait may still be looking at the previous connection in this
 * memory, by a descriptor that was closed meanwhile; therefore the fields that it reads are
 * stored atomically. */
static void reset(struct rr_conn *c)
{
	atomic_store_explicit(&c->face.changed, 0, memory_order_relaxed);
	atomic_store_explicit(&c->face.relayed, false, memory_order_relaxed);
	atomic_store_explicit(&c->face.standing, 0, memory_order_relaxed);
	atomic_store_explicit(&c->own_word, false, memory_order_relaxed);
	atomic_store_explicit(&c->rest, 0, memory_order_relaxed);
	atomic_store_explicit(&c->sleepers, 0, memory_order_relaxed);
	memset(&c->lock, 0, offsetof(struct rr_conn, heard) - offsetof(struct rr_conn, lock));
}

struct rr_conn *rr_slab_get(bool server, int fd)
{
	struct rr_conn *c;

	if (rr_lock_take(&slab_lock) == -EDEADLK)
		return NULL;
	c = take_free();
	rr_lock_drop(&slab_lock);
	if (!c)
		return NULL;
	reset(c);
	c->face.server = server;
	c->fd = fd;
	c->owner = (int32_t)rr_pid();
	c->lowat = 1;
	atomic_store_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

void rr_slab_put(struct rr_conn *c)
{
	atomic_store_explicit(&c->face.state, RR_S_FREE, memory_order_release);
	if (rr_lock_take(&slab_lock) == -EDEADLK)
		return;		/* a handler that interrupted the holder: this slot is lost */
	c->next = free_list;
	free_list = c;
	rr_lock_drop(&slab_lock);
}

void rr_slab_end(struct rr_conn *c)
{
	/* rr_conn_each_carried() may be looking at the connection. */
	if (rr_lock_take(&reap_lock) == -EDEADLK)
		return;
	atomic_store_explicit(&c->face.state, RR_S_FREE, memory_order_release);
	for (int m = 0; m < RR_MARKS; m++)
		rr_slab_unmark(c->index, (enum rr_mark)m);
	rr_lock_drop(&reap_lock);
}

bool rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx)
{
	/* Pairs with the release in slab_more(). */
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_acquire);

	if (rr_lock_try(&reap_lock))
		return false;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < SLAB; j++)
			if (rr_conn_st(&slabs[i].conns[j]) == RR_S_CARRIED)
				fn(&slabs[i].conns[j], ctx);
	rr_lock_drop(&reap_lock);
	return true;
}

/* Setting and removing a mark are ordered, as the search for entering peers needs it
 * (guests.c). */
void rr_slab_mark(uint32_t index, enum rr_mark m)
{
	uint64_t bit = UINT64_C(1) << index % SLAB;

	atomic_fetch_or_explicit(&slabs[index / SLAB].marked[m], bit, memory_order_acq_rel);
}

void rr_slab_unmark(uint32_t index, enum rr_mark m)
{
	uint64_t bit = UINT64_C(1) << index % SLAB;

	atomic_fetch_and_explicit(&slabs[index / SLAB].marked[m], ~bit, memory_order_acq_rel);
}

/* Those with the mark in slab i. */
static uint64_t marked(uint32_t i, enum rr_mark m)
{
	return atomic_load_explicit(&slabs[i].marked[m], memory_order_relaxed);
}

uint32_t rr_slab_count(enum rr_mark m)
{
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_relaxed), sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += (uint32_t)__builtin_popcountll(marked(i, m));
	return sum;
}

struct rr_conn *rr_slab_next(uint32_t from, enum rr_mark m)
{
	/* Pairs with the release in slab_more(). */
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_acquire);

	for (uint32_t i = from / SLAB; i < n; i++) {
		uint64_t bits = marked(i, m);

		if (i == from / SLAB)
			bits &= UINT64_MAX << from % SLAB;
		if (bits)
			return &slabs[i].conns[__builtin_ctzll(bits)];
	}
	return NULL;
}

bool rr_slab_each(enum rr_mark m, bool (*fn)(struct rr_conn *, void *), void *ctx)
{
	/* Pairs with the release in slab_more(). */
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_acquire);
	bool more = true;

	if (rr_lock_try(&reap_lock))
		return false;
	for (uint32_t i = 0; i < n && more; i++) {
		for (uint64_t bits = marked(i, m); bits && more; bits &= bits - 1) {
			struct rr_conn *c = &slabs[i].conns[__builtin_ctzll(bits)];

			if (rr_conn_st(c) == RR_S_CARRIED)
				more = fn(c, ctx);
		}
	}
	rr_lock_drop(&reap_lock);
	return true;
}

/* The slab lock keeps another thread from forking at this moment: the fork would not have
 * counted this connection for the child, but the child would find it carried, and its close
 * would end the connection for the parent as well. */
void rr_slab_carried(struct rr_conn *c)
{
	bool held = rr_lock_take(&slab_lock) != -EDEADLK;

	rr_slab_mark(c->index, RR_MARK_IN_USE);
	rr_conn_turn(c, RR_S_CARRIED);
	if (held)
		rr_lock_drop(&slab_lock);
}

struct rr_conn *rr_slab_at(uint32_t i)
{
	/* Pairs with the release in slab_more(). */
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_acquire);

	return i < n * SLAB ? &slabs[i / SLAB].conns[i % SLAB] : NULL;
}

bool rr_slab_hold(void)
{
	return rr_lock_take(&slab_lock) != -EDEADLK;
}

bool rr_slab_try(void)
{
	return rr_lock_try(&slab_lock) == 0;
}

void rr_slab_let(void)
{
	rr_lock_drop(&slab_lock);
}

bool rr_slab_hold_ends(void)
{
	return rr_lock_take(&reap_lock) != -EDEADLK;
}

void rr_slab_let_ends(void)
{
	rr_lock_drop(&reap_lock);
}

/* Native peers are the parent's, also those that a relay serves for this process. */
void rr_slab_forked(void)
{
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_relaxed);

	slab_lock = reap_lock = (struct rr_lock){ 0 };
	for (uint32_t i = 0; i < n; i++) {
		_Atomic uint64_t *m = slabs[i].marked;

		atomic_store_explicit(&m[RR_MARK_GUEST], 0, memory_order_relaxed);
		atomic_store_explicit(&m[RR_MARK_SILENT], 0, memory_order_relaxed);
	}
}
