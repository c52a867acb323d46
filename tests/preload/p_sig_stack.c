/* SPDX-License-Identifier: BSD-3-Clause */
/* A signal handler may read, write and wait, also on an alternate stack of SIGSTKSZ: 8 KiB, of which the kernel's own
 * frame takes up to three and a half. What a call takes of that is counted. (P_SHOW=1 prints it.) */

#include <limits.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "tests/preload/calls.h"

#define ROOM	(256 * 1024)
#define LIMIT	2560u		/* bytes that a call may take; the call that upgrades a connection a little more */
#define LIMIT_ONCE (sizeof(long) < 8 ? 3584u : 3072u)	/* arguments lie there as well */

static unsigned char rec[RPC_CALL_HEAD + 60000], got[sizeof(rec)];
static int s[2];
static unsigned char *stack;
static void (*volatile to_do)(void);

static void handler(int sig P_UNUSED)
{
	to_do();
}

/* How far down fn, in a handler, went. */
static size_t depth(void (*fn)(void))
{
	size_t untouched = 0;

	memset(stack, 0xa5, ROOM);
	to_do = fn;
	CHECK_EQ(raise(SIGUSR1), 0);
	while (untouched < ROOM && stack[untouched] == 0xa5)
		untouched++;
	return ROOM - untouched;
}

static void nothing(void)
{
}

static size_t base;

static void takes(size_t most, const char *what, void (*fn)(void))
{
	size_t n;

	p_what = what;
	n = depth(fn) - base;
	if (getenv("P_SHOW"))
		fprintf(stderr, "%6zu %s\n", n, what);
	CHECK(getenv("P_SHOW") || n <= most);
}

static void measure(const char *what, void (*fn)(void))
{
	takes(LIMIT, what, fn);
}

static void set_up(void)
{
	stack_t alt = { .ss_size = ROOM };
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_ONSTACK };

	alt.ss_sp = stack = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack != MAP_FAILED);
	CHECK_EQ(sigaltstack(&alt, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	depth(nothing);
	base = depth(nothing);
}

static size_t len;
static unsigned nth;

static void call_writer(void)
{
	CHECK_EQ(writers[nth].fn(s[0], rec, len), len);
}

static void call_reader(void)
{
	CHECK_EQ(readers[nth].fn(s[1], got, len), len);
}

static void read_nothing(void)
{
	CHECK_ERR(readers[nth].fn(s[1], got, len), EAGAIN);
}

static void wait_in_vain(void)
{
	CHECK_EQ(waiters[nth].fn(s[1], POLLIN, 2), 0);
}

static void wait_for_room(void)
{
	CHECK_EQ(waiters[nth].fn(s[1], POLLOUT, 2), 1);
}

/* Those of sendfile() make their file, too. */
static void every_writer(void)
{
	set_up();
	rpc_pair(s);
	for (nth = 0; nth < P_COUNT(writers); nth++) {
		for (int i = 0; i < 2; i++) {
			len = rpc_call(rec, 9, i ? 60000 : 400);
			takes(LIMIT + (strstr(writers[nth].name, "file") ? 512 : 0), writers[nth].name, call_writer);
			p_read_all(s[1], got, len);
			CHECK_EQ(memcmp(got, rec, len), 0);
		}
	}
}

static void every_reader(void)
{
	set_up();
	rpc_pair(s);
	for (nth = 0; nth < P_COUNT(readers); nth++) {
		for (int i = 0; i < 2; i++) {
			len = rpc_call(rec, 9, i ? 60000 : 400);
			p_write_all(s[0], rec, len);
			measure(readers[nth].name, call_reader);
		}
	}
	p_nonblock(s[1], true);
	for (nth = 0; nth < P_COUNT(readers) - 1; nth++)
		measure(readers[nth].name, read_nothing);
}

static void wait_for_many(void)
{
	static struct pollfd p[60];

	for (unsigned i = 0; i < P_COUNT(p); i++)
		p[i] = (struct pollfd){ s[1], POLLIN, 0 };
	CHECK_EQ(poll(p, P_COUNT(p), 2), 0);
}

static void every_waiter(void)
{
	set_up();
	rpc_pair(s);
	measure("poll of many", wait_for_many);
	for (nth = 0; nth < P_COUNT(waiters); nth++) {
		measure(waiters[nth].name, wait_in_vain);
		measure(waiters[nth].name, wait_for_room);
	}
}

static void sleep_in_recv(void)
{
	struct timeval tv = { 0, 2000 };
	char c;

	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	CHECK_ERR(recv(s[1], &c, 1, 0), EAGAIN);
}

static void do_trunc(void)
{
	CHECK_EQ(recv(s[1], got, len, MSG_TRUNC), len);
}

static void do_inq(void)
{
	int n;

	CHECK_EQ(ioctl(s[1], FIONREAD, &n), 0);
}

static void do_shutdown(void)
{
	CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
}

static void do_eof(void)
{
	char c;

	CHECK_EQ(read(s[0], &c, 1), 0);
}

static void do_dup(void)
{
	int fd = dup(s[1]);

	CHECK_EQ(dup2(s[1], fd), fd);
	CHECK_EQ(fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
	CHECK_EQ(close(fd), 0);
}

static void do_close0(void)
{
	CHECK_EQ(close(s[0]), 0);
}

static void do_close1(void)
{
	CHECK_EQ(close(s[1]), 0);
}

static void what_else_there_is(void)
{
	set_up();
	rpc_pair(s);
	measure("sleeping recv", sleep_in_recv);
	len = rpc_call(rec, 9, 60000);
	p_write_all(s[0], rec, len);
	measure("FIONREAD", do_inq);
	measure("MSG_TRUNC", do_trunc);
	measure("dup", do_dup);
	measure("shutdown", do_shutdown);
	measure("eof", do_eof);
	measure("close", do_close0);
	measure("close", do_close1);
}

static void do_connect(void)
{
	p_pair(s);
}

static void do_null(void)
{
	rpc_null(s[0], 1);
}

static void do_serve(void)
{
	CHECK(p_readable(s[1], 5000));
	rpc_serve_null(s[1]);
}

static void *null_client(void *arg P_UNUSED)
{
	rpc_null(s[0], 1);
	return NULL;
}

static void the_first_call(void)
{
	pthread_t t;

	set_up();
	takes(LIMIT_ONCE, "connect, accept", do_connect);
	CHECK_EQ(pthread_create(&t, NULL, rpc_null_server, &s[1]), 0);
	takes(LIMIT_ONCE, "the first call", do_null);
	CHECK_EQ(pthread_join(t, NULL), 0);
	close(s[0]);
	close(s[1]);
	p_pair(s);
	CHECK_EQ(pthread_create(&t, NULL, null_client, NULL), 0);
	takes(LIMIT_ONCE, "serving the first call", do_serve);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static const struct p_case cases[] = {
	{ "every_writer", every_writer },
	{ "every_reader", every_reader },
	{ "every_waiter", every_waiter },
	{ "what_else_there_is", what_else_there_is },
	{ "the_first_call", the_first_call },
};

/* No symbol is looked up, which takes its own stack, in a handler. */
int main(int argc P_UNUSED, char **argv)
{
	if (!getenv("LD_BIND_NOW")) {
		setenv("LD_BIND_NOW", "1", 1);
		execv("/proc/self/exe", argv);
	}
	if (P_SANITIZED) {
		fprintf(stderr, "what a sanitizer makes of the frames is more\n");
		return 77;
	}
	return p_run(cases, P_COUNT(cases));
}
