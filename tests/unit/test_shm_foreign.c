/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that a peer or a stranger puts into our sockets, whose last close() takes a minute: none of our calls
 * waits for it. Whatever waits here does so until the test times out, for the reader is closed behind it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/prov/shm/foreign.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"
#include "tests/lib/slowfd.h"

#define ops	(&rr_prov_shm)
#define PASSRIGHTS 83	/* of asm-generic */

TestSuite(shm_foreign, .timeout = 30);

static struct shm_pair p;
static struct rr_os old_os;	/* of a kernel that knows nothing of SO_PASSRIGHTS */
static int reader[8], readers, before;

static int old_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	if (level == SOL_SOCKET && name == PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return setsockopt(fd, level, name, val, len);
}

static void begin(bool old)
{
	before = open_fds();
	shm_pair_init(&p, 4096, 8);
	if (!old)
		return;
	old_os = *rr_os;
	old_os.setsockopt = old_setsockopt;
	rr_os = &old_os;
}

static bool send_slow(int sock, const void *packet, size_t len, int n)
{
	int fd[8] = { 0 };
	bool rc;

	for (int i = 0; i < n; i++)
		fd[i] = slow_to_close(&reader[readers++]);
	rc = hand_over(sock, packet, len, fd, n);
	for (int i = 0; i < n; i++) {
		struct linger no = { 0, 0 };

		if (!rc)	/* they are the last */
			setsockopt(fd[i], SOL_SOCKET, SO_LINGER, &no, sizeof(no));
		close(fd[i]);
	}
	return rc;
}

/* As the last process of a family does it. */
static void close_both(void)
{
	ops->disconnect(p.c);
	ops->disconnect(p.s);
	ops->close(p.c);
	ops->close(p.s);
}

/* With the readers gone nothing lingers: all is closed in the end, by whomever. */
static void end(void)
{
	while (readers)
		close(reader[--readers]);
	cr_expect(open_fds_get_to(before), "%d descriptors more", open_fds() - before);
	shm_qp_free(p.c, &p.cp);
	shm_qp_free(p.s, &p.sp);
}

/* The client has heard its bell, and looks. */
static bool is_over(void)
{
	struct rr_wc wc;

	ops->drain(p.c);
	return ops->poll(p.c, &wc, 1) < 0;
}

Test(shm_foreign, a_bell_with_a_descriptor_ends_the_connection)
{
	begin(true);
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert(send_slow(p.s->wake_fd, "", 1, 1));
	cr_expect(is_over());
	close_both();
	end();
}

/* Where descriptors cannot be refused, who closes a socket for good reads it empty first; a child that closes its copy
 * leaves the parent's bells alone. */
Test(shm_foreign, a_child_takes_no_bell_from_its_parent)
{
	char bell;
	int status;
	pid_t child;

	begin(true);
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_eq(send(p.s->wake_fd, "", 1, 0), 1);
	child = fork();
	if (!child) {
		ops->close(p.c);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert_eq(recv(p.c->wake_fd, &bell, 1, MSG_PEEK | MSG_DONTWAIT), 1);
	close_both();
	end();
}

/* The app has closed its standard input. */
Test(shm_foreign, a_descriptor_that_comes_as_number_0_goes_too)
{
	int s[2];
	char none;

	begin(false);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	cr_assert_eq(dup2(s[1], 0), 0);
	close(s[1]);
	rr_shm_drop_fd(0);
	cr_assert_eq(recv(s[0], &none, 1, 0), 0, "closed, by whichever thread");
	cr_assert_eq(dup2(s[0], 0), 0);
	close(s[0]);
	end();
}

/* It comes just after somebody has looked whether there is one. */
static ssize_t recvmsg_too_early(int fd, struct msghdr *m, int flags)
{
	ssize_t n = recvmsg(fd, m, flags);
	int saved = errno;

	if (n < 0 && errno == EAGAIN && !readers)
		cr_assert(send_slow(p.s->wake_fd, "", 1, 1));
	errno = saved;
	return n;
}

Test(shm_foreign, a_descriptor_that_comes_after_the_look)
{
	begin(true);
	cr_assert_eq(shm_pair_connect(&p), 0);
	old_os.recvmsg = recvmsg_too_early;
	cr_expect_not(is_over());
	cr_expect_eq(readers, 1);
	cr_expect(is_over());
	close_both();
	end();
}

/* 1 a bell; 0 the end, or what would bring a descriptor; -1 nothing. */
Test(shm_foreign, a_bell_is_read_and_a_descriptor_is_not)
{
	int s[2];

	begin(false);
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
	cr_assert_eq(rr_shm_read_bell(s[0]), -1);
	cr_assert_eq(send(s[1], "", 1, 0), 1);
	cr_assert_eq(rr_shm_read_bell(s[0]), 1);
	cr_assert_eq(rr_shm_read_bell(s[0]), -1, "it is not there any more");
	cr_assert(hand_over(s[1], "", 1, &s[1], 1));
	cr_assert_eq(rr_shm_read_bell(s[0]), 0);
	close(s[0]);
	close(s[1]);
	close_both();
	end();
}

static int looks;

static ssize_t recvmsg_counted(int fd, struct msghdr *m, int flags)
{
	looks++;
	return recvmsg(fd, m, flags);
}

/* Where the kernel refuses descriptors only what came before it did has to be looked at. */
Test(shm_foreign, a_bell_is_looked_at_only_as_long_as_it_may_bring_descriptors)
{
	struct rr_os counting;

	begin(false);
	cr_assert_eq(shm_pair_connect(&p), 0);
	if (!rr_shm_of(p.c)->refusing)
		cr_skip_test("this kernel refuses none");
	counting = *rr_os;
	counting.recvmsg = recvmsg_counted;
	rr_os = &counting;
	for (int i = 0; i < 20; i++) {
		send(p.s->wake_fd, "", 1, 0);
		cr_assert_eq(ops->drain(p.c), 0);
	}
	cr_expect_leq(looks, 2, "%d", looks);
	close_both();
	end();
}

Test(shm_foreign, a_descriptor_behind_bells_that_nobody_reads)
{
	begin(true);
	cr_assert_eq(shm_pair_connect(&p), 0);
	send(p.s->wake_fd, "", 1, 0);
	send(p.s->wake_fd, "", 0, 0);	/* looks like the end */
	cr_assert(send_slow(p.s->wake_fd, "", 1, 2));
	close_both();
	end();
}

Test(shm_foreign, the_kernel_refuses_them_if_it_can)
{
	int yes = 1, sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	bool can = !setsockopt(sock, SOL_SOCKET, PASSRIGHTS, &yes, sizeof(yes));

	close(sock);
	begin(false);
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_expect_eq(send_slow(p.s->wake_fd, "", 1, 1), !can);
	cr_expect_eq(send_slow(p.c->wake_fd, "", 1, 1), !can);
	cr_expect_eq(is_over(), !can);
	close_both();
	end();
}

/* The client, by hand: its hello is right, but for what comes with it. */
static int answered_with(int n)
{
	struct rr_shm_hello h = {
		.magic = RR_SHM_MAGIC, .version = RR_SHM_VERSION, .size = sizeof(h), .recv_size = 4096,
		.recvs = 8, .mem_size = p.cp.mem_size,
	};
	struct rr_shm_geo g;
	int sock, rc;

	rr_shm_geo_init(&g, h.recv_size, h.recvs, h.mem_size);
	h.total = g.total;
	memcpy(h.proof, p.cp.token + RR_SHM_PROOF, RR_SHM_PROOF);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	sock = accept(rr_shm_of(p.c)->listener[0], NULL, NULL);
	cr_assert(send_slow(sock, &h, sizeof(h), n));
	rc = ops->establish(p.s);
	close(sock);
	ops->close(p.s);
	ops->close(p.c);
	return rc;
}

Test(shm_foreign, a_hello_with_something_else_than_memory)
{
	begin(true);
	cr_expect_eq(answered_with(1), -EPROTO);
	end();
}

Test(shm_foreign, a_hello_with_more_than_memory)
{
	begin(false);
	cr_expect_eq(answered_with(6), -EPROTO);
	end();
}

/* The abstract name is in /proc/net/unix for everybody to read. */
static int stranger(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	size_t n = p.offer.len - 2u;

	memcpy(sa.sun_path + 1, p.offer.bytes + 2, n);
	cr_assert_eq(connect(sock, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)), 0);
	return sock;
}

Test(shm_foreign, a_stranger_whom_the_client_turns_away)
{
	int sock;

	begin(false);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	sock = stranger();
	cr_assert(send_slow(sock, "?", 1, 1));
	close(sock);
	cr_expect_lt(ops->join(p.c, &p.answer), 0);
	end();
}

Test(shm_foreign, a_stranger_whom_nobody_accepts)
{
	int sock;

	begin(false);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	sock = stranger();
	cr_assert(send_slow(sock, "?", 1, 1));
	close(sock);
	ops->close(p.c);
	end();
}
