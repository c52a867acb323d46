/* SPDX-License-Identifier: BSD-3-Clause */
/* Is what an app writes first the beginning of a record with an RPC call? Looks at no more than
 * the header. */

#include "core/nego/nego.h"
#include "core/wire/recmark.h"
#include "core/wire/rpc.h"

#define SEEN_MIN	16u	/* mark, xid, message type, RPC version */
#define FLAVOR_AT	28u	/* of the credential */

enum rr_sniff rr_sniff(const uint8_t *buf, size_t len)
{
	uint32_t mark, frag;

	if (len < SEEN_MIN)
		return RR_SNIFF_SHORT;
	mark = rr_be32(buf);
	frag = mark & ~RR_RM_LAST;
	/* a call is RR_RPC_PEEK bytes at least, and what we look at is in its first fragment */
	if (frag < (mark & RR_RM_LAST ? RR_RPC_PEEK : SEEN_MIN - RR_RM_HDR))
		return RR_SNIFF_OTHER;
	if (rr_be32(buf + 8) != RR_RPC_CALL || rr_be32(buf + 12) != RR_RPC_VERSION)
		return RR_SNIFF_OTHER;
	if (len >= FLAVOR_AT + 4 && frag >= FLAVOR_AT &&
	    rr_be32(buf + FLAVOR_AT) == RR_AUTH_TLS)
		return RR_SNIFF_TLS;
	return RR_SNIFF_RPC;
}
