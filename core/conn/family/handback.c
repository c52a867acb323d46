/* SPDX-License-Identifier: BSD-3-Clause */
/* Hands a connection between two of ours back to TCP after fork(), if its provider carries it
 * for one process alone. As long as only that process, the owner, uses the connection, it stays
 * where it is. When a child wants to use it, or the owner closes what a child has, it goes back
 * to TCP, which they can all share: our direction by the hatch, and the other by asking the
 * peer for the same. What the peer still sends by RDMA the owner puts into a ring in the memory
 * that the family shares; after that, everybody reads from the kernel's socket.
 *
 * A child asks through a socket pair that was made before the fork (the door), and passes its
 * own descriptor of the anchor, because it cannot know under which number the owner has the
 * anchor, or whether it still has it. A thread of the owner, the keeper, waits at the door; one
 * more thread for each connection works until that connection is back. What the child does
 * meanwhile is in inherited.c. */

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/family/family.h"

#define WATCH	(50 * RR_MSEC)		/* poll interval, for what no descriptor reports */

/* The owner's end of the door, and the end for its children. */
static struct { int in, out; } door = { -1, -1 };

/* --- the work ----------------------------------------------------------------------------- */

/* Asks the peer first and opens the hatch then: after the hatch the peer may look for our bytes
 * on its socket only. */
static void go_back(struct rr_share *sh, int fd)
{
	struct rr_handback *h = &sh->back;

	if (!h->told && rr_rx_goes_on(sh) &&
	    rr_drv_say(sh, RR_IMM_BACK) == -EAGAIN)
		return;
	h->told = true;
	if (!rr_tx_is_tcp(sh) && !rr_tx_is_shut(sh) && !rr_link_is_lost(sh) &&
	    rr_hatch_open(sh, RR_R_FORKED))
		return;
	h->tx = !rr_tx_is_tcp(sh) || rr_hatch_flush(sh, fd) == RR_CONN_KERNEL;
}

/* Moves what has come by RDMA into the ring. */
static void pump(struct rr_share *sh, int fd)
{
	struct rr_handback *h = &sh->back;

	while (!h->rx && rr_handback_bytes(sh) < RR_RING) {
		uint32_t at = h->tail % RR_RING;
		struct iovec iov = { h->ring + at,
				     rr_min(RR_RING - rr_handback_bytes(sh), RR_RING - at) };
		ssize_t n = rr_stream_recv(sh, fd, &iov, 1, 0);

		if (n > 0) {
			h->tail += (uint32_t)n;
			rr_hint(sh, RR_HINT_IN);
		} else if (n == RR_CONN_KERNEL || n == 0) {
			/* After the hatch; or at the end of the stream, which the kernel will
			 * report. */
			h->rx = true;
		} else {
			if (n != -EAGAIN)
				sh->err = (int)-n;	/* for whichever app calls next */
			return;
		}
	}
}

/* Does whatever can be done now. fd: the anchor. */
static void step(struct rr_share *sh, int fd)
{
	rr_drv_progress(sh);
	if (!rr_link_is_dead(sh) && !sh->back.tx)
		go_back(sh, fd);
	if (!rr_link_is_dead(sh) && sh->back.reads)
		pump(sh, fd);
	if (rr_link_is_dead(sh))
		rr_anchor_break(fd);
}

/* Is the connection back on TCP, in all directions that anybody needs? */
static bool back(const struct rr_share *sh)
{
	const struct rr_handback *h = &sh->back;

	return rr_link_is_dead(sh) || (h->tx && (h->rx || !h->reads));
}

/* --- the thread --------------------------------------------------------------------------- */

/* Is nothing left to do, or nobody left to do it for? */
static bool done(struct rr_share *sh)
{
	return back(sh) || (sh->back.left && !rr_conn_procs(sh));
}

/* Does this thread alone have to listen to the doorbell? While the app's threads have the
 * connection they must hear it, too; and without room in the ring there is no point in
 * listening. */
static bool listens(const struct rr_conn *c)
{
	const struct rr_share *sh = c->share;

	return !rr_link_is_lost(sh) && !c->watched && rr_handback_bytes(sh) < RR_RING &&
	       !rr_conn_is_slept_on(c);
}

/* Closes our descriptor of the anchor. It may be the last one, and then unread bytes make the
 * close a reset, as in the kernel. */
static void let_go(struct rr_conn *c)
{
	struct rr_share *sh = c->share;

	if (c->anchor < 0)
		return;
	if (sh->back.left && !rr_conn_procs(sh) &&
	    (rr_handback_bytes(sh) || rr_rx_unread(sh)) && !rr_rx_is_shut(sh))
		rr_anchor_reset(c->anchor);
	rr_ownfd_close(c->anchor);
}

/* The thread's work is over. If the app no longer has the connection, the queue pair ends with
 * this thread's reference; before that the peer must have been told, and have fetched what it
 * has yet to fetch from us. */
static void leave_it(struct rr_conn *c)
{
	struct rr_handback *h = &c->share->back;

	let_go(c);
	h->busy = false;
	h->since = h->again = 0;
	if (h->left)
		rr_conn_settle(c, NULL);
}

/* One round. Returns how many descriptors to sleep on, or -1: it is over. */
static int do_round(struct rr_conn *c, struct pollfd p[2])
{
	struct rr_share *sh = c->share;
	int n = 0;

	rr_share_hold(sh);
	step(sh, c->anchor);
	if (done(sh)) {
		leave_it(c);
		n = -1;
	} else {
		if (rr_tx_is_tcp(sh) && !sh->back.tx)
			p[n++] = (struct pollfd){ c->anchor, POLLOUT, 0 };
		if (listens(c) && rr_drv_arm(sh, RR_ARM_RECV | RR_ARM_SEND) == 0)
			p[n++] = (struct pollfd){ sh->qp->wake_fd, POLLIN, 0 };
	}
	rr_lock_drop(&sh->lock);
	return n;
}

/* The doorbell rang. */
static void heard(struct rr_conn *c)
{
	struct rr_share *sh = c->share;

	rr_share_hold(sh);
	if (listens(c))
		rr_drv_drain(sh);
	rr_lock_drop(&sh->lock);
}

static void *run_return(void *arg)
{
	struct rr_conn *c = arg;
	rr_time since = rr_now();
	struct pollfd p[2];
	int n;

	while ((n = do_round(c, p)) >= 0) {
		rr_time wait = rr_min(rr_max(rr_now() - since, RR_MSEC), WATCH);

		if (rr_os->poll(p, (nfds_t)n, (int)(wait / RR_MSEC)) > 0)
			heard(c);
	}
	rr_conn_free(c);
	return NULL;
}

/* Starts the thread; it takes the reference that the caller has taken. anchor is ours from here
 * on. Under the lock. */
static int start(struct rr_conn *c, int anchor)
{
	int rc;

	c->anchor = anchor;
	c->share->back.busy = true;
	atomic_store_explicit(&rr_conn_forks, true, memory_order_relaxed);
	rc = rr_thread(run_return, c);
	if (!rc)
		return 0;
	c->share->back.busy = false;
	rr_warn("fd %d: no thread to take the connection back to TCP for a forked process: it "
		"is lost", c->fd);
	if (anchor >= 0)
		rr_ownfd_close(anchor);
	return rc;
}

/* --- the door ----------------------------------------------------------------------------- */

struct wanted {
	struct rr_share *sh;
	struct rr_conn *c;
};

static void find_wanted(struct rr_conn *c, void *ctx)
{
	struct wanted *w = ctx;

	if (c->share == w->sh && !w->c && rr_conn_keep(c))
		w->c = c;
}

/* A child wants the connection of sh; anchor is the descriptor that it has passed. */
static void begin_return(struct rr_share *sh, int anchor)
{
	struct wanted w = { sh, NULL };
	bool began = false;

	while (!rr_conn_each_carried(find_wanted, &w))
		rr_os_nap(RR_MSEC);
	if (w.c) {
		rr_share_hold(sh);
		if (!sh->back.busy && !back(sh)) {
			began = start(w.c, anchor) == 0;
			anchor = -1;
			if (!began)
				rr_drv_fail(sh, ECONNRESET, RR_R_FORKED);
		}
		rr_lock_drop(&sh->lock);
		if (!began)
			rr_conn_free(w.c);
	}
	if (anchor >= 0)
		rr_ownfd_close(anchor);
}

union passed {
	struct cmsghdr hdr;
	char buf[CMSG_SPACE(sizeof(int))];
};

/* The thread at the door: one message for each connection that a child wants. */
static void *keeper(void *arg)
{
	int in = (int)(intptr_t)arg;

	for (;;) {
		struct rr_share *sh = NULL;
		struct iovec iov = { &sh, sizeof(sh) };
		union passed ctl;
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf,
				    .msg_controllen = sizeof(ctl.buf) };
		ssize_t n = rr_os->recvmsg(in, &m, MSG_CMSG_CLOEXEC);
		const struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
		int fd = -1;

		if (n == 0 || (n < 0 && errno != EINTR))
			return NULL;
		if (!h || h->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(&fd, CMSG_DATA(h), sizeof(fd));
		begin_return(sh, rr_ownfd_raise(fd));
	}
}

int rr_handback_ask(struct rr_share *sh, int fd)
{
	struct iovec iov = { &sh, sizeof(sh) };
	union passed ctl = { .hdr = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
				      .cmsg_len = CMSG_LEN(sizeof(fd)) } };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf,
			    .msg_controllen = sizeof(ctl.buf) };

	memcpy(CMSG_DATA(&ctl.hdr), &fd, sizeof(fd));
	if (rr_os->sendmsg(sh->back.door, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	    errno == EAGAIN)
		return 0;
	return -errno;
}

/* Makes the door and its keeper, once in a process. False: no thread or no descriptors. */
static bool make_door(void)
{
	int fd[2];

	if (door.out >= 0)
		return true;
	if (!rr_own_spare(-1) ||
	    syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd))
		return false;
	door.in = rr_ownfd_raise(fd[0]);
	door.out = rr_ownfd_raise(fd[1]);
	if (!rr_thread(keeper, (void *)(intptr_t)door.in))
		return true;
	rr_ownfd_close(door.in);
	rr_ownfd_close(door.out);
	door.in = door.out = -1;
	return false;
}

void rr_handback_forks(struct rr_conn *c)
{
	if (make_door())
		c->share->back.door = door.out;
	else
		rr_warn("fd %d: no thread or no descriptors by which a forked process could "
			"use the connection: if one does, it is lost", c->fd);
}

/* A connection that is carried already is asked for at the door of the process that carries it;
 * this process needs a new one for its own children. */
void rr_handback_forked(void)
{
	if (door.in >= 0)
		rr_ownfd_close(door.in);
	door.in = door.out = -1;
}

/* --- the owner's app ---------------------------------------------------------------------- */

/* Ring indices run freely, so their difference is how much is there. MSG_PEEK leaves the head
 * where it is. Under the share's lock, like everything that reads or fills the ring. */
ssize_t rr_handback_take(struct rr_share *sh, const struct iovec *iov, int n, int flags)
{
	struct rr_handback *h = &sh->back;
	uint32_t head = h->head;

	for (int i = 0; i < n; i++) {
		uint8_t *to = iov[i].iov_base;
		size_t left = iov[i].iov_len;

		while (left && head != h->tail) {
			uint32_t at = head % RR_RING;
			uint32_t there = rr_min(h->tail - head, RR_RING - at);
			uint32_t len = (uint32_t)rr_min(left, (size_t)there);

			memcpy(to, h->ring + at, len);
			to += len;
			left -= len;
			head += len;
		}
	}
	n = (int)(head - h->head);
	if (!(flags & MSG_PEEK))
		h->head = head;
	return n;
}

/* If a thread is at work already, it goes on by itself. Otherwise one is started, with a
 * reference to the connection and with a descriptor of the anchor that the app does not
 * close. */
void rr_handback_leave(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	sh->back.reads = true;
	c->watched = false;
	if (sh->back.busy)
		return;
	if (back(sh)) {
		rr_conn_settle(c, NULL);
		return;
	}
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	if (start(c, fd < 0 ? -1 : rr_ownfd_dup(fd))) {
		atomic_fetch_sub_explicit(&c->refs, 1, memory_order_relaxed);
		rr_drv_fail(sh, ECONNRESET, RR_R_FORKED);
	}
}

/* Drops the lock while it waits, so the app may close or move the connection meanwhile. */
void rr_handback_exit(struct rr_conn *c, rr_time end)
{
	struct rr_share *sh = c->share;

	sh->back.reads = true;
	for (;;) {
		if (!sh->back.busy)	/* else its thread does it */
			step(sh, rr_cp->fd_of ? rr_cp->fd_of(c) : -1);
		if (back(sh) || rr_now() >= end)
			return;
		rr_lock_drop(&sh->lock);
		rr_os_nap(RR_MSEC / 4);
		rr_share_hold(sh);
	}
}
