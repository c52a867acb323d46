/* SPDX-License-Identifier: BSD-3-Clause */
/* A carried connection that has not crossed yet. Calls go on by TCP, in each direction until it
 * crosses, at the end of a record. The first RDMA message of a direction says how many records
 * have gone by TCP before it; the receiver delivers those first, and then what comes by RDMA.
 * Nothing is added to the TCP stream for this, and calls may be outstanding. The connecting
 * side crosses first.
 *
 * A direction that has not crossed is TCP's in every respect, including its end and its errors.
 * After the crossing stream.c takes over. Under the connection's lock. */

#include <errno.h>
#include <string.h>
#include <linux/tcp.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/carried/carried.h"

#define GRACE		(100 * RR_MSEC)	/* as in anchor.c */

void rr_cross_begin(struct rr_share *sh, const struct rr_conn *c)
{
	rr_ways_are_early(sh);
	sh->tx.before = c->out;
	sh->rx.before = c->in;
	sh->rx.most = 0;
	rr_hint(sh, RR_HINT_EARLY);
	rr_rx_look(sh, rr_now_coarse());	/* both ends of it were in use just now */
}

/* The app has read everything that came by TCP before the crossing. */
static void hint_not_early(struct rr_share *sh)
{
	atomic_store_explicit(&sh->hint,
			      (sh->hint & ~(uint32_t)(RR_HINT_EARLY | RR_HINT_AHEAD)) |
				      RR_HINT_IN,
			      memory_order_relaxed);
}

bool rr_cross_never(struct rr_share *sh)
{
	if (!rr_tx_is_early(sh) || !rr_rx_is_uncrossed(sh) ||
	    !(rr_link_is_lost(sh) || sh->ep.connector))
		return false;
	rr_ways_stay_tcp(sh);
	hint_not_early(sh);
	rr_report_share(sh, RR_CS_DRAINING,
			rr_link_is_lost(sh) ? RR_R_PEER_CHOSE_TCP : RR_R_KERNEL_ONLY);
	return true;
}

/* --- outbound ----------------------------------------------------------------------------- */

int rr_cross_now(struct rr_share *sh)
{
	struct rr_tx *tx = &sh->tx;
	int rc;

	if (!rr_track_at_boundary(&tx->before))
		return -EAGAIN;
	rc = rr_drv_say(sh, RR_IMM_CROSS | (tx->before.records & RR_CROSS_COUNT));
	if (rc < 0)
		return rc;
	rr_way_out_crossed(sh);
	rr_hint(sh, RR_HINT_AHEAD);
	rr_count(sh->qp->count, RR_C_crossings, 1);
	rr_who_debug(atomic_load_explicit(&sh->st->fd, memory_order_relaxed), sh->st,
		     ": the outbound direction crosses after %u records", tx->before.records);
	return 0;
}

/* Can the outbound direction cross now, with the record that begins in iov? Not with a record
 * that would have to go back to TCP at once. */
static bool crosses(struct rr_share *sh, int fd, const struct iovec *iov, int n)
{
	uint8_t mark[RR_RM_HDR];

	if (!rr_track_at_boundary(&sh->tx.before) || rr_link_is_lost(sh) ||
	    (rr_rx_is_uncrossed(sh) && !sh->ep.connector) || !rr_eng_writable(sh->eng))
		return false;
	if (rr_iov_copy(mark, sizeof(mark), iov, n, 0) < sizeof(mark) ||
	    rr_rm_len(mark) > sh->ep.max_msg)
		return false;
	/* Of a peer that is gone the kernel has more to report. */
	return !(rr_anchor_poll(fd, 0) & (POLLERR | POLLHUP)) && rr_cross_now(sh) == 0;
}

ssize_t rr_cross_send(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags)
{
	ssize_t rc;

	rr_drv_progress(sh);
	if (rr_link_is_dead(sh))
		return -EPIPE;
	if (rr_link_is_lost(sh) && rr_cross_never(sh))
		return RR_CONN_KERNEL;
	/* The kernel would report an error that the peer's end mark has caused, so it is not
	 * asked. */
	if (rr_tx_is_shut(sh)) {
		rr_cross_error(sh, fd);
		return sh->err ? -rr_stream_error(sh) : -EPIPE;
	}
	if (crosses(sh, fd, iov, n))
		return RR_CROSSED;
	rc = rr_queue_send(fd, iov, n, flags);
	if (rc > 0)
		rr_track_over(&sh->tx.before, iov, n, (size_t)rc);
	return rc;
}

/* --- inbound ------------------------------------------------------------------------------ */

/* Has the app read all records from before the crossing? Then marks the direction as
 * crossed. */
static bool is_over(struct rr_share *sh)
{
	struct rr_rx *rx = &sh->rx;

	if (!rr_track_at_boundary(&rx->before) || rr_rx_is_uncrossed(sh) ||
	    rx->before.records != rx->until)
		return false;
	rr_way_in_crossed(sh);
	hint_not_early(sh);
	return true;
}

/* Are the next bytes on the anchor, at the end of a record, the end mark of a peer that has
 * crossed? The peer announces its crossing by RDMA before, but between two hosts that may
 * arrive later. */
static bool is_mark(const struct rr_share *sh, const uint8_t *p, size_t n)
{
	return memcmp(p, sh->token, rr_min(n, (size_t)RR_TOKEN_LEN)) == 0;
}

/* What comes next. 0: at most rx->most bytes by TCP; 1: everything by TCP was read; -EAGAIN:
 * there is nothing; or another -errno of the kernel, which is reported once. */
static int next(struct rr_share *sh, int fd)
{
	struct rr_rx *rx = &sh->rx;
	uint8_t head[RR_MARK_LEN];
	ssize_t n;

	rr_drv_progress(sh);
	if (is_over(sh))
		return 1;
	if (!rr_track_at_boundary(&rx->before)) {
		rx->most = rr_track_most(&rx->before, NULL, 0);
		return 0;
	}
	if (rx->most)
		return 0;
	n = rr_os->recv(fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	if (n > 0 && is_mark(sh, head, (size_t)n)) {
		rr_drv_progress(sh);
		return is_over(sh) ? 1 : -EAGAIN;
	}
	if (n > 0)
		rx->most = rr_track_most(&rx->before, head, (size_t)n);
	return n < 0 ? -errno : 0;
}

/* The same for a caller that does not read, so a pending error must stay pending. bytes: there
 * are some in the queue. */
static int next_only(struct rr_share *sh, int fd, bool bytes)
{
	if (bytes)
		return next(sh, fd);
	rr_drv_progress(sh);
	return is_over(sh) ? 1 : -EAGAIN;
}

static void count_early(struct rr_share *sh, const struct iovec *iov, int n, size_t done,
			size_t got)
{
	struct iovec cut[RR_IOV_CUT];

	rr_track_over(&sh->rx.before, cut, rr_iov_cut(iov, n, done, got, cut, RR_IOV_CUT), got);
	sh->rx.most = 0;
	is_over(sh);
}

/* How many bytes in the kernel's queue are the app's: the last ones may be the end mark. */
static size_t apps_bytes(const struct rr_share *sh, int fd)
{
	size_t queued = rr_queue_bytes(fd);
	uint8_t mark[RR_MARK_LEN];

	if (queued < RR_MARK_LEN || rr_rx_is_uncrossed(sh))
		return queued;
	if (rr_queue_peek_at(fd, queued - RR_MARK_LEN, mark, sizeof(mark)) == RR_MARK_LEN &&
	    !memcmp(mark, sh->token, RR_TOKEN_LEN))
		queued -= RR_MARK_LEN;
	return queued;
}

/* The kernel has returned rc instead of bytes: notes an end or an error, and returns what the
 * app is to be told. */
static ssize_t ended(struct rr_share *sh, int fd, ssize_t rc)
{
	if (rc == 0)
		rr_way_in_fin(sh);
	else if (rc != -EAGAIN && rc != -EINTR)
		rr_way_in_reset(sh);
	else if (rr_link_is_lost(sh))
		rr_cross_check(sh, fd, rr_now_coarse());
	if (!rr_rx_is_early(sh))
		return RR_CROSSED;
	/* The error that rr_cross_error() took from the kernel. EPIPE is for writers only. */
	return sh->err && sh->err != EPIPE ? -rr_stream_error(sh) : rc;
}

/* Reads as much as there is by TCP. *done: how many bytes; if RR_CROSSED is returned, those
 * that follow come by RDMA. */
ssize_t rr_cross_recv(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags,
		      size_t *done)
{
	size_t total = rr_iov_total(iov, n), asked;
	ssize_t got;
	int rc;

	*done = 0;
	do {
		rc = next(sh, fd);
		if (rc == 1)
			return RR_CROSSED;
		if (rc < 0)
			return *done ? (ssize_t)*done : ended(sh, fd, rc);
		if (!total) {
			got = rr_queue_recv(fd, iov, n, 0, SIZE_MAX, flags);
			return got < 0 || !rr_queue_bytes(fd) ? ended(sh, fd, got) : 0;
		}
		if (flags & MSG_PEEK) {
			got = rr_queue_recv(fd, iov, n, 0,
					    rr_max(apps_bytes(sh, fd), (size_t)1), MSG_PEEK);
			*done = got > 0 ? (size_t)got : 0;
			return got > 0 ? (rr_rx_is_uncrossed(sh) ? got : RR_CROSSED) :
					 ended(sh, fd, got);
		}
		asked = rr_min(sh->rx.most ? sh->rx.most : SIZE_MAX, total - *done);
		got = rr_queue_recv(fd, iov, n, *done, asked, 0);
		if (got <= 0)
			return *done ? (ssize_t)*done : ended(sh, fd, got);
		count_early(sh, iov, n, *done, (size_t)got);
		*done += (size_t)got;
		if (!rr_rx_is_early(sh))
			return RR_CROSSED;
	} while (*done < total && (size_t)got == asked && rr_queue_bytes(fd));
	return (ssize_t)*done;
}

/* Are there bytes in the queue? The kernel says POLLIN of its end, too, and not of fewer bytes
 * than SO_RCVLOWAT. */
static bool has_bytes(const struct rr_share *sh, int fd, unsigned told)
{
	if (told & (POLLRDHUP | POLLHUP | POLLERR) || sh->rx.lowat > 1)
		return rr_queue_bytes(fd);
	return told & POLLIN;
}

unsigned rr_cross_in_bits(struct rr_share *sh, int fd, unsigned told)
{
	unsigned got = told & (RR_IN_BITS | POLLRDHUP | POLLPRI | POLLHUP);
	int rc = next_only(sh, fd, has_bytes(sh, fd, told));
	size_t n;

	if (rc == 1)
		return 0;	/* the caller looks again */
	if (unlikely(sh->rx.lowat > 1) && !rr_rx_is_uncrossed(sh) &&
	    (n = apps_bytes(sh, fd)) && n + sh->rx.bytes >= sh->rx.lowat)
		got |= RR_IN_BITS;
	if (rc < 0 && !(told & (POLLRDHUP | POLLHUP | POLLERR)))
		got &= ~(unsigned)RR_IN_BITS;
	return got;
}

int rr_cross_inq(struct rr_share *sh, int fd)
{
	size_t n;

	if (next_only(sh, fd, rr_queue_bytes(fd)) == 1)
		return RR_CROSSED;
	n = apps_bytes(sh, fd);
	return (int)rr_min(rr_rx_is_uncrossed(sh) ? n : n + sh->rx.bytes, (size_t)INT32_MAX);
}

/* --- loss --------------------------------------------------------------------------------- */

static bool fin_came(const struct rr_share *sh, int fd)
{
	struct tcp_info i;

	return !rr_queue_info(fd, &i) || rr_queue_unread(&i, &sh->rx.before, fd) > 0;
}

bool rr_cross_is_ours(const struct rr_share *sh, int fd)
{
	if (!rr_tx_is_shut(sh))
		return false;
	return (rr_rx_is_shut(sh) && !rr_rx_is_uncrossed(sh)) ||
	       (!rr_tx_is_early(sh) && fin_came(sh, fd));
}

void rr_cross_error(struct rr_share *sh, int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (rr_os->getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) || !err ||
	    rr_cross_is_ours(sh, fd))
		return;
	rr_way_in_reset(sh);
	if (!sh->err)
		sh->err = err;
}

/* Looks for the end of a peer. If the provider's peer is gone, a direction that has not crossed
 * never will, and TCP tells what has become of the peer. If our direction has crossed and
 * neither bytes nor an end show on TCP for a while, the connection is lost. */
void rr_cross_check(struct rr_share *sh, int fd, rr_time now)
{
	struct pollfd p[2] = { { fd, POLLIN | POLLRDHUP, 0 },
			       { rr_qp_end_fd(sh->qp), POLLRDHUP, 0 } };
	bool any;

	if (rr_link_is_dead(sh))
		return;
	any = rr_os->poll(p, 2, 0) > 0;
	if (any && p[1].revents)
		rr_drv_drain(sh);
	if (any && p[0].revents & POLLERR && !rr_tx_is_early(sh))
		rr_cross_error(sh, fd);
	if (!rr_link_is_lost(sh))
		return;
	rr_drv_progress(sh);
	if (rr_cross_never(sh))
		return;
	if (p[0].revents)
		rr_link_has_more(sh);
	else if (!rr_tx_is_early(sh) && !rr_tx_is_tcp(sh) && now - sh->lost_at > GRACE) {
		rr_drv_fail(sh, ECONNRESET, RR_R_PEER_DIED);
		rr_anchor_break(fd);
	}
}
