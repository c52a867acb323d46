/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes log lines to the file of option log_file, or to standard error, without a signal to the app
 * and without making it wait. */
#include "preload/logsink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/ownfd.h"
#include "core/base/types.h"

/* The descriptor is kept, for a daemon soon has neither the rights nor the root directory to
 * open the file again; but what is behind its number is looked at before each write, for the
 * app may have closed it unseen. System calls by syscall(): the names are interposed. */
static const char *path;
static _Atomic int log_fd = -1;
static _Atomic dev_t log_dev;
static _Atomic ino_t log_ino;

/* --- writing --- */

#define KERNEL_SIGSET	(_NSIG / 8)	/* bytes, of which libc's type has more */

static int set_mask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)syscall(SYS_rt_sigprocmask, how, set, old, KERNEL_SIGSET);
}

/* Was sig pending before our write? Only what the app has blocked can be. */
static bool was_pending(int sig, const sigset_t *blocked)
{
	sigset_t now;

	return sigismember(blocked, sig) == 1 && !syscall(SYS_rt_sigpending, &now, KERNEL_SIGSET) &&
	       sigismember(&now, sig) == 1;
}

/* Writes a line, or as much of it as there is room for. A file that may not grow (SIGXFSZ), a pipe
 * without a reader (SIGPIPE) and a terminal in the background (SIGTTOU) send a signal to the thread
 * that writes: it is blocked, and taken away again. */
static void write_quietly(int fd, const char *line, unsigned len)
{
	static const int sigs[] = { SIGXFSZ, SIGPIPE };
	static const struct timespec no_time;
	bool before[rr_array_size(sigs)];
	sigset_t ours, was, one;

	sigemptyset(&ours);
	sigaddset(&ours, SIGTTOU);
	for (size_t i = 0; i < rr_array_size(sigs); i++)
		sigaddset(&ours, sigs[i]);
	if (set_mask(SIG_BLOCK, &ours, &was))
		return;
	for (size_t i = 0; i < rr_array_size(sigs); i++)
		before[i] = was_pending(sigs[i], &was);
	if (syscall(SYS_write, fd, line, len) < 0 && (errno == EFBIG || errno == EPIPE)) {
		size_t which = errno == EPIPE;

		sigemptyset(&one);
		sigaddset(&one, sigs[which]);
		if (!before[which])
			syscall(SYS_rt_sigtimedwait, &one, NULL, &no_time, KERNEL_SIGSET);
	}
	set_mask(SIG_SETMASK, &was, NULL);
}

/* --- the file --- */

/* A file, or a device as /dev/tty or /dev/null; no pipe, whose reader could make us wait, and no link,
 * which another user may have put there: a directory for logs need not be root's alone. */
static int open_log(struct stat *st)
{
	int high, fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT |
				    O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW, 0644);

	if (fd < 0)
		return -1;
	high = fstat(fd, st) || !(S_ISREG(st->st_mode) || S_ISCHR(st->st_mode)) ? -1 :
	       rr_ownfd_dup(fd);
	syscall(SYS_close, fd);
	return high;
}

/* Would the file become too large with so much more? Then the line is left out, rather than cut. */
static bool is_full(const struct stat *st, unsigned len)
{
	struct rlimit lim;

	return S_ISREG(st->st_mode) && !getrlimit(RLIMIT_FSIZE, &lim) &&
	       lim.rlim_cur != RLIM_INFINITY && (rlim_t)st->st_size + len > lim.rlim_cur;
}

/* Puts a new descriptor in place of was, which is closed only if it is still ours. */
static int reopen(int was, bool ours)
{
	struct stat st;
	int now = was, fd = open_log(&st);

	if (fd < 0)
		return -1;
	if (!atomic_compare_exchange_strong(&log_fd, &now, fd)) {
		rr_ownfd_close(fd);	/* another thread did it */
		return now;
	}
	rr_ownfd_set(was, false);
	log_dev = st.st_dev;
	log_ino = st.st_ino;
	if (ours)
		syscall(SYS_close, was);
	return fd;
}

static void to_file(const char *line, unsigned len)
{
	int fd = log_fd;
	struct stat st;
	bool ours = fd >= 0 && !fstat(fd, &st) && st.st_dev == log_dev && st.st_ino == log_ino;

	if (!ours || !st.st_nlink) {	/* deleted: begin a new one */
		fd = reopen(fd, ours);
		ours = fd >= 0 && !fstat(fd, &st);
	}
	if (ours && !is_full(&st, len))
		write_quietly(fd, line, len);
}

/* What 2 was when the log was set up: a daemon that closes it may get a connection under that
 * number. */
static struct stat stderr_then;

static bool takes_more(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct timespec no_time = { 0 };

	return syscall(SYS_ppoll, &p, 1, &no_time, NULL, KERNEL_SIGSET) == 1 && p.revents == POLLOUT;
}

/* Not while that would block: a full pipe, a stopped terminal. */
static void to_stderr(const char *line, unsigned len)
{
	struct stat st;

	if (!fstat(2, &st) && st.st_dev == stderr_then.st_dev && st.st_ino == stderr_then.st_ino &&
	    !is_full(&st, len) && takes_more(2))
		write_quietly(2, line, len);
}

void rr_logsink_setup(const char *file, enum rr_log_level level)
{
	int saved = errno;

	path = file;
	if (!strcmp(file, "stderr"))
		rr_log_setup(level, fstat(2, &stderr_then) ? NULL : to_stderr);
	else
		rr_log_setup(level, file[0] && level != RR_LOG_OFF ? to_file : NULL);
	if (file[0] == '/' && level != RR_LOG_OFF)
		reopen(-1, false);
	errno = saved;
}

bool rr_logsink_move_fd(int fd)
{
	int ours = fd;

	if (!atomic_compare_exchange_strong(&log_fd, &ours, -1))
		return false;
	rr_ownfd_set(fd, false);
	return true;	/* opened again by the next line */
}
