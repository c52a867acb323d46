/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines that go to syslog and the journal, or cannot go where they were told to: a /dev and a /run of the test's own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/ownfd.h"
#include "preload/logsink.h"

static int reader = -1;

/* A socket of that name, for whose messages nobody waits. */
static void listen_at(const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	strcpy(sa.sun_path, name);
	if (reader >= 0)
		close(reader);
	unlink(name);
	reader = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(reader, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(chmod(name, 0666), 0);
}

static void make(void)
{
	if (geteuid() || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/run", "tmpfs", 0, "mode=755") || mount("none", "/dev", "tmpfs", 0, "mode=755"))
		cr_skip("needs root and mount namespaces");
	cr_assert_eq(mkdir("/run/systemd", 0755) | mkdir("/run/systemd/journal", 0755), 0);
}

TestSuite(logsink_socket, .init = make);

/* The next message; "" where there is none. */
static const char *got(void)
{
	static char buf[1024];
	ssize_t n = recv(reader, buf, sizeof(buf) - 1, 0);

	buf[n < 0 ? 0 : n] = '\0';
	return buf;
}

static int log_fd(void)
{
	for (int fd = 0; fd < 70000; fd++)
		if (rr_ownfd_is(fd))
			return fd;
	return -1;
}

static ino_t inode(int fd)
{
	struct stat st;

	return fd < 0 || fstat(fd, &st) ? 0 : st.st_ino;
}

static void say(enum rr_log_level level)
{
	switch (level) {
	case RR_LOG_ERROR: rr_err("text"); break;
	case RR_LOG_WARN: rr_warn("text"); break;
	case RR_LOG_INFO: rr_info("text"); break;
	default: rr_debug("text"); break;
	}
}

/* RFC 5424's severities; daemon is facility 3. */
Test(logsink_socket, a_line_has_the_priority_of_its_level)
{
	static const unsigned severity[] = { [RR_LOG_ERROR] = 3, [RR_LOG_WARN] = 4, [RR_LOG_INFO] = 6, [RR_LOG_DEBUG] = 7 };
	char want[200];

	for (int journal = 0; journal < 2; journal++) {
		listen_at(journal ? "/run/systemd/journal/socket" : "/dev/log");
		errno = EXDEV;
		rr_logsink_setup(journal ? RR_LOG_TO_JOURNAL : RR_LOG_TO_SYSLOG, "", RR_LOG_DEBUG);
		cr_assert_eq(errno, EXDEV);
		for (int level = RR_LOG_ERROR; level <= RR_LOG_DEBUG; level++) {
			const char *name[] = { [RR_LOG_ERROR] = "error", [RR_LOG_WARN] = "warning", [RR_LOG_INFO] = "info",
					       [RR_LOG_DEBUG] = "debug" };
			const char *line;
			size_t n;

			say((enum rr_log_level)level);
			line = got();
			if (journal)
				snprintf(want, sizeof(want), "PRIORITY=%u\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=rdmarpc\nMESSAGE=",
					 severity[level]);
			else
				snprintf(want, sizeof(want), "<%u>rdmarpc[%d]: ", 24 + severity[level], getpid());
			n = strlen(want);
			cr_assert_eq(strncmp(line, want, n), 0, "%s", line);
			cr_assert_eq(strncmp(line + n, name[level], 4), 0, "%s", line);
			cr_assert_str_eq(strstr(line + n, ": "), journal ? ": text\n" : ": text", "%s", line);
		}
		cr_assert_str_eq(got(), "");
	}
}

Test(logsink_socket, the_descriptor_is_high_and_a_reader_that_comes_later_is_found)
{
	int lowest = dup(0), fd;

	close(lowest);
	rr_logsink_setup(RR_LOG_TO_JOURNAL, "", RR_LOG_WARN);
	rr_warn("nobody there");
	cr_assert_eq(log_fd(), -1);
	listen_at("/run/systemd/journal/socket");
	rr_warn("one");
	cr_assert(strstr(got(), "one\n"));
	fd = log_fd();
	cr_assert_geq(fd, rr_ownfd_floor(0));
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(dup(0), lowest + 1, "the reader has the lowest");
	/* It was started anew. */
	listen_at("/run/systemd/journal/socket");
	rr_warn("two");
	cr_assert(strstr(got(), "two\n"));
	cr_assert(fd == log_fd() || fcntl(fd, F_GETFD) < 0, "nothing leaks");
	/* Its number is another file's. */
	fd = log_fd();
	cr_assert_eq(dup2(0, fd), fd);
	rr_warn("three");
	cr_assert(strstr(got(), "three\n"));
	cr_assert_neq(log_fd(), fd);
	cr_assert_geq(fcntl(fd, F_GETFD), 0, "it is not ours to close");
}

Test(logsink_socket, a_reader_without_room_is_not_asked_twice)
{
	ino_t was;
	int n = 0;

	listen_at("/run/systemd/journal/socket");
	rr_logsink_setup(RR_LOG_TO_JOURNAL, "", RR_LOG_WARN);
	was = inode(log_fd());
	for (int i = 0; i < 5000; i++)
		rr_warn("line %d", i);
	cr_assert_eq(inode(log_fd()), was);
	while (strstr(got(), "MESSAGE="))
		n++;
	cr_assert(n > 0 && n < 5000);
}

/* Who has asked for a file is told by syslog why there is none. */
Test(logsink_socket, a_file_that_cannot_be_used_is_told_of_once)
{
	static const struct { const char *file, *why; } c[] = {
		{ "/run/absent/log", "no such directory" }, { "/run/link", "a symbolic link" }, { "/run/ro/log", "read-only" },
		{ "/run/fifo", "no file or device" }, { "/run", "error" }, { "/run/log/x", "error" },
	};
	char want[200];

	cr_assert_eq(symlink("/run/x", "/run/link") | mkfifo("/run/fifo", 0600) | mkdir("/run/ro", 0755), 0);
	close(open("/run/log", O_CREAT | O_WRONLY, 0644));
	cr_assert_eq(mount("none", "/run/ro", "tmpfs", MS_RDONLY, NULL), 0);
	listen_at("/dev/log");
	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		rr_logsink_setup(RR_LOG_TO_FILE, c[i].file, RR_LOG_WARN);
		snprintf(want, sizeof(want), "<28>rdmarpc[%d]: log_file %s cannot be used (%s): nothing is logged", getpid(), c[i].file,
			 c[i].why);
		cr_assert_str_eq(got(), want);
		rr_warn("x");
		cr_assert_str_eq(got(), "");
		cr_assert_eq(log_fd(), -1);
	}
	rr_logsink_setup(RR_LOG_TO_FILE, "/run/absent/log", RR_LOG_OFF);
	rr_logsink_setup(RR_LOG_TO_FILE, "", RR_LOG_WARN);
	cr_assert_str_eq(got(), "", "nobody has asked for one");
	cr_assert_eq(seteuid(12345), 0);
	rr_logsink_setup(RR_LOG_TO_FILE, "/run/mine", RR_LOG_WARN);
	cr_assert_eq(seteuid(0), 0);
	cr_assert(strstr(got(), "/run/mine cannot be used (permission denied): nothing"));
	rr_logsink_setup(RR_LOG_TO_FILE, "/run/mine", RR_LOG_WARN);
	cr_assert_str_eq(got(), "", "it can");
}

Test(logsink_socket, its_descriptor_goes_where_the_app_wants_its_number)
{
	int fd;

	listen_at("/dev/log");
	rr_logsink_setup(RR_LOG_TO_SYSLOG, "", RR_LOG_WARN);
	fd = log_fd();
	cr_assert_not(rr_logsink_move_fd(fd + 1));
	cr_assert(rr_ownfd_is(fd));
	cr_assert(rr_logsink_move_fd(fd));
	cr_assert_not(rr_ownfd_is(fd));
	cr_assert_not(rr_logsink_move_fd(fd));
	cr_assert_eq(dup2(0, fd), fd);
	rr_warn("on");
	cr_assert(strstr(got(), ": on"));
	cr_assert_neq(log_fd(), fd);
	cr_assert_geq(fcntl(fd, F_GETFD), 0);
}

/* Something is mounted over the directory of the log, where the first file has the same number. */
Test(logsink_socket, a_file_of_another_device_is_another_file)
{
	static const char log[] = "/run/logs/log";
	struct stat st = { 0 };
	ino_t was;

	cr_assert_eq(mkdir("/run/logs", 0755) | mount("none", "/run/logs", "tmpfs", 0, NULL), 0);
	rr_logsink_setup(RR_LOG_TO_FILE, log, RR_LOG_DEBUG);
	rr_warn("one");
	was = inode(log_fd());
	cr_assert_eq(mount("none", "/run/logs", "tmpfs", 0, NULL), 0);
	close(open(log, O_CREAT | O_WRONLY, 0644));
	cr_assert_eq(stat(log, &st), 0);
	cr_assert_eq(st.st_ino, was);
	for (int i = 0; i < 3000 && !st.st_size; i++) {
		rr_warn("to one of them");
		usleep(10000);
		cr_assert_eq(stat(log, &st), 0);
	}
	cr_assert_gt(st.st_size, 0);
}

/* It is the app's, who has closed the log's number and got it again. */
Test(logsink_socket, a_file_of_another_device_at_its_number_is_left_alone)
{
	static const char log[] = "/run/logs/log";
	int fd, other;
	ino_t was;

	cr_assert_eq(mkdir("/run/logs", 0755) | mount("none", "/run/logs", "tmpfs", 0, NULL), 0);
	rr_logsink_setup(RR_LOG_TO_FILE, log, RR_LOG_DEBUG);
	rr_warn("one");
	fd = log_fd();
	was = inode(fd);
	cr_assert_eq(mount("none", "/run/logs", "tmpfs", 0, NULL), 0);
	other = open("/run/logs/other", O_CREAT | O_RDWR, 0644);
	cr_assert_eq(inode(other), was);
	cr_assert_eq(dup2(other, fd), fd);
	rr_warn("two");
	cr_assert_geq(fcntl(fd, F_GETFD), 0);
	cr_assert_eq(lseek(other, 0, SEEK_END), 0);
	cr_assert_neq(log_fd(), fd);
}
