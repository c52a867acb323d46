/* SPDX-License-Identifier: BSD-3-Clause */
/* Carried, but not crossed yet: calls go on by TCP, each direction until it crosses, which is
 * at the end of a record. Its first message by RDMA says how many records have gone by TCP
 * before it; who receives it delivers those, and then what comes by RDMA. Nothing is said in
 * the TCP stream, and calls may be outstanding meanwhile. The connecting side crosses first.
 *
 * A direction that has not crossed is TCP's in all: how it ends, and what is an error. Under
 * the connection's lock. */

#include <errno.h>
#include <string.h>
#include <linux/tcp.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/carried/carried.h"

#define PIECES		16
#define GRACE		(100 * RR_MSEC)	/* as in anchor.c */

void rr_cross_begin(struct rr_share *sh, const struct rr_conn *c)
{
	sh->tx.early = sh->rx.early = true;
	sh->tx.before = c->out;
	sh->rx.before = c->in;
	sh->rx.most = 0;
	rr_hint(sh, RR_HINT_EARLY);
}

static void rx_is_over(struct rr_share *sh)
{
	sh->rx.early = false;
	atomic_store_explicit(&sh->hint,
			      (sh->hint & ~(uint32_t)(RR_HINT_EARLY | RR_HINT_AHEAD)) |
				      RR_HINT_IN,
			      memory_order_relaxed);
}

bool rr_cross_never(struct rr_share *sh)
{
	if (!sh->tx.early || !sh->rx.early || sh->rx.told ||
	    !(sh->prov_lost || sh->ep.connector))
		return false;
	sh->tx.early = false;
	sh->tx.tcp = true;
	rx_is_over(sh);
	sh->rx.hatched = sh->rx.tcp = true;
	rr_report_share(sh, RR_CS_DRAINING,
			sh->prov_lost ? RR_R_PEER_CHOSE_TCP : RR_R_KERNEL_ONLY);
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
		return rc == -EAGAIN ? rc : -ECONNRESET;
	tx->early = false;
	rr_hint(sh, RR_HINT_AHEAD);
	rr_count(sh->qp->count, RR_C_crossings, 1);
	rr_debug(RR_WHO ": the outbound direction crosses after %u records",
		 RR_WHO_OF(atomic_load_explicit(&sh->st->fd, memory_order_relaxed), sh->st),
		 tx->before.records);
	return 0;
}

/* Now, with the record that begins in iov? Not with one that would have to go back at once. */
static bool crosses(struct rr_share *sh, int fd, const struct iovec *iov, int n)
{
	uint8_t mark[RR_RM_HDR];

	if (!rr_track_at_boundary(&sh->tx.before) || sh->prov_lost || sh->tx.shut ||
	    !(sh->ep.connector || sh->rx.told) || !rr_eng_writable(sh->eng))
		return false;
	if (rr_iov_copy(mark, sizeof(mark), iov, n, 0) < sizeof(mark) ||
	    rr_rm_len(mark) > sh->ep.max_msg)
		return false;
	/* Of a peer that is gone the kernel has more to say. */
	return !(rr_anchor_poll(fd, 0) & (POLLERR | POLLHUP)) && rr_cross_now(sh) == 0;
}

ssize_t rr_cross_send(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags)
{
	ssize_t rc;

	rr_drv_progress(sh);
	if (sh->dead)
		return -EPIPE;
	if (sh->prov_lost && rr_cross_never(sh))
		return RR_CONN_KERNEL;
	/* The kernel would tell of an error that the peer's end mark has brought about. */
	if (sh->tx.shut) {
		rr_cross_error(sh, fd);
		return sh->err ? -rr_stream_error(sh) : -EPIPE;
	}
	if (crosses(sh, fd, iov, n))
		return RR_CROSSED;
	rc = rr_ride_kernel_send(fd, iov, n, flags);
	if (rc > 0)
		rr_track_over(&sh->tx.before, iov, n, (size_t)rc);
	return rc;
}

/* --- inbound ------------------------------------------------------------------------------ */

static bool is_over(struct rr_share *sh)
{
	struct rr_rx *rx = &sh->rx;

	if (!rr_track_at_boundary(&rx->before) || !rx->told || rx->before.records != rx->until)
		return false;
	rx_is_over(sh);
	return true;
}

/* The next bytes on the anchor, where a record begins: are they the end mark of who has
 * crossed? That says so by RDMA before; between two hosts it may arrive after. */
static bool is_mark(const struct rr_share *sh, const uint8_t *p, size_t n)
{
	return memcmp(p, sh->token, rr_min(n, (size_t)RR_TOKEN_LEN)) == 0;
}

/* 0: by TCP, at most rx->most bytes; 1 all of that was read; -EAGAIN nothing is there; another
 * -errno, of the kernel's, once. */
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

/* Where nobody reads: what is pending of an error stays so. */
static int next_only(struct rr_share *sh, int fd)
{
	if (rr_ride_queued(fd))
		return next(sh, fd);
	rr_drv_progress(sh);
	return is_over(sh) ? 1 : -EAGAIN;
}

static void count_early(struct rr_share *sh, const struct iovec *iov, int n, size_t done,
			size_t got)
{
	struct iovec cut[PIECES];

	rr_track_over(&sh->rx.before, cut, rr_iov_cut(iov, n, done, got, cut, PIECES), got);
	sh->rx.most = 0;
	is_over(sh);
}

/* Bytes in the kernel's queue that are the app's. The last ones may be the end mark. */
static size_t apps_bytes(const struct rr_share *sh, int fd)
{
	size_t queued = rr_ride_queued(fd);
	uint8_t mark[RR_MARK_LEN];

	if (queued < RR_MARK_LEN || !sh->rx.told)
		return queued;
	if (rr_ride_peek_at(fd, queued - RR_MARK_LEN, mark, sizeof(mark)) == RR_MARK_LEN &&
	    !memcmp(mark, sh->token, RR_TOKEN_LEN))
		queued -= RR_MARK_LEN;
	return queued;
}

static ssize_t ended(struct rr_share *sh, int fd, ssize_t rc)
{
	if (rc == 0)
		sh->rx.fin = true;
	else if (rc != -EAGAIN && rc != -EINTR)
		sh->reset = sh->rx.fin = true;
	else if (sh->prov_lost)
		rr_cross_check(sh, fd, rr_now_coarse());
	if (!sh->rx.early)
		return RR_CROSSED;
	/* What rr_cross_error() has had from the kernel; EPIPE is for who writes. */
	return sh->err && sh->err != EPIPE ? -rr_stream_error(sh) : rc;
}

/* As much as is there by TCP. *done: so many bytes; behind them, if it says so, come those by
 * RDMA. */
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
			got = rr_ride_kernel_recv(fd, iov, n, 0, SIZE_MAX, flags);
			return got < 0 || !rr_ride_queued(fd) ? ended(sh, fd, got) : 0;
		}
		if (flags & MSG_PEEK) {
			got = rr_ride_kernel_recv(fd, iov, n, 0,
						  rr_max(apps_bytes(sh, fd), (size_t)1),
						  MSG_PEEK);
			*done = got > 0 ? (size_t)got : 0;
			return got > 0 ? (sh->rx.told ? RR_CROSSED : got) : ended(sh, fd, got);
		}
		asked = rr_min(sh->rx.most ? sh->rx.most : SIZE_MAX, total - *done);
		got = rr_ride_kernel_recv(fd, iov, n, *done, asked, 0);
		if (got <= 0)
			return *done ? (ssize_t)*done : ended(sh, fd, got);
		count_early(sh, iov, n, *done, (size_t)got);
		*done += (size_t)got;
		if (!sh->rx.early)
			return RR_CROSSED;
	} while (*done < total && (size_t)got == asked && rr_ride_queued(fd));
	return (ssize_t)*done;
}

/* The kernel's bits for this direction, but for what is not the app's. Errors are looked for
 * beside it. */
unsigned rr_cross_in_bits(struct rr_share *sh, int fd)
{
	int rc = next_only(sh, fd);
	unsigned got;
	size_t n;

	if (rc == 1)
		return 0;	/* the caller looks again */
	got = rr_anchor_poll(fd, RR_IN_BITS | POLLRDHUP | POLLPRI);
	if (unlikely(sh->rx.lowat > 1) && sh->rx.told && (n = apps_bytes(sh, fd)) &&
	    n + sh->rx.bytes >= sh->rx.lowat)
		got |= RR_IN_BITS;
	if (rc < 0 && !(got & (POLLRDHUP | POLLHUP | POLLERR)))
		got &= ~(unsigned)RR_IN_BITS;
	return got & ~(unsigned)POLLERR;
}

int rr_cross_inq(struct rr_share *sh, int fd)
{
	size_t n;

	if (next_only(sh, fd) == 1)
		return RR_CROSSED;
	n = apps_bytes(sh, fd);
	return (int)rr_min(sh->rx.told ? n + sh->rx.bytes : n, (size_t)INT32_MAX);
}

/* --- loss --------------------------------------------------------------------------------- */

static bool fin_came(const struct rr_share *sh, int fd)
{
	struct tcp_info i;

	return !rr_ride_info(fd, &i) || rr_ride_unread(&i, &sh->rx.before, fd) > 0;
}

bool rr_cross_is_ours(const struct rr_share *sh, int fd)
{
	if (!sh->tx.shut)
		return false;
	return (sh->rx.shut && sh->rx.told) || (!sh->tx.early && fin_came(sh, fd));
}

void rr_cross_error(struct rr_share *sh, int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (rr_os->getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) || !err ||
	    rr_cross_is_ours(sh, fd))
		return;
	sh->reset = sh->rx.fin = true;
	if (!sh->err)
		sh->err = err;
}

/* Is the provider's end gone? Then what has not crossed never will: TCP says what has become of
 * the peer. Who has crossed, and sees neither bytes nor an end there for a while, has lost
 * it. */
void rr_cross_check(struct rr_share *sh, int fd, rr_time now)
{
	struct pollfd p[2] = { { fd, POLLIN | POLLRDHUP, 0 },
			       { sh->qp->wake_fd, POLLRDHUP, 0 } };
	bool any;

	if (sh->dead)
		return;
	any = rr_os->poll(p, 2, 0) > 0;
	if (any && p[1].revents)
		rr_drv_drain(sh);
	if (any && p[0].revents & POLLERR && !sh->tx.early)
		rr_cross_error(sh, fd);
	if (!sh->prov_lost)
		return;
	rr_drv_progress(sh);
	if (rr_cross_never(sh))
		return;
	if (p[0].revents)
		sh->rx.more = true;
	else if (!sh->tx.early && !sh->tx.tcp && now - sh->prov_lost_at > GRACE) {
		rr_drv_fail(sh, ECONNRESET, RR_R_PEER_DIED);
		rr_anchor_break(fd);
	}
}
