/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_ENGINE_H
#define RR_FUZZ_ENGINE_H

/* The fuzzer's bytes as a script for one engine: messages from the peer (raw, or built so
 * that they decode), messages of the app, completions in any order, heads of pulls, time.
 * Checked, beside what engine_driver.h does: the number of operations stays in proportion. */

#include "tests/fuzz/engine_msgs.h"

static void fz_app(struct fz *z, uint32_t type)
{
	static const uint32_t sizes[] = { 24, 40, 900, 992, 996, 1000, 1500, 5000 };
	uint32_t xid = fz_byte(z) % FZ_XIDS, len = sizes[fz_byte(z) % 8];
	struct rr_eng_out out = {
		.rpc = { .xid = xid, .type = type, .prog = 100003, .vers = 3, .proc = 1 },
		.len = len, .buf = fz_buf(z, len),
	};

	if (out.buf == FZ_BUFS)
		return;
	if (rr_eng_send(z->e, &out, z->now))
		z->buf[out.buf].engines = false;
	else if (type == RR_RPC_CALL)
		z->calls[xid]++;
}

static void fz_exposed(struct fz *z, const struct rr_op *op)
{
	uint32_t buf = op->buf == RR_BUF_NEW ? fz_buf(z, op->room) : op->buf;
	struct rr_seg seg = { .handle = 0x100 + z->handle++, .length = op->len, .offset = 0x5000 };

	if (buf == FZ_BUFS || fz_byte(z) > 240) {
		if (buf != op->buf && buf != FZ_BUFS)
			z->buf[buf].engines = false;
		rr_eng_exposed(z->e, op->id, -EAGAIN, 0, NULL, 0, z->now);
		return;
	}
	z->buf[buf].live = true;
	z->buf[buf].handle = seg.handle;
	if (op->rights == RR_RIGHT_WRITE)
		z->offer = seg;
	rr_eng_exposed(z->e, op->id, 0, buf, &seg, 1, z->now);
}

static void fz_complete(struct fz *z)
{
	uint32_t i;
	struct rr_op op;

	if (z->npend == 0)
		return;
	i = fz_byte(z) % z->npend;
	op = z->pend[i];
	z->pend[i] = z->pend[--z->npend];
	if (op.code == RR_OP_EXPOSE) {
		fz_exposed(z, &op);
		return;
	}
	if (op.code == RR_OP_INVALIDATE)
		z->buf[op.buf].live = false;
	rr_eng_done(z->e, op.id, 0, z->now);
}

static void fz_head(struct fz *z)
{
	uint32_t i, shape = fz_byte(z), xid = fz_byte(z) % FZ_XIDS, len;
	uint8_t head[40];

	if (z->npull == 0)
		return;
	i = shape % z->npull;
	if (z->pull[i].headed) {
		uint32_t id = z->pull[i].id;

		z->pull[i].pulled = true;
		if (z->pull[i].delivered)
			fz_pull_over(z, i);
		rr_eng_pulled(z->e, id, 0, z->now);
		return;
	}
	if (shape & 128)
		len = WORDS(head, xid, 1, 0, 0, 0, 0);
	else
		len = WORDS(head, xid, 0, 2, 100003, 3, 1, 0, 0, 0, 0);
	z->pull[i].headed = true;
	z->pull[i].fetching = shape & 64 && !z->pull[i].room;
	len = len < z->pull[i].len ? len : z->pull[i].len;
	if (z->pull[i].fetching)
		rr_eng_front(z->e, z->pull[i].id, head, len, z->now);
	else
		rr_eng_head(z->e, z->pull[i].id, 0, head, len, z->now);
}

static void fz_stale(struct fz *z)
{
	uint32_t id = fz_byte(z) << 28 | fz_byte(z) % 8 << 16 | fz_byte(z) % 4;

	for (uint32_t i = 0; i < z->npend; i++)
		if (z->pend[i].id == id)
			return;
	for (uint32_t i = 0; i < z->npull; i++)
		if (z->pull[i].id == id)
			return;
	rr_eng_done(z->e, id, 0, z->now);
	rr_eng_exposed(z->e, id, 0, 0, NULL, 0, z->now);
}

static void fz_time(struct fz *z)
{
	z->now += fz_byte(z) * RR_MSEC * 20;
	rr_eng_tick(z->e, z->now);
}

static void fz_event(struct fz *z)
{
	switch (fz_byte(z) % 16) {
	case 0:
		fz_raw(z);
		break;
	case 1: case 2: case 3: case 4: case 5:
		if (z->dialect == RR_DIALECT_V2)
			fz_built_v2(z);
		else
			fz_built(z);
		break;
	case 6: case 7:
		fz_app(z, RR_RPC_CALL);
		break;
	case 8: case 9:
		fz_app(z, RR_RPC_REPLY);
		break;
	case 10:
		rr_eng_window(z->e, fz_byte(z) % 32);
		break;
	case 11:
		fz_time(z);
		break;
	case 12:
		fz_stale(z);
		break;
	case 13:
		fz_head(z);
		break;
	case 14:
		rr_eng_consumed(z->e, fz_byte(z), z->now);
		break;
	default:
		fz_complete(z);
		break;
	}
}

/* Both ends have come to terms: all that there is has been agreed on. */
static void fz_open_v2(struct fz *z, bool connector)
{
	uint8_t b[64];

	fz_run(z);
	fz_recv(z, b, WORDS(b, FZ_V2_XID, 2, 8, 5, connector, 3, 1, 4, 1024, 2, 4, 2, 0x52444d01, 4, 1), 0);
	fz_run(z);
}

static int fuzz_engine(const uint8_t *data, size_t len, bool connector)
{
	static const uint8_t dialects[] = {
		RR_DIALECT_V1, RR_DIALECT_V2, RR_DIALECT_DRAFT02, RR_DIALECT_SLIDES,
	};
	static struct fz z;
	struct rr_eng_params p = {
		.connector = connector,
		.inline_send = 1024, .inline_recv = 1024, .credits = 6, .bc_credits = 3,
		.max_msg = FZ_MAX_MSG, .reply_chunk = 2048, .reply_chunk_max = 4096,
		.max_chunks = 3, .max_segs = 2, .max_exposed = 6000,
		.done_timeout = RR_SEC, .done_timeout_pressure = RR_MSEC * 100,
		.recvs = FZ_TOKENS, .count = &z.count,
	};
	bool opens;
	void *mem;

	memset(&z, 0, sizeof(z));
	z.p = data;
	z.end = data + len;
	p.caps = fz_byte(&z);
	p.lenient_read_chunks = p.caps & 8;
	p.dialect = z.dialect = dialects[p.caps >> 4 & 3];
	opens = p.dialect == RR_DIALECT_V2 && !(p.caps & 64);
	p.ccp_prog = p.caps & 64 ? RR_CCP_PROG : 0;
	p.pad_align = p.caps & 128 ? 64 : 0;
	p.pad_thresh = 100;
	p.invalidate = p.invited = p.caps & 128;
	p.caps %= 8;
	if (p.dialect == RR_DIALECT_V2 && p.lenient_read_chunks)
		p.caps |= RR_CAP_REVERSE_CHUNKS;
	z.strict = !(p.caps & RR_CAP_RING_CREDITS);
	mem = calloc(1, rr_eng_size(&p));
	z.e = rr_eng_init(mem, &p, 0);
	rr_eng_window(z.e, 16);
	if (opens)
		fz_open_v2(&z, connector);
	while (z.p < z.end && !z.over) {
		fz_event(&z);
		fz_run(&z);
	}
	free(mem);
	return 0;
}

#endif
