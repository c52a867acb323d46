/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_PLAINWAIT_H
#define RR_CONN_PLAINWAIT_H

/* Threads that sleep on connections for which the kernel has the first word. The functions for
 * the waiting side are in conn.h. */

#include "core/conn/conn.h"

/* How often a connection may have ceased to be plain, or somebody has looked for sleepers. */
extern _Atomic uint32_t rr_plainwait_stirs;

static inline void rr_plainwait_stir(void)
{
	/* Pairs with the acquires in rr_plainwait_is_sure() and rr_plainwait_resume(). */
	atomic_fetch_add_explicit(&rr_plainwait_stirs, 1, memory_order_acq_rel);
}

/* Does a thread of this process sleep on c in that way? After this call no further thread will,
 * until rr_conn_arm() has found that c has nothing to tell. Under its lock. */
bool rr_plainwait_has(struct rr_conn *c);

/* In a forked child, which has one thread. */
void rr_plainwait_forked(void);

#endif
