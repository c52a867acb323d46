/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop between engine and provider, both of which are played: what each operation of the engine becomes, and what
 * the engine is told of each completion. */
#include <netinet/tcp.h>

#include "tests/unit/conn_played.h"

static struct rr_share *sh;

/* --- the engine (the Makefile wraps these) --- */

static struct {
	bool on;		/* else the real one */
	struct rr_op op[8];
	unsigned ops, taken;
	struct { uint32_t id; int status; } done[8];
	unsigned dones, hatcheds, ticks, recvs, plains;
	uint32_t window, consumed[8], token, len, inv;
	unsigned windows, consumes;
	const uint8_t *buf;
	bool plain, arriving, unwritable, frees;
	rr_time deadline;
} en;

bool __real_rr_eng_next_op(struct rr_eng *e, struct rr_op *op);
bool __wrap_rr_eng_next_op(struct rr_eng *e, struct rr_op *op);
void __real_rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now);
void __wrap_rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now);
void __real_rr_eng_window(struct rr_eng *e, uint32_t sends);
void __wrap_rr_eng_window(struct rr_eng *e, uint32_t sends);
void __real_rr_eng_recv(struct rr_eng *e, uint32_t token, const uint8_t *buf, uint32_t len, uint32_t inv, rr_time now);
void __wrap_rr_eng_recv(struct rr_eng *e, uint32_t token, const uint8_t *buf, uint32_t len, uint32_t inv, rr_time now);
bool __real_rr_eng_recv_plain(struct rr_eng *e, const uint8_t *buf, uint32_t len, rr_time now, struct rr_rpc *rpc);
bool __wrap_rr_eng_recv_plain(struct rr_eng *e, const uint8_t *buf, uint32_t len, rr_time now, struct rr_rpc *rpc);
void __real_rr_eng_hatched(struct rr_eng *e);
void __wrap_rr_eng_hatched(struct rr_eng *e);
bool __real_rr_eng_arriving(const struct rr_eng *e);
bool __wrap_rr_eng_arriving(const struct rr_eng *e);
bool __real_rr_eng_writable(const struct rr_eng *e);
bool __wrap_rr_eng_writable(const struct rr_eng *e);
rr_time __real_rr_eng_deadline(const struct rr_eng *e);
rr_time __wrap_rr_eng_deadline(const struct rr_eng *e);
void __real_rr_eng_tick(struct rr_eng *e, rr_time now);
void __wrap_rr_eng_tick(struct rr_eng *e, rr_time now);
void __real_rr_eng_consumed(struct rr_eng *e, uint32_t buf, rr_time now);
void __wrap_rr_eng_consumed(struct rr_eng *e, uint32_t buf, rr_time now);

bool __wrap_rr_eng_next_op(struct rr_eng *e, struct rr_op *op)
{
	if (!en.on)
		return __real_rr_eng_next_op(e, op);
	if (en.taken == en.ops)
		return false;
	*op = en.op[en.taken++];
	return true;
}

void __wrap_rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now)
{
	if (!en.on)
		return __real_rr_eng_done(e, id, status, now);
	en.done[en.dones % 8].id = id;
	en.done[en.dones++ % 8].status = status;
}

void __wrap_rr_eng_window(struct rr_eng *e, uint32_t sends)
{
	if (!en.on)
		return __real_rr_eng_window(e, sends);
	en.windows++;
	en.window = sends;
}

void __wrap_rr_eng_recv(struct rr_eng *e, uint32_t token, const uint8_t *buf, uint32_t len, uint32_t inv, rr_time now)
{
	if (!en.on)
		return __real_rr_eng_recv(e, token, buf, len, inv, now);
	en.recvs++;
	en.token = token;
	en.buf = buf;
	en.len = len;
	en.inv = inv;
}

bool __wrap_rr_eng_recv_plain(struct rr_eng *e, const uint8_t *buf, uint32_t len, rr_time now, struct rr_rpc *rpc)
{
	if (!en.on)
		return __real_rr_eng_recv_plain(e, buf, len, now, rpc);
	*rpc = (struct rr_rpc){ .type = RR_RPC_REPLY, .xid = 1 };
	en.plains += en.plain;
	return en.plain;
}

void __wrap_rr_eng_hatched(struct rr_eng *e)
{
	if (!en.on)
		return __real_rr_eng_hatched(e);
	en.hatcheds++;
}

bool __wrap_rr_eng_arriving(const struct rr_eng *e)
{
	return en.on ? en.arriving : __real_rr_eng_arriving(e);
}

bool __wrap_rr_eng_writable(const struct rr_eng *e)
{
	return en.on ? !en.unwritable : __real_rr_eng_writable(e);
}

rr_time __wrap_rr_eng_deadline(const struct rr_eng *e)
{
	return en.on ? en.deadline : __real_rr_eng_deadline(e);
}

void __wrap_rr_eng_tick(struct rr_eng *e, rr_time now)
{
	if (!en.on)
		return __real_rr_eng_tick(e, now);
	en.ticks++;
	en.deadline = RR_TIME_NEVER;
}

void __wrap_rr_eng_consumed(struct rr_eng *e, uint32_t buf, rr_time now)
{
	if (!en.on)
		return __real_rr_eng_consumed(e, buf, now);
	en.consumed[en.consumes++ % 8] = buf;
	if (en.frees)
		rr_pool_free(&sh->pool, buf);
}

TestSuite(conn_driver, .timeout = 60);

static void begin(bool direct)
{
	sh = play(direct);
	memset(&en, 0, sizeof(en));
	en.on = true;
	en.deadline = RR_TIME_NEVER;
}

static bool runs(struct rr_op op)
{
	en.op[0] = op;
	en.ops = 1;
	en.taken = en.dones = 0;
	return rr_drv_run(sh, 1);
}

static void told(unsigned n, uint32_t id, int status)
{
	cr_assert_eq(en.dones, n, "%u", en.dones);
	if (n)
		cr_assert(en.done[n - 1].id == id && en.done[n - 1].status == status, "%u %d", en.done[n - 1].id,
			  en.done[n - 1].status);
}

/* Buffers are single pages, which do not lie together: five of them. */
static uint32_t scattered(size_t len)
{
	int64_t b[16], all, got;

	for (int i = 0; i < 14; i++)
		b[i] = rr_pool_alloc(&sh->pool, 1);
	all = rr_pool_alloc(&sh->pool, (size_t)(sh->pool.npages - sh->pool.used) * RR_POOL_PAGE);
	for (int i = 0; i < 14; i += 2)
		rr_pool_free(&sh->pool, (uint32_t)b[i]);
	got = rr_pool_alloc(&sh->pool, len);
	cr_assert(all >= 0 && got >= 0);
	rr_pool_free(&sh->pool, (uint32_t)all);
	for (size_t off = 0; off < len; off++)
		*rr_pool_at(&sh->pool, (uint32_t)got, off, &(size_t){ 0 }) = (uint8_t)(off * 5 + (off >> 8));
	return (uint32_t)got;
}

static uint8_t byte(size_t off)
{
	return (uint8_t)(off * 5 + (off >> 8));
}

/* --- operations ---------------------------------------------------------------------------- */

Test(conn_driver, a_write_is_one_post_for_each_piece_that_lies_together_on_both_sides)
{
	static const struct { uint32_t handle, off, len; } want[] = {
		{ 51, 0, 4086 }, { 51, 4086, 914 }, { 52, 0, 3000 }, { 53, 0, 182 }, { 53, 182, 18 },
	};
	struct rr_seg seg[] = { { 51, 5000, 0 }, { 52, 3000, 10000 }, { 53, 900, 20000 }, { 54, 100, 30000 } };
	struct rr_op op = { .code = RR_OP_WRITE, .id = 4, .segs = seg, .nsegs = 4, .off = 10, .len = 8200 };

	begin(true);
	op.buf = scattered(9000);
	cr_assert(runs(op));
	cr_assert_eq(pl.writes, rr_array_size(want));
	for (unsigned i = 0; i < rr_array_size(want); i++) {
		cr_assert(pl.write[i].handle == want[i].handle && pl.write[i].off == want[i].off &&
				  pl.write[i].len == want[i].len,
			  "%u: %u %u %u", i, pl.write[i].handle, pl.write[i].off, pl.write[i].len);
		cr_assert_eq(pl.write[i].cookie, i == 4 ? rr_drv_cookie(RR_FOR_ENGINE, 4) : 0);
	}
	for (uint32_t i = 0; i < 8200; i++)
		cr_assert_eq(pl.peers[i < 5000 ? i : i < 8000 ? 10000 + i - 5000 : 20000 + i - 8000], byte(i + 10));
	told(1, 4, 0);
	/* Its completion is to come. */
	pl.on_write.first = 0;
	pl.writes = 0;
	cr_assert(runs(op));
	cr_assert_eq(pl.writes, 5);
	told(0, 0, 0);
	/* One fails, and none is posted behind it. */
	pl.writes = 0;
	pl.on_write.i = 1;
	pl.on_write.then = -EIO;
	cr_assert(runs(op));
	cr_assert_eq(pl.writes, 2);
	told(1, 4, -EIO);
	pl.writes = 0;
	pl.on_write.i = 0;
	cr_assert(runs(op));
	cr_assert_eq(pl.writes, 1);
	op.len = 0;
	cr_assert(runs(op));
	told(1, 4, 0);
	cr_assert_not(rr_drv_run(sh, 1), "there is no operation any more");
}

Test(conn_driver, a_send_has_its_header_and_its_bytes)
{
	static const uint8_t hdr[] = "a transport header of 28 byt";
	struct rr_op op = { .code = RR_OP_SEND, .id = 3, .hdr = hdr, .hdr_len = 28, .off = 5, .len = 9000, .inv_handle = 88 };
	uint64_t copied;

	begin(false);
	op.buf = scattered(12000);
	pl.on_send.first = 0;
	copied = sh->qp->count->v[RR_C_copied];
	cr_assert(runs(op));
	cr_assert(pl.sends == 1 && pl.sent_len == 9028 && pl.sent_inv == 88);
	cr_assert_eq(pl.sent_cookie, rr_drv_cookie(RR_FOR_ENGINE, 3));
	cr_assert_eq(memcmp(pl.sent, hdr, 28), 0);
	cr_assert_eq(pl.sent_pieces, 4, "the header and three pages");
	for (uint32_t i = 0; i < 9000; i++)
		cr_assert_eq(pl.sent[28 + i], byte(i + 5));
	cr_assert_eq(sh->qp->count->v[RR_C_copied], copied + 9028);
	told(0, 0, 0);
	cr_assert(en.windows == 1 && en.window == 77, "a device's queue may be full");
	/* A header alone, of which nobody is told. */
	op.id = op.len = op.off = 0;
	op.buf = RR_BUF_NONE;
	op.inv_handle = 0;
	pl.on_send.first = 1;
	cr_assert(runs(op));
	cr_assert(pl.sent_len == 28 && pl.sent_cookie == 0 && pl.sent_inv == 0 && pl.sent_pieces == 1);
	told(0, 0, 0);
	cr_assert(rr_link_is_up(sh));
	op.buf = RR_BUF_APP;
	cr_assert(runs(op));
	cr_assert(pl.sent_len == 28 && pl.sent_pieces == 1, "there is nothing of the app's in it");
	op.id = 3;
	cr_assert(runs(op));
	told(1, 3, 0);
	pl.on_send.first = -EIO;
	cr_assert(runs(op));
	told(1, 3, -EIO);
	cr_assert(rr_link_is_up(sh), "the engine says what that means");
	pl.on_send.first = -ECONNRESET;
	cr_assert(runs(op));
	told(1, 3, 0);
	cr_assert(rr_link_is_lost(sh) && !rr_link_is_dead(sh));
	sh->link = RR_LINK_UP;
	op.id = 0;
	cr_assert(runs(op));
	told(0, 0, 0);
	cr_assert(rr_link_is_lost(sh) && !rr_link_is_dead(sh));
	sh->link = RR_LINK_UP;
	pl.on_send.first = -EIO;
	cr_assert(runs(op));
	cr_assert(rr_link_is_dead(sh));
	cr_assert_eq(reported(sh), RR_R_DEVICE);
	sh->link = RR_LINK_UP;
	pl.on_send.first = -EPROTO;
	cr_assert(runs(op));
	cr_assert_eq(reported(sh), RR_R_PROTOCOL);
}

Test(conn_driver, a_direct_providers_window_is_asked_for_when_it_matters)
{
	static const uint8_t hdr[28];
	struct rr_op op = { .code = RR_OP_SEND, .hdr = hdr, .hdr_len = 28, .buf = RR_BUF_NONE };

	begin(true);
	cr_assert(runs(op));
	cr_assert_eq(en.windows, 0);
	rr_drv_begin(sh, 1);
	cr_assert(en.windows == 1 && en.window == 77);
	cr_assert_eq(pl.kicks, 0, "nothing went");
	en.taken = 0;
	rr_drv_begin(sh, 1);
	cr_assert_eq(pl.kicks, 1);
}

Test(conn_driver, a_send_in_parts_has_those_and_padding)
{
	static const struct rr_range parts[] = { { 4090, 10 }, { RR_PART_ZEROES, 3 }, { 0, 2 }, { 8000, 200 } };
	static const uint8_t hdr[28] = { 1 };
	struct rr_op op = { .code = RR_OP_SEND, .hdr = hdr, .hdr_len = 28, .off = 900, .len = 215, .parts = parts,
			    .nparts = 4 };
	uint8_t want[215];
	size_t n = 0;

	begin(true);
	op.buf = scattered(12000);
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t k = 0; k < parts[i].len; k++)
			want[n++] = i == 1 ? 0 : byte(parts[i].off + k);
	cr_assert(runs(op));
	cr_assert_eq(pl.sent_len, 28 + 215);
	cr_assert_eq(memcmp(pl.sent + 28, want, 215), 0);
}

/* The peer has written 21 bytes; behind them are zeroes, around them what came in the receive. */
Test(conn_driver, a_reply_is_put_around_what_the_peer_has_written)
{
	static const struct rr_range part = { 30, 21 };
	struct rr_op op = { .code = RR_OP_PLACE, .parts = &part, .nparts = 1, .at = 7, .off = 2, .stream = 50,
			    .token = 5, .len = 74 };
	const uint8_t *recv_at;
	uint64_t copied;

	begin(true);
	recv_at = pl.peers + 500;
	sh->tables->recv_at[5] = recv_at;
	op.buf = scattered(4200);
	copied = sh->qp->count->v[RR_C_copied];
	cr_assert(runs(op));
	for (uint32_t i = 0; i < 90; i++) {
		uint8_t is = *rr_pool_at(&sh->pool, op.buf, i, &(size_t){ 0 });
		uint32_t m = i - 7;	/* of the message */

		if (i < 7 || (m >= 30 && m < 51) || m >= 74)
			cr_assert_eq(is, byte(i), "%u is not touched", i);
		else if (m < 30)
			cr_assert_eq(is, recv_at[2 + m]);
		else if (m < 54)
			cr_assert_eq(is, 0, "%u is padding", i);
		else
			cr_assert_eq(is, recv_at[2 + 30 + m - 54], "%u", i);
	}
	cr_assert_eq(sh->qp->count->v[RR_C_copied], copied + 50);
}

Test(conn_driver, a_message_is_composed_of_what_lies_in_its_receive_or_was_fetched)
{
	static const struct rr_range part = { 8, 20 };
	struct rr_seg seg = { 3, 20, 0 };
	struct rr_op op = { .code = RR_OP_COMPOSE, .id = 12, .segs = &seg, .nsegs = 1, .len = 128, .off = 2, .parts = &part,
			    .nparts = 1, .stream = 108, .token = 5, .from = RR_FROM_RECV };

	begin(false);
	sh->tables->recv_at[5] = pl.peers + 500;
	cr_assert(runs(op));
	cr_assert(sh->pull[0].used && sh->pull[0].composed && sh->pull[0].recv == pl.peers + 502);
	sh->pull[0].recv = NULL;
	sh->pull[0].nparts = 0;
	op.from = RR_FROM_PULL;
	cr_assert(runs(op));
	cr_assert(sh->pull[0].nparts == 1 && !sh->pull[0].recv && !sh->pull[1].used);
	op = (struct rr_op){ .code = RR_OP_PULL, .id = 13, .segs = &seg, .nsegs = 1, .len = 20 };
	cr_assert(runs(op));
	cr_assert(sh->pull[1].used && sh->pull[1].id == 13 && pl.reads == 3);
}

static struct rr_rx_ent *last_come(void)
{
	return &sh->rx.ent[(sh->rx.tail - 1) % RR_RX_ENTS];
}

Test(conn_driver, what_is_delivered_lies_where_it_lies)
{
	struct rr_op op = { .code = RR_OP_DELIVER, .from = RR_FROM_BUF, .off = 6, .len = 300, .rpc = { .type = RR_RPC_CALL } };
	uint64_t came, bytes;
	struct rr_rx_ent *e;

	begin(true);
	came = sh->rx.records;
	bytes = sh->rx.bytes;
	op.buf = scattered(400);
	sh->hint = 0;
	sh->heard = false;
	en.op[0] = op;
	en.ops = 1;
	en.taken = 0;
	cr_assert(rr_drv_run(sh, 4711));
	e = last_come();
	cr_assert(e->from == RR_FROM_BUF && e->ref == op.buf && e->off == 6 && e->len == 300 && !e->reply && !e->stashed);
	cr_assert_eq(e->since, 4711);
	cr_assert_eq(sh->rx.records, came + 1);
	cr_assert_eq(sh->rx.bytes, bytes + 304);
	cr_assert_eq(sh->rx.held, 0);
	cr_assert_eq(sh->hint, RR_HINT_BYTES);
	cr_assert(sh->heard);
	sh->tables->recv_at[9] = pl.peers;
	op = (struct rr_op){ .code = RR_OP_DELIVER, .from = RR_FROM_RECV, .off = 28, .len = 40, .token = 9,
			     .rpc = { .type = RR_RPC_REPLY } };
	cr_assert(runs(op));
	e = last_come();
	cr_assert(e->from == RR_FROM_RECV && e->ref == 9 && e->ptr == pl.peers + 28 && e->len == 40 && e->reply);
	cr_assert_eq(sh->rx.held, 1);
	sh->pull[3].used = true;
	sh->pull[3].id = 12;
	sh->pull[3].local = false;
	op = (struct rr_op){ .code = RR_OP_DELIVER, .from = RR_FROM_PULL, .id = 12, .len = 40 };
	cr_assert(runs(op));
	e = last_come();
	cr_assert(e->from == RR_FROM_PULL && e->ref == 3);
	cr_assert_eq(sh->rx.held, 2);
	cr_assert_eq(sh->rx.records, came + 3);
}

Test(conn_driver, padding_is_left_out_of_what_is_delivered)
{
	static const struct rr_range one[] = { { 10, 3 } }, three[] = { { 0, 4 }, { 14, 3 }, { 19, 1 } };
	static uint8_t buf[100];
	struct rr_op op = { .code = RR_OP_DELIVER, .from = RR_FROM_RECV, .off = 5, .len = 40, .token = 9 };

	begin(true);
	sh->tables->recv_at[9] = buf;
	for (int i = 0; i < 100; i++)
		buf[i] = (uint8_t)i;
	op.parts = one;
	op.nparts = 1;
	cr_assert(runs(op));
	for (int i = 0; i < 40; i++)
		cr_assert_eq(buf[5 + i], 5 + i + (i >= 10 ? 3 : 0), "%d: %d", i, buf[5 + i]);
	cr_assert_eq(buf[45], 45);
	for (int i = 0; i < 100; i++)
		buf[i] = (uint8_t)i;
	op.parts = three;
	op.nparts = 3;
	cr_assert(runs(op));
	for (int i = 0; i < 40; i++)
		cr_assert_eq(buf[5 + i], 5 + i + 4 + (i >= 10 ? 3 : 0) + (i >= 12 ? 1 : 0), "%d: %d", i, buf[5 + i]);
	cr_assert_eq(buf[45], 45);
}

Test(conn_driver, what_the_engine_gives_back_is_free)
{
	uint32_t buf, used;

	begin(true);
	used = sh->pool.used;
	buf = (uint32_t)rr_pool_alloc(&sh->pool, 100);
	cr_assert(runs((struct rr_op){ .code = RR_OP_RELEASE, .buf = RR_BUF_APP }));
	cr_assert_eq(sh->pool.used, used + 1);
	cr_assert(runs((struct rr_op){ .code = RR_OP_RELEASE, .buf = buf }));
	cr_assert_eq(sh->pool.used, used);
	sh->pull[3].used = true;
	sh->pull[3].id = 12;
	cr_assert(runs((struct rr_op){ .code = RR_OP_RELEASE, .buf = RR_BUF_NONE, .id = 12 }));
	cr_assert_not(sh->pull[3].used);
	cr_assert_eq(pl.reposts, 0);
	cr_assert(runs((struct rr_op){ .code = RR_OP_REPOST, .token = 44 }));
	cr_assert(pl.reposts == 1 && pl.reposted == 44);
	cr_assert(runs((struct rr_op){ .code = RR_OP_NONE }));
}

Test(conn_driver, why_the_engine_fails_is_told_and_remembered)
{
	static const struct { enum rr_eng_why why; enum rr_reason told, kept; } of[] = {
		{ RR_WHY_NONE, RR_R_INTERNAL, RR_R_NONE }, { RR_WHY_ERR_CHUNK, RR_R_ERR_CHUNK, RR_R_NONE },
		{ RR_WHY_ERR_VERS, RR_R_NO_DIALECT, RR_R_NO_DIALECT }, { RR_WHY_PROTOCOL, RR_R_PROTOCOL, RR_R_NONE },
		{ RR_WHY_PROVIDER, RR_R_PEER_DIED, RR_R_NONE }, { RR_WHY_CREDITS, RR_R_CREDITS, RR_R_NONE },
		{ RR_WHY_OVERRUN, RR_R_PROTOCOL, RR_R_NONE }, { RR_WHY_TOO_LARGE, RR_R_SIZE_KNOWN, RR_R_SIZE_KNOWN },
		{ RR_WHY_NO_ANSWER, RR_R_NO_DIALECT, RR_R_NO_DIALECT }, { RR_WHY_REFUSED, RR_R_ERR_CHUNK, RR_R_SIZE_KNOWN },
		{ RR_WHY_DEVICE, RR_R_DEVICE, RR_R_NONE },
	};
	uint64_t lost;

	begin(true);
	cr_assert(sh->peer.sin6_family);
	for (unsigned i = 0; i < rr_array_size(of); i++) {
		rr_time now = rr_now();

		rr_cache_drop(&sh->peer);
		sh->link = RR_LINK_UP;
		sh->err = 0;
		sh->hint = 0;
		lost = sh->qp->count->v[RR_C_lost];
		pl.disconnects = 0;
		cr_assert(runs((struct rr_op){ .code = RR_OP_FAIL, .why = of[i].why }));
		cr_assert_eq(reported(sh), of[i].told, "%u: %u", i, reported(sh));
		cr_assert(rr_link_is_dead(sh) && sh->err == ECONNRESET && pl.disconnects == 1);
		cr_assert_eq(sh->hint, RR_HINT_IN | RR_HINT_OVER);
		cr_assert_eq(sh->qp->count->v[RR_C_lost], lost + 1);
		cr_assert_eq(rr_cache_look(&sh->peer, rr_now()), of[i].kept, "%u", i);
		if (of[i].kept) {
			cr_assert_eq(rr_cache_look(&sh->peer, now + 10 * rr_cp->negative_time - 1), of[i].kept);
			cr_assert_eq(rr_cache_look(&sh->peer, rr_now() + 10 * rr_cp->negative_time + 1), RR_R_NONE);
		}
		rr_drv_fail(sh, EIO, RR_R_INTERNAL);
		cr_assert(sh->err == ECONNRESET && pl.disconnects == 1, "it is over already");
	}
}

/* --- completions --------------------------------------------------------------------------- */

static rr_time comes(struct rr_wc wc)
{
	pl.wc[0] = wc;
	pl.batch[0] = 1;
	pl.batches = 1;
	pl.polls = pl.given = 0;
	en.dones = en.recvs = en.plains = 0;
	return rr_drv_progress(sh);
}

Test(conn_driver, a_receive_goes_to_the_engine)
{
	struct rr_wc wc = { .op = RR_WC_RECV, .cookie = 11, .len = 50 };
	uint32_t buf;

	begin(true);
	wc.buf = pl.peers;
	sh->active = 0;
	sh->rx.since = 0;
	cr_assert_neq(comes(wc), 0);
	cr_assert(en.recvs == 1 && en.token == 11 && en.buf == pl.peers && en.len == 50 && en.inv == 0);
	cr_assert_eq(pl.kicks, 1);
	cr_assert_neq(sh->active, 0);
	cr_assert_eq(sh->rx.since, 1);
	cr_assert_eq(pl.polls, 1, "there is no more");
	/* The peer has invalidated a key of ours. */
	buf = (uint32_t)rr_pool_alloc(&sh->pool, 10);
	sh->pool.buf[buf].nkeys = 1;
	sh->pool.buf[buf].key[0] = 99;
	wc.has_inv = true;
	wc.inv_handle = 99;
	en.plain = true;
	comes(wc);
	cr_assert(en.recvs == 1 && en.inv == 99 && en.plains == 0);
	cr_assert_eq(sh->pool.buf[buf].nkeys, 0);
}

Test(conn_driver, a_plain_message_goes_to_the_app_at_once)
{
	struct rr_wc wc = { .op = RR_WC_RECV, .cookie = 11, .len = RR_ENG_PLAIN_HDR + 60 };
	const struct rr_rx_ent *e;
	uint64_t bytes;

	begin(true);
	wc.buf = pl.peers;
	en.plain = true;
	bytes = sh->rx.bytes;
	comes(wc);
	e = last_come();
	cr_assert(en.plains == 1 && en.recvs == 0);
	cr_assert(e->from == RR_FROM_RECV && e->ref == 11 && e->ptr == pl.peers + RR_ENG_PLAIN_HDR && e->len == 60 &&
		  e->reply && e->since);
	cr_assert_eq(sh->rx.bytes, bytes + 64);
	wc.has_imm = true;
	wc.imm = RR_IMM_NOTE;
	comes(wc);
	cr_assert(en.plains == 0 && en.recvs == 0 && pl.reposts == 1 && pl.reposted == 11);
}

Test(conn_driver, where_a_receive_lies_is_kept_while_its_delivery_may_come_later)
{
	struct rr_wc wc = { .op = RR_WC_RECV, .cookie = 11, .len = 50 };
	const uint8_t **at;

	begin(true);
	wc.buf = pl.peers;
	at = &sh->tables->recv_at[11];
	sh->delays = false;
	*at = NULL;
	comes(wc);
	cr_assert_null(*at);
	sh->pulls_short = 1;
	comes(wc);
	cr_assert_eq(*at, pl.peers);
	sh->pulls_short = 0;
	*at = NULL;
	sh->delays = true;
	comes(wc);
	cr_assert_eq(*at, pl.peers);
	sh->delays = false;
	*at = NULL;
	sh->fences = 1;
	comes(wc);
	cr_assert_eq(*at, pl.peers);
	*at = NULL;
	wc.cookie = RR_RECVS;
	comes(wc);
	cr_assert_null(*at);
	cr_assert_null(sh->tables->recv_at[0]);
	at = sh->tables->recv_at;
	cr_assert_neq(at[RR_RECVS], pl.peers, "nor behind the table");
}

Test(conn_driver, each_message_of_the_connections_own_does_one_thing)
{
	struct rr_wc wc = { .op = RR_WC_RECV, .cookie = 11, .has_imm = true, .imm = RR_IMM_NOTE };

	begin(true);
	sh->rx.checked = 77;
	sh->hint = 0;
	comes(wc);
	cr_assert(sh->rx.checked == 0 && sh->hint == RR_HINT_IN && !sh->called_back && en.hatcheds == 0);
	cr_assert(rr_link_is_up(sh) && sh->rx.way == RR_WAY_IN_RDMA);
	sh->rx.checked = 77;
	sh->hint = 0;
	wc.imm = RR_IMM_BACK;
	comes(wc);
	cr_assert(sh->called_back && sh->rx.checked == 77 && sh->hint == 0 && sh->rx.way == RR_WAY_IN_RDMA);
	sh->called_back = false;
	wc.imm = 0x12345678;
	comes(wc);
	cr_assert(!sh->called_back && rr_link_is_up(sh) && sh->rx.way == RR_WAY_IN_RDMA && sh->rx.checked == 77);
	/* Between processes that can share the connection nobody has to follow. */
	cr_assert(rr_conn_shareable(sh));
	wc.imm = RR_IMM_HATCH;
	en.arriving = true;
	comes(wc);
	cr_assert(en.hatcheds == 1 && sh->rx.way == RR_WAY_IN_HATCHING && !sh->called_back);
	comes(wc);
	cr_assert_eq(en.hatcheds, 1, "it is open");
	en.arriving = false;
	cr_assert(runs((struct rr_op){ .code = RR_OP_NONE }));
	cr_assert(sh->rx.way == RR_WAY_IN_HATCHED && last_come()->from == RR_RX_HATCH && sh->hint & RR_HINT_IN);
	cr_assert_eq(pl.reposts, 5);
}

Test(conn_driver, after_a_hatch_that_nobody_else_can_use_this_end_follows)
{
	struct rr_wc wc = { .op = RR_WC_RECV, .cookie = 11, .has_imm = true, .imm = RR_IMM_HATCH };

	begin(true);
	pl.ops.caps &= ~(uint32_t)RR_PROV_FAMILY;
	cr_assert_not(rr_conn_shareable(sh));
	comes(wc);
	cr_assert(sh->called_back && sh->rx.way == RR_WAY_IN_HATCHED);
}

/* The lower half of the number is that of the records that went before, modulo its range. */
Test(conn_driver, a_crossing_says_after_how_many_records)
{
	struct rr_wc wc = { .op = RR_WC_RECV, .cookie = 11, .has_imm = true };

	begin(true);
	sh->rx.way = RR_WAY_IN_EARLY;
	sh->rx.before.records = 0x2fffe;
	wc.imm = RR_IMM_CROSS | 0xfffd;
	rr_cross_told(sh, wc.imm);
	cr_assert(rr_link_is_dead(sh), "fewer than have been read");
	sh->link = RR_LINK_UP;
	wc.imm = RR_IMM_CROSS | 3;
	comes(wc);
	cr_assert(rr_link_is_up(sh) && sh->rx.way == RR_WAY_IN_CROSSING && sh->rx.until == 0x30003);
	comes(wc);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_PROTOCOL, "once is enough");
	sh->link = RR_LINK_UP;
	sh->rx.way = RR_WAY_IN_EARLY;
	rr_cross_told(sh, RR_IMM_CROSS | ((0xfffe + RR_CROSS_COUNT / 2) & RR_CROSS_COUNT));
	cr_assert(rr_link_is_up(sh) && sh->rx.until == 0x2fffe + RR_CROSS_COUNT / 2);
	sh->rx.way = RR_WAY_IN_EARLY;
	rr_cross_told(sh, RR_IMM_CROSS | ((0xfffe + RR_CROSS_COUNT / 2 + 1) & RR_CROSS_COUNT));
	cr_assert(rr_link_is_dead(sh));
}

Test(conn_driver, a_completion_goes_to_who_waits_for_it)
{
	struct rr_wc wc = { .op = RR_WC_SEND, .cookie = rr_drv_cookie(RR_FOR_ENGINE, 6) };
	uint32_t buf;

	begin(false);
	comes(wc);
	told(1, 6, 0);
	wc.status = -EIO;
	comes(wc);
	told(1, 6, -EIO);
	wc = (struct rr_wc){ .op = RR_WC_READ, .cookie = rr_drv_cookie(RR_FOR_PULL, 4) };
	sh->pull[4] = (struct rr_pull){ .used = true, .id = 8, .pending = 5, .fetch = 10, .composed = true };
	comes(wc);
	cr_assert_eq(sh->pull[4].pending, 4);
	told(0, 0, 0);
	buf = (uint32_t)rr_pool_alloc(&sh->pool, 10);
	sh->pool.buf[buf].fencing = 2;
	sh->fences = 2;
	wc = (struct rr_wc){ .op = RR_WC_INVALIDATE, .cookie = rr_drv_cookie(RR_FOR_FENCE, buf) };
	comes(wc);
	cr_assert(sh->fences == 1 && sh->pool.buf[buf].fencing == 1);
	comes((struct rr_wc){ .op = RR_WC_SEND });
	told(0, 0, 0);
	cr_assert(rr_link_is_up(sh) && sh->fences == 1 && sh->pull[4].pending == 4);
	/* What was for a peer that is gone counts as sent; bytes that it had do not come. */
	comes((struct rr_wc){ .op = RR_WC_SEND, .cookie = rr_drv_cookie(RR_FOR_ENGINE, 6), .status = -ECONNRESET });
	told(1, 6, 0);
	cr_assert(rr_link_is_lost(sh) && !rr_link_is_dead(sh));
	sh->pull[4].pending = 1;
	sh->pull[4].asked = 10;
	comes((struct rr_wc){ .op = RR_WC_READ, .cookie = rr_drv_cookie(RR_FOR_PULL, 4), .status = -ECONNRESET });
	cr_assert_eq(sh->pull[4].pending, 0);
	sh->probing = true;
	comes((struct rr_wc){ .op = RR_WC_PROBE });
	cr_assert_not(sh->probing);
}

Test(conn_driver, what_the_connection_says_counts_against_the_window)
{
	begin(true);
	pl.on_say.first = 0;
	cr_assert_eq(rr_drv_say(sh, RR_IMM_NOTE), 0);
	cr_assert(pl.says == 1 && pl.said[0].imm == RR_IMM_NOTE && pl.said[0].cookie == 0);
	cr_assert(en.windows == 1 && en.window == 77);
	pl.on_say.first = 1;
	cr_assert_eq(rr_drv_say(sh, RR_IMM_BACK), 1);
	cr_assert_eq(en.windows, 2);
	pl.on_say.first = -EAGAIN;
	cr_assert_eq(rr_drv_say(sh, RR_IMM_BACK), -EAGAIN);
	cr_assert_eq(en.windows, 2);
}

Test(conn_driver, a_bell_is_drained_and_may_tell_of_the_end)
{
	begin(true);
	rr_drv_drain(sh);
	cr_assert(pl.drains == 1 && rr_link_is_up(sh));
	pl.drained = 1;
	rr_drv_drain(sh);
	cr_assert(rr_link_is_up(sh));
	pl.drained = -ECONNRESET;
	sh->rx.checked = 5;
	sh->lost_at = 0;
	sh->hint = 0;
	rr_drv_drain(sh);
	cr_assert(rr_link_is_lost(sh) && !rr_link_is_dead(sh));
	cr_assert(sh->rx.checked == 0 && sh->lost_at && sh->hint == (RR_HINT_IN | RR_HINT_OVER | RR_HINT_LOST));
	rr_drv_drain(sh);
	cr_assert_eq(pl.drains, 3);
	sh->lost_at = 1;
	rr_drv_lost(sh);
	cr_assert_eq(sh->lost_at, 1, "known already");
}

static void poll_says(int rc)
{
	pl.batch[0] = rc;
	pl.batches = 1;
	pl.polls = 0;
	rr_drv_progress(sh);
}

Test(conn_driver, what_the_engine_wants_then_is_done)
{
	begin(true);
	en.op[0] = (struct rr_op){ .code = RR_OP_REPOST, .token = 3 };
	en.ops = 1;
	comes((struct rr_wc){ .op = RR_WC_SEND });
	cr_assert_eq(pl.reposts, 1);
	en.taken = 0;
	en.plain = true;
	comes((struct rr_wc){ .op = RR_WC_RECV, .cookie = 4, .len = 100, .buf = pl.peers });
	cr_assert_eq(pl.reposts, 1, "after a plain message there is nothing");
}

Test(conn_driver, the_peer_is_told_where_this_end_runs_once_in_a_tick)
{
	begin(true);
	sh->cpu_told = 1;
	pl.tells[RR_TELL_CPU] = 0;
	comes((struct rr_wc){ .op = RR_WC_SEND });
	cr_assert(pl.tells[RR_TELL_CPU] == 1 && sh->cpu_told > 1);
}

/* What is fetched lacks memory that a call has which the peer has read. */
Test(conn_driver, memory_of_calls_that_were_read_serves_what_is_fetched)
{
	struct rr_seg seg = { 3, 20, 0 };
	struct rr_op op = { .code = RR_OP_PULL, .id = 13, .segs = &seg, .nsegs = 1, .len = 20 };
	int64_t buf;

	begin(false);
	buf = rr_pool_alloc(&sh->pool, (size_t)(sh->pool.npages - sh->pool.used) * RR_POOL_PAGE);
	cr_assert_geq(buf, 0);
	cr_assert(runs(op));
	cr_assert(sh->pulls_short == 1 && pl.reads == 0);
	poll_says(0);
	cr_assert(sh->pulls_short == 1 && en.consumes == 0 && pl.reads == 0 && pl.kicks == 0);
	cr_assert_neq(rr_drv_progress(sh), 0, "it says what time it is");
	en.op[0] = (struct rr_op){ .code = RR_OP_REPOST };
	en.ops = 1;
	en.taken = 0;
	poll_says(0);
	cr_assert_eq(pl.kicks, 1);
	sh->pool.buf[buf].nkeys = 1;
	sh->pool.buf[buf].key[0] = 99;
	en.frees = true;
	poll_says(0);
	cr_assert(sh->pulls_short == 0 && en.consumes == 1 && pl.reads == 1);
}

Test(conn_driver, what_lacked_memory_is_fetched_when_there_is_some)
{
	struct rr_seg seg = { 3, 20, 0 };
	struct rr_op op = { .code = RR_OP_PULL, .id = 13, .segs = &seg, .nsegs = 1, .len = 20 };

	begin(false);
	sh->rx.stash = rr_own_ahead();
	cr_assert(runs(op));
	cr_assert(sh->pulls_short == 1 && pl.reads == 0);
	sh->rx.stash = 0;
	poll_says(0);
	cr_assert(sh->pulls_short == 0 && pl.reads == 1 && en.consumes == 0);
}

static int probe_rc;

static int played_probe(struct rr_qp *qp)
{
	(void)qp;
	return probe_rc;
}

Test(conn_driver, a_probe_goes_out_where_there_is_one)
{
	begin(true);
	sh->keep_idle = RR_SEC;
	pl.ops.probe = played_probe;
	rr_drv_probe(sh);
	cr_assert(sh->probing && sh->keep_idle);
	probe_rc = -EAGAIN;
	rr_drv_probe(sh);
	cr_assert(!sh->probing && sh->keep_idle && rr_link_is_up(sh));
	pl.ops.probe = NULL;
	rr_drv_probe(sh);
	cr_assert(!sh->probing && !sh->keep_idle && rr_link_is_up(sh));
	pl.ops.probe = played_probe;
	probe_rc = -ECONNRESET;
	rr_drv_probe(sh);
	cr_assert(rr_link_is_lost(sh) && !rr_link_is_dead(sh));
}

/* A native peer is asked for a sign of life after so much silence. */
Test(conn_driver, silence_is_counted_from_the_last_message_or_probe)
{
	begin(true);
	sh->active = 500;
	sh->probed = 100;
	cr_assert_eq(rr_keep_due(sh), RR_TIME_NEVER);
	cr_assert_not(rr_keep_is_due(sh, RR_TIME_NEVER - 1));
	sh->keep_idle = 1000;
	cr_assert_eq(rr_keep_due(sh), 1500);
	sh->probed = 700;
	cr_assert_eq(rr_keep_due(sh), 1700);
	cr_assert_not(rr_keep_is_due(sh, 1699));
	cr_assert_eq(sh->probed, 700);
	cr_assert(rr_keep_is_due(sh, 1700));
	cr_assert_eq(sh->probed, 1700);
	cr_assert_not(rr_keep_is_due(sh, 1700));
	sh->probing = true;
	cr_assert_eq(rr_keep_due(sh), RR_TIME_NEVER);
	sh->probing = false;
	sh->link = RR_LINK_LOST;
	cr_assert_eq(rr_keep_due(sh), RR_TIME_NEVER);
}

static int learns(int on, int idle)
{
	errno = 4711;
	setsockopt(p.client.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(p.client.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	rr_keep_learn(sh, p.client.fd);
	cr_assert_eq(errno, 4711);
	return (int)(sh->keep_idle / RR_SEC);
}

Test(conn_driver, the_apps_keepalive_is_that_of_a_native_peer)
{
	begin(true);
	sh->keep_idle = 5 * RR_SEC;
	cr_assert_eq(learns(1, 9), 5, "between two of ours TCP does it");
	sh->qp->native = true;
	cr_assert_eq(learns(1, 9), 9);
	cr_assert_eq(learns(0, 9), 0);
	cr_assert_eq(learns(1, 70), 70);
	errno = 0;
	rr_keep_learn(sh, -1);
	cr_assert(sh->keep_idle == 0 && errno == 0);
	cr_assert(rr_keep_cares(SOL_SOCKET, SO_KEEPALIVE) && rr_keep_cares(IPPROTO_TCP, TCP_KEEPIDLE));
	cr_assert(rr_keep_cares(IPPROTO_TCP, TCP_KEEPINTVL) && rr_keep_cares(IPPROTO_TCP, TCP_KEEPCNT));
	cr_assert(rr_keep_cares(IPPROTO_TCP, TCP_USER_TIMEOUT) && !rr_keep_cares(SOL_SOCKET, TCP_USER_TIMEOUT));
	cr_assert(!rr_keep_cares(IPPROTO_TCP, SO_KEEPALIVE) && !rr_keep_cares(SOL_SOCKET, TCP_KEEPIDLE));
	cr_assert(!rr_keep_cares(IPPROTO_TCP, TCP_NODELAY));
}

/* A peer that keeps sending must not keep the thread. */
Test(conn_driver, no_more_is_taken_in_than_may_have_been_there)
{
	begin(true);
	sh->qp->recvs = 20;
	for (int i = 0; i < 32; i++)
		pl.batch[i] = RR_POLL_BATCH;
	pl.batches = 32;
	for (unsigned i = 0; i < rr_array_size(pl.wc); i++)
		pl.wc[i] = (struct rr_wc){ .op = RR_WC_SEND };
	rr_drv_progress(sh);
	cr_assert_eq(pl.polls, 3, "%u", pl.polls);
	cr_assert_eq(pl.kicks, 1);
	pl.polls = 0;
	pl.batch[1] = RR_POLL_BATCH - 1;
	rr_drv_progress(sh);
	cr_assert_eq(pl.polls, 2);
	pl.polls = 0;
	pl.batch[0] = 0;
	pl.kicks = 0;
	cr_assert_eq(rr_drv_progress(sh), 0);
	cr_assert(pl.polls == 1 && pl.kicks == 0);
	pl.polls = 0;
	sh->rx.head = sh->rx.tail - (RR_RX_ENTS - RR_POLL_BATCH);
	rr_drv_progress(sh);
	cr_assert_eq(pl.polls, 0, "the queue may be too small for what comes");
	sh->rx.head++;
	rr_drv_progress(sh);
	cr_assert_eq(pl.polls, 1);
	sh->rx.head = sh->rx.tail;
	pl.polls = 0;
	sh->link = RR_LINK_FAILED;
	cr_assert_eq(rr_drv_progress(sh), 0);
	cr_assert_eq(pl.polls, 0);
}

Test(conn_driver, a_poll_that_fails_is_the_end_or_the_peers)
{
	uint32_t buf;

	begin(false);
	buf = (uint32_t)rr_pool_alloc(&sh->pool, 10);
	sh->pool.buf[buf].fencing = 1;
	sh->fences = 1;
	poll_says(-ECONNRESET);
	cr_assert(rr_link_is_lost(sh) && !rr_link_is_dead(sh));
	cr_assert_eq(sh->fences, 0, "no completion comes any more");
	poll_says(-EIO);
	cr_assert_not(rr_link_is_dead(sh), "that is known");
	sh->link = RR_LINK_UP;
	poll_says(-EIO);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_DEVICE);
	sh->link = RR_LINK_UP;
	poll_says(-EPROTO);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_PROTOCOL);
}

Test(conn_driver, a_direct_providers_fences_go_on_without_the_peer)
{
	uint32_t buf;

	begin(true);
	buf = (uint32_t)rr_pool_alloc(&sh->pool, 10);
	sh->pool.buf[buf].fencing = 1;
	sh->fences = 1;
	poll_says(-ECONNRESET);
	cr_assert(rr_link_is_lost(sh) && sh->fences == 1);
}

Test(conn_driver, who_cannot_write_looks_at_the_window_and_at_what_can_be_freed)
{
	uint32_t buf;

	begin(true);
	buf = (uint32_t)rr_pool_alloc(&sh->pool, 10);
	sh->pool.buf[buf].nkeys = 1;
	sh->pool.buf[buf].key[0] = 99;
	poll_says(0);
	cr_assert(en.windows == 0 && en.consumes == 0);
	en.unwritable = true;
	poll_says(0);
	cr_assert(en.windows == 1 && en.window == 77 && en.consumes == 1 && en.consumed[0] == buf);
	pl.unread = 99;
	poll_says(0);
	cr_assert(en.windows == 2 && en.consumes == 1, "the peer has yet to read it");
	pl.unread = 0;
	sh->ep.caps &= ~(uint32_t)RR_CAP_RING_CREDITS;
	poll_says(0);
	cr_assert_eq(en.consumes, 1, "nor is it known of a peer without the library");
	sh->ep.caps |= RR_CAP_RING_CREDITS;
	en.unwritable = false;
	sh->tx.full = true;
	poll_says(0);
	cr_assert(en.windows == 4 && en.consumes == 1 && !sh->tx.full, "there is room");
	sh->tx.want = 1 << 30;
	poll_says(0);
	cr_assert_eq(en.windows, 5);
}

/* What there was to do may be what the peer sleeps for. */
Test(conn_driver, what_went_out_is_kicked)
{
	begin(true);
	en.unwritable = true;
	en.op[0] = (struct rr_op){ .code = RR_OP_REPOST };
	en.ops = 1;
	en.taken = 0;
	poll_says(0);
	cr_assert_eq(pl.kicks, 1);
	poll_says(0);
	cr_assert_eq(pl.kicks, 1);
	en.unwritable = false;
	en.deadline = 1;
	en.taken = 0;
	poll_says(0);
	cr_assert(en.ticks == 1 && pl.kicks == 2);
}

Test(conn_driver, the_engines_clock_ticks_when_it_is_due)
{
	begin(true);
	poll_says(0);
	cr_assert_eq(en.ticks, 0);
	en.deadline = rr_now() + 3600 * RR_SEC;
	poll_says(0);
	cr_assert_eq(en.ticks, 0);
	en.deadline = 1;
	poll_says(0);
	cr_assert_eq(en.ticks, 1);
}

/* Half of the receives are held: messages are moved. */
Test(conn_driver, what_crowds_the_receives_is_moved)
{
	uint32_t half;

	begin(true);
	half = sh->qp->recvs / 2;
	for (uint32_t i = 0; i <= half; i++)
		rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers + i, .len = 20, .ref = i });
	sh->rx.held--;
	poll_says(0);
	cr_assert(sh->rx.stash == 0 && pl.reposts == 0 && pl.kicks == 0);
	sh->rx.held++;
	poll_says(0);
	cr_assert_eq(sh->rx.stash, 20);
	cr_assert(sh->rx.held == half && pl.reposts == 1 && pl.reposted == 0 && pl.kicks == 1);
}

/* A reply in the peer's memory has its time there. */
Test(conn_driver, what_crowds_nobody_stays_where_it_is)
{
	uint32_t half;

	begin(true);
	half = sh->qp->recvs / 2;
	for (uint32_t i = 0; i <= half; i++)
		rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers + i, .len = 20, .ref = i });
	sh->pull[0] = (struct rr_pull){ .used = true, .len = 30, .nsegs = 1, .segs = { { 1, 30, 0 } } };
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_PULL, .len = 30, .reply = true, .since = rr_now_coarse() });
	poll_says(0);
	cr_assert(sh->rx.stash == 40 && sh->rx.held == half && sh->pull[0].used && pl.reposts == 2);
	rr_drv_stash(sh, last_come()->since + 100 * RR_MSEC);
	cr_assert(sh->pull[0].used);
	last_come()->reply = false;
	rr_drv_stash(sh, last_come()->since + 3600 * RR_SEC);
	cr_assert(sh->pull[0].used, "a call waits as long as it likes");
	last_come()->reply = true;
	pl.kicks = 0;
	rr_drv_stash(sh, last_come()->since + 100 * RR_MSEC + 1);
	cr_assert(!sh->pull[0].used && last_come()->from == RR_FROM_BUF && last_come()->stashed);
	cr_assert(sh->rx.stash == 70 && sh->rx.held == half - 1 && pl.consumes == 1 && pl.kicks == 1);
}

/* Nothing overtakes: it would be moved for nothing. */
Test(conn_driver, behind_what_cannot_be_moved_nothing_is)
{
	uint32_t half;

	begin(true);
	half = sh->qp->recvs / 2;
	for (uint32_t i = 0; i <= half; i++)
		rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers + i, .len = i ? 20 : 21, .ref = i });
	sh->rx.stash = rr_cp->max_stash - 20;
	poll_says(0);
	cr_assert(sh->rx.stash == rr_cp->max_stash - 20 && pl.reposts == 0);
	sh->rx.stash--;
	poll_says(0);
	cr_assert(sh->rx.stash == rr_cp->max_stash && pl.reposts == 1);
}

/* --- the short way out --------------------------------------------------------------------- */

Test(conn_driver, of_messages_in_memory_of_the_app_only_short_ones_go_from_there)
{
	uint64_t copied;
	size_t n;

	sh = play(true);
	n = rr_test_call(out, 9, 100, 1);
	copied = sh->qp->count->v[RR_C_copied];
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	cr_assert(pl.sends == 1 && pl.sent_len == n - 4 + RR_ENG_PLAIN_HDR && pl.sent_cookie == 0 && pl.sent_inv == 0);
	cr_assert_eq(memcmp(pl.sent + RR_ENG_PLAIN_HDR, out + 4, n - 4), 0);
	cr_assert_eq(sh->qp->count->v[RR_C_copied], copied + pl.sent_len);
	cr_assert_eq(pl.kicks, 1);
}
