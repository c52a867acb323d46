/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_REPLY_SIZE_H
#define RR_REPLY_SIZE_H

/* How large replies may get. A transparent requester cannot know that, so it learns the largest
 * reply that each (program, version, procedure) has had. Shared by all connections of a
 * process; lock-free, bounded, and forgetful. */

#include <stdatomic.h>

#include "core/base/types.h"

#define RR_SIZES_SLOTS	256u

struct rr_sizes {
	struct {
		_Atomic uint64_t key;	/* hash of (program, version, procedure); 0 free */
		_Atomic uint32_t max;	/* bytes of RPC reply */
	} slot[RR_SIZES_SLOTS];
};

/* The learned maximum in bytes; 0: nothing is known. */
uint32_t rr_sizes_get(const struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc);

/* Notes a reply of len bytes. */
void rr_sizes_seen(struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc,
		   uint32_t len);

/* ERR_CHUNK: the `had` bytes that were offered are too few, and version 1 does not say how many
 * are needed. Doubles them. False: max was reached, and this procedure cannot be carried. */
bool rr_sizes_too_small(struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc,
			uint32_t had, uint32_t max);

/* Does a reply of at most `bound` payload bytes certainly fit into one Send of inline_recv
 * bytes? The transport header is counted at a fixed worst case, so that the answer does not
 * depend on itself (reliable-reply-00 §2: no recursion). */
bool rr_reply_fits_inline(uint32_t bound, uint32_t inline_recv);

#endif
