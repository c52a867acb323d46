/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for the length of one call, where it would be too much for a signal handler's stack.
 * Pieces are kept for the next call; which sizes the callers need is theirs to know. */

#include "preload/scratch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "core/base/compiler.h"

enum { SPARES = 4, LEAST = 16384, KEPT = 1 << 20 };

struct piece {
	size_t size;		/* including this head */
	uint64_t pad;
	unsigned char mem[];
};

static struct piece *_Atomic spare[SPARES];

static struct piece *map_piece(size_t size)
{
	int saved = errno;
	struct piece *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

	errno = saved;
	if (p == MAP_FAILED)
		return NULL;
	p->size = size;
	return p;
}

static void unmap_piece(struct piece *p)
{
	int saved = errno;

	if (p)
		munmap(p, p->size);
	errno = saved;
}

void *rr_scratch_take(size_t size)
{
	size_t want = LEAST;
	struct piece *p;

	if (size > SIZE_MAX / 4)
		return NULL;
	for (int i = 0; i < SPARES; i++) {
		/* acq_rel in both exchanges: what the last owner wrote happens before the next
		 * owner's use. */
		p = atomic_exchange_explicit(&spare[i], NULL, memory_order_acq_rel);
		if (p && p->size >= size + sizeof(*p))
			return p->mem;
		unmap_piece(p);		/* too small now, and likely so for the next call */
	}
	while (want < size + sizeof(*p))
		want *= 2;
	p = map_piece(want);
	return p ? p->mem : NULL;
}

void rr_scratch_give(void *mem)
{
	struct piece *p = container_of(mem, struct piece, mem), *none;

	for (int i = 0; i < SPARES && p->size <= KEPT; i++) {
		none = NULL;
		if (atomic_compare_exchange_strong_explicit(&spare[i], &none, p,
							    memory_order_acq_rel,
							    memory_order_relaxed))
			return;
	}
	unmap_piece(p);
}
