/* SPDX-License-Identifier: BSD-3-Clause */
/* What a forked child does with a connection that only its parent, or a process before that,
 * can use: it asks that owner to go back to TCP (handback.c), and until then reads what the
 * owner puts into the ring. It never touches the queue pair. Under the connection's lock, which
 * lies in the shared memory. */

#include <errno.h>
#include <sched.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/family/family.h"

/* No descriptor reports that the owner has done something, so the child looks again after
 * this. */
#define LOOK_MOST	(50 * RR_MSEC)
#define ASK_AGAIN	(200 * RR_MSEC)
#define SHUT_MOST	RR_SEC

/* Closes the child's copies of descriptors; memory that is shared stays mapped. `changed` makes
 * whoever watches the connection look again at what to sleep on. */
void rr_inherited_begin(struct rr_conn *c)
{
	rr_carrier_close(c->share);
	atomic_store_explicit(&c->refs, 1, memory_order_relaxed);
	atomic_store_explicit(&c->face.state, RR_S_FORKED, memory_order_relaxed);
	atomic_store_explicit(&c->face.changed, true, memory_order_relaxed);
}

/* A direction that went back to TCP for another reason needs no owner any more. */
static void look_at_return(struct rr_share *sh)
{
	struct rr_handback *h = &sh->back;

	h->tx |= rr_tx_is_tcp(sh) && sh->tx.flush_off == sh->tx.flush_len;
	h->rx |= rr_stream_next_is_tcp(sh);
}

/* Can the child's call be served now? */
static bool ready(const struct rr_share *sh, bool reads)
{
	const struct rr_handback *h = &sh->back;

	return rr_link_is_dead(sh) || (reads ? h->rx || rr_handback_bytes(sh) : h->tx);
}

/* There is no owner any more, or it cannot hear us: the connection is lost. */
static void lost(struct rr_conn *c, int fd)
{
	rr_who_warn(fd, c->st,
		    ": %s, and the one that carried it is gone: the connection is lost",
		    rr_reason_text(RR_R_FORKED));
	rr_drv_fail(c->share, ECONNRESET, RR_R_FORKED);
	rr_anchor_break(fd);
}

/* Asks the owner, unless that was done a moment ago. reads: the child wants to read. */
static void ask(struct rr_conn *c, int fd, bool reads)
{
	struct rr_handback *h = &c->share->back;
	rr_time now;

	h->reads |= reads;
	look_at_return(c->share);
	if (ready(c->share, reads))
		return;
	now = rr_now();
	if (h->since && now < h->again)
		return;
	if (!h->since)
		h->since = now;
	h->again = now + ASK_AGAIN;
	if (h->door < 0 || rr_handback_ask(c->share, fd) ||
	    (!rr_lock_is_mixed(&c->share->lock) && rr_pid_is_dead(h->owner)))
		lost(c, fd);
}

/* Waits for the owner, with the lock dropped meanwhile. */
static void await(struct rr_share *sh, bool reads, rr_time most)
{
	rr_time start = rr_now();

	while (!ready(sh, reads) && rr_now() - start < most) {
		rr_lock_drop(&sh->lock);
		if (most > RR_BRIEF)
			rr_os_nap(100 * RR_USEC);
		else
			sched_yield();
		rr_share_hold(sh);
	}
}

/* Is everything back? Then from here on it is like any TCP connection of this process. */
static bool home(struct rr_conn *c)
{
	struct rr_share *sh = c->share;

	if (!sh->back.tx || !sh->back.rx || rr_handback_bytes(sh))
		return false;
	rr_conn_leave(sh);
	atomic_store_explicit(&c->face.relayed, true, memory_order_release);
	rr_conn_set_changed(c);
	return true;
}

/* First what the owner has put into the ring, in its order; when that is read and the way back
 * is complete, the kernel's bytes follow. */
ssize_t rr_inherited_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_share *sh = c->share;

	ask(c, fd, true);
	if (rr_handback_bytes(sh))
		return rr_handback_take(sh, iov, n, flags);
	if (home(c) || sh->back.rx)
		return RR_CONN_KERNEL;
	if (sh->err)
		return -rr_stream_error(sh);
	return rr_link_is_dead(sh) ? 0 : -EAGAIN;
}

/* The child writes to the kernel's socket only when everything that the owner had accepted has
 * gone. The wait is short, because the app's call may be a non-blocking one. */
ssize_t rr_inherited_send(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	ask(c, fd, false);
	await(sh, false, RR_BRIEF);
	if (home(c) || sh->back.tx)
		return RR_CONN_KERNEL;
	if (sh->err)
		return -rr_stream_error(sh);
	return rr_link_is_dead(sh) ? -EPIPE : -EAGAIN;
}

/* A direction that is not back yet is not ready, except for bytes in the ring. */
int rr_inherited_poll(struct rr_conn *c, int fd, unsigned want)
{
	struct rr_share *sh = c->share;
	const unsigned in = RR_IN_BITS | POLLRDHUP | POLLPRI;
	unsigned got = 0;

	if (want & (in | RR_OUT_BITS))
		ask(c, fd, want & in);
	if (home(c))
		return RR_CONN_KERNEL;
	if (rr_handback_bytes(sh))
		got |= RR_IN_BITS;
	else if (sh->back.rx)
		got |= rr_anchor_poll(fd, want & in);
	if (sh->back.tx)
		got |= rr_anchor_poll(fd, want & RR_OUT_BITS);
	if (rr_link_is_dead(sh))
		got |= RR_IN_BITS | RR_OUT_BITS | POLLRDHUP | POLLHUP | (sh->err ? POLLERR : 0);
	return (int)(got & (want | POLLERR | POLLHUP));
}

int rr_inherited_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
		     rr_time *until)
{
	const struct rr_handback *h = &c->share->back;
	rr_time now = rr_now();
	unsigned events = 0;

	if (h->rx)
		events |= want & (RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (h->tx)
		events |= want & RR_OUT_BITS;
	out[0] = (struct pollfd){ fd, (short)events, 0 };
	if (want & RR_IN_BITS && rr_handback_bytes(c->share))
		/* Bytes that came since the app last looked: the kernel cannot report them. */
		*until = now + RR_MSEC;
	else if (!h->rx || !h->tx)
		*until = now + rr_min(rr_max(h->since ? now - h->since : 0, RR_MSEC),
				      LOOK_MOST);
	return 1;
}

int rr_inherited_inq(struct rr_conn *c, int fd)
{
	ask(c, fd, true);
	if (home(c))
		return RR_CONN_KERNEL;
	return (int)rr_handback_bytes(c->share);
}

/* A FIN before the owner's bytes have gone would cut them off, so this waits for the way back.
 * If the owner does not manage in time, the connection ends. */
int rr_inherited_shutdown(struct rr_conn *c, int fd, bool rd, bool wr)
{
	struct rr_share *sh = c->share;

	if (rd)
		rr_rx_shut(sh);
	if (!wr)
		return 0;
	ask(c, fd, false);
	await(sh, false, SHUT_MOST);
	if (sh->back.tx)
		return 0;
	if (!rr_link_is_dead(sh))
		lost(c, fd);
	return -ECONNRESET;
}

/* Unread bytes make the last close a reset, as in the kernel. */
void rr_inherited_close(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	if (!rr_conn_leave(sh) && fd >= 0 && !rr_rx_is_shut(sh) && rr_handback_bytes(sh))
		rr_anchor_reset(fd);
}
