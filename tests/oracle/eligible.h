/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_ELIGIBLE_H
#define RR_TEST_ELIGIBLE_H

/* A DDP-eligible opaque for rpcgen. */

#include <rpc/rpc.h>

typedef struct {
	u_int len;
	char *val;
} eligible;

/* In oracle_ulb.c: as xdr_bytes(), and notes where the bytes are encoded. */
bool_t xdr_eligible(XDR *x, eligible *e);

#endif
