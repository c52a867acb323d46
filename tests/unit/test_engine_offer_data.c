/* SPDX-License-Identifier: BSD-3-Clause */
/* How data in a Write chunk becomes part of the message. */

#include "tests/unit/engine_offers.h"

#define CASE(name) Test(engine_offer_data, name, .init = start, .fini = finish)

static uint32_t around;

/* A READ of 8193 bytes is out: key 0x100, offset 0x5000 + around. */
static void read_out(void)
{
	read3(8193);
	around = bound()->reply_rest;
	call_out();
	one_clear(&o);
}

/* A successful READ's reply, its data taken out; the position of that */
static uint32_t read_reply(uint32_t len)
{
	begin_reply(&m, 0);
	W(&m, 0, 1);
	add_words(&m, 21);
	W(&m, len, 1, len);
	return m.n;
}

static void receive(uint32_t inv, const uint32_t *hdr, size_t n)
{
	static uint8_t b[20000];
	uint32_t len = put_words(b, hdr, n);

	memcpy(b + len, m.b, m.n);
	one_recv(&o, b, len + m.n, inv);
}

/* A transport header, and the stream m. */
#define REPLY(inv, ...) \
	receive((inv), (const uint32_t[]){ XID, 1, 4, __VA_ARGS__ }, \
		rr_array_size(((const uint32_t[]){ XID, 1, 4, __VA_ARGS__ })))

/* … with a Write list of one chunk of one segment of ours, of so many bytes */
#define WRITTEN(len)	MSG, 0, 1, 1, 0x100, (len), 0, 0x5000 + around, 0, 0

static void is_placed(uint32_t pos, uint32_t len)
{
	const struct rr_op *p = one_op(&o, RR_OP_PLACE, 0), *d = one_op(&o, RR_OP_DELIVER, 0);

	cr_assert_not_null(p);
	cr_assert_eq(p->off, 52, "where the stream is in the receive");
	cr_assert_eq(p->stream, m.n);
	cr_assert_eq(p->at, around - pos);
	cr_assert_eq(p->nparts, 1);
	cr_assert_eq(o.parts[p - o.op][0].off, pos);
	cr_assert_eq(o.parts[p - o.op][0].len, len);
	cr_assert_eq(p->len, m.n + len + rr_ulb_pad(len));
	cr_assert_eq(d->from, RR_FROM_BUF);
	cr_assert_eq(d->buf, p->buf);
	cr_assert_eq(d->off, p->at);
	cr_assert_eq(d->len, p->len);
	cr_assert_lt(p, one_op(&o, RR_OP_REPOST, 0), "the stream is still in it");
	cr_assert_lt(p, d);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1, "of the call only");
	cr_assert_eq(o.count.v[RR_C_write_chunks_received], 1);
}

CASE(data_in_the_write_chunk_is_placed_when_it_is_fenced)
{
	uint32_t pos;

	read_out();
	pos = read_reply(5001);
	o.hold_invalidate = true;
	o.hold_send = true;
	REPLY(0, WRITTEN(5001));
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 0);
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	o.op[o.nops++] = (struct rr_op){ .code = RR_OP_RELEASE };	/* went with its Send, before */
	is_placed(pos, 5001);
}

CASE(a_key_that_the_peer_has_invalidated_is_not_invalidated_again)
{
	read_out();
	read_reply(5000);
	REPLY(0x100, WRITTEN(5000));
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 1);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

CASE(several_segments_may_be_filled_in_part)
{
	o.nsegs = 2;
	read_out();
	read_reply(5000);
	REPLY(0, MSG, 0, 1, 2, 0x100, 4096, 0, 0x5000 + around, 0x101, 904, 0, 0x5000 + around + 4096, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 1);
}

/* RFC 8166 §4.3.2.2: a server may place a later item in the chunk that the first left unused. */
/* req: rfc8166 4.3.2.2 #2 */
CASE(the_write_chunk_holds_the_largest_item_that_may_come_into_it)
{
	compound(0, 2);
	read4(300);
	read4(380);
	call_out();
	cr_assert_eq(exposed(1)->len, 380);
	around = exposed(1)->off;
	cr_assert_eq(around, bound()->reply_rest + 380);
	HEADER_IS(XID, 1, 8, MSG, 0, 1, 1, 0x100, 380, 0, 0x5000 + around, 0, 0);
	one_clear(&o);
	begin_reply(&m, 0);
	W(&m, 0, 0, 2, 25, 0, 1, 0, 25, 0, 1, 380);
	o.op[o.nops++] = (struct rr_op){ .code = RR_OP_RELEASE };	/* went with its Send, before */
	REPLY(0, WRITTEN(380));
	is_placed(m.n, 380);
}

static void is_plain(void)
{
	const struct rr_op *d = one_op(&o, RR_OP_DELIVER, 0);

	cr_assert_not_null(d);
	cr_assert_eq(d->from, RR_FROM_RECV);
	cr_assert_eq(d->len, m.n);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1, "of the chunk");
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
}

/* req: rfc8166 4.3.2.2 #4; draft-02 3.4 #5 */
CASE(an_unused_chunk_goes_back)
{
	read_out();
	begin_reply(&m, 0);
	W(&m, 70, 0);
	REPLY(0, WRITTEN(0));
	is_plain();
	again();
	read_out();
	read_reply(0);
	REPLY(0, WRITTEN(0));
	is_plain();
}

/* Servers are known that do not return what they did not use. */
/* req: rfc8166 4.3.2.2 #4 */
CASE(a_chunk_that_is_not_returned_was_not_used)
{
	read_out();
	m.n = 0;
	W(&m, XID, 1, 1, 1, 2);
	REPLY(0, MSG, 0, 0, 0);
	is_plain();
}

CASE(the_longest_reply_fits_the_buffer)
{
	uint32_t pos;

	read_out();
	begin_reply(&m, 400);
	W(&m, 0, 1);
	add_words(&m, 21);
	W(&m, 8193, 1, 8193);
	pos = m.n;
	REPLY(0, WRITTEN(8193));
	cr_assert_eq(one_op(&o, RR_OP_PLACE, 0)->at, around - pos);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, pos + 8196);
}

static void is_failed(void)
{
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 0);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
}

/* RFC 8166 §6.1, §3.4.6.2 */
#define FAILS(name, len, ...) CASE(name) \
{ \
	read_out(); \
	read_reply(len); \
	REPLY(0, __VA_ARGS__); \
	is_failed(); \
}

FAILS(more_bytes_than_the_item_has_are_a_violation, 5000, WRITTEN(5004))
/* req: rfc8166 3.4.6.2 #3 */
FAILS(fewer_bytes_than_the_item_has_are_a_violation, 5000, WRITTEN(4999))
/* req: rfc8166 3.4.6.2 #3 */
FAILS(padding_in_the_chunk_is_a_violation, 4999, WRITTEN(5000))
/* req: rfc8166 3.4.6 #1 */
FAILS(more_bytes_than_were_offered_are_a_violation, 8194, WRITTEN(8194))
FAILS(a_chunk_for_another_key_is_a_violation, 5000,
      MSG, 0, 1, 1, 0x101, 5000, 0, 0x5000 + around, 0, 0)
FAILS(a_chunk_at_another_offset_is_a_violation, 5000, MSG, 0, 1, 1, 0x100, 5000, 0, 0x5000, 0, 0)
FAILS(a_chunk_with_more_segments_is_a_violation, 5000,
      MSG, 0, 1, 2, 0x100, 5000, 0, 0x5000 + around, 0x101, 0, 0, 0, 0, 0)
/* req: rfc8166 6.1 #4 */
FAILS(more_chunks_than_were_offered_are_a_violation, 5000,
      MSG, 0, 1, 1, 0x100, 5000, 0, 0x5000 + around, 1, 0, 0, 0)

/* req: rfc8166 6.1 #4 */
CASE(bytes_for_a_result_without_data_are_a_violation)
{
	read_out();
	begin_reply(&m, 0);
	W(&m, 70, 0);
	REPLY(0, WRITTEN(5000));
	is_failed();
}

/* req: rfc8166 6.1 #5 */
CASE(data_that_is_inline_although_there_is_a_chunk_is_a_violation)
{
	read_out();
	read_reply(8);
	add_words(&m, 2);
	REPLY(0, WRITTEN(0));
	is_failed();
}

/* Whatever the bound said: what lies around the data must have room there. */
CASE(a_reply_longer_than_its_bound_is_a_violation)
{
	compound(0, 1);
	read4(8000);
	around = bound()->reply_rest;
	call_out();
	one_clear(&o);
	begin_reply(&m, 0);
	W(&m, 0);
	add_opaque(&m, around);		/* a longer tag than that of the call */
	W(&m, 1, 25, 0, 1, 5000);
	REPLY(0, WRITTEN(5000));
	is_failed();
}

CASE(a_write_list_that_nobody_asked_for_is_discarded)
{
	readdir3(8000);
	call_out();
	one_clear(&o);
	read_reply(5000);
	REPLY(0, MSG, 0, 1, 1, 0x100, 5000, 0, 0x5000, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
}

Test(engine_offer_data, of_a_peer_that_has_gone_back_to_tcp_nothing_is_awaited)
{
	one_init(&o, RR_CAP_RING_CREDITS, true);
	for (uint32_t i = 0; i < 40; i++) {
		read3(8193);
		if (one_send_bytes(&o, m.b, m.n) == -EAGAIN)
			break;
	}
	rr_eng_hatched(o.e);
	one_clear(&o);
	read3(8193);
	while (one_send_bytes(&o, m.b, m.n) == -EAGAIN)	/* the oldest is forgotten */
		cr_assert_gt(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	one_fini(&o);
}

/* With ring credits: the peer may still write to a chunk of a call that was forgotten. */
Test(engine_offer_data, a_write_chunk_is_fenced_before_its_call_is_forgotten)
{
	one_params(&o, RR_CAP_RING_CREDITS, true);
	one_start(&o);
	for (uint32_t i = 0; i < 40; i++) {
		read3(8193);
		if (one_send_bytes(&o, m.b, m.n) == -EAGAIN)
			break;
	}
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	o.now += 11 * RR_SEC;
	one_clear(&o);
	read3(8193);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), -EAGAIN);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_lt(one_op(&o, RR_OP_INVALIDATE, 0), one_op(&o, RR_OP_RELEASE, 0));
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	one_fini(&o);
}
