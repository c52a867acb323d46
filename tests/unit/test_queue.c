/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's socket queues: which system call is made with what, and what is made of its result. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/pages.h"
#include "core/conn/base/base.h"

static struct asked {
	int calls, vector_calls, fd, flags;
	size_t pieces, len;
	const void *first;
	size_t first_len;
} asked;
static ssize_t answer, vector_answer;
static int error, vector_error;

static void note_vector(int fd, const struct msghdr *m, int flags)
{
	asked.vector_calls++;
	asked.fd = fd;
	asked.flags = flags;
	asked.pieces = m->msg_iovlen;
	asked.len = 0;
	for (size_t i = 0; i < m->msg_iovlen; i++)
		asked.len += m->msg_iov[i].iov_len;
	asked.first = m->msg_iovlen ? m->msg_iov[0].iov_base : NULL;
	asked.first_len = m->msg_iovlen ? m->msg_iov[0].iov_len : 0;
	errno = vector_error;
}

static void note_one(int fd, const void *buf, size_t len, int flags)
{
	asked.calls++;
	asked.fd = fd;
	asked.flags = flags;
	asked.first = buf;
	asked.first_len = asked.len = len;
	errno = error;
}

static ssize_t fake_sendmsg(int fd, const struct msghdr *m, int flags)
{
	note_vector(fd, m, flags);
	return vector_answer;
}

static ssize_t fake_recvmsg(int fd, struct msghdr *m, int flags)
{
	note_vector(fd, m, flags);
	return vector_answer;
}

static ssize_t fake_send(int fd, const void *buf, size_t len, int flags)
{
	note_one(fd, buf, len, flags);
	return answer;
}

static ssize_t fake_recv(int fd, void *buf, size_t len, int flags)
{
	note_one(fd, buf, len, flags);
	return answer;
}

static int in_queue, out_queue, sndbuf, ioctl_rc, getsockopt_rc;

static int fake_ioctl(int fd, unsigned long what, ...)
{
	va_list ap;
	int *n;

	(void)fd;
	va_start(ap, what);
	n = va_arg(ap, int *);
	va_end(ap);
	if (what == FIONREAD)
		*n = in_queue;
	else if (what == SIOCOUTQ)
		*n = out_queue;
	return ioctl_rc;
}

static int fake_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	(void)fd;
	if (level == SOL_SOCKET && name == SO_SNDBUF && *len == sizeof(int))
		memcpy(val, &sndbuf, sizeof(int));
	else if (level == IPPROTO_TCP && name == TCP_INFO && *len == sizeof(struct tcp_info))
		memset(val, 1, 8);	/* an older kernel's is short */
	else
		return -1;
	return getsockopt_rc;
}

static const struct rr_os fakes = {
	.send = fake_send, .recv = fake_recv, .sendmsg = fake_sendmsg, .recvmsg = fake_recvmsg,
	.ioctl = fake_ioctl, .getsockopt = fake_getsockopt,
};

static void use_fakes(void)
{
	rr_os = &fakes;
	answer = vector_answer = 7;
}

TestSuite(queue, .init = use_fakes);

static uint8_t a[100], b[100];

#define SEND_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL)

Test(queue, one_piece_is_sent_by_the_cheap_call)
{
	const struct iovec iov = { a, 33 };

	cr_assert_eq(rr_queue_send(5, &iov, 1, MSG_MORE), 7);
	cr_assert(asked.calls == 1 && asked.vector_calls == 0);
	cr_assert(asked.fd == 5 && asked.first == a && asked.len == 33);
	cr_assert_eq(asked.flags, SEND_FLAGS | MSG_MORE);
	answer = 0;
	cr_assert_eq(rr_queue_send(5, &iov, 1, 0), 0);
	answer = -1;
	error = EPIPE;
	cr_assert_eq(rr_queue_send(5, &iov, 1, 0), -EPIPE);
}

Test(queue, several_pieces_are_sent_as_a_vector)
{
	const struct iovec iov[2] = { { a, 33 }, { b, 44 } };

	cr_assert_eq(rr_queue_send(5, iov, 2, MSG_MORE), 7);
	cr_assert(asked.calls == 0 && asked.vector_calls == 1);
	cr_assert(asked.fd == 5 && asked.pieces == 2 && asked.len == 77 && asked.first == a);
	cr_assert_eq(asked.flags, SEND_FLAGS | MSG_MORE);
	vector_answer = 0;
	vector_error = EPERM;	/* of before: no error has happened now */
	cr_assert_eq(rr_queue_send(5, iov, 2, 0), 0);
	vector_answer = -1;
	vector_error = EAGAIN;
	cr_assert_eq(rr_queue_send(5, iov, 2, 0), -EAGAIN);
	cr_assert_eq(asked.calls, 0, "what no filter says is the result");
}

Test(queue, no_pieces_are_a_vector_too)
{
	cr_assert_eq(rr_queue_send(5, NULL, 0, 0), 7);
	cr_assert(asked.vector_calls == 1 && asked.pieces == 0);
	vector_answer = -1;
	vector_error = EPERM;
	cr_assert_eq(rr_queue_send(5, NULL, 0, 0), -EPERM, "there is no piece to fall back on");
	cr_assert_eq(asked.calls, 0);
}

Test(queue, where_a_filter_forbids_vectors_the_first_piece_goes_alone)
{
	const struct iovec iov[3] = { { a, 0 }, { b, 44 }, { a, 5 } }, none[2] = { { a, 0 }, { b, 0 } };

	vector_answer = -1;
	vector_error = EPERM;
	cr_assert_eq(rr_queue_send(5, iov, 3, MSG_MORE), 7);
	cr_assert(asked.vector_calls == 1 && asked.calls == 1);
	cr_assert(asked.fd == 5 && asked.first == b && asked.len == 44);
	cr_assert_eq(asked.flags, SEND_FLAGS | MSG_MORE);
	answer = 0;
	cr_assert_eq(rr_queue_send(5, none, 2, 0), 0);
	cr_assert(asked.first == b && asked.len == 0, "of empty pieces the last");
	cr_assert_eq(rr_queue_send(5, iov + 1, 2, 0), 0);
	cr_assert(asked.first == b && asked.len == 44);
	answer = -1;
	error = EAGAIN;
	cr_assert_eq(rr_queue_send(5, iov, 3, 0), -EAGAIN);
}

Test(queue, one_piece_is_read_by_the_cheap_call)
{
	const struct iovec iov = { a, 33 };

	cr_assert_eq(rr_queue_recv(5, &iov, 1, 0, SIZE_MAX, MSG_PEEK | MSG_WAITALL), 7);
	cr_assert(asked.calls == 1 && asked.vector_calls == 0);
	cr_assert(asked.fd == 5 && asked.first == a && asked.len == 33);
	cr_assert_eq(asked.flags, MSG_PEEK | MSG_DONTWAIT, "what blocks is the wrapper's");
	cr_assert_eq(rr_queue_recv(5, &iov, 1, 0, SIZE_MAX, MSG_WAITALL), 7);
	cr_assert_eq(asked.flags, MSG_DONTWAIT);
	answer = 0;
	cr_assert_eq(rr_queue_recv(5, &iov, 1, 0, SIZE_MAX, 0), 0);
	answer = -1;
	error = ECONNRESET;
	cr_assert_eq(rr_queue_recv(5, &iov, 1, 0, SIZE_MAX, 0), -ECONNRESET);
}

Test(queue, several_pieces_are_read_as_a_vector)
{
	const struct iovec iov[2] = { { a, 33 }, { b, 44 } };

	cr_assert_eq(rr_queue_recv(5, iov, 2, 0, SIZE_MAX, MSG_PEEK), 7);
	cr_assert(asked.calls == 0 && asked.vector_calls == 1);
	cr_assert(asked.fd == 5 && asked.pieces == 2 && asked.len == 77 && asked.first == a);
	cr_assert_eq(asked.flags, MSG_PEEK | MSG_DONTWAIT);
	vector_answer = 0;
	vector_error = EPERM;
	cr_assert_eq(rr_queue_recv(5, iov, 2, 0, SIZE_MAX, 0), 0);
	vector_answer = -1;
	vector_error = EAGAIN;
	cr_assert_eq(rr_queue_recv(5, iov, 2, 0, SIZE_MAX, 0), -EAGAIN);
	cr_assert_eq(asked.calls, 0);
	vector_error = EPERM;
	cr_assert_eq(rr_queue_recv(5, NULL, 0, 0, SIZE_MAX, 0), -EPERM);
	cr_assert_eq(asked.calls, 0);
	cr_assert_eq(rr_queue_recv(5, iov, 2, 0, SIZE_MAX, MSG_PEEK), 7);
	cr_assert(asked.calls == 1 && asked.first == a && asked.len == 33);
	cr_assert_eq(asked.flags, MSG_PEEK | MSG_DONTWAIT);
}

Test(queue, no_more_is_read_than_was_asked_for)
{
	const struct iovec iov[2] = { { a, 33 }, { b, 44 } };

	rr_queue_recv(5, iov, 2, 10, SIZE_MAX, 0);
	cr_assert(asked.pieces == 2 && asked.first == a + 10 && asked.len == 67);
	rr_queue_recv(5, iov, 2, 0, 40, 0);
	cr_assert(asked.pieces == 2 && asked.first == a && asked.len == 40);
	rr_queue_recv(5, iov, 2, 33, 40, 0);
	cr_assert(asked.calls == 1 && asked.first == b && asked.len == 40, "one piece is left");
	rr_queue_recv(5, iov, 2, 77, 40, 0);
	cr_assert(asked.vector_calls == 3 && asked.pieces == 0, "nothing is left");
}

Test(queue, of_many_pieces_so_many_are_read_as_others_count)
{
	struct iovec iov[RR_IOV_CUT + 1];

	for (int i = 0; i < RR_IOV_CUT + 1; i++)
		iov[i] = (struct iovec){ a + i, 1 };
	rr_queue_recv(5, iov, RR_IOV_CUT + 1, 0, SIZE_MAX, 0);
	cr_assert_eq(asked.pieces, RR_IOV_CUT);
	rr_queue_recv(5, iov, RR_IOV_CUT, 0, SIZE_MAX, 0);
	cr_assert_eq(asked.pieces, RR_IOV_CUT);
}

Test(queue, bytes_in_it)
{
	in_queue = 12;
	cr_assert_eq(rr_queue_bytes(5), 12);
	in_queue = 1;
	cr_assert_eq(rr_queue_bytes(5), 1);
	in_queue = 0;
	cr_assert_eq(rr_queue_bytes(5), 0);
	in_queue = -1;
	cr_assert_eq(rr_queue_bytes(5), 0);
	in_queue = 12;
	ioctl_rc = -1;
	cr_assert_eq(rr_queue_bytes(5), 0);
}

Test(queue, what_an_older_kernel_does_not_say_is_zero)
{
	struct tcp_info i;

	memset(&i, 0xff, sizeof(i));
	cr_assert(rr_queue_info(5, &i));
	cr_assert_eq(((uint8_t *)&i)[7], 1);
	cr_assert_eq(((uint8_t *)&i)[8], 0);
	cr_assert_eq(i.tcpi_bytes_received, 0);
	getsockopt_rc = -1;
	cr_assert_not(rr_queue_info(5, &i));
}

Test(queue, what_another_process_has_read_is_unread_here)
{
	struct tcp_info i = { .tcpi_bytes_received = 1000 };
	const struct rr_track in = { .bytes = 600, .ours = 48 };

	in_queue = 300;
	cr_assert_eq(rr_queue_unread(&i, &in, 5), 52);
	in_queue = 353;
	cr_assert_eq(rr_queue_unread(&i, &in, 5), -1);
	i.tcpi_bytes_received = 648;
	cr_assert_eq(rr_queue_unread(&i, &in, 5), 0, "then nothing can be in the queue");
	i.tcpi_bytes_received = 600;
	cr_assert_eq(rr_queue_unread(&i, &in, 5), -48);
}

Test(queue, room_is_for_all_of_it_or_none)
{
	sndbuf = 20000;
	cr_assert(rr_queue_has_room(5, 1 << 20), "an empty queue takes anything in time");
	out_queue = 1000;
	cr_assert(rr_queue_has_room(5, (20000 - RR_PAGE) / 2 - 1001));
	cr_assert_not(rr_queue_has_room(5, (20000 - RR_PAGE) / 2 - 1000));
	getsockopt_rc = -1;
	cr_assert_not(rr_queue_has_room(5, 1));
	out_queue = 0;
	cr_assert(rr_queue_has_room(5, 1));
	ioctl_rc = -1;
	cr_assert_not(rr_queue_has_room(5, 1));
}

Test(queue, bytes_go_nowhere_in_pieces)
{
	struct iovec iov[4];

	cr_assert_eq(rr_queue_nowhere(iov, 4, 0), 0);
	cr_assert_eq(rr_queue_nowhere(iov, 4, 1), 1);
	cr_assert_eq(iov[0].iov_len, 1);
	cr_assert_eq(rr_queue_nowhere(iov, 4, 8192), 1);
	cr_assert_eq(rr_queue_nowhere(iov, 4, 8193), 2);
	cr_assert(iov[0].iov_len == 8192 && iov[1].iov_len == 1);
	cr_assert_eq(iov[0].iov_base, iov[1].iov_base);
	cr_assert_eq(rr_queue_nowhere(iov, 2, 30000), 2);
	cr_assert_eq(rr_iov_total(iov, 2), 16384);
}

Test(queue, bytes_behind_others_are_looked_at)
{
	uint8_t buf[10];

	vector_answer = 1010;
	cr_assert_eq(rr_queue_peek_at(5, 1000, buf, sizeof(buf)), 10);
	cr_assert(asked.fd == 5 && asked.pieces == 2 && asked.len == 1010);
	cr_assert_eq(asked.flags, MSG_PEEK | MSG_DONTWAIT);
	vector_answer = 1001;
	cr_assert_eq(rr_queue_peek_at(5, 1000, buf, sizeof(buf)), 1);
	vector_answer = 1000;
	cr_assert_eq(rr_queue_peek_at(5, 1000, buf, sizeof(buf)), 0);
	vector_answer = 999;
	cr_assert_eq(rr_queue_peek_at(5, 1000, buf, sizeof(buf)), 0);
	vector_answer = -1;
	cr_assert_eq(rr_queue_peek_at(5, 1000, buf, sizeof(buf)), 0);
	cr_assert_eq(rr_queue_peek_at(5, 0, buf, sizeof(buf)), 0);
	cr_assert(asked.pieces == 1 && asked.first == buf && asked.first_len == 10);
	vector_answer = 3;
	cr_assert_eq(rr_queue_peek_at(5, 0, buf, sizeof(buf)), 3);
	vector_answer = RR_QUEUE_REACH + 1;
	cr_assert_eq(rr_queue_peek_at(5, RR_QUEUE_REACH, buf, sizeof(buf)), 1);
	cr_assert(asked.pieces == 9 && asked.len == RR_QUEUE_REACH + 10);
	asked.vector_calls = 0;
	cr_assert_eq(rr_queue_peek_at(5, RR_QUEUE_REACH + 1, buf, sizeof(buf)), 0);
	cr_assert_eq(asked.vector_calls, 0);
}
