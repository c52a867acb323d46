/* SPDX-License-Identifier: BSD-3-Clause */
#include "preload/logsink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/ownfd.h"

/* The descriptor is kept, for a daemon soon has neither the rights nor the root directory to
 * open the file again; but what is behind its number is looked at before each write, for the
 * app may have closed it unseen. System calls by syscall(): the names are interposed. */
static const char *path;
static _Atomic int log_fd = -1;
static _Atomic dev_t log_dev;
static _Atomic ino_t log_ino;

/* A number that neither the app's lowest-number rule nor its close loops are likely to come
 * near, and for which the kernel need not enlarge its table much. */
static int floor_of_ours(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur > 4096)
		return 4000;
	return lim.rlim_cur > 64 ? (int)lim.rlim_cur - 24 : 3;
}

/* A file, or a device as /dev/tty: a pipe without reader would be a SIGPIPE. */
static int open_log(struct stat *st)
{
	int high, fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT |
				    O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);

	if (fd < 0)
		return -1;
	high = fstat(fd, st) || !(S_ISREG(st->st_mode) || S_ISCHR(st->st_mode)) ? -1 :
	       (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floor_of_ours());
	syscall(SYS_close, fd);
	return high;
}

/* Puts a new descriptor in place of was, which is closed only if it is still ours. */
static int reopen(int was, bool ours)
{
	struct stat st;
	int now = was, fd = open_log(&st);

	if (fd < 0)
		return -1;
	if (!atomic_compare_exchange_strong(&log_fd, &now, fd)) {
		syscall(SYS_close, fd);	/* another thread did it */
		return now;
	}
	rr_ownfd_set(was, false);
	rr_ownfd_set(fd, true);
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

	if (!ours || !st.st_nlink)	/* deleted: begin a new one */
		fd = reopen(fd, ours);
	if (fd >= 0)
		syscall(SYS_write, fd, line, len);
}

/* What 2 was when the log was set up: a daemon that closes it may get a connection under that
 * number. */
static struct stat stderr_then;

static void to_stderr(const char *line, unsigned len)
{
	struct stat st;

	if (!fstat(2, &st) && st.st_dev == stderr_then.st_dev && st.st_ino == stderr_then.st_ino)
		syscall(SYS_write, 2, line, len);
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
