/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* --- which directory --- */

bool rr_rundir_place(const char *configured, const char *xdg, unsigned n, char out[RR_RUN_PATH])
{
	if (configured && *configured) {
		rr_fmt(out, RR_RUN_PATH, "%s", configured);
		return n == 0;
	}
	if (n == 0) {
		rr_fmt(out, RR_RUN_PATH, "%s", RR_RUN_DIR);
		return true;
	}
	if (n > 1 || !xdg || xdg[0] != '/' || strlen(xdg) > RR_RUN_PATH - sizeof("/rdmarpc"))
		return false;
	rr_fmt(out, RR_RUN_PATH, "%s/rdmarpc", xdg);
	return true;
}

bool rr_rundir_use(const char *dir)
{
	uid_t me = geteuid();
	struct stat st;

	/* The mode again by chmod(), past the umask; only by whoever made it. */
	if (!mkdir(dir, 0700) && me == 0)
		chmod(dir, 01777);
	if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || (st.st_uid != 0 && st.st_uid != me))
		return false;
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return false;
	return !faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS);
}

bool rr_rundir_find(const char *configured, const char *xdg, char out[RR_RUN_PATH])
{
	for (unsigned n = 0; rr_rundir_place(configured, xdg, n, out); n++)
		if (rr_rundir_use(out))
			return true;
	out[0] = '\0';
	return false;
}

bool rr_rundir_stopped(const char *dir)
{
	char path[RR_RUN_PATH + sizeof(RR_RUN_STOP)];
	struct stat st;

	if (!dir[0])
		return false;
	rr_fmt(path, sizeof(path), "%s/" RR_RUN_STOP, dir);
	return !lstat(path, &st) && (st.st_uid == 0 || st.st_uid == geteuid());
}

/* --- names --- */

static bool number(const char **p, uint64_t *v)
{
	const char *start = *p;

	for (*v = 0; **p >= '0' && **p <= '9'; (*p)++)
		if (__builtin_mul_overflow(*v, 10, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(**p - '0'), v))
			return false;
	return *p > start;
}

bool rr_segname_parse(const char *name, struct rr_segname *out)
{
	uint64_t pid;

	if (!number(&name, &pid) || !pid || pid > INT32_MAX || *name++ != '.' ||
	    !number(&name, &out->ticks))
		return false;
	out->pid = (int)pid;
	out->died = 0;
	if (*name == '.' && (++name, !number(&name, &out->died) || !out->died))
		return false;
	return !*name;
}

/* --- dead processes --- */

bool rr_rundir_retire(int dir, const char *name)
{
	uint64_t now = (uint64_t)time(NULL);
	char to[RR_RUN_NAME + 24];

	/* Lives of one pid before and after an exec may end in the same second. */
	for (unsigned n = 0; n < 30; n++) {
		rr_fmt(to, sizeof(to), "%s.%llu", name, (unsigned long long)(now + n));
		if (!syscall(SYS_renameat2, dir, name, dir, to, RENAME_NOREPLACE))
			return true;
		if (errno != EEXIST)
			return false;
	}
	return false;
}

/* The dead of one directory, up to a bound; a later sweep sees the rest. Their names say all:
 * nothing is asked of the kernel for each. */
struct morgue {
	char buf[4096] RR_ALIGNED(8);	/* of directory entries */
	unsigned n;
	struct {
		uint64_t died;
		char name[RR_RUN_NAME];
	} c[2 * RR_RUN_DEAD_MAX];
};

static void inspect(struct morgue *m, int dir, const char *name, bool thorough)
{
	struct rr_segname s;
	bool gone;

	if (strlen(name) >= RR_RUN_NAME || !rr_segname_parse(name, &s))
		return;
	if (!s.died) {
		gone = kill(s.pid, 0) && errno == ESRCH;
		if (gone || (thorough && rr_proc_ticks(s.pid) != s.ticks))
			rr_rundir_retire(dir, name);
	} else if (m->n < rr_array_size(m->c)) {
		m->c[m->n].died = s.died;
		rr_fmt(m->c[m->n++].name, RR_RUN_NAME, "%s", name);
	}
}

static void walk(struct morgue *m, int dir, bool thorough)
{
	long n;

	while ((n = syscall(SYS_getdents64, dir, m->buf, sizeof(m->buf))) > 0)
		for (long at = 0; at < n;) {
			struct dirent64 *d = (void *)(m->buf + at);

			inspect(m, dir, d->d_name, thorough);
			at += d->d_reclen;
		}
}

/* Also what died in the future: a clock was set back, or somebody lies. */
static bool too_old(uint64_t died, uint64_t now)
{
	return died > now + 60 || now > died + RR_RUN_DEAD_AGE;
}

static void bury(struct morgue *m, int dir)
{
	uint64_t now = (uint64_t)time(NULL);

	for (unsigned i = 0; i < m->n;) {
		if (!too_old(m->c[i].died, now)) {
			i++;
			continue;
		}
		unlinkat(dir, m->c[i].name, 0);
		m->c[i] = m->c[--m->n];
	}
	while (m->n > RR_RUN_DEAD_MAX) {
		unsigned oldest = 0;

		for (unsigned i = 1; i < m->n; i++)
			if (m->c[i].died < m->c[oldest].died)
				oldest = i;
		unlinkat(dir, m->c[oldest].name, 0);
		m->c[oldest] = m->c[--m->n];
	}
}

void rr_rundir_sweep(const char *dir, bool thorough)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, dir,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct morgue *m;

	if (fd < 0)
		return;
	/* Too much for the stack of a thread that an app made as small as it may be. */
	m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m != MAP_FAILED) {
		walk(m, fd, thorough);
		bury(m, fd);
		munmap(m, sizeof(*m));
	}
	syscall(SYS_close, fd);
}

/* --- /proc --- */

/* The start of /proc/PID/what (pid 0: self), terminated. */
static bool read_proc(int pid, const char *what, char *buf, unsigned size)
{
	char path[40];
	long n;
	int fd;

	if (pid)
		rr_fmt(path, sizeof(path), "/proc/%d/%s", pid, what);
	else
		rr_fmt(path, sizeof(path), "/proc/self/%s", what);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = syscall(SYS_read, fd, buf, size - 1);
	syscall(SYS_close, fd);
	buf[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

uint64_t rr_proc_ticks(int pid)
{
	char buf[1024];
	const char *p;
	uint64_t v = 0;

	if (!read_proc(pid, "stat", buf, sizeof(buf)))
		return 0;
	p = strrchr(buf, ')');	/* field 2, the name, may hold spaces and parentheses */
	for (int field = 2; p && field < 22; field++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p && number(&p, &v) ? v : 0;
}

void rr_proc_comm(int pid, char *buf, unsigned size)
{
	if (!read_proc(pid, "comm", buf, size))
		buf[0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}
