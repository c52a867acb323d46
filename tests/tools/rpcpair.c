/* SPDX-License-Identifier: BSD-3-Clause */
/* rpcpair [udp | none | calls SIZE | splice | stream]: an ordinary program without a word of ours: a client
 * and a server of ONC RPC over TCP on loopback, in two threads. One call of SIZE more bytes. */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/rpc.h"

#define ROOM	(1u << 20)

static unsigned char sent[ROOM], got[ROOM];	/* the client's, the server's */

static void *serve(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);

	while (rpc_read_record(fd, got, ROOM))
		if (!rpc_write_all(fd, got, rpc_put_reply(got, rpc_get(got, RPC_XID), 0)))
			exit(3);
	close(fd);
	return NULL;
}

/* size bytes of argument, which are zeroes. test_shim.sh looks for it on the stack. */
__attribute__((noinline)) static void call(int fd, uint32_t xid, size_t size)
{
	memset(sent, 0, RPC_CALL_HEAD + size);
	if (!rpc_write_all(fd, sent, rpc_put_call(sent, xid, 100003, 3, 0, size)))
		exit(3);
	if (!rpc_is_success(sent, rpc_read_record(fd, sent, ROOM), xid))
		exit(4);
}

__attribute__((noinline)) static void misuse(int fd)
{
	int p[2];

	if (pipe(p) || splice(fd, NULL, p[1], NULL, 1, SPLICE_F_NONBLOCK) >= 0)
		exit(5);
	puts("");	/* no tail call */
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = rpc_address("127.0.0.1", 0);
	const char *what = argc > 1 ? argv[1] : "";
	size_t size = argc > 2 ? (size_t)atol(argv[2]) : 0;
	pthread_t t;
	int l, c;

	if (!strcmp(what, "none"))
		return 0;
	if (!strcmp(what, "udp"))
		return socket(AF_INET, SOCK_DGRAM, 0) < 0;
	if (size > ROOM - RPC_CALL_HEAD)
		return 64;
	l = rpc_listen(&a);
	if (l < 0)
		return 2;
	pthread_create(&t, NULL, serve, &l);
	c = rpc_connect(&a);
	if (c < 0)
		return 2;
	for (uint32_t i = 0; i < 10; i++)
		call(c, i, 0);
	if (!strcmp(what, "splice"))
		misuse(c);
	if (!strcmp(what, "stream") && !fdopen(c, "r"))
		return 6;
	if (!strcmp(what, "calls"))
		call(c, 10, size);
	close(c);
	pthread_join(t, NULL);
	puts("done");
	return 0;
}
