/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_REPLY_SIZE_H
#define RR_REPLY_SIZE_H

/* How large may a reply get? A transparent requester cannot know, so it learns: the
 * largest reply that each (program, version, procedure) has had. Shared by all
 * connections of a process; lock-free, bounded, forgetful. */

#include <stdatomic.h>

#include "core/base/types.h"

#define RR_SIZES_SLOTS	256u

struct rr_sizes {
	struct {
		_Atomic uint64_t key;	/* hash of (program, version, procedure); 0 free */
		_Atomic uint32_t max;	/* bytes of RPC reply */
	} slot[RR_SIZES_SLOTS];
};

/* The learned maximum in bytes; 0 nothing is known. */
uint32_t rr_sizes_get(const struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc);

/* A reply of len bytes was seen. */
void rr_sizes_seen(struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc,
		   uint32_t len);

/* ERR_CHUNK: what was offered, had bytes, was too small, and v1 does not say by how much.
 * Doubles it; false when max was reached: this procedure cannot be carried. */
bool rr_sizes_too_small(struct rr_sizes *s, uint32_t prog, uint32_t vers, uint32_t proc,
			uint32_t had, uint32_t max);

/* Does a reply of at most bound payload bytes surely fit into one Send of inline_recv
 * bytes? The transport header in front of it is reckoned at a fixed worst case, so that
 * the answer does not depend on itself (reliable-reply-00 §2: no recursion). */
bool rr_reply_fits_inline(uint32_t bound, uint32_t inline_recv);

#endif
