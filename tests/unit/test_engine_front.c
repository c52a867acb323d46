/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in the peer's memory that are judged by their front, while the driver still fetches the rest: what happens
 * at once, and what waits until all of it is here. */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/lib/oneside.h"

#define MSG	0
#define NOMSG	1
#define DONE	3
#define ERROR	4
#define REL	RR_CAP_RELIABLE_REPLY
#define RING	(RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS)

static struct one o;

TestSuite(engine_front, .timeout = 60);

/* A message of 2000 bytes comes as an RDMA Read chunk. Returns the pull's id. */
static uint32_t comes(uint32_t xid)
{
	uint32_t n = one_count(&o, RR_OP_PULL);

	ONE_RECV(&o, xid, 1, 20, NOMSG, 1, 0, 0x77, 2000, 0, 64, 0, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PULL), n + 1);
	return one_op(&o, RR_OP_PULL, n)->id;
}

static void front(uint32_t id, const uint8_t *head, uint32_t n)
{
	rr_eng_front(o.e, id, head, n, o.now);
	one_run(&o);
}

static void call_front(uint32_t id, uint32_t xid)
{
	uint8_t head[40];

	front(id, head, WORDS(head, A_CALL(xid)));
}

static void reply_front(uint32_t id, uint32_t xid)
{
	uint8_t head[24];

	front(id, head, WORDS(head, A_REPLY(xid)));
}

static void rest_is_here(uint32_t id, int status)
{
	rr_eng_pulled(o.e, id, status, o.now);
	one_run(&o);
}

static void delivered(uint32_t n, uint32_t xid)
{
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), n, "%u", one_count(&o, RR_OP_DELIVER));
	if (n)
		cr_assert_eq(one_op(&o, RR_OP_DELIVER, n - 1)->rpc.xid, xid);
}

Test(engine_front, what_comes_behind_it_is_delivered_when_all_of_it_is_here)
{
	uint8_t plain[68];
	struct rr_rpc rpc;
	uint32_t id;

	one_init(&o, RING, false);
	id = comes(5);
	call_front(id, 5);
	delivered(1, 5);
	cr_assert(one_op(&o, RR_OP_DELIVER, 0)->from == RR_FROM_PULL && one_op(&o, RR_OP_DELIVER, 0)->id == id);
	cr_assert(rr_eng_arriving(o.e), "a hatch behind it waits, too");
	cr_assert_not(rr_eng_recv_plain(o.e, plain, WORDS(plain, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6)), o.now, &rpc));
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	delivered(1, 5);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 0);
	rest_is_here(id, 0);
	delivered(2, 6);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_not(rr_eng_arriving(o.e));
	cr_assert_eq(one_count(&o, RR_OP_RELEASE) + one_count(&o, RR_OP_SEND), 0);
	rest_is_here(id, 0);
	delivered(2, 6);
	one_fini(&o);
}

/* A direct provider's driver reads it when the app does, which may take long. */
Test(engine_front, what_is_not_being_fetched_holds_up_nothing)
{
	uint8_t head[40];
	uint32_t id;

	one_init(&o, RING, false);
	id = comes(5);
	rr_eng_head(o.e, id, 0, head, WORDS(head, A_CALL(5)), o.now);
	one_run(&o);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	delivered(2, 6);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 40), 0);
	one_fini(&o);
}

Test(engine_front, each_has_its_turn_whichever_is_here_first)
{
	uint32_t a, b, c;

	one_init(&o, RING, false);
	a = comes(5);
	b = comes(6);
	c = comes(7);
	call_front(b, 6);
	rest_is_here(b, 0);
	call_front(c, 7);
	delivered(0, 0);
	call_front(a, 5);
	delivered(1, 5);
	rest_is_here(a, 0);
	delivered(3, 7);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 1)->rpc.xid, 6);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 2, "the third one's receive is needed");
	ONE_RECV(&o, 8, 1, 20, MSG, 0, 0, 0, A_CALL(8));
	delivered(3, 7);
	rest_is_here(c, 0);
	delivered(4, 8);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 3);
	one_fini(&o);
}

/* The peer would give its memory away, and take the Reads under way for those of a stranger. */
Test(engine_front, a_call_is_refused_when_nothing_reads_it_any_more)
{
	uint32_t id;

	one_init(&o, REL, false);
	id = comes(5);
	call_front(id, 6);
	ONE_RECV(&o, 7, 1, 20, MSG, 0, 0, 0, A_CALL(7));
	delivered(0, 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE) + one_count(&o, RR_OP_SEND), 0);
	rest_is_here(id, 0);
	cr_assert(one_count(&o, RR_OP_RELEASE) == 1 && one_op(&o, RR_OP_RELEASE, 0)->id == id);
	cr_assert(one_count(&o, RR_OP_SEND) == 1 && one_word(&o, 0, 0) == 5 && one_word(&o, 0, 3) == ERROR);
	delivered(1, 7);
	rest_is_here(id, 0);
	cr_assert(one_count(&o, RR_OP_RELEASE) == 1 && one_count(&o, RR_OP_SEND) == 1);
	one_fini(&o);
}

Test(engine_front, so_is_a_reply)
{
	uint32_t id;

	one_init(&o, REL, true);
	id = comes(9);
	reply_front(id, 9);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE) + one_count(&o, RR_OP_SEND), 0);
	rest_is_here(id, 0);
	delivered(0, 0);
	cr_assert(one_count(&o, RR_OP_RELEASE) == 1 && one_op(&o, RR_OP_RELEASE, 0)->id == id);
	cr_assert(one_count(&o, RR_OP_SEND) == 1 && one_word(&o, 0, 3) == DONE);
	cr_assert_eq(o.count.v[RR_C_unknown_xid], 1);
	/* An entry that is used again is judged anew. */
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	id = comes(5);
	reply_front(id, 5);
	delivered(1, 5);
	rest_is_here(id, 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	one_fini(&o);
}

Test(engine_front, done_is_said_when_all_of_a_reply_is_here)
{
	uint32_t id;

	one_init(&o, REL, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	one_clear(&o);
	id = comes(5);
	reply_front(id, 5);
	delivered(1, 5);
	cr_assert_eq(one_info(&o).inflight, 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	rest_is_here(id, 0);
	cr_assert(one_count(&o, RR_OP_SEND) == 1 && one_word(&o, 0, 0) == 5 && one_word(&o, 0, 3) == DONE);
	one_fini(&o);
}

/* With the reply a call's memory is the peer's again. Replies to other calls need not wait. */
Test(engine_front, its_own_reply_waits_for_the_rest)
{
	uint32_t id;

	one_init(&o, RING, false);
	ONE_RECV(&o, 4, 1, 20, MSG, 0, 0, 0, A_CALL(4));
	ONE_RECV(&o, 3, 1, 20, MSG, 0, 0, 0, A_CALL(3));
	id = comes(5);
	call_front(id, 5);
	delivered(3, 5);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 4, 40), 0);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 40), -EAGAIN);
	cr_assert_not(rr_eng_writable(o.e));
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 3, 40), 0);
	cr_assert(rr_eng_writable(o.e), "that is another one");
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 5000), -EAGAIN);
	cr_assert_not(rr_eng_writable(o.e));
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	rest_is_here(id, 0);
	cr_assert(rr_eng_writable(o.e));
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 40), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 3);
	/* Nor is a call of ours with the same XID a reply to it. */
	id = comes(6);
	call_front(id, 6);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 6, 40), 0);
	one_fini(&o);
}

/* It waits in the queue, and nobody has seen it. */
Test(engine_front, what_is_not_delivered_yet_holds_up_no_reply)
{
	uint32_t a, b;

	one_init(&o, RING, false);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	b = comes(6);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 40), 0, "to the first call with this XID");
	call_front(b, 7);
	rest_is_here(b, 0);	/* is refused */
	a = comes(5);
	b = comes(6);
	call_front(b, 6);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 40), 0, "to the second");
	call_front(a, 5);
	rest_is_here(a, 0);
	delivered(4, 6);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 40), -EAGAIN);
	rest_is_here(b, 0);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 6, 40), 0);
	one_fini(&o);
}

/* XIDs of the two directions have nothing to do with each other. */
Test(engine_front, a_reply_that_is_being_fetched_holds_up_no_other)
{
	uint32_t id;

	one_init(&o, RING, true);
	one_send(&o, RR_RPC_CALL, 5, 40);
	ONE_RECV(&o, 5, 1, 20, MSG, 0, 0, 0, A_CALL(5));
	id = comes(5);
	reply_front(id, 5);
	delivered(2, 5);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 1)->rpc.type, RR_RPC_REPLY);
	cr_assert_eq(one_send(&o, RR_RPC_REPLY, 5, 40), 0);
	one_fini(&o);
}

Test(engine_front, a_rest_that_does_not_come_ends_the_connection)
{
	uint32_t id;

	one_init(&o, RING, false);
	id = comes(5);
	call_front(id, 5);
	ONE_RECV(&o, 6, 1, 20, MSG, 0, 0, 0, A_CALL(6));
	rest_is_here(id, -EIO);
	delivered(1, 5);
	cr_assert(one_count(&o, RR_OP_FAIL) == 1 && one_op(&o, RR_OP_FAIL, 0)->why == RR_WHY_DEVICE);
	rest_is_here(id, 0);
	delivered(1, 5);
	one_fini(&o);
	/* Also of one that was going to be refused. */
	one_init(&o, RING, false);
	id = comes(5);
	call_front(id, 6);
	rest_is_here(id, -EACCES);
	cr_assert(one_count(&o, RR_OP_FAIL) == 1 && one_op(&o, RR_OP_FAIL, 0)->why == RR_WHY_PROTOCOL);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE) + one_count(&o, RR_OP_SEND), 0);
	one_fini(&o);
}

Test(engine_front, an_id_of_something_else_is_nothing)
{
	uint32_t id;

	one_init(&o, RING, false);
	id = comes(5);
	call_front(id + 1, 5);
	delivered(0, 0);
	call_front(id, 5);
	call_front(id, 5);
	delivered(1, 5);
	rest_is_here(id, 0);
	call_front(id, 5);
	delivered(1, 5);
	one_fini(&o);
}
