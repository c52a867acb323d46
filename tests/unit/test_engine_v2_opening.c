/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/lib/oneside.h"

/* version-two-08 §5.3.4, §7: what is said before the app's first message */

#define MSG		0
#define ERROR		4
#define CONNPROP	5
#define RESPONSE	1
#define RBSIZ		1
#define BRS		2
#define DONE		0x52444d01
#define V1_MSG(xid)	(xid), 1, 20, 0, 0, 0, 0
#define V2_MSG(xid)	(xid), 2, 20, MSG, 0, 0, 0, 0, 0
#define ASKS_PROPS(xid)	(xid), 2, 20, CONNPROP, 0

static struct one o;
static uint32_t ours;	/* XID of our CONNPROP */

static void params(uint32_t caps, bool connector)
{
	one_params(&o, caps, connector);
	o.p.dialect = RR_DIALECT_V2;
	o.p.inline_send = o.p.inline_recv = 4096;
}

static void start(void)
{
	one_start(&o);
	one_run(&o);
	ours = one_word(&o, 0, 0);
}

static void begin(uint32_t caps, bool connector)
{
	params(caps, connector);
	start();
}

/* Connecting, with ring credits of which the peer has not told yet. */
static void begin_without_window(void)
{
	params(RR_CAP_RING_CREDITS, true);
	o.p.count = &o.count;
	o.e = rr_eng_init(calloc(1, rr_eng_size(&o.p)), &o.p, o.now);
	one_run(&o);
}

static enum rr_eng_why failed(void)
{
	const struct rr_op *op = one_op(&o, RR_OP_FAIL, 0);

	return op ? op->why : RR_WHY_NONE;
}

static uint32_t threshold(void)
{
	uint32_t n = 0;

	while (rr_eng_is_short(o.e, RR_RPC_REPLY, n))
		n++;
	return n - 1 + 36;
}

/* --- who connects --- */

/* req: version-two-08 5.3.4 #1 #3 */
Test(engine_v2_opening, who_connects_says_its_properties_first_in_far_less_than_1024_bytes)
{
	begin(RR_CAP_RELIABLE_REPLY, true);
	uint32_t want[] = { ours, 2, 8, CONNPROP, 0, 3, RBSIZ, 4, 4096, BRS, 4, 1, DONE, 4, 1 };

	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, sizeof(want));
	for (uint32_t w = 0; w < 15; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	one_fini(&o);
}

Test(engine_v2_opening, the_private_property_is_said_only_where_it_is_wanted)
{
	begin(0, true);
	cr_assert_eq(one_word(&o, 0, 5), 2);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 48);
	one_fini(&o);
	params(RR_CAP_RELIABLE_REPLY, true);
	o.p.no_done = true;
	start();
	cr_assert_eq(one_word(&o, 0, 5), 2);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 48);
	one_fini(&o);
}

/* A reply that is too long for a Send: exposed, or the peer is told that it has no place for it. */
static bool exposes(void)
{
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 9, 5000), 0);
	return one_count(&o, RR_OP_EXPOSE) == 1;
}

Test(engine_v2_opening, reliable_replies_are_agreed_by_the_property_unless_it_is_not_wanted)
{
	for (int off = 0; off < 2; off++) {
		params(RR_CAP_RELIABLE_REPLY, false);
		o.p.no_done = off;
		start();
		ONE_RECV(&o, ASKS_PROPS(7), 1, DONE, 4, 1);
		ONE_RECV(&o, V2_MSG(9), A_CALL(9));
		cr_assert_eq(exposes(), !off);
		one_fini(&o);
	}
}

Test(engine_v2_opening, with_a_peer_of_version_1_nothing_is_agreed)
{
	begin(RR_CAP_RELIABLE_REPLY, false);
	ONE_RECV(&o, V1_MSG(9), A_CALL(9));
	cr_assert(one_info(&o).fell_back);
	cr_assert_not(exposes());
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	one_fini(&o);
}

Test(engine_v2_opening, what_only_agreement_allows_is_nothing_for_a_native_peer)
{
	const uint32_t every = RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS | RR_CAP_HATCH |
			       RR_CAP_REVERSE_CHUNKS;

	cr_assert_eq(rr_eng_native_caps(RR_DIALECT_V1, every), RR_CAP_REVERSE_CHUNKS);
	cr_assert_eq(rr_eng_native_caps(RR_DIALECT_V2, every),
		     RR_CAP_REVERSE_CHUNKS | RR_CAP_RELIABLE_REPLY);
	cr_assert_eq(rr_eng_native_caps(RR_DIALECT_V2, 0), 0);
}

Test(engine_v2_opening, reverse_support_is_none_inline_or_general_as_configured)
{
	params(0, true);
	o.p.bc_credits = 0;
	start();
	cr_assert_eq(one_word(&o, 0, 11), 0);
	one_fini(&o);
	params(0, true);
	o.p.caps |= RR_CAP_REVERSE_CHUNKS;
	start();
	cr_assert_eq(one_word(&o, 0, 11), 2);
	one_fini(&o);
}

/* req: version-two-08 7 #1 */
Test(engine_v2_opening, no_call_is_taken_before_the_answer_and_as_many_as_it_grants_after_that)
{
	begin(0, true);
	cr_assert_not(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), -EAGAIN);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 0);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 40), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 7, 40), -EAGAIN);
	one_fini(&o);
}

Test(engine_v2_opening, the_answer_has_our_xid_and_the_response_flag)
{
	begin(RR_CAP_RELIABLE_REPLY, true);
	ONE_RECV(&o, ours + 1, 2, 2, CONNPROP, RESPONSE, 1, RBSIZ, 4, 1024);
	cr_assert(one_info(&o).opening);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, 0, 0);	/* its own: to be answered */
	cr_assert(one_info(&o).opening);
	cr_assert_eq(one_word(&o, 1, 3), CONNPROP);
	cr_assert_eq(one_word(&o, 1, 4), RESPONSE);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 0);
	cr_assert_not(one_info(&o).opening);
	cr_assert_eq(threshold(), 4096);	/* what the first one said is nothing */
	one_fini(&o);
}

Test(engine_v2_opening, sends_are_as_long_as_the_peers_receives_and_ours_allow)
{
	static const struct { uint32_t rbsiz, max, want; } row[] = {
		{ 2048, 0, 2048 }, { 4096, 0, 4096 }, { 16384, 0, 4096 }, { 16384, 8192, 8192 }, { 1024, 0, 1024 },
	};

	for (size_t i = 0; i < 5; i++) {
		params(RR_CAP_RELIABLE_REPLY, true);
		o.p.inline_send_max = row[i].max;
		start();
		ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 1, RBSIZ, 4, row[i].rbsiz);
		cr_assert_eq(threshold(), row[i].want, "%zu: %u", i, threshold());
		one_fini(&o);
	}
}

Test(engine_v2_opening, a_peer_that_says_nothing_receives_4096_bytes)
{
	params(RR_CAP_RELIABLE_REPLY, true);
	o.p.inline_send = 8192;
	start();
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 1, RBSIZ, 0);
	cr_assert_eq(threshold(), 4096);
	one_fini(&o);
}

Test(engine_v2_opening, receives_too_small_for_any_header_end_the_connection)
{
	begin(0, true);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 1, RBSIZ, 4, 1023);
	cr_assert_eq(failed(), RR_WHY_PROTOCOL);
	one_fini(&o);
}

/* req: reliable-reply-00 - #10 */
Test(engine_v2_opening, reliable_replies_need_the_word_of_both)
{
	for (int us = 0; us < 2; us++) {
		for (uint32_t peer = 0; peer < 2; peer++) {
			begin(us ? RR_CAP_RELIABLE_REPLY : 0, true);
			ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 1, DONE, 4, peer);
			one_clear(&o);
			one_send(&o, RR_RPC_CALL, 5, 40);	/* without them it offers a Reply chunk */
			cr_assert_eq(one_count(&o, RR_OP_EXPOSE), !(us && peer), "%d %u", us, peer);
			one_fini(&o);
		}
	}
}

/* req: version-two-08 5.3.4 #4 */
Test(engine_v2_opening, properties_are_taken_once)
{
	begin(RR_CAP_RELIABLE_REPLY, true);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 1, RBSIZ, 4, 2048);
	one_clear(&o);
	ONE_RECV(&o, 77, 2, 9, CONNPROP, 0, 1, RBSIZ, 4, 1024);
	cr_assert_eq(threshold(), 2048);
	cr_assert_eq(one_word(&o, 0, 0), 77);
	cr_assert_eq(one_word(&o, 0, 4), RESPONSE);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 1, RBSIZ, 4, 1024);	/* a second answer */
	cr_assert_eq(threshold(), 2048);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	one_fini(&o);
}

Test(engine_v2_opening, an_answer_that_cannot_be_parsed_ends_the_connection_unanswered)
{
	begin(0, true);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 1, RBSIZ, 3, 4096);
	cr_assert_eq(failed(), RR_WHY_PROTOCOL);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	one_fini(&o);
}

Test(engine_v2_opening, a_peer_without_properties_has_their_defaults_and_one_credit)
{
	begin(0, true);
	ONE_RECV(&o, ours, 2, 64, ERROR, RESPONSE, 3);
	cr_assert_not(one_info(&o).opening);
	cr_assert_eq(one_info(&o).granted, 1);	/* the error's credits mean nothing */
	one_fini(&o);
}

/* version-two-08 §4.2.1 */
Test(engine_v2_opening, a_reply_that_is_longer_than_the_servers_receives_has_a_chunk)
{
	static const struct { uint32_t rbsiz, count, chunks; } row[] = {
		{ 0, 3000, 0 }, { 0, 4000, 1 }, { 8192, 4000, 0 }, { 16384, 8000, 1 }, { 1024, 3000, 1 },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		uint8_t call[64];

		WORDS(call, 9, 0, 2, 100003, 3, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, row[i].count); /* READDIR */
		params(0, true);
		o.p.inline_recv = 8192;
		o.p.inline_peer = 1024;
		start();
		if (row[i].rbsiz)
			ONE_RECV(&o, ours, 2, 8, CONNPROP, RESPONSE, 1, RBSIZ, 4, row[i].rbsiz);
		else
			ONE_RECV(&o, ours, 2, 8, ERROR, RESPONSE, 3);
		one_clear(&o);
		cr_assert_eq(one_send_bytes(&o, call, sizeof(call)), 0);
		cr_assert_eq(one_count(&o, RR_OP_EXPOSE), row[i].chunks, "row %zu", i);
		one_fini(&o);
	}
}

Test(engine_v2_opening, who_gets_no_answer_gives_up_after_a_while)
{
	rr_time end;

	begin(0, true);
	end = rr_eng_deadline(o.e);
	cr_assert_neq(end, RR_TIME_NEVER);
	rr_eng_tick(o.e, end - 1);
	one_run(&o);
	cr_assert_eq(failed(), RR_WHY_NONE);
	rr_eng_tick(o.e, end);
	one_run(&o);
	cr_assert_eq(failed(), RR_WHY_NO_ANSWER);
	one_fini(&o);
}

Test(engine_v2_opening, with_ring_credits_it_waits_for_the_window)
{
	begin_without_window();
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	rr_eng_window(o.e, 4);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	one_fini(&o);
}

/* --- fallback --- */

/* req: version-two-08 7.2 #1 */
Test(engine_v2_opening, err_vers_of_either_form_is_answered_by_version_1_and_its_sizes_of_headers)
{
	for (uint32_t form = 0; form < 3; form++) {
		begin(0, true);
		if (form == 2)
			ONE_RECV(&o, ours, 2, 8, ERROR, RESPONSE, 1, 1, 1);
		else
			ONE_RECV(&o, ours, form + 1, 8, ERROR, 1, 1, 1);
		cr_assert_not(one_info(&o).opening);
		cr_assert(one_info(&o).fell_back);
		cr_assert_eq(one_info(&o).version, 1);
		one_clear(&o);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
		cr_assert_eq(one_word(&o, 0, 1), 1);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 40), -EAGAIN);	/* an error grants nothing */
		one_fini(&o);
	}
}

/* A peer that answers what we have not asked yet, having asked itself: neither our question nor our answer
 * is a message of version 1. */
Test(engine_v2_opening, what_waits_to_be_said_is_not_said_in_version_1)
{
	begin_without_window();
	ONE_RECV(&o, ASKS_PROPS(77), 0);
	ONE_RECV(&o, 0x52444d04, 2, 8, ERROR, 1, 1, 1);
	cr_assert(one_info(&o).fell_back);
	rr_eng_window(o.e, 4);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(failed(), RR_WHY_NONE);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
	cr_assert_eq(one_word(&o, 0, 1), 1);
	one_fini(&o);
}

Test(engine_v2_opening, no_version_1_where_the_peer_or_we_do_not_want_it)
{
	begin(0, true);
	ONE_RECV(&o, ours, 2, 8, ERROR, 1, 3, 4);
	cr_assert_eq(failed(), RR_WHY_ERR_VERS);
	one_fini(&o);
	params(0, true);
	o.p.no_fallback = true;
	start();
	ONE_RECV(&o, ours, 2, 8, ERROR, 1, 1, 1);
	cr_assert_eq(failed(), RR_WHY_ERR_VERS);
	one_fini(&o);
}

/* Nor is anything else an answer: an error for another XID, or a message with ours. */
Test(engine_v2_opening, only_an_answer_is_one)
{
	begin(0, true);
	one_clear(&o);
	ONE_RECV(&o, ours + 1, 2, 20, ERROR, RESPONSE, 3);
	cr_assert_eq(failed(), RR_WHY_NONE);
	ONE_RECV(&o, ours, 2, 20, MSG, RESPONSE, 0, 0, 0, 0, A_REPLY(ours));
	cr_assert_eq(failed(), RR_WHY_NONE);
	cr_assert_not(rr_eng_writable(o.e));
	ONE_RECV(&o, ours, 2, 20, CONNPROP, RESPONSE, 1, RBSIZ, 4, 2048);
	cr_assert_eq(failed(), RR_WHY_NONE);
	cr_assert(rr_eng_writable(o.e));
	one_fini(&o);
}

/* req: version-two-08 7.3 #2 */
Test(engine_v2_opening, once_chosen_the_version_stays)
{
	begin(0, true);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 0);
	ONE_RECV(&o, ours, 2, 8, ERROR, 1, 1, 1);	/* to nothing that we wait for */
	cr_assert_eq(one_info(&o).version, 2);
	ONE_RECV(&o, V1_MSG(9), A_CALL(9));
	cr_assert_eq(one_info(&o).version, 2);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_fini(&o);
	begin(0, false);
	ONE_RECV(&o, V2_MSG(5), A_CALL(5));
	one_clear(&o);
	ONE_RECV(&o, V1_MSG(6), A_CALL(6));
	cr_assert_eq(one_info(&o).version, 2);
	uint32_t want[] = { 6, 1, 8, ERROR, 1, 2, 2 };
	for (uint32_t w = 0; w < 7; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	one_fini(&o);
}

/* --- who accepts --- */

Test(engine_v2_opening, who_accepts_says_nothing_unasked)
{
	begin(0, false);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), -EAGAIN);
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER);
	one_fini(&o);
}

Test(engine_v2_opening, who_accepts_answers_at_once_with_the_xid_the_flag_and_a_grant)
{
	begin(RR_CAP_RELIABLE_REPLY, false);
	ONE_RECV(&o, 77, 2, 3, CONNPROP, 0, 0);
	uint32_t want[] = { 77, 2, 3, CONNPROP, RESPONSE, 3, RBSIZ, 4, 4096, BRS, 4, 2, DONE, 4, 1 };

	for (uint32_t w = 0; w < 15; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
	one_fini(&o);
}

Test(engine_v2_opening, the_grant_is_never_zero)
{
	begin(0, false);
	ONE_RECV(&o, 77, 2, 0, CONNPROP, 0, 0);
	cr_assert_eq(one_word(&o, 0, 2), 1);
	one_fini(&o);
}

Test(engine_v2_opening, a_first_call_without_properties_is_served_with_their_defaults)
{
	params(0, false);
	o.p.inline_send = 8192;
	start();
	ONE_RECV(&o, V2_MSG(5), A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_not(one_info(&o).opening);
	cr_assert_eq(threshold(), 4096);
	one_fini(&o);
}

/* A reply to nobody says nothing of properties: they may still come. */
Test(engine_v2_opening, a_first_reply_is_no_call)
{
	begin(0, false);
	ONE_RECV(&o, 5, 2, 20, MSG, RESPONSE, 0, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_clear(&o);
	ONE_RECV(&o, 77, 2, 20, CONNPROP, 0, 1, RBSIZ, 4, 2048);
	cr_assert_eq(one_word(&o, 0, 3), CONNPROP);
	cr_assert_eq(threshold(), 2048);
	one_fini(&o);
}

Test(engine_v2_opening, a_first_call_of_version_1_is_served_in_version_1)
{
	begin(0, false);
	ONE_RECV(&o, V1_MSG(5), A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 24), 0);
	cr_assert_eq(one_word(&o, 0, 1), 1);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28);
	one_fini(&o);
}

/* What is too short for a header says nothing of a version, and what was there before it neither. */
Test(engine_v2_opening, a_first_message_that_is_cut_short_chooses_no_version)
{
	static const uint32_t lens[] = { 0, 4, 8, 12, 15 };
	uint8_t buf[16];

	for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		begin(0, false);
		WORDS(buf, 7, 1, 20, 0);
		one_clear(&o);
		one_recv(&o, buf, lens[i], 0);
		cr_assert_eq(failed(), RR_WHY_NONE, "%u bytes", lens[i]);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
		one_clear(&o);
		ONE_RECV(&o, ASKS_PROPS(9), 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1, "%u bytes", lens[i]);
		cr_assert_eq(one_word(&o, 0, 1), 2, "%u bytes", lens[i]);
		cr_assert_eq(one_word(&o, 0, 3), CONNPROP);
		one_fini(&o);
	}
}

Test(engine_v2_opening, version_1_may_be_refused)
{
	params(0, false);
	o.p.no_fallback = true;
	start();
	ONE_RECV(&o, V1_MSG(5), A_CALL(5));
	uint32_t want[] = { 5, 1, 8, ERROR, 1, 2, 2 };
	for (uint32_t w = 0; w < 7; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert(one_info(&o).opening);
	one_fini(&o);
}

Test(engine_v2_opening, another_version_is_told_what_may_be_chosen)
{
	begin(0, false);
	ONE_RECV(&o, 5, 3, 20, MSG, 0, 0, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_word(&o, 0, 4), 1);
	cr_assert_eq(one_word(&o, 0, 5), 1);
	cr_assert_eq(one_word(&o, 0, 6), 2);
	one_fini(&o);
}

/* req: version-two-08 4.1 #1 #2 */
Test(engine_v2_opening, properties_that_cannot_be_parsed_get_bad_xdr_with_their_xid)
{
	static const uint32_t bad[][3] = { { RBSIZ, 3, 0 }, { RBSIZ, 8, 0 }, { BRS, 4, 3 }, { DONE, 4, 2 }, { 99, 400, 0 } };

	for (size_t i = 0; i < 5; i++) {
		begin(0, false);
		ONE_RECV(&o, 77, 2, 9, CONNPROP, 0, 1, bad[i][0], bad[i][1], bad[i][2]);
		uint32_t want[] = { 77, 2, 8, ERROR, RESPONSE, 2 };
		for (uint32_t w = 0; w < 6; w++)
			cr_assert_eq(one_word(&o, 0, w), want[w], "%zu, word %u", i, w);
		cr_assert(one_info(&o).opening);
		one_fini(&o);
	}
}

Test(engine_v2_opening, unknown_properties_are_passed_over)
{
	begin(0, false);
	ONE_RECV(&o, 77, 2, 9, CONNPROP, 0, 2, 99, 5, 0, 0, RBSIZ, 4, 2048);
	cr_assert_eq(threshold(), 2048);
	one_fini(&o);
}

Test(engine_v2_opening, many_unknown_properties_are_no_hindrance)
{
	uint8_t buf[4096];
	uint32_t n = WORDS(buf, ASKS_PROPS(77), 100);

	memset(buf + n, 0, 100 * 8);
	begin(0, false);
	one_recv(&o, buf, n + 100 * 8, 0);
	cr_assert_eq(one_word(&o, 0, 3), CONNPROP);
	one_fini(&o);
}

/* --- reverse direction --- */

Test(engine_v2_opening, a_client_that_takes_no_reverse_calls_gets_none)
{
	begin(0, false);
	ONE_RECV(&o, 77, 2, 9, CONNPROP, 0, 1, BRS, 4, 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), -EMSGSIZE);
	one_fini(&o);
}

Test(engine_v2_opening, reverse_calls_are_inline_unless_the_client_takes_others)
{
	for (uint32_t brs = 1; brs < 3; brs++) {
		begin(0, false);
		ONE_RECV(&o, 77, 2, 9, CONNPROP, 0, 1, BRS, 4, brs);
		one_clear(&o);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 5000), brs == 2 ? 0 : -EMSGSIZE);
		cr_assert_eq(one_count(&o, RR_OP_EXPOSE), brs == 2 ? 2 : 0);
		one_fini(&o);
	}
}

Test(engine_v2_opening, who_falls_back_has_no_reliable_replies)
{
	begin(RR_CAP_RELIABLE_REPLY, true);
	ONE_RECV(&o, ours, 2, 8, ERROR, 1, 1, 1);
	one_clear(&o);
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);	/* a Reply chunk */
	one_fini(&o);
}

Test(engine_v2_opening, what_a_server_takes_in_return_is_seen_from_its_reverse_calls)
{
	begin(RR_CAP_RELIABLE_REPLY | RR_CAP_REVERSE_CHUNKS, true);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 1, DONE, 4, 1);	/* no BRS */
	ONE_RECV(&o, V2_MSG(5), A_CALL(5));
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 5, 9000);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	ONE_RECV(&o, 6, 2, 20, MSG, 0, 0, 0, 0, 1, 1, 9, 8, 0, 64, A_CALL(6));
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 6, 9000);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	one_fini(&o);
}

Test(engine_v2_opening, what_a_server_says_that_it_takes_is_not_inferred)
{
	begin(RR_CAP_RELIABLE_REPLY | RR_CAP_REVERSE_CHUNKS, true);
	ONE_RECV(&o, ours, 2, 2, CONNPROP, RESPONSE, 2, DONE, 4, 1, BRS, 4, 1);
	ONE_RECV(&o, 6, 2, 20, MSG, 0, 0, 0, 0, 1, 1, 9, 8, 0, 64, A_CALL(6));
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 6, 9000);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	one_fini(&o);
}
