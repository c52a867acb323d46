/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a connection as the app sees it: shutdown(), close(), and a descriptor that
 * belongs to another file by now. What each state does then is in kinds.c. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/kinds.h"

int rr_conn_shutdown(struct rr_conn *c, int fd, int how)
{
	bool rd = how == SHUT_RD || how == SHUT_RDWR, wr = how == SHUT_WR || how == SHUT_RDWR;
	struct rr_lock *l;
	int st, rc = 0;

	if (rr_conn_passes(c, fd, false))
		return RR_CONN_KERNEL;
	st = rr_conn_enter(c, fd, &l);
	if (st == -EBUSY)	/* nobody can be told beforehand: a bare FIN */
		return RR_CONN_KERNEL;
	if (st < 0)
		return st;
	if (rr_kinds[st]->shutdown)
		rc = rr_kinds[st]->shutdown(c, fd, rd, wr);
	c->shut_rd |= rd;
	c->shut_wr |= wr;
	rr_lock_drop(l);
	return rc;
}

/* Returns true only the first time: a connection that was given up early is still closed later.
 * Under its lock. */
static bool leaves(struct rr_conn *c)
{
	bool had = !c->left;

	c->left = true;
	return had;
}

/* Gives up a connection whose lock is held by a process that does not go on. That process is
 * left with it, and will end it. Without the lock. */
static void leave_stuck(struct rr_conn *c)
{
	if (leaves(c))
		rr_conn_leave(c->share);
}

void rr_conn_close(struct rr_conn *c, int fd)
{
	struct rr_lock *l;
	int st;

	if (rr_relay_takes(c, fd))
		return;
	st = rr_conn_hold(c, &l);
	/* The client may have joined meanwhile, and sent a message that nobody has read. */
	if (st >= 0 && rr_kinds[st]->joined && rr_kinds[st]->joined(c)) {
		rr_lock_drop(l);
		st = rr_conn_hold(c, &l);
	}
	if (st == -EBUSY)
		leave_stuck(c);
	if (st < 0)
		return;
	rr_ride_end(c);
	if (leaves(c) && rr_kinds[st]->close)
		rr_kinds[st]->close(c, fd);
	rr_lock_drop(l);
}

void rr_conn_vanished(struct rr_conn *c)
{
	struct rr_lock *l;
	int st;

	atomic_store_explicit(&c->fd, -1, memory_order_relaxed);
	st = rr_conn_hold_apps(c, 0, &l);
	if (st == -EBUSY)
		leave_stuck(c);
	if (st < 0)
		return;
	if (leaves(c) && rr_kinds[st]->vanish)
		rr_kinds[st]->vanish(c);
	rr_lock_drop(l);
}
