/* SPDX-License-Identifier: BSD-3-Clause */

/* version-two-08 §3.3, §8.4: rdma_inv_handle */

#include "tests/unit/engine_v2.h"

#define SEG(handle, len)	(handle), (len), 0, 0x1000
#define READ_SEG(pos, h, len)	1, (pos), SEG(h, len)
#define NFS_READ(x, count)	(x), 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, (count)
#define BOTH(xid, inv)		(xid), 2, 20, MSG, CALL, (inv), 0, 1, 1, SEG(0x21, 4096), 0, 1, 1, SEG(0x22, 4096)

static uint8_t msg[8192];

static void begin(bool connector, bool invalidate, bool invited, uint32_t caps)
{
	v2_params(caps, connector);
	o.p.invalidate = invalidate;
	o.p.invited = invited;
	v2_start(2);
}

static uint32_t inv_of_reply(uint32_t xid, uint32_t len)
{
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, xid, len), 0);
	return one_op(&o, RR_OP_SEND, 0)->inv_handle;
}

static const struct rr_op *sent(uint32_t len)
{
	one_clear(&o);
	one_send_bytes(&o, msg, len);
	return one_op(&o, RR_OP_SEND, 0);
}

/* Of any segment of any of its chunks, and no other. */
Test(engine_v2_invalidate, whichever_of_its_handles_that_is)
{
	for (uint32_t h = 0x20; h <= 0x26; h++) {
		begin(false, true, false, 0);
		ONE_RECV(&o, 5, 2, 20, MSG, CALL, h, 0, 1, 1, SEG(0x21, 100), 1, 2, SEG(0x22, 100), SEG(0x23, 100),
			 1, 1, SEG(0x24, 100), 0, 1, 1, SEG(0x25, 100), A_CALL(5));
		cr_assert_eq(inv_of_reply(5, 24), h > 0x20 && h < 0x26 ? h : 0);
		one_fini(&o);
	}
}

Test(engine_v2_invalidate, a_reply_takes_back_the_handle_that_its_call_names)
{
	begin(false, true, false, 0);
	ONE_RECV(&o, BOTH(5, 0x21), A_CALL(5));
	cr_assert_eq(inv_of_reply(5, 24), 0x21);
	ONE_RECV(&o, BOTH(6, 0x22), A_CALL(6));
	cr_assert_eq(inv_of_reply(6, 24), 0x22);
	ONE_RECV(&o, 7, 2, 20, MSG, CALL, 0x23, 0, 1, 2, SEG(0x21, 64), SEG(0x23, 64), 0, 0, A_CALL(7));
	cr_assert_eq(inv_of_reply(7, 24), 0x23);
	one_fini(&o);
}

Test(engine_v2_invalidate, none_is_taken_back_where_none_is_named)
{
	begin(false, true, false, 0);
	ONE_RECV(&o, BOTH(5, 0), A_CALL(5));
	cr_assert_eq(inv_of_reply(5, 24), 0);
	one_fini(&o);
}

Test(engine_v2_invalidate, a_handle_that_the_call_does_not_have_is_none)
{
	begin(false, true, false, 0);
	ONE_RECV(&o, BOTH(5, 0x99), A_CALL(5));
	cr_assert_eq(inv_of_reply(5, 24), 0);
	ONE_RECV(&o, 6, 2, 20, MSG, CALL, 0x99, 0, 0, 0, A_CALL(6));
	cr_assert_eq(inv_of_reply(6, 24), 0);
	one_fini(&o);
}

Test(engine_v2_invalidate, what_is_read_is_taken_back_after_its_end)
{
	for (int end = 0; end < 2; end++) {
		uint8_t head[40];
		uint32_t id;

		begin(false, true, false, 0);
		ONE_RECV(&o, 5, 2, 20, NOMSG, CALL, 0x32, READ_SEG(0, 0x31, 100), READ_SEG(0, 0x32, 100), 0, 0, 0);
		id = one_op(&o, RR_OP_PULL, 0)->id;
		WORDS(head, A_CALL(5));
		rr_eng_head(o.e, id, 0, head, 40, o.now);
		one_run(&o);
		if (end)
			rr_eng_pulled(o.e, id, 0, o.now);
		cr_assert_eq(inv_of_reply(5, 24), end ? 0x32 : 0);
		one_fini(&o);
	}
}

Test(engine_v2_invalidate, a_device_that_cannot_uses_plain_sends)
{
	begin(false, false, false, 0);
	ONE_RECV(&o, BOTH(5, 0x21), A_CALL(5));
	cr_assert_eq(inv_of_reply(5, 24), 0);
	one_fini(&o);
}

Test(engine_v2_invalidate, reverse_replies_do_it_too)
{
	begin(true, true, false, RR_CAP_REVERSE_CHUNKS);
	ONE_RECV(&o, BOTH(5, 0x22), A_CALL(5));
	cr_assert_eq(inv_of_reply(5, 24), 0x22);
	one_fini(&o);
}

/* --- ours --- */

Test(engine_v2_invalidate, a_call_names_the_handle_of_its_result_and_else_of_its_arguments)
{
	begin(true, false, true, 0);
	sent(WORDS(msg, NFS_READ(5, 2000)));
	cr_assert_eq(one_word(&o, 0, 5), one_word(&o, 0, 9));
	cr_assert_neq(one_word(&o, 0, 5), 0);
	memset(msg, 0, sizeof(msg));	/* a WRITE: its reply is short */
	sent(WORDS(msg, 6, 0, 2, 100003, 3, 7, 0, 0, 0, 0, 4, 1, 0, 0, 4000, 0, 4000) + 4000);
	cr_assert_eq(one_word(&o, 0, 5), one_word(&o, 0, 8));
	cr_assert_neq(one_word(&o, 0, 5), 0);
	one_fini(&o);
}

Test(engine_v2_invalidate, keys_that_are_no_windows_of_one_call_are_not_named)
{
	begin(true, true, false, 0);
	sent(WORDS(msg, NFS_READ(5, 2000)));
	cr_assert_eq(one_word(&o, 0, 5), 0);
	one_fini(&o);
	begin(true, true, true, RR_CAP_RING_CREDITS);
	sent(WORDS(msg, NFS_READ(5, 2000)));
	cr_assert_eq(one_word(&o, 0, 5), 0);
	one_fini(&o);
}

Test(engine_v2_invalidate, what_the_peer_has_taken_back_is_not_taken_back_twice)
{
	uint8_t buf[64];

	begin(true, false, true, 0);
	sent(WORDS(msg, NFS_READ(5, 2000)));
	one_recv(&o, buf, WORDS(buf, INLINE(5, REPLY), A_REPLY(5)), one_word(&o, 0, 5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	one_fini(&o);
}

/* --- reliable replies --- */

static void pull(uint32_t xid, uint32_t inv)
{
	uint8_t head[24];
	uint32_t id;

	one_send(&o, RR_RPC_CALL, xid, 40);
	one_clear(&o);
	ONE_RECV(&o, xid, 2, 20, NOMSG, REPLY, inv, READ_SEG(0, 0x31, 1000), READ_SEG(0, 0x32, 1000), 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_REPLY(xid));
	rr_eng_head(o.e, id, 0, head, 24, o.now);
	one_run(&o);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
}

/* req: reliable-reply-00 - #8 #9 */
Test(engine_v2_invalidate, done_takes_back_the_handle_that_the_reply_names_and_no_other)
{
	begin(true, true, false, RR_CAP_RELIABLE_REPLY);
	pull(5, 0x32);
	cr_assert_eq(one_word(&o, 0, 3), DONE);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, 0x32);
	pull(6, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, 0);
	pull(7, 0x99);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, 0);
	one_fini(&o);
}

/* req: reliable-reply-00 - #7 */
Test(engine_v2_invalidate, done_is_a_plain_send_where_sends_may_not_invalidate)
{
	begin(true, false, false, RR_CAP_RELIABLE_REPLY);
	pull(5, 0x32);
	cr_assert_eq(one_word(&o, 0, 3), DONE);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, 0);
	one_fini(&o);
}

/* req: reliable-reply-00 - #8 */
Test(engine_v2_invalidate, a_reply_that_is_to_be_pulled_names_its_handle)
{
	uint8_t buf[32];

	begin(false, false, true, RR_CAP_RELIABLE_REPLY);
	ONE_RECV(&o, INLINE(5, CALL), A_CALL(5));
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 5, 2000);
	cr_assert_eq(one_word(&o, 0, 3), NOMSG);
	cr_assert_eq(one_word(&o, 0, 4), REPLY);
	cr_assert_eq(one_word(&o, 0, 5), one_word(&o, 0, 8));
	one_recv(&o, buf, WORDS(buf, 5, 2, 20, DONE, CALL), one_word(&o, 0, 5));
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

Test(engine_v2_invalidate, a_done_that_has_waited_is_a_plain_send)
{
	for (int late = 0; late < 2; late++) {
		uint8_t head[24];
		uint32_t id;

		begin(true, true, false, RR_CAP_RELIABLE_REPLY);
		one_send(&o, RR_RPC_CALL, 5, 40);
		ONE_RECV(&o, 5, 2, 20, NOMSG, REPLY, 0x31, READ_SEG(0, 0x31, 1000), 0, 0, 0);
		id = one_op(&o, RR_OP_PULL, 0)->id;
		WORDS(head, A_REPLY(5));
		rr_eng_head(o.e, id, 0, head, 24, o.now);
		one_run(&o);
		one_clear(&o);
		o.now += o.p.done_timeout_pressure / 2 + (rr_time)late;
		rr_eng_pulled(o.e, id, 0, o.now);
		one_run(&o);
		cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, late ? 0 : 0x31);
		one_fini(&o);
	}
}
