/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_PLAINWAIT_H
#define RR_CONN_PLAINWAIT_H

/* Threads that sleep where of some connections the kernel has the first word. The functions
 * that the waiting side calls are in conn.h. */

#include "core/conn/conn.h"

/* Does a thread of this process sleep so on c? From now on none will before rr_conn_arm() has
 * found that it has nothing to tell. Under its lock. */
bool rr_plainwait_has(struct rr_conn *c);

/* In a forked child, which has one thread. */
void rr_plainwait_forked(void);

#endif
