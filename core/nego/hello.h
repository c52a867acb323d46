/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_HELLO_H
#define RR_HELLO_H

/* struct rr_hello as tagged fields: the part that offer and answer share.
 *
 * A field is a 16-bit tag, a 16-bit length, that many bytes and zeroes up to a multiple
 * of four. Unknown tags are skipped. A known one has its length right and comes once,
 * except for the providers, which come in order of preference; those that do not fit
 * struct rr_hello are skipped. The token must be there; other fields that are missing
 * are zero (and those that are zero are not written), so a receiver checks what it uses. */

#include "core/nego/nego.h"
#include "core/wire/cursor.h"

/* Writes all fields but the version. */
void rr_hello_put(struct rr_wcur *c, const struct rr_hello *h);

/* Writes what a refusal tells a client that asks: the token, the release, what is lacking. */
void rr_hello_put_told(struct rr_wcur *c, const struct rr_hello *h);

/* Reads fields up to the end of the cursor into *h, all of it but the version. False if
 * they are malformed. */
bool rr_hello_get(struct rr_rcur *c, struct rr_hello *h);

#endif
