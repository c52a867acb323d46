/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes log lines where options log_to and log_file say: a file, stderr, syslog or the
 * journal. Never raises a signal in the app and never makes it wait; a line that cannot be
 * written is dropped. */
#include "preload/logsink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/ownfd.h"
#include "core/base/types.h"

/* A log file's descriptor is kept open, because a daemon soon has neither the rights nor the
 * root directory to open the file again. The app may close it unseen, so each write first
 * checks what is behind the number. System calls go by syscall(), since libc's names are
 * interposed. */
static const char *log_path;
/* The descriptor of the log file, or of the socket that leads to syslog or the journal. */
static _Atomic int log_fd = -1;
static _Atomic dev_t log_dev;
static _Atomic ino_t log_ino;

/* --- writing --- */

#define RR_LOG_SYSLOG	"/dev/log"
#define RR_LOG_JOURNAL	"/run/systemd/journal/socket"
#define RR_LOG_UNUSABLE	256u	/* bytes of say_unusable()'s line */

#define KERNEL_SIGSET	(_NSIG / 8)	/* bytes of the kernel's signal set; libc's type is
					 * larger */

/* The thread's signal mask, by system call: async-signal-safe, and no interposer sees it. */
static int set_mask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)syscall(SYS_rt_sigprocmask, how, set, old, KERNEL_SIGSET);
}

/* Was sig pending before our write? Only signals that the app has blocked can be. */
static bool was_pending(int sig, const sigset_t *blocked)
{
	sigset_t now;

	return sigismember(blocked, sig) == 1 &&
	       !syscall(SYS_rt_sigpending, &now, KERNEL_SIGSET) && sigismember(&now, sig) == 1;
}

/* Writes a line, or as much of it as fits. The writing thread gets a signal from a file that
 * may not grow (SIGXFSZ), a pipe without a reader (SIGPIPE) or a terminal in the background
 * (SIGTTOU): these are blocked meanwhile, and one that our write has raised is consumed.
 * Returns false if nothing was written. */
static bool write_quietly(int fd, const char *line, unsigned len)
{
	static const int sigs[] = { SIGXFSZ, SIGPIPE };
	static const struct timespec no_time;
	bool before[rr_array_size(sigs)];
	sigset_t ours, was, one;
	long n;

	sigemptyset(&ours);
	sigaddset(&ours, SIGTTOU);
	for (size_t i = 0; i < rr_array_size(sigs); i++)
		sigaddset(&ours, sigs[i]);
	if (set_mask(SIG_BLOCK, &ours, &was))
		return false;
	for (size_t i = 0; i < rr_array_size(sigs); i++)
		before[i] = was_pending(sigs[i], &was);
	n = syscall(SYS_write, fd, line, len);
	if (n < 0 && (errno == EFBIG || errno == EPIPE)) {
		size_t which = errno == EPIPE;

		sigemptyset(&one);
		sigaddset(&one, sigs[which]);
		if (!before[which])
			syscall(SYS_rt_sigtimedwait, &one, NULL, &no_time, KERNEL_SIGSET);
	}
	set_mask(SIG_SETMASK, &was, NULL);
	return n >= 0;
}

/* --- the file --- */

/* Opens the log file and returns its descriptor, or -1. Regular files and character devices
 * (/dev/tty, /dev/null) are accepted. A pipe is not, since its reader could make us wait; nor
 * is a symbolic link, since another user may have put it there: a directory for logs need not
 * be root's alone. */
static int open_log(struct stat *st)
{
	int high, fd = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND |
				    O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
				    O_NOFOLLOW | O_LARGEFILE, 0644);

	if (fd < 0)
		return -1;
	high = fstat(fd, st) || !(S_ISREG(st->st_mode) || S_ISCHR(st->st_mode)) ? -1 :
	       rr_ownfd_dup(fd);
	syscall(SYS_close, fd);
	return high;
}

/* Would the file exceed RLIMIT_FSIZE with len bytes more? Then the line is left out rather than
 * cut. */
static bool file_is_full(const struct stat *st, unsigned len)
{
	struct rlimit lim;

	return S_ISREG(st->st_mode) && !getrlimit(RLIMIT_FSIZE, &lim) &&
	       lim.rlim_cur != RLIM_INFINITY && (rlim_t)st->st_size + len > lim.rlim_cur;
}

/* Installs fd, whose fstat() is st, in place of the descriptor was. was is closed only if it is
 * still ours. Returns the descriptor in use, -1 if fd is -1. */
static int put_in_place(int fd, const struct stat *st, int was, bool ours)
{
	int now = was;

	if (fd < 0)
		return -1;
	if (!atomic_compare_exchange_strong(&log_fd, &now, fd)) {
		rr_ownfd_close(fd);	/* another thread has installed one */
		return now;
	}
	rr_ownfd_set(was, false);
	log_dev = st->st_dev;
	log_ino = st->st_ino;
	if (ours)
		syscall(SYS_close, was);
	return fd;
}

static int reopen(int was, bool ours)
{
	struct stat st;

	return put_in_place(open_log(&st), &st, was, ours);
}

/* Is fd still the file that was opened? *st is what is behind it now. */
static bool is_open(int fd, struct stat *st)
{
	return fd >= 0 && !fstat(fd, st) && st->st_dev == log_dev && st->st_ino == log_ino;
}

static _Atomic time_t looked;	/* the second in which the file's name was last checked */

/* Has the log file been renamed or removed (logrotate)? Checks at most once a second. */
static bool was_renamed(void)
{
	struct timespec now;
	struct stat st;
	time_t then = atomic_load(&looked);

	if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) || now.tv_sec == then ||
	    !atomic_compare_exchange_strong(&looked, &then, now.tv_sec))
		return false;
	if (stat(log_path, &st))
		return errno == ENOENT;
	return st.st_dev != log_dev || st.st_ino != log_ino;
}

/* The sink of a log file. Opens it anew if it was closed, removed or renamed. */
static bool to_file(enum rr_log_level level, const char *line, unsigned len, unsigned at)
{
	int fd = log_fd, next;
	struct stat st;
	bool ours = is_open(fd, &st);

	(void)level, (void)at;
	if (!ours || !st.st_nlink || was_renamed()) {
		next = reopen(fd, ours);
		if (next >= 0) {	/* if it cannot be opened anew, the old file is written
					 * on */
			fd = next;
			ours = !fstat(fd, &st);
		}
	}
	return ours && !file_is_full(&st, len) && write_quietly(fd, line, len);
}

/* What fd 2 was when the log was set up. A daemon that closes it may later get a connection
 * under that number. */
static struct stat stderr_then;

/* Can fd be written without blocking? */
static bool takes_more(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct timespec no_time = { 0 };

	return syscall(SYS_ppoll, &p, 1, &no_time, NULL, KERNEL_SIGSET) == 1 &&
	       p.revents == POLLOUT;
}

/* The sink of stderr. A line is dropped while it would block, as with a full pipe or a stopped
 * terminal. */
static bool to_stderr(enum rr_log_level level, const char *line, unsigned len, unsigned at)
{
	struct stat st;

	(void)level, (void)at;
	return !fstat(2, &st) && st.st_dev == stderr_then.st_dev &&
	       st.st_ino == stderr_then.st_ino && !file_is_full(&st, len) && takes_more(2) &&
	       write_quietly(2, line, len);
}

/* --- syslog and the journal: datagrams to a socket with a name --- */

static const char *socket_name;	/* /dev/log, or the journal's */
static bool journal;

/* A datagram socket connected to socket_name; -1. Fills in *st. */
static int open_socket(struct stat *st)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int high, fd = (int)syscall(SYS_socket, AF_UNIX,
				    SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	rr_fmt(sa.sun_path, sizeof(sa.sun_path), "%s", socket_name);
	high = syscall(SYS_connect, fd, &sa, sizeof(sa)) || fstat(fd, st) ? -1
									  : rr_ownfd_dup(fd);
	syscall(SYS_close, fd);
	return high;
}

/* Sends one line in the format of syslog (RFC 3164's header) or of the journal. */
static bool send_line(int fd, enum rr_log_level level, const char *text, unsigned len)
{
	static const uint8_t severity[] = { 3, 3, 4, 6, 7 };	/* by level, RFC 5424 §6.2.1 */
	char head[96];
	unsigned n =
		journal ? rr_fmt(head, sizeof(head),
				 "PRIORITY=%u\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER="
				 "rdmarpc\nMESSAGE=",
				 severity[level])
			: rr_fmt(head, sizeof(head),
				 "<%u>rdmarpc[%d]: ", 3 << 3 | severity[level], (int)getpid());
	struct iovec iov[2] = { { head, n },
				{ (void *)(uintptr_t)text, journal ? len : len - 1 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

	return syscall(SYS_sendmsg, fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* The sink of syslog and the journal. Connects once more if the reader was restarted, but not
 * if it has no room. */
static bool to_socket(enum rr_log_level level, const char *line, unsigned len, unsigned at)
{
	int fd = log_fd;
	struct stat st;
	bool ours = is_open(fd, &st);

	if (ours && send_line(fd, level, line + at, len - at))
		return true;
	if (ours && (errno == EAGAIN || errno == ENOBUFS || errno == EMSGSIZE))
		return false;
	fd = put_in_place(open_socket(&st), &st, fd, ours);
	return fd >= 0 && send_line(fd, level, line + at, len - at);
}

/* The log file cannot be used: says so to syslog, in one line, for whoever has asked for the
 * log. */
static void say_unusable(int error)
{
	char line[RR_LOG_UNUSABLE];
	unsigned n = rr_fmt(line, sizeof(line),
			    "log_file %s cannot be used (%s): nothing is logged\n", log_path,
			    error == ENOENT            ? "no such directory"
			    : error == EACCES          ? "permission denied"
			    : error == ELOOP           ? "a symbolic link"
			    : error == EROFS           ? "read-only"
			    : error == ENXIO || !error ? "no file or device"
						       : "error");
	struct stat st;
	int fd;

	socket_name = RR_LOG_SYSLOG;
	fd = open_socket(&st);
	if (fd >= 0)
		send_line(fd, RR_LOG_WARN, line, n);
	rr_ownfd_close(fd);
}

/* --- which sink --- */

static void set_up_file(const char *file, enum rr_log_level level)
{
	if (!strcmp(file, "stderr")) {
		rr_log_setup(level, fstat(2, &stderr_then) ? NULL : to_stderr);
		return;
	}
	rr_log_setup(level, file[0] ? to_file : NULL);
	errno = 0;
	if (file[0] == '/' && level != RR_LOG_OFF && reopen(-1, false) < 0)
		say_unusable(errno);
}

void rr_logsink_setup(enum rr_log_to to, const char *file, enum rr_log_level level)
{
	int saved = errno;
	struct stat st;

	log_path = file;
	journal = to == RR_LOG_TO_JOURNAL;
	if (to == RR_LOG_TO_FILE) {
		set_up_file(file, level);
	} else {
		socket_name = journal ? RR_LOG_JOURNAL : RR_LOG_SYSLOG;
		rr_log_setup(level, to_socket);
		put_in_place(open_socket(&st), &st, -1, false);
	}
	errno = saved;
}

bool rr_logsink_move_fd(int fd)
{
	int ours = fd;

	if (!atomic_compare_exchange_strong(&log_fd, &ours, -1))
		return false;
	rr_ownfd_set(fd, false);
	return true;	/* the next line opens the log again */
}
