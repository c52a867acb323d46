/* SPDX-License-Identifier: BSD-3-Clause */

/* Callbacks of NFS version 4, all minor versions (RFC 7531, 5662, 7863): nothing is eligible
 * (RFC 8267 §6.5). The program number is the client's choice; this is the one that clients
 * choose. Others have no binding, and reverse calls without one go inline or not at all. */

#include "core/base/compiler.h"
#include "core/ulb/nfs4_ops.h"

#define OK(res)		"{0:" res "|:}"
#define NOTIFY		"[w]o"
#define WRITTEN		"[" STATEID "]w3" VERIFIER

static const struct rr_ulb_proc ops[] = {
	[3]  = { "ob", OK("f") },				/* CB_GETATTR */
	[4]  = { STATEID "wo", STATUS },			/* CB_RECALL */
	/* minor version 1 */
	[5]  = { "w3{1:o" OFFSET LENGTH STATEID "|2:w4|3:}", STATUS }, /* CB_LAYOUTRECALL */
	[6]  = { STATEID "o[" NOTIFY "]", STATUS },		/* CB_NOTIFY */
	[7]  = { "o" DELEGATION, STATUS },			/* CB_PUSH_DELEG */
	[8]  = { "w[w]", STATUS },				/* CB_RECALL_ANY */
	[9]  = { "w[w]", STATUS },				/* CB_RECALLABLE_OBJ_AVAIL */
	[10] = { "w", STATUS },					/* CB_RECALL_SLOT */
	[11] = { "q" SESSIONID "w4[" SESSIONID "[w2]]", OK(SESSIONID "w4") }, /* CB_SEQUENCE */
	[12] = { "w2", STATUS },				/* CB_WANTS_CANCELLED */
	[13] = { "o" CLIENTID "o", STATUS },			/* CB_NOTIFY_LOCK */
	[14] = { "[" NOTIFY "]", STATUS },			/* CB_NOTIFY_DEVICEID */
	/* minor version 2 */
	[15] = { "o" STATEID "{0:" WRITTEN "|:" LENGTH "}", STATUS }, /* CB_OFFLOAD */
};

static const struct rr_ulb_proc procs[] = {
	[0] = { NULL, "" },
	[1] = { "tw2%", "wt%" },				/* CB_COMPOUND */
};

const struct rr_ulb_binding rr_ulb_nfs4_cb = {
	.prog = 0x40000000, .vers = 1, .procs = procs, .nprocs = rr_array_size(procs),
	.ops = ops, .nops = rr_array_size(ops),
	.attrs = rr_ulb_nfs4_attrs, .nattrs = RR_ULB_NFS4_ATTRS,
};
