/* SPDX-License-Identifier: BSD-3-Clause */
/* idleconns PORT [N SIZE]: many connections that do nothing. Without N a server (epoll) that answers
 * every call with an empty result; with N a client that opens N connections, makes one call with an
 * argument of SIZE bytes on each, says "idle" and waits for the end of its standard input. Not
 * libtirpc, whose servers end at 1,024 descriptors. */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAXFD	65536

static struct { uint32_t have, left; unsigned char head[8]; } in[MAXFD]; /* per connection */

static void words(unsigned char *to, const uint32_t *w, int n)
{
	for (int i = 0; i < n; i++) {
		uint32_t be = htonl(w[i]);

		memcpy(to + 4 * i, &be, 4);
	}
}

static int reply(int fd, uint32_t xid)
{
	uint32_t w[] = { 0x80000000u | 24, xid, 1, 0, 0, 0, 0 };
	unsigned char m[sizeof(w)];

	words(m, w, 7);
	return write(fd, m, sizeof(m)) == sizeof(m);
}

/* Takes what is there of single-fragment records; false: the connection ended. */
static int take(int fd)
{
	static unsigned char buf[1 << 16];
	ssize_t n = read(fd, buf, sizeof(buf));
	uint32_t w[2];

	if (n <= 0)
		return 0;
	for (ssize_t at = 0; at < n;) {
		if (in[fd].have < 8) {
			in[fd].head[in[fd].have++] = buf[at++];
			if (in[fd].have < 8)
				continue;
			memcpy(w, in[fd].head, 8);
			in[fd].left = (ntohl(w[0]) & 0x7fffffff) - 4;
		} else {
			uint32_t k = (uint32_t)(n - at) < in[fd].left ? (uint32_t)(n - at) : in[fd].left;

			at += k;
			in[fd].left -= k;
		}
		if (in[fd].left == 0) {
			memcpy(w, in[fd].head, 8);
			in[fd].have = 0;
			if (!reply(fd, ntohl(w[1])))
				return 0;
		}
	}
	return 1;
}

static void watch(int ep, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
}

static void serve(int lfd)
{
	int ep = epoll_create1(0);

	watch(ep, lfd);
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct epoll_event ev[64];
		int n = epoll_wait(ep, ev, 64, -1);

		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd;

			if (fd == lfd) {
				fd = accept(lfd, NULL, NULL);
				if (fd >= 0 && fd < MAXFD)
					watch(ep, fd);
			} else if (!take(fd)) {
				memset(&in[fd], 0, sizeof(in[fd]));
				close(fd);
			}
		}
	}
}

static int call(int fd, unsigned char *msg, uint32_t size, uint32_t xid)
{
	/* mark, xid, CALL, 2, program, version, procedure, credential, verifier, length */
	uint32_t w[] = { 0x80000000u | (44 + size), xid, 0, 2, 0x20005246, 1, 1, 0, 0, 0, 0, size };
	unsigned char answer[28];

	words(msg, w, 12);
	for (size_t at = 0; at < 48 + (size_t)size;) {
		ssize_t n = write(fd, msg + at, 48 + (size_t)size - at);

		if (n <= 0)
			return -1;
		at += (size_t)n;
	}
	return recv(fd, answer, sizeof(answer), MSG_WAITALL) == sizeof(answer) ? 0 : -1;
}

static int be_client(const struct sockaddr_in *a, unsigned int n, uint32_t size)
{
	unsigned char *msg = calloc(1, 48 + (size_t)size);
	char c;

	for (unsigned int i = 0; i < n; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) || call(fd, msg, size, i + 1)) {
			perror("idleconns");
			return 1;
		}
	}
	free(msg);
	puts("idle");
	fflush(stdout);
	return read(0, &c, 1) != 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((in_port_t)(argc > 1 ? atoi(argv[1]) : 0)),
	};
	int on = 1, fd;

	if (argc > 3)
		return be_client(&a, (unsigned int)atoi(argv[2]), (uint32_t)atoi(argv[3]));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1024))
		return 1;
	serve(fd);
	return 0;
}
