/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and processes: fork in all the ways of servers, vfork, spawn, exec, daemon, exit. */

#include <sched.h>
#include <spawn.h>
#include <sys/resource.h>

#include "tests/preload/rpc.h"

static unsigned char buf[4096];

static void joined(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* One NULL call over s in both senses of the word; two threads, since both ends are here. */
static void call_over(int s[2], uint32_t xid)
{
	pthread_t t;

	pthread_create(&t, NULL, rpc_null_server, &s[1]);
	rpc_null(s[0], xid);
	pthread_join(t, NULL);
}

static void a_child_that_closes_leaves_the_parent_its_connection(void)
{
	pid_t pid;
	int s[2];

	rpc_pair(s);
	pid = fork();
	if (!pid) {
		for (int i = 3; i < 1000; i++)
			close(i);
		_exit(0);
	}
	joined(pid);
	for (uint32_t i = 2; i < 10; i++)
		call_over(s, i);
}

static void a_child_goes_on_where_the_parent_closes(void)
{
	pid_t pid;
	int s[2];

	rpc_pair(s);
	pid = fork();
	if (!pid) {
		close(s[0]);
		for (int i = 0; i < 5; i++)
			rpc_serve_null(s[1]);
		CHECK_EQ(read(s[1], buf, 1), 0);
		_exit(0);
	}
	close(s[1]);
	for (uint32_t i = 2; i < 7; i++)
		rpc_null(s[0], i);
	CHECK_EQ(close(s[0]), 0);
	joined(pid);
}

/* A fork per connection, before anything was read from it. */
static void accept_then_fork(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at);
	pid_t server = fork();

	if (!server) {
		for (int i = 0; i < 3; i++) {
			int a = accept(l, NULL, NULL);
			pid_t pid = fork();

			if (!pid) {
				close(l);
				rpc_serve_null(a);
				rpc_serve_null(a);
				_exit(0);
			}
			close(a);
			joined(pid);
		}
		_exit(0);
	}
	for (int i = 0; i < 3; i++) {
		int c = p_connect(&at);

		rpc_null(c, 1);
		rpc_null(c, 2);
		CHECK_EQ(read(c, buf, 1), 0);
		close(c);
	}
	joined(server);
}

static void preforked_workers_share_a_listener(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at), c[4];
	pid_t pid[4];

	for (int i = 0; i < 4; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			int a = accept(l, NULL, NULL);

			rpc_serve_null(a);
			rpc_serve_null(a);
			_exit(0);
		}
	}
	for (int i = 0; i < 4; i++) {
		c[i] = p_connect(&at);
		rpc_null(c[i], 1);
	}
	for (int i = 0; i < 4; i++)
		rpc_null(c[i], 2);
	for (int i = 0; i < 4; i++)
		joined(pid[i]);
}

/* ypserv: the parent reads the call, a child writes the reply. */
static void the_parent_reads_and_a_child_replies(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at), c;
	pid_t server = fork();

	if (!server) {
		int a = accept(l, NULL, NULL);

		rpc_serve_null(a);
		for (int i = 0; i < 5; i++) {
			pid_t pid;

			CHECK_EQ(rpc_read(a, buf, sizeof(buf)), RPC_CALL_HEAD);
			pid = fork();
			if (!pid) {
				p_write_all(a, buf, rpc_reply(buf, rpc_get(buf, 1), 100));
				_exit(0);
			}
			joined(pid);
		}
		_exit(0);
	}
	c = p_connect(&at);
	rpc_null(c, 1);
	for (uint32_t i = 2; i < 7; i++) {
		p_write_all(c, buf, rpc_call(buf, i, 0));
		CHECK_EQ(rpc_read(c, buf, sizeof(buf)), RPC_REPLY_HEAD + 100);
		CHECK_EQ(rpc_get(buf, 1), i);
	}
	joined(server);
}

static void a_daemon_serves(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at), c;
	pid_t pid = fork();

	if (!pid) {
		int a;

		CHECK_EQ(daemon(1, 1), 0);
		alarm(P_LIMIT);
		a = accept(l, NULL, NULL);
		rpc_serve_null(a);
		rpc_serve_null(a);
		_exit(0);
	}
	joined(pid);
	c = p_connect(&at);
	rpc_null(c, 1);
	rpc_null(c, 2);
	CHECK_EQ(read(c, buf, 1), 0);
}

static void fork_while_other_threads_use_connections(void)
{
	pthread_t t;
	int s[2];

	rpc_pair(s);
	for (uint32_t i = 0; i < 30; i++) {
		pid_t pid;

		pthread_create(&t, NULL, rpc_null_server, &s[1]);
		pid = fork();
		if (!pid)
			_exit(0);
		rpc_null(s[0], 2 + i);
		pthread_join(t, NULL);
		joined(pid);
	}
}

/* Bytes that nobody has read at the last close are a reset, whoever had the connection before. */
static void close_with_unread_bytes(int s[2])
{
	p_write_all(s[0], buf, rpc_call(buf, 9, 100));
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(close(s[1]), 0);
	CHECK(p_readable(s[0], P_SOON));
	CHECK_ERR(read(s[0], buf, 1), ECONNRESET);
}

static void a_child_that_has_ended_has_no_connection(void)
{
	siginfo_t si;
	pid_t pid;
	int s[2];

	rpc_pair(s);
	pid = fork();
	if (!pid)
		_exit(0);
	CHECK_EQ(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);	/* stays a zombie */
	close_with_unread_bytes(s);
	joined(pid);
}

static void a_fork_that_failed_has_no_child(void)
{
	struct rlimit none = { 0, 0 };
	int s[2];

	rpc_pair(s);
	if (setrlimit(RLIMIT_NPROC, &none) || setuid(65534))
		return;
	CHECK_ERR(fork(), EAGAIN);
	close_with_unread_bytes(s);
}

/* --- vfork and spawn: the child lives in our memory --- */

static void sets_low_water(int fd, int low)
{
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
}

static void waits_for_two_calls(int s[2])
{
	p_write_all(s[0], buf, rpc_call(buf, 5, 0));
	CHECK(!p_readable(s[1], 30));
	p_write_all(s[0], buf, rpc_call(buf, 6, 0));
	CHECK(p_readable(s[1], P_SOON));
}

static void child_sets_low_water(int fd)
{
	pid_t pid = fork();

	if (!pid) {
		sets_low_water(fd, 2 * RPC_CALL_HEAD);
		_exit(0);
	}
	joined(pid);
}

/* An option of the socket is one for all processes that have it. */
static void a_childs_low_water_mark_is_the_parents(void)
{
	int s[2];

	rpc_pair(s);
	child_sets_low_water(s[1]);
	waits_for_two_calls(s);
}

static void a_childs_low_water_mark_is_kept_by_an_upgrade(void)
{
	pthread_t t;
	int s[2];

	p_pair(s);
	child_sets_low_water(s[1]);
	pthread_create(&t, NULL, rpc_null_server, &s[1]);
	p_write_all(s[0], buf, rpc_call(buf, 1, RPC_CALL_HEAD));	/* of two calls' length */
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	pthread_join(t, NULL);
	waits_for_two_calls(s);
}

static void a_parents_low_water_mark_is_its_childs(void)
{
	int s[2], go[2];
	pid_t pid;

	rpc_pair(s);
	CHECK_EQ(pipe(go), 0);
	pid = fork();
	if (!pid) {
		CHECK_EQ(read(go[0], buf, 1), 1);
		waits_for_two_calls(s);
		_exit(0);
	}
	sets_low_water(s[1], 2 * RPC_CALL_HEAD);
	CHECK_EQ(write(go[1], "", 1), 1);
	joined(pid);
}

static char *const run_true[] = { "true", NULL };

static void a_vfork_child_closes_only_its_own(void)
{
	pid_t pid;
	int s[2];

	rpc_pair(s);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	pid = vfork();
#pragma GCC diagnostic pop
	if (!pid) {
		close(s[0]);
		dup2(0, s[1]);
		close_range(3, 100, 0);
		execv("/bin/true", run_true);
		_exit(1);
	}
	joined(pid);
	call_over(s, 2);
}

static int closes_all(void *arg)
{
	int *s = arg;

	close(s[0]);
	dup2(0, s[1]);
	close_range(3, 100, 0);
	return socket(AF_INET, SOCK_STREAM, 0) < 0;
}

static void so_does_one_by_clone(void)
{
	static char stack[65536] __attribute__((aligned(64)));
	int s[2];

	rpc_pair(s);
	for (int i = 0; i < 2; i++) {
		joined(clone(closes_all, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, s));
		call_over(s, 2 + (uint32_t)i);
	}
}

static void a_spawned_child_closes_only_its_own(void)
{
	posix_spawn_file_actions_t fa;
	pid_t pid;
	int s[2];

	rpc_pair(s);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addclose(&fa, s[0]);
	posix_spawn_file_actions_adddup2(&fa, 0, s[1]);
	CHECK_EQ(posix_spawn(&pid, "/bin/true", &fa, NULL, run_true, environ), 0);
	joined(pid);
	CHECK_EQ(system("exec 3>&- 4>&- 5>&-; :"), 0);
	call_over(s, 2);
}

/* --- exec: this program again, told what it inherits --- */

static pid_t exec_self(const char *what, int fd, bool as_stdio)
{
	char number[16];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(number, sizeof(number), "%d", fd);
	if (as_stdio) {
		dup2(fd, 0);
		dup2(fd, 1);
		closefrom(3);
	}
	execl("/proc/self/exe", "p_fork_conn", what, number, NULL);
	_exit(1);
}

static void a_listener_survives_exec(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at), c;
	pid_t pid = exec_self("accept", l, false);

	c = p_connect(&at);
	rpc_null(c, 1);
	rpc_null(c, 2);
	joined(pid);
}

static void a_server_may_have_its_connection_as_stdio(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at), c = p_connect(&at), a = accept(l, NULL, NULL);
	pid_t pid = exec_self("stdio", a, true);

	close(a);
	rpc_null(c, 1);
	rpc_null(c, 2);
	joined(pid);
}

static void what_was_written_arrives_though_the_writer_exits(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at), a;
	pid_t pid = fork();

	if (!pid) {
		int c = p_connect(&at);

		rpc_null(c, 1);
		p_write_all(c, buf, rpc_call(buf, 2, 2000));
		exit(0);
	}
	a = accept(l, NULL, NULL);
	rpc_serve_null(a);
	joined(pid);
	CHECK_EQ(rpc_read(a, buf, sizeof(buf)), RPC_CALL_HEAD + 2000);
	CHECK(read(a, buf, 1) <= 0);
}

static const struct p_case cases[] = {
	{ "a_child_that_closes_leaves_the_parent_its_connection",
	  a_child_that_closes_leaves_the_parent_its_connection },
	{ "a_child_goes_on_where_the_parent_closes", a_child_goes_on_where_the_parent_closes },
	{ "accept_then_fork", accept_then_fork },
	{ "preforked_workers_share_a_listener", preforked_workers_share_a_listener },
	{ "the_parent_reads_and_a_child_replies", the_parent_reads_and_a_child_replies },
	{ "a_daemon_serves", a_daemon_serves },
	{ "fork_while_other_threads_use_connections", fork_while_other_threads_use_connections },
	{ "a_child_that_has_ended_has_no_connection", a_child_that_has_ended_has_no_connection },
	{ "a_fork_that_failed_has_no_child", a_fork_that_failed_has_no_child },
	{ "a_childs_low_water_mark_is_the_parents", a_childs_low_water_mark_is_the_parents },
	{ "a_childs_low_water_mark_is_kept_by_an_upgrade", a_childs_low_water_mark_is_kept_by_an_upgrade },
	{ "a_parents_low_water_mark_is_its_childs", a_parents_low_water_mark_is_its_childs },
	{ "a_vfork_child_closes_only_its_own", a_vfork_child_closes_only_its_own },
	{ "so_does_one_by_clone", so_does_one_by_clone },
	{ "a_spawned_child_closes_only_its_own", a_spawned_child_closes_only_its_own },
	{ "a_listener_survives_exec", a_listener_survives_exec },
	{ "a_server_may_have_its_connection_as_stdio", a_server_may_have_its_connection_as_stdio },
	{ "what_was_written_arrives_though_the_writer_exits",
	  what_was_written_arrives_though_the_writer_exits },
};

int main(int argc, char **argv)
{
	if (argc == 3) {
		int fd = !strcmp(argv[1], "accept") ? accept(atoi(argv[2]), NULL, NULL) : 0;

		alarm(P_LIMIT);
		rpc_serve_null(fd);
		rpc_serve_null(fd);
		return 0;
	}
	return p_run(cases, sizeof(cases) / sizeof(cases[0]));
}
