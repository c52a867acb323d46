/* SPDX-License-Identifier: BSD-3-Clause */

/* What each entrance of the engine says at the edges: after a failure, of memory that cannot be exposed, of headers
 * longer than what is looked at first, of parameters that no engine can have; and what is counted. */

#include "core/engine/engine_int.h"
#include "tests/unit/engine_v2.h"

static uint64_t counted(enum rr_counter c)
{
	return o.count.v[c];
}

/* --- after a failure --- */

Test(engine_edges, what_has_failed_says_so_once_and_nothing_else)
{
	struct rr_op op;

	v1(RR_CAP_RING_CREDITS, false);
	rr_eng_window(o.e, 0);
	ONE_RECV(&o, 1, 2, 4, MSG, 0, 0, 0, 0);		/* an error is due, and waits */
	one_clear(&o);
	rr_eng_fail(o.e, RR_WHY_PROVIDER);
	rr_eng_fail(o.e, RR_WHY_PROTOCOL);
	rr_eng_window(o.e, 64);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROVIDER);
	cr_assert_eq(o.nops, 1);
	cr_assert_not(rr_eng_next_op(o.e, &op));
	cr_assert(rr_eng_writable(o.e), "who waits must hear of it");
	cr_assert(rr_eng_would_take(o.e, RR_RPC_CALL, o.now));
	cr_assert(rr_eng_would_take(o.e, RR_RPC_REPLY, o.now));
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), -ECONNRESET);
	cr_assert_eq(o.nops, 1);
	one_fini(&o);
}

Test(engine_edges, what_has_failed_waits_for_nothing)
{
	v1(0, true);
	for (uint32_t x = 1; one_send(&o, RR_RPC_CALL, x, 40) == 0; x++)
		continue;
	cr_assert_eq(rr_eng_deadline(o.e), o.now + RR_ENG_STARVED);
	rr_eng_fail(o.e, RR_WHY_PROVIDER);
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER);
	one_fini(&o);
}

Test(engine_edges, a_send_that_fails_gives_nothing_back)
{
	uint32_t id;

	for (int late = 0; late < 2; late++) {
		v1(0, true);
		o.hold_send = true;
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0);
		id = one_op(&o, RR_OP_SEND, 0)->id;
		if (late)
			rr_eng_fail(o.e, RR_WHY_PROTOCOL);
		rr_eng_done(o.e, id, late ? 0 : -EIO, o.now);
		one_run(&o);
		cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, late ? RR_WHY_PROTOCOL : RR_WHY_DEVICE);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
		one_fini(&o);
	}
}

/* --- exposures --- */

/* A long call whose memory is about to be exposed. */
static struct rr_op exposure(uint32_t caps)
{
	one_params(&o, caps, true);
	o.p.reply_chunk = 0;	/* nothing for its reply */
	one_start(&o);
	o.hold_expose = true;
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 5000), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->max_segs, 0);
	return *one_op(&o, RR_OP_EXPOSE, 0);
}

static void exposed(const struct rr_op *op, int status, uint32_t len, uint32_t n)
{
	struct rr_seg segs[16] = { { 0 } };

	for (uint32_t i = 0; i < n; i++)
		segs[i] = (struct rr_seg){ .handle = 0x100 + i, .length = len / n, .offset = 0x5000 };
	if (n)
		segs[0].length += len % n;
	one_clear(&o);
	rr_eng_exposed(o.e, op->id, status, op->buf, segs, n, o.now);
	one_run(&o);
}

Test(engine_edges, memory_that_is_not_exposed_as_it_was_asked_for_ends_the_connection)
{
	static const struct { int status; uint32_t len, n; enum rr_eng_why why; } row[] = {
		{ 0, 5000, 0, RR_WHY_PROVIDER }, { 0, 5000, RR_ENG_SEGS + 1, RR_WHY_PROVIDER },
		{ 0, 4999, 1, RR_WHY_PROVIDER }, { 0, 5001, 2, RR_WHY_PROVIDER }, { -EIO, 5000, 1, RR_WHY_DEVICE },
		{ -EPROTO, 5000, 1, RR_WHY_PROTOCOL }, { -EACCES, 5000, 1, RR_WHY_PROTOCOL },
		{ -ECONNRESET, 5000, 1, RR_WHY_PROVIDER }, { -ENOMEM, 5000, 1, RR_WHY_PROVIDER },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		struct rr_op op = exposure(0);

		exposed(&op, row[i].status, row[i].len, row[i].n);
		cr_assert_eq(v2_failed(), row[i].why, "%zu", i);
		exposed(&op, 0, 5000, 1);	/* too late */
		cr_assert_eq(o.nops, 0);
		one_fini(&o);
	}
	for (uint32_t n = 1; n <= RR_ENG_SEGS; n++) {
		struct rr_op op = exposure(0);

		exposed(&op, 0, 5000, n);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
		for (uint32_t i = 0; i < n; i++)
			cr_assert_eq(one_word(&o, 0, 6 + 6 * i), 0x100 + i);
		exposed(&op, 0, 5000, 1);	/* again */
		cr_assert_eq(o.nops, 0);
		one_fini(&o);
	}
}

/* It is tried again a little later, or as soon as anything is given back. */
Test(engine_edges, a_call_waits_for_memory)
{
	static const uint32_t caps[] = { 0, RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY };

	for (size_t i = 0; i < 2; i++) {
		struct rr_op op = exposure(caps[i]);

		exposed(&op, -EAGAIN, 0, 0);
		cr_assert_eq(o.nops, 0);
		cr_assert_eq(rr_eng_deadline(o.e), o.now + RR_ENG_RETRY);
		rr_eng_tick(o.e, o.now + RR_ENG_RETRY - 1);
		one_run(&o);
		cr_assert_eq(o.nops, 0);
		rr_eng_tick(o.e, o.now + RR_ENG_RETRY);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
		cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, 5000);
		one_fini(&o);
	}
}

Test(engine_edges, memory_that_is_fenced_may_be_what_another_call_waits_for)
{
	struct rr_op op = exposure(0), inv;

	exposed(&op, 0, 5000, 1);
	o.e->cr.granted = 8;
	o.hold_invalidate = true;
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1));
	inv = *one_op(&o, RR_OP_INVALIDATE, 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 5000), 0);
	op = *one_op(&o, RR_OP_EXPOSE, 0);
	exposed(&op, -EAGAIN, 0, 0);
	cr_assert_eq(o.nops, 0);
	one_done(&o, &inv);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	one_fini(&o);
}

/* The reply may still fit inline; the call waits for nothing. */
Test(engine_edges, a_call_goes_without_memory_for_its_reply_that_there_will_never_be)
{
	uint8_t msg[64];

	v1(0, true);
	o.no_memory = o.never = true;
	cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0)), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->buf, 1000);
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER);
	one_fini(&o);
}

/* With an error behind it that asks for fewer segments: no memory now is no answer to that. */
Test(engine_edges, how_many_segments_there_are_is_asked_of_memory_that_is_there)
{
	uint8_t msg[64];
	struct rr_op op;

	v2_params(0, true);
	o.nsegs = 4;
	v2_start(1);
	cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0)), 0);
	o.hold_expose = true;
	one_clear(&o);
	ONE_RECV(&o, 1, 2, 4, ERROR, REPLY, SEGMENTS, 2);
	op = *one_op(&o, RR_OP_EXPOSE, 0);
	cr_assert_eq(op.max_segs, 2);
	exposed(&op, -EAGAIN, 0, 5);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	rr_eng_tick(o.e, o.now + RR_ENG_RETRY);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	one_fini(&o);
}

/* The window may have shrunk while memory was exposed: what is left of it is for control messages. */
Test(engine_edges, a_call_waits_for_the_window_behind_its_exposure)
{
	struct rr_op op = exposure(RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY);

	rr_eng_window(o.e, 4);
	exposed(&op, 0, 5000, 1);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	rr_eng_window(o.e, 5);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	one_fini(&o);
}

/* --- long headers --- */

/* What is looked at first says little: no credits, and a Write chunk without segments before one with eight. */
Test(engine_edges, a_header_whose_beginning_says_little_is_read_to_its_end)
{
	for (uint32_t list = 1; list < 3; list++) {
		uint8_t buf[1024];
		uint32_t n = WORDS(buf, 1, 1, 0, MSG, 0);

		v1(0, false);
		n += list == 1 ? WORDS(buf + n, 1, 0, 1, 8) : WORDS(buf + n, 0, 1, 8);
		for (uint32_t i = 0; i < 8; i++)
			n += WORDS(buf + n, 0x12, 100, 0, 100 * i);
		if (list == 1)
			n += WORDS(buf + n, 0, 0);
		n += WORDS(buf + n, NULL_CALL(1));
		one_recv(&o, buf, n, 0);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1, "%u", list);
		one_clear(&o);
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 24), 0);
		cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, n - 40);
		one_fini(&o);
	}
}

/* As many segments as need more than is looked at first, in one list alone. */
Test(engine_edges, a_header_with_one_long_list_is_read_to_its_end)
{
	for (uint32_t list = 0; list < 3; list++) {
		uint8_t buf[1024];
		uint32_t n = WORDS(buf, 1, 1, 4, MSG), segs = 8;

		v1(0, false);
		if (list == 0) {
			for (uint32_t i = 0; i < segs; i++)	/* the data of a WRITE */
				n += WORDS(buf + n, 1, 72, 0x11, 100, 0, 100 * i);
			n += WORDS(buf + n, 0, 0, 0);
		} else {
			n += list == 1 ? WORDS(buf + n, 0, 1, segs) : WORDS(buf + n, 0, 0, 1, segs);
			for (uint32_t i = 0; i < segs; i++)
				n += WORDS(buf + n, 0x12, 100, 0, 100 * i);
			if (list == 1)
				n += WORDS(buf + n, 0, 0);
		}
		cr_assert_gt(n, RR_ENG_RX_HEAD);
		if (list == 0)
			n += WORDS(buf + n, 1, 0, 2, 100003, 3, 7, 0, 0, 0, 0, 4, 1, 0, 0, 800, 0, 800) + 4;
		else
			n += WORDS(buf + n, NULL_CALL(1));
		if (list == 0)
			n -= 4;		/* WRITE: handle, offset, count, stable, length */
		one_recv(&o, buf, n, 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), list == 0 && one_count(&o, RR_OP_COMPOSE) == 0);
		if (list > 0) {
			cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1, "%u", list);
			one_clear(&o);
			cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 24), 0);
			cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, n - 40);
			cr_assert_eq(one_word(&o, 0, n / 4 - 10 - (list == 1 ? 3 : 1)), 700, "the last offset");
		}
		one_fini(&o);
	}
}

/* --- what there is to be had --- */

Test(engine_edges, no_engine_has_more_than_its_tables)
{
	struct rr_eng_params p;
	void *mem;

	one_params(&o, 0, false);
	o.p.max_segs = o.p.max_chunks = 100000;
	one_start(&o);
	cr_assert_eq(o.e->p.max_segs, RR_OP_MAX_SEGS);
	cr_assert_eq(o.e->p.max_chunks, RR_MAX_SEGS);
	p = o.p;
	one_fini(&o);
	p.recvs = 16;
	p.dialect = (enum rr_dialect)(RR_DIALECT_SLIDES + 1);
	mem = calloc(1, rr_eng_size(&p));
	cr_assert_null(rr_eng_init(mem, &p, 0));
	free(mem);
}

Test(engine_edges, a_server_grants_two_only_where_done_costs_one)
{
	static const struct { enum rr_dialect d; bool connector; uint32_t least; } row[] = {
		{ RR_DIALECT_V1, false, 1 }, { RR_DIALECT_V1, true, 1 },
		{ RR_DIALECT_DRAFT02, false, 2 }, { RR_DIALECT_DRAFT02, true, 1 },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		one_params(&o, 0, row[i].connector);
		o.p.dialect = row[i].d;
		one_start(&o);
		cr_assert_eq(o.e->grant_min, row[i].least, "%zu", i);
		one_fini(&o);
	}
}

Test(engine_edges, the_configuration_protocol_is_no_program_of_version_one)
{
	v1(0, false);		/* whatever number it has */
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, 1, 0, 2, 1, 1, 1, 0, 0, 0, 0, 1, 2, 3);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.prog, 1);
	one_fini(&o);
}

Test(engine_edges, who_asks_for_no_credits_makes_no_calls_but_with_ring_credits)
{
	static const uint32_t caps[] = { 0, RR_CAP_RING_CREDITS };

	for (size_t i = 0; i < 2; i++) {
		one_params(&o, caps[i], false);
		o.p.bc_credits = 0;
		one_start(&o);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), caps[i] ? 0 : -EMSGSIZE);
		one_fini(&o);
	}
}

Test(engine_edges, what_may_have_to_be_pulled)
{
	static const struct { uint32_t caps; bool connector, reverse, any, together; } row[] = {
		{ 0, false, false, true, true },	/* calls */
		{ 0, true, false, false, false },
		{ 0, true, true, true, true },		/* reverse calls */
		{ RR_CAP_RELIABLE_REPLY, false, false, true, false },
		{ RR_CAP_RELIABLE_REPLY, true, false, true, false },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		v1(row[i].caps, row[i].connector);
		o.e->reverse_chunks = row[i].reverse;
		cr_assert_eq(rr_eng_may_pull(o.e, false), row[i].any, "%zu", i);
		cr_assert_eq(rr_eng_may_pull(o.e, true), row[i].together, "%zu", i);
		one_fini(&o);
	}
	v1(RR_CAP_RELIABLE_REPLY, true);	/* replies, which is reason enough */
	o.e->reverse_chunks = false;
	cr_assert(rr_eng_may_pull(o.e, false));
	one_fini(&o);
}

Test(engine_edges, dialects_are_known_by_what_they_do)
{
	cr_assert_eq(rr_eng_falls_back(RR_DIALECT_V2), RR_DIALECT_V1);
	cr_assert_eq(rr_eng_falls_back(RR_DIALECT_V1), RR_DIALECT_V1);
	cr_assert_eq(rr_eng_falls_back(RR_DIALECT_DRAFT02), RR_DIALECT_DRAFT02);
	cr_assert_not(rr_eng_delays(RR_DIALECT_V1));
	cr_assert(rr_eng_delays(RR_DIALECT_V2));
}

/* --- what a message is --- */

/* Eight bytes say whether it is a call. One that cannot be read is answered if it is. */
Test(engine_edges, what_cannot_be_read_is_answered_if_it_seems_to_be_a_call)
{
	static const struct { uint32_t type, len; bool answered; } row[] = {
		{ 0, 8, true }, { 0, 7, false }, { 0, 9, true }, { 1, 7, false }, { 7, 8, false },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		uint8_t buf[64];

		v1(0, true);
		WORDS(buf, 1, 1, 4, MSG, 0, 0, 0, 1, row[i].type, 0);
		one_recv(&o, buf, 28 + row[i].len, 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), row[i].answered, "%zu", i);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
		one_fini(&o);
	}
}

Test(engine_edges, a_call_is_no_longer_than_what_has_arrived_of_it)
{
	uint8_t buf[128];
	uint32_t n = WORDS(buf, 1, 1, 4, MSG, 0, 0, 0, NULL_CALL(1));

	for (uint32_t cut = 0; cut <= 4; cut++) {
		v1(0, false);
		one_recv(&o, buf, n - cut, 0);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), cut == 0, "%u", cut);
		cr_assert_eq(one_count(&o, RR_OP_SEND), cut > 0);
		one_fini(&o);
	}
}

/* The prototype's types say what they carry: no call is in what is called a reply. */
Test(engine_edges, a_reverse_reply_of_slides_is_no_call)
{
	one_params(&o, 0, true);
	o.p.dialect = RR_DIALECT_SLIDES;
	one_start(&o);
	ONE_RECV(&o, 1, 1, 4, 5, 0, 0, 0, A_CALL(1));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
	ONE_RECV(&o, 2, 1, 4, 6, 0, 0, 0, A_CALL(2));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_fini(&o);
}

/* A Send that is over gives no memory for what waits. */
Test(engine_edges, a_call_that_waits_for_memory_is_not_tried_again_for_a_send)
{
	struct rr_op send, op;

	one_params(&o, 0, true);
	o.p.reply_chunk = 0;
	one_start(&o);
	o.hold_send = o.hold_expose = true;
	o.e->cr.granted = 8;
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0);
	send = *one_op(&o, RR_OP_SEND, 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 5000), 0);
	op = *one_op(&o, RR_OP_EXPOSE, 0);
	exposed(&op, -EAGAIN, 0, 0);
	one_done(&o, &send);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	one_fini(&o);
}

/* The short way is version 1's, between two of ours, whose calls offer nothing. */
Test(engine_edges, what_may_go_the_short_way)
{
	static const struct { enum rr_dialect d; uint32_t caps, policy; bool simple; } row[] = {
		{ RR_DIALECT_V1, RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, RR_REPLY_CHUNKS_AUTO, true },
		{ RR_DIALECT_V1, RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, RR_REPLY_CHUNKS_BOUNDED, false },
		{ RR_DIALECT_V1, RR_CAP_RING_CREDITS, RR_REPLY_CHUNKS_AUTO, false },
		{ RR_DIALECT_V1, RR_CAP_RELIABLE_REPLY, RR_REPLY_CHUNKS_AUTO, false },
		{ RR_DIALECT_V1, 0, RR_REPLY_CHUNKS_AUTO, false },
		{ RR_DIALECT_V2, RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY, RR_REPLY_CHUNKS_AUTO, false },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		one_params(&o, row[i].caps, true);
		o.p.dialect = row[i].d;
		o.p.reply_chunks = row[i].policy;
		if (row[i].d == RR_DIALECT_V2)
			v2_start(1);
		else
			one_start(&o);
		cr_assert_eq(o.e->simple, row[i].simple, "%zu", i);
		one_fini(&o);
	}
}

/* Whatever the window allows. */
Test(engine_edges, no_more_messages_are_taken_than_there_are_entries)
{
	uint32_t n = 0;

	v1(RR_CAP_RING_CREDITS, false);
	o.hold_send = true;
	rr_eng_window(o.e, 10000);
	for (;;) {
		one_clear(&o);
		if (one_send(&o, RR_RPC_REPLY, n, 24) != 0)
			break;
		n++;
	}
	cr_assert_eq(n, o.e->txs.n);
	cr_assert_not(rr_eng_writable(o.e));
	one_fini(&o);
}

/* What is shown when the connection fails is not taken back by the engine any more. */
Test(engine_edges, what_has_failed_has_no_deadlines)
{
	v1(RR_CAP_RELIABLE_REPLY, false);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_CALL(1));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 5000), 0);
	cr_assert_eq(rr_eng_shown(o.e), 1);
	rr_eng_fail(o.e, RR_WHY_PROVIDER);
	one_run(&o);
	one_clear(&o);
	rr_eng_tick(o.e, o.now + 1000 * RR_SEC);
	one_run(&o);
	cr_assert_eq(o.nops, 0);
	cr_assert_eq(counted(RR_C_done_timeouts), 0);
	one_fini(&o);
}

/* --- who goes first --- */

Test(engine_edges, an_error_that_waits_holds_back_the_app_with_ring_credits_only)
{
	static const uint32_t caps[] = { 0, RR_CAP_RING_CREDITS };

	for (size_t i = 0; i < 2; i++) {
		v1(caps[i], false);
		rr_eng_window(o.e, 0);
		ONE_RECV(&o, 1, 2, 4, MSG, 0, 0, 0, 0);
		rr_eng_window(o.e, 64);
		cr_assert_eq(rr_eng_writable(o.e), !caps[i]);
		one_run(&o);
		cr_assert(rr_eng_writable(o.e));
		one_fini(&o);
	}
}

Test(engine_edges, something_arrives_until_it_is_delivered)
{
	v1(0, false);
	cr_assert_not(rr_eng_arriving(o.e));
	ONE_RECV(&o, 1, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	cr_assert(rr_eng_arriving(o.e));
	one_fini(&o);
}

/* --- waiting for a credit --- */

Test(engine_edges, who_waits_for_a_credit_waits_from_the_first_refusal_on)
{
	rr_time first;
	uint32_t x;

	v1(0, true);
	for (x = 1; one_send(&o, RR_RPC_CALL, x, 40) == 0; x++)
		continue;
	first = o.now;
	o.now += RR_SEC;
	cr_assert_eq(one_send(&o, RR_RPC_CALL, x, 40), -EAGAIN);
	cr_assert_eq(rr_eng_deadline(o.e), first + RR_ENG_STARVED);
	rr_eng_tick(o.e, first + RR_ENG_STARVED - 1);
	one_run(&o);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	ONE_RECV(&o, 1, 1, 1, MSG, 0, 0, 0, A_REPLY(1));	/* ends it */
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER);
	rr_eng_tick(o.e, 2 * RR_ENG_STARVED + first);
	one_run(&o);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	one_fini(&o);
}

/* --- what is counted --- */

Test(engine_edges, calls_and_replies_are_counted_by_their_direction_and_form)
{
	v1(0, false);
	ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_CALL(1));
	cr_assert_eq(counted(RR_C_calls_received), 1);
	cr_assert_eq(counted(RR_C_reverse_calls_received), 0);
	cr_assert_eq(counted(RR_C_inline_received), 1);
	cr_assert_eq(counted(RR_C_received), 40);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 1, 24), 0);
	cr_assert_eq(counted(RR_C_replies_sent), 1);
	cr_assert_eq(counted(RR_C_reverse_calls_sent), 0);
	cr_assert_eq(counted(RR_C_inline_sent), 1);
	cr_assert_eq(counted(RR_C_sent), 24);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 40), 0);
	cr_assert_eq(counted(RR_C_reverse_calls_sent), 1);
	cr_assert_eq(counted(RR_C_sent), 64);
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 77, 24), 0);	/* to nothing */
	cr_assert_eq(counted(RR_C_unknown_xid), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
	v1(0, true);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 5000), 0);
	cr_assert_eq(counted(RR_C_reverse_calls_sent), 0);
	cr_assert_eq(counted(RR_C_long_calls_sent), 1);
	ONE_RECV(&o, 9, 1, 4, MSG, 0, 0, 0, A_CALL(9));
	cr_assert_eq(counted(RR_C_reverse_calls_received), 1);
	one_fini(&o);
}

Test(engine_edges, errors_are_counted_by_what_they_say)
{
	for (uint32_t err = 1; err <= 2; err++) {
		v1(0, true);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0);
		if (err == 1)
			ONE_RECV(&o, 1, 1, 4, ERROR, 1, 2, 2);
		else
			ONE_RECV(&o, 1, 1, 4, ERROR, 2);
		cr_assert_eq(counted(RR_C_err_vers_received), err == 1);
		cr_assert_eq(counted(RR_C_err_chunk_received), err == 2);
		cr_assert_eq(o.e->ins.used, 0);
		one_fini(&o);
	}
	v2_begin(0, true);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0);
	one_clear(&o);
	ONE_RECV(&o, 1, 2, 4, ERROR, REPLY, 1, 1, 1);
	cr_assert_eq(v2_failed(), RR_WHY_ERR_VERS);
	one_fini(&o);
}

/* --- what a call needed is known to the next --- */

Test(engine_edges, replies_show_how_long_they_are_where_they_cannot_be_pulled)
{
	static const uint32_t caps[] = { 0, RR_CAP_RELIABLE_REPLY };

	for (size_t i = 0; i < 2; i++) {
		struct rr_sizes sizes = { 0 };
		uint8_t msg[64];

		one_params(&o, caps[i], true);
		o.p.sizes = &sizes;
		one_start(&o);
		cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0)), 0);
		ONE_RECV(&o, 1, 1, 4, MSG, 0, 0, 0, A_REPLY(1));
		cr_assert_eq(rr_sizes_get(&sizes, 0x20000001, 1, 1), caps[i] ? 0 : 24);
		one_fini(&o);
	}
}

/* --- limits of a call's chunks --- */

/* Each Write chunk is held against the limit, whichever comes last. */
Test(engine_edges, no_write_chunk_has_more_segments_than_are_taken)
{
	for (uint32_t at = 0; at < 4; at++) {
		uint8_t buf[2048];
		uint32_t n = WORDS(buf, 1, 2, 4, MSG, CALL, 0, 0);

		v2_begin(0, false);
		for (uint32_t i = 0; i < 3; i++) {
			uint32_t segs = i == at ? 9 : 1;

			n += WORDS(buf + n, 1, segs);
			for (uint32_t s = 0; s < segs; s++)
				n += WORDS(buf + n, 0x11 + s, 100, 0, 0);
		}
		n += WORDS(buf + n, 0, 0, NULL_CALL(1));
		one_recv(&o, buf, n, 0);
		if (at < 3)
			ERROR_IS(1, SEGMENTS, 8);
		else
			cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
		one_fini(&o);
	}
}
