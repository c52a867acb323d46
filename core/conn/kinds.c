/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a connection, and what each does. A new state is one more table. */

#include "core/conn/kinds.h"

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/when.h"

/* --- nothing is done for it here ------------------------------------------------------ */

static bool is_kernels(struct rr_conn *c RR_UNUSED)
{
	return true;
}

static const struct rr_kind tcp = { .kernels = true, .let_go = is_kernels };

/* Another process's. */
static const struct rr_kind relayed = { .kernels = false };

/* --- the app waits for the upgrade -------------------------------------------------------- */

static int foreign_lost(struct rr_conn *c RR_UNUSED)
{
	return -ECONNRESET;
}

static int offered_fds(struct rr_conn *c, int fd RR_UNUSED, unsigned want RR_UNUSED,
		       struct pollfd out[2], rr_time *until)
{
	out[0].events = POLLIN | POLLRDHUP;
	*until = c->deadline;
	return 1;
}

static const struct rr_kind offered = {
	.step = rr_offer_step, .foreign = foreign_lost, .fds = offered_fds,
};

static struct pollfd wake_up(const struct rr_conn *c)
{
	return (struct pollfd){ c->share->qp->wake_fd, POLLIN, 0 };
}

/* The provider connects, and nothing else has news. */
static int meeting_fds(struct rr_conn *c, int fd RR_UNUSED, unsigned want RR_UNUSED,
		       struct pollfd out[2], rr_time *until)
{
	out[0] = wake_up(c);
	*until = c->deadline;
	return 1;
}

static const struct rr_kind joining = {
	.step = rr_offer_step, .foreign = foreign_lost, .fds = meeting_fds,
};

static void taken_step(struct rr_conn *c, int fd RR_UNUSED)
{
	rr_native_step(c);
}

static const struct rr_kind taken = {
	.step = taken_step, .foreign = foreign_lost, .fds = meeting_fds,
};

static void dialing_vanish(struct rr_conn *c)
{
	rr_share_free(c->share);
	c->share = NULL;
	rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
}

static int dialing_dialed(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED)
{
	return -EALREADY;
}

static const struct rr_kind dialing = {
	.step = rr_dial_step, .foreign = foreign_lost, .dialed = dialing_dialed,
	.fds = meeting_fds, .vanish = dialing_vanish,
};

static int answered_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
			rr_time *until)
{
	out[1] = wake_up(c);
	return 1 + offered_fds(c, fd, want, out, until);
}

static const struct rr_kind answered = {
	.step = rr_answer_wait, .foreign = foreign_lost, .fds = answered_fds,
};

/* --- nothing was said -------------------------------------------------------------------- */

static void fresh_step(struct rr_conn *c, int fd)
{
	if (c->server)
		rr_answer_step(c, fd);
}

static bool become_kernels(struct rr_conn *c)
{
	rr_conn_become(c, RR_S_TCP, RR_R_KERNEL_ONLY);
	return rr_conn_is_tcp(c);	/* or it is refused */
}

static ssize_t fresh_recv(struct rr_conn *c, int fd, const struct iovec *iov RR_UNUSED,
			  int n RR_UNUSED, int flags RR_UNUSED, size_t *done RR_UNUSED)
{
	return rr_upgrade_first_read(c, fd);
}

/* An offer before anything else, or with it. Where it waits for an answer, and then where it is
 * carried, it has another function. */
static ssize_t fresh_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	ssize_t rc = RR_RIDE_OVER;

	if (!c->server && rr_cp->offer_after != RR_AFTER_WAIT)
		rc = rr_ride_first(c, fd, iov, n, flags);
	if (rc != RR_RIDE_OVER)
		return rc;
	rc = rr_upgrade_first_write(c, fd, iov, n);
	if (rc)
		return rc;
	/* Of no bytes nothing was said, and the next write is the first. */
	return rr_conn_begins(c) ? RR_CONN_KERNEL : RR_RIDE_OVER;
}

static int fresh_poll(struct rr_conn *c, int fd, unsigned want)
{
	unsigned got = rr_anchor_poll(fd, want);

	if (c->hold_until && rr_now() < c->hold_until)
		got &= ~(unsigned)RR_IN_BITS;	/* an offer, and not the app's */
	return (int)got;
}

/* What may be an offer is the app's after this. */
static int part_fds(struct rr_conn *c, int fd RR_UNUSED, unsigned want RR_UNUSED,
		    struct pollfd out[2] RR_UNUSED, rr_time *until)
{
	if (c->part_since)
		*until = c->part_since + RR_SEC;
	return 1;
}

/* Half a connection is not worth an upgrade. */
static int fresh_shutdown(struct rr_conn *c, int fd RR_UNUSED, bool rd RR_UNUSED,
			  bool wr RR_UNUSED)
{
	rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
	return 0;
}

static const struct rr_kind fresh = {
	.kernels = true,
	.step = fresh_step,
	.let_go = become_kernels,
	.recv = fresh_recv,
	.send = fresh_send,
	.poll = fresh_poll,
	.fds = part_fds,
	.shutdown = fresh_shutdown,
};

/* --- calls go by TCP, and somebody looks on ----------------------------------------------- */

static int riding_fds(struct rr_conn *c, int fd RR_UNUSED, unsigned want RR_UNUSED,
		      struct pollfd out[2], rr_time *until)
{
	*until = c->deadline;
	if (!c->share || c->share->qp->wake_fd < 0)
		return 1;
	out[1] = wake_up(c);
	return 2;
}

/* More than the app's socket is slept on: the kernel is asked here. */
static int riding_poll(struct rr_conn *c, int fd, unsigned want)
{
	int rc = rr_ride_poll(c, fd, want);

	return rc == RR_CONN_KERNEL ? (int)rr_anchor_poll(fd, want) : rc;
}

static const struct rr_kind watching = {
	.forks = rr_watch_forks, .let_go = become_kernels,
	.recv = rr_ride_recv, .send = rr_watch_send, .poll = rr_ride_poll, .inq = rr_ride_inq,
	.fds = part_fds,
};

static const struct rr_kind asked = {
	.step = rr_asked_step, .foreign = rr_ride_orphan, .yield = rr_asked_yield,
	.recv = rr_ride_recv, .send = rr_ride_send, .poll = rr_ride_poll, .inq = rr_ride_inq,
	.fds = part_fds,
};

static const struct rr_kind meeting = {
	.step = rr_meeting_step, .foreign = rr_ride_orphan,
	.recv = rr_ride_recv, .send = rr_ride_send, .poll = riding_poll, .inq = rr_ride_inq,
	.fds = riding_fds,
};

static const struct rr_kind heard = {
	.step = rr_heard_step, .foreign = rr_ride_orphan, .forks = rr_heard_forks,
	.yield = rr_heard_yield,
	.recv = rr_ride_recv, .send = rr_heard_send, .poll = riding_poll, .inq = rr_ride_inq,
	.fds = riding_fds,
};

static const struct rr_kind said = {
	.step = rr_said_step, .foreign = rr_ride_orphan, .forks = rr_said_forks,
	.yield = rr_said_yield, .joined = rr_said_joined,
	.recv = rr_ride_recv, .send = rr_ride_send, .poll = riding_poll, .inq = rr_ride_inq,
	.fds = riding_fds,
};

static int swallowing_fds(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED,
			  unsigned want RR_UNUSED, struct pollfd out[2] RR_UNUSED,
			  rr_time *until)
{
	*until = rr_now() + 10 * RR_MSEC;
	return 1;
}

static const struct rr_kind swallowing = {
	.kernels = true,
	.recv = rr_ride_recv, .poll = riding_poll, .inq = rr_ride_inq, .fds = swallowing_fds,
};

/* --- carried ----------------------------------------------------------------------------- */

ssize_t rr_carried_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_share *sh = c->share;
	ssize_t rc = unlikely(rr_handback_bytes(sh)) ? rr_handback_take(sh, iov, n, flags) :
						       rr_stream_recv(sh, fd, iov, n, flags);

	rr_budget_count(c);
	return rc;
}

ssize_t rr_carried_send(struct rr_conn *c, int fd, const struct iovec *iov, int n)
{
	ssize_t rc = rr_stream_send(c->share, fd, iov, n);

	rr_budget_count(c);
	return rc;
}

static ssize_t carried_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n,
			    int flags, size_t *done RR_UNUSED)
{
	return rr_carried_recv(c, fd, iov, n, flags);
}

static ssize_t carried_send(struct rr_conn *c, int fd, const struct iovec *iov, int n,
			    int flags RR_UNUSED)
{
	return rr_carried_send(c, fd, iov, n);
}

static int carried_dialed(struct rr_conn *c, int fd RR_UNUSED)
{
	if (c->dial_told)
		return -EISCONN;
	c->dial_told = true;
	return 0;
}

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

static int carried_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
		       rr_time *until)
{
	return rr_ready_fds(c->share, fd, want, out, until);
}

static void carried_disarm(struct rr_conn *c)
{
	rr_wait_learn(c->share, rr_now());
	/* Asked under the lock, which has ended the rest: another may sleep since. */
	if (!atomic_load(&c->sleepers))
		rr_ready_disarm(c);
}

static bool carried_drain(struct rr_conn *c)
{
	rr_wait_learn(c->share, rr_now());
	/* A thread that sleeps in poll() has yet to see the doorbell. */
	if (!atomic_load(&c->sleepers))
		rr_drv_drain(c->share);
	return rr_conn_relayed(c, 0) || c->share->prov_lost || c->share->dead;
}

/* 1: it has said so to the peer. */
static int carried_shutdown(struct rr_conn *c, int fd, bool rd, bool wr)
{
	struct rr_share *sh = c->share;
	bool told;

	rr_anchor_check(sh, fd, rr_now_coarse());
	told = wr && !sh->reset && rr_anchor_mark(sh, fd);
	if (rd)
		rr_rx_shut(sh);
	/* no news for who still writes */
	rr_hint(sh, RR_HINT_IN | (wr ? RR_HINT_OVER : 0u));
	if (rd)
		rr_rest_rouse(c);
	return told;
}

/* The last process closes: the peer hears how many records there were, or a reset if what it
 * sent was not read (RFC 2525 §2.17: as the kernel does) or the connection had failed. */
static void carried_close(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	sh->back.left = true;	/* a thread may be at it */
	if (rr_conn_leave(sh)) {
		if (!rr_conn_shareable(sh))
			rr_handback_leave(c, fd);
		return;
	}
	rr_drv_progress(sh);
	if (sh->dead || rr_rx_unread(sh) || rr_handback_bytes(sh)) {
		rr_anchor_reset(fd);
		rr_anchor_note(sh);
	} else {
		rr_anchor_mark(sh, fd);
		rr_conn_settle(c, rr_drv_disconnect);
		return;
	}
	rr_drv_disconnect(sh);
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

static const struct rr_kind carried = {
	.dialed = carried_dialed,
	.recv = carried_recv, .send = carried_send, .poll = carried_poll, .inq = carried_inq,
	.arm = rr_ready_arm, .armed = rr_rest_begin, .disarm = carried_disarm,
	.drain = carried_drain, .fds = carried_fds, .shutdown = carried_shutdown,
	.close = carried_close, .vanish = carried_vanish,
};

/* --- carried, but only the parent can use it ---------------------------------------------- */

static ssize_t forked_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
			   size_t *done RR_UNUSED)
{
	return rr_inherited_recv(c, fd, iov, n, flags);
}

static ssize_t forked_send(struct rr_conn *c, int fd, const struct iovec *iov RR_UNUSED,
			   int n RR_UNUSED, int flags RR_UNUSED)
{
	return rr_inherited_send(c, fd);
}

static void forked_vanish(struct rr_conn *c)
{
	rr_inherited_close(c, -1);
}

static const struct rr_kind forked = {
	.recv = forked_recv, .send = forked_send, .poll = rr_inherited_poll,
	.inq = rr_inherited_inq, .fds = rr_inherited_fds, .shutdown = rr_inherited_shutdown,
	.close = rr_inherited_close, .vanish = forked_vanish,
};

/* --- a listener of native peers ----------------------------------------------------------- */

static int listening_arm(struct rr_conn *c, int fd, unsigned want, bool thread RR_UNUSED)
{
	return rr_native_poll(c, fd, want) > 0;
}

static bool listening_drain(struct rr_conn *c)
{
	rr_native_look(c, c->fd);
	return true;
}

/* The kernel's listens no more. */
static int listening_shutdown(struct rr_conn *c, int fd RR_UNUSED, bool rd, bool wr RR_UNUSED)
{
	if (rd)
		rr_native_close(c);
	return 0;
}

static void listening_close(struct rr_conn *c, int fd RR_UNUSED)
{
	rr_native_close(c);
}

static const struct rr_kind listening = {
	.kernels = true,
	.let_go = is_kernels,
	.poll = rr_native_poll,
	.arm = listening_arm,
	.drain = listening_drain,
	.fds = rr_native_fds,
	.shutdown = listening_shutdown,
	.close = listening_close,
	.vanish = rr_native_close,
};

/* --- refused by a rule -------------------------------------------------------------------- */

static ssize_t refused_send(struct rr_conn *c, int fd RR_UNUSED,
			    const struct iovec *iov RR_UNUSED, int n RR_UNUSED,
			    int flags RR_UNUSED)
{
	return c->server ? -ECONNABORTED : -ECONNREFUSED;
}

static ssize_t refused_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n,
			    int flags, size_t *done RR_UNUSED)
{
	return refused_send(c, fd, iov, n, flags);
}

static int refused_poll(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED, unsigned want)
{
	return (int)(((RR_IN_BITS | RR_OUT_BITS) & want) | POLLERR | POLLHUP);
}

static int refused_arm(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED, unsigned want RR_UNUSED,
		       bool thread RR_UNUSED)
{
	return 1;
}

static const struct rr_kind refused = {
	.dialed = rr_dial_again,
	.recv = refused_recv, .send = refused_send, .poll = refused_poll, .arm = refused_arm,
};

const struct rr_kind *const rr_kinds[] = {
	[RR_S_FREE] = &relayed,
	[RR_S_NEW] = &fresh,
	[RR_S_OFFERED] = &offered,
	[RR_S_JOINING] = &joining,
	[RR_S_ANSWERED] = &answered,
	[RR_S_CARRIED] = &carried,
	[RR_S_FORKED] = &forked,
	[RR_S_SWALLOW] = &swallowing,
	[RR_S_WATCH] = &watching,
	[RR_S_ASKED] = &asked,
	[RR_S_MEETING] = &meeting,
	[RR_S_HEARD] = &heard,
	[RR_S_SAID] = &said,
	[RR_S_TCP] = &tcp,
	[RR_S_REFUSED] = &refused,
	[RR_S_LISTEN] = &listening,
	[RR_S_TAKEN] = &taken,
	[RR_S_DIALING] = &dialing,
	[RR_S_RELAYED] = &relayed,
};
