/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_IDLE_H
#define RR_CONN_IDLE_H

/* The memory of connections: what is given back to the system when they are idle (idle.c), and
 * chunk memory that none uses (warm.c). */

#include "core/base/compiler.h"
#include "core/conn/base/share.h"

/* idle.c */
/* When idle connections are to be looked at next; 0: nothing to do, or a thread is looking. */
extern _Atomic rr_time rr_idle_next;

/* The connection has just become carried, or is in use again after it was trimmed. Under its
 * lock. */
void rr_idle_wake(struct rr_share *sh, rr_time now);

/* Has the connection no memory but what short messages need, and is it this process's alone?
 * Then it may stay as it is when it is idle. */
static inline bool rr_idle_is_light(const struct rr_share *sh)
{
	return !sh->pool.peak && !sh->qp->bulky &&
	       atomic_load_explicit(&sh->procs, memory_order_relaxed) == 1;
}

/* Does it? */
static inline bool rr_idle_stays(const struct rr_share *sh)
{
	return atomic_load_explicit(&sh->stays, memory_order_relaxed) && rr_idle_is_light(sh);
}

/* A message has come or gone. rr_idle_next may be 0 although the connection is not trimmed: it
 * stays as it is, or another process of the family woke it, which may be gone by now, so this
 * process must schedule a look itself. */
static inline void rr_idle_used(struct rr_share *sh, rr_time now)
{
	bool looks = atomic_load_explicit(&rr_idle_next, memory_order_relaxed) ||
		     rr_idle_stays(sh);

	if (unlikely(sh->trimmed || !looks))
		rr_idle_wake(sh, now);
}

/* Looks at connections that may be idle, if that is due. Returns when to look again, or
 * RR_TIME_NEVER. */
rr_time rr_idle_look(rr_time now);

/* warm.c */
/* A buffer may just have been freed. If it was the last one, counts the pages that the
 * connection keeps, and gives them back if the process keeps too many. */
void rr_idle_count_warm(struct rr_share *sh);
static inline void rr_idle_warm(struct rr_share *sh)
{
	if (unlikely(!sh->pool.used && sh->pool.peak > sh->warm))
		rr_idle_count_warm(sh);
}

/* Gives back chunk memory that is not in use. The connection's own tables stay, because a
 * connection at work would touch them again at once. */
void rr_idle_trim(struct rr_share *sh);

#endif
