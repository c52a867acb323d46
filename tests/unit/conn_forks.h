/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONN_FORKS_H
#define CONN_FORKS_H

/* Two ends in one process, of which the server's is in a forked child as well: an RPC client and server each. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/connpair.h"

static uint8_t out[1 << 20], in[1 << 20];

static inline pid_t forks(struct rr_end *client, struct rr_end *server)
{
	pid_t pid;

	rr_conn_fork_nears(client->c);
	rr_conn_fork_nears(server->c);
	rr_conn_fork_prepare();
	rr_conn_forked(client->c);
	rr_conn_forked(server->c);
	pid = fork();
	if (pid) {
		rr_conn_fork_parent();
	} else {
		rr_conn_fork_child();
		rr_end_close(client);
	}
	return pid;
}

static inline int status(pid_t pid)
{
	int st = -1;

	cr_assert_eq(waitpid(pid, &st, 0), pid);
	return WIFEXITED(st) ? WEXITSTATUS(st) : -WTERMSIG(st);
}

/* A child's assertion. */
#define holds(what) do { if (!(what)) { dprintf(2, "line %d: does not hold\n", __LINE__); _exit(1); } } while (0)

/* Calls with these numbers, each longer than the one before; the replies are longer yet. */
static inline void serves(struct rr_end *server, uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i <= last; i++) {
		size_t n = rr_test_call(out, i, 100 * i, i);

		holds(rr_end_recv(server, NULL, in, n) == (ssize_t)n && !memcmp(in, out, n));
		n = rr_test_reply(out, i, 200 * i, i);
		holds(rr_end_send(server, NULL, out, n) == (ssize_t)n);
	}
}

/* A child that does so and exits. */
static inline pid_t child_serves(struct rr_end *client, struct rr_end *server, uint32_t first, uint32_t last)
{
	pid_t pid = forks(client, server);

	if (pid)
		return pid;
	serves(server, first, last);
	_exit(0);
}

static inline void calls(struct rr_end *client, uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i <= last; i++) {
		size_t n = rr_test_call(out, i, 100 * i, i);

		cr_assert_eq(rr_end_send(client, NULL, out, n), (ssize_t)n);
		n = rr_test_reply(out, i, 200 * i, i);
		cr_assert_eq(rr_end_recv(client, NULL, in, n), (ssize_t)n);
		cr_assert_eq(memcmp(in, out, n), 0);
	}
}

#endif
