/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_ENDING_H
#define RR_STAT_ENDING_H

/* How processes that do not live have ended, as far as the kernel still knows. It knows this of
 * processes that nobody has waited for yet, and (Linux 6.15) of those that an earlier call has
 * seen alive, since a descriptor of them is kept. */

#include "tools/segment.h"

/* Sets end and end_code of the processes. keep: there will be another call, so descriptors of
 * living processes are kept, up to a bound. */
void rr_endings(struct rr_procs *all, bool keep);

#endif
