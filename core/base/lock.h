/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LOCK_H
#define RR_LOCK_H

/* A lock that may live in memory shared with forked children, knows its owner, and survives
 * the death of a process that held it. Uncontended: one compare-exchange and one exchange.
 *
 * A thread that asks for a lock which it holds itself (a signal handler that interrupted us)
 * is told so instead of waiting for ever. */

#include <stdatomic.h>

#include "core/base/types.h"

struct rr_lock {
	_Atomic uint32_t word;		/* 0 free; else the holder: pid (22 bits), thread (9),
					 * waited for */
	_Atomic uint32_t flags;
	_Atomic uintptr_t thread;	/* pthread_self() of the holder, once it has come so
					 * far */
};

/* 0; -EDEADLK the calling thread has it; -EOWNERDEAD it was taken over from a dead process:
 * what it protects may be half changed; -EBUSY another process has it and does not go on (it
 * is stopped, or traced). That was waited for once: until it does go on, the answer comes at
 * once. */
int rr_lock_take(struct rr_lock *l);
/* Would it be -EBUSY, as far as anybody knows? */
bool rr_lock_is_stuck(const struct rr_lock *l);

/* The same, but -EBUSY instead of waiting. */
int rr_lock_try(struct rr_lock *l);

void rr_lock_drop(struct rr_lock *l);

/* Processes of more than one PID namespace have it: none of them is judged by its number any
 * more. */
void rr_lock_mix(struct rr_lock *l);
bool rr_lock_is_mixed(const struct rr_lock *l);

/* Has this process ended? errno is left alone. */
bool rr_pid_is_dead(int32_t pid);

/* In a forked child: this process has another pid now. True: in another PID namespace than its
 * parent, so that the locks which both have are to be mixed. */
bool rr_lock_forked(void);

#endif
