/* SPDX-License-Identifier: BSD-3-Clause */
/* rpcpair [udp | none | calls SIZE | splice]: an ordinary program without a word of ours: a client
 * and a server of ONC RPC over TCP on loopback, in two threads. One call of SIZE more bytes. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int get(int fd, void *p, size_t n)
{
	for (ssize_t r; n; p = (char *)p + r, n -= (size_t)r) {
		r = read(fd, p, n);
		if (r <= 0)
			return -1;
	}
	return 0;
}

static void put(int fd, const void *p, size_t n)
{
	for (ssize_t r; n; p = (const char *)p + r, n -= (size_t)r) {
		r = write(fd, p, n);
		if (r < 0)
			exit(3);
	}
}

/* A record into m: its first word, the xid. */
static int get_record(int fd, uint32_t *xid)
{
	uint32_t mark;
	char *m;
	int rc;

	do {
		if (get(fd, &mark, 4))
			return -1;
		mark = ntohl(mark);
		m = malloc((mark & 0x7fffffff) + 4);
		rc = get(fd, m, mark & 0x7fffffff);
		memcpy(xid, m, 4);
		free(m);
	} while (!rc && !(mark >> 31));
	return rc;
}

static void *serve(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);
	uint32_t reply[7] = { htonl(0x80000000 | 24), 0, htonl(1) };

	while (!get_record(fd, &reply[1]))
		put(fd, reply, sizeof(reply));
	close(fd);
	return NULL;
}

static void call(int fd, uint32_t xid, size_t size)
{
	uint32_t *m = calloc(1, 44 + size), got;

	m[0] = htonl(0x80000000 | (uint32_t)(40 + size));
	m[1] = htonl(xid);
	m[3] = htonl(2);
	m[4] = htonl(100003);
	m[5] = htonl(3);
	put(fd, m, 44 + size);
	free(m);
	if (get_record(fd, &got) || got != htonl(xid))
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
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const char *what = argc > 1 ? argv[1] : "";
	socklen_t len = sizeof(a);
	pthread_t t;
	int l, c;

	if (!strcmp(what, "none"))
		return 0;
	if (!strcmp(what, "udp"))
		return socket(AF_INET, SOCK_DGRAM, 0) < 0;
	l = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(l, (struct sockaddr *)&a, len) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&a, &len))
		return 2;
	pthread_create(&t, NULL, serve, &l);
	c = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(c, (struct sockaddr *)&a, len))
		return 2;
	for (uint32_t i = 0; i < 10; i++)
		call(c, i, 0);
	if (!strcmp(what, "splice"))
		misuse(c);
	if (!strcmp(what, "calls"))
		call(c, 10, (size_t)atol(argv[2]));
	close(c);
	pthread_join(t, NULL);
	puts("done");
	return 0;
}
