/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a share that was freed, for the next one: all zeroes again. */

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/pages.h"
#include "core/conn/base/base.h"
#include "core/conn/base/spare.h"

static _Atomic(struct rr_share *) spare;
static _Atomic uint32_t forks;

static struct rr_share *take_spare(void)
{
	return atomic_exchange_explicit(&spare, NULL, memory_order_acq_rel);
}

static struct rr_share *map_share(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct rr_share *rr_spare_take(size_t size)
{
	struct rr_share *sh = take_spare();

	if (sh && sh->size != size) {
		munmap(sh, sh->size);
		sh = NULL;
	}
	if (!sh)
		sh = map_share(size);
	if (sh) {
		sh->size = size;
		sh->forks = atomic_load_explicit(&forks, memory_order_relaxed);
	}
	return sh;
}

/* The first page and the engine's are in use by every connection; the others are given back,
 * if there are any. */
static bool wipe(struct rr_share *sh)
{
	uint8_t *first = (uint8_t *)sh, *end = first + sh->size;
	uint8_t *near = (uint8_t *)sh->eng - (uintptr_t)sh->eng % RR_PAGE;

	if (!rr_pages_drop(first + RR_PAGE, near) || !rr_pages_drop(near + RR_PAGE, end))
		return false;
	memset(near, 0, RR_PAGE);
	memset(first, 0, RR_PAGE);
	return true;
}

void rr_spare_leave(struct rr_share *sh)
{
	struct rr_share *none = NULL;
	size_t size = sh->size;

	if (sh->forks == atomic_load_explicit(&forks, memory_order_relaxed) &&
	    !atomic_load_explicit(&spare, memory_order_relaxed) && wipe(sh)) {
		sh->size = size;
		if (atomic_compare_exchange_strong_explicit(&spare, &none, sh,
							    memory_order_acq_rel,
							    memory_order_relaxed))
			return;
	}
	munmap(sh, size);
}

void rr_spare_forks(void)
{
	struct rr_share *sh;

	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
	sh = take_spare();
	if (sh)
		munmap(sh, sh->size);
}
