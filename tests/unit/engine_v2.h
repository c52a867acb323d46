/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_ENGINE_V2_H
#define RR_TEST_ENGINE_V2_H

/* One engine of version 2, its opening over. */

#include <criterion/criterion.h>
#include <errno.h>

#include "tests/lib/oneside.h"

enum { MSG, NOMSG, ERROR = 4, CONNPROP };
enum { BAD_XDR = 2, INVAL_HTYPE, READ_CHUNKS, WRITE_CHUNKS, SEGMENTS, WRITE_RESOURCE, REPLY_RESOURCE,
       SYSTEM };
#define CALL		0
#define REPLY		1
#define DONE		0x52444d03
#define PROP_RBSIZ	1
#define PROP_BRS	2
#define PROP_DONE	0x52444d01

#define INLINE(xid, dir)	(xid), 2, 20, MSG, (dir), 0, 0, 0, 0

static struct one o;

/* Of another dialect. */
static inline void v1(uint32_t caps, bool connector)
{
	one_init(&o, caps, connector);
}

static inline void draft02(bool connector)
{
	one_params(&o, 0, connector);
	o.p.dialect = RR_DIALECT_DRAFT02;
	one_start(&o);
}

static inline void v2_params(uint32_t caps, bool connector)
{
	one_params(&o, caps, connector);
	o.p.dialect = RR_DIALECT_V2;
}

/* The peer's properties: reliable replies if caps have them, reverse support as brs says; receives of
 * 1024 bytes, 20 credits. */
static inline void v2_start(uint32_t brs)
{
	uint32_t done = o.p.caps & RR_CAP_RELIABLE_REPLY ? 1 : 0;

	one_start(&o);
	one_run(&o);
	if (o.p.connector)
		ONE_RECV(&o, one_word(&o, 0, 0), 2, 20, CONNPROP, REPLY, 3, PROP_RBSIZ, 4, 1024, PROP_BRS, 4,
			 brs, PROP_DONE, 4, done);
	else
		ONE_RECV(&o, 77, 2, 20, CONNPROP, CALL, 3, PROP_RBSIZ, 4, 1024, PROP_BRS, 4, brs,
			 PROP_DONE, 4, done);
	one_clear(&o);
}

static inline void v2_begin(uint32_t caps, bool connector)
{
	v2_params(caps, connector);
	v2_start(1);
}

static inline enum rr_eng_why v2_failed(void)
{
	const struct rr_op *op = one_op(&o, RR_OP_FAIL, 0);

	return op ? op->why : RR_WHY_NONE;
}

/* The only Send is this error, with its words. */
#define ERROR_IS(...) do { \
	const uint32_t want_[] = { __VA_ARGS__ }; \
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1); \
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 4 * (5 + sizeof(want_) / 4 - 1)); \
	cr_assert_eq(one_word(&o, 0, 0), want_[0], "XID"); \
	cr_assert_eq(one_word(&o, 0, 1), 2); \
	cr_assert_eq(one_word(&o, 0, 3), ERROR); \
	cr_assert_eq(one_word(&o, 0, 4), REPLY); \
	for (uint32_t w_ = 1; w_ < sizeof(want_) / 4; w_++) \
		cr_assert_eq(one_word(&o, 0, 4 + w_), want_[w_], "word %u: %u", w_, one_word(&o, 0, 4 + w_)); \
} while (0)

#endif
