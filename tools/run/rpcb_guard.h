/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RPCB_GUARD_H
#define RR_RPCB_GUARD_H

/* The guard of a program that registers with rpcbind. It registers netids rdma and rdma6 (RFC
 * 5665 §5.1, RFC 8166 §5) beside what the program has registered for tcp and tcp6, and takes
 * these entries back when the program ends, however it ends.
 *
 * Two processes run beside the program, which does not see them and is not their parent. The
 * worker does all of the work; the keeper starts another worker if one is killed. Memory that
 * both share says what has been registered. What belongs to the program is decided by the owner
 * of the listening socket on the registered port. So a daemon that has left its parent is
 * followed, and what others register is never touched. */

#include "tools/run/proc_family.h"

#define RR_GUARD_PROGRAMS	32u

/* The RPC programs to register; n 0: all. */
struct rr_guard_set {
	unsigned n;
	uint32_t program[RR_GUARD_PROGRAMS];
};

/* Adds "100003,nfs,mountd" (numbers, or names of rpc(5)) to set. Returns NULL, or the word that
 * is neither. */
const char *rr_guard_programs(struct rr_guard_set *set, const char *text);

/* Starts a guard for the calling process, which goes on to become the program of that name;
 * native rules for that name count. Returns 0 or -errno. */
int rr_guard_start(const struct rr_guard_set *set, const char *name);

#endif
