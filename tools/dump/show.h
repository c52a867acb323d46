/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SHOW_H
#define RR_SHOW_H

/* Makes pcapng of packets. They are kept for a moment first, so that those of all processes are
 * written in order of time, and because a transport message that describes a record may come
 * after it. */

#include "tools/dump/filter.h"
#include "tools/dump/pcapng.h"

struct rr_show_kept {
	struct rr_tap_packet *p;
	uint32_t interface, order;
	int pid;
	const char *comm; /* name of the tap's process */
	bool child;       /* from another process of its family */
	bool learnt;      /* what it says about records has been noted */
};

struct rr_show {
	struct rr_pcapng out;
	struct rr_talks talks;
	struct rr_filter filter;
	bool rdma;            /* shows messages; else records in TCP */
	bool wire;            /* ... with headers of any version as they went */
	uint64_t shown, most; /* records or messages; most: how many at most, 0 any number */
	size_t waiting;       /* bytes that rdma.c keeps */
	struct rr_show_kept *kept;
	uint32_t nkept, room;
};

/* Takes over p, which came from tap t. t->comm must stay until the next
 * rr_show_until(UINT64_MAX). */
void rr_show_add(struct rr_show *s, const struct rr_tap *t, uint32_t interface,
		 struct rr_tap_packet *p);

/* Writes what is not later than ns, until `most` have been shown. */
void rr_show_until(struct rr_show *s, uint64_t ns);

/* Writes all that there is: nothing more will come. */
void rr_show_end(struct rr_show *s);

/* Writes a packet's comment. chunks are bits of enum rr_talk_chunk. */
void rr_show_comment(char *buf, size_t size, const struct rr_show_kept *k, uint32_t chunks);

#endif
