/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PRICE_H
#define RR_PRICE_H

/* What an upgrade costs this process: the time that its parts take, without what else has had
 * the processor meanwhile. Kept by carrier.c; any thread, no locks. */

#include "core/base/types.h"

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

#endif
