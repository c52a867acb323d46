/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_APPMEM_H
#define RR_APPMEM_H

/* Checks of pointers that the app passes in and that may be wrong. Where the kernel would
 * answer EFAULT, this library must not die of SIGSEGV (appmem.c).
 *
 * Reading, writing and waiting on a carried connection only compare pointers with the first
 * and the last page of the address space, which costs next to nothing. Any other wrong pointer
 * there raises SIGSEGV in the app's thread. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/base/compiler.h"

/* Is p certainly not memory of this process? Then the call is left to the kernel, which answers
 * EFAULT. */
static inline bool rr_bad_ptr(const void *p)
{
	return (uintptr_t)p < RR_PAGE || (uintptr_t)p > UINTPTR_MAX - RR_PAGE;
}

/* Can the beginning and the end of each piece be read? Makes a system call for each page in
 * which a piece begins or ends; errno is left alone. */
bool rr_appmem_readable(const struct iovec *iov, int n);

/* Are these len bytes certainly memory of the stack that the process has begun with, above the
 * caller's own frame? Then they can be read and written. Touches nothing and asks nobody. */
bool rr_appmem_is_on_stack(const void *p, size_t len);

#endif
