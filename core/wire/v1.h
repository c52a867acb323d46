/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_V1_H
#define RR_V1_H

/* The RPC-over-RDMA version 1 header, RFC 8166 §4, and two dialects that add to it. */

#include "core/wire/codec.h"

extern const struct rr_codec rr_v1_codec;

/* draft-ietf-nfsv4-rpcrdma-01 and -02. Their headers are those of RFC 8166 but for the
 * error arm: a code that is neither ERR_VERS nor ERR_CHUNK has eight more words. Such an
 * error is decoded, never encoded. The two drafts do not differ in anything on the wire. */
extern const struct rr_codec rr_draft02_codec;

/* The prototype of the bidirection slides: a message against the connection's direction
 * says so by its type, RDMA_BCALL or RDMA_BRPLY. These are RR_MSG with reverse and dir
 * set, inline only: with a chunk they are malformed, and cannot be encoded. */
extern const struct rr_codec rr_slides_codec;

#endif
