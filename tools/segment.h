/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SEGMENT_H
#define RR_SEGMENT_H

/* Reads statistics segments. A file is whatever its owner has put there: it is read into memory
 * (a mapping could be truncated meanwhile), every number is checked before use, and every text
 * is terminated. Only the kernel is asked whether a process lives and which one it is. */

#include "core/base/stats_abi.h"

struct rr_proc_conn {
	int32_t fd;
	uint32_t state, carrier, reason, dialect, version;
	uint32_t program;		/* 0: not known */
	/* As the process numbers it, in its own PID namespace; 0: not known, or elsewhere. */
	uint32_t peer_pid;
	bool server;
	bool undecided;			/* on TCP, and more may become of it */
	char local[RR_STAT_ADDR], peer[RR_STAT_ADDR];
	uint64_t since_ns;
	uint64_t count[RR_C_COUNT];
	/* Since an earlier reading: tools/stat/figures.h. */
	uint64_t new_calls, new_bytes;
};

/* The calls of one procedure, and their replies. */
struct rr_proc_tally {
	bool server;		/* they were received */
	bool others;		/* the sum over all procedures without a tally of their own */
	uint32_t program, version, procedure;
	union {
		struct {
			uint64_t calls, errors, resent, arguments, results;
			uint64_t long_arguments, long_results;
		};
		uint64_t count[7];	/* all of these */
	};
	uint64_t hist[RR_STAT_HIST];
};

#define RR_PROC_TALLIES	(RR_STAT_TALLIES + RR_STAT_UNCONFIRMED)

/* For qsort(): the order of tallies in rr_proc. Sent calls come before received ones, then by
 * number, the others last. 0: they are of the same procedure. */
int rr_proc_tally_order(const void *a, const void *b);

/* How a process has ended if it has not said so itself (tools/stat/ending.h). */
enum rr_proc_end {
	RR_END_UNKNOWN,
	RR_END_EXIT,	/* by _exit(): end_code is its status */
	RR_END_SIGNAL,	/* somebody sent end_code */
	RR_END_CRASH,	/* end_code is a signal for what it did itself */
	RR_END_LEFT,	/* it lives, as another program, or has closed the library's
			 * descriptor */
};

/* struct rr_stat_told, read. */
struct rr_proc_told {
	char release[16];
	uint8_t offered[RR_STAT_PROVS], here[RR_STAT_PROVS], there[RR_STAT_PROVS];
};

/* One process, living or dead. What is not verified (pid, ticks, comm, exe) is its owner's
 * word. */
struct rr_proc {
	int pid;
	unsigned uid;			/* owner of the segment */
	uint64_t ticks, since_ns;
	bool alive, ended;
	bool has_log;			/* its log lines go somewhere */
	bool local;			/* of a dead process: its pid may be one of ours, and
					 * its owner may speak for the process of that pid */
	enum rr_proc_end end;
	int end_code;
	bool verified;			/* it lives; the kernel has confirmed its pid and
					 * names */
	bool same_pids;			/* ... and it numbers processes as this program does */
	char comm[32], exe[96];
	char release[16];		/* of its library; "": not known */
	struct rr_proc_told told;
	uint64_t carriers[RR_CARRIER_COUNT];
	uint64_t reasons[RR_STAT_REASONS];
	uint64_t count[RR_C_COUNT];	/* all connections since start */
	uint64_t hist[RR_STAT_HIST];
	struct rr_proc_conn *conns;	/* those in use, in the order of the file */
	uint32_t nconns;
	struct rr_proc_tally *tallies;	/* sent before received, by number, the others last */
	uint32_t ntallies;		/* RR_PROC_TALLIES at most */
};

/* The tally of p for the same procedure as key; one with zero counts if there is none, valid
 * until the next call. */
struct rr_proc_tally *rr_proc_tally_of(struct rr_proc *p, const struct rr_proc_tally *key);

/* Frees what rr_proc holds. */
void rr_proc_fini(struct rr_proc *p);

/* Grows p, from malloc() or NULL, to n elements of so many bytes; new elements are not zeroed.
 * Ends the program with status 1 if there is no memory. */
void *rr_grow_array(void *p, size_t n, size_t size);

struct rr_procs {
	struct rr_proc *p;
	uint32_t n;
	/* Of other users, but root: there is a bound to these. */
	uint32_t strangers, strange_conns, strange_tallies;
};

/* Reads the bytes of a segment, as its writer has left them, into p, which is all zeroes.
 * False: it is none. bytes is aligned for struct rr_stat_seg. Call rr_proc_fini() in any
 * case. */
bool rr_segment_parse(struct rr_proc *p, const void *bytes, size_t size);

/* Appends the processes of segments in dir that can be read; only those in pids unless npids is
 * 0. */
void rr_procs_read(struct rr_procs *all, const char *dir, const int *pids, uint32_t npids);

/* Appends processes whose segment is no file (RR_RUN_MEMFD, of run directory host) and whose
 * descriptors this user may see: its own, for root all. */
void rr_procs_scan(struct rr_procs *all, const char *host, const int *pids, uint32_t npids);

/* Connections by TCP of which more may become are not in a segment's sums until that is
 * decided. Adds those of dead processes, and with `living` of all, to the sums. */
void rr_procs_add_undecided(struct rr_procs *all, bool living);

/* Sorts by pid, the living first. */
void rr_procs_sort(struct rr_procs *all);
void rr_procs_fini(struct rr_procs *all);

#endif
