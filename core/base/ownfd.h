/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_OWNFD_H
#define RR_OWNFD_H

/* Descriptors that we use ourselves: the app has never heard of them, and its close loops spare
 * them. A bit for each number; of this process, copied by fork. Lock-free, no system call,
 * async-signal-safe; a bound on numbers beyond the kernel's default nr_open. */

#include <stdbool.h>

void rr_ownfd_set(int fd, bool own);
bool rr_ownfd_is(int fd);

/* The lowest of ours that is >= from; -1. */
int rr_ownfd_next(int from);

#endif
