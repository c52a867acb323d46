/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SIPHASH_H
#define RR_SIPHASH_H

/* SipHash-2-4 with 128 bits (Aumasson, Bernstein): without the key one can neither make a
 * digest nor learn anything about what went into it. */

#include "core/base/types.h"

#define RR_SIPHASH_LEN	16u

void rr_siphash(uint8_t out[RR_SIPHASH_LEN], const uint8_t key[16], const void *in, size_t len);

#endif
