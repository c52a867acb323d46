/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/lib/oneside.h"

/* "RPC/RDMA Bi-direction", the prototype: RDMA_BCALL and RDMA_BRPLY. What it leaves open is as RFC 8167
 * has it. */

#define MSG	0
#define NOMSG	1
#define ERROR	4
#define BCALL	5
#define BRPLY	6

static struct one o;

static void start(uint32_t caps, bool connector)
{
	one_params(&o, caps, connector);
	o.p.dialect = RR_DIALECT_SLIDES;
	one_start(&o);
}

Test(engine_slides, forward_calls_and_replies_are_version_ones)
{
	start(0, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	one_fini(&o);
	start(0, false);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.type, RR_RPC_CALL);
	one_send(&o, RR_RPC_REPLY, 5, 24);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	one_fini(&o);
}

/* req: slides - #1 */
Test(engine_slides, a_reverse_call_is_a_bcall_and_its_reply_a_brply)
{
	start(0, false);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
	uint32_t want[] = { 5, 1, 4, BCALL, 0, 0, 0 };
	for (uint32_t w = 0; w < 7; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 28);
	ONE_RECV(&o, 5, 1, 3, BRPLY, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.type, RR_RPC_REPLY);
	cr_assert_eq(one_info(&o).granted, 3);
	one_fini(&o);

	start(0, true);
	ONE_RECV(&o, 5, 1, 3, BCALL, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.type, RR_RPC_CALL);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 24), 0);
	cr_assert_eq(one_word(&o, 0, 3), BRPLY);
	cr_assert_eq(one_word(&o, 0, 2), 3, "granted is what the reverse call asked for");
	one_fini(&o);
}

/* req: slides - #2 */
Test(engine_slides, a_bcall_is_not_looked_up_among_our_calls)
{
	start(0, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	ONE_RECV(&o, 5, 1, 3, BCALL, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.type, RR_RPC_CALL);
	cr_assert_eq(one_info(&o).inflight, 1);
	cr_assert_eq(one_info(&o).serving, 1);
	one_fini(&o);
}

/* req: slides - #3 */
Test(engine_slides, a_bcall_with_a_chunk_gets_err_chunk)
{
	start(0, true);
	ONE_RECV(&o, 5, 1, 3, BCALL, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	uint32_t want[] = { 5, 1, 3, ERROR, 2 };
	for (uint32_t w = 0; w < 5; w++)
		if (w != 2)
			cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	one_fini(&o);
}

/* req: slides - #3 */
Test(engine_slides, a_brply_with_a_chunk_is_discarded)
{
	start(0, false);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 3, BRPLY, 1, 100, 0x21, 4, 0, 16, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
	cr_assert_eq(one_info(&o).inflight, 1);
	one_fini(&o);
}

/* What stands in a BCALL is a call to us, or it is wrong. */
/* req: slides - #2 */
Test(engine_slides, the_header_and_the_message_agree_about_the_direction)
{
	start(0, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 3, BCALL, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	ONE_RECV(&o, 5, 1, 3, BRPLY, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(o.count.v[RR_C_discarded], 1, "a reverse reply to who makes no reverse calls");
	ONE_RECV(&o, 6, 1, 3, MSG, 0, 0, 0, A_CALL(6));
	cr_assert_eq(one_word(&o, 1, 3), ERROR, "RFC 8167's form is not this dialect's");
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	ONE_RECV(&o, 5, 1, 3, MSG, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_fini(&o);

	start(0, false);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 3, MSG, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
	ONE_RECV(&o, 7, 1, 3, BCALL, 0, 0, 0, A_CALL(7));
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	ONE_RECV(&o, 5, 1, 3, BRPLY, 0, 0, 0, A_CALL(5));
	cr_assert_eq(o.count.v[RR_C_discarded], 2);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_fini(&o);
}

/* RFC 8167 §5.3 */
/* req: slides - #3 */
Test(engine_slides, the_reverse_direction_is_inline_or_nothing)
{
	start(RR_CAP_RELIABLE_REPLY, false);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 1024 - 28 + 1), -EMSGSIZE);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 1024 - 28), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	one_fini(&o);

	start(RR_CAP_RELIABLE_REPLY, true);
	ONE_RECV(&o, 5, 1, 3, BCALL, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 2000), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_word(&o, 0, 4), 2);
	one_fini(&o);
}

Test(engine_slides, a_long_reverse_call_gets_err_chunk)
{
	uint8_t head[40];

	start(RR_CAP_RELIABLE_REPLY, true);
	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x21, 4096, 0, 16, 0, 0, 0);
	WORDS(head, A_CALL(5));
	rr_eng_head(o.e, one_op(&o, RR_OP_PULL, 0)->id, 0, head, 40, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	one_fini(&o);
}

Test(engine_slides, an_error_ends_a_reverse_call)
{
	start(0, false);
	one_send(&o, RR_RPC_CALL, 5, 40);
	ONE_RECV(&o, 5, 1, 3, ERROR, 2);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 1);
	one_fini(&o);
}

/* req: slides - #4 */
Test(engine_slides, both_directions_have_credits_of_their_own)
{
	start(0, true);
	one_send(&o, RR_RPC_CALL, 1, 40);
	cr_assert_eq(one_word(&o, 0, 2), 8);
	ONE_RECV(&o, 1, 1, 6, MSG, 0, 0, 0, A_REPLY(1));
	ONE_RECV(&o, 2, 1, 3, BCALL, 0, 0, 0, A_CALL(2));
	cr_assert_eq(one_info(&o).granted, 6, "a reverse call's request was taken for a grant");
	one_fini(&o);

	start(0, false);
	one_send(&o, RR_RPC_CALL, 1, 40);
	cr_assert_eq(one_word(&o, 0, 2), 4, "the option bc_credits");
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 40), -EAGAIN, "one until a reply says more");
	ONE_RECV(&o, 1, 1, 2, BRPLY, 0, 0, 0, A_REPLY(1));
	ONE_RECV(&o, 9, 1, 7, MSG, 0, 0, 0, A_CALL(9));
	cr_assert_eq(one_info(&o).granted, 2);
	one_fini(&o);

	one_params(&o, 0, false);
	o.p.dialect = RR_DIALECT_SLIDES;
	o.p.bc_credits = 0;
	one_start(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), -EMSGSIZE, "an option of zero: none at all");
	one_fini(&o);
}

/* Each connection is a new engine, whose driver posts these before anything is sent. */
/* req: slides - #5 */
Test(engine_slides, standing_receives_are_there_from_the_start_of_each_connection)
{
	uint32_t without;

	one_params(&o, 0, true);
	o.p.dialect = RR_DIALECT_SLIDES;
	o.p.bc_credits = 0;
	without = rr_eng_recvs(&o.p);
	o.p.bc_credits = 16;
	cr_assert_eq(rr_eng_recvs(&o.p), without + 16);
	o.e = NULL;
}

/* To a version 1 peer nothing of it exists. */
Test(engine_slides, a_version_1_peer_neither_gets_nor_takes_them)
{
	one_init(&o, 0, false);
	one_send(&o, RR_RPC_CALL, 5, 40);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	one_clear(&o);
	ONE_RECV(&o, 6, 1, 3, BCALL, 0, 0, 0, A_CALL(6));
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_fini(&o);
}
