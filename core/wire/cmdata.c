/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes the private data of RDMA CM (RFC 8797). What to do with the sizes is the
 * provider's business. */

#include "core/wire/cmdata.h"
#include "core/wire/cursor.h"

#define VERSION		1u
#define FLAG_R		0x01u
#define UNIT		1024u
#define MAX_SIZE	(256u * UNIT)

/* RFC 8797 §4.2: kilobytes beyond the first. */
static uint8_t size_to_code(uint32_t size)
{
	if (size < UNIT)
		return 0;
	return (uint8_t)(rr_min(size, MAX_SIZE) / UNIT - 1);
}

static uint32_t code_to_size(uint8_t code)
{
	return (code + 1u) * UNIT;
}

/* req: rfc8797 4 #2 */
void rr_cmdata_put(const struct rr_cmdata *d, uint8_t out[RR_CMDATA_LEN])
{
	rr_put_be32(out, RR_CMDATA_MAGIC);
	out[4] = VERSION;
	out[5] = d->remote_inv ? FLAG_R : 0;
	out[6] = size_to_code(d->send_size);
	out[7] = size_to_code(d->recv_size);
}

/* req: rfc8166 3.3.3 #4; rfc8797 4 #2 #3, 5.1 #1, 5.2 #1 */
uint32_t rr_cmdata_get(const uint8_t *buf, uint32_t len, struct rr_cmdata *d)
{
	*d = (struct rr_cmdata){ .send_size = RR_CMDATA_DEFAULT,
				 .recv_size = RR_CMDATA_DEFAULT };
	for (uint32_t at = 0; len >= RR_CMDATA_LEN && at <= len - RR_CMDATA_LEN; at++) {
		const uint8_t *p = buf + at;

		if (rr_be32(p) != RR_CMDATA_MAGIC || p[4] != VERSION)
			continue;
		d->present = true;
		d->remote_inv = p[5] & FLAG_R;	/* §4: the other seven bits are ignored */
		d->send_size = code_to_size(p[6]);
		d->recv_size = code_to_size(p[7]);
		return at + RR_CMDATA_LEN;
	}
	return 0;
}
