/* SPDX-License-Identifier: BSD-3-Clause */
/* What calls a program makes while an upgrade is under way, and where it comes to nothing: as if there were none. In the leg that
 * crosses the first call brings the offer along; in the others these are calls like any. */

#include <sys/syscall.h>

#include "tests/preload/rpc.h"

static unsigned char buf[1 << 16];

static void serve(int fd)
{
	rpc_serve_null(fd);
}

static void call(int s[2], uint32_t xid)
{
	p_write_all(s[0], buf, rpc_call(buf, xid, 0));
	serve(s[1]);
}

static void finish_calls(int s[2])
{
	for (uint32_t i = 50; i < 54; i++) {
		call(s, i);
		CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		CHECK_EQ(rpc_get(buf, 1), i);
	}
}

static void finish(int s[2])
{
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	finish_calls(s);
}

/* The first reply is there, and behind it a refusal: the server's bytes have gone by where nobody of ours saw them. */
static void refused(int s[2])
{
	unsigned char own[256];

	p_pair(s);
	p_write_all(s[0], own, rpc_call(own, 1, 0));
	CHECK_EQ(rpc_read(s[1], own, sizeof(own)), RPC_CALL_HEAD);
	CHECK_EQ(syscall(SYS_write, s[1], own, rpc_reply(own, 77, 0)), RPC_REPLY_HEAD);	/* of a call before */
	CHECK(p_readable(s[0], P_SOON));
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	CHECK_EQ(rpc_get(buf, 1), 77);
	p_write_all(s[1], own, rpc_reply(own, 1, 0));
}

static void wait_for_it(int fd)
{
	unsigned char one;

	while (recv(fd, &one, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
		usleep(1000);
}

static void a_refusal_is_no_byte_of_the_apps(void)
{
	int s[2], n = -1;

	refused(s);
	wait_for_it(s[0]);
	CHECK_EQ(ioctl(s[0], FIONREAD, &n), 0);
	CHECK_EQ(n, RPC_REPLY_HEAD);
	finish(s);
}

static void a_refusal_is_found_by_fionread(void)
{
	int s[2], n = -1;

	refused(s);
	for (int i = 0; i < 2000 && n != RPC_REPLY_HEAD; i++) {
		CHECK_EQ(ioctl(s[0], FIONREAD, &n), 0);
		usleep(1000);
	}
	CHECK_EQ(n, RPC_REPLY_HEAD);
	finish(s);
}

static void a_refusal_is_found_by_poll(void)
{
	int s[2];

	refused(s);
	CHECK(p_readable(s[0], P_SOON));
	finish(s);
}

static void what_is_thrown_away_goes_beyond_a_refusal(void)
{
	int s[2];

	refused(s);
	wait_for_it(s[0]);
	CHECK_EQ(recv(s[0], buf, sizeof(buf), MSG_TRUNC), RPC_REPLY_HEAD);
	call(s, 5);
	finish(s);
}

/* Within the mark of a record, and ours behind the record. */
static void fionread_within_a_mark(void)
{
	int s[2], n = -1;

	p_pair(s);
	for (uint32_t i = 0; i < 3; i++)	/* pipelined: in the leg that crosses one of them has the offer before it */
		p_write_all(s[0], buf, rpc_call(buf, i, 100));
	p_read_all(s[1], buf, 2);
	for (int i = 0; i < 2000 && n != 3 * (RPC_CALL_HEAD + 100) - 2; i++) {
		CHECK_EQ(ioctl(s[1], FIONREAD, &n), 0);
		usleep(1000);
	}
	CHECK_EQ(n, 3 * (RPC_CALL_HEAD + 100) - 2);
	p_read_all(s[1], buf, (size_t)n);
	CHECK(!p_readable(s[1], 20));
}

/* Nothing is said to who has ended, and nothing beside a write of no bytes. */
static void a_write_of_nothing_says_nothing(void)
{
	int s[2];

	p_pair(s);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_EQ(send(s[0], buf, 0, 0), 0);
		call(s, i);
		CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	}
	CHECK_EQ(shutdown(s[1], SHUT_RDWR), 0);
	CHECK_EQ(send(s[0], buf, 0, 0), 0);
	CHECK_EQ(read(s[0], buf, 1), 0);
}

/* The client has crossed, and the server has not looked since: what it leaves unread is a reset all the same. */
static void who_has_not_noticed_resets_as_well(void)
{
	int s[2];

	p_pair(s);
	call(s, 1);
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	call(s, 2);
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	p_write_all(s[0], buf, rpc_call(buf, 3, 0));
	usleep(20000);
	CHECK_EQ(close(s[1]), 0);
	CHECK(p_readable(s[0], P_SOON));
	CHECK_ERR(read(s[0], buf, 1), ECONNRESET);
	CHECK_ERR(send(s[0], buf, rpc_call(buf, 4, 0), MSG_NOSIGNAL), EPIPE);
}

static void reset(int fd)
{
	struct linger now = { 1, 0 };

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	CHECK_EQ(close(fd), 0);
}

/* The peer of fd has reset the connection behind n bytes. A reader with flags has them, and the next one is told of the
 * reset. */
static void a_reset_is_told_behind(size_t n, int fd, int flags)
{
	while (poll(&(struct pollfd){ fd, 0, 0 }, 1, -1) != 1)
		;
	CHECK_EQ(recv(fd, buf, sizeof(buf), flags), n);
	CHECK_ERR(recv(fd, buf, sizeof(buf), 0), ECONNRESET);
	CHECK_EQ(recv(fd, buf, sizeof(buf), 0), 0);
	CHECK_EQ(close(fd), 0);
}

/* Two calls, of which one has an offer before it. */
static void two_calls(int s[2])
{
	p_pair(s);
	for (uint32_t i = 1; i <= 2; i++)
		p_write_all(s[0], buf, rpc_call(buf, i, 0));
}

static void a_server_is_told_of_a_reset(int flags, bool looks)
{
	int s[2];

	two_calls(s);
	CHECK(!looks || p_readable(s[1], P_SOON));
	reset(s[0]);
	a_reset_is_told_behind(2 * RPC_CALL_HEAD, s[1], flags);
}

static void a_client_is_told_of_a_reset(int flags, bool looks)
{
	int s[2];

	two_calls(s);
	serve(s[1]);
	serve(s[1]);
	CHECK(!looks || p_readable(s[0], P_SOON));
	reset(s[1]);
	a_reset_is_told_behind(2 * RPC_REPLY_HEAD, s[0], flags);
}

static void a_reset_behind_bytes_is_the_next_calls(void)
{
	static const int flags[] = { 0, MSG_DONTWAIT, MSG_WAITALL, MSG_WAITALL | MSG_DONTWAIT, MSG_TRUNC,
				     MSG_TRUNC | MSG_WAITALL };

	for (size_t i = 0; i < 2 * sizeof(flags) / sizeof(flags[0]); i++) {
		a_server_is_told_of_a_reset(flags[i / 2], i % 2);
		a_client_is_told_of_a_reset(flags[i / 2], i % 2);
	}
}

/* The first call has been answered, and in the leg that crosses the client sends the next by RDMA. */
static void answered_pair(int s[2])
{
	p_pair(s);
	call(s, 1);
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
}

static void client_crosses(int s[2])
{
	p_write_all(s[0], buf, rpc_call(buf, 7, 0));
	CHECK_EQ(rpc_read(s[1], buf, sizeof(buf)), RPC_CALL_HEAD);
}

static int all_bits(int fd)
{
	struct pollfd p = { fd, POLLIN | POLLOUT | POLLRDHUP, 0 };

	return poll(&p, 1, 0) == 1 ? p.revents : 0;
}

static void has_heard_of_the_end(int fd)
{
	while (!(all_bits(fd) & POLLHUP))
		usleep(1000);
	usleep(20000);	/* and of what comes of it */
}

/* Ours is bytes, which reset a socket that takes none in any more. */
static void a_peers_end_mark_resets_nobody(void)
{
	int s[2], ended = POLLIN | POLLOUT | POLLRDHUP | POLLHUP;

	p_pair(s);
	p_write_all(s[0], buf, rpc_call(buf, 1, 0));
	p_write_all(s[0], buf, rpc_call(buf, 2, 0));
	serve(s[1]);
	serve(s[1]);
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);	/* and one is left there */
	client_crosses(s);
	p_write_all(s[1], buf, rpc_reply(buf, 7, 0));
	CHECK_EQ(shutdown(s[0], SHUT_RDWR), 0);
	CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
	has_heard_of_the_end(s[0]);
	CHECK_EQ(all_bits(s[0]), ended);
	CHECK_ERR(send(s[0], buf, 4, MSG_NOSIGNAL), EPIPE);
	CHECK_EQ(all_bits(s[0]), ended);
}

static void a_writer_that_has_ended_hears_of_no_reset(void)
{
	int s[2];

	answered_pair(s);
	client_crosses(s);
	CHECK_EQ(shutdown(s[1], SHUT_RDWR), 0);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	usleep(20000);
	CHECK_ERR(send(s[1], buf, 4, MSG_NOSIGNAL), EPIPE);
}

static void who_closes_without_a_look_at_the_end_resets_nobody(void)
{
	int s[2];

	answered_pair(s);
	client_crosses(s);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(close(s[1]), 0);
	has_heard_of_the_end(s[0]);
	CHECK_EQ(all_bits(s[0]), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
	CHECK_EQ(read(s[0], buf, 4), 0);
}

static bool is_open(int n)
{
	return syscall(SYS_fcntl, n, F_GETFD) >= 0;	/* the library's, too */
}

/* The upgrade fails in the middle of a call: the client's part of it goes, whose numbers its app takes. */
static void messages_go_on_by_tcp(void)
{
	unsigned char reply[RPC_REPLY_HEAD];
	struct iovec v[2] = { { reply, 20 }, { reply + 20, RPC_REPLY_HEAD - 20 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } } };
	bool was_open[1200], is_new[1200];
	int s[2];

	p_pair(s);
	for (int n = 0; n < 1200; n++)
		was_open[n] = is_open(n);
	p_write_all(s[0], buf, rpc_call(buf, 1, 0));
	for (int n = 0; n < 1200; n++)
		is_new[n] = !was_open[n] && is_open(n);
	CHECK_EQ(rpc_read(s[1], buf, sizeof(buf)), RPC_CALL_HEAD);
	for (int n = 0; n < 1200; n++)
		if (is_new[n])
			CHECK_EQ(dup2(0, n), n);
	CHECK_EQ(rpc_reply(reply, 1, 0), RPC_REPLY_HEAD);
	CHECK_EQ(sendmmsg(s[1], m, 2, 0), 2);
	CHECK_EQ(m[0].msg_len, 20);
	CHECK_EQ(m[1].msg_len, RPC_REPLY_HEAD - 20);
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	CHECK_EQ(memcmp(buf, reply, RPC_REPLY_HEAD), 0);
	finish_calls(s);
}

/* Of who waits for a writable socket: a write that TCP takes is taken, however the program waits. */
static void a_writable_socket_takes_the_first_call(void)
{
	int s[2];

	for (int i = 0; i < 20; i++) {
		struct pollfd p;
		fd_set w;
		ssize_t r;

		p_pair(s);
		p_nonblock(s[0], true);
		FD_ZERO(&w);
		FD_SET(s[0], &w);
		p = (struct pollfd){ s[0], POLLOUT, 0 };
		if (i & 1)
			CHECK_EQ(select(s[0] + 1, NULL, &w, NULL, NULL), 1);
		else
			CHECK_EQ(poll(&p, 1, -1), 1);
		for (uint32_t k = 0; k < 4; k++) {	/* and those behind it, of which none is answered yet */
			size_t n = rpc_call(buf, k, 40);
			struct iovec v[2] = { { buf, 4 }, { buf + 4, n - 4 } };

			r = k & 1 ? writev(s[0], v, 2) : send(s[0], buf, n, MSG_DONTWAIT);
			CHECK_EQ(r, n);
		}
		close(s[0]);
		close(s[1]);
	}
}

enum { REFUSED = 4 };	/* the first ones */

static const struct p_case cases[] = {
	{ "a_refusal_is_no_byte_of_the_apps", a_refusal_is_no_byte_of_the_apps },
	{ "a_refusal_is_found_by_fionread", a_refusal_is_found_by_fionread },
	{ "a_refusal_is_found_by_poll", a_refusal_is_found_by_poll },
	{ "what_is_thrown_away_goes_beyond_a_refusal", what_is_thrown_away_goes_beyond_a_refusal },
	{ "fionread_within_a_mark", fionread_within_a_mark },
	{ "a_write_of_nothing_says_nothing", a_write_of_nothing_says_nothing },
	{ "who_has_not_noticed_resets_as_well", who_has_not_noticed_resets_as_well },
	{ "a_reset_behind_bytes_is_the_next_calls", a_reset_behind_bytes_is_the_next_calls },
	{ "a_peers_end_mark_resets_nobody", a_peers_end_mark_resets_nobody },
	{ "a_writer_that_has_ended_hears_of_no_reset", a_writer_that_has_ended_hears_of_no_reset },
	{ "who_closes_without_a_look_at_the_end_resets_nobody",
	  who_closes_without_a_look_at_the_end_resets_nobody },
	{ "messages_go_on_by_tcp", messages_go_on_by_tcp },
	{ "a_writable_socket_takes_the_first_call", a_writable_socket_takes_the_first_call },
};

/* Behind bytes that it has not seen the server's library leaves an offer to its app. */
static bool comes_with_another_call(void)
{
	const char *after = getenv("RDMARPC_OFFER_AFTER");

	return p_leg("crossing") && after && strcmp(after, "1");
}

int main(int argc, char **argv)
{
	size_t n = sizeof(cases) / sizeof(cases[0]);
	int s[2];

	if (p_leg("carried")) {
		rpc_pair(s);	/* there the first call waits, for a server in the same thread */
		return 0;
	}
	if (comes_with_another_call())
		return p_run(cases + REFUSED, n - REFUSED);
	if (p_run(cases, n))
		return 1;
	if (p_leg("crossing") && argc) {	/* and with an offer that comes with the second call */
		CHECK_EQ(setenv("RDMARPC_OFFER_AFTER", "2", 1), 0);
		execv("/proc/self/exe", argv);
		return 1;
	}
	return 0;
}
