/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out which native listeners the processes of a family really have, by their statistics
 * segments. rpcbind must not name an RDMA port at which nobody answers; only the library in the
 * process knows whether it could open one. */

#include "tools/run/doors.h"

#include <stdlib.h>
#include <string.h>

#include "tools/places.h"

/* Adds an entry of a listener: it has a local address and no peer. Parses "0.0.0.0:111" or
 * "[::]:111". A listener is open, or is shut for the reason that its state TCP gives. */
static void add_door(struct rr_doors *d, const struct rr_proc_conn *c)
{
	const char *port = strrchr(c->local, ':');
	bool open = c->state == RR_CS_LISTENING;

	if (d->n == RR_DOORS || !port || c->peer[0] || (!open && c->state != RR_CS_TCP))
		return;
	d->door[d->n++] = (struct rr_door){ c->local[0] == '[' ? 6 : 4,
					    (uint16_t)atoi(port + 1), open, c->reason };
}

/* The digest (FNV-1a) is only compared with the last one: another one means that rpcbind has to
 * be looked at again. */
uint64_t rr_doors_read(struct rr_doors *d, const struct rr_family *f,
		       const struct rr_conf *conf)
{
	uint64_t h = 0xcbf29ce484222325u;
	struct rr_procs all = { 0 };
	int pids[RR_FAMILY_MEMBERS];
	struct rr_places places;

	for (uint32_t i = 0; i < f->nmembers; i++)
		pids[i] = f->members[i].pid;
	rr_places_find(&places, conf->run_dir);
	if (f->nmembers)
		rr_places_read(&places, &all, pids, f->nmembers);
	d->n = 0;
	/* Only processes that the kernel says are members: another's segment may claim to
	 * be. */
	for (uint32_t i = 0; i < all.n; i++)
		for (uint32_t k = 0; all.p[i].verified && k < all.p[i].nconns; k++)
			add_door(d, &all.p[i].conns[k]);
	rr_procs_fini(&all);
	rr_places_fini(&places);
	for (uint32_t i = 0; i < d->n; i++)
		h = (h ^ (d->door[i].port << 2 | d->door[i].open << 1 |
			  (d->door[i].family == 6))) *
		    0x100000001b3u;
	return h;
}

/* If several processes share a listener, one has the port and the others report that it is
 * taken. */
const char *rr_doors_shut(const struct rr_doors *d, const struct rr_listening *l)
{
	const char *why = "the program's library does not say that it listens for RDMA";

	for (uint32_t i = 0; i < d->n; i++) {
		const struct rr_door *door = &d->door[i];

		if (door->family != l->family || door->port != l->port)
			continue;
		if (door->open)
			return NULL;
		why = rr_reason_text(door->reason);
	}
	return why;
}
