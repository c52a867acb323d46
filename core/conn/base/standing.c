/* SPDX-License-Identifier: BSD-3-Clause */
/* The standing wait. A connection's word says in which life of the wait it is a member, and by
 * which number, so that all cease to be members at once when the next life begins.
 *
 * Both sides write first and then look. A connection joins: its word, then whether it rests
 * (rr_conn_stands()); a rest ends: rest, then the word. The thread begins: asleep, then the
 * count; a rest of a member ends: the count, then asleep. So at least one of the two sees the
 * other, and all of it is sequentially consistent for that. */

#include "core/conn/standing.h"

#include <stdatomic.h>

#include "core/conn/face.h"

static _Atomic uint32_t life = 1;	/* never 0, which no connection is a member of */
static _Atomic uint32_t ceased;		/* rests of members that have ended */
static _Atomic bool asleep;

/* c's word if c is a member, else 0. */
static uint64_t member_word(const struct rr_conn *c)
{
	uint64_t word = atomic_load(&rr_conn_face(c)->standing);

	return word >> 32 == atomic_load_explicit(&life, memory_order_relaxed) ? word : 0;
}

uint32_t rr_standing_begin(void)
{
	atomic_store(&asleep, true);
	return atomic_load(&ceased);
}

void rr_standing_end(void)
{
	/* Pairs with the load in rr_standing_sleeps(): what this thread has seen of the
	 * connections comes before whatever is done where nobody sleeps. */
	atomic_store_explicit(&asleep, false, memory_order_release);
}

bool rr_standing_join(struct rr_conn *c, uint32_t at)
{
	uint64_t mine = (uint64_t)atomic_load_explicit(&life, memory_order_relaxed) << 32 | at;

	if (member_word(c))
		return false;
	atomic_store(&rr_conn_face(c)->standing, mine);
	return true;
}

uint32_t rr_standing_at(const struct rr_conn *c)
{
	uint64_t word = member_word(c);

	return word ? (uint32_t)word : UINT32_MAX;
}

void rr_standing_part(struct rr_conn *c)
{
	atomic_store_explicit(&rr_conn_face(c)->standing, 0, memory_order_release);
}

void rr_standing_dissolve(void)
{
	uint32_t was = atomic_load_explicit(&life, memory_order_relaxed);

	atomic_store(&life, was == UINT32_MAX ? 1 : was + 1);
}

void rr_standing_ceased(const struct rr_conn *c)
{
	if (member_word(c))
		atomic_fetch_add(&ceased, 1);
}

bool rr_standing_sleeps(const struct rr_conn *c)
{
	return member_word(c) && atomic_load(&asleep);
}

void rr_standing_forked(void)
{
	rr_standing_dissolve();
	atomic_store(&asleep, false);
}
