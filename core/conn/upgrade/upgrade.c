/* SPDX-License-Identifier: BSD-3-Clause */
/* What both sides of the upgrade have in common. The client offers at the app's first write
 * (offer.c), the server answers (answer.c), and the client decides; docs/PROTOCOL.md tells the
 * whole story. All of it runs under the connection's private lock, and nothing waits longer
 * than a moment. */

#include <errno.h>
#include <linux/tcp.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

#define HOLD_MAX	(100 * RR_MSEC)

/* That nobody has stopped them is believed for a tick of the clock: a look is one into the file
 * system. */
bool rr_upgrade_stopped(void)
{
	static _Atomic rr_time looked;
	rr_time now = rr_now_coarse();

	if (!rr_cp->stopped || atomic_load_explicit(&looked, memory_order_relaxed) == now)
		return false;
	if (rr_cp->stopped())
		return true;
	atomic_store_explicit(&looked, now, memory_order_relaxed);
	return false;
}

bool rr_upgrade_spoken(int fd)
{
	struct tcp_info info;

	return rr_queue_info(fd, &info) && info.tcpi_bytes_sent > 0;
}

static bool sleeps_in_kernel(struct rr_conn *c)
{
	return rr_conn_is_slept_on(c) || rr_plainwait_has(c);
}

/* A thread that goes to sleep after rr_upgrade_waits() has found none has met the lock, which
 * is held since then, and looks again by itself. */
bool rr_upgrade_unseen(struct rr_conn *c)
{
	return c->hold_until && sleeps_in_kernel(c);
}

/* See upgrade.h. The sleepers have HOLD_MAX to wake up. After that the caller goes on, and
 * rr_upgrade_unseen() tells it whether some still sleep. */
bool rr_upgrade_waits(struct rr_conn *c)
{
	rr_time now;

	if (!sleeps_in_kernel(c)) {
		c->hold_until = 0;
		return false;
	}
	now = rr_now();
	if (!c->hold_until)
		c->hold_until = now + HOLD_MAX;
	return now < c->hold_until;
}

/* See upgrade.h. */
bool rr_upgrade_leaves_bell(struct rr_conn *c)
{
	struct pollfd p = { c->share->qp->wake_fd, POLLIN, 0 };

	if (p.fd < 0 || !rr_conn_is_slept_on(c)) {
		c->hold_until = 0;
		return false;
	}
	return rr_os->poll(&p, 1, 0) == 0 || rr_upgrade_waits(c);
}

void rr_upgrade_fails(struct rr_conn *c, enum rr_reason why)
{
	rr_carrier_free(c->share);
	c->share = NULL;
	rr_conn_become(c, RR_S_TCP, why);
}

/* req: reliable-reply-00 - #10 */
void rr_upgrade_agree(struct rr_share *sh, const struct rr_hello *h, enum rr_dialect dialect)
{
	struct rr_eng_params *ep = &sh->ep;

	ep->dialect = dialect;
	ep->caps = h->caps & rr_own_caps();
	ep->no_fallback = true;
	ep->patient = ep->caps & RR_CAP_HATCH;	/* a peer with a hatch has the library */
	if (ep->caps & RR_CAP_RELIABLE_REPLY)
		ep->caps |= RR_CAP_REVERSE_CHUNKS;
	if (!(rr_qp_caps(sh->qp) & RR_PROV_RING))
		ep->caps &= ~(uint32_t)RR_CAP_RING_CREDITS;
	if (!rr_drv_direct(sh))
		ep->caps &= ~(uint32_t)RR_CAP_ADVANCES;
	ep->credits = rr_max(rr_min(ep->credits, h->credits), 1u);
	ep->bc_credits = rr_max(rr_min(ep->bc_credits, h->bc_credits), 1u);
	ep->max_msg = rr_max(rr_min(ep->max_msg, h->max_msg), 1024u);
}

/* Under the connection's lock. The engine and the driver begin here with what was agreed on;
 * from rr_conn_become() on the app's calls find a carried connection. What the app has shut
 * before counts for the new way as well. */
void rr_upgrade_carry(struct rr_conn *c)
{
	struct rr_share *sh = c->share;
	rr_time now = rr_now_coarse();

	rr_pool_init(&sh->pool, &sh->tables->pool, sh->qp->mem, sh->qp->mem_size);
	sh->ep.connector = !c->face.server;
	sh->ep.inline_send = sh->qp->send_size;
	sh->ep.inline_recv = sh->qp->recv_size;
	sh->ep.inline_peer = sh->qp->peer_send;
	sh->ep.invalidate = sh->qp->peer_inv;
	sh->ep.invited = sh->qp->own_inv;
	if (!(rr_qp_caps(sh->qp) & RR_PROV_RING)) {
		/* The device's limit. How much of that the peer can receive is for the engine
		 * to know. */
		sh->ep.inline_send_max = sh->qp->recv_size;
		sh->qp->send_size = rr_max(sh->qp->send_size, sh->qp->recv_size);
	}
	sh->ep.recvs = rr_min(sh->ep.recvs, sh->qp->recvs);
	if (!(sh->ep.caps & RR_CAP_RING_CREDITS))
		rr_eng_fit(&sh->ep, sh->qp->recvs);
	sh->ep.max_msg = (uint32_t)rr_min((size_t)sh->ep.max_msg, sh->qp->mem_size / 2);
	/* On a DIRECT provider pulls complete within the call. */
	sh->delays = !rr_drv_direct(sh) || rr_eng_delays(sh->ep.dialect);
	sh->seg = c->seg;
	sh->st = c->st;
	sh->qp->count = sh->ep.count = rr_stats_counters(c->st);
	sh->eng = rr_eng_init(sh->eng, &sh->ep, now);
	rr_drv_begin(sh, now);
	/* Who sleeps on sleeps for want of a CPU, on the wake-up fd: the peer is to ring. */
	if (unlikely(rr_conn_is_slept_on(c)))
		rr_drv_arm(sh, RR_ARM_RECV | RR_ARM_SEND);
	if (!c->face.server)
		sh->peer = c->peer;
	rr_keep_anchor(sh, c->fd);
	if (c->shut_rd)
		rr_rx_shut(sh);
	if (c->shut_wr)
		rr_way_out_shut(sh);
	if (rr_conn_rides(rr_conn_st(c)))
		rr_cross_begin(sh, c);
	rr_count(sh->qp->count, RR_C_upgraded, 1);
	sh->index = c->index;
	rr_idle_wake(sh, now);
	rr_budget_carry(c);
	rr_conn_become(c, RR_S_CARRIED, RR_R_NONE);
}
