/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_DOORS_H
#define RR_DOORS_H

/* The native listeners that the processes of a family really have: their libraries say so in
 * the statistics segments (core/base/stats_abi.h). A listener's RDMA port opens when its
 * program first waits for it, and not at all where there is no device or no permission, or
 * where another process has the port. */

#include "config/conf.h"
#include "tools/run/proc_family.h"

#define RR_DOORS 256u

struct rr_doors {
	uint32_t n;
	struct rr_door {
		uint8_t family;		/* 4, 6: of the TCP listener beside it */
		uint16_t port;		/* … and its port */
		bool open;
		uint32_t reason;	/* why it is shut: enum rr_reason */
	} door[RR_DOORS];
};

/* Reads them; conf says where the run directory is. Returns a number that changes when they
 * do. */
uint64_t rr_doors_read(struct rr_doors *d, const struct rr_family *f,
		       const struct rr_conf *conf);

/* NULL: the library says that native peers reach listener l by RDMA. Else why not. */
const char *rr_doors_shut(const struct rr_doors *d, const struct rr_listening *l);

#endif
