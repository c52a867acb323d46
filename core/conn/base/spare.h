/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SPARE_H
#define RR_SPARE_H

/* The memory of shares. That of one share that was freed is kept for the next one, which then
 * needs neither a mapping of its own nor new pages for what every connection touches.
 * Without locks, for any thread. */

#include <stddef.h>

struct rr_share;

/* Zeroes, but for size and forks. NULL: no memory. */
struct rr_share *rr_spare_take(size_t size);
/* Frees a share that this process has made, and that no other process uses any more. Its eng
 * says where its second page in use is. */
void rr_spare_leave(struct rr_share *sh);
/* Before and after a fork, and in the child. A child has what was mapped before, and may use
 * it: none of that is taken again. */
void rr_spare_forks(void);

#endif
