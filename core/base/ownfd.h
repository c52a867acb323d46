/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_OWNFD_H
#define RR_OWNFD_H

/* Descriptors that the library uses itself: the app does not know them, and its close loops
 * spare them. One bit for each number; belongs to this process and is copied by fork.
 * Lock-free, no system call, async-signal-safe; its range exceeds the kernel's default
 * nr_open. */

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

void rr_ownfd_set(int fd, bool own);
/* How many of ours have a number above fd. */
int rr_ownfd_above(int fd);
bool rr_ownfd_is(int fd);

/* The lowest number of ours that is >= from; -1: none. */
int rr_ownfd_next(int from);

/* Where our numbers begin. They stay out of the way of what the app expects for its own: the
 * lowest free numbers, and numbers that select() can handle. But the kernel's table of
 * descriptors grows to the highest number, and a process with threads waits some 10 ms for
 * that. So with threads our numbers stay in the upper part of what the table has anyway; fd,
 * which is open, shows how large that is at least. limit: RLIMIT_NOFILE, of which our numbers
 * leave up to half to the app. Pure. */
int rr_ownfd_place(rlim_t limit, bool alone, int fd);
/* The same for this process at present. One system call. */
int rr_ownfd_floor(int fd);

/* Makes fd, which has just been made, one of ours, close-on-exec: moved to where ours begin or
 * above, or else as near below as there is room; at worst it stays fd. With threads, too, it is
 * moved to where they begin without, if all numbers below where they begin with them are used,
 * or the table is that large. Returns the number; if fd is -1, the -errno of the call that was
 * to make it. */
int rr_ownfd_raise(int fd);
/* Duplicates the file behind fd as one of ours. -1: there is no number left. */
int rr_ownfd_dup(int fd);
/* Closes a descriptor of ours; -1: does nothing. */
void rr_ownfd_close(int fd);

/* Carries out a write() that the kernel refused with EACCES, if it is to a device of ours;
 * otherwise returns -1 with that errno. NULL until there is such a device. */
typedef ssize_t rr_refused_fn(int fd, const void *buf, size_t n);
extern rr_refused_fn *_Atomic rr_refused;

#endif
