/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_BYTES_H
#define RR_TEST_BYTES_H

/* Bytes for tests: words as the RFCs print them, exact-size copies, seeded randomness. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/wire/cursor.h"

/* A heap block of exactly len bytes, so that ASan sees a read beyond them. */
static inline uint8_t *tight(const void *src, size_t len)
{
	uint8_t *p = calloc(1, len ? len : 1);

	if (!p)
		abort();
	if (len)
		memcpy(p, src, len);
	return p;
}

/* A copy of len bytes that ends where memory ends: whoever reads beyond them dies, in any build. The next call, and
 * edge_back(), take it away. */
enum { EDGE_MOST = 1 << 18, EDGE_BEHIND = 1 << 16 };

static inline uint8_t *edge_at(int prot)
{
	static uint8_t *mem;

	if (!mem)
		mem = mmap(NULL, EDGE_MOST + EDGE_BEHIND, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED || mprotect(mem, EDGE_MOST, prot))
		abort();
	return mem + EDGE_MOST;
}

static inline uint8_t *edged(const void *src, size_t len)
{
	uint8_t *end = edge_at(PROT_READ | PROT_WRITE);

	if (len > EDGE_MOST)
		abort();
	if (len)
		memcpy(end - len, src, len);
	return end - len;
}

static inline void edge_back(void)
{
	edge_at(PROT_NONE);
}

/* n words in network order. */
static inline uint32_t put_words(uint8_t *out, const uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rr_put_be32(out + 4 * i, words[i]);
	return (uint32_t)(4 * n);
}

/* put_words() of the arguments: the bytes written. */
#define WORDS(out, ...) \
	put_words((out), (const uint32_t[]){ __VA_ARGS__ }, \
		  sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

/* splitmix64: the same numbers everywhere for a seed. */
static inline uint64_t rng_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static inline uint32_t rng_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(rng_next(state) % n);
}

static inline void rng_bytes(uint64_t *state, void *out, size_t len)
{
	for (uint8_t *p = out; len--; p++)
		*p = (uint8_t)rng_next(state);
}

#endif
