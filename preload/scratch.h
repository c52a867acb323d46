/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SCRATCH_H
#define RR_SCRATCH_H

#include <stddef.h>

/* Memory for the length of one call, where the stack is no place for it. Some pieces are kept,
 * so that a server with many connections makes no system call for its array at each wait.
 * Lock-free, async-signal-safe; errno is left alone. */

/* At least size bytes, not cleared; NULL: no memory. */
void *rr_scratch_take(size_t size);
void rr_scratch_give(void *mem);

#endif
