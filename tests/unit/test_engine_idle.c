/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/lib/oneside.h"

/* What an engine with nothing to do can lose: rr_eng_quiet(). */

#define MSG	0
#define NOMSG	1
#define DONE	3
#define REL	RR_CAP_RELIABLE_REPLY
#define RING	(RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS)

static struct one o;

/* The tables are lost. */
static void idle(void)
{
	size_t keep = rr_eng_quiet(o.e);

	cr_assert_neq(keep, 0, "something is under way");
	memset((uint8_t *)o.e + keep, 0, rr_eng_size(&o.p) - keep);
	one_clear(&o);
}

static void assert_busy(void)
{
	cr_assert_eq(rr_eng_quiet(o.e), 0);
}

/* Our call, its reply. */
static void call(uint32_t xid)
{
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, xid, 40), 0);
	ONE_RECV(&o, xid, 1, 20, MSG, 0, 0, 0, A_REPLY(xid));
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

/* The peer's call, our reply: inline, or exposed until the peer says DONE. */
static void serve(uint32_t xid, uint32_t len)
{
	one_clear(&o);
	ONE_RECV(&o, xid, 1, 20, MSG, 0, 0, 0, A_CALL(xid));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, xid, len), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
}

static void both_ways(uint32_t caps, bool connector)
{
	one_init(&o, caps, connector);
	idle();
	for (uint32_t xid = 1; xid < 40; xid += 3) {
		call(xid);
		idle();
		serve(xid + 1, 24);
		idle();
		if (!(caps & REL))
			continue;
		serve(xid + 2, 2000);
		assert_busy();
		ONE_RECV(&o, xid + 2, 1, 20, DONE);
		idle();
	}
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
	one_fini(&o);
}

Test(engine_idle, an_engine_that_lost_its_tables_works_on)
{
	both_ways(0, true);
	both_ways(0, false);
	both_ways(REL, false);
	both_ways(RING, true);
}

Test(engine_idle, a_call_of_ours_without_reply_is_not_forgotten)
{
	one_init(&o, 0, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	assert_busy();
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_REPLY(5));
	idle();
	one_fini(&o);
}

Test(engine_idle, a_call_of_the_peers_without_reply_is_not_forgotten)
{
	one_init(&o, 0, false);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_CALL(5));
	assert_busy();
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 24), 0);
	idle();
	one_fini(&o);
}

Test(engine_idle, a_send_without_completion_is_not_forgotten)
{
	one_init(&o, RING, false);
	o.hold_send = true;
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 24), 0);
	assert_busy();
	one_done(&o, one_op(&o, RR_OP_SEND, 0));
	assert_busy();		/* its RELEASE has yet to be taken */
	one_run(&o);
	idle();
	one_fini(&o);
}

Test(engine_idle, a_message_that_is_being_pulled_is_not_forgotten)
{
	uint8_t head[64];
	uint32_t n = WORDS(head, A_CALL(5)), id;

	one_init(&o, RING, false);
	ONE_RECV(&o, 5, 1, 20, NOMSG, 1, 0, 0x99, 2000, 0, 0x5000, 0, 0, 0);
	assert_busy();
	id = one_op(&o, RR_OP_PULL, 0)->id;
	rr_eng_head(o.e, id, 0, head, n, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	assert_busy();
	rr_eng_pulled(o.e, id, 0, o.now);
	one_run(&o);
	idle();
	one_fini(&o);
}

Test(engine_idle, ids_of_before_do_not_match_afterwards)
{
	uint32_t stale;

	one_init(&o, RING, false);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 24), 0);
	stale = one_op(&o, RR_OP_SEND, 0)->id;
	idle();
	o.hold_send = true;
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 24), 0);
	rr_eng_done(o.e, stale, 0, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0, "the buffer is still being sent");
	one_done(&o, one_op(&o, RR_OP_SEND, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_fini(&o);
}
