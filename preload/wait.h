/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_WAIT_H
#define RR_WAIT_H

/* Waiting for a connection: spin, arm, sleep (wait_one.c), and what other files tell epoll
 * sets. */

#include <sys/epoll.h>

#include "preload/file.h"

/* Waits, for a data call that would block, until so may have one of want (POLLIN, POLLOUT), at
 * most until deadline (RR_TIME_NEVER: for ever).
 *
 *    0       look again
 *    -EAGAIN the deadline has passed
 *    -EINTR  a signal handler has run, and the kernel's recv() or send() would have returned
 *            EINTR for it (after SA_RESTART handlers, without a time-out, the kernel restarts
 *            the call, and so does this)
 *    -EBADF  fd is no longer so's
 *    else    an error taken from the socket: give it to the app
 *
 * A cancellation point: a cancelled thread gives back the caller's reference to so. */
int rr_wait_one(struct rr_sock *so, int fd, unsigned want, rr_time deadline);

/* The same for a moment only, at the end of which it returns -EAGAIN. It costs fewer system
 * calls. option is SO_RCVTIMEO or SO_SNDTIMEO, whichever belongs to want. */
int rr_wait_nap(struct rr_sock *so, int fd, unsigned want, int option);

/* May calls on fd sleep? One system call. */
bool rr_wait_allowed(int fd);

/* When a call that begins now times out by option (SO_RCVTIMEO, SO_SNDTIMEO) of fd;
 * RR_TIME_NEVER. */
rr_time rr_wait_deadline(int fd, int option);

/* Brings the epoll registrations of so up to date. Called after any rr_conn_* call that may
 * have changed the carrier; cheap if it has not. */
void rr_sock_sync(struct rr_sock *so);

/* A data call on so could not do all that was asked: a read (POLLIN) or write (POLLOUT) was
 * short or gave -EAGAIN. Edge-triggered sets report the bit again once it holds, and a send
 * that began a negotiation is noticed. Every data wrapper calls it; cheap if no set watches
 * so. */
void rr_sock_is_dry(struct rr_sock *so, unsigned want);
static inline void rr_sock_dry(struct rr_sock *so, unsigned want)
{
	struct rr_conn *c;

	if (!atomic_load_explicit(&so->watches, memory_order_acquire))
		return;
	c = atomic_load_explicit(&so->conn, memory_order_acquire);
	/* A level-triggered set looks into memory whether a carried connection has something
	 * to read. So it need not hear that everything was read. */
	if (want != POLLIN || !c || !rr_conn_is_carried(c) ||
	    atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_EDGES)
		rr_sock_is_dry(so, want);
}

/* Epoll sets, which the epoll wrappers enter into the fd table themselves. rr_file_put() calls
 * this when the last reference to one is gone. */
void rr_ep_gone(struct rr_file *ep);
/* The process's last fd of so is about to be closed: its watches end, as in the kernel. Called
 * before the kernel's close(), while fd is valid. */
void rr_ep_sock_gone(struct rr_sock *so, int fd);
/* so->conn was set on a socket that sets may already watch (connect() after epoll_ctl()). */
void rr_ep_sock_conn(struct rr_sock *so);
/* Called by the pthread_atfork() handlers. */
void rr_ep_fork_prepare(void);
void rr_ep_fork_parent(void);
void rr_ep_fork_child(void);

#endif
