/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/engine/engine_int.h"
#include "core/wire/ccp.h"
#include "tests/unit/engine_draft02.h"

/* The Connection Configuration Protocol (draft-02 §6), as client and as server. */

#define XID	0x52444d04u	/* of what we say ourselves */
#define SIZE	(1024u - 28 - 192 - 136)	/* a message in our receives, behind any header */

static void start(bool connector)
{
	d02_params(connector);
	o.p.ccp_prog = RR_CCP_PROG;
	o.p.rdma_reads = 16;
	o.p.pad_align = 32;
	o.p.pad_thresh = 100;
	o.p.inline_send_max = 4096;
	one_start(&o);
	one_run(&o);
}

#define CLIENT(name) Test(engine_ccp, name, .init = start_client, .fini = finish)
#define SERVER(name) Test(engine_ccp, name, .init = start_server, .fini = finish)

/* The server's answer. */
static void answered(uint32_t maxcall, uint32_t align, uint32_t reads)
{
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID), maxcall, align, reads);
	one_clear(&o);
}

#define CONF(x, ...)	(x), 0, 2, RR_CCP_PROG, 1, 1, 0, 0, 0, 0, __VA_ARGS__

/* --- the client ------------------------------------------------------------------------- */

/* req: draft-02 6 #1, 6.1 #1 */
CLIENT(what_is_wanted_is_said_before_anything_else)
{
	uint32_t want[] = { XID, 1, 8, MSG, 0, 0, 0, CONF(XID, 4096, SIZE, 16) };
	uint8_t head[40];
	struct rr_eng_out out = { .rpc = { .xid = 5 }, .len = 40, .buf = 1, .head = head };

	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, sizeof(want));
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, 0);
	for (uint32_t w = 0; w < rr_array_size(want); w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(rr_eng_send(o.e, &out, o.now), -EAGAIN);
	cr_assert_not(rr_eng_writable(o.e));
	cr_assert(one_info(&o).opening);
	answered(2000, 32, 16);
	cr_assert_not(one_info(&o).opening);
	cr_assert_eq(o.e->ins.used, 0, "nothing of the answer is kept");
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_info(&o).granted, 4);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
}

/* req: draft-02 6.2 #1 */
CLIENT(calls_are_no_larger_than_the_server_takes)
{
	answered(2000, 0, 16);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 2000 - 28), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 2000 - 27), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_word(&o, 1, 3), NOMSG);
}

/* req: draft-02 6.2 #1 */
CLIENT(nor_than_our_own_memory_can_hold)
{
	answered(1 << 20, 0, 16);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 4096 - 28), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 4096 - 27), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
}

/* What CM private data said of its Sends, or did not say, means nothing then. */
Test(engine_ccp, replies_are_as_long_as_the_server_was_told)
{
	for (int told = 0; told < 2; told++) {
		static struct msg m;

		d02_params(true);
		o.p.ccp_prog = told ? RR_CCP_PROG : 0;
		o.p.inline_recv = 4096;
		o.p.inline_peer = 1024;
		one_start(&o);
		one_run(&o);
		if (told)
			answered(2000, 0, 16);
		begin_call(&m, NFS, 2, 16);	/* READDIR */
		W(&m, 1, 2, 3, 4, 5, 6, 7, 8, 0, 3000);
		cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
		cr_assert_eq(one_count(&o, RR_OP_EXPOSE), !told);
		finish();
	}
}

CLIENT(a_server_that_takes_nothing_is_given_up)
{
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID), 100, 0, 16);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
}

CLIENT(its_alignment_is_what_calls_are_padded_to)
{
	static struct msg m;

	answered(2000, 512, 16);
	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, 32);
	W(&m, 0, 0, 200, 2);
	add_opaque(&m, 200);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	cr_assert_eq(one_word(&o, 0, 3), 2, "RDMA_MSGP");
	cr_assert_eq(one_word(&o, 0, 4), 512);
}

/* req: draft-02 6.2 #3 */
CLIENT(a_server_that_reads_nothing_gets_no_read_chunks)
{
	static struct msg m;

	answered(2000, 0, 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 1990), -EMSGSIZE);
	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, 32);
	W(&m, 0, 0, 5000, 2);
	add_opaque(&m, 5000);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), -EMSGSIZE);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
}

CLIENT(a_server_may_take_very_little)
{
	answered(256, 0, 16);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 256 - 28), 0);
}

CLIENT(an_answer_that_grants_nothing_leaves_nothing_to_do)
{
	ONE_RECV(&o, XID, 1, 0, MSG, 0, 0, 0, A_REPLY(XID), 2000, 0, 16);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_CREDITS);
}

/* It is no longer than it is. */
CLIENT(an_answer_that_is_cut_off_is_a_refusal)
{
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID), 300);
	cr_assert_not(one_info(&o).opening);
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 1024 - 28), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
}

/* Whatever else comes while the answer is awaited. */
CLIENT(what_is_no_answer_leaves_all_as_it_is)
{
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID + 1), 300, 0, 0);
	cr_assert(one_info(&o).opening);
	ONE_RECV(&o, XID, 1, 4, MSG, 2, 0, 0, A_REPLY(XID), 300, 0, 0);
	cr_assert(one_info(&o).opening);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5), 300, 0, 0);
	cr_assert(one_info(&o).opening);
	ONE_RECV(&o, 5, 1, 4, ERROR, 2);
	cr_assert(one_info(&o).opening);
	ONE_RECV(&o, XID, 1, 4, DONE);
	cr_assert(one_info(&o).opening);
	cr_assert_eq(o.e->ins.used, 0);
	cr_assert_eq(one_count(&o, RR_OP_FAIL) + one_count(&o, RR_OP_DELIVER), 0);
	answered(2000, 0, 16);
	cr_assert_not(one_info(&o).opening);
}

/* The app of a server without it says PROG_UNAVAIL. */
CLIENT(whoever_does_not_know_it_is_spoken_to_as_before)
{
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, XID, 1, 0, 0, 0, 1);
	cr_assert_not(one_info(&o).opening);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 1024 - 28), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 1024 - 27), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
}

CLIENT(so_is_who_answers_by_an_error)
{
	ONE_RECV(&o, XID, 1, 4, ERROR, 2);
	cr_assert_eq(o.e->ins.used, 0);
	cr_assert_eq(o.count.v[RR_C_discarded], 0);
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	cr_assert_not(one_info(&o).opening);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
}

CLIENT(another_version_ends_the_connection)
{
	ONE_RECV(&o, XID, 1, 4, ERROR, 1, 2, 2);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_ERR_VERS);
}

CLIENT(no_answer_ends_it_too)
{
	o.now = rr_eng_deadline(o.e);
	cr_assert_lt(o.now, RR_TIME_NEVER);
	rr_eng_tick(o.e, o.now);
	one_run(&o);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_NO_ANSWER);
}

CLIENT(a_second_answer_changes_nothing)
{
	answered(2000, 0, 16);
	answered(300, 0, 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 2000 - 28), 0);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
}

/* req: draft-02 6.2 #2 */
CLIENT(no_more_messages_are_read_at_a_time_than_the_server_serves)
{
	uint8_t head[24];
	uint32_t id;

	answered(2000, 0, 1);
	for (uint32_t x = 1; x <= 3; x++)
		cr_assert_eq(one_send(&o, RR_RPC_CALL, x, 40), 0);
	for (uint32_t x = 1; x <= 3; x++)
		ONE_RECV(&o, x, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	for (uint32_t x = 1; x <= 3; x++) {
		cr_assert_eq(one_count(&o, RR_OP_PULL), x);
		id = one_op(&o, RR_OP_PULL, x - 1)->id;
		WORDS(head, A_REPLY(x));
		rr_eng_head(o.e, id, 0, head, sizeof(head), o.now);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_PULL), x);
		rr_eng_pulled(o.e, id, 0, o.now);
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), x);
	}
}

Test(engine_ccp, without_the_option_nothing_is_said)
{
	one_params(&o, 0, true);
	o.p.dialect = RR_DIALECT_DRAFT02;
	one_start(&o);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 5, 40), 0);
	one_fini(&o);
}

Test(engine_ccp, a_version_1_peer_never_gets_it)
{
	one_params(&o, 0, true);
	o.p.ccp_prog = RR_CCP_PROG;
	one_start(&o);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	one_fini(&o);
}

/* --- the server ------------------------------------------------------------------------- */

/* req: draft-02 6.2 #1, 6 #1 */
SERVER(a_call_is_answered_by_us)
{
	uint32_t want[] = { 9, 1, 6, MSG, 0, 0, 0, A_REPLY(9), SIZE, 32, 16 };

	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 8));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, sizeof(want));
	for (uint32_t w = 0; w < rr_array_size(want); w++)
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u", w);
	cr_assert_eq(one_info(&o).serving, 0);
}

SERVER(replies_are_no_larger_than_the_client_takes)
{
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 8));
	ONE_RECV(&o, 5, 1, 6, MSG, 0, 0, 0, A_CALL(5));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 2000 - 28), 0);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	ONE_RECV(&o, 6, 1, 6, MSG, 0, 0, 0, A_CALL(6));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 2000 - 27), 0);
	cr_assert_eq(one_word(&o, 1, 3), NOMSG);
}

/* req: draft-02 6.2 #3 */
SERVER(a_client_that_reads_nothing_gets_no_read_chunk)
{
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 0));
	ONE_RECV(&o, 5, 1, 6, MSG, 0, 0, 0, A_CALL(5));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 2000), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	cr_assert_eq(one_word(&o, 0, 3), ERROR);
	cr_assert_eq(one_word(&o, 0, 4), 2);
}

SERVER(no_more_calls_are_read_at_a_time_than_the_client_serves)
{
	static struct msg m;
	uint32_t pos;

	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 1));
	ONE_RECV(&o, 5, 1, 6, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, 32);
	W(&m, 0, 0, 3000, 2, 3000);
	pos = m.n;
	static uint8_t b[512];
	uint32_t n = WORDS(b, 7, 1, 6, MSG, 1, pos, 0x22, 3000, 0, 16, 0, 0, 0);
	memcpy(b + n, m.b, m.n);
	one_recv(&o, b, n + m.n, 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), 1);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 0);
	rr_eng_head(o.e, one_op(&o, RR_OP_PULL, 0)->id, 0, (const uint8_t *)"no RPC message at all, so refuse", 32, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_COMPOSE), 1, "the refused one makes room");
	rr_eng_pulled(o.e, one_op(&o, RR_OP_COMPOSE, 0)->id, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

SERVER(other_calls_of_that_program_get_their_answer_too)
{
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, 9, 0, 2, RR_CCP_PROG, 1, 0, 0, 0, 0, 0);
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, 9, 0, 2, RR_CCP_PROG, 2, 1, 0, 0, 0, 0);
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, 9, 0, 2, RR_CCP_PROG, 1, 7, 0, 0, 0, 0);
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, 9, 0, 2, RR_CCP_PROG, 1, 1, 0, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	uint32_t stat[] = { 0, 2, 3, 4 };
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(one_word(&o, i, 12), stat[i], "%u", i);
}

SERVER(nonsense_costs_the_client_its_connection_at_most)
{
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 0, 0, 8));
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
}

Test(engine_ccp, where_it_is_not_wanted_the_app_answers)
{
	one_params(&o, 0, false);
	o.p.dialect = RR_DIALECT_DRAFT02;
	one_start(&o);
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 8));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.prog, RR_CCP_PROG);
	one_fini(&o);
}

Test(engine_ccp, from_a_version_1_peer_it_is_a_call_like_any_other)
{
	one_params(&o, 0, false);
	o.p.ccp_prog = RR_CCP_PROG;
	one_start(&o);
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 8));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.prog, RR_CCP_PROG);
	one_fini(&o);
}

CLIENT(a_call_to_who_connected_is_the_apps)
{
	answered(2000, 0, 16);
	ONE_RECV(&o, 9, 1, 6, MSG, 0, 0, 0, CONF(9, 2000, 2000, 8));
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->rpc.prog, RR_CCP_PROG);
}

/* req: draft-02 6.2 #2 */
Test(engine_ccp, nor_than_we_have_memory_for)
{
	static const struct { uint32_t ours, servers, most; } row[] = {
		{ 0, 3, 3 }, { 2, 0, 2 }, { 2, 3, 2 }, { 3, 2, 2 }, { 2, 2, 2 }, { 1, 3, 1 },
	};

	for (uint32_t i = 0; i < rr_array_size(row); i++) {
		d02_params(true);
		o.p.ccp_prog = RR_CCP_PROG;
		o.p.pulls = row[i].ours;
		one_start(&o);
		one_run(&o);
		answered(2000, 0, row[i].servers);
		for (uint32_t x = 1; x <= 4; x++)
			cr_assert_eq(one_send(&o, RR_RPC_CALL, x, 40), 0);
		for (uint32_t x = 1; x <= 4; x++)
			ONE_RECV(&o, x, 1, 4, NOMSG, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
		cr_assert_eq(one_count(&o, RR_OP_PULL), row[i].most, "%u: %u", i, one_count(&o, RR_OP_PULL));
		finish();
	}
}
