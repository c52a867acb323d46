/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_V1_H
#define RR_V1_H

/* The RPC-over-RDMA version 1 header, RFC 8166 §4. */

#include "core/wire/codec.h"

extern const struct rr_codec rr_v1_codec;

#endif
