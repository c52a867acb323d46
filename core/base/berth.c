/* SPDX-License-Identifier: BSD-3-Clause */
/* Places for mappings. An empty one is a mapping that nobody may access, for which the kernel
 * counts no memory. */

#include "core/base/berth.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* In front of each place so much stays empty for good. The kernel frees a page table along with
 * what was mapped by it, unless a mapping before or behind that reaches into what the table
 * covers. A place begins where such a table does, but for this, so that the table of its first
 * 2 MiB stays. */
#define FENDER	65536u		/* no page is larger */
#define TABLE	((uintptr_t)2 << 20)

/* So many empty places are kept. */
#define KEPT	8u
/* So many places there are at most, with those in use: a process may have 65,530 mappings, and
 * a place is one more than what is in it. */
#define PLACES	1024u

/* Whoever changes an address to OWNED may do with the entry what it likes, until it stores
 * another one. */
static struct kept_place {
	_Atomic uintptr_t at;	/* 0: none */
	size_t size;
} kept[KEPT];
#define OWNED	((uintptr_t)1)

static _Atomic uint32_t places;

static bool own(struct kept_place *k, uintptr_t at)
{
	return atomic_compare_exchange_strong_explicit(&k->at, &at, OWNED, memory_order_acquire,
						       memory_order_relaxed);
}

static void disown(struct kept_place *k, uintptr_t at)
{
	atomic_store_explicit(&k->at, at, memory_order_release);
}

static void *empty_place(void *at, size_t size, int flags)
{
	flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	return mmap(at, size, PROT_NONE, flags, -1, 0);
}

static void free_place(uint8_t *at, size_t size)
{
	munmap(at - FENDER, FENDER + size);
	atomic_fetch_sub_explicit(&places, 1, memory_order_relaxed);
}

/* Where the address space is scarce, or limited, the app may want all of it. */
static bool may_reserve(void)
{
	struct rlimit lim;

	return sizeof(void *) > 4 && !getrlimit(RLIMIT_AS, &lim) &&
	       lim.rlim_cur == RLIM_INFINITY;
}

static uint8_t *new_place(size_t size)
{
	size_t all = TABLE + FENDER + size, slack;
	uint8_t *p = empty_place(NULL, all, 0);

	if (p == MAP_FAILED)
		return NULL;
	slack = (size_t)(rr_align((uintptr_t)p, TABLE) - (uintptr_t)p);
	if (slack)
		munmap(p, slack);
	if (slack < TABLE)
		munmap(p + slack + FENDER + size, TABLE - slack);
	return p + slack + FENDER;
}

/* A new place, unless there are too many. NULL: none. */
static uint8_t *another_place(size_t size)
{
	uint8_t *at = NULL;

	if (atomic_fetch_add_explicit(&places, 1, memory_order_relaxed) < PLACES &&
	    may_reserve())
		at = new_place(size);
	if (!at)
		atomic_fetch_sub_explicit(&places, 1, memory_order_relaxed);
	return at;
}

static uint8_t *kept_of_size(size_t size)
{
	for (struct kept_place *k = kept; k < kept + KEPT; k++) {
		uintptr_t at = atomic_load_explicit(&k->at, memory_order_relaxed);
		bool fits;

		if (at <= OWNED || !own(k, at))
			continue;
		fits = k->size == size;
		disown(k, fits ? 0 : at);
		if (fits)
			return (uint8_t *)at;
	}
	return NULL;
}

int rr_berth_map(struct rr_berth *b, size_t size, int flags, int fd)
{
	uint8_t *at = kept_of_size(size);
	int rc;

	if (!at)
		at = another_place(size);
	if (at)
		flags |= MAP_FIXED;
	b->at = mmap(at, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	b->size = size;
	b->stays = at;
	if (b->at != MAP_FAILED)
		return 0;
	rc = -errno;
	b->at = NULL;
	if (at)
		free_place(at, size);
	return rc;
}

/* Keeps an empty place: where there is none, or (drop) instead of one of another size. */
static bool keep_place(void *at, size_t size, bool drop)
{
	for (struct kept_place *k = kept; k < kept + KEPT; k++) {
		uintptr_t was = atomic_load_explicit(&k->at, memory_order_relaxed);
		size_t old;

		if (was == OWNED || (was && !drop) || !own(k, was))
			continue;
		old = k->size;
		if (was && old == size) {
			disown(k, was);
			continue;
		}
		k->size = size;
		disown(k, (uintptr_t)at);
		if (was)
			free_place((uint8_t *)was, old);
		return true;
	}
	return false;
}

void rr_berth_unmap(const struct rr_berth *b)
{
	int saved = errno;

	if (!b->stays)
		munmap(b->at, b->size);
	else if (empty_place(b->at, b->size, MAP_FIXED) == MAP_FAILED ||
		 !(keep_place(b->at, b->size, false) || keep_place(b->at, b->size, true)))
		free_place(b->at, b->size);
	errno = saved;
}
