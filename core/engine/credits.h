/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CREDITS_H
#define RR_CREDITS_H

/* Credits of one direction, as its requester counts them (RFC 8166 §3.3.1). */

#include <assert.h>

#include "core/base/types.h"

struct rr_credits {
	uint32_t asked;		/* what our calls request */
	uint32_t granted;	/* what the last reply said */
	uint32_t inflight;	/* calls without reply */
};

/* RFC 8166 §3.3.3: until a reply says otherwise, one. */
/* req: rfc8166 3.3.3 #1 */
static inline void rr_credits_reset(struct rr_credits *c, uint32_t want)
{
	*c = (struct rr_credits){ .asked = want, .granted = 1 };
}

static inline uint32_t rr_credits_limit(const struct rr_credits *c)
{
	return c->granted < c->asked ? c->granted : c->asked;
}

/* RFC 8166 §3.3.1: the lower of asked and granted, less those in flight. A grant may
 * have shrunk below what is in flight. */
/* req: rfc8166 3.3.1 #1 */
static inline bool rr_credits_left(const struct rr_credits *c)
{
	return c->inflight < rr_credits_limit(c);
}

static inline void rr_credits_take(struct rr_credits *c)
{
	c->inflight++;
}

/* A call is over: answered, refused, or no longer waited for. */
static inline void rr_credits_return(struct rr_credits *c)
{
	assert(c->inflight > 0);	/* ours to get right: the XID matched */
	c->inflight--;
}

/* What a reply to a call of ours grants. Zero would deadlock us (§3.3.1): one. */
static inline void rr_credits_grant(struct rr_credits *c, uint32_t granted)
{
	c->granted = granted ? granted : 1;
}

#endif
