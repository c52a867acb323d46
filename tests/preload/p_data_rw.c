/* SPDX-License-Identifier: BSD-3-Clause */
/* Every way to write against every way to read: whole records arrive, all iovecs are used, in
 * order, whatever the names of the calls. */

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "tests/preload/rpc.h"

enum { ARG = 4000, CALL = RPC_CALL_HEAD + ARG };

/* Three unequal pieces, one of them empty. */
static int pieces(struct iovec v[4], void *buf, size_t n)
{
	char *p = buf;

	v[0] = (struct iovec){ p, 5 };
	v[1] = (struct iovec){ p + 5, 0 };
	v[2] = (struct iovec){ p + 5, 1000 };
	v[3] = (struct iovec){ p + 1005, n - 1005 };
	return 4;
}

/* --- writers: all n bytes, in one call --- */

static ssize_t w_write(int fd, void *b, size_t n) { return write(fd, b, n); }
static ssize_t w_send(int fd, void *b, size_t n) { return send(fd, b, n, 0); }
static ssize_t w_sendto(int fd, void *b, size_t n) { return sendto(fd, b, n, MSG_NOSIGNAL, NULL, 0); }

static ssize_t w_writev(int fd, void *b, size_t n)
{
	struct iovec v[4];

	return writev(fd, v, pieces(v, b, n));
}

static ssize_t w_pwritev2(int fd, void *b, size_t n)
{
	struct iovec v[4];

	return pwritev2(fd, v, pieces(v, b, n), -1, 0);
}

static ssize_t w_sendmsg(int fd, void *b, size_t n)
{
	struct iovec v[4];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)pieces(v, b, n) };

	return sendmsg(fd, &m, 0);
}

static ssize_t w_sendmmsg(int fd, void *b, size_t n)
{
	struct iovec v[4];
	struct mmsghdr m[2] = { { { .msg_iov = v, .msg_iovlen = 3 }, 0 },
				{ { .msg_iov = v + 3, .msg_iovlen = 1 }, 0 } };

	pieces(v, b, n);
	CHECK_EQ(sendmmsg(fd, m, 2, 0), 2);
	CHECK_EQ(m[0].msg_len, 1005);
	return m[0].msg_len + m[1].msg_len;
}

static ssize_t w_sendfile(int fd, void *b, size_t n)
{
	char name[] = "/tmp/p_data_rw.XXXXXX";
	int f = mkstemp(name);
	off_t off = 0;
	ssize_t r;

	CHECK(f >= 0);
	unlink(name);
	p_write_all(f, b, n);
	CHECK_EQ(lseek(f, 0, SEEK_SET), 0);
	r = sendfile(fd, f, NULL, 100);
	CHECK_EQ(r, 100);
	CHECK_EQ(lseek(f, 0, SEEK_CUR), 100);
	off = 100;
	r = sendfile(fd, f, &off, n);
	CHECK_EQ(off, 100 + r);
	CHECK_EQ(lseek(f, 0, SEEK_CUR), 100);
	close(f);
	return r + 100;
}

/* --- readers: at most n bytes --- */

static ssize_t r_read(int fd, void *b, size_t n) { return read(fd, b, n); }
static ssize_t r_recv(int fd, void *b, size_t n) { return recv(fd, b, n, 0); }

static ssize_t r_recvfrom(int fd, void *b, size_t n)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t r = recvfrom(fd, b, n, 0, (struct sockaddr *)&from, &len);

	CHECK_EQ(len, 0);
	return r;
}

static ssize_t r_readv(int fd, void *b, size_t n)
{
	struct iovec v[4];

	return readv(fd, v, pieces(v, b, n));
}

static ssize_t r_preadv2(int fd, void *b, size_t n)
{
	struct iovec v[4];

	return preadv2(fd, v, pieces(v, b, n), -1, 0);
}

static ssize_t r_recvmsg(int fd, void *b, size_t n)
{
	struct iovec v[4];
	char name[64], control[64];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)pieces(v, b, n), .msg_name = name,
			    .msg_namelen = sizeof(name), .msg_control = control,
			    .msg_controllen = sizeof(control), .msg_flags = 77 };
	ssize_t r = recvmsg(fd, &m, 0);

	CHECK_EQ(m.msg_namelen, 0);
	CHECK_EQ(m.msg_controllen, 0);
	CHECK_EQ(m.msg_flags, 0);
	return r;
}

static ssize_t r_recvmmsg(int fd, void *b, size_t n)
{
	struct iovec v[4];
	struct mmsghdr m[1] = { { { .msg_iov = v }, 0 } };

	m[0].msg_hdr.msg_iovlen = (size_t)pieces(v, b, n);
	CHECK_EQ(recvmmsg(fd, m, 1, MSG_WAITFORONE, NULL), 1);
	return m[0].msg_len;
}

typedef ssize_t io_fn(int fd, void *buf, size_t n);

static io_fn *const writers[] = { w_write, w_send, w_sendto, w_writev, w_pwritev2, w_sendmsg,
				  w_sendmmsg, w_sendfile };
static io_fn *const readers[] = { r_read, r_recv, r_recvfrom, r_readv, r_preadv2, r_recvmsg,
				  r_recvmmsg };

static void one(int s[2], io_fn *w, io_fn *r, uint32_t xid)
{
	unsigned char out[CALL], in[CALL] = { 0 };
	size_t n = rpc_call(out, xid, ARG), at = 0;

	errno = 77;
	CHECK_EQ(w(s[0], out, n), n);
	while (at < n) {
		/* The vectors want room for their pieces: read into a whole buffer, keep the rest. */
		unsigned char tmp[CALL];
		ssize_t got = r(s[1], tmp, sizeof(tmp));

		CHECK(got > 0 && at + (size_t)got <= n);
		memcpy(in + at, tmp, (size_t)got);
		at += (size_t)got;
	}
	CHECK_EQ(memcmp(in, out, n), 0);
	p_write_all(s[1], in, rpc_reply(in, xid, 0));
	CHECK_EQ(rpc_read(s[0], out, sizeof(out)), RPC_REPLY_HEAD);
	CHECK_EQ(rpc_get(out, 1), xid);
}

static void every_writer_against_every_reader(void)
{
	uint32_t xid = 100;
	int s[2];

	rpc_pair(s);
	for (size_t w = 0; w < sizeof(writers) / sizeof(writers[0]); w++)
		for (size_t r = 0; r < sizeof(readers) / sizeof(readers[0]); r++)
			one(s, writers[w], readers[r], xid++);
}

/* More pieces than anybody looks at in one go, and most of them small. */
static void vectors_may_be_long(void)
{
	static unsigned char out[CALL], in[CALL];
	struct iovec v[200];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 200 };
	size_t n = rpc_call(out, 4, ARG), at = 0;
	int s[2];

	rpc_pair(s);
	/* Empty ones alone are nothing, in front of others no end. */
	for (size_t i = 0; i < 200; i++)
		v[i] = (struct iovec){ out, i < 199 ? 0 : n };
	CHECK_EQ(writev(s[0], v, 199), 0);
	CHECK_EQ(writev(s[0], v, 200), n);
	v[199].iov_base = in;
	CHECK_EQ(readv(s[1], v, 199), 0);
	CHECK_EQ(readv(s[1], v, 200), n);
	CHECK_EQ(memcmp(in, out, n), 0);
	for (int way = 0; way < 2; way++) {
		for (size_t i = 0; i < 200; i++)
			v[i] = (struct iovec){ out + 7 * i, i < 199 ? 7 : n - 7 * 199 };
		CHECK_EQ(way ? sendmsg(s[0], &m, 0) : writev(s[0], v, 200), n);
		for (size_t i = 0; i < 200; i++)
			v[i].iov_base = in + 7 * i;
		for (at = 0; at < n;) {
			ssize_t r = way ? recvmsg(s[1], &m, MSG_WAITALL) : readv(s[1], v, 200);

			CHECK(r > 0);
			at += (size_t)r;
			CHECK(at == n || !way);
			/* What readv() left begins with pieces that are empty now. */
			for (int i = 0; i < 200; i++) {
				size_t eat = (size_t)r < v[i].iov_len ? (size_t)r : v[i].iov_len;

				v[i].iov_base = (char *)v[i].iov_base + eat;
				v[i].iov_len -= eat;
				r -= (ssize_t)eat;
			}
		}
		CHECK_EQ(memcmp(in, out, n), 0);
		memset(in, 0, n);
	}
}

/* The first write of a connection by each name: what decides about it. */
static io_fn *first;

static void *first_server(void *arg)
{
	unsigned char buf[CALL];
	int fd = *(int *)arg;

	CHECK_EQ(rpc_read(fd, buf, sizeof(buf)), CALL);
	p_write_all(fd, buf, rpc_reply(buf, rpc_get(buf, 1), 0));
	return NULL;
}

static void any_writer_may_be_the_first(void)
{
	unsigned char buf[CALL];
	pthread_t t;
	int s[2];

	for (size_t w = 0; w < sizeof(writers) / sizeof(writers[0]); w++) {
		first = writers[w];
		p_pair(s);
		pthread_create(&t, NULL, first_server, &s[1]);
		CHECK_EQ(first(s[0], buf, rpc_call(buf, 7, ARG)), CALL);
		CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		pthread_join(t, NULL);
		close(s[0]);
		close(s[1]);
	}
}

static void bytes_that_are_no_rpc_go_through(void)
{
	char buf[64];
	int s[2];

	for (size_t w = 0; w < 4; w++) {
		p_pair(s);
		CHECK_EQ(write(s[0], "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", 35), 35);
		p_read_all(s[1], buf, 35);
		CHECK_EQ(memcmp(buf, "GET / HTTP/1.0\r\n", 16), 0);
		CHECK_EQ(write(s[1], "HTTP/1.0 200 OK\r\n\r\n", 19), 19);
		p_read_all(s[0], buf, 19);
		close(s[0]);
		close(s[1]);
	}
}

static void the_server_may_speak_first(void)
{
	char buf[64];
	int s[2];

	p_pair(s);
	CHECK_EQ(write(s[1], "220 ready\r\n", 11), 11);
	p_read_all(s[0], buf, 11);
	CHECK_EQ(write(s[0], "HELO\r\n", 6), 6);
	p_read_all(s[1], buf, 6);
}

static void errno_stays_on_success(void)
{
	unsigned char buf[64];
	int s[2];

	rpc_pair(s);
	errno = 77;
	CHECK_EQ(write(s[0], buf, rpc_call(buf, 9, 0)), RPC_CALL_HEAD);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(read(s[1], buf, sizeof(buf)), RPC_CALL_HEAD);
	CHECK_EQ(errno, 77);
}

static void wrong_arguments_are_refused(void)
{
	static struct iovec many[5000];
	struct iovec v = { NULL, 0 };
	struct msghdr m = { .msg_iov = many, .msg_iovlen = 5000 };
	/* Not constants: the compiler would know better. */
	volatile int below = -1;
	void *volatile nowhere = NULL;
	int s[2], two[2];
	off_t off = 0;
	char c;

	rpc_pair(s);
	CHECK_ERR(readv(s[0], &v, below), EINVAL);
	CHECK_ERR(readv(s[0], many, 5000), EINVAL);
	CHECK_ERR(writev(s[0], many, 5000), EINVAL);
	CHECK_ERR(sendmsg(s[0], &m, 0), EMSGSIZE);
	CHECK_ERR(recvmsg(s[0], &m, 0), EMSGSIZE);
	CHECK_ERR(pread(s[0], &c, 1, 0), ESPIPE);
	v = (struct iovec){ &c, 1 };
	CHECK_ERR(preadv2(s[0], &v, 1, 0, 0), ESPIPE);
	CHECK_ERR(lseek(s[0], 0, SEEK_CUR), ESPIPE);
	CHECK_ERR(write(s[0], nowhere, 4), EFAULT);
	CHECK_EQ(read(s[0], &c, 0), 0);
	CHECK_EQ(readv(s[0], &v, 0), 0);
	CHECK_EQ(write(s[0], &c, 0), 0);
	CHECK_ERR(read(-1, &c, 1), EBADF);
	CHECK_ERR(write(999, &c, 1), EBADF);
	CHECK_ERR(send(0x7fffffff, &c, 1, 0), EBADF);
	CHECK_EQ(pipe(two), 0);
	CHECK_EQ(write(two[1], "x", 1), 1);
	CHECK_ERR(sendfile(s[0], two[0], &off, 1), ESPIPE);	/* a pipe has no places */
	CHECK_EQ(off, 0);
	CHECK_EQ(read(two[0], &c, 1), 1);
}

/* Of a new connection the library looks at the first bytes itself; later what costs nothing is looked at. */
static void memory_that_is_none_is_refused(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *volatile top = (void *)-1;
	struct iovec v[2] = { { page + 4096, 104 }, { page, 104 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	pthread_t server;
	int s[2], t[2];
	char c;

	CHECK(page != MAP_FAILED && !mprotect(page + 4096, 4096, PROT_NONE));
	p_pair(s);
	CHECK_ERR(write(s[0], page + 4096, 104), EFAULT);
	CHECK_ERR(send(s[0], page + 4100, 1, MSG_DONTWAIT), EFAULT);
	CHECK_ERR(writev(s[0], v, 2), EFAULT);
	CHECK_ERR(sendmsg(s[0], &m, 0), EFAULT);
	CHECK_ERR(writev(s[0], top, 1), EFAULT);
	if (!p_carries()) {	/* who accepts, and has heard nothing yet */
		p_pair(t);
		CHECK_ERR(write(t[1], page + 4096, 28), EFAULT);
		CHECK_EQ(close(t[0]) | close(t[1]), 0);
	}
	for (uint32_t xid = 1; xid < 3; xid++) {
		CHECK_EQ(pthread_create(&server, NULL, rpc_null_server, &s[1]), 0);
		rpc_null(s[0], xid);	/* the call that is right goes */
		CHECK_EQ(pthread_join(server, NULL), 0);
		if (p_carries())
			break;
		CHECK_ERR(write(s[1], page + 4096, 28), EFAULT);
		CHECK_ERR(writev(s[1], v, 2), EFAULT);
	}
	if (!p_leg("crossing"))
		rpc_check_leg(s, 3);
	CHECK_ERR(write(s[0], top, 104), EFAULT);
	CHECK_ERR(sendmsg(s[0], top, 0), EFAULT);
	CHECK_ERR(recvmsg(s[0], top, 0), EFAULT);
	CHECK_ERR(recv(s[0], &c, 1, MSG_DONTWAIT), EAGAIN);
}

static const struct p_case cases[] = {
	{ "every_writer_against_every_reader", every_writer_against_every_reader },
	{ "vectors_may_be_long", vectors_may_be_long },
	{ "any_writer_may_be_the_first", any_writer_may_be_the_first },
	{ "bytes_that_are_no_rpc_go_through", bytes_that_are_no_rpc_go_through },
	{ "the_server_may_speak_first", the_server_may_speak_first },
	{ "errno_stays_on_success", errno_stays_on_success },
	{ "wrong_arguments_are_refused", wrong_arguments_are_refused },
	{ "memory_that_is_none_is_refused", memory_that_is_none_is_refused },
};

P_MAIN(cases)
