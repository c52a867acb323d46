/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PLACES_H
#define RR_PLACES_H

/* Where the statistics of processes are, as far as the user may see them. */

#include "config/rundir.h"
#include "tools/segment.h"

struct rr_places {
	char (*dir)[RR_RUN_PATH];
	uint32_t n;
	uint32_t own, nown;		/* of these: where our user's processes have segments */
	char host[RR_RUN_PATH];		/* the directory by whose name segments without a file
					 * are found */
};

/* configured: option run_dir. For root the directories of all users, else our user's and
 * root's. */
void rr_places_find(struct rr_places *p, const char *configured);
void rr_places_fini(struct rr_places *p);

/* What is wrong with the i-th for whom it is meant: processes of our user; NULL nothing. */
const char *rr_places_fault(const struct rr_places *p, uint32_t i);

/* Reads the processes at all places, pids (npids 0: all) only. */
void rr_places_read(const struct rr_places *p, struct rr_procs *all, const int *pids,
		    uint32_t npids);

/* Asks the living process p for another level of its log: enum rr_log_level + 1, or 0 for what
 * it was configured with. False: errno says why not. */
bool rr_segment_set_level(const struct rr_places *places, const struct rr_proc *p,
			  uint32_t level);

#endif
