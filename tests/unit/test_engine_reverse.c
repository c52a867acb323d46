/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/lib/oneside.h"

/* RFC 8167: calls against the connection's direction. */

#define MSG	0
#define NOMSG	1
#define ERROR	4

static struct one o;

/* req: rfc8167 5.1 #3, 5.2 #3; rfc8267 6.5.2 #1 */
Test(engine_reverse, the_same_xid_may_be_outstanding_both_ways)
{
	one_init(&o, RR_CAP_RELIABLE_REPLY, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.type, RR_RPC_CALL);
	cr_assert_eq(one_info(&o).inflight, 1, "the peer's call was taken for our reply");
	cr_assert_eq(one_info(&o).serving, 1);
	one_send(&o, RR_RPC_REPLY, 5, 24);
	cr_assert_eq(one_info(&o).inflight, 1);
	cr_assert_eq(one_info(&o).serving, 0);
	ONE_RECV(&o, 5, 1, 3, MSG, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 1)->rpc.type, RR_RPC_REPLY);
	cr_assert_eq(one_info(&o).inflight, 0);
	cr_assert_eq(o.count.v[RR_C_reverse_calls_received], 1);
	one_fini(&o);
}

/* RFC 8167 §4.1 */
Test(engine_reverse, credits_are_counted_apart)
{
	one_init(&o, RR_CAP_RELIABLE_REPLY, true);
	one_send(&o, RR_RPC_CALL, 1, 40);
	ONE_RECV(&o, 1, 1, 6, MSG, 0, 0, 0, A_REPLY(1));
	cr_assert_eq(one_info(&o).granted, 6);
	ONE_RECV(&o, 2, 1, 3, MSG, 0, 0, 0, A_CALL(2));
	cr_assert_eq(one_info(&o).granted, 6, "a reverse call's request was taken for a grant");
	one_clear(&o);
	one_send(&o, RR_RPC_REPLY, 2, 24);
	cr_assert_eq(one_word(&o, 0, 2), 3);
	one_clear(&o);
	one_send(&o, RR_RPC_CALL, 3, 40);
	cr_assert_eq(one_word(&o, 0, 2), 8, "ask for forward credits");
	one_fini(&o);
}

Test(engine_reverse, the_accepting_side_asks_for_reverse_credits_and_starts_with_one)
{
	one_init(&o, RR_CAP_RELIABLE_REPLY, false);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0);
	cr_assert_eq(one_word(&o, 0, 2), 4);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 40), -EAGAIN);
	cr_assert_eq(o.count.v[RR_C_reverse_calls_sent], 1);
	one_fini(&o);
}

/* A writer whose reverse call was refused sleeps until it would be taken, however much room there
 * is for replies; and the other way round. */
Test(engine_reverse, what_was_refused_last_is_what_there_is_room_for)
{
	one_init(&o, RR_CAP_RELIABLE_REPLY, false);
	ONE_RECV(&o, 7, 1, 6, MSG, 0, 0, 0, A_CALL(7));
	one_send(&o, RR_RPC_CALL, 1, 40);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 40), -EAGAIN);
	cr_assert_not(rr_eng_writable(o.e));
	cr_assert(rr_eng_would_take(o.e, RR_RPC_REPLY, o.now));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 7, 24), 0);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_not(rr_eng_would_take(o.e, RR_RPC_CALL, o.now));
	cr_assert_not(rr_eng_writable(o.e));
	ONE_RECV(&o, 1, 1, 2, MSG, 0, 0, 0, A_REPLY(1));
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 40), 0);
	one_fini(&o);
}

Test(engine_reverse, without_reverse_credits_there_are_no_reverse_calls)
{
	one_params(&o, 0, false);
	o.p.bc_credits = 0;
	one_start(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), -EMSGSIZE);
	one_fini(&o);
}

/* RFC 8167 §5.3 */
/* req: rfc8267 6.5.2 #2 */
Test(engine_reverse, a_reverse_call_is_inline_or_nothing_to_a_strict_peer)
{
	one_init(&o, 0, false);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 1024 - 28 + 1), -EMSGSIZE);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 1024 - 28), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	one_fini(&o);
}

/* req: rfc8167 5.3 #1 */
Test(engine_reverse, a_reverse_call_with_a_reply_chunk_gets_err_chunk)
{
	one_init(&o, 0, true);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_word(&o, 0, 4), 2);
	one_fini(&o);
}

/* req: rfc8167 5.3 #1 */
Test(engine_reverse, a_long_reverse_call_is_known_by_its_head_and_gets_err_chunk)
{
	uint8_t head[40];
	uint32_t id;

	one_init(&o, 0, true);
	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x21, 4096, 0, 16, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_CALL(5));
	rr_eng_head(o.e, id, 0, head, 40, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->id, id);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	one_fini(&o);
}

/* Where both are shims a long callback is carried, as TCP would, and gets no DONE. */
Test(engine_reverse, between_shims_a_long_reverse_call_is_carried)
{
	uint8_t head[40];
	uint32_t id;

	one_init(&o, RR_CAP_RELIABLE_REPLY, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	ONE_RECV(&o, 5, 1, 2, NOMSG, 1, 0, 0x21, 4096, 0, 16, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_CALL(5));
	rr_eng_head(o.e, id, 0, head, 40, o.now);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.type, RR_RPC_CALL);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_info(&o).inflight, 1);
	cr_assert_eq(one_info(&o).granted, 1);
	one_fini(&o);
}

/* RFC 8167 §5.3: chunks where the binding of the program allows them. */
Test(engine_reverse, where_it_is_agreed_a_reverse_call_may_have_a_reply_chunk)
{
	one_init(&o, RR_CAP_REVERSE_CHUNKS, true);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 1, 1, 0x21, 4096, 0, 16, A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 3000), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	cr_assert_eq(one_word(&o, 0, 3), NOMSG);
	one_fini(&o);
}

/* req: rfc8167 5.3 #1 */
Test(engine_reverse, where_it_is_agreed_data_that_no_binding_moves_gets_err_chunk)
{
	one_init(&o, RR_CAP_REVERSE_CHUNKS, true);
	ONE_RECV(&o, 5, 1, 20, MSG, 1, 40, 0x21, 4096, 0, 16, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_word(&o, 0, 4), 2);
	one_fini(&o);
}

Test(engine_reverse, the_slides_have_no_chunks_in_reverse_whatever_is_agreed)
{
	one_params(&o, RR_CAP_REVERSE_CHUNKS | RR_CAP_RELIABLE_REPLY, false);
	o.p.dialect = RR_DIALECT_SLIDES;
	one_start(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 1024 - 28 + 1), -EMSGSIZE);
	one_fini(&o);
}
