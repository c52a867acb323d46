/* SPDX-License-Identifier: BSD-3-Clause */
/* The run directory: which one it is, whether its owner can be trusted, the names of files in
 * it, and the removal of files that dead processes have left. */

#include "config/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* Where there is one system call, it has these commands. On ppc64 F_SETLK64 is a number that
 * only glibc's fcntl() knows. */
#ifdef SYS_fcntl64
enum { SET_LOCK = F_SETLK64, GET_LOCK = F_GETLK64 };
#else
#define SYS_fcntl64 SYS_fcntl
enum { SET_LOCK = F_SETLK, GET_LOCK = F_GETLK };
#endif

#define WALK_SHARED	256u	/* entries looked at where others can put names */
#define WALK_OWN	65536u
#define LOOKS		32u	/* segments opened by a sweep that is not thorough */
#define UNFINISHED_S	60	/* a segment without its name for this long (seconds) never gets
				 * one */

/* --- which directory --- */

/* A path in $XDG_RUNTIME_DIR that would not fit is no place at all, rather than a cut one. */
bool rr_rundir_place(const char *configured, const char *xdg, uid_t uid, unsigned n,
		     char out[RR_RUN_PATH])
{
	if (configured && *configured) {
		rr_fmt(out, RR_RUN_PATH, "%s", configured);
		return n == 0;
	}
	if (n == 0) {
		if (uid)
			rr_fmt(out, RR_RUN_PATH, RR_RUN_DIR "/%u", (unsigned)uid);
		else
			rr_fmt(out, RR_RUN_PATH, RR_RUN_DIR);
		return true;
	}
	if (n > 1 || !xdg || xdg[0] != '/' || strlen(xdg) > RR_RUN_PATH - sizeof("/rdmarpc"))
		return false;
	rr_fmt(out, RR_RUN_PATH, "%s/rdmarpc", xdg);
	return true;
}

/* Is it a directory in which only root, this user and an entry's owner can rename or remove the
 * entry? Either nobody else can write to it, or it is sticky. */
static bool is_sound(const struct stat *st)
{
	if (!S_ISDIR(st->st_mode) || (st->st_uid != 0 && st->st_uid != geteuid()))
		return false;
	return !(st->st_mode & (S_IWGRP | S_IWOTH)) || (st->st_mode & S_ISVTX);
}

#define TMPFS_ENTRY	20	/* bytes that a name adds to the size of a directory on tmpfs */
#define SWEEP_EACH	8	/* names made between two sweeps */

/* Is the directory on tmpfs (no blocks, a size that is a multiple of TMPFS_ENTRY), with a
 * number of names at which it need not be swept? Each process adds a name, so one start in
 * SWEEP_EACH sweeps. A sweep leaves at most RR_RUN_DEAD_MAX names of dead processes. */
static bool is_swept(const struct stat *st)
{
	return !st->st_blocks && st->st_size && st->st_size % TMPFS_ENTRY == 0 &&
	       st->st_size / TMPFS_ENTRY % SWEEP_EACH;
}

/* The directory above is judged through the descriptor, because the path may lead elsewhere by
 * then. A symbolic link as the last part of the path is refused. */
void rr_rundir_enter(const char *dir, struct rr_rundir *out)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, dir,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, above;

	out->fd = -1;
	if (fd < 0)
		return;
	if (fstat(fd, &st) || !is_sound(&st) || fstatat(fd, "..", &above, 0) ||
	    !is_sound(&above)) {
		syscall(SYS_close, fd);
		return;
	}
	*out = (struct rr_rundir){ fd, st.st_mode & (S_IWGRP | S_IWOTH), is_swept(&st) };
}

int rr_rundir_open(const char *dir, bool *shared)
{
	struct rr_rundir d;

	rr_rundir_enter(dir, &d);
	if (shared && d.fd >= 0)
		*shared = d.shared;
	return d.fd;
}

/* Makes the directory and enters it. fchmod() sets the mode regardless of the umask, but only
 * if the directory is one that this process has made. */
static void make_dir(const char *dir, struct rr_rundir *out)
{
	mode_t mode = geteuid() == 0 ? 0755 : 0700;
	bool made = !mkdir(dir, mode);
	struct stat st;

	rr_rundir_enter(dir, out);
	if (made && out->fd >= 0 && !fstat(out->fd, &st) && st.st_uid == geteuid())
		fchmod(out->fd, mode);
}

bool rr_rundir_use(const char *dir)
{
	struct rr_rundir d;
	bool ok;

	rr_rundir_enter(dir, &d);
	if (d.fd < 0 && errno == ENOENT)
		make_dir(dir, &d);
	if (d.fd < 0)
		return false;
	ok = !faccessat(d.fd, ".", W_OK | X_OK, AT_EACCESS);
	syscall(SYS_close, d.fd);
	return ok;
}

/* What the errno of open() means for the directory. */
static const char *open_fault(int error)
{
	switch (error) {
	case ENOENT: return RR_RUNDIR_MISSING;
	case ENOTDIR: return "is a symbolic link, or not a directory";
	case ELOOP: return "is a symbolic link";
	case EACCES: return "you may not look into it";
	default: return "cannot be opened";
	}
}

/* What is wrong with the open directory; NULL: nothing. The tests are those of
 * rr_rundir_enter() and rr_rundir_use(), told apart for a message. */
static const char *fault_of(int fd)
{
	struct stat st, above;

	if (fstat(fd, &st) || fstatat(fd, "..", &above, 0))
		return "cannot be looked at";
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return "belongs to another user";
	if (!is_sound(&st))
		return "others can write to it, and it is not sticky";
	if (!is_sound(&above))
		return "others can rename it: the directory above is another user's, or not "
		       "sticky";
	return faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) ? "you may not write to it" : NULL;
}

const char *rr_rundir_fault(const char *dir)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, dir,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const char *fault;

	if (fd < 0)
		return open_fault(errno);
	fault = fault_of(fd);
	syscall(SYS_close, fd);
	return fault;
}

bool rr_rundir_find(const char *configured, const char *xdg, char out[RR_RUN_PATH])
{
	uid_t me = geteuid();

	for (unsigned n = 0; rr_rundir_place(configured, xdg, me, n, out); n++)
		if (rr_rundir_use(out))
			return true;
	out[0] = '\0';
	return false;
}

/* Ends in different network namespaces have to look in the same directory. That is the host's,
 * if it is sound, unless this process can only write elsewhere. */
void rr_rundir_meet(const char *configured, const char *own, char out[RR_RUN_PATH])
{
	bool elsewhere = own[0] && strncmp(own, RR_RUN_DIR, sizeof(RR_RUN_DIR) - 1) != 0;
	bool ours = false;
	int fd;

	if ((configured && *configured) || !strcmp(own, RR_RUN_DIR)) {
		rr_fmt(out, RR_RUN_PATH, "%s", own);
		return;
	}
	fd = rr_rundir_open(RR_RUN_DIR, NULL);
	if (fd >= 0) {
		ours = !elsewhere || !faccessat(fd, ".", W_OK | X_OK, AT_EACCESS);
		syscall(SYS_close, fd);
	}
	rr_fmt(out, RR_RUN_PATH, "%s", ours ? RR_RUN_DIR : elsewhere ? own : "");
}

/* --- the stop files --- */

void rr_rundir_stop_name(uid_t uid, char out[RR_RUN_NAME])
{
	if (uid)
		rr_fmt(out, RR_RUN_NAME, RR_RUN_STOP ".%u", (unsigned)uid);
	else
		rr_fmt(out, RR_RUN_NAME, RR_RUN_STOP);
}

/* Only user uid can make a file that uid owns, so it does not matter whether another user has
 * changed where the path leads. Others may, however, link to a file of uid's elsewhere; such a
 * file has more than one name. */
bool rr_rundir_stopped(const char *dir, uid_t uid)
{
	char path[RR_RUN_PATH + RR_RUN_NAME], name[RR_RUN_NAME];
	struct stat st;

	if (!dir[0])
		return false;
	rr_rundir_stop_name(uid, name);
	rr_fmt(path, sizeof(path), "%s/%s", dir, name);
	return !lstat(path, &st) && S_ISREG(st.st_mode) && st.st_uid == uid && st.st_nlink == 1;
}

/* --- names --- */

/* Reads a decimal number and moves *p behind it. False: there is none, or it does not fit. */
static bool scan_number(const char **p, uint64_t *v)
{
	const char *start = *p;

	for (*v = 0; **p >= '0' && **p <= '9'; (*p)++)
		if (__builtin_mul_overflow(*v, 10, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(**p - '0'), v))
			return false;
	return *p > start;
}

/* Refuses everything that no process makes: names that go on after the numbers, a pid of 0, a
 * time of 0. */
bool rr_segname_parse(const char *name, struct rr_segname *out)
{
	uint64_t pid;

	if (!scan_number(&name, &pid) || !pid || pid > INT32_MAX || *name++ != '.' ||
	    !scan_number(&name, &out->ticks))
		return false;
	out->pid = (int)pid;
	out->died = 0;
	if (*name == '.' && (++name, !scan_number(&name, &out->died) || !out->died))
		return false;
	return !*name;
}

/* --- which processes live --- */

/* F_SETLK or F_GETLK on the first byte. Returns the lock's type, or -1. */
static int byte_lock(int fd, int what, int type, pid_t *holder)
{
	struct flock64 l = { .l_type = (short)type, .l_whence = SEEK_SET, .l_len = 1 };
	int rc = (int)syscall(SYS_fcntl64, fd, what, &l);

	*holder = l.l_pid;
	return rc < 0 ? rc : l.l_type;
}

/* F_SETLK and not F_OFD_SETLK, because the latter belongs to the open file, which a child has
 * too; see docs/decisions/0017-run-directory.md. */
bool rr_segment_hold(int fd)
{
	pid_t none;

	return byte_lock(fd, SET_LOCK, F_WRLCK, &none) >= 0;
}

/* Asks for a read lock, which conflicts with a write lock only. Everybody who may read the file
 * could hold a read lock on it; a write lock takes a descriptor for writing. */
int rr_segment_holder(int fd)
{
	pid_t holder;

	return byte_lock(fd, GET_LOCK, F_RDLCK, &holder) == F_WRLCK ? rr_max(holder, 0) : -1;
}

/* Is the segment a dead process's? Not if it cannot be opened, since then nobody knows. */
static bool is_dead(int dir, const char *name)
{
	int fd = (int)syscall(SYS_openat, dir, name,
			      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool dead;

	if (fd < 0)
		return errno == ELOOP || errno == ENXIO;	/* a symbolic link or a socket:
								 * no segment */
	dead = rr_segment_holder(fd) < 0;
	syscall(SYS_close, fd);
	return dead;
}

/* --- what dead processes leave --- */

/* What time() returns. The name time is bound by a resolver function (IFUNC), which would cost
 * each program that is started under the library two page faults. */
static time_t wall_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec;
}

bool rr_rundir_retire(int dir, const char *name)
{
	uint64_t now = (uint64_t)wall_seconds();
	char to[RR_RUN_NAME + 24];

	/* A process may exec and end within one second, with the same pid: then the name is
	 * taken. */
	for (unsigned n = 0; n < 30; n++) {
		rr_fmt(to, sizeof(to), "%s.%llu", name, (unsigned long long)(now + n));
		if (!syscall(SYS_renameat2, dir, name, dir, to, RENAME_NOREPLACE))
			return true;
		if (errno != EEXIST)
			return false;
	}
	return false;
}

/* Names of dead processes' segments in one directory, up to a bound; a later sweep sees the
 * rest. */
struct morgue {
	char buf[4096] RR_ALIGNED(8);	/* directory entries */
	bool thorough;
	unsigned walked, walk_max;	/* entries seen, and to be seen at most */
	unsigned looks;			/* segments opened */
	unsigned n;
	struct {
		uint64_t died;
		char name[RR_RUN_NAME];
	} c[2 * RR_RUN_DEAD_MAX];
};

/* May this sweep open the segment of pid? A sweep that is not thorough opens only some, of pids
 * that nobody has. */
static bool may_look(struct morgue *m, int pid)
{
	if (!m->thorough && !(kill(pid, 0) && errno == ESRCH))
		return false;
	return m->looks++ < LOOKS || m->thorough;
}

/* Removes a segment whose maker was killed before it had its name. */
static void remove_unfinished(int dir, const char *name)
{
	struct stat st;

	if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) &&
	    st.st_mtime < wall_seconds() - UNFINISHED_S && is_dead(dir, name))
		unlinkat(dir, name, 0);
}

/* Looks at one name: retires the segment of a dead process, and notes those that are
 * retired. */
static void inspect(struct morgue *m, int dir, const char *name)
{
	bool hidden = name[0] == '.';
	struct rr_segname s;

	if (strlen(name) >= RR_RUN_NAME || !rr_segname_parse(name + hidden, &s))
		return;
	if (hidden) {
		if (may_look(m, s.pid))
			remove_unfinished(dir, name);
	} else if (!s.died) {
		if (may_look(m, s.pid) && is_dead(dir, name))
			rr_rundir_retire(dir, name);
	} else if (m->n < rr_array_size(m->c)) {
		m->c[m->n].died = s.died;
		rr_fmt(m->c[m->n++].name, RR_RUN_NAME, "%s", name);
	}
}

/* Looks at the directory's entries, up to the bound. getdents64() is called directly, because
 * opendir() would allocate. */
static void walk(struct morgue *m, int dir)
{
	long n;

	while (m->walked < m->walk_max &&
	       (n = syscall(SYS_getdents64, dir, m->buf, sizeof(m->buf))) > 0)
		for (long at = 0; at < n; m->walked++) {
			struct dirent64 *d = (void *)(m->buf + at);

			inspect(m, dir, d->d_name);
			at += d->d_reclen;
		}
}

/* Has the process been dead for too long? A time of death in the future counts as too long: a
 * clock was set back, or the name is a lie. */
static bool too_old(uint64_t died, uint64_t now)
{
	return died > now + 60 || now > died + RR_RUN_DEAD_AGE;
}

/* Removes a retired segment unless it is locked: somebody may have given such a name to a
 * living process's segment. */
static void remove_dead(int dir, const char *name)
{
	if (is_dead(dir, name))
		unlinkat(dir, name, 0);
}

/* Removes retired segments that are too old, and then the oldest, down to RR_RUN_DEAD_MAX. What
 * the table had no room for is left to a later sweep. */
static void bury_files(struct morgue *m, int dir)
{
	uint64_t now = (uint64_t)wall_seconds();

	for (unsigned i = 0; i < m->n;) {
		if (!too_old(m->c[i].died, now)) {
			i++;
			continue;
		}
		remove_dead(dir, m->c[i].name);
		m->c[i] = m->c[--m->n];
	}
	while (m->n > RR_RUN_DEAD_MAX) {
		unsigned oldest = 0;

		for (unsigned i = 1; i < m->n; i++)
			if (m->c[i].died < m->c[oldest].died)
				oldest = i;
		remove_dead(dir, m->c[oldest].name);
		m->c[oldest] = m->c[--m->n];
	}
}

/* A sweep is only housekeeping, so it is left out where it would cost or wait: at most starts
 * on tmpfs, and while another thread is at it. */
void rr_rundir_sweep_in(const struct rr_rundir *dir, bool thorough)
{
	/* Static, because an app may have made its thread's stack as small as allowed. */
	static struct morgue m;
	static _Atomic uint32_t busy;	/* riscv64 has no exchange of a byte */

	if ((dir->swept && !thorough) ||
	    atomic_exchange_explicit(&busy, 1, memory_order_acquire))
		return;		/* another thread is sweeping, or was when this process was
				 * forked */
	m.thorough = thorough;
	m.walk_max = dir->shared && !thorough ? WALK_SHARED : WALK_OWN;
	m.walked = m.looks = m.n = 0;
	walk(&m, dir->fd);
	bury_files(&m, dir->fd);
	atomic_store_explicit(&busy, 0, memory_order_release);
}

void rr_rundir_sweep(const char *path, bool thorough)
{
	struct rr_rundir dir;

	rr_rundir_enter(path, &dir);
	if (dir.fd < 0)
		return;
	dir.swept = false;
	rr_rundir_sweep_in(&dir, thorough);
	syscall(SYS_close, dir.fd);
}

/* --- /proc --- */

/* Reads the beginning of /proc/PID/what (pid 0: this process), terminated. False: nothing could
 * be read, and buf may be as it was. */
static bool read_proc_head(int pid, const char *what, char *buf, unsigned size)
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

/* Field 22 of a stat file. p points behind field 2, the name; NULL: none. */
static uint64_t ticks_behind(const char *p)
{
	uint64_t v = 0;

	for (int field = 2; p && field < 22; field++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p && scan_number(&p, &v) ? v : 0;
}

/* Field 2, the name, is in parentheses and may contain some, so the last one counts. */
uint64_t rr_proc_ticks(int pid)
{
	char buf[1024];

	if (!read_proc_head(pid, "stat", buf, sizeof(buf)))
		return 0;
	return ticks_behind(strrchr(buf, ')'));
}

uint64_t rr_proc_own(char *comm, unsigned size)
{
	char buf[1024], *name, *end;

	comm[0] = '\0';
	if (!read_proc_head(0, "stat", buf, sizeof(buf)))
		return 0;
	name = strchr(buf, '(');
	end = strrchr(buf, ')');
	if (name && end > name)
		rr_fmt(comm, size, "%.*s", (int)(end - name - 1), name + 1);
	comm[strcspn(comm, "\n")] = '\0';
	return ticks_behind(end);
}

void rr_proc_comm(int pid, char *buf, unsigned size)
{
	if (!read_proc_head(pid, "comm", buf, size))
		buf[0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}
