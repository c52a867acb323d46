/* SPDX-License-Identifier: BSD-3-Clause */
/* Readiness, arming, spinning: what poll, select, epoll and blocking calls need to know. */

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/conn_int.h"

#define FAMILY_LOOK	(50 * RR_MSEC)
#define FULL_LOOK	RR_SEC
#define ANCHOR_LOOK	RR_MSEC
#define STUCK_LOOK	(10 * RR_MSEC)
#define NEAR		4u	/* times the longest spin: a sleep that may have been the other end's wake-up */
#define NEAR_MISSES	32u
#define TRIES		16u
#define ATTEMPTS	7u	/* and so 4096 of them at most */

/* --- a carried connection --------------------------------------------------------------- */

/* As many bytes as SO_RCVLOWAT asks for; or no more can come before some are read, since the peer cannot go
 * on: TCP is readable then, too, and knows no more of the option than half its buffer. */
static bool enough(const struct rr_conn *c, const struct rr_share *sh)
{
	uint64_t most = rr_min((uint64_t)c->lowat, (uint64_t)rr_cp->max_stash);

	return sh->rx.bytes >= most || (sh->rx.bytes && sh->rx.held > sh->qp->recvs / 2);
}

static unsigned in_bits(struct rr_conn *c, struct rr_share *sh, int fd)
{
	if (unlikely(rr_handback_bytes(sh)))
		return RR_IN_BITS;
	if (!sh->rx.bytes && rr_stream_next_is_tcp(sh))
		return rr_anchor_poll(fd, RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (sh->dead || sh->reset || sh->rx.shut || rr_stream_is_over(sh))
		return RR_IN_BITS | POLLRDHUP;
	return enough(c, sh) ? RR_IN_BITS : 0;
}

static unsigned out_bits(struct rr_share *sh, int fd)
{
	if (sh->tx.tcp) {
		int rc = rr_hatch_flush(sh, fd);

		return rc == -EAGAIN ? 0 : rr_anchor_poll(fd, RR_OUT_BITS);
	}
	if (sh->dead || sh->reset || sh->tx.shut)
		return RR_OUT_BITS;
	if (sh->prov_lost)
		return rr_stream_peer_unsure(sh) ? 0 : RR_OUT_BITS;
	return rr_eng_writable(sh->eng) && rr_stream_room(sh) ? RR_OUT_BITS : 0;
}

/* For the connection alone: what a dialect has to say first needs the other app, as connect() does not. */
static bool connect_waits(const struct rr_conn *c)
{
	return unlikely(c->dial_wait) && !c->dial_told;
}

static unsigned bits(struct rr_conn *c, struct rr_share *sh, int fd, unsigned want)
{
	unsigned got = 0;

	if (want & (RR_IN_BITS | POLLRDHUP))
		got |= in_bits(c, sh, fd);
	if (want & RR_OUT_BITS)
		got |= connect_waits(c) ? RR_OUT_BITS : out_bits(sh, fd);
	if (sh->dead || sh->reset || (sh->tx.shut && (sh->rx.shut || rr_stream_is_over(sh))))
		got |= POLLHUP;
	if (sh->err)
		got |= POLLERR;
	return got & (want | POLLERR | POLLHUP);
}

static unsigned carried_poll(struct rr_conn *c, int fd, unsigned want)
{
	struct rr_share *sh = c->share;
	rr_time now = rr_now_coarse();
	unsigned got;

	if (sh->rx.bytes < (uint64_t)c->lowat || (want & RR_OUT_BITS))
		rr_drv_progress(sh);
	rr_hatch_answer(sh);
	got = bits(c, sh, fd, want);
	if (!got)
		rr_hint_none(sh);
	/* The peer's end shows beside bytes that nobody has read, and room to write. */
	if (now - sh->rx.checked > ANCHOR_LOOK) {
		rr_anchor_check(sh, fd, now);
		got = bits(c, sh, fd, want);
	}
	rr_budget_count(c);
	return got;
}

int rr_conn_poll(struct rr_conn *c, int fd, unsigned want)
{
	struct rr_lock *l;
	int st, rc = 0;

	rr_relay_see(c, fd);
	if (rr_conn_relayed(c, fd))
		rr_relay_ask(c, fd);
	if (rr_conn_st(c) == RR_S_TCP || rr_conn_relayed(c, fd))
		return RR_CONN_KERNEL;
	st = rr_conn_enter(c, fd, &l);
	switch (st) {
	case -EDEADLK: case -EBUSY:
		return 0;
	case -ECONNRESET:
		return (int)(((RR_IN_BITS | RR_OUT_BITS) & want) | POLLERR | POLLHUP);
	case RR_S_CARRIED:
		rc = (int)carried_poll(c, fd, want);
		break;
	case RR_S_FORKED:
		rc = rr_inherited_poll(c, fd, want);
		break;
	case RR_S_TCP:
		rc = RR_CONN_KERNEL;
		break;
	case RR_S_NEW:
		rc = (int)rr_anchor_poll(fd, want);
		break;
	case RR_S_LISTEN:
		rc = rr_native_poll(c, fd, want);
		break;
	case RR_S_SWALLOW:
		rc = (int)rr_anchor_poll(fd, want);
		if (rc & RR_IN_BITS) {
			int mine = rr_upgrade_swallow_next(c, fd);

			if (mine == 1)
				rc = RR_CONN_KERNEL;
			else if (mine == -EAGAIN)
				rc &= ~RR_IN_BITS;
		}
		break;
	case RR_S_REFUSED:
		rc = (int)(((RR_IN_BITS | RR_OUT_BITS) & want) | POLLERR | POLLHUP);
		break;
	}
	rr_lock_drop(l);
	return rc;
}

bool rr_conn_peek(const struct rr_conn *c, unsigned want)
{
	uint32_t mask = RR_HINT_OVER | (want & (RR_IN_BITS | POLLRDHUP) ? RR_HINT_IN : 0), hint;
	const struct rr_share *sh;

	if (!rr_conn_is_carried(c))
		return false;
	sh = c->share;
	if (unlikely(rr_lock_is_stuck(&sh->lock)))
		return false;
	hint = atomic_load_explicit(&sh->hint, memory_order_relaxed);
	if (hint & (mask | RR_HINT_LOST))
		return hint & mask;
	return sh->qp->ops->peek(sh->qp, (want & RR_OUT_BITS) ? RR_ARM_RECV | RR_ARM_SEND
							   : RR_ARM_RECV);
}

/* --- spinning ------------------------------------------------------------------------- */

static bool one_cpu(void)
{
	static _Atomic int cpus;
	int n = atomic_load_explicit(&cpus, memory_order_relaxed);

	if (unlikely(!n)) {
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
		atomic_store_explicit(&cpus, n, memory_order_relaxed);
	}
	return n == 1;
}

rr_time rr_conn_spin(const struct rr_conn *c)
{
	struct rr_share *sh;
	uint32_t tries;

	if (!rr_conn_is_carried(c) || !rr_cp->spin || one_cpu())
		return 0;
	sh = c->share;
	tries = atomic_load_explicit(&sh->tries, memory_order_relaxed);
	if (likely(!tries))
		return atomic_load_explicit(&sh->spin, memory_order_relaxed);
	atomic_store_explicit(&sh->tries, tries - 1, memory_order_relaxed);
	return NEAR * rr_cp->spin;
}

/* Two ends that sleep keep each other waiting for longer than either would spin: by their wake-ups. Neither gets out of
 * that alone. They have slept as often, so after some such sleeps both spin for longer, a few times, and then go on as in
 * the beginning. If it was no use, twice as many sleeps have to come before the next attempt. */
static bool is_time_to_try(struct rr_share *sh, rr_time slept)
{
	if (slept >= NEAR * rr_cp->spin || (++sh->near >> sh->attempts) < NEAR_MISSES)
		return false;
	sh->near = 0;
	sh->attempts += sh->attempts < ATTEMPTS;
	return true;
}

/* A thread woke after sleeping. A short sleep says that spinning on would have paid. */
static void learn(struct rr_share *sh, rr_time now)
{
	rr_time spin = atomic_load_explicit(&sh->spin, memory_order_relaxed), slept = now - sh->armed_at;
	uint32_t tries = 0;

	if (!sh->armed_at)
		return;
	if (slept < rr_cp->spin) {
		spin = rr_min(rr_max(spin * 2, 4 * RR_USEC), rr_cp->spin);
		sh->near = sh->attempts = 0;
	} else if (is_time_to_try(sh, slept)) {
		spin = rr_cp->spin;
		tries = TRIES;
	} else {
		spin = spin < 2 * RR_USEC ? 0 : spin / 2;
	}
	sh->armed_at = 0;
	atomic_store_explicit(&sh->spin, spin, memory_order_relaxed);
	atomic_store_explicit(&sh->tries, tries, memory_order_relaxed);
}

/* --- sleeping ------------------------------------------------------------------------- */

/* A thread sleeps on the anchor as well (rr_conn_fds()), an epoll set may not. */
static void look_at_anchor(struct rr_share *sh, int fd, bool thread)
{
	rr_time now = rr_now_coarse();

	if (!thread || sh->rx.hatched || sh->prov_lost || now - sh->rx.checked > ANCHOR_LOOK)
		rr_anchor_check(sh, fd, now);
}

static int arm_carried(struct rr_conn *c, int fd, unsigned want, bool thread)
{
	struct rr_share *sh = c->share;
	enum rr_arm what = RR_ARM_RECV;
	rr_time now = rr_now();

	rr_drv_progress(sh);
	rr_keep_look(sh, now);
	rr_hatch_answer(sh);
	look_at_anchor(sh, fd, thread);
	if (bits(c, sh, fd, want))
		return 1;
	/* A writer that waits for memory waits for messages; and for receives, that come back when the
	 * peer has read calls that get no reply. */
	if ((want & RR_OUT_BITS) && (!rr_eng_writable(sh->eng) || rr_stream_waits(sh)))
		what |= RR_ARM_SEND;
	if (sh->called_back)
		what |= RR_ARM_SEND;
	if (!sh->prov_lost && sh->qp->ops->arm(sh->qp, what) == 1)
		return 1;
	sh->armed_at = now;
	rr_count(sh->qp->count, RR_C_sleeps, 1);
	return 0;
}

static int arm(struct rr_conn *c, int fd, unsigned want, bool thread)
{
	struct rr_lock *l;
	int rc = 0, st;

	if (rr_conn_relayed(c, fd)) {
		atomic_fetch_add_explicit(&c->sleepers, thread, memory_order_acq_rel);
		return 0;
	}
	st = rr_conn_enter(c, fd, &l);
	if (st == -EBUSY) {	/* rr_conn_fds() says when to look again */
		atomic_fetch_add_explicit(&c->sleepers, thread, memory_order_acq_rel);
		return 0;
	}
	if (st < 0)
		return 1;
	if (st == RR_S_CARRIED)
		rc = arm_carried(c, fd, want, thread);
	else if (st == RR_S_REFUSED)
		rc = 1;
	else if (st == RR_S_LISTEN)
		rc = rr_native_poll(c, fd, want) > 0;
	else if (c->hold_until && rr_now() < c->hold_until)
		rc = 1;		/* a verdict is there, and waits for threads to wake */
	if (rc == 0 && thread)
		atomic_fetch_add_explicit(&c->sleepers, 1, memory_order_acq_rel);
	if (rc == 0 && !thread)
		c->watched = true;
	rr_lock_drop(l);
	if (rc && st != RR_S_CARRIED)
		sched_yield();
	return rc;
}

int rr_conn_arm(struct rr_conn *c, int fd, unsigned want)
{
	return arm(c, fd, want, true);
}

int rr_conn_watch(struct rr_conn *c, int fd, unsigned want)
{
	return arm(c, fd, want, false);
}

static void drain(struct rr_share *sh)
{
	if (!sh->prov_lost && sh->qp->ops->drain(sh->qp) < 0)
		rr_drv_lost(sh);
}

void rr_conn_disarm(struct rr_conn *c, int fd)
{
	struct rr_lock *l;

	/* pairs with the acquire in others_asleep() */
	atomic_fetch_sub_explicit(&c->sleepers, 1, memory_order_acq_rel);
	if (rr_conn_relayed(c, fd) || rr_conn_st(c) != RR_S_CARRIED || rr_conn_hold(c, &l) < 0)
		return;
	learn(c->share, rr_now());
	/* Asked under the lock: another may have gone to sleep since. */
	if (!atomic_load_explicit(&c->sleepers, memory_order_relaxed)) {
		drain(c->share);
		/* Nothing has come: then the anchor had something to say. */
		if (!c->share->prov_lost && !c->share->qp->ops->peek(c->share->qp, RR_ARM_RECV))
			c->share->rx.checked = 0;
		if (!c->watched && !c->share->prov_lost)
			c->share->qp->ops->disarm(c->share->qp);
	}
	rr_lock_drop(l);
}

void rr_conn_drain(struct rr_conn *c)
{
	struct rr_lock *l;

	if (rr_conn_st(c) == RR_S_LISTEN && rr_conn_hold(c, &l) >= 0) {
		rr_native_look(c, c->fd);
		rr_lock_drop(l);
		return;
	}
	if (!rr_conn_is_carried(c) || rr_conn_hold(c, &l) < 0)
		return;
	learn(c->share, rr_now());
	/* A thread that sleeps in poll() has yet to see the doorbell. */
	if (!atomic_load_explicit(&c->sleepers, memory_order_acquire))
		drain(c->share);
	rr_lock_drop(l);
}

static int carried_fds(struct rr_share *sh, int fd, unsigned want, struct pollfd out[2],
		       rr_time *until)
{
	unsigned anchor = 0;

	if (!sh->rx.fin && !sh->rx.hatched)
		anchor |= POLLIN | POLLRDHUP;
	if (sh->rx.tcp)
		anchor |= want & (RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (sh->tx.tcp)
		anchor |= want & RR_OUT_BITS;
	*until = rr_min(rr_min(rr_eng_deadline(sh->eng), rr_keep_due(sh)), rr_drv_fence_due(sh));
	if (unlikely(!rr_eng_writable(sh->eng)) && !rr_drv_direct(sh))	/* a device that is full tells of nothing */
		*until = rr_min(*until, rr_now() + FULL_LOOK);
	if (unlikely(atomic_load_explicit(&sh->procs, memory_order_relaxed) > 1) &&
	    rr_conn_procs(sh) > 1)
		*until = rr_min(*until, rr_now() + FAMILY_LOOK);
	out[0] = (struct pollfd){ fd, (short)anchor, 0 };
	if (sh->dead)	/* of which the wake-up fd would tell for ever */
		return 1;
	if (sh->prov_lost) {
		if (rr_prov_matters(sh))
			*until = rr_min(*until, rr_now() + FAMILY_LOOK);
		return 1;
	}
	out[1] = (struct pollfd){ sh->qp->wake_fd, POLLIN, 0 };
	return 2;
}

int rr_conn_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2], rr_time *until)
{
	struct rr_lock *l;
	int n = 1, st;

	*until = RR_TIME_NEVER;
	out[0] = (struct pollfd){ fd, (short)want, 0 };
	if (rr_conn_is_tcp(c) || rr_conn_relayed(c, fd))
		return 1;
	st = rr_conn_hold(c, &l);
	if (st == -EBUSY) {
		out[0].events = 0;
		*until = rr_now() + STUCK_LOOK;
	}
	if (st < 0)
		return 1;
	switch (st) {
	case RR_S_CARRIED:
		n = carried_fds(c->share, fd, want, out, until);
		break;
	case RR_S_FORKED:
		n = rr_inherited_fds(c, fd, want, out, until);
		break;
	case RR_S_NEW:
		if (c->part_since)
			*until = c->part_since + RR_SEC;
		break;
	case RR_S_OFFERED:
		out[0].events = POLLIN | POLLRDHUP;
		*until = c->deadline;
		break;
	case RR_S_LISTEN:
		n = rr_native_fds(c, fd, want, out, until);
		break;
	case RR_S_JOINING: case RR_S_TAKEN: case RR_S_DIALING:
		out[0] = (struct pollfd){ c->share->qp->wake_fd, POLLIN, 0 };
		*until = c->deadline;
		break;
	case RR_S_ANSWERED:
		out[0].events = POLLIN | POLLRDHUP;
		out[1] = (struct pollfd){ c->share->qp->wake_fd, POLLIN, 0 };
		*until = c->deadline;
		n = 2;
		break;
	case RR_S_SWALLOW:
		*until = rr_now() + 10 * RR_MSEC;
		break;
	default:
		break;
	}
	rr_lock_drop(l);
	return n;
}

int rr_conn_wake_fd(const struct rr_conn *c)
{
	return rr_conn_is_carried(c) ? c->share->qp->wake_fd : -1;
}
