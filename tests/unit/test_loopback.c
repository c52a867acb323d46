/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to ourselves under a native one: while its port is open anybody on the host may come to it. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/conn/enter.h"

static struct rr_os os = {
	.socket = socket, .bind = bind, .listen = listen, .connect = connect, .accept4 = accept4, .close = close,
	.fcntl = fcntl, .getsockopt = getsockopt, .setsockopt = setsockopt, .getsockname = getsockname, .poll = poll,
};
static int first_ms, last_ms, came;

/* A stranger comes, after a while. */
static int poll_late(struct pollfd *p, nfds_t n, int ms)
{
	const struct timespec a_while = { .tv_nsec = 20000000 };

	(void)n;
	nanosleep(&a_while, NULL);
	last_ms = ms;
	first_ms = first_ms ? first_ms : ms;
	p->revents = POLLIN;
	return 1;
}

static int accept_stranger(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sockaddr_in other = { .sin_family = AF_INET, .sin_port = htons(1) };

	(void)fd;
	(void)flags;
	memcpy(addr, &other, sizeof(other));
	*len = sizeof(other);
	came++;
	return dup(0);
}

static void set_up(void)
{
	rr_os = &os;
}

TestSuite(loopback, .init = set_up);

Test(loopback, strangers_at_its_port_share_the_time_that_one_has)
{
	int far = -1, rc;

	os.poll = poll_late;
	os.accept4 = accept_stranger;
	rc = rr_loopback_new(AF_INET, 0, &far);
	cr_assert_eq(rc, -ECONNABORTED);
	cr_assert_eq(far, -1);
	cr_assert_gt(came, 1);
	cr_assert_leq(first_ms, 1000);
	cr_assert_leq(last_ms, first_ms - 20 * (came - 2), "the last one as long as the first");
}

Test(loopback, its_ends_are_connected)
{
	char byte = 0;
	int far, fd = rr_loopback_new(AF_INET, 0, &far);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(far, "x", 1), 1);
	cr_assert(read(fd, &byte, 1) == 1 && byte == 'x');
	rr_loopback_end(&far, false);
	close(fd);
}

/* An app's socket of IPv6 has an anchor of its own family, by IPv4: IPv6 may be switched off. */
Test(loopback, ends_of_ipv6_are_connected_by_ipv4)
{
	struct sockaddr_in6 at = { 0 };
	socklen_t len = sizeof(at);
	char byte = 0;
	int far, fd = rr_loopback_new(AF_INET6, 0, &far);

	cr_assert_geq(fd, 0);
	cr_assert_eq(getpeername(fd, (struct sockaddr *)&at, &len), 0);
	cr_assert(at.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&at.sin6_addr));
	cr_assert_eq(write(far, "x", 1), 1);
	cr_assert(read(fd, &byte, 1) == 1 && byte == 'x');
	rr_loopback_end(&far, false);
	close(fd);
}
