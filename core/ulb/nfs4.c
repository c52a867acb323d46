/* SPDX-License-Identifier: BSD-3-Clause */
/* req: rfc8166 3.4.4.3 #1 */

/* NFS version 4, all minor versions (RFC 7531, 5662, 7863, 8276); DDP-eligible by RFC 8267
 * §6.1: the data of WRITE and READ, the linkdata of CREATE and READLINK, and nothing else, not
 * even the data of READ_PLUS and WRITE_SAME. An operation means the same in each minor version
 * that has it. */

#include "core/base/compiler.h"
#include "core/ulb/nfs4_ops.h"

#define OK(res)		"{0:" res "|:}"
#define DENIED		"|10010:" OFFSET LENGTH "w" OWNER
#define CREATE_HOW	"{0:" FATTR "|1:" FATTR "|2:" VERIFIER "|3:" VERIFIER FATTR "}"
#define CLAIM		"{0:o|1:w|2:" STATEID "o|3:o|4:|5:" STATEID "|6:}"
#define SECINFO		"[{6:o64w2|:}]32"
#define NETLOC		"{1:o|2:o|3:oo}"
#define WRITTEN		"[" STATEID "]1w3" VERIFIER
#define CB_SECURITY	"[{0:|1:wow2[w]|6:woo}]"
#define OP_LISTS	"[w]8[w]8"	/* state_protect_ops4 */
#define IMPL_ID		"[o1024o1024" TIME "]1"

static const struct rr_ulb_proc ops[] = {
	[3]  = { "w", OK("w2") },				/* ACCESS */
	[4]  = { "w" STATEID, OK(STATEID) },			/* CLOSE */
	[5]  = { OFFSET "w", OK(VERIFIER) },			/* COMMIT */
	[6]  = { "{5:d|3:w2|4:w2|:}o" FATTR, OK(CHANGE_INFO BITMAP) }, /* CREATE */
	[7]  = { CLIENTID, STATUS },				/* DELEGPURGE */
	[8]  = { STATEID, STATUS },				/* DELEGRETURN */
	[9]  = { "b", OK("f") },				/* GETATTR */
	[10] = { "", OK(FH) },					/* GETFH */
	[11] = { "o", OK(CHANGE_INFO) },			/* LINK */
	[12] = { "w2" OFFSET LENGTH "{1:w" STATEID "w" CLIENTID "o|0:" STATEID "w}",
		 "{0:" STATEID DENIED "|:}" },			/* LOCK */
	[13] = { "w" OFFSET LENGTH CLIENTID "o", "{0:" DENIED "|:}" }, /* LOCKT */
	[14] = { "w2" STATEID OFFSET LENGTH, OK(STATEID) },	/* LOCKU */
	[15] = { "o", STATUS },					/* LOOKUP */
	[16] = { "", STATUS },					/* LOOKUPP */
	[17] = { FATTR, STATUS },				/* NVERIFY */
	[18] = { "w3" CLIENTID "o{1:" CREATE_HOW "|:}" CLAIM,
		 OK(STATEID CHANGE_INFO "w" BITMAP DELEGATION) }, /* OPEN */
	[19] = { "w", STATUS },					/* OPENATTR */
	[20] = { STATEID "w", OK(STATEID) },			/* OPEN_CONFIRM */
	[21] = { STATEID "w3", OK(STATEID) },			/* OPEN_DOWNGRADE */
	[22] = { "o", STATUS },					/* PUTFH */
	[23] = { "", STATUS },					/* PUTPUBFH */
	[24] = { "", STATUS },					/* PUTROOTFH */
	[25] = { STATEID OFFSET "c", OK("wd") },		/* READ */
	[26] = { "w2" VERIFIER "wc[w]",
		 OK(VERIFIER "<*(w2o" FATTR ")>w") },		/* READDIR */
	[27] = { "", OK("d" RR_ULB_PATH) },			/* READLINK */
	[28] = { "o", OK(CHANGE_INFO) },			/* REMOVE */
	[29] = { "oo", OK(CHANGE_INFO CHANGE_INFO) },		/* RENAME */
	[30] = { CLIENTID, STATUS },				/* RENEW */
	[31] = { "", STATUS },					/* RESTOREFH */
	[32] = { "", STATUS },					/* SAVEFH */
	[33] = { "o", OK(SECINFO) },				/* SECINFO */
	[34] = { STATEID FATTR, STATUS BITMAP },		/* SETATTR */
	/* SETCLIENTID */
	[35] = { VERIFIER "owoow", "{0:" CLIENTID VERIFIER "|10017:o256o256|:}" },
	[36] = { CLIENTID VERIFIER, STATUS },			/* SETCLIENTID_CONFIRM */
	[37] = { FATTR, STATUS },				/* VERIFY */
	[38] = { STATEID OFFSET "wd", OK("w2" VERIFIER) },	/* WRITE */
	[39] = { CLIENTID "o", STATUS },			/* RELEASE_LOCKOWNER */
	/* minor version 1 */
	[40] = { "w" CB_SECURITY, STATUS },			/* BACKCHANNEL_CTL */
	[41] = { SESSIONID "w2", OK(SESSIONID "w2") },		/* BIND_CONN_TO_SESSION */
	[42] = { VERIFIER "ow{0:|1:" OP_LISTS "|2:" OP_LISTS "[o][o]w2}" IMPL_ID,
		 OK(CLIENTID "w2{0:|1:" OP_LISTS "|2:" OP_LISTS
		    "w4[o64]8}w2o1024o1024" IMPL_ID) },		/* EXCHANGE_ID */
	[43] = { CLIENTID "w2w2sw3[w]w2Sw3[w]w" CB_SECURITY,
		 OK(SESSIONID "w2w6[w]1w6[w]1") },		/* CREATE_SESSION */
	[44] = { SESSIONID, STATUS },				/* DESTROY_SESSION */
	[45] = { STATEID, STATUS },				/* FREE_STATEID */
	[46] = { "w[w]" TIME TIME "[w][w]",
		 /* GET_DIR_DELEGATION */
		 OK("{0:" VERIFIER STATEID BITMAP BITMAP BITMAP "|1:w}") },
	[47] = { DEVICEID "wc[w]", "{0:<wo>" BITMAP "|10005:w|:}" }, /* GETDEVICEINFO */
	[48] = { "w2" "w2" VERIFIER, OK("w2" VERIFIER "[" DEVICEID "]w") }, /* GETDEVICELIST */
	[49] = { OFFSET LENGTH "w" STATEID "(" OFFSET ")(" TIME ")wo", OK("(" LENGTH ")") },
								/* LAYOUTCOMMIT */
	[50] = { "w3" OFFSET LENGTH LENGTH STATEID "c",
		 "{0:w" STATEID "<[" OFFSET LENGTH "w2o]>|10058:w|:}" }, /* LAYOUTGET */
	[51] = { "w3{1:" OFFSET LENGTH STATEID "o|:}", OK("(" STATEID ")") }, /* LAYOUTRETURN */
	[52] = { "w", OK(SECINFO) },				/* SECINFO_NO_NAME */
	[53] = { "q" SESSIONID "w4", OK(SESSIONID "w5") },	/* SEQUENCE */
	[54] = { "oo", OK("o1024") },				/* SET_SSV */
	[55] = { "[" STATEID "]", OK("[w]") },			/* TEST_STATEID */
	[56] = { "w{1:w|:}", OK(DELEGATION) },			/* WANT_DELEGATION */
	[57] = { CLIENTID, STATUS },				/* DESTROY_CLIENTID */
	[58] = { "w", STATUS },					/* RECLAIM_COMPLETE */
	/* minor version 2 */
	[59] = { STATEID OFFSET LENGTH, STATUS },		/* ALLOCATE */
	[60] = { STATEID STATEID OFFSET OFFSET LENGTH "w2[" NETLOC "]",
		 "{0:" WRITTEN "w2|10094:w2|:}" },		/* COPY */
	[61] = { STATEID NETLOC, OK(TIME STATEID "[" NETLOC "]") }, /* COPY_NOTIFY */
	[62] = { STATEID OFFSET LENGTH, STATUS },		/* DEALLOCATE */
	[63] = { STATEID OFFSET LENGTH "[w]", OK(BITMAP) },	/* IO_ADVISE */
	[64] = { OFFSET LENGTH STATEID "[" DEVICEID "w2]", STATUS }, /* LAYOUTERROR */
	[65] = { OFFSET LENGTH STATEID "w4w4" DEVICEID "wo", STATUS }, /* LAYOUTSTATS */
	[66] = { STATEID, STATUS },				/* OFFLOAD_CANCEL */
	[67] = { STATEID, OK(LENGTH "[w]1") },			/* OFFLOAD_STATUS */
	/* READ_PLUS */
	[68] = { STATEID OFFSET "w", OK("w[{0:" OFFSET "o|1:" OFFSET LENGTH "|:}]") },
	[69] = { STATEID OFFSET "w", OK("w" OFFSET) },		/* SEEK */
	[70] = { STATEID "w" OFFSET "w4w2ww2o", OK(WRITTEN) },	/* WRITE_SAME */
	[71] = { STATEID STATEID OFFSET OFFSET LENGTH, STATUS }, /* CLONE */
	/* RFC 8276 */
	[72] = { "o", OK("o65536") },				/* GETXATTR */
	[73] = { "woo", OK(CHANGE_INFO) },			/* SETXATTR */
	[74] = { "w2c", OK("w2<[o]>w") },			/* LISTXATTRS */
	[75] = { "o", OK(CHANGE_INFO) },			/* REMOVEXATTR */
};

static const struct rr_ulb_proc procs[] = {
	[0] = { NULL, "" },
	[1] = { "tw%", "wt%" },					/* COMPOUND */
};

const struct rr_ulb_binding rr_ulb_nfs4 = {
	.prog = 100003, .vers = 4, .procs = procs, .nprocs = rr_array_size(procs),
	.ops = ops, .nops = rr_array_size(ops),
	/* SEQUENCE and what else a session needs are not below, because a session remembers
	 * what it has executed. */
	.procs_twice = RR_TWICE(0) | RR_TWICE(1),
	.ops_twice = {
		RR_TWICE(3) | RR_TWICE(9) | RR_TWICE(10) | RR_TWICE(13) | RR_TWICE(15) |
			RR_TWICE(16) |
		RR_TWICE(17) | RR_TWICE(22) | RR_TWICE(23) | RR_TWICE(24) | RR_TWICE(25) |
			RR_TWICE(26) |
		RR_TWICE(27) | RR_TWICE(31) | RR_TWICE(32) | RR_TWICE(33) | RR_TWICE(37) |
			RR_TWICE(47) |
		RR_TWICE(48) | RR_TWICE(52) | RR_TWICE(55),
		RR_TWICE(67) | RR_TWICE(68) | RR_TWICE(69) | RR_TWICE(72) | RR_TWICE(74),
	},
	.attrs = rr_ulb_nfs4_attrs, .nattrs = RR_ULB_NFS4_ATTRS,
};
