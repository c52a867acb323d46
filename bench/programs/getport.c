/* SPDX-License-Identifier: BSD-3-Clause */
/* getport SECONDS: PMAPPROC_GETPORT of the local rpcbind, back to back on one connection, by libtirpc. Prints
 * "OPERATIONS SECONDS". */
#include <rpc/rpc.h>
#include <rpc/pmap_prot.h>

#include "common.h"

int main(int argc, char **argv)
{
	struct address a = address_of("111");
	struct netbuf to = { sizeof(a), a.len, &a };
	CLIENT *c = clnt_vc_create(connect_to(&a), &to, PMAPPROG, PMAPVERS, 0, 0);
	uint64_t start = now(), end = start + (uint64_t)(argc > 1 ? atof(argv[1]) * 1e9 : 1e9);
	unsigned int done = 0;

	for (; now() < end; done++) {
		struct pmap what = { PMAPPROG, PMAPVERS, IPPROTO_TCP, 0 };
		struct timeval limit = { 25, 0 };
		u_short port = 0;

		if (!c || clnt_call(c, PMAPPROC_GETPORT, (xdrproc_t)xdr_pmap, (char *)&what, (xdrproc_t)xdr_u_short,
				    (char *)&port, limit) != RPC_SUCCESS || port != 111)
			return 1;
	}
	printf("%u %.3f\n", done, (double)(now() - start) / 1e9);
	return 0;
}
