/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "tests/lib/oneside.h"
#include "tests/unit/ulb_msg.h"
#include "tests/unit/usable.h"

/* Replies whose result data goes into Write chunks, at the responder: strict version 1, the calls as
 * a Linux client sends them. RFC 8166 §3.4.6, §4.3.2; RFC 8267 §6.4.1. Each case ends with a
 * call that must still be answered. */

#define MSG	0
#define NOMSG	1
#define ERROR	4
#define FH	32u
#define XID	7u
#define CREDITS	8

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

#define CASE(name) Test(engine_write_chunks, name, .init = start, .fini = finish)

/* A transport header, and the call m. */
#define CALL(...) do { \
	ONE_RECV_WITH(&o, m.b, m.n, XID, 1, 20, MSG, __VA_ARGS__); \
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1); \
	one_clear(&o); \
} while (0)

/* RFC 1813 §3.3.6 */
static void read3_call(uint32_t count)
{
	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, FH);
	W(&m, 0, 0, count);
}

/* The position of its data. */
static uint32_t read3_reply(uint32_t len)
{
	begin_reply(&m, 0);
	W(&m, 0, 1);
	add_words(&m, 21);
	W(&m, len, 1);
	add_opaque(&m, len);
	return m.n - len - rr_ulb_pad(len);
}

/* Without attributes. */
static uint32_t read3_bare_reply(uint32_t len)
{
	begin_reply(&m, 0);
	W(&m, 0, 0, len, 1);
	add_opaque(&m, len);
	return m.n - len - rr_ulb_pad(len);
}

/* A COMPOUND of so many READs. RFC 7530 §16.23 */
static void read4_call(uint32_t reads)
{
	begin_call(&m, NFS, 4, 1);
	W(&m, 0, 0, reads);
	while (reads--)
		W(&m, 25, 1, 2, 3, 4, 0, 0, 10000);
}

static void read4_reply(uint32_t reads)
{
	begin_reply(&m, 0);
	W(&m, 0, 0, reads);
}

static uint32_t read4_result(uint32_t len)
{
	W(&m, 25, 0, 1);
	add_opaque(&m, len);
	return m.n - len - rr_ulb_pad(len);
}

static int answer(void)
{
	return one_send_bytes(&o, m.b, m.n);
}

static void is_written(uint32_t i, uint32_t off, uint32_t len)
{
	const struct rr_op *w = one_op(&o, RR_OP_WRITE, i);

	cr_assert_not_null(w, "Write %u", i);
	cr_assert_eq(w->off, off, "Write %u of what is at %u, not %u", i, w->off, off);
	cr_assert_eq(w->len, len, "Write %u of %u bytes", i, w->len);
	cr_assert_lt(w, one_op(&o, RR_OP_SEND, 0), "the Send came first");
}

static void seg_is(uint32_t write, uint32_t i, uint32_t handle, uint64_t offset, uint32_t len)
{
	const struct rr_op *w = one_op(&o, RR_OP_WRITE, write);
	const struct rr_seg *s = &o.segs[w - o.op][i];

	cr_assert_eq(s->handle, handle);
	cr_assert_eq(s->offset, offset);
	cr_assert_eq(s->length, len, "segment %u of %u bytes", i, s->length);
}

static void is_sent(uint32_t i, uint32_t off, uint32_t len)
{
	const struct rr_op *s = one_op(&o, RR_OP_SEND, 0);
	const struct rr_range *r = &o.parts[s - o.op][i];

	cr_assert_lt(i, s->nparts);
	cr_assert_eq(r->off, off, "part %u at %u, not %u", i, r->off, off);
	cr_assert_eq(r->len, len, "part %u of %u bytes, not %u", i, r->len, len);
}

#define HEADER_IS(...) do { \
	const uint32_t want[] = { __VA_ARGS__ }; \
	for (uint32_t w = 0; w < sizeof(want) / 4; w++) \
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u is %x", w, one_word(&o, 0, w)); \
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, sizeof(want)); \
} while (0)

/* req: rfc8166 3.4.4.1 #1 #2, 3.4.4.4 #2, 3.4.6.2 #2 #3 */
CASE(read_data_is_written_before_the_send_and_without_padding)
{
	uint32_t pos;

	read3_call(8192);
	CALL(0, 1, 2, 0x21, 4096, 0, 16, 0x22, 4100, 0, 32, 0, 0);
	pos = read3_reply(4097);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	is_written(0, pos, 4097);
	seg_is(0, 0, 0x21, 16, 4096);
	seg_is(0, 1, 0x22, 32, 1);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 2, 0x21, 4096, 0, 16, 0x22, 1, 0, 32, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, pos);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->nparts, 1);
	is_sent(0, 0, pos);
	cr_assert_eq(o.count.v[RR_C_write_chunks_sent], 1);
}

/* RFC 8166 §4.3.2: chunks that are there must be used, so the reply's bytes must outlive the call
 * that brings them */
/* req: rfc8166 4.3.2 #1; rfc8267 6.4.1 #2 */
CASE(data_that_would_fit_is_written_all_the_same)
{
	uint32_t pos;

	read3_call(100);
	CALL(0, 1, 1, 0x21, 100, 0, 16, 0, 0);
	cr_assert_not(rr_eng_is_short(o.e, RR_RPC_REPLY, 100));
	pos = read3_reply(100);
	cr_assert_eq(answer(), 0);
	is_written(0, pos, 100);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 1, 0x21, 100, 0, 16, 0, 0);
	cr_assert(rr_eng_is_short(o.e, RR_RPC_REPLY, 100));
}

/* req: rfc8166 4.3.2.2 #3; rfc8267 6.4.1 #4 */
CASE(a_reply_without_data_brings_its_chunk_back_unused)
{
	read3_call(8192);
	CALL(0, 1, 2, 0x21, 4096, 0, 16, 0x22, 4096, 0, 32, 0, 0);
	begin_reply(&m, 0);
	W(&m, 70, 0);		/* NFS3ERR_STALE */
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 2, 0x21, 0, 0, 16, 0x22, 0, 0, 32, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, m.n);
	cr_assert_eq(o.count.v[RR_C_write_chunks_sent], 0);
}

CASE(a_read_of_no_bytes_brings_its_chunk_back_unused)
{
	read3_call(8192);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
	read3_reply(0);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 1, 0x21, 0, 0, 16, 0, 0);
}

/* req: rfc8166 4.3.2.2 #3 */
CASE(an_rpc_error_brings_its_chunk_back_unused)
{
	read3_call(8192);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
	m.n = 0;
	W(&m, XID, 1, 1, 1, 2);	/* MSG_DENIED */
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 1, 0x21, 0, 0, 16, 0, 0);
}

/* RFC 8166 §8.2.2.3 */
/* req: rfc8166 6.1 #1, 8.2.2.3 #1 */
CASE(nothing_is_written_under_integrity)
{
	begin_gss(&m, 3, 1, 0, 2);
	set_proc(&m, 6);
	W(&m, 52, 99);
	add_opaque(&m, FH);
	W(&m, 0, 0, 500);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
	cr_assert(rr_eng_is_short(o.e, RR_RPC_REPLY, 500));
	read3_reply(500);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 1, 0x21, 0, 0, 16, 0, 0);
}

/* RFC 8267 §6.4.1 */
/* req: rfc8166 4.3.2.2 #1; rfc8267 6.4.1 #1 */
CASE(the_next_read_has_the_next_chunk)
{
	uint32_t pos[2];

	read4_call(2);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 1, 1, 0x22, 8192, 0, 32, 0, 0);
	read4_reply(2);
	pos[0] = read4_result(1001);
	pos[1] = read4_result(2002);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 2);
	is_written(0, pos[0], 1001);
	seg_is(0, 0, 0x21, 16, 1001);
	is_written(1, pos[1], 2002);
	seg_is(1, 0, 0x22, 32, 2002);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 1, 0x21, 1001, 0, 16, 1, 1, 0x22, 2002, 0, 32, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->nparts, 2);
	is_sent(0, 0, pos[0]);
	is_sent(1, pos[0] + 1004, pos[1] - pos[0] - 1004);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, m.n - 1004 - 2004);
}

/* req: rfc8166 3.4.2 #1; rfc8267 6.4.1 #5 */
CASE(what_has_no_chunk_is_inline)
{
	uint32_t pos;

	read4_call(2);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
	read4_reply(2);
	pos = read4_result(1001);
	read4_result(202);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	is_written(0, pos, 1001);
	is_sent(0, 0, pos);
	is_sent(1, pos + 1004, m.n - pos - 1004);
}

/* RFC 8166 §4.3.2.3 */
/* req: rfc8166 4.3.2.3 #1 #2; rfc8267 6.4.1 #3 */
CASE(an_empty_chunk_wants_its_item_inline)
{
	uint32_t pos;

	read4_call(2);
	CALL(0, 1, 0, 1, 1, 0x22, 8192, 0, 32, 0, 0);
	read4_reply(2);
	read4_result(300);
	pos = read4_result(2002);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	is_written(0, pos, 2002);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 0, 1, 1, 0x22, 2002, 0, 32, 0, 0);
}

/* req: rfc8166 3.4.6 #2 */
CASE(chunks_beyond_the_last_item_come_back_unused)
{
	read4_call(1);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 1, 1, 0x22, 8192, 0, 32, 0, 0);
	read4_reply(1);
	read4_result(300);
	cr_assert_eq(answer(), 0);
	HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 1, 0x21, 300, 0, 16, 1, 1, 0x22, 0, 0, 32, 0, 0);
}

/* To the byte; RFC 8166 §4.5.3 */
/* req: rfc8166 3.4.4.4 #1 */
CASE(an_item_longer_than_its_chunk_gets_err_chunk_and_no_write)
{
	for (uint32_t len = 2996; len <= 3004; len++) {
		one_clear(&o);
		read3_call(3000);
		CALL(0, 1, 2, 0x21, 1000, 0, 16, 0x22, 2000, 0, 32, 0, 0);
		read3_reply(len);
		cr_assert_eq(answer(), 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
		cr_assert_eq(one_word(&o, 0, 3), len <= 3000 ? MSG : ERROR, "%u bytes", len);
		cr_assert_eq(one_count(&o, RR_OP_WRITE), len <= 3000);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		cr_assert(rr_eng_is_short(o.e, RR_RPC_REPLY, 100));
	}
}

/* Linux's client, which has the XID in its offsets, would take what is behind the message for data (decision 6). */
CASE(a_linux_client_gets_no_chunk_of_data_without_attributes)
{
	uint32_t pos;

	for (uint32_t len = 100; len <= 5000; len += 4900) {
		one_clear(&o);
		read3_call(8192);
		CALL(0, 1, 1, 0x21, 8192, XID, 16, 0, 0);
		read3_bare_reply(len);
		cr_assert_eq(answer(), 0);
		cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
		if (len == 100)
			HEADER_IS(XID, 1, CREDITS, MSG, 0, 1, 1, 0x21, 0, XID, 16, 0, 0);
		else
			cr_assert_eq(one_word(&o, 0, 3), ERROR);
	}
	one_clear(&o);
	read3_call(8192);
	CALL(0, 1, 1, 0x21, 8192, XID, 16, 0, 0);
	pos = read3_reply(5000);
	cr_assert_eq(answer(), 0);
	is_written(0, pos, 5000);
}

CASE(others_get_one)
{
	uint32_t pos;

	read3_call(8192);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
	pos = read3_bare_reply(5000);
	cr_assert_eq(answer(), 0);
	is_written(0, pos, 5000);
}

/* What is left of a reply of two READs, of which one has a chunk, to the byte. */
CASE(the_inline_threshold_counts_what_is_left)
{
	const uint32_t hdr = 28 + 24, around = 24 + 12 + 2 * 16;

	for (uint32_t rest = 1024 - hdr - 4; rest <= 1024 - hdr + 4; rest += 4) {
		one_clear(&o);
		read4_call(2);
		CALL(0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
		read4_reply(2);
		read4_result(5000);
		read4_result(rest - around);
		cr_assert_eq(answer(), 0);
		cr_assert_eq(one_word(&o, 0, 3), rest <= 1024 - hdr ? MSG : ERROR, "%u bytes", rest);
		if (rest <= 1024 - hdr)
			cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, rest);
	}
}

CASE(what_is_left_and_does_not_fit_goes_to_the_reply_chunk)
{
	uint32_t pos[2], rest;

	read4_call(3);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 1, 1, 0x22, 8192, 0, 32, 0, 1, 2, 0x23, 60, 0, 1000, 0x24, 4000, 0, 64);
	read4_reply(3);
	pos[0] = read4_result(1001);
	pos[1] = read4_result(2000);
	read4_result(1500);
	rest = m.n - pos[1] - 2000;
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 5);
	is_written(0, pos[0], 1001);
	is_written(1, pos[1], 2000);
	is_written(2, 0, pos[0]);
	seg_is(2, 0, 0x23, 1000, pos[0]);
	is_written(3, pos[0] + 1004, 16);
	seg_is(3, 0, 0x23, 1000 + pos[0], 60 - pos[0]);
	seg_is(3, 1, 0x24, 64, 16 - (60 - pos[0]));
	is_written(4, pos[1] + 2000, rest);
	seg_is(4, 0, 0x24, 64 + 16 - (60 - pos[0]), rest);
	HEADER_IS(XID, 1, CREDITS, NOMSG, 0, 1, 1, 0x21, 1001, 0, 16, 1, 1, 0x22, 2000, 0, 32, 0,
		  1, 2, 0x23, 60, 0, 1000, 0x24, pos[0] + 16 + rest - 60, 0, 64);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, 0);
}

/* The item is the last there is: nothing is left behind it. */
/* req: rfc8166 3.5.3 #4 */
CASE(a_stream_that_ends_with_an_item_goes_to_the_reply_chunk_too)
{
	uint32_t pos, first;

	read4_call(2);
	CALL(0, 1, 0, 1, 1, 0x22, 8192, 0, 32, 0, 1, 1, 0x23, 4000, 0, 64);
	read4_reply(2);
	first = read4_result(2000);
	pos = read4_result(1000);
	cr_assert_gt(pos, first);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 2);
	is_written(0, pos, 1000);
	is_written(1, 0, pos);
	HEADER_IS(XID, 1, CREDITS, NOMSG, 0, 1, 0, 1, 1, 0x22, 1000, 0, 32, 0, 1, 1, 0x23, pos, 0, 64);
}

CASE(the_reply_is_released_when_every_write_and_the_send_have_ended)
{
	read4_call(2);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 1, 1, 0x22, 8192, 0, 32, 0, 0);
	read4_reply(2);
	read4_result(1001);
	read4_result(2002);
	o.hold_send = true;
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 2);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	one_done(&o, one_op(&o, RR_OP_SEND, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	o.hold_send = false;
}

/* A reply of which only the first bytes can be seen: its data may lie beyond them. */
CASE(the_first_piece_of_a_reply_is_enough)
{
	struct rr_eng_out out = { .buf = 1 };
	uint32_t pos;

	read3_call(8192);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
	pos = read3_reply(5000);
	out.head = tight(m.b, pos);
	out.have = pos;
	out.len = m.n;
	cr_assert(rr_rpc_peek(m.b, m.n, &out.rpc));
	cr_assert_eq(rr_eng_send(o.e, &out, o.now), 0);
	free((void *)out.head);
	one_run(&o);
	is_written(0, pos, 5000);
}

/* A long call, too, says how its reply is bound: more of its head is asked for. */
CASE(a_call_at_position_zero_may_have_write_chunks)
{
	const struct rr_op *pull;
	uint32_t pos;

	ONE_RECV(&o, XID, 1, 20, NOMSG, 1, 0, 0x11, 2000, 0, 0, 0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
	pull = one_op(&o, RR_OP_PULL, 0);
	cr_assert_eq(pull->head, RR_ULB_PEEK);
	cr_assert_eq(pull->room, 0);
	read3_call(8192);
	memset(m.b + m.n, 0, RR_ULB_PEEK - m.n);
	rr_eng_head(o.e, pull->id, 0, m.b, RR_ULB_PEEK, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	rr_eng_pulled(o.e, pull->id, 0, o.now);
	one_clear(&o);
	pos = read3_reply(5000);
	cr_assert_eq(answer(), 0);
	is_written(0, pos, 5000);
}

CASE(the_same_xid_twice_is_two_calls_with_their_own_chunks)
{
	read3_call(8192);
	CALL(0, 1, 1, 0x21, 8192, 0, 16, 0, 0);
	CALL(0, 1, 1, 0x22, 8192, 0, 16, 0, 0);
	read3_reply(2000);
	cr_assert_eq(answer(), 0);
	seg_is(0, 0, 0x21, 16, 2000);
	cr_assert_not(rr_eng_is_short(o.e, RR_RPC_REPLY, 100));
	cr_assert_eq(answer(), 0);
	seg_is(1, 0, 0x22, 16, 2000);
	cr_assert(rr_eng_is_short(o.e, RR_RPC_REPLY, 100));
}

Test(engine_write_chunks, with_the_escape_hatch_a_small_chunk_is_the_drivers_matter)
{
	one_init(&o, RR_CAP_HATCH, false);
	read3_call(3000);
	CALL(0, 1, 1, 0x21, 2999, 0, 16, 0, 0);
	read3_reply(3000);
	cr_assert_eq(answer(), -EMSGSIZE);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	one_fini(&o);
}

/* Such a peer can pull what does not fit. */
/* req: reliable-reply-00 - #1 */
Test(engine_write_chunks, with_reliable_replies_a_small_chunk_is_as_good_as_none)
{
	one_init(&o, RR_CAP_RELIABLE_REPLY, false);
	read3_call(3000);
	CALL(0, 1, 1, 0x21, 2999, 0, 16, 0, 0);
	read3_reply(3000);
	cr_assert_eq(answer(), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 0);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, m.n);
	one_fini(&o);
}

/* What was called is answered with that: its entry is free when the Send has ended, once. */
/* req: reliable-reply-00 - #1 */
Test(engine_write_chunks, with_reliable_replies_what_is_left_is_exposed_and_the_call_is_over)
{
	one_init(&o, RR_CAP_RELIABLE_REPLY, false);
	for (int round = 0; round < 3; round++) {
		read4_call(2);
		CALL(0, 1, 1, 0x21, 10000, 0, 16, 0, 0);
		cr_assert_eq(one_info(&o).serving, 1);
		read4_reply(2);
		read4_result(3000);
		read4_result(5000);
		cr_assert_eq(answer(), 0);
		seg_is(0, 0, 0x21, 16, 3000);
		cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->rights, RR_RIGHT_READ);
		cr_assert_eq(one_info(&o).serving, 0);
		ONE_RECV(&o, XID, 1, 20, 3);	/* DONE */
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		cr_assert_eq(answer(), 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1, "a reply to no call is dropped");
		one_clear(&o);
	}
	finish();
}
