/* SPDX-License-Identifier: BSD-3-Clause */

/* NFS version 2 (RFC 1094); DDP-eligible by RFC 8267 §4: the data of WRITE and READ, the paths
 * of SYMLINK and READLINK. The bound of a reply depends on no argument but the count.
 * procs_twice has the procedures that only read. */

#include "core/base/compiler.h"
#include "core/ulb/binding.h"

#define FH	"w8"
#define FATTR	"w17"
#define SATTR	"w8"
#define ATTRSTAT "{0:" FATTR "|:}"
#define DIROPRES "{0:" FH FATTR "|:}"
#define STAT	"w"

static const struct rr_ulb_proc procs[] = {
	[0]  = { NULL, "" },
	[1]  = { NULL, ATTRSTAT },				/* GETATTR */
	[2]  = { NULL, ATTRSTAT },				/* SETATTR */
	[3]  = { NULL, "" },					/* ROOT */
	[4]  = { NULL, DIROPRES },				/* LOOKUP */
	[5]  = { NULL, "{0:d1024|:}" },				/* READLINK */
	[6]  = { FH "wcw", "{0:" FATTR "d|:}" },		/* READ */
	[7]  = { NULL, "" },					/* WRITECACHE */
	[8]  = { FH "w3d", ATTRSTAT },				/* WRITE */
	[9]  = { NULL, DIROPRES },				/* CREATE */
	[10] = { NULL, STAT },					/* REMOVE */
	[11] = { NULL, STAT },					/* RENAME */
	[12] = { NULL, STAT },					/* LINK */
	[13] = { FH "od" SATTR, STAT },			/* SYMLINK */
	[14] = { NULL, DIROPRES },				/* MKDIR */
	[15] = { NULL, STAT },					/* RMDIR */
	[16] = { FH "wc", "{0:<*(wow)>w|:}" },			/* READDIR */
	[17] = { NULL, "{0:w5|:}" },				/* STATFS */
};

const struct rr_ulb_binding rr_ulb_nfs2 = {
	.prog = 100003, .vers = 2, .procs = procs, .nprocs = rr_array_size(procs),
	.procs_twice = RR_TWICE(0) | RR_TWICE(1) | RR_TWICE(4) | RR_TWICE(5) | RR_TWICE(6) |
		       RR_TWICE(16) |
		RR_TWICE(17),
};
