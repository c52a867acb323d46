/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_SELECT_H
#define RR_STAT_SELECT_H

/* Which processes and connections rdmarpc-stat shows, and in which order. */

#include "tools/segment.h"

enum rr_sort {
	RR_SORT_NONE,	/* as rr_procs_sort() leaves it */
	RR_SORT_PID, RR_SORT_UID, RR_SORT_COMMAND, RR_SORT_SINCE, RR_SORT_CONNECTIONS,
	RR_SORT_CALLS, RR_SORT_RATE, RR_SORT_BYTES, RR_SORT_P50, RR_SORT_P99
};

struct rr_select {
	const char *command;	/* NULL: any */
	uint16_t port;		/* of either end of a connection; 0: any */
	uint32_t program;	/* of its first call; 0: any */
	bool procedures;	/* tallies are shown: those of program only */
	enum rr_sort sort;
};

/* Parse an option's value. An unknown one ends the program with status 2 and a message that
 * says what is allowed. */
enum rr_sort rr_select_sort(const char *arg);
uint16_t rr_select_port(const char *arg);
uint32_t rr_select_program(const char *arg);	/* a number, or a name of rpc(5) */

/* Does it leave out processes or connections? */
bool rr_select_filters(const struct rr_select *s);

/* Returns the wanted processes of all: without processes of other commands and connections of
 * other ports and programs; and if connections are chosen, without processes that have none of
 * them. They are sorted, the living first; if calls, bytes or the rate decide, so are the
 * connections of each. before is an earlier reading, for what is new since then, or NULL.
 *
 * The caller frees p. The connections belong to all, where their order changes; so do the
 * tallies, of which only those that are shown remain. */
struct rr_procs rr_select(struct rr_procs *all, const struct rr_select *s,
			  const struct rr_procs *before);

#endif
