/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CHUNKS_H
#define RR_CHUNKS_H

/* Read list, Write list, Reply chunk (RFC 8166 §4.3): three optional-data fields that
 * follow each other in every header type that has any, in every version. */

#include "core/wire/cursor.h"

/* Decodes the three into *ch, whose previous content does not matter. Errors stay in
 * the cursor: RR_WIRE_BAD_XDR, RR_WIRE_TOO_MANY; *ch then holds no more than its
 * arrays do, and means nothing. */
void rr_chunks_get(struct rr_rcur *c, struct rr_chunks *ch);

/* Encodes the three. */
void rr_chunks_put(struct rr_wcur *c, const struct rr_chunks *ch);

/* Bytes that rr_chunks_put() writes: 12 for three empty lists. */
uint32_t rr_chunks_size(const struct rr_chunks *ch);

#endif
