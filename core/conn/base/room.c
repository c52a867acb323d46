/* SPDX-License-Identifier: BSD-3-Clause */
/* How chunk memory is shared out where messages of the peer's are fetched into it. Three kinds
 * of buffers are there: of messages on their way to the peer, free once it has fetched them;
 * those that calls of ours offer for their replies, free once it has written these; and what
 * was fetched, free once the app has read it. If the first two took up all, two ends would wait
 * for each other for ever: each for memory to fetch into what the other has to be rid of first.
 *
 * So the last part of the memory, of the longest message's size, is for fetching alone, and the
 * part before that, as long, for messages of either way: however full of offers it is, one
 * message can be written, and one fetched. */

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

/* All but n times the longest message. */
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

/* Two messages of the largest size at least, and what is received ahead of the app. */
size_t rr_own_memory(void)
{
	return rr_align(rr_max((size_t)rr_cp->memory, (size_t)rr_cp->max_msg * 2) +
				rr_cp->max_stash,
			(size_t)RR_POOL_PAGE);
}

size_t rr_own_ahead(void)
{
	return rr_own_memory() / 2;
}
