/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends a connection: lets what is in progress leave, then frees everything. Disconnecting alone
 * is cm.c's. */

#include <errno.h>
#include <stdlib.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"
#include "core/prov/verbs/connections.h"

#define LOOKS	256	/* more than an idle device needs for what is in progress */

/* In a forked child only the descriptors are the child's. */
static void let_fds_go(struct rr_qp *qp, struct rr_vq *v)
{
	if (!v)
		return;
	rr_verbs_channel_forked(v->cm);
	if (v->comp)
		rr_verbs_channel_close_fd(v->comp->fd);
	if (v->qp)
		rr_verbs_channel_close_fd(v->bell);
	rr_verbs_channel_close_fd(qp->wake_fd);
}

/* The order matters: the ids go before the channel that they report to, and memory is unlocked
 * before its reservation is given back for other connections to use. A forked child that did
 * not make the connection closes its copies of the descriptors, nothing else. */
void rr_verbs_end_close(struct rr_qp *qp)
{
	struct rr_verbs *q = container_of(qp, struct rr_verbs, qp);
	struct rr_vq *v = rr_verbs_of(qp);
	int saved = errno;

	if (!v) {
		let_fds_go(qp, q->v);
		errno = saved;
		return;
	}
	for (int i = 0; i < LOOKS && !rr_verbs_traffic_settle(qp, 0); i++)
		;
	rr_verbs_cm_disconnect(qp);
	rr_verbs_qp_free(qp, v);
	rr_verbs_channel_free(v->cm);
	rr_verbs_channel_close_fd(qp->wake_fd);
	qp->wake_fd = -1;
	rr_verbs_mr_unreserve(v);
	free(v);
	q->v = NULL;
	errno = saved;
}

/* For a set-up that fails half-way: nothing of it stays behind. Returns rc, which says why. */
int rr_verbs_end_undo(struct rr_qp *qp, int rc)
{
	rr_verbs_end_close(qp);
	qp->native = false;
	return rc;
}
