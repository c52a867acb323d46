/* SPDX-License-Identifier: BSD-3-Clause */
/* accept() at a listener that is known: whatever comes of it, no reference stays, and errno is the app's. */
#include <errno.h>
#include <fcntl.h>

#include "tests/lib/ready_test.h"

#define MINE 12345	/* the app's errno */

static struct rr_sock *so;
static struct rr_conn *door;	/* the listener's, by which native peers come in */
static int listener, client;

static void init(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	client = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(connect(client, (struct sockaddr *)&a, len), 0);
	door = rr_fake_conn(listener, RR_FAKE_NEW);
	so = rr_fdt_sock(listener);
	so->flags |= RR_SOCK_LISTENER;
	rr_file_put(&so->f);
	cr_assert_eq(so->f.refs, 1);
}

TestSuite(accept, .init = init, .timeout = 60);

static int accept_one(void)
{
	errno = MINE;
	return rr_wrap_accept(listener, NULL, NULL);
}

/* The client's connection, by the kernel. */
static void assert_kernels(int fd)
{
	char c = 0;

	cr_assert_gt(fd, listener);
	cr_assert_eq(errno, MINE);
	cr_assert_eq(so->f.refs, 1);
	cr_assert_eq(write(client, "x", 1), 1);
	cr_assert_eq(read(fd, &c, 1), 1);
	cr_assert_eq(c, 'x');
	cr_assert(rr_fdt_has(fd), "it is known");
}

Test(accept, what_the_kernel_has_where_there_is_no_other_door)
{
	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	assert_kernels(accept_one());
}

Test(accept, what_the_kernel_has_where_the_other_door_is_not_open)
{
	assert_kernels(accept_one());
}

Test(accept, what_the_kernel_has_where_nobody_comes_by_the_other_door)
{
	door->accepts = -EAGAIN;
	cr_assert_eq(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	assert_kernels(accept_one());
}

Test(accept, what_the_kernel_has_while_it_waits_at_both_doors)
{
	door->accepts = -EAGAIN;
	assert_kernels(accept_one());
	cr_assert_not(so->flags & RR_SOCK_ACCEPTING);
}

Test(accept, at_what_is_no_socket_of_ours_the_kernel_says)
{
	int ep = rr_wrap_epoll_create1(0);

	cr_assert(rr_fdt_has(ep));
	cr_assert_eq(rr_wrap_accept(ep, NULL, NULL), -1);
	cr_assert_eq(errno, ENOTSOCK);
}

static void assert_native(int fd)
{
	door->accepts = fd;
	cr_assert_eq(accept_one(), fd);
	cr_assert_eq(errno, MINE);
	cr_assert_eq(so->f.refs, 1);
	cr_assert(rr_fdt_has(fd));
}

Test(accept, who_comes_by_the_other_door)
{
	int peer;

	assert_native(tcp(&peer));
}

Test(accept, who_comes_by_the_other_door_has_the_number_0)
{
	int peer, fd = tcp(&peer);

	cr_assert_eq(dup2(fd, 0), 0);
	assert_native(0);
}

Test(accept, an_error_is_the_apps)
{
	door->accepts = -ECONNABORTED;
	cr_assert_eq(accept_one(), -1);
	cr_assert_eq(errno, ECONNABORTED);
	cr_assert_eq(so->f.refs, 1);
}

/* A signal handler has interrupted who has the listener's lock. */
Test(accept, who_may_not_wait_is_told_that_it_was_interrupted)
{
	door->accepts = -EDEADLK;
	cr_assert_eq(accept_one(), -1);
	cr_assert_eq(errno, EINTR);
	cr_assert_eq(so->f.refs, 1);
}
