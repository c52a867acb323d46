/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_NAPS_H
#define RR_NAPS_H

/* How long a thread naps: sleeps on the wake-up fd of a connection at rest alone. A nap that
 * ends for its time only has woken the thread for nothing, unless the anchor has news that the
 * wake-up fd does not tell of. So the next ones of the process are longer, up to 32 s, until
 * there is a message within the time of a short one, or a nap has missed something.
 * Lock-free. */

#include <stdbool.h>

#include "core/base/types.h"

/* The shortest of them. */
#define RR_NAP_LEAST	(RR_SEC / 4)

rr_time rr_nap_time(void);
/* A nap that began then has brought something. */
void rr_nap_had_news(rr_time began);
/* A nap of this length is over and has brought nothing. Returns whether the anchor, whose
 * number is fd, has news; not after a shorter one than RR_NAP_LEAST. One system call. */
bool rr_nap_has_missed(int fd, rr_time slept);

#endif
