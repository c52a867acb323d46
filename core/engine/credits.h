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
	/* draft-02 §3.8: RDMA_DONE costs a credit and gets no reply. So that RDMA_DONE need not
	 * wait for a credit, it inherits the one of the call whose reply it acknowledges. The
	 * reply to a later call gives that credit back. */
	uint32_t due;		/* RDMA_DONEs that have a credit and are yet to be sent */
	uint32_t dones;		/* RDMA_DONEs that have been sent … */
	uint32_t done_back;	/* … and of them, those that the peer has certainly received */
};

/* RFC 8166 §3.3.3: one, until a reply says otherwise. */
/* req: rfc8166 3.3.3 #1; draft-02 6.1 #1 */
static inline void rr_credits_reset(struct rr_credits *c, uint32_t want)
{
	*c = (struct rr_credits){ .asked = want, .granted = 1 };
}

static inline uint32_t rr_credits_limit(const struct rr_credits *c)
{
	return c->granted < c->asked ? c->granted : c->asked;
}

/* Is there a credit left (RFC 8166 §3.3.1)? The limit is the lower of what was asked and
 * granted, less the calls in flight; a grant may have shrunk below that. If nothing is in
 * flight whose reply could return the credits of RDMA_DONEs, the peer has had time to process
 * those. */
/* req: rfc8166 3.3.1 #1; draft-02 3.3 #3 */
static inline bool rr_credits_left(const struct rr_credits *c)
{
	uint32_t limit = rr_credits_limit(c);

	return c->inflight + c->due + (c->dones - c->done_back) < limit ||
	       (c->inflight + c->due == 0 && limit > 0);
}

/* A call is over, but RDMA_DONE is due for its reply and keeps the credit. */
/* req: draft-02 3.8 #1 */
static inline void rr_credits_keep(struct rr_credits *c)
{
	assert(c->inflight > 0);
	c->inflight--;
	c->due++;
}

/* RDMA_DONE is sent. */
static inline void rr_credits_done(struct rr_credits *c, bool kept)
{
	c->due -= kept;
	c->dones++;
}

/* A reply has come to a call before which so many RDMA_DONEs were sent. Sends arrive in order,
 * so the peer has received all of these. */
static inline void rr_credits_done_back(struct rr_credits *c, uint32_t dones)
{
	if ((int32_t)(dones - c->done_back) > 0)
		c->done_back = dones;
}

/* Has the peer granted nothing, with no call in flight whose reply could grant more? */
static inline bool rr_credits_stuck(const struct rr_credits *c)
{
	return c->granted == 0 && c->inflight == 0;
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

/* Takes the grant of a reply. Zero would deadlock us (§3.3.1), so it counts as one unless the
 * dialect has a meaning for it. */
/* req: draft-02 3.3 #2 */
static inline void rr_credits_grant(struct rr_credits *c, uint32_t granted, bool zero)
{
	c->granted = granted || zero ? granted : 1;
}

#endif
