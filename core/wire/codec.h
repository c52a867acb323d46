/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CODEC_H
#define RR_CODEC_H

/* What differs between versions and dialects in the bytes of a header: there is one codec for
 * each pair of them. */

#include "core/wire/msg.h"

/* The first four words of every version's header (RFC 8166 §4.2). */
#define RR_PREFIX_LEN	16u
/* A v1 header with three empty lists. */
#define RR_V1_HDR_MIN	28u

struct rr_codec {
	uint32_t version;
	enum rr_dialect dialect;
	const char *name;

	/* Decodes the header at buf[0..len). Reads no byte beyond len, writes only *m, and
	 * trusts nothing: lengths and counts are checked before they are used. After anything
	 * but RR_WIRE_DISCARD, xid, vers, credit and proc are valid. In version 2 so is dir,
	 * except after RR_WIRE_BAD_VERS; and if the header is refused, err and its arm hold
	 * what an RR_ERROR in answer has to say. */
	enum rr_wire_rc (*decode)(const uint8_t *buf, uint32_t len, struct rr_msg *m);

	/* Encodes *m into buf[0..cap). Returns the header's length in bytes, or 0 when
	 * it does not fit. */
	uint32_t (*encode)(const struct rr_msg *m, uint8_t *buf, uint32_t cap);

	/* The length that encode would return, without encoding. */
	uint32_t (*size)(const struct rr_msg *m);
};

/* The codec of (version, dialect); NULL if we do not speak it. */
const struct rr_codec *rr_codec_find(uint32_t version, enum rr_dialect dialect);

/* The first codec of a dialect: what a connection starts with. Never NULL for a
 * dialect that this build has; NULL otherwise. */
const struct rr_codec *rr_codec_first(enum rr_dialect dialect);

#endif
