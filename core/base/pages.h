/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PAGES_H
#define RR_PAGES_H

#include <errno.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/types.h"

/* The whole pages between from and to go back to the system and read as zeroes from then on.
 * The memory is MAP_SHARED | MAP_ANONYMOUS, and goes away for every process that shares it; of
 * any other, or where it is locked, nothing happens. */
static inline void rr_pages_drop(void *from, void *to)
{
	uintptr_t first = rr_align((uintptr_t)from, (uintptr_t)RR_PAGE);
	uintptr_t end = (uintptr_t)to & ~(uintptr_t)(RR_PAGE - 1);
	int saved = errno;

	if (first < end)
		madvise((void *)first, end - first, MADV_REMOVE);
	errno = saved;
}

#endif
