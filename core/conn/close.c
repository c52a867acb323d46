/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a connection as the app has it: shutdown(), close(), and a descriptor that is
 * another's by now. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/enter.h"

/* Has it said so to the peer? */
static bool shut_carried(struct rr_share *sh, int fd, bool rd, bool wr)
{
	bool told;

	rr_anchor_check(sh, fd, rr_now_coarse());
	told = wr && !sh->reset && rr_anchor_mark(sh, fd);
	if (rd)
		sh->rx.shut = true;
	/* no news for who still writes */
	rr_hint(sh, RR_HINT_IN | (wr ? RR_HINT_OVER : 0u));
	return told;
}

int rr_conn_shutdown(struct rr_conn *c, int fd, int how)
{
	bool rd = how == SHUT_RD || how == SHUT_RDWR, wr = how == SHUT_WR || how == SHUT_RDWR;
	struct rr_lock *l;
	int st, rc = 0;

	rr_relay_see(c, fd);
	if (rr_conn_st(c) == RR_S_TCP || rr_conn_relayed(c, fd))
		return RR_CONN_KERNEL;
	st = rr_conn_enter(c, fd, &l);
	if (st == -EBUSY)	/* nothing can be said beforehand: a bare end */
		return RR_CONN_KERNEL;
	if (st < 0)
		return st;
	if (st == RR_S_CARRIED) {
		rc = shut_carried(c->share, fd, rd, wr);
		if (rd)
			rr_rest_rouse(c);
	} else if (st == RR_S_FORKED) {
		rc = rr_inherited_shutdown(c, fd, rd, wr);
	} else if (st == RR_S_LISTEN && rd) {	/* the kernel's listens no more */
		rr_native_close(c);
	} else if (st == RR_S_NEW) {	/* half a connection is not worth an upgrade */
		rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
	}
	c->shut_rd |= rd;
	c->shut_wr |= wr;
	rr_lock_drop(l);
	return rc;
}

static void disconnect(struct rr_share *sh)
{
	sh->qp->ops->disconnect(sh->qp);
}

static void is_reused(struct rr_share *sh)
{
	rr_drv_fail(sh, EBADF, RR_R_REUSED);
}

/* The last process closes: the peer hears how many records there were, or a reset if what it
 * sent was not read (RFC 2525 §2.17: as the kernel does) or the connection had failed. */
static void close_carried(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	sh->back.left = true;	/* a thread may be at it */
	if (rr_conn_leave(sh)) {
		if (!rr_conn_shareable(sh))
			rr_handback_leave(c, fd);
		return;
	}
	rr_drv_progress(sh);
	if (sh->dead || sh->rx.bytes || rr_handback_bytes(sh)) {
		rr_anchor_reset(fd);
		rr_anchor_note(sh);
	} else {
		rr_anchor_mark(sh, fd);
		rr_conn_settle(c, disconnect);
		return;
	}
	disconnect(sh);
}

/* Under its lock: once. What was taken apart is closed some day, too. */
static bool leaves(struct rr_conn *c)
{
	bool had = !c->left;

	c->left = true;
	return had;
}

/* Without its lock, which a process has that does not go on: that one is left with it, and ends
 * it. */
static void leave_stuck(struct rr_conn *c)
{
	if (leaves(c))
		rr_conn_leave(c->share);
}

void rr_conn_close(struct rr_conn *c, int fd)
{
	struct rr_lock *l;
	int st;

	if (rr_conn_relayed(c, fd) || rr_relay_takes(c, fd))
		return;
	st = rr_conn_hold(c, &l);
	/* The client may have joined, and sent what nobody has read. */
	if (st == RR_S_SAID && rr_ride_joined(c)) {
		rr_lock_drop(l);
		st = rr_conn_hold(c, &l);
	}
	if (st == -EBUSY)
		leave_stuck(c);
	if (st < 0)
		return;
	rr_ride_end(c);
	if (!leaves(c))
		st = RR_S_TCP;
	if (st == RR_S_CARRIED)
		close_carried(c, fd);
	else if (st == RR_S_FORKED)
		rr_inherited_close(c, fd);
	else if (st == RR_S_LISTEN)
		rr_native_close(c);
	rr_lock_drop(l);
}

void rr_conn_vanished(struct rr_conn *c)
{
	struct rr_lock *l;
	int st;

	atomic_store_explicit(&c->fd, -1, memory_order_relaxed);
	if (rr_conn_relayed(c, 0))
		return;
	st = rr_conn_hold(c, &l);
	if (st == -EBUSY)
		leave_stuck(c);
	if (st < 0)
		return;
	if (!leaves(c))
		st = RR_S_TCP;
	if (st == RR_S_CARRIED) {
		struct rr_share *sh = c->share;

		sh->back.left = true;
		if (rr_conn_leave(sh)) {
			if (!rr_conn_shareable(sh))
				rr_handback_leave(c, -1);
		} else {
			rr_conn_settle(c, is_reused);
		}
	} else if (st == RR_S_FORKED) {
		rr_inherited_close(c, -1);
	} else if (st == RR_S_LISTEN) {
		rr_native_close(c);
	} else if (st == RR_S_DIALING) {
		rr_share_free(c->share);
		c->share = NULL;
		rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
	}
	rr_lock_drop(l);
}
