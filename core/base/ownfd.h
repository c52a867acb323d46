/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_OWNFD_H
#define RR_OWNFD_H

/* Descriptors that we use ourselves: the app has never heard of them, and its close loops spare
 * them. A bit for each number; of this process, copied by fork. Lock-free, no system call,
 * async-signal-safe; a bound on numbers beyond the kernel's default nr_open. */

#include <stdbool.h>
#include <sys/types.h>

void rr_ownfd_set(int fd, bool own);
/* How many there are. */
int rr_ownfd_count(void);
bool rr_ownfd_is(int fd);

/* The lowest of ours that is >= from; -1. */
int rr_ownfd_next(int from);

/* The lowest number for descriptors that are kept for long: neither the app's lowest-number rule nor
 * its close loops are likely to come near, and the kernel need not enlarge its table much. One system
 * call. */
int rr_ownfd_floor(void);

/* What does a write() that the kernel refused with EACCES, if it is to a device of ours; else it
 * returns -1 with that errno. NULL until there is such a device. */
typedef ssize_t rr_refused_fn(int fd, const void *buf, size_t n);
extern rr_refused_fn *_Atomic rr_refused;

#endif
