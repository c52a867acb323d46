/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts received calls of procedures that the app has not confirmed by a reply. A peer chooses
 * their numbers, so they get entries of their own, and those of calls that were refused are
 * used again: a peer that makes procedures up cannot take the place of others' tallies. If the
 * entries do not suffice, calls are counted together, in the last one. */

#include "core/base/unconfirmed.h"

#include "core/base/tally.h"

#define REST (RR_STAT_UNCONFIRMED - 1)

/* The procedure's entry, or a free one that becomes its own, or that of the rest. A reader may
 * see half of the new key; only while the entry counts nothing. */
static unsigned entry_of_procedure(struct rr_stat_seg *seg, uint32_t program, uint32_t version,
				   uint32_t procedure)
{
	unsigned found = REST;

	for (unsigned i = 0; i < REST; i++) {
		const struct rr_stat_unconfirmed *u = &seg->unconfirmed[i];

		if (!atomic_load_explicit(&u->calls, memory_order_acquire))
			found = rr_min(found, i);
		else if (rr_tally_is_key(&u->key, true, program, version, procedure))
			return i;
	}
	if (found < REST)
		rr_tally_set_key(&seg->unconfirmed[found].key, true, program, version,
				 procedure);
	return found;
}

static void count_in(struct rr_stat_unconfirmed *u, uint32_t len, bool too_long)
{
	rr_tally_add(&u->arguments, len);
	rr_tally_add(&u->long_arguments, too_long);
	/* Pairs with the acquire of readers, which take a key for valid if there are calls. */
	atomic_fetch_add_explicit(&u->calls, 1, memory_order_release);
}

/* Entries are found, and given to others, by one thread at a time. Nobody waits for that: who
 * comes in between (or after a process that was killed in there) counts with the rest. */
RR_COLD uint8_t rr_unconfirmed_add(struct rr_stat_seg *seg, uint32_t program, uint32_t version,
				   uint32_t procedure, uint32_t len, bool too_long)
{
	unsigned i = REST;
	bool free = !atomic_exchange_explicit(&seg->unconfirmed_held, 1, memory_order_acquire);

	if (free)
		i = entry_of_procedure(seg, program, version, procedure);
	count_in(&seg->unconfirmed[i], len, too_long);
	if (free)
		atomic_store_explicit(&seg->unconfirmed_held, 0, memory_order_release);
	return (uint8_t)(i + 1);
}

/* The calls come last: an entry without calls may get another key at once. */
RR_COLD void rr_unconfirmed_take(struct rr_stat_seg *seg, uint8_t entry, uint32_t len,
				 bool too_long)
{
	struct rr_stat_unconfirmed *u = &seg->unconfirmed[entry - 1];

	atomic_fetch_sub_explicit(&u->arguments, len, memory_order_relaxed);
	atomic_fetch_sub_explicit(&u->long_arguments, too_long, memory_order_relaxed);
	atomic_fetch_sub_explicit(&u->calls, 1, memory_order_release);
}
