/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_HELLO_H
#define RR_TEST_HELLO_H

/* Hellos for tests of the negotiation: seeded ones, and a comparison by meaning. */

#include "core/nego/nego.h"
#include "tests/lib/bytes.h"

static inline struct rr_hello hello_random(uint64_t *seed, uint32_t nprov)
{
	struct rr_hello h = { .version = 1 + rng_below(seed, 3), .nprov = nprov };

	h.caps = (uint32_t)rng_next(seed);
	h.inline_size = (uint32_t)rng_next(seed);
	h.recvs = (uint32_t)rng_next(seed);
	h.credits = (uint32_t)rng_next(seed);
	h.bc_credits = (uint32_t)rng_next(seed);
	h.max_msg = (uint32_t)rng_next(seed);
	h.dialects = (uint32_t)rng_next(seed);
	h.asks = (uint32_t)rng_next(seed);
	/* answers only; an offer has no room for them beside three addresses */
	for (uint32_t i = 0, n = nprov > 1 ? 0 : rng_below(seed, RR_NEGO_RELEASE); i < n; i++)
		h.release[i] = (char)(1 + rng_below(seed, 255));
	h.nlack = h.release[0] ? rng_below(seed, RR_NEGO_PROVS + 1) : 0;
	rng_bytes(seed, (uint8_t *)h.lack, h.nlack * sizeof(h.lack[0]));
	rng_bytes(seed, h.token, sizeof(h.token));
	rng_bytes(seed, h.host, sizeof(h.host));
	rng_bytes(seed, h.ends, sizeof(h.ends));
	for (uint32_t i = 0; i < nprov; i++) {
		h.prov[i].id = (uint8_t)rng_next(seed);
		h.prov[i].addr.len = (uint16_t)rng_below(seed, RR_PROV_ADDR + 1);
		rng_bytes(seed, h.prov[i].addr.bytes, h.prov[i].addr.len);
	}
	return h;
}

static inline bool hello_equal(const struct rr_hello *a, const struct rr_hello *b)
{
	if (a->version != b->version || a->caps != b->caps || a->inline_size != b->inline_size ||
	    a->recvs != b->recvs || a->credits != b->credits || a->bc_credits != b->bc_credits ||
	    a->max_msg != b->max_msg || a->dialects != b->dialects || a->nprov != b->nprov ||
	    a->asks != b->asks || memcmp(a->release, b->release, sizeof(a->release)) != 0 ||
	    a->nlack != b->nlack || memcmp(a->lack, b->lack, a->nlack * sizeof(a->lack[0])) != 0 ||
	    memcmp(a->token, b->token, sizeof(a->token)) != 0 ||
	    memcmp(a->host, b->host, sizeof(a->host)) != 0 ||
	    memcmp(a->ends, b->ends, sizeof(a->ends)) != 0)
		return false;
	for (uint32_t i = 0; i < a->nprov; i++)
		if (a->prov[i].id != b->prov[i].id ||
		    a->prov[i].addr.len != b->prov[i].addr.len ||
		    memcmp(a->prov[i].addr.bytes, b->prov[i].addr.bytes, a->prov[i].addr.len) != 0)
			return false;
	return true;
}

#endif
