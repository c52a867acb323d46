/* SPDX-License-Identifier: BSD-3-Clause */
/* A native connection and fork(). Its queue pair belongs to this process and cannot be shared.
 * But the app's socket is a TCP socket connected to ourselves, which parent and child share as
 * any other. So that socket carries the bytes as soon as a child wants to use the connection
 * (it writes, or it is about to read and says so by an urgent byte, which is not part of the
 * stream), or when the parent closes its own descriptor. A thread of the parent, which waits
 * for that from the fork on, moves the bytes between the socket and the queue pair
 * (core/conn/relaying.c).
 *
 * The far end sees a FIN both when the app's end is shut down and when it is closed. If it was
 * closed, the far end gets a reset after the FIN (TCP_LINGER2): this distinguishes a process
 * that has finished writing, while another reads on.
 *
 * Once the thread has taken over, the connection is the kernel's as far as the app is
 * concerned. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/family/family.h"

bool rr_relay_may(const struct rr_conn *c)
{
	enum rr_conn_st st = rr_conn_st(c);

	return (st == RR_S_TAKEN || st == RR_S_CARRIED) && c->share->qp->native &&
	       !(rr_qp_caps(c->share->qp) & RR_PROV_FAMILY);
}

bool rr_relay_forked(struct rr_conn *c)
{
	if (!rr_relay_may(c))
		return false;
	atomic_store_explicit(&c->face.relayed, true, memory_order_relaxed);
	atomic_store_explicit(&c->refs, 1, memory_order_relaxed);
	atomic_store_explicit(&c->face.state, RR_S_RELAYED, memory_order_relaxed);
	rr_carrier_free(c->share);
	c->share = NULL;
	return true;
}

bool rr_relay_take_over(struct rr_conn *c)
{
	if (!rr_relay_may(c))
		return false;
	c->share->relayed = true;
	atomic_store_explicit(&c->face.relayed, true, memory_order_release);
	rr_conn_set_changed(c);
	return true;
}

/* What another process has done already comes before what this one is about to do. */
void rr_relay_look(struct rr_conn *c)
{
	struct rr_lock *l;

	if (rr_conn_relayed(c, 0) || rr_conn_hold(c, &l) < 0)
		return;
	if (c->share && c->share->far >= 0 && rr_anchor_poll(c->share->far, RR_RELAY_WANTED))
		rr_relay_take_over(c);
	rr_lock_drop(l);
}

void rr_relay_ask(struct rr_conn *c, int fd)
{
	if (c->relay_asked || rr_conn_st(c) != RR_S_RELAYED)
		return;
	c->relay_asked = true;
	rr_os->send(fd, "", 1, MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool rr_relay_takes(struct rr_conn *c, int fd)
{
	if (rr_conn_relayed(c, fd))
		return true;
	if (!c->relay || rr_conn_is_tcp(c))
		return false;
	atomic_store_explicit(&c->face.relayed, true, memory_order_release);
	rr_os->send(fd, "", 1, MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}
