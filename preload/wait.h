/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_WAIT_H
#define RR_WAIT_H

/* Waiting for carried connections: spin, arm, sleep. (wait.c, ready_*.c) */

#include <sys/epoll.h>

#include "preload/file.h"

/* For a data call that would block: waits until so may have one of want (POLLIN, POLLOUT), at
 * most until deadline (RR_TIME_NEVER: for ever). 0 look again; -EAGAIN the deadline passed;
 * -EINTR a signal handler ran and the kernel's recv()/send() would have returned EINTR for it
 * (with SA_RESTART handlers and no time-out the kernel restarts, and so does this). A
 * cancellation point. */
int rr_wait_one(struct rr_sock *so, int fd, unsigned want, rr_time deadline);

/* After any rr_conn_* call that may have changed the carrier (cheap when it did not): brings the
 * epoll registrations of so up to date. */
void rr_sock_sync(struct rr_sock *so);

/* epoll sets. An epoll fd was made, or goes away for good. */
void rr_ep_created(int epfd);
void rr_ep_gone(struct rr_file *ep);
/* The process's last fd of so is being closed: its watches end, as in the kernel. */
void rr_ep_sock_gone(struct rr_sock *so);
/* so has become interesting (connected, accepted) or plain: adjust sets that watch it already. */
/* Fork: from the pthread_atfork handlers. */
void rr_ep_fork_prepare(void);
void rr_ep_fork_parent(void);
void rr_ep_fork_child(void);

#endif
