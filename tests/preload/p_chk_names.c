/* SPDX-License-Identifier: BSD-3-Clause */
/* The other names of calls: what -D_FORTIFY_SOURCE makes of them (this program is compiled so), and
 * second names that libc exports. */

#include "tests/preload/calls.h"

int __fcntl(int fd, int cmd, ...);
int __close(int fd);
int __connect(int fd, const struct sockaddr *addr, socklen_t len);
int __dup2(int fd, int to);
off_t __lseek(int fd, off_t off, int whence);

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *addr,
		       socklen_t *len);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		const sigset_t *mask, size_t room);

enum { SIZE = RPC_CALL_HEAD + 600 };

static unsigned char rec[SIZE];
static volatile size_t some = 50;	/* the compiler does not know how many */

static void put(int fd)
{
	p_write_all(fd, rec, rpc_call(rec, 5, SIZE - RPC_CALL_HEAD));
}

static void fortified_calls_read(void)
{
	unsigned char buf[100];
	struct pollfd p[2];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	size_t n = some;
	int s[2];

	rpc_pair(s);
	put(s[0]);
	p[0] = (struct pollfd){ s[1], POLLIN, 0 };
	CHECK_EQ(poll(p, n - 49, -1), 1);
	CHECK_EQ(ppoll(p, n - 49, NULL, NULL), 1);
	CHECK_EQ(read(s[1], buf, n), 50);
	CHECK_EQ(memcmp(buf, rec, 50), 0);
	CHECK_EQ(recv(s[1], buf, n, MSG_WAITALL), 50);
	CHECK_EQ(memcmp(buf, rec + 50, 50), 0);
	CHECK_EQ(recvfrom(s[1], buf, n, 0, (struct sockaddr *)&from, &len), 50);
	CHECK_EQ(memcmp(buf, rec + 100, 50), 0);
	CHECK_EQ(len, 0);
}

static void the_checks_themselves(void)
{
	unsigned char buf[100];
	struct pollfd p;
	int s[2];

	rpc_pair(s);
	put(s[0]);
	p = (struct pollfd){ s[1], POLLIN, 0 };
	CHECK_EQ(__poll_chk(&p, 1, -1, sizeof(p)), 1);
	CHECK_EQ(__ppoll_chk(&p, 1, NULL, NULL, sizeof(p)), 1);
	CHECK_EQ(__read_chk(s[1], buf, 50, 50), 50);
	CHECK_EQ(__recv_chk(s[1], buf, 50, 100, MSG_PEEK), 50);
	CHECK_EQ(__recv_chk(s[1], buf, 50, 50, 0), 50);
	CHECK_EQ(__recvfrom_chk(s[1], buf, 50, 50, 0, NULL, NULL), 50);
	CHECK_EQ(memcmp(buf, rec + 100, 50), 0);
	CHECK_ERR(__read_chk(-1, buf, 1, 1), EBADF);
	CHECK_ERR(__recv_chk(s[1], NULL, 4, 4, 0), EFAULT);
}

static int which, conn_fd;

static volatile size_t more = 101, three = 3;

static long overflow(void)
{
	unsigned char buf[100];
	struct pollfd p[2] = { { conn_fd, POLLIN, 0 }, { conn_fd, POLLIN, 0 } };

	close(2);	/* libc says what it thinks of this */
	switch (which) {
	case 0: return read(conn_fd, buf, more);
	case 1: return recv(conn_fd, buf, more, 0);
	case 2: return recvfrom(conn_fd, buf, more, 0, NULL, NULL);
	case 3: return poll(p, three, 0);
	default: return ppoll(p, three, NULL, NULL);
	}
}

static void too_little_room_aborts(void)
{
	int s[2], status;

	if (!_FORTIFY_SOURCE)
		return;
	rpc_pair(s);
	put(s[0]);
	conn_fd = s[1];
	for (which = 0; which < 5; which++) {
		pid_t pid = fork();

		if (!pid) {
			_exit((int)overflow());
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
}

static void second_names_do_the_same(void)
{
	struct sockaddr_in at;
	pthread_t t;
	int l = p_listen(&at), c = socket(AF_INET, SOCK_STREAM, 0), a, d;
	unsigned char buf[64];

	CHECK_EQ(__connect(c, (struct sockaddr *)&at, sizeof(at)), 0);
	a = accept(l, NULL, NULL);
	pthread_create(&t, NULL, rpc_null_server, &a);
	rpc_null(c, 1);
	pthread_join(t, NULL);
	rpc_check_leg((int[]){ c, a }, 2);
	CHECK_EQ(__fcntl(c, F_GETFL) & O_NONBLOCK, 0);
	CHECK_EQ(fcntl64(c, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	CHECK(__fcntl(c, F_GETFL) & O_NONBLOCK);
	CHECK_ERR(__read(c, buf, 1), EAGAIN);
	d = __fcntl(c, F_DUPFD, 300);
	CHECK_EQ(d, 300);
	CHECK_EQ(fcntl64(c, F_DUPFD_CLOEXEC, 300), 301);
	CHECK_EQ(__dup2(c, 400), 400);
	CHECK_EQ(__close(c), 0);
	CHECK_EQ(__close(301), 0);
	CHECK_EQ(__write(400, buf, rpc_call(buf, 3, 0)), RPC_CALL_HEAD);
	CHECK_EQ(__poll(&(struct pollfd){ a, POLLIN, 0 }, 1, P_SOON), 1);
	CHECK_EQ(__read(a, buf, sizeof(buf)), RPC_CALL_HEAD);
	CHECK_EQ(__send(a, buf, rpc_reply(buf, 3, 0), 0), RPC_REPLY_HEAD);
	CHECK(p_readable(300, P_SOON));
	CHECK_EQ(__read(300, buf, sizeof(buf)), RPC_REPLY_HEAD);
	CHECK_ERR(__lseek(300, 0, SEEK_CUR), ESPIPE);
	CHECK_ERR(lseek64(300, 0, SEEK_SET), ESPIPE);
	CHECK_EQ(__close(300), 0);
	CHECK_EQ(__close(400), 0);
	CHECK_EQ(__read(a, buf, 1), 0);
}

static const struct p_case cases[] = {
	{ "fortified_calls_read", fortified_calls_read },
	{ "the_checks_themselves", the_checks_themselves },
	{ "too_little_room_aborts", too_little_room_aborts },
	{ "second_names_do_the_same", second_names_do_the_same },
};

P_MAIN(cases)
