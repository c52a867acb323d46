/* SPDX-License-Identifier: BSD-3-Clause */
/* The epoll calls. Sets are the kernel's alone: nothing of ours is in any of them yet. */
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/wrap.h"

int rr_wrap_epoll_create(int size)
{
	return rr_real.epoll_create(size);
}

int rr_wrap_epoll_create1(int flags)
{
	return rr_real.epoll_create1(flags);
}

int rr_wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return rr_real.epoll_ctl(epfd, op, fd, ev);
}

int rr_wrap_epoll_wait(int epfd, struct epoll_event *evs, int n, int timeout)
{
	return rr_real.epoll_wait(epfd, evs, n, timeout);
}

int rr_wrap_epoll_pwait(int epfd, struct epoll_event *evs, int n, int timeout,
			const sigset_t *mask)
{
	return rr_real.epoll_pwait(epfd, evs, n, timeout, mask);
}

int rr_wrap_epoll_pwait2(int epfd, struct epoll_event *evs, int n,
			 const struct timespec *timeout, const sigset_t *mask)
{
	return rr_real.epoll_pwait2(epfd, evs, n, timeout, mask);
}

bool rr_ep_readable(struct rr_file *ep RR_UNUSED, int epfd RR_UNUSED, rr_time *until)
{
	*until = RR_TIME_NEVER;
	return false;
}

bool rr_ep_managed(const struct rr_file *ep RR_UNUSED)
{
	return false;
}

void rr_ep_activate(struct rr_sock *so RR_UNUSED)
{
}

void rr_sock_sync(struct rr_sock *so RR_UNUSED)
{
}

void rr_sock_dry(struct rr_sock *so RR_UNUSED, unsigned want RR_UNUSED)
{
}

void rr_ep_gone(struct rr_file *ep RR_UNUSED)
{
}

void rr_ep_sock_gone(struct rr_sock *so RR_UNUSED, int fd RR_UNUSED)
{
}

void rr_ep_sock_conn(struct rr_sock *so RR_UNUSED)
{
}

bool rr_ep_owns_fd(int fd RR_UNUSED)
{
	return false;
}

void rr_ep_fork_prepare(void)
{
}

void rr_ep_fork_parent(void)
{
}

void rr_ep_fork_child(void)
{
}
