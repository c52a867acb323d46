/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/lib/oneside.h"

/* Rules of RFC 8166, 8167 and 8797 that hold for all that an engine sends or counts, whichever
 * module does it. docs/conformance.md says which test stands for which rule. */

#define MSG	0
#define NOMSG	1

static struct one o;

/* RFC 8167 §5.1, §5.2: the reverse direction is not another protocol. */
/* req: rfc8167 5.1 #1 #2, 5.2 #1 #2 */
Test(engine_rules, reverse_calls_and_replies_have_the_version_and_the_xid_of_their_message)
{
	one_init(&o, 0, false);
	one_send(&o, RR_RPC_CALL, 0x77, 40);
	cr_assert_eq(one_word(&o, 0, 0), 0x77);
	cr_assert_eq(one_word(&o, 0, 1), 1);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	one_fini(&o);

	one_init(&o, 0, true);
	ONE_RECV(&o, 0x78, 1, 4, MSG, 0, 0, 0, A_CALL(0x78));
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 0x78, 24);
	cr_assert_eq(one_word(&o, 0, 0), 0x78);
	cr_assert_eq(one_word(&o, 0, 1), 1);
	one_fini(&o);
}

/* RFC 8167 §5.1: a reverse call whose own XID is another is not taken for the transport's. */
/* req: rfc8167 5.1 #2 */
Test(engine_rules, a_reverse_call_whose_xid_is_not_the_transports_is_refused)
{
	one_init(&o, 0, true);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_CALL(6));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_word(&o, 0, 0), 5);
	cr_assert_eq(one_word(&o, 0, 3), 4);
	cr_assert_eq(one_word(&o, 0, 4), 2);
	one_fini(&o);
}

/* RFC 8167 §4.1: neither request nor grant can be read from what has no direction. */
static void no_direction(uint32_t credit)
{
	ONE_RECV(&o, 1, 1, credit, 0x63, 0, 0, 0);		/* no such procedure */
	ONE_RECV(&o, 1, 1, credit, NOMSG, 0, 0, 0);		/* no message anywhere */
	ONE_RECV(&o, 1, 1, credit, MSG, 0, 0, 0, 1, 2, 2, 2);	/* neither call nor reply */
	ONE_RECV(&o, 1, 7, credit, MSG, 0, 0, 0, A_REPLY(1));	/* another version */
	ONE_RECV(&o, 1, 1, credit, 3);				/* RDMA_DONE */
}

/* req: rfc8167 4.1 #1 */
Test(engine_rules, credits_of_a_message_without_direction_are_not_taken_for_a_grant)
{
	one_init(&o, 0, true);
	one_send(&o, RR_RPC_CALL, 1, 40);
	no_direction(6);
	cr_assert_eq(one_info(&o).granted, 1);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 40), -EAGAIN);
	ONE_RECV(&o, 1, 1, 6, MSG, 0, 0, 0, A_REPLY(1));
	cr_assert_eq(one_info(&o).granted, 6);
	one_fini(&o);
}

/* req: rfc8167 4.1 #1 */
Test(engine_rules, credits_of_a_message_without_direction_are_not_taken_for_a_request)
{
	one_init(&o, 0, false);
	ONE_RECV(&o, 1, 1, 2, MSG, 0, 0, 0, A_CALL(1));
	no_direction(6);
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 1, 24);
	cr_assert_eq(one_word(&o, 0, 2), 2);
	one_fini(&o);
}

/* The same of one that is still to be pulled: only its head will tell. */
/* req: rfc8167 4.1 #1 */
Test(engine_rules, credits_of_a_long_message_wait_for_its_direction)
{
	uint8_t head[40];

	one_init(&o, 0, false);
	ONE_RECV(&o, 1, 1, 2, MSG, 0, 0, 0, A_CALL(1));
	ONE_RECV(&o, 2, 1, 6, NOMSG, 1, 0, 0x21, 4096, 0, 16, 0, 0, 0);
	one_send(&o, RR_RPC_REPLY, 1, 24);
	cr_assert_eq(one_word(&o, 0, 2), 2);
	WORDS(head, A_CALL(2));
	rr_eng_head(o.e, one_op(&o, RR_OP_PULL, 0)->id, 0, head, 40, o.now);
	one_clear(&o);
	one_run(&o);
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 2, 24);
	cr_assert_eq(one_word(&o, 0, 2), 6);
	one_fini(&o);
}

/* RFC 8797 §4.1: we never announce R, so no reply may invalidate anything. */
/* req: rfc8797 4.1 #1 #2 */
Test(engine_rules, no_reply_invalidates_a_handle_of_the_peer)
{
	one_init(&o, 0, false);
	ONE_RECV(&o, 1, 1, 8, MSG, 0, 0, 0, A_CALL(1));
	ONE_RECV(&o, 2, 1, 8, MSG, 0, 1, 1, 0x21, 4096, 0, 16, 0, 0, A_CALL(2));
	ONE_RECV(&o, 3, 1, 8, MSG, 0, 0, 1, 1, 0x22, 65536, 0, 16, A_CALL(3));
	one_send(&o, RR_RPC_REPLY, 1, 24);
	one_send(&o, RR_RPC_REPLY, 2, 24);
	one_send(&o, RR_RPC_REPLY, 3, 40000);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 3);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(one_op(&o, RR_OP_SEND, i)->inv_handle, 0);
	one_fini(&o);
}

/* reliable-reply-00: pull completion is a plain Send where invalidation was not agreed on. */
/* req: reliable-reply-00 - #7 */
Test(engine_rules, done_invalidates_nothing)
{
	uint8_t head[24];
	uint32_t id;

	one_init(&o, RR_CAP_RELIABLE_REPLY, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 7, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_REPLY(5));
	rr_eng_head(o.e, id, 0, head, 24, o.now);
	one_run(&o);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_word(&o, 0, 3), 3);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, 0);
	one_fini(&o);
}

/* RFC 8166 §4.6.1: nothing that an engine sends is padded, whatever it has to convey. */
/* req: rfc8166 4.6.1 #1 */
Test(engine_rules, no_message_is_sent_as_msgp)
{
	static const uint32_t lens[] = { 40, 800, 5000 };

	for (size_t i = 0; i < rr_array_size(lens); i++) {
		one_init(&o, 0, true);
		one_send(&o, RR_RPC_CALL, 5, lens[i]);
		cr_assert_eq(one_word(&o, 0, 3), lens[i] < 1024 ? MSG : NOMSG);
		one_fini(&o);
		one_init(&o, 0, false);
		ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 1, 1, 0x22, 65536, 0, 16, A_CALL(5));
		one_send(&o, RR_RPC_REPLY, 5, lens[i]);
		cr_assert_eq(one_word(&o, 0, 3), lens[i] < 1024 ? MSG : NOMSG);
		one_fini(&o);
	}
}

/* RFC 8166 §4.5.4: memory that the peer may still reach is given to nobody. */
/* req: rfc8166 4.5.4 #1 */
Test(engine_rules, a_key_that_cannot_be_invalidated_ends_the_connection)
{
	one_init(&o, 0, true);
	o.hold_invalidate = true;
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	rr_eng_done(o.e, one_op(&o, RR_OP_INVALIDATE, 0)->id, -EIO, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 1);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	one_fini(&o);
}

/* RFC 8166 §4.5.4: the requester must learn that its reply is lost. */
/* req: rfc8166 4.5.4 #2 */
Test(engine_rules, a_reply_that_cannot_be_transmitted_ends_the_connection)
{
	one_init(&o, 0, false);
	o.hold_send = true;
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_CALL(5));
	one_send(&o, RR_RPC_REPLY, 5, 24);
	rr_eng_done(o.e, one_op(&o, RR_OP_SEND, 0)->id, -EIO, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 1);
	one_fini(&o);
}

/* RFC 8166 §3.3.1, RFC 8167 §4.3: receives for what is granted and for the replies to what is
 * asked for, in both directions. */
/* req: rfc8166 3.3.1 #4 */
Test(engine_rules, receives_suffice_for_calls_and_replies_of_both_directions)
{
	for (uint32_t n = 1; n <= 64; n *= 4) {
		one_params(&o, 0, n % 2);
		o.p.credits = n;
		o.p.bc_credits = 64 / n;
		cr_assert_geq(rr_eng_recvs(&o.p), n + 64 / n);
	}
}

Test(engine_rules, where_there_are_few_receives_there_are_few_credits)
{
	for (uint32_t recvs = 0; recvs < 100; recvs++) {
		uint32_t need;

		one_params(&o, 0, recvs % 2);
		o.p.credits = 64;
		o.p.bc_credits = 8;
		need = rr_eng_recvs(&o.p);
		rr_eng_fit(&o.p, recvs);
		cr_assert(o.p.credits >= 1 && o.p.bc_credits >= 1);
		cr_assert_eq(rr_eng_recvs(&o.p), rr_max(rr_min(recvs, need), need - 70));
	}
}

/* RFC 8166 §3.3.1: the grant is never more than the receives that were posted for it from the
 * start, so no grant has to wait for a receive. */
/* req: rfc8166 3.3.1 #3 */
Test(engine_rules, no_grant_exceeds_the_receives_that_are_posted)
{
	one_init(&o, 0, false);
	for (uint32_t xid = 1; xid < 50; xid++) {
		ONE_RECV(&o, xid, 1, xid * 1000, MSG, 0, 0, 0, A_CALL(xid));
		one_clear(&o);
		one_send(&o, RR_RPC_REPLY, xid, 24);
		cr_assert_eq(one_word(&o, 0, 2), o.p.credits);
	}
	cr_assert_leq(o.p.credits, rr_eng_recvs(&o.p));
	one_fini(&o);
}

/* RFC 8166 §3.5.3: what goes by Position-Zero Read chunk or Reply chunk is the message as it is,
 * with the padding that is in it. */
/* req: rfc8166 3.5.3 #4 */
Test(engine_rules, chunks_of_whole_messages_have_all_their_bytes)
{
	one_init(&o, 0, true);
	one_send(&o, RR_RPC_CALL, 5, 5000);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, 5000);
	one_fini(&o);

	one_init(&o, 0, false);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 1, 1, 0x22, 65536, 0, 16, A_CALL(5));
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 5, 5000);
	cr_assert_eq(one_op(&o, RR_OP_WRITE, 0)->len, 5000);
	cr_assert_eq(one_op(&o, RR_OP_WRITE, 0)->off, 0);
	one_fini(&o);
}

/* Who takes no reverse calls has no credits for them, and keeps none where all receives are there. */
Test(engine_rules, credits_that_have_their_receives_stay_as_they_are)
{
	one_params(&o, 0, true);
	o.p.credits = 40;
	o.p.bc_credits = 0;
	rr_eng_fit(&o.p, rr_eng_recvs(&o.p));
	cr_assert(o.p.credits == 40 && o.p.bc_credits == 0);
	rr_eng_fit(&o.p, rr_eng_recvs(&o.p) - 1);
	cr_assert(o.p.credits == 38 && o.p.bc_credits == 1);
}

/* Replies that the peer has to pull come with messages of their own. */
Test(engine_rules, reliable_replies_take_receives)
{
	uint32_t without;

	one_params(&o, 0, true);
	without = rr_eng_recvs(&o.p);
	o.p.caps |= RR_CAP_RELIABLE_REPLY;
	cr_assert_eq(rr_eng_recvs(&o.p), without + RR_ENG_SHOWN);
}
