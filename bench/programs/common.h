/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

/* What the programs of the benchmark share: clocks, medians, addresses. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* Calls after which the library has tried an upgrade, if it is loaded: a process's first takes some 2 ms, which as many
 * calls are to save. */
#define BENCH_TRIED	64u

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts n times in ns and prints members of a JSON object, without its braces. */
static inline void print_times(uint64_t *ns, unsigned int n)
{
	qsort(ns, n, sizeof(*ns), by_size);
	printf("\"n\":%u,\"p50\":%lu,\"p99\":%lu,\"max\":%lu", n, (unsigned long)ns[n / 2],
	       (unsigned long)ns[n * 99ull / 100], (unsigned long)ns[n - 1]);
}

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_un un;
	};
	socklen_t len;
};

/* A path, which begins with '/', is an AF_UNIX socket; else a port of LAB_ADDRESS (the loopback). */
static inline struct address address_of(const char *text)
{
	const char *host = getenv("LAB_ADDRESS");
	struct address a = { 0 };

	if (text[0] == '/') {
		a.un.sun_family = AF_UNIX;
		snprintf(a.un.sun_path, sizeof(a.un.sun_path), "%s", text);
		a.len = sizeof(a.un);
		return a;
	}
	a.in.sin_family = AF_INET;
	a.in.sin_addr.s_addr = host ? inet_addr(host) : htonl(INADDR_LOOPBACK);
	a.in.sin_port = htons((in_port_t)atoi(text));
	a.len = sizeof(a.in);
	return a;
}

/* Returns a listening socket. Ends the program if it cannot be made. */
static inline int listen_at(const struct address *a)
{
	int on = 1, fd = socket(a->any.sa_family, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, &a->any, a->len) || listen(fd, 1024)) {
		perror("listen");
		exit(1);
	}
	return fd;
}

static inline int connect_to(const struct address *a)
{
	int fd = socket(a->any.sa_family, SOCK_STREAM, 0);

	if (connect(fd, &a->any, a->len)) {
		perror("connect");
		exit(1);
	}
	return fd;
}

static inline void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

#endif
