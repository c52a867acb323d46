/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_WHEN_H
#define RR_WHEN_H

/* With which call of a connection an offer should go: the decision, pure, and what earlier
 * connections have taught about it (learned.c). */

#include <netinet/in.h>

#include "core/base/types.h"
#include "core/conn/base/price.h"

/* Option offer_after. */
/* offer before the first call, which waits for the answer */
#define RR_AFTER_WAIT	0u
#define RR_AFTER_AUTO	UINT32_MAX

struct rr_when {
	uint32_t after;		/* the option; not RR_AFTER_WAIT */
	uint32_t record;	/* number of the record that is about to go, from 1 */
	uint32_t len;		/* its bytes, as its first record mark says */
	struct rr_usual usual;
	rr_time price;		/* what an upgrade costs this process; 0: unknown */
	rr_time trip;		/* what a call by TCP takes, not 0 */
};

/* The number of the record that the offer should go with, from 1. */
uint32_t rr_when_record(const struct rr_when *w);
/* Should it go with this record? */
static inline bool rr_when_pays(const struct rr_when *w)
{
	return w->record >= rr_when_record(w);
}

/* A part of a set-up took from began to ended. When may the next part begin? 0: at once. */
rr_time rr_when_next(rr_time began, rr_time ended);

/* A connection to peer (v4 or v6) for program prog has ended after so many calls. */
void rr_learned_end(const struct sockaddr_in6 *peer, uint32_t prog, uint32_t calls);
struct rr_usual rr_learned_usual(const struct sockaddr_in6 *peer, uint32_t prog);
/* Of the program there whose connections make the most calls. */
struct rr_usual rr_learned_most(const struct sockaddr_in6 *peer);
/* Whether the server at this address and port has the library. */
void rr_learned_ours(const struct sockaddr_in6 *peer, bool is);
bool rr_learned_is_ours(const struct sockaddr_in6 *peer);
void rr_learned_forked(void);

#endif
