/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/lib/oneside.h"

/* draft-cel-nfsv4-rpcrdma-reliable-reply-00 */

#define MSG	0
#define NOMSG	1
#define DONE	3
#define ERROR	4
#define REL	RR_CAP_RELIABLE_REPLY
#define RING	(RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS)

static struct one o;

static void serve_long(uint32_t xid, uint32_t len)
{
	ONE_RECV(&o, xid, 1, 20, MSG, 0, 0, 0, A_CALL(xid));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, xid, len), 0);
}

static uint32_t pulled_head(uint32_t i, const uint8_t *head, uint32_t n)
{
	uint32_t id = one_op(&o, RR_OP_PULL, i)->id;

	rr_eng_head(o.e, id, 0, head, n, o.now);
	one_run(&o);
	return id;
}

Test(engine_reliable, no_reply_chunk_is_offered_where_they_are_agreed)
{
	one_init(&o, REL, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28);
	one_fini(&o);
}

/* req: reliable-reply-00 - #1 */
Test(engine_reliable, a_reply_too_long_for_anything_is_exposed_until_done)
{
	one_init(&o, REL, false);
	serve_long(5, 2000);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->rights, RR_RIGHT_READ);
	uint32_t want[] = { 5, 1, 8, NOMSG, 1, 0, 0x100, 2000, 0, 0x5000, 0, 0, 0 };
	for (uint32_t w = 0; w < 13; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	cr_assert_eq(one_info(&o).exposed, 2000);
	o.hold_invalidate = true;
	ONE_RECV(&o, 5, 1, 20, DONE);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0, "freed before it was fenced");
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(one_info(&o).exposed, 0);
	one_fini(&o);
}

/* req: reliable-reply-00 - #8 */
Test(engine_reliable, done_may_invalidate_the_key_itself)
{
	uint8_t b[16];

	one_init(&o, REL, false);
	serve_long(5, 2000);
	one_recv(&o, b, WORDS(b, 5, 1, 20, DONE), 0x100);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

/* req: reliable-reply-00 - #5 */
Test(engine_reliable, a_second_done_is_dropped)
{
	one_init(&o, REL, false);
	serve_long(5, 2000);
	ONE_RECV(&o, 5, 1, 20, DONE);
	ONE_RECV(&o, 5, 1, 20, DONE);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(o.count.v[RR_C_done_received], 1);
	cr_assert_eq(o.count.v[RR_C_late_done], 1);
	one_fini(&o);
}

/* req: reliable-reply-00 i #3 */
Test(engine_reliable, without_done_the_reply_is_fenced_first_and_then_freed)
{
	one_init(&o, REL, false);
	o.hold_invalidate = true;
	serve_long(5, 2000);
	cr_assert_eq(rr_eng_deadline(o.e), o.now + o.p.done_timeout);
	o.now += o.p.done_timeout;
	rr_eng_tick(o.e, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(o.count.v[RR_C_done_timeouts], 1);
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER);
	one_fini(&o);
}

/* req: reliable-reply-00 i #3 */
Test(engine_reliable, exposed_bytes_are_bounded_and_pressure_shortens_the_wait)
{
	one_init(&o, RING, false);
	serve_long(5, 60000);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 60000), -EAGAIN);
	cr_assert_eq(rr_eng_deadline(o.e), o.now + o.p.done_timeout_pressure);
	cr_assert_not(rr_eng_writable(o.e));
	ONE_RECV(&o, 5, 1, 20, DONE);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 60000), 0);
	cr_assert_eq(rr_eng_deadline(o.e), o.now + o.p.done_timeout);
	one_fini(&o);
}

/* What was refused is the driver's to try again: whatever goes meanwhile, writable is for what comes next. */
Test(engine_reliable, a_refusal_is_over_when_the_next_reply_goes)
{
	one_init(&o, RING, false);
	serve_long(5, o.p.max_exposed);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	ONE_RECV(&o, 7, 1, 20, MSG, 0, 0, 0, A_CALL(7));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 60000), -EAGAIN);
	cr_assert_not(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 7, 24), 0);
	cr_assert(rr_eng_writable(o.e));
	one_fini(&o);
}

/* Nothing was refused: a reply that need not be exposed can go. */
Test(engine_reliable, as_many_as_may_be_exposed_do_not_stop_others)
{
	one_params(&o, RING, false);
	o.p.max_exposed = 1 << 30;
	one_start(&o);
	for (uint32_t i = 0; i < RR_ENG_SHOWN; i++) {
		serve_long(100 + i, 2000);
		rr_eng_window(o.e, 64);
	}
	cr_assert(rr_eng_writable(o.e));
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 2000), -EAGAIN);
	cr_assert_not(rr_eng_writable(o.e));
	one_fini(&o);
}

/* The peer may pull them in any order. */
Test(engine_reliable, each_done_is_for_its_own_reply)
{
	uint32_t buf[3];

	one_init(&o, REL, false);
	for (uint32_t i = 0; i < 3; i++) {
		buf[i] = o.next_buf;
		serve_long(5 + i, 2000);
	}
	for (uint32_t i = 3; i-- > 0;) {
		one_clear(&o);
		ONE_RECV(&o, 5 + i, 1, 20, DONE);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, buf[i]);
	}
	cr_assert_eq(o.count.v[RR_C_late_done], 0);
	one_fini(&o);
}

Test(engine_reliable, the_memory_of_each_reply_is_given_back)
{
	uint32_t buf;

	one_init(&o, REL, false);
	for (uint32_t xid = 5; xid < 8; xid++) {
		buf = o.next_buf;
		serve_long(xid, 2000);
		cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->buf, buf);
		ONE_RECV(&o, xid, 1, 20, DONE);
		cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, buf);
	}
	one_fini(&o);
}

Test(engine_reliable, one_reply_above_the_bound_can_still_be_sent)
{
	one_init(&o, RING, false);
	serve_long(5, 500000);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	one_fini(&o);
}

/* req: rfc8166 3.5.3 #3; reliable-reply-00 i #2 */
Test(engine_reliable, the_calls_own_reply_chunk_comes_first)
{
	one_init(&o, REL, false);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(5));
	one_send(&o, RR_RPC_REPLY, 5, 4096);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(6));
	one_send(&o, RR_RPC_REPLY, 6, 4097);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	one_fini(&o);
}

/* What is called short may lie in memory that is there for this call only: no RDMA Write may need it. */
Test(engine_reliable, a_short_reply_is_one_send_whatever_its_call_has_offered)
{
	uint32_t nshort = 0;

	one_init(&o, REL, false);
	for (uint32_t len = 940; len <= 1000; len++) {
		ONE_RECV(&o, len, 1, 20, MSG, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(len));
		bool is_short = rr_eng_is_short(o.e, RR_RPC_REPLY, len);

		one_clear(&o);
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, len, len), 0);
		nshort += is_short;
		if (is_short)
			cr_assert_eq(one_count(&o, RR_OP_WRITE), 0, "%u bytes", len);
	}
	cr_assert_gt(nshort, 30);
	one_fini(&o);
}

/* req: reliable-reply-00 - #3, i #1 */
Test(engine_reliable, a_pulled_reply_is_delivered_and_then_done_is_said_once)
{
	uint8_t head[24];
	uint32_t id;

	WORDS(head, A_REPLY(5));
	one_init(&o, REL, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 7, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
	cr_assert_eq(one_info(&o).granted, 1, "the credit value counts before the direction is known");
	id = pulled_head(0, head, 24);
	cr_assert_eq(one_info(&o).granted, 7);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->from, RR_FROM_PULL);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, 2000);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0, "DONE while the peer's memory is being read");
	rr_eng_pulled(o.e, id, 0, o.now);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 16);
	cr_assert_eq(one_word(&o, 0, 0), 5);
	cr_assert_eq(one_word(&o, 0, 3), DONE);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	one_fini(&o);
}

/* req: reliable-reply-00 - #4 */
Test(engine_reliable, a_late_reply_to_nobody_is_dropped_with_exactly_one_done)
{
	uint8_t head[24];
	uint32_t id;

	WORDS(head, A_REPLY(9));
	one_init(&o, REL, true);
	ONE_RECV(&o, 9, 1, 7, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
	id = pulled_head(0, head, 24);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->id, id);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 3), DONE);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 1);
	one_fini(&o);
}

Test(engine_reliable, with_ring_credits_a_reply_to_a_forgotten_call_is_delivered_with_one_done)
{
	uint8_t head[24];
	uint32_t id;

	WORDS(head, A_REPLY(9));
	one_init(&o, RING, true);
	ONE_RECV(&o, 9, 1, 7, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
	id = pulled_head(0, head, 24);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	one_fini(&o);
}

Test(engine_reliable, a_pulled_reply_with_another_xid_is_dropped_and_the_call_stays_pending)
{
	uint8_t head[24];

	WORDS(head, A_REPLY(6));
	one_init(&o, REL, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 7, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
	pulled_head(0, head, 24);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_info(&o).inflight, 1);
	one_fini(&o);
}

/* A peer that charges DONE to our credits must not be overrun. While the DONE waits its entry is its own, and no reading of that
 * reply concerns it any more. */
/* req: reliable-reply-00 - #3, i #4 */
Test(engine_reliable, a_strict_peer_gets_done_only_within_its_grant)
{
	uint8_t head[24];
	uint32_t id;

	one_init(&o, REL, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	ONE_RECV(&o, 5, 1, 1, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
	WORDS(head, A_REPLY(5));
	id = pulled_head(0, head, 24);
	one_send(&o, RR_RPC_CALL, 6, 40);
	one_clear(&o);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	rr_eng_pulled(o.e, id, -ECONNRESET, o.now);
	ONE_RECV(&o, 6, 1, 1, MSG, 0, 0, 0, A_REPLY(6));
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	cr_assert_eq(one_word(&o, 0, 0), 5);
	cr_assert_eq(one_word(&o, 0, 3), DONE);
	one_fini(&o);
}

Test(engine_reliable, a_pull_that_fails_ends_the_connection)
{
	one_init(&o, RING, true);
	ONE_RECV(&o, 9, 1, 7, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
	rr_eng_head(o.e, one_op(&o, RR_OP_PULL, 0)->id, -ECONNRESET, NULL, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROVIDER);
	one_fini(&o);
}

/* req: reliable-reply-00 - #8 #9 */
Test(engine_reliable, done_takes_back_a_key_of_the_reply_where_sends_may_invalidate)
{
	for (int strict = 0; strict < 2; strict++) {
		uint8_t head[24];
		uint32_t id;

		one_params(&o, strict ? REL : RING, true);
		o.p.invalidate = true;
		one_start(&o);
		one_send(&o, RR_RPC_CALL, 5, 40);
		one_clear(&o);
		ONE_RECV(&o, 5, 1, 8, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
		WORDS(head, A_REPLY(5));
		id = pulled_head(0, head, 24);
		rr_eng_pulled(o.e, id, 0, o.now);
		one_run(&o);
		cr_assert_eq(one_word(&o, 0, 3), DONE);
		cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, strict ? 0x77 : 0);
		one_fini(&o);
	}
}
