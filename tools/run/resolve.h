/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RESOLVE_H
#define RR_RESOLVE_H

/* Makes native rules for a client of what hosts have registered with rpcbind for netids rdma
 * and rdma6. If a (program, version) is registered for TCP and for RDMA, connections to the one
 * port go to the other. Whatever a host says, it gets rules for its own addresses only. */

#include <stddef.h>

/* Rules as in RDMARPC_RULES. */
struct rr_rules {
	unsigned n;
	size_t len;
	char text[8192];
};

/* Asks the rpcbind of each address of host over TCP, then, where that fails, over RDMA with the
 * library at that path. Appends the rules to out. mode: what the rules say for it, or NULL.
 * Returns NULL, or why host has given no rules. */
const char *rr_resolve(const char *host, const char *library, const char *mode,
		       struct rr_rules *out);

/* What rr_resolve() runs this program for, as --ask=ADDRESS: prints what rpcbind there has, or
 * why not. Returns an exit status. */
int rr_resolve_ask(const char *address);

#endif
