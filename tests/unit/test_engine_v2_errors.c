/* SPDX-License-Identifier: BSD-3-Clause */

/* version-two-08 §5.3.3: what a responder says */

#include "tests/unit/engine_v2.h"

#define SEG(handle, len)	(handle), (len), 0, 0x1000
#define READ_SEG(pos, h, len)	1, (pos), SEG(h, len)

static void nothing_was_delivered(void)
{
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 0);
}

/* req: version-two-08 1 #1, 3.2 #2, 7.3 #1 */
Test(engine_v2_errors, calls_and_replies_of_both_directions_say_theirs)
{
	v2_begin(0, false);
	ONE_RECV(&o, INLINE(5, CALL), A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 5, 24);
	one_send(&o, RR_RPC_CALL, 6, 40);
	uint32_t want[2][9] = { { 5, 2, 8, MSG, REPLY }, { 6, 2, 4, MSG, CALL } };
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t w = 0; w < 9; w++)
			cr_assert_eq(one_word(&o, i, w), want[i][w], "%u, word %u", i, w);
	one_clear(&o);
	ONE_RECV(&o, INLINE(6, REPLY), A_REPLY(6));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_fini(&o);
}

/* req: version-two-08 3.2 #2 */
Test(engine_v2_errors, a_flag_that_is_not_the_messages_type_is_believed_and_the_message_is_not)
{
	for (int connector = 0; connector < 2; connector++) {
		v2_begin(0, connector);
		ONE_RECV(&o, INLINE(5, CALL), A_REPLY(5));
		ERROR_IS(5, BAD_XDR);
		one_clear(&o);
		ONE_RECV(&o, INLINE(6, REPLY), A_CALL(6));
		cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
		nothing_was_delivered();
		one_fini(&o);
	}
}

/* req: version-two-08 5.3.3 #4 #5 */
Test(engine_v2_errors, what_cannot_be_parsed_gets_bad_xdr_and_is_not_processed)
{
	v2_begin(0, false);
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 7, 0, 0, A_CALL(5));
	ERROR_IS(5, BAD_XDR);
	nothing_was_delivered();
	one_clear(&o);
	ONE_RECV(&o, INLINE(6, 2), A_CALL(6));	/* a reserved flag */
	ERROR_IS(6, BAD_XDR);
	nothing_was_delivered();
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #1 */
Test(engine_v2_errors, a_requester_answers_no_reply_by_an_error)
{
	for (int connector = 0; connector < 2; connector++) {
		v2_begin(0, connector);
		ONE_RECV(&o, 5, 2, 20, MSG, REPLY, 0, 7, 0, 0, A_REPLY(5));
		ONE_RECV(&o, 5, 2, 20, 99, REPLY, 0, 0, 0, 0);
		ONE_RECV(&o, 5, 2, 20, NOMSG, REPLY, 0, READ_SEG(0, 9, 100), 0, 0, 0);
		ONE_RECV(&o, 5, 2, 20, ERROR, REPLY, BAD_XDR);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
		nothing_was_delivered();
		one_fini(&o);
	}
}

/* req: version-two-08 5.2 #2, 5.3.3 #3 */
Test(engine_v2_errors, a_header_type_that_is_not_there_gets_inval_htype)
{
	static const uint32_t none[] = { 2, 3, 6, 0x52444d02 };

	for (uint32_t i = 0; i < 4; i++) {
		v2_begin(0, false);
		ONE_RECV(&o, 5, 2, 20, none[i], CALL, 0, 0, 0, 0);
		ERROR_IS(5, INVAL_HTYPE);
		one_fini(&o);
	}
}

/* req: version-two-08 5.2 #2 */
Test(engine_v2_errors, done_is_such_a_type_where_it_was_not_agreed)
{
	v2_begin(0, false);
	ONE_RECV(&o, 5, 2, 20, DONE, CALL);
	ERROR_IS(5, INVAL_HTYPE);
	one_fini(&o);
	v2_begin(RR_CAP_RELIABLE_REPLY, false);
	ONE_RECV(&o, 5, 2, 20, DONE, CALL);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #6 */
Test(engine_v2_errors, more_read_chunks_than_are_taken_get_their_number)
{
	v2_begin(0, false);
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, READ_SEG(40, 1, 8), READ_SEG(44, 2, 8), READ_SEG(48, 3, 8),
		 READ_SEG(52, 4, 8), READ_SEG(56, 5, 8), 0, 0, 0, A_CALL(5));
	ERROR_IS(5, READ_CHUNKS, 4);
	nothing_was_delivered();
	one_clear(&o);	/* a Reply chunk is one of them */
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, READ_SEG(40, 1, 8), READ_SEG(44, 2, 8), READ_SEG(48, 3, 8),
		 READ_SEG(52, 4, 8), 0, 0, 1, 1, SEG(9, 100), A_CALL(5));
	ERROR_IS(5, READ_CHUNKS, 3);
	one_fini(&o);
}

/* A message of n Read segments, the first at position 40 and each step further on, and no other chunks. */
static void read_segs(uint32_t n, uint32_t step)
{
	uint8_t buf[4096];
	uint32_t len = WORDS(buf, 5, 2, 20, MSG, CALL, 0);

	for (uint32_t i = 0; i < n; i++)
		len += WORDS(buf + len, READ_SEG(40 + i * step, i + 1, 8));
	len += WORDS(buf + len, 0, 0, 0, A_CALL(5));
	one_recv(&o, buf, len, 0);
}

/* req: version-two-08 5.3.3 #6 */
Test(engine_v2_errors, read_chunks_for_more_items_than_can_be_told_get_their_number)
{
	v2_params(0, false);
	o.p.max_chunks = 16;
	v2_start(1);
	read_segs(RR_ULB_ITEMS + 1, 4);
	ERROR_IS(5, READ_CHUNKS, RR_ULB_ITEMS);
	nothing_was_delivered();
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #6 #13 */
Test(engine_v2_errors, more_read_segments_than_there_is_room_for_are_chunks_or_segments)
{
	for (uint32_t step = 0; step <= 4; step += 4) {
		v2_params(0, false);
		o.p.max_chunks = 2;
		o.p.max_segs = 3;
		v2_start(1);
		read_segs(7, step);
		if (step)
			ERROR_IS(5, READ_CHUNKS, 2);
		else
			ERROR_IS(5, SEGMENTS, 3);
		nothing_was_delivered();
		one_fini(&o);
	}
	/* A chunk of one segment before one of many. */
	v2_params(0, false);
	o.p.max_chunks = 2;
	o.p.max_segs = 3;
	v2_start(1);
	ONE_RECV(&o, 5, 2, 20, NOMSG, CALL, 0, 1, 0, 0x31, 100, 0, 64,
		 1, 52, 0x32, 100, 0, 64, 1, 52, 0x33, 100, 0, 64, 1, 52, 0x34, 100, 0, 64,
		 1, 52, 0x35, 100, 0, 64, 1, 52, 0x36, 100, 0, 64, 1, 52, 0x37, 100, 0, 64, 0, 0, 0);
	ERROR_IS(5, READ_CHUNKS, 2);
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #7 */
Test(engine_v2_errors, where_no_read_chunks_are_taken_the_number_is_zero)
{
	v2_begin(0, true);
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, READ_SEG(40, 1, 8), 0, 0, 0, A_CALL(5));
	ERROR_IS(5, READ_CHUNKS, 0);
	one_clear(&o);
	ONE_RECV(&o, 6, 2, 20, NOMSG, CALL, 0, READ_SEG(0, 1, 100), 0, 0, 0);
	ERROR_IS(6, READ_CHUNKS, 0);
	nothing_was_delivered();
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #10 */
Test(engine_v2_errors, more_write_chunks_than_are_taken_get_their_number)
{
	v2_begin(0, false);
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 0, 1, 1, SEG(1, 8), 1, 1, SEG(2, 8), 1, 1, SEG(3, 8), 1, 1, SEG(4, 8),
		 1, 1, SEG(5, 8), 0, 0, A_CALL(5));
	ERROR_IS(5, WRITE_CHUNKS, 4);
	nothing_was_delivered();
	one_clear(&o);	/* a Reply chunk is one of them, and so is a Read chunk */
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 0, 1, 1, SEG(1, 8), 1, 1, SEG(2, 8), 1, 1, SEG(3, 8), 1, 1, SEG(4, 8),
		 0, 1, 1, SEG(9, 100), A_CALL(5));
	ERROR_IS(5, WRITE_CHUNKS, 3);
	one_clear(&o);
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, READ_SEG(40, 1, 8), 0, 1, 1, SEG(1, 8), 1, 1, SEG(2, 8), 1, 1,
		 SEG(3, 8), 1, 1, SEG(4, 8), 0, 0, A_CALL(5));
	ERROR_IS(5, WRITE_CHUNKS, 3);
	nothing_was_delivered();
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #11 */
Test(engine_v2_errors, where_no_write_chunks_are_taken_it_is_reply_resource)
{
	v2_begin(0, true);
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 0, 1, 1, SEG(1, 8), 0, 0, A_CALL(5));
	ERROR_IS(5, REPLY_RESOURCE, 0);
	nothing_was_delivered();
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #13 */
Test(engine_v2_errors, more_segments_than_are_taken_get_their_number)
{
	for (uint32_t i = 0; i < 3; i++) {
		v2_params(0, false);
		o.p.max_segs = 2;
		v2_start(1);
		if (i == 0)
			ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, READ_SEG(40, 1, 8), READ_SEG(40, 2, 8),
				 READ_SEG(40, 3, 8), 0, 0, 0, A_CALL(5));
		else if (i == 1)
			ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 0, 1, 3, SEG(1, 8), SEG(2, 8), SEG(3, 8), 0, 0,
				 A_CALL(5));
		else
			ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 0, 0, 1, 3, SEG(1, 8), SEG(2, 8), SEG(3, 8),
				 A_CALL(5));
		ERROR_IS(5, SEGMENTS, 2);
		nothing_was_delivered();
		one_fini(&o);
	}
}

Test(engine_v2_errors, more_than_the_codec_has_room_for_is_told_our_own_limits)
{
	uint8_t buf[4096];
	uint32_t n;

	v2_begin(0, false);
	n = WORDS(buf, 5, 2, 20, MSG, CALL, 0, 0);
	for (uint32_t i = 0; i < 20; i++)
		n += WORDS(buf + n, 1, 1, SEG(i + 1, 8));
	n += WORDS(buf + n, 0, 0, A_CALL(5));
	one_recv(&o, buf, n, 0);
	ERROR_IS(5, WRITE_CHUNKS, 4);
	one_fini(&o);
}

Test(engine_v2_errors, a_call_longer_than_any_may_be_is_a_system_error)
{
	v2_begin(0, false);
	ONE_RECV(&o, 5, 2, 20, NOMSG, CALL, 0, READ_SEG(0, 1, (1 << 20) + 4), 0, 0, 0);
	ERROR_IS(5, SYSTEM);
	nothing_was_delivered();
	one_fini(&o);
}

#define NFS_READ(x, count)	(x), 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, (count)
#define READ_HEAD(x, n)		(x), 1, 0, 0, 0, 0, 0, 0, (n), 1, (n)

static void answer_read(uint32_t xid, uint32_t n)
{
	uint8_t buf[8192];
	uint32_t len = WORDS(buf, READ_HEAD(xid, n));

	memset(buf + len, 7, n);
	one_clear(&o);
	one_send_bytes(&o, buf, len + n);
}

/* req: version-two-08 5.3.3 #14 #15 #16 */
Test(engine_v2_errors, a_write_chunk_that_is_too_short_is_named_with_the_bytes_that_it_should_have)
{
	v2_begin(0, false);
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 0, 1, 1, SEG(1, 96), 0, 0, NFS_READ(5, 100));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	answer_read(5, 100);
	ERROR_IS(5, WRITE_RESOURCE, 1, 100);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #17 #18 */
Test(engine_v2_errors, a_reply_chunk_that_is_too_short_gets_the_bytes_that_it_should_have)
{
	for (uint32_t chunk = 0; chunk < 2; chunk++) {
		v2_begin(0, false);
		if (chunk)
			ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 0, 0, 1, 1, SEG(1, 1996), A_CALL(5));
		else
			ONE_RECV(&o, INLINE(5, CALL), A_CALL(5));
		one_clear(&o);
		one_send(&o, RR_RPC_REPLY, 5, 2000);
		ERROR_IS(5, REPLY_RESOURCE, 2000);
		cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
		one_fini(&o);
	}
}

Test(engine_v2_errors, what_is_left_of_a_reduced_reply_is_what_the_reply_chunk_should_have)
{
	v2_begin(0, false);
	ONE_RECV(&o, 5, 2, 20, MSG, CALL, 0, 0, 1, 1, SEG(1, 3000), 0, 0, NFS_READ(5, 3000));
	answer_read(5, 3000);		/* fits: the rest is 44 bytes */
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #1; rfc8167 5.3 #1 */
Test(engine_v2_errors, who_connected_is_the_responder_of_reverse_calls)
{
	v2_begin(0, true);
	ONE_RECV(&o, 5, 2, 20, 99, CALL, 0, 0, 0, 0);
	ERROR_IS(5, INVAL_HTYPE);
	one_clear(&o);
	ONE_RECV(&o, 6, 2, 20, MSG, CALL, 0, 0, 0, 1, 1, SEG(1, 8), A_CALL(6));
	ERROR_IS(6, BAD_XDR);
	one_fini(&o);
}

Test(engine_v2_errors, general_reverse_calls_have_chunks)
{
	v2_params(0, true);
	o.p.caps = RR_CAP_REVERSE_CHUNKS;
	v2_start(1);
	ONE_RECV(&o, 6, 2, 20, MSG, CALL, 0, 0, 0, 1, 1, SEG(1, 4000), A_CALL(6));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 6, 2000);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	cr_assert_eq(one_word(&o, 0, 4), REPLY);
	one_fini(&o);
}

Test(engine_v2_errors, several_errors_of_one_moment_all_have_their_own_words)
{
	v2_params(RR_CAP_RING_CREDITS, false);
	v2_start(1);
	rr_eng_window(o.e, 0);
	ONE_RECV(&o, 5, 2, 20, 99, CALL, 0, 0, 0, 0);
	ONE_RECV(&o, 6, 2, 20, MSG, CALL, 0, 0, 1, 9, SEG(1, 8), SEG(1, 8), SEG(1, 8), SEG(1, 8), SEG(1, 8), SEG(1, 8),
		 SEG(1, 8), SEG(1, 8), SEG(1, 8), 0, 0, A_CALL(6));
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	rr_eng_window(o.e, 8);
	one_run(&o);
	cr_assert_eq(one_word(&o, 0, 5), INVAL_HTYPE);
	cr_assert_eq(one_word(&o, 1, 5), SEGMENTS);
	cr_assert_eq(one_word(&o, 1, 6), 8);
	one_fini(&o);
}
