/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_OWNFD_H
#define RR_OWNFD_H

/* Descriptors that we use ourselves: the app has never heard of them, and its close loops spare
 * them. A bit for each number; of this process, copied by fork. Lock-free, no system call,
 * async-signal-safe; a bound on numbers beyond the kernel's default nr_open. */

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

void rr_ownfd_set(int fd, bool own);
/* How many of them have a number above fd's. */
int rr_ownfd_above(int fd);
bool rr_ownfd_is(int fd);

/* The lowest of ours that is >= from; -1. */
int rr_ownfd_next(int from);

/* Where numbers of ours begin. They are out of the way of what the app expects of its own: the
 * lowest number that is free, and numbers that select() can bear. But the kernel's table of
 * descriptors grows to the highest number, and where it has threads a process waits for that,
 * some 10 ms. So with threads ours stay in the upper part of what the table has anyway; fd,
 * which is open, tells how much that is at least. limit: RLIMIT_NOFILE, of which up to half is
 * below. Pure. */
int rr_ownfd_place(rlim_t limit, bool alone, int fd);
/* The same in this process now. One system call. */
int rr_ownfd_floor(int fd);

/* fd becomes one of ours, close-on-exec: moved to where ours begin or above, or as near below
 * as there is room; fd itself at worst. Returns the number; -errno of who made fd, if that is
 * -1. */
int rr_ownfd_raise(int fd);
/* Another number for the file behind fd, as one of ours; -1: there is none. */
int rr_ownfd_dup(int fd);
/* The end of either; of -1 nothing. */
void rr_ownfd_close(int fd);

/* What does a write() that the kernel refused with EACCES, if it is to a device of ours; else
 * it returns -1 with that errno. NULL until there is such a device. */
typedef ssize_t rr_refused_fn(int fd, const void *buf, size_t n);
extern rr_refused_fn *_Atomic rr_refused;

#endif
