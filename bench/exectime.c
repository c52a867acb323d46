/* SPDX-License-Identifier: BSD-3-Clause */
/* exectime N PROGRAM [NAME=VALUE]...: median time from posix_spawn() to the end of PROGRAM with that
 * environment, in ns, as JSON. */
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

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

int main(int argc, char **argv)
{
	unsigned int n = argc > 2 ? (unsigned int)atoi(argv[1]) : 0;
	uint64_t *ns = calloc(n + 1, sizeof(*ns));

	if (n == 0 || !ns)
		return 64;
	for (unsigned int i = 0; i < n; i++) {
		char *args[] = { argv[2], NULL };
		uint64_t t = now();
		int status;
		pid_t pid;

		if (posix_spawn(&pid, argv[2], NULL, NULL, args, argv + 3) ||
		    waitpid(pid, &status, 0) != pid || status)
			return 1;
		ns[i] = now() - t;
	}
	qsort(ns, n, sizeof(*ns), by_size);
	printf("{\"p50\":%lu}\n", (unsigned long)ns[n / 2]);
	free(ns);
	return 0;
}
