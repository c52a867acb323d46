/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that a peer may expose, in buffers. */

#include <string.h>

#include "core/base/compiler.h"
#include "tests/lib/twopeers_int.h"

static bool blocks_free(const struct tp_peer *p, uint32_t at, uint32_t n)
{
	if (at + n > p->nblocks)
		return false;
	return !memchr(p->blocks + at, 1, n);
}

uint32_t tp_blocks(uint32_t len)
{
	return (len + TP_BLOCK - 1) / TP_BLOCK;
}

uint32_t tp_buf_new(struct tp_peer *p, uint32_t len)
{
	uint32_t n = tp_blocks(len), b = 0, at;

	if (n > p->free_blocks)
		return RR_BUF_NONE;
	while (b < TP_BUFS && p->buf[++p->next_buf % TP_BUFS].used)
		b++;
	b = b < TP_BUFS ? p->next_buf % TP_BUFS : TP_BUFS;
	for (uint32_t i = 0; b < TP_BUFS && i < p->nblocks; i++) {
		at = (p->next_block + i) % p->nblocks;
		if (!blocks_free(p, at, n))
			continue;
		memset(p->blocks + at, 1, n);
		p->next_block = (at + n) % p->nblocks;
		p->free_blocks -= n;
		p->buf[b] = (struct tp_buf){ .used = true, .at = p->qp->mem + at * TP_BLOCK, .len = len };
		return b;
	}
	return RR_BUF_NONE;
}

void tp_buf_put(struct tp_peer *p, uint32_t b)
{
	struct tp_buf *buf = &p->buf[b];

	if (b >= TP_BUFS || !buf->used) {
		tp_wrong(p->tp, "side %d: buffer %u released twice", p->side, b);
		return;
	}
	memset(buf->at, 0xdd, buf->len);	/* who still reads it will be seen */
	memset(p->blocks + (buf->at - p->qp->mem) / TP_BLOCK, 0, tp_blocks(buf->len));
	p->free_blocks += tp_blocks(buf->len);
	buf->used = false;
}
