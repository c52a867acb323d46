/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PRICE_H
#define RR_PRICE_H

/* What an upgrade costs this process, and what a call by TCP costs it, which an upgrade would
 * save: about the least time that each has lately taken, without what else has had the
 * processor meanwhile. Kept by carrier.c and ride.c; any thread, no locks. */

#include "core/base/types.h"

/* What is known of connections to one place. */
struct rr_usual {
	uint32_t calls;		/* that they usually make; 0: unknown */
	bool again;		/* time to see once more what an upgrade costs and saves */
};

enum rr_price {
	RR_PRICE_MAKE,		/* a queue pair, to offer or to answer with */
	RR_PRICE_JOIN,
	RR_PRICE_ESTABLISH,
	RR_PRICE_FREE,
	RR_PRICE_PARTS,
};

/* A part has been done in this time. */
void rr_price_paid(enum rr_price part, rr_time took);
/* The sum of all parts; 0: none is known yet. */
rr_time rr_price_sum(void);

/* A call by TCP has got its reply after this time, while no other was under way. */
void rr_price_tripped(rr_time took);
/* What a call and its reply take by TCP, not 0. It is assumed until some have been timed. */
rr_time rr_price_trip(void);
#define RR_PRICE_TRIP	(36 * RR_USEC)

#endif
