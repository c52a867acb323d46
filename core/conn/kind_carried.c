/* SPDX-License-Identifier: BSD-3-Clause */
/* What a carried connection does, under its lock: its row of the table of states (kinds.c). The
 * streams themselves are in carried/. */

#include <errno.h>
#include <fcntl.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/kinds.h"

/* --- bytes -------------------------------------------------------------------------------- */

static int carried_dialed(struct rr_conn *c, int fd RR_UNUSED)
{
	if (c->dial_told)
		return -EISCONN;
	c->dial_told = true;
	return 0;
}

/* --- readiness ---------------------------------------------------------------------------- */

static int carried_poll(struct rr_conn *c, int fd, unsigned want)
{
	return (int)rr_ready_poll(c, fd, want);
}

static int carried_inq(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;
	int early = rr_rx_is_early(sh) ? rr_cross_inq(sh, fd) : RR_CROSSED;

	rr_drv_progress(sh);
	if (early != RR_CROSSED)
		return early;
	if (rr_rx_is_tcp(sh) && !rr_handback_bytes(sh))
		return RR_CONN_KERNEL;
	return (int)rr_min(rr_rx_unread(sh) + rr_handback_bytes(sh), (uint64_t)INT32_MAX);
}

int rr_carried_take_error(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;
	int err = RR_CONN_KERNEL;

	if (rr_rx_is_early(sh))
		rr_cross_error(sh, fd);
	else
		rr_anchor_check(sh, fd, rr_now_coarse());
	/* When both directions have ended, the anchor's own error is what our end mark has
	 * caused. */
	if (rr_link_is_dead(sh) || sh->err || rr_rx_is_early(sh) ||
	    (rr_tx_is_shut(sh) && rr_rx_has_ended(sh))) {
		err = sh->err;
		sh->err = 0;
	}
	return err;
}

static int carried_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
		       rr_time *until)
{
	return rr_ready_fds(c->share, fd, want, out, until);
}

static void carried_disarm(struct rr_conn *c, bool later)
{
	rr_wait_learn(c->share, rr_now());
	/* Asked under the lock, which has ended the rest: another thread may have gone to sleep
	 * since. */
	if (!rr_conn_is_slept_on(c))
		rr_ready_disarm(c, later && !c->watched);
}

static bool carried_drain(struct rr_conn *c, bool later)
{
	rr_wait_learn(c->share, rr_now());
	/* A thread that sleeps in poll() has yet to see the doorbell. */
	if (!rr_conn_is_slept_on(c))
		rr_ready_drain(c->share, later);
	return !rr_link_is_up(c->share);
}

/* --- its end ------------------------------------------------------------------------------ */

/* Returns 1 if the peer was told. */
static int carried_shutdown(struct rr_conn *c, int fd, bool rd, bool wr)
{
	struct rr_share *sh = c->share;
	bool told;

	rr_anchor_check(sh, fd, rr_now_coarse());
	told = wr && !rr_rx_is_reset(sh) && rr_anchor_mark(sh, fd);
	if (rd) {
		rr_rx_shut(sh);
		rr_conn_set_changed(c);
	}
	/* A thread that waits to write has no news by that. */
	rr_hint(sh, RR_HINT_IN | (wr ? RR_HINT_OVER : 0u));
	if (rd)
		rr_rest_rouse(c);
	return told;
}

/* When the last process closes, the peer is told how many records there were. Or it gets a
 * reset, as from the kernel (RFC 2525 §2.17), if what it sent was not read, or the connection
 * had failed. */
static void carried_close(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	sh->back.left = true;	/* the thread of a hand-back may be at work */
	if (rr_conn_leave(sh)) {
		if (!rr_conn_shareable(sh))
			rr_handback_leave(c, fd);
		return;
	}
	rr_drv_progress(sh);
	/* The peer reads what we send by TCP. If its end mark stayed unread here, our close
	 * would be a reset. */
	if (rr_tx_is_early(sh))
		rr_anchor_check(sh, fd, rr_now_coarse());
	if (rr_link_is_dead(sh) || rr_rx_unread(sh) || rr_handback_bytes(sh)) {
		rr_anchor_reset(fd);
		rr_anchor_note(sh);
	} else {
		rr_anchor_mark(sh, fd);
		rr_conn_settle(c, rr_carrier_disconnect);
		return;
	}
	rr_carrier_disconnect(sh);
}

static void is_reused(struct rr_share *sh)
{
	rr_drv_fail(sh, EBADF, RR_R_REUSED);
}

static void carried_vanish(struct rr_conn *c)
{
	struct rr_share *sh = c->share;

	sh->back.left = true;
	if (rr_conn_leave(sh)) {
		if (!rr_conn_shareable(sh))
			rr_handback_leave(c, -1);
	} else {
		rr_conn_settle(c, is_reused);
	}
}

/* --- one of the family ------------------------------------------------------------------- */

static void carried_forked(struct rr_conn *c)
{
	if (!rr_relay_forked(c) && !rr_conn_shareable(c->share))
		rr_inherited_begin(c);
}

/* Moves a descriptor of ours, unless other processes of the family have it: they use it under
 * the same number. */
static bool move_one(struct rr_share *sh, int *own, int fd)
{
	int to;

	if (*own != fd || rr_conn_procs(sh) > 1)
		return false;
	to = rr_os->fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
	if (to < 0)
		return false;
	rr_ownfd_set(fd, false);
	rr_ownfd_set(to, true);
	*own = to;
	return true;
}

static bool carried_move(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	/* Nobody sleeps on the ends of pairs; and a thread that sleeps on the old number of a
	 * wake-up fd sleeps on the same socket. */
	if (!c->relay && move_one(sh, &sh->far, fd))
		return true;
	if (move_one(sh, &sh->qp->other_fd, fd) || move_one(sh, &sh->qp->ring_fd, fd))
		return true;
	if (!move_one(sh, &sh->qp->wake_fd, fd))
		return false;
	rr_conn_set_changed(c);
	return true;
}

const struct rr_kind rr_kind_carried = {
	.forked = carried_forked, .move = carried_move, .take_error = rr_carried_take_error,
	.dialed = carried_dialed,
	.recv = rr_carried_recv, .send = rr_carried_send, .poll = carried_poll,
	.inq = carried_inq,
	.arm = rr_ready_arm, .armed = rr_rest_begin, .disarm = carried_disarm,
	.drain = carried_drain, .fds = carried_fds, .shutdown = carried_shutdown,
	.close = carried_close, .vanish = carried_vanish,
};
