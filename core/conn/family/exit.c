/* SPDX-License-Identifier: BSD-3-Clause */
/* exit() and daemon(): waits a little for what each connection has under way. The waiting
 * itself is in carried/settle.c, the way back to TCP in handback.c. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/family/family.h"

/* Is this process listed in the share's family? */
static bool ours(struct rr_share *sh)
{
	for (uint32_t i = 0; i < RR_FAMILY; i++)
		if (atomic_load_explicit(&sh->family[i], memory_order_relaxed) ==
		    (int32_t)rr_pid())
			return true;
	return false;
}

/* Takes a reference and the lock. Other holders of the lock, such as the thread of a hand-back
 * or a child that looks, drop it soon. The app's last reference may be dropped in here, because
 * a search for a connection's descriptor takes one for a moment. */
static bool take_conn(struct rr_conn *c, rr_time end)
{
	int rc;

	if (!rr_conn_keep(c))
		return false;
	while ((rc = rr_lock_try(&c->share->lock)) == -EBUSY && rr_now() < end)
		rr_os_nap(RR_MSEC / 4);
	if (rc)
		rr_conn_free(c);
	return rc == 0;
}

static void drop(struct rr_conn *c)
{
	rr_lock_drop(&c->share->lock);
	rr_conn_free(c);
}

/* Only what this process carries, or what has been closed and lingers, is waited for. A
 * connection that a child still wants goes back to TCP first, because the queue pair ends with
 * this process. */
static void at_exit(struct rr_conn *c, void *ctx)
{
	struct rr_share *sh = c->share;
	const rr_time *end = ctx;

	if (!take_conn(c, *end))
		return;
	if (ours(sh) && !rr_conn_shareable(sh) && rr_conn_procs(sh) > 1)
		rr_handback_exit(c, *end);
	if (ours(sh) || c->lingers)
		rr_conn_settle_until(sh, *end);
	drop(c);
}

/* daemon() leaves the connection to the child, and a queue pair cannot follow it: what can go
 * back to TCP goes now. */
static void at_daemon(struct rr_conn *c, void *ctx)
{
	struct rr_share *sh = c->share;
	const rr_time *end = ctx;

	if (rr_conn_shareable(sh) || (sh->qp->native && !c->lingers) || !take_conn(c, *end))
		return;
	if (ours(sh) && !c->lingers)
		rr_handback_exit(c, *end);
	if (ours(sh) || c->lingers)
		rr_conn_settle_until(sh, *end);
	drop(c);
}

/* A list that is in use by another thread is tried again until the time is up. */
static void each(void (*fn)(struct rr_conn *, void *))
{
	rr_time end = rr_now() + RR_SETTLE_MOST;

	while (!rr_conn_each_carried(fn, &end) && rr_now() < end)
		rr_os_nap(RR_MSEC / 4);
}

void rr_conn_daemon(void)
{
	each(at_daemon);
}

void rr_conn_exit(void)
{
	each(at_exit);
}
