/* SPDX-License-Identifier: BSD-3-Clause */

/* Makes RDMA_ERROR or RDMA_DONE due in answer to a message. It waits in that message's entry
 * until the peer can take a Send, so the number is bounded as the entries are. errors.c sends
 * it. */

#include "core/engine/queues.h"

void rr_ctl_refuse(struct rr_eng *e, struct rr_in *in)
{
	rr_in_forget_chunks(e, in);
	rr_in_repost(e, in);
	in->state = RR_IN_ERROR;
	rr_list_add(&e->control, &e->ins, in);
}

void rr_ctl_error(struct rr_eng *e, struct rr_in *in, enum rr_errcode err)
{
	rr_in_wrong(in, err, 0, 0);
	rr_ctl_refuse(e, in);
}

/* ERR_CHUNK for a call whose reply we have but cannot convey (RFC 8166 §4.5.3). */
bool rr_ctl_error_for(struct rr_eng *e, uint32_t xid, enum rr_errcode err, uint32_t arm0,
		      uint32_t arm1)
{
	struct rr_in *in = rr_in_own(e, xid);

	if (!in)
		return false;
	rr_in_wrong(in, err, arm0, arm1);
	rr_ctl_refuse(e, in);
	return true;
}

/* req: reliable-reply-00 i #1 */
void rr_ctl_done(struct rr_eng *e, struct rr_in *in)
{
	rr_in_forget_chunks(e, in);
	in->state = RR_IN_DONE;
	rr_list_add(&e->control, &e->ins, in);
}

/* req: rfc8166 4.2.4 #3, 4.5 #2 #3, 4.6.1 #3; rfc8167 4.1 #1; draft-02 4.2 #2 */
/* req: version-two-08 5.3.3 #1 */
void rr_in_unfit(struct rr_eng *e, struct rr_in *in, enum rr_dir dir)
{
	if (dir == RR_DIR_REPLY || (dir == RR_DIR_UNKNOWN && e->p.connector))
		rr_in_discard(e, in);
	else
		rr_ctl_refuse(e, in);
}

void rr_in_refuse(struct rr_eng *e, struct rr_in *in, enum rr_dir dir, enum rr_errcode err)
{
	rr_in_wrong(in, err, 0, 0);
	rr_in_unfit(e, in, dir);
}
