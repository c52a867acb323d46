/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_DRAFT02_H
#define RR_DRAFT02_H

/* What dialect draft02 has besides its headers: RDMA_MSGP's padding. */

#include "core/base/types.h"

/* The bytes of padding between the length word of an opaque of len bytes and its data, when
 * that word ends at offset at of the Send: so many that the data starts at a multiple of
 * align, if it has thresh bytes or more (draft-02 §3.5, RFC 5666 §3.9). Offsets count from
 * the start of the transport header, since it is receive buffers that the data is to fit.
 * Returns 0 if align is 0. align and thresh may be the peer's, and have any value. */
uint32_t rr_msgp_pad(uint32_t align, uint32_t thresh, uint32_t at, uint32_t len);

#endif
