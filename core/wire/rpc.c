/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call has ended, by the header of its reply. Nothing beyond that is looked at. */

#include "core/base/compiler.h"
#include "core/wire/rpc.h"

#define VERF_MAX	400u
#define SUCCESS		0u
#define PROC_UNAVAIL	3u	/* PROG_UNAVAIL and PROG_MISMATCH are below it */

enum rr_rpc_end rr_rpc_end(const uint8_t *buf, uint32_t len)
{
	uint32_t at, status;

	if (len >= RR_RPC_REPLY_PEEK && rr_be32(buf + 8))
		return RR_RPC_REFUSED;	/* MSG_DENIED */
	if (len < 20)
		return RR_RPC_DONE;
	at = rr_be32(buf + 16);	/* bytes of the verifier */
	if (at > VERF_MAX)
		return RR_RPC_DONE;
	at = 20 + rr_align(at, 4u);
	if (len < at + 4)
		return RR_RPC_DONE;
	status = rr_be32(buf + at);
	if (status == SUCCESS)
		return RR_RPC_DONE;
	return status <= PROC_UNAVAIL ? RR_RPC_REFUSED : RR_RPC_FAILED;
}
