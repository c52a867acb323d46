/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LOOKS_H
#define RR_LOOKS_H

/* When the kernel was last asked about an array of poll() or select(), and how soon it need be
 * asked again while a connection of ours has news at each call. All async-signal-safe. */

#include "core/base/types.h"

struct rr_work;

/* The least time between two looks at the kernel's part of the array. */
rr_time rr_looks_gap(const struct rr_work *w);
/* When the last look was; 0: long ago, or each call looks at an array like this one. */
rr_time rr_looks_last(const struct rr_work *w);
/* Was the last look less than a gap ago? Then the app may be told of our connections alone. */
bool rr_looks_recent(const struct rr_work *w);
/* The kernel has just been asked. */
void rr_looks_note(const struct rr_work *w);
/* This process has connected a socket, maybe to a listener of its own, or has written to, shut
 * or closed a connection whose other end is its own, too: its next poll() shall find that, as
 * it would without us. */
void rr_looks_forget(void);

#endif
