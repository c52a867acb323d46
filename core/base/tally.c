/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds where in a statistics segment the calls of a procedure are counted. What is counted,
 * and when, is in core/conn/base/calls.c. */

#include "core/base/tally.h"

#include <errno.h>
#include <sys/mman.h>

#include "core/base/pages.h"

#define PROBES 8u /* entries that a key may be in */

static uint64_t bit_of(unsigned i)
{
	return UINT64_C(1) << i;
}

/* Allocates the tally's memory, because the first write to a page of a file on a full file
 * system raises SIGBUS. Only the segment's maker and its forked children ever write to it. */
static bool give_memory(struct rr_stat_seg *seg, unsigned i)
{
	size_t from = (size_t)((char *)rr_tally_at(seg, (int)i) - (char *)seg);
	size_t off = from & ~(size_t)(RR_PAGE - 1);
	size_t len = rr_align(from + sizeof(struct rr_stat_tally), (size_t)RR_PAGE) - off;

	return atomic_load_explicit(&seg->backed, memory_order_relaxed) == RR_STAT_SIZE ||
	       rr_stats_allocate(seg, off, len);
}

/* Makes the tally visible, once its memory and key are there. */
static void publish_tally(struct rr_stat_seg *seg, unsigned i)
{
	/* Pairs with the acquire in is_ready(), and with that of readers. */
	atomic_fetch_or_explicit(&seg->tallies_ready, bit_of(i), memory_order_release);
}

static bool is_ready(const struct rr_stat_seg *seg, unsigned i)
{
	return atomic_load_explicit(&seg->tallies_ready, memory_order_acquire) & bit_of(i);
}

static bool was_taken(const struct rr_stat_seg *seg, unsigned i)
{
	return atomic_load_explicit(&seg->tallies_taken, memory_order_relaxed) & bit_of(i);
}

/* True for the first thread that takes the entry, and for no other. */
static bool take_for_good(struct rr_stat_seg *seg, unsigned i)
{
	return !(
	    atomic_fetch_or_explicit(&seg->tallies_taken, bit_of(i), memory_order_relaxed) &
	    bit_of(i));
}

/* Two threads that get here at once, or a thread and the signal handler that interrupts it,
 * take the same steps, each of which may be taken twice: neither waits for the other, and no
 * call is left uncounted. If the memory was refused once it is not asked for again. */
RR_COLD int rr_tally_others(struct rr_stat_seg *seg, bool server)
{
	if (is_ready(seg, server))
		return server;
	if (was_taken(seg, server) || !give_memory(seg, server)) {
		take_for_good(seg, server);
		return -1;
	}
	rr_tally_set_key(&seg->key[server], server, 0, 0, 0);
	publish_tally(seg, server);
	return server;
}

/* Takes the first free entry among those in which the key may be, for good; if there is none,
 * or no memory, the calls count as those of others. Two threads may each take an entry for the
 * same key; readers add them up. */
static RR_COLD int take_new(struct rr_stat_seg *seg, unsigned first, bool server,
			    uint32_t program, uint32_t version, uint32_t procedure)
{
	for (unsigned n = 0; n < PROBES; n++) {
		unsigned i =
		    RR_TALLY_OTHERS + (first + n) % (RR_STAT_TALLIES - RR_TALLY_OTHERS);

		if (!take_for_good(seg, i))
			continue;
		if (!give_memory(seg, i))
			break;
		rr_tally_set_key(&seg->key[i], server, program, version, procedure);
		publish_tally(seg, i);
		return (int)i;
	}
	return rr_tally_others(seg, server);
}

/* Where the search for a key begins. Procedures of a program lie side by side, so they do not
 * collide among themselves; otherwise a hash decides. */
static unsigned first_place(bool server, uint32_t program, uint32_t version, uint32_t procedure)
{
	uint32_t h = (program * 2654435761u + version * 2246822519u + server) * 2654435761u;

	return (h >> 26) + procedure;
}

/* Looks at PROBES entries at most, so that the cost is bounded however full the table is. */
int rr_tally_find(struct rr_stat_seg *seg, bool server, uint32_t program, uint32_t version,
		  uint32_t procedure, bool make)
{
	uint64_t ready = atomic_load_explicit(&seg->tallies_ready, memory_order_acquire);
	unsigned first = first_place(server, program, version, procedure) %
			 (RR_STAT_TALLIES - RR_TALLY_OTHERS);

	for (unsigned n = 0, i = RR_TALLY_OTHERS + first; n < PROBES; n++) {
		if (ready & bit_of(i) &&
		    rr_tally_is_key(&seg->key[i], server, program, version, procedure))
			return (int)i;
		if (++i == RR_STAT_TALLIES)
			i = RR_TALLY_OTHERS;
	}
	return make ? take_new(seg, first, server, program, version, procedure) : -1;
}
