/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_BE_H
#define RR_BE_H

/* Big-endian words at any address, aligned or not. */

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t rr_be32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return be32toh(v);
}

static inline uint64_t rr_be64(const uint8_t *p)
{
	return (uint64_t)rr_be32(p) << 32 | rr_be32(p + 4);
}

static inline void rr_put_be32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, 4);
}

static inline void rr_put_be64(uint8_t *p, uint64_t v)
{
	rr_put_be32(p, (uint32_t)(v >> 32));
	rr_put_be32(p + 4, (uint32_t)v);
}

#endif
