/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the statistics segment of this process, and keeps the one descriptor by whose lock
 * others see that the process lives. What is counted there is core/base's. */
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

static const char *(*own_dir)(void);
static const char *host_dir = "";
static struct rr_stat_seg *_Atomic the_seg;
static _Atomic pid_t making;	/* id of the thread that is making it; 0: none */

/* The descriptor of the segment, and the file it was opened on: the app may have closed it
 * unseen. */
static _Atomic int held = -1;
static dev_t held_dev;
static ino_t held_ino;

void rr_statseg_setup(const char *(*own)(void), const char *host)
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

/* A number for fd out of the app's way; fd is closed. -1: there is none. */
static int raise_fd(int fd)
{
	int high = rr_ownfd_dup(fd);

	syscall(SYS_close, fd);
	return high;
}

/* Locks fd and keeps it as `held`. fd must be the only descriptor of its file, since closing
 * another one would end the lock. False: fd stays the caller's. */
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

/* The lock is gone for a moment, until the new number takes it. */
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

/* May a file be as large as the segment? Growing it beyond RLIMIT_FSIZE would raise SIGXFSZ,
 * for a memfd, too. */
static bool may_grow(void)
{
	struct rlimit lim;

	return !getrlimit(RLIMIT_FSIZE, &lim) && lim.rlim_cur >= RR_STAT_SIZE;
}

/* rr_stats_room: allocates a part of the segment's file before it is written. */
static bool give_room(size_t off, size_t len)
{
	int fd = atomic_load(&held);

	return is_held(fd) && !rr_os_fallocate(fd, 0, (off_t)off, (off_t)len);
}

/* Allocates memory for what every process writes. On a full file system, a write later would
 * raise SIGBUS. False: the file system cannot promise memory, and is not used. */
static bool reserve(int fd)
{
	const off_t shared = RR_STAT_SIZE - RR_PAGE;

	/* The last page first: it gives the file its size. */
	return !rr_os_fallocate(fd, 0, shared, RR_PAGE) &&
	       !rr_os_fallocate(fd, 0, 0, sizeof(struct rr_stat_seg));
}

/* Makes the new file fd the segment: mapped, and held by its lock. Takes over fd. NULL: it
 * cannot be. */
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
	/* Only some pages are touched: on a disk, nothing around them should be read ahead. */
	madvise(p, RR_STAT_SIZE, MADV_RANDOM);
	return p;
}

/* --- a segment in the run directory --- */

/* Creates a file of that name, replacing one that is left over. Returns its descriptor or
 * -1. */
static int create(int dir, const char *name)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = (int)syscall(SYS_openat, dir, name, flags, 0600);

	if (fd < 0 && errno == EEXIST && !unlinkat(dir, name, 0))
		fd = (int)syscall(SYS_openat, dir, name, flags, 0600);
	return fd;
}

/* May this process take the name? A segment of that name may be left from the program that this
 * process was before an exec, and is removed. In another PID namespace a living process may
 * have the same name. */
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

/* Makes the segment in dir. Its name is hidden until it is locked, because an unlocked file
 * counts as a dead process's. fchmod() because the umask must not keep rdmarpc-stat, which is
 * for everybody, from reading it. */
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

/* --- a segment without a file --- */

/* rdmarpc-stat finds a memfd by its name among the descriptors of the process, so only the
 * process's owner and root see it. Where vm.memfd_noexec is 2 only memfds sealed against
 * execution may be made; older kernels do not know the flag. */
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

/* Not visible to anybody, but shared, so that forked children count into it. */
static void *map_nowhere(void)
{
	void *p = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Says in the segment which clock source the kernel has (rr_ticks_source()). */
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
		seg = map_in(own_dir(), name);
		if (!seg)
			seg = map_memfd();
	}
	if (!seg)
		seg = map_nowhere();
	if (!seg)
		return NULL;
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = '\0';
	/* Before the rest, so that whoever finds the segment finds a desk that can be asked. */
	rr_cap_own(&seg->capture);
	rr_stats_init(seg, getpid(), ticks, comm, exe);
	if (atomic_load(&held) >= 0)
		atomic_store(&seg->backed, sizeof(*seg));
	atomic_store(&rr_stats_room, give_room);
	tell_clock(seg);
	return seg;
}

/* --- the process's segment --- */

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
			return NULL;	/* we are a signal handler that interrupted the maker */
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

/* "stop" counts if root has put it into the host's directory, or our own user into its own. */
bool rr_statseg_stopped(void)
{
	uid_t me = geteuid();
	int saved = errno;
	bool stopped = rr_rundir_stopped(host_dir, 0);

	if (!stopped && me)
		stopped = rr_rundir_stopped(own_dir(), me);
	errno = saved;
	return stopped;
}

void rr_statseg_fork_child(void)
{
	int saved = errno;

	drop_held();	/* its lock is the parent's, and is not inherited */
	rr_cap_forked();
	atomic_store_explicit(&the_seg, NULL, memory_order_relaxed);
	atomic_store_explicit(&making, 0, memory_order_relaxed);
	errno = saved;
}

/* A vfork() child that calls exit() runs this with its parent's memory, but has another pid. */
__attribute__((destructor)) static void end(void)
{
	struct rr_stat_seg *seg = atomic_load_explicit(&the_seg, memory_order_acquire);

	if (seg && seg->pid == getpid())
		atomic_store_explicit(&seg->ended, 1, memory_order_relaxed);
}
