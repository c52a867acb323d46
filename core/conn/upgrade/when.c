/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides with which call an offer should go; pure. If nothing is known of a connection, its
 * first call says little, because many make one call and end; a second call usually means that
 * more will follow. Where connections to the same place have been seen before, the number of
 * their calls says it better: if those save more than an upgrade costs, the offer goes at once;
 * if they end earlier, it goes once this connection has made more calls than those. */

#include "core/base/compiler.h"
#include "core/conn/upgrade/when.h"

#define LARGE	32768u		/* bytes: whoever sends so much at once sends more */
#define FEW	4u		/* calls that never save what an upgrade costs */
#define ENOUGH	64u		/* calls that always do */
#define ENDS	3u		/* times the price: both ends pay alike, and half as much
				 * again goes into page faults, which the price leaves out */
#define TRIP	(36 * RR_USEC)	/* a call by TCP, if that is not known … */
#define LONGEST	(150 * RR_USEC)	/* … and what of it can be TCP's: a longer one is a server that
				 * works, which no upgrade makes shorter */
#define FIRST	2u		/* the record to offer with if nothing is known */
#define LITTLE	(100 * RR_USEC)	/* a shorter step set nothing up, but looked for news */

/* As many calls save what an upgrade costs: each five sixths of its round trip. */
static uint32_t worth(const struct rr_when *w)
{
	rr_time trip = w->trip ? rr_min(w->trip, LONGEST) : TRIP;
	rr_time calls = ENDS * w->price / (trip - trip / 6);

	return (uint32_t)rr_max(rr_min(calls, (rr_time)ENOUGH), (rr_time)FEW);
}

/* See when.h. */
uint32_t rr_when_record(const struct rr_when *w)
{
	if (w->after != RR_AFTER_AUTO)
		return w->after;
	if (w->len >= LARGE || w->usual >= worth(w))
		return 1;
	return w->usual ? rr_max(w->usual + 1, FIRST) : FIRST;
}

rr_time rr_when_next(rr_time began, rr_time ended)
{
	return ended - began < LITTLE ? 0 : ended + (ended - began);
}
