/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TALLY_H
#define RR_TALLY_H

/* The tallies of a statistics segment (stats_abi.h): what is counted for each program, version
 * and procedure. A bounded table without a lock: a key without an entry takes one for good, and
 * if there is none left its calls count as "others". Two threads that need the same new entry
 * at once may take one each; readers add up the entries of a key.
 *
 * Any thread may call these functions, and they are async-signal-safe; rr_tally_find() makes
 * one madvise() when it takes an entry, and errno stays as it was. seg is not NULL. */

#include "core/base/stats_abi.h"

/* The index of a key's tally. make: takes an entry if there is none; otherwise returns -1 then.
 * If none can be taken returns the tally of the others, or -1 if there is no memory even for
 * that. */
int rr_tally_find(struct rr_stat_seg *seg, bool server, uint32_t program, uint32_t version,
		  uint32_t procedure, bool make);

/* The tally of all others; -1: there is no memory. */
int rr_tally_others(struct rr_stat_seg *seg, bool server);

static inline struct rr_stat_tally *rr_tally_at(struct rr_stat_seg *seg, int i)
{
	return (struct rr_stat_tally *)&seg->conn[RR_STAT_OWN] + i;
}

static inline bool rr_tally_is_key(const struct rr_tally_key *k, bool server, uint32_t program,
				   uint32_t version, uint32_t procedure)
{
	return atomic_load_explicit(&k->procedure, memory_order_relaxed) == procedure &&
	       atomic_load_explicit(&k->program, memory_order_relaxed) == program &&
	       atomic_load_explicit(&k->version, memory_order_relaxed) == version &&
	       atomic_load_explicit(&k->server, memory_order_relaxed) == server;
}

/* The order does not matter: nobody reads the key before its entry is published. */
static inline void rr_tally_set_key(struct rr_tally_key *k, bool server, uint32_t program,
				    uint32_t version, uint32_t procedure)
{
	atomic_store_explicit(&k->program, program, memory_order_relaxed);
	atomic_store_explicit(&k->version, version, memory_order_relaxed);
	atomic_store_explicit(&k->procedure, procedure, memory_order_relaxed);
	atomic_store_explicit(&k->server, server, memory_order_relaxed);
}

static inline void rr_tally_add(_Atomic uint64_t *v, uint64_t n)
{
	atomic_fetch_add_explicit(v, n, memory_order_relaxed);
}

#endif
