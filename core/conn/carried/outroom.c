/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides whether there is room for what the app writes. Collecting and sending it is
 * stream.c's. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/conn/carried/carried.h"

/* See carried.h. Remembers in tx.full that there was no room. */
bool rr_stream_may_begin(struct rr_share *sh)
{
	bool within = !rr_rm_at_boundary(&sh->tx.rm);

	sh->tx.full = sh->pool.used == sh->pool.npages || !(within || rr_budget_room(sh));
	return !sh->tx.full;
}

int rr_stream_try_room(struct rr_share *sh, size_t need)
{
	size_t end = rr_room_out(sh);
	int64_t buf;

	if (sh->tx.buf != RR_BUF_NONE) {
		int rc = rr_pool_grow(&sh->pool, sh->tx.buf, need, end);

		rr_pool_outbound(&sh->pool, sh->tx.buf);
		return rc;
	}
	buf = rr_pool_alloc_below(&sh->pool, need, end);
	if (buf < 0)
		return (int)buf;
	sh->tx.buf = (uint32_t)buf;
	rr_pool_outbound(&sh->pool, sh->tx.buf);
	return 0;
}

bool rr_stream_room(struct rr_share *sh)
{
	if (!sh->tx.want)
		return rr_stream_may_begin(sh);
	if (rr_stream_try_room(sh, sh->tx.want) == -EAGAIN)
		return false;
	sh->tx.want = 0;
	return true;
}
