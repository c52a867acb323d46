/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "tests/lib/oneside.h"
#include "tests/unit/ulb_msg.h"
#include "tests/unit/usable.h"

/* Calls whose argument data comes by Read chunks, at the responder: strict version 1, as a Linux
 * client sends them. RFC 8166 §3.4.5, §6.1. Each case ends with a call that must still be
 * answered. */

#define MSG	0
#define NOMSG	1
#define ERROR	4
#define FH	32u
#define XID	7u		/* of begin_call() */

static struct one o;
static struct msg m;

static void start(void)
{
	one_init(&o, 0, false);
}

static void finish(void)
{
	one_end_usable(&o);
}

#define CASE(name) Test(engine_read_chunks, name, .init = start, .fini = finish)

/* A transport header, and the Payload stream m. */
#define RECV(...)	ONE_RECV_WITH(&o, m.b, m.n, XID, 1, 20, __VA_ARGS__)

/* RFC 1813 §3.3.7, its data taken out; the position of that */
static uint32_t write3(uint32_t len)
{
	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, FH);
	W(&m, 0, 0, len, 2, len);
	return m.n;
}

static void begin_compound(uint32_t ops)
{
	begin_call(&m, NFS, 4, 1);
	W(&m, 0, 0, ops);
}

/* RFC 7530 §16.36; the position of its data */
static uint32_t write4(uint32_t len)
{
	W(&m, 38, 1, 2, 3, 4, 0, 0, 2);
	add_opaque(&m, len);
	return m.n - len - rr_ulb_pad(len);
}

static void reduce(uint32_t pos, uint32_t len)
{
	cut(&m, pos, len + rr_ulb_pad(len));
}

static void is_refused(void)
{
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 0), XID);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_word(&o, 0, 4), 2);
	one_clear(&o);
}

static const struct rr_op *composed(uint32_t parts, uint32_t len)
{
	const struct rr_op *op = one_op(&o, RR_OP_COMPOSE, 0);

	cr_assert_not_null(op);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(op->nparts, parts);
	cr_assert_eq(op->len, len, "%u bytes, not %u", op->len, len);
	return op;
}

static void part_is(const struct rr_op *op, uint32_t i, uint32_t off, uint32_t len)
{
	const struct rr_range *r = &o.parts[op - o.op][i];

	cr_assert_eq(r->off, off, "part %u at %u", i, r->off);
	cr_assert_eq(r->len, len, "part %u of %u bytes", i, r->len);
}

static void seg_is(const struct rr_op *op, uint32_t i, uint32_t handle, uint32_t len)
{
	const struct rr_seg *s = &o.segs[op - o.op][i];

	cr_assert_eq(s->handle, handle);
	cr_assert_eq(s->length, len, "segment %u of %u bytes", i, s->length);
}

static void is_delivered(const struct rr_op *op)
{
	uint32_t id = op->id, len = op->len;

	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	op = one_op(&o, RR_OP_DELIVER, 0);
	cr_assert_eq(op->from, RR_FROM_PULL);
	cr_assert_eq(op->id, id);
	cr_assert_eq(op->len, len);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(o.count.v[RR_C_read_chunks_received], 1);
	cr_assert(rr_eng_is_short(o.e, RR_RPC_REPLY, 100), "its reply has no Write chunk");
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, XID, 24), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
}

CASE(a_write_is_composed_of_its_stream_and_its_read_chunk)
{
	uint32_t pos = write3(5001);
	const struct rr_op *op;

	RECV(MSG, 1, pos, 0x11, 5000, 0, 64, 1, pos, 0x12, 1, 0, 128, 0, 0, 0);
	op = composed(1, pos + 5004);
	cr_assert_eq(op->from, RR_FROM_RECV);
	cr_assert_eq(op->off, 28 + 48);
	cr_assert_eq(op->stream, m.n);
	cr_assert_eq(op->nsegs, 2);
	part_is(op, 0, pos, 5001);
	seg_is(op, 0, 0x11, 5000);
	seg_is(op, 1, 0x12, 1);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 0, "the stream is still in it");
	is_delivered(op);
	cr_assert(o.count.v[RR_C_inline_received] == 1 && o.count.v[RR_C_long_calls_received] == 0);
}

/* 8166 §3.4.5.2: padding may be in the chunk; what it holds is not fetched */
/* req: rfc8166 3.4.5.2 #2 */
CASE(padding_in_the_chunk_is_left_there)
{
	uint32_t pos = write3(5001);
	const struct rr_op *op;

	RECV(MSG, 1, pos, 0x11, 5001, 0, 64, 1, pos, 0x12, 3, 0, 128, 0, 0, 0);
	op = composed(1, pos + 5004);
	part_is(op, 0, pos, 5001);
	seg_is(op, 0, 0x11, 5001);
	seg_is(op, 1, 0x12, 0);
	is_delivered(op);
}

/* req: rfc8166 3.4.5.2 #2 */
CASE(padding_in_the_last_segment_is_left_there)
{
	uint32_t pos = write3(5001);
	const struct rr_op *op;

	RECV(MSG, 1, pos, 0x11, 5004, 0, 64, 0, 0, 0);
	op = composed(1, pos + 5004);
	seg_is(op, 0, 0x11, 5001);
	is_delivered(op);
}

/* req: rfc8166 3.4.4.4 #1, 3.4.5.2 #3 */
CASE(a_chunk_must_have_its_items_length)
{
	uint32_t pos = write3(5001);
	static const uint32_t wrong[] = { 0, 4997, 5000, 5002, 5003, 5005, 5008 };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		RECV(MSG, 1, pos, 0x11, wrong[i], 0, 64, 0, 0, 0);
		is_refused();
	}
}

/* req: rfc8166 3.4.5 #1 */
CASE(a_chunk_must_stand_where_its_item_does)
{
	uint32_t pos = write3(5000);

	RECV(MSG, 1, pos - 4, 0x11, 5000, 0, 64, 0, 0, 0);
	is_refused();
	RECV(MSG, 1, pos + 4, 0x11, 5000, 0, 64, 0, 0, 0);
	is_refused();
	RECV(MSG, 1, pos, 0x11, 5000, 0, 64, 1, pos + 5000, 0x12, 4, 0, 128, 0, 0, 0);
	is_refused();
}

/* req: rfc8166 6.1 #2 #3 */
CASE(what_is_not_eligible_may_not_be_in_a_read_chunk)
{
	uint32_t pos;

	begin_call(&m, NFS, 3, 3);	/* LOOKUP */
	add_opaque(&m, FH);
	W(&m, 2000);
	pos = m.n;
	RECV(MSG, 1, pos, 0x11, 2000, 0, 64, 0, 0, 0);
	is_refused();
}

/* req: rfc8166 6.1 #2 */
CASE(a_program_without_binding_may_not_use_read_chunks)
{
	begin_call(&m, 0x20005244, 1, 1);
	W(&m, 2000);
	RECV(MSG, 1, m.n, 0x11, 2000, 0, 64, 0, 0, 0);
	is_refused();
}

/* 8166 §8.2.2.3 */
/* req: rfc8166 8.2.2.3 #1 */
CASE(nothing_is_eligible_under_integrity)
{
	uint32_t pos;

	begin_gss(&m, 3, 1, 0, 2);
	set_proc(&m, 7);
	W(&m, 5072, 99);
	add_opaque(&m, FH);
	W(&m, 0, 0, 5000, 2, 5000);
	pos = m.n;
	RECV(MSG, 1, pos, 0x11, 5000, 0, 64, 0, 0, 0);
	is_refused();
}

CASE(a_message_is_in_the_send_or_at_position_zero_but_not_both)
{
	begin_call(&m, NFS, 3, 0);
	RECV(MSG, 1, 0, 0x11, 40, 0, 64, 0, 0, 0);
	is_refused();
}

/* 8166 §3.4.5: by position, a chunk's segments in list order, however they lie in the list */
CASE(several_chunks_may_be_listed_in_any_order)
{
	uint32_t pos[2];
	const struct rr_op *op;

	begin_compound(2);
	pos[0] = write4(1001);
	pos[1] = write4(2000);
	reduce(pos[1], 2000);
	reduce(pos[0], 1001);
	RECV(MSG, 1, pos[1], 0x21, 1500, 0, 0, 1, pos[0], 0x11, 1000, 0, 0, 1, pos[1], 0x22, 500, 0, 0,
	     1, pos[0], 0x12, 4, 0, 0, 0, 0, 0);
	op = composed(2, m.n + 1004 + 2000);
	part_is(op, 0, pos[0], 1001);
	part_is(op, 1, pos[1], 2000);
	cr_assert_eq(op->nsegs, 4);
	seg_is(op, 0, 0x11, 1000);
	seg_is(op, 1, 0x12, 1);
	seg_is(op, 2, 0x21, 1500);
	seg_is(op, 3, 0x22, 500);
	is_delivered(op);
}

CASE(one_of_two_items_may_be_inline)
{
	uint32_t pos[2];
	const struct rr_op *op;

	begin_compound(2);
	pos[0] = write4(101);
	pos[1] = write4(2000);
	reduce(pos[1], 2000);
	RECV(MSG, 1, pos[1], 0x21, 2000, 0, 0, 0, 0, 0);
	op = composed(1, m.n + 2000);
	part_is(op, 0, pos[1], 2000);
	is_delivered(op);
}

CASE(an_item_without_bytes_may_have_a_chunk)
{
	uint32_t pos = write3(0);
	const struct rr_op *op;

	RECV(MSG, 1, pos, 0x21, 0, 0, 0, 0, 0, 0);
	op = composed(1, m.n);
	is_delivered(op);
}

/* --- the stream itself is at position zero ------------------------------------------------- */

static const struct rr_op *pull(uint32_t pos, uint32_t len)
{
	uint32_t stream = m.n;
	const struct rr_op *op;

	m.n = 0;
	RECV(NOMSG, 1, pos, 0x21, len, 0, 0, 1, 0, 0x11, stream, 0, 0, 0, 0, 0);
	m.n = stream;
	op = one_op(&o, RR_OP_PULL, 0);
	cr_assert_not_null(op);
	cr_assert_eq(op->len, stream);
	cr_assert_eq(op->head, stream, "the judge needs all of it");
	cr_assert_geq(op->room, stream + len);
	cr_assert_eq(op->nsegs, 1);
	seg_is(op, 0, 0x11, stream);
	return op;
}

static void head(const struct rr_op *op)
{
	uint8_t *copy = edged(m.b, m.n);

	rr_eng_head(o.e, op->id, 0, copy, m.n, o.now);
	edge_back();
	one_run(&o);
}

/* req: rfc8267 6.4.2 #2 */
CASE(a_long_stream_is_pulled_and_judged_before_its_read_chunk)
{
	uint32_t pos = write3(5001), id;
	const struct rr_op *op;

	op = pull(pos, 5004);
	id = op->id;
	head(op);
	op = composed(1, pos + 5004);
	cr_assert_eq(op->id, id);
	cr_assert_eq(op->from, RR_FROM_PULL);
	cr_assert_eq(op->stream, m.n);
	part_is(op, 0, pos, 5001);
	seg_is(op, 0, 0x21, 5001);
	is_delivered(op);
	cr_assert(o.count.v[RR_C_inline_received] == 0 && o.count.v[RR_C_long_calls_received] == 1);
}

/* req: rfc8166 6.1 #3 */
CASE(a_long_stream_with_a_chunk_in_the_wrong_place_is_refused)
{
	uint32_t pos = write3(5001);
	const struct rr_op *op;

	op = pull(pos + 4, 5004);
	head(op);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, RR_BUF_NONE);
	is_refused();
}

/* RFC 8166 §4.3.1: nothing is pulled for a reply */
CASE(a_reply_at_position_zero_with_other_chunks_is_discarded)
{
	const struct rr_op *op;

	begin_reply(&m, 0);
	add_words(&m, 20);
	op = pull(40, 100);
	head(op);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
}

/* reliable-reply-00 has position zero only */
Test(engine_read_chunks, nor_is_it_taken_where_reliable_replies_are_agreed)
{
	const struct rr_op *op;

	one_init(&o, RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS, true);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, XID, 40), 0);
	one_clear(&o);
	begin_reply(&m, 0);
	add_words(&m, 20);
	op = pull(40, 100);
	head(op);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, RR_BUF_NONE);
	cr_assert_eq(one_word(&o, 0, 3), 3, "the peer is told DONE");
	one_fini(&o);
}

CASE(what_comes_behind_is_delivered_behind)
{
	uint32_t pos = write3(5000);
	const struct rr_op *op;

	RECV(MSG, 1, pos, 0x11, 5000, 0, 64, 0, 0, 0);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, NULL_CALL(6));
	op = composed(1, pos + 5000);
	rr_eng_pulled(o.e, op->id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 2);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.xid, XID);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 1)->rpc.xid, 6);
}

/* --- limits ----------------------------------------------------------------------------- */

static void is_above_limits(void)
{
	is_refused();
	cr_assert_eq(o.count.v[RR_C_chunk_limits], 1);
	o.count.v[RR_C_chunk_limits] = 0;
}

/* A Read list of n chunks, position step bytes apart, of segs segments each. */
static void read_list(uint32_t n, uint32_t step, uint32_t segs, uint32_t len)
{
	static uint8_t b[20000];
	uint32_t at = WORDS(b, XID, 1, 20, MSG);

	for (uint32_t i = 0; i < n * segs; i++)
		at += WORDS(b + at, 1, 96 + i / segs * step, 0x11, len, 0, 0);
	at += WORDS(b + at, 0, 0, 0);
	memcpy(b + at, m.b, m.n);
	one_recv(&o, b, at + m.n, 0);
}

/* req: rfc8267 6.4.2 #2 #3 */
CASE(chunks_segments_and_bytes_are_limited)
{
	write3(5000);
	read_list(1, 4, 9, 4);			/* max_segs is 8 */
	is_above_limits();
	read_list(5, 4, 1, 4);			/* max_chunks is 4 */
	is_above_limits();
	read_list(1, 4, 1, 2 << 20);		/* max_msg is 1 MiB */
	is_above_limits();
	read_list(2, 4, 8, 1 << 17);
	is_above_limits();
	read_list(1, 4, 8, 0x20000000);
	is_above_limits();
	read_list(1, 4, 8, 4);			/* is none above, but at no item */
	is_refused();
	cr_assert_eq(o.count.v[RR_C_chunk_limits], 0);
}

CASE(read_write_and_reply_chunks_are_counted_together)
{
	uint32_t pos = write3(5000);

	RECV(MSG, 1, pos, 0x11, 5000, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0);
	is_above_limits();
	RECV(MSG, 1, pos, 0x11, 5000, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0);
	composed(1, pos + 5000);
	rr_eng_pulled(o.e, one_op(&o, RR_OP_COMPOSE, 0)->id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

CASE(a_message_longer_than_the_largest_with_its_chunks_is_refused)
{
	uint32_t pos = write3(1 << 20);

	RECV(MSG, 1, pos, 0x11, 1 << 20, 0, 0, 0, 0, 0);
	is_refused();
}

Test(engine_read_chunks, a_failed_read_ends_the_connection)
{
	uint32_t pos;

	start();
	pos = write3(5000);
	RECV(MSG, 1, pos, 0x11, 5000, 0, 64, 0, 0, 0);
	rr_eng_pulled(o.e, composed(1, pos + 5000)->id, -EACCES, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_fini(&o);
}

/* RFC 8167 §5.3: reverse calls have no chunks that were not agreed on */
/* req: rfc8167 5.3 #1 */
Test(engine_read_chunks, a_reverse_call_may_have_none)
{
	uint32_t pos;

	one_init(&o, 0, true);
	pos = write3(5000);
	RECV(MSG, 1, pos, 0x11, 5000, 0, 64, 0, 0, 0);
	is_refused();
	one_fini(&o);
}

/* --- leniency ---------------------------------------------------------------------------- */

static void lenient(void)
{
	one_params(&o, 0, false);
	o.p.lenient_read_chunks = true;
	one_start(&o);
}

#define LENIENT(name) Test(engine_read_chunks, name, .init = lenient, .fini = finish)

LENIENT(leniency_takes_chunks_of_any_program)
{
	const struct rr_op *op;

	begin_call(&m, 0x20005244, 1, 1);
	W(&m, 5, 6);
	RECV(MSG, 1, 44, 0x11, 2001, 0, 64, 0, 0, 0);
	op = composed(1, 40 + 8 + 2004);
	part_is(op, 0, 44, 2001);
	is_delivered(op);
}

LENIENT(leniency_takes_a_chunk_behind_the_stream)
{
	begin_call(&m, 0x20005244, 1, 1);
	RECV(MSG, 1, 40, 0x11, 2000, 0, 64, 0, 0, 0);
	is_delivered(composed(1, 2040));
}

LENIENT(leniency_knows_paddings_of_a_binding)
{
	uint32_t pos = write3(5001);
	const struct rr_op *op;

	RECV(MSG, 1, pos, 0x11, 5004, 0, 64, 0, 0, 0);
	op = composed(1, pos + 5004);
	part_is(op, 0, pos, 5001);
	is_delivered(op);
}

LENIENT(leniency_takes_no_chunk_that_the_stream_does_not_reach)
{
	begin_call(&m, 0x20005244, 1, 1);
	RECV(MSG, 1, 44, 0x11, 2000, 0, 64, 0, 0, 0);
	is_refused();
	RECV(MSG, 1, 40, 0x11, 2000, 0, 64, 1, 2044, 0x11, 4, 0, 0, 0, 0, 0);
	is_refused();
	RECV(MSG, 1, 40, 0x11, 2000, 0, 64, 1, 44, 0x11, 4, 0, 0, 0, 0, 0);
	is_refused();
}

LENIENT(leniency_leaves_the_rpc_header_alone)
{
	begin_call(&m, 0x20005244, 1, 1);
	RECV(MSG, 1, 36, 0x11, 2000, 0, 64, 0, 0, 0);
	is_refused();
}
