/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ADVANCES_H
#define ADVANCES_H

/* For tests of messages that are told of before their end: a pair of ends, records in parts. */

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "core/conn/base/base.h"
#include "core/conn/carried/carried.h"
#include "tests/unit/conn_pair.h"

static inline uint64_t counted(const struct rr_end *e, enum rr_counter which)
{
	return e->c->share->qp->count->v[which];
}

static inline uint64_t told(const struct rr_end *e)
{
	return counted(e, RR_C_advances_sent);
}

/* Sends a part of out, which is taken at once. */
static inline void put(struct rr_end *e, size_t from, size_t to)
{
	cr_assert_eq(rr_end_try_send(e, out + from, to - from), (ssize_t)(to - from), "%zu to %zu", from, to);
}

/* Reads all that is there, behind `have` bytes; returns how many there are then, all as in out. */
static inline size_t get(struct rr_end *e, size_t have)
{
	ssize_t n;

	while ((n = rr_end_try_recv(e, in + have, sizeof(in) - have, 0)) > 0)
		have += (size_t)n;
	cr_assert_eq(n, -EAGAIN);
	cr_assert_eq(memcmp(in, out, have), 0, "within %zu", have);
	return have;
}

/* Cuts the record in out[0..n) into fragments of len bytes at most; returns how long it is then. */
static inline size_t in_fragments(size_t n, size_t len)
{
	static uint8_t whole[sizeof(out)];
	size_t to = 0;

	memcpy(whole, out, n);
	for (size_t at = RR_RM_HDR, take; at < n; at += take) {
		take = rr_min(len, n - at);
		rr_rm_put(out + to, (uint32_t)take, at + take == n);
		memcpy(out + to + RR_RM_HDR, whole + at, take);
		to += RR_RM_HDR + take;
	}
	return to;
}

#endif
