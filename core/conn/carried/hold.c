/* SPDX-License-Identifier: BSD-3-Clause */
/* Which lock a connection has in its state, and what is left when a process of the family has
 * died while it held the lock. The lock itself is core/base/lock.c. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"

/* A process of the family died while it held the lock. What it left may be half done and is not
 * looked at any more. */
static void owner_died(struct rr_conn *c)
{
	struct rr_share *sh = c->share;

	if (!rr_conn_is_shared(rr_conn_st(c)))
		return;
	sh->back.head = sh->back.tail;
	rr_rx_forget(sh);
	sh->tx.buf = RR_BUF_NONE;
	sh->tx.flush_len = sh->tx.flush_off = 0;
	rr_drv_fail(sh, ECONNRESET, RR_R_INTERNAL);
	rr_anchor_break(c->fd);
}

void rr_share_hold(struct rr_share *sh)
{
	int rc;

	while ((rc = rr_lock_take(&sh->lock)) == -EBUSY)
		rr_os_nap(RR_MSEC);
	if (rc == -EOWNERDEAD)
		rr_drv_fail(sh, ECONNRESET, RR_R_INTERNAL);
}

int rr_conn_hold(struct rr_conn *c, struct rr_lock **l)
{
	for (;;) {
		enum rr_conn_st st = rr_conn_st(c);
		int rc;

		*l = rr_conn_is_shared(st) ? &c->share->lock : &c->lock;
		rc = rr_lock_take(*l);
		if (rc == -EDEADLK || rc == -EBUSY)
			return rc;
		if (rr_conn_st(c) == st) {
			if (unlikely(atomic_load_explicit(&c->rest, memory_order_relaxed)))
				rr_rest_end(c);
			if (rc == -EOWNERDEAD)
				owner_died(c);
			return (int)st;
		}
		rr_lock_drop(*l);
	}
}
