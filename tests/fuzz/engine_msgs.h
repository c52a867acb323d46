/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_ENGINE_MSGS_H
#define RR_FUZZ_ENGINE_MSGS_H

/* Messages from the peer of a fuzzed engine: raw, or built so that they decode. */

#include "tests/fuzz/engine_nfs.h"

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

#endif
