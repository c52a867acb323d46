/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PROCFS_H
#define RR_PROCFS_H

/* What files of /proc say about a process. A process chooses some of that text itself (its
 * name, its environment), so these functions accept any bytes. They read no files. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rr_procfs_stat {
	int parent, session;
	uint64_t ticks;		/* start time */
	uint64_t stack;		/* where exec has put the stack; 0: the reader may not know */
	bool over;		/* dead and not waited for: all of its threads have ended */
};

struct rr_procfs_tcp {
	uint16_t port;
	bool listening;
	uid_t maker;		/* who made the socket */
	uint64_t inode;
};

/* /proc/PID/stat. */
bool rr_procfs_stat(const char *text, struct rr_procfs_stat *out);

/* /proc/PID/status: the real, effective and saved user. */
bool rr_procfs_uids(const char *text, uid_t uid[3]);

/* A line of /proc/net/tcp or tcp6; false for the heading. */
bool rr_procfs_tcp(const char *line, struct rr_procfs_tcp *out);

/* Is entry one of the strings in the n bytes of /proc/PID/environ? */
bool rr_procfs_environ_has(const char *bytes, size_t n, const char *entry);

#endif
