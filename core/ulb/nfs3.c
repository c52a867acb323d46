/* SPDX-License-Identifier: BSD-3-Clause */

/* NFS version 3 (RFC 1813); DDP-eligible by RFC 8267 §4: the data of WRITE and READ, the paths
 * of SYMLINK and READLINK. procs_twice has the procedures that only read. */

#include "core/base/compiler.h"
#include "core/ulb/binding.h"

#define FH	"o64"
#define ATTR	"(w21)"			/* post_op_attr */
#define WCC	"(w6)(w21)"		/* wcc_data */
#define SATTR	"(w)(w)(w)(w2){2:w2|:}{2:w2|:}"
#define CREATED	"{0:(" FH ")" ATTR WCC "|:" WCC "}"

static const struct rr_ulb_proc procs[] = {
	[0]  = { NULL, "" },
	[1]  = { NULL, "{0:w21|:}" },				/* GETATTR */
	[2]  = { NULL, "w" WCC },				/* SETATTR */
	[3]  = { NULL, "{0:" FH ATTR ATTR "|:" ATTR "}" },	/* LOOKUP */
	[4]  = { NULL, "{0:" ATTR "w|:" ATTR "}" },		/* ACCESS */
	[5]  = { NULL, "{0:" ATTR "d" RR_ULB_PATH "|:" ATTR "}" }, /* READLINK */
	[6]  = { "ow2c", "{0:" ATTR "w2d|:" ATTR "}" },		/* READ */
	[7]  = { "ow4d", "{0:" WCC "w4|:" WCC "}" },		/* WRITE */
	[8]  = { NULL, CREATED },				/* CREATE */
	[9]  = { NULL, CREATED },				/* MKDIR */
	[10] = { "oo" SATTR "d", CREATED },			/* SYMLINK */
	[11] = { NULL, CREATED },				/* MKNOD */
	[12] = { NULL, "w" WCC },				/* REMOVE */
	[13] = { NULL, "w" WCC },				/* RMDIR */
	[14] = { NULL, "w" WCC WCC },				/* RENAME */
	[15] = { NULL, "w" ATTR WCC },				/* LINK */
	/* The count covers all of READDIR3resok, but some servers count the entries only. So
	 * what is not an entry comes on top of the count here. */
	[16] = { "ow4c", "{0:" ATTR "w2<*(w2ow2)>w|:" ATTR "}" },	/* READDIR */
	[17] = { "ow5c", "{0:" ATTR "w2<*(w2ow2" ATTR "(o))>w|:" ATTR "}" }, /* READDIRPLUS */
	[18] = { NULL, "{0:" ATTR "w13|:" ATTR "}" },		/* FSSTAT */
	[19] = { NULL, "{0:" ATTR "w12|:" ATTR "}" },		/* FSINFO */
	[20] = { NULL, "{0:" ATTR "w6|:" ATTR "}" },		/* PATHCONF */
	[21] = { NULL, "{0:" WCC "w2|:" WCC "}" },		/* COMMIT */
};

const struct rr_ulb_binding rr_ulb_nfs3 = {
	.prog = 100003, .vers = 3, .procs = procs, .nprocs = rr_array_size(procs),
	.procs_twice = RR_TWICE(0) | RR_TWICE(1) | RR_TWICE(3) | RR_TWICE(4) | RR_TWICE(5) |
		       RR_TWICE(6) |
		RR_TWICE(16) | RR_TWICE(17) | RR_TWICE(18) | RR_TWICE(19) | RR_TWICE(20),
};
