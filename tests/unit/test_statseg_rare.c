/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics segment where something fails, or somebody else makes it: what is left, and what is there in its
 * place; and who stops upgrades. The Makefile wraps what is played here. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/base/stats.h"
#include "core/base/stats_abi.h"
#include "preload/statseg.h"
#include "tests/unit/segment_holder.h"

static const char *no_dir(void)
{
	return "";
}

static const char *its_dir(void)
{
	return dir;
}

static void begin_rare(void)
{
	make();
	cr_assert(rr_rundir_use(dir));
	rr_statseg_setup(its_dir, "/host");
	errno = EXDEV;
}

TestSuite(statseg_rare, .init = begin_rare, .fini = clean, .timeout = 60);

/* --- what is played --- */

static bool no_lock, sweeper_removes;
static unsigned rooms = UINT_MAX;	/* how often room is given yet */

bool __real_rr_segment_hold(int fd);
bool __wrap_rr_segment_hold(int fd);
int __real_rr_os_fallocate(int fd, int mode, off_t off, off_t len);
int __wrap_rr_os_fallocate(int fd, int mode, off_t off, off_t len);
void __real_rr_rundir_sweep_in(const struct rr_rundir *in, bool thorough);
void __wrap_rr_rundir_sweep_in(const struct rr_rundir *in, bool thorough);

bool __wrap_rr_segment_hold(int fd)
{
	return !no_lock && __real_rr_segment_hold(fd);
}

int __wrap_rr_os_fallocate(int fd, int mode, off_t off, off_t len)
{
	if (!rooms) {
		errno = ENOSPC;
		return -1;
	}
	rooms--;
	return __real_rr_os_fallocate(fd, mode, off, len);
}

void __wrap_rr_rundir_sweep_in(const struct rr_rundir *in, bool thorough)
{
	__real_rr_rundir_sweep_in(in, thorough);
	if (sweeper_removes)
		cr_assert_eq(rmdir(dir), 0);
}

static struct { int calls, err; unsigned flags[2]; } memfd;

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

/* The first one fails as it is to. */
int __wrap_memfd_create(const char *name, unsigned flags)
{
	cr_assert_str_eq(name, RR_RUN_MEMFD "/host");
	cr_assert_lt(memfd.calls, 2);
	memfd.flags[memfd.calls] = flags;
	if (!memfd.calls++ && memfd.err) {
		errno = memfd.err;
		return -1;
	}
	return __real_memfd_create(name, flags & ~8u);
}

static int advices;

int __real_madvise(void *p, size_t n, int advice);
int __wrap_madvise(void *p, size_t n, int advice);

int __wrap_madvise(void *p, size_t n, int advice)
{
	advices += n == RR_STAT_SIZE && advice == MADV_RANDOM;
	return __real_madvise(p, n, advice);
}

static bool no_map;
static int unmapped;

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
int __real_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	errno = ENOMEM;
	return no_map && fd >= 0 ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, off);
}

int __wrap_munmap(void *at, size_t n)
{
	unmapped += n == RR_STAT_SIZE;
	return __real_munmap(at, n);
}

static const char *clock_file;

int __real_rr_os_open(const char *path, int flags);
int __wrap_rr_os_open(const char *path, int flags);

int __wrap_rr_os_open(const char *path, int flags)
{
	return __real_rr_os_open(clock_file && strstr(path, "current_clocksource") ? clock_file : path, flags);
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 70000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* It is memory without a file, which nothing else is left of. */
static void assert_memory(struct rr_stat_seg *seg, int fds)
{
	cr_assert(seg && seg->backed == RR_STAT_SIZE);
	cr_assert_eq(errno, EXDEV);
	cr_assert_eq(rr_ownfd_next(0), -1);
	cr_assert_eq(open_fds(), fds);
	cr_assert_eq(entries(), 0);
}

/* It is a file without a name. */
static void assert_memfd(struct rr_stat_seg *seg, int fds)
{
	cr_assert(seg && seg->backed == sizeof(*seg));
	cr_assert_eq(errno, EXDEV);
	cr_assert_geq(rr_ownfd_next(0), 0);
	cr_assert_eq(open_fds(), fds + 1);
}

/* --- where it cannot be held --- */

Test(statseg_rare, what_cannot_be_locked_is_not_kept)
{
	int fds = open_fds();

	no_lock = true;
	errno = EXDEV;
	assert_memory(rr_statseg_get(true), fds);
	cr_assert_eq(memfd.calls, 1);
}

Test(statseg_rare, what_has_no_room_is_not_kept)
{
	int fds = open_fds();

	rooms = 0;
	errno = EXDEV;
	assert_memory(rr_statseg_get(true), fds);
}

Test(statseg_rare, nor_is_what_has_room_for_its_last_page_only)
{
	int fds = open_fds();

	rooms = 1;
	errno = EXDEV;
	assert_memory(rr_statseg_get(true), fds);
}

Test(statseg_rare, what_cannot_be_locked_at_its_new_number_is_given_up)
{
	struct rr_stat_seg *seg = rr_statseg_get(true);
	int fd = rr_ownfd_next(0), fds = open_fds();

	cr_assert(seg && fd >= 0);
	no_lock = true;
	cr_assert(rr_statseg_move_fd(fd));
	cr_assert_eq(rr_ownfd_next(0), -1);
	cr_assert_eq(open_fds(), fds - 1);
	cr_assert_not(rr_statseg_move_fd(fd));
	cr_assert_eq(rr_statseg_get(true), seg);
}

/* The app has put another file there, unseen. */
Test(statseg_rare, what_is_no_longer_at_its_number_does_not_move)
{
	struct rr_stat_seg *seg = rr_statseg_get(true);
	int fd = rr_ownfd_next(0), other = open(top, O_RDONLY), fds;
	struct stat a, b;

	cr_assert(seg && fd >= 0 && other >= 0);
	cr_assert_eq(dup2(other, fd), fd);
	fds = open_fds();
	cr_assert(rr_statseg_move_fd(fd));
	cr_assert(!fstat(fd, &a) && !fstat(other, &b) && a.st_ino == b.st_ino, "it is the app's");
	cr_assert_eq(open_fds(), fds);
	cr_assert_eq(rr_ownfd_next(0), -1);
	for (int i = 0; i < 3; i++)
		cr_assert_not(rr_statseg_move_fd(i));
}

Test(statseg_rare, what_cannot_be_mapped_is_not_kept)
{
	int fds = open_fds();

	no_map = true;
	errno = EXDEV;
	assert_memory(rr_statseg_get(true), fds);
}

static void own_name(char *name, size_t size)
{
	snprintf(name, size, "%d.%llu", getpid(), (unsigned long long)rr_proc_ticks(0));
}

/* It has our pid in another namespace, say. */
Test(statseg_rare, where_another_has_the_name_nothing_stays_of_the_file)
{
	char name[64];
	int fds, pid;

	own_name(name, sizeof(name));
	pid = holder_of(name, false);
	fds = open_fds();
	errno = EXDEV;
	assert_memfd(rr_statseg_get(true), fds);
	cr_assert_eq(unmapped, 1);
	cr_assert_eq(entries(), 1);
	cr_assert(exists(name));
	end_holder(pid);
}

Test(statseg_rare, a_link_in_our_name_is_not_what_it_leads_to)
{
	char name[64], path[200];
	struct stat st;
	int pid = holder_of("another", false);

	own_name(name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(symlink("another", path), 0);
	cr_assert_not_null(rr_statseg_get(true));
	cr_assert_eq(memfd.calls, 0);
	cr_assert(!lstat(path, &st) && S_ISREG(st.st_mode));
	end_holder(pid);
}

Test(statseg_rare, what_is_to_be_written_is_allocated_before)
{
	struct rr_stat_seg *seg = rr_statseg_get(true);
	int fd = rr_ownfd_next(0), other = __real_memfd_create("other", MFD_CLOEXEC);
	bool (*room)(size_t off, size_t len) = atomic_load(&rr_stats_room);
	struct stat before, after;

	cr_assert(seg && room && !fstat(fd, &before));
	cr_assert(room(RR_STAT_SIZE / 2, 4 * RR_PAGE));
	cr_assert_eq(fstat(fd, &after), 0);
	cr_assert_geq(after.st_blocks, before.st_blocks + 4 * RR_PAGE / 512);
	cr_assert_eq(after.st_size, before.st_size);
	rooms = 0;
	cr_assert_not(room(RR_STAT_SIZE / 2, RR_PAGE));
	rooms = UINT_MAX;
	/* Its number is another file's by now. */
	cr_assert_eq(dup2(other, fd), fd);
	cr_assert_not(room(RR_STAT_SIZE / 2, RR_PAGE));
}

/* The app has closed 0, and some call has failed with this error before. */
Test(statseg_rare, a_memfd_may_have_the_number_0_for_a_moment)
{
	int fds;

	close(0);
	fds = open_fds();
	rr_statseg_setup(no_dir, "/host");
	errno = EINVAL;
	cr_assert_not_null(rr_statseg_get(true));
	cr_assert(memfd.calls == 1 && errno == EINVAL);
	cr_assert_geq(rr_ownfd_next(0), 3);
	cr_assert_eq(open_fds(), fds + 1);
}

/* Of a file on a disk nothing is read ahead. */
Test(statseg_rare, pages_of_a_file_are_touched_one_by_one)
{
	cr_assert_not_null(rr_statseg_get(true));
	cr_assert_eq(advices, 1);
}

Test(statseg_rare, where_the_directory_goes_meanwhile_it_is_a_memfd)
{
	int fds = open_fds();

	sweeper_removes = true;
	errno = EXDEV;
	assert_memfd(rr_statseg_get(true), fds);
	cr_assert_eq(memfd.calls, 1);
}

/* Somebody who may write there has put it there: nobody opens its other end. */
Test(statseg_rare, a_pipe_in_our_name_is_not_waited_for)
{
	char name[64], path[200];
	struct stat st;

	own_name(name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_not_null(rr_statseg_get(true));
	cr_assert(!lstat(path, &st) && S_ISREG(st.st_mode));
}

Test(statseg_rare, an_older_kernel_does_not_know_the_seal)
{
	int fds = open_fds();

	rr_statseg_setup(no_dir, "/host");
	memfd.err = EINVAL;
	errno = EXDEV;
	assert_memfd(rr_statseg_get(true), fds);
	cr_assert_eq(memfd.calls, 2);
	cr_assert(memfd.flags[0] == (MFD_CLOEXEC | 8u) && memfd.flags[1] == MFD_CLOEXEC);
}

Test(statseg_rare, a_kernel_without_memfds_is_not_asked_twice)
{
	int fds = open_fds();

	rr_statseg_setup(no_dir, "/host");
	memfd.err = ENOSYS;
	errno = EXDEV;
	assert_memory(rr_statseg_get(true), fds);
	cr_assert_eq(memfd.calls, 1);
}

/* --- the clock --- */

static bool ticks_with(const char *text)
{
	char path[200];
	struct rr_stat_seg *seg;
	int fd, fds;

	snprintf(path, sizeof(path), "%s/clock", top);
	unlink(path);
	if (text) {
		fd = open(path, O_CREAT | O_WRONLY, 0600);
		cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
		close(fd);
	}
	clock_file = path;
	fds = open_fds();
	seg = rr_statseg_get(true);
	cr_assert(seg && open_fds() == fds + 1, "nothing but its own stays open");
	clock_file = NULL;
	rr_statseg_fork_child();
	cr_assert_eq(open_fds(), fds);
	return atomic_load(&seg->clock.state);
}

Test(statseg_rare, the_clock_is_the_one_that_the_kernel_names)
{
#ifdef __x86_64__
	cr_assert(ticks_with("tsc\n"));
	cr_assert(ticks_with("tsc"));
#endif
	close(0);
#ifdef __x86_64__
	cr_assert(ticks_with("tsc\n"), "by the number 0");
#endif
	cr_assert_not(ticks_with("hpet\n"));
	cr_assert_not(ticks_with(""));
	cr_assert_not(ticks_with(NULL), "there is no such file");
}

/* --- two that make it --- */

static _Atomic int asked, yields;
static pthread_t second;
static struct rr_stat_seg *seconds;

int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	yields++;
	return __real_sched_yield();
}

static void *get_too(void *arg RR_UNUSED)
{
	errno = ESRCH;
	seconds = rr_statseg_get(true);
	cr_assert_eq(errno, ESRCH);
	return NULL;
}

/* While the first one makes it the second one comes, and waits. */
static const char *dir_of_two(void)
{
	if (asked++)
		return "";
	cr_assert_eq(pthread_create(&second, NULL, get_too, NULL), 0);
	while (yields < 3 && asked < 2)
		usleep(1000);
	return "";
}

Test(statseg_rare, of_two_threads_one_makes_it_and_the_other_waits)
{
	struct rr_stat_seg *seg;

	rr_statseg_setup(dir_of_two, "/host");
	seg = rr_statseg_get(true);
	pthread_join(second, NULL);
	cr_assert(seg && seconds == seg);
	cr_assert_eq(asked, 1);
}

/* --- who stops upgrades --- */

static struct { int calls; uid_t uid[2]; const char *dir[2]; bool says[2]; } stop;
static uid_t me = (uid_t)-1;	/* as the kernel says */

bool __wrap_rr_rundir_stopped(const char *d, uid_t uid);
uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);

bool __wrap_rr_rundir_stopped(const char *d, uid_t uid)
{
	cr_assert_lt(stop.calls, 2);
	stop.dir[stop.calls] = d;
	stop.uid[stop.calls] = uid;
	errno = ENOENT;
	return stop.says[stop.calls++];
}

uid_t __wrap_geteuid(void)
{
	return me != (uid_t)-1 ? me : __real_geteuid();
}

static bool stopped(bool host, bool own)
{
	stop.calls = 0;
	stop.says[0] = host;
	stop.says[1] = own;
	return rr_statseg_stopped();
}

Test(statseg_rare, root_stops_all_and_each_user_its_own)
{
	me = 4711;
	cr_assert(stopped(true, false) && stop.calls == 1);
	cr_assert(!strcmp(stop.dir[0], "/host") && stop.uid[0] == 0);
	cr_assert(stopped(false, true) && stop.calls == 2);
	cr_assert(stop.dir[1] == dir && stop.uid[1] == 4711);
	cr_assert_not(stopped(false, false));
	/* Root has the host's. */
	me = 0;
	cr_assert(!stopped(false, true) && stop.calls == 1);
	cr_assert(stopped(true, false) && stop.calls == 1);
	cr_assert_eq(errno, EXDEV);
}
