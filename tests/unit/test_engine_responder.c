/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "core/engine/engine_int.h"
#include "tests/lib/oneside.h"
#include "tests/unit/usable.h"

/* The responder against RFC 8166: strict version 1, accepting side. Each case ends with a
 * NULL call that must still be answered. */

#define MSG	0
#define NOMSG	1
#define MSGP	2
#define DONE	3
#define ERROR	4
#define CREDITS	8

static struct one o;

static void start(void)
{
	one_init(&o, 0, false);
}

static void finish(void)
{
	one_end_usable(&o);
}

#define CASE(name) Test(engine_responder, name, .init = start, .fini = finish)

static void assert_err_chunk(uint32_t xid)
{
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 20);
	cr_assert_eq(one_word(&o, 0, 0), xid);
	cr_assert_eq(one_word(&o, 0, 1), 1);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_word(&o, 0, 4), 2);
	cr_assert_eq(o.count.v[RR_C_err_chunk_sent], 1);
}

static void assert_discarded(void)
{
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
}

/* 8166 §3.3.1, §4.2, §4.3.1 */
/* req: rfc8166 4.2.1 #1, 4.3.1 #1; version-two-08 7.3 #1 */
CASE(a_reply_has_the_calls_xid_a_grant_and_three_empty_lists)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, NULL_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 24), 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, 24);
	uint32_t want[] = { 5, 1, CREDITS, MSG, 0, 0, 0 };
	for (uint32_t w = 0; w < 7; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
}

/* req: rfc8166 3.3.1 #2 */
CASE(no_more_is_granted_than_was_asked_for_and_never_zero)
{
	ONE_RECV(&o, 5, 1, 3, MSG, 0, 0, 0, NULL_CALL(5));
	one_send(&o, RR_RPC_REPLY, 5, 24);
	cr_assert_eq(one_word(&o, 0, 2), 3);
	ONE_RECV(&o, 6, 1, 0, MSG, 0, 0, 0, NULL_CALL(6));
	one_send(&o, RR_RPC_REPLY, 6, 24);
	cr_assert_eq(one_word(&o, 1, 2), 1);
}

/* 8166 §4.5.1 */
/* req: rfc8166 4.5 #5, 4.5.1 #1; version-two-08 7.2 #1 */
CASE(another_version_gets_err_vers_in_its_own_version)
{
	ONE_RECV(&o, 5, 7, 20, MSG, 0, 0, 0, NULL_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28);
	uint32_t want[] = { 5, 7, CREDITS, ERROR, 1, 1, 1 };
	for (uint32_t w = 0; w < 7; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
}

/* 8166 §4.5 */
/* req: rfc8166 4.5 #1 */
CASE(messages_shorter_than_a_header_are_discarded_silently)
{
	uint8_t b[64];
	uint32_t whole = WORDS(b, 5, 1, 20, MSG, 0, 0, 0), n = 0;

	for (uint32_t len = 0; len < whole; len++, n++)
		one_recv(&o, b, len, 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), n);
}

/* 8166 §4.5.2 */
/* req: rfc8166 4.5 #2 */
CASE(an_unknown_procedure_gets_err_chunk)
{
	ONE_RECV(&o, 5, 1, 20, 0x63, 0, 0, 0);
	assert_err_chunk(5);
}

/* req: rfc8166 4.2.4 #1, 4.5.2 #1 */
CASE(nomsg_without_any_chunk_gets_err_chunk)
{
	ONE_RECV(&o, 5, 1, 20, NOMSG, 0, 0, 0);
	assert_err_chunk(5);
}

/* req: rfc8166 4.2.1 #1, 4.5 #4 */
CASE(a_call_whose_xid_is_not_the_transports_gets_err_chunk_with_the_transports)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, NULL_CALL(6));
	assert_err_chunk(5);
}

/* 8166 §4.2.4 */
/* req: rfc8166 4.2.4 #4 */
CASE(an_error_sent_to_a_responder_is_discarded)
{
	ONE_RECV(&o, 5, 1, 20, ERROR, 2);
	assert_discarded();
}

CASE(an_error_that_cannot_be_decoded_is_discarded)
{
	ONE_RECV(&o, 5, 1, 20, ERROR, 9, 0, 0);
	assert_discarded();
}

/* 8166 §4.6.2 */
/* req: rfc8166 4.6.2 #2 */
CASE(done_for_nothing_is_discarded_and_counts_as_no_call)
{
	ONE_RECV(&o, 5, 1, 20, DONE);
	ONE_RECV(&o, 5, 1, 20, DONE, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 2);
	struct rr_eng_info info;
	rr_eng_info(o.e, &info);
	cr_assert_eq(info.serving, 0);
}

/* 8166 §4.6.1 */
/* req: rfc8166 4.6.1 #2 */
CASE(msgp_gets_err_chunk)
{
	ONE_RECV(&o, 5, 1, 20, MSGP, 64, 64, 0, 0, 0, NULL_CALL(5));
	assert_err_chunk(5);
}

/* req: rfc8166 4.5 #2, 4.5.2 #1 */
CASE(hostile_lists_get_err_chunk)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 1, 0xffffffff, 0, 0);
	assert_err_chunk(5);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 0x10000000, 0);
	ONE_RECV(&o, 5, 1, 20, MSG, 1, 0, 0x11, 100, 0, 0);
	ONE_RECV(&o, 5, 1, 20, MSG, 2, 0, 0x11, 100, 0, 0, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 3);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
}

CASE(reads_longer_than_the_largest_message_get_err_chunk)
{
	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x11, 0xffffffff, 0, 0, 1, 0, 0x12, 0xffffffff, 0, 0, 0, 0, 0);
	assert_err_chunk(5);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 0);
	cr_assert_geq(o.count.v[RR_C_chunk_limits], 1);
}

CASE(more_segments_in_a_chunk_than_configured_get_err_chunk)
{
	uint8_t b[1024];
	uint32_t n = WORDS(b, 5, 1, 20, MSG, 0, 0, 1, 9);

	for (uint32_t i = 0; i < 9; i++)
		n += WORDS(b + n, 0x20 + i, 100, 0, 0);
	n += WORDS(b + n, A_CALL(5));
	one_recv(&o, b, n, 0);
	assert_err_chunk(5);
	cr_assert_eq(o.count.v[RR_C_chunk_limits], 1);
}

/* What no configuration could take is a limit, and counted as such; what is no list at all is not. */
CASE(more_chunks_than_there_is_room_for_get_err_chunk)
{
	uint8_t b[8192];
	uint32_t n = WORDS(b, 5, 1, 20, MSG);

	for (uint32_t i = 0; i < 200; i++)
		n += WORDS(b + n, 1, 4 * i, 0x20 + i, 4, 0, 0);
	n += WORDS(b + n, 0, 0, 0, A_CALL(5));
	one_recv(&o, b, n, 0);
	assert_err_chunk(5);
	cr_assert_eq(o.count.v[RR_C_chunk_limits], 1);
	one_clear(&o);
	o.count.v[RR_C_err_chunk_sent] = 0;
	ONE_RECV(&o, 6, 1, 20, MSG, 7, 0, 0, A_CALL(6));
	assert_err_chunk(6);
	cr_assert_eq(o.count.v[RR_C_chunk_limits], 1);
}

/* 8166 §3.5.3: segments of any length */
/* req: rfc8166 4.6.2 #1 */
CASE(a_long_call_is_pulled_as_its_segments_lie_and_delivered_without_done)
{
	uint8_t head[40];
	const struct rr_op *pull;

	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x11, 5, 0, 64, 1, 0, 0x12, 3, 0, 128, 1, 0, 0x13, 8232, 0, 256,
		 0, 0, 0);
	pull = one_op(&o, RR_OP_PULL, 0);
	cr_assert_not_null(pull);
	cr_assert_eq(pull->nsegs, 3);
	cr_assert_eq(pull->len, 8240);
	cr_assert_eq(o.segs[pull - o.op][1].handle, 0x12);
	cr_assert_eq(o.segs[pull - o.op][2].offset, 256);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	WORDS(head, A_CALL(5));
	rr_eng_head(o.e, pull->id, 0, head, 40, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->from, RR_FROM_PULL);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->id, pull->id);
	rr_eng_pulled(o.e, pull->id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
}

CASE(a_long_call_with_another_xid_in_it_gets_err_chunk_with_the_transports)
{
	uint8_t head[40];
	const struct rr_op *pull;

	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x11, 2000, 0, 64, 0, 0, 0);
	pull = one_op(&o, RR_OP_PULL, 0);
	WORDS(head, A_CALL(6));
	rr_eng_head(o.e, pull->id, 0, head, 40, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, RR_BUF_NONE);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->id, pull->id);
	assert_err_chunk(5);
}

CASE(a_message_behind_a_long_call_is_delivered_behind_it)
{
	uint8_t head[40];
	uint32_t id;

	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x11, 2000, 0, 64, 0, 0, 0);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, NULL_CALL(6));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_CALL(5));
	rr_eng_head(o.e, id, 0, head, 40, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 2);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.xid, 5);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 1)->rpc.xid, 6);
}

/* 8166 §4.3.2.2, §4.3.2.3, §4.3.3 */
/* req: rfc8166 3.4.6 #2, 4.3.2.3 #2 */
CASE(write_chunks_come_back_unused_and_an_empty_one_empty)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 1, 2, 0x21, 4096, 0, 16, 0x22, 4096, 1, 32, 1, 0, 0, 0, A_CALL(5));
	one_send(&o, RR_RPC_REPLY, 5, 24);
	uint32_t want[] = { 5, 1, CREDITS, MSG, 0, 1, 2, 0x21, 0, 0, 16, 0x22, 0, 1, 32, 1, 0, 0, 0 };
	for (uint32_t w = 0; w < 19; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
}

/* req: rfc8166 4.3.3 #2 */
CASE(a_reply_chunk_that_is_not_needed_comes_back_with_zero_lengths)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 2, 0x21, 4096, 0, 16, 0x22, 50, 0, 32, A_CALL(5));
	one_send(&o, RR_RPC_REPLY, 5, 100);
	uint32_t want[] = { 5, 1, CREDITS, MSG, 0, 0, 1, 2, 0x21, 0, 0, 16, 0x22, 0, 0, 32 };
	for (uint32_t w = 0; w < 16; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
}

/* req: rfc8166 3.5.3 #1 */
CASE(a_long_reply_is_written_before_its_send_and_released_after_both)
{
	const struct rr_op *w;

	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 2, 0x21, 1000, 0, 16, 0x22, 4096, 0, 32, A_CALL(5));
	one_clear(&o);
	o.hold_send = true;
	one_send(&o, RR_RPC_REPLY, 5, 1500);
	w = one_op(&o, RR_OP_WRITE, 0);
	cr_assert_not_null(w);
	cr_assert_eq(w->nsegs, 2);
	cr_assert_eq(o.segs[w - o.op][0].length, 1000);
	cr_assert_eq(o.segs[w - o.op][1].length, 500);
	cr_assert_lt(w, one_op(&o, RR_OP_SEND, 0));
	uint32_t want[] = { 5, 1, CREDITS, NOMSG, 0, 0, 1, 2, 0x21, 1000, 0, 16, 0x22, 500, 0, 32 };
	for (uint32_t i = 0; i < 16; i++)
		cr_assert_eq(one_word(&o, 0, i), want[i], "word %u", i);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	one_done(&o, one_op(&o, RR_OP_SEND, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	o.hold_send = false;
}

/* 8166 §4.5.3 */
/* req: rfc8166 4.5.4 #2; reliable-reply-00 - #2 #10 */
CASE(a_reply_that_fits_nowhere_gets_err_chunk_and_no_write)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 1, 0x21, 1400, 0, 16, A_CALL(5));
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 1401), 0);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 1401), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 2);
	cr_assert_eq(one_word(&o, 0, 0), 5);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_word(&o, 1, 4), 2);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 2);
}

/* 8166 §3.5.1: 28 bytes of header and the reply, to the byte */
CASE(the_inline_threshold_holds_to_the_byte)
{
	for (uint32_t len = 1024 - 28 - 4; len <= 1024 - 28 + 4; len++) {
		one_clear(&o);
		ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_CALL(5));
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, len), 0);
		cr_assert_eq(one_word(&o, 0, 3), len <= 1024 - 28 ? MSG : ERROR, "%u bytes", len);
		cr_assert_eq(rr_eng_is_short(o.e, RR_RPC_REPLY, len), len <= 1024 - 28);
	}
}

/* The call's Reply chunk stands in the reply's header too. */
/* req: rfc8166 3.5.3 #3 */
CASE(the_threshold_reckons_with_the_returned_reply_chunk)
{
	for (uint32_t len = 1024 - 48 - 4; len <= 1024 - 48 + 4; len++) {
		one_clear(&o);
		ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(5));
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, len), 0);
		cr_assert_eq(rr_eng_is_short(o.e, RR_RPC_REPLY, len), len <= 1024 - 48);
		cr_assert_eq(one_word(&o, 0, 3), len <= 1024 - 48 ? MSG : NOMSG, "%u bytes", len);
	}
}

CASE(the_same_xid_twice_is_two_calls)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(5));
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_CALL(5));
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 5, 24);
	one_send(&o, RR_RPC_REPLY, 5, 24);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 2);
	cr_assert_eq(one_word(&o, 0, 6), 1);
	cr_assert_eq(one_word(&o, 1, 6), 0);
}

CASE(a_reply_to_no_call_is_not_sent_to_a_strict_peer)
{
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 24), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
}

/* A call whose chunk at position zero has no bytes is no call: nothing is pulled for it. */
Test(engine_responder, a_chunk_at_position_zero_of_no_bytes_is_refused)
{
	one_init(&o, 0, false);
	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x11, 0, 0, 64, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 0), 5);
	cr_assert_eq(one_word(&o, 0, 3), 4);	/* RDMA_ERROR */
	cr_assert_eq(one_word(&o, 0, 4), 2);	/* ERR_CHUNK */
	one_clear(&o);
	ONE_RECV(&o, 6, 1, 20, NOMSG, 1, 0, 0x11, 0, 0, 64, 1, 0, 0x12, 40, 0, 128, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 1);
	one_fini(&o);
}

/* Wherever a chunk is said to be, it is looked at: within the header of the call it cannot be. */
Test(engine_responder, a_chunk_within_the_calls_header_is_refused)
{
	for (uint32_t pos = 1; pos < 40; pos += 3) {
		one_init(&o, 0, false);
		ONE_RECV(&o, 5, 1, 20, MSG, 1, pos, 0x11, 40, 0, 64, 0, 0, 0, A_CALL(5));
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
		cr_assert_eq(one_count(&o, RR_OP_PULL), 0);
		cr_assert_eq(one_word(&o, 0, 3), 4, "%u", pos);	/* RDMA_ERROR */
		one_fini(&o);
	}
}

/* As many chunks as are allowed, of both kinds. */
Test(engine_responder, the_limit_of_chunks_is_the_limit)
{
	one_params(&o, 0, false);
	o.p.max_chunks = 1;
	one_start(&o);
	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x11, 40, 0, 64, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 1);
	ONE_RECV(&o, 6, 1, 20, NOMSG, 1, 0, 0x11, 40, 0, 64, 0, 0, 1, 1, 0x12, 4000, 0, 128);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 1);
	cr_assert_eq(one_word(&o, 0, 3), 4);	/* RDMA_ERROR */
	one_fini(&o);
}

Test(engine_responder, the_limit_of_segments_is_the_limit)
{
	one_params(&o, 0, false);
	o.p.max_segs = 2;
	one_start(&o);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 2, 0x11, 2000, 0, 64, 0x12, 2000, 0, 64, A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 1, 3, 0x11, 2000, 0, 64, 0x12, 2000, 0, 64, 0x13, 2000, 0, 64, A_CALL(6));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_word(&o, 0, 3), 4);	/* RDMA_ERROR */
	one_fini(&o);
}

/* What an earlier message had does not count for the next. */
Test(engine_responder, a_call_is_judged_by_its_own_chunks)
{
	one_params(&o, 0, false);
	o.p.max_segs = 1;
	one_start(&o);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 1, 2, 0x11, 2000, 0, 64, 0x12, 2000, 0, 64, 0, 0, A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 1, 1, 0x13, 2000, 0, 64, A_CALL(6));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_fini(&o);
}

/* With ring credits, too, each call keeps what it has offered. */
Test(engine_responder, calls_keep_their_reply_chunks_while_others_come)
{
	one_init(&o, RR_CAP_RING_CREDITS, false);
	for (uint32_t i = 1; i <= 3; i++)
		ONE_RECV(&o, i, 1, 20, MSG, 0, 0, 1, 1, i, 4000, 0, 64, A_CALL(i));
	for (uint32_t i = 1; i <= 3; i++) {
		one_clear(&o);
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, i, 3000), 0);
		cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
		cr_assert_eq(o.segs[one_op(&o, RR_OP_WRITE, 0) - o.op][0].handle, i);
	}
	one_fini(&o);
}

/* Its reading may fail before the error is on its way. */
Test(engine_responder, of_a_call_that_is_refused_nothing_is_awaited)
{
	uint8_t head[40];
	uint32_t id;

	one_init(&o, 0, false);
	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x11, 2000, 0, 64, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_CALL(6));	/* another XID than the header has */
	rr_eng_head(o.e, id, 0, head, sizeof(head), o.now);
	rr_eng_pulled(o.e, id, -EACCES, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 3), 4);	/* RDMA_ERROR */
	one_fini(&o);
}

Test(engine_responder, more_calls_than_were_granted_end_the_connection)
{
	start();
	for (uint32_t i = 0; i < CREDITS; i++)
		ONE_RECV(&o, i, 1, 20, MSG, 0, 0, 0, A_CALL(i));
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	ONE_RECV(&o, 99, 1, 20, MSG, 0, 0, 0, A_CALL(99));
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_OVERRUN);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), CREDITS);
	one_fini(&o);
}

/* Long calls that are still being fetched, their receives held: a peer has no more of those than were posted. */
Test(engine_responder, more_messages_than_there_is_room_for_end_the_connection)
{
	uint32_t n = 0;

	one_params(&o, RR_CAP_RING_CREDITS, false);
	o.p.recvs = 10;
	one_start(&o);
	while (n < 1000 && !one_count(&o, RR_OP_FAIL)) {
		one_clear(&o);
		ONE_RECV(&o, n++, 1, 20, NOMSG, 1, 0, 0x11, 40, 0, 64, 0, 0, 0);
	}
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_OVERRUN);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 0);
	cr_assert_gt(n, o.p.recvs + RR_ENG_SHOWN, "all receives, and what is to be said of it");
	cr_assert_leq(n, 2 * o.p.recvs + RR_ENG_SHOWN + 17);
	one_fini(&o);
}

/* Whose reply is awaited: no call that is being fetched has its place. */
Test(engine_responder, a_call_that_was_delivered_is_not_forgotten_for_others)
{
	uint32_t n;

	one_params(&o, 0, false);
	o.p.recvs = 200;
	one_start(&o);
	n = o.e->tables.serves.n;
	ONE_RECV(&o, 1, 1, 20, MSG, 0, 0, 0, A_CALL(1));
	for (uint32_t i = 2; i <= n; i++)
		ONE_RECV(&o, i, 1, 20, NOMSG, 1, 0, 0x11, 40, 0, 64, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	ONE_RECV(&o, n + 1, 1, 20, NOMSG, 1, 0, 0x11, 40, 0, 64, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_OVERRUN);
	one_fini(&o);
}

Test(engine_responder, with_the_escape_hatch_a_reply_that_fits_nowhere_is_the_drivers)
{
	one_init(&o, RR_CAP_HATCH, false);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 2000), -EMSGSIZE);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	one_fini(&o);
}
