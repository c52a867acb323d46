/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/ownfd.h"
#include "preload/logsink.h"

static char dir[64], file[80];

static void make(void)
{
	strcpy(dir, "/tmp/rr-log-XXXXXX");
	cr_assert(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/log", dir);
}

static void clean(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	cr_assert_eq(system(cmd), 0);
}

TestSuite(logsink, .init = make, .fini = clean);

static unsigned lines(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned n = 0;
	int c;

	while (f && (c = fgetc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

/* Does the file have the text? It is short. */
static bool has(const char *path, const char *text)
{
	char buf[2048] = "";
	FILE *f = fopen(path, "r");

	if (f) {
		buf[fread(buf, 1, sizeof(buf) - 1, f)] = '\0';
		fclose(f);
	}
	return strstr(buf, text);
}

static int log_fd(void)
{
	for (int fd = 0; fd < 70000; fd++)
		if (rr_ownfd_is(fd))
			return fd;
	return -1;
}

Test(logsink, lines_are_appended_to_the_file)
{
	FILE *f = fopen(file, "w");

	fputs("before\n", f);
	fclose(f);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	rr_warn("one");
	rr_info("silent");
	rr_warn("two");
	cr_assert_eq(lines(file), 3);
	cr_assert_not(has(file, "left out"));
}

static uint64_t added;	/* to any set, a bit for each signal; bit 0: what is none */
static int adds;

/* In the place of libc's. */
int sigaddset(sigset_t *set, int sig)
{
	bool is = sig > 0 && sig < 64;

	adds++;
	added |= UINT64_C(1) << (is ? sig : 0);
	if (is)
		set->__val[(sig - 1) / (8 * sizeof(*set->__val))] |= 1UL << (sig - 1) % (8 * sizeof(*set->__val));
	return is ? 0 : -1;
}

Test(logsink, a_line_holds_back_what_a_write_can_bring_about_alone)
{
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	added = 0;
	adds = 0;
	rr_warn("one");
	cr_assert_eq(adds, 3, "no more is looked at than there is");
	cr_assert_eq(lines(file), 1);
	cr_assert_eq(added, UINT64_C(1) << SIGXFSZ | UINT64_C(1) << SIGPIPE | UINT64_C(1) << SIGTTOU);
}

/* Signals that a write can bring about are held back meanwhile, and no longer. */
Test(logsink, a_line_leaves_the_apps_signals_as_they_were)
{
	sigset_t mine, now;

	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	cr_assert_eq(sigprocmask(SIG_SETMASK, &mine, NULL), 0);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	rr_warn("one");
	cr_assert_eq(lines(file), 1);
	cr_assert_eq(sigprocmask(SIG_SETMASK, NULL, &now), 0);
	for (int sig = 1; sig < 32; sig++)
		cr_assert_eq(sigismember(&now, sig), sig == SIGUSR1, "%d", sig);
}

Test(logsink, its_descriptor_is_high_and_does_not_survive_exec)
{
	int fd, lowest = dup(0);

	close(lowest);
	errno = EXDEV;
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	cr_assert_eq(errno, EXDEV);
	fd = log_fd();
	cr_assert_geq(fd, rr_ownfd_floor(0));
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(dup(0), lowest);
	cr_assert_not(rr_ownfd_is(-1));
}

Test(logsink, a_new_file_is_written_by_its_owner_and_read_by_all)
{
	struct stat st;

	umask(0);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	cr_assert_eq(stat(file, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0644);
}

Test(logsink, where_no_standard_input_is_open_its_number_stays_free)
{
	close(0);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	rr_warn("one");
	cr_assert_eq(lines(file), 1);
	cr_assert_lt(fcntl(0, F_GETFD), 0);
}

Test(logsink, a_descriptor_closed_unseen_is_opened_again)
{
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	rr_warn("one");
	close(log_fd());
	rr_warn("two");
	cr_assert_eq(lines(file), 2);
}

Test(logsink, what_took_over_the_number_is_not_written_to_and_not_closed)
{
	char other[90];
	int fd;

	snprintf(other, sizeof(other), "%s/other", dir);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	fd = log_fd();
	cr_assert_eq(dup2(open(other, O_RDWR | O_CREAT, 0600), fd), fd);
	rr_warn("one");
	cr_assert_eq(lines(other), 0);
	cr_assert_eq(lines(file), 1);
	cr_assert_eq(write(fd, "x\n", 2), 2);
	cr_assert_eq(lines(other), 1);
	cr_assert_neq(log_fd(), fd);
}

Test(logsink, a_deleted_file_is_begun_anew_and_nothing_leaks)
{
	int fd;

	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	fd = log_fd();
	unlink(file);
	rr_warn("one");
	cr_assert_eq(lines(file), 1);
	cr_assert(fd == log_fd() || fcntl(fd, F_GETFD) < 0);
}

/* By logrotate: nobody has the name, or, with its "create", another file. At once, or within the second after the last look. */
static void rotated(bool create)
{
	char old[90];
	int fd;

	snprintf(old, sizeof(old), "%s/old", dir);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_DEBUG);
	rr_warn("one");
	fd = log_fd();
	cr_assert_eq(rename(file, old), 0);
	if (create)
		close(open(file, O_CREAT | O_WRONLY, 0644));
	for (int i = 0; i < 3000 && lines(file) == 0; i++) {
		rr_warn("to one of them");
		usleep(10000);
	}
	cr_assert_gt(lines(file), 0);
	cr_assert_geq(lines(old), 1);
	cr_assert(fd == log_fd() || fcntl(fd, F_GETFD) < 0, "nothing leaks");
}

Test(logsink, a_renamed_file_is_begun_anew)
{
	rotated(false);
}

Test(logsink, the_file_that_has_its_name_now_is_written_to)
{
	rotated(true);
}

static time_t second(void)
{
	struct timespec now;

	cr_assert_eq(clock_gettime(CLOCK_MONOTONIC_COARSE, &now), 0);
	return now.tv_sec;
}

/* Between two lines of one second nobody notices the new name; where the second ends it is tried again. */
Test(logsink, its_name_is_looked_at_once_a_second)
{
	time_t began;
	char old[90];

	snprintf(old, sizeof(old), "%s/old", dir);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_DEBUG);
	for (;;) {
		began = second();
		rr_warn("one");
		cr_assert_eq(rename(file, old), 0);
		rr_warn("two");
		if (second() == began)
			break;
		if (access(file, F_OK))
			cr_assert_eq(rename(old, file), 0);
	}
	cr_assert(has(old, "two"));
	cr_assert(access(file, F_OK), "there is a new one");
}

Test(logsink, a_renamed_file_goes_on_where_no_new_one_can_be_made)
{
	char old[90];
	unsigned n;

	if (geteuid())
		cr_skip("not root");
	cr_assert_eq(chown(dir, 65534, 65534) | seteuid(65534), 0);
	snprintf(old, sizeof(old), "%s/old", dir);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_DEBUG);
	rr_warn("one");
	cr_assert_eq(rename(file, old), 0);
	cr_assert_eq(chmod(dir, 0555), 0);
	n = lines(old);
	for (int i = 0; i < 130; i++) {
		rr_warn("on");
		usleep(10000);
	}
	cr_assert_eq(lines(old), n + 130);
	cr_assert_eq(chmod(dir, 0700), 0);
	cr_assert_eq(seteuid(0), 0);
}

Test(logsink, at_level_off_there_is_a_log_to_come)
{
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_OFF);
	rr_err("silent");
	cr_assert(access(file, F_OK));
	rr_log_follow(1 + RR_LOG_WARN);
	rr_warn("heard");
	cr_assert_eq(lines(file), 1);
}

Test(logsink, a_pipe_is_no_log)
{
	cr_assert_eq(mkfifo(file, 0600), 0);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	rr_warn("no reader: neither blocks nor is a SIGPIPE");
	cr_assert_eq(log_fd(), -1);
}

/* In a child, whose standard descriptors are a file: nothing of the app's is written to instead. */
Test(logsink, nor_is_one_with_a_reader)
{
	char other[90], c;
	int status;
	pid_t p;

	snprintf(other, sizeof(other), "%s/other", dir);
	cr_assert_eq(mkfifo(file, 0600), 0);
	p = fork();
	if (!p) {
		int reader = open(file, O_RDONLY | O_NONBLOCK), fd = open(other, O_RDWR | O_CREAT, 0600);

		for (int to = 0; to < 3; to++)
			dup2(fd, to);
		rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
		rr_warn("one");
		_exit(reader < 0 || log_fd() >= 0 || lines(other) > 0 || read(reader, &c, 1) > 0);
	}
	waitpid(p, &status, 0);
	cr_assert_eq(status, 0);
}

Test(logsink, a_file_that_cannot_be_opened_is_silence)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/absent/log", dir);
	rr_logsink_setup(RR_LOG_TO_FILE, path, RR_LOG_WARN);
	rr_warn("x");
	cr_assert_eq(log_fd(), -1);
}

Test(logsink, no_file_is_no_log)
{
	rr_logsink_setup(RR_LOG_TO_FILE, "", RR_LOG_DEBUG);
	cr_assert_eq(rr_log_level, RR_LOG_OFF);
	rr_log_follow(1 + RR_LOG_DEBUG);
	cr_assert_eq(rr_log_level, RR_LOG_OFF);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_OFF);
	cr_assert(access(file, F_OK));
}

/* In a child, whose 2 we may change. */
static int stderr_case(bool replaced)
{
	char err[90], other[90];
	int status;
	pid_t p;

	snprintf(err, sizeof(err), "%s/err", dir);
	snprintf(other, sizeof(other), "%s/conn", dir);
	p = fork();
	if (!p) {
		dup2(open(err, O_RDWR | O_CREAT | O_TRUNC, 0600), 2);
		rr_logsink_setup(RR_LOG_TO_FILE, "stderr", RR_LOG_WARN);
		if (replaced)
			dup2(open(other, O_RDWR | O_CREAT, 0600), 2);
		rr_warn("one");
		_exit(lines(err) * 10 + lines(other));
	}
	waitpid(p, &status, 0);
	return WEXITSTATUS(status);
}

Test(logsink, stderr_is_written_to_while_it_is_what_it_was)
{
	cr_assert_eq(stderr_case(false), 10);
	cr_assert_eq(stderr_case(true), 0, "2 may be a connection by now");
}

/* --- no line costs the app a signal, or time --- */

static volatile sig_atomic_t signals;

static void count_signal(int sig)
{
	signals += sig != 0;
}

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : st.st_size;
}

/* Writes lines in a child until none has room; its wait status. */
static int fill(void (*disposition)(int), rlim_t limit, bool blocked)
{
	struct rlimit lim = { limit, limit };
	sigset_t set;
	int status;
	pid_t p = fork();

	if (!p) {
		sigemptyset(&set);
		sigaddset(&set, SIGXFSZ);
		signal(SIGXFSZ, disposition);
		if (blocked) {
			sigprocmask(SIG_BLOCK, &set, NULL);
			raise(SIGXFSZ);	/* the app's own stays */
		}
		rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
		setrlimit(RLIMIT_FSIZE, &lim);
		for (int i = 0; i < 40; i++)
			rr_warn("a line of some length %d", i);
		sigpending(&set);
		_exit(signals * 2 + (sigismember(&set, SIGXFSZ) != blocked));
	}
	waitpid(p, &status, 0);
	return status;
}

Test(logsink, a_file_that_may_not_grow_ends_the_log_without_a_signal)
{
	static const rlim_t limits[] = { 0, 100, 512, 1024, 1 << 30 };

	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		unlink(file);
		cr_assert_eq(fill(SIG_DFL, limits[i], false), 0, "killed");
		cr_assert_leq(size_of(file), (off_t)limits[i]);
		cr_assert_eq(fill(SIG_IGN, limits[i], false), 0);
		cr_assert_eq(fill(count_signal, limits[i], false), 0);
		cr_assert_eq(fill(count_signal, limits[i], true), 0);
		cr_assert_leq(size_of(file), (off_t)limits[i]);
	}
	cr_assert_eq(lines(file), 160);
}

/* pending: the app has one of its own, blocked. A child's wait status. */
static int at_the_limit(bool pending)
{
	struct rlimit lim = { 2000, RLIM_INFINITY };
	sigset_t set;
	int status, fd;
	pid_t p = fork();

	if (!p) {
		signal(SIGXFSZ, count_signal);
		sigemptyset(&set);
		sigaddset(&set, SIGXFSZ);
		if (pending) {
			sigprocmask(SIG_BLOCK, &set, NULL);
			raise(SIGXFSZ);
		}
		rr_logsink_setup(RR_LOG_TO_FILE, "stderr", RR_LOG_WARN);
		fd = open(file, O_RDWR | O_CREAT, 0600);	/* not O_APPEND: behind what fstat() says */
		dup2(fd, 2);
		rr_logsink_setup(RR_LOG_TO_FILE, "stderr", RR_LOG_WARN);
		lseek(2, 2000, SEEK_SET);
		setrlimit(RLIMIT_FSIZE, &lim);
		rr_warn("one");
		lim.rlim_cur = RLIM_INFINITY;
		setrlimit(RLIMIT_FSIZE, &lim);
		lseek(2, 0, SEEK_SET);
		rr_warn("two");
		sigpending(&set);
		_exit(signals * 2 + (sigismember(&set, SIGXFSZ) != pending));
	}
	waitpid(p, &status, 0);
	return status;
}

Test(logsink, another_writer_at_the_limit_is_no_signal_either)
{
	cr_assert_eq(at_the_limit(true), 0);
	unlink(file);
	cr_assert_eq(at_the_limit(false), 0);
	cr_assert(has(file, "[1 lines left out] two"), "the line that had no room is missed");
}

/* A line that has no room is left out, not cut. */
Test(logsink, nor_does_stderr_grow_beyond_it)
{
	struct rlimit lim = { 200, 200 };
	char text[400] = "";
	int status, fd;
	pid_t p = fork();

	if (!p) {
		dup2(open(file, O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
		rr_logsink_setup(RR_LOG_TO_FILE, "stderr", RR_LOG_WARN);
		setrlimit(RLIMIT_FSIZE, &lim);
		for (int i = 0; i < 10; i++)
			rr_warn("a line of some length %d", i);
		_exit(0);
	}
	waitpid(p, &status, 0);
	cr_assert_eq(status, 0);
	fd = open(file, O_RDONLY);
	cr_assert_gt(read(fd, text, sizeof(text) - 1), 0);
	close(fd);
	cr_assert_lt(strlen(text), 200);
	cr_assert_eq(text[strlen(text) - 1], '\n', "%s", text);
}

/* stderr is a pipe: without a reader, or one that nobody reads from. */
static int pipe_case(bool reader, void (*disposition)(int))
{
	int status;
	pid_t p = fork();

	if (!p) {
		int ends[2];

		if (pipe(ends))
			_exit(99);
		signal(SIGPIPE, disposition);
		dup2(ends[1], 2);
		close(ends[1]);
		if (!reader)
			close(ends[0]);
		rr_logsink_setup(RR_LOG_TO_FILE, "stderr", RR_LOG_WARN);
		alarm(60);
		for (int i = 0; i < 2000; i++)
			rr_warn("many lines, which nobody reads: %100d", i);
		_exit(signals);
	}
	waitpid(p, &status, 0);
	return status;
}

Test(logsink, a_pipe_as_stderr_neither_kills_nor_blocks)
{
	cr_assert_eq(pipe_case(false, SIG_DFL), 0);
	cr_assert_eq(pipe_case(false, SIG_IGN), 0);
	cr_assert_eq(pipe_case(false, count_signal), 0);
	cr_assert_eq(pipe_case(true, SIG_DFL), 0);
}

Test(logsink, a_link_is_not_followed_and_devices_are_written_to)
{
	char victim[90];

	snprintf(victim, sizeof(victim), "%s/victim", dir);
	close(open(victim, O_CREAT | O_WRONLY, 0600));
	cr_assert_eq(symlink(victim, file), 0);
	rr_logsink_setup(RR_LOG_TO_FILE, file, RR_LOG_WARN);
	rr_warn("x");
	cr_assert_eq(log_fd(), -1);
	cr_assert_eq(size_of(victim), 0);
	rr_logsink_setup(RR_LOG_TO_FILE, "/dev/null", RR_LOG_WARN);
	rr_warn("x");
	cr_assert_geq(log_fd(), rr_ownfd_floor(0));
}

Test(logsink, a_terminal_does_not_become_the_controlling_one)
{
	int status;
	pid_t p = fork();

	if (!p) {
		int pty = open("/dev/ptmx", O_RDWR | O_NOCTTY);

		if (pty < 0 || grantpt(pty) || unlockpt(pty))
			_exit(77);
		setsid();
		rr_logsink_setup(RR_LOG_TO_FILE, ptsname(pty), RR_LOG_WARN);
		rr_warn("x");
		_exit(open("/dev/tty", O_RDWR) >= 0);
	}
	waitpid(p, &status, 0);
	if (status == 77 << 8)
		cr_skip("no terminals here");
	cr_assert_eq(status, 0);
}
