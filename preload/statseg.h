/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STATSEG_H
#define RR_STATSEG_H

/* This process's statistics segment: a file in the run directory, or memory that nobody else
 * sees when there is none. */

#include <stdbool.h>

struct rr_stat_seg;

/* dir: the run directory, "" none; host: another directory whose "stop" counts too, "" none.
 * Both stay. Once, before the rest. */
void rr_statseg_setup(const char *dir, const char *host);

/* The segment, made at the first call in this process. NULL: no memory, or this thread is the
 * one that is making it. Any thread; errno is left alone. */
struct rr_stat_seg *rr_statseg_get(void);

/* Are new upgrades held back (rdmarpc-stat --stop)? At most one system call for a directory. */
bool rr_statseg_stopped(void);

/* In a forked child: it makes its own, when it needs one. Its parent's stays mapped, since
 * connections that both have count there. */
void rr_statseg_fork_child(void);

#endif
