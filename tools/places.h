/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PLACES_H
#define RR_PLACES_H

/* Where the statistics of processes are, as far as this user may see them. */

#include "config/rundir.h"
#include "tools/segment.h"

struct rr_places {
	char (*dir)[RR_RUN_PATH];
	uint32_t n;
	uint32_t own, nown;		/* of these, the places where this user's processes keep
					 * segments */
	char host[RR_RUN_PATH];		/* the directory by whose name segments without a file
					 * are found */
};

/* Lists the places. configured is option run_dir. Root gets the directories of all users,
 * others get their own and root's. */
void rr_places_find(struct rr_places *p, const char *configured);
void rr_places_fini(struct rr_places *p);

/* What is wrong with the i-th place for processes of this user; NULL: nothing. */
const char *rr_places_fault(const struct rr_places *p, uint32_t i);

/* Reads the processes at all places; only those in pids unless npids is 0. */
void rr_places_read(const struct rr_places *p, struct rr_procs *all, const int *pids,
		    uint32_t npids);

/* Asks the living process p to log at another level: enum rr_log_level + 1, or 0 for the
 * configured one. False: errno says why not. */
bool rr_segment_set_level(const struct rr_places *places, const struct rr_proc *p,
			  uint32_t level);

#endif
