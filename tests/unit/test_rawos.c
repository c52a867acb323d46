/* SPDX-License-Identifier: BSD-3-Clause */
/* The system calls of core, made directly: each does what libc's call of its name does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "preload/rawos.h"
#include "tests/unit/played_sleeps.h"

static const struct rr_os *os = &rr_raw_os;

TestSuite(rawos, .timeout = 60);

static int listener_at(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = os->socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cr_assert_geq(fd, 0);
	cr_assert_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	cr_assert_eq(os->bind(fd, (struct sockaddr *)a, len), 0);
	cr_assert_eq(os->listen(fd, 3), 0);
	cr_assert_eq(os->getsockname(fd, (struct sockaddr *)a, &len), 0);
	cr_assert(len == sizeof(*a) && a->sin_port);
	return fd;
}

Test(rawos, a_connection_from_its_beginning_to_its_end)
{
	struct sockaddr_in a, peer;
	socklen_t len = sizeof(peer);
	int l = listener_at(&a), c = os->socket(AF_INET, SOCK_STREAM, 0), s, n = 0;
	char b[8] = "";
	struct iovec iov = { "defg", 4 }, room = { b, 8 };
	struct msghdr out = { .msg_iov = &iov, .msg_iovlen = 1 }, in = { .msg_iov = &room, .msg_iovlen = 1 };
	struct pollfd p = { 0, POLLIN, 0 };

	cr_assert_eq(os->connect(c, (struct sockaddr *)&a, sizeof(a)), 0);
	s = os->accept4(l, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	cr_assert_geq(s, 0);
	cr_assert_eq(os->fcntl(s, F_GETFL, 0L) & O_NONBLOCK, O_NONBLOCK);
	cr_assert_eq(os->fcntl(s, F_GETFD, 0L), FD_CLOEXEC);
	len = sizeof(a);
	cr_assert_eq(os->getsockname(c, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(a.sin_port, peer.sin_port);
	cr_assert_eq(os->getpeername(s, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(a.sin_port, peer.sin_port);
	p.fd = s;
	cr_assert_eq(os->poll(&p, 1, 0), 0);
	cr_assert_eq(os->recv(s, b, 8, 0), -1);
	cr_assert_eq(errno, EAGAIN);
	cr_assert_eq(os->send(c, "abc", 3, MSG_NOSIGNAL), 3);
	cr_assert_eq(os->sendmsg(c, &out, MSG_NOSIGNAL), 4);
	for (int i = 0; i < 10000 && n < 7; i++)
		cr_assert_eq(os->ioctl(s, FIONREAD, &n), 0);
	cr_assert_eq(n, 7);
	cr_assert_eq(os->poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	cr_assert_eq(os->recv(s, b, 2, MSG_PEEK), 2);
	cr_assert_eq(os->recv(s, b, 3, 0), 3);
	cr_assert_eq(memcmp(b, "abc", 3), 0);
	cr_assert_eq(os->recvmsg(s, &in, MSG_PEEK), 4);
	cr_assert_eq(os->recvmsg(s, &in, 0), 4);
	cr_assert_eq(memcmp(b, "defg", 4), 0);
	cr_assert_eq(os->shutdown(c, SHUT_WR), 0);
	cr_assert_eq(os->poll(&p, 1, 10000), 1);
	cr_assert_eq(os->recv(s, b, 8, 0), 0);
	cr_assert_eq(os->close(c), 0);
	cr_assert_eq(fcntl(c, F_GETFD), -1);
	cr_assert_eq(os->close(c), -1);
	cr_assert_eq(errno, EBADF);
}

Test(rawos, options_and_flags)
{
	int fd = os->socket(AF_INET, SOCK_STREAM, 0), v = 1;
	socklen_t len = sizeof(v);

	cr_assert_eq(os->setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)), 0);
	v = 0;
	cr_assert_eq(os->getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, &len), 0);
	cr_assert(v == 1 && len == sizeof(v));
	cr_assert_eq(os->fcntl(fd, F_SETFL, (long)O_NONBLOCK), 0);
	cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
	cr_assert_geq(os->fcntl(fd, F_DUPFD, 500L), 500);
}

/* At least as long as they say. */
Test(rawos, waits)
{
	struct pollfd none = { -1, 0, 0 };
	rr_time from = rr_now();

	cr_assert_eq(os->poll(&none, 1, 15), 0);
	cr_assert_geq(rr_now() - from, 15 * RR_MSEC);
	from = rr_now();
	cr_assert_eq(os->poll(&none, 1, 1010), 0);
	cr_assert_geq(rr_now() - from, 1010 * RR_MSEC);
}

Test(rawos, a_time_is_converted_exactly)
{
	static const int ms[] = { 0, 1, 999, 1000, 1001, 2500, INT_MAX };

	sleeping.played = true;
	for (size_t i = 0; i < sizeof(ms) / sizeof(*ms); i++) {
		cr_assert_eq(rr_raw_os.poll(NULL, 0, ms[i]), 0);
		cr_assert(sleeping.has_time && sleeping.time.tv_sec == ms[i] / 1000 &&
			  sleeping.time.tv_nsec == ms[i] % 1000 * 1000000L, "%d", ms[i]);
	}
	cr_assert(rr_raw_os.poll(NULL, 0, -1) == 0 && !sleeping.has_time);
	sleeping.played = false;
}
