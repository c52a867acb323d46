/* SPDX-License-Identifier: BSD-3-Clause */
/* benchcli PORT|PATH null|arg|res N [SIZE]	p50 and p99 of N round trips, in ns, as JSON
 * benchcli PORT|PATH first N [CALLS]		the same of new connections: connect, CALLS (1) NULL calls, close
 * benchcli PORT|PATH paced N GAP		the same of NULL calls that come GAP us apart, and the CPU time of all,
 *						in this process and in the one whose pid is in BENCH_SERVER
 * benchcli PORT|PATH told			the same for each line "N GAP" of its standard input, on one connection
 * benchcli PORT|PATH threads N [CALLS]		N threads, each a connection: NULL calls per second
 * benchcli PORT|PATH shared N [CALLS]		N threads that share one connection
 *
 * A plain libtirpc client that takes the time of each of its own calls. */
#include <pthread.h>

#include "bench.h"
#include "common.h"

#define BENCH_THREADS	64

static struct address server;
static unsigned int calls_per_thread;

/* Not clnttcp_create(), which looks for a reserved port if it runs as root. */
static CLIENT *open_client(void)
{
	struct netbuf to = { sizeof(server), server.len, &server };
	CLIENT *c = clnt_vc_create(connect_to(&server), &to, BENCHPROG, BENCHVERS, 0, 0);

	if (!c) {
		clnt_pcreateerror("benchcli");
		exit(1);
	}
	clnt_control(c, CLSET_FD_CLOSE, NULL);
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

static void print_calls(const char *what, unsigned int n, unsigned int size, uint64_t *ns)
{
	bench_blob blob = { size, calloc(1, size + 1) };
	CLIENT *c = open_client();

	for (unsigned int i = 0; i < n / 10 + 1; i++)	/* warms up, untimed */
		ask_once(c, what, &blob);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t = now();

		ask_once(c, what, &blob);
		ns[i] = now() - t;
	}
	clnt_destroy(c);
	free(blob.bench_blob_val);
	printf("{");
	print_times(ns, n);
	puts("}");
}

/* CPU time of the server, if its pid is known. */
static uint64_t server_cpu(void)
{
	const char *pid = getenv("BENCH_SERVER");
	clockid_t clock;

	return pid && !clock_getcpuclockid(atoi(pid), &clock) ? clock_ns(clock) : 0;
}

static void print_gapped(CLIENT *c, unsigned int n, unsigned int gap_us, uint64_t *ns)
{
	struct timespec gap = { gap_us / 1000000, (long)(gap_us % 1000000) * 1000 };
	uint64_t servers = server_cpu(), own = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (unsigned int i = 0; i < n; i++) {
		uint64_t t;

		nanosleep(&gap, NULL);
		t = now();
		ask_null(c);
		ns[i] = now() - t;
	}
	own = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
	servers = server_cpu() - servers;
	printf("{\"cpu\":%lu,\"server_cpu\":%lu,", (unsigned long)own, (unsigned long)servers);
	print_times(ns, n);
	puts("}");
}

/* A client whose connection is carried, if it can be. */
static CLIENT *open_tried(void)
{
	CLIENT *c = open_client();

	for (unsigned int i = 0; i < BENCH_TRIED + 10; i++)
		ask_null(c);
	return c;
}

static void print_paced(unsigned int n, unsigned int gap_us, uint64_t *ns)
{
	CLIENT *c = open_tried();

	print_gapped(c, n, gap_us, ns);
	clnt_destroy(c);
}

/* Returns the program's exit status. */
static int do_as_told(void)
{
	CLIENT *c = open_tried();
	unsigned int n, gap_us;
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t *ns;

		if (sscanf(line, "%u %u", &n, &gap_us) != 2 || n == 0)
			return 64;
		ns = calloc(n, sizeof(*ns));
		print_gapped(c, n, gap_us, ns);
		free(ns);
	}
	clnt_destroy(c);
	return 0;
}

static void print_first(unsigned int n, unsigned int calls, uint64_t *ns)
{
	uint64_t start = now();

	for (unsigned int i = 0; i < n; i++) {
		uint64_t t = now();
		CLIENT *c = open_client();

		for (unsigned int k = 0; k < calls; k++)
			ask_null(c);
		ns[i] = now() - t;
		clnt_destroy(c);
	}
	printf("{\"per_s\":%.0f,", 1e9 * n / (double)(now() - start));
	print_times(ns, n);
	puts("}");
}

static void *thread_main(void *arg)
{
	for (unsigned int i = 0; i < calls_per_thread; i++)
		ask_null(arg);
	return NULL;
}

static void print_threads(unsigned int n, int shared)
{
	pthread_t t[BENCH_THREADS];
	CLIENT *c[BENCH_THREADS];
	uint64_t start;

	n = n < BENCH_THREADS ? n : BENCH_THREADS;
	for (unsigned int i = 0; i < n; i++) {
		c[i] = shared && i ? c[0] : open_client();
		for (unsigned int k = 0; k < (i ? 5 : BENCH_TRIED + 5); k++)
			ask_null(c[i]);
	}
	start = now();
	for (unsigned int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, thread_main, c[i]);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("{\"per_s\":%.0f}\n", 1e9 * n * calls_per_thread / (double)(now() - start));
}

int main(int argc, char **argv)
{
	unsigned int n = argc > 3 ? (unsigned int)atoi(argv[3]) : 0;
	unsigned int size = argc > 4 ? (unsigned int)atoi(argv[4]) : 0;
	uint64_t *ns = calloc(n + 1, sizeof(*ns));
	int told = argc == 3 && !strcmp(argv[2], "told");

	if ((n == 0 && !told) || !ns) {
		fprintf(stderr, "usage: benchcli PORT|PATH null|arg|res|first|paced|threads|shared N [SIZE|CALLS|GAP]\n"
			"       benchcli PORT|PATH told\n");
		return 64;
	}
	server = address_of(argv[1]);
	if (told)
		return do_as_told();
	calls_per_thread = size ? size : 5000;
	if (!strcmp(argv[2], "threads") || !strcmp(argv[2], "shared"))
		print_threads(n, !strcmp(argv[2], "shared"));
	else if (!strcmp(argv[2], "first"))
		print_first(n, size ? size : 1, ns);
	else if (!strcmp(argv[2], "paced"))
		print_paced(n, size, ns);
	else
		print_calls(argv[2], n, size, ns);
	free(ns);
	return 0;
}
