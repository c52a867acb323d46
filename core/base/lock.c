/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"

#define SPINS	200
#define PATIENCE	(50 * SPINS)
#define WAITED	1u	/* in the word */

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

/* The word of a lock that this thread holds, nobody waiting: pid and thread are in it at once, so
 * that neither a handler nor a death between two instructions finds a holder without a name. */
static uint32_t own_word(void)
{
	uint64_t hash = (uint64_t)(uintptr_t)pthread_self() * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)self_pid() << 10 | (uint32_t)(hash >> 55) << 1;
}

/* Another thread may have the same nine bits. It says who it is some instructions later; if
 * nobody does, we are a handler that has interrupted those. */
static bool is_mine(struct rr_lock *l, uint32_t mine)
{
	for (int i = 0; i < PATIENCE; i++) {
		uintptr_t thread = atomic_load_explicit(&l->thread, memory_order_relaxed);

		if ((atomic_load_explicit(&l->word, memory_order_relaxed) & ~WAITED) != mine)
			return false;
		if (thread)
			return thread == (uintptr_t)pthread_self();
		if (i % SPINS == SPINS - 1)
			sched_yield();
		rr_relax();
	}
	return true;
}

static void taken(struct rr_lock *l)
{
	atomic_store_explicit(&l->thread, (uintptr_t)pthread_self(), memory_order_relaxed);
}

int rr_lock_try(struct rr_lock *l)
{
	uint32_t free = 0, mine = own_word();

	/* pairs with the release in rr_lock_drop() */
	if (unlikely(!atomic_compare_exchange_strong_explicit(&l->word, &free, mine,
							      memory_order_acquire,
							      memory_order_relaxed)))
		return is_mine(l, mine) ? -EDEADLK : -EBUSY;
	taken(l);
	return 0;
}

/* Sleeps at most 100 ms: the holder may be a process that was killed, and nobody wakes us
 * then. */
static void wait_for(struct rr_lock *l, uint32_t word)
{
	struct timespec ts = { 0, 100 * 1000 * 1000 };
	int e = errno;

	syscall(SYS_futex, &l->word, FUTEX_WAIT, word, &ts, NULL, 0);
	errno = e;
}

/* A zombie is dead, too: perhaps we ourselves should reap it. To kill(2) it is alive, to who
 * polls a pidfd it is not. */
bool rr_pid_is_dead(int32_t pid)
{
	struct timespec now = { 0, 0 };
	struct pollfd p = { .events = POLLIN };
	siginfo_t si = { 0 };
	int e = errno;
	bool dead;

	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd >= 0) {
		dead = syscall(SYS_ppoll, &p, 1, &now, NULL, 8) == 1;
		syscall(SYS_close, p.fd);
	} else {	/* without it: of a child of ours wait(2) knows */
		dead = (kill(pid, 0) < 0 && errno == ESRCH) ||
		       (syscall(SYS_waitid, P_PID, pid, &si, WEXITED | WNOHANG | WNOWAIT, NULL) == 0 &&
			si.si_pid == pid);
	}
	errno = e;
	return dead;
}

static bool of_the_dead(int32_t pid)
{
	return pid != self_pid() && rr_pid_is_dead(pid);
}

/* Makes the lock ours in place of what the word says now; with WAITED, since others may wait: a
 * needless wake-up at worst. Pairs with the release in rr_lock_drop(). */
static bool replace(struct rr_lock *l, uint32_t was)
{
	if (!atomic_compare_exchange_strong_explicit(&l->word, &was, own_word() | WAITED,
						     memory_order_acquire, memory_order_relaxed))
		return false;
	taken(l);
	return true;
}

static RR_NOINLINE int take_slow(struct rr_lock *l)
{
	uint32_t word;

	for (int i = 0; i < SPINS; i++) {
		if (atomic_load_explicit(&l->word, memory_order_relaxed) == 0 &&
		    rr_lock_try(l) == 0)
			return 0;
		rr_relax();
	}
	for (;;) {
		word = atomic_load_explicit(&l->word, memory_order_relaxed);
		if (!word && replace(l, 0))
			return 0;
		if (!word || (!(word & WAITED) &&
			      !atomic_compare_exchange_strong_explicit(&l->word, &word, word | WAITED,
								       memory_order_relaxed,
								       memory_order_relaxed)))
			continue;
		word |= WAITED;
		wait_for(l, word);
		/* One of several waiters inherits it. */
		if (atomic_load_explicit(&l->word, memory_order_relaxed) == word &&
		    of_the_dead((int32_t)(word >> 10)) && replace(l, word))
			return -EOWNERDEAD;
	}
}

int rr_lock_take(struct rr_lock *l)
{
	int rc = rr_lock_try(l);

	return likely(rc != -EBUSY) ? rc : take_slow(l);
}

void rr_lock_drop(struct rr_lock *l)
{
	atomic_store_explicit(&l->thread, 0, memory_order_relaxed);
	/* pairs with the acquire in rr_lock_try() and replace() */
	if (unlikely(atomic_exchange_explicit(&l->word, 0, memory_order_release) & WAITED)) {
		int e = errno;

		syscall(SYS_futex, &l->word, FUTEX_WAKE, 1, NULL, NULL, 0);
		errno = e;
	}
}
