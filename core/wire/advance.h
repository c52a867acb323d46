/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ADVANCE_H
#define RR_ADVANCE_H

/* The note by which an end tells the other of a piece of a message that is not complete
 * (docs/PROTOCOL.md, "Advances"). Between two of ours only. */

#include "core/base/types.h"
#include "core/wire/be.h"

#define RR_ADVANCE_HDR	12u
#define RR_ADVANCE_SEG	16u
#define RR_ADVANCE_SEGS	8u	/* in which a message is told of, at most */

struct rr_advance {
	uint32_t xid;
	uint32_t at;		/* where in the message the piece begins */
	/* A fragment of the record begins with the piece: its record mark; else 0. */
	uint32_t mark;
	struct rr_seg seg;	/* where the piece is to be read */
};

/* All that was told of a message whose direction goes back to TCP before its end. */
struct rr_advances {
	uint32_t xid;
	uint32_t len;		/* of all segments together */
	/* How many bytes the fragment lacks in which the last segment ends, with RR_RM_LAST if
	 * the record ends with it. */
	uint32_t mark;
	uint32_t nsegs;
	struct rr_seg seg[RR_ADVANCE_SEGS];
};

#define RR_ADVANCE_LEN	(RR_ADVANCE_HDR + RR_ADVANCE_SEG)
#define RR_ADVANCES_MAX	(RR_ADVANCE_HDR + RR_ADVANCE_SEGS * RR_ADVANCE_SEG)

static inline void rr_advance_put_hdr(uint8_t *out, uint32_t xid, uint32_t at, uint32_t mark)
{
	rr_put_be32(out, xid);
	rr_put_be32(out + 4, at);
	rr_put_be32(out + 8, mark);
}

static inline void rr_advance_put_seg(uint8_t *out, const struct rr_seg *seg)
{
	rr_put_be32(out, seg->handle);
	rr_put_be32(out + 4, seg->length);
	rr_put_be64(out + 8, seg->offset);
}

static inline struct rr_seg rr_advance_seg(const uint8_t *in)
{
	return (struct rr_seg){ .handle = rr_be32(in), .length = rr_be32(in + 4),
				.offset = rr_be64(in + 8) };
}

static inline void rr_advance_put(const struct rr_advance *a, uint8_t out[RR_ADVANCE_LEN])
{
	rr_advance_put_hdr(out, a->xid, a->at, a->mark);
	rr_advance_put_seg(out + RR_ADVANCE_HDR, &a->seg);
}

/* False: the length is another. buf is read once. */
static inline bool rr_advance_get(const uint8_t *buf, uint32_t len, struct rr_advance *a)
{
	uint8_t in[RR_ADVANCE_LEN];

	if (len != RR_ADVANCE_LEN)
		return false;
	memcpy(in, buf, sizeof(in));
	*a = (struct rr_advance){
		.xid = rr_be32(in), .at = rr_be32(in + 4), .mark = rr_be32(in + 8),
		.seg = rr_advance_seg(in + RR_ADVANCE_HDR),
	};
	return true;
}

/* Returns the length. */
static inline uint32_t rr_advances_put(const struct rr_advances *a,
				       uint8_t out[RR_ADVANCES_MAX])
{
	uint32_t len = RR_ADVANCE_HDR;

	rr_advance_put_hdr(out, a->xid, a->len, a->mark);
	for (uint32_t i = 0; i < a->nsegs; i++, len += RR_ADVANCE_SEG)
		rr_advance_put_seg(out + len, &a->seg[i]);
	return len;
}

/* False: it makes no sense. buf is read once. */
static inline bool rr_advances_get(const uint8_t *buf, uint32_t len, struct rr_advances *a)
{
	uint8_t in[RR_ADVANCES_MAX];
	uint64_t sum = 0;

	if (len < RR_ADVANCE_LEN || len > RR_ADVANCES_MAX ||
	    (len - RR_ADVANCE_HDR) % RR_ADVANCE_SEG)
		return false;
	memcpy(in, buf, len);
	*a = (struct rr_advances){
		.xid = rr_be32(in), .len = rr_be32(in + 4), .mark = rr_be32(in + 8),
		.nsegs = (len - RR_ADVANCE_HDR) / RR_ADVANCE_SEG,
	};
	for (uint32_t i = 0; i < a->nsegs; i++) {
		a->seg[i] = rr_advance_seg(in + RR_ADVANCE_HDR + i * RR_ADVANCE_SEG);
		sum += a->seg[i].length;
	}
	return sum == a->len;
}

#endif
