/* SPDX-License-Identifier: BSD-3-Clause */

/* The portmapper and rpcbind (RFC 1833): nothing is eligible. Replies that dump the table, or
 * return what another program has said, have no bound. Those are left out of the tables. */

#include "core/base/compiler.h"
#include "core/ulb/binding.h"

#define ADDR	"o256"		/* a universal address (RFC 5665 §5.2) or a transport's */

static const struct rr_ulb_proc pmap2[] = {
	[0] = { NULL, "" },
	[1] = { NULL, "w" }, [2] = { NULL, "w" }, [3] = { NULL, "w" }, /* SET, UNSET, GETPORT */
};

#define RPCB \
	[0] = { NULL, "" }, \
	[1] = { NULL, "w" }, [2] = { NULL, "w" },	/* SET, UNSET */ \
	[3] = { NULL, ADDR },				/* GETADDR */ \
	[6] = { NULL, "w" },				/* GETTIME */ \
	[7] = { NULL, "w" ADDR },			/* UADDR2TADDR */ \
	[8] = { NULL, ADDR }				/* TADDR2UADDR */

static const struct rr_ulb_proc rpcb3[] = { RPCB };
static const struct rr_ulb_proc rpcb4[] = { RPCB, [9] = { NULL, ADDR } /* GETVERSADDR */ };

const struct rr_ulb_binding rr_ulb_pmap2 = {
	.prog = 100000, .vers = 2, .procs = pmap2, .nprocs = rr_array_size(pmap2),
};
const struct rr_ulb_binding rr_ulb_rpcb3 = {
	.prog = 100000, .vers = 3, .procs = rpcb3, .nprocs = rr_array_size(rpcb3),
};
const struct rr_ulb_binding rr_ulb_rpcb4 = {
	.prog = 100000, .vers = 4, .procs = rpcb4, .nprocs = rr_array_size(rpcb4),
};
