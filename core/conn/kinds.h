/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_KINDS_H
#define RR_CONN_KINDS_H

/* What a connection does in each state: a table of functions. All of them are called under the
 * lock that goes with the state, with the fd that the app uses. If a state has no function for
 * a call, the call goes to the kernel (if `kernels` is set), or there is nothing to do or to
 * read at present. */

#include "core/conn/enter.h"

struct rr_kind {
	bool kernels;

	/* --- the upgrade --- */
	/* Brings the upgrade forward as far as possible without waiting. NULL: no upgrade is
	 * under way. */
	void (*step)(struct rr_conn *c, int fd);
	/* A cheaper step for when the kernel has just reported bytes or an end and no error.
	 * NULL: use step. */
	void (*told)(struct rr_conn *c, int fd);
	/* What step goes on with makes the provider's wake-up fd readable. It is left there
	 * while other threads of this process sleep on that. */
	bool by_bell;
	/* In place of step if another process of the family has begun the upgrade. 0: the state
	 * has changed; or -errno. NULL: that makes no difference. */
	int (*foreign)(struct rr_conn *c);
	/* Gives up the upgrade that this process has begun, because the app wants the number of
	 * one of our descriptors. NULL: the upgrade has no descriptor, or goes on. */
	void (*yield)(struct rr_conn *c);
	/* As rr_conn_let_go(). NULL: false, because something was already said to the peer. */
	bool (*let_go)(struct rr_conn *c);
	/* As rr_conn_dialed(), or RR_RIDE_OVER: the state has changed. NULL: connect() is the
	 * kernel's. */
	int (*dialed)(struct rr_conn *c, int fd);

	/* --- bytes --- */
	/* As the functions of conn.h with these names, or RR_RIDE_OVER: the state has changed,
	 * and *done bytes were read before that. */
	ssize_t (*recv)(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
			size_t *done);
	ssize_t (*send)(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
	int (*poll)(struct rr_conn *c, int fd, unsigned want);
	int (*inq)(struct rr_conn *c, int fd);
	/* NULL: the kernel has the error. */
	int (*take_error)(struct rr_conn *c, int fd);

	/* --- sleeping --- */
	/* As rr_conn_arm() (thread) and rr_conn_watch(). NULL: the kernel reports all news,
	 * except for a verdict that waits until other threads have woken (hold_until). */
	int (*arm)(struct rr_conn *c, int fd, unsigned want, bool thread);
	/* The thread that has armed it for `want` is now counted as a sleeper. */
	void (*armed)(struct rr_conn *c, unsigned want);
	/* As rr_conn_disarm() and rr_conn_drain(), in states that a connection does not leave.
	 * later: as rr_conn_disarm_later(). NULL: nothing was armed. */
	void (*disarm)(struct rr_conn *c, bool later);
	bool (*drain)(struct rr_conn *c, bool later);
	/* On entry out[0] is the app's fd with `want`, and *until is RR_TIME_NEVER. */
	int (*fds)(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
		   rr_time *until);

	/* --- the process --- */
	/* The process is about to fork. NULL: nothing changes by that. */
	void (*forks)(struct rr_conn *c);
	/* The process is a child that was just forked, with one thread and no locks. NULL: it
	 * can use the connection as it is. */
	void (*forked)(struct rr_conn *c);
	/* As rr_conn_move_fd(), in states that a connection does not leave. NULL: it has no
	 * descriptor that can be moved. */
	bool (*move)(struct rr_conn *c, int fd);

	/* --- the end --- */
	int (*shutdown)(struct rr_conn *c, int fd, bool rd, bool wr);
	/* Asked before close(): has the connection just become carried, so that its lock is
	 * another now? NULL: no. */
	bool (*joined)(struct rr_conn *c);
	void (*close)(struct rr_conn *c, int fd);
	void (*vanish)(struct rr_conn *c);
};

extern const struct rr_kind *const rr_kinds[RR_S_COUNT];

/* kind_carried.c */
extern const struct rr_kind rr_kind_carried;
/* Of that row; it also serves a forked child, where only the parent can use the connection. */
int rr_carried_take_error(struct rr_conn *c, int fd);

/* Bytes of that row, inline in the short way of conn.c, which need not look into the table.
 * done is used by states that change while they read. */
static inline ssize_t rr_carried_recv(struct rr_conn *c, int fd, const struct iovec *iov,
				      int n, int flags, size_t *done RR_UNUSED)
{
	struct rr_share *sh = c->share;
	ssize_t rc = unlikely(rr_handback_bytes(sh)) ? rr_handback_take(sh, iov, n, flags) :
						       rr_stream_recv(sh, fd, iov, n, flags);

	rr_budget_count(c);
	return rc;
}

static inline ssize_t rr_carried_send(struct rr_conn *c, int fd, const struct iovec *iov,
				      int n, int flags RR_UNUSED)
{
	ssize_t rc = rr_stream_send(c->share, fd, iov, n);

	rr_budget_count(c);
	return rc;
}

#endif
