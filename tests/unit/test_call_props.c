/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, names, duplicates by fcntl(), and calls that are for files. */
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "tests/unit/call.h"

TestSuite(call_props, .init = begin_call, .timeout = 60);

static bool is_ours_at(int fd)
{
	struct rr_sock *so = rr_fdt_sock(fd);

	if (so)
		rr_file_put(&so->f);
	return so == at.so;
}

Test(call_props, duplicates_by_fcntl)
{
	static const int cmds[] = { F_DUPFD, F_DUPFD_CLOEXEC };

	for (size_t i = 0; i < 2; i++) {
		int fd = rr_wrap_fcntl(at.fd, cmds[i], (void *)600);

		cr_assert_eq(errno, MINE);
		cr_assert_geq(fd, 600);
		cr_assert(is_ours_at(fd));
		cr_assert_eq(at.so->f.refs, 2);
		cr_assert_eq(fcntl(fd, F_GETFD), i ? FD_CLOEXEC : 0);
		cr_assert_eq(rr_wrap_close(fd), 0);
		cr_assert_not(rr_fdt_has(fd));
		assert_said(rr_wrap_fcntl(at.fd, cmds[i], (void *)-1), -EINVAL);
	}
	assert_said(rr_wrap_fcntl(at.fd, F_SETFD, (void *)FD_CLOEXEC), 0);
	assert_said(rr_wrap_fcntl(at.fd, F_GETFD, NULL), FD_CLOEXEC);
	cr_assert_not(rr_fdt_has(FD_CLOEXEC));
}

/* The kernel gives a number out again that was closed behind our back. */
Test(call_props, a_duplicate_of_something_else_is_nothing_of_ours)
{
	int other = open("/dev/null", O_RDONLY), fd;

	cr_assert_eq(close(at.fd), 0);
	fd = rr_wrap_fcntl(other, F_DUPFD, (void *)(intptr_t)at.fd);
	cr_assert_eq(fd, at.fd);
	cr_assert_not(rr_fdt_has(fd));
}

/* --- ioctl --- */

static int inq(int fd, unsigned long cmd)
{
	char raw[1 + sizeof(int)];
	int n = -7;

	memcpy(raw + 1, &n, sizeof(n));
	assert_said(rr_wrap_ioctl(fd, cmd, raw + 1), 0);
	memcpy(&n, raw + 1, sizeof(n));
	return n;
}

Test(call_props, how_much_there_is_to_read)
{
	int n;

	cr_assert_eq(write(at.peer, "abc", 3), 3);
	for (int i = 0; i < 1000 && (n = 0, ioctl(at.fd, FIONREAD, &n), n != 3); i++)
		usleep(1000);
	at.c->inq = 12345;
	errno = MINE;
	cr_assert_eq(rr_wrap_ioctl(at.fd, FIONREAD, &n), 0);
	cr_assert_eq(n, 12345);
	at.c->inq = 0;
	cr_assert_eq(inq(at.fd, FIONREAD), 0);
	at.c->inq = RR_CONN_KERNEL;
	cr_assert_eq(inq(at.fd, FIONREAD), 3);
	at.c->inq = -EDEADLK;
	cr_assert_eq(inq(at.fd, FIONREAD), 0);
	at.c->inq = -ECONNRESET;
	errno = MINE;
	assert_said(rr_wrap_ioctl(at.fd, FIONREAD, &n), -ECONNRESET);
	cr_assert_eq(inq(at.fd, TIOCOUTQ), 0, "any other is the kernel's");
	at.c->inq = 5;
	assert_said(rr_wrap_ioctl(at.fd, FIONREAD, (void *)8), -EFAULT);
	cr_assert_eq(inq(at.peer, FIONREAD), 0, "no connection of ours");
}

/* --- options --- */

static int err_says, err_calls;

static int err_script(struct rr_conn *c, int fd)
{
	cr_assert(c == at.c && fd == at.fd);
	err_calls++;
	return err_says;
}

Test(call_props, the_error_of_the_connection_is_taken_once)
{
	static const int says[][2] = { { ECONNRESET, ECONNRESET }, { -EPIPE, EPIPE }, { 0, 0 }, { RR_CONN_KERNEL, 0 } };
	unsigned char b[8];
	int e;
	socklen_t len;

	rr_fake.take_error = err_script;
	for (size_t i = 0; i < rr_array_size(says); i++) {
		err_says = says[i][0];
		len = sizeof(e);
		e = 77;
		assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_ERROR, &e, &len), 0);
		cr_assert(e == says[i][1] && len == sizeof(e), "%zu", i);
	}
	cr_assert_eq(err_calls, 4);
	err_says = 0x0102;
	for (len = 8; len > 4; len = 5) {
		socklen_t l = len;

		memset(b, 0xee, sizeof(b));
		assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_ERROR, b, &l), 0);
		cr_assert(l == 4 && b[0] == 2 && b[1] == 1 && !b[2] && !b[3] && b[4] == 0xee, "%u", l);
		if (len == 5)
			break;
	}
	len = 1;
	memset(b, 0xee, sizeof(b));
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_ERROR, b, &len), 0);
	cr_assert(len == 1 && b[0] == 2 && b[1] == 0xee);
	/* Where it could not be given it is not taken. */
	err_calls = 0;
	len = 4;
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_ERROR, (void *)8, &len), -EFAULT);
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_ERROR, &e, (socklen_t *)8), -EFAULT);
	/* Another option of another level that has the same number. */
	rr_wrap_getsockopt(at.fd, IPPROTO_TCP, SO_ERROR, &e, &len);
	cr_assert_eq(err_calls, 0);
}

static struct option { int calls, level, name; bool says; } opt, was_set;

static bool getopt_script(struct rr_conn *c, int level, int name, void *val, socklen_t *len)
{
	cr_assert(c == at.c && *len == sizeof(int));
	opt = (struct option){ opt.calls + 1, level, name, opt.says };
	if (opt.says)
		*(int *)val = 4242;
	return opt.says;
}

Test(call_props, an_option_that_the_library_uses_itself_is_what_the_app_has_set)
{
	int v = 0;
	socklen_t len = sizeof(v);

	rr_fake.getopt = getopt_script;
	opt.says = true;
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_RCVLOWAT, &v, &len), 0);
	cr_assert(v == 4242 && opt.calls == 1 && opt.level == SOL_SOCKET && opt.name == SO_RCVLOWAT);
	opt.says = false;
	assert_said(rr_wrap_getsockopt(at.fd, IPPROTO_TCP, TCP_NODELAY, &v, &len), 0);
	cr_assert(v == 0 && opt.calls == 2);
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, 9999, &v, &len), -ENOPROTOOPT);
	cr_assert_eq(opt.calls, 2, "the kernel refuses it");
	v = 7;
	assert_said(rr_wrap_getsockopt(at.peer, SOL_SOCKET, SO_TYPE, &v, &len), 0);
	cr_assert(v == SOCK_STREAM && opt.calls == 2);
}

static int asked_kernel;

static int counted_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	asked_kernel++;
	return getsockopt(fd, level, name, val, len);
}

/* What type at.fd has; len is what is passed, and what is left. */
static int type_of(int fd, socklen_t *len)
{
	int v = -1;

	errno = MINE;
	assert_said(rr_wrap_getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, len), 0);
	return v;
}

Test(call_props, the_type_of_what_is_known_is_said_without_the_kernel)
{
	socklen_t len = sizeof(int);

	rr_real.getsockopt = counted_getsockopt;
	cr_assert_eq(type_of(at.fd, &len), SOCK_STREAM);
	cr_assert(len == sizeof(int) && !asked_kernel);
	len = 100;
	cr_assert_eq(type_of(at.fd, &len), SOCK_STREAM);
	cr_assert(len == sizeof(int) && !asked_kernel && at.so->f.refs == 1);
	cr_assert_eq(type_of(at.peer, &len), SOCK_STREAM);
	cr_assert_eq(asked_kernel, 1, "nobody knows it");
}

Test(call_props, the_kernel_says_the_type_where_it_may_refuse)
{
	static int elsewhere = -1;
	int v = -1;
	socklen_t len = 2;

	rr_real.getsockopt = counted_getsockopt;
	cr_assert_eq((uint16_t)type_of(at.fd, &len), SOCK_STREAM);
	cr_assert(len == 2 && asked_kernel == 1, "it is cut");
	len = (socklen_t)-1;
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_TYPE, &v, &len), -EINVAL);
	len = sizeof(v);
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_TYPE, NULL, &len), -EFAULT);
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_TYPE, &v, NULL), -EFAULT);
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_TYPE, &elsewhere, &len), 0);
	cr_assert(elsewhere == SOCK_STREAM && asked_kernel == 5 && at.so->f.refs == 1);
}

Test(call_props, another_file_at_the_number_has_its_own_type)
{
	int v = -1, other = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(v);

	rr_file_hold(&at.so->f);
	cr_assert_eq(dup2(other, at.fd), at.fd);
	at.so->verified = 0;
	assert_said(rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_TYPE, &v, &len), 0);
	cr_assert(v == SOCK_DGRAM && at.so->f.refs == 1);
}

static bool setopt_script(struct rr_conn *c, int level, int name, const void *val, socklen_t len)
{
	cr_assert(c == at.c && val && len == sizeof(int));
	opt = (struct option){ opt.calls + 1, level, name, opt.says };
	return opt.says;
}

static void note_set(struct rr_conn *c, int fd, int level, int name)
{
	cr_assert(c == at.c && fd == at.fd);
	was_set = (struct option){ was_set.calls + 1, level, name, true };
}

static int kernels_option(int name)
{
	int v = 0;
	socklen_t len = sizeof(v);

	cr_assert_eq(getsockopt(at.fd, SOL_SOCKET, name, &v, &len), 0);
	return v;
}

static int lets_go;

static bool go_script(struct rr_conn *c)
{
	cr_assert_eq(c, at.c);
	lets_go++;
	return lets_go > 1;
}

Test(call_props, an_option_is_the_connections_or_the_kernels)
{
	int v = 5, len = sizeof(v);

	rr_fake.setopt = setopt_script;
	rr_fake.opt_set = note_set;
	assert_said(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_RCVLOWAT, &v, len), 0);
	cr_assert(opt.calls == 1 && opt.level == SOL_SOCKET && opt.name == SO_RCVLOWAT);
	cr_assert(was_set.calls == 1 && was_set.level == SOL_SOCKET && was_set.name == SO_RCVLOWAT);
	cr_assert_eq(kernels_option(SO_RCVLOWAT), 5);
	opt.says = true;
	v = 9;
	assert_said(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_RCVLOWAT, &v, len), 0);
	cr_assert(opt.calls == 2 && was_set.calls == 2 && kernels_option(SO_RCVLOWAT) == 5, "the connection keeps it");
	/* It would be read. */
	assert_said(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_RCVLOWAT, (void *)8, len), -EFAULT);
	cr_assert(opt.calls == 2 && was_set.calls == 2);
	opt.says = false;
	assert_said(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_KEEPALIVE, (void *)8, len), -EFAULT);
	cr_assert(opt.calls == 3 && was_set.calls == 2, "what the kernel refuses is not set");
	assert_said(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_KEEPALIVE, NULL, len), -EFAULT);
	cr_assert_eq(opt.calls, 3);
	assert_said(rr_wrap_setsockopt(at.fd, IPPROTO_TCP, 9999, &v, len), -ENOPROTOOPT);
	assert_said(rr_wrap_setsockopt(at.peer, SOL_SOCKET, SO_KEEPALIVE, &v, len), 0);
	cr_assert_eq(opt.calls, 4);
}

Test(call_props, notices_of_zero_copies_come_from_the_kernel_alone)
{
	int one = 1;

	rr_fake.let_go = go_script;
	rr_fake.opt_set = note_set;
	assert_said(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)), -EOPNOTSUPP);
	cr_assert(lets_go == 1 && !was_set.calls && !kernels_option(SO_ZEROCOPY));
	assert_said(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)), 0);
	cr_assert(lets_go == 2 && was_set.calls == 1 && kernels_option(SO_ZEROCOPY));
	assert_said(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)), 0);
	rr_wrap_setsockopt(at.fd, IPPROTO_IP, SO_ZEROCOPY, &one, sizeof(one));
	cr_assert_eq(lets_go, 2);
}

/* --- names --- */

static struct { int calls; bool peer; socklen_t len; uint16_t port; } told, asked;
static bool knows;

static bool name_script(struct rr_conn *c, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = 1 };

	cr_assert_eq(c, at.c);
	asked.calls++;
	asked.peer = peer;
	if (!knows)
		return false;
	memcpy(addr, &in, rr_min(*len, (socklen_t)sizeof(in)));
	*len = sizeof(in);
	return true;
}

static void named_script(struct rr_conn *c, bool peer, const struct sockaddr *addr, socklen_t len)
{
	cr_assert_eq(c, at.c);
	told.calls++;
	told.peer = peer;
	told.len = len;
	told.port = ((const struct sockaddr_in *)(const void *)addr)->sin_port;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)	/* they look before the kernel */
/* Of a descriptor that is not ours the kernel alone looks at what is given. */
Test(call_props, a_length_that_is_no_memory_is_the_kernels_to_refuse)
{
	int peer, fd = tcp(&peer);
	struct sockaddr_in a;
	socklen_t *gone = mmap(NULL, RR_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(gone, MAP_FAILED);
	assert_said(rr_wrap_getsockname(fd, (struct sockaddr *)&a, gone), -EFAULT);
	assert_said(rr_wrap_getpeername(fd, (struct sockaddr *)&a, gone), -EFAULT);
	assert_said(rr_wrap_getsockopt(fd, SOL_SOCKET, SO_TYPE, &peer, gone), -EFAULT);
}
#endif

Test(call_props, names_are_the_connections_or_the_kernels)
{
	struct sockaddr_in mine, other, a;
	socklen_t len = sizeof(mine);

	cr_assert_eq(getsockname(at.fd, (struct sockaddr *)&mine, &len), 0);
	cr_assert_eq(getpeername(at.fd, (struct sockaddr *)&other, &len), 0);
	rr_fake.name = name_script;
	rr_fake.named = named_script;
	errno = MINE;
	for (int peer = 0; peer < 2; peer++) {
		int (*get)(int, struct sockaddr *, socklen_t *) = peer ? rr_wrap_getpeername : rr_wrap_getsockname;

		told.calls = asked.calls = 0;
		knows = false;
		len = sizeof(a);
		assert_said(get(at.fd, (struct sockaddr *)&a, &len), 0);
		cr_assert(a.sin_port == (peer ? other : mine).sin_port && len == sizeof(a));
		cr_assert(asked.calls == 1 && asked.peer == peer);
		cr_assert(told.calls == 1 && told.peer == peer && told.len == sizeof(a) && told.port == a.sin_port);
		knows = true;
		assert_said(get(at.fd, (struct sockaddr *)&a, &len), 0);
		cr_assert(a.sin_port == 1 && told.calls == 2 && told.port == 1);
		len--;
		assert_said(get(at.fd, (struct sockaddr *)&a, &len), 0);
		cr_assert(told.calls == 2 && len == sizeof(a), "it was cut");
		knows = false;
		len = 0;
		assert_said(get(at.fd, (struct sockaddr *)&a, &len), 0);
		cr_assert_eq(told.calls, 2);
		asked.calls = 0;
		assert_said(get(at.fd, NULL, &len), len ? -EFAULT : 0);
		assert_said(get(at.fd, (struct sockaddr *)&a, NULL), -EFAULT);
		cr_assert(!asked.calls && told.calls == 2);
		assert_said(get(at.peer, (struct sockaddr *)&a, &len), 0);
		cr_assert(!asked.calls && told.calls == 2);
	}
	shutdown(at.fd, SHUT_RDWR);
	shutdown(at.peer, SHUT_RDWR);
	len = sizeof(a);
	if (rr_wrap_getpeername(at.fd, (struct sockaddr *)&a, &len) < 0)
		cr_assert_eq(told.calls, 2, "what the kernel does not know it does not tell");
	cr_assert_eq(at.so->f.refs, 1);
}

Test(call_props, a_name_of_another_file_at_the_number_is_not_the_connections)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int peer, other = tcp(&peer);

	rr_fake.named = named_script;
	rr_file_hold(&at.so->f);
	cr_assert_eq(dup2(other, at.fd), at.fd);
	at.so->verified = 0;
	assert_said(rr_wrap_getsockname(at.fd, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(told.calls, 0);
	cr_assert_eq(at.so->f.refs, 1);
}

/* --- files --- */

enum { FILE_SIZE = 10000 };
static int file, sends;
static ssize_t limit[4];	/* what each call takes at most, or -errno */
static size_t taken, most;

static ssize_t take_script(struct rr_conn *c RR_UNUSED, int fd, const struct iovec *iov, int n, int flags)
{
	const unsigned char *p = iov->iov_base;
	ssize_t r = rr_min((ssize_t)iov->iov_len, limit[rr_min(sends, 3)]);

	cr_assert(fd == at.fd && n == 1 && flags == 0);
	sends++;
	most = rr_max(most, iov->iov_len);
	for (ssize_t i = 0; i < r; i++)
		cr_assert_eq(p[i], (unsigned char)((taken + (size_t)i) * 7 / 3));
	taken += r > 0 ? (size_t)r : 0;
	return r;
}

static void open_file(void)
{
	char path[] = "/tmp/sendfileXXXXXX";
	unsigned char b[FILE_SIZE];

	file = mkstemp(path);
	unlink(path);
	for (size_t i = 0; i < FILE_SIZE; i++)
		b[i] = (unsigned char)(i * 7 / 3);
	cr_assert_eq(write(file, b, sizeof(b)), FILE_SIZE);
	rr_fake.send = take_script;
	cr_assert_eq(fcntl(at.fd, F_SETFL, O_NONBLOCK), 0);
	errno = MINE;
}

static void from(size_t where, ssize_t first, ssize_t then)
{
	taken = where;
	sends = 0;
	most = 0;
	limit[0] = first;
	limit[1] = limit[2] = limit[3] = then;
}

Test(call_props, a_file_is_sent_from_where_the_app_says)
{
	off64_t off = 100, pos;

	open_file();
	pos = lseek(file, 33, SEEK_SET);
	from(100, FILE_SIZE, FILE_SIZE);
	assert_said(rr_wrap_sendfile64(at.fd, file, &off, 5000), 5000);
	cr_assert(off == 5100 && taken == 5100 && sends == 2 && most <= 4096);
	from(5100, FILE_SIZE, FILE_SIZE);
	assert_said(rr_wrap_sendfile(at.fd, file, &off, 50000), 4900);
	cr_assert(off == FILE_SIZE && taken == FILE_SIZE);
	assert_said(rr_wrap_sendfile(at.fd, file, &off, 10), 0);
	cr_assert_eq(off, FILE_SIZE);
	off = 0;
	from(0, FILE_SIZE, FILE_SIZE);
	assert_said(rr_wrap_sendfile(at.fd, file, &off, 0), 0);
	assert_said(rr_wrap_sendfile(at.fd, -1, &off, 0), -EBADF);
	cr_assert(off == 0 && sends == 0);
	cr_assert_eq(lseek(file, 0, SEEK_CUR), pos, "the file's own place stays");
}

Test(call_props, a_file_is_sent_from_where_it_stands)
{
	open_file();
	lseek(file, 33, SEEK_SET);
	from(33, FILE_SIZE, FILE_SIZE);
	assert_said(rr_wrap_sendfile64(at.fd, file, NULL, 4096), 4096);
	cr_assert_eq(lseek(file, 0, SEEK_CUR), 4129);
	assert_said(rr_wrap_sendfile(at.fd, file, NULL, 1), 1);
	cr_assert_eq(lseek(file, 0, SEEK_CUR), 4130);
}

Test(call_props, of_a_file_as_much_is_used_up_as_was_sent)
{
	off64_t off = 0;

	open_file();
	lseek(file, 0, SEEK_SET);
	from(0, 4096, 10);
	limit[2] = limit[3] = -EAGAIN;
	assert_said(rr_wrap_sendfile64(at.fd, file, &off, FILE_SIZE), 4106);
	cr_assert_eq(off, 4106);
	from(4106, -ECONNRESET, -ECONNRESET);
	assert_said(rr_wrap_sendfile64(at.fd, file, &off, 100), -ECONNRESET);
	assert_said(rr_wrap_sendfile(at.fd, file, &off, 100), -ECONNRESET);
	cr_assert_eq(off, 4106);
	assert_said(rr_wrap_sendfile64(at.fd, file, NULL, 100), -ECONNRESET);
	cr_assert_eq(lseek(file, 0, SEEK_CUR), 0);
	off = 0;
	from(0, 4096, -ECONNRESET);
	assert_said(rr_wrap_sendfile(at.fd, file, &off, FILE_SIZE), 4096);
	cr_assert_eq(off, 4096);
	off = -1;
	assert_said(rr_wrap_sendfile64(at.fd, file, &off, 1), -EINVAL);
	assert_said(rr_wrap_sendfile64(at.fd, 99999, NULL, 1), -EINVAL);
	off = 0;
	assert_said(rr_wrap_sendfile64(at.fd, 99999, &off, 1), -EBADF);
	sends = 0;
	assert_said(rr_wrap_sendfile64(at.fd, file, (off64_t *)8, 1), -EFAULT);
	assert_said(rr_wrap_sendfile(at.fd, file, (off64_t *)8, 1), -EFAULT);
	cr_assert_eq(sends, 0);
}

Test(call_props, what_the_connection_does_not_want_of_a_file_is_the_kernels)
{
	char b[8];
	off64_t off = 3;

	open_file();
	from(0, RR_CONN_KERNEL, RR_CONN_KERNEL);
	assert_said(rr_wrap_sendfile64(at.fd, file, &off, 4), 4);
	cr_assert_eq(off, 7);
	assert_said(rr_wrap_sendfile(at.fd, file, &off, 4), 4);
	cr_assert_eq(off, 11);
	cr_assert_eq(recv(at.peer, b, 8, MSG_WAITALL), 8);
	cr_assert_eq((unsigned char)b[0], 3 * 7 / 3);
	off = 0;
	from(0, FILE_SIZE, FILE_SIZE);
	assert_said(rr_wrap_sendfile(at.peer, file, &off, 4), 4);
	cr_assert_eq(sends, 0);
}

Test(call_props, what_is_carried_is_not_spliced)
{
	int p[2];

	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(write(p[1], "abc", 3), 3);
	rr_fake.let_go = go_script;
	errno = MINE;
	assert_said(rr_wrap_splice(p[0], NULL, at.fd, NULL, 3, 0), -EINVAL);
	cr_assert_eq(lets_go, 1);
	assert_said(rr_wrap_splice(p[0], NULL, at.fd, NULL, 3, 0), 3);
	cr_assert_eq(lets_go, 2);
	cr_assert_eq(write(at.peer, "abcd", 4), 4);
	lets_go = 0;
	assert_said(rr_wrap_splice(at.fd, NULL, p[1], NULL, 4, 0), -EINVAL);
	assert_said(rr_wrap_splice(at.fd, NULL, p[1], NULL, 4, 0), 4);
	cr_assert_eq(lets_go, 2);
	assert_said(rr_wrap_splice(p[0], NULL, at.peer, NULL, 2, 0), 2);
	cr_assert_eq(lets_go, 2);
}

Test(call_props, a_socket_has_no_place)
{
	open_file();
	assert_said(rr_wrap_lseek(at.fd, 0, SEEK_SET), -ESPIPE);
	assert_said(rr_wrap_lseek64(at.fd, 0, SEEK_SET), -ESPIPE);
	assert_said(rr_wrap_lseek(file, 7, SEEK_SET), 7);
	assert_said(rr_wrap_lseek64(file, 2, SEEK_CUR), 9);
}
