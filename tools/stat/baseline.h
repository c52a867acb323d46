/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_BASELINE_H
#define RR_STAT_BASELINE_H

/* rdmarpc-stat --reset: what processes had counted at that time, in a file of the user's in a
 * run directory. Nothing is written to segments, which count on for everybody else. */

#include "tools/places.h"

/* Notes what all processes have counted: those in pids (npids 0: all) anew, others as they were
 * noted before, if they are still there. configured is option run_dir. Ends the program with
 * status 1 and a message if it cannot. */
void rr_baseline_save(const struct rr_places *places, const char *configured,
		      const struct rr_procs *all, const int *pids, uint32_t npids);

/* Subtracts what was noted from processes that were noted, but not from their open
 * connections. */
void rr_baseline_apply(const struct rr_places *places, struct rr_procs *all);

#endif
