/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/wire/draft02.h"
#include "tests/unit/engine_draft02.h"

/* RDMA_MSGP (draft-02 §3.5). */

#define XID	7u		/* of begin_call() */
#define HDR	36u		/* of an RDMA_MSGP without chunks */

static struct msg m;

static void start(bool connector)
{
	d02_params(connector);
	o.p.pad_align = 64;
	o.p.pad_thresh = 100;
	one_start(&o);
}

#define CLIENT(name) Test(engine_draft02_msgp, name, .init = start_client, .fini = finish)
#define SERVER(name) Test(engine_draft02_msgp, name, .init = start_server, .fini = finish)

/* A transport header of XID, and m. */
#define RECV(...)	ONE_RECV_WITH(&o, m.b, m.n, XID, 1, 20, __VA_ARGS__)

/* WRITE (RFC 1813 §3.3.7) up to its data, of which there are len bytes; pad bytes before them. */
static uint32_t write_call(uint32_t fh, uint32_t len, uint32_t pad)
{
	uint32_t pos;

	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, fh);
	W(&m, 0, 0, len, 2, len);
	pos = m.n;
	m.n += pad + len + rr_ulb_pad(len);
	return pos;
}

/* So many that data at pos lies where it shall. */
static uint32_t pad_at(uint32_t pos)
{
	return -(HDR + pos) % 64;
}

/* --- sent ------------------------------------------------------------------------------- */

/* req: draft-02 3.5 #1 */
CLIENT(large_data_of_a_call_is_padded_to_the_alignment)
{
	uint32_t pos = write_call(32, 201, 0);
	const struct rr_op *op;
	const struct rr_range *r;

	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	op = one_op(&o, RR_OP_SEND, 0);
	r = o.parts[op - o.op];
	uint32_t want[] = { XID, 1, 8, MSGP, 64, 100, 0, 0, 0 };
	for (uint32_t w = 0; w < 9; w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(op->hdr_len, HDR);
	cr_assert_eq(op->nparts, 3);
	cr_assert(r[0].off == 0 && r[0].len == pos);
	cr_assert(r[1].off == RR_PART_ZEROES && r[1].len == pad_at(pos));
	cr_assert(r[2].off == pos && r[2].len == 204);
	cr_assert_eq(op->len, m.n + r[1].len);
	cr_assert_eq((HDR + pos + r[1].len) % 64, 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
}

CLIENT(each_of_several_large_items_is_padded)
{
	uint32_t pos[2];
	const struct rr_op *op;
	const struct rr_range *r;

	begin_call(&m, NFS, 4, 1);
	W(&m, 0, 0, 2);
	for (int i = 0; i < 2; i++) {
		W(&m, 38, 1, 2, 3, 4, 0, 0, 2, 201);	/* WRITE, RFC 7530 §16.36 */
		pos[i] = m.n;
		m.n += 204;
	}
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	op = one_op(&o, RR_OP_SEND, 0);
	r = o.parts[op - o.op];
	cr_assert_eq(one_word(&o, 0, 3), MSGP);
	cr_assert_eq(op->nparts, 5);
	cr_assert(r[0].off == 0 && r[0].len == pos[0]);
	cr_assert(r[1].off == RR_PART_ZEROES && r[1].len == pad_at(pos[0]));
	cr_assert(r[2].off == pos[0] && r[2].len == pos[1] - pos[0]);
	cr_assert(r[3].off == RR_PART_ZEROES && r[3].len == pad_at(pos[1] + r[1].len));
	cr_assert_eq(op->len, m.n + r[1].len + r[3].len);
}

/* The greatest alignment, and what is greater, which is none. */
CLIENT(the_alignment_has_a_bound)
{
	uint32_t pos;

	for (int more = 0; more < 2; more++) {
		finish();
		d02_params(true);
		o.p.inline_send = o.p.inline_recv = 8192;
		o.p.pad_align = RR_PAD_MAX + 1 + (uint32_t)more;
		o.p.pad_thresh = 100;
		one_start(&o);
		pos = write_call(32, 200, 0);
		cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
		cr_assert_eq(one_word(&o, 0, 3), more ? MSG : MSGP);
		if (!more)
			cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, m.n + 4096 - HDR - pos);
	}
}

CLIENT(a_call_without_large_data_is_not_padded)
{
	write_call(32, 99, 0);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, m.n);
}

/* An item that is not known could be one that the server skips padding before. */
CLIENT(what_its_binding_does_not_walk_is_not_padded)
{
	begin_call(&m, NFS, 3, 8);	/* CREATE */
	add_opaque(&m, 32);
	add_opaque(&m, 200);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
}

CLIENT(nor_is_what_no_binding_knows)
{
	begin_call(&m, 0x20005244, 3, 7);
	add_opaque(&m, 200);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
}

CLIENT(nor_what_would_not_fit_any_more)
{
	uint32_t pos = write_call(32, 0, 0), room = 1024 - HDR - pos - pad_at(pos);

	cr_assert(pad_at(pos) > 8);
	write_call(32, room + 4, 0);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
}

CLIENT(nor_what_has_chunks)
{
	begin_call(&m, NFS, 3, 6);	/* READ: a Write chunk */
	add_opaque(&m, 120);
	W(&m, 0, 0, 4000);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
}

CLIENT(only_part_of_it_there_is_not_enough)
{
	struct rr_eng_out out = { .buf = 5, .head = m.b };

	write_call(32, 200, 0);
	out.len = m.n;
	out.have = m.n - 4;
	rr_rpc_peek(m.b, m.n, &out.rpc);
	cr_assert_eq(rr_eng_send(o.e, &out, o.now), 0);
	one_run(&o);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
}

SERVER(replies_are_not_padded)
{
	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, 32);
	W(&m, 0, 0, 4000);
	RECV(MSG, 0, 0, 0);
	begin_reply(&m, 0);
	W(&m, 0, 0, 200, 1);
	add_opaque(&m, 200);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
}

Test(engine_draft02_msgp, a_version_1_peer_never_gets_it)
{
	one_params(&o, 0, true);
	o.p.pad_align = 64;
	o.p.pad_thresh = 100;
	one_start(&o);
	write_call(32, 201, 0);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	one_fini(&o);
}

/* --- received --------------------------------------------------------------------------- */

/* req: draft-02 3.5 #1 */
SERVER(padding_in_a_call_is_left_out)
{
	uint32_t pos = write_call(32, 0, 0), pad = pad_at(pos);
	const struct rr_op *op;

	write_call(32, 201, pad);
	RECV(MSGP, 64, 100, 0, 0, 0);
	op = one_op(&o, RR_OP_DELIVER, 0);
	cr_assert_eq(op->from, RR_FROM_RECV);
	cr_assert_eq(op->off, HDR);
	cr_assert_eq(op->len, pos + 204);
	cr_assert_eq(op->nparts, 1);
	cr_assert(o.parts[op - o.op][0].off == pos && o.parts[op - o.op][0].len == pad);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, XID, 24), 0);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
}

SERVER(every_item_from_the_threshold_on_has_its_own)
{
	uint32_t first = 0, second;

	begin_call(&m, NFS, 3, 7);
	W(&m, 100);
	first = m.n;
	m.n += pad_at(first) + 100;
	W(&m, 0, 0, 200, 2, 200);
	second = m.n;
	m.n += pad_at(second) + 200;
	RECV(MSGP, 64, 100, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->nparts, 1 + (pad_at(second) > 0));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, m.n - pad_at(first) - pad_at(second));
}

SERVER(what_cannot_be_found_is_refused)
{
	uint32_t pos = write_call(32, 0, 0), pad = pad_at(pos);

	write_call(32, 200, pad - 4);
	RECV(MSGP, 64, 100, 0, 0, 0);
	begin_call(&m, 0x20005244, 3, 7);
	add_opaque(&m, 200);
	RECV(MSGP, 64, 100, 0, 0, 0);
	write_call(32, 200, pad);
	RECV(MSGP, 0xffffffc0, 100, 0, 0, 0);
	RECV(MSGP, 64, 100, 1, pos, 0x21, 200, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 4);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_eq(one_word(&o, i, 3), ERROR, "%u", i);
		cr_assert_eq(one_word(&o, i, 4), 2, "%u", i);
	}
}

SERVER(where_nothing_can_be_so_long_nothing_need_be_known)
{
	begin_call(&m, 0x20005244, 3, 7);
	add_opaque(&m, 200);
	RECV(MSGP, 64, 1000, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, m.n);
	RECV(MSGP, 0, 0, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 1)->len, m.n);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 1)->nparts, 0);
}

/* The threshold may be the whole message's length; it is no more than that which matters. */
SERVER(where_something_could_be_as_long_it_must_be_known)
{
	begin_call(&m, 0x20005244, 3, 7);
	add_opaque(&m, 200);
	RECV(MSGP, 64, m.n, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	RECV(MSGP, 64, m.n + 1, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

SERVER(write_chunks_of_a_padded_call_are_used)
{
	begin_call(&m, NFS, 3, 6);
	W(&m, 120);
	m.n += -(HDR + 24 + m.n) % 64 + 120;	/* its header is longer by the Write chunk */
	W(&m, 0, 0, 2000);
	RECV(MSGP, 64, 100, 0, 1, 1, 0x21, 2000, 0, 16, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	begin_reply(&m, 0);
	W(&m, 0, 0, 2000, 1);
	add_opaque(&m, 2000);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_count(&o, RR_OP_WRITE), 1);
}

/* req: draft-02 3.5 #1 */
CLIENT(padding_in_a_reply_is_left_out)
{
	uint32_t pos;

	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, 32);
	W(&m, 0, 0, 200);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	begin_reply(&m, 0);
	W(&m, 0, 0, 200, 1, 200);
	pos = m.n;
	cr_assert_gt(pad_at(pos), 0);
	m.n += pad_at(pos) + 200;
	RECV(MSGP, 64, 100, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.type, RR_RPC_REPLY);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, pos + 200);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->nparts, 1);
}

/* The app would wait for ever. */
CLIENT(a_reply_that_cannot_be_read_ends_the_connection)
{
	begin_call(&m, 0x20005244, 3, 7);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	begin_reply(&m, 0);
	add_opaque(&m, 200);
	RECV(MSGP, 64, 100, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
}

/* Nor one that has Read chunks besides: its padding would be delivered as data. */
CLIENT(a_reply_with_padding_and_read_chunks_is_refused)
{
	begin_call(&m, 0x20005244, 1, 1);	/* a program without binding */
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	begin_reply(&m, 0);
	add_opaque(&m, 200);
	one_clear(&o);
	RECV(MSGP, 64, 100, 1, m.n, 0x21, 64, 0, 16, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
	cr_assert_eq(one_info(&o).inflight, 1);
}

CLIENT(a_reply_without_results_has_no_padding)
{
	write_call(32, 50, 0);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	m.n = 0;
	W(&m, XID, 1, 0, 0, 0, 2, 3, 3);	/* PROG_MISMATCH */
	RECV(MSGP, 64, 0, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, m.n);
}
