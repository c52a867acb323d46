/* SPDX-License-Identifier: BSD-3-Clause */
#include "preload/statseg.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/rundir.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/stats_abi.h"

static const char *run_dir = "", *host_dir = "";
static struct rr_stat_seg *_Atomic the_seg;
static _Atomic pid_t making;	/* the thread that is making it; 0 none */

void rr_statseg_setup(const char *dir, const char *host)
{
	run_dir = dir;
	host_dir = host;
}

/* --- the file --- */

/* The program that this process was before an exec may have left one of that name. */
static int create(int dir, const char *name)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = (int)syscall(SYS_openat, dir, name, flags, 0644);

	if (fd < 0 && errno == EEXIST && rr_rundir_retire(dir, name))
		fd = (int)syscall(SYS_openat, dir, name, flags, 0644);
	return fd;
}

/* Memory for what every process writes, now: later, on a full file system, a write would be
 * a SIGBUS. (EOPNOTSUPP: this one cannot promise any.) */
static bool reserve(int fd)
{
	const off_t shared = RR_STAT_SIZE - RR_PAGE;

	if (ftruncate(fd, RR_STAT_SIZE))
		return false;
	if (rr_os_fallocate(fd, 0, 0, sizeof(struct rr_stat_seg)) ||
	    rr_os_fallocate(fd, 0, shared, RR_PAGE))
		return errno == EOPNOTSUPP;
	return true;
}

static void *map_file(int dir, const char *name)
{
	void *p = MAP_FAILED;
	int fd = create(dir, name);

	if (fd < 0)
		return NULL;
	fchmod(fd, 0644);	/* past the umask: rdmarpc-stat is for everybody */
	if (reserve(fd))
		p = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (p == MAP_FAILED)
		unlinkat(dir, name, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void *map_in(const char *path, int pid, uint64_t ticks)
{
	char name[RR_RUN_NAME];
	void *p;
	int dir;

	if (!path[0])
		return NULL;
	dir = (int)syscall(SYS_openat, AT_FDCWD, path,
			   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return NULL;
	rr_fmt(name, sizeof(name), "%d.%llu", pid, (unsigned long long)ticks);
	p = map_file(dir, name);
	syscall(SYS_close, dir);
	rr_rundir_sweep(path, false);
	return p;
}

/* Shared all the same: forked children count into it too. */
static void *map_nowhere(void)
{
	void *p = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct rr_stat_seg *make(void)
{
	uint64_t ticks = rr_proc_ticks(0);
	char comm[32], exe[96];
	struct rr_stat_seg *seg = map_in(run_dir, getpid(), ticks);
	bool file = seg != NULL;
	ssize_t n;

	if (!seg)
		seg = map_nowhere();
	if (!seg)
		return NULL;
	rr_proc_comm(0, comm, sizeof(comm));
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = '\0';
	rr_stats_init(seg, getpid(), ticks, comm, exe);
	if (file)
		atomic_store(&seg->backed, sizeof(*seg));
	return seg;
}

/* --- the process's one --- */

struct rr_stat_seg *rr_statseg_get(void)
{
	struct rr_stat_seg *seg = atomic_load_explicit(&the_seg, memory_order_acquire);
	int saved = errno;
	pid_t me, was = 0;

	if (likely(seg != NULL))
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
		seg = make();
		atomic_store_explicit(&the_seg, seg, memory_order_release);
	}
	atomic_store(&making, 0);
	errno = saved;
	return seg;
}

bool rr_statseg_stopped(void)
{
	int saved = errno;
	bool stopped = rr_rundir_stopped(run_dir) || rr_rundir_stopped(host_dir);

	errno = saved;
	return stopped;
}

void rr_statseg_fork_child(void)
{
	atomic_store_explicit(&the_seg, NULL, memory_order_relaxed);
	atomic_store_explicit(&making, 0, memory_order_relaxed);
}

/* A vfork child that calls exit() has its parent's memory, but another pid. */
__attribute__((destructor)) static void end(void)
{
	struct rr_stat_seg *seg = atomic_load_explicit(&the_seg, memory_order_acquire);

	if (seg && seg->pid == getpid())
		atomic_store_explicit(&seg->ended, 1, memory_order_relaxed);
}
