/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_PLAINWAIT_H
#define RR_CONN_PLAINWAIT_H

/* Threads that sleep on connections for which the kernel has the first word. The functions for
 * the waiting side are in conn.h. */

#include "core/conn/conn.h"

/* Does a thread of this process sleep on c in that way? After this call no further thread will,
 * until rr_conn_arm() has found that c has nothing to tell. Under its lock. */
bool rr_plainwait_has(struct rr_conn *c);

/* In a forked child, which has one thread. */
void rr_plainwait_forked(void);

#endif
