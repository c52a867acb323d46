/* SPDX-License-Identifier: BSD-3-Clause */
/* req: rfc8166 4 #1 */
/* The codec of RPC-over-RDMA version 1 (RFC 8166). It judges headers by themselves; what they
 * mean for a connection is the engine's business. */
#include "core/wire/chunks.h"
#include "core/wire/v1.h"

#define VERSION		1u
#define ERR_LEN		(RR_PREFIX_LEN + 4)	/* up to the error code */

/* RFC 8166 §4.2.4 */
enum { RDMA_MSG, RDMA_NOMSG, RDMA_MSGP, RDMA_DONE, RDMA_ERROR };

static const uint8_t type_of[] = {
	[RDMA_MSG] = RR_MSG,
	[RDMA_NOMSG] = RR_NOMSG,
	[RDMA_MSGP] = RR_MSGP,
	[RDMA_DONE] = RR_DONE,
	[RDMA_ERROR] = RR_ERROR,
};

/* req: rfc8166 4.5 #6 */
static const uint8_t proc_of[] = {
	[RR_MSG] = RDMA_MSG,
	[RR_NOMSG] = RDMA_NOMSG,
	[RR_ERROR] = RDMA_ERROR,
	[RR_MSGP] = RDMA_MSGP,
	[RR_DONE] = RDMA_DONE,
};

/* RFC 8166 §4.5: below a minimal header nothing in it is to be trusted. The standard says
 * 28 bytes, but its own RDMA_DONE has 16 and ERR_CHUNK 20: the minimum goes by type. */
/* req: rfc8166 4.5 #1 */
static bool too_short(uint32_t proc, uint32_t len)
{
	switch (proc) {
	case RDMA_DONE:
		return false;
	case RDMA_ERROR:
		return len < ERR_LEN;
	default:
		return len < RR_V1_HDR_MIN;
	}
}

/* RFC 8166 §4.5: an error that cannot be decoded is discarded, never answered, or two
 * peers could go on answering each other for ever. */
/* req: rfc8166 4.5 #7 */
static enum rr_wire_rc v1_get_error(struct rr_rcur *c, struct rr_msg *m)
{
	m->err = rr_get_u32(c);
	switch (m->err) {
	case RR_ERR_VERS:
		m->vers_low = rr_get_u32(c);
		m->vers_high = rr_get_u32(c);
		break;
	case RR_ERR_CHUNK:
		break;
	default:
		return RR_WIRE_DISCARD;
	}
	return c->rc == RR_WIRE_OK ? RR_WIRE_OK : RR_WIRE_DISCARD;
}

/* RFC 8166 §4.2.4: the whole message of a NOMSG is in a chunk, so there must be one. */
/* req: rfc8166 4.2.4 #1 */
static enum rr_wire_rc v1_get_nomsg(struct rr_rcur *c, struct rr_msg *m)
{
	rr_chunks_get(c, &m->ch);
	if (m->ch.nreads == 0 && m->ch.nwrites == 0 && !m->ch.has_reply)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
	return c->rc;
}

static enum rr_wire_rc v1_get_body(struct rr_rcur *c, struct rr_msg *m)
{
	switch (m->type) {
	case RR_MSG:
		rr_chunks_get(c, &m->ch);
		return c->rc;
	case RR_NOMSG:
		return v1_get_nomsg(c, m);
	case RR_MSGP:
		m->align = rr_get_u32(c);
		m->thresh = rr_get_u32(c);
		rr_chunks_get(c, &m->ch);
		return c->rc;
	case RR_DONE:
		return RR_WIRE_OK;
	case RR_ERROR:
		return v1_get_error(c, m);
	default:
		return RR_WIRE_BAD_XDR;	/* RFC 8166 §4.5.2: no such procedure */
	}
}

static enum rr_wire_rc v1_decode(const uint8_t *buf, uint32_t len, struct rr_msg *m)
{
	struct rr_rcur c;
	enum rr_wire_rc rc;
	uint32_t vers, proc;

	if (len < RR_PREFIX_LEN)
		return RR_WIRE_DISCARD;
	vers = rr_be32(buf + 4);
	proc = rr_be32(buf + 12);
	rr_msg_init(m, proc < rr_array_size(type_of) ? type_of[proc] : RR_HTYPE_OTHER,
		    rr_be32(buf), vers, rr_be32(buf + 8));
	m->proc = proc;
	if (unlikely(vers != VERSION))
		/* RDMA_ERROR is the same number in all versions; see v1_get_error() */
		return len < RR_V1_HDR_MIN || proc == RDMA_ERROR ? RR_WIRE_DISCARD
								 : RR_WIRE_BAD_VERS;
	if (unlikely(too_short(proc, len)))
		return RR_WIRE_DISCARD;
	rr_rcur_init(&c, buf + RR_PREFIX_LEN, len - RR_PREFIX_LEN);
	rc = v1_get_body(&c, m);
	if (likely(rc == RR_WIRE_OK))
		m->hdr_len = (uint32_t)(c.p - buf);
	return rc;
}

/* req: rfc8166 4.5 #5 #6 */
static void v1_put_error(struct rr_wcur *c, const struct rr_msg *m)
{
	rr_put_u32(c, m->err);
	if (m->err == RR_ERR_VERS) {
		rr_put_u32(c, m->vers_low);
		rr_put_u32(c, m->vers_high);
	}
}

static bool v1_encodable(const struct rr_msg *m)
{
	if (m->type == RR_ERROR)
		return m->err == RR_ERR_VERS || m->err == RR_ERR_CHUNK;
	return m->type < RR_HTYPE_OTHER;
}

static uint32_t v1_encode(const struct rr_msg *m, uint8_t *buf, uint32_t cap)
{
	struct rr_wcur c;

	if (!v1_encodable(m))
		return 0;
	rr_wcur_init(&c, buf, cap);
	rr_put_u32(&c, m->xid);
	rr_put_u32(&c, m->vers);	/* RFC 8166 §4.5: an error repeats the request's */
	rr_put_u32(&c, m->credit);
	rr_put_u32(&c, proc_of[m->type]);
	if (m->type == RR_MSGP) {
		rr_put_u32(&c, m->align);
		rr_put_u32(&c, m->thresh);
	}
	if (m->type == RR_ERROR)
		v1_put_error(&c, m);
	else if (m->type != RR_DONE)
		rr_chunks_put(&c, &m->ch);
	return c.full ? 0 : (uint32_t)(c.p - buf);
}

static uint32_t v1_size(const struct rr_msg *m)
{
	if (!v1_encodable(m))
		return 0;
	switch (m->type) {
	case RR_ERROR:
		return m->err == RR_ERR_VERS ? ERR_LEN + 8 : ERR_LEN;
	case RR_DONE:
		return RR_PREFIX_LEN;
	case RR_MSGP:
		return RR_PREFIX_LEN + 8 + rr_chunks_size(&m->ch);
	default:
		return RR_PREFIX_LEN + rr_chunks_size(&m->ch);
	}
}

/* req: rfc8166 4.2.2 #1 */
const struct rr_codec rr_v1_codec = {
	.version = VERSION,
	.dialect = RR_DIALECT_V1,
	.name = "v1",
	.decode = v1_decode,
	.encode = v1_encode,
	.size = v1_size,
};
