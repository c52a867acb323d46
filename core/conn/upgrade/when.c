/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides with which call an offer should go; pure. As long as nothing is known of what an
 * upgrade costs, the offer goes when the connection has made as many calls as may save that: so
 * a process that makes a few and ends has nothing to pay for, and one that makes many loses
 * little. Later, if nothing is known of connections to the place, it goes with the second call,
 * which usually means that more will follow. Where connections to the same place have been seen
 * before, the number of their calls says it better: if those save more than an upgrade costs,
 * the offer goes at once; if they end earlier, it goes once this connection has made more calls
 * than those. What costs and saves is known from connections that were upgraded, and from calls
 * before an offer; so now and then one goes as if nothing was known of others, and shows
 * both. */

#include "core/base/compiler.h"
#include "core/conn/upgrade/when.h"

#define LARGE	32768u		/* bytes: whoever sends so much at once sends more */
#define FEW	4u		/* calls that never save what an upgrade costs */
#define ENOUGH	64u		/* calls that always do */
#define HALVES	5u		/* of the price: both ends pay alike, and some goes into page
				 * faults, which the price leaves out */
#define LONGEST	(150 * RR_USEC)	/* of a call by TCP can be TCP's: a longer one is a server
				 * that works, which no upgrade makes shorter */
#define UNTRIED	(700 * RR_USEC)	/* for the price until one is known: a process's first upgrade
				 * takes some 2 ms of both ends */
#define UNTRIED_MOST	48u	/* … and the record to try with at the latest: a server looks
				 * for offers in 64, and one that cannot go goes later */
#define FIRST	2u		/* the record to offer with if nothing is known of others */
#define FAR	8u		/* what needs more than so many times the calls is not tried */
#define LITTLE	(100 * RR_USEC)	/* a shorter step set nothing up, but looked for news */

/* As many calls save what an upgrade costs: each five sixths of its round trip. */
static uint32_t worth(const struct rr_when *w)
{
	rr_time trip = rr_min(w->trip, LONGEST);
	rr_time price = w->price ? w->price : UNTRIED;
	rr_time calls = HALVES * price / 2 / (trip - trip / 6);

	return (uint32_t)rr_max(rr_min(calls, (rr_time)ENOUGH), (rr_time)FEW);
}

/* See when.h. */
uint32_t rr_when_record(const struct rr_when *w)
{
	uint32_t calls = w->usual.calls, enough, later;

	if (w->after != RR_AFTER_AUTO)
		return w->after;
	if (w->len >= LARGE)
		return 1;
	enough = worth(w);
	later = w->price ? rr_max(calls + 1, FIRST) : rr_min(enough, UNTRIED_MOST);
	if (w->usual.again && calls >= FEW && FAR * calls >= enough)
		return FIRST;
	return calls >= enough ? 1 : later;
}

rr_time rr_when_next(rr_time began, rr_time ended)
{
	return ended - began < LITTLE ? 0 : ended + (ended - began);
}
