/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections end: half close, EOF, EPIPE and SIGPIPE, reset. */

#include "tests/preload/rpc.h"

static unsigned char rec[65536], got[65536];

static volatile sig_atomic_t pipes;

static void on_pipe(int sig P_UNUSED)
{
	pipes++;
}

static void half_close_leaves_the_other_direction(void)
{
	size_t n = rpc_call(rec, 5, 100);
	int s[2];

	rpc_pair(s);
	p_write_all(s[0], rec, n);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	p_read_all(s[1], got, n);
	CHECK_EQ(memcmp(rec, got, n), 0);
	CHECK_EQ(read(s[1], got, 10), 0);
	n = rpc_reply(rec, 5, 300);
	p_write_all(s[1], rec, n);
	p_read_all(s[0], got, n);
	CHECK_EQ(memcmp(rec, got, n), 0);
	CHECK_EQ(close(s[1]), 0);
	CHECK_EQ(read(s[0], got, 10), 0);
}

static void what_was_written_before_close_arrives_before_eof(void)
{
	size_t n = rpc_call(rec, 5, 60000);
	int s[2];

	rpc_pair(s);
	p_write_all(s[0], rec, n);
	CHECK_EQ(close(s[0]), 0);
	p_read_all(s[1], got, n);
	CHECK_EQ(memcmp(rec, got, n), 0);
	CHECK_EQ(read(s[1], got, 10), 0);
	CHECK_EQ(read(s[1], got, 10), 0);
}

static void writing_after_shut_wr_is_epipe_and_sigpipe(void)
{
	size_t n = rpc_call(rec, 5, 0);
	struct iovec v = { rec, n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int s[2];

	rpc_pair(s);
	signal(SIGPIPE, on_pipe);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_ERR(write(s[0], rec, n), EPIPE);
	CHECK_EQ(pipes, 1);
	CHECK_ERR(writev(s[0], &v, 1), EPIPE);
	CHECK_EQ(pipes, 2);
	CHECK_ERR(send(s[0], rec, n, 0), EPIPE);
	CHECK_EQ(pipes, 3);
	CHECK_ERR(send(s[0], rec, n, MSG_NOSIGNAL), EPIPE);
	CHECK_ERR(sendmsg(s[0], &m, MSG_NOSIGNAL), EPIPE);
	CHECK_EQ(pipes, 3);
}

static void sigpipe_kills_by_default(void)
{
	size_t n = rpc_call(rec, 5, 0);
	int s[2], status;
	pid_t pid = fork();

	if (!pid) {
		rpc_pair(s);
		signal(SIGPIPE, SIG_DFL);
		shutdown(s[0], SHUT_WR);
		CHECK(write(s[0], rec, n) == 0);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGPIPE);
}

static void writing_to_a_closed_peer_fails_in_the_end(void)
{
	size_t n = rpc_call(rec, 5, 0);
	ssize_t r = 0;
	int s[2];

	rpc_pair(s);
	signal(SIGPIPE, on_pipe);
	CHECK_EQ(close(s[1]), 0);
	for (int i = 0; i < P_SOON && r >= 0; i++) {
		r = write(s[0], rec, n);
		usleep(1000);
	}
	CHECK_EQ(r, -1);
	CHECK(errno == EPIPE || errno == ECONNRESET);
}

static void linger_zero_resets(void)
{
	struct linger l = { 1, 0 };
	int s[2];

	rpc_pair(s);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(s[0]), 0);
	CHECK_ERR(read(s[1], got, 10), ECONNRESET);
	CHECK_EQ(read(s[1], got, 10), 0);
}

/* With nothing said before it: whoever looked first has not taken it away. */
static void a_reset_is_all_that_ever_comes(void)
{
	struct linger l = { 1, 0 };
	int s[2];

	p_pair(s);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(s[0]), 0);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_ERR(read(s[1], got, 10), ECONNRESET);
	CHECK_EQ(read(s[1], got, 10), 0);
	rpc_pair(s);	/* this one is carried */
}

static void closing_with_unread_bytes_resets(void)
{
	size_t n = rpc_call(rec, 5, 100);
	int s[2];

	rpc_pair(s);
	p_write_all(s[0], rec, n);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(close(s[1]), 0);
	CHECK_ERR(read(s[0], got, 10), ECONNRESET);
}

static void so_error_of_a_reset_is_told_once(void)
{
	struct linger l = { 1, 0 };
	socklen_t len = sizeof(int);
	int s[2], err = -1;

	rpc_pair(s);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(s[0]), 0);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(getsockopt(s[1], SOL_SOCKET, SO_ERROR, &err, &len), 0);
	CHECK_EQ(err, ECONNRESET);
	CHECK_EQ(getsockopt(s[1], SOL_SOCKET, SO_ERROR, &err, &len), 0);
	CHECK_EQ(err, 0);
}

static void *blocked_reader(void *arg)
{
	unsigned char buf[16];

	return (void *)read(*(int *)arg, buf, sizeof(buf));
}

static void shutdown_wakes_a_blocked_reader(void)
{
	pthread_t t;
	void *r = (void *)77;
	int s[2];

	rpc_pair(s);
	pthread_create(&t, NULL, blocked_reader, &s[1]);
	usleep(50000);
	CHECK_EQ(shutdown(s[1], SHUT_RDWR), 0);
	CHECK_EQ(pthread_join(t, &r), 0);
	CHECK_EQ((intptr_t)r, 0);
}

static void a_blocked_reader_can_be_cancelled(void)
{
	pthread_t t;
	void *r;
	int s[2];

	rpc_pair(s);
	pthread_create(&t, NULL, blocked_reader, &s[1]);
	usleep(50000);
	CHECK_EQ(pthread_cancel(t), 0);
	CHECK_EQ(pthread_join(t, &r), 0);
	CHECK(r == PTHREAD_CANCELED);
	rpc_call(rec, 5, 0);
	p_write_all(s[0], rec, RPC_CALL_HEAD);
	p_read_all(s[1], got, RPC_CALL_HEAD);
	CHECK_EQ(close(s[1]), 0);
	CHECK_EQ(read(s[0], got, 10), 0);
}

static void reset(int fd)
{
	struct linger l = { 1, 0 };

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(fd), 0);
}

/* Until all of bits show, asked for as want. */
static short shows(int fd, short want, short bits)
{
	struct pollfd p = { fd, want, 0 };

	for (int i = 0; i < P_SOON && (p.revents & bits) != bits; i++) {
		CHECK(poll(&p, 1, 1) >= 0);
		usleep(1000);
	}
	return p.revents & bits;
}

static size_t put_call(int fd)
{
	size_t n = rpc_call(rec, 5, 100);

	p_write_all(fd, rec, n);
	return n;
}

static void the_end_shows_before_the_bytes_are_read(void)
{
	struct pollfd p = { .events = POLLRDHUP };
	size_t n;
	int s[2];

	rpc_pair(s);
	n = put_call(s[0]);
	CHECK(p_readable(s[1], P_SOON));
	p.fd = s[1];
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(poll(&p, 1, P_SOON), 1);
	CHECK_EQ(p.revents, POLLRDHUP);
	p_read_all(s[1], got, n);
	CHECK_EQ(read(s[1], got, 1), 0);
}

static void the_end_shows_beside_room_to_write(void)
{
	int s[2];

	rpc_pair(s);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(shows(s[1], POLLIN | POLLOUT, POLLIN | POLLOUT), POLLIN | POLLOUT);
}

static void a_reset_shows_before_the_bytes_are_read(void)
{
	const short all = POLLIN | POLLRDHUP | POLLERR | POLLHUP;
	size_t n;
	int s[2];

	rpc_pair(s);
	n = put_call(s[0]);
	CHECK(p_readable(s[1], P_SOON));
	reset(s[0]);
	CHECK_EQ(shows(s[1], POLLIN | POLLRDHUP, all), all);
	p_read_all(s[1], got, n);
	CHECK_ERR(read(s[1], got, 1), ECONNRESET);
}

static void bytes_before_a_reset_do_not_hide_it(void)
{
	size_t n;
	int s[2];

	for (int flags = MSG_WAITALL; flags >= 0; flags -= MSG_WAITALL) {
		rpc_pair(s);
		n = put_call(s[0]);
		CHECK(p_readable(s[1], P_SOON));
		reset(s[0]);
		CHECK_EQ(shows(s[1], 0, POLLERR), POLLERR);
		CHECK_EQ(recv(s[1], got, n + 1, flags), n);
		CHECK_ERR(recv(s[1], got, 1, flags), ECONNRESET);
		CHECK_EQ(recv(s[1], got, 1, flags), 0);
	}
}

static void recvmmsg_tells_of_a_reset_first(void)
{
	struct iovec v = { got, sizeof(got) };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	int s[2];

	rpc_pair(s);
	put_call(s[0]);
	CHECK(p_readable(s[1], P_SOON));
	reset(s[0]);
	CHECK_EQ(shows(s[1], 0, POLLERR), POLLERR);
	CHECK_ERR(recvmmsg(s[1], &m, 1, 0, NULL), ECONNRESET);
	CHECK_EQ(recvmmsg(s[1], &m, 1, 0, NULL), 1);
	CHECK_EQ(m.msg_len, RPC_CALL_HEAD + 100);
}

static void a_reset_behind_the_end_is_for_who_writes(void)
{
	int s[2];

	rpc_pair(s);
	put_call(s[0]);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
	CHECK_EQ(shows(s[0], POLLRDHUP, POLLRDHUP), POLLRDHUP);
	CHECK_EQ(close(s[1]), 0);	/* with what it has not read */
	CHECK_EQ(shows(s[0], 0, POLLERR | POLLHUP), POLLERR | POLLHUP);
	CHECK_EQ(read(s[0], got, 1), 0);
	CHECK_ERR(send(s[0], rec, rpc_call(rec, 6, 0), MSG_NOSIGNAL), EPIPE);
}

static void closing_with_unread_bytes_resets_after_shut_rd_as_well(void)
{
	int s[2];

	rpc_pair(s);
	put_call(s[0]);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(shutdown(s[1], SHUT_RD), 0);
	CHECK_EQ(close(s[1]), 0);
	CHECK_ERR(read(s[0], got, 10), ECONNRESET);
}

static void what_the_peer_closed_can_be_shut(void)
{
	socklen_t len = sizeof(int);
	int s[2], err = -1;

	for (int how = SHUT_WR; how <= SHUT_RDWR; how++) {
		rpc_pair(s);
		CHECK_EQ(close(s[1]), 0);
		CHECK_EQ(read(s[0], got, 1), 0);
		CHECK_EQ(shutdown(s[0], how), 0);
		CHECK_EQ(getsockopt(s[0], SOL_SOCKET, SO_ERROR, &err, &len), 0);
		CHECK_EQ(err, 0);
		CHECK_EQ(read(s[0], got, 1), 0);
		CHECK_EQ(close(s[0]), 0);
	}
}

static void so_error_is_not_taken_by_a_call_that_fails(void)
{
	socklen_t len = (socklen_t)-1;
	int s[2], err = -1;

	rpc_pair(s);
	reset(s[0]);
	CHECK_EQ(shows(s[1], 0, POLLERR), POLLERR);
	CHECK_ERR(getsockopt(s[1], SOL_SOCKET, SO_ERROR, &err, &len), EINVAL);
	CHECK_ERR(read(s[1], got, 1), ECONNRESET);
}

static const struct p_case cases[] = {
	{ "the_end_shows_before_the_bytes_are_read", the_end_shows_before_the_bytes_are_read },
	{ "the_end_shows_beside_room_to_write", the_end_shows_beside_room_to_write },
	{ "a_reset_shows_before_the_bytes_are_read", a_reset_shows_before_the_bytes_are_read },
	{ "bytes_before_a_reset_do_not_hide_it", bytes_before_a_reset_do_not_hide_it },
	{ "recvmmsg_tells_of_a_reset_first", recvmmsg_tells_of_a_reset_first },
	{ "a_reset_behind_the_end_is_for_who_writes", a_reset_behind_the_end_is_for_who_writes },
	{ "closing_with_unread_bytes_resets_after_shut_rd_as_well",
	  closing_with_unread_bytes_resets_after_shut_rd_as_well },
	{ "what_the_peer_closed_can_be_shut", what_the_peer_closed_can_be_shut },
	{ "so_error_is_not_taken_by_a_call_that_fails", so_error_is_not_taken_by_a_call_that_fails },
	{ "half_close_leaves_the_other_direction", half_close_leaves_the_other_direction },
	{ "what_was_written_before_close_arrives_before_eof",
	  what_was_written_before_close_arrives_before_eof },
	{ "writing_after_shut_wr_is_epipe_and_sigpipe", writing_after_shut_wr_is_epipe_and_sigpipe },
	{ "sigpipe_kills_by_default", sigpipe_kills_by_default },
	{ "writing_to_a_closed_peer_fails_in_the_end", writing_to_a_closed_peer_fails_in_the_end },
	{ "linger_zero_resets", linger_zero_resets },
	{ "a_reset_is_all_that_ever_comes", a_reset_is_all_that_ever_comes },
	{ "closing_with_unread_bytes_resets", closing_with_unread_bytes_resets },
	{ "so_error_of_a_reset_is_told_once", so_error_of_a_reset_is_told_once },
	{ "shutdown_wakes_a_blocked_reader", shutdown_wakes_a_blocked_reader },
	{ "a_blocked_reader_can_be_cancelled", a_blocked_reader_can_be_cancelled },
};

P_MAIN(cases)
