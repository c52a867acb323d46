/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SEGMENT_H
#define RR_SEGMENT_H

/* Reads statistics segments. A file is whatever its owner put there: read into memory (a
 * mapping could be truncated under us), every number checked before use, every text
 * terminated. */

#include "core/base/stats_abi.h"

struct rr_proc_conn {
	int32_t fd;
	uint32_t state, carrier, reason, dialect, version;
	bool server;
	char local[RR_STAT_ADDR], peer[RR_STAT_ADDR];
	uint64_t since_ns;
	uint64_t count[RR_C_COUNT];
};

/* One process, living or dead. */
struct rr_proc {
	int pid;
	unsigned uid;			/* who owns the file */
	uint64_t ticks, since_ns;
	bool alive, ended;
	char comm[32], exe[96];
	uint64_t carriers[RR_CARRIER_COUNT];
	uint64_t reasons[RR_STAT_REASONS];
	uint64_t count[RR_C_COUNT];	/* all connections since start */
	uint64_t hist[RR_STAT_HIST];
	struct rr_proc_conn *conns;	/* those in use, in the order of the file */
	uint32_t nconns;
};

struct rr_procs {
	struct rr_proc *p;
	uint32_t n;
};

/* Appends the processes of the segments in dir that can be read, pids (npids 0: all) only. */
void rr_procs_read(struct rr_procs *all, const char *dir, const int *pids, uint32_t npids);
/* By pid, the living first. */
void rr_procs_sort(struct rr_procs *all);
void rr_procs_fini(struct rr_procs *all);

#endif
