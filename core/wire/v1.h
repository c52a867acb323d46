/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_V1_H
#define RR_V1_H

/* The RPC-over-RDMA version 1 header, RFC 8166 §4, and two dialects that add to it. */

#include "core/wire/codec.h"
#include "core/wire/cursor.h"

extern const struct rr_codec rr_v1_codec;

/* The header of a plain message: an RDMA_MSG with three empty chunk lists (RFC 8166 §4.2.1),
 * RR_V1_HDR_MIN bytes of which only the XID and the credit value vary. These functions do what
 * rr_v1_codec does, for callers that need no other header. */
static inline void rr_v1_put_plain(uint8_t *hdr, uint32_t xid, uint32_t credit)
{
	memset(hdr, 0, RR_V1_HDR_MIN);
	rr_put_be32(hdr, xid);
	hdr[7] = 1;	/* the version */
	rr_put_be32(hdr + 8, credit);
}

/* Are these RR_V1_HDR_MIN bytes such a header? */
static inline bool rr_v1_is_plain(const uint8_t *hdr)
{
	return rr_be32(hdr + 4) == 1 && !(rr_be64(hdr + 12) | rr_be64(hdr + 20));
}

static inline uint32_t rr_v1_plain_credit(const uint8_t *hdr)
{
	return rr_be32(hdr + 8);
}

/* draft-ietf-nfsv4-rpcrdma-01 and -02. Their headers are those of RFC 8166 but for the
 * error arm: a code that is neither ERR_VERS nor ERR_CHUNK has eight more words. Such an
 * error is decoded, never encoded. The two drafts do not differ in anything on the wire. */
extern const struct rr_codec rr_draft02_codec;

/* The prototype of the bidirection slides: a message against the connection's direction
 * says so by its type, RDMA_BCALL or RDMA_BRPLY. These are RR_MSG with reverse and dir
 * set, inline only: with a chunk they are malformed, and cannot be encoded. */
extern const struct rr_codec rr_slides_codec;

#endif
