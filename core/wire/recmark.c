/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes record marks (RFC 5531 §11): where records and their fragments begin and end. Stores
 * no payload. */

#include "core/wire/cursor.h"
#include "core/wire/recmark.h"

static enum rr_rm_what start_fragment(struct rr_rm *rm, uint32_t mark)
{
	rm->have = 0;
	rm->in_record = true;
	rm->last = mark & RR_RM_LAST;
	rm->left = mark & ~RR_RM_LAST;
	return RR_RM_FRAGMENT;
}

static enum rr_rm_what get_header(struct rr_rm *rm, const uint8_t *buf, size_t len, size_t *n)
{
	if (likely(rm->have == 0 && len >= RR_RM_HDR)) {
		*n = RR_RM_HDR;
		return start_fragment(rm, rr_be32(buf));
	}
	for (*n = 0; *n < len && rm->have < RR_RM_HDR; ++*n)
		rm->hdr[rm->have++] = buf[*n];
	if (rm->have < RR_RM_HDR)
		return RR_RM_MORE;
	return start_fragment(rm, rr_be32(rm->hdr));
}

enum rr_rm_what rr_rm_next(struct rr_rm *rm, const uint8_t *buf, size_t len, size_t *n)
{
	uint32_t take;

	if (rm->left == 0 && !rm->last)	/* between records or between fragments */
		return get_header(rm, buf, len, n);
	take = (uint32_t)rr_min(len, (size_t)rm->left);
	*n = take;
	rm->left -= take;
	if (rm->left == 0 && rm->last) {
		rr_rm_init(rm);
		return RR_RM_RECORD;
	}
	/* A record may have any number of fragments: saturate. */
	rm->record = take > UINT32_MAX - rm->record ? UINT32_MAX : rm->record + take;
	return RR_RM_DATA;
}
