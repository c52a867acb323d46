/* SPDX-License-Identifier: BSD-3-Clause */
/* How a connection's chunk memory is divided. It holds three kinds of buffers: messages on
 * their way to the peer, free once the peer has fetched them; buffers that our calls offer for
 * their replies, free once the peer has written those; and messages fetched from the peer, free
 * once the app has read them. If the first two could take up everything, two ends could wait
 * for each other for ever, each lacking memory to fetch what the other has to get rid of first.
 *
 * So the last part of the memory, as large as the longest message, is for fetching alone, and
 * the part before it, equally large, is not for offers: however full of offers the memory is,
 * one message can be written and one fetched. The buffers themselves are pool.c's. */

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

/* All of the memory but n times the longest message, if anything may have to be fetched into
 * it. */
static size_t all_but(const struct rr_share *sh, size_t n)
{
	size_t all = (size_t)sh->pool.npages * RR_POOL_PAGE;
	size_t longest = rr_align((size_t)sh->ep.max_msg, (size_t)RR_POOL_PAGE);

	if (!rr_eng_may_pull(sh->eng, rr_drv_direct(sh)))
		return all;
	return all - rr_min(all, n * longest);
}

size_t rr_room_out(const struct rr_share *sh)
{
	return all_but(sh, 1);
}

size_t rr_room_reply(const struct rr_share *sh)
{
	return all_but(sh, 2);
}

/* Room for two messages of the largest size at least, and for what is received ahead of the
 * app. */
size_t rr_own_memory(void)
{
	return rr_align(rr_max((size_t)rr_cp->memory, (size_t)rr_cp->eng.max_msg * 2) +
				rr_cp->max_stash,
			(size_t)RR_POOL_PAGE);
}

size_t rr_own_ahead(void)
{
	return rr_own_memory() / 2;
}
