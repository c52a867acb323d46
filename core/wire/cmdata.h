/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CMDATA_H
#define RR_CMDATA_H

/* RFC 8797 §4: what an RPC-over-RDMA v1 peer says about itself while connecting. */

#include "core/base/types.h"

#define RR_CMDATA_LEN		8u
#define RR_CMDATA_MAGIC		0xf6ab0e18u
#define RR_CMDATA_DEFAULT	1024u	/* inline threshold of a peer that says nothing */

struct rr_cmdata {
	bool present;		/* the magic was found and the version is 1 */
	bool remote_inv;	/* R: Send With Invalidate is welcome */
	uint32_t send_size;	/* bytes: 1024 .. 262144 */
	uint32_t recv_size;
};

/* Writes 8 bytes. Sizes are rounded down to the multiple of 1024 that the format
 * can say, and held within 1024 .. 262144. */
void rr_cmdata_put(const struct rr_cmdata *d, uint8_t out[RR_CMDATA_LEN]);

/* Searches buf[0..len) for the magic, at any offset (RFC 8797 §5.2: CMs pad and prefix
 * private data). Not found, too short or of another version: the defaults of
 * RFC 8797 §5.1 with present = false, and the offset is 0. Returns the offset just
 * behind the eight bytes, where private extensions may follow. */
uint32_t rr_cmdata_get(const uint8_t *buf, uint32_t len, struct rr_cmdata *d);

#endif
