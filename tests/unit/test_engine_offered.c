/* SPDX-License-Identifier: BSD-3-Clause */

/* What is made of what a call offers: keys that the peer may take, chunks that leave no room for themselves, calls
 * that are forgotten, and what procedures have needed; and the short way, which remembers what the long one does. */

#include "core/engine/engine_int.h"
#include "tests/unit/engine_v2.h"

static uint8_t msg[8192];

/* A call of no known binding, which has a Reply chunk where those are offered. */
static int call_out(uint32_t xid, uint32_t len)
{
	memset(msg, 0, sizeof(msg));
	WORDS(msg, xid, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0);
	one_clear(&o);
	return one_send_bytes(&o, msg, len);
}

/* --- keys that the peer is invited to take --- */

Test(engine_offered, one_key_is_named_the_replys_first)
{
	for (uint32_t i = 0; i < 2; i++) {
		v2_params(0, true);
		o.p.invited = true;
		if (i)
			o.p.reply_chunk = 0;
		v2_start(1);
		cr_assert_eq(call_out(1, 2000), 0);
		cr_assert_eq(one_count(&o, RR_OP_EXPOSE), i ? 1 : 2);
		cr_assert_eq(one_word(&o, 0, 5), o.next_handle - 1, "of the arguments only where there is no other");
		one_clear(&o);
		ONE_RECV(&o, 9, 2, 4, MSG, CALL, 0, 0, 0, 0, A_CALL(9));
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, 9, 24), 0);
		cr_assert_eq(one_word(&o, 0, 5), 0, "a reply has none");
		one_fini(&o);
	}
	v2_params(0, true);
	o.p.invited = true;
	v2_start(1);
	cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, 2000)), 0);
	cr_assert_eq(one_word(&o, 0, 5), o.next_handle - 1, "of a Write chunk");
	one_fini(&o);
}

/* --- chunks that leave no room --- */

/* Two chunks of eight segments: a header that returns them has 296 bytes. */
static void offers_much(uint32_t inline_send)
{
	uint8_t buf[1024];
	uint32_t n = WORDS(buf, 1, 1, 4, MSG, 0, 1, 8);

	one_params(&o, 0, false);
	o.p.inline_send = inline_send;
	one_start(&o);
	for (uint32_t i = 0; i < 8; i++)
		n += WORDS(buf + n, 0x21 + i, 1000, 0, 16);
	n += WORDS(buf + n, 0, 1, 8);
	for (uint32_t i = 0; i < 8; i++)
		n += WORDS(buf + n, 0x31 + i, 1000, 0, 16);
	n += WORDS(buf + n, NULL_CALL(1));
	one_recv(&o, buf, n, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
}

Test(engine_offered, chunks_are_used_only_if_they_can_be_returned)
{
	for (uint32_t room = 295; room <= 296; room++) {
		offers_much(room);
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 100), 0);
		cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
		cr_assert_eq(one_count(&o, RR_OP_WRITE), room == 296);
		cr_assert_eq(one_word(&o, 0, 3), room == 296 ? NOMSG : ERROR);
		cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, room == 296 ? 296 : 20);
		one_fini(&o);
	}
}

/* The Write chunk is too small for the data; that the Reply chunk could hold all of it is not what was asked for. */
Test(engine_offered, data_that_has_no_room_in_its_chunk_goes_nowhere_else)
{
	uint32_t n;

	for (uint32_t room = 1999; room <= 2000; room++) {
		v1(0, false);
		ONE_RECV(&o, 1, 1, 4, MSG, 0, 1, 1, 0x21, room, 0, 16, 0, 1, 1, 0x31, 8000, 0, 16,
			 1, 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, 2000);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
		one_clear(&o);
		memset(msg, 0, sizeof(msg));
		n = WORDS(msg, A_REPLY(1), 0, 0, 2000, 1, 2000) + 2000;
		cr_assert_eq(one_send_bytes(&o, msg, n), 0);
		cr_assert_eq(one_word(&o, 0, 3), room == 2000 ? MSG : ERROR);
		cr_assert_eq(one_count(&o, RR_OP_WRITE), room == 2000);
		one_fini(&o);
	}
}

/* A COMPOUND of READ and LOOKUP, and its reply, behind whose data two words follow. Its verifier is long, and what is
 * sent inline is short: with reliable replies all but the data is pulled. */
static void replies_to_compound(uint32_t inline_send, uint32_t status)
{
	uint32_t n;

	one_params(&o, RR_CAP_RELIABLE_REPLY, false);
	o.p.inline_send = inline_send;
	one_start(&o);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 1, 1, 0x21, 2000, 0, 16, 0, 0, 1, 0, 2, 100003, 4, 1, 0, 0, 0, 0,
		 0, 0, 2, 25, 1, 2, 3, 4, 0, 0, 2000, 15, 1, 0x61000000);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	memset(msg, 0, sizeof(msg));
	WORDS(msg, 1, 1, 0, 0, 400);
	n = 20 + 400 + WORDS(msg + 420, 0, status, 0, status ? 1 : 2, 25, status);
	if (!status) {
		n += WORDS(msg + n, 1, 2000) + 2000;
		n += WORDS(msg + n, 15, 0);
	}
	o.nsegs = 3;
	one_clear(&o);
	cr_assert_eq(one_send_bytes(&o, msg, n), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, n);
	cr_assert_eq(one_word(&o, 0, 3), NOMSG);
}

Test(engine_offered, what_is_not_placed_is_shown_piece_by_piece)
{
	uint32_t n = 452 + 2000 + 8, third = n / 3;

	replies_to_compound(300, 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	cr_assert_eq(one_op(&o, RR_OP_WRITE, 0)->off, 452);
	cr_assert_eq(one_op(&o, RR_OP_WRITE, 0)->len, 2000);
	uint32_t want[] = { 1, 1, 4, NOMSG, 1, 0, o.next_handle - 3, 452, 0, 0x5000,
			    1, 0, o.next_handle - 1, 8, 0, 0x5000 + n - 8, 0, 1, 1, 0x21, 2000, 0, 16, 0, 0 };
	cr_assert_gt(n - 8, 2 * third);
	for (uint32_t w = 0; w < rr_array_size(want); w++)
		if (w != 2)
			cr_assert_eq(one_word(&o, 0, w), want[w], "word %u: %x", w, one_word(&o, 0, w));
	one_fini(&o);
}

/* Its header has room for the pieces, or all of it is shown. */
Test(engine_offered, a_reply_is_broken_up_only_if_its_header_has_room)
{
	for (uint32_t room = 264; room <= 268; room += 4) {
		replies_to_compound(room, 0);
		cr_assert_eq(one_count(&o, RR_OP_WRITE), room == 268, "%u", room);
		cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
		one_fini(&o);
	}
	replies_to_compound(300, 1);	/* it has failed: there is no data */
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28 + 3 * 24, "no chunk comes back");
	one_fini(&o);
}

/* --- the end of a message --- */

/* Its memory is given back when its Send and all of its Writes are over, in whatever order that is told. */
Test(engine_offered, a_reply_is_over_with_the_last_of_its_operations)
{
	for (uint32_t send_first = 0; send_first < 2; send_first++) {
		struct rr_eng_out out = { .rpc = { .xid = 1, .type = RR_RPC_REPLY }, .len = 1500, .buf = 7, .head = msg,
					  .have = 24 };
		struct rr_op op, write = { 0 }, send = { 0 };

		v1(0, false);
		ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 1, 1, 0x31, 2000, 0, 16, NULL_CALL(1));
		cr_assert_eq(rr_eng_send(o.e, &out, o.now), 0);
		while (rr_eng_next_op(o.e, &op)) {
			if (op.code == RR_OP_WRITE)
				write = op;
			if (op.code == RR_OP_SEND)
				send = op;
		}
		cr_assert_eq(write.len, 1500);
		one_clear(&o);
		one_done(&o, send_first ? &send : &write);
		one_run(&o);
		cr_assert_eq(o.nops, 0);
		one_done(&o, send_first ? &write : &send);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		one_fini(&o);
	}
}

Test(engine_offered, memory_that_is_taken_back_is_taken_back_once)
{
	struct rr_op inv;

	v1(RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, true);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 5000), 0);
	o.hold_invalidate = true;
	one_clear(&o);
	rr_eng_consumed(o.e, 1000, o.now);
	one_run(&o);
	inv = *one_op(&o, RR_OP_INVALIDATE, 0);
	one_done(&o, &inv);
	one_done(&o, &inv);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

/* Memory that is exposed anew for it has not been shown to the peer. */
Test(engine_offered, a_call_that_is_yet_to_be_sent_again_is_not_one_that_is_read)
{
	v2_params(0, true);
	o.nsegs = 4;
	o.p.reply_chunk = 0;
	v2_start(1);
	rr_eng_window(o.e, 64);
	cr_assert_eq(call_out(1, 2000), 0);
	cr_assert_eq(rr_eng_calls_unread(o.e), o.now);
	rr_eng_window(o.e, 4);
	o.nsegs = 2;
	one_clear(&o);
	ONE_RECV(&o, 1, 2, 4, ERROR, REPLY, SEGMENTS, 2);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(rr_eng_calls_unread(o.e), 0);
	rr_eng_window(o.e, 64);
	one_run(&o);
	cr_assert_eq(rr_eng_calls_unread(o.e), o.now);
	one_fini(&o);
}

/* --- calls that are forgotten --- */

/* All entries are calls whose replies may still be written: the app waits until the oldest may be fenced. */
Test(engine_offered, a_call_is_forgotten_when_its_time_is_over_and_its_entry_is_wanted)
{
	uint32_t x = 1;

	one_params(&o, RR_CAP_RING_CREDITS, true);
	o.now = 20 * RR_SEC;
	one_start(&o);
	while (o.e->calls.used < o.e->calls.n)
		cr_assert_eq(call_out(x++, 40), 0);
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER, "nobody waits");
	cr_assert_eq(call_out(x, 40), -EAGAIN);
	cr_assert_eq(rr_eng_deadline(o.e), o.now + 10 * RR_SEC);
	o.now += 10 * RR_SEC;
	rr_eng_tick(o.e, o.now);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER, "it is time");
	one_fini(&o);
}

/* One that has nothing exposed may be forgotten at once, though it is not the oldest. */
Test(engine_offered, the_oldest_that_may_be_forgotten_is)
{
	uint32_t x = 1;

	v1(RR_CAP_RING_CREDITS, true);
	cr_assert_eq(call_out(x++, 40), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	while (o.e->calls.used < o.e->calls.n)
		cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, x++, 0, 2, 0x20000001, 1, 0, 0, 0, 0, 0)), 0);
	cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, x, 0, 2, 0x20000001, 1, 0, 0, 0, 0, 0)), 0);
	cr_assert_eq(one_info(&o).inflight, o.e->calls.n);
	one_clear(&o);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1));
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1, "the first is remembered");
	one_fini(&o);
}

/* --- replies to calls that are forgotten, or that offered something else --- */

Test(engine_offered, a_reply_to_nothing_known_says_that_nothing_was_written)
{
	static const struct { uint32_t len[2]; bool taken; } row[] = {
		{ { 0, 0 }, true }, { { 0, 100 }, false }, { { 100, 0 }, false },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		v1(RR_CAP_RING_CREDITS, true);
		ONE_RECV(&o, 1, 1, 4, MSG, 0, 1, 2, 0x11, row[i].len[0], 0, 16, 0x12, row[i].len[1], 0, 16, 0, 0, A_REPLY(1));
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), row[i].taken, "%zu", i);
		one_fini(&o);
	}
}

Test(engine_offered, a_reply_is_inline_or_in_its_chunk)
{
	for (uint32_t used = 0; used < 2; used++) {
		v1(0, true);
		cr_assert_eq(call_out(1, 40), 0);
		one_clear(&o);
		ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 1, 1, o.next_handle - 1, used, 0, 0x5000, A_REPLY(1));
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), !used);
		one_fini(&o);
	}
}

/* Without a Write chunk the data of a READ is inline, and nobody looks at it. */
Test(engine_offered, data_is_inline_where_no_chunk_was_offered)
{
	v1(0, true);
	cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 100003, 3, 6, 0, 0, 0, 0, 4, 1, 0, 0, 8)), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	one_clear(&o);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1), 0, 0, 8, 1, 8, 7, 7);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	one_fini(&o);
}

/* With ring credits replies to calls that were forgotten are the app's, but not what cannot be put together, or may
 * have padding, without knowing the call. */
Test(engine_offered, a_reply_to_nothing_known_is_taken_if_it_is_plain)
{
	uint8_t stream[64];
	uint32_t n = WORDS(stream, A_REPLY(1), 7, 7);

	one_params(&o, RR_CAP_RING_CREDITS, true);
	o.p.dialect = RR_DIALECT_DRAFT02;
	one_start(&o);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
	ONE_RECV(&o, 1, 1, 4, 2, 0, 0, 0, 0, 0, A_REPLY(1));	/* RDMA_MSGP */
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	ONE_RECV(&o, 1, 1, 4, NOMSG, 1, 0, 0x21, n, 0, 16, 1, 28, 0x22, 100, 0, 16, 0, 0, 0);
	rr_eng_head(o.e, one_op(&o, RR_OP_PULL, 0)->id, 0, stream, n, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}

/* --- parts and the longest message --- */

Test(engine_offered, a_message_with_its_parts_is_no_longer_than_any)
{
	static const uint32_t part[] = { 96, 100, 104 };

	for (size_t i = 0; i < 3; i++) {
		one_params(&o, 0, false);
		o.p.lenient_read_chunks = true;
		o.p.max_msg = 160;
		one_start(&o);
		ONE_RECV(&o, 1, 1, 4, MSG, 1, 40, 0x21, part[i], 0, 16, 0, 0, 0,
			 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5);
		cr_assert_eq(one_count(&o, RR_OP_COMPOSE), part[i] <= 100);
		one_fini(&o);
	}
}

/* --- what procedures have needed --- */

/* Half of the slots are easily found room for, each in one of its own. */
Test(engine_offered, many_procedures_have_a_size_of_their_own)
{
	static struct rr_sizes sizes;
	uint32_t used = 0;

	for (uint32_t i = 0; i < RR_SIZES_SLOTS / 2; i++)
		rr_sizes_seen(&sizes, 0x20000001, 1, i, 100 + i);
	for (uint32_t i = 0; i < RR_SIZES_SLOTS / 2; i++)
		cr_assert_eq(rr_sizes_get(&sizes, 0x20000001, 1, i), 100 + i, "%u", i);
	for (uint32_t i = 0; i < RR_SIZES_SLOTS; i++)
		used += sizes.slot[i].key != 0;
	cr_assert_eq(used, RR_SIZES_SLOTS / 2);
}

/* --- the short way --- */

Test(engine_offered, the_short_way_notes_what_the_long_one_does)
{
	struct rr_eng_out out = { .rpc = { .xid = 1, .type = RR_RPC_REPLY }, .len = 24, .buf = 7, .head = msg, .have = 24 };
	uint8_t hdr[RR_ENG_PLAIN_HDR];
	struct rr_rpc rpc;
	uint32_t n;

	v1(RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, false);
	n = WORDS(msg, 1, 1, 3, MSG, 0, 0, 0, A_CALL(1));
	cr_assert(rr_eng_recv_plain(o.e, msg, n, o.now, &rpc));
	cr_assert_eq(o.e->requested, 3);
	cr_assert_eq(rpc.type, RR_RPC_CALL);
	cr_assert_eq(rpc.prog, 100003);
	o.e->stalled = true;
	o.e->refused = 5000;
	cr_assert(rr_eng_send_plain(o.e, &out, o.now, hdr));
	cr_assert_not(o.e->stalled);
	cr_assert_eq(o.e->refused, 0);
	out.len = o.e->p.max_msg;
	cr_assert(rr_eng_send_plain(o.e, &out, o.now, hdr));
	out.len++;
	cr_assert_not(rr_eng_send_plain(o.e, &out, o.now, hdr));
	one_fini(&o);
	v1(RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, true);
	n = WORDS(msg, 1, 1, 3, MSG, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6);
	cr_assert(rr_eng_recv_plain(o.e, msg, n, o.now, &rpc));
	cr_assert_eq(rpc.type, RR_RPC_REPLY);
	cr_assert_eq(rpc.prog | rpc.vers | rpc.proc, 0);
	cr_assert(rr_eng_recv_plain(o.e, msg, 28 + RR_RPC_REPLY_PEEK, o.now, &rpc), "the shortest that shows what it is");
	one_fini(&o);
}
