/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TRACK_H
#define RR_TRACK_H

/* One direction of the app's TCP stream while the connection looks on: where its records end,
 * and how many have gone by. */

#include <sys/uio.h>

#include "core/wire/recmark.h"

struct rr_track {
	struct rr_rm rm;
	uint64_t bytes;		/* of the app's stream … */
	uint64_t ours;		/* … and those in between that are the library's own */
	uint32_t records;	/* that have ended */
};

static inline bool rr_track_at_boundary(const struct rr_track *t)
{
	return rr_rm_at_boundary(&t->rm);
}

/* Moves past the first len bytes of iov[0..n). */
void rr_track_over(struct rr_track *t, const struct iovec *iov, int n, size_t len);

/* How many bytes may be read without going beyond the end of the record, as far as that is
 * known. head[0..have) are the next bytes in the queue; have may be 0. Returns at least 1. */
size_t rr_track_most(const struct rr_track *t, const uint8_t *head, size_t have);

#endif
