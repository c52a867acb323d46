/* SPDX-License-Identifier: BSD-3-Clause */
/* rawrpc ADDRESS PORT				a server, of one client at a time; says "ready"
 * rawrpc ADDRESS PORT null|arg|res N [SIZE]	p50 and p99 of N round trips, in ns, as JSON
 *
 * The program of bench.x without a library of RPC: its messages, each a record of one fragment, by plain
 * read() and write(). So the same two ends run on TCP, with the shim, and on rsockets (librspreload),
 * which libtirpc cannot use. */
#include <netinet/tcp.h>

#include "common.h"
#include "tests/lib/rpc.h"

#define MOST	(4u << 20)
#define PROG	0x20005245u

enum { PROC_NULL, PROC_ARG, PROC_RES };

static unsigned char buf[MOST + 256];	/* a record */

static void serve_one(int fd)
{
	while (rpc_read_record(fd, buf, sizeof(buf)) >= RPC_CALL_HEAD) {
		uint32_t xid = rpc_get(buf, RPC_XID), size = rpc_get(buf, RPC_CALL_HEAD / 4);
		bool result = rpc_get(buf, RPC_PROC) == PROC_RES;
		size_t len;

		size = size < MOST ? size & ~3u : 0;
		len = rpc_put_reply(buf, xid, result ? 4 + size : 0);
		if (result)
			rpc_put(buf, RPC_REPLY_HEAD / 4, size);
		if (!rpc_write_all(fd, buf, len))
			break;
	}
}

/* The argument of PROC_ARG is an opaque of size bytes, that of PROC_RES the size of the result. */
static void call(int fd, int proc, uint32_t xid, uint32_t size)
{
	size_t args = proc == PROC_ARG ? 4 + size : proc == PROC_RES ? 4 : 0;
	size_t len = rpc_put_call(buf, xid, PROG, 1, (uint32_t)proc, args);

	if (args)
		rpc_put(buf, RPC_CALL_HEAD / 4, size);
	if (!rpc_write_all(fd, buf, len) || rpc_read_record(fd, buf, sizeof(buf)) < RPC_REPLY_HEAD ||
	    rpc_get(buf, RPC_XID) != xid) {
		fprintf(stderr, "rawrpc: no reply\n");
		exit(1);
	}
}

static void measure(int fd, int proc, unsigned int n, uint32_t size)
{
	uint64_t *ns = calloc(n, sizeof(*ns));

	for (unsigned int i = 0; i < n / 10 + 1; i++)
		call(fd, proc, i + 1, size);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t = now();

		call(fd, proc, i + 1000000, size);
		ns[i] = now() - t;
	}
	putchar('{');
	print_times(ns, n);
	puts("}");
	free(ns);
}

static void set_nodelay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int main(int argc, char **argv)
{
	int proc = argc < 4 || !strcmp(argv[3], "null") ? PROC_NULL : !strcmp(argv[3], "arg") ? PROC_ARG : PROC_RES;
	struct sockaddr_in a;
	int fd;

	if (argc < 3 || argc == 4) {
		fprintf(stderr, "usage: rawrpc ADDRESS PORT [null|arg|res N [SIZE]]\n");
		return 64;
	}
	a = rpc_address(argv[1], atoi(argv[2]));
	fd = argc > 4 ? rpc_connect(&a) : rpc_listen(&a);
	if (fd < 0)
		return perror("rawrpc"), 1;
	if (argc > 4) {
		set_nodelay(fd);
		measure(fd, proc, (unsigned int)atoi(argv[4]), argc > 5 ? (uint32_t)atoi(argv[5]) & ~3u : 0);
		return close(fd);
	}
	say_ready();
	for (int one; (one = accept(fd, NULL, NULL)) >= 0; close(one)) {
		set_nodelay(one);
		serve_one(one);
	}
	return 1;
}
