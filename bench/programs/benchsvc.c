/* SPDX-License-Identifier: BSD-3-Clause */
/* benchsvc PORT|PATH: a plain libtirpc server. Says "ready" when it listens. */
#include "bench.h"
#include "common.h"

#define BENCH_MAX	(4u << 20)

extern void benchprog_1(struct svc_req *req, SVCXPRT *xprt);	/* rpcgen's dispatcher */

static char nothing;

void *bench_null_1_svc(void *arg, struct svc_req *req)
{
	(void)arg, (void)req;
	return &nothing;
}

void *bench_arg_1_svc(bench_blob *arg, struct svc_req *req)
{
	(void)arg, (void)req;
	return &nothing;
}

bench_blob *bench_res_1_svc(u_int *len, struct svc_req *req)
{
	static char bytes[BENCH_MAX];
	static bench_blob b = { .bench_blob_val = bytes };

	(void)req;
	b.bench_blob_len = *len < BENCH_MAX ? *len : BENCH_MAX;
	return &b;
}

int main(int argc, char **argv)
{
	struct address a = address_of(argc > 1 ? argv[1] : "0");
	SVCXPRT *x = svc_vc_create(listen_at(&a), 0, 0);

	if (!x || !svc_reg(x, BENCHPROG, BENCHVERS, benchprog_1, NULL))
		return 1;
	say_ready();
	svc_run();
	return 1;
}
