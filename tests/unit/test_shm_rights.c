/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that come unasked: the last reference to a TCP socket that lingers, which whoever has it waits for. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define ops (&rr_prov_shm)

TestSuite(shm_rights, .timeout = 25);

static struct shm_pair p;

static long sleeps(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

/* A socket that has something to send, and nobody who reads it: its close takes a minute. */
static int lingering(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger minute = { 1, 60 };
	static uint8_t some[65536];
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(l, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(l, 1), 0);
	cr_assert_eq(getsockname(l, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(connect(s, (struct sockaddr *)&a, len), 0);
	cr_assert_geq(accept(l, NULL, NULL), 0);
	close(l);
	while (send(s, some, sizeof(some), MSG_DONTWAIT) > 0)
		;
	cr_assert_eq(setsockopt(s, SOL_SOCKET, SO_LINGER, &minute, sizeof(minute)), 0);
	return s;
}

/* As a kernel does that cannot forbid it. */
static void permit(int sock)
{
	int yes = 1;

	setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(yes));
}

/* n of them by sock, which then nobody has but who receives them. */
static void send_rights(int sock, size_t bytes, int n)
{
	struct iovec iov = { "!", bytes };
	union {
		struct cmsghdr hdr;
		char room[CMSG_SPACE(8 * sizeof(int))];
	} ctl = { .hdr = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
			   .cmsg_len = CMSG_LEN((size_t)n * sizeof(int)) } };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl,
			    .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int)) };
	int fd[8];

	for (int i = 0; i < n; i++)
		fd[i] = lingering();
	memcpy(CMSG_DATA(&ctl.hdr), fd, (size_t)n * sizeof(int));
	cr_assert_eq(sendmsg(sock, &m, 0), (ssize_t)bytes);
	for (int i = 0; i < n; i++)
		close(fd[i]);
}

static void open_pair(void)
{
	shm_pair_open(&p, 4);
	permit(p.c->wake_fd);
}

Test(shm_rights, a_doorbell_with_a_descriptor_costs_the_connection_and_no_time, .init = open_pair)
{
	struct rr_wc wc;
	long before;

	send_rights(p.s->wake_fd, 1, 3);
	before = sleeps();
	ops->drain(p.c);
	cr_assert_eq(sleeps(), before);
	cr_assert_eq(ops->poll(p.c, &wc, 1), -EPROTO);
	shm_pair_close(&p);
}

Test(shm_rights, those_that_nobody_has_looked_at_are_not_waited_for_at_close, .init = open_pair)
{
	long before;

	send_rights(p.s->wake_fd, 0, 1);
	send_rights(p.s->wake_fd, 1, 2);
	ops->disconnect(p.c);
	before = sleeps();
	ops->close(p.c);
	cr_assert_eq(sleeps(), before);
}

Test(shm_rights, strangers_descriptors_are_not_waited_for)
{
	int sv[2];
	long before;

	shm_pair_init(&p, 4096, 4);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	send_rights(sv[0], 1, 2);
	before = sleeps();
	rr_shm_close_sock(sv[1], true);
	cr_assert_eq(sleeps(), before);
}

/* They have connected where the client listens. */
Test(shm_rights, those_that_nobody_has_accepted_are_not_waited_for)
{
	long before;
	int fd;

	shm_pair_init(&p, 4096, 4);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	fd = rr_shm_connect(&p.offer, p.cp.run_dir, 3);
	cr_assert_geq(fd, 0);
	send_rights(fd, 1, 1);
	before = sleeps();
	ops->close(p.c);
	cr_assert_eq(sleeps(), before);
}

/* The close of that one is the end of what it was sent. */
Test(shm_rights, nor_are_those_within_a_unix_socket)
{
	int fd, sv[2], in[2];
	long before;

	shm_pair_init(&p, 4096, 4);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, in), 0);
	send_rights(in[0], 1, 1);
	fd = in[1];
	before = sleeps();
	rr_shm_discard(fd);
	cr_assert_eq(sleeps(), before);
}

Test(shm_rights, where_the_kernel_can_none_come_at_all)
{
	int yes = 1, s = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (setsockopt(s, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(yes)))
		cr_skip_test("this kernel cannot");
	shm_pair_open(&p, 4);
	{
		struct iovec iov = { "!", 1 };
		union {
			struct cmsghdr hdr;
			char room[CMSG_SPACE(sizeof(int))];
		} ctl = { .hdr = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
				   .cmsg_len = CMSG_LEN(sizeof(int)) } };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl,
				    .msg_controllen = sizeof(ctl) };

		memcpy(CMSG_DATA(&ctl.hdr), &s, sizeof(s));
		cr_assert_eq(sendmsg(p.s->wake_fd, &m, 0), -1);
		cr_assert_eq(sendmsg(p.c->wake_fd, &m, 0), -1);
	}
	shm_pair_close(&p);
}
