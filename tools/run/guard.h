/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_GUARD_H
#define RR_GUARD_H

/* The guard of a program that registers with rpcbind: puts netids rdma and rdma6 (RFC 5665
 * §5.1, RFC 8166 §5) beside what the program has registered for tcp and tcp6, and takes them
 * back when it ends, however it ends.
 *
 * Two processes beside the program, which is not their child, and does not see them: the worker
 * does it all; the keeper starts another worker if that one is killed. What is put stands in
 * memory that both have. What is the program's is decided by who owns the listening socket on
 * the registered port, so that a daemon that has left its parent is followed, and what others
 * register is never touched. */

#include "tools/run/family.h"

#define RR_GUARD_PROGRAMS	32u

/* The RPC programs to put; none: all. */
struct rr_guard_set {
	unsigned n;
	uint32_t program[RR_GUARD_PROGRAMS];
};

/* Adds "100003,nfs,mountd" (numbers, or names of rpc(5)) to set: NULL, or the word that is
 * none. */
const char *rr_guard_programs(struct rr_guard_set *set, const char *text);

/* Starts a guard for the calling process, which goes on to become the program of that name:
 * native rules are those for it. 0 or -errno. */
int rr_guard_start(const struct rr_guard_set *set, const char *name);

#endif
