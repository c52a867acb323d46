/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash-2-4-128, which reads and writes words byte by byte: it is only used for some fifty
 * bytes, twice for each connection that is upgraded. */

#include "core/base/siphash.h"

/* Reads up to eight bytes as a little-endian number, whatever the machine's order and the
 * alignment. */
static uint64_t get_le64(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static void put_le64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t rotate(uint64_t v, int by)
{
	return v << by | v >> (64 - by);
}

/* SipRound, n times. */
static void rounds(uint64_t v[4], int n)
{
	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32) + v[3];
		v[2] += v[1];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

/* Takes in one word of the message: two rounds, hence the 2 of SipHash-2-4. */
static void mix_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

/* The last word has the rest of the message and its length. The constants 0xee and 0xdd are
 * those of the variant with 128 bits. */
void rr_siphash(uint8_t out[RR_SIPHASH_LEN], const uint8_t key[16], const void *in, size_t len)
{
	const uint8_t *p = in;
	uint64_t k0 = get_le64(key, 8), k1 = get_le64(key + 8, 8);
	uint64_t v[4] = {
		k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
		k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573),
	};
	size_t at = 0;

	for (; len - at >= 8; at += 8)
		mix_word(v, get_le64(p + at, 8));
	mix_word(v, (uint64_t)len << 56 | get_le64(p + at, len - at));
	v[2] ^= 0xee;
	rounds(v, 4);
	put_le64(out, v[0] ^ v[1] ^ v[2] ^ v[3]);
	v[1] ^= 0xdd;
	rounds(v, 4);
	put_le64(out + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
}
