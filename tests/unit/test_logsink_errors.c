/* SPDX-License-Identifier: BSD-3-Clause */
/* What the log does about errors of its socket, of its mask, and where it gets no descriptor. The system calls are
 * played. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static long played(long nr, ...);

#define syscall(...) played(__VA_ARGS__)
#include "preload/logsink.c"
#undef syscall

static int ends[2], sockets, connects, sends, send_err;
static bool no_socket, no_mask;

/* The first send fails as it is to. */
static long played(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (nr == SYS_socket) {
		sockets++;
		errno = EMFILE;
		return no_socket ? -1 : dup(ends[0]);
	}
	if (nr == SYS_connect) {
		connects++;
		return 0;
	}
	if (nr == SYS_sendmsg && !sends++ && send_err) {
		errno = send_err;
		return -1;
	}
	if (nr == SYS_rt_sigprocmask && no_mask) {
		errno = EFAULT;
		return -1;
	}
	return syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void begin_errors(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
	errno = EXDEV;
}

TestSuite(logsink_errors, .init = begin_errors);

static bool is_told(const char *text)
{
	char buf[500];
	ssize_t n = recv(ends[1], buf, sizeof(buf) - 1, MSG_DONTWAIT);

	buf[n < 0 ? 0 : n] = '\0';
	return strstr(buf, text);
}

Test(logsink_errors, who_has_no_room_is_left_alone_and_who_has_gone_is_sought_again)
{
	static const struct { int err; bool again; } c[] = {
		{ EAGAIN, false }, { ENOBUFS, false }, { EMSGSIZE, false }, { ECONNREFUSED, true }, { ENOTCONN, true },
		{ EPIPE, true },
	};

	rr_logsink_setup(RR_LOG_TO_SYSLOG, "", RR_LOG_WARN);
	cr_assert(sockets == 1 && connects == 1 && errno == EXDEV);
	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		sockets = connects = sends = 0;
		send_err = c[i].err;
		errno = EXDEV;
		rr_warn("a line");
		cr_assert_eq(errno, EXDEV);
		cr_assert(sockets == c[i].again && connects == c[i].again && sends == 1 + c[i].again, "%zu", i);
		cr_assert_eq(is_told("a line"), c[i].again, "%zu", i);
		send_err = 0;
		rr_warn("another");
		cr_assert(is_told("another") && sockets == c[i].again, "%zu", i);
	}
}

Test(logsink_errors, who_gets_no_descriptor_has_no_log_until_it_gets_one)
{
	no_socket = true;
	rr_logsink_setup(RR_LOG_TO_JOURNAL, "", RR_LOG_WARN);
	cr_assert(sockets == 1 && !connects && errno == EXDEV);
	cr_assert_eq(log_fd, -1);
	rr_warn("a line");
	cr_assert(sockets == 2 && !connects && !sends && log_fd == -1);
	no_socket = false;
	rr_warn("another");
	cr_assert(connects == 1 && is_told("another"));
	cr_assert_geq(log_fd, 3);
}

/* The app has put another file at its number, and an error of the app's is no answer of the reader's. */
Test(logsink_errors, an_earlier_error_is_none_of_the_sockets)
{
	int other[2], fd;

	cr_assert_eq(pipe(other), 0);
	rr_logsink_setup(RR_LOG_TO_SYSLOG, "", RR_LOG_WARN);
	fd = log_fd;
	cr_assert_eq(dup2(other[1], fd), fd);
	errno = EAGAIN;
	rr_warn("a line");
	cr_assert_eq(errno, EAGAIN);
	cr_assert(is_told("a line") && sockets == 2 && log_fd != fd);
	cr_assert_geq(fcntl(fd, F_GETFD), 0);
}

/* The app has closed 0. */
Test(logsink_errors, a_socket_may_have_the_number_0_for_a_moment)
{
	close(0);
	rr_logsink_setup(RR_LOG_TO_SYSLOG, "", RR_LOG_WARN);
	cr_assert(connects == 1 && log_fd >= 3);
	cr_assert_eq(fcntl(0, F_GETFD), -1);
	rr_warn("a line");
	cr_assert(is_told("a line") && sockets == 1);
}

Test(logsink_errors, a_file_that_can_be_used_is_made_at_once_and_told_to_nobody)
{
	char dir[] = "/tmp/rr-log-XXXXXX", name[40];

	cr_assert_not_null(mkdtemp(dir));
	snprintf(name, sizeof(name), "%s/log", dir);
	rr_logsink_setup(RR_LOG_TO_FILE, name, RR_LOG_WARN);
	cr_assert(!sockets && log_fd >= 3);
	cr_assert_eq(unlink(name), 0);
	cr_assert_eq(rmdir(dir), 0);
}

/* Where it is made depends on where the app is by then. */
Test(logsink_errors, a_file_without_a_whole_path_is_made_when_there_is_a_line)
{
	char dir[] = "/tmp/rr-log-XXXXXX";

	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
	rr_logsink_setup(RR_LOG_TO_FILE, "log", RR_LOG_WARN);
	cr_assert(!sockets && log_fd == -1);
	cr_assert_eq(access("log", F_OK), -1);
	rr_warn("a line");
	cr_assert_geq(log_fd, 3);
	cr_assert_eq(unlink("log"), 0);
	cr_assert_eq(chdir("/"), 0);
	cr_assert_eq(rmdir(dir), 0);
}

/* A signal that the write raises would be the app's. */
Test(logsink_errors, what_cannot_be_written_without_a_signal_is_not)
{
	int p[2];
	char buf[4] = "";

	cr_assert_eq(pipe(p), 0);
	no_mask = true;
	cr_assert_not(write_quietly(p[1], "x\n", 2));
	no_mask = false;
	cr_assert(write_quietly(p[1], "y\n", 2));
	cr_assert_eq(read(p[0], buf, 4), 2);
	cr_assert_str_eq(buf, "y\n");
}
