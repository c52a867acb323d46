/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a connection: when what is under way has left, all that it has is given back. */

#include <errno.h>
#include <stdlib.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"
#include "core/prov/verbs/setup.h"

#define LOOKS	256	/* more than an idle device needs for what is under way */

/* In a forked child the descriptors are all that is the child's. */
static void let_fds_go(struct rr_qp *qp, struct rr_vq *v)
{
	if (!v)
		return;
	rr_verbs_channel_forked(v->cm);
	if (v->comp)
		rr_verbs_close_fd(v->comp->fd);
	rr_verbs_close_fd(qp->wake_fd);
}

void rr_verbs_close(struct rr_qp *qp)
{
	struct rr_verbs *q = container_of(qp, struct rr_verbs, qp);
	struct rr_vq *v = rr_verbs_of(qp);
	int saved = errno;

	if (!v) {
		let_fds_go(qp, q->v);
		errno = saved;
		return;
	}
	for (int i = 0; i < LOOKS && !rr_verbs_settle(qp, 0); i++)
		;
	rr_verbs_disconnect(qp);
	rr_verbs_qp_free(qp, v);
	rr_verbs_channel_free(v->cm);
	rr_verbs_close_fd(qp->wake_fd);
	qp->wake_fd = -1;
	rr_verbs_mem_unreserve(v);
	free(v);
	q->v = NULL;
	errno = saved;
}

int rr_verbs_undo(struct rr_qp *qp, int rc)
{
	rr_verbs_close(qp);
	qp->native = false;
	return rc;
}
