/* SPDX-License-Identifier: BSD-3-Clause */
/* rawrpc ADDRESS PORT				a server, of one client at a time; says "ready"
 * rawrpc ADDRESS PORT null|arg|res N [SIZE]	p50 and p99 of N round trips, in ns, as JSON
 *
 * The program of bench.x without a library of RPC: its messages, each a record of one fragment, by plain
 * read() and write(). So the same two ends run on TCP, with the shim, and on rsockets (librspreload),
 * which libtirpc cannot use. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LAST	0x80000000u
#define MOST	(4u << 20)
#define PROG	0x20005245u
#define CALL	10u	/* words of a call's header … */
#define REPLY	6u	/* … and of a reply's */

enum { PROC_NULL, PROC_ARG, PROC_RES };

static uint32_t buf[MOST / 4 + 64];

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int all(int fd, void *at, size_t len, int out)
{
	char *p = at;

	while (len) {
		ssize_t n = out ? write(fd, p, len) : read(fd, p, len);

		if (n <= 0)
			return -1;
		p += n, len -= (size_t)n;
	}
	return 0;
}

/* Reads a record into buf, without its mark. Returns its length in words; 0 at the end. */
static uint32_t take(int fd)
{
	uint32_t mark, len;

	if (all(fd, &mark, 4, 0))
		return 0;
	len = ntohl(mark) & ~LAST;
	if (!(ntohl(mark) & LAST) || len > sizeof(buf) || all(fd, buf, len, 0))
		return 0;
	return len / 4;
}

/* Sends a record. Its header, so many words long, is in buf behind the room for the mark; an
 * opaque of size bytes follows, or nothing. */
static int give(int fd, uint32_t words, int opaque, uint32_t size)
{
	uint32_t len = words * 4 + (opaque ? 4 + size : 0);

	buf[0] = htonl(LAST | len);
	if (opaque)
		buf[1 + words] = htonl(size);
	return all(fd, buf, 4 + len, 1);
}

static void serve_one(int fd)
{
	while (take(fd) >= CALL) {
		uint32_t xid = buf[0], proc = ntohl(buf[5]), size = ntohl(buf[CALL]);

		memset(buf, 0, (1 + REPLY) * 4);
		buf[1] = xid;
		buf[2] = htonl(1);
		if (give(fd, REPLY, proc == PROC_RES, size < MOST ? size & ~3u : 0))
			break;
	}
}

static void call(int fd, int proc, uint32_t xid, uint32_t size)
{
	uint32_t words = CALL;

	memset(buf, 0, (2 + CALL) * 4);
	buf[1] = htonl(xid);
	buf[3] = htonl(2);
	buf[4] = htonl(PROG);
	buf[5] = htonl(1);
	buf[6] = htonl((uint32_t)proc);
	if (proc == PROC_RES)
		buf[1 + words++] = htonl(size);
	if (give(fd, words, proc == PROC_ARG, size) || take(fd) < REPLY || ntohl(buf[0]) != xid) {
		fprintf(stderr, "rawrpc: no reply\n");
		exit(1);
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
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
	qsort(ns, n, sizeof(*ns), by_size);
	printf("{\"n\":%u,\"p50\":%lu,\"p99\":%lu}\n", n, (unsigned long)ns[n / 2],
	       (unsigned long)ns[n * 99ull / 100]);
	free(ns);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	int proc = argc < 4 || !strcmp(argv[3], "null") ? PROC_NULL : !strcmp(argv[3], "arg") ? PROC_ARG : PROC_RES;

	if (argc < 3 || argc == 4 || inet_pton(AF_INET, argv[1], &a.sin_addr) != 1) {
		fprintf(stderr, "usage: rawrpc ADDRESS PORT [null|arg|res N [SIZE]]\n");
		return 64;
	}
	a.sin_port = htons((in_port_t)atoi(argv[2]));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (argc > 4) {
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
			return perror("rawrpc"), 1;
		measure(fd, proc, (unsigned int)atoi(argv[4]), argc > 5 ? (uint32_t)atoi(argv[5]) & ~3u : 0);
		return close(fd);
	}
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 16))
		return perror("rawrpc"), 1;
	puts("ready");
	fflush(stdout);
	for (int one; (one = accept(fd, NULL, NULL)) >= 0; close(one)) {
		setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		serve_one(one);
	}
	return 1;
}
