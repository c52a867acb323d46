/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_MSGS_H
#define RR_TEST_MSGS_H

/* Transport headers for tests: seeded random ones, and a comparison by meaning. */

#include "core/wire/msg.h"

/* A header of version 1 that can be encoded, of any type, from empty up to the limits. */
void msg_random(uint64_t *seed, struct rr_msg *m);

/* The same of version 2, with the numbers that version 2 has more. */
void msg_random_v2(uint64_t *seed, struct rr_msg *m);

/* The same of the slides' prototype: one of version 1, or a reverse message. */
void msg_random_slides(uint64_t *seed, struct rr_msg *m);

/* The same header? Where a chunk's segments lie in the pool is of no meaning; proc and
 * hdr_len, which encoding ignores, are not compared; properties are those of RR_CONNPROP. */
bool msg_equal(const struct rr_msg *a, const struct rr_msg *b);

#endif
