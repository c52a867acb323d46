/* SPDX-License-Identifier: BSD-3-Clause */
/* benchsvc PORT: a plain libtirpc server. Says "ready" when it listens. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

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

/* LAB_ADDRESS, or the loopback. */
static in_addr_t own_address(void)
{
	const char *text = getenv("LAB_ADDRESS");

	return text ? inet_addr(text) : htonl(INADDR_LOOPBACK);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_addr.s_addr = own_address(),
		.sin_port = htons((in_port_t)(argc > 1 ? atoi(argv[1]) : 0)),
	};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	SVCXPRT *x;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 128)) {
		perror("benchsvc");
		return 1;
	}
	x = svctcp_create(fd, 0, 0);
	if (!x || !svc_register(x, BENCHPROG, BENCHVERS, benchprog_1, 0))
		return 1;
	puts("ready");
	fflush(stdout);
	svc_run();
	return 1;
}
