/* SPDX-License-Identifier: BSD-3-Clause */
/* Readiness of a carried connection, and arming it for a sleep. Sleeping itself is preload's.
 * Under the connection's lock. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/outdated.h"
#include "core/conn/carried/carried.h"

/* Times between two looks at what no descriptor reports. */
#define FAMILY_LOOK	(50 * RR_MSEC)
#define FULL_LOOK	RR_SEC
#define ANCHOR_LOOK	RR_MSEC
/* The same if the wake-up fd reports the peer's end, and the app asked for that; for others an
 * earlier look serves as long as rr_is_outdated() says. */
#define TOLD_LOOK_END	(20 * RR_MSEC)

/* Has enough arrived for POLLIN: as many bytes as SO_RCVLOWAT asks for? Or can no more arrive
 * before some are read, because the peer is out of credits? TCP is readable then, too: it heeds
 * the option only up to half of its buffer. */
static bool enough(const struct rr_share *sh)
{
	uint64_t most = rr_min((uint64_t)rr_rx_lowat(sh), (uint64_t)rr_cp->max_stash);

	return rr_rx_unread(sh) >= most || (rr_rx_unread(sh) && rr_rx_is_crowded(sh));
}

static unsigned in_bits(struct rr_share *sh, int fd, unsigned told)
{
	if (unlikely(rr_handback_bytes(sh)))
		return RR_IN_BITS;
	if (unlikely(rr_rx_is_early(sh)) && !rr_link_is_dead(sh)) {
		unsigned got = rr_cross_in_bits(sh, fd, told);

		if (rr_rx_is_early(sh))
			return got;
	}
	if (!rr_rx_unread(sh) && rr_stream_next_is_tcp(sh))
		return rr_anchor_poll(fd, RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (rr_link_is_dead(sh) || rr_rx_is_reset(sh) || rr_rx_is_shut(sh) ||
	    rr_stream_is_over(sh))
		return RR_IN_BITS | POLLRDHUP;
	return enough(sh) ? RR_IN_BITS : 0;
}

/* Without the end of the anchor, which is apps_end()'s. */
static unsigned out_bits(struct rr_share *sh, int fd, unsigned told)
{
	if (unlikely(rr_tx_is_early(sh)))
		return told & RR_OUT_BITS;
	if (rr_tx_is_tcp(sh)) {
		int rc = rr_hatch_flush(sh, fd);

		return rc == -EAGAIN ? 0 : rr_anchor_poll(fd, RR_OUT_BITS) & ~(unsigned)POLLHUP;
	}
	if (rr_link_is_dead(sh) || rr_rx_is_reset(sh) || rr_tx_is_shut(sh))
		return RR_OUT_BITS;
	if (rr_link_is_lost(sh))
		return rr_stream_peer_unsure(sh) ? 0 : RR_OUT_BITS;
	return rr_eng_writable(sh->eng) && rr_stream_room(sh) ? RR_OUT_BITS : 0;
}

/* POLLOUT only means "connected" here. The dialect's opening exchange needs the peer
 * application to run, which connect() does not. */
static bool connect_waits(const struct rr_conn *c)
{
	return unlikely(c->dial_wait) && !c->dial_told;
}

/* What the kernel says of the anchor, which has the first word as long as a direction is TCP's.
 * In one look before all others: the kernel is told of the app's shutdown() after us, maybe
 * between two, and never shows POLLHUP without the bits that go with it. */
static unsigned ask_anchor(const struct rr_share *sh, int fd, unsigned want)
{
	unsigned events = 0;

	if (rr_rx_is_early(sh) && want & (RR_IN_BITS | POLLRDHUP))
		events = RR_IN_BITS | POLLRDHUP | POLLPRI;
	if (rr_tx_is_early(sh))
		events |= want & RR_OUT_BITS;
	return rr_anchor_poll(fd, events);
}

/* How the anchor has ended, as far as the app may see that. */
static unsigned apps_end(const struct rr_share *sh, int fd, unsigned told)
{
	unsigned got = told & (POLLERR | POLLHUP | POLLNVAL), hidden = 0;

	if (rr_rx_is_early(sh))
		hidden = got & POLLERR && rr_cross_is_ours(sh, fd) ? POLLERR : 0;
	else if (!rr_rx_is_tcp(sh) || !rr_tx_is_tcp(sh))
		hidden = rr_stream_is_over(sh) ? ~(unsigned)POLLHUP : ~0u;
	return got & ~hidden;
}

static unsigned bits(struct rr_conn *c, struct rr_share *sh, int fd, unsigned want)
{
	unsigned got = 0, told = 0;

	if (unlikely(rr_rx_is_early(sh) || rr_tx_is_early(sh) ||
		     (rr_rx_is_tcp(sh) && rr_tx_is_tcp(sh)))) {
		told = ask_anchor(sh, fd, want);
		got |= apps_end(sh, fd, told);
	}
	if (want & (RR_IN_BITS | POLLRDHUP))
		got |= in_bits(sh, fd, told);
	if (want & RR_OUT_BITS)
		got |= connect_waits(c) ? RR_OUT_BITS : out_bits(sh, fd, told);
	if (rr_link_is_dead(sh) || rr_rx_is_reset(sh) ||
	    (!rr_rx_is_early(sh) && rr_tx_is_shut(sh) &&
	     (rr_rx_is_shut(sh) || rr_stream_is_over(sh))))
		got |= POLLHUP;
	if (sh->err)
		got |= POLLERR;
	return got & (want | POLLERR | POLLHUP);
}

/* A living peer announces its end by a note, and a dead one's shows on the wake-up fd. */
bool rr_anchor_is_due(struct rr_share *sh, unsigned want, rr_time now)
{
	rr_time last = rr_rx_looked_at(sh), age = now - last;

	if (!(rr_qp_caps(sh->qp) & RR_PROV_TELLS) || rr_link_is_lost(sh) ||
	    rr_rx_is_marked(sh) || rr_rx_is_hatched(sh))
		return age > ANCHOR_LOOK;
	if (want & POLLRDHUP)
		return age > TOLD_LOOK_END;
	return !last || rr_is_outdated(age, &sh->look_uses);
}

unsigned rr_ready_poll(struct rr_conn *c, int fd, unsigned want)
{
	struct rr_share *sh = c->share;
	rr_time now = 0;
	unsigned got;

	if (rr_rx_unread(sh) < rr_rx_lowat(sh) || (want & RR_OUT_BITS))
		now = rr_drv_progress(sh);
	if (!now)
		now = rr_now_coarse();
	rr_hatch_answer(sh);
	got = bits(c, sh, fd, want);
	if (!got)
		rr_hint_none(sh);
	/* The peer's end must show even beside unread bytes, or room to write. */
	if (rr_anchor_is_due(sh, want, now)) {
		rr_anchor_check(sh, fd, now);
		got = bits(c, sh, fd, want);
	}
	rr_budget_count(c);
	return got;
}

/* A sleeping thread also sleeps on the anchor (rr_conn_fds()), unless news of it will be
 * reported; an epoll set may not. */
static void look_at_anchor(struct rr_share *sh, int fd, bool thread)
{
	rr_time now = rr_now_coarse();
	bool told = rr_qp_caps(sh->qp) & RR_PROV_TELLS;

	if (rr_rx_is_hatched(sh) || rr_link_is_lost(sh) || (told && rr_rx_may_lack_note(sh)) ||
	    (!thread && (told ? rr_anchor_is_due(sh, 0, now) : now > rr_rx_looked_at(sh))))
		rr_anchor_check(sh, fd, now);
}

/* Lets the provider make doorbells cheaper. A child that is being forked would not have its
 * descriptors, or others under their numbers. */
static RR_NOINLINE void ease(struct rr_conn *c, bool alone)
{
	struct rr_share *sh = c->share;
	uint32_t may = 0;

	if (rr_link_is_lost(sh) || !rr_slab_try())
		return;
	if (atomic_load_explicit(&sh->procs, memory_order_relaxed) == 1)
		may |= RR_EASE_ADD;
	if (alone && !rr_conn_is_slept_on(c))
		may |= RR_EASE_MOVE;
	rr_drv_ease(sh, may);
	rr_slab_let();
}

int rr_ready_arm(struct rr_conn *c, int fd, unsigned want, bool thread)
{
	struct rr_share *sh = c->share;
	enum rr_arm what = RR_ARM_RECV;
	rr_time now = rr_now();

	if (sh->rung)
		rr_drv_drain(sh);
	rr_drv_progress(sh);
	if (unlikely(rr_keep_is_due(sh, now)))
		rr_drv_probe(sh);
	rr_hatch_answer(sh);
	look_at_anchor(sh, fd, thread);
	if (bits(c, sh, fd, want))
		return 1;
	/* A writer that waits for memory waits for messages, but also for receives, which come
	 * back when the peer has read calls that get no reply. */
	if ((want & RR_OUT_BITS) && (!rr_eng_writable(sh->eng) || rr_stream_waits(sh)))
		what |= RR_ARM_SEND;
	if (sh->called_back)
		what |= RR_ARM_SEND;
	if (unlikely(!sh->qp->easy))
		ease(c, thread ? !c->watched : want & RR_ASK_ALONE);
	if (!rr_link_is_lost(sh) && rr_drv_arm(sh, what) == 1)
		return 1;
	sh->armed_at = now;
	rr_tell_doing(sh, RR_DOES_SLEEP);
	rr_count(sh->qp->count, RR_C_sleeps, 1);
	return 0;
}

/* See carried.h. Between a message and its answer a system call is time that somebody waits; in
 * front of a sleep nobody does. But another process may find the doorbell meanwhile. */
void rr_ready_drain(struct rr_share *sh, bool later)
{
	later &= atomic_load_explicit(&sh->procs, memory_order_relaxed) == 1;
	if (later && rr_qp_caps(sh->qp) & RR_PROV_TELLS && rr_drv_peek(sh, RR_ARM_RECV))
		sh->rung = true;
	else
		rr_drv_drain(sh);
}

void rr_ready_disarm(struct rr_conn *c, bool later)
{
	struct rr_share *sh = c->share;

	rr_ready_drain(sh, later);
	if (rr_link_is_lost(sh))
		return;
	/* If nothing has come by RDMA, the anchor had something to say. */
	if (!rr_drv_peek(sh, RR_ARM_RECV))
		rr_rx_look_again(sh);
	if (!c->watched)
		rr_drv_disarm(sh);
}

int rr_ready_fds(struct rr_share *sh, int fd, unsigned want, struct pollfd out[2],
		 rr_time *until)
{
	unsigned anchor = 0;

	/* After the app's own SHUT_RD the kernel reports both for ever. */
	if (!rr_rx_has_ended(sh) && !rr_rx_is_hatched(sh) && !rr_rx_is_shut(sh))
		anchor |= POLLIN | POLLRDHUP;
	if (rr_rx_is_tcp(sh))
		anchor |= want & (RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (unlikely(rr_rx_is_early(sh)))
		anchor = want & (RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (rr_tx_is_tcp(sh) || unlikely(rr_tx_is_early(sh)))
		anchor |= want & RR_OUT_BITS;
	*until = rr_min(rr_eng_deadline(sh->eng), rr_keep_due(sh));
	*until = rr_min(*until, rr_drv_fence_due(sh));
	/* A device that is full does not report when it no longer is. */
	if (unlikely(!rr_eng_writable(sh->eng)) && !rr_drv_direct(sh))
		*until = rr_min(*until, rr_now() + FULL_LOOK);
	if (unlikely(atomic_load_explicit(&sh->procs, memory_order_relaxed) > 1) &&
	    rr_conn_procs(sh) > 1)
		*until = rr_min(*until, rr_now() + FAMILY_LOOK);
	out[0] = (struct pollfd){ fd, (short)anchor, 0 };
	if (rr_link_is_dead(sh))	/* its wake-up fd would be readable for ever */
		return 1;
	if (rr_link_is_lost(sh)) {
		if (rr_prov_matters(sh))
			*until = rr_min(*until, rr_now() + FAMILY_LOOK);
		return 1;
	}
	out[1] = (struct pollfd){ sh->qp->wake_fd, POLLIN, 0 };
	return 2;
}
