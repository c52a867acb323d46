/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock that outlives its holder: a word that names the holder's thread, and its process
 * within its PID namespace. Whoever finds the holder dead takes the lock over, and has to
 * repair what it protects. It is not recursive: it refuses the holder with -EDEADLK. */

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
/* futex timeout while a thread of this process holds it; it goes on, so we wait again */
#define WAIT_MS	100
/* futex timeout while another process holds it, which may never go on, or may wait for a CPU:
 * on a busy machine for some ten ms */
#define ONCE_MS	100

_Atomic int32_t rr_lock_pid;
/* stands for the pid where another process may have the same; 0: none */
static _Atomic uint32_t alias;

/* getpid() is a system call, so the pid is kept; rr_lock_forked() sets it anew in a child. */
static int32_t self_pid(void)
{
	int32_t pid = atomic_load_explicit(&rr_lock_pid, memory_order_relaxed);

	if (unlikely(!pid)) {
		pid = (int32_t)getpid();
		atomic_store_explicit(&rr_lock_pid, pid, memory_order_relaxed);
	}
	return pid;
}

/* A parent in another PID namespace has the pid 0 for getppid(), and the first process of a
 * namespace is 1: in both cases this process is not in its parent's namespace. */
bool rr_lock_forked(void)
{
	pid_t pid = getpid();
	bool apart = pid == 1 || getppid() == 0;
	uint32_t rnd = 0;

	atomic_store_explicit(&rr_lock_pid, (int32_t)pid, memory_order_relaxed);
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
	atomic_fetch_or(&l->flags, RR_LOCK_MIXED);
}

bool rr_lock_is_mixed(const struct rr_lock *l)
{
	return has(l, RR_LOCK_MIXED);
}

bool rr_lock_is_stuck(const struct rr_lock *l)
{
	return has(l, RR_LOCK_STUCK);
}

/* How this process is named in the word of l. */
static inline uint32_t self_in(const struct rr_lock *l)
{
	uint32_t other = unlikely(has(l, RR_LOCK_MIXED)) ?
			 atomic_load_explicit(&alias, memory_order_relaxed) : 0;

	return other ? other : (uint32_t)self_pid();
}

/* Is the holder, whose word is `mine`, this very thread? Another thread of the process may have
 * the same nine bits. The holder stores its full identity some instructions after the word; if
 * none appears for long, this is a signal handler that has interrupted those instructions. */
static bool is_mine(struct rr_lock *l, uint32_t mine)
{
	for (int i = 0; i < PATIENCE; i++) {
		uintptr_t thread = atomic_load_explicit(&l->thread, memory_order_relaxed);

		uint32_t word = atomic_load_explicit(&l->word, memory_order_relaxed);

		if ((word & ~RR_LOCK_WAITED) != mine)
			return false;
		if (thread)
			return thread == (uintptr_t)pthread_self();
		if (i % SPINS == SPINS - 1)
			sched_yield();
		rr_relax();
	}
	return true;
}

/* From here on is_mine() can tell this thread from one with the same nine bits. */
static void note_taken(struct rr_lock *l, uintptr_t self)
{
	atomic_store_explicit(&l->thread, self, memory_order_relaxed);
}

int rr_lock_try_held(struct rr_lock *l)
{
	uintptr_t self = (uintptr_t)pthread_self();
	uint32_t free = 0, mine = rr_lock_word(self_in(l), self);

	/* Pairs with the release in rr_lock_drop(). */
	if (unlikely(!atomic_compare_exchange_strong_explicit(&l->word, &free, mine,
							      memory_order_acquire,
							      memory_order_relaxed)))
		return is_mine(l, mine) ? -EDEADLK : -EBUSY;
	note_taken(l, self);
	return 0;
}

/* With a timeout: the holder may be a process that was killed, and then nobody wakes us. */
static void wait_for_change(struct rr_lock *l, uint32_t word, long ms)
{
	struct timespec ts = { 0, ms * 1000 * 1000 };
	int e = errno;

	syscall(SYS_futex, &l->word, FUTEX_WAIT, word, &ts, NULL, 0);
	errno = e;
}

/* A zombie counts as dead: it may be this process itself that has to reap it. kill(2) still
 * reports it as alive, but polling a pidfd does not. */
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
	/* no pidfd_open(): waitid() knows the children of this process, kill() the others */
	} else {
		dead = (kill(pid, 0) < 0 && errno == ESRCH) ||
		       (syscall(SYS_waitid, P_PID, pid, &si, WEXITED | WNOHANG | WNOWAIT,
				NULL) == 0 &&
			si.si_pid == pid);
	}
	errno = e;
	return dead;
}

/* Is the holder of l, another process, dead? Not known if the lock is mixed. */
static bool of_the_dead(const struct rr_lock *l, uint32_t word)
{
	return !has(l, RR_LOCK_MIXED) && rr_pid_is_dead((int32_t)(word >> 10));
}

/* The holder does not go on. A stopped process cannot be told from a slow one, and the lock is
 * not taken from it, because it may go on; but only the first caller waits in vain. False: it
 * has gone on just now. */
static bool give_up_holder(struct rr_lock *l, uint32_t word)
{
	/* The flag and the word are in one order with those in rr_lock_wake(): either it clears
	 * the flag, or we see that the word has changed. Pairs with rr_lock_wake(). */
	atomic_fetch_or(&l->flags, RR_LOCK_STUCK);
	if (atomic_load(&l->word) == word)
		return true;
	atomic_fetch_and(&l->flags, ~(uint32_t)RR_LOCK_STUCK);
	return false;
}

/* Takes the lock in place of the holder, or of nobody, that the word `was` names. Sets
 * RR_LOCK_WAITED, because others may wait: at worst that costs a needless wake-up. Pairs with
 * the release in rr_lock_drop(). */
static bool replace(struct rr_lock *l, uint32_t was)
{
	uintptr_t self = (uintptr_t)pthread_self();

	uint32_t mine = rr_lock_word(self_in(l), self) | RR_LOCK_WAITED;

	if (!atomic_compare_exchange_strong_explicit(&l->word, &was, mine, memory_order_acquire,
						     memory_order_relaxed))
		return false;
	note_taken(l, self);
	return true;
}

/* Waits for a lock that another process holds. 0: look again; anything else
 * is rr_lock_take()'s result. */
static int await_process(struct rr_lock *l, uint32_t word)
{
	if (!has(l, RR_LOCK_STUCK)) {
		wait_for_change(l, word, ONCE_MS);
		if (atomic_load_explicit(&l->word, memory_order_relaxed) != word)
			return 0;
	}
	/* If there are several waiters, one of them succeeds. */
	if (of_the_dead(l, word))
		return replace(l, word) ? -EOWNERDEAD : 0;
	return give_up_holder(l, word) ? -EBUSY : 0;
}

/* The lock is held: spins, and then sleeps until it is free. Before it sleeps it sets
 * RR_LOCK_WAITED, because only then does rr_lock_drop() wake somebody. Results are those of
 * rr_lock_take(). */
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
		if (!word || (!(word & RR_LOCK_WAITED) &&
			      !atomic_compare_exchange_strong_explicit(&l->word, &word,
								       word | RR_LOCK_WAITED,
								       memory_order_relaxed,
								       memory_order_relaxed)))
			continue;
		word |= RR_LOCK_WAITED;
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

void rr_lock_wake(struct rr_lock *l)
{
	int e = errno;

	/* Orders the word before the flag. Pairs with give_up_holder(). */
	rr_fence();
	atomic_fetch_and(&l->flags, ~(uint32_t)RR_LOCK_STUCK);
	syscall(SYS_futex, &l->word, FUTEX_WAKE, 1, NULL, NULL, 0);
	errno = e;
}
