/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <endian.h>
#include <string.h>

#include "core/engine/engine.h"

/* Short calls and replies between two shims: the bytes of one engine's Sends are given to
 * the other by hand. */

struct side {
	struct rr_eng *e;
	struct rr_counters count;
	uint32_t delivered, released, reposted;
	struct rr_op last;
	uint8_t wire[8][4096];
	uint32_t wire_len[8], nwire;
};

static uint8_t payload[4096];

static void side_init(struct side *s, bool connector, uint32_t window)
{
	struct rr_eng_params p = {
		.dialect = RR_DIALECT_V1,
		.caps = RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS,
		.connector = connector,
		.inline_send = 4096, .inline_recv = 4096,
		.credits = 32, .bc_credits = 8,
		.max_msg = 1 << 20, .max_chunks = 4, .max_segs = 16,
		.max_exposed = 1 << 20, .done_timeout = RR_SEC, .done_timeout_pressure = RR_MSEC,
		.count = &s->count,
	};
	void *mem = calloc(1, rr_eng_size(&p));

	s->e = rr_eng_init(mem, &p, 1);
	cr_assert_not_null(s->e);
	rr_eng_window(s->e, window);
}

static void put32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, 4);
}

static void run(struct side *s)
{
	struct rr_op op;

	while (rr_eng_next_op(s->e, &op)) {
		switch (op.code) {
		case RR_OP_SEND:
			memcpy(s->wire[s->nwire], op.hdr, op.hdr_len);
			memcpy(s->wire[s->nwire] + op.hdr_len, payload, op.len);
			s->wire_len[s->nwire++] = op.hdr_len + op.len;
			if (op.id)
				rr_eng_done(s->e, op.id, 0, 1);
			break;
		case RR_OP_DELIVER:
			s->delivered++;
			s->last = op;
			break;
		case RR_OP_RELEASE:
			s->released++;
			break;
		case RR_OP_REPOST:
			s->reposted++;
			break;
		default:
			cr_assert_fail("operation %d", op.code);
		}
	}
}

static int say(struct side *s, uint32_t type, uint32_t xid, uint32_t len)
{
	struct rr_eng_out out = {
		.rpc = { .xid = xid, .type = type, .prog = 100003, .vers = 3, .proc = 1 },
		.len = len, .buf = 7,
	};
	int rc = rr_eng_send(s->e, &out, 1);

	memset(payload, 0, sizeof(payload));
	put32(payload, xid);
	put32(payload + 4, type);
	put32(payload + 8, type == RR_RPC_CALL ? 2 : 0);
	if (rc == 0)
		run(s);
	return rc;
}

static void carry(struct side *from, struct side *to)
{
	for (uint32_t i = 0; i < from->nwire; i++)
		rr_eng_recv(to->e, 100 + i, from->wire[i], from->wire_len[i], 0, 1);
	from->nwire = 0;
	run(to);
}

Test(engine_inline, a_short_call_and_its_reply_go_in_one_send_each)
{
	struct side a = { 0 }, b = { 0 };

	side_init(&a, true, 16);
	side_init(&b, false, 16);
	cr_assert_eq(say(&a, RR_RPC_CALL, 0x1234, 40), 0);
	cr_assert_eq(a.nwire, 1);
	cr_assert_eq(a.wire_len[0], 28 + 40);
	cr_assert_eq(a.released, 1);
	carry(&a, &b);
	cr_assert_eq(b.delivered, 1);
	cr_assert_eq(b.last.from, RR_FROM_RECV);
	cr_assert_eq(b.last.token, 100);
	cr_assert_eq(b.last.off, 28);
	cr_assert_eq(b.last.len, 40);
	cr_assert_eq(b.last.rpc.xid, 0x1234);
	cr_assert_eq(b.last.rpc.type, RR_RPC_CALL);
	cr_assert_eq(say(&b, RR_RPC_REPLY, 0x1234, 24), 0);
	carry(&b, &a);
	cr_assert_eq(a.delivered, 1);
	cr_assert_eq(a.last.rpc.type, RR_RPC_REPLY);
	cr_assert_eq(a.count.v[RR_C_calls_sent], 1);
	cr_assert_eq(a.count.v[RR_C_replies_received], 1);
	cr_assert_eq(b.count.v[RR_C_calls_received], 1);
	cr_assert_eq(b.count.v[RR_C_replies_sent], 1);
	free(a.e);
	free(b.e);
}

Test(engine_inline, with_ring_credits_the_window_is_the_flow_control_and_keeps_a_reserve)
{
	struct side a = { 0 };
	uint32_t n = 0;

	side_init(&a, true, 8);
	while (n < 100 && say(&a, RR_RPC_CALL, n, 40) == 0)
		n++;
	cr_assert_eq(n, 6);
	cr_assert_not(rr_eng_writable(a.e));
	rr_eng_window(a.e, 8);
	cr_assert(rr_eng_writable(a.e));
	free(a.e);
}
