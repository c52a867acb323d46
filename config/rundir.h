/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RUNDIR_H
#define RR_RUNDIR_H

/* The run directory: statistics segments (files named PID.STARTTICKS), the files "stop" and
 * "stop.UID", and what providers put there. Why it is laid out so is in
 * docs/decisions/0017-run-directory.md. Other users may put names into it: nothing in it is
 * trusted, and no walk gets longer by them. No malloc, no stdio; system calls by syscall(),
 * since this also runs inside the preload library. errno is anybody's. */

#include "core/base/types.h"

#define RR_RUN_DIR	"/run/rdmarpc"
#define RR_RUN_PATH	108u	/* a directory; fits sun_path */
#define RR_RUN_NAME	48u	/* a name in it */
#define RR_RUN_STOP	"stop"
/* name of a segment that is no file, before the directory's */
#define RR_RUN_MEMFD	"rdmarpc-stat:"

#define RR_RUN_DEAD_MAX	64u	/* segments of dead processes kept ... */
#define RR_RUN_DEAD_AGE	3600	/* ... for so many seconds after they were found dead */

/* Where processes of user uid keep segments, the n-th place to try (0, 1, ...): the configured
 * directory alone if there is one; else RR_RUN_DIR for root and RR_RUN_DIR/UID for others, then
 * xdg/rdmarpc (xdg: $XDG_RUNTIME_DIR or NULL). false: no more. */
bool rr_rundir_place(const char *configured, const char *xdg, uid_t uid, unsigned n,
		     char out[RR_RUN_PATH]);

/* Opens dir if files of ours are safe in it: a directory of root's or ours, in which (and in
 * whose parent) no other user can rename what is not theirs. A descriptor, or -1. *shared (may
 * be NULL): other users can put names into it. */
int rr_rundir_open(const char *dir, bool *shared);

/* Is dir sound and may we write there? Made if it is missing, for root 0755, for others
 * 0700. */
bool rr_rundir_use(const char *dir);

/* What is wrong with dir for us: a text; NULL nothing. Makes nothing. */
#define RR_RUNDIR_MISSING	"does not exist"
const char *rr_rundir_fault(const char *dir);

/* The first place for us that can be used, or "" and false. */
bool rr_rundir_find(const char *configured, const char *xdg, char out[RR_RUN_PATH]);

/* A directory that is open: its descriptor, or -1; can other users put names into it? Need it
 * not be swept this time? */
struct rr_rundir {
	int fd;
	bool shared, swept;
};
/* As rr_rundir_open(), into *out. */
void rr_rundir_enter(const char *path, struct rr_rundir *out);

/* Where ends in different network namespaces meet: the configured directory if there is one;
 * else RR_RUN_DIR, unless own (what rr_rundir_find() found) is elsewhere and only own can be
 * written to. "" where it is not sound. */
void rr_rundir_meet(const char *configured, const char *own, char out[RR_RUN_PATH]);

/* The file by which user uid holds upgrades back: "stop" is root's. */
void rr_rundir_stop_name(uid_t uid, char out[RR_RUN_NAME]);

/* Is there one of uid's in dir? One system call; what others have put under that name is
 * none. */
bool rr_rundir_stopped(const char *dir, uid_t uid);

/* --- segments --- */

/* A segment's name: "PID.TICKS", or with ".TIME" behind it that of a process found dead at that
 * time (seconds of the epoch). */
struct rr_segname {
	int pid;
	uint64_t ticks;
	uint64_t died;		/* 0: not known to be dead */
};
bool rr_segname_parse(const char *name, struct rr_segname *out);

/* A living process holds a write lock on its segment, of the kind that fork() does not pass on
 * (F_SETLK): it ends with the process, and the kernel says who has it. Closing any descriptor
 * of the file ends it too. false: somebody else has it. */
bool rr_segment_hold(int fd);

/* Who holds the segment fd: the process's pid as this process sees it; 0: a process that has
 * none here (of another PID namespace); -1: nobody, it is dead. */
int rr_segment_holder(int fd);

/* Gives a segment the name of one that is found dead now. false: not ours. */
bool rr_rundir_retire(int dir, const char *name);

/* Retires segments that nobody holds, removes those that are too many or too old. thorough:
 * looks at each; else only at some, and of those whose pid is nobody's, and one time in eight
 * where that can be known (tmpfs), so that it costs little at each start of a process. The
 * caller holds no segment in dir yet: looking at it would let it go. */
void rr_rundir_sweep(const char *dir, bool thorough);
void rr_rundir_sweep_in(const struct rr_rundir *dir, bool thorough);

/* --- /proc --- */

/* Field 22 of /proc/PID/stat (pid 0: self); 0 if there is no such process. */
uint64_t rr_proc_ticks(int pid);
/* The same and the name, of this process, in one. */
uint64_t rr_proc_own(char *comm, unsigned size);
/* The command name, "" if there is none. */
void rr_proc_comm(int pid, char *buf, unsigned size);

#endif
