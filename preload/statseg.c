/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the statistics segment of this process, and keeps the one descriptor by whose lock
 * others see that the process lives. */
#include "preload/statseg.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/rundir.h"
#include "core/base/capture.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/base/stats_abi.h"
#include "core/base/ticks.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static const char *own_dir = "", *host_dir = "";
static struct rr_stat_seg *_Atomic the_seg;
static _Atomic pid_t making;	/* the thread that is making it; 0 none */

/* The descriptor, and what it was opened on: the app may have closed it unseen. */
static _Atomic int held = -1;
static dev_t held_dev;
static ino_t held_ino;

void rr_statseg_setup(const char *own, const char *host)
{
	own_dir = own;
	host_dir = host;
}

/* --- the descriptor --- */

static bool is_held(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_dev == held_dev && st.st_ino == held_ino;
}

/* A number out of the app's way instead of fd, which is closed; -1: there is none. */
static int raise_fd(int fd)
{
	int high = rr_ownfd_dup(fd);

	syscall(SYS_close, fd);
	return high;
}

/* Takes the lock, and fd over. It must be the only descriptor of its file: to close another one
 * would end the lock. */
static bool hold(int fd)
{
	struct stat st;

	if (fstat(fd, &st) || !rr_segment_hold(fd))
		return false;
	held_dev = st.st_dev;
	held_ino = st.st_ino;
	atomic_store(&held, fd);
	return true;
}

static void drop_held(void)
{
	int fd = atomic_exchange(&held, -1);

	if (fd < 0)
		return;
	rr_ownfd_set(fd, false);
	if (is_held(fd))
		syscall(SYS_close, fd);
}

/* The lock is gone for a moment, until it is taken by the new number. */
bool rr_statseg_move_fd(int fd)
{
	int to;

	if (fd < 0 || fd != atomic_load(&held))
		return false;
	to = is_held(fd) ? rr_ownfd_dup(fd) : -1;
	drop_held();
	if (to >= 0 && !hold(to))
		rr_ownfd_close(to);
	return true;
}

/* --- its memory --- */

/* Growing a file beyond RLIMIT_FSIZE would be a SIGXFSZ, also for a memfd. */
static bool may_grow(void)
{
	struct rlimit lim;

	return !getrlimit(RLIMIT_FSIZE, &lim) && lim.rlim_cur >= RR_STAT_SIZE;
}

static bool give_room(size_t off, size_t len)
{
	int fd = atomic_load(&held);

	return is_held(fd) && !rr_os_fallocate(fd, 0, (off_t)off, (off_t)len);
}

/* Memory for what every process writes, now: later, on a full file system, a write would be
 * a SIGBUS. A file system that cannot promise any is not used. */
static bool reserve(int fd)
{
	const off_t shared = RR_STAT_SIZE - RR_PAGE;

	/* The last page first: with that the file has its size. */
	return !rr_os_fallocate(fd, 0, shared, RR_PAGE) &&
	       !rr_os_fallocate(fd, 0, 0, sizeof(struct rr_stat_seg));
}

/* Makes the new file fd the segment, mapped and held, and takes fd over. */
static void *map_held(int fd)
{
	void *p = MAP_FAILED;

	fd = reserve(fd) ? raise_fd(fd) : (syscall(SYS_close, fd), -1);
	if (fd < 0)
		return NULL;
	if (hold(fd))
		p = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	else
		rr_ownfd_close(fd);
	if (p == MAP_FAILED) {
		drop_held();
		return NULL;
	}
	/* A page is touched here and there: on a disk nothing around it is to be read. */
	madvise(p, RR_STAT_SIZE, MADV_RANDOM);
	return p;
}

/* --- a file --- */

static int create(int dir, const char *name)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = (int)syscall(SYS_openat, dir, name, flags, 0600);

	if (fd < 0 && errno == EEXIST && !unlinkat(dir, name, 0))
		fd = (int)syscall(SYS_openat, dir, name, flags, 0600);
	return fd;
}

/* Has nobody else the name? The program that this process was before an exec may have left a
 * segment of that name; in another PID namespace a living process may have the same. */
static bool is_free(int dir, const char *name)
{
	int fd = (int)syscall(SYS_openat, dir, name,
			      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool lives;

	if (fd < 0)
		return errno == ENOENT || rr_rundir_retire(dir, name);
	lives = rr_segment_holder(fd) >= 0;
	syscall(SYS_close, fd);
	return !lives && rr_rundir_retire(dir, name);
}

static bool take_name(int dir, const char *hidden, const char *name)
{
	return !syscall(SYS_renameat2, dir, hidden, dir, name, RENAME_NOREPLACE);
}

/* Under a hidden name until it is held: a file of that name that nobody holds is a dead
 * process's. The mode by descriptor, past the umask: rdmarpc-stat is for everybody. */
static void *map_file(int dir, const char *name)
{
	char hidden[RR_RUN_NAME];
	void *p = NULL;
	int fd;

	rr_fmt(hidden, sizeof(hidden), ".%s", name);
	fd = create(dir, hidden);
	if (fd < 0)
		return NULL;
	p = map_held(fd);
	if (p && !fchmod(atomic_load(&held), 0644) &&
	    (take_name(dir, hidden, name) ||
	     (is_free(dir, name) && take_name(dir, hidden, name))))
		return p;
	unlinkat(dir, hidden, 0);
	if (p)
		munmap(p, RR_STAT_SIZE);
	drop_held();
	return NULL;
}

static void *map_in(const char *path, const char *name)
{
	struct rr_rundir dir;
	void *p;

	if (!path[0])
		return NULL;
	rr_rundir_enter(path, &dir);
	if (dir.fd < 0)
		return NULL;
	rr_rundir_sweep_in(&dir, false);
	p = map_file(dir.fd, name);
	syscall(SYS_close, dir.fd);
	return p;
}

/* --- no file --- */

/* rdmarpc-stat finds it by its name, among the descriptors of the process: its owner's and
 * root's only. Where vm.memfd_noexec is 2, only memfds that say that they are not to be
 * executed may be made; older kernels do not know the flag. */
static void *map_memfd(void)
{
	char name[sizeof(RR_RUN_MEMFD) + RR_RUN_PATH];
	int fd;

	rr_fmt(name, sizeof(name), RR_RUN_MEMFD "%s", host_dir);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC);
	return fd < 0 ? NULL : map_held(fd);
}

/* Shared all the same: forked children count into it too. */
static void *map_nowhere(void)
{
	void *p = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void tell_clock(struct rr_stat_seg *seg)
{
	int fd = rr_os_open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
			    O_RDONLY | O_CLOEXEC);
	char name[32];
	ssize_t n;

	if (fd < 0)
		return;
	n = syscall(SYS_read, fd, name, sizeof(name) - 1);
	syscall(SYS_close, fd);
	name[n < 0 ? 0 : n] = '\0';
	rr_ticks_source(&seg->clock, name);
}

static struct rr_stat_seg *make_segment(void)
{
	char comm[32], exe[96], name[RR_RUN_NAME];
	uint64_t ticks = rr_proc_own(comm, sizeof(comm));
	struct rr_stat_seg *seg = NULL;
	ssize_t n;

	rr_fmt(name, sizeof(name), "%d.%llu", getpid(), (unsigned long long)ticks);
	if (may_grow()) {
		seg = map_in(own_dir, name);
		if (!seg)
			seg = map_memfd();
	}
	if (!seg)
		seg = map_nowhere();
	if (!seg)
		return NULL;
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = '\0';
	rr_stats_init(seg, getpid(), ticks, comm, exe);
	if (atomic_load(&held) >= 0)
		atomic_store(&seg->backed, sizeof(*seg));
	atomic_store(&rr_stats_room, give_room);
	rr_cap_own(&seg->capture);
	tell_clock(seg);
	return seg;
}

/* --- the process's one --- */

struct rr_stat_seg *rr_statseg_get(bool make)
{
	struct rr_stat_seg *seg = atomic_load_explicit(&the_seg, memory_order_acquire);
	int saved = errno;
	pid_t me, was = 0;

	if (likely(seg != NULL) || !make)
		return seg;
	me = (pid_t)syscall(SYS_gettid);
	while (!atomic_compare_exchange_strong(&making, &was, me)) {
		if (was == me)
			return NULL;	/* a signal handler interrupted it */
		was = 0;
		sched_yield();
	}
	seg = atomic_load_explicit(&the_seg, memory_order_acquire);
	if (!seg) {
		seg = make_segment();
		atomic_store_explicit(&the_seg, seg, memory_order_release);
	}
	atomic_store(&making, 0);
	errno = saved;
	return seg;
}

/* Root's in the host's directory; our user's own. */
bool rr_statseg_stopped(void)
{
	uid_t me = geteuid();
	int saved = errno;
	bool stopped = rr_rundir_stopped(host_dir, 0) || (me && rr_rundir_stopped(own_dir, me));

	errno = saved;
	return stopped;
}

void rr_statseg_fork_child(void)
{
	int saved = errno;

	drop_held();	/* the lock is the parent's, and did not come along */
	rr_cap_forked();
	atomic_store_explicit(&the_seg, NULL, memory_order_relaxed);
	atomic_store_explicit(&making, 0, memory_order_relaxed);
	errno = saved;
}

/* A vfork child that calls exit() has its parent's memory, but another pid. */
__attribute__((destructor)) static void end(void)
{
	struct rr_stat_seg *seg = atomic_load_explicit(&the_seg, memory_order_acquire);

	if (seg && seg->pid == getpid())
		atomic_store_explicit(&seg->ended, 1, memory_order_relaxed);
}
