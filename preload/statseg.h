/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STATSEG_H
#define RR_STATSEG_H

/* This process's statistics segment: a file in the run directory; a memfd where there is none;
 * memory that nobody else sees where files may not be so large (RLIMIT_FSIZE). The first two
 * cost the process one descriptor, which is kept out of the app's way. */

#include <stdbool.h>

struct rr_stat_seg;

/* own: the directory for the segment, "" none; host: the one whose "stop" counts too, and by
 * whose name a memfd is found. Both strings stay. Called before the rest. */
void rr_statseg_setup(const char *own, const char *host);

/* The segment; where there is none yet it is made (make), or NULL. NULL, too: no memory, or
 * this thread is the one that is making it. Any thread; errno is left alone. */
struct rr_stat_seg *rr_statseg_get(bool make);

/* Are new upgrades held back (rdmarpc-stat --stop)? At most one system call for a directory. */
bool rr_statseg_stopped(void);

/* Makes room at fd if the segment's descriptor is there. */
bool rr_statseg_move_fd(int fd);

/* In a forked child: it makes its own, when it needs one. Its parent's stays mapped, since
 * connections that both have count there. */
void rr_statseg_fork_child(void);

#endif
