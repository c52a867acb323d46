/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RECMARK_H
#define RR_RECMARK_H

/* Record marking (RFC 5531 §11): a record is fragments, each led by four bytes:
 * the top bit says "last", the rest is the fragment's length. This decoder takes
 * the stream in any split and says, piece by piece, what the bytes are. */

#include "core/base/types.h"

#define RR_RM_LAST	0x80000000u
#define RR_RM_HDR	4u

struct rr_rm {
	uint8_t hdr[4];
	uint8_t have;		/* bytes of hdr seen: 0..3; a whole header is acted on at
				 * once */
	bool last;		/* the current fragment is the record's last */
	bool in_record;		/* its first fragment header was seen, its end was not */
	uint32_t left;		/* bytes of the current fragment still to come */
	uint32_t record;	/* payload bytes of the record so far; stays at UINT32_MAX */
};

/* What the next bytes of the stream are. */
enum rr_rm_what {
	RR_RM_MORE,		/* nothing to say yet: n bytes were header bytes */
	RR_RM_FRAGMENT,		/* n bytes completed a fragment header: see left, last */
	RR_RM_DATA,		/* n bytes are payload */
	RR_RM_RECORD,		/* n (maybe 0) bytes are payload and end the record */
};

static inline void rr_rm_init(struct rr_rm *rm)
{
	*rm = (struct rr_rm){ 0 };
}

/* Between records, and no byte of the next one has been seen: only here may the stream move
 * from TCP to RDMA or back. */
static inline bool rr_rm_at_boundary(const struct rr_rm *rm)
{
	return rm->have == 0 && !rm->in_record;
}

/* Looks at buf[0..len), len > 0, says what its first *n bytes are and moves past
 * them. A zero-length last fragment ends a record with *n counting only header
 * bytes, reported as RR_RM_FRAGMENT and then, on the next call (any len, even 0),
 * RR_RM_RECORD with *n = 0. After RR_RM_RECORD the next record starts afresh. */
enum rr_rm_what rr_rm_next(struct rr_rm *rm, const uint8_t *buf, size_t len, size_t *n);

/* The fragment's length in its header. */
static inline uint32_t rr_rm_len(const uint8_t hdr[4])
{
	return (uint32_t)(hdr[0] & 0x7f) << 24 | (uint32_t)hdr[1] << 16 |
	       (uint32_t)hdr[2] << 8 | hdr[3];
}

static inline void rr_rm_put(uint8_t out[4], uint32_t len, bool last)
{
	uint32_t v = len | (last ? RR_RM_LAST : 0);

	out[0] = (uint8_t)(v >> 24);
	out[1] = (uint8_t)(v >> 16);
	out[2] = (uint8_t)(v >> 8);
	out[3] = (uint8_t)v;
}

#endif
