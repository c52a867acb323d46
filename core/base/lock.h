/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LOCK_H
#define RR_LOCK_H

/* A lock that may live in memory shared with forked children, knows its owner, and survives the
 * death of a process that holds it. Uncontended it costs one compare-exchange and one exchange.
 *
 * A thread that takes a lock which it holds itself (a signal handler that interrupted the
 * holder) is told so instead of waiting for ever. */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/types.h"

struct rr_lock {
	/* 0: free; else the holder: pid (22 bits), thread (9), and a bit: it is waited for */
	_Atomic uint32_t word;
	_Atomic uint32_t flags;
	/* pthread_self() of the holder; 0 until it has been stored */
	_Atomic uintptr_t thread;
};

/* 0: taken. -EDEADLK: the calling thread holds it. -EOWNERDEAD: taken over from a dead process,
 * so what it protects may be half changed. -EBUSY: another process holds it and does not go on
 * (it is stopped, or traced). Only the first caller waits to find that out; until the holder
 * goes on the others get the answer at once. */
int rr_lock_take(struct rr_lock *l);
/* Would rr_lock_take() return -EBUSY, as far as any thread has found out? */
bool rr_lock_is_stuck(const struct rr_lock *l);

/* The same, but returns -EBUSY instead of waiting. */
static inline int rr_lock_try(struct rr_lock *l);

static inline void rr_lock_drop(struct rr_lock *l);

/* Marks a lock that processes of more than one PID namespace share: from now on no holder is
 * judged dead by its pid, which may name another process here. */
void rr_lock_mix(struct rr_lock *l);
bool rr_lock_is_mixed(const struct rr_lock *l);

/* Has this process ended? Leaves errno alone. */
bool rr_pid_is_dead(int32_t pid);

/* In a forked child: notes the new pid. True: the child is in another PID namespace than its
 * parent, and every lock that both share has to be marked by rr_lock_mix(). */
bool rr_lock_forked(void);

/* --- The uncontended case, inline: each call on a connection takes and drops one lock --- */

#define RR_LOCK_WAITED	1u	/* in the word */
enum { RR_LOCK_STUCK = 1, RR_LOCK_MIXED = 2 };	/* in flags */

extern _Atomic int32_t rr_lock_pid;	/* of this process; 0: not known yet */

/* The word of a lock that this thread of the process pid holds and nobody waits for. Pid and
 * thread come into it by one store, so that neither a signal handler nor a death between two
 * instructions leaves a holder without a name. */
static inline uint32_t rr_lock_word(uint32_t pid, uintptr_t self)
{
	uint64_t hash = (uint64_t)self * UINT64_C(0x9e3779b97f4a7c15);

	return pid << 10 | (uint32_t)(hash >> 55) << 1;
}

/* rr_lock_try() of a lock that is not free, or in whose word the process has another name. */
int rr_lock_try_held(struct rr_lock *l);
/* The end of rr_lock_drop() where a thread waits: the lock is free already. */
void rr_lock_wake(struct rr_lock *l);

static inline int rr_lock_try(struct rr_lock *l)
{
	uint32_t pid = (uint32_t)atomic_load_explicit(&rr_lock_pid, memory_order_relaxed);
	uintptr_t self = (uintptr_t)pthread_self();
	uint32_t free = 0;

	/* Pairs with the release in rr_lock_drop(). */
	if (unlikely(!pid || atomic_load_explicit(&l->flags, memory_order_relaxed)) ||
	    unlikely(!atomic_compare_exchange_strong_explicit(&l->word, &free,
							      rr_lock_word(pid, self),
							      memory_order_acquire,
							      memory_order_relaxed)))
		return rr_lock_try_held(l);
	atomic_store_explicit(&l->thread, self, memory_order_relaxed);
	return 0;
}

static inline void rr_lock_drop(struct rr_lock *l)
{
	atomic_store_explicit(&l->thread, 0, memory_order_relaxed);
	/* Pairs with the acquire in rr_lock_try() and replace(). */
	if (unlikely(atomic_exchange_explicit(&l->word, 0, memory_order_release) &
		     RR_LOCK_WAITED))
		rr_lock_wake(l);
}

#endif
