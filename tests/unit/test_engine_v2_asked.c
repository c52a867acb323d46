/* SPDX-License-Identifier: BSD-3-Clause */

/* What counts as an answer to the opening of version 2 and what does not, which versions are fallen back from, and
 * what the two ends know of each other then. */

#include "core/engine/engine_int.h"
#include "tests/unit/engine_v2.h"

#define ASK	RR_OPEN_XID
#define PROPS	3, PROP_RBSIZ, 4, 1024, PROP_BRS, 4, 1, PROP_DONE, 4, 0

/* A client that has asked, or a server that waits to be asked. */
static void asked(uint32_t caps, bool connector)
{
	v2_params(caps, connector);
	one_start(&o);
	one_run(&o);
	one_clear(&o);
}

static void is_open(bool opening)
{
	cr_assert_eq(one_info(&o).opening, opening);
	cr_assert_eq(o.e->ins.used, 0, "%u entries", o.e->ins.used);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
}

Test(engine_v2_asked, its_answer_leaves_nothing_behind)
{
	asked(0, true);
	ONE_RECV(&o, ASK, 2, 20, CONNPROP, REPLY, PROPS);
	is_open(false);
	cr_assert_eq(o.count.v[RR_C_discarded], 0);
	cr_assert_eq(one_info(&o).granted, 8);
	ONE_RECV(&o, ASK, 2, 1, CONNPROP, REPLY, PROPS);	/* again */
	is_open(false);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
	cr_assert_eq(one_info(&o).granted, 8);
	one_fini(&o);
}

Test(engine_v2_asked, what_else_comes_is_no_answer)
{
	asked(0, true);
	ONE_RECV(&o, 5, 2, 20, CONNPROP, REPLY, PROPS);
	is_open(true);
	ONE_RECV(&o, 5, 2, 20, ERROR, REPLY, INVAL_HTYPE);
	is_open(true);
	ONE_RECV(&o, 5, 2, 20, CONNPROP, REPLY, 1, PROP_BRS, 4, 3);	/* spoilt */
	is_open(true);
	ONE_RECV(&o, ASK, 2, 20, CONNPROP, CALL, 1, PROP_BRS, 4, 3);	/* a question of its own, spoilt */
	is_open(true);
	ONE_RECV(&o, 5, 1, 4, MSG, 0, 0, 0, A_REPLY(5));
	is_open(true);
	cr_assert_not(one_info(&o).fell_back);
	one_clear(&o);
	ONE_RECV(&o, 5, 2, 4, MSG, CALL, 0, 0, 0, 0, A_CALL(5));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	is_open(true);
	ONE_RECV(&o, ASK, 2, 20, CONNPROP, REPLY, PROPS);
	is_open(false);
	one_fini(&o);
}

Test(engine_v2_asked, an_answer_that_is_spoilt_ends_the_connection)
{
	asked(0, true);
	ONE_RECV(&o, ASK, 2, 20, CONNPROP, REPLY, 1, PROP_BRS, 4, 3);
	cr_assert_eq(v2_failed(), RR_WHY_PROTOCOL);
	cr_assert_eq(o.e->ins.used, 0);
	one_fini(&o);
}

/* Version 1 has to be in the range that the error names. */
Test(engine_v2_asked, by_whom_version_one_is_spoken_it_is_spoken_with)
{
	static const struct { uint32_t low, high; bool falls_back; } row[] = {
		{ 1, 1, true }, { 1, 3, true }, { 0, 1, true }, { 0, 0, false }, { 2, 2, false }, { 2, 3, false },
		{ 3, 1, false },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		asked(RR_CAP_REVERSE_CHUNKS, true);
		ONE_RECV(&o, ASK, 2, 20, ERROR, REPLY, RR_ERR_VERS, row[i].low, row[i].high);
		cr_assert_eq(one_info(&o).fell_back, row[i].falls_back, "%zu", i);
		cr_assert_eq(v2_failed(), row[i].falls_back ? RR_WHY_NONE : RR_WHY_ERR_VERS, "%zu", i);
		cr_assert_eq(o.count.v[RR_C_err_vers_received], 1);
		cr_assert_eq(o.e->ins.used, 0);
		if (row[i].falls_back) {
			cr_assert_eq(o.e->hdr.min, 28);
			cr_assert_eq(o.e->hdr.read, RR_ENG_SEGS * 24);
			cr_assert_eq(o.e->hdr.write, RR_ENG_SEGS * 16 + 8);
			cr_assert_eq(o.e->hdr.reply, RR_ENG_SEGS * 16 + 4);
			cr_assert(o.e->reverse_chunks, "as between any two of version 1");
		}
		one_fini(&o);
	}
	asked(0, true);		/* another error, whose words mean something else */
	ONE_RECV(&o, ASK, 2, 20, ERROR, REPLY, WRITE_RESOURCE, 1, 5);
	cr_assert_eq(v2_failed(), RR_WHY_PROTOCOL);
	cr_assert_eq(o.count.v[RR_C_err_vers_received], 0);
	one_fini(&o);
}

/* A message of version 1 to a server, as short as one may be. */
Test(engine_v2_asked, a_prefix_shows_its_version)
{
	asked(0, false);
	ONE_RECV(&o, 5, 1, 4, 3);	/* RDMA_DONE */
	cr_assert(one_info(&o).fell_back);
	cr_assert_eq(one_info(&o).version, 1);
	is_open(false);
	one_fini(&o);
}

/* What was to be said, and could not yet be, is of no meaning to a peer of version 1. */
Test(engine_v2_asked, who_falls_back_leaves_unsaid_what_waits)
{
	v2_params(0, true);
	one_start(&o);
	rr_eng_window(o.e, 0);
	one_run(&o);
	cr_assert_eq(o.e->ins.used, 1);
	ONE_RECV(&o, ASK, 1, 20, ERROR, 1, 1, 1);
	is_open(false);
	rr_eng_window(o.e, 64);
	one_clear(&o);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	one_fini(&o);
}

/* --- the reverse direction --- */

#define REVERSE	(RR_CAP_RELIABLE_REPLY | RR_CAP_REVERSE_CHUNKS)

Test(engine_v2_asked, what_the_peer_says_of_reverse_calls_is_for_replies_to_them)
{
	for (uint32_t brs = 0; brs <= 2; brs++) {
		v2_params(REVERSE, true);
		v2_start(brs);
		cr_assert_eq(o.e->reverse_reads, brs == 2);
		cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), 0, "calls go the other way");
		ONE_RECV(&o, 9, 2, 4, NOMSG, CALL, 0, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
		cr_assert_eq(o.e->reverse_reads, brs == 2, "it has said so, whatever it does");
		one_fini(&o);
	}
	v2_params(0, false);
	o.p.bc_credits = 0;
	v2_start(2);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 1, 40), -EMSGSIZE, "we want none");
	one_fini(&o);
}

/* A client whose server says nothing of reverse calls. */
static void untold(bool connector)
{
	asked(REVERSE, connector);
	if (connector)
		ONE_RECV(&o, ASK, 2, 20, CONNPROP, REPLY, 2, PROP_RBSIZ, 4, 1024, PROP_DONE, 4, 1);
	else
		ONE_RECV(&o, 7, 2, 20, CONNPROP, CALL, 2, PROP_RBSIZ, 4, 1024, PROP_DONE, 4, 1);
	one_clear(&o);
	cr_assert_eq(o.e->infer, connector);
	cr_assert_not(o.e->reverse_reads);
}

Test(engine_v2_asked, else_its_calls_show_it)
{
	untold(true);
	ONE_RECV(&o, 1, 2, 4, MSG, CALL, 0, 0, 0, 0, A_CALL(1));
	cr_assert_not(o.e->reverse_reads, "no chunks");
	ONE_RECV(&o, 2, 2, 4, NOMSG, REPLY, 0, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	cr_assert_not(o.e->reverse_reads, "no call");
	ONE_RECV(&o, 3, 2, 4, NOMSG, CALL, 0, 1, 0, 0x21, 2000, 0, 16, 0, 0, 0);
	cr_assert(o.e->reverse_reads);
	ONE_RECV(&o, 4, 2, 4, MSG, CALL, 0, 0, 0, 0, A_CALL(4));
	cr_assert(o.e->reverse_reads, "once is enough");
	one_fini(&o);
	untold(true);
	ONE_RECV(&o, 1, 2, 4, MSG, CALL, 0, 0, 1, 1, 0x21, 100, 0, 16, 0, 0, A_CALL(1));
	cr_assert(o.e->reverse_reads, "a Write chunk");
	one_fini(&o);
	untold(true);
	ONE_RECV(&o, 1, 2, 4, MSG, CALL, 0, 0, 0, 1, 1, 0x21, 100, 0, 16, A_CALL(1));
	cr_assert(o.e->reverse_reads, "a Reply chunk");
	one_fini(&o);
	untold(false);
	one_fini(&o);
}

/* --- what an error shows where nothing is offered --- */

/* With reliable replies, or against the connection's direction without agreement, no call offers memory. */
Test(engine_v2_asked, an_error_teaches_nothing_where_nothing_could_be_offered)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct rr_sizes sizes = { 0 };
		uint8_t msg[64];

		v2_params(i ? 0 : RR_CAP_RELIABLE_REPLY, !i);
		o.p.sizes = &sizes;
		v2_start(1);
		cr_assert_eq(one_send_bytes(&o, msg, WORDS(msg, 1, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0)), 0);
		ONE_RECV(&o, 1, 2, 4, ERROR, REPLY, REPLY_RESOURCE, 9000);
		cr_assert_eq(v2_failed(), RR_WHY_TOO_LARGE, "%u", i);
		cr_assert_eq(rr_sizes_get(&sizes, 0x20000001, 1, 1), 0);
		one_fini(&o);
	}
}
