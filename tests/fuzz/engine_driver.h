/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_ENGINE_DRIVER_H
#define RR_FUZZ_ENGINE_DRIVER_H

/* What stands in for the driver of a fuzzed engine: receives, buffers, pulls, what is pending. Checked: every receive and
 * every buffer comes back exactly once and only fenced; nothing is delivered that was not received; a strict
 * requester gets replies only to its calls. */

#include <errno.h>

#include "core/engine/engine.h"
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
	struct fz_pull { uint32_t id, len; bool headed, pulled, delivered, fetching, room; } pull[FZ_PENDING];
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

/* Nothing reads its memory any more. */
static void fz_pull_drop(struct fz *z, uint32_t i)
{
	fuzz_check(!z->pull[i].fetching || z->pull[i].pulled);
	fz_pull_over(z, i);
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
		for (uint32_t k = 0; k < z->npull; k++)
			fuzz_check(!(z->pull[k].fetching && z->pull[k].delivered && !z->pull[k].pulled));
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
		z->pull[z->npull].headed = z->pull[z->npull].pulled = z->pull[z->npull].fetching = false;
		z->pull[z->npull].room = op->room;
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
			fz_pull_drop(z, fz_pull(z, op->id));
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

/* A message of the peer's. */
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

/* A chunk of n segments. */
static uint32_t fz_segs(struct fz *z, uint8_t *at, uint32_t n)
{
	uint32_t len = WORDS(at, n);

	for (uint32_t i = 0; i < n; i++)
		len += WORDS(at + len, 0x100 + fz_byte(z) % 16, fz_byte(z) * 32, 0, 0x5000 + fz_byte(z) / 250);
	return len;
}

#endif
