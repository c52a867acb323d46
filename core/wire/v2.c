/* SPDX-License-Identifier: BSD-3-Clause */
/* The codec of version 2 (version-two-08). It judges headers by themselves; what they mean for
 * a connection is the engine's business. */

#include "core/wire/chunks.h"
#include "core/wire/v1.h"
#include "core/wire/v2.h"

#define VERSION		2u
#define PREFIX_LEN	(RR_PREFIX_LEN + 4)	/* §3.2: the flags come fifth */
#define F_RESPONSE	0x00000001u
#define V1_ERR_VERS_LEN	28u

/* §5.2; the last is ours (§9.1) */
enum {
	RDMA2_MSG	= 0,
	RDMA2_NOMSG	= 1,
	RDMA2_ERROR	= 4,
	RDMA2_CONNPROP	= 5,
	RDMA2_DONE	= 0x52444d03,
};

/* --- bodies --- */

/* §3.3 */
static void v2_get_lists(struct rr_rcur *c, struct rr_msg *m)
{
	m->inv_handle = rr_get_u32(c);
	rr_chunks_get(c, &m->ch);
}

static void v2_put_lists(struct rr_wcur *c, const struct rr_msg *m)
{
	rr_put_u32(c, m->inv_handle);
	rr_chunks_put(c, &m->ch);
}

static uint32_t size_lists(const struct rr_msg *m)
{
	return 4 + rr_chunks_size(&m->ch);
}

/* §5.3.1: the RPC message's first word is part of the header's definition. */
static void get_msg(struct rr_rcur *c, struct rr_msg *m)
{
	v2_get_lists(c, m);
	if (rr_rcur_left(c) < 4)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
}

/* §5.3.2: the message is in a chunk, so there must be one. */
static void v2_get_nomsg(struct rr_rcur *c, struct rr_msg *m)
{
	v2_get_lists(c, m);
	if (m->ch.nreads == 0 && m->ch.nwrites == 0 && !m->ch.has_reply)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
}

/* §6.4: the words behind an error code. Codes that we do not know have none (§9.3). */
static uint32_t error_words(uint32_t err)
{
	switch (err) {
	case RR_ERR_VERS:
	case RR_ERR_WRITE_RESOURCE:
		return 2;
	case RR_ERR_READ_CHUNKS:
	case RR_ERR_WRITE_CHUNKS:
	case RR_ERR_SEGMENTS:
	case RR_ERR_REPLY_RESOURCE:
		return 1;
	default:
		return 0;
	}
}

/* The index in m->arm of the first of those words: REPLY_RESOURCE has only the second word of
 * WRITE_RESOURCE. */
static uint32_t arm_first(uint32_t err)
{
	return err == RR_ERR_REPLY_RESOURCE;
}

/* req: version-two-08 3.2 #5 */
static void v2_get_error(struct rr_rcur *c, struct rr_msg *m)
{
	uint32_t *arm;

	m->err = rr_get_u32(c);
	arm = m->arm + arm_first(m->err);
	for (uint32_t i = 0; i < error_words(m->err); i++)
		arm[i] = rr_get_u32(c);
	if (m->dir != RR_DIR_REPLY)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);	/* §3.2 */
}

/* req: version-two-08 5.3.3 #15 #16 #18 */
static void v2_put_error(struct rr_wcur *c, const struct rr_msg *m)
{
	const uint32_t *arm = m->arm + arm_first(m->err);

	rr_put_u32(c, m->err);
	for (uint32_t i = 0; i < error_words(m->err); i++)
		rr_put_u32(c, arm[i]);
}

static uint32_t size_error(const struct rr_msg *m)
{
	return 4 + 4 * error_words(m->err);
}

static void get_connprop(struct rr_rcur *c, struct rr_msg *m)
{
	rr_props_get(c, &m->props);
}

static void put_connprop(struct rr_wcur *c, const struct rr_msg *m)
{
	rr_props_put(c, &m->props);
}

static uint32_t size_connprop(const struct rr_msg *m)
{
	return rr_props_size(&m->props);
}

/* The XID is that of the sender's own call. */
/* req: version-two-08 3.2 #4 */
static void get_done(struct rr_rcur *c, struct rr_msg *m)
{
	if (m->dir != RR_DIR_CALL)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
}

static void put_done(struct rr_wcur *c, const struct rr_msg *m)
{
	(void)c, (void)m;
}

static uint32_t size_done(const struct rr_msg *m)
{
	(void)m;
	return 0;
}

/* --- header types: an extension adds a row --- */

/* Room for the rows of a build that has more header types (tests/unit/test_wire_v2_more.c). */
#ifndef RR_V2_MORE_HTYPES
#define RR_V2_MORE_HTYPES
#endif

static const struct htype {
	uint32_t number;
	enum rr_htype type;
	void (*get)(struct rr_rcur *c, struct rr_msg *m);
	void (*put)(struct rr_wcur *c, const struct rr_msg *m);
	uint32_t (*size)(const struct rr_msg *m);
} htypes[] = {
	{ RDMA2_MSG, RR_MSG, get_msg, v2_put_lists, size_lists },
	{ RDMA2_NOMSG, RR_NOMSG, v2_get_nomsg, v2_put_lists, size_lists },
	{ RDMA2_ERROR, RR_ERROR, v2_get_error, v2_put_error, size_error },
	{ RDMA2_CONNPROP, RR_CONNPROP, get_connprop, put_connprop, size_connprop },
	{ RDMA2_DONE, RR_DONE, get_done, put_done, size_done },
	RR_V2_MORE_HTYPES
};

/* req: version-two-08 5.2 #2, 5.3.3 #3 */
static const struct htype *by_number(uint32_t number)
{
	for (size_t i = 0; i < rr_array_size(htypes); i++)
		if (htypes[i].number == number)
			return &htypes[i];
	return NULL;
}

static const struct htype *by_type(enum rr_htype type)
{
	for (size_t i = 0; i < rr_array_size(htypes); i++)
		if (htypes[i].type == type)
			return &htypes[i];
	return NULL;
}

/* --- decoding --- */

/* Is this version 1's ERR_VERS, with which a server without version 2 answers (§7.2)? Its error
 * code stands where version 2 has its flags, and equals the flags of an error; its length is
 * also that of version 2's errors with one more word. If the lowest version that the message
 * would name is the code of such an error, the message is read as that error: no server's
 * lowest version is so high. */
static bool is_v1_err_vers(const uint8_t *buf, uint32_t len, const struct rr_msg *m)
{
	uint32_t low;

	if (len != V1_ERR_VERS_LEN || m->proc != RDMA2_ERROR ||
	    rr_be32(buf + 16) != RR_ERR_VERS)
		return false;
	low = rr_be32(buf + 20);
	return m->vers == 1 || (m->vers == VERSION &&
				(low == RR_ERR_VERS || error_words(low) == 0));
}

/* req: version-two-08 7.2 #1 */
static enum rr_wire_rc get_v1_err_vers(const uint8_t *buf, struct rr_msg *m)
{
	m->type = RR_ERROR;
	m->dir = RR_DIR_REPLY;
	m->err = RR_ERR_VERS;
	m->vers_low = rr_be32(buf + 20);
	m->vers_high = rr_be32(buf + 24);
	m->hdr_len = V1_ERR_VERS_LEN;
	return RR_WIRE_OK;
}

/* Of a Read list with some segments: those of one position are one chunk (RFC 8166 §3.4.5). */
static uint32_t count_read_chunks(const struct rr_chunks *ch)
{
	uint32_t n = 1;

	for (uint32_t i = 1; i < ch->nreads; i++)
		n += ch->reads[i].position != ch->reads[i - 1].position;
	return n;
}

/* §5.3.3: which of its resources the message has too many of. */
/* req: version-two-08 5.3.3 #6 #10 #13 */
static void answer_too_many(struct rr_msg *m)
{
	uint32_t chunks = count_read_chunks(&m->ch);

	switch (m->ch.over) {
	case RR_OVER_WRITES:
		m->err = RR_ERR_WRITE_CHUNKS;
		m->limit = RR_MAX_WRITE_CHUNKS;
		break;
	case RR_OVER_READS:
		m->err = chunks > 1 ? RR_ERR_READ_CHUNKS : RR_ERR_SEGMENTS;
		m->limit = chunks > 1 ? chunks : RR_MAX_SEGS;
		break;
	default:
		m->err = RR_ERR_SEGMENTS;
		m->limit = RR_MAX_SEGS;
	}
}

/* Sets err and its arm to what an error in answer to this message has to say. An error is never
 * answered, or two peers could go on answering each other for ever. */
static enum rr_wire_rc refuse_message(struct rr_msg *m, enum rr_wire_rc rc)
{
	if (m->proc == RDMA2_ERROR)
		return RR_WIRE_DISCARD;
	switch (rc) {
	case RR_WIRE_BAD_VERS:
		m->err = RR_ERR_VERS;
		m->vers_low = m->vers_high = VERSION;
		break;
	case RR_WIRE_BAD_HTYPE:
		m->err = RR_ERR_INVAL_HTYPE;
		break;
	case RR_WIRE_TOO_MANY:
		answer_too_many(m);
		break;
	default:
		m->err = RR_ERR_BAD_XDR;
	}
	return rc;
}

static enum rr_wire_rc v2_get_body(const uint8_t *buf, uint32_t len, struct rr_msg *m)
{
	const struct htype *h = by_number(m->proc);
	uint32_t flags = rr_be32(buf + RR_PREFIX_LEN);
	struct rr_rcur c;

	m->dir = flags & F_RESPONSE ? RR_DIR_REPLY : RR_DIR_CALL;
	if (unlikely(!h))
		return RR_WIRE_BAD_HTYPE;
	m->type = h->type;
	if (unlikely(flags & ~F_RESPONSE))
		return RR_WIRE_BAD_XDR;
	rr_rcur_init(&c, buf + PREFIX_LEN, len - PREFIX_LEN);
	h->get(&c, m);
	m->hdr_len = (uint32_t)(c.p - buf);
	return c.rc;
}

/* req: version-two-08 10.1 #2, 5.3.3 #4 */
static enum rr_wire_rc v2_decode(const uint8_t *buf, uint32_t len, struct rr_msg *m)
{
	enum rr_wire_rc rc;

	if (len < RR_PREFIX_LEN)
		return RR_WIRE_DISCARD;
	rr_msg_init(m, RR_HTYPE_OTHER, rr_be32(buf), rr_be32(buf + 4), rr_be32(buf + 8));
	m->proc = rr_be32(buf + 12);
	if (unlikely(is_v1_err_vers(buf, len, m)))
		return get_v1_err_vers(buf, m);
	if (unlikely(m->vers != VERSION))
		return len < RR_V1_HDR_MIN ? RR_WIRE_DISCARD :
		       refuse_message(m, RR_WIRE_BAD_VERS);
	if (len < PREFIX_LEN)
		return RR_WIRE_DISCARD;
	rc = v2_get_body(buf, len, m);
	return likely(rc == RR_WIRE_OK) ? rc : refuse_message(m, rc);
}

/* --- encoding --- */

static bool is_foreign_err_vers(const struct rr_msg *m)
{
	return m->type == RR_ERROR && m->err == RR_ERR_VERS && m->vers != VERSION;
}

/* req: version-two-08 3.2 #1 #2 #5, 10.1 #1 */
static uint32_t v2_encode(const struct rr_msg *m, uint8_t *buf, uint32_t cap)
{
	const struct htype *h = by_type(m->type);
	struct rr_wcur c;

	if (!h)
		return 0;
	if (is_foreign_err_vers(m))
		return rr_v1_codec.encode(m, buf, cap);
	rr_wcur_init(&c, buf, cap);
	rr_put_u32(&c, m->xid);
	rr_put_u32(&c, m->vers);
	rr_put_u32(&c, m->credit);
	rr_put_u32(&c, h->number);
	rr_put_u32(&c, m->dir == RR_DIR_REPLY || m->type == RR_ERROR ? F_RESPONSE : 0);
	h->put(&c, m);
	return c.full ? 0 : (uint32_t)(c.p - buf);
}

static uint32_t v2_size(const struct rr_msg *m)
{
	const struct htype *h = by_type(m->type);

	if (!h)
		return 0;
	return is_foreign_err_vers(m) ? V1_ERR_VERS_LEN : PREFIX_LEN + h->size(m);
}

const struct rr_codec rr_v2_codec = {
	.version = VERSION,
	.dialect = RR_DIALECT_V2,
	.name = "v2",
	.decode = v2_decode,
	.encode = v2_encode,
	.size = v2_size,
};
