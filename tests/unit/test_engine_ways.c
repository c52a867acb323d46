/* SPDX-License-Identifier: BSD-3-Clause */

/* Which way a call or a reply takes where two are possible, and how far the chunks that came with a message are
 * believed: by their number, their places and what another message had there before. */

#include "core/engine/engine_int.h"
#include "tests/unit/engine_v2.h"

#define MSGP	2
#define V1_DONE	3

static uint8_t msg[8192];

/* --- replies to calls with chunks --- */

/* A NULL call that offers a Reply chunk of n segments of len bytes. */
static void offers_reply(uint32_t xid, uint32_t n, uint32_t len)
{
	uint8_t buf[1024];
	uint32_t at = WORDS(buf, xid, 1, 4, MSG, 0, 0, 1, n);

	for (uint32_t i = 0; i < n; i++)
		at += WORDS(buf + at, 0x31 + i, len, 0, 16);
	at += WORDS(buf + at, NULL_CALL(xid));
	one_clear(&o);
	one_recv(&o, buf, at, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
}

/* The chunk is too small, and with it the header leaves too little room: with reliable replies the reply goes without
 * it, if that helps. Otherwise it can only be pulled. */
Test(engine_ways, a_reply_drops_the_calls_chunks_if_only_they_are_in_the_way)
{
	static const struct { uint32_t len; bool is_inline; } row[] = { { 950, true }, { 996, true }, { 997, false } };

	for (size_t i = 0; i < rr_array_size(row); i++) {
		v1(RR_CAP_RELIABLE_REPLY, false);
		offers_reply(1, 8, 10);
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, row[i].len), 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
		cr_assert_eq(one_count(&o, RR_OP_EXPOSE), !row[i].is_inline, "%u", row[i].len);
		cr_assert_eq(one_word(&o, 0, 3), row[i].is_inline ? MSG : NOMSG);
		if (row[i].is_inline)
			cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28);
		cr_assert_eq(one_info(&o).serving, 0);
		cr_assert_eq(o.e->serves.used, 0);
		one_fini(&o);
	}
	draft02(false);		/* there the chunks come back */
	offers_reply(1, 8, 10);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 950), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	one_fini(&o);
}

Test(engine_ways, a_reply_to_nothing_known_that_is_too_long_is_answered_by_an_error)
{
	v1(RR_CAP_RING_CREDITS, false);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 5000), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 0), 1);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

/* --- replies that are shown --- */

/* A reply of len bytes to a NULL call, longer than any Send. */
static int shows(uint32_t xid, uint32_t len)
{
	ONE_RECV(&o, xid, 1, 4, MSG, 0, 0, 0, NULL_CALL(xid));
	one_clear(&o);
	return one_send(&o, RR_RPC_REPLY, xid, len);
}

Test(engine_ways, replies_are_shown_up_to_the_budget)
{
	v1(RR_CAP_RELIABLE_REPLY, false);
	cr_assert_eq(shows(1, 50000), 0);
	cr_assert_eq(shows(2, 50000), 0, "all of the budget");
	cr_assert_eq(one_info(&o).exposed, 100000);
	cr_assert_eq(shows(3, 50000), -EAGAIN);
	one_fini(&o);
}

/* The key of the second of three: it is not taken back again. */
Test(engine_ways, a_done_may_take_the_key_of_any_reply_that_is_shown)
{
	for (uint32_t x = 1; x <= 3; x++) {
		uint8_t done[16];
		uint32_t first;

		v1(RR_CAP_RELIABLE_REPLY, false);
		first = o.next_handle;
		for (uint32_t i = 1; i <= 3; i++)
			cr_assert_eq(shows(i, 5000), 0);
		one_clear(&o);
		one_recv(&o, done, WORDS(done, x, 1, 4, V1_DONE), first + x - 1);
		cr_assert_eq(one_count(&o, RR_OP_FAIL) + one_count(&o, RR_OP_INVALIDATE), 0, "%u", x);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		cr_assert_eq(rr_eng_shown(o.e), 2);
		one_fini(&o);
	}
}

/* For how long, is the driver's to say. */
Test(engine_ways, a_reply_is_shown_until_its_time_is_over)
{
	for (uint32_t i = 0; i < 3; i++) {
		rr_time end;

		one_params(&o, RR_CAP_RELIABLE_REPLY, false);
		if (i == 1)
			o.p.patient = true;
		if (i == 2)
			o.p.done_timeout = RR_TIME_NEVER;
		one_start(&o);
		cr_assert_eq(shows(1, 5000), 0);
		end = rr_eng_deadline(o.e);
		cr_assert_eq(end, i ? RR_TIME_NEVER : o.now + 10 * RR_SEC);
		rr_eng_tick(o.e, i ? 1000 * RR_SEC : end - 1);
		one_run(&o);
		cr_assert_eq(rr_eng_shown(o.e), 1);
		if (i == 0)
			rr_eng_tick(o.e, end);
		one_run(&o);
		cr_assert_eq(rr_eng_shown(o.e), i > 0);
		one_fini(&o);
	}
}

/* --- what is returned --- */

/* How long the header of a reply gets that returns what its call has offered, whatever was sent before. */
Test(engine_ways, a_header_that_returns_chunks_is_as_long_as_they_are)
{
	v1(0, false);
	ONE_RECV(&o, 1, 1, 4, MSG, 2, 0, 0, 0);		/* spoilt: an error goes out */
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	offers_reply(2, 8, 10);
	cr_assert_eq(o.e->hdr_returned, 28 + 4 + 8 * 16);
	one_fini(&o);
	v1(0, false);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 1, 1, 0x11, 10, 0, 0, 1, 5, 0x12, 10, 0, 0, 0x13, 10, 0, 0, 0x14, 10, 0, 0,
		 0x15, 10, 0, 0, 0x16, 10, 0, 0, 0, 0, NULL_CALL(1));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(o.e->hdr_returned, 28 + 8 + 16 + 8 + 5 * 16);
	one_fini(&o);
}

/* A READ with a Write chunk, whose reply may have to be reduced. */
static void recv_read(uint32_t xid)
{
	one_clear(&o);
	ONE_RECV(&o, xid, 1, 4, MSG, 0, 1, 1, 0x11, 2000, 0, 16, 0, 0,
		 xid, 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, 2000);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

Test(engine_ways, nothing_of_a_call_is_left_for_the_next)
{
	v1(0, false);
	recv_read(1);
	cr_assert_not(rr_eng_is_short(o.e, RR_RPC_REPLY, 100), "it may have to be reduced");
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 24), 0);
	ONE_RECV(&o, 2, 1, 4, MSG, 0, 0, 0, NULL_CALL(2));
	cr_assert(rr_eng_is_short(o.e, RR_RPC_REPLY, 100));
	one_fini(&o);
}

/* With ring credits only calls with chunks are remembered, and when there are too many the oldest is not. */
Test(engine_ways, the_oldest_call_with_chunks_makes_room)
{
	uint32_t x = 1, n;

	v1(RR_CAP_RING_CREDITS, false);
	ONE_RECV(&o, x, 1, 4, MSG, 0, 0, 0, NULL_CALL(x));
	cr_assert_eq(one_info(&o).serving, 0);
	for (x = 2; x < 150; x++) {
		rr_eng_window(o.e, 64);
		recv_read(x);
		cr_assert_eq(one_info(&o).serving, 1);
		one_clear(&o);
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, x, 24), 0);
		cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28 + 8 + 16, "its chunk comes back");
		cr_assert_eq(o.e->serves.used, 0);
	}
	n = o.e->serves.n;
	for (uint32_t i = 0; i < n + 3; i++)
		recv_read(1000 + i);
	cr_assert_eq(one_info(&o).serving, n);
	for (uint32_t i = 0; i < n + 3; i++) {
		rr_eng_window(o.e, 64);
		one_clear(&o);
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1000 + i, 24), 0);
		cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, i < 3 ? 28 : 28 + 8 + 16, "%u", i);
	}
	cr_assert_eq(o.e->serves.used, 0);
	one_fini(&o);
}

/* --- Read chunks --- */

/* A header of the version with one Read segment at each position, and n bytes of message behind it. */
static uint32_t reads_at(uint8_t *buf, uint32_t vers, uint32_t type, const uint32_t *pos, uint32_t n)
{
	uint32_t at = WORDS(buf, 1, vers, 4, type);

	if (vers == 2)
		at += WORDS(buf + at, CALL, 0);
	for (uint32_t i = 0; i < n; i++)
		at += WORDS(buf + at, 1, pos[i], 0x11 + i, 100, 0, 16);
	return at + WORDS(buf + at, 0, 0, 0);
}

Test(engine_ways, what_a_message_before_had_more_is_not_read)
{
	static const uint32_t before[] = { 0, 72, 500 }, now[] = { 0 };
	uint8_t buf[512];

	v1(0, false);
	one_recv(&o, buf, reads_at(buf, 1, NOMSG, before, 3), 0);
	cr_assert_eq(one_op(&o, RR_OP_PULL, 0)->room, 300);
	one_clear(&o);
	one_recv(&o, buf, reads_at(buf, 1, NOMSG, now, 1), 0);
	cr_assert_eq(one_op(&o, RR_OP_PULL, 0)->room, 0);
	cr_assert_eq(one_op(&o, RR_OP_PULL, 0)->len, 100);
	one_fini(&o);
}

/* Of more segments than there is room for: is any at another place than the first? */
Test(engine_ways, too_many_segments_are_named_by_their_places)
{
	for (uint32_t other = 0; other < 34; other++) {
		uint32_t pos[33] = { 0 };
		uint8_t buf[2048];

		v2_begin(0, false);
		if (other < 33)
			pos[other] = 72;
		one_recv(&o, buf, reads_at(buf, 2, NOMSG, pos, 33), 0);
		if (other < 33)
			ERROR_IS(1, READ_CHUNKS, 4);
		else
			ERROR_IS(1, SEGMENTS, 8);
		one_fini(&o);
	}
}

Test(engine_ways, as_many_chunks_and_segments_as_are_taken_are_taken)
{
	uint32_t pos[32];
	uint8_t buf[2048];

	for (uint32_t i = 0; i < 32; i++)
		pos[i] = i / 8 * 100;
	v1(0, false);
	one_recv(&o, buf, reads_at(buf, 1, NOMSG, pos, 32), 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 1);
	cr_assert_eq(one_op(&o, RR_OP_PULL, 0)->nsegs, 8);
	one_fini(&o);
	memset(pos, 0, sizeof(pos));
	v2_begin(0, false);
	one_recv(&o, buf, reads_at(buf, 2, NOMSG, pos, 9), 0);
	ERROR_IS(1, SEGMENTS, 8);
	one_fini(&o);
	for (uint32_t i = 0; i < 32; i++)
		pos[i] = 100 * i;
	v2_begin(0, false);
	one_recv(&o, buf, reads_at(buf, 2, NOMSG, pos, RR_ULB_ITEMS + 2), 0);
	ERROR_IS(1, READ_CHUNKS, RR_ULB_ITEMS);
	one_fini(&o);
}

Test(engine_ways, the_longest_message_is_pulled)
{
	for (uint32_t more = 0; more < 2; more++) {
		v1(0, false);
		ONE_RECV(&o, 1, 1, 4, NOMSG, 1, 0, 0x21, (1 << 20) + more, 0, 16, 0, 0, 0);
		cr_assert_eq(one_count(&o, RR_OP_PULL), !more);
		one_fini(&o);
	}
}

/* Where no binding says what may be where, the places must still make one message. */
Test(engine_ways, parts_that_make_no_message_are_refused)
{
	static const struct { uint32_t pos[2], n; bool ok; } row[] = {
		{ { 40 }, 1, true }, { { 36 }, 1, false }, { { 60 }, 1, true }, { { 64 }, 1, false },
		{ { 4000 }, 1, false }, { { 40, 140 }, 2, true }, { { 40, 136 }, 2, false }, { { 40, 160 }, 2, true },
		{ { 40, 164 }, 2, false },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		uint8_t buf[512];
		uint32_t n;

		one_params(&o, 0, false);
		o.p.lenient_read_chunks = true;
		one_start(&o);
		n = reads_at(buf, 1, MSG, row[i].pos, row[i].n);
		n += WORDS(buf + n, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5);	/* 60 bytes */
		one_recv(&o, buf, n, 0);
		cr_assert_eq(one_count(&o, RR_OP_COMPOSE), row[i].ok, "%zu", i);
		cr_assert_eq(one_count(&o, RR_OP_SEND), !row[i].ok);
		one_fini(&o);
	}
}

/* A WRITE with its data in a Read chunk. With ring credits nothing is kept of it. */
Test(engine_ways, a_call_with_read_chunks_only_is_composed_with_ring_credits_too)
{
	static const uint32_t caps[] = { 0, RR_CAP_RING_CREDITS }, pos[] = { 68 };

	for (size_t i = 0; i < 2; i++) {
		uint8_t buf[512];
		uint32_t n = reads_at(buf, 1, MSG, pos, 1);

		v1(caps[i], false);
		n += WORDS(buf + n, 1, 0, 2, 100003, 3, 7, 0, 0, 0, 0, 4, 1, 0, 0, 100, 0, 100);
		one_recv(&o, buf, n, 0);
		cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 1);
		cr_assert_eq(one_op(&o, RR_OP_COMPOSE, 0)->token, 0);
		cr_assert_eq(one_op(&o, RR_OP_COMPOSE, 0)->nsegs, 1);
		one_fini(&o);
	}
}

Test(engine_ways, write_chunks_are_taken_from_a_call_without_binding)
{
	v1(0, false);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 1, 1, 0x11, 2000, 0, 16, 0, 0, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_fini(&o);
}

/* --- padding --- */

Test(engine_ways, calls_are_padded_to_what_is_worth_it)
{
	static const struct { uint32_t align, to; } row[] = {
		{ 0, 0 }, { 1, 0 }, { 2, 2 }, { 4096, 4096 }, { 4097, 0 },
	};

	for (uint32_t i = 0; i < 4; i++) {
		one_params(&o, 0, i != 1);
		o.p.dialect = i == 2 ? RR_DIALECT_V1 : RR_DIALECT_DRAFT02;
		o.p.pad_thresh = i == 3 ? 0 : 100;
		one_start(&o);
		for (size_t r = 0; r < rr_array_size(row); r++) {
			o.e->pad_align = 0;
			rr_pad_to(o.e, row[r].align);
			cr_assert_eq(o.e->pad_align, i ? 0 : row[r].to, "%u: %zu", i, r);
		}
		one_fini(&o);
	}
}

/* A padded call of a program without binding: where its padding would be is not known, unless there is none. */
Test(engine_ways, padding_that_is_none_is_taken_anywhere)
{
	static const struct { uint32_t align, thresh; bool taken; } row[] = {
		{ 0, 0, true }, { 1, 0, true }, { 2, 0, false }, { 64, 41, true }, { 64, 40, false },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		draft02(false);
		ONE_RECV(&o, 1, 1, 4, MSGP, row[i].align, row[i].thresh, 0, 0, 0, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), row[i].taken, "%zu", i);
		one_fini(&o);
	}
}

/* --- calls of ours --- */

static const struct rr_op *exposes(uint32_t n)
{
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), n, "%u", one_count(&o, RR_OP_EXPOSE));
	return one_op(&o, RR_OP_EXPOSE, 0);
}

/* NULL returns nothing, but what makes a security context does. */
Test(engine_ways, a_null_call_offers_memory_only_to_make_a_context)
{
	for (uint32_t gss = 0; gss < 3; gss++) {
		v1(0, true);
		cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 0, 6, 20, 1, gss, 1, 1, 0, 0, 0)), 0);
		exposes(gss > 0);
		one_fini(&o);
	}
}

/* Two READs and an operation that nobody knows: their data is added to what is offered by default. */
Test(engine_ways, results_that_are_known_are_added_to_a_guess)
{
	v1(0, true);
	cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 100003, 4, 1, 0, 0, 0, 0, 0, 0, 3,
						   25, 1, 2, 3, 4, 0, 0, 8001, 25, 1, 2, 3, 4, 0, 0, 3000, 9999)), 0);
	cr_assert_eq(exposes(1)->len, 4096 + 8004 + 3000);
	one_fini(&o);
	v1(0, true);		/* the rest, which has no bound, is not short because of the last READ */
	cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 100003, 4, 1, 0, 0, 0, 0, 0, 0, 3,
						   25, 1, 2, 3, 4, 0, 0, 8000, 25, 1, 2, 3, 4, 0, 0, 100, 9999)), 0);
	cr_assert_eq(exposes(1)->len, 4096 + 8000 + 100);
	one_fini(&o);
}

/* The most that may be offered is offered. */
Test(engine_ways, a_write_chunk_may_be_as_long_as_any_chunk)
{
	static const uint32_t count[] = { 65536, 65537 };

	for (size_t i = 0; i < 2; i++) {
		v1(0, true);
		one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, count[i]));
		cr_assert_eq(exposes(1)->len, 65536);
		cr_assert_eq(one_word(&o, 0, 5), !i, "a Write chunk");
		cr_assert_eq(one_word(&o, 0, i ? 6 : 12), i, "a Reply chunk");
		one_fini(&o);
	}
}

/* Each segment of what is offered stands in the header. */
Test(engine_ways, all_segments_of_a_chunk_are_named)
{
	v1(0, true);
	o.nsegs = 4;
	one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0));
	cr_assert_eq(one_word(&o, 0, 6), 1);
	cr_assert_eq(one_word(&o, 0, 7), 4);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_eq(one_word(&o, 0, 8 + 4 * i), o.next_handle - 4 + i);
		cr_assert_eq(one_word(&o, 0, 9 + 4 * i), 1024);
	}
	one_fini(&o);
}

/* Behind the app's own bytes. */
Test(engine_ways, a_reply_is_written_to_its_chunk_from_where_it_is)
{
	v1(0, false);
	offers_reply(1, 1, 2000);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 2000), 0);
	cr_assert_eq(one_op(&o, RR_OP_WRITE, 0)->buf, o.next_buf - 1);
	cr_assert_eq(one_op(&o, RR_OP_WRITE, 0)->len, 2000);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

Test(engine_ways, an_answer_by_err_chunk_means_what_the_policy_makes_of_it)
{
	static const struct { uint32_t policy; bool bounded; enum rr_eng_why why; } row[] = {
		{ RR_REPLY_CHUNKS_AUTO, false, RR_WHY_ERR_CHUNK }, { RR_REPLY_CHUNKS_AUTO, true, RR_WHY_REFUSED },
		{ RR_REPLY_CHUNKS_BOUNDED, false, RR_WHY_TOO_LARGE }, { RR_REPLY_CHUNKS_BOUNDED, true, RR_WHY_REFUSED },
		{ RR_REPLY_CHUNKS_NEVER, true, RR_WHY_TOO_LARGE },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		one_params(&o, 0, true);
		o.p.reply_chunks = row[i].policy;
		one_start(&o);
		if (row[i].bounded)
			one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 100003, 3, 16, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 3000));
		else
			one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0));
		ONE_RECV(&o, 1, 1, 4, ERROR, 2);
		cr_assert_eq(v2_failed(), row[i].why, "%zu: %u", i, v2_failed());
		one_fini(&o);
	}
}

/* --- what of a call the peer has read --- */

Test(engine_ways, the_reply_may_take_the_key_of_the_arguments)
{
	one_params(&o, 0, true);
	o.p.reply_chunk = 0;
	one_start(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 5000), 0);
	uint32_t n = WORDS(msg, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1));
	one_clear(&o);
	one_recv(&o, msg, n, o.next_handle - 1);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

Test(engine_ways, arguments_that_were_read_are_given_back_once)
{
	rr_time second;

	v1(RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, true);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 5000), 0);
	second = o.now += RR_SEC;
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 5000), 0);
	cr_assert_eq(rr_eng_calls_unread(o.e), second);
	one_clear(&o);
	rr_eng_consumed(o.e, 1000, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

/* --- replies that are not what was asked for --- */

Test(engine_ways, a_reply_in_a_reply_chunk_has_no_write_chunks)
{
	v1(0, true);
	one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0));
	one_clear(&o);
	ONE_RECV(&o, 1, 1, 4, NOMSG, 0, 1, 1, 0x11, 0, 0, 0, 0, 1, 1, o.next_handle - 1, 600, 0, 0x5000);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_info(&o).inflight, 1);
	ONE_RECV(&o, 1, 1, 4, NOMSG, 0, 0, 1, 1, o.next_handle - 1, 0, 0, 0x5000);	/* nothing in it */
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	ONE_RECV(&o, 1, 1, 4, NOMSG, 0, 0, 1, 1, o.next_handle - 1, 1, 0, 0x5000);	/* something is */
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, 1);
	one_fini(&o);
}

/* The data of a READ has been written, and the rest of its reply is put around it. */
Test(engine_ways, a_reply_with_data_in_its_write_chunk_is_put_together)
{
	uint32_t at;

	v1(0, true);
	o.next_token = 5;
	one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, 2000));
	at = 0x5000 + one_op(&o, RR_OP_EXPOSE, 0)->off;
	one_clear(&o);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 1, 1, o.next_handle - 1, 4, 0, at, 0, 0, A_REPLY(1), 0, 0, 4, 1, 4);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 1);
	cr_assert_eq(one_op(&o, RR_OP_PLACE, 0)->token, 5);
	cr_assert_eq(one_op(&o, RR_OP_PLACE, 0)->len, 24 + 20 + 4);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, 24 + 20 + 4);
	one_fini(&o);
}

/* Pulled, with data in Write chunks as well, which no call of ours has then. */
Test(engine_ways, a_reply_that_is_pulled_has_no_data_elsewhere)
{
	for (uint32_t used = 0; used < 2; used++) {
		uint8_t head[24];

		v1(RR_CAP_RELIABLE_REPLY, true);
		o.e->cr.granted = 8;	/* DONE takes one */
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0);
		one_clear(&o);
		ONE_RECV(&o, 1, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 1, 1, 0x22, used ? 100 : 0, 0, 16, 0, 0);
		WORDS(head, A_REPLY(1));
		rr_eng_head(o.e, one_op(&o, RR_OP_PULL, 0)->id, 0, head, sizeof(head), o.now);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), !used);
		cr_assert_eq(one_count(&o, RR_OP_SEND), used, "DONE");
		one_fini(&o);
	}
}

/* In whichever segment of whichever chunk. */
Test(engine_ways, nor_in_any_segment)
{
	for (uint32_t at = 0; at < 5; at++) {
		uint8_t head[24];
		uint32_t len[4] = { 0 };

		if (at < 4)
			len[at] = 100;
		v1(RR_CAP_RELIABLE_REPLY, true);
		o.e->cr.granted = 8;
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0);
		one_clear(&o);
		ONE_RECV(&o, 1, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 1, 2, 0x22, len[0], 0, 16, 0x23, len[1], 0, 16,
			 1, 2, 0x24, len[2], 0, 16, 0x25, len[3], 0, 16, 0, 0);
		WORDS(head, A_REPLY(1));
		rr_eng_head(o.e, one_op(&o, RR_OP_PULL, 0)->id, 0, head, sizeof(head), o.now);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), at == 4, "%u", at);
		one_fini(&o);
	}
}

/* draft-02 §3.4: one with parts elsewhere must be known, whole and a reply. */
Test(engine_ways, a_reply_with_parts_is_pulled_for_a_call_only)
{
	for (uint32_t i = 0; i < 4; i++) {
		uint8_t stream[64];
		uint32_t n = WORDS(stream, A_REPLY(1), 7, 7), id;

		draft02(true);
		o.e->cr.granted = 8;
		if (i != 1)
			cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 0, 0, 0, 0, 0)), 0);
		one_clear(&o);
		ONE_RECV(&o, 1, 1, 4, NOMSG, 1, 0, 0x21, n, 0, 16, 1, i == 3 ? 400 : 28, 0x22, 100, 0, 16, 0, 0, 0);
		id = one_op(&o, RR_OP_PULL, 0)->id;
		rr_eng_head(o.e, id, 0, stream, i == 2 ? n - 4 : n, o.now);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_COMPOSE), i == 0, "%u", i);
		if (i == 0)
			rr_eng_pulled(o.e, id, 0, o.now);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), i == 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1, "DONE");
		cr_assert_eq(one_word(&o, 0, 3), V1_DONE);
		one_fini(&o);
	}
}

/* A READ whose reply says that there is less data than was written: the call has failed, and so has the connection. */
Test(engine_ways, a_reply_that_is_spoilt_leaves_nothing_behind)
{
	uint32_t at;

	v1(0, true);
	one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, 2000));
	cr_assert_eq(exposes(1)->len, 2000);
	at = 0x5000 + exposes(1)->off;
	one_clear(&o);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 1, 1, o.next_handle - 1, 100, 0, at, 0, 0, A_REPLY(1), 0, 0, 4, 0, 4, 7);
	cr_assert_eq(v2_failed(), RR_WHY_PROTOCOL);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(o.e->ins.used, 0);
	one_fini(&o);
}
