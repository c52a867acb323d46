/* SPDX-License-Identifier: BSD-3-Clause */

/* Entries of messages and of what came with them: each is given back whatever becomes of its message, and nothing that
 * a message has left in one is taken for the next message's. What is pulled, refused or over is asked for once. */

#include "core/engine/engine_int.h"
#include "core/wire/ccp.h"
#include "tests/unit/engine_v2.h"

#define V1_DONE	3

/* Nothing is held for any message. */
static void all_is_given_back(void)
{
	cr_assert_eq(o.e->ins.used, 0, "%u", o.e->ins.used);
	cr_assert_eq(o.e->serves.used, 0, "%u", o.e->serves.used);
}

/* A message of len bytes in a Position-Zero Read chunk. */
static const struct rr_op *pull(uint32_t xid, uint32_t len)
{
	one_clear(&o);
	ONE_RECV(&o, xid, 1, 4, NOMSG, 1, 0, 0x21, len, 0, 16, 0, 0, 0);
	return one_op(&o, RR_OP_PULL, 0);
}

static void head_is(uint32_t id, const uint8_t *head, uint32_t n)
{
	uint8_t *copy = edged(head, n);

	rr_eng_head(o.e, id, 0, copy, n, o.now);
	edge_back();
	one_run(&o);
}

#define HEAD(id, ...) do { \
	uint8_t head_[256]; \
	head_is((id), head_, WORDS(head_, __VA_ARGS__)); \
} while (0)

static void pulled(uint32_t id)
{
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
}

/* --- all of it comes back --- */

Test(engine_entries, of_calls_that_are_refused_come_back)
{
	v1(0, false);
	for (uint32_t x = 1; x < 300; x++) {
		one_clear(&o);
		ONE_RECV(&o, x, 1, 4, MSG, 1, 8, 0x11, 4, 0, 0, 0, 1, 1, 0x12, 4, 0, 0, 0, 0, NULL_CALL(x));
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1, "%u", x);
		cr_assert_eq(one_word(&o, 0, 3), ERROR);
		all_is_given_back();
	}
	one_fini(&o);
}

/* Until its head is there, a message that is pulled may be a call. */
Test(engine_entries, of_replies_that_are_pulled_come_back)
{
	uint32_t id;

	v1(0, true);		/* no such reply is agreed on */
	for (uint32_t x = 1; x < 300; x++) {
		id = pull(x, 2000)->id;
		HEAD(id, A_REPLY(x));
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
		all_is_given_back();
	}
	one_fini(&o);
	v1(RR_CAP_RELIABLE_REPLY, true);
	for (uint32_t x = 1; x < 300; x++) {
		cr_assert_eq(one_send(&o, RR_RPC_CALL, x, 40), 0);
		id = pull(x, 2000)->id;
		cr_assert_eq(o.e->serves.used, 1);
		HEAD(id, A_REPLY(x));
		cr_assert_eq(o.e->serves.used, 0);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
		pulled(id);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
		cr_assert_eq(one_word(&o, 0, 3), V1_DONE);
		cr_assert_eq(o.count.v[RR_C_done_sent], x);
		all_is_given_back();
	}
	one_fini(&o);
}

/* Errors wait for the peer's receives and hold their entries; when there are no more, a reply that would need one is
 * not taken. */
Test(engine_entries, when_all_are_in_use_a_reply_waits)
{
	uint8_t head[24];
	struct rr_eng_out out = { .rpc = { .xid = 1, .type = RR_RPC_REPLY }, .len = 5000, .buf = 7, .head = head,
				  .have = 24 };

	v1(0, false);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_CALL(1));
	rr_eng_window(o.e, 0);
	for (uint32_t x = 2; o.e->ins.used < o.e->ins.n; x++)
		ONE_RECV(&o, x, 2, 4, MSG, 0, 0, 0, 0);		/* of another version */
	rr_eng_window(o.e, 1000);
	cr_assert_eq(rr_eng_send(o.e, &out, o.now), -EAGAIN);
	cr_assert_eq(one_info(&o).serving, 1);
	one_run(&o);
	one_clear(&o);
	cr_assert_eq(rr_eng_send(o.e, &out, o.now), 0);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 0), 1);
	cr_assert_eq(one_word(&o, 0, 1), 1, "its entry was that of a message of version 2");
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	all_is_given_back();
	one_fini(&o);
}

/* --- nothing is left in them --- */

/* The i-th call of ours has a Reply chunk of its own. */
static void call_with_reply_chunk(uint32_t xid)
{
	uint8_t msg[64];

	one_clear(&o);
	cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, xid, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0)), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
}

Test(engine_entries, of_a_reply_in_a_chunk_hold_nothing_of_it_for_the_next)
{
	uint32_t buf, handle;

	v1(0, true);
	buf = o.next_buf + 1;
	call_with_reply_chunk(1);
	handle = o.next_handle - 1;
	one_clear(&o);
	ONE_RECV(&o, 1, 1, 4, NOMSG, 0, 0, 1, 1, handle, 600, 0, 0x5000);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->from, RR_FROM_BUF);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->buf, buf, "%u", one_op(&o, RR_OP_DELIVER, 0)->buf);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->off, 0);
	cr_assert_eq(o.count.v[RR_C_reply_chunks_received], 1);
	all_is_given_back();
	o.next_buf = buf - 1;		/* the driver gives the same memory again */
	call_with_reply_chunk(2);
	one_clear(&o);
	ONE_RECV(&o, 2, 1, 4, MSG, 0, 0, 0, A_REPLY(2));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->from, RR_FROM_RECV);
	cr_assert_eq(one_op(&o, RR_OP_INVALIDATE, 0)->inv_handle, 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, buf);
	all_is_given_back();
	one_fini(&o);
}

/* The peer has invalidated one of two keys of the first; of the second, none. */
Test(engine_entries, of_memory_hold_no_key_that_is_gone_for_the_next)
{
	v1(0, true);
	o.nsegs = 2;
	call_with_reply_chunk(1);
	one_clear(&o);
	uint8_t reply[64];
	uint32_t n = WORDS(reply, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1));
	one_recv(&o, reply, n, o.next_handle - 1);
	cr_assert_eq(one_op(&o, RR_OP_INVALIDATE, 0)->inv_handle, o.next_handle - 1);
	call_with_reply_chunk(2);
	one_clear(&o);
	ONE_RECV(&o, 2, 1, 4, MSG, 0, 0, 0, A_REPLY(2));
	cr_assert_eq(one_op(&o, RR_OP_INVALIDATE, 0)->inv_handle, 0);
	one_fini(&o);
}

/* A Read chunk of which no part is the message's own: nothing says how long the message is. */
Test(engine_entries, of_an_inline_call_hold_no_length_for_the_next)
{
	v1(0, false);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_CALL(1));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 24), 0);
	one_clear(&o);
	ONE_RECV(&o, 2, 1, 4, NOMSG, 1, 4, 0x21, 2000, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	all_is_given_back();
	one_fini(&o);
}

/* A DONE that waits for no credit of its call's has none to give up. */
Test(engine_entries, of_a_reply_whose_done_had_a_credit_hold_none_for_the_next)
{
	uint32_t id;

	draft02(true);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0);
	id = pull(1, 2000)->id;
	HEAD(id, A_REPLY(1));
	pulled(id);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(o.e->cr.due, 0);
	id = pull(2, 2000)->id;		/* an answer to nothing */
	HEAD(id, A_REPLY(2));
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 3), V1_DONE);
	cr_assert_eq(o.e->cr.due, 0);
	all_is_given_back();
	one_fini(&o);
}

/* What is refused by one fault is answered by that fault, whatever was refused before. */
#define READ_CHUNKS_FAULT(x) \
	ONE_RECV(&o, (x), 2, 4, MSG, CALL, 0, 1, 44, 1, 4, 0, 0, 1, 48, 1, 4, 0, 0, 1, 52, 1, 4, 0, 0, \
		 1, 56, 1, 4, 0, 0, 1, 60, 1, 4, 0, 0, 0, 0, 0, NULL_CALL(x))

Test(engine_entries, of_a_refused_call_hold_no_fault_for_the_next)
{
	v2_begin(0, false);
	READ_CHUNKS_FAULT(1);
	ERROR_IS(1, READ_CHUNKS, 4);
	one_clear(&o);	/* inline, and in a Position-Zero Read chunk as well */
	ONE_RECV(&o, 2, 2, 4, MSG, CALL, 0, 1, 0, 1, 40, 0, 0, 0, 0, 0, NULL_CALL(2));
	ERROR_IS(2, BAD_XDR);
	READ_CHUNKS_FAULT(3);
	one_clear(&o);	/* not inline, and in no Position-Zero Read chunk */
	ONE_RECV(&o, 4, 2, 4, NOMSG, CALL, 0, 1, 4, 1, 40, 0, 0, 0, 0, 0);
	ERROR_IS(4, BAD_XDR);
	READ_CHUNKS_FAULT(5);
	one_clear(&o);	/* a Read chunk where none may be */
	ONE_RECV(&o, 6, 2, 4, MSG, CALL, 0, 1, 4, 1, 40, 0, 0, 0, 0, 0, NULL_CALL(6));
	ERROR_IS(6, BAD_XDR);
	READ_CHUNKS_FAULT(7);
	one_clear(&o);	/* no RPC message */
	ONE_RECV(&o, 8, 2, 4, MSG, CALL, 0, 0, 0, 0, 8, 7, 7);
	ERROR_IS(8, BAD_XDR);
	all_is_given_back();
	one_fini(&o);
}

Test(engine_entries, say_no_more_than_is_asked)
{
	uint32_t id;

	v1(0, false);
	ONE_RECV(&o, 1, 1, 4, MSG, 2, 0, 0, 0);		/* spoilt */
	cr_assert_eq(one_op(&o, RR_OP_REPOST, 0)->id | one_op(&o, RR_OP_REPOST, 0)->inv_handle, 0);
	cr_assert_eq(one_op(&o, RR_OP_REPOST, 0)->token, 0);
	ONE_RECV(&o, 1, 1, 4, MSG, 2, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_REPOST, 1)->token, 1);
	id = pull(2, 2000)->id;
	cr_assert_eq(one_op(&o, RR_OP_PULL, 0)->inv_handle, 0);
	HEAD(id, 2, 0, 7);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->id, id);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->inv_handle, 0);
	one_fini(&o);
}

/* --- what is pulled --- */

/* Without ring credits its receive is free at once; with them, when it is over. */
Test(engine_entries, of_what_is_pulled_keep_a_receive_with_ring_credits_only)
{
	static const uint32_t caps[] = { 0, RR_CAP_RING_CREDITS };

	for (size_t i = 0; i < 2; i++) {
		uint32_t id;

		v1(caps[i], false);
		id = pull(1, 2000)->id;
		cr_assert_eq(one_count(&o, RR_OP_REPOST), !caps[i]);
		HEAD(id, A_CALL(1));
		cr_assert_eq(one_count(&o, RR_OP_REPOST), !caps[i]);
		pulled(id);
		cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
		id = pull(2, 2000)->id;
		HEAD(id, 2, 0, 7);		/* refused */
		cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
		one_fini(&o);
	}
}

Test(engine_entries, of_a_reply_that_is_refused_give_their_receive_back)
{
	v1(RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, true);
	HEAD(pull(1, 2000)->id, 1, 1, 77);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_word(&o, 0, 3), V1_DONE);
	one_fini(&o);
	v1(RR_CAP_RELIABLE_REPLY, true);	/* with a part that none may have: whose it is does not matter */
	ONE_RECV(&o, 1, 1, 4, NOMSG, 1, 0, 0x21, 32, 0, 16, 1, 28, 0x22, 100, 0, 16, 0, 0, 0);
	HEAD(one_op(&o, RR_OP_PULL, 0)->id, A_REPLY(1), 7, 7);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 0);
	one_fini(&o);
}

/* No RPC message, or another one's head. Whether that is answered depends on what it seems to be, and else on who
 * connected. */
Test(engine_entries, of_what_turns_out_to_be_no_message_are_answered_as_calls_or_not_at_all)
{
	static const struct { bool connector; uint32_t head[10], words; bool answered; } row[] = {
		{ false, { 1, 7 }, 2, true }, { true, { 1, 7 }, 2, false },
		{ false, { 2, 0, 2, 100003, 3, 1 }, 10, true }, { true, { 2, 0, 2, 100003, 3, 1 }, 10, true },
		{ false, { 2, 1 }, 6, false }, { true, { 2, 1 }, 6, false },
		{ false, { 1 }, 1, true }, { true, { 1 }, 1, false },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		uint8_t head[40];
		uint32_t id;

		v1(0, row[i].connector);
		o.e->reverse_chunks = true;	/* agreed on */
		id = pull(1, 2000)->id;
		head_is(id, head, put_words(head, row[i].head, row[i].words));
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), row[i].answered, "%zu", i);
		all_is_given_back();
		one_fini(&o);
	}
}

/* Of version 2 the header has said what it is. */
Test(engine_entries, of_what_its_header_calls_a_call_are_answered_as_one)
{
	v2_params(RR_CAP_RELIABLE_REPLY, false);
	v2_start(2);
	ONE_RECV(&o, 1, 2, 4, NOMSG, CALL, 0, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	HEAD(one_op(&o, RR_OP_PULL, 0)->id, A_REPLY(1));
	ERROR_IS(1, BAD_XDR);
	one_clear(&o);
	ONE_RECV(&o, 2, 2, 4, NOMSG, REPLY, 0, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	HEAD(one_op(&o, RR_OP_PULL, 0)->id, A_CALL(2));
	cr_assert_eq(one_word(&o, 0, 3), DONE);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	all_is_given_back();
	one_fini(&o);
}

Test(engine_entries, of_what_is_pulled_are_judged_once_and_by_its_own_bytes)
{
	uint32_t id;

	v1(0, false);
	id = pull(1, 36)->id;
	HEAD(id, NULL_CALL(1));		/* what follows its 36 bytes is not its */
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	id = pull(2, 2000)->id;
	HEAD(id, A_CALL(2));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	HEAD(id, 9, 9, 9);		/* again */
	HEAD(id + 1, A_CALL(2));	/* of nothing */
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_SEND) + one_count(&o, RR_OP_RELEASE), 0);
	pulled(id);
	pulled(id);
	cr_assert_eq(o.e->ins.used, 0);
	cr_assert_eq(one_info(&o).serving, 1);
	one_fini(&o);
}

Test(engine_entries, of_what_cannot_be_pulled_end_the_connection)
{
	uint8_t head[40];
	uint32_t id;

	v1(0, false);
	id = pull(1, 2000)->id;
	WORDS(head, A_CALL(1));
	rr_eng_head(o.e, id, -EIO, head, sizeof(head), o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_DEVICE);
	rr_eng_head(o.e, id, 0, head, sizeof(head), o.now);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 1);
	one_fini(&o);
}

/* More calls than were granted are found when they are known to be calls, and what was there before is the app's. */
Test(engine_entries, of_calls_beyond_the_grant_give_nothing_to_the_app)
{
	uint32_t id[32], n = 0;

	v1(0, false);
	one_clear(&o);
	while (n < o.e->grant_max + 1) {
		ONE_RECV(&o, n, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
		id[n] = one_op(&o, RR_OP_PULL, n)->id;
		n++;
	}
	for (uint32_t x = 0; x < n; x++)
		HEAD(id[x], A_CALL(x));
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_OVERRUN);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), n - 1);
	one_fini(&o);
}

Test(engine_entries, of_more_pulls_than_there_is_room_for_begin_none)
{
	uint32_t n = 0;

	v1(0, false);
	one_clear(&o);
	while (o.e->serves.used < o.e->serves.n)
		ONE_RECV(&o, n++, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), n);
	cr_assert_eq(o.e->ins.used, n);
	ONE_RECV(&o, n, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_OVERRUN);
	cr_assert_eq(one_count(&o, RR_OP_PULL), n);
	cr_assert_eq(o.e->ins.used, n);
	one_fini(&o);
	n = 0;
	v1(0, false);
	one_clear(&o);
	while (o.e->serves.used < o.e->serves.n)
		ONE_RECV(&o, n++, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	ONE_RECV(&o, n, 1, 4, MSG, 0, 0, 0, A_CALL(n));
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_OVERRUN);
	cr_assert_eq(o.e->ins.used, n);
	for (const struct rr_in *in = rr_list_head(&o.e->arrived, &o.e->ins); in;
	     in = in->n.next ? rr_table_at(&o.e->ins, in->n.next) : NULL)
		n--;
	cr_assert_eq(n, 0, "nothing but the pulls is on its way to the app");
	cr_assert_eq(o.e->serving, 0);
	one_fini(&o);
}

/* --- messages read at a time --- */

#define CONF(x, ...)	(x), 0, 2, RR_CCP_PROG, 1, 1, 0, 0, 0, 0, __VA_ARGS__

/* What was begun before the client said how many it serves does not count. */
Test(engine_entries, of_what_is_read_count_from_when_there_is_a_limit)
{
	uint32_t id;

	one_params(&o, 0, false);
	o.p.dialect = RR_DIALECT_DRAFT02;
	o.p.ccp_prog = RR_CCP_PROG;
	one_start(&o);
	id = pull(1, 2000)->id;
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 1));
	HEAD(id, A_CALL(1));
	pulled(id);
	id = pull(2, 2000)->id;
	ONE_RECV(&o, 3, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 1);
	HEAD(id, A_CALL(2));
	pulled(id);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 2);
	one_fini(&o);
}

/* --- the time --- */

/* All that lies in the past or in the future is measured from the time of the last call. */
Test(engine_entries, are_dated_by_the_last_call)
{
	uint8_t head[24] = { 0 };
	struct rr_eng_out out = { .rpc = { .xid = 1 }, .len = 24, .buf = 7, .head = head, .have = 24 };
	rr_time t = 5 * RR_SEC;

	v1(0, false);
	cr_assert_eq(o.e->now, o.now);
	rr_eng_send(o.e, &out, ++t);
	cr_assert_eq(o.e->now, t);
	rr_eng_would_take(o.e, RR_RPC_REPLY, ++t);
	cr_assert_eq(o.e->now, t);
	rr_eng_recv(o.e, 0, head, 4, 0, ++t);
	cr_assert_eq(o.e->now, t);
	rr_eng_head(o.e, 0, 0, head, 4, ++t);
	cr_assert_eq(o.e->now, t);
	rr_eng_pulled(o.e, 0, 0, ++t);
	cr_assert_eq(o.e->now, t);
	rr_eng_done(o.e, 0, 0, ++t);
	cr_assert_eq(o.e->now, t);
	rr_eng_exposed(o.e, 0, 0, 0, NULL, 0, ++t);
	cr_assert_eq(o.e->now, t);
	rr_eng_consumed(o.e, 0, ++t);
	cr_assert_eq(o.e->now, t);
	rr_eng_tick(o.e, ++t);
	cr_assert_eq(o.e->now, t);
	one_fini(&o);
	v1(RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, true);
	uint8_t hdr[RR_ENG_PLAIN_HDR], reply[64];
	uint32_t n = WORDS(reply, 1, 1, 9, MSG, 0, 0, 0, A_REPLY(1));
	struct rr_rpc rpc;
	cr_assert(rr_eng_send_plain(o.e, &(struct rr_eng_out){ .rpc = { .xid = 1 }, .len = 40, .buf = 7, .head = head },
				    ++t, hdr));
	cr_assert_eq(o.e->now, t);
	cr_assert(rr_eng_recv_plain(o.e, reply, n, ++t, &rpc));
	cr_assert_eq(o.e->now, t);
	one_fini(&o);
}

/* --- the queue of operations --- */

/* What has no room in it ends the connection, and takes nobody else's. */
Test(engine_entries, of_operations_are_never_written_over)
{
	uint32_t n;

	v1(0, false);
	n = o.e->ops_cap;
	for (uint32_t i = 0; i < n; i++)
		rr_eng_release(o.e, i);
	cr_assert_eq(o.e->failed, RR_WHY_NONE);
	rr_eng_release(o.e, n);
	cr_assert_eq(o.e->failed, RR_WHY_OVERRUN);
	for (uint32_t i = 0; i < n; i++) {
		struct rr_op op;

		cr_assert(rr_eng_next_op(o.e, &op));
		cr_assert_eq(op.code, RR_OP_RELEASE);
		cr_assert_eq(op.buf, i);
	}
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0), &o.op[0]);
	cr_assert_eq(o.nops, 1);
	one_fini(&o);
}

/* A header that cannot be said is none, and no operation. */
Test(engine_entries, of_a_message_whose_header_does_not_fit_say_nothing)
{
	one_params(&o, 0, true);
	o.p.inline_send = 40;
	o.p.reply_chunk = 0;
	one_start(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 5000), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
	cr_assert_eq(one_count(&o, RR_OP_NONE) + one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(o.nops, 2);
	one_fini(&o);
}

/* So much of a message must be there to judge it. */
Test(engine_entries, of_what_is_pulled_ask_for_no_more_than_is_judged)
{
	v1(0, false);
	cr_assert_eq(pull(1, 2000)->head, RR_RPC_PEEK);
	one_clear(&o);		/* with a Write chunk the binding is asked */
	ONE_RECV(&o, 2, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 1, 1, 0x22, 100, 0, 16, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_PULL, 0)->head, RR_ULB_PEEK);
	cr_assert_eq(one_op(&o, RR_OP_PULL, 0)->room, 0);
	one_fini(&o);
}

/* The parts of a message that is being read are read with it, however few may be read at a time. */
Test(engine_entries, of_one_message_count_as_one_that_is_read)
{
	uint8_t stream[128];
	uint32_t n = WORDS(stream, 1, 0, 2, 100003, 3, 7, 0, 0, 0, 0, 4, 1, 0, 0, 100, 0, 100), id;

	one_params(&o, 0, false);
	o.p.dialect = RR_DIALECT_DRAFT02;
	o.p.ccp_prog = RR_CCP_PROG;
	one_start(&o);
	o.next_token = 5;
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 1));
	one_clear(&o);
	ONE_RECV(&o, 1, 1, 4, NOMSG, 1, 0, 0x21, n, 0, 16, 1, 68, 0x22, 100, 0, 16, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	cr_assert_eq(one_op(&o, RR_OP_PULL, 0)->head, n, "all of it, with parts elsewhere");
	head_is(id, stream, n);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 1);
	cr_assert_eq(one_op(&o, RR_OP_COMPOSE, 0)->nsegs, 1);
	cr_assert_eq(one_op(&o, RR_OP_COMPOSE, 0)->from, RR_FROM_PULL);
	pulled(id);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
	ONE_RECV(&o, 2, 1, 4, MSG, 1, 68, 0x22, 100, 0, 16, 0, 0, 0,
		 2, 0, 2, 100003, 3, 7, 0, 0, 0, 0, 4, 1, 0, 0, 100, 0, 100);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 1);
	cr_assert_eq(one_op(&o, RR_OP_COMPOSE, 0)->token, 7);
	one_fini(&o);
}

/* --- of Sends --- */

/* A call that was kept has had the entry before; the memory of a reply that is shown stays until it is pulled. */
Test(engine_entries, of_a_kept_call_keep_nothing_of_a_reply)
{
	v2_params(RR_CAP_RELIABLE_REPLY | RR_CAP_REVERSE_CHUNKS, true);
	v2_start(2);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 2000), 0);
	ONE_RECV(&o, 1, 2, 4, MSG, REPLY, 0, 0, 0, 0, A_REPLY(1));
	cr_assert_eq(o.e->txs.used, 0);
	ONE_RECV(&o, 2, 2, 4, MSG, CALL, 0, 0, 0, 0, A_CALL(2));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 2, 5000), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->off, 0);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->max_segs, 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	one_fini(&o);
}

/* A completion that nobody waits for changes nothing; one that comes behind the reply gives the message back. */
Test(engine_entries, of_a_kept_call_come_back_with_its_last_completion)
{
	for (uint32_t twice = 0; twice < 2; twice++) {
		struct rr_op send;

		v2_begin(0, true);
		o.hold_send = true;
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 5000), 0);
		send = *one_op(&o, RR_OP_SEND, 0);
		cr_assert_eq(one_word(&o, 0, 3), NOMSG);
		if (twice) {
			one_done(&o, &send);
			one_done(&o, &send);
		}
		one_clear(&o);
		ONE_RECV(&o, 1, 2, 4, MSG, REPLY, 0, 0, 0, 0, A_REPLY(1));
		uint32_t before = one_count(&o, RR_OP_RELEASE);
		one_done(&o, &send);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), before + !twice, "%u", twice);
		cr_assert_eq(o.e->txs.used, 0);
		one_fini(&o);
	}
}

/* A key that is being taken back, or was, is not the peer's to take. */
Test(engine_entries, of_memory_that_is_fenced_have_no_key_to_take)
{
	uint8_t again[64];
	uint32_t n = WORDS(again, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1));

	one_params(&o, 0, true);
	o.p.reply_chunk = 0;
	one_start(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 5000), 0);
	o.hold_invalidate = true;
	one_recv(&o, again, n, 0);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_recv(&o, again, n, o.next_handle - 1);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
	one_fini(&o);
}
