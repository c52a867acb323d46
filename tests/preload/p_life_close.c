/* SPDX-License-Identifier: BSD-3-Clause */
/* close, close_range, closefrom, dup and what libc closes unseen: the numbers are the kernel's. */

#include <dirent.h>
#include <linux/close_range.h>
#include <sys/epoll.h>

#include "tests/preload/rpc.h"

static unsigned char buf[4096];

static void closing_what_is_not_open_is_ebadf(void)
{
	int s[2];

	CHECK_ERR(close(-1), EBADF);
	CHECK_ERR(close(999), EBADF);
	rpc_pair(s);
	CHECK_EQ(close(s[0]), 0);
	CHECK_ERR(close(s[0]), EBADF);
	CHECK_ERR(read(s[0], buf, 1), EBADF);
}

/* select() users abort above 1023: numbers stay the lowest. */
static void numbers_are_the_lowest_free_ones(void)
{
	int s[2], low;

	closefrom(3);	// what we have inherited may leave gaps
	low = dup(0);
	close(low);
	rpc_pair(s);
	CHECK(s[0] <= low + 1 && s[1] <= low + 2);
	for (int i = 0; i < 20; i++) {
		int again[2];

		rpc_pair(again);
		CHECK(again[0] < low + 8 && again[1] < low + 8);
		close(again[0]);
		close(again[1]);
	}
	close(s[0]);
	close(s[1]);
	CHECK_EQ(dup(0), low);
}

/* What ypserv does in each child. */
static void a_loop_that_closes_every_number_spares_what_is_kept(void)
{
	int s[2];

	rpc_pair(s);
	for (int i = 3; i < 20000; i++)
		if (i != s[0] && i != s[1])
			close(i);
	p_write_all(s[0], buf, rpc_call(buf, 3, 400));
	CHECK_EQ(rpc_read(s[1], buf, sizeof(buf)), RPC_CALL_HEAD + 400);
	p_write_all(s[1], buf, rpc_reply(buf, 3, 400));
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD + 400);
}

static void close_range_closes_ours_like_others(void)
{
	int s[2], hi;

	rpc_pair(s);
	CHECK_EQ(dup2(s[0], 500), 500);
	CHECK_EQ(dup2(s[1], 501), 501);
	hi = dup2(0, 502);
	CHECK_EQ(close_range(3, 499, 0), 0);
	CHECK_ERR(read(s[0], buf, 1), EBADF);
	p_write_all(500, buf, rpc_call(buf, 3, 0));
	CHECK_EQ(rpc_read(501, buf, sizeof(buf)), RPC_CALL_HEAD);
	CHECK_EQ(close_range(500, 500, 0), 0);
	CHECK_EQ(read(501, buf, sizeof(buf)), 0);
	CHECK_EQ(close_range(501, ~0U, 0), 0);
	CHECK_ERR(fcntl(hi, F_GETFD), EBADF);
	CHECK_ERR(close_range(5, 4, 0), EINVAL);
	CHECK_ERR(close_range(3, 4, 0x4000), EINVAL);
}

static void close_range_cloexec_only_marks(void)
{
	int s[2];

	rpc_pair(s);
	if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0) {
		CHECK_EQ(errno, EINVAL);	/* an old kernel */
		return;
	}
	CHECK_EQ(fcntl(s[0], F_GETFD), FD_CLOEXEC);
	p_write_all(s[0], buf, rpc_call(buf, 2, 0));
	rpc_serve_null(s[1]);
}

static void closefrom_closes_all(void)
{
	int s[2];

	rpc_pair(s);
	closefrom(3);
	CHECK_ERR(fcntl(s[0], F_GETFD), EBADF);
	CHECK_ERR(fcntl(s[1], F_GETFD), EBADF);
	closefrom(-5);
	CHECK_ERR(fcntl(0, F_GETFD), EBADF);
}

/* --- libc closes unseen --- */

/* So that the number of s[0] is the lowest free one once it is closed. */
static void fill_below(int fd)
{
	int d;

	while ((d = dup(0)) < fd)
		;
	close(d);
}

static void a_number_reused_after_fclose_is_another_file(void)
{
	char name[] = "/tmp/p_life_close.XXXXXX";
	int s[2], f;
	FILE *fp;

	rpc_pair(s);
	fp = fdopen(s[0], "r+");
	CHECK(fp);
	fill_below(s[0]);
	CHECK_EQ(fclose(fp), 0);
	f = mkstemp(name);
	unlink(name);
	CHECK_EQ(f, s[0]);
	CHECK_EQ(write(f, "plain file", 10), 10);
	CHECK_EQ(lseek(f, 0, SEEK_SET), 0);
	CHECK_EQ(read(f, buf, sizeof(buf)), 10);
	CHECK_EQ(memcmp(buf, "plain file", 10), 0);
	CHECK_EQ(close(f), 0);
}

static void a_number_reused_after_fclose_can_be_a_socket(void)
{
	int s[2], t[2];
	FILE *fp;

	rpc_pair(s);
	fp = fdopen(s[0], "w");
	CHECK(fp);
	fill_below(s[0]);
	CHECK_EQ(fclose(fp), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, t), 0);
	CHECK_EQ(t[0], s[0]);
	CHECK_EQ(write(t[0], "abc", 3), 3);
	CHECK_EQ(read(t[1], buf, sizeof(buf)), 3);
	CHECK_EQ(read(s[1], buf, sizeof(buf)), 0);
}

/* --- dup --- */

static void talk(int from, int to, uint32_t xid)
{
	size_t n = rpc_call(buf, xid, 64);

	p_write_all(from, buf, n);
	CHECK_EQ(rpc_read(to, buf, sizeof(buf)), n);
	CHECK_EQ(rpc_get(buf, 1), xid);
}

static void every_dup_is_the_same_connection(void)
{
	int s[2], d[6];

	rpc_pair(s);
	d[0] = dup(s[0]);
	d[1] = dup2(s[0], 100);
	d[2] = dup3(s[0], 101, O_CLOEXEC);
	d[3] = fcntl(s[0], F_DUPFD, 200);
	d[4] = fcntl(s[0], F_DUPFD_CLOEXEC, 200);
	d[5] = dup2(s[0], s[0]);
	CHECK_EQ(d[1], 100);
	CHECK_EQ(d[2], 101);
	CHECK_EQ(d[3], 200);
	CHECK_EQ(d[4], 201);
	CHECK_EQ(d[5], s[0]);
	CHECK_EQ(fcntl(d[1], F_GETFD), 0);
	CHECK_EQ(fcntl(d[2], F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl(d[4], F_GETFD), FD_CLOEXEC);
	for (int i = 0; i < 6; i++)
		talk(d[i], s[1], 10 + (uint32_t)i);
	CHECK_EQ(close(s[0]), 0);
	for (int i = 0; i < 5; i++) {
		talk(d[i], s[1], 20 + (uint32_t)i);
		CHECK_EQ(close(d[i]), 0);
	}
	CHECK_EQ(read(s[1], buf, sizeof(buf)), 0);
}

static void dup2_onto_a_connection_closes_it(void)
{
	int s[2];

	rpc_pair(s);
	CHECK_EQ(dup2(0, s[0]), s[0]);
	CHECK_EQ(read(s[1], buf, sizeof(buf)), 0);
}

static void a_dup2_that_fails_closes_nothing(void)
{
	int s[2];

	rpc_pair(s);
	CHECK_ERR(dup2(999, s[0]), EBADF);
	CHECK_ERR(dup3(s[0], s[0], 0), EINVAL);
	CHECK_ERR(dup3(0, s[0], 0x1), EINVAL);
	CHECK_ERR(dup2(s[0], -1), EBADF);
	talk(s[0], s[1], 5);
}

/* inetd's children: the connection becomes 0, 1 and 2. */
static void a_connection_moves_to_low_numbers(void)
{
	int s[2];

	rpc_pair(s);
	CHECK_EQ(dup2(s[1], 0), 0);
	CHECK_EQ(dup2(s[1], 1), 1);
	CHECK_EQ(close(s[1]), 0);
	p_write_all(s[0], buf, rpc_call(buf, 3, 0));
	CHECK_EQ(rpc_read(0, buf, sizeof(buf)), RPC_CALL_HEAD);
	p_write_all(1, buf, rpc_reply(buf, 3, 0));
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
}

/* --- threads --- */

static int shared_fd;

static void *user(void *arg P_UNUSED)
{
	unsigned char mine[64];

	for (int i = 0; i < 3000; i++) {
		recv(shared_fd, mine, sizeof(mine), MSG_DONTWAIT);
		send(shared_fd, mine, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	return NULL;
}

static void closing_while_other_threads_use_the_number(void)
{
	pthread_t t[3];
	int s[2];

	rpc_pair(s);
	shared_fd = s[0];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, user, NULL);
	for (int i = 0; i < 40; i++) {
		close(s[0]);
		close(s[1]);
		p_pair(s);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

/* Numbers that are open although this program has not opened them. */
static int foreign(int s[2], int found[], int max)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int n = 0;

	while (n < max && (e = readdir(d))) {
		int fd = atoi(e->d_name);

		if (fd > 2 && fd != 600 && fd != s[0] && fd != s[1] && fd != dirfd(d))
			found[n++] = fd;
	}
	closedir(d);
	return n;
}

static void dup2_onto_any_number_succeeds(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int s[2], fd[64], n, ep = epoll_create1(0);

	rpc_pair(s);
	/* Above the connection's and the app's: what is found is not the app's own. */
	CHECK_EQ(dup2(ep, 600), 600);
	close(ep);
	ep = 600;
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, s[0], &ev), 0);
	CHECK_EQ(epoll_wait(ep, &ev, 1, 1), 0);
	n = foreign(s, fd, 64);
	CHECK(n > 0 || !p_leg("carried"));
	for (int i = 0; i < n; i++) {
		CHECK_EQ(dup2(0, fd[i]), fd[i]);
		CHECK_EQ(close(fd[i]), 0);
		CHECK_ERR(close(fd[i]), EBADF);
	}
	for (uint32_t i = 3; i < 9; i++)
		rpc_check_leg(s, i);
	CHECK_EQ(epoll_wait(ep, &ev, 1, 1), 0);
	CHECK_EQ(close(s[1]), 0);
	CHECK_EQ(epoll_wait(ep, &ev, 1, P_SOON), 1);
	CHECK(p_readable(s[0], P_SOON));
	CHECK_EQ(read(s[0], fd, 1), 0);
	close(ep);
}

/* A stream writes without anybody's seeing it: what is written to the number later must not look
 * like the beginning. */
static void a_stream_and_its_number_are_one_connection(void)
{
	FILE *f;
	int s[2];

	p_pair(s);
	f = fdopen(s[0], "r+");
	CHECK(f != NULL);
	for (uint32_t i = 1; i < 5; i++) {
		size_t n = rpc_call(buf, i, 0);

		if (i & 1) {
			CHECK_EQ(fwrite(buf, 1, n, f), n);
			CHECK_EQ(fflush(f), 0);
		} else {
			p_write_all(s[0], buf, n);
		}
		CHECK_EQ(rpc_read(s[1], buf, sizeof(buf)), n);
		CHECK_EQ(rpc_get(buf, 1), i);
		p_write_all(s[1], buf, rpc_reply(buf, i, 0));
		CHECK_EQ(fread(buf, 1, RPC_REPLY_HEAD, f), RPC_REPLY_HEAD);
	}
	CHECK_EQ(fclose(f), 0);
	CHECK_EQ(read(s[1], buf, 1), 0);
}

static const struct p_case cases[] = {
	{ "closing_what_is_not_open_is_ebadf", closing_what_is_not_open_is_ebadf },
	{ "numbers_are_the_lowest_free_ones", numbers_are_the_lowest_free_ones },
	{ "a_loop_that_closes_every_number_spares_what_is_kept",
	  a_loop_that_closes_every_number_spares_what_is_kept },
	{ "close_range_closes_ours_like_others", close_range_closes_ours_like_others },
	{ "close_range_cloexec_only_marks", close_range_cloexec_only_marks },
	{ "closefrom_closes_all", closefrom_closes_all },
	{ "a_number_reused_after_fclose_is_another_file",
	  a_number_reused_after_fclose_is_another_file },
	{ "a_number_reused_after_fclose_can_be_a_socket",
	  a_number_reused_after_fclose_can_be_a_socket },
	{ "a_stream_and_its_number_are_one_connection",
	  a_stream_and_its_number_are_one_connection },
	{ "every_dup_is_the_same_connection", every_dup_is_the_same_connection },
	{ "dup2_onto_a_connection_closes_it", dup2_onto_a_connection_closes_it },
	{ "dup2_onto_any_number_succeeds", dup2_onto_any_number_succeeds },
	{ "a_dup2_that_fails_closes_nothing", a_dup2_that_fails_closes_nothing },
	{ "a_connection_moves_to_low_numbers", a_connection_moves_to_low_numbers },
	{ "closing_while_other_threads_use_the_number", closing_while_other_threads_use_the_number },
};

P_MAIN(cases)
