/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call offers for its reply, by its upper-layer binding: a Write chunk, a Reply chunk, of which size; and by
 * which policy. */

#include "tests/unit/engine_offers.h"

#define CASE(name) Test(engine_offers, name, .init = start, .fini = finish)

/* req: rfc8166 3.4.6 #1, 3.4.6.2 #1 */
CASE(a_read_offers_a_write_chunk_of_what_it_asks_for)
{
	const struct rr_op *ex;
	uint32_t around;

	read3(8193);
	around = bound()->reply_rest;
	call_out();
	ex = exposed(1);
	cr_assert_eq(ex->buf, RR_BUF_NEW);
	cr_assert_eq(ex->rights, RR_RIGHT_WRITE);
	cr_assert_eq(ex->len, 8193);
	cr_assert_eq(ex->off, around);
	cr_assert_eq(ex->room, 8196 + 2 * around);
	HEADER_IS(XID, 1, 8, MSG, 0, 1, 1, 0x100, 8193, 0, 0x5000 + around, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, m.n);
}

/* req: rfc8166 4.3.3 #1 */
CASE(what_surely_fits_inline_offers_nothing_to_the_byte)
{
	uint32_t around;

	read3(0);
	around = bound()->reply_max;
	for (uint32_t count = 1024 - 164 - around - 4; count <= 1024 - 164 - around + 4; count++) {
		again();
		read3(count);
		call_out();
		exposed(bound()->reply_max > 1024 - 164);
		cr_assert_eq(one_word(&o, 0, 5), bound()->reply_max > 1024 - 164);
	}
}

/* RFC 8166 §3.3.2: a reply that we could receive may be more than the peer sends at once. */
/* req: rfc8166 3.3.3 #4, 4.3.3 #1 */
Test(engine_offers, what_the_peer_does_not_send_inline_has_a_chunk)
{
	static const struct { uint32_t peer, most; } row[] = { { 0, 4096 }, { 1024, 1024 }, { 8192, 4096 } };

	for (size_t i = 0; i < rr_array_size(row); i++) {
		for (uint32_t over = 0; over < 2; over++) {
			one_params(&o, 0, true);
			o.p.inline_recv = 4096;
			o.p.inline_peer = row[i].peer;
			one_start(&o);
			readdir3(0);
			readdir3(row[i].most - 164 - bound()->reply_max + 4 * over);
			call_out();
			exposed(over);
			finish();
		}
	}
}

/* req: rfc8166 4.3.3 #1 */
CASE(a_reply_of_which_nothing_is_eligible_has_a_reply_chunk_of_its_bound)
{
	const struct rr_op *ex;

	readdir3(8000);
	call_out();
	ex = exposed(1);
	cr_assert_eq(ex->len, bound()->reply_max);
	cr_assert_eq(ex->off, 0);
	cr_assert_eq(ex->room, ex->len);
	HEADER_IS(XID, 1, 8, MSG, 0, 0, 1, 1, 0x100, bound()->reply_max, 0, 0x5000);
}

CASE(no_reply_chunk_is_larger_than_configured)
{
	readdir3(1 << 20);
	call_out();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk_max);
}

/* What else the reply brings may not fit inline beside the Write chunk: then everything is in the
 * Reply chunk, since one key is what a server can invalidate. */
CASE(either_a_write_chunk_or_a_reply_chunk_is_offered)
{
	compound(0, 2);
	read4(8192);
	read4(400);
	call_out();
	cr_assert_eq(exposed(1)->len, bound()->reply_max);
	HEADER_IS(XID, 1, 8, MSG, 0, 0, 1, 1, 0x100, bound()->reply_max, 0, 0x5000);
}

/* req: rfc8267 6.4.2 #1 */
CASE(the_write_chunk_is_for_the_first_of_several_items)
{
	compound(0, 2);
	read4(8192);
	read4(100);
	call_out();
	cr_assert_eq(exposed(1)->len, 8192);
	cr_assert_eq(exposed(1)->off, bound()->reply_rest + 100);
	HEADER_IS(XID, 1, 8, MSG, 0, 1, 1, 0x100, 8192, 0, 0x5000 + bound()->reply_rest + 100, 0, 0);
}

/* req: rfc8166 3.4.6 #1 */
CASE(an_item_longer_than_any_chunk_has_a_reply_chunk)
{
	read3(o.p.reply_chunk_max + 1);
	call_out();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk_max);
	cr_assert_eq(one_word(&o, 0, 5), 0);
}

CASE(null_offers_nothing_but_what_makes_a_security_context_does)
{
	begin_call(&m, NFS, 3, 0);
	call_out();
	exposed(0);
	again();
	begin_gss(&m, 3, 1, 1, 1);	/* RPCSEC_GSS_INIT */
	add_opaque(&m, 400);
	call_out();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk);
	cr_assert_eq(one_word(&o, 0, 6), 1);
	again();
	begin_gss(&m, 3, 1, 0, 1);	/* RPCSEC_GSS_DATA */
	call_out();
	exposed(0);
}

/* A program that has no binding, too. */
CASE(a_security_context_of_any_program_has_a_reply_chunk)
{
	begin_gss(&m, 3, 1, 1, 1);
	rr_put_be32(m.b + 12, 0x20005244);
	call_out();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk);
	again();
	begin_call(&m, 0x20005244, 1, 0);
	call_out();
	exposed(0);
}

/* RFC 8267 §6.2.2 */
static void unbounded(void)
{
	compound(1, 2);
	W(&m, 53, 0, 0, 0, 0, 1, 2, 3, 0);	/* SEQUENCE */
	W(&m, 9, 1, 1 << 12);		/* GETATTR of the ACL */
	call_out();
}

CASE(the_largest_session_bounds_what_has_no_bound)
{
	unbounded();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk, "nothing is known");
	again();
	o.p.reply_chunk_max = 1 << 20;
	finish();
	one_start(&o);
	for (uint32_t i = 0; i < 2; i++) {
		from_vector(&m, &v41_create_session_call);
		rr_put_be32(m.b + 4 * 25, 30000 - i);	/* ca_maxresponsesize, fore channel */
		call_out();
		ONE_RECV(&o, 2, 1, 4, MSG, 0, 0, 0, A_REPLY(2));
	}
	one_clear(&o);
	unbounded();
	cr_assert_eq(exposed(1)->len, 30000);
}

CASE(learned_sizes_are_those_of_replies_without_bound)
{
	static struct rr_sizes sizes;

	finish();
	one_params(&o, 0, true);
	o.p.sizes = &sizes;
	one_start(&o);
	read3(8192);
	call_out();
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, XID, 1, 0, 0, 0, 0, 70, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(rr_sizes_get(&sizes, NFS, 3, 6), 0);
	one_clear(&o);
	read3(8192);
	call_out();
	ONE_RECV(&o, XID, 1, 4, 4, 2);
	/* the next one would be no other: connections to this peer had better stay on TCP */
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_REFUSED);
	cr_assert_eq(rr_sizes_get(&sizes, NFS, 3, 6), 0);
}

Test(engine_offers, with_reliable_replies_nothing_is_offered)
{
	one_init(&o, RR_CAP_RELIABLE_REPLY, true);
	read3(8192);
	call_out();
	exposed(0);
	one_fini(&o);
}

/* RFC 8167 §5.3 */
Test(engine_offers, a_reverse_call_offers_nothing)
{
	one_init(&o, 0, false);
	read3(8192);
	call_out();
	exposed(0);
	write3(2000);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), -EMSGSIZE);
	one_fini(&o);
}

/* --- the policy ---------------------------------------------------------------------------- */

static void with_policy(uint32_t caps, bool connector, enum rr_reply_chunks policy)
{
	one_params(&o, caps, connector);
	o.p.reply_chunks = policy;
	one_start(&o);
}

Test(engine_offers, the_bounded_policy_offers_what_the_binding_knows_beside_reliable_replies)
{
	const struct rr_op *ex;

	with_policy(RR_CAP_RELIABLE_REPLY, true, RR_REPLY_CHUNKS_BOUNDED);
	readdir3(8192);
	call_out();
	ex = exposed(1);
	cr_assert_eq(ex->rights, RR_RIGHT_WRITE);
	cr_assert_eq(ex->len, bound()->reply_max);
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 99, 40), 0);	/* who knows? */
	exposed(0);
	one_fini(&o);
}

Test(engine_offers, beside_reliable_replies_a_long_call_is_pulled_whole)
{
	with_policy(RR_CAP_RELIABLE_REPLY, true, RR_REPLY_CHUNKS_BOUNDED);
	write3(5001);
	call_out();
	cr_assert_eq(exposed(1)->len, m.n);
	cr_assert_eq(one_word(&o, 0, 3), NOMSG);
	cr_assert_eq(one_word(&o, 0, 5), 0, "not at position zero");
	one_fini(&o);
}

Test(engine_offers, what_was_offered_is_fenced_before_a_reply_that_is_pulled_instead)
{
	uint8_t head[24];
	uint32_t id;

	with_policy(RR_CAP_RELIABLE_REPLY, true, RR_REPLY_CHUNKS_BOUNDED);
	readdir3(8192);
	call_out();
	o.hold_invalidate = true;
	ONE_RECV(&o, XID, 1, 4, NOMSG, 1, 0, 0x21, 9000, 0, 16, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_REPLY(XID));
	rr_eng_head(o.e, id, 0, head, 24, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->from, RR_FROM_PULL);
	one_fini(&o);
}

Test(engine_offers, the_bounded_policy_offers_nothing_where_nothing_is_known)
{
	with_policy(0, true, RR_REPLY_CHUNKS_BOUNDED);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, XID, 40), 0);
	exposed(0);
	one_clear(&o);
	ONE_RECV(&o, XID, 1, 4, 4, 2);	/* it will not be more next time */
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_TOO_LARGE);
	one_fini(&o);
}

Test(engine_offers, the_never_policy_offers_write_chunks_alone)
{
	with_policy(0, true, RR_REPLY_CHUNKS_NEVER);
	readdir3(8192);
	call_out();
	exposed(0);
	ONE_RECV(&o, XID, 1, 4, 4, 2);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_TOO_LARGE);
	one_fini(&o);
	with_policy(0, true, RR_REPLY_CHUNKS_NEVER);
	read3(8192);
	call_out();
	exposed(1);
	one_fini(&o);
}

/* RFC 8167 §5.3 */
Test(engine_offers, a_reverse_call_has_chunks_where_that_is_agreed)
{
	one_init(&o, RR_CAP_REVERSE_CHUNKS, false);
	readdir3(8192);
	call_out();
	cr_assert_eq(exposed(1)->len, bound()->reply_max);
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID));
	one_clear(&o);
	write3(5001);
	call_out();
	cr_assert_eq(exposed(1)->len, 5001);
	cr_assert_neq(one_word(&o, 0, 5), 0, "the data alone");
	one_fini(&o);
}
