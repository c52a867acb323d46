/* SPDX-License-Identifier: BSD-3-Clause */
/* SO_KEEPALIVE of a connection that has no TCP to a peer under it. After TCP_KEEPIDLE seconds without a word the device is
 * given something that the peer's has to acknowledge; how often it tries and how long it waits is its own affair. If it
 * gives up, the connection ends as TCP's would, by ETIMEDOUT.
 *
 * The clock is the thread that waits for the connection, which sleeps no longer than until then: who does not wait would
 * not hear of it from TCP either, until it calls. */

#include <errno.h>
#include <netinet/tcp.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/conn_int.h"

static int option(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int val = 0;

	return rr_os->getsockopt(fd, level, name, &val, &len) ? 0 : val;
}

void rr_keep_learn(struct rr_share *sh, int fd)
{
	int saved = errno;

	if (!sh->qp->native || !sh->qp->ops->probe)
		return;
	sh->keep_idle = 0;
	if (option(fd, SOL_SOCKET, SO_KEEPALIVE))
		sh->keep_idle = (rr_time)option(fd, IPPROTO_TCP, TCP_KEEPIDLE) * RR_SEC;
	errno = saved;
}

void rr_conn_opt_set(struct rr_conn *c, int fd, int level, int name)
{
	struct rr_lock *l;

	if (!(level == SOL_SOCKET && name == SO_KEEPALIVE) && !(level == IPPROTO_TCP && name == TCP_KEEPIDLE))
		return;
	if (rr_conn_st(c) != RR_S_CARRIED || rr_conn_hold(c, &l) < 0)
		return;
	if (rr_conn_st(c) == RR_S_CARRIED)
		rr_keep_learn(c->share, fd);
	rr_lock_drop(l);
}

rr_time rr_keep_due(const struct rr_share *sh)
{
	if (likely(!sh->keep_idle) || sh->probing || sh->dead || sh->prov_lost)
		return RR_TIME_NEVER;
	return rr_max(sh->active, sh->probed) + sh->keep_idle;
}

void rr_keep_look(struct rr_share *sh, rr_time now)
{
	int rc;

	if (likely(now < rr_keep_due(sh)))
		return;
	sh->probed = now;
	rc = sh->qp->ops->probe(sh->qp);
	sh->probing = rc == 0;
	if (rc < 0 && rc != -EAGAIN)
		rr_keep_answer(sh, rc);
}

void rr_keep_answer(struct rr_share *sh, int status)
{
	sh->probing = false;
	if (status == -ETIMEDOUT)
		rr_drv_fail(sh, ETIMEDOUT, RR_R_PEER_DIED);
	else if (status)
		rr_drv_lost(sh);
}
