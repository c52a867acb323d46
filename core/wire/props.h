/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PROPS_H
#define RR_PROPS_H

/* Transport properties of RPC-over-RDMA version 2 (version-two-08 §4): what an end of a
 * connection says about itself in RDMA2_CONNPROP. Each property has a row in props.c. */

#include "core/base/types.h"

/* §4.2. All have one word as their value. */
enum rr_prop {
	RR_PROP_RBSIZ,		/* Receive Buffer Size: bytes of each posted receive */
	RR_PROP_BRS,		/* Reverse Request Support: enum rr_rvreqsup */
	RR_PROP_DONE,		/* private: 1 = RR_DONE and Read chunks in replies are
				 * understood */
	RR_PROP_N
};

/* §4.2.2: how far reverse calls and their replies can be received. */
enum rr_rvreqsup {
	RR_RVREQSUP_NONE	= 0,
	RR_RVREQSUP_INLINE	= 1,
	RR_RVREQSUP_GENL	= 2,
};

struct rr_props {
	uint32_t given;			/* bit 1 << enum rr_prop: was in the set */
	uint32_t unknown;		/* properties that we do not know: skipped, no error */
	uint32_t value[RR_PROP_N];	/* of those not given, the default */
};

/* None given: all have their defaults. */
void rr_props_init(struct rr_props *p);

static inline void rr_props_set(struct rr_props *p, enum rr_prop which, uint32_t value)
{
	p->given |= 1u << which;
	p->value[which] = value;
}

struct rr_rcur;
struct rr_wcur;

/* Decodes a propset. A property without data has its default value; of one that occurs twice
 * the later counts. RR_WIRE_BAD_XDR stays in the cursor for the reasons of §4.1: data that ends
 * beyond the message, has another length than the value, or is no value of the type. */
void rr_props_get(struct rr_rcur *c, struct rr_props *p);

/* Encodes the properties that are given; rr_props_size() is the length of that in bytes. */
void rr_props_put(struct rr_wcur *c, const struct rr_props *p);
uint32_t rr_props_size(const struct rr_props *p);

/* A subset of the properties of an earlier propset, by their places in it (§4.1). */
#define RR_PROPSUBSET_WORDS	4u	/* longer ones are RR_WIRE_TOO_MANY */

struct rr_propsubset {
	uint32_t nwords;
	uint32_t word[RR_PROPSUBSET_WORDS];
};

/* Is the property at place n in it? Words that were not sent count as zero. */
bool rr_propsubset_has(const struct rr_propsubset *s, uint32_t n);

void rr_propsubset_get(struct rr_rcur *c, struct rr_propsubset *s);
void rr_propsubset_put(struct rr_wcur *c, const struct rr_propsubset *s);

#endif
