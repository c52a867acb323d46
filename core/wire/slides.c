/* SPDX-License-Identifier: BSD-3-Clause */
/* The codec of dialect slides: version 1, with header types of their own for messages against
 * the connection's direction. */

#include "core/wire/chunks.h"
#include "core/wire/v1.h"

enum { RDMA_BCALL = 5, RDMA_BRPLY = 6 };

#define PROC_AT		12u

/* req: slides - #3 */
static bool no_chunks(const struct rr_chunks *ch)
{
	return ch->nreads == 0 && ch->nwrites == 0 && !ch->has_reply;
}

/* Version 1 does not know this header type, so its decoder has judged only the prefix and the
 * length. */
/* req: slides - #1 */
static enum rr_wire_rc get_reverse(const uint8_t *buf, uint32_t len, struct rr_msg *m)
{
	struct rr_rcur c;

	m->reverse = true;
	m->dir = m->proc == RDMA_BCALL ? RR_DIR_CALL : RR_DIR_REPLY;
	rr_rcur_init(&c, buf + RR_PREFIX_LEN, len - RR_PREFIX_LEN);
	rr_chunks_get(&c, &m->ch);
	if (c.rc != RR_WIRE_OK)
		return c.rc;
	if (!no_chunks(&m->ch))
		return RR_WIRE_BAD_XDR;
	m->type = RR_MSG;
	m->hdr_len = RR_V1_HDR_MIN;
	return RR_WIRE_OK;
}

static enum rr_wire_rc slides_decode(const uint8_t *buf, uint32_t len, struct rr_msg *m)
{
	enum rr_wire_rc rc = rr_v1_codec.decode(buf, len, m);

	if (rc == RR_WIRE_BAD_XDR && (m->proc == RDMA_BCALL || m->proc == RDMA_BRPLY))
		return get_reverse(buf, len, m);
	return rc;
}

static bool slides_encodable(const struct rr_msg *m)
{
	return !m->reverse ||
	       (m->type == RR_MSG && m->dir != RR_DIR_UNKNOWN && no_chunks(&m->ch));
}

/* req: slides - #2 */
static uint32_t slides_encode(const struct rr_msg *m, uint8_t *buf, uint32_t cap)
{
	uint32_t len = slides_encodable(m) ? rr_v1_codec.encode(m, buf, cap) : 0;

	if (len > 0 && m->reverse)
		rr_put_be32(buf + PROC_AT, m->dir == RR_DIR_CALL ? RDMA_BCALL : RDMA_BRPLY);
	return len;
}

static uint32_t slides_size(const struct rr_msg *m)
{
	return slides_encodable(m) ? rr_v1_codec.size(m) : 0;
}

const struct rr_codec rr_slides_codec = {
	.version = 1,
	.dialect = RR_DIALECT_SLIDES,
	.name = "slides",
	.decode = slides_decode,
	.encode = slides_encode,
	.size = slides_size,
};
