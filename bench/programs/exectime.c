/* SPDX-License-Identifier: BSD-3-Clause */
/* exectime N [NAME=VALUE]... PROGRAM [ARG]...: median time from posix_spawn() to the end of PROGRAM, whose
 * environment has those variables only and whose standard output is discarded, in ns, as JSON. */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "common.h"

int main(int argc, char **argv)
{
	unsigned int n = argc > 2 ? (unsigned int)atoi(argv[1]) : 0;
	uint64_t *ns = calloc(n + 1, sizeof(*ns));
	posix_spawn_file_actions_t quiet;
	char *env[16] = { NULL };
	int at = 2;

	while (at < argc && at < 17 && strchr(argv[at], '=')) {
		env[at - 2] = argv[at];
		at++;
	}
	if (n == 0 || !ns || at >= argc)
		return 64;
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t = now();
		int status;
		pid_t pid;

		if (posix_spawn(&pid, argv[at], &quiet, NULL, argv + at, env) ||
		    waitpid(pid, &status, 0) != pid || status)
			return 1;
		ns[i] = now() - t;
	}
	printf("{");
	print_times(ns, n);
	puts("}");
	free(ns);
	return 0;
}
