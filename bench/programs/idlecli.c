/* SPDX-License-Identifier: BSD-3-Clause */
/* idlecli PORT|PATH N BATCH [SIZE]: a client that holds N connections.
 *
 * It opens them, BATCH at a time, makes a call with an argument of SIZE (0) bytes on each, and prints {"open":NS},
 * the time that one took. Then it does what lines of its standard input say, prints a line for each, and ends
 * with the input:
 *	each CALLS	makes CALLS empty calls on every connection
 *	calls N GAP	makes N on the first connection, GAP us apart, and prints their times and its CPU time
 */
#include "common.h"
#include "tests/lib/rpc.h"

#define PROG	0x20005245u

static unsigned int size;
static int *fds;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Procedure 1 has an opaque of so many zeroes, 0 has no argument. */
static void send_call(int fd, uint32_t arg)
{
	unsigned char *m = calloc(1, RPC_CALL_HEAD + 4 + (size_t)arg);
	size_t len;

	if (!m)
		fail("calloc");
	len = rpc_put_call(m, (uint32_t)fd, PROG, 1, arg ? 1 : 0, arg ? 4 + (size_t)arg : 0);
	if (arg)
		rpc_put(m, RPC_CALL_HEAD / 4, arg);
	if (!rpc_write_all(fd, m, len))
		fail("write");
	free(m);
}

static void get_reply(int fd)
{
	unsigned char answer[RPC_REPLY_HEAD];

	if (recv(fd, answer, sizeof(answer), MSG_WAITALL) != sizeof(answer))
		fail("recv");
}

static void open_all(const struct address *a, unsigned int n, unsigned int batch)
{
	uint64_t start = now();

	for (unsigned int i = 0; i < n; i += batch) {
		unsigned int end = n - i < batch ? n : i + batch;

		for (unsigned int k = i; k < end; k++)
			fds[k] = connect_to(a);
		for (unsigned int k = i; k < end; k++)
			send_call(fds[k], size);
		for (unsigned int k = i; k < end; k++)
			get_reply(fds[k]);
	}
	printf("{\"open\":%lu}\n", (unsigned long)((now() - start) / n));
}

static void call_each(unsigned int n, unsigned int batch, unsigned int calls)
{
	uint64_t start = now();

	for (unsigned int c = 0; c < calls; c++)
		for (unsigned int i = 0; i < n; i += batch) {
			unsigned int end = n - i < batch ? n : i + batch;

			for (unsigned int k = i; k < end; k++)
				send_call(fds[k], 0);
			for (unsigned int k = i; k < end; k++)
				get_reply(fds[k]);
		}
	printf("{\"each\":%lu}\n", (unsigned long)((now() - start) / n));
}

static void call_one(unsigned int n, unsigned int gap_us)
{
	struct timespec gap = { gap_us / 1000000, (long)(gap_us % 1000000) * 1000 };
	uint64_t *ns = calloc(n, sizeof(*ns)), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (unsigned int i = 0; i < n; i++) {
		uint64_t t;

		if (gap_us)
			nanosleep(&gap, NULL);
		t = now();
		send_call(fds[0], 0);
		get_reply(fds[0]);
		ns[i] = now() - t;
	}
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("{");
	print_times(ns, n);
	printf(",\"cpu\":%lu}\n", (unsigned long)cpu);
	free(ns);
}

int main(int argc, char **argv)
{
	unsigned int n = argc > 3 ? (unsigned int)atoi(argv[2]) : 0, calls, gap;
	unsigned int batch = argc > 3 ? (unsigned int)atoi(argv[3]) : 0;
	struct address a;
	char line[64];

	if (n == 0 || batch == 0)
		return 64;
	a = address_of(argv[1]);
	size = argc > 4 ? (unsigned int)atoi(argv[4]) : 0;
	fds = calloc(n, sizeof(*fds));
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_all(&a, n, batch);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "each %u", &calls) == 1)
			call_each(n, batch, calls);
		else if (sscanf(line, "calls %u %u", &calls, &gap) == 2 && calls)
			call_one(calls, gap);
		else
			return 64;
	}
	return 0;
}
