/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"

#define SPINS	200

static _Atomic int32_t own_pid;

static int32_t self_pid(void)
{
	int32_t pid = atomic_load_explicit(&own_pid, memory_order_relaxed);

	if (unlikely(!pid)) {
		pid = (int32_t)getpid();
		atomic_store_explicit(&own_pid, pid, memory_order_relaxed);
	}
	return pid;
}

void rr_lock_forked(void)
{
	atomic_store_explicit(&own_pid, (int32_t)getpid(), memory_order_relaxed);
}

static void own(struct rr_lock *l)
{
	atomic_store_explicit(&l->thread, (uintptr_t)pthread_self(), memory_order_relaxed);
	atomic_store_explicit(&l->pid, self_pid(), memory_order_relaxed);
}

static bool is_mine(struct rr_lock *l)
{
	return atomic_load_explicit(&l->thread, memory_order_relaxed) ==
		       (uintptr_t)pthread_self() &&
	       atomic_load_explicit(&l->pid, memory_order_relaxed) == self_pid();
}

int rr_lock_try(struct rr_lock *l)
{
	uint32_t free = 0;

	/* pairs with the release in rr_lock_drop() */
	if (likely(atomic_compare_exchange_strong_explicit(&l->word, &free, 1,
							   memory_order_acquire,
							   memory_order_relaxed))) {
		own(l);
		return 0;
	}
	return is_mine(l) ? -EDEADLK : -EBUSY;
}

/* Sleeps at most 100 ms: the holder may be a process that was killed, and nobody wakes us
 * then. */
static void wait_for(struct rr_lock *l)
{
	struct timespec ts = { 0, 100 * 1000 * 1000 };
	int e = errno;

	syscall(SYS_futex, &l->word, FUTEX_WAIT, 2, &ts, NULL, 0);
	errno = e;
}

/* A zombie is dead, too: perhaps we ourselves should reap it. To kill(2) it is alive, to who
 * polls a pidfd it is not. */
bool rr_pid_is_dead(int32_t pid)
{
	struct timespec now = { 0, 0 };
	struct pollfd p = { .events = POLLIN };
	int e = errno;
	bool dead;

	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd >= 0) {
		dead = syscall(SYS_ppoll, &p, 1, &now, NULL, 8) == 1;
		syscall(SYS_close, p.fd);
	} else {
		dead = kill(pid, 0) < 0 && errno == ESRCH;
	}
	errno = e;
	return dead;
}

static bool holder_is_dead(struct rr_lock *l)
{
	int32_t pid = atomic_load_explicit(&l->pid, memory_order_relaxed);

	return pid && pid != self_pid() && rr_pid_is_dead(pid);
}

static RR_NOINLINE int take_slow(struct rr_lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		if (atomic_load_explicit(&l->word, memory_order_relaxed) == 0 &&
		    rr_lock_try(l) == 0)
			return 0;
		rr_relax();
	}
	/* From here on "waited for" stays set while we hold it: a needless wake-up at
	 * worst. Pairs with the release in rr_lock_drop(). */
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0) {
		int32_t pid = atomic_load_explicit(&l->pid, memory_order_relaxed);

		wait_for(l);
		if (holder_is_dead(l) &&
		    /* one of several waiters inherits it */
		    atomic_compare_exchange_strong_explicit(&l->pid, &pid, self_pid(),
							    memory_order_acquire,
							    memory_order_relaxed)) {
			own(l);
			return -EOWNERDEAD;
		}
	}
	own(l);
	return 0;
}

int rr_lock_take(struct rr_lock *l)
{
	int rc = rr_lock_try(l);

	return likely(rc != -EBUSY) ? rc : take_slow(l);
}

void rr_lock_drop(struct rr_lock *l)
{
	atomic_store_explicit(&l->thread, 0, memory_order_relaxed);
	atomic_store_explicit(&l->pid, 0, memory_order_relaxed);
	/* pairs with the acquire in rr_lock_try() and take_slow() */
	if (unlikely(atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)) {
		int e = errno;

		syscall(SYS_futex, &l->word, FUTEX_WAKE, 1, NULL, NULL, 0);
		errno = e;
	}
}
