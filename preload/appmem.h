/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_APPMEM_H
#define RR_APPMEM_H

/* Pointers of the app's, which may be wrong: where the kernel says EFAULT we must not die of
 * SIGSEGV. (appmem.c) What is looked at for each call of a carried connection is only held
 * against the first and last page of the address space, which costs nothing; a pointer that is
 * wrong otherwise is the app's SIGSEGV there. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/base/compiler.h"

/* Is p certainly no memory of this process? Then the kernel is asked, for its EFAULT. */
static inline bool rr_bad_ptr(const void *p)
{
	return (uintptr_t)p < RR_PAGE || (uintptr_t)p > UINTPTR_MAX - RR_PAGE;
}

/* Can the pieces be read, at their beginnings and ends? A system call for each page in which
 * one of them begins or ends, and errno may change. */
bool rr_appmem_readable(const struct iovec *iov, int n);

#endif
