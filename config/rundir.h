/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RUNDIR_H
#define RR_RUNDIR_H

/* The run directory: statistics segments (files named PID.STARTTICKS), the file "stop", and
 * what providers put there. Shared by users: sticky, and nothing in it is trusted. No malloc,
 * no stdio; system calls by syscall(), since this also runs inside the preload library. errno
 * is anybody's. */

#include "core/base/types.h"

#define RR_RUN_DIR	"/run/rdmarpc"
#define RR_RUN_PATH	108u	/* a directory; fits sun_path */
#define RR_RUN_NAME	48u	/* a name in it */
#define RR_RUN_STOP	"stop"

#define RR_RUN_DEAD_MAX	64u	/* segments of dead processes kept ... */
#define RR_RUN_DEAD_AGE	3600	/* ... for so many seconds after they were found dead */

/* The n-th place to look (0, 1, ...): the configured one alone if there is one, else RR_RUN_DIR,
 * else xdg/rdmarpc (xdg: $XDG_RUNTIME_DIR or NULL). false: no more. */
bool rr_rundir_place(const char *configured, const char *xdg, unsigned n, char out[RR_RUN_PATH]);

/* Can files of ours be put into dir? A directory of root's or ours, which no other user can
 * rename our files in. Made if it is missing: sticky for all by root, else for us alone. */
bool rr_rundir_use(const char *dir);

/* The first place that can be used, or "" and false. */
bool rr_rundir_find(const char *configured, const char *xdg, char out[RR_RUN_PATH]);

/* Is there a "stop" of root's or ours in dir? One system call if not. */
bool rr_rundir_stopped(const char *dir);

/* A segment's name: "PID.TICKS", or with ".TIME" behind it that of a process found dead at that
 * time (seconds of the epoch). */
struct rr_segname {
	int pid;
	uint64_t ticks;
	uint64_t died;		/* 0: not known to be dead */
};
bool rr_segname_parse(const char *name, struct rr_segname *out);

/* Gives a segment the name of one that is found dead now. false: not ours. */
bool rr_rundir_retire(int dir, const char *name);

/* Retires segments of processes that are gone, removes those that are too many or too old.
 * thorough: also notices that a pid is another process's now (reads /proc for each). */
void rr_rundir_sweep(const char *dir, bool thorough);

/* --- /proc --- */

/* Field 22 of /proc/PID/stat (pid 0: self); 0 if there is no such process. */
uint64_t rr_proc_ticks(int pid);
/* The command name, "" if there is none. */
void rr_proc_comm(int pid, char *buf, unsigned size);

#endif
