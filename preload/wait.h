/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_WAIT_H
#define RR_WAIT_H

/* Waiting for carried connections: spin, arm, sleep. (wait.c, ready_*.c) */

#include <sys/epoll.h>

#include "preload/file.h"

/* For a data call that would block: waits until so may have one of want (POLLIN, POLLOUT), at
 * most until deadline (RR_TIME_NEVER: for ever). 0 look again; -EAGAIN the deadline passed;
 * -EINTR a signal handler ran and the kernel's recv()/send() would have returned EINTR for it
 * (with SA_RESTART handlers and no time-out the kernel restarts, and so does this); -EBADF fd
 * is no longer so's; another -errno: the kernel's own answer, taken from the socket: give it to
 * the app. A cancellation point: a cancelled thread gives the caller's reference to so back. */
int rr_wait_one(struct rr_sock *so, int fd, unsigned want, rr_time deadline);

/* The same for a moment, before anything is known of so but that it was fd's a moment ago:
 * -EAGAIN, that is over. option: SO_RCVTIMEO or SO_SNDTIMEO, whichever is for want. */
int rr_wait_nap(struct rr_sock *so, int fd, unsigned want, int option);

/* When a call that begins now times out, by SO_RCVTIMEO or SO_SNDTIMEO of fd; RR_TIME_NEVER. */
rr_time rr_wait_deadline(int fd, int option);

/* After any rr_conn_* call that may have changed the carrier (cheap when it did not): brings
 * the epoll registrations of so up to date. */
void rr_sock_sync(struct rr_sock *so);

/* A data call on so could not do all that was asked: a read (POLLIN) or a write (POLLOUT) was
 * short or gave -EAGAIN. Edge-triggered sets report it again once it is possible, and a send
 * that began a negotiation is taken notice of. Every data wrapper calls it; cheap when no set
 * watches so. */
void rr_sock_is_dry(struct rr_sock *so, unsigned want);
static inline void rr_sock_dry(struct rr_sock *so, unsigned want)
{
	if (atomic_load_explicit(&so->watches, memory_order_acquire))
		rr_sock_is_dry(so, want);
}

/* epoll sets. The epoll wrappers enter them into the fd table themselves. When the last
 * reference to one goes (refs fell to 0), rr_file_put() calls: */
void rr_ep_gone(struct rr_file *ep);
/* The process's last fd of so is about to be closed (before the kernel's close, fd still
 * valid): its watches end, as in the kernel. */
void rr_ep_sock_gone(struct rr_sock *so, int fd);
/* so->conn was set on a socket that sets may watch already (connect after epoll_ctl). */
void rr_ep_sock_conn(struct rr_sock *so);
/* Fork: from the pthread_atfork handlers. */
void rr_ep_fork_prepare(void);
void rr_ep_fork_parent(void);
void rr_ep_fork_child(void);

#endif
