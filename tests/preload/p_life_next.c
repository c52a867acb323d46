/* SPDX-License-Identifier: BSD-3-Clause */
/* The first call of each kind, at which the library looks for libc's: what dlerror() has to tell the app, and errno, stay
 * as they are, also in a handler and in a child. */

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "tests/preload/rpc.h"

static bool told;	/* dlerror(), after the very first call of the process */

static void fail_to_load(void)
{
	dlerror();
	if (dlopen("librr-no-such-library.so.9", RTLD_NOW))
		abort();
}

__attribute__((constructor)) static void first_of_all(void)
{
	fail_to_load();
	close(-1);
	told = dlerror() != NULL;
}

static void the_first_call_leaves_dlerror(void)
{
	CHECK(told);
}

/* Whichever is called first in this process: each is asked for something that fails. */
static void call_each(void)
{
	struct mmsghdr m = { 0 };
	struct iovec v = { &m, 0 };
	struct epoll_event ev;

	CHECK_ERR(lseek(-1, 0, SEEK_SET), EBADF);
	CHECK_ERR(recvmmsg(-1, &m, 1, 0, NULL), EBADF);
	CHECK_ERR(sendmmsg(-1, &m, 1, 0), EBADF);
	CHECK_ERR(splice(-1, NULL, -1, NULL, 1, 0), EBADF);
	CHECK_ERR(preadv2(-1, &v, 1, 0, 0), EBADF);
	CHECK_ERR(pwritev2(-1, &v, 1, 0, 0), EBADF);
	CHECK_ERR(sendfile(-1, -1, NULL, 1), EBADF);
	CHECK_ERR(epoll_create1(-1), EINVAL);
	CHECK_ERR(epoll_wait(-1, &ev, 1, 0), EBADF);
	CHECK_ERR(getsockname(-1, NULL, &(socklen_t){ 0 }), EBADF);
	CHECK_ERR(shutdown(-1, SHUT_RD), EBADF);
	CHECK_ERR(dup(-1), EBADF);
}

static void later_calls_leave_it_too(void)
{
	fail_to_load();
	call_each();
	CHECK(dlerror() != NULL);
}

static volatile sig_atomic_t handled;

static void handle(int sig P_UNUSED)
{
	call_each();
	handled = 1;
}

static void in_a_handler(void)
{
	signal(SIGUSR1, handle);
	fail_to_load();
	raise(SIGUSR1);
	CHECK_EQ(handled, 1);
	CHECK(dlerror() != NULL);
	signal(SIGUSR1, SIG_DFL);
}

static void in_a_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		fail_to_load();
		call_each();
		_exit(dlerror() == NULL);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void connections_are_carried_all_the_same(void)
{
	int s[2];

	rpc_pair(s);
	close(s[0]);
	close(s[1]);
}

static const struct p_case cases[] = {
	{ "the_first_call_leaves_dlerror", the_first_call_leaves_dlerror },
	{ "later_calls_leave_it_too", later_calls_leave_it_too },
	{ "in_a_handler", in_a_handler },
	{ "in_a_child", in_a_child },
	{ "connections_are_carried_all_the_same", connections_are_carried_all_the_same },
};

P_MAIN(cases)
