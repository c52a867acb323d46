/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_V2_H
#define RR_V2_H

/* The RPC-over-RDMA version 2 header, draft-cel-nfsv4-rpcrdma-version-two-08, with one
 * extension of our own behind the property RR_PROP_DONE: the header type RR_DONE, which
 * reliable replies need and the draft does not have. */

#include "core/wire/codec.h"

/* The prefix and empty lists of RDMA2_MSG; the RPC message follows. */
#define RR_V2_HDR_MIN	36u
/* What may be sent before the peer's version is known (§7). */
#define RR_V2_FIRST_MAX	1024u

/* Differs from version 1's codec in what decode() returns:
 * - a header type that is not in the table is RR_WIRE_BAD_HTYPE;
 * - RR_ERROR with RR_ERR_VERS is known in both its forms, version 1's of 28 bytes and this
 *   version's of 32. It is encoded in the former if vers is not 2, because a peer of another
 *   version knows no other;
 * - reserved flags are RR_WIRE_BAD_XDR: what they would change is not known.
 * Whoever encodes has to set dir; an error goes out as RR_DIR_REPLY whatever dir says. */
extern const struct rr_codec rr_v2_codec;

#endif
