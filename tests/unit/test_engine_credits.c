/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "core/engine/credits.h"
#include "tests/lib/oneside.h"

#define MSG	0
#define RING	(RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS)

static struct one o;

static void answer(uint32_t xid, uint32_t grant)
{
	ONE_RECV(&o, xid, 1, grant, MSG, 0, 0, 0, A_REPLY(xid));
}

static uint32_t fill(uint32_t from)
{
	uint32_t n = 0;

	while (n < 1000 && one_send(&o, RR_RPC_CALL, from + n, 40) == 0)
		n++;
	return n;
}

/* RFC 8166 §3.3.3 */
/* req: rfc8166 3.3.3 #1 */
Test(engine_credits, one_call_until_the_first_reply_then_what_was_granted)
{
	one_init(&o, 0, true);
	cr_assert_eq(fill(1), 1);
	cr_assert_not(rr_eng_writable(o.e));
	answer(1, 5);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(fill(10), 5);
	one_fini(&o);
}

/* RFC 8166 §3.3.1 */
/* req: rfc8166 3.3.1 #1 */
Test(engine_credits, never_more_than_we_asked_for)
{
	one_init(&o, 0, true);
	fill(1);
	answer(1, 1000);
	cr_assert_eq(fill(10), 8);
	one_fini(&o);
}

/* req: rfc8166 3.3.1 #1 */
Test(engine_credits, a_grant_that_shrinks_in_flight_is_waited_out)
{
	one_init(&o, 0, true);
	fill(1);
	answer(1, 6);
	cr_assert_eq(fill(10), 6);
	answer(10, 2);
	cr_assert_eq(fill(20), 0);
	answer(11, 2);
	answer(12, 2);
	answer(13, 2);
	cr_assert_eq(fill(30), 0, "two are in flight");
	answer(14, 2);
	cr_assert_eq(fill(40), 1);
	one_fini(&o);
}

Test(engine_credits, a_grant_of_zero_is_one)
{
	one_init(&o, 0, true);
	fill(1);
	answer(1, 0);
	cr_assert_eq(fill(10), 1);
	one_fini(&o);
}

/* req: rfc8166 3.3.3 #2 */
Test(engine_credits, a_discarded_reply_grants_nothing)
{
	one_init(&o, 0, true);
	fill(1);
	answer(99, 8);
	cr_assert_eq(fill(10), 0);
	one_fini(&o);
}

Test(engine_credits, a_reply_that_waits_behind_a_pull_keeps_its_credit)
{
	uint8_t head[24];

	one_init(&o, RR_CAP_RELIABLE_REPLY, true);
	fill(1);
	answer(1, 2);
	cr_assert_eq(fill(10), 2);
	one_clear(&o);
	ONE_RECV(&o, 10, 1, 2, 1, 1, 0, 0x77, 2000, 0, 0, 0, 0, 0);
	answer(11, 2);
	cr_assert_eq(fill(20), 0);
	WORDS(head, A_REPLY(10));
	rr_eng_head(o.e, one_op(&o, RR_OP_PULL, 0)->id, 0, head, 24, o.now);
	one_run(&o);
	cr_assert_eq(fill(30), 2);
	one_fini(&o);
}

Test(engine_credits, calls_that_never_get_a_reply_hold_nothing_with_ring_credits)
{
	one_init(&o, RING, true);
	for (uint32_t i = 0; i < 10000; i++) {
		rr_eng_window(o.e, 64);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, i, 40), 0, "call %u", i);
		one_clear(&o);
	}
	cr_assert_eq(one_info(&o).inflight, 16, "those that the table holds");
	answer(1, 8);	/* long forgotten: TCP would deliver it */
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 0);
	one_clear(&o);
	answer(9999, 8);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 0);
	one_fini(&o);
}

/* A responder's side of that: what they have offered for their replies is forgotten, the oldest first. */
Test(engine_credits, calls_with_chunks_that_never_get_a_reply_hold_nothing_with_ring_credits)
{
	const uint32_t n = 1000;

	one_init(&o, RR_CAP_RING_CREDITS, false);
	for (uint32_t i = 0; i < n; i++) {
		one_clear(&o);
		ONE_RECV(&o, i, 1, 8, MSG, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(i));
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1, "call %u", i);
	}
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, n - 1, 2000);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	one_send(&o, RR_RPC_REPLY, 0, 24);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 1)->hdr_len, 28, "of a call that was forgotten");
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	one_fini(&o);
}

Test(engine_credits, a_late_reply_is_delivered_with_ring_credits_if_nothing_of_it_was_written)
{
	one_init(&o, RING, true);
	ONE_RECV(&o, 1, 1, 8, 0, 0, 0, 1, 1, 0x21, 0, 0, 16, A_REPLY(1));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	ONE_RECV(&o, 2, 1, 8, 0, 0, 1, 1, 0x21, 5, 0, 16, 0, 0, A_REPLY(2));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 1);
	one_fini(&o);
}

Test(engine_credits, a_long_call_without_reply_gives_its_memory_back_once_consumed)
{
	uint32_t n = 0;

	one_init(&o, RING, true);
	while (n < 1000 && one_send(&o, RR_RPC_CALL, n, 5000) == 0) {
		rr_eng_window(o.e, 64);
		n++;
	}
	cr_assert_eq(n, 16, "the table is bounded");
	one_clear(&o);
	rr_eng_consumed(o.e, 1003, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_INVALIDATE, 0)->buf, 1003);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, 1003);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5000, 5000), 0);
	/* the reply to the one that was pushed out needs nothing of ours */
	one_clear(&o);
	answer(3, 8);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	one_fini(&o);
}

Test(engine_credits, a_reply_to_a_consumed_call_does_not_fence_again)
{
	one_init(&o, RING, true);
	o.hold_invalidate = true;
	one_send(&o, RR_RPC_CALL, 5, 5000);
	rr_eng_consumed(o.e, 1000, o.now);
	one_run(&o);
	answer(5, 8);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0, "the fence is not done");
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

Test(engine_credits, control_messages_may_use_the_reserve_of_the_window)
{
	one_init(&o, RR_CAP_RING_CREDITS, false);
	rr_eng_window(o.e, 4);
	ONE_RECV(&o, 5, 1, 20, 0x63, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	one_clear(&o);
	rr_eng_window(o.e, 0);
	ONE_RECV(&o, 6, 1, 20, 0x63, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	rr_eng_window(o.e, 1);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1, "queued, not lost");
	one_fini(&o);
}

/* A peer has asked, and has no receive for the replies: the provider's queue fills up. */
Test(engine_credits, without_ring_credits_too_there_is_no_more_than_the_provider_takes)
{
	one_init(&o, 0, false);
	for (uint32_t xid = 1; xid <= 4; xid++)
		ONE_RECV(&o, xid, 1, 20, MSG, 0, 0, 0, A_CALL(xid));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 40), 0, "nobody has spoken of a window");
	rr_eng_window(o.e, 8);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 2, 40), 0);
	rr_eng_window(o.e, 0);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 3, 40), -EAGAIN);
	cr_assert_not(rr_eng_writable(o.e));
	one_clear(&o);
	ONE_RECV(&o, 9, 1, 20, 0x63, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0, "nor for an error");
	rr_eng_window(o.e, 8);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 3, 40), 0);
	one_fini(&o);
}

Test(engine_credits, without_reliable_replies_a_reply_chunk_is_fenced_only_after_a_time)
{
	uint32_t n;

	one_init(&o, RR_CAP_RING_CREDITS, true);
	n = fill(0);
	cr_assert_eq(n, 16);
	cr_assert_not(rr_eng_writable(o.e));
	cr_assert_eq(rr_eng_deadline(o.e), o.now + o.p.done_timeout);
	o.now = rr_eng_deadline(o.e);
	rr_eng_tick(o.e, o.now);
	cr_assert(rr_eng_writable(o.e));
	one_clear(&o);
	one_send(&o, RR_RPC_CALL, 100, 40);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

/* Calls that never get a reply: with a strict peer their credits do not come back. */
Test(engine_credits, waiting_for_a_credit_ends_when_no_reply_comes)
{
	one_init(&o, 0, true);
	fill(1);
	cr_assert_eq(rr_eng_deadline(o.e), o.now + 120 * RR_SEC);
	o.now += 119 * RR_SEC;
	answer(1, 2);
	fill(10);
	o.now += 119 * RR_SEC;
	rr_eng_tick(o.e, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0, "a reply has come since");
	o.now += RR_SEC;
	rr_eng_tick(o.e, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_CREDITS);
	one_fini(&o);
}

/* The first piece of a long record is refused before there is a message to send. */
Test(engine_credits, so_does_waiting_to_begin_a_record)
{
	one_init(&o, 0, true);
	one_send(&o, RR_RPC_CALL, 1, 40);
	o.now += RR_SEC;
	cr_assert_not(rr_eng_would_take(o.e, RR_RPC_CALL, o.now));
	cr_assert_eq(rr_eng_deadline(o.e), o.now + 120 * RR_SEC);
	one_fini(&o);
}

Test(engine_credits, who_does_not_want_to_send_may_wait_for_ever)
{
	one_init(&o, 0, true);
	one_send(&o, RR_RPC_CALL, 1, 40);
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER);
	one_fini(&o);
}

/* However small it is, a part of it stays for control messages; of one nothing does, or nobody could say anything. */
Test(engine_credits, of_the_smallest_windows_too_one_is_for_control_messages)
{
	for (uint32_t sends = 1; sends <= 3; sends++) {
		uint32_t went = 0;

		one_params(&o, RR_CAP_RING_CREDITS, false);
		o.p.count = &o.count;
		o.e = rr_eng_init(calloc(1, rr_eng_size(&o.p)), &o.p, o.now);
		rr_eng_window(o.e, sends);
		for (uint32_t xid = 1; xid <= 4; xid++)
			ONE_RECV(&o, xid, 1, 20, MSG, 0, 0, 0, A_CALL(xid));
		while (went < 4 && one_send(&o, RR_RPC_REPLY, went + 1, 40) == 0)
			went++;
		cr_assert_eq(went, sends == 1 ? 1 : sends - 1, "%u of %u", went, sends);
		one_clear(&o);
		ONE_RECV(&o, 9, 1, 20, 0x63, 0, 0, 0);	/* answered by an error */
		cr_assert_eq(one_count(&o, RR_OP_SEND), sends > 1);
		one_fini(&o);
	}
}
