/* SPDX-License-Identifier: BSD-3-Clause */
/* pingpong PORT [N]: TCP that is not RPC. Without N a server that sends back what it gets; with N
 * the median of N round trips of 64 bytes, in ns, as JSON. */
#include <netinet/tcp.h>
#include <unistd.h>

#include "common.h"

#define BALL	64

static void serve(int lfd)
{
	char ball[BALL];

	say_ready();
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
	printf("{");
	print_times(ns, n);
	puts("}");
	free(ns);
}

int main(int argc, char **argv)
{
	struct address a = address_of(argc > 1 ? argv[1] : "0");
	int on = 1, fd = argc > 2 ? connect_to(&a) : listen_at(&a);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (argc > 2)
		play(fd, (unsigned int)atoi(argv[2]));
	else
		serve(fd);
	return 0;
}
