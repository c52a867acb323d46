/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RUNDIR_H
#define RR_RUNDIR_H

/* The run directory: statistics segments (files named PID.STARTTICKS), the files "stop" and
 * "stop.UID", and what providers put there. docs/decisions/0017-run-directory.md says why it is
 * laid out so.
 *
 * Other users may put names into it: nothing in it is trusted, and their names do not make a
 * walk longer. No malloc, no stdio; system calls by syscall(), because this also runs inside
 * the preload library. errno may change. */

#include "core/base/types.h"

#define RR_RUN_DIR	"/run/rdmarpc"
#define RR_RUN_PATH	108u	/* a directory; fits sun_path */
#define RR_RUN_NAME	48u	/* a file name in it */
#define RR_RUN_STOP	"stop"
/* name of a segment that is no file; the directory's name follows */
#define RR_RUN_MEMFD	"rdmarpc-stat:"

#define RR_RUN_DEAD_MAX	64u	/* segments of dead processes kept ... */
#define RR_RUN_DEAD_AGE	3600	/* ... for so many seconds after they were found dead */

/* Where processes of user uid keep their segments: the n-th place to try (0, 1, ...). A
 * configured directory is the only place. Else it is RR_RUN_DIR for root and RR_RUN_DIR/UID for
 * others, then xdg/rdmarpc (xdg: $XDG_RUNTIME_DIR or NULL). False: there are no more. */
bool rr_rundir_place(const char *configured, const char *xdg, uid_t uid, unsigned n,
		     char out[RR_RUN_PATH]);

/* Opens dir if files of ours are safe in it: it belongs to root or us, and neither in it nor in
 * its parent can another user rename what is not theirs. Returns a descriptor, or -1. *shared
 * (may be NULL): other users can put names into it. */
int rr_rundir_open(const char *dir, bool *shared);

/* Is dir sound, and may we write to it? Makes it if it is missing: mode 0755 for root, 0700 for
 * others. */
bool rr_rundir_use(const char *dir);

/* What is wrong with dir for this user, as text; NULL: nothing. Makes nothing. */
#define RR_RUNDIR_MISSING	"does not exist"
const char *rr_rundir_fault(const char *dir);

/* The first place for this user that can be used, into out; "" and false: none. */
bool rr_rundir_find(const char *configured, const char *xdg, char out[RR_RUN_PATH]);

/* An open directory. fd -1: it could not be opened. shared: other users can put names into it.
 * swept: it need not be swept this time. */
struct rr_rundir {
	int fd;
	bool shared, swept;
};
/* As rr_rundir_open(), into *out. */
void rr_rundir_enter(const char *path, struct rr_rundir *out);

/* The directory in which ends in different network namespaces meet: a configured one if there
 * is one; else RR_RUN_DIR, unless own (found by rr_rundir_find()) lies elsewhere and only own
 * can be written to. "" if it is not sound. */
void rr_rundir_meet(const char *configured, const char *own, char out[RR_RUN_PATH]);

/* The name of the file by which user uid holds upgrades back; root's is "stop". */
void rr_rundir_stop_name(uid_t uid, char out[RR_RUN_NAME]);

/* Is uid's stop file in dir? Makes one system call. A file that another user has put under that
 * name does not count. */
bool rr_rundir_stopped(const char *dir, uid_t uid);

/* --- segments --- */

/* A segment's name, "PID.TICKS". A name with ".TIME" behind that belongs to a process that was
 * found dead at that time (seconds since the epoch). */
struct rr_segname {
	int pid;
	uint64_t ticks;
	uint64_t died;		/* 0: not known to be dead */
};
bool rr_segname_parse(const char *name, struct rr_segname *out);

/* Takes the lock by which others see that the process lives: a write lock on its segment, by
 * F_SETLK, which fork() does not pass on. The kernel says which process has the lock, and ends
 * it with the process. Closing any descriptor of the file ends it, too. False: another process
 * has the lock. */
bool rr_segment_hold(int fd);

/* The holder of segment fd: its pid as this process sees it; 0: a process that has no pid here
 * (another PID namespace); -1: nobody, so its process is dead. */
int rr_segment_holder(int fd);

/* Renames a segment to that of a process found dead now. False: it cannot be renamed. */
bool rr_rundir_retire(int dir, const char *name);

/* Retires segments that nobody holds, and removes retired ones that are too many or too old.
 * thorough: looks at each. Otherwise it looks only at some whose pid nobody has, and, where
 * that can be known (tmpfs), only one time in eight, so that the start of a process costs
 * little. The caller must not hold a segment in dir yet: opening it here would end its lock. */
void rr_rundir_sweep(const char *dir, bool thorough);
void rr_rundir_sweep_in(const struct rr_rundir *dir, bool thorough);

/* --- /proc --- */

/* Field 22 of /proc/PID/stat, the start time (pid 0: this process); 0: no such process. */
uint64_t rr_proc_ticks(int pid);
/* The same for this process, together with its name, in one read. */
uint64_t rr_proc_own(char *comm, unsigned size);
/* The command name; "" if there is none. */
void rr_proc_comm(int pid, char *buf, unsigned size);

#endif
