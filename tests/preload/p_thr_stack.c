/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread may have no more stack than PTHREAD_STACK_MIN: that is enough for the kernel's calls, and so it is
 * for ours, the first one of a process included. */

#include <limits.h>
#include <sys/mman.h>

#include "tests/preload/calls.h"

static unsigned char rec[RPC_CALL_HEAD + 60000], got[sizeof(rec)];
static int s[2];

/* Below its stack is no memory: more than it has is a SIGSEGV. */
static void on_a_small_stack(void *(*fn)(void *), void *arg)
{
	const size_t size = (size_t)PTHREAD_STACK_MIN, guard = 65536;
	char *low = mmap(NULL, guard + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;

	CHECK(low != MAP_FAILED);
	CHECK_EQ(mprotect(low + guard, size, PROT_READ | PROT_WRITE), 0);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstack(&attr, low + guard, size), 0);
	CHECK_EQ(pthread_create(&t, &attr, fn, arg), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static void *connect_and_call(void *arg P_UNUSED)
{
	struct sockaddr_in at;
	pthread_t server;
	int l = p_listen(&at);

	s[0] = p_connect(&at);
	s[1] = accept(l, NULL, NULL);
	CHECK(s[1] >= 0);
	CHECK_EQ(pthread_create(&server, NULL, rpc_null_server, &s[1]), 0);
	rpc_null(s[0], 1);
	CHECK_EQ(pthread_join(server, NULL), 0);
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(close(s[1]), 0);
	CHECK_EQ(close(l), 0);
	return NULL;
}

static void the_first_call_of_a_process(void)
{
	on_a_small_stack(connect_and_call, NULL);
}

static void *write_all_ways(void *arg)
{
	size_t n = rpc_call(rec, 9, *(size_t *)arg);

	for (size_t i = 0; i < P_COUNT(writers); i++) {
		p_what = writers[i].name;
		CHECK_EQ(writers[i].fn(s[0], rec, n), n);
		p_read_all(s[1], got, n);
		CHECK_EQ(memcmp(got, rec, n), 0);
	}
	return NULL;
}

static void every_writer(void)
{
	size_t arg[] = { 400, 60000 };

	rpc_pair(s);
	on_a_small_stack(write_all_ways, &arg[0]);
	on_a_small_stack(write_all_ways, &arg[1]);
}

static void *read_all_ways(void *arg P_UNUSED)
{
	size_t n = rpc_call(rec, 9, 60000);

	for (size_t i = 0; i < P_COUNT(readers); i++) {
		p_what = readers[i].name;
		p_write_all(s[0], rec, n);
		CHECK_EQ(readers[i].fn(s[1], got, n), n);
	}
	p_write_all(s[0], rec, n);
	CHECK_EQ(recv(s[1], got, n, MSG_TRUNC), n);
	return NULL;
}

static void every_reader(void)
{
	rpc_pair(s);
	on_a_small_stack(read_all_ways, NULL);
}

static void *wait_all_ways(void *arg P_UNUSED)
{
	for (size_t i = 0; i < P_COUNT(waiters); i++) {
		p_what = waiters[i].name;
		CHECK_EQ(waiters[i].fn(s[1], POLLIN, 2), 0);
		CHECK_EQ(waiters[i].fn(s[1], POLLOUT, 2), 1);
	}
	return NULL;
}

static void every_waiter(void)
{
	rpc_pair(s);
	on_a_small_stack(wait_all_ways, NULL);
}

static const struct p_case cases[] = {
	{ "the_first_call_of_a_process", the_first_call_of_a_process },
	{ "every_writer", every_writer },
	{ "every_reader", every_reader },
	{ "every_waiter", every_waiter },
};

int main(void)
{
	if (P_SANITIZED) {
		fprintf(stderr, "what a sanitizer makes of the frames is more\n");
		return 77;
	}
	return p_run(cases, P_COUNT(cases));
}
