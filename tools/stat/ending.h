/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_ENDING_H
#define RR_STAT_ENDING_H

/* How processes that are not seen to live have ended, as far as the kernel still says it: of
 * those that nobody has waited for yet; of those that were seen alive by an earlier call, since
 * a descriptor of them is kept (Linux 6.15). */

#include "tools/segment.h"

/* Sets end and end_code of the processes. keep: it is called again; descriptors are kept of
 * those that live now, of so many at most. */
void rr_endings(struct rr_procs *all, bool keep);

#endif
