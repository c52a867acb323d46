/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: making and ending them, their options; and the entrance of every call (which lock,
 * which state). */

#include "core/conn/conn.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/conn_int.h"
#include "core/conn/who.h"
#include "core/conn/when.h"

void rr_conn_setup(const struct rr_conn_params *p)
{
	rr_cp = p;
	rr_prov_plugins(p->verbs);
	rr_prov_at_exit(rr_conn_exit);
}

/* --- making --------------------------------------------------------------------------- */

/* The rule for it. The kernel is asked who the ends are where there are any. */
static RR_NOINLINE enum rr_mode mode_of(bool server, int fd, const struct sockaddr *peer)
{
	struct sockaddr_storage local = { 0 }, remote = { 0 };
	socklen_t llen = sizeof(local), rlen = sizeof(remote);

	if (rr_cp->alike)
		return rr_cp->mode(server, NULL, NULL);
	rr_os->getsockname(fd, (struct sockaddr *)&local, &llen);
	if (server) {
		rr_os->getpeername(fd, (struct sockaddr *)&remote, &rlen);
		peer = (struct sockaddr *)&remote;
	}
	return rr_cp->mode(server, (struct sockaddr *)&local, peer);
}

struct rr_conn *rr_conn_make(bool server, int fd, const struct sockaddr *peer, socklen_t len)
{
	enum rr_mode mode;
	struct rr_conn *c;

	if (!rr_cp)
		return NULL;
	if (server)
		rr_half_expire(rr_now());
	mode = mode_of(server, fd, peer);
	c = mode == RR_MODE_TCP ? NULL : rr_slab_get(server, fd);
	if (!c) {
		rr_stats_tcp(rr_cp->stats ? rr_cp->stats() : NULL,
			     mode == RR_MODE_TCP ? RR_R_POLICY : RR_R_NO_MEMORY);
		return NULL;
	}
	c->require = mode == RR_MODE_REQUIRE;
	if (!server) {
		c->peer_len = rr_min(len, (socklen_t)sizeof(c->peer));
		memcpy(&c->peer, peer, c->peer_len);
	}
	rr_report_open(c, fd);
	atomic_store_explicit(&c->state, RR_S_NEW, memory_order_release);
	return c;
}

struct rr_conn *rr_conn_client(int fd, const struct sockaddr *peer, socklen_t len)
{
	if (!peer || len < sizeof(struct sockaddr_in) ||
	    (peer->sa_family != AF_INET && peer->sa_family != AF_INET6))
		return NULL;
	return rr_conn_make(false, fd, peer, len);
}

struct rr_conn *rr_conn_server(int fd)
{
	return rr_conn_make(true, fd, NULL, 0);
}

/* --- the entrance of every call --------------------------------------------------------- */

/* A process of the family died inside: what it left may be half done, and is not looked at. */
static void owner_died(struct rr_conn *c)
{
	struct rr_share *sh = c->share;

	if (rr_conn_st(c) != RR_S_CARRIED && rr_conn_st(c) != RR_S_FORKED)
		return;
	sh->back.head = sh->back.tail;
	sh->rx.head = sh->rx.tail;
	sh->rx.off = 0;
	sh->rx.bytes = 0;
	sh->tx.buf = RR_BUF_NONE;
	sh->tx.flush_len = sh->tx.flush_off = 0;
	rr_drv_fail(sh, ECONNRESET, RR_R_INTERNAL);
	rr_anchor_break(c->fd);
}

void rr_share_hold(struct rr_share *sh)
{
	int rc;

	while ((rc = rr_lock_take(&sh->lock)) == -EBUSY)
		rr_os_nap(RR_MSEC);
	if (rc == -EOWNERDEAD)
		rr_drv_fail(sh, ECONNRESET, RR_R_INTERNAL);
}

int rr_conn_hold(struct rr_conn *c, struct rr_lock **l)
{
	for (;;) {
		enum rr_conn_st st = rr_conn_st(c);
		int rc;

		*l = st == RR_S_CARRIED || st == RR_S_FORKED ? &c->share->lock : &c->lock;
		rc = rr_lock_take(*l);
		if (rc == -EDEADLK || rc == -EBUSY)
			return rc;
		if (rr_conn_st(c) == st) {
			if (unlikely(atomic_load_explicit(&c->rest, memory_order_relaxed)))
				rr_rest_end(c);
			if (rc == -EOWNERDEAD)
				owner_died(c);
			return (int)st;
		}
		rr_lock_drop(*l);
	}
}

/* An upgrade that another process of the family has begun is not ours to finish. */
static bool not_ours(const struct rr_conn *c, int st)
{
	return (st == RR_S_OFFERED || st == RR_S_JOINING || st == RR_S_ANSWERED ||
		st == RR_S_TAKEN || st == RR_S_DIALING) &&
	       c->owner != (int32_t)rr_pid();
}

int rr_conn_enter(struct rr_conn *c, int fd, struct rr_lock **l)
{
	if (unlikely(fd >= 0 && fd != atomic_load_explicit(&c->fd, memory_order_relaxed)))
		atomic_store_explicit(&c->fd, fd, memory_order_relaxed);
	for (;;) {
		int st = rr_conn_hold(c, l);

		if (st < 0 || st == RR_S_CARRIED || st == RR_S_TCP || st == RR_S_REFUSED ||
		    st == RR_S_LISTEN || st == RR_S_RELAYED || st == RR_S_FORKED)
			return st;
		if (not_ours(c, st)) {
			rr_lock_drop(*l);
			return -ECONNRESET;
		}
		if (rr_conn_rides((enum rr_conn_st)st) && c->owner != (int32_t)rr_pid())
			rr_ride_orphan(c);
		rr_upgrade_step(c, fd);
		if (rr_conn_st(c) != RR_S_CARRIED)
			return (int)rr_conn_st(c);
		rr_lock_drop(*l);	/* it is another lock now */
	}
}

static int refused(const struct rr_conn *c)
{
	return c->server ? -ECONNABORTED : -ECONNREFUSED;
}

static ssize_t carried_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_share *sh = c->share;
	ssize_t rc = unlikely(rr_handback_bytes(sh)) ? rr_handback_take(sh, iov, n, flags) :
						       rr_stream_recv(sh, fd, iov, n, flags);

	rr_budget_count(c);
	return rc;
}

/* What of ours was in the way is gone: as much more as is there, but no error and no end, which are the next call's. */
static RR_NOINLINE ssize_t recv_on(struct rr_conn *c, int fd, const struct iovec *iov, int n, size_t done)
{
	struct iovec rest[16];
	int there = rr_conn_inq(c, fd);
	ssize_t more = 0;

	n = rr_track_cut(iov, n, done, SIZE_MAX, rest, 16);
	if (n && (there == RR_CONN_KERNEL ? rr_ride_queued(fd) > 0 : there > 0)) {
		more = rr_conn_recv(c, fd, rest, n, 0);
		if (more == RR_CONN_KERNEL)
			more = rr_ride_kernel_recv(fd, rest, n, 0, SIZE_MAX, 0);
	}
	return (ssize_t)done + rr_max(more, (ssize_t)0);
}

static RR_NOINLINE ssize_t other_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_lock *l;
	size_t done;
	ssize_t rc;
	int st;

	rr_relay_see(c, fd);
	if (rr_conn_relayed(c, fd))
		rr_relay_ask(c, fd);
	if (rr_conn_st(c) == RR_S_TCP || rr_conn_relayed(c, fd))
		return RR_CONN_KERNEL;
again:
	st = rr_conn_enter(c, fd, &l);
	switch (st) {
	case RR_S_CARRIED:
		rc = carried_recv(c, fd, iov, n, flags);
		break;
	case RR_S_FORKED:
		rc = rr_inherited_recv(c, fd, iov, n, flags);
		break;
	case RR_S_TCP: case RR_S_LISTEN:
		rc = RR_CONN_KERNEL;
		break;
	case RR_S_WATCH: case RR_S_ASKED: case RR_S_SWALLOW:
	case RR_S_MEETING: case RR_S_HEARD: case RR_S_SAID:
		rc = rr_ride_recv(c, fd, iov, n, flags, &done);
		if (rc != RR_RIDE_OVER)
			break;
		rr_lock_drop(l);
		if (!done)
			goto again;
		return recv_on(c, fd, iov, n, done);
	case RR_S_NEW:
		rc = rr_upgrade_first_read(c, fd);
		break;
	case RR_S_REFUSED:
		rc = refused(c);
		break;
	case -ECONNRESET: case -EDEADLK:
		return st;
	case -EBUSY:
		return -EAGAIN;
	default:
		rc = -EAGAIN;
	}
	rr_lock_drop(l);
	return rc;
}

ssize_t rr_conn_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_share *sh = rr_conn_enter_carried(c, fd);
	ssize_t rc;

	if (unlikely(!sh))
		return other_recv(c, fd, iov, n, flags);
	rc = carried_recv(c, fd, iov, n, flags);
	rr_lock_drop(&sh->lock);
	return rc;
}

static ssize_t carried_send(struct rr_conn *c, int fd, const struct iovec *iov, int n)
{
	ssize_t rc = rr_stream_send(c->share, fd, iov, n);

	rr_budget_count(c);
	return rc;
}

static RR_NOINLINE ssize_t other_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_lock *l;
	ssize_t rc;
	int st = (int)rr_conn_st(c);

	rr_relay_see(c, fd);
	if (st == RR_S_TCP || rr_conn_relayed(c, fd))
		return RR_CONN_KERNEL;
	st = rr_conn_enter(c, fd, &l);
	if (st == RR_S_NEW && !c->server && rr_cp->offer_after != RR_AFTER_WAIT) {
		rc = rr_ride_first(c, fd, iov, n, flags);
		if (rc != RR_RIDE_OVER) {
			rr_lock_drop(l);
			return rc;
		}
	}
	if (st == RR_S_NEW) {
		rc = rr_upgrade_first_write(c, fd, iov, n);
		if (rc) {
			rr_lock_drop(l);
			return rc;
		}
		st = (int)rr_conn_st(c);
		if (st == RR_S_CARRIED) {
			rr_lock_drop(l);
			st = rr_conn_hold(c, &l);
		}
	}
	switch (st) {
	case RR_S_CARRIED:
		rc = carried_send(c, fd, iov, n);
		break;
	case RR_S_FORKED:
		rc = rr_inherited_send(c, fd);
		break;
	case RR_S_WATCH: case RR_S_ASKED: case RR_S_MEETING: case RR_S_HEARD: case RR_S_SAID:
		rc = rr_ride_send(c, fd, iov, n, flags);
		break;
	case RR_S_NEW: case RR_S_TCP: case RR_S_SWALLOW: case RR_S_LISTEN:
		rc = RR_CONN_KERNEL;
		break;
	case RR_S_REFUSED:
		rc = refused(c);
		break;
	case -ECONNRESET: case -EDEADLK:
		return st;
	case -EBUSY:
		return -EAGAIN;
	default:
		rc = -EAGAIN;
	}
	rr_lock_drop(l);
	return rc;
}

/* MSG_OOB is the wrapper's; the other flags do not matter here. */
ssize_t rr_conn_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_share *sh = rr_conn_enter_carried(c, fd);
	ssize_t rc;

	if (unlikely(!sh))
		return other_send(c, fd, iov, n, flags);
	rc = carried_send(c, fd, iov, n);
	rr_lock_drop(&sh->lock);
	return rc;
}

bool rr_conn_let_go(struct rr_conn *c)
{
	struct rr_lock *l;
	int st;

	if (rr_conn_relayed(c, 0))
		return true;
	st = rr_conn_hold(c, &l);
	if (st < 0)
		return false;
	if (st == RR_S_NEW)
		rr_conn_become(c, RR_S_TCP, RR_R_KERNEL_ONLY);
	else if (rr_conn_rides((enum rr_conn_st)st))
		rr_ride_let_go(c);
	rr_lock_drop(l);
	return rr_conn_is_tcp(c) || st == RR_S_LISTEN;
}

int rr_conn_inq(struct rr_conn *c, int fd)
{
	struct rr_lock *l;
	int st, rc;

	rr_relay_see(c, fd);
	if (rr_conn_st(c) == RR_S_TCP || rr_conn_relayed(c, fd))
		return RR_CONN_KERNEL;
again:
	rc = RR_CONN_KERNEL;
	st = rr_conn_enter(c, fd, &l);
	if (st < 0)
		return st == -EBUSY ? 0 : st;
	if (st == RR_S_CARRIED) {
		struct rr_share *sh = c->share;
		int early = sh->rx.early ? rr_cross_inq(sh, fd) : RR_CROSSED;

		rr_drv_progress(sh);
		if (early != RR_CROSSED)
			rc = early;
		else if (!sh->rx.tcp || rr_handback_bytes(sh))
			rc = (int)rr_min(sh->rx.bytes + rr_handback_bytes(sh), (uint64_t)INT32_MAX);
	} else if (st == RR_S_FORKED) {
		rc = rr_inherited_inq(c, fd);
	} else if (rr_conn_looks_on((enum rr_conn_st)st)) {
		rc = rr_ride_inq(c, fd);
	} else if (st != RR_S_NEW && st != RR_S_TCP && st != RR_S_LISTEN) {
		rc = 0;
	}
	rr_lock_drop(l);
	if (rc == RR_RIDE_OVER)
		goto again;
	return rc;
}

int rr_conn_take_error(struct rr_conn *c)
{
	struct rr_lock *l;
	int rc = RR_CONN_KERNEL;
	bool ours;

	if (rr_conn_st(c) == RR_S_REFUSED && c->dial_err) {
		rc = c->dial_err;
		c->dial_err = 0;
		return rc;
	}
	if (rr_conn_looks_on(rr_conn_st(c))) {
		socklen_t len = sizeof(rc);

		if (c->kept)
			return rr_ride_error(c);
		return rr_os->getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &rc, &len) ? RR_CONN_KERNEL : rc;
	}
	ours = rr_conn_is_carried(c) || (rr_conn_st(c) == RR_S_FORKED && !rr_conn_relayed(c, 0));
	if (!ours || rr_conn_hold(c, &l) < 0)
		return RR_CONN_KERNEL;
	if (c->share->rx.early)
		rr_cross_error(c->share, c->fd);
	/* Behind both ends the anchor's own error is what our end mark brought about. */
	if (c->share->dead || c->share->err || c->share->rx.early ||
	    (c->share->tx.shut && c->share->rx.fin)) {
		rc = c->share->err;
		c->share->err = 0;
	}
	rr_lock_drop(l);
	return rc;
}

void rr_conn_keep_error(struct rr_conn *c, int err)
{
	struct rr_lock *l;
	int st = rr_conn_hold(c, &l);

	if (st < 0)
		return;
	if (st == RR_S_CARRIED || st == RR_S_FORKED)
		c->share->err = err;
	else if (rr_conn_looks_on((enum rr_conn_st)st))
		c->kept = err;
	rr_lock_drop(l);
}

bool rr_conn_getopt(struct rr_conn *c, int level, int name, void *val, socklen_t *len)
{
	enum rr_conn_st st = rr_conn_st(c);
	bool hides = level == SOL_SOCKET && name == SO_RCVLOWAT && c->lowat_set;
	int own = c->lowat;

	if (!val || !len)
		return false;
	if (st == RR_S_CARRIED || st == RR_S_FORKED)
		hides |= rr_keep_hides(c->share, level, name, &own);
	if (!hides)
		return false;
	*len = rr_min(*len, (socklen_t)sizeof(own));
	memcpy(val, &own, *len);
	return true;
}

bool rr_conn_setopt(struct rr_conn *c, int level, int name, const void *val, socklen_t len)
{
	if (level != SOL_SOCKET || name != SO_RCVLOWAT || len < sizeof(int))
		return false;
	memcpy(&c->lowat, val, sizeof(int));
	c->lowat = rr_max(c->lowat, 1);
	return c->lowat_set;
}

void rr_conn_opt_set(struct rr_conn *c, int fd, int level, int name)
{
	struct rr_lock *l;

	if (!rr_keep_cares(level, name))
		return;
	if ((rr_conn_st(c) != RR_S_CARRIED && rr_conn_st(c) != RR_S_FORKED) || rr_conn_hold(c, &l) < 0)
		return;
	if (rr_conn_st(c) == RR_S_CARRIED)
		rr_keep_learn(c->share, fd);
	if (rr_conn_st(c) == RR_S_CARRIED || rr_conn_st(c) == RR_S_FORKED)
		rr_keep_set(c->share, fd, level, name);
	rr_lock_drop(l);
}

/* --- end ------------------------------------------------------------------------------ */

/* Has it said so to the peer? */
static bool shut_carried(struct rr_share *sh, int fd, bool rd, bool wr)
{
	bool told;

	rr_anchor_check(sh, fd, rr_now_coarse());
	told = wr && !sh->reset && rr_anchor_mark(sh, fd);
	if (rd)
		sh->rx.shut = true;
	rr_hint(sh, RR_HINT_IN | (wr ? RR_HINT_OVER : 0u));	/* no news for who still writes */
	return told;
}

int rr_conn_shutdown(struct rr_conn *c, int fd, int how)
{
	bool rd = how == SHUT_RD || how == SHUT_RDWR, wr = how == SHUT_WR || how == SHUT_RDWR;
	struct rr_lock *l;
	int st, rc = 0;

	rr_relay_see(c, fd);
	if (rr_conn_st(c) == RR_S_TCP || rr_conn_relayed(c, fd))
		return RR_CONN_KERNEL;
	st = rr_conn_enter(c, fd, &l);
	if (st == -EBUSY)	/* nothing can be said beforehand: a bare end */
		return RR_CONN_KERNEL;
	if (st < 0)
		return st;
	if (st == RR_S_CARRIED) {
		rc = shut_carried(c->share, fd, rd, wr);
		if (rd)
			rr_rest_rouse(c);
	} else if (st == RR_S_FORKED) {
		rc = rr_inherited_shutdown(c, fd, rd, wr);
	} else if (st == RR_S_LISTEN && rd) {	/* the kernel's listens no more */
		rr_native_close(c);
	} else if (st == RR_S_NEW) {	/* half a connection is not worth an upgrade */
		rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
	}
	c->shut_rd |= rd;
	c->shut_wr |= wr;
	rr_lock_drop(l);
	return rc;
}

static void disconnect(struct rr_share *sh)
{
	sh->qp->ops->disconnect(sh->qp);
}

static void is_reused(struct rr_share *sh)
{
	rr_drv_fail(sh, EBADF, RR_R_REUSED);
}

/* The last process closes: the peer hears how many records there were, or a reset if what it
 * sent was not read (RFC 2525 §2.17: as the kernel does) or the connection had failed. */
static void close_carried(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	sh->back.left = true;	/* a thread may be at it */
	if (rr_conn_leave(sh)) {
		if (!rr_conn_shareable(sh))
			rr_handback_leave(c, fd);
		return;
	}
	rr_drv_progress(sh);
	if (sh->dead || sh->rx.bytes || rr_handback_bytes(sh)) {
		rr_anchor_reset(fd);
		rr_anchor_note(sh);
	} else {
		rr_anchor_mark(sh, fd);
		rr_conn_settle(c, disconnect);
		return;
	}
	disconnect(sh);
}

/* Under its lock: once. What was taken apart is closed some day, too. */
static bool leaves(struct rr_conn *c)
{
	bool had = !c->left;

	c->left = true;
	return had;
}

/* Without its lock, which a process has that does not go on: that one is left with it, and ends it. */
static void leave_stuck(struct rr_conn *c)
{
	if (leaves(c))
		rr_conn_leave(c->share);
}

void rr_conn_close(struct rr_conn *c, int fd)
{
	struct rr_lock *l;
	int st;

	if (rr_conn_relayed(c, fd) || rr_relay_takes(c, fd))
		return;
	st = rr_conn_hold(c, &l);
	/* The client may have joined, and sent what nobody has read. */
	if (st == RR_S_SAID && rr_ride_joined(c)) {
		rr_lock_drop(l);
		st = rr_conn_hold(c, &l);
	}
	if (st == -EBUSY)
		leave_stuck(c);
	if (st < 0)
		return;
	rr_ride_end(c);
	if (!leaves(c))
		st = RR_S_TCP;
	if (st == RR_S_CARRIED)
		close_carried(c, fd);
	else if (st == RR_S_FORKED)
		rr_inherited_close(c, fd);
	else if (st == RR_S_LISTEN)
		rr_native_close(c);
	rr_lock_drop(l);
}

void rr_conn_vanished(struct rr_conn *c)
{
	struct rr_lock *l;
	int st;

	atomic_store_explicit(&c->fd, -1, memory_order_relaxed);
	if (rr_conn_relayed(c, 0))
		return;
	st = rr_conn_hold(c, &l);
	if (st == -EBUSY)
		leave_stuck(c);
	if (st < 0)
		return;
	if (!leaves(c))
		st = RR_S_TCP;
	if (st == RR_S_CARRIED) {
		struct rr_share *sh = c->share;

		sh->back.left = true;
		if (rr_conn_leave(sh)) {
			if (!rr_conn_shareable(sh))
				rr_handback_leave(c, -1);
		} else {
			rr_conn_settle(c, is_reused);
		}
	} else if (st == RR_S_FORKED) {
		rr_inherited_close(c, -1);
	} else if (st == RR_S_LISTEN) {
		rr_native_close(c);
	} else if (st == RR_S_DIALING) {
		rr_share_free(c->share);
		c->share = NULL;
		rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
	}
	rr_lock_drop(l);
}
