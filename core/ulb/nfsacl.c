/* SPDX-License-Identifier: BSD-3-Clause */

/* NFSACL, on the connections of NFS versions 2 and 3 (RFC 8267 §5.2): nothing is eligible. It
 * has no public definition; the sizes of ACLs are the limit that its implementations share. */

#include "core/base/compiler.h"
#include "core/ulb/binding.h"

#define ACL	"w[w3]1024w[w3]1024"	/* count and entries, access and default */

static const struct rr_ulb_proc procs2[] = {
	[0] = { NULL, "" },
	[1] = { NULL, "{0:w17w" ACL "|:}" },			/* GETACL */
	[2] = { NULL, "{0:w17|:}" },				/* SETACL */
	[3] = { NULL, "{0:w17|:}" },				/* GETATTR */
	[4] = { NULL, "{0:w17w|:}" },				/* ACCESS */
	[5] = { NULL, "{0:w8w17|:}" },				/* GETXATTRDIR */
};

static const struct rr_ulb_proc procs3[] = {
	[0] = { NULL, "" },
	[1] = { NULL, "{0:(w21)w" ACL "|:(w21)}" },		/* GETACL */
	[2] = { NULL, "w(w21)" },				/* SETACL */
	[3] = { NULL, "{0:o64(w21)|:(w21)}" },			/* GETXATTRDIR */
};

const struct rr_ulb_binding rr_ulb_nfsacl2 = {
	.prog = 100227, .vers = 2, .procs = procs2, .nprocs = rr_array_size(procs2),
	.procs_twice = RR_TWICE(0) | RR_TWICE(1) | RR_TWICE(3) | RR_TWICE(4),
};

const struct rr_ulb_binding rr_ulb_nfsacl3 = {
	.prog = 100227, .vers = 3, .procs = procs3, .nprocs = rr_array_size(procs3),
	.procs_twice = RR_TWICE(0) | RR_TWICE(1),
};
