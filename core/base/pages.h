/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PAGES_H
#define RR_PAGES_H

#include <errno.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/types.h"

/* Gives the whole pages between from and to back to the system; they read as zeroes afterwards.
 * The memory must be MAP_SHARED | MAP_ANONYMOUS and is lost for every process that shares it.
 * Other memory, and locked memory, stays as it is: false. */
static inline bool rr_pages_drop(void *from, void *to)
{
	uintptr_t first = rr_align((uintptr_t)from, (uintptr_t)RR_PAGE);
	uintptr_t end = (uintptr_t)to & ~(uintptr_t)(RR_PAGE - 1);
	int saved = errno, rc = 0;

	if (first < end)
		rc = madvise((void *)first, end - first, MADV_REMOVE);
	errno = saved;
	return rc == 0;
}

#ifndef MADV_POPULATE_WRITE	/* Linux 5.14 */
#define MADV_POPULATE_WRITE	23
#endif

/* Allocates the pages of from and to and those between, as if each had been written to. False:
 * not all of them, or the kernel cannot do that. */
static inline bool rr_pages_make(void *from, void *to)
{
	uintptr_t first = (uintptr_t)from & ~(uintptr_t)(RR_PAGE - 1);
	size_t len = (uintptr_t)to + 1 - first;
	int saved = errno, rc = madvise((void *)first, len, MADV_POPULATE_WRITE);

	errno = saved;
	return rc == 0;
}

#endif
