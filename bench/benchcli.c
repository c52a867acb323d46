/* SPDX-License-Identifier: BSD-3-Clause */
/* benchcli PORT null|arg|res|first N [SIZE]	p50 and p99 of N round trips, in ns, as JSON
 * benchcli PORT paced N GAP		the same of NULL calls that come GAP us apart, and the CPU time of all
 * benchcli PORT threads N [CALLS]		N threads, each a connection: NULL calls per second
 *
 * A plain libtirpc client that takes the time of each of its own calls. "first" makes a new
 * connection for each: connect, one NULL call, close. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "bench.h"

#define BENCH_THREADS	64

static int port;
static unsigned int calls_per_thread;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* LAB_ADDRESS, or the loopback. */
static in_addr_t server_address(void)
{
	const char *text = getenv("LAB_ADDRESS");

	return text ? inet_addr(text) : htonl(INADDR_LOOPBACK);
}

static CLIENT *open_client(void)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_addr.s_addr = server_address(),
		.sin_port = htons((in_port_t)port),
	};
	int fd = RPC_ANYSOCK;
	CLIENT *c = clnttcp_create(&a, BENCHPROG, BENCHVERS, &fd, 0, 0);

	if (!c) {
		clnt_pcreateerror("benchcli");
		exit(1);
	}
	return c;
}

static void ask(CLIENT *c, rpcproc_t proc, xdrproc_t xarg, void *arg, xdrproc_t xres, void *res)
{
	struct timeval limit = { 25, 0 };

	if (clnt_call(c, proc, xarg, arg, xres, res, limit) != RPC_SUCCESS) {
		clnt_perror(c, "benchcli");
		exit(1);
	}
}

static void ask_null(CLIENT *c)
{
	ask(c, BENCH_NULL, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL);
}

static void ask_once(CLIENT *c, const char *what, bench_blob *blob)
{
	if (!strcmp(what, "null"))
		ask_null(c);
	else if (!strcmp(what, "arg"))
		ask(c, BENCH_ARG, (xdrproc_t)xdr_bench_blob, blob, (xdrproc_t)xdr_void, NULL);
	else
		ask(c, BENCH_RES, (xdrproc_t)xdr_u_int, &blob->bench_blob_len,
		    (xdrproc_t)xdr_bench_blob, blob);	/* into the memory that is there */
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(uint64_t *ns, unsigned int n, uint64_t cpu)
{
	qsort(ns, n, sizeof(*ns), by_size);
	printf("{\"n\":%u,\"p50\":%lu,\"p99\":%lu,\"max\":%lu,\"cpu\":%lu}\n", n,
	       (unsigned long)ns[n / 2], (unsigned long)ns[n * 99ull / 100], (unsigned long)ns[n - 1],
	       (unsigned long)cpu);
}

static void measure_calls(const char *what, unsigned int n, unsigned int size, uint64_t *ns)
{
	bench_blob blob = { size, calloc(1, size + 1) };
	CLIENT *c = open_client();

	for (unsigned int i = 0; i < n / 10 + 1; i++)	/* warm */
		ask_once(c, what, &blob);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t = now();

		ask_once(c, what, &blob);
		ns[i] = now() - t;
	}
	clnt_destroy(c);
	free(blob.bench_blob_val);
}

static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Sleeps between the calls: what that takes is in the CPU time, whoever carries them. */
static uint64_t measure_paced(unsigned int n, unsigned int gap_us, uint64_t *ns)
{
	struct timespec gap = { gap_us / 1000000, (long)(gap_us % 1000000) * 1000 };
	CLIENT *c = open_client();
	uint64_t cpu;

	for (unsigned int i = 0; i < 10; i++)
		ask_null(c);
	cpu = cpu_time();
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t;

		nanosleep(&gap, NULL);
		t = now();
		ask_null(c);
		ns[i] = now() - t;
	}
	cpu = cpu_time() - cpu;
	clnt_destroy(c);
	return cpu;
}

static void measure_first(unsigned int n, uint64_t *ns)
{
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t = now();
		CLIENT *c = open_client();

		ask_null(c);
		ns[i] = now() - t;
		clnt_destroy(c);
	}
}

static void *thread_main(void *arg)
{
	for (unsigned int i = 0; i < calls_per_thread; i++)
		ask_null(arg);
	return NULL;
}

static void measure_threads(unsigned int n)
{
	pthread_t t[BENCH_THREADS];
	CLIENT *c[BENCH_THREADS];
	uint64_t start;

	n = n < BENCH_THREADS ? n : BENCH_THREADS;
	for (unsigned int i = 0; i < n; i++) {
		c[i] = open_client();
		ask_null(c[i]);
	}
	start = now();
	for (unsigned int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, thread_main, c[i]);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("{\"calls_per_s\":%.0f}\n", 1e9 * n * calls_per_thread / (double)(now() - start));
}

int main(int argc, char **argv)
{
	unsigned int n = argc > 3 ? (unsigned int)atoi(argv[3]) : 0;
	unsigned int size = argc > 4 ? (unsigned int)atoi(argv[4]) : 0;
	uint64_t *ns = calloc(n + 1, sizeof(*ns)), cpu = 0;

	if (n == 0 || !ns) {
		fprintf(stderr, "usage: benchcli PORT null|arg|res|first|paced|threads N [SIZE|GAP|CALLS]\n");
		return 64;
	}
	port = atoi(argv[1]);
	if (!strcmp(argv[2], "threads")) {
		calls_per_thread = size ? size : 5000;
		measure_threads(n);
		return 0;
	}
	if (!strcmp(argv[2], "first"))
		measure_first(n, ns);
	else if (!strcmp(argv[2], "paced"))
		cpu = measure_paced(n, size, ns);
	else
		measure_calls(argv[2], n, size, ns);
	report(ns, n, cpu);
	free(ns);
	return 0;
}
