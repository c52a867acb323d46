/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SHOW_H
#define RR_SHOW_H

/* Makes pcapng of packets. They are kept for a moment first: those of all processes go out in
 * the order of their times, and what a transport message says of a record may come after it. */

#include "tools/dump/filter.h"
#include "tools/dump/pcapng.h"

struct rr_show_kept {
	struct rr_tap_packet *p;
	uint32_t interface, order;
	int pid;
	const char *comm; /* of the tap's process */
	bool child;       /* it is of another process of its family */
	bool learnt;      /* what it says of records is known */
};

struct rr_show {
	struct rr_pcapng out;
	struct rr_talks talks;
	struct rr_filter filter;
	bool rdma;            /* messages are shown as they went, else records in TCP */
	uint64_t shown, most; /* records or messages; most of them, 0 any number */
	size_t waiting;       /* bytes of what rdma.c keeps */
	struct rr_show_kept *kept;
	uint32_t nkept, room;
};

/* Takes p, which came from tap t, over. t->comm stays until the next rr_show_until(UINT64_MAX).
 */
void rr_show_add(struct rr_show *s, const struct rr_tap *t, uint32_t interface,
		 struct rr_tap_packet *p);

/* Writes what is not later than ns, until most were shown. */
void rr_show_until(struct rr_show *s, uint64_t ns);

/* Writes all that there is: nothing more comes. */
void rr_show_end(struct rr_show *s);

/* A packet's comment; chunks: enum rr_talk_chunk. */
void rr_show_comment(char *buf, size_t size, const struct rr_show_kept *k, uint32_t chunks);

#endif
