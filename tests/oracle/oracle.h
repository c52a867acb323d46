/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ORACLE_H
#define ORACLE_H

/* What the oracles of core/wire share: a verdict that names the seed of its round. */

#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/bytes.h"

#define check(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: seed %#llx: %s\n", __FILE__, __LINE__, \
			(unsigned long long)round_seed, #cond); \
		exit(1); \
	} \
} while (0)

static uint64_t round_seed;

/* A credential or verifier; body has room for MAX_AUTH_BYTES. */
static inline struct opaque_auth random_auth(uint64_t *seed, char *body)
{
	struct opaque_auth a = { .oa_flavor = (enum_t)rng_below(seed, 8), .oa_base = body };

	a.oa_length = rng_below(seed, MAX_AUTH_BYTES + 1);
	rng_bytes(seed, body, a.oa_length);
	return a;
}

#endif
