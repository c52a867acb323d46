/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_ENGINE_NFS_H
#define RR_FUZZ_ENGINE_NFS_H

/* Messages of NFSv3 for a fuzzed engine, and chunks that fit them, or nearly. */

#include "core/wire/ccp.h"
#include "tests/fuzz/engine_driver.h"

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

#endif
