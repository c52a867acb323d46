/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "tests/lib/oneside.h"

/* Send With Invalidate as responder (RFC 8797 §4.1): which handle of a call its reply takes back. */

#define MSG	0
#define NOMSG	1

#define WRITE_CHUNK(h)	1, 1, (h), 4096, 0, 16, 0
#define REPLY_CHUNK(h)	1, 1, (h), 65536, 0, 16

static struct one o;

static void start(uint32_t caps)
{
	one_params(&o, caps, false);
	o.p.invalidate = true;
	one_start(&o);
}

static uint32_t answered(uint32_t xid, uint32_t len)
{
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, xid, len), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	return one_op(&o, RR_OP_SEND, 0)->inv_handle;
}

/* A call in a Position-Zero Read chunk of these two handles; delivered, but not read to its end. */
static uint32_t long_call(uint32_t xid)
{
	uint8_t head[40];
	uint32_t id;

	ONE_RECV(&o, xid, 1, 8, NOMSG, 1, 0, 0x31, 2000, 0, 64, 1, 0, 0x32, 2000, 0, 64, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_CALL(xid));
	rr_eng_head(o.e, id, 0, head, 40, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	return id;
}

Test(engine_invalidate, a_reply_takes_back_the_reply_chunk_first)
{
	start(0);
	ONE_RECV(&o, 1, 1, 8, MSG, 0, WRITE_CHUNK(0x21), REPLY_CHUNK(0x22), A_CALL(1));
	cr_assert_eq(answered(1, 24), 0x22);
	ONE_RECV(&o, 2, 1, 8, MSG, 0, 0, REPLY_CHUNK(0x23), A_CALL(2));
	cr_assert_eq(answered(2, 40000), 0x23);
	cr_assert_eq(o.count.v[RR_C_invalidations_sent], 2);
	one_fini(&o);
}

Test(engine_invalidate, then_a_write_chunk_that_has_segments)
{
	start(0);
	ONE_RECV(&o, 1, 1, 8, MSG, 0, 1, 0, WRITE_CHUNK(0x21), 0, A_CALL(1));
	cr_assert_eq(answered(1, 24), 0x21);
	ONE_RECV(&o, 2, 1, 8, MSG, 0, WRITE_CHUNK(0x24), 1, 0, A_CALL(2));	/* a Reply chunk without any */
	cr_assert_eq(answered(2, 24), 0x24);
	one_fini(&o);
}

Test(engine_invalidate, what_is_read_only_after_its_end)
{
	start(0);
	long_call(1);
	cr_assert_eq(answered(1, 24), 0);
	one_clear(&o);
	rr_eng_pulled(o.e, long_call(2), 0, o.now);
	one_run(&o);
	cr_assert_eq(answered(2, 24), 0x31);
	one_fini(&o);
}

/* req: rfc8797 4.1 #1 */
Test(engine_invalidate, a_call_without_chunks_has_nothing_to_take_back)
{
	start(0);
	ONE_RECV(&o, 1, 1, 8, MSG, 0, 0, REPLY_CHUNK(0x22), A_CALL(1));
	ONE_RECV(&o, 2, 1, 8, MSG, 0, 0, 0, A_CALL(2));
	cr_assert_eq(answered(2, 24), 0);
	cr_assert_eq(answered(1, 24), 0x22);
	ONE_RECV(&o, 3, 1, 8, MSG, 0, 0, 0, A_CALL(3));
	cr_assert_eq(answered(3, 24), 0);
	one_fini(&o);
}

/* req: rfc8797 4.1 #1 */
Test(engine_invalidate, nor_has_it_what_a_call_before_it_had)
{
	start(0);
	ONE_RECV(&o, 1, 1, 8, MSG, 0, WRITE_CHUNK(0x21), 0, A_CALL(1));
	ONE_RECV(&o, 2, 1, 8, MSG, 0, 0, 0, A_CALL(2));
	cr_assert_eq(answered(2, 24), 0);
	ONE_RECV(&o, 3, 1, 8, MSG, 0, 1, 0, 0, 0, A_CALL(3));	/* a Write chunk without segments */
	cr_assert_eq(answered(3, 24), 0);
	one_fini(&o);
}

/* There the requester may give a call up while its reply is on its way. */
Test(engine_invalidate, nothing_with_ring_credits)
{
	start(RR_CAP_RING_CREDITS);
	ONE_RECV(&o, 1, 1, 8, MSG, 0, 0, REPLY_CHUNK(0x22), A_CALL(1));
	cr_assert_eq(answered(1, 24), 0);
	one_fini(&o);
}
