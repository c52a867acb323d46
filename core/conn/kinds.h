/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_KINDS_H
#define RR_CONN_KINDS_H

/* What a connection does in each state. All functions are called under the lock that goes with
 * the state, with the number by which the app uses it. What a state has no function for is the
 * kernel's (kernels), or there is nothing to be done, and nothing there, now. */

#include "core/conn/enter.h"

struct rr_kind {
	bool kernels;

	/* --- the upgrade --- */
	/* Brings an upgrade forward, as far as that goes without waiting. NULL: there is
	 * none. */
	void (*step)(struct rr_conn *c, int fd);
	/* The same, for less, when the kernel has just said that there are bytes or an end, and
	 * no error. NULL: it makes no difference. */
	void (*told)(struct rr_conn *c, int fd);
	/* In place of that, where another process of the family has begun it: 0 the state is
	 * another now; -errno. NULL: it makes no difference. */
	int (*foreign)(struct rr_conn *c);
	/* Gives up an upgrade that this process has begun, because the app wants the number of
	 * a descriptor of ours. NULL: the upgrade has none, or goes on. */
	void (*yield)(struct rr_conn *c);
	/* As rr_conn_let_go(). NULL: false, something has been said to the peer already. */
	bool (*let_go)(struct rr_conn *c);
	/* As rr_conn_dialed(); or RR_RIDE_OVER: the state is another now. NULL: the app's
	 * connect() is the kernel's. */
	int (*dialed)(struct rr_conn *c, int fd);

	/* --- bytes --- */
	/* As the functions of conn.h that are called so; or RR_RIDE_OVER: the state is another
	 * now, and *done bytes were read. */
	ssize_t (*recv)(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
			size_t *done);
	ssize_t (*send)(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
	int (*poll)(struct rr_conn *c, int fd, unsigned want);
	int (*inq)(struct rr_conn *c, int fd);
	/* NULL: the kernel has the error. */
	int (*take_error)(struct rr_conn *c, int fd);

	/* --- sleeping --- */
	/* As rr_conn_arm() (thread) and rr_conn_watch(). NULL: the kernel tells of all news,
	 * but for a verdict that waits until other threads are awake (hold_until). */
	int (*arm)(struct rr_conn *c, int fd, unsigned want, bool thread);
	/* The thread that has armed it for want is counted among its sleepers now. */
	void (*armed)(struct rr_conn *c, unsigned want);
	/* As rr_conn_disarm() and rr_conn_drain(), in states that a connection does not leave.
	 * NULL: nothing was armed. */
	void (*disarm)(struct rr_conn *c);
	bool (*drain)(struct rr_conn *c);
	/* out[0] is the app's fd, for want, and *until is RR_TIME_NEVER. */
	int (*fds)(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
		   rr_time *until);

	/* --- the process --- */
	/* The process is about to fork. NULL: that changes nothing. */
	void (*forks)(struct rr_conn *c);
	/* The process is a child that was just forked, and has one thread and no lock. NULL: it
	 * can use the connection as it is. */
	void (*forked)(struct rr_conn *c);
	/* As rr_conn_move_fd(), in states that a connection does not leave. NULL: it has no
	 * descriptor that can be moved. */
	bool (*move)(struct rr_conn *c, int fd);

	/* --- the end --- */
	int (*shutdown)(struct rr_conn *c, int fd, bool rd, bool wr);
	/* Asked before close(): is the connection carried now, and its lock another? NULL: it
	 * is not. */
	bool (*joined)(struct rr_conn *c);
	void (*close)(struct rr_conn *c, int fd);
	void (*vanish)(struct rr_conn *c);
};

extern const struct rr_kind *const rr_kinds[RR_S_COUNT];

/* kind_carried.c */
extern const struct rr_kind rr_kind_carried;
/* Functions of that row, for callers that know that the connection is carried; the last one
 * is also that of a forked child, where only the parent can use the connection. */
ssize_t rr_carried_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
			size_t *done);
ssize_t rr_carried_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
int rr_carried_take_error(struct rr_conn *c, int fd);

#endif
