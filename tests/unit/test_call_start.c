/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library finds at exec: connections and listeners that it was given by inetd and systemd. */
#include <sys/resource.h>
#include <sys/wait.h>

#include "preload/guard.h"
#include "tests/unit/call.h"

#include "preload/start.c"

static void begin_start(void)
{
	clearenv();
	errno = MINE;
}

TestSuite(call_start, .init = begin_start, .timeout = 60);

Test(call_start, numbers_of_the_environment)
{
	static const struct { const char *text; long n; } c[] = {
		{ "0", 0 }, { "1", 1 }, { "9", 9 }, { "1234567", 1234567 }, { "12x", 12 }, { "", 0 }, { "x", 0 }, { "-1", 0 },
		{ ":", 0 }, { "/", 0 }, { "2147483646", 2147483646 },
	};

	for (size_t i = 0; i < rr_array_size(c); i++)
		cr_assert_eq(env_number(c[i].text), c[i].n, "%s", c[i].text);
	cr_assert_geq(env_number("99999999999999999999999999"), INT32_MAX, "it does not go round");
	cr_assert_lt(env_number("99999999999999999999999999"), INT64_C(1) << 40);
}

Test(call_start, values_of_the_environment)
{
	char *env[] = { (char[]){ "LISTEN_PI=1" }, (char[]){ "LISTEN_PID" }, (char[]){ "XLISTEN_PID=2" }, (char[]){ "XISTEN_PID=5" },
			(char[]){ "LISTEN_PID=3" }, (char[]){ "LISTEN_PID=4" }, (char[]){ "EMPTY=" }, NULL };
	char **was = environ;
	const char *v;

	environ = env;
	v = env_value("LISTEN_PID=");
	cr_assert_str_eq(v, "3");
	cr_assert_str_eq(env_value("EMPTY="), "");
	cr_assert_null(env_value("LISTEN_FDS="));
	environ = NULL;
	cr_assert_null(env_value("LISTEN_PID="));
	environ = was;
}

static void set_listen(int pid, const char *fds)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	setenv("LISTEN_PID", text, 1);
	setenv("LISTEN_FDS", fds, 1);
}

/* Puts listeners at 2, which no environment means, 3, 4 and 5. */
static void take_numbers(void)
{
	int l = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(listen(l, 1), 0);
	l = fcntl(l, F_DUPFD, 100);
	for (int fd = 2; fd < 6; fd++)
		cr_assert_eq(dup2(l, fd), fd);
	errno = MINE;
}

/* In a child, whose numbers 3 to 5 nobody needs. */
#define in_child(statement) do {							\
	int status_ = -1;								\
	pid_t pid_ = fork();								\
											\
	if (!pid_) {									\
		take_numbers();								\
		_exit((statement) ? 0 : 1);						\
	}										\
	waitpid(pid_, &status_, 0);							\
	cr_assert_eq(status_, 0);							\
} while (0)

static int inherited(int pid, const char *fds)
{
	int n = 0;

	set_listen(pid, fds);
	inherit_listen_fds();
	for (int fd = 0; fd < 16; fd++)
		n += rr_fdt_has(fd) << fd;
	return n & (1 << 2 | 1 << 3 | 1 << 4 | 1 << 5);	/* others may be the harness's */
}

Test(call_start, listeners_of_systemd)
{
	in_child(inherited(getpid(), "2") == (1 << 3 | 1 << 4));
	in_child(inherited(getpid(), "3") == (1 << 3 | 1 << 4 | 1 << 5));
	in_child(inherited(getpid(), "1") == 1 << 3);
	in_child(inherited(getpid(), "0") == 0);
	in_child(inherited(getpid(), "99999999999999") == (1 << 3 | 1 << 4 | 1 << 5));
	in_child(inherited(getpid() + 1, "2") == 0);
	in_child((unsetenv("LISTEN_FDS"), setenv("LISTEN_PID", "1", 1), inherit_listen_fds(), !rr_fdt_has(3)));
	in_child((inherit_listen_fds(), !rr_fdt_has(3)));
	in_child((set_listen(getpid(), "1"), rr_init(), rr_fdt_has(3)));
}

/* Are the listeners at 1023 and 1024 known? Bit 0 and 1. */
static int inherited_far(void)
{
	struct rlimit lim;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur < 1026)
		return 1;	/* nothing to be seen here */
	for (int fd = 1023; fd < 1026; fd++)
		dup2(3, fd);
	inherited(getpid(), "2000");
	return rr_fdt_has(1023) | rr_fdt_has(1024) << 1;
}

Test(call_start, so_many_listeners_nobody_has)
{
	in_child(inherited_far() == 1);
}

static bool stdio_is(bool known)
{
	return rr_fdt_has(0) == known && rr_fdt_has(1) == known && rr_fdt_has(2) == known;
}

static bool inetd(int how)
{
	int peer, fd = how == 2 ? socket(AF_INET, SOCK_STREAM, 0) : how == 1 ? socket(AF_INET, SOCK_DGRAM, 0) : tcp(&peer);

	for (int to = 0; to < 3; to++)
		dup2(fd, to);
	errno = MINE;
	rr_init();
	return errno == MINE && stdio_is(how == 0) && (how || rr_fdt_sock(0) == rr_fdt_sock(2));
}

Test(call_start, a_connection_of_inetd)
{
	in_child(inetd(0));
	in_child(inetd(1));
	in_child(inetd(2));
}

/* Whoever starts a program with a connection as its input may have given it another output. */
static bool is_input_alone(bool connected)
{
	int peer, fd = tcp(&peer), null = open("/dev/null", O_RDWR);

	dup2(connected ? fd : null, 0);
	dup2(connected ? null : fd, 1);
	dup2(null, 2);
	rr_init();
	return rr_fdt_has(0) == connected && (connected || !rr_fdt_has(1));
}

Test(call_start, the_input_says_whether_there_is_one)
{
	in_child(is_input_alone(true));
	in_child(is_input_alone(false));
}

/* The tables are this process's from the constructor on, so that a vfork() child whose call is the first one is not
 * taken for their owner. */
Test(call_start, whose_tables_they_are)
{
	int status = -1;
	pid_t pid = vfork();

	if (!pid)
		_exit(rr_may_track());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert(rr_may_track());
}

/* From the constructor on, no environment is no reason to wait. */
Test(call_start, who_has_cleared_its_environment_is_set_up)
{
	char **was = environ;

	environ = NULL;
	cr_assert(rr_init_core());
	environ = was;
}
