/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_ENGINE_H
#define RR_FUZZ_ENGINE_H

/* The fuzzer's bytes as a script for one engine: messages from the peer (raw, or built so
 * that they decode), messages of the app, completions in any order, heads of pulls, time.
 * Checked: every receive and every buffer comes back exactly once and only fenced; nothing is
 * delivered that was not received; a strict requester gets replies only to its calls; the
 * number of operations stays in proportion. */

#include <errno.h>

#include "core/engine/engine.h"
#include "core/wire/ccp.h"
#include "tests/fuzz/fuzz.h"

#define FZ_TOKENS	256u
#define FZ_BUFS		512u
#define FZ_PENDING	256u
#define FZ_XIDS		8u
#define FZ_MAX_MSG	8192u
#define FZ_V2_XID	0x52444d04u	/* of the engine's own CONNPROP */

struct fz {
	const uint8_t *p, *end;
	struct rr_eng *e;
	struct rr_counters count;
	bool strict, over;
	enum rr_dialect dialect;
	rr_time now;
	struct { bool out; uint32_t len; } token[FZ_TOKENS];
	struct { bool engines, live; uint32_t len, handle; } buf[FZ_BUFS];
	struct rr_op pend[FZ_PENDING];
	uint32_t npend, handle, ops;
	uint32_t calls[FZ_XIDS];	/* sent, not answered */
	struct fz_pull { uint32_t id, len; bool headed, pulled, delivered; } pull[FZ_PENDING];
	uint32_t npull;
	struct rr_seg offer;		/* the last memory for a reply that was exposed */
};

static uint32_t fz_byte(struct fz *z)
{
	return z->p < z->end ? *z->p++ : 0;
}

static uint32_t fz_token(struct fz *z)
{
	for (uint32_t i = 0; i < FZ_TOKENS; i++)
		if (!z->token[i].out)
			return i;
	return FZ_TOKENS;
}

static uint32_t fz_buf(struct fz *z, uint32_t len)
{
	for (uint32_t i = 0; i < FZ_BUFS; i++) {
		if (z->buf[i].engines)
			continue;
		z->buf[i].engines = true;
		z->buf[i].live = false;
		z->buf[i].len = len;
		return i;
	}
	return FZ_BUFS;
}

static void fz_token_back(struct fz *z, uint32_t token)
{
	fuzz_check(token < FZ_TOKENS && z->token[token].out);
	z->token[token].out = false;
}

static void fz_buf_back(struct fz *z, uint32_t buf)
{
	fuzz_check(buf < FZ_BUFS && z->buf[buf].engines && !z->buf[buf].live);
	z->buf[buf].engines = false;
}

static uint32_t fz_pull(struct fz *z, uint32_t id)
{
	for (uint32_t i = 0; i < z->npull; i++)
		if (z->pull[i].id == id)
			return i;
	fuzz_check(!"a pull that was never begun");
	return 0;
}

static void fz_pull_over(struct fz *z, uint32_t i)
{
	z->pull[i] = z->pull[--z->npull];
}

/* Ranges that lie in a message of len bytes, in order, and what they take of it. */
static uint64_t fz_ranges(const struct rr_op *op, uint32_t len)
{
	uint64_t end = 0, sum = 0;

	for (uint32_t i = 0; i < op->nparts; i++) {
		fuzz_check(op->parts[i].off >= end);
		end = (uint64_t)op->parts[i].off + op->parts[i].len;
		sum += op->parts[i].len;
	}
	fuzz_check(end <= len);
	return sum;
}

static void fz_deliver(struct fz *z, const struct rr_op *op)
{
	uint32_t i;

	fuzz_check(op->rpc.type <= RR_RPC_REPLY);
	if (op->rpc.type == RR_RPC_REPLY && z->strict) {
		fuzz_check(op->rpc.xid < FZ_XIDS && z->calls[op->rpc.xid] > 0);
		z->calls[op->rpc.xid]--;
	}
	switch (op->from) {
	case RR_FROM_RECV:
		fuzz_check(op->token < FZ_TOKENS);
		fuzz_check(op->off + op->len + fz_ranges(op, z->token[op->token].len - op->off) ==
			   z->token[op->token].len);
		fz_token_back(z, op->token);
		break;
	case RR_FROM_BUF:
		fuzz_check(op->off + op->len <= z->buf[op->buf].len);
		fz_buf_back(z, op->buf);
		break;
	case RR_FROM_PULL:
		i = fz_pull(z, op->id);
		fuzz_check(z->pull[i].headed && !z->pull[i].delivered && op->len == z->pull[i].len);
		z->pull[i].delivered = true;
		if (z->pull[i].pulled)
			fz_pull_over(z, i);
		break;
	}
}

static void fz_pend(struct fz *z, const struct rr_op *op)
{
	fuzz_check(op->id && z->npend < FZ_PENDING);
	z->pend[z->npend++] = *op;
}

static void fz_compose(struct fz *z, const struct rr_op *op)
{
	uint64_t sum = fz_ranges(op, op->len), fetch = 0, pad = 0;
	uint32_t i = z->npull;

	for (uint32_t k = 0; k < op->nsegs; k++)
		fetch += op->segs[k].length;
	for (uint32_t k = 0; k < op->nparts; k++)
		pad += rr_ulb_pad(op->parts[k].len);
	fuzz_check(fetch == sum && op->stream + sum + pad == op->len);
	fuzz_check(op->len <= FZ_MAX_MSG && op->nparts > 0);
	if (op->from == RR_FROM_PULL) {
		i = fz_pull(z, op->id);
		fuzz_check(z->pull[i].headed && op->stream == z->pull[i].len);
	} else {
		fuzz_check(z->token[op->token].out);
		fuzz_check(op->off + op->stream == z->token[op->token].len && z->npull < FZ_PENDING);
		z->pull[z->npull++] = (struct fz_pull){ .id = op->id, .headed = true };
	}
	z->pull[i].len = op->len;
}

static void fz_place(struct fz *z, const struct rr_op *op)
{
	fuzz_check(op->nparts == 1 && op->buf < FZ_BUFS && !z->buf[op->buf].live);
	fz_ranges(op, op->len);
	fuzz_check(op->at + op->len <= z->buf[op->buf].len);
	fuzz_check(op->stream + op->parts[0].len + rr_ulb_pad(op->parts[0].len) == op->len);
	fuzz_check(z->token[op->token].out);
	fuzz_check(op->off + op->stream == z->token[op->token].len);
}

static void fz_op(struct fz *z, const struct rr_op *op)
{
	fuzz_check(!z->over);
	switch (op->code) {
	case RR_OP_SEND:
		fuzz_check(op->hdr_len >= 16 && op->hdr_len + op->len <= 1024);
		if (op->id)
			fz_pend(z, op);
		break;
	case RR_OP_EXPOSE:
	case RR_OP_WRITE:
	case RR_OP_INVALIDATE:
		fz_pend(z, op);
		break;
	case RR_OP_PULL:
		fuzz_check(z->npull < FZ_PENDING && op->nsegs > 0 && op->len > 0);
		z->pull[z->npull].id = op->id;
		z->pull[z->npull].len = op->len;
		z->pull[z->npull].headed = z->pull[z->npull].pulled = false;
		z->pull[z->npull++].delivered = false;
		break;
	case RR_OP_COMPOSE:
		fz_compose(z, op);
		break;
	case RR_OP_PLACE:
		fz_place(z, op);
		break;
	case RR_OP_DELIVER:
		fz_deliver(z, op);
		break;
	case RR_OP_RELEASE:
		if (op->buf == RR_BUF_NONE)
			fz_pull_over(z, fz_pull(z, op->id));
		else
			fz_buf_back(z, op->buf);
		break;
	case RR_OP_REPOST:
		fz_token_back(z, op->token);
		break;
	case RR_OP_FAIL:
		fuzz_check(op->why != RR_WHY_NONE);
		z->over = true;
		break;
	default:
		fuzz_check(!"an operation without code");
	}
}

static void fz_run(struct fz *z)
{
	struct rr_op op;
	uint32_t n = 0;

	while (rr_eng_next_op(z->e, &op)) {
		fuzz_check(++n < 4096);
		fz_op(z, &op);
	}
}

/* --- events ---------------------------------------------------------------------------- */

static void fz_recv(struct fz *z, const uint8_t *bytes, uint32_t len, uint32_t inv)
{
	uint32_t token = fz_token(z);
	uint8_t *copy;

	if (token == FZ_TOKENS)
		return;
	z->token[token].out = true;
	z->token[token].len = len;
	for (uint32_t i = 0; inv && i < FZ_BUFS; i++)
		if (z->buf[i].handle == inv)
			z->buf[i].live = false;
	copy = tight(bytes, len);
	rr_eng_recv(z->e, token, copy, len, inv, z->now);
	memset(copy, 0xaa, len);	/* the peer scribbles on */
	free(copy);
}

static uint32_t fz_segs(struct fz *z, uint8_t *at, uint32_t n)
{
	uint32_t len = WORDS(at, n);

	for (uint32_t i = 0; i < n; i++)
		len += WORDS(at + len, 0x100 + fz_byte(z) % 16, fz_byte(z) * 32, 0, 0x5000 + fz_byte(z) / 250);
	return len;
}

/* --- messages of NFSv3, and chunks that fit them, or nearly ------------------------------- */

/* READ or WRITE, up to the data */
static uint32_t fz_nfs_call(uint8_t *at, uint32_t xid, uint32_t proc, uint32_t data)
{
	uint32_t n = WORDS(at, xid, 0, 2, 100003, 3, proc, 0, 0, 0, 0, 8, 1, 2, 0, 0, data);

	return proc == 7 ? n + WORDS(at + n, 2, data) : n;
}

/* of READ, up to the data */
static uint32_t fz_nfs_reply(uint8_t *at, uint32_t xid, uint32_t data)
{
	return WORDS(at, xid, 1, 0, 0, 0, 0, 0, 0, data, 1, data);
}

static uint32_t fz_pick(struct fz *z, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	uint32_t of[] = { a, b, c, d };

	return of[fz_byte(z) % 4];
}

/* A WRITE whose data is in a Read chunk; its stream inline or at position zero. */
static void fz_write_call(struct fz *z, uint32_t xid)
{
	uint32_t data = fz_pick(z, 0, 101, 3000, 9000), len, n;
	bool zero = fz_byte(z) & 1;
	uint8_t b[512], m[256];

	n = fz_nfs_call(m, xid, 7, data);
	len = WORDS(b, xid, 1, 8, zero);
	len += WORDS(b + len, 1, fz_pick(z, n, n, n + 4, 44), 0x11, fz_pick(z, data, data, data + 3, 4), 0, 0);
	if (zero)
		len += WORDS(b + len, 1, 0, 0x12, n, 0, 0);
	len += WORDS(b + len, 0, 0, 0);
	if (!zero) {
		memcpy(b + len, m, n);
		len += n;
	}
	fz_recv(z, b, len, 0);
}

/* A READ with one or two Write chunks, and a Reply chunk at times. */
static void fz_read_call(struct fz *z, uint32_t xid)
{
	uint32_t len, shape = fz_byte(z);
	uint8_t b[512];

	len = WORDS(b, xid, 1, 8, 0, 0, 1);
	len += fz_segs(z, b + len, shape % 3);
	if (shape & 4) {
		len += WORDS(b + len, 1);
		len += fz_segs(z, b + len, 1);
	}
	len += WORDS(b + len, 0, !!(shape & 8));
	if (shape & 8)
		len += fz_segs(z, b + len, 2);
	len += fz_nfs_call(b + len, xid, 6, 4000);
	fz_recv(z, b, len, 0);
}

/* The reply to a READ of ours, with the chunk that was offered last. */
static void fz_read_reply(struct fz *z, uint32_t xid)
{
	uint32_t data = fz_pick(z, 0, 1001, 3000, z->offer.length), len;
	uint32_t used = fz_pick(z, data, data, 0, data + 1);
	uint8_t b[512];

	len = WORDS(b, xid, 1, 8, 0, 0, 1, 1, z->offer.handle, used, 0, (uint32_t)z->offer.offset, 0, 0);
	len += fz_nfs_reply(b + len, xid, data);
	fz_recv(z, b, len, fz_byte(z) > 200 ? z->offer.handle : 0);
}

static void fz_app_bytes(struct fz *z, uint8_t *msg, uint32_t fixed, uint32_t data)
{
	struct rr_eng_out out = { .len = fixed + data + rr_ulb_pad(data), .head = msg, .have = fixed };

	rr_rpc_peek(msg, fixed, &out.rpc);
	out.buf = fz_buf(z, out.len);
	if (out.buf == FZ_BUFS)
		return;
	if (rr_eng_send(z->e, &out, z->now))
		z->buf[out.buf].engines = false;
	else if (out.rpc.type == RR_RPC_CALL)
		z->calls[out.rpc.xid]++;
}

/* The stream of a pull that has to be judged whole. */
static void fz_whole_head(struct fz *z, uint32_t xid)
{
	uint32_t i = 0, n, data = fz_pick(z, 0, 101, 3000, 3000);
	uint8_t m[256];

	n = fz_nfs_call(m, xid, 7, data);
	while (i < z->npull && (z->pull[i].headed || z->pull[i].len != n))
		i++;
	if (i == z->npull)
		return;
	z->pull[i].headed = true;
	rr_eng_head(z->e, z->pull[i].id, 0, m, n, z->now);
}

/* RDMA_MSGP: a WRITE, or the reply to a READ, whose data is padded, or nearly. */
static void fz_padded(struct fz *z, uint32_t xid)
{
	uint32_t data = fz_pick(z, 0, 101, 400, 300), align = fz_pick(z, 4, 64, 100, 4096), len, n;
	uint32_t thresh = fz_pick(z, 9, 100, 0, data), pad;
	uint8_t b[8192], m[256];

	n = fz_byte(z) & 1 ? fz_nfs_call(m, xid, 7, data) : fz_nfs_reply(m, xid, data);
	len = WORDS(b, xid, 1, 8, 2, align, thresh, 0, 0, 0);
	memcpy(b + len, m, n);
	len += n;
	pad = data < thresh ? 0 : -len & (align - 1);
	memset(b + len, 0, pad + data + rr_ulb_pad(data));
	len += pad + data + rr_ulb_pad(data) + fz_pick(z, 0, 0, 0, 4);
	fz_recv(z, b, len, 0);
}

/* draft02's CCP: the client's call, or the answer to ours. */
static void fz_ccp(struct fz *z, uint32_t xid)
{
	uint32_t sizes[] = { fz_byte(z) * 16, fz_byte(z) * 16, fz_byte(z) % 3 }, len;
	uint8_t b[256];

	if (fz_byte(z) & 1) {
		len = WORDS(b, xid, 1, 5, 0, 0, 0, 0);
		len += WORDS(b + len, xid, 0, 2, RR_CCP_PROG, 1, fz_byte(z) % 3, 0, 0, 0, 0);
	} else {
		len = WORDS(b, 0x52444d04, 1, 5, 0, 0, 0, 0);
		len += WORDS(b + len, 0x52444d04, 1, 0, 0, 0, fz_byte(z) % 2);
	}
	len += WORDS(b + len, sizes[0], sizes[1], sizes[2]);
	fz_recv(z, b, len, 0);
}

static void fz_nfs(struct fz *z)
{
	uint32_t what = fz_byte(z) % 10, xid = fz_byte(z) % FZ_XIDS;
	uint8_t m[256];
	uint32_t data;

	switch (what) {
	case 0: case 1:
		fz_write_call(z, xid);
		break;
	case 8:
		fz_padded(z, xid);
		break;
	case 9:
		fz_ccp(z, xid);
		break;
	case 2:
		fz_read_call(z, xid);
		break;
	case 3:
		fz_read_reply(z, xid);
		break;
	case 4:
		fz_whole_head(z, xid);
		break;
	case 5:
		data = fz_pick(z, 0, 101, 2001, 5000);
		fz_app_bytes(z, m, fz_nfs_reply(m, xid, data), data);
		break;
	case 6:
		fz_app_bytes(z, m, fz_nfs_call(m, xid, 6, fz_pick(z, 100, 1001, 3000, 9000)), 0);
		break;
	default:
		data = fz_pick(z, 0, 101, 2001, 5000);
		fz_app_bytes(z, m, fz_nfs_call(m, xid, 7, data), data);
		break;
	}
}

static void fz_raw(struct fz *z)
{
	uint32_t len = fz_byte(z) * 2;

	len = len < (uint32_t)(z->end - z->p) ? len : (uint32_t)(z->end - z->p);
	if (len == 0) {
		fz_nfs(z);
		return;
	}
	fz_recv(z, z->p, len, 0);
	z->p += len;
}

/* The three chunk lists, as shape says. */
static uint32_t fz_lists(struct fz *z, uint8_t *at, uint32_t shape)
{
	uint32_t len = 0;

	for (uint32_t n = shape & 8 ? 1 + fz_byte(z) % 3 : 0; n > 0; n--)
		len += WORDS(at + len, 1, fz_byte(z) / 200, fz_byte(z), fz_byte(z) * 16, 0, 0);
	len += WORDS(at + len, 0);
	if (shape & 16) {
		len += WORDS(at + len, 1);
		len += fz_segs(z, at + len, fz_byte(z) % 3);
	}
	len += WORDS(at + len, 0, !!(shape & 32));
	if (shape & 32)
		len += fz_segs(z, at + len, fz_byte(z) % 3);
	return len;
}

static uint32_t fz_rpc(uint8_t *at, uint32_t xid, bool reply)
{
	if (reply)
		return WORDS(at, xid, 1, 0, 0, 0, 0);
	return WORDS(at, xid, 0, 2, 100003, 3, 1, 0, 0, 0, 0);
}

/* A message that decodes, of any shape, about one of few XIDs. */
static void fz_built(struct fz *z)
{
	uint32_t shape = fz_byte(z), xid = fz_byte(z) % FZ_XIDS, len, inv = 0;
	uint32_t type = shape % (z->dialect == RR_DIALECT_SLIDES ? 7 : 5);
	uint8_t b[2048];

	len = WORDS(b, xid, 1, fz_byte(z) % 20, type);
	if (type == 4) {
		len += WORDS(b + len, 1 + fz_byte(z) % 2, 1, 1);
	} else if (type != 3) {
		if (type == 2 && z->dialect == RR_DIALECT_DRAFT02)
			len += WORDS(b + len, fz_byte(z), fz_byte(z) * 8);
		len += fz_lists(z, b + len, shape);
	}
	len += fz_rpc(b + len, xid, shape & 64);
	if (shape & 128 && fz_byte(z) > 200)
		inv = 0x100 + fz_byte(z) % 16;
	fz_recv(z, b, len, inv);
}

/* The same in version 2. */
static void fz_built_v2(struct fz *z)
{
	static const uint32_t types[] = { 0, 1, 0, 1, 4, 5, 0x52444d03, 9 };
	uint32_t shape = fz_byte(z), xid = fz_byte(z), type = types[shape % 8], len, inv = 0;
	uint32_t reply = !!(shape & 64), odd = fz_byte(z);
	uint8_t b[2048];

	xid = xid == 255 ? FZ_V2_XID : xid % FZ_XIDS;
	len = WORDS(b, xid, 2, odd % 20, type, odd > 230 ? odd % 4 : reply || type == 4);
	if (type == 4) {
		len += WORDS(b + len, 1 + fz_byte(z) % 11);
		for (uint32_t n = fz_byte(z) % 3; n > 0; n--)
			len += WORDS(b + len, fz_byte(z) * 20);
	} else if (type == 5) {
		len += WORDS(b + len, 1, fz_byte(z) % 4, 4, fz_byte(z) * 20);
	} else if (type < 2) {
		len += WORDS(b + len, fz_byte(z));
		len += fz_lists(z, b + len, shape);
	}
	if (type == 0)
		len += fz_rpc(b + len, xid, reply);
	if (shape & 128 && fz_byte(z) > 200)
		inv = 0x100 + fz_byte(z) % 16;
	fz_recv(z, b, len, inv);
}

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
	rr_eng_head(z->e, z->pull[i].id, 0, head, len < z->pull[i].len ? len : z->pull[i].len, z->now);
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
