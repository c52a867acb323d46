/* SPDX-License-Identifier: BSD-3-Clause */
/* pingpong PORT [N]: TCP that is not RPC. Without N a server that sends back what it gets; with N
 * the median of N round trips of 64 bytes, in ns, as JSON. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BALL	64

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void serve(int lfd)
{
	char ball[BALL];

	puts("ready");
	fflush(stdout);
	for (;;) {
		int on = 1, fd = accept(lfd, NULL, NULL);
		ssize_t n;

		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		while ((n = read(fd, ball, sizeof(ball))) > 0)
			if (write(fd, ball, (size_t)n) != n)
				break;
		close(fd);
	}
}

static void play(int fd, unsigned int n)
{
	uint64_t *ns = calloc(n, sizeof(*ns));
	char ball[BALL];

	memset(ball, 'x', sizeof(ball));	/* no record mark: not RPC */
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t = now();

		if (write(fd, ball, sizeof(ball)) != BALL)
			exit(1);
		for (ssize_t got = 0, k; got < BALL; got += k)
			if ((k = read(fd, ball, sizeof(ball))) <= 0)
				exit(1);
		ns[i] = now() - t;
	}
	qsort(ns, n, sizeof(*ns), by_size);
	printf("{\"p50\":%lu}\n", (unsigned long)ns[n / 2]);
	free(ns);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((in_port_t)(argc > 1 ? atoi(argv[1]) : 0)),
	};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (argc > 2) {
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
			return 1;
		play(fd, (unsigned int)atoi(argv[2]));
		return 0;
	}
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 16))
		return 1;
	serve(fd);
	return 0;
}
