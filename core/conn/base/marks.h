/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_MARKS_H
#define RR_CONN_MARKS_H

/* Marks of connections (slab.c), by which those of some kind are found among thousands without
 * looking at the others. They end with the connection. */

#include <stdbool.h>
#include <stdint.h>

struct rr_conn;

enum rr_mark {
	/* Its memory is in use, or was when it was last found trimmed. Set and removed under
	 * its lock, or before anybody else can have it. */
	RR_MARK_IN_USE,
	/* It is idle, and one of the few that keep their memory. Also marked as in use. */
	RR_MARK_STAYS,
	/* A native peer that was accepted: it is entering (RR_S_TAKEN), or was when it was last
	 * looked at … */
	RR_MARK_ENTERS,
	/* … it has become carried … */
	RR_MARK_GUEST,
	/* … and had said nothing yet when it was last looked at. */
	RR_MARK_SILENT,
	RR_MARKS
};

/* For the connection at this index. */
void rr_slab_mark(uint32_t index, enum rr_mark m);
void rr_slab_unmark(uint32_t index, enum rr_mark m);
/* How many connections have the mark. */
uint32_t rr_slab_count(enum rr_mark m);
/* The first connection with the mark, at this index or after it; NULL: there is none. */
struct rr_conn *rr_slab_next(uint32_t from, enum rr_mark m);
/* As rr_conn_each_carried(), for connections with the mark, and only as long as fn() returns
 * true. */
bool rr_slab_each(enum rr_mark m, bool (*fn)(struct rr_conn *, void *), void *ctx);

#endif
