/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_WHEN_H
#define RR_WHEN_H

/* With which call of a connection the offer rides along: the decision, pure, and what earlier
 * connections have taught about it (learned.c). */

#include <netinet/in.h>

#include "core/base/types.h"

/* Option offer_after. */
#define RR_AFTER_WAIT	0u		/* before the first call, which waits for the answer */
#define RR_AFTER_AUTO	UINT32_MAX

struct rr_when {
	uint32_t after;		/* the option; not RR_AFTER_WAIT */
	uint32_t record;	/* of this direction, from 1: the one that is about to go */
	uint32_t len;		/* bytes of it, as its first record mark says */
	uint32_t usual;		/* calls that such connections have made so far; 0 unknown */
};

/* With this one? */
bool rr_when_pays(const struct rr_when *w);

/* A connection to peer (v4 or v6) for program prog has ended after so many calls. */
void rr_learned_end(const struct sockaddr_in6 *peer, uint32_t prog, uint32_t calls);
/* What those before it made, about; 0 unknown. */
uint32_t rr_learned_usual(const struct sockaddr_in6 *peer, uint32_t prog);
/* At this address and port there is, or was, one of ours. */
void rr_learned_ours(const struct sockaddr_in6 *peer, bool is);
bool rr_learned_is_ours(const struct sockaddr_in6 *peer);
void rr_learned_forked(void);

#endif
