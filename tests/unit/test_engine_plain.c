/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/lib/oneside.h"

/* The short way of a plain message (rr_eng_send_plain(), rr_eng_recv_plain()) against the long one: two engines
 * live through the same, one of which is asked for the short way first. They must not differ. */

#define MSG	0
#define CAPS	(RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS | RR_CAP_HATCH | RR_CAP_REVERSE_CHUNKS)

static struct one o, shorter;
static uint32_t nplain;		/* messages that went the short way */

static void begin(uint32_t caps, bool connector)
{
	one_init(&o, caps, connector);
	one_init(&shorter, caps, connector);
	nplain = 0;
}

static void finish(void)
{
	one_fini(&o);
	one_fini(&shorter);
}

static void start(void)
{
	begin(CAPS, true);
}

#define CASE(name) Test(engine_plain, name, .init = start, .fini = finish)

static void assert_same(void)
{
	struct rr_eng_info a = one_info(&o), b = one_info(&shorter);

	for (int i = 0; i < RR_C_COUNT; i++)
		cr_assert_eq(o.count.v[i], shorter.count.v[i], "counter %d: %lu, short %lu", i,
			     (unsigned long)o.count.v[i], (unsigned long)shorter.count.v[i]);
	cr_assert_eq(a.granted, b.granted);
	cr_assert_eq(a.inflight, b.inflight);
	cr_assert_eq(a.serving, b.serving);
	cr_assert_eq(a.window, b.window);
	cr_assert_eq(rr_eng_writable(o.e), rr_eng_writable(shorter.e));
	cr_assert_eq(rr_eng_deadline(o.e), rr_eng_deadline(shorter.e));
}

/* Sent by both: what became of it. */
static int send_both(uint32_t type, uint32_t xid, uint32_t len)
{
	struct rr_eng_out out = { .rpc = { .xid = xid, .type = type, .prog = 100003, .vers = 3 },
				  .len = len, .buf = 1000 };
	uint8_t hdr[RR_ENG_PLAIN_HDR];
	bool fits = rr_eng_is_short(o.e, type, len);
	int rc;

	one_clear(&o);
	one_clear(&shorter);
	rc = one_send(&o, type, xid, len);
	if (fits && rr_eng_send_plain(shorter.e, &out, shorter.now, hdr)) {
		nplain++;
		cr_assert_eq(rc, 0);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
		cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, sizeof(hdr));
		cr_assert_arr_eq(hdr, o.hdr[0], sizeof(hdr));
		one_run(&shorter);
		cr_assert_eq(shorter.nops, 0, "there was something left to do");
	} else {
		cr_assert_eq(one_send(&shorter, type, xid, len), rc);
		cr_assert_eq(o.nops, shorter.nops);
	}
	assert_same();
	return rc;
}

static void recv_both(const uint8_t *buf, uint32_t len)
{
	uint8_t *copy = edged(buf, len);
	struct rr_rpc rpc;

	one_clear(&o);
	one_clear(&shorter);
	one_recv(&o, buf, len, 0);
	if (rr_eng_recv_plain(shorter.e, copy, len, shorter.now, &rpc)) {
		const struct rr_op *op = one_op(&o, RR_OP_DELIVER, 0);

		nplain++;
		cr_assert(op);
		cr_assert_eq(op->from, RR_FROM_RECV);
		cr_assert_eq(op->off, RR_ENG_PLAIN_HDR);
		cr_assert_eq(op->len, len - RR_ENG_PLAIN_HDR);
		cr_assert_eq(op->nparts, 0);
		cr_assert_eq(op->rpc.xid, rpc.xid);
		cr_assert_eq(op->rpc.type, rpc.type);
		cr_assert_eq(op->rpc.prog, rpc.prog);
		cr_assert_eq(op->rpc.proc, rpc.proc);
		one_run(&shorter);
		cr_assert_eq(shorter.nops, 0, "there was something left to do");
	} else {
		one_recv(&shorter, buf, len, 0);
		cr_assert_eq(o.nops, shorter.nops);
	}
	edge_back();
	assert_same();
}

#define RECV(...) do { \
	uint8_t recv_buf[4096]; \
	recv_both(recv_buf, WORDS(recv_buf, __VA_ARGS__)); \
} while (0)

CASE(calls_and_their_replies_take_it)
{
	for (uint32_t xid = 1; xid <= 40; xid++) {
		cr_assert_eq(send_both(RR_RPC_CALL, xid, 40), 0);
		RECV(xid, 1, 16, MSG, 0, 0, 0, A_REPLY(xid));
		RECV(xid, 1, 16, MSG, 0, 0, 0, A_CALL(xid));
		cr_assert_eq(send_both(RR_RPC_REPLY, xid, 24), 0);
		rr_eng_window(o.e, 60);
		rr_eng_window(shorter.e, 60);
	}
	cr_assert_eq(nplain, 160);
}

CASE(a_late_reply_is_delivered_as_by_tcp)
{
	RECV(9, 1, 16, MSG, 0, 0, 0, A_REPLY(9));
	cr_assert_eq(nplain, 1);
}

CASE(no_message_overtakes_one_that_is_being_pulled)
{
	RECV(1, 1, 8, 1, 1, 0, 0x77, 5000, 0, 0, 0, 0, 0);
	RECV(2, 1, 8, MSG, 0, 0, 0, A_CALL(2));
	cr_assert_eq(nplain, 0);
}

/* A reliable reply's memory is being exposed: what is written behind it waits. */
CASE(nor_one_that_waits_to_be_sent)
{
	o.hold_expose = shorter.hold_expose = true;
	RECV(1, 1, 8, MSG, 0, 0, 0, A_CALL(1));
	cr_assert_eq(send_both(RR_RPC_REPLY, 1, 20000), 0);
	nplain = 0;
	cr_assert_eq(send_both(RR_RPC_REPLY, 2, 24), -EAGAIN);
	cr_assert_eq(nplain, 0);
}

CASE(the_reply_to_a_call_with_chunks_does_not_take_it)
{
	/* with a Reply chunk, which is to be returned */
	RECV(3, 1, 8, MSG, 0, 0, 1, 1, 0x9, 4096, 0, 0, A_CALL(3));
	cr_assert_eq(send_both(RR_RPC_REPLY, 3, 24), 0);
	cr_assert_eq(nplain, 0);
}

CASE(the_window_keeps_its_reserve)
{
	rr_eng_window(o.e, 6);
	rr_eng_window(shorter.e, 6);
	for (uint32_t xid = 1; xid < 10; xid++)
		send_both(RR_RPC_CALL, xid, 40);
	cr_assert_lt(nplain, 6);
	cr_assert_eq(one_send(&shorter, RR_RPC_CALL, 11, 40), -EAGAIN);
}

CASE(calls_without_reply_are_forgotten_as_ever)
{
	for (uint32_t xid = 1; xid <= 500; xid++) {
		rr_eng_window(o.e, 60);
		rr_eng_window(shorter.e, 60);
		cr_assert_eq(send_both(RR_RPC_CALL, xid, 40), 0);
	}
	RECV(500, 1, 16, MSG, 0, 0, 0, A_REPLY(500));
	RECV(1, 1, 16, MSG, 0, 0, 0, A_REPLY(1));
}

/* Calls whose arguments the peer has not read yet are not forgotten. */
CASE(calls_that_must_be_kept_leave_no_room)
{
	for (uint32_t xid = 1; xid <= 16; xid++)
		cr_assert_eq(send_both(RR_RPC_CALL, xid, 5000), 0);
	cr_assert_eq(send_both(RR_RPC_CALL, 17, 40), -EAGAIN);
	RECV(3, 1, 16, MSG, 0, 0, 0, A_REPLY(3));
	cr_assert_eq(nplain, 0);
	cr_assert_eq(send_both(RR_RPC_CALL, 17, 40), 0);
	cr_assert_eq(nplain, 1);
}

Test(engine_plain, a_strict_peer_does_not_take_it, .fini = finish)
{
	begin(0, false);
	RECV(3, 1, 8, MSG, 0, 0, 0, A_CALL(3));
	send_both(RR_RPC_REPLY, 3, 24);
	cr_assert_eq(nplain, 0);
}

/* Headers and messages of all kinds, most of them plain, some with a word that is wrong, or cut short. */
static void random_message(uint32_t xid)
{
	uint8_t buf[256];
	bool call = random() % 2;
	uint32_t n = call ? WORDS(buf, xid, 1, 8, MSG, 0, 0, 0, A_CALL(xid)) :
			    WORDS(buf, xid, 1, 8, MSG, 0, 0, 0, A_REPLY(xid));

	if (random() % 4 == 0)
		buf[(unsigned)random() % n] ^= (uint8_t)(1u << random() % 8);
	if (random() % 8 == 0)
		n = (uint32_t)random() % (n + 1);
	recv_both(buf, n);
}

static void live(unsigned seed, bool connector)
{
	srandom(seed);
	begin(CAPS, connector);
	for (int i = 0; i < 300; i++) {
		uint32_t xid = (uint32_t)random() % 20, type = random() % 2 ? RR_RPC_CALL : RR_RPC_REPLY;

		if (random() % 2)
			random_message(xid);
		else
			send_both(type, xid, type == RR_RPC_CALL ? 40 : 24 + (uint32_t)random() % 2000);
		if (random() % 4 == 0) {
			uint32_t sends = (uint32_t)random() % 64;

			rr_eng_window(o.e, sends);
			rr_eng_window(shorter.e, sends);
		}
	}
	cr_assert_gt(nplain, 20);
	finish();
}

Test(engine_plain, two_lives_are_the_same)
{
	for (unsigned seed = 1; seed <= 300; seed++)
		live(seed, seed & 1);
}
