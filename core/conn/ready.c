/* SPDX-License-Identifier: BSD-3-Clause */
/* Readiness, arming, spinning: what poll, select, epoll and blocking calls need to know. */

#include <errno.h>
#include <sched.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/conn_int.h"
#include "core/conn/spin.h"

#define FAMILY_LOOK	(50 * RR_MSEC)
#define FULL_LOOK	RR_SEC
#define ANCHOR_LOOK	RR_MSEC
#define TOLD_LOOK	RR_SEC		/* the same where the wake-up fd tells of the peer's end … */
#define TOLD_LOOK_END	(20 * RR_MSEC)	/* … to an app that asks for that */
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
	if (unlikely(sh->rx.early)) {
		unsigned got = rr_cross_in_bits(sh, fd, c->lowat);

		if (sh->rx.early)
			return got;
	}
	if (!sh->rx.bytes && rr_stream_next_is_tcp(sh))
		return rr_anchor_poll(fd, RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (sh->dead || sh->reset || sh->rx.shut || rr_stream_is_over(sh))
		return RR_IN_BITS | POLLRDHUP;
	return enough(c, sh) ? RR_IN_BITS : 0;
}

static unsigned out_bits(struct rr_share *sh, int fd)
{
	if (unlikely(sh->tx.early))
		return rr_anchor_poll(fd, RR_OUT_BITS);
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
	if (unlikely(sh->rx.early || (sh->rx.tcp && sh->tx.tcp)))
		got |= rr_anchor_poll(fd, 0) & ~(rr_cross_marked(sh) ? (unsigned)POLLERR : 0u);
	if (sh->dead || sh->reset || (sh->tx.shut && (sh->rx.shut || rr_stream_is_over(sh))))
		got |= POLLHUP;
	if (sh->err)
		got |= POLLERR;
	return got & (want | POLLERR | POLLHUP);
}

/* How often the anchor is looked at, when nothing says that it has news. A living peer's end is told by its note, and a
 * dead one's by the wake-up fd. */
static rr_time anchor_look(const struct rr_share *sh, unsigned want)
{
	if (!(rr_qp_caps(sh->qp) & RR_PROV_TELLS) || sh->prov_lost || sh->rx.marked || sh->rx.hatched)
		return ANCHOR_LOOK;
	return want & POLLRDHUP ? TOLD_LOOK_END : TOLD_LOOK;
}

static unsigned carried_poll(struct rr_conn *c, int fd, unsigned want)
{
	struct rr_share *sh = c->share;
	rr_time now = 0;
	unsigned got;

	if (sh->rx.bytes < (uint64_t)c->lowat || (want & RR_OUT_BITS))
		now = rr_drv_progress(sh);
	if (!now)
		now = rr_now_coarse();
	rr_hatch_answer(sh);
	got = bits(c, sh, fd, want);
	if (!got)
		rr_hint_none(sh);
	/* The peer's end shows beside bytes that nobody has read, and room to write. */
	if (now - sh->rx.checked > anchor_look(sh, want)) {
		rr_anchor_check(sh, fd, now);
		got = bits(c, sh, fd, want);
	}
	rr_budget_count(c);
	return got;
}

static RR_NOINLINE int other_poll(struct rr_conn *c, int fd, unsigned want)
{
	struct rr_lock *l;
	int st, rc;

	rr_relay_see(c, fd);
	if (rr_conn_relayed(c, fd))
		rr_relay_ask(c, fd);
	if (rr_conn_st(c) == RR_S_TCP || rr_conn_relayed(c, fd))
		return RR_CONN_KERNEL;
again:
	rc = 0;
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
		if (c->hold_until && rr_now() < c->hold_until)
			rc &= ~(int)RR_IN_BITS;		/* an offer, and not the app's */
		break;
	case RR_S_WATCH: case RR_S_ASKED: case RR_S_SWALLOW:
	case RR_S_MEETING: case RR_S_HEARD: case RR_S_SAID:
		rc = rr_ride_poll(c, fd, want);
		break;
	case RR_S_LISTEN:
		rc = rr_native_poll(c, fd, want);
		break;
	case RR_S_REFUSED:
		rc = (int)(((RR_IN_BITS | RR_OUT_BITS) & want) | POLLERR | POLLHUP);
		break;
	}
	rr_lock_drop(l);
	if (rc == RR_RIDE_OVER)
		goto again;
	return rc;
}

int rr_conn_poll(struct rr_conn *c, int fd, unsigned want)
{
	struct rr_share *sh = rr_conn_enter_carried(c, fd);
	int rc;

	if (unlikely(!sh))
		return other_poll(c, fd, want);
	rc = (int)carried_poll(c, fd, want);
	rr_lock_drop(&sh->lock);
	return rc;
}

bool rr_conn_peek(const struct rr_conn *c, unsigned want)
{
	uint32_t in = want & (RR_IN_BITS | POLLRDHUP) ? RR_HINT_IN | RR_HINT_BYTES : 0;
	uint32_t mask = RR_HINT_OVER | in, hint;
	const struct rr_share *sh;

	if (!rr_conn_is_carried(c))
		return false;
	sh = c->share;
	if (unlikely(rr_lock_is_stuck(&sh->lock)))
		return false;
	hint = atomic_load_explicit(&sh->hint, memory_order_relaxed);
	if (hint & RR_HINT_EARLY)
		return false;	/* what comes by TCP, memory does not show */
	if (hint & (mask | RR_HINT_LOST))
		return hint & mask;
	return sh->qp->ops->peek(sh->qp, (want & RR_OUT_BITS) ? RR_ARM_RECV | RR_ARM_SEND
							   : RR_ARM_RECV);
}

/* --- spinning ------------------------------------------------------------------------- */

/* A connection on which nothing has happened for so long is not worth looking at its peer, one
 * of a thousand perhaps. */
#define IDLE	(20 * RR_MSEC)

/* Of a peer that cannot be seen the longest is as good as any: what is behind it (a device, a
 * network) is not known either, and two ends that sleep get out of that by trials alone. */
static rr_time worth_of(const struct rr_share *sh)
{
	return sh->qp->ops->observe || !rr_cp->spin_worth ? rr_cp->spin_worth : rr_cp->spin;
}

/* What is known of the peer now. At the beginning of a wait this is kept, for what is learned
 * from it. */
static void look_at_peer(struct rr_share *sh, struct rr_spin_in *in)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	struct rr_peer_look p;
	uint32_t work;
	bool slept;

	if (!ops->observe)
		return;
	ops->observe(sh->qp, in->cpu, &p);
	in->peer_cpu = p.cpu;
	in->peer_spins = p.doing & RR_DOES_SPIN;
	if (p.doing)
		in->peer = p.doing & RR_DOES_SLEEP ? RR_PEER_SLEEPS : RR_PEER_RUNS;
	work = atomic_load_explicit(&sh->peer_work, memory_order_relaxed);
	atomic_store_explicit(&sh->peer_work, p.work, memory_order_relaxed);
	in->at_work = in->spun && (p.work != work || ops->is_copying(sh->qp));
	slept = in->peer == RR_PEER_SLEEPS;
	if (!in->spun)
		atomic_store_explicit(&sh->peer_slept, slept, memory_order_relaxed);
}

/* Longer than the bound on trial. */
static rr_time learned(struct rr_share *sh, bool first)
{
	uint32_t tries = atomic_load_explicit(&sh->tries, memory_order_relaxed);

	if (likely(!tries))
		return atomic_load_explicit(&sh->spin, memory_order_relaxed);
	if (first)
		atomic_store_explicit(&sh->tries, tries - 1, memory_order_relaxed);
	return NEAR * rr_cp->spin;
}

void rr_conn_spin(const struct rr_conn *c, struct rr_spin *s)
{
	struct rr_spin_in in = { .bound = rr_cp->spin };
	struct rr_share *sh;
	rr_time most;

	if (!rr_conn_is_carried(c))
		return;
	sh = c->share;
	if (unlikely(atomic_load_explicit(&sh->hint, memory_order_relaxed) & RR_HINT_EARLY))
		return;
	if (!s->now)
		rr_spin_look_around(s);
	/* two clocks, of which this one is some milliseconds behind */
	if (s->now > atomic_load_explicit(&sh->active, memory_order_relaxed) + IDLE)
		return;
	in.worth = worth_of(sh);
	in.spun = s->began ? s->now - s->began : 0;
	in.learned = learned(sh, !s->began);
	in.cpu = s->cpu;
	in.cpus = s->cpus;
	in.spinners = s->began ? 0 : s->spinners;
	in.crowded = s->crowded;
	in.hogged = s->hogged;
	in.just_hogged = s->just_hogged;
	look_at_peer(sh, &in);
	most = rr_spin_time(&in);
	atomic_store_explicit(&sh->spun, in.spun + most, memory_order_relaxed);
	if (most > s->want) {
		s->want = most;
		s->enough = most >= in.worth;
		s->c = c;
	} else if (!most) {
		s->yields = rr_max(s->yields, rr_spin_yields(&in));
	}
}

void rr_conn_spun(const struct rr_spin *s, bool paid)
{
	struct rr_counters *count;

	if (!s->c || !rr_conn_is_carried(s->c))
		return;
	count = s->c->share->qp->count;
	rr_count(count, RR_C_spins, 1);
	rr_count(count, RR_C_spins_paid, paid);
	rr_count(count, RR_C_spun_ns, s->now - s->began);
}

/* Two ends of which neither knows what the other does keep each other waiting for longer than
 * either would spin: by their wake-ups. Neither gets out of that alone. They have slept as
 * often, so after some such sleeps both spin for longer, a few times, and then go on as in the
 * beginning. If it was no use, twice as many sleeps have to come before the next attempt. The
 * same where the wake-ups are known, but the peer was at work: copies take longer on CPUs that
 * have slept than on those that spin. */
static bool is_time_to_try(struct rr_share *sh, rr_time slept)
{
	if (slept >= NEAR * rr_cp->spin || (++sh->near >> sh->attempts) < NEAR_MISSES)
		return false;
	sh->near = 0;
	sh->attempts += sh->attempts < ATTEMPTS;
	return true;
}

/* What of a sleep was this end's wake-up, and the peer's where it slept, too. The peer
 * is told what they take when nobody is in the way. */
static rr_time wakes(struct rr_share *sh, rr_time now, rr_time slept)
{
	const struct rr_prov_ops *ops = sh->qp->ops;
	struct rr_peer_look p;
	rr_time took;

	if (!ops->observe || sh->prov_lost)
		return 0;
	took = ops->rung(sh->qp, now);
	if (took < slept) {
		sh->woke = (uint32_t)rr_min(took, sh->woke ? sh->woke + sh->woke / 8 + 1 : took);
		ops->tell(sh->qp, RR_TELL_WOKE, sh->woke);
	} else {
		took = 0;
	}
	ops->observe(sh->qp, 0, &p);
	if (atomic_load_explicit(&sh->peer_slept, memory_order_relaxed))
		took += p.woke;
	return took;
}

/* A thread woke after sleeping. */
static void learn(struct rr_share *sh, rr_time now)
{
	rr_time slept = now - sh->armed_at;
	struct rr_spin_in in = { .bound = rr_cp->spin, .worth = worth_of(sh) };
	struct rr_spin_wait w = { 0 };
	uint32_t tries = 0;
	rr_time spin;

	if (!sh->armed_at)
		return;
	w.wakes = wakes(sh, now, slept);
	in.learned = atomic_load_explicit(&sh->spin, memory_order_relaxed);
	in.spun = w.took = slept + atomic_load_explicit(&sh->spun, memory_order_relaxed);
	look_at_peer(sh, &in);
	w.at_work = in.at_work;
	spin = rr_spin_learn(&in, &w);
	if (spin > in.learned) {
		sh->near = sh->attempts = 0;
	} else if ((!w.wakes || w.at_work) && is_time_to_try(sh, slept)) {
		spin = in.worth;
		tries = TRIES;
	}
	sh->armed_at = 0;
	atomic_store_explicit(&sh->spin, spin, memory_order_relaxed);
	atomic_store_explicit(&sh->tries, tries, memory_order_relaxed);
	rr_tell_doing(sh, RR_DOES_RUN);
}

/* --- sleeping ------------------------------------------------------------------------- */

/* Did so many messages come that the peer may have had no room for its note? */
static bool may_lack_note(const struct rr_share *sh)
{
	return !sh->rx.checked || sh->rx.since >= sh->qp->recvs / 2;
}

/* A thread sleeps on the anchor as well (rr_conn_fds()), unless it will be told of its news; an epoll set may not. */
static void look_at_anchor(struct rr_share *sh, int fd, bool thread)
{
	rr_time now = rr_now_coarse();
	bool told = rr_qp_caps(sh->qp) & RR_PROV_TELLS;

	if (sh->rx.hatched || sh->prov_lost || (told && may_lack_note(sh)) ||
	    (!thread && now - sh->rx.checked > (told ? anchor_look(sh, 0) : 0)))
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
	rr_tell_doing(sh, RR_DOES_SLEEP);
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
	if (rc == 0 && thread) {
		atomic_fetch_add_explicit(&c->sleepers, 1, memory_order_acq_rel);
		if (st == RR_S_CARRIED)
			rr_rest_begin(c, want);
	}
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

int rr_conn_watch_plain(struct rr_conn *c, int fd, unsigned want, int wake)
{
	struct rr_share *sh = rr_conn_enter_carried(c, fd);
	int rc = -EAGAIN;
	bool alone;

	if (!sh)
		return rc;
	alone = atomic_load_explicit(&sh->procs, memory_order_relaxed) == 1;
	if (alone && sh->qp->wake_fd == wake && rr_rest_may(sh)) {
		rc = arm_carried(c, fd, want, false);
		if (!rc && !rr_rest_may(sh))	/* by what it has just looked at */
			rc = -EAGAIN;
		c->watched |= !rc;
	}
	rr_lock_drop(&sh->lock);
	return rc;
}

static void drain(struct rr_share *sh)
{
	if (!sh->prov_lost && sh->qp->ops->drain(sh->qp) < 0)
		rr_drv_lost(sh);
}

void rr_conn_disarm(struct rr_conn *c, int fd)
{
	struct rr_lock *l;

	/* pairs with the acquire in listens() */
	atomic_fetch_sub_explicit(&c->sleepers, 1, memory_order_acq_rel);
	if (rr_conn_relayed(c, fd) || rr_conn_st(c) != RR_S_CARRIED || rr_conn_hold(c, &l) < 0)
		return;
	learn(c->share, rr_now());
	/* Asked under the lock, which has ended the rest: another may have gone to sleep since. */
	if (!atomic_load(&c->sleepers)) {
		drain(c->share);
		/* Nothing has come: then the anchor had something to say. */
		if (!c->share->prov_lost && !c->share->qp->ops->peek(c->share->qp, RR_ARM_RECV))
			c->share->rx.checked = 0;
		if (!c->watched && !c->share->prov_lost)
			c->share->qp->ops->disarm(c->share->qp);
	}
	rr_lock_drop(l);
}

bool rr_conn_drain(struct rr_conn *c)
{
	struct rr_lock *l;
	bool ends;

	if (rr_conn_st(c) == RR_S_LISTEN && rr_conn_hold(c, &l) >= 0) {
		rr_native_look(c, c->fd);
		rr_lock_drop(l);
		return true;
	}
	if (!rr_conn_is_carried(c) || rr_conn_hold(c, &l) < 0)
		return true;
	learn(c->share, rr_now());
	/* A thread that sleeps in poll() has yet to see the doorbell. */
	if (!atomic_load(&c->sleepers))
		drain(c->share);
	ends = !rr_conn_is_carried(c) || c->share->prov_lost || c->share->dead;
	rr_lock_drop(l);
	return ends;
}

static int carried_fds(struct rr_share *sh, int fd, unsigned want, struct pollfd out[2],
		       rr_time *until)
{
	unsigned anchor = 0;

	if (!sh->rx.fin && !sh->rx.hatched)
		anchor |= POLLIN | POLLRDHUP;
	if (sh->rx.tcp)
		anchor |= want & (RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (unlikely(sh->rx.early))
		anchor = want & (RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (sh->tx.tcp || unlikely(sh->tx.early))
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
	case RR_S_NEW: case RR_S_WATCH: case RR_S_ASKED:
		if (c->part_since)
			*until = c->part_since + RR_SEC;
		break;
	case RR_S_MEETING: case RR_S_HEARD: case RR_S_SAID:
		*until = c->deadline;
		if (!c->share || c->share->qp->wake_fd < 0)
			break;
		out[1] = (struct pollfd){ c->share->qp->wake_fd, POLLIN, 0 };
		n = 2;
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
