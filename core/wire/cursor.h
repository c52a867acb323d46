/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CURSOR_H
#define RR_CURSOR_H

/* XDR cursors (RFC 4506): big-endian words in a bounded buffer. A cursor remembers its
 * first error; from then on it reads zeroes and writes nothing, so that codecs are
 * straight lines and a message is judged once, at its end. */

#include "core/base/compiler.h"
#include "core/wire/be.h"
#include "core/wire/msg.h"

/* --- reading --- */

struct rr_rcur {
	const uint8_t *p, *end;
	enum rr_wire_rc rc;
};

static inline void rr_rcur_init(struct rr_rcur *c, const uint8_t *buf, uint32_t len)
{
	*c = (struct rr_rcur){ .p = buf, .end = buf + len, .rc = RR_WIRE_OK };
}

static inline uint32_t rr_rcur_left(const struct rr_rcur *c)
{
	return (uint32_t)(c->end - c->p);
}

/* Keeps the first error, and leaves nothing to read. */
static inline void rr_rcur_fail(struct rr_rcur *c, enum rr_wire_rc rc)
{
	if (c->rc == RR_WIRE_OK)
		c->rc = rc;
	c->p = c->end;
}

static inline uint32_t rr_get_u32(struct rr_rcur *c)
{
	uint32_t v;

	if (unlikely(rr_rcur_left(c) < 4)) {
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
		return 0;
	}
	v = rr_be32(c->p);
	c->p += 4;
	return v;
}

static inline uint64_t rr_get_u64(struct rr_rcur *c)
{
	uint64_t hi = rr_get_u32(c);

	return hi << 32 | rr_get_u32(c);
}

/* The next n bytes; NULL if there are fewer. */
static inline const uint8_t *rr_rcur_take(struct rr_rcur *c, uint32_t n)
{
	const uint8_t *p = c->p;

	if (unlikely(rr_rcur_left(c) < n)) {
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
		return NULL;
	}
	c->p += n;
	return p;
}

/* RFC 4506 §4.4: 0 or 1, nothing else. */
static inline bool rr_get_bool(struct rr_rcur *c)
{
	uint32_t v = rr_get_u32(c);

	if (unlikely(v > 1))
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
	return v == 1;
}

/* --- writing --- */

struct rr_wcur {
	uint8_t *p, *end;
	bool full;
};

static inline void rr_wcur_init(struct rr_wcur *c, uint8_t *buf, uint32_t cap)
{
	*c = (struct rr_wcur){ .p = buf, .end = buf + cap, .full = false };
}

/* The next n bytes to be filled in by the caller; NULL if they do not fit. */
static inline uint8_t *rr_wcur_take(struct rr_wcur *c, uint32_t n)
{
	uint8_t *p = c->p;

	if (unlikely(c->full || (size_t)(c->end - p) < n)) {
		c->full = true;
		return NULL;
	}
	c->p += n;
	return p;
}

static inline void rr_put_u32(struct rr_wcur *c, uint32_t v)
{
	uint8_t *p = rr_wcur_take(c, 4);

	if (p)
		rr_put_be32(p, v);
}

static inline void rr_put_u64(struct rr_wcur *c, uint64_t v)
{
	rr_put_u32(c, (uint32_t)(v >> 32));
	rr_put_u32(c, (uint32_t)v);
}

#endif
