/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock that outlives its holder: a word with the holder's thread and namespace in it.
 * Whoever finds the holder dead takes the lock over; it is not recursive, and says so
 * (-EDEADLK). */

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
#include "core/base/os.h"

#define SPINS	200
#define PATIENCE	(50 * SPINS)
#define WAITED	1u	/* in the word */
#define WAIT_MS	100	/* for a thread of our own, which goes on; then again */
#define ONCE_MS	10	/* for another process, which may not */

enum {	/* in flags */
	STUCK = 1,		/* its holder was waited for in vain */
	MIXED = 2,
};

static _Atomic int32_t own_pid;
static _Atomic uint32_t alias;		/* where another process may have the same pid; 0
					 * none */

static int32_t self_pid(void)
{
	int32_t pid = atomic_load_explicit(&own_pid, memory_order_relaxed);

	if (unlikely(!pid)) {
		pid = (int32_t)getpid();
		atomic_store_explicit(&own_pid, pid, memory_order_relaxed);
	}
	return pid;
}

/* The parent of the first process of a PID namespace, or of one that has entered it, cannot be
 * seen. */
bool rr_lock_forked(void)
{
	pid_t pid = getpid();
	bool apart = pid == 1 || getppid() == 0;
	uint32_t rnd = 0;

	atomic_store_explicit(&own_pid, (int32_t)pid, memory_order_relaxed);
	if (apart || atomic_load_explicit(&alias, memory_order_relaxed)) {
		rr_os_random(&rnd, sizeof(rnd));
		atomic_store_explicit(&alias, (rnd >> 10) | 1, memory_order_relaxed);
	}
	return apart;
}

static bool has(const struct rr_lock *l, uint32_t flag)
{
	return atomic_load_explicit(&l->flags, memory_order_relaxed) & flag;
}

void rr_lock_mix(struct rr_lock *l)
{
	atomic_fetch_or(&l->flags, MIXED);
}

bool rr_lock_is_mixed(const struct rr_lock *l)
{
	return has(l, MIXED);
}

bool rr_lock_is_stuck(const struct rr_lock *l)
{
	return has(l, STUCK);
}

/* This process, in the word of l. */
static inline uint32_t self_in(const struct rr_lock *l)
{
	uint32_t other = unlikely(has(l, MIXED)) ?
			 atomic_load_explicit(&alias, memory_order_relaxed) : 0;

	return other ? other : (uint32_t)self_pid();
}

/* The word of a lock that this thread holds, nobody waiting: pid and thread are in it at
 * once, so that neither a handler nor a death between two instructions finds a holder
 * without a name. */
static inline uint32_t own_word(const struct rr_lock *l, uintptr_t self)
{
	uint64_t hash = (uint64_t)self * UINT64_C(0x9e3779b97f4a7c15);

	return self_in(l) << 10 | (uint32_t)(hash >> 55) << 1;
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

static inline void note_taken(struct rr_lock *l, uintptr_t self)
{
	atomic_store_explicit(&l->thread, self, memory_order_relaxed);
}

int rr_lock_try(struct rr_lock *l)
{
	uintptr_t self = (uintptr_t)pthread_self();
	uint32_t free = 0, mine = own_word(l, self);

	/* pairs with the release in rr_lock_drop() */
	if (unlikely(!atomic_compare_exchange_strong_explicit(&l->word, &free, mine,
							      memory_order_acquire,
							      memory_order_relaxed)))
		return is_mine(l, mine) ? -EDEADLK : -EBUSY;
	note_taken(l, self);
	return 0;
}

/* Not for ever: the holder may be a process that was killed, and nobody wakes us then. */
static void wait_for_change(struct rr_lock *l, uint32_t word, long ms)
{
	struct timespec ts = { 0, ms * 1000 * 1000 };
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
		       (syscall(SYS_waitid, P_PID, pid, &si, WEXITED | WNOHANG | WNOWAIT,
				NULL) == 0 &&
			si.si_pid == pid);
	}
	errno = e;
	return dead;
}

/* word: of another process. */
static bool of_the_dead(const struct rr_lock *l, uint32_t word)
{
	return !has(l, MIXED) && rr_pid_is_dead((int32_t)(word >> 10));
}

/* A process that is stopped cannot be told from one that is slow. Its lock is not taken away
 * from it, for it may go on; but only the first call waits. False: it has gone on just now. */
static bool give_up_holder(struct rr_lock *l, uint32_t word)
{
	/* Both in one order with those of rr_lock_drop(): it takes the flag away, or we see
	 * that. */
	atomic_fetch_or(&l->flags, STUCK);
	if (atomic_load(&l->word) == word)
		return true;
	atomic_fetch_and(&l->flags, ~(uint32_t)STUCK);
	return false;
}

/* Makes the lock ours in place of what the word says now; with WAITED, since others may wait: a
 * needless wake-up at worst. Pairs with the release in rr_lock_drop(). */
static bool replace(struct rr_lock *l, uint32_t was)
{
	uintptr_t self = (uintptr_t)pthread_self();

	if (!atomic_compare_exchange_strong_explicit(&l->word, &was, own_word(l, self) | WAITED,
						     memory_order_acquire,
						     memory_order_relaxed))
		return false;
	note_taken(l, self);
	return true;
}

/* The lock with this word, which another process has: 0 look again, or as rr_lock_take(). */
static int await_process(struct rr_lock *l, uint32_t word)
{
	if (!has(l, STUCK)) {
		wait_for_change(l, word, ONCE_MS);
		if (atomic_load_explicit(&l->word, memory_order_relaxed) != word)
			return 0;
	}
	/* One of several waiters inherits it. */
	if (of_the_dead(l, word))
		return replace(l, word) ? -EOWNERDEAD : 0;
	return give_up_holder(l, word) ? -EBUSY : 0;
}

static RR_NOINLINE int take_slow(struct rr_lock *l)
{
	uint32_t word;
	int rc;

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
			      !atomic_compare_exchange_strong_explicit(&l->word, &word,
								       word | WAITED,
								       memory_order_relaxed,
								       memory_order_relaxed)))
			continue;
		word |= WAITED;
		if (word >> 10 == self_in(l))
			wait_for_change(l, word, WAIT_MS);
		else if ((rc = await_process(l, word)))
			return rc;
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

		rr_fence();
		atomic_fetch_and(&l->flags, ~(uint32_t)STUCK);
		syscall(SYS_futex, &l->word, FUTEX_WAKE, 1, NULL, NULL, 0);
		errno = e;
	}
}
