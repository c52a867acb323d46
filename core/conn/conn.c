/* SPDX-License-Identifier: BSD-3-Clause */
/* The entrance of every call of the app: which lock, which state. What a state does with the
 * call is in kinds.c. */

#include "core/conn/conn.h"

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/kinds.h"

void rr_conn_setup(const struct rr_conn_params *p)
{
	rr_cp = p;
	rr_prov_plugins(p->verbs);
	rr_prov_at_exit(rr_conn_exit);
}

/* --- the entrance of every call --------------------------------------------------------- */

/* Kept out of rr_conn_enter_told(), so that only upgrades need its stack. */
static RR_NOINLINE int go_on(struct rr_conn *c, int fd, bool told, const struct rr_kind *k)
{
	if (k->foreign && c->owner != (int32_t)rr_pid())
		return k->foreign(c);
	if (k->by_bell && rr_upgrade_leaves_bell(c))
		return 0;
	(told && k->told ? k->told : k->step)(c, fd);
	return 0;
}

int rr_conn_enter_told(struct rr_conn *c, int fd, bool told, struct rr_lock **l)
{
	if (unlikely(fd >= 0 && fd != atomic_load_explicit(&c->fd, memory_order_relaxed)))
		atomic_store_explicit(&c->fd, fd, memory_order_relaxed);
	for (;;) {
		int st = rr_conn_hold_apps(c, fd, l), rc;

		if (st < 0 || !rr_kinds[st]->step)
			return st;
		rc = go_on(c, fd, told, rr_kinds[st]);
		if (rc) {
			rr_lock_drop(*l);
			return rc;
		}
		st = (int)rr_conn_st(c);
		if (!rr_conn_is_shared((enum rr_conn_st)st))
			return st;
		rr_lock_drop(*l);	/* it is another lock now */
	}
}

/* The result of a read or write in a state that has no function for it. */
static int otherwise(const struct rr_kind *k)
{
	return k->kernels ? RR_CONN_KERNEL : -EAGAIN;
}

/* A read has removed bytes of ours that were in the way, after `done` bytes of the app's. Reads
 * on as far as there is something, but leaves errors and the end to the next call. */
static RR_NOINLINE ssize_t recv_on(struct rr_conn *c, int fd, const struct iovec *iov, int n,
				   size_t done)
{
	struct iovec rest[RR_IOV_CUT];
	int there = rr_conn_inq(c, fd);
	ssize_t more = 0;

	n = rr_iov_cut(iov, n, done, SIZE_MAX, rest, RR_IOV_CUT);
	if (n && (there == RR_CONN_KERNEL ? rr_queue_bytes(fd) > 0 : there > 0)) {
		more = rr_conn_recv(c, fd, rest, n, 0);
		if (more == RR_CONN_KERNEL)
			more = rr_queue_recv(fd, rest, n, 0, SIZE_MAX, 0);
	}
	return (ssize_t)done + rr_max(more, (ssize_t)0);
}

static RR_NOINLINE ssize_t other_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n,
				      int flags)
{
	const struct rr_kind *k;
	struct rr_lock *l;
	size_t done;
	ssize_t rc;
	int st;

	if (rr_conn_passes(c, fd, true))
		return RR_CONN_KERNEL;
again:
	done = 0;
	st = rr_conn_enter(c, fd, &l);
	if (st < 0)
		return st == -EBUSY ? -EAGAIN : st;
	k = rr_kinds[st];
	rc = k->recv ? k->recv(c, fd, iov, n, flags, &done) : otherwise(k);
	rr_lock_drop(l);
	if (rc != RR_RIDE_OVER)
		return rc;
	if (!done)
		goto again;
	return recv_on(c, fd, iov, n, done);
}

ssize_t rr_conn_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_share *sh = rr_conn_enter_carried(c, fd);
	ssize_t rc;

	if (unlikely(!sh))
		return other_recv(c, fd, iov, n, flags);
	rc = rr_carried_recv(c, fd, iov, n, flags, NULL);
	rr_lock_drop(&sh->lock);
	return rc;
}

static RR_NOINLINE ssize_t other_send(struct rr_conn *c, int fd, const struct iovec *iov, int n,
				      int flags)
{
	const struct rr_kind *k;
	struct rr_lock *l;
	ssize_t rc;
	int st;

	if (rr_conn_passes(c, fd, false))
		return RR_CONN_KERNEL;
	do {
		st = rr_conn_enter(c, fd, &l);
		if (st < 0)
			return st == -EBUSY ? -EAGAIN : st;
		k = rr_kinds[st];
		rc = k->send ? k->send(c, fd, iov, n, flags) : otherwise(k);
		rr_lock_drop(l);
	} while (rc == RR_RIDE_OVER);
	return rc;
}

/* MSG_OOB is handled by the wrapper; the other flags do not matter here. */
ssize_t rr_conn_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_share *sh = rr_conn_enter_carried(c, fd);
	ssize_t rc;

	if (unlikely(!sh))
		return other_send(c, fd, iov, n, flags);
	rc = rr_carried_send(c, fd, iov, n, flags);
	rr_lock_drop(&sh->lock);
	return rc;
}

bool rr_conn_let_go(struct rr_conn *c)
{
	struct rr_lock *l;
	bool yes;
	int st;

	st = rr_conn_hold_apps(c, 0, &l);
	if (st < 0)
		return st == RR_CONN_KERNEL;
	yes = rr_kinds[st]->let_go && rr_kinds[st]->let_go(c);
	rr_lock_drop(l);
	return yes;
}

int rr_conn_inq(struct rr_conn *c, int fd)
{
	const struct rr_kind *k;
	struct rr_lock *l;
	int st, rc;

	if (rr_conn_passes(c, fd, false))
		return RR_CONN_KERNEL;
again:
	st = rr_conn_enter(c, fd, &l);
	if (st < 0)
		return st == -EBUSY ? 0 : st;
	k = rr_kinds[st];
	rc = k->inq ? k->inq(c, fd) : k->kernels ? RR_CONN_KERNEL : 0;
	rr_lock_drop(l);
	if (rc == RR_RIDE_OVER)
		goto again;
	return rc;
}

int rr_conn_dialed(struct rr_conn *c, int fd, bool wait)
{
	const struct rr_kind *k;
	struct rr_lock *lock;
	int st, rc;

	if (!c->dial)
		return RR_CONN_KERNEL;
	st = rr_conn_enter(c, fd, &lock);
	if (st < 0)
		return st;
	do {
		k = rr_kinds[rr_conn_st(c)];
		rc = k->dialed ? k->dialed(c, fd) : RR_CONN_KERNEL;
	} while (rc == RR_RIDE_OVER);
	c->dial_wait = wait;
	rr_lock_drop(lock);
	return rc;
}
