/* SPDX-License-Identifier: BSD-3-Clause */
/* A native connection and fork(). Its queue pair is this process's and can be no other's; but
 * the app's socket is a TCP socket, connected to us, which parent and child share as any other.
 * So that carries the bytes as soon as a child wants to (it writes; or it is about to read, and
 * says so by an urgent byte, which is no part of the stream), or the parent closes its own. A
 * thread of the parent's, which waits for that from the fork on, takes them from there to the
 * queue pair and back (relaying.c).
 *
 * Of the app's end the far one sees a FIN, whether it is shut down or closed. In the latter
 * case it is made to send a reset behind that (TCP_LINGER2): so a process may say that it
 * writes no more, and another reads on.
 *
 * Once the thread has taken over, the connection is the kernel's for the app. */

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
	atomic_store_explicit(&c->relayed, true, memory_order_relaxed);
	atomic_store_explicit(&c->refs, 1, memory_order_relaxed);
	atomic_store_explicit(&c->state, RR_S_RELAYED, memory_order_relaxed);
	rr_carrier_free(c->share);
	c->share = NULL;
	return true;
}

bool rr_relay_take_over(struct rr_conn *c)
{
	if (!rr_relay_may(c))
		return false;
	c->share->relayed = true;
	atomic_store_explicit(&c->relayed, true, memory_order_release);
	atomic_store_explicit(&c->changed, true, memory_order_release);
	return true;
}

/* What another process has done already counts before what this one is about to do. */
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
	if (!c->relay || rr_conn_is_tcp(c))
		return false;
	atomic_store_explicit(&c->relayed, true, memory_order_release);
	rr_os->send(fd, "", 1, MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}
