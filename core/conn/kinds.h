/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_KINDS_H
#define RR_CONN_KINDS_H

/* What a connection does in each state. All functions are called under the lock that goes with
 * the state, with the number by which the app uses it. What a state has no function for is the
 * kernel's (kernels), or there is nothing to be done, and nothing there, now. */

#include "core/conn/enter.h"

struct rr_kind {
	bool kernels;
	/* Brings an upgrade forward, as far as that goes without waiting. NULL: there is
	 * none. */
	void (*step)(struct rr_conn *c, int fd);
	/* In place of that, where another process of the family has begun it: 0 the state is
	 * another now; -errno. NULL: it makes no difference. */
	int (*foreign)(struct rr_conn *c);
	/* The process is about to fork. NULL: nothing changes. */
	void (*forks)(struct rr_conn *c);
	/* The app wants a number of ours: gives up what may have it. By who has begun it. */
	void (*yield)(struct rr_conn *c);
	/* As rr_conn_let_go(). NULL: something has been said to the peer already. */
	bool (*let_go)(struct rr_conn *c);
	/* Before the app closes it: is it carried now, and its lock another? */
	bool (*joined)(struct rr_conn *c);
	/* As rr_conn_dialed(), of a connection that connect() has made; or RR_RIDE_OVER: the
	 * state is another now. NULL: the kernel's connect() goes on. */
	int (*dialed)(struct rr_conn *c, int fd);
	/* As the functions of conn.h that are called so; or RR_RIDE_OVER: the state is another
	 * now, and *done bytes were read. */
	ssize_t (*recv)(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
			size_t *done);
	ssize_t (*send)(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
	int (*poll)(struct rr_conn *c, int fd, unsigned want);
	int (*inq)(struct rr_conn *c, int fd);
	/* As rr_conn_arm() (thread) and rr_conn_watch(); and a thread is counted as asleep for
	 * want since. NULL: the kernel tells all, but for a verdict that waits. */
	int (*arm)(struct rr_conn *c, int fd, unsigned want, bool thread);
	void (*armed)(struct rr_conn *c, unsigned want);
	/* The same of rr_conn_disarm() and rr_conn_drain(): only in states that a connection
	 * does not leave. NULL: nothing was armed. */
	void (*disarm)(struct rr_conn *c);
	bool (*drain)(struct rr_conn *c);
	/* out[0] is the app's fd, for want, and *until is RR_TIME_NEVER. */
	int (*fds)(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
		   rr_time *until);
	int (*shutdown)(struct rr_conn *c, int fd, bool rd, bool wr);
	void (*close)(struct rr_conn *c, int fd);
	void (*vanish)(struct rr_conn *c);
};

extern const struct rr_kind *const rr_kinds[];	/* by enum rr_conn_st */

/* A carried one's, for who knows that it is. */
ssize_t rr_carried_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_carried_send(struct rr_conn *c, int fd, const struct iovec *iov, int n);

#endif
