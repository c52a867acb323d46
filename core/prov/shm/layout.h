/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SHM_LAYOUT_H
#define RR_SHM_LAYOUT_H

/* What the two ends of a shm connection share: for each side one region (a sealed memfd), which
 * it owns and both map, and the hello that passes it on. All fields have fixed widths, because
 * a 32-bit program may face a 64-bit one. Bump RR_SHM_VERSION on any change.
 *
 *   ctl | freed[slots] | ring: slots || keys[RR_SHM_KEYS] || long: slots * stride || mem
 *                                                                        (|| page aligned)
 *
 * Each ring is used as if it had as many receives as the smaller of the two
 * (rr_shm_geo_agree()): how much memory a side's Sends touch is not for its peer to decide.
 *
 * The receive ring consists of slots, used in the order of an ever growing position p (slot p %
 * slots). It is not a byte ring, because receives are given back in any order (a message may
 * wait for its reader while later ones are given back) and each slot becomes free on its own.
 *
 *   - The sender writes {len, arg, payload} and last, with release, seq = the position. The
 *     receiver polls only that word of the slot that is next: a 72-byte message takes two
 *     cache lines, and no shared counter is touched.
 *   - A round may end before its last slot: the message with RR_SHM_LAST is the last one in
 *     it, and the positions up to the next multiple of slots are left out. The sender ends it
 *     as soon as the receiver has given back enough of it.
 *   - Short payloads lie in the slot, so that eight calls touch one page, which is the one of
 *     the control words; longer ones in the position's long area, which has room for a
 *     whole receive.
 *   - Slots and long areas are odd numbers of cache lines, so that neighbours never share a
 *     cache set.
 *   - Receives that are given back are published in ctl, off the data path: reposted (how
 *     many, the window), tail (all positions below it are free) and freed[slot] (the last
 *     position given back in that slot). The sender keeps copies and rereads them when they
 *     look full, freed[] only when a slot is not below tail at its turn.
 *   - A slot that is not free when its turn comes (its message is held, or not yet looked at)
 *     is passed over: the sender writes the position into the slot's skip word and leaves the
 *     rest alone. If the slot is passed over again, or becomes free and is used in a later
 *     round before the receiver gets there, the newer skip or seq by itself says that the
 *     awaited position holds no message.
 *
 * A page that was never touched, or was punched out, reads as zeroes: no seq is 0. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/types.h"

#define RR_SHM_MAGIC	UINT64_C(0x72726d6173686d01)	/* says endianness too */
#define RR_SHM_VERSION	5u
/* In place of RR_SHM_MAGIC: the regions that the offer has named, and no memfd. */
#define RR_SHM_AGAIN	UINT64_C(0x72726d6173686e01)

#define RR_SHM_SHORT	304u		/* bytes of payload in a slot: most calls about a file,
					 * and their replies */
#define RR_SHM_RECV_MIN	1024u		/* bytes of a receive */
#define RR_SHM_RECV_MAX	262144u
#define RR_SHM_RECVS	4096u		/* most receives */
#define RR_SHM_MEM_MAX	(UINT64_C(1) << 30)

#define RR_SHM_KEY_BITS	10u
#define RR_SHM_KEYS	(1u << RR_SHM_KEY_BITS)

#define RR_SHM_PROOF	8u

/* Each side's first packet, with its memfd (but see RR_SHM_AGAIN). The proof is half of the
 * token: the first half from the answering side, the second half from the offering side, so
 * neither learns from the other what it has to show itself. */
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

/* Fields by their writer, two cache lines apart because of adjacent-line prefetch. */
struct rr_shm_ctl {
	_Atomic uint32_t armed;		/* enum rr_arm bits: owner sets, peer clears, rings */
	/* enum rr_shm_joined, in the answering side's region: set by whoever is first */
	_Atomic uint32_t joined;
	/* By these words the peer decides how long to wait for the owner; 0: not known. They
	 * lie beside armed, which the peer looks at after each message anyway, and like it are
	 * written only when something changes. */
	_Atomic uint32_t cpu;		/* owner: the CPU that it last ran on, from 1 */
	_Atomic uint32_t doing;		/* owner: enum rr_doing bits */
	/* owner: how long it takes from a doorbell to being awake, in ns */
	_Atomic uint32_t woke;
	_Atomic uint32_t work;		/* owner: count of large pieces that it has moved */
	/* peer: the low bits of its CLOCK_MONOTONIC when it last rang */
	_Atomic uint32_t rung;
	_Atomic uint32_t knock;		/* owner: enum rr_shm_knock bits */
	uint8_t pad0[96];
	_Atomic uint32_t reposted;	/* owner: receives given back so far */
	_Atomic uint32_t tail;		/* owner: all positions below are free */
	uint8_t pad1[120];
	/* peer: the handle under which it copies at present, or 0 */
	_Atomic uint32_t accessing;
	uint8_t pad2[124];
};
_Static_assert(sizeof(struct rr_shm_ctl) == 384, "fixed width");

enum rr_shm_joined {
	RR_SHM_JOINED = 1,	/* offering side: its hello is sent, messages may follow */
	RR_SHM_WITHDRAWN = 2,	/* answering side: no messages will be accepted */
};

/* How far an end is with pipes for doorbells (pipe.c). */
enum rr_shm_knock {
	RR_SHM_ASKS = 1,	/* it would pass one on, for its own bell */
	RR_SHM_ADMITS = 2,	/* its socket lets the peer's in */
	RR_SHM_HAS = 4,		/* it has the peer's */
	RR_SHM_BY = 8,		/* it sleeps on its own: ring that */
};

enum {	/* in rr_shm_slot.len, above the length */
	RR_SHM_LEN_MASK	= (1 << 19) - 1,
	RR_SHM_IMM	= 1 << 24,	/* arg is immediate data; no payload */
	RR_SHM_INV	= 1 << 25,	/* arg is the receiver's handle that was invalidated */
	RR_SHM_NOTE	= 1 << 26,	/* arg is immediate data; up to RR_PROV_NOTE bytes */
	RR_SHM_LAST	= 1 << 27,	/* the round ends here */
};
_Static_assert(RR_SHM_RECV_MAX <= RR_SHM_LEN_MASK,
	       "a message that fills a receive has a length");
_Static_assert((RR_SHM_LEN_MASK & (RR_SHM_IMM | RR_SHM_INV | RR_SHM_NOTE | RR_SHM_LAST)) == 0,
	       "bits of their own");

struct rr_shm_slot {
	_Atomic uint32_t seq;	/* rr_shm_seq(position); 0 never written */
	_Atomic uint32_t len;
	_Atomic uint32_t arg;
	_Atomic uint32_t skip;	/* rr_shm_seq(position) of a skipped position; 0: none */
	uint8_t data[RR_SHM_SHORT];
};
_Static_assert(sizeof(struct rr_shm_slot) == 5 * RR_CACHELINE, "fixed width, an odd number");
_Static_assert(RR_SHM_SHORT <= RR_SHM_RECV_MIN, "what is short fits into each receive");
_Static_assert(RR_PROV_NOTE <= RR_SHM_SHORT, "notes are short");

/* An exposed piece of the owner's mem. */
struct rr_shm_key {
	_Atomic uint32_t handle;	/* 0: not exposed */
	_Atomic uint32_t rights;
	_Atomic uint64_t offset;	/* in mem */
	_Atomic uint32_t length;
	_Atomic uint32_t consumed;	/* peer: the handle, once it will not read any more */
	uint32_t pad[2];
};
_Static_assert(sizeof(struct rr_shm_key) == 32, "fixed width");

/* Sizes and offsets of a region, which both sides compute from three numbers. */
struct rr_shm_geo {
	uint32_t recv_size, recvs;
	uint32_t slots;		/* a power of two, at least recvs */
	uint32_t stride;	/* distance between the long payloads of two slots */
	uint64_t mem_size;
	size_t ring_off, keys_off, long_off, long_len, mem_off, total;
};

/* 0, or -EINVAL if a number is out of range. */
int rr_shm_geo_init(struct rr_shm_geo *g, uint32_t recv_size, uint32_t recvs,
		    uint64_t mem_size);

/* The largest region that a side accepts from its peer: 160 MiB, which is more than most
 * options can make of it, or four times its own size. The limit is needed because the memory is
 * freed by whichever of the two unmaps it last. */
size_t rr_shm_geo_bearable(const struct rr_shm_geo *other);

/* Makes both sides use as many receives and slots as the ring with fewer has. The rings keep
 * their layout. */
void rr_shm_geo_agree(struct rr_shm_geo *a, struct rr_shm_geo *b);

/* Positions count modulo 2^32; the low 31 bits go into the word. */
static inline uint32_t rr_shm_seq(uint32_t pos)
{
	return pos << 1 | 1;
}

#endif
