/* SPDX-License-Identifier: BSD-3-Clause */
/* The codec of dialect draft02, whose headers are those of version 1 but for one error arm, and
 * the padding of RDMA_MSGP. */

#include "core/wire/cursor.h"
#include "core/wire/draft02.h"
#include "core/wire/v1.h"

#define ERR_LEN		(RR_PREFIX_LEN + 4)
#define EXTRA_LEN	(8 * 4u)	/* rdma_extra */

/* §4.3: an error code that RFC 8166 does not have, and whose header it therefore discards:
 * nothing else that is so long and of its version. */
/* req: draft-02 4.2 #1, 4.3 #1 */
static enum rr_wire_rc draft02_decode(const uint8_t *buf, uint32_t len, struct rr_msg *m)
{
	enum rr_wire_rc rc = rr_v1_codec.decode(buf, len, m);

	if (likely(rc != RR_WIRE_DISCARD) || len < ERR_LEN + EXTRA_LEN ||
	    m->vers != rr_v1_codec.version)
		return rc;
	m->hdr_len = ERR_LEN + EXTRA_LEN;
	return RR_WIRE_OK;
}

static uint32_t draft02_encode(const struct rr_msg *m, uint8_t *buf, uint32_t cap)
{
	return rr_v1_codec.encode(m, buf, cap);
}

static uint32_t draft02_size(const struct rr_msg *m)
{
	return rr_v1_codec.size(m);
}

const struct rr_codec rr_draft02_codec = {
	.version = 1,
	.dialect = RR_DIALECT_DRAFT02,
	.name = "draft02",
	.decode = draft02_decode,
	.encode = draft02_encode,
	.size = draft02_size,
};

/* req: draft-02 3.5 #1 */
uint32_t rr_msgp_pad(uint32_t align, uint32_t thresh, uint32_t at, uint32_t len)
{
	if (align == 0 || len < thresh || at % align == 0)
		return 0;
	return align - at % align;
}
