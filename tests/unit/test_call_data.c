/* SPDX-License-Identifier: BSD-3-Clause */
/* The data calls: how each becomes one for the connection, and what the app is told of the answer. */
#include "core/base/ownfd.h"
#include "tests/unit/noted.h"
#include "tests/unit/call_data.h"

TestSuite(call_data, .init = begin_data, .timeout = 60);

/* --- each by its name --- */

Test(call_data, each_way_to_receive)
{
	char buf[16], buf2[16];
	struct iovec iov[2] = { { buf, 4 }, { buf2, 6 } };
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	struct msghdr m = { .msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = iov, .msg_iovlen = 2,
			    .msg_control = buf, .msg_controllen = sizeof(buf), .msg_flags = 99 };

	SAYS(&rx, 10);
	assert_said(rr_wrap_read(at.fd, buf, 10), 10);
	assert_asked(&rx, 1, buf, 1, 10, 0);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK), 10);
	assert_asked(&rx, 1, buf, 1, 10, MSG_PEEK);
	assert_said(rr_wrap_recvfrom(at.fd, buf, 10, MSG_DONTWAIT, (struct sockaddr *)&name, &len), 10);
	assert_asked(&rx, 1, buf, 1, 10, MSG_DONTWAIT);
	cr_assert_eq(len, 0, "TCP names nobody");
	len = 5;
	assert_said(rr_wrap_recvfrom(at.fd, buf, 10, 0, NULL, &len), 10);
	cr_assert_eq(len, 5);
	assert_said(rr_wrap_recvfrom(at.fd, buf, 10, 0, (struct sockaddr *)&name, NULL), 10);
	rx.calls = 0;
	assert_said(rr_wrap_readv(at.fd, iov, 2), 10);
	assert_asked(&rx, 1, buf, 2, 10, 0);
	assert_said(rr_wrap_recvmsg(at.fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT), 10);
	assert_asked(&rx, 1, buf, 2, 10, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	cr_assert(!m.msg_namelen && !m.msg_controllen && m.msg_flags == MSG_CMSG_CLOEXEC);
	m.msg_name = NULL;
	m.msg_namelen = 7;
	assert_said(rr_wrap_recvmsg(at.fd, &m, 0), 10);
	cr_assert(m.msg_namelen == 7 && !m.msg_flags);
	cr_assert_eq(used_up_bits(), 0, "all was there");
}

Test(call_data, what_fails_names_nobody)
{
	char buf[4];
	struct sockaddr_storage name;
	socklen_t len = 5;
	struct iovec iov = { buf, 4 };
	struct msghdr m = { .msg_name = &name, .msg_namelen = 6, .msg_iov = &iov, .msg_iovlen = 1, .msg_controllen = 3,
			    .msg_flags = 99 };

	assert_said(rr_wrap_recvfrom(at.fd, buf, 4, 0, (struct sockaddr *)&name, &len), -EIO);
	cr_assert_eq(len, 5);
	assert_said(rr_wrap_recvmsg(at.fd, &m, 0), -EIO);
	cr_assert(m.msg_namelen == 6 && m.msg_controllen == 3 && m.msg_flags == 99);
	cr_assert_eq(used_up_bits(), 0, "an error is no end of what there is");
	/* The end of the stream names nobody either, and is a success. */
	SAYS(&rx, 0);
	assert_said(rr_wrap_recvfrom(at.fd, buf, 4, 0, (struct sockaddr *)&name, &len), 0);
	cr_assert_eq(len, 0);
	assert_said(rr_wrap_recvmsg(at.fd, &m, 0), 0);
	cr_assert(!m.msg_namelen && !m.msg_controllen && !m.msg_flags);
}

Test(call_data, each_way_to_send)
{
	struct iovec iov[2] = { { msg, 4 }, { msg + 4, 6 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

	SAYS(&tx, 10);
	assert_said(rr_wrap_write(at.fd, msg, 10), 10);
	assert_asked(&tx, 1, msg, 1, 10, 0);
	assert_said(rr_wrap_send(at.fd, msg, 10, MSG_MORE), 10);
	assert_asked(&tx, 1, msg, 1, 10, MSG_MORE);
	assert_said(rr_wrap_sendto(at.fd, msg, 10, MSG_NOSIGNAL, NULL, 0), 10);
	assert_asked(&tx, 1, msg, 1, 10, MSG_NOSIGNAL);
	assert_said(rr_wrap_writev(at.fd, iov, 2), 10);
	assert_asked(&tx, 1, msg, 2, 10, 0);
	assert_said(rr_wrap_sendmsg(at.fd, &m, MSG_DONTWAIT), 10);
	assert_asked(&tx, 1, msg, 2, 10, MSG_DONTWAIT);
	cr_assert_eq(used_up_bits(), 0);
}

Test(call_data, vectors_at_no_offset_are_plain_vectors)
{
	char buf[16];
	struct iovec in[2] = { { buf, 4 }, { buf + 4, 6 } }, out[2] = { { msg, 4 }, { msg + 4, 6 } };
	static const struct { int flags, become; } c[] = {
		{ 0, 0 }, { RWF_NOWAIT, MSG_DONTWAIT }, { RWF_HIPRI, 0 }, { RWF_DSYNC, 0 }, { RWF_SYNC, 0 }, { RWF_APPEND, 0 },
		{ RWF_NOWAIT | RWF_APPEND | RWF_SYNC, MSG_DONTWAIT },
	};

	SAYS(&rx, 10);
	SAYS(&tx, 10);
	for (size_t i = 0; i < rr_array_size(c); i++) {
		assert_said(rr_wrap_preadv2(at.fd, in, 2, -1, c[i].flags), 10);
		assert_asked(&rx, 1, buf, 2, 10, c[i].become);
		assert_said(rr_wrap_preadv64v2(at.fd, in, 2, -1, c[i].flags), 10);
		assert_asked(&rx, 1, buf, 2, 10, c[i].become);
		assert_said(rr_wrap_pwritev2(at.fd, out, 2, -1, c[i].flags), 10);
		assert_asked(&tx, 1, msg, 2, 10, c[i].become);
		assert_said(rr_wrap_pwritev64v2(at.fd, out, 2, -1, c[i].flags), 10);
		assert_asked(&tx, 1, msg, 2, 10, c[i].become);
	}
	/* Anywhere else, or with what nobody knows, the kernel refuses it. */
	for (off64_t off = -2; off <= 1; off++) {
		if (off == -1)
			continue;
		assert_said(rr_wrap_preadv2(at.fd, in, 2, off, 0), off < 0 ? -EINVAL : -ESPIPE);
		assert_said(rr_wrap_pwritev64v2(at.fd, out, 2, off, 0), off < 0 ? -EINVAL : -ESPIPE);
	}
	assert_said(rr_wrap_preadv64v2(at.fd, in, 2, -1, 1 << 30), -EOPNOTSUPP);
	assert_said(rr_wrap_pwritev2(at.fd, out, 2, -1, 1 << 30), -EOPNOTSUPP);
	SAYS(&rx, -EPROTO);
	SAYS(&tx, -EPROTO);
	assert_said(rr_wrap_preadv2(at.fd, in, 2, -1, 0), -EPROTO);
	assert_said(rr_wrap_preadv64v2(at.fd, in, 2, -1, 0), -EPROTO);
	assert_said(rr_wrap_pwritev2(at.fd, out, 2, -1, 0), -EPROTO);
	assert_said(rr_wrap_pwritev64v2(at.fd, out, 2, -1, 0), -EPROTO);
	in[0].iov_len = in[1].iov_len = out[0].iov_len = out[1].iov_len = 0;
	rx.calls = tx.calls = 0;
	assert_said(rr_wrap_preadv2(at.fd, in, 2, -1, 0), 0);
	assert_said(rr_wrap_pwritev2(at.fd, out, 2, -1, 0), 0);
	cr_assert(!rx.calls && !tx.calls);
}

/* Of no bytes read() and the vectors are 0 at once; recv() and send() are the connection's. */
Test(call_data, nothing_at_all)
{
	char buf[4];
	struct iovec none[2] = { { buf, 0 }, { NULL, 0 } }, late[2] = { { buf, 0 }, { buf, 1 } };

	assert_said(rr_wrap_read(at.fd, buf, 0), 0);
	assert_said(rr_wrap_readv(at.fd, none, 2), 0);
	assert_said(rr_wrap_writev(at.fd, none, 2), 0);
	assert_said(rr_wrap_readv(at.fd, none, 0), 0);
	assert_said(rr_wrap_writev(at.fd, none, 0), 0);
	cr_assert(!rx.calls && !tx.calls);
	SAYS(&rx, 1);
	SAYS(&tx, 1);
	assert_said(rr_wrap_readv(at.fd, late, 2), 1);
	assert_said(rr_wrap_writev(at.fd, late, 2), 1);
	cr_assert(rx.calls == 1 && tx.calls == 1);
	SAYS(&tx, 0);
	assert_said(rr_wrap_write(at.fd, msg, 0), 0);
	assert_said(rr_wrap_send(at.fd, NULL, 0, 0), 0);
	cr_assert_eq(tx.calls, 2);
}

/* --- what the kernel would refuse --- */

Test(call_data, wrong_pieces_are_refused_before_the_connection_is_asked)
{
	char *bad = (char *)8, buf[4];
	struct iovec iov[2] = { { buf, 2 }, { bad, 2 } };
	struct msghdr m = { .msg_iov = (struct iovec *)(void *)bad, .msg_iovlen = 1 };

	assert_said(rr_wrap_recv(at.fd, bad, 1, 0), -EFAULT);
	assert_said(rr_wrap_send(at.fd, bad, 1, 0), -EFAULT);
	assert_said(rr_wrap_readv(at.fd, iov, 2), -EFAULT);
	assert_said(rr_wrap_writev(at.fd, iov, 2), -EFAULT);
	assert_said(rr_wrap_recvmsg(at.fd, &m, 0), -EFAULT);
	assert_said(rr_wrap_sendmsg(at.fd, &m, 0), -EFAULT);
	assert_said(rr_wrap_recvmsg(at.fd, (struct msghdr *)bad, 0), -EFAULT);
	assert_said(rr_wrap_sendmsg(at.fd, (struct msghdr *)bad, 0), -EFAULT);
	iov[1] = (struct iovec){ buf, SSIZE_MAX - 1 };
	assert_said(rr_wrap_readv(at.fd, iov, 2), -EINVAL);
	assert_said(rr_wrap_writev(at.fd, iov, 2), -EINVAL);
	cr_assert(!rx.calls && !tx.calls);
	/* As many as a call can take, and no piece of nothing is looked at. */
	iov[1].iov_len = SSIZE_MAX - 2;
	assert_said(rr_wrap_readv(at.fd, iov, 2), -EIO);
	cr_assert_eq(rx.calls, 1);
	iov[1] = (struct iovec){ bad, 0 };
	assert_said(rr_wrap_readv(at.fd, iov, 2), -EIO);
	cr_assert_eq(rx.calls, 2);
	m.msg_iovlen = 0;
	assert_said(rr_wrap_recvmsg(at.fd, &m, 0), -EIO);
	cr_assert_eq(rx.calls, 3);
}

Test(call_data, numbers_of_pieces_are_those_of_the_kernel)
{
	static struct iovec iov[IOV_MAX + 1];
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = IOV_MAX };
	char c;

	for (int i = 0; i <= IOV_MAX; i++)
		iov[i] = (struct iovec){ &c, 1 };
	SAYS(&rx, IOV_MAX);
	SAYS(&tx, IOV_MAX);
	assert_said(rr_wrap_readv(at.fd, iov, IOV_MAX), IOV_MAX);
	assert_said(rr_wrap_writev(at.fd, iov, IOV_MAX), IOV_MAX);
	assert_said(rr_wrap_recvmsg(at.fd, &m, 0), IOV_MAX);
	assert_said(rr_wrap_sendmsg(at.fd, &m, 0), IOV_MAX);
	cr_assert(rx.calls == 2 && tx.calls == 2);
	m.msg_iovlen++;
	assert_said(rr_wrap_readv(at.fd, iov, IOV_MAX + 1), -EINVAL);
	assert_said(rr_wrap_writev(at.fd, iov, IOV_MAX + 1), -EINVAL);
	assert_said(rr_wrap_recvmsg(at.fd, &m, 0), -EMSGSIZE);
	assert_said(rr_wrap_sendmsg(at.fd, &m, 0), -EMSGSIZE);
	assert_said(rr_wrap_readv(at.fd, iov, -1), -EINVAL);
	assert_said(rr_wrap_writev(at.fd, iov, -1), -EINVAL);
	cr_assert(rx.calls == 2 && tx.calls == 2);
}

Test(call_data, urgent_data_and_the_error_queue)
{
	char c;

	assert_said(rr_wrap_recv(at.fd, &c, 1, MSG_OOB), -EINVAL);
	assert_said(rr_wrap_recv(at.fd, &c, 1, MSG_ERRQUEUE), -EAGAIN);
	cr_assert_eq(rx.calls, 0);
	assert_said(rr_wrap_send(at.fd, "x", 1, MSG_OOB), -EOPNOTSUPP);
	cr_assert_eq(tx.calls, 0);
}

static bool let_it_go(struct rr_conn *c RR_UNUSED)
{
	return true;
}

Test(call_data, urgent_data_of_one_that_can_be_let_go_is_the_kernels)
{
	char c = 0;

	rr_fake.let_go = let_it_go;
	cr_assert_eq(rr_wrap_send(at.fd, "x", 1, MSG_OOB), 1);
	cr_assert_eq(at.so->f.refs, 1);
	for (int i = 0; recv(at.peer, &c, 1, MSG_OOB) != 1 && i < 1000; i++)
		usleep(1000);
	cr_assert_eq(c, 'x');
}

/* --- answers --- */

Test(call_data, what_was_not_all_is_noted_for_edges)
{
	static const struct { ssize_t r; bool dry; } c[] = {
		{ 10, false }, { 9, true }, { 1, true }, { 0, true }, { -EAGAIN, true }, { -ECONNRESET, false },
	};
	char buf[10];

	do_not_block();
	for (size_t i = 0; i < rr_array_size(c); i++) {
		const ssize_t again[] = { c[i].r, -EAGAIN };

		used_up_bits();
		set_script(&rx, &c[i].r, 1);
		assert_said(rr_wrap_recv(at.fd, buf, 10, 0), c[i].r);
		cr_assert_eq(used_up_bits(), c[i].dry ? POLLIN : 0, "%zu", i);
		set_script(&tx, again, 2);
		assert_said(rr_wrap_send(at.fd, msg, 10, 0), c[i].r);
		cr_assert_eq(used_up_bits(), c[i].dry ? POLLOUT : 0, "%zu", i);
	}
}

/* Its other end may be at rest in an array of this process's own. */
Test(call_data, what_is_written_within_the_process_is_looked_for_at_once)
{
	static const ssize_t all[] = { 10 }, none[] = { -ECONNRESET };
	char buf[10];

	is_noted();
	for (int within = 0; within < 2; within++) {
		rr_conn_face(at.c)->within = within;
		set_script(&tx, all, 1);
		assert_said(rr_wrap_send(at.fd, msg, 10, 0), 10);
		cr_assert_eq(is_noted(), !within);
		set_script(&tx, none, 1);
		assert_said(rr_wrap_send(at.fd, msg, 10, 0), -ECONNRESET);
		cr_assert_eq(is_noted(), !within, "or a part");
		set_script(&rx, all, 1);
		assert_said(rr_wrap_recv(at.fd, buf, 10, 0), 10);
		cr_assert(is_noted());
	}
}

Test(call_data, who_writes_to_nobody_is_told_by_a_signal_unless_it_wants_none)
{
	signal(SIGPIPE, on_pipe);
	SAYS(&tx, -EPIPE);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), -EPIPE);
	cr_assert_eq(pipes, 1);
	assert_said(rr_wrap_write(at.fd, msg, 10), -EPIPE);
	cr_assert_eq(pipes, 2);
	assert_said(rr_wrap_send(at.fd, msg, 10, MSG_NOSIGNAL), -EPIPE);
	cr_assert_eq(pipes, 2);
	SAYS(&tx, -ECONNRESET);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), -ECONNRESET);
	SAYS(&tx, 10);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), 10);
	cr_assert_eq(pipes, 2);
}

Test(call_data, what_the_connection_does_not_want_is_the_kernels)
{
	char buf[16];
	struct iovec in = { buf, 3 }, out = { msg, 3 };
	struct msghdr mi = { .msg_iov = &in, .msg_iovlen = 1 }, mo = { .msg_iov = &out, .msg_iovlen = 1 };

	SAYS(&rx, RR_CONN_KERNEL);
	SAYS(&tx, RR_CONN_KERNEL);
	cr_assert_eq(write(at.peer, "abcdefghijklmnopqrstuvwx", 24), 24);
	assert_said(rr_wrap_read(at.fd, buf, 3), 3);
	assert_said(rr_wrap_readv(at.fd, &in, 1), 3);
	assert_said(rr_wrap_recv(at.fd, buf, 3, 0), 3);
	assert_said(rr_wrap_recvfrom(at.fd, buf, 3, 0, NULL, NULL), 3);
	assert_said(rr_wrap_recvmsg(at.fd, &mi, 0), 3);
	assert_said(rr_wrap_preadv2(at.fd, &in, 1, -1, 0), 3);
	assert_said(rr_wrap_preadv64v2(at.fd, &in, 1, -1, 0), 3);
	cr_assert_eq(memcmp(buf, "stu", 3), 0);
	assert_said(rr_wrap_write(at.fd, msg, 3), 3);
	assert_said(rr_wrap_writev(at.fd, &out, 1), 3);
	assert_said(rr_wrap_send(at.fd, msg, 3, 0), 3);
	assert_said(rr_wrap_sendto(at.fd, msg, 3, 0, NULL, 0), 3);
	assert_said(rr_wrap_sendmsg(at.fd, &mo, 0), 3);
	assert_said(rr_wrap_pwritev2(at.fd, &out, 1, -1, 0), 3);
	assert_said(rr_wrap_pwritev64v2(at.fd, &out, 1, -1, 0), 3);
	cr_assert(rx.calls == 7 && tx.calls == 7);
	cr_assert_eq(recv(at.peer, buf, 16, MSG_WAITALL | MSG_PEEK), 16);
}

/* --- several messages --- */

static struct mmsghdr many[4];
static struct iovec piece[4];
static char room[40];

static void set_many(void)
{
	for (int i = 0; i < 4; i++) {
		piece[i] = (struct iovec){ room + 10 * i, 10 };
		many[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &piece[i], .msg_iovlen = 1, .msg_flags = 99 },
					    .msg_len = 77 };
	}
}

Test(call_data, several_are_received_until_there_is_no_more)
{
	set_many();
	SAYS(&rx, 10, 4, -EAGAIN);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, MSG_DONTWAIT, NULL), 2);
	cr_assert(many[0].msg_len == 10 && many[1].msg_len == 4 && many[2].msg_len == 77);
	cr_assert(!many[0].msg_hdr.msg_flags && many[2].msg_hdr.msg_flags == 99);
	assert_asked(&rx, 3, room + 20, 1, 10, MSG_DONTWAIT);
	SAYS(&rx, 10);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, 0, NULL), 4);
	assert_asked(&rx, 4, room + 30, 1, 10, 0);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 0, 0, NULL), 0);
	assert_asked(&rx, 0, room + 30, 1, 10, 0);
	/* The first waits, the others do not. */
	SAYS(&rx, 10, 10, -EAGAIN);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, MSG_WAITFORONE, NULL), 2);
	assert_asked(&rx, 3, room + 20, 1, 10, MSG_DONTWAIT);
	SAYS(&rx, 10);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 1, MSG_WAITFORONE, NULL), 1);
	assert_asked(&rx, 1, room, 1, 10, 0);
	SAYS(&rx, 10, 0);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, 0, NULL), 4);
	cr_assert(many[0].msg_len == 10 && !many[1].msg_len && !many[3].msg_len, "the end comes again and again");
	SAYS(&rx, -ECONNRESET);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, 0, NULL), -ECONNRESET);
	cr_assert_eq(rx.calls, 1);
}

Test(call_data, several_are_received_until_it_is_late)
{
	struct timespec now = { 0, 0 }, late = { 1000, 0 }, bad = { 0, -1 };

	set_many();
	SAYS(&rx, 10);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, 0, &now), 1);
	cr_assert_eq(rx.calls, 1);
	cr_assert(!now.tv_sec && !now.tv_nsec);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, 0, &late), 4);
	cr_assert(late.tv_sec < 1000 && late.tv_sec > 900, "what is left of it");
	late = (struct timespec){ 1000, 0 };
	SAYS(&rx, 10);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 1, 0, &late), 1);
	cr_assert(late.tv_sec < 1000 && late.tv_sec > 900, "after a single one, too");
	rx.calls = 0;
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, MSG_DONTWAIT, &bad), -EINVAL);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, MSG_DONTWAIT, (struct timespec *)8), -EFAULT);
	cr_assert_eq(rx.calls, 0);
	SAYS(&rx, -EIO);
	late = (struct timespec){ 1000, 0 };
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, 0, &late), -EIO);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 0, 0, &late), 0);
	cr_assert(late.tv_sec == 1000 && !late.tv_nsec, "it stays where nothing was received");
}

Test(call_data, the_kernel_goes_on_receiving_where_the_connection_ends)
{
	set_many();
	cr_assert_eq(write(at.peer, "abcdefghijklmno", 15), 15);
	SAYS(&rx, 10, RR_CONN_KERNEL);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, MSG_DONTWAIT, NULL), 3);
	cr_assert(many[0].msg_len == 10 && many[1].msg_len == 10 && many[2].msg_len == 5 && many[3].msg_len == 77);
	cr_assert_eq(memcmp(room + 10, "abcdefghijklmno", 15), 0);
	cr_assert_eq(write(at.peer, "abcdefghijklmnopqrstuvwxyzabcd", 30), 30);
	set_many();
	SAYS(&rx, 10, RR_CONN_KERNEL);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 2, MSG_DONTWAIT, NULL), 2);
	cr_assert(many[1].msg_len == 10 && many[2].msg_len == 77, "no more than were asked for");
	cr_assert_eq(recv(at.fd, room, 40, MSG_DONTWAIT), 20);
	/* It has nothing: what was received before counts. */
	SAYS(&rx, 10, RR_CONN_KERNEL);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, MSG_DONTWAIT, NULL), 1);
	SAYS(&rx, RR_CONN_KERNEL);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, MSG_DONTWAIT, NULL), -EAGAIN);
	cr_assert_eq(write(at.peer, "abc", 3), 3);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 1, 0, NULL), 1);
	cr_assert_eq(many[0].msg_len, 3);
}

static int its_error;

static int take_it(struct rr_conn *c RR_UNUSED, int fd)
{
	cr_assert_eq(fd, at.fd);
	return its_error;
}

Test(call_data, an_error_of_the_socket_is_told_before_all_messages)
{
	static const int says[] = { ECONNRESET, -EDEADLK, 0, RR_CONN_KERNEL };

	set_many();
	rr_fake.take_error = take_it;
	SAYS(&rx, 10);
	for (int i = 0; i < 4; i++) {
		its_error = says[i];
		rx.calls = 0;
		assert_said(rr_wrap_recvmmsg(at.fd, many, 2, 0, NULL), i < 2 ? -abs(says[i]) : 2);
		cr_assert_eq(rx.calls, i < 2 ? 0 : 2);
	}
}

Test(call_data, several_are_sent_until_one_is_not_whole)
{
	set_many();
	SAYS(&tx, 10);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 4, MSG_DONTWAIT), 4);
	assert_asked(&tx, 4, room + 30, 1, 10, MSG_DONTWAIT);
	cr_assert(many[0].msg_len == 10 && many[3].msg_len == 10);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 0, 0), 0);
	cr_assert_eq(tx.calls, 0);
	do_not_block();
	set_many();
	SAYS(&tx, 10, 4, -EAGAIN, 10);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 4, 0), 2);
	cr_assert_eq(tx.calls, 3);
	cr_assert(many[0].msg_len == 10 && many[1].msg_len == 4 && many[2].msg_len == 77);
	SAYS(&tx, 10, -ECONNRESET);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 4, 0), 1);
	SAYS(&tx, -ECONNRESET);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 4, 0), -ECONNRESET);
	cr_assert_eq(tx.calls, 1);
	assert_said(rr_wrap_sendmmsg(at.fd, (struct mmsghdr *)8, 0, 0), 0);
}

Test(call_data, the_kernel_goes_on_sending_where_the_connection_ends)
{
	char buf[40];

	set_many();
	memcpy(room, "abcdefghijklmnopqrstuvwxyz0123456789ABCD", 40);
	SAYS(&tx, 10, RR_CONN_KERNEL);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 3, 0), 3);
	cr_assert(many[1].msg_len == 10 && many[2].msg_len == 10 && many[3].msg_len == 77);
	cr_assert_eq(recv(at.peer, buf, 20, MSG_WAITALL), 20);
	cr_assert_eq(memcmp(buf, room + 10, 20), 0);
	SAYS(&tx, RR_CONN_KERNEL);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 2, 0), 2);
	cr_assert_eq(recv(at.peer, buf, 40, MSG_DONTWAIT), 20);
	/* It takes none: what was sent before counts. */
	shutdown(at.fd, SHUT_WR);
	SAYS(&tx, 10, RR_CONN_KERNEL);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 4, MSG_NOSIGNAL), 1);
	SAYS(&tx, RR_CONN_KERNEL);
	assert_said(rr_wrap_sendmmsg(at.fd, many, 4, MSG_NOSIGNAL), -EPIPE);
}

Test(call_data, no_call_has_more_messages_than_the_kernel_takes)
{
	static struct mmsghdr lots[IOV_MAX + 1];
	char c;
	struct iovec iov = { &c, 1 };

	for (int i = 0; i <= IOV_MAX; i++)
		lots[i].msg_hdr = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
	SAYS(&rx, 1);
	SAYS(&tx, 1);
	assert_said(rr_wrap_recvmmsg(at.fd, lots, IOV_MAX + 1, 0, NULL), IOV_MAX);
	assert_said(rr_wrap_sendmmsg(at.fd, lots, IOV_MAX + 1, 0), IOV_MAX);
	cr_assert(rx.calls == IOV_MAX && tx.calls == IOV_MAX);
}

/* The peer goes without an error, or with one: then its bytes are lost, and the error is the next call's. */
static int pending_error(void)
{
	int v = 0;
	socklen_t len = sizeof(v);

	cr_assert_eq(getsockopt(at.fd, SOL_SOCKET, SO_ERROR, &v, &len), 0);
	return v;
}

static void reset_by_peer(void)
{
	struct linger now = { 1, 0 };
	struct pollfd p = { at.fd, 0, 0 };

	setsockopt(at.peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(at.peer);
	cr_assert_eq(poll(&p, 1, 10000), 1);
	cr_assert(p.revents & POLLERR);
	errno = MINE;
}

Test(call_data, what_the_kernel_has_of_a_peer_that_has_hung_up_is_received)
{
	struct pollfd p = { at.fd, 0, 0 };

	set_many();
	cr_assert_eq(write(at.peer, "abc", 3), 3);
	shutdown(at.fd, SHUT_WR);
	shutdown(at.peer, SHUT_WR);
	cr_assert_eq(poll(&p, 1, 10000), 1);
	cr_assert_eq(p.revents, POLLHUP);
	SAYS(&rx, 10, RR_CONN_KERNEL);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 2, 0, NULL), 2);
	cr_assert_eq(many[1].msg_len, 3);
}

Test(call_data, an_error_after_some_messages_is_left_for_the_next_call)
{
	set_many();
	reset_by_peer();
	SAYS(&rx, 10, RR_CONN_KERNEL);
	assert_said(rr_wrap_recvmmsg(at.fd, many, 4, 0, NULL), 1);
	cr_assert_eq(pending_error(), ECONNRESET);
}

/* --- what else a call sees --- */

static ssize_t turn_recv(struct rr_conn *c, int fd RR_UNUSED, const struct iovec *iov RR_UNUSED, int n RR_UNUSED,
			 int flags RR_UNUSED)
{
	c->face.state = RR_FAKE_TCP;
	c->face.changed = true;
	return 1;
}

Test(call_data, sets_learn_of_a_carrier_that_changed_within_a_call)
{
	struct rr_ep_watch *w = at.so->watches;
	char c;

	cr_assert_eq(w->form, RR_EP_MANAGED);
	rr_fake.recv = rr_fake.send = turn_recv;
	assert_said(rr_wrap_recv(at.fd, &c, 1, 0), 1);
	cr_assert_eq(w->form, RR_EP_PLAIN);
	rr_fake_become(at.c, at.fd, RR_FAKE_CARRIED);
	cr_assert_eq(w->form, RR_EP_MANAGED);
	errno = MINE;
	assert_said(rr_wrap_send(at.fd, "x", 1, 0), 1);
	cr_assert_eq(w->form, RR_EP_PLAIN);
}

static int real_says;

static ssize_t refused_write(int fd RR_UNUSED, const void *buf RR_UNUSED, size_t n RR_UNUSED)
{
	if (real_says < 0)
		errno = -real_says;
	return real_says < 0 ? -1 : real_says;
}

static ssize_t stands_in(int fd, const void *buf, size_t n)
{
	cr_assert(fd == at.peer && buf == msg && n == 10);
	errno = MINE;
	return 99;
}

/* A plugin may know another way to write what the kernel refuses. */
Test(call_data, a_write_that_is_refused_has_a_stand_in)
{
	rr_real.write = refused_write;
	real_says = -EACCES;
	assert_said(rr_wrap_write(at.peer, msg, 10), -EACCES);
	rr_refused = stands_in;
	assert_said(rr_wrap_write(at.peer, msg, 10), 99);
	real_says = -EPERM;
	assert_said(rr_wrap_write(at.peer, msg, 10), -EPERM);
	real_says = 10;
	errno = EACCES;
	cr_assert_eq(rr_wrap_write(at.peer, msg, 10), 10);
}
