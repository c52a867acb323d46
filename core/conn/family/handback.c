/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of two of ours that a provider carries for one process alone, and fork(). As
 * long as nobody but that process, the owner, uses it, it stays where it is. When a child wants
 * to, or the owner closes what a child has, it goes back to TCP, which all of them share: by
 * the hatch in our direction, and by asking the peer for the same in its own. What the peer
 * sends by RDMA meanwhile the owner puts into a ring in memory that the family shares; behind
 * that, the kernel's socket goes on.
 *
 * A child asks by a socket pair that was made before the fork (the door), and hands over its
 * descriptor of the anchor: by which number the owner has that, or whether it still does,
 * nobody knows. A thread of the owner's, the keeper, waits there; one more for each connection
 * is at work until it is back. */

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/family/family.h"

#define WATCH	(50 * RR_MSEC)		/* for what no descriptor tells */
/* as at close(): for long replies that the peer has to fetch */
#define UNPULLED (2 * RR_SEC)

/* The owner's end of the door, and its children's. */
static struct { int in, out; } door = { -1, -1 };

/* --- the work ----------------------------------------------------------------------------- */

/* First the question, then the hatch: behind that the peer may look for our bytes on its socket
 * only. */
static void go_back(struct rr_share *sh, int fd)
{
	struct rr_handback *h = &sh->back;

	if (!h->told && rr_rx_goes_on(sh) &&
	    rr_drv_say(sh, RR_IMM_BACK) == -EAGAIN)
		return;
	h->told = true;
	if (!sh->tx.tcp && !sh->tx.shut && !sh->prov_lost && rr_hatch_open(sh, RR_R_FORKED))
		return;
	h->tx = !sh->tx.tcp || rr_hatch_flush(sh, fd) == RR_CONN_KERNEL;
}

/* What has come by RDMA, into the ring. */
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
			/* behind the hatch; or at the end, as the kernel will say */
			h->rx = true;
		} else {
			if (n != -EAGAIN)
				sh->err = (int)-n;	/* whose app calls next hears of it */
			return;
		}
	}
}

/* What can be done now. */
static void step(struct rr_share *sh, int fd)
{
	rr_drv_progress(sh);
	if (!sh->dead && !sh->back.tx)
		go_back(sh, fd);
	if (!sh->dead && sh->back.reads)
		pump(sh, fd);
	if (sh->dead)
		rr_anchor_break(fd);
}

static bool back(const struct rr_share *sh)
{
	const struct rr_handback *h = &sh->back;

	return sh->dead || (h->tx && (h->rx || !h->reads));
}

/* --- the thread --------------------------------------------------------------------------- */

/* Nothing more to do for it? What the peer has yet to fetch from us holds up the end of a
 * connection that the app has closed. */
static bool done(struct rr_share *sh, rr_time since)
{
	if (sh->back.left && !rr_conn_procs(sh))
		return true;
	return back(sh) && (!sh->back.left || sh->dead || sh->prov_lost ||
			    !rr_conn_unread(sh) || rr_now() - since > UNPULLED);
}

/* Does the doorbell ring for us alone? The app's threads must hear it too, while it has the
 * connection; and who has no room does not listen. */
static bool listens(const struct rr_conn *c)
{
	const struct rr_share *sh = c->share;

	return !sh->prov_lost && !c->watched && rr_handback_bytes(sh) < RR_RING &&
	       !atomic_load_explicit(&c->sleepers, memory_order_acquire);
}

/* The connection's last descriptor may be ours, and what nobody has read is a reset, as in the
 * kernel. */
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

/* One round: how many descriptors to sleep on, or -1 it is over. */
static int do_round(struct rr_conn *c, rr_time since, struct pollfd p[2])
{
	struct rr_share *sh = c->share;
	int n = 0;

	rr_share_hold(sh);
	step(sh, c->anchor);
	if (done(sh, since)) {
		let_go(c);
		sh->back.busy = false;
		sh->back.since = sh->back.again = 0;
		n = -1;
	} else {
		if (sh->tx.tcp && !sh->back.tx)
			p[n++] = (struct pollfd){ c->anchor, POLLOUT, 0 };
		if (listens(c) && rr_drv_arm(sh, RR_ARM_RECV | RR_ARM_SEND) == 0)
			p[n++] = (struct pollfd){ sh->qp->wake_fd, POLLIN, 0 };
	}
	rr_lock_drop(&sh->lock);
	return n;
}

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

	while ((n = do_round(c, since, p)) >= 0) {
		rr_time wait = rr_min(rr_max(rr_now() - since, RR_MSEC), WATCH);

		if (rr_os->poll(p, (nfds_t)n, (int)(wait / RR_MSEC)) > 0)
			heard(c);
	}
	rr_conn_free(c);
	return NULL;
}

/* Under its lock. anchor is ours from here on; the thread has a reference, which is counted
 * already. */
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
	rr_warn("fd %d: no thread for a connection that is forked", c->fd);
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

/* A child wants sh, whose anchor this is. */
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
		rr_warn("fd %d: children cannot use it: no thread, or no descriptors", c->fd);
}

/* What is carried already is asked for at the door that there was. */
void rr_handback_forked(void)
{
	if (door.in >= 0)
		rr_ownfd_close(door.in);
	door.in = door.out = -1;
}

/* --- the owner's app ---------------------------------------------------------------------- */

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

/* The app may close or move it meanwhile. */
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
