/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STATSEG_H
#define RR_STATSEG_H

/* This process's statistics segment: a file in the run directory; a memfd where there is none;
 * private memory where files may not be so large (RLIMIT_FSIZE). The first two cost the process
 * one descriptor, which is kept out of the app's way. */

#include <stdbool.h>

struct rr_stat_seg;

/* own() is asked for the directory of the segment, "" for none. host is the directory whose
 * file "stop" counts as well, and by whose name a memfd is found; it is kept by reference.
 * Called before the rest. */
void rr_statseg_setup(const char *(*own)(void), const char *host);

/* Returns the segment. If there is none yet, make decides: true makes it, false returns NULL.
 * NULL also if there is no memory, or if this very thread is making the segment. Any thread may
 * call this; errno is left alone. */
struct rr_stat_seg *rr_statseg_get(bool make);

/* Does rdmarpc-stat --stop hold back new upgrades? Makes at most one system call for each
 * directory. */
bool rr_statseg_stopped(void);

/* The app wants the number fd: moves the segment's descriptor if it is there. Returns whether
 * it was. */
bool rr_statseg_move_fd(int fd);

/* In a forked child: it makes a segment of its own when it needs one. Its parent's stays
 * mapped, because connections that both have count there. */
void rr_statseg_fork_child(void);

#endif
