/* SPDX-License-Identifier: BSD-3-Clause */
/* fcntl, ioctl, socket options and names: the fd is a TCP socket and says so. */

#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <termios.h>

#include "tests/preload/rpc.h"

static int getopt_int(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	CHECK_EQ(getsockopt(fd, level, name, &v, &len), 0);
	CHECK_EQ(len, sizeof(int));
	return v;
}

static void it_is_a_tcp_socket(void)
{
	struct stat st;
	int s[2];

	rpc_pair(s);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(getopt_int(s[i], SOL_SOCKET, SO_TYPE), SOCK_STREAM);
		CHECK_EQ(getopt_int(s[i], SOL_SOCKET, SO_DOMAIN), AF_INET);
		CHECK_EQ(getopt_int(s[i], SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
		CHECK_EQ(getopt_int(s[i], SOL_SOCKET, SO_ACCEPTCONN), 0);
		CHECK_EQ(getopt_int(s[i], SOL_SOCKET, SO_ERROR), 0);
		CHECK_EQ(fstat(s[i], &st), 0);
		CHECK(S_ISSOCK(st.st_mode));
	}
}

static void names_are_those_of_tcp(void)
{
	struct sockaddr_in a, b;
	socklen_t alen = sizeof(a), blen = sizeof(b);
	int s[2];

	rpc_pair(s);
	CHECK_EQ(getsockname(s[0], (struct sockaddr *)&a, &alen), 0);
	CHECK_EQ(getpeername(s[1], (struct sockaddr *)&b, &blen), 0);
	CHECK_EQ(a.sin_port, b.sin_port);
	CHECK_EQ(a.sin_addr.s_addr, b.sin_addr.s_addr);
}

/* What is set is what is read, carried or not; and nothing has changed that the app did not. */
static void options_read_back_as_set(void)
{
	static const struct { int level, name, def, val; } opt[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 0, 1 },
		{ SOL_SOCKET, SO_RCVLOWAT, 1, 4 },
		{ SOL_SOCKET, SO_OOBINLINE, 0, 1 },
		{ IPPROTO_TCP, TCP_NODELAY, 0, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 7200, 33 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 75, 11 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 9, 5 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 0, 60000 },
	};
	int s[2];

	rpc_pair(s);
	for (size_t i = 0; i < sizeof(opt) / sizeof(opt[0]); i++)
		for (int e = 0; e < 2; e++) {
			CHECK_EQ(getopt_int(s[e], opt[i].level, opt[i].name), opt[i].def);
			CHECK_EQ(setsockopt(s[e], opt[i].level, opt[i].name, &opt[i].val,
					    sizeof(int)), 0);
			CHECK_EQ(getopt_int(s[e], opt[i].level, opt[i].name), opt[i].val);
		}
	CHECK_ERR(setsockopt(s[0], SOL_SOCKET, 0x7777, s, sizeof(int)), ENOPROTOOPT);
	CHECK_ERR(getsockopt(s[0], SOL_SOCKET, SO_TYPE, NULL, NULL), EFAULT);
	CHECK_ERR(getsockopt(-1, SOL_SOCKET, SO_TYPE, s, &(socklen_t){ 4 }), EBADF);
}

static void a_short_buffer_gets_a_part_of_so_error(void)
{
	char small[4] = { 9, 9, 9, 9 };
	socklen_t len = 2;
	int s[2];

	rpc_pair(s);
	CHECK_EQ(getsockopt(s[0], SOL_SOCKET, SO_ERROR, small, &len), 0);
	CHECK_EQ(len, 2);
	CHECK_EQ(small[1], 0);
	CHECK_EQ(small[2], 9);
}

static socklen_t *volatile wild = (socklen_t *)1;

/* The kernel is the one that says so, whoever has the socket. */
static void pointers_to_no_memory(int fd, bool streams)
{
	void *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct { int name, value; } opt[] = { { SO_ERROR, 0 }, { SO_RCVLOWAT, 1 },
						    { SO_TYPE, streams ? SOCK_STREAM : SOCK_DGRAM } };
	struct sockaddr_storage a;
	socklen_t len = sizeof(int), room = sizeof(a);
	int v, file = open("/proc/self/exe", O_RDONLY);

	CHECK(none != MAP_FAILED && file >= 0);
	for (int i = 0; i < 3; i++) {
		CHECK_ERR(getsockopt(fd, SOL_SOCKET, opt[i].name, &v, none), EFAULT);
		CHECK_ERR(getsockopt(fd, SOL_SOCKET, opt[i].name, none, &len), EFAULT);
		CHECK_EQ(len, sizeof(int));
		CHECK_EQ(getopt_int(fd, SOL_SOCKET, opt[i].name), opt[i].value);
	}
	CHECK_ERR(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, none, sizeof(int)), EFAULT);
	CHECK_ERR(ioctl(fd, FIONREAD, none), EFAULT);
	CHECK_ERR(sendfile(fd, file, none, 1), EFAULT);
	CHECK_ERR(sendfile64(fd, file, none, 1), EFAULT);
	CHECK_ERR(getsockname(fd, (struct sockaddr *)&a, wild), EFAULT);
	for (int i = 0; i < 2; i++) {
		CHECK_ERR(getsockname(fd, none, &room), EFAULT);
		room = sizeof(a);
		CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &room), 0);
	}
	if (streams)
		CHECK_ERR(getpeername(fd, (struct sockaddr *)&a, wild), EFAULT);
	CHECK_EQ(munmap(none, 4096) | close(file), 0);
}

static void a_pointer_to_no_memory_is_refused(void)
{
	int s[2], t[2], v, udp = socket(AF_INET, SOCK_DGRAM, 0);

	if (P_SANITIZED)	/* which looks at the memory itself */
		return;
	pointers_to_no_memory(udp, false);
	CHECK_ERR(getsockopt(-1, SOL_SOCKET, SO_TYPE, &v, wild), EBADF);
	rpc_pair(s);
	p_pair(t);
	for (int i = 0; i < 2; i++) {
		pointers_to_no_memory(s[i], true);
		pointers_to_no_memory(t[i], true);
	}
	rpc_check_leg(s, 7);
}

/* FIONREAD says what the app can read, and leaves errno alone. */
static void what_can_be_read_is_told(void)
{
	unsigned char buf[256];
	size_t n = rpc_call(buf, 5, 0);
	int s[2], there = -1;

	rpc_pair(s);
	errno = EDOM;
	CHECK_EQ(ioctl(s[1], FIONREAD, &there), 0);
	CHECK_EQ(there, 0);
	p_write_all(s[0], buf, n);
	for (int i = 0; i < P_SOON && !there; i++) {
		CHECK_EQ(ioctl(s[1], FIONREAD, &there), 0);
		usleep(there ? 0 : 1000);
	}
	CHECK_EQ(there, n);
	CHECK_EQ(errno, EDOM);
	p_read_all(s[1], buf, n);
	CHECK_EQ(ioctl(s[1], FIONREAD, &there), 0);
	CHECK_EQ(there, 0);
}

/* Whatever has become of another descriptor, by which it was used last. */
static void so_error_is_asked_of_this_descriptor(void)
{
	char c;
	int s[2], fd;

	rpc_pair(s);
	fd = dup(s[0]);
	CHECK(fd >= 0);
	CHECK_ERR(recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
	close(fd);
	CHECK_EQ(getopt_int(s[0], SOL_SOCKET, SO_ERROR), 0);
	CHECK_EQ(getopt_int(s[1], SOL_SOCKET, SO_ERROR), 0);
}

static void flags_by_fcntl_and_ioctl_are_one(void)
{
	int s[2], on = 1, off = 0;
	char c;

	rpc_pair(s);
	CHECK_EQ(ioctl(s[0], FIONBIO, &on), 0);
	CHECK(fcntl(s[0], F_GETFL) & O_NONBLOCK);
	CHECK_ERR(read(s[0], &c, 1), EAGAIN);
	CHECK_EQ(ioctl(s[0], FIONBIO, &off), 0);
	CHECK(!(fcntl(s[0], F_GETFL) & O_NONBLOCK));
	CHECK_EQ(fcntl(s[0], F_SETFD, FD_CLOEXEC), 0);
	CHECK_EQ(fcntl(s[0], F_GETFD), FD_CLOEXEC);
	CHECK_EQ(ioctl(s[0], FIONCLEX), 0);
	CHECK_EQ(fcntl(s[0], F_GETFD), 0);
	CHECK_EQ(fcntl(s[0], F_SETOWN, getpid()), 0);
	CHECK_EQ(fcntl(s[0], F_GETOWN), getpid());
}

static void what_only_terminals_have_is_refused(void)
{
	struct termios t;
	int s[2], n = -1;

	rpc_pair(s);
	CHECK_ERR(ioctl(s[0], TCGETS, &t), ENOTTY);
	CHECK(!isatty(s[0]));
	CHECK_ERR(ioctl(-1, FIONREAD, &n), EBADF);
	CHECK_EQ(ioctl(s[0], TIOCOUTQ, &n), 0);
	CHECK_EQ(n, 0);
	CHECK_ERR(fcntl(s[0], 0x7777), EINVAL);
}

/* Who asks for notifications of zero-copy sends gets them. */
static void a_zero_copy_send_is_notified(void)
{
	struct msghdr m = { 0 };
	unsigned char buf[256];
	char ctl[128];
	int s[2], one = 1;

	p_pair(s);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)), 0);
	for (uint32_t i = 1; i < 4; i++) {
		size_t n = rpc_call(buf, i, 0);

		CHECK_EQ(send(s[0], buf, n, MSG_ZEROCOPY), n);
		rpc_serve_null(s[1]);
		CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
		m.msg_control = ctl;
		m.msg_controllen = sizeof(ctl);
		CHECK_EQ(recvmsg(s[0], &m, MSG_ERRQUEUE), 0);
		CHECK(m.msg_controllen > 0);
	}
}

static void what_can_be_spliced_arrives(void)
{
	unsigned char buf[256], got[256];
	size_t n = rpc_call(buf, 1, 0);
	int s[2], p[2];

	p_pair(s);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(write(p[1], buf, n), n);
	CHECK_EQ(splice(p[0], NULL, s[0], NULL, n, 0), n);
	p_read_all(s[1], got, n);
	CHECK(!memcmp(got, buf, n));
	p_write_all(s[1], buf, rpc_reply(buf, 1, 0));
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
}

/* A carried connection is refused (EINVAL), as by file systems that cannot; nothing is lost. */
static void what_cannot_be_spliced_stays(void)
{
	unsigned char buf[256];
	size_t n = rpc_call(buf, 9, 0);
	int s[2], p[2];

	rpc_pair(s);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(write(p[1], buf, n), n);
	if (splice(p[0], NULL, s[0], NULL, n, 0) < 0) {
		CHECK_EQ(errno, EINVAL);
		CHECK(p_carries());
		CHECK_EQ(read(p[0], buf, n), n);
		p_write_all(s[0], buf, n);
	}
	rpc_serve_null(s[1]);
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
}

static int asked[2];
static volatile sig_atomic_t answers, refusals;

/* What no socket that is well refuses, wherever the thread is. */
static void ask(int sig P_UNUSED)
{
	struct pollfd p = { asked[0], POLLIN, 0 };
	socklen_t len = sizeof(int);
	int e = errno, n, err = 0;
	char c;

	for (int i = 0; i < 2; i++) {
		refusals = refusals + (ioctl(asked[i], FIONREAD, &n) != 0);
		refusals = refusals + (getsockopt(asked[i], SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err);
		refusals = refusals + (poll(&p, 1, 0) < 0);
		refusals = refusals + (recv(asked[i], &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno != EAGAIN);
	}
	answers = answers + 1;
	errno = e;
}

static void a_handler_may_ask_at_any_point(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };	/* of the CPU's time */
	struct sigaction sa = { .sa_handler = ask, .sa_flags = SA_RESTART };
	unsigned char buf[RPC_CALL_HEAD + 2000];
	uint32_t xid = 10;

	rpc_pair(asked);
	CHECK_EQ(sigaction(SIGPROF, &sa, NULL), 0);
	CHECK_EQ(setitimer(ITIMER_PROF, &often, NULL), 0);
	while (answers < 100 && !refusals) {
		size_t n = rpc_call(buf, xid++, 2000);

		p_write_all(asked[0], buf, n);
		p_read_all(asked[1], buf, n);
	}
	CHECK_EQ(setitimer(ITIMER_PROF, &never, NULL), 0);
	CHECK_EQ(refusals, 0);
}

static const struct p_case cases[] = {
	{ "a_handler_may_ask_at_any_point", a_handler_may_ask_at_any_point },
	{ "it_is_a_tcp_socket", it_is_a_tcp_socket },
	{ "names_are_those_of_tcp", names_are_those_of_tcp },
	{ "options_read_back_as_set", options_read_back_as_set },
	{ "a_short_buffer_gets_a_part_of_so_error", a_short_buffer_gets_a_part_of_so_error },
	{ "a_pointer_to_no_memory_is_refused", a_pointer_to_no_memory_is_refused },
	{ "what_can_be_read_is_told", what_can_be_read_is_told },
	{ "so_error_is_asked_of_this_descriptor", so_error_is_asked_of_this_descriptor },
	{ "flags_by_fcntl_and_ioctl_are_one", flags_by_fcntl_and_ioctl_are_one },
	{ "what_only_terminals_have_is_refused", what_only_terminals_have_is_refused },
	{ "a_zero_copy_send_is_notified", a_zero_copy_send_is_notified },
	{ "what_can_be_spliced_arrives", what_can_be_spliced_arrives },
	{ "what_cannot_be_spliced_stays", what_cannot_be_spliced_stays },
};

P_MAIN(cases)
