/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/lib/oneside.h"

/* The requester against RFC 8166: strict version 1, connecting side. */

#define MSG	0
#define NOMSG	1
#define MSGP	2
#define ERROR	4

static struct one o;

static void start(void)
{
	one_init(&o, 0, true);
}

static void finish(void)
{
	one_fini(&o);
}

#define CASE(name) Test(engine_requester, name, .init = start, .fini = finish)

/* A call with a Reply chunk of 4096 bytes, key 0x100, offset 0x5000 is out. */
static void call_out(uint32_t xid)
{
	cr_assert_eq(one_send(&o, RR_RPC_CALL, xid, 40), 0);
	cr_assert_eq(one_word(&o, 0, 6), 1);
	one_clear(&o);
}

static void assert_ignored(void)
{
	struct rr_eng_info info;

	rr_eng_info(o.e, &info);
	cr_assert_eq(info.inflight, 1, "the XID is not pending any more");
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1, "the right reply is not taken any more");
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0, "what waited for a credit");
}

/* req: rfc8166 4.3.3 #1 */
CASE(a_call_offers_the_default_reply_chunk_when_nothing_is_known)
{
	const struct rr_op *ex;

	one_send(&o, RR_RPC_CALL, 5, 40);
	ex = one_op(&o, RR_OP_EXPOSE, 0);
	cr_assert_eq(ex->buf, RR_BUF_NEW);
	cr_assert_eq(ex->len, 4096);
	cr_assert_eq(ex->rights, RR_RIGHT_WRITE);
	uint32_t want[] = { 5, 1, 8, MSG, 0, 0, 1, 1, 0x100, 4096, 0, 0x5000 };
	for (uint32_t w = 0; w < 12; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
}

CASE(a_call_waits_for_the_memory_of_its_reply_chunk)
{
	o.no_memory = true;
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	o.no_memory = false;
	o.now = rr_eng_deadline(o.e);
	rr_eng_tick(o.e, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 6), 1);
}

CASE(a_call_goes_without_a_reply_chunk_that_is_never_to_be_had)
{
	o.no_memory = o.never = true;
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 6), 0);
}

/* Calls that are never answered may have the memory. */
CASE(with_ring_credits_a_call_goes_without_its_reply_chunk)
{
	finish();
	one_init(&o, RR_CAP_RING_CREDITS, true);
	o.no_memory = true;
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 6), 0);
}

CASE(a_long_call_waits_for_memory_and_is_tried_again)
{
	o.no_memory = true;
	one_send(&o, RR_RPC_CALL, 5, 5000);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_lt(rr_eng_deadline(o.e), RR_TIME_NEVER);
	o.no_memory = false;
	o.now = rr_eng_deadline(o.e);
	rr_eng_tick(o.e, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER);
}

/* req: rfc8166 3.5.3 #1 #2 */
CASE(a_long_call_is_a_position_zero_read_chunk)
{
	o.nsegs = 2;
	one_send(&o, RR_RPC_CALL, 5, 5000);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->rights, RR_RIGHT_READ);
	uint32_t want[] = { 5, 1, 8, NOMSG, 1, 0, 0x100, 2500, 0, 0x5000, 1, 0, 0x101, 2500, 0,
			    0x5000 + 2500, 0, 0, 1, 2 };
	for (uint32_t w = 0; w < 20; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
}

/* RFC 8166 §8.1.3 */
/* req: rfc8166 8.1 #1 */
CASE(no_byte_is_delivered_before_all_keys_of_the_call_are_invalid)
{
	o.hold_invalidate = true;
	one_send(&o, RR_RPC_CALL, 5, 5000);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 2);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 1));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 2);
}

CASE(a_key_that_the_peer_invalidated_is_not_invalidated_again)
{
	uint8_t b[128];

	call_out(5);
	one_recv(&o, b, WORDS(b, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5)), 0x100);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

CASE(of_several_keys_the_peers_is_named_so_that_it_is_left_out)
{
	uint8_t b[128];

	o.nsegs = 2;
	call_out(5);
	one_recv(&o, b, WORDS(b, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5)), 0x101);
	cr_assert_eq(one_op(&o, RR_OP_INVALIDATE, 0)->inv_handle, 0x101);
}

/* It was really taken, whatever message it came with. */
CASE(a_key_of_another_call_that_the_peer_invalidated_is_not_invalidated_again)
{
	uint8_t b[128];

	call_out(5);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	call_out(6);
	call_out(7);
	one_recv(&o, b, WORDS(b, 6, 1, 4, MSG, 0, 0, 0, A_REPLY(6)), 0x102);
	cr_assert_eq(one_op(&o, RR_OP_INVALIDATE, 0)->inv_handle, 0);
	one_clear(&o);
	ONE_RECV(&o, 7, 1, 4, MSG, 0, 0, 0, A_REPLY(7));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
}

/* req: rfc8797 4.1 #1; reliable-reply-00 - #9 */
CASE(a_key_that_is_not_ours_invalidated_by_the_peer_ends_the_connection)
{
	uint8_t b[128];

	call_out(5);
	one_recv(&o, b, WORDS(b, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5)), 0x999);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
}

/* Neither what came with it, nor what comes later. */
CASE(behind_what_ends_the_connection_nothing_is_judged)
{
	uint8_t b[128];

	call_out(5);
	one_recv(&o, b, WORDS(b, 6, 1, 4, MSG, 0, 0, 0, A_REPLY(6)), 0x999);
	ONE_RECV(&o, 7, 1, 4, MSG, 0, 0, 0, A_REPLY(7));
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 1);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 0);
}

/* req: rfc8166 4.2.4 #2 */
CASE(a_reply_in_the_reply_chunk_is_delivered_from_there_fenced)
{
	const struct rr_op *d;

	call_out(5);
	ONE_RECV(&o, 5, 1, 4, NOMSG, 0, 0, 1, 1, 0x100, 3000, 0, 0x5000);
	d = one_op(&o, RR_OP_DELIVER, 0);
	cr_assert_not_null(d);
	cr_assert_lt(one_op(&o, RR_OP_INVALIDATE, 0), d);
	cr_assert_eq(d->from, RR_FROM_BUF);
	cr_assert_eq(d->len, 3000);
	cr_assert_eq(d->rpc.type, RR_RPC_REPLY);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 0);
	ONE_RECV(&o, 9, 1, 4, NOMSG, 0, 0, 1, 1, 0x100, 3000, 0, 0x5000);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 1);
}

/* RFC 8166 §4.5: errors in replies are discarded silently, the memory stays fenced off. */
#define BAD_REPLY(name, ...) CASE(name) \
{ \
	call_out(5); \
	ONE_RECV(&o, __VA_ARGS__); \
	assert_ignored(); \
}

BAD_REPLY(an_unknown_xid_is_discarded, 6, 1, 4, MSG, 0, 0, 0, A_REPLY(6))
/* req: rfc8166 4.5 #3 */
BAD_REPLY(another_version_is_discarded, 5, 2, 4, MSG, 0, 0, 0, A_REPLY(5))
BAD_REPLY(a_write_list_that_was_not_offered_is_discarded,
	  5, 1, 4, MSG, 0, 1, 1, 0x100, 0, 0, 0x5000, 0, 0, A_REPLY(5))
/* req: rfc8166 4.5 #3 */
BAD_REPLY(a_reply_chunk_longer_than_offered_is_discarded,
	  5, 1, 4, NOMSG, 0, 0, 1, 1, 0x100, 4097, 0, 0x5000)
BAD_REPLY(a_reply_chunk_with_another_handle_is_discarded,
	  5, 1, 4, NOMSG, 0, 0, 1, 1, 0x101, 100, 0, 0x5000)
BAD_REPLY(a_reply_chunk_with_another_offset_is_discarded,
	  5, 1, 4, NOMSG, 0, 0, 1, 1, 0x100, 100, 0, 0x5001)
BAD_REPLY(a_reply_chunk_with_more_segments_is_discarded,
	  5, 1, 4, NOMSG, 0, 0, 1, 2, 0x100, 100, 0, 0x5000, 0x101, 1, 0, 0)
/* req: rfc8166 4.2.4 #3; reliable-reply-00 - #10 */
BAD_REPLY(a_read_list_in_an_inline_reply_is_discarded,
	  5, 1, 4, MSG, 1, 0, 0x77, 100, 0, 0, 0, 0, 0, A_REPLY(5))
BAD_REPLY(an_inline_reply_with_bytes_in_the_reply_chunk_is_discarded,
	  5, 1, 4, MSG, 0, 0, 1, 1, 0x100, 100, 0, 0x5000, A_REPLY(5))
BAD_REPLY(nomsg_with_nothing_in_it_is_discarded, 5, 1, 4, NOMSG, 0, 0, 0)
/* req: rfc8166 4.2.4 #2 */
BAD_REPLY(nomsg_with_an_empty_reply_chunk_is_discarded, 5, 1, 4, NOMSG, 0, 0, 1, 1, 0x100, 0, 0, 0x5000)
/* req: rfc8166 4.2.4 #3, 4.6.1 #3 */
BAD_REPLY(msgp_is_discarded, 5, 1, 4, MSGP, 64, 64, 0, 0, 0, A_REPLY(5))
/* req: rfc8166 4.5 #7 */
BAD_REPLY(an_error_that_cannot_be_decoded_is_discarded, 5, 1, 4, ERROR, 3)
BAD_REPLY(an_error_for_an_unknown_xid_is_discarded, 6, 1, 4, ERROR, 2)
/* req: rfc8167 5.2 #2 */
BAD_REPLY(a_reply_whose_xid_is_not_the_transports_is_discarded, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(6))

CASE(gaps_between_the_segments_of_a_reply_chunk_are_discarded)
{
	o.nsegs = 2;
	call_out(5);
	ONE_RECV(&o, 5, 1, 4, NOMSG, 0, 0, 1, 2, 0x100, 2047, 0, 0x5000, 0x101, 10, 0, 0x5000 + 2048);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
}

CASE(a_reply_chunk_is_filled_from_the_front)
{
	static const uint32_t filled[][2] = { { 100, 0 }, { 2048, 0 }, { 2048, 100 }, { 2048, 2048 } };
	uint32_t key = 0x100;

	o.nsegs = 2;
	for (uint32_t i = 0; i < rr_array_size(filled); i++, key += 2) {
		call_out(5);
		ONE_RECV(&o, 5, 1, 4, NOMSG, 0, 0, 1, 2, key, filled[i][0], 0, 0x5000,
			 key + 1, filled[i][1], 0, 0x5000 + 2048);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1, "row %u", i);
		cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, filled[i][0] + filled[i][1]);
	}
	/* The call's entry and the decoded header have held a second segment before. */
	o.nsegs = 1;
	call_out(5);
	ONE_RECV(&o, 5, 1, 4, NOMSG, 0, 0, 1, 1, key, 300, 0, 0x5000);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, 300);
}

/* An earlier call, which had the same entry, has offered it. */
CASE(a_reply_chunk_that_its_call_did_not_offer_is_discarded)
{
	uint8_t b[64];

	call_out(5);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_send_bytes(&o, b, WORDS(b, NULL_CALL(6))), 0);
	cr_assert_eq(one_word(&o, 0, 6), 0);
	one_clear(&o);
	ONE_RECV(&o, 6, 1, 4, NOMSG, 0, 0, 1, 1, 0x100, 100, 0, 0x5000);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
	cr_assert_eq(one_info(&o).inflight, 1);
}

/* RFC 8166 §4.3.1, §4.6.2 */
/* req: rfc8166 4.3.1 #1, 4.6.2 #1; reliable-reply-00 - #10 */
CASE(a_read_list_in_a_reply_without_agreement_is_dropped_unanswered_and_the_xid_stays)
{
	uint8_t head[24];
	uint32_t id;

	call_out(5);
	ONE_RECV(&o, 5, 1, 4, NOMSG, 1, 0, 0x77, 2000, 0, 0, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_REPLY(5));
	rr_eng_head(o.e, id, 0, head, 24, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->id, id);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
	cr_assert_eq(o.count.v[RR_C_done_sent], 0);
	assert_ignored();
}

CASE(a_reply_comes_once)
{
	call_out(5);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 1);
}

/* req: rfc8267 6.4.2 #4 #5, 6.7.2 #2 */
CASE(err_chunk_ends_the_connection_and_doubles_what_was_learned)
{
	static struct rr_sizes sizes;

	finish();
	one_params(&o, 0, true);
	o.p.sizes = &sizes;
	one_start(&o);
	call_out(5);
	ONE_RECV(&o, 5, 1, 4, ERROR, 2);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_ERR_CHUNK);
	cr_assert_eq(rr_sizes_get(&sizes, 100003, 3, 1), 8192);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 40), -ECONNRESET);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 1);
	finish();
	one_params(&o, 0, true);
	o.p.sizes = &sizes;
	one_start(&o);
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_geq(one_op(&o, RR_OP_EXPOSE, 0)->len, 8192);
}

/* RFC 8166 §4.5.3: another try with more memory is possible until there is no more. */
CASE(err_chunk_for_the_largest_reply_chunk_says_so)
{
	static struct rr_sizes sizes;

	finish();
	for (int i = 0; i < 5; i++) {
		one_params(&o, 0, true);
		o.p.sizes = &sizes;
		o.p.max_msg = 40000;	/* the limit: less than reply_chunk_max */
		one_start(&o);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
		ONE_RECV(&o, 5, 1, 4, ERROR, 2);
		if (one_op(&o, RR_OP_FAIL, 0)->why != RR_WHY_ERR_CHUNK)
			break;
		one_fini(&o);
	}
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_TOO_LARGE);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, 40000);
}

/* req: rfc8267 6.7.2 #2 */
CASE(err_vers_ends_the_connection)
{
	call_out(5);
	ONE_RECV(&o, 5, 1, 4, ERROR, 1, 1, 1);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_ERR_VERS);
}

CASE(what_was_learned_decides_about_the_reply_chunk)
{
	static struct rr_sizes sizes;

	finish();
	one_params(&o, 0, true);
	o.p.sizes = &sizes;
	one_start(&o);
	call_out(5);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	one_clear(&o);
	one_send(&o, RR_RPC_CALL, 6, 40);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, o.p.reply_chunk, "24 bytes were learned");
	rr_sizes_seen(&sizes, 100003, 3, 1, o.p.reply_chunk);
	one_clear(&o);
	one_send(&o, RR_RPC_CALL, 7, 40);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, 2 * o.p.reply_chunk);
}

CASE(the_inline_threshold_of_calls_holds_to_the_byte)
{
	finish();
	for (uint32_t len = 1024 - 28 - 4; len <= 1024 - 28 + 4; len++) {
		one_params(&o, RR_CAP_RELIABLE_REPLY, true);
		one_start(&o);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, len), 0);
		cr_assert_eq(one_word(&o, 0, 3), len <= 1024 - 28 ? MSG : NOMSG, "%u bytes", len);
		cr_assert_eq(rr_eng_is_short(o.e, RR_RPC_CALL, len), len <= 1024 - 28);
		one_fini(&o);
	}
	start();
}

/* The largest Reply chunk that we make is reckoned with. */
CASE(the_inline_threshold_leaves_room_for_a_reply_chunk)
{
	const uint32_t most = 1024 - 28 - 4 - 8 * 16;

	finish();
	for (uint32_t len = most - 4; len <= most + 4; len++) {
		one_init(&o, 0, true);
		o.nsegs = 8;
		one_send(&o, RR_RPC_CALL, 5, len);
		cr_assert_eq(one_word(&o, 0, 3), len <= most ? MSG : NOMSG);
		if (len == most)
			cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len + len, 1024);
		one_fini(&o);
	}
	start();
}

/* Memory may have to be waited for. */
CASE(no_call_is_short_that_may_offer_memory)
{
	cr_assert_not(rr_eng_is_short(o.e, RR_RPC_CALL, 40));
	finish();
	one_params(&o, 0, true);
	o.p.reply_chunk = 0;
	one_start(&o);
	cr_assert(rr_eng_is_short(o.e, RR_RPC_CALL, 1024 - 28));
	cr_assert_not(rr_eng_is_short(o.e, RR_RPC_CALL, 1024 - 28 + 1));
}

/* A Send With Invalidate takes the Reply chunk's key before the message is judged. */
CASE(a_reply_chunk_that_the_peer_has_invalidated_is_delivered)
{
	uint8_t b[256];

	call_out(5);
	one_recv(&o, b, WORDS(b, 5, 1, 4, NOMSG, 0, 0, 1, 1, 0x100, 500, 0, 0x5000), 0x100);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->from, RR_FROM_BUF);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, 500);
}

CASE(a_message_above_the_limit_is_not_taken)
{
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, (1 << 20) + 1), -EMSGSIZE);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 1 << 20), 0);
}

CASE(messages_leave_in_the_order_in_which_they_were_written)
{
	finish();
	one_init(&o, RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS, true);
	o.hold_expose = true;
	one_send(&o, RR_RPC_CALL, 5, 5000);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 5000), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 7, 40), -EAGAIN, "a short one goes at once or not at all");
	cr_assert_not(rr_eng_writable(o.e));
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	struct rr_seg seg = { .handle = 1, .length = 5000 };
	rr_eng_exposed(o.e, one_op(&o, RR_OP_EXPOSE, 0)->id, 0, 0, &seg, 1, o.now);
	o.hold_expose = false;
	one_run(&o);
	cr_assert_eq(one_word(&o, 0, 0), 5);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 2);
	rr_eng_exposed(o.e, one_op(&o, RR_OP_EXPOSE, 1)->id, 0, 0, &seg, 1, o.now);
	one_run(&o);
	cr_assert_eq(one_word(&o, 1, 0), 6);
}

CASE(a_buffer_is_released_once_its_send_has_completed)
{
	finish();
	one_init(&o, RR_CAP_RELIABLE_REPLY, true);
	o.hold_send = true;
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	one_done(&o, one_op(&o, RR_OP_SEND, 0));
	one_done(&o, one_op(&o, RR_OP_SEND, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, 1000);
}

CASE(a_failed_operation_ends_the_connection_once)
{
	o.hold_send = true;
	one_send(&o, RR_RPC_CALL, 5, 40);
	rr_eng_done(o.e, one_op(&o, RR_OP_SEND, 0)->id, -EIO, o.now);
	one_run(&o);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 1);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_DEVICE);
}

/* The peer has read the arguments where they lie. That is told of buffers, and says nothing of a call that has not gone. */
Test(engine_requester, arguments_that_were_read_are_taken_back_once_the_call_has_gone, .fini = finish)
{
	const struct rr_op *op;
	struct rr_seg seg;
	uint32_t buf;

	one_init(&o, RR_CAP_RING_CREDITS, true);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 4, 5000), 0);
	ONE_RECV(&o, 4, 1, 4, MSG, 0, 0, 0, A_REPLY(4));
	one_clear(&o);
	o.now += RR_SEC;
	o.hold_expose = true;
	buf = o.next_buf;
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 5000), 0);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->buf, buf);
	rr_eng_window(o.e, 0);
	for (uint32_t i = 0; i < one_count(&o, RR_OP_EXPOSE); i++) {
		op = one_op(&o, RR_OP_EXPOSE, i);
		seg = (struct rr_seg){ .handle = 0x100 + i, .length = op->len };
		rr_eng_exposed(o.e, op->id, 0, i ? 99 : buf, &seg, 1, o.now);
		one_run(&o);
	}
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(rr_eng_calls_unread(o.e), 0);
	rr_eng_consumed(o.e, buf, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	rr_eng_window(o.e, 64);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(rr_eng_calls_unread(o.e), o.now);
	rr_eng_consumed(o.e, buf + 1, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	rr_eng_consumed(o.e, buf, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(rr_eng_calls_unread(o.e), 0);
}

/* A key can go once, and one key of a message: a device that says more says what cannot be. */
Test(engine_requester, a_second_invalidation_ends_the_connection)
{
	uint8_t buf[64];
	uint32_t n = WORDS(buf, 99, 1, 20, MSG, 0, 0, 0, A_REPLY(99));	/* to nobody */

	for (uint32_t nsegs = 1; nsegs <= 2; nsegs++) {
		one_init(&o, 0, true);
		o.nsegs = nsegs;
		call_out(5);
		one_recv(&o, buf, n, 0x100);
		cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
		one_recv(&o, buf, n, 0x100 + nsegs - 1);
		cr_assert_eq(one_count(&o, RR_OP_FAIL), 1);
		cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
		one_fini(&o);
	}
}
