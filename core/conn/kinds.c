/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a connection and what each does: one row for each state. The functions are here
 * if they are short, else on the floor that the state belongs to. */

#include "core/conn/kinds.h"

#include <errno.h>
#include <sched.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/when.h"

/* --- nothing is done for it here ------------------------------------------------------ */

static bool is_kernels(struct rr_conn *c RR_UNUSED)
{
	return true;
}

static const struct rr_kind tcp = { .kernels = true, .let_go = is_kernels };

/* Another process uses the connection. */
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
	.step = rr_offer_hear, .foreign = foreign_lost, .fds = offered_fds,
};

static struct pollfd wake_up(const struct rr_conn *c)
{
	return (struct pollfd){ c->share->qp->wake_fd, POLLIN, 0 };
}

/* Only the provider, which is connecting, can have news. */
static int meeting_fds(struct rr_conn *c, int fd RR_UNUSED, unsigned want RR_UNUSED,
		       struct pollfd out[2], rr_time *until)
{
	out[0] = wake_up(c);
	*until = c->deadline;
	return 1;
}

static void joining_step(struct rr_conn *c, int fd RR_UNUSED)
{
	rr_offer_join(c);
}

static const struct rr_kind joining = {
	.step = joining_step, .by_bell = true, .foreign = foreign_lost,
	.fds = meeting_fds,
};

static void taken_step(struct rr_conn *c, int fd RR_UNUSED)
{
	rr_native_step(c);
}

static void taken_forked(struct rr_conn *c)
{
	rr_relay_forked(c);
}

static const struct rr_kind taken = {
	.step = taken_step, .by_bell = true, .forked = taken_forked, .foreign = foreign_lost,
	.fds = meeting_fds,
};

static void dialing_vanish(struct rr_conn *c)
{
	rr_carrier_free(c->share);
	c->share = NULL;
	rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
}

static int dialing_dialed(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED)
{
	return -EALREADY;
}

static const struct rr_kind dialing = {
	.step = rr_dial_step, .by_bell = true,
	.foreign = foreign_lost, .dialed = dialing_dialed,
	.fds = meeting_fds, .vanish = dialing_vanish,
};

static int answered_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
			rr_time *until)
{
	out[1] = wake_up(c);
	return 1 + offered_fds(c, fd, want, out, until);
}

static const struct rr_kind answered = {
	.step = rr_answer_wait, .by_bell = true, .foreign = foreign_lost, .fds = answered_fds,
};

/* --- nothing was said -------------------------------------------------------------------- */

static void fresh_step(struct rr_conn *c, int fd)
{
	if (c->face.server)
		rr_answer_step(c, fd, false);
}

static void fresh_told(struct rr_conn *c, int fd)
{
	if (c->face.server)
		rr_answer_step(c, fd, true);
}

static bool become_kernels(struct rr_conn *c)
{
	rr_conn_become(c, RR_S_TCP, RR_R_KERNEL_ONLY);
	return rr_conn_is_tcp(c);	/* false: a rule says 'require', and it is refused */
}

static ssize_t fresh_recv(struct rr_conn *c, int fd, const struct iovec *iov RR_UNUSED,
			  int n RR_UNUSED, int flags RR_UNUSED, size_t *done RR_UNUSED)
{
	return rr_upgrade_first_read(c, fd);
}

/* The offer is out and the app's first bytes wait for the outcome. A server that is waiting
 * answers within a fraction of this time. */
static void await_briefly(struct rr_conn *c, int fd, rr_time until)
{
	const struct rr_kind *k;

	while ((k = rr_kinds[rr_conn_st(c)])->step && !rr_conn_rides(rr_conn_st(c)) &&
	       rr_now() < until) {
		k->step(c, fd);
		sched_yield();
	}
}

/* The first write. An offer goes with it or before it. If the app has to wait for the answer,
 * or the answer came at once, the state that follows sends the bytes. */
static ssize_t fresh_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	ssize_t rc = RR_RIDE_OVER;
	rr_time until;

	if (!c->face.server && rr_cp->offer_after != RR_AFTER_WAIT)
		rc = rr_ride_first(c, fd, iov, n, flags);
	if (rc != RR_RIDE_OVER)
		return rc;
	until = rr_now() + RR_BRIEF;
	rc = rr_upgrade_first_write(c, fd, iov, n);
	if (rc)
		return rc;
	if (rr_conn_is_kernels(c))	/* no bytes were written: the next write is the first */
		return RR_CONN_KERNEL;
	await_briefly(c, fd, until);
	return RR_RIDE_OVER;
}

static int fresh_poll(struct rr_conn *c, int fd, unsigned want)
{
	unsigned got = rr_anchor_poll(fd, want);

	if (c->hold_until && rr_now() < c->hold_until)
		got &= ~(unsigned)RR_IN_BITS;	/* it is an offer, which is not the app's */
	return (int)got;
}

/* After this time, half an offer is given to the app. */
static int part_fds(struct rr_conn *c, int fd RR_UNUSED, unsigned want RR_UNUSED,
		    struct pollfd out[2] RR_UNUSED, rr_time *until)
{
	if (c->part_since)
		*until = c->part_since + RR_SEC;
	return 1;
}

/* An upgrade does not pay for a connection that is half closed. */
static int fresh_shutdown(struct rr_conn *c, int fd RR_UNUSED, bool rd RR_UNUSED,
			  bool wr RR_UNUSED)
{
	rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
	return 0;
}

static const struct rr_kind fresh = {
	.kernels = true,
	.step = fresh_step,
	.told = fresh_told,
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
	rr_time turn = rr_pace_turn(c);

	*until = turn ? rr_min(c->deadline, turn) : c->deadline;
	if (turn || !c->share || c->share->qp->wake_fd < 0)
		return 1;
	out[1] = wake_up(c);
	return 2;
}

static int riding_take_error(struct rr_conn *c, int fd)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (c->kept)
		return rr_ride_error(c);
	return rr_os->getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? RR_CONN_KERNEL : err;
}

/* A thread sleeps on more than the app's socket in these states, so the kernel has to be asked
 * here. */
static int riding_poll(struct rr_conn *c, int fd, unsigned want)
{
	int rc = rr_ride_poll(c, fd, want);

	return rc == RR_CONN_KERNEL ? (int)rr_anchor_poll(fd, want) : rc;
}

static const struct rr_kind watching = {
	.forks = rr_watch_forks, .let_go = become_kernels,
	.take_error = riding_take_error,
	.recv = rr_ride_recv, .send = rr_watch_send, .poll = rr_ride_poll, .inq = rr_ride_inq,
	.fds = part_fds,
};

static const struct rr_kind asked = {
	.step = rr_asked_step, .foreign = rr_ride_orphan, .yield = rr_asked_yield,
	.take_error = riding_take_error,
	.recv = rr_ride_recv, .send = rr_ride_send, .poll = rr_ride_poll, .inq = rr_ride_inq,
	.fds = part_fds,
};

static const struct rr_kind meeting = {
	.step = rr_meeting_step, .by_bell = true, .foreign = rr_ride_orphan,
	.take_error = riding_take_error,
	.recv = rr_ride_recv, .send = rr_ride_send, .poll = riding_poll, .inq = rr_ride_inq,
	.fds = riding_fds,
};

static const struct rr_kind heard = {
	.step = rr_heard_step, .foreign = rr_ride_orphan, .forks = rr_heard_forks,
	.yield = rr_heard_yield,
	.take_error = riding_take_error,
	.recv = rr_ride_recv, .send = rr_heard_send, .poll = riding_poll, .inq = rr_ride_inq,
	.fds = riding_fds,
};

static const struct rr_kind said = {
	.step = rr_said_step, .by_bell = true,
	.foreign = rr_ride_orphan, .forks = rr_said_forks,
	.yield = rr_said_yield, .joined = rr_said_joined,
	.take_error = riding_take_error,
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
	.take_error = riding_take_error,
	.recv = rr_ride_recv, .poll = riding_poll, .inq = rr_ride_inq, .fds = swallowing_fds,
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
	.take_error = rr_carried_take_error,
	.recv = forked_recv, .send = forked_send, .poll = rr_inherited_poll,
	.inq = rr_inherited_inq, .fds = rr_inherited_fds, .shutdown = rr_inherited_shutdown,
	.close = rr_inherited_close, .vanish = forked_vanish,
};

/* --- a listener of native peers ----------------------------------------------------------- */

static int listening_arm(struct rr_conn *c, int fd, unsigned want, bool thread RR_UNUSED)
{
	return rr_native_poll(c, fd, want) > 0;
}

static bool listening_drain(struct rr_conn *c, bool later RR_UNUSED)
{
	rr_native_look(c, c->fd);
	return true;
}

/* The kernel's socket stops listening, so RDMA does, too. */
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
	.forks = rr_native_forks,
	.forked = rr_native_forked,
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
	return c->face.server ? -ECONNABORTED : -ECONNREFUSED;
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

static int refused_take_error(struct rr_conn *c, int fd RR_UNUSED)
{
	int err = c->dial_err;

	c->dial_err = 0;
	return err ? err : RR_CONN_KERNEL;
}

static const struct rr_kind refused = {
	.take_error = refused_take_error,
	.dialed = rr_dial_again,
	.recv = refused_recv, .send = refused_send, .poll = refused_poll, .arm = refused_arm,
};

const struct rr_kind *const rr_kinds[RR_S_COUNT] = {
	[RR_S_FREE] = &relayed,
	[RR_S_NEW] = &fresh,
	[RR_S_OFFERED] = &offered,
	[RR_S_JOINING] = &joining,
	[RR_S_ANSWERED] = &answered,
	[RR_S_CARRIED] = &rr_kind_carried,
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
