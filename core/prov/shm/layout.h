/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SHM_LAYOUT_H
#define RR_SHM_LAYOUT_H

/* What the two ends of a shm connection share: one region (a sealed memfd) per side, owned
 * by it and mapped by both, and the hello that passes it on. Everything is of fixed width:
 * a 32-bit program may face a 64-bit one. Bump RR_SHM_VERSION on any change.
 *
 *   ctl | freed[slots] | keys[RR_SHM_KEYS] || ring: slots || long: slots * stride || mem
 *                                                                        (|| page aligned)
 *
 * Each ring is used as if it had as many receives as the smaller of the two
 * (rr_shm_geo_agree()): how much memory a side's Sends touch is not for its peer to say.
 *
 * Receive ring: slots, used in the order of an ever growing position p (slot p % slots),
 * rather than a byte ring, because receives come back in any order (a message may wait for
 * its reader while later ones are given back) and a slot is free on its own.
 *   - The sender writes {len, arg, payload} and last, with release, seq = the position. The
 *     receiver polls only that word of the one slot that is next: a 72-byte message is two
 *     cache lines, and no shared counter is touched.
 *   - Short payloads lie in the slot, so that a dozen calls touch one page; longer ones where
 *     the slot's position has room for as much as a receive is long.
 *   - Slots, and that room, are odd numbers of cache lines: neighbours never share a cache set.
 *   - Receives that are given back are published behind the data path in ctl: reposted
 *     (how many, the window), tail (all positions below it are free) and freed[slot] (the
 *     last position given back in that slot). The sender keeps copies and rereads when they
 *     look full; freed[] only when a slot at its turn is not below tail.
 *   - A slot that is not free when its turn comes (its message is held, or not yet looked
 *     at) is passed over: the sender writes the position into the slot's skip word and
 *     leaves the rest alone. If the slot is passed over again, or comes free and is used, in
 *     a later round before the receiver gets there, the newer skip or seq says by itself
 *     that the awaited position holds no message.
 *
 * A page that was never touched, or was punched out, reads as zeroes: no seq is 0. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/types.h"

#define RR_SHM_MAGIC	UINT64_C(0x72726d6173686d01)	/* says endianness too */
#define RR_SHM_VERSION	3u

#define RR_SHM_SHORT	304u		/* bytes of payload in a slot: most calls about a file,
					 * and their replies */
#define RR_SHM_RECV_MIN	1024u		/* bytes of a receive */
#define RR_SHM_RECV_MAX	262144u
#define RR_SHM_RECVS	4096u		/* most receives */
#define RR_SHM_MEM_MAX	(UINT64_C(1) << 30)

#define RR_SHM_KEY_BITS	10u
#define RR_SHM_KEYS	(1u << RR_SHM_KEY_BITS)

#define RR_SHM_PROOF	8u

/* Each side's first packet, with its memfd. The proof is half of the token: the first half
 * from the answering side, the second half from the offering side, so neither learns from
 * the other what it has to show itself. */
struct rr_shm_hello {
	uint64_t magic;
	uint32_t version;
	uint32_t size;		/* of this struct */
	uint8_t proof[RR_SHM_PROOF];
	uint32_t recv_size;
	uint32_t recvs;
	uint64_t mem_size;
	uint64_t total;		/* bytes of the region */
};
_Static_assert(sizeof(struct rr_shm_hello) == 48, "fixed width");

/* Lines by writer, two cache lines apart for the sake of adjacent-line prefetch. */
struct rr_shm_ctl {
	_Atomic uint32_t armed;		/* enum rr_arm bits: owner sets, peer clears, rings */
	_Atomic uint32_t joined;	/* enum rr_shm_joined, in the answering side's: whoever
					 * sets it first */
	/* What the peer decides by how long to wait for the owner; 0 is not known. Beside
	 * armed, which the peer looks at after each message anyway, and like it written only
	 * when something changes. */
	_Atomic uint32_t cpu;		/* owner: on which it last ran, from 1 */
	_Atomic uint32_t doing;		/* owner: enum rr_doing bits */
	_Atomic uint32_t woke;		/* owner: ns from a bell to being awake */
	_Atomic uint32_t work;		/* owner: counts large pieces that it has moved */
	_Atomic uint32_t rung;		/* peer: its CLOCK_MONOTONIC at the last bell, low
					 * bits */
	uint8_t pad0[100];
	_Atomic uint32_t reposted;	/* owner: receives given back so far */
	_Atomic uint32_t tail;		/* owner: positions below are consumed and free */
	uint8_t pad1[120];
	_Atomic uint32_t accessing;	/* peer: the handle whose memory it is copying, or 0 */
	uint8_t pad2[124];
};
_Static_assert(sizeof(struct rr_shm_ctl) == 384, "fixed width");

enum rr_shm_joined {
	RR_SHM_JOINED = 1,	/* offering side: its hello is sent, messages may follow */
	RR_SHM_WITHDRAWN = 2,	/* answering side: none will be taken */
};

enum {	/* in rr_shm_slot.len, above the length */
	RR_SHM_LEN_MASK	= (1 << 19) - 1,
	RR_SHM_IMM	= 1 << 24,	/* arg is immediate data; no payload */
	RR_SHM_INV	= 1 << 25,	/* arg is the receiver's handle that was invalidated */
};
_Static_assert(RR_SHM_RECV_MAX <= RR_SHM_LEN_MASK,
	       "a message that fills a receive has a length");
_Static_assert((RR_SHM_LEN_MASK & (RR_SHM_IMM | RR_SHM_INV)) == 0, "bits of their own");

struct rr_shm_slot {
	_Atomic uint32_t seq;	/* rr_shm_seq(position); 0 never written */
	_Atomic uint32_t len;
	_Atomic uint32_t arg;
	_Atomic uint32_t skip;	/* rr_shm_seq(position) without a message; 0 none since */
	uint8_t data[RR_SHM_SHORT];
};
_Static_assert(sizeof(struct rr_shm_slot) == 5 * RR_CACHELINE, "fixed width, an odd number");
_Static_assert(RR_SHM_SHORT <= RR_SHM_RECV_MIN, "what is short fits into each receive");

/* An exposed piece of the owner's mem. */
struct rr_shm_key {
	_Atomic uint32_t handle;	/* 0: not exposed */
	_Atomic uint32_t rights;
	_Atomic uint64_t offset;	/* in mem */
	_Atomic uint32_t length;
	_Atomic uint32_t consumed;	/* peer: the handle, once it reads no more */
	uint32_t pad[2];
};
_Static_assert(sizeof(struct rr_shm_key) == 32, "fixed width");

/* Sizes and places in a region, as both sides compute them from three numbers. */
struct rr_shm_geo {
	uint32_t recv_size, recvs;
	uint32_t slots;		/* a power of two, at least recvs */
	uint32_t stride;	/* from one slot's long payload to the next one's */
	uint64_t mem_size;
	size_t keys_off, ring_off, ring_len, long_off, long_len, mem_off, total;
};

/* 0, or -EINVAL for numbers out of range. */
int rr_shm_geo_init(struct rr_shm_geo *g, uint32_t recv_size, uint32_t recvs,
		    uint64_t mem_size);

/* What a side maps of its peer's is freed by whoever of the two unmaps it last, so a region has
 * so many bytes at most: 160 MiB, which is more than most options alone make of it, or four
 * times as many as the other's. */
size_t rr_shm_geo_bearable(const struct rr_shm_geo *other);

/* Of two rings, each of which stays as long as it is, so many receives and slots are used as
 * the one with fewer has. */
void rr_shm_geo_agree(struct rr_shm_geo *a, struct rr_shm_geo *b);

/* Positions count modulo 2^32, of which the low 31 bits go into the word. */
static inline uint32_t rr_shm_seq(uint32_t pos)
{
	return pos << 1 | 1;
}

#endif
