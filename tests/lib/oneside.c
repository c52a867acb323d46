/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/cursor.h"
#include "tests/lib/oneside.h"

void one_params(struct one *o, uint32_t caps, bool connector)
{
	memset(o, 0, sizeof(*o));
	o->now = RR_SEC;
	o->next_handle = 0x100;
	o->next_buf = 1000;
	o->nsegs = 1;
	o->p = (struct rr_eng_params){
		.dialect = RR_DIALECT_V1, .caps = caps, .connector = connector,
		.inline_send = 1024, .inline_recv = 1024,
		.credits = 8, .bc_credits = 4,
		.max_msg = 1 << 20, .reply_chunk = 4096, .reply_chunk_max = 65536,
		.max_chunks = 4, .max_segs = 8,
		.max_exposed = 100000,
		.done_timeout = 10 * RR_SEC, .done_timeout_pressure = RR_SEC,
	};
}

void one_start(struct one *o)
{
	o->p.count = &o->count;
	o->e = rr_eng_init(calloc(1, rr_eng_size(&o->p)), &o->p, o->now);
	if (o->p.caps & RR_CAP_RING_CREDITS)
		rr_eng_window(o->e, 64);
}

void one_init(struct one *o, uint32_t caps, bool connector)
{
	one_params(o, caps, connector);
	one_start(o);
}

void one_fini(struct one *o)
{
	free(o->e);
}

void one_clear(struct one *o)
{
	o->nops = 0;
}

void one_done(struct one *o, const struct rr_op *op)
{
	rr_eng_done(o->e, op->id, 0, o->now);
}

static void expose(struct one *o, const struct rr_op *op)
{
	struct rr_seg segs[8];
	uint32_t at = op->off, end = op->off + op->len, n = o->nsegs;

	if (o->no_memory) {
		rr_eng_exposed(o->e, op->id, o->never ? -ENOMEM : -EAGAIN, 0, NULL, 0, o->now);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = i + 1 < n ? op->len / n : end - at;

		segs[i] = (struct rr_seg){ .handle = o->next_handle++, .length = len, .offset = 0x5000 + at };
		at += len;
	}
	rr_eng_exposed(o->e, op->id, 0, op->buf == RR_BUF_NEW ? o->next_buf++ : op->buf, segs, n,
		       o->now);
}

static void carry_out(struct one *o, const struct rr_op *op)
{
	switch (op->code) {
	case RR_OP_SEND:
		if (op->id && !o->hold_send)
			one_done(o, op);
		break;
	case RR_OP_WRITE:
		one_done(o, op);
		break;
	case RR_OP_INVALIDATE:
		if (!o->hold_invalidate)
			one_done(o, op);
		break;
	case RR_OP_EXPOSE:
		if (!o->hold_expose)
			expose(o, op);
		break;
	default:
		break;
	}
}

void one_run(struct one *o)
{
	struct rr_op op;

	while (o->nops < ONE_OPS && rr_eng_next_op(o->e, &op)) {
		uint32_t i = o->nops++;

		o->op[i] = op;
		if (op.hdr)
			memcpy(o->hdr[i], op.hdr, op.hdr_len < 512 ? op.hdr_len : 512);
		if (op.segs)
			memcpy(o->segs[i], op.segs, (op.nsegs < 8 ? op.nsegs : 8) * sizeof(*op.segs));
		if (op.parts)
			memcpy(o->parts[i], op.parts, (op.nparts < 4 ? op.nparts : 4) * sizeof(*op.parts));
		carry_out(o, &op);
	}
}

void one_recv(struct one *o, const uint8_t *buf, uint32_t len, uint32_t inv)
{
	uint8_t *copy = edged(buf, len);

	rr_eng_recv(o->e, o->next_token++, copy, len, inv, o->now);
	edge_back();
	one_run(o);
}

int one_send(struct one *o, uint32_t type, uint32_t xid, uint32_t len)
{
	struct rr_eng_out out = {
		.rpc = { .xid = xid, .type = type, .prog = 100003, .vers = 3, .proc = 1 },
		.len = len, .buf = o->next_buf++,
	};
	int rc = rr_eng_send(o->e, &out, o->now);

	one_run(o);
	return rc;
}

int one_send_bytes(struct one *o, const uint8_t *msg, uint32_t len)
{
	uint8_t *copy = edged(msg, len);
	struct rr_eng_out out = { .len = len, .buf = o->next_buf++, .head = copy, .have = len };
	int rc;

	if (!rr_rpc_peek(copy, len, &out.rpc))
		abort();
	rc = rr_eng_send(o->e, &out, o->now);
	edge_back();
	one_run(o);
	return rc;
}

uint32_t one_count(const struct one *o, enum rr_opcode code)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < o->nops; i++)
		n += o->op[i].code == code;
	return n;
}

const struct rr_op *one_op(const struct one *o, enum rr_opcode code, uint32_t nth)
{
	for (uint32_t i = 0; i < o->nops; i++)
		if (o->op[i].code == code && nth-- == 0)
			return &o->op[i];
	return NULL;
}

uint32_t one_word(const struct one *o, uint32_t nth, uint32_t w)
{
	const struct rr_op *op = one_op(o, RR_OP_SEND, nth);

	return op ? rr_be32(o->hdr[op - o->op] + 4 * w) : 0xdeadbeef;
}

struct rr_eng_info one_info(const struct one *o)
{
	struct rr_eng_info i;

	rr_eng_info(o->e, &i);
	return i;
}
