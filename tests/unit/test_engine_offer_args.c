/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a call's arguments goes into Read chunks. */

#include "tests/unit/engine_offers.h"

#define CASE(name) Test(engine_offer_args, name, .init = start, .fini = finish)

static void sent_part(uint32_t i, uint32_t off, uint32_t len)
{
	const struct rr_op *s = one_op(&o, RR_OP_SEND, 0);

	cr_assert_lt(i, s->nparts);
	cr_assert_eq(o.parts[s - o.op][i].off, off);
	cr_assert_eq(o.parts[s - o.op][i].len, len);
}

/* req: rfc8166 3.4.4.1 #1 #2, 3.4.4.4 #2, 3.4.5.2 #1 */
CASE(data_that_does_not_fit_goes_into_a_read_chunk_without_padding)
{
	uint32_t pos = write3(5001);
	const struct rr_op *ex;

	call_out();
	ex = exposed(1);
	cr_assert_eq(ex->buf, 1000);
	cr_assert_eq(ex->off, pos);
	cr_assert_eq(ex->len, 5001);
	cr_assert_eq(ex->rights, RR_RIGHT_READ);
	HEADER_IS(XID, 1, 8, MSG, 1, pos, 0x100, 5001, 0, 0x5000 + pos, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, pos);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->nparts, 1);
	sent_part(0, 0, pos);
	cr_assert_eq(o.count.v[RR_C_read_chunks_sent], 1);
}

CASE(data_that_fits_is_inline_to_the_byte)
{
	uint32_t fixed = write3(0);

	for (uint32_t len = 1024 - 28 - fixed - 4; len <= 1024 - 28 - fixed + 4; len++) {
		again();
		write3(len);
		call_out();
		exposed(m.n > 1024 - 28);
		cr_assert_eq(one_word(&o, 0, 4), m.n > 1024 - 28, "%u bytes", m.n);
	}
}

/* RFC 8267 §6.4.2: one Read chunk */
/* req: rfc8166 3.4.2 #1, 3.4.5 #1; rfc8267 6.4.2 #1 */
CASE(the_largest_of_several_items_goes_and_what_is_around_it_stays)
{
	uint32_t pos;

	compound(0, 3);
	write4(101);
	pos = write4(3002);
	write4(102);
	call_out();
	cr_assert_eq(exposed(1)->off, pos);
	cr_assert_eq(exposed(1)->len, 3002);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->nparts, 2);
	sent_part(0, 0, pos);
	sent_part(1, pos + 3004, m.n - pos - 3004);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, m.n - 3004);
	for (uint32_t before = 1; before <= 3; before++) {
		again();
		compound(0, before + 1);
		for (uint32_t i = 0; i < before; i++)
			write4(101);
		pos = write4(3002);
		call_out();
		cr_assert_eq(exposed(1)->off, pos, "%u", before);
	}
}

CASE(a_call_that_one_chunk_does_not_make_short_is_at_position_zero_whole)
{
	compound(0, 2);
	write4(3000);
	write4(2000);
	call_out();
	cr_assert_eq(exposed(1)->len, m.n);
	cr_assert_eq(exposed(1)->off, 0);
	HEADER_IS(XID, 1, 8, NOMSG, 1, 0, 0x100, m.n, 0, 0x5000, 0, 0, 0);
}

/* The largest Read chunk that we make is reckoned with, to the byte. */
CASE(what_is_left_of_the_call_must_fit)
{
	const uint32_t most = 1024 - 28 - 8 * 24;
	uint32_t fixed;

	compound(0, 2);
	write4(0);
	write4(0);
	fixed = m.n;
	for (uint32_t len = most - fixed - 4; len <= most - fixed + 4; len += 4) {
		again();
		o.nsegs = 8;
		compound(0, 2);
		write4(5000);
		write4(len);
		call_out();
		cr_assert_eq(one_word(&o, 0, 3), fixed + len <= most ? MSG : NOMSG);
	}
}

/* RFC 8166 §8.2.2.3 */
/* req: rfc8166 6.1 #1, 8.2.2.3 #1 */
CASE(nothing_is_reduced_under_integrity)
{
	begin_gss(&m, 3, 1, 0, 2);
	set_proc(&m, 7);
	W(&m, 5072, 99);
	add_opaque(&m, FH);
	W(&m, 0, 0, 5000, 2);
	add_opaque(&m, 5000);
	call_out();
	cr_assert_eq(exposed(2)->len, m.n);
	cr_assert_eq(one_word(&o, 0, 3), NOMSG);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 1)->len, bound()->reply_max);
}

/* Read chunk and Write chunk in one call */
CASE(a_call_may_have_both)
{
	compound(0, 2);
	write4(3000);
	read4(4000);
	call_out();
	cr_assert_eq(exposed(2)->rights, RR_RIGHT_READ);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 1)->rights, RR_RIGHT_WRITE);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	cr_assert_eq(one_word(&o, 0, 4), 1);
	cr_assert_eq(one_word(&o, 0, 11), 1);
}

/* The Send gathers from the buffer, and the peer reads from it. */
CASE(a_reduced_call_is_released_when_it_is_fenced_and_its_send_has_ended)
{
	for (int first = 0; first < 2; first++) {
		again();
		o.hold_send = true;
		write3(5000);
		call_out();
		if (first == 0)
			one_done(&o, one_op(&o, RR_OP_SEND, 0));
		else
			ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID));
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
		if (first == 0)
			ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID));
		else
			one_done(&o, one_op(&o, RR_OP_SEND, 0));
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, 1000);
		cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	}
}

CASE(a_read_chunk_waits_for_a_key)
{
	o.no_memory = true;
	write3(5000);
	call_out();
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	o.no_memory = false;
	o.now = rr_eng_deadline(o.e);
	rr_eng_tick(o.e, o.now);
	one_run(&o);
	cr_assert_eq(one_word(&o, 0, 4), 1);
}
