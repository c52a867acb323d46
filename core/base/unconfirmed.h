/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_UNCONFIRMED_H
#define RR_UNCONFIRMED_H

/* Received calls of procedures that have no tally (tally.h), because the app has not replied to
 * any call of theirs. They are counted where readers of the segment see them, and taken back
 * when the reply comes: so what is left are calls that have no reply, or never got one.
 *
 * Any thread may call these functions, and they are async-signal-safe. seg is not NULL. */

#include "core/base/stats_abi.h"

/* Counts a call of len bytes. Returns which entry has it, from 1 on. */
uint8_t rr_unconfirmed_add(struct rr_stat_seg *seg, uint32_t program, uint32_t version,
			   uint32_t procedure, uint32_t len, bool too_long);

/* Takes that call back out of its entry. */
void rr_unconfirmed_take(struct rr_stat_seg *seg, uint8_t entry, uint32_t len, bool too_long);

#endif
