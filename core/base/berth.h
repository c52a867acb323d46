/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_BERTH_H
#define RR_BERTH_H

/* Places in the address space for mappings that come and go. When such a mapping goes, its
 * place stays reserved for the next one of its size, with nothing in it but the page table:
 * where a hypervisor shadows those, making and freeing them is most of what a mapping costs.
 *
 * For any thread, and signal handlers: without locks. A forked child has what its parent had,
 * at the same addresses. */

#include <stdbool.h>
#include <stddef.h>

#include "core/base/compiler.h"

struct rr_berth {
	void *at;
	size_t size;
	bool stays;		/* its place can be kept */
};

/* Maps size bytes, whole pages, as mmap() does with these flags and fd, for reading and
 * writing. 0, or -errno and at NULL; errno may change. */
int rr_berth_map(struct rr_berth *b, size_t size, int flags, int fd) RR_MUST_CHECK;
/* Unmaps it. b stays as it is. */
void rr_berth_unmap(const struct rr_berth *b);

#endif
