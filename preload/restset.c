/* SPDX-License-Identifier: BSD-3-Clause */
/* The epoll set of connections at rest, for waits with many of them: one entry in the kernel's
 * array stands for all (restset.h). Which connections rest is pollrest.c's. */

#include "preload/restset.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "preload/real.h"

#define LEFT	RR_SEC		/* unused by its thread for this long, the set is the next
				 * thread's */
enum { BATCH = 64 };

struct restset {
	_Atomic int fd;		/* -1: none */
	uint32_t id;		/* number of its present life; members have it in rr_sock.set */
	uintptr_t owner;	/* pthread_self() */
	rr_time used;
};

static struct restset the_set = { .fd = -1, .id = 1 };
/* The set while no thread uses it, else NULL. */
static struct restset *_Atomic unused = &the_set;

/* Makes the kernel's set if there is none. False: it cannot be made. */
static bool make_set(struct restset *s)
{
	if (s->fd < 0)
		s->fd = rr_max(rr_ownfd_raise(rr_real.epoll_create1(EPOLL_CLOEXEC)), -1);
	return s->fd >= 0;
}

bool rr_restset_take(void)
{
	/* acquire and release: pairs with the release in rr_restset_give(), for what the last
	 * user wrote. */
	struct restset *s = atomic_exchange_explicit(&unused, NULL, memory_order_acq_rel);
	rr_time now = rr_now_coarse();
	int saved = errno;

	if (!s)
		return false;
	if ((s->owner == (uintptr_t)pthread_self() || now > s->used + LEFT) && make_set(s)) {
		s->owner = (uintptr_t)pthread_self();
		s->used = now;
		errno = saved;
		return true;
	}
	errno = saved;
	atomic_store_explicit(&unused, s, memory_order_release);
	return false;
}

void rr_restset_give(void)
{
	atomic_store_explicit(&unused, &the_set, memory_order_release);
}

int rr_restset_fd(void)
{
	return the_set.fd;
}

uint32_t rr_restset_life(void)
{
	return the_set.id;
}

bool rr_restset_has(const struct rr_sock *so, int wake)
{
	return atomic_load_explicit(&so->set, memory_order_relaxed) == the_set.id &&
	       so->set_wake == wake;
}

bool rr_restset_join(struct rr_sock *so, int wake)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = so };

	if (likely(rr_restset_has(so, wake)))
		return true;
	if (rr_real.epoll_ctl(the_set.fd, EPOLL_CTL_ADD, wake, &ev) &&
	    (errno != EEXIST || rr_real.epoll_ctl(the_set.fd, EPOLL_CTL_MOD, wake, &ev)))
		return false;
	so->set_wake = wake;
	atomic_store_explicit(&so->set, the_set.id, memory_order_relaxed);
	return true;
}

int rr_restset_rang(struct rr_sock **who, int max)
{
	struct epoll_event evs[BATCH];
	int n = rr_real.epoll_wait(the_set.fd, evs, rr_min(max, (int)BATCH), 0);

	if (n < 0 && errno != EINTR) {	/* closed unseen: the number is not ours any more */
		rr_ownfd_set(the_set.fd, false);
		the_set.fd = -1;
		rr_restset_reset();
	}
	for (int i = 0; i < n; i++)
		who[i] = evs[i].data.ptr;
	return n;
}

bool rr_restset_leave(struct rr_sock *so)
{
	bool here = rr_sock_hold(so), left;
	struct rr_conn *c = here ? rr_sock_conn(so) : NULL;
	int wake = c ? rr_conn_wake_fd(c) : -1;

	/* The wake-up fd may have another number by now; or it is closed here, and a forked
	 * child still has the file. */
	left = wake >= 0 && !rr_real.epoll_ctl(the_set.fd, EPOLL_CTL_DEL, wake, NULL);
	if (!left)
		rr_restset_reset();
	if (here) {
		atomic_store_explicit(&so->set, 0, memory_order_relaxed);
		rr_file_put(&so->f);
	}
	return left;
}

void rr_restset_reset(void)
{
	rr_ownfd_close(atomic_exchange(&the_set.fd, -1));
	/* 0 says that a socket is in no set. */
	the_set.id += the_set.id == UINT32_MAX ? 2u : 1u;
	make_set(&the_set);
}

bool rr_restset_move(int fd)
{
	int at = fd, to;

	if (atomic_load(&the_set.fd) != fd)
		return false;
	to = rr_ownfd_dup(fd);
	if (to < 0)
		return false;
	if (!atomic_compare_exchange_strong(&the_set.fd, &at, to))
		rr_ownfd_close(to);
	rr_ownfd_set(fd, false);
	return true;
}

/* The kernel's object is the parent's as well: the child lets go of it and begins with none. */
void rr_restset_fork_child(void)
{
	rr_ownfd_close(atomic_exchange(&the_set.fd, -1));
	the_set.id += the_set.id == UINT32_MAX ? 2u : 1u;
	the_set.owner = 0;
	the_set.used = 0;
	atomic_store(&unused, &the_set);
}
