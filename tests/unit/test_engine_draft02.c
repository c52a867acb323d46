/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/engine_draft02.h"

/* draft-ietf-nfsv4-rpcrdma-02: replies by Read chunk, RDMA_DONE, credits, errors. */

#define XID	7u		/* of begin_call() */
#define UNBOUND	0x20005244u	/* a program without binding */

static struct msg m;

static void start(bool connector)
{
	d02_params(connector);
	one_start(&o);
}

#define CLIENT(name) Test(engine_draft02, name, .init = start_client, .fini = finish)
#define SERVER(name) Test(engine_draft02, name, .init = start_server, .fini = finish)

/* A transport header of XID, and the Payload stream m. */
#define RECV(...)	ONE_RECV_WITH(&o, m.b, m.n, XID, 1, 20, __VA_ARGS__)

static uint32_t count_type(uint32_t type)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < one_count(&o, RR_OP_SEND); i++)
		n += one_word(&o, i, 3) == type;
	return n;
}

/* Our call, of a program without binding. */
static void call_out(uint32_t xid)
{
	begin_call(&m, UNBOUND, 1, 1);
	rr_put_be32(m.b, xid);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	m.n = 0;
}

/* READ (RFC 1813 §3.3.6) of ours. */
static void read_out(uint32_t count)
{
	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, 32);
	W(&m, 0, 0, count);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
}

/* Its reply, the data taken out; the position of that */
static uint32_t read_reply(uint32_t len)
{
	begin_reply(&m, 0);
	W(&m, 0, 0, len, 1, len);
	return m.n;
}

/* The reply xid as a Read chunk of len bytes: pulled whole. */
static void long_reply(uint32_t xid, uint32_t grant, uint32_t len)
{
	uint8_t head[24];
	uint32_t id;

	one_clear(&o);
	ONE_RECV(&o, xid, 1, grant, NOMSG, 1, 0, 0x21, len, 0, 16, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_REPLY(xid));
	rr_eng_head(o.e, id, 0, head, sizeof(head), o.now);
	one_run(&o);
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
}

static void composed(void)
{
	rr_eng_pulled(o.e, one_op(&o, RR_OP_COMPOSE, 0)->id, 0, o.now);
	one_run(&o);
}

/* --- the server ------------------------------------------------------------------------- */

/* req: draft-02 5.2 #1, 3.4 #2 #3, 3.8 #3 */
SERVER(a_reply_that_fits_nowhere_is_a_read_chunk_without_any_agreement)
{
	ONE_RECV(&o, 5, 1, 1, MSG, 0, 0, 0, A_CALL(5));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 2000), 0);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->rights, RR_RIGHT_READ);
	uint32_t want[] = { 5, 1, 2, NOMSG, 1, 0, 0x100, 2000, 0, 0x5000, 0, 0, 0 };
	for (uint32_t w = 0; w < 13; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	ONE_RECV(&o, 5, 1, 20, DONE);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1, "the credit of DONE");
}

/* req: draft-02 3.7 #1 #2, 5.2 #1 */
SERVER(a_calls_own_chunks_come_first)
{
	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, 32);
	W(&m, 0, 0, 2000);
	RECV(MSG, 0, 1, 1, 0x21, 2000, 0, 16, 0, 0);
	read_reply(2000);
	m.n += 2000;
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	ONE_RECV(&o, 9, 1, 20, MSG, 0, 0, 1, 1, 0x21, 4000, 0, 16, A_CALL(9));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 9, 3000), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 2);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	ONE_RECV(&o, 10, 1, 20, MSG, 0, 0, 1, 1, 0x21, 2999, 0, 16, A_CALL(10));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 10, 3000), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1, "too small a Reply chunk");
}

/* Its Read chunk, as the Send has it, begins at word w: lengths and offsets of the segments. */
static uint32_t read_seg(uint32_t w, uint32_t len, uint32_t off)
{
	cr_assert_eq(one_word(&o, 0, w), 1);
	cr_assert_eq(one_word(&o, 0, w + 1), 0);
	cr_assert_eq(one_word(&o, 0, w + 3), len);
	cr_assert_eq(one_word(&o, 0, w + 5), 0x5000 + off);
	return w + 6;
}

/* req: draft-02 3.7 #1 */
Test(engine_draft02, the_rest_of_a_reply_with_write_chunks_is_a_read_chunk)
{
	uint32_t pos, w;

	one_params(&o, 0, false);
	o.p.dialect = RR_DIALECT_DRAFT02;
	o.p.inline_send = 512;
	o.nsegs = 7;
	one_start(&o);
	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, 32);
	W(&m, 0, 0, 2001);
	RECV(MSG, 0, 1, 1, 0x21, 3000, 0, 16, 0, 0);
	one_clear(&o);
	begin_reply(&m, 400);
	W(&m, 0, 1);
	add_words(&m, 21);
	W(&m, 2001, 1, 2001);
	pos = m.n;
	m.n += 2004;
	cr_assert_gt(pos, 512);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_op(&o, RR_OP_WRITE, 0)->off, pos);
	cr_assert_eq(one_op(&o, RR_OP_WRITE, 0)->len, 2001);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, m.n);
	cr_assert_eq(one_word(&o, 0, 3), NOMSG);
	w = read_seg(4, m.n / 7, 0);
	w = read_seg(w, pos - m.n / 7, m.n / 7);
	uint32_t rest[] = { 0, 1, 1, 0x21, 2001, 0, 16, 0, 0 };
	for (uint32_t i = 0; i < 9; i++)
		cr_assert_eq(one_word(&o, 0, w + i), rest[i], "word %u", w + i);
	ONE_RECV(&o, XID, 1, 20, DONE);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(one_info(&o).exposed, 0);
	one_fini(&o);
}

/* req: draft-02 3.3 #2 #4, 3.8 #3 */
SERVER(a_call_and_its_done_have_two_credits_whatever_was_asked_for)
{
	ONE_RECV(&o, 5, 1, 1, MSG, 0, 0, 0, A_CALL(5));
	one_send(&o, RR_RPC_REPLY, 5, 24);
	cr_assert_eq(one_word(&o, 0, 2), 2);
	ONE_RECV(&o, 6, 1, 0, MSG, 0, 0, 0, A_CALL(6));
	ONE_RECV(&o, 7, 1, 0, MSG, 0, 0, 0, A_CALL(7));
	one_send(&o, RR_RPC_REPLY, 6, 24);
	cr_assert_eq(one_word(&o, 1, 2), 2);
	ONE_RECV(&o, 8, 1, 1000, MSG, 0, 0, 0, A_CALL(8));
	one_send(&o, RR_RPC_REPLY, 8, 24);
	cr_assert_eq(one_word(&o, 2, 2), o.p.credits, "and there are receives for no more");
}

/* req: draft-02 3.3 #1 */
SERVER(replies_need_no_credit)
{
	for (uint32_t i = 0; i < 8; i++)
		ONE_RECV(&o, i, 1, 20, MSG, 0, 0, 0, A_CALL(i));
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(one_send(&o, RR_RPC_REPLY, i, 24), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 8);
}

/* req: draft-02 6 #1, 3.8 #2 */
Test(engine_draft02, there_are_receives_for_calls_and_for_dones)
{
	uint32_t v1;

	one_params(&o, 0, false);
	v1 = rr_eng_recvs(&o.p);
	o.p.dialect = RR_DIALECT_DRAFT02;
	cr_assert_eq(rr_eng_recvs(&o.p), v1 + RR_ENG_SHOWN);
}

/* req: draft-02 3.4 #1 #4 */
SERVER(read_chunks_of_a_call_are_exactly_its_items)
{
	uint32_t pos;

	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, 32);
	W(&m, 0, 0, 3001, 2, 3001);
	pos = m.n;
	RECV(MSG, 1, pos, 0x21, 3004, 0, 16, 0, 0, 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR, "XDR padding is not part of a chunk");
	RECV(MSG, 1, pos, 0x21, 3001, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 1);
	RECV(MSG, 1, pos - 4, 0x21, 3001, 0, 16, 0, 0, 0);
	cr_assert_eq(one_word(&o, 1, 3), ERROR, "where the binding has no item");
	begin_call(&m, UNBOUND, 3, 7);
	W(&m, 3001);
	pos = m.n;
	RECV(MSG, 1, pos, 0x21, 3001, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 2, "what no binding knows");
}

/* req: draft-02 4.2 #2 */
SERVER(errors_in_a_call_are_answered)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 2, 0, 0, A_CALL(5));
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_word(&o, 0, 4), 2);
	ONE_RECV(&o, 5, 9, 20, MSG, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_word(&o, 1, 4), 1);
}

/* RFC 8167 §5.3: what goes against the direction is as in version 1, and inline. */
CLIENT(a_reply_to_a_reverse_call_is_never_a_read_chunk)
{
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_CALL(5));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 2000), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
}

/* req: reliable-reply-00 - #10 */
SERVER(nor_is_one_taken_as_the_reply_to_a_call_of_the_servers)
{
	call_out(5);
	ONE_RECV(&o, 5, 1, 20, MSG, 1, 24, 0x77, 4, 0, 0, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 0);
	long_reply(5, 20, 2000);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_REPLY(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

/* --- the client ------------------------------------------------------------------------- */

/* req: draft-02 3.6 #1, 3.8 #1 */
CLIENT(a_reply_by_read_chunk_is_delivered_and_then_done_is_said)
{
	call_out(5);
	long_reply(5, 4, 2000);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->from, RR_FROM_PULL);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, 2000);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, 16);
	cr_assert_eq(one_word(&o, 0, 0), 5);
	cr_assert_eq(one_word(&o, 0, 3), DONE);
}

CLIENT(no_chunk_is_offered_for_a_reply_of_unknown_size)
{
	call_out(5);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
}

/* req: draft-02 3.4 #2 */
CLIENT(a_write_chunk_is_offered_where_the_size_is_known)
{
	read_out(2000);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->rights, RR_RIGHT_WRITE);
}

/* req: draft-02 3.6 #1, 3.4 #4 */
CLIENT(results_in_a_read_chunk_are_put_back_into_an_inline_reply)
{
	const struct rr_op *op;
	uint32_t pos;

	read_out(3001);
	pos = read_reply(3001);
	one_clear(&o);
	RECV(MSG, 1, pos, 0x21, 3001, 0, 16, 0, 0, 0);
	op = one_op(&o, RR_OP_COMPOSE, 0);
	cr_assert_eq(op->from, RR_FROM_RECV);
	cr_assert_eq(op->len, pos + 3004);
	cr_assert_eq(op->stream, pos);
	cr_assert_eq(o.parts[op - o.op][0].off, pos);
	cr_assert_eq(o.parts[op - o.op][0].len, 3001);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(count_type(DONE), 0);
	composed();
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.type, RR_RPC_REPLY);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, pos + 3004);
	cr_assert_eq(count_type(DONE), 1);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_info(&o).inflight, 0);
}

/* The entry of the message that was pulled before is used again: its key is not that of this one. */
Test(engine_draft02, done_takes_back_a_key_of_its_own_reply)
{
	uint32_t pos;

	d02_params(true);
	o.p.invalidate = true;
	one_start(&o);
	call_out(5);
	long_reply(5, 4, 2000);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, 0x21);
	read_out(3000);
	pos = read_reply(3000);
	one_clear(&o);
	RECV(MSG, 1, pos, 0x22, 3000, 0, 16, 0, 0, 0);
	composed();
	cr_assert_eq(one_word(&o, 0, 3), DONE);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->inv_handle, 0x22);
	finish();
}

/* The memory of the call itself is fenced first, as ever. */
CLIENT(such_a_reply_waits_for_the_calls_own_memory)
{
	uint32_t pos;

	o.hold_invalidate = true;
	read_out(3000);
	pos = read_reply(3000);
	one_clear(&o);
	RECV(MSG, 1, pos, 0x21, 3000, 0, 16, 0, 0, 0);
	composed();
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0, "the Write chunk is still exposed");
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
}

CLIENT(and_for_its_own_parts_when_that_is_done_first)
{
	uint32_t pos;

	read_out(3000);
	pos = read_reply(3000);
	one_clear(&o);
	RECV(MSG, 1, pos, 0x21, 3000, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	composed();
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

CLIENT(both_kinds_of_read_chunks_in_one_reply)
{
	uint32_t pos, id;
	const struct rr_op *op;

	read_out(3000);
	pos = read_reply(3000);
	one_clear(&o);
	ONE_RECV(&o, XID, 1, 20, NOMSG, 1, 0, 0x22, pos, 0, 16, 1, pos, 0x21, 3000, 0, 16, 0, 0, 0);
	op = one_op(&o, RR_OP_PULL, 0);
	id = op->id;
	cr_assert_eq(op->head, pos, "its stream is judged whole");
	rr_eng_head(o.e, id, 0, m.b, m.n, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_COMPOSE, 0)->from, RR_FROM_PULL);
	composed();
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, pos + 3000);
	cr_assert_eq(count_type(DONE), 1);
}

/* The call stays pending, but the server gets its memory back. */
/* req: draft-02 3.4 #4 */
CLIENT(a_read_chunk_that_is_not_its_item_is_refused_with_done)
{
	uint32_t pos;

	call_out(1);
	ONE_RECV(&o, 1, 1, 8, MSG, 0, 0, 0, A_REPLY(1));
	read_out(3001);
	pos = read_reply(3001);
	one_clear(&o);
	RECV(MSG, 1, pos, 0x21, 3004, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
	cr_assert_eq(count_type(DONE), 1);
	RECV(MSG, 1, 0, 0x21, 3001, 0, 16, 0, 0, 0);
	RECV(MSG, 1, pos + 4, 0x21, 3001, 0, 16, 0, 0, 0);
	RECV(MSG, 1, pos, 0x21, 3001, 0, 16, 0, 1, 1, 0x100, 5, 0, 0x5000, 0, 0);
	RECV(MSG, 1, pos, 0x21, 3001, 0, 16, 0, 1, 2, 0x100, 0, 0, 0x5000, 0x100, 5, 0, 0x5000, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
	cr_assert_eq(count_type(DONE), 5);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 5);
	cr_assert_eq(one_info(&o).inflight, 1);
}

CLIENT(where_nothing_is_known_of_the_results_a_part_may_stand_anywhere)
{
	call_out(XID);
	begin_reply(&m, 0);
	W(&m, 1, 2, 3);
	RECV(MSG, 1, 8, 0x21, 64, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0, "but not in what says that it is a reply");
	RECV(MSG, 1, 0, 0x22, 64, 0, 16, 1, 28, 0x21, 64, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0, "nor is there another message at position zero");
	RECV(MSG, 1, 28, 0x21, 64, 0, 16, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_COMPOSE, 0)->len, 36 + 64);
	composed();
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

CLIENT(a_read_chunk_for_nobody_is_answered_by_done)
{
	begin_reply(&m, 0);
	W(&m, 1, 2, 3);
	RECV(MSG, 1, 28, 0x21, 64, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
	cr_assert_eq(count_type(DONE), 1);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 1);
}

/* --- credits ---------------------------------------------------------------------------- */

/* req: draft-02 6.1 #1, 3.3 #3 */
CLIENT(one_call_until_a_reply_grants_more)
{
	call_out(1);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 2, 40), -EAGAIN);
	ONE_RECV(&o, 1, 1, 2, MSG, 0, 0, 0, A_REPLY(1));
	call_out(2);
	call_out(3);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 4, 40), -EAGAIN);
}

/* req: draft-02 3.8 #1 */
CLIENT(done_takes_a_credit_until_a_later_call_is_answered)
{
	call_out(1);
	long_reply(1, 3, 2000);
	cr_assert_eq(count_type(DONE), 1);
	call_out(2);
	call_out(3);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 4, 40), -EAGAIN, "DONE has the third credit");
	ONE_RECV(&o, 2, 1, 3, MSG, 0, 0, 0, A_REPLY(2));
	call_out(4);
	call_out(5);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 40), -EAGAIN);
}

/* req: draft-02 3.8 #1 */
CLIENT(the_reply_to_an_earlier_call_says_nothing_of_done)
{
	call_out(1);
	ONE_RECV(&o, 1, 1, 2, MSG, 0, 0, 0, A_REPLY(1));
	call_out(2);
	call_out(3);
	long_reply(2, 2, 2000);
	cr_assert_eq(count_type(DONE), 1);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 4, 40), -EAGAIN);
	long_reply(3, 2, 2000);
	cr_assert_eq(count_type(DONE), 1);
	call_out(4);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), -EAGAIN, "no more than one on trust");
}

/* Or calls would have them all, and the server's memory would never come free. */
CLIENT(done_has_the_credit_of_its_call)
{
	uint8_t head[24];
	uint32_t id;

	call_out(1);
	ONE_RECV(&o, 1, 1, 2, MSG, 0, 0, 0, A_REPLY(1));
	call_out(2);
	call_out(3);
	one_clear(&o);
	ONE_RECV(&o, 2, 1, 1, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_REPLY(2));
	rr_eng_head(o.e, id, 0, head, sizeof(head), o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 4, 40), -EAGAIN, "it is DONE's, before that can be said");
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	cr_assert_eq(count_type(DONE), 1);
}

CLIENT(done_for_nobody_waits_for_a_credit)
{
	call_out(1);
	begin_reply(&m, 0);
	W(&m, 1, 2, 3);
	RECV(MSG, 1, 28, 0x21, 64, 0, 16, 0, 0, 0);
	cr_assert_eq(count_type(DONE), 0);
	ONE_RECV(&o, 1, 1, 2, MSG, 0, 0, 0, A_REPLY(1));
	cr_assert_eq(count_type(DONE), 1);
}

/* req: draft-02 3.3 #2 */
CLIENT(a_grant_of_zero_stops_us_until_the_next_reply)
{
	call_out(1);
	ONE_RECV(&o, 1, 1, 2, MSG, 0, 0, 0, A_REPLY(1));
	call_out(2);
	call_out(3);
	ONE_RECV(&o, 2, 1, 0, MSG, 0, 0, 0, A_REPLY(2));
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	cr_assert_eq(one_info(&o).granted, 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 4, 40), -EAGAIN);
	ONE_RECV(&o, 3, 1, 1, MSG, 0, 0, 0, A_REPLY(3));
	call_out(4);
}

/* req: draft-02 3.3 #2 */
CLIENT(a_grant_of_zero_with_nothing_in_flight_ends_the_connection)
{
	call_out(1);
	ONE_RECV(&o, 1, 1, 0, MSG, 0, 0, 0, A_REPLY(1));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1, "what has come still counts");
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_CREDITS);
}

/* --- errors ----------------------------------------------------------------------------- */

/* req: draft-02 4.3 #1 */
CLIENT(an_error_of_another_code_ends_its_call)
{
	call_out(1);
	ONE_RECV(&o, 2, 1, 8, ERROR, 77, 1, 2, 3, 4, 5, 6, 7, 8);
	ONE_RECV(&o, 1, 1, 8, ERROR, 77, 1, 2, 3, 4, 5, 6, 7);
	cr_assert_eq(o.count.v[RR_C_discarded], 2, "to nobody; cut off");
	ONE_RECV(&o, 1, 1, 8, ERROR, 77, 1, 2, 3, 4, 5, 6, 7, 8);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
}
