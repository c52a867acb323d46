/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics segment of this process: a file in the run directory, a memfd where there
 * is none, memory where there can be no file; its descriptor, and what a forked child has of
 * it. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "core/base/ownfd.h"
#include "core/base/stats_abi.h"
#include "preload/statseg.h"
#include "tests/unit/segment_holder.h"

TestSuite(statseg, .init = make, .fini = clean);

static const char *dir_of_seg;

static const char *own_dir(void)
{
	return dir_of_seg;
}

static void set_up(const char *own, const char *host)
{
	dir_of_seg = own;
	rr_statseg_setup(own_dir, host);
}

static struct rr_stat_seg *seg_of(const char *d)
{
	set_up(d, "");
	return rr_statseg_get(true);
}

static void own_name(char *name, size_t size)
{
	snprintf(name, size, "%d.%llu", getpid(), (unsigned long long)rr_proc_ticks(0));
}

static int own_fd(void)
{
	return rr_ownfd_next(0);
}

static int fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 70000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void link_of(int fd, char *to, size_t size)
{
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, to, size - 1);
	to[n < 0 ? 0 : n] = '\0';
}

Test(statseg, the_segment_is_a_sparse_file_that_everybody_may_read)
{
	char name[40], path[200];
	struct rr_stat_seg *seg;
	struct stat st;
	int fd, before;

	umask(077);
	cr_assert(rr_rundir_use(dir));
	fd = dup(0);
	close(fd);
	before = fds();
	errno = EXDEV;
	seg = seg_of(dir);
	cr_assert_eq(errno, EXDEV);
	cr_assert_eq(fds(), before + 1);
	cr_assert_eq(dup(0), fd, "low numbers are the app's");
	cr_assert_eq(rr_statseg_get(true), seg);
	own_name(name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(lstat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0644);
	cr_assert_eq(st.st_size, RR_STAT_SIZE);
	cr_assert_leq(st.st_blocks * 512, 65536);
	cr_assert_eq(seg->pid, getpid());
	cr_assert_eq(seg->magic, RR_STAT_MAGIC);
	cr_assert_eq(entries(), 1);
	for (int i = 0; i < 50; i++)
		rr_count(rr_stats_counters(rr_stats_claim(seg, i, false)), RR_C_calls_sent, 1);
	cr_assert_geq(seg->backed, sizeof(*seg) + 50 * sizeof(struct rr_stat_conn));
}

/* Leaves bytes on the stack where the next function has its own. */
static RR_NOINLINE void dirty_the_stack(void)
{
	volatile char all[16384];

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = 'x';
}

Test(statseg, it_says_which_program_this_is)
{
	char exe[200];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	struct rr_stat_seg *seg;

	cr_assert_gt(n, 0);
	exe[rr_min((size_t)n, sizeof(seg->exe) - 1)] = '\0';
	set_up("", "");
	dirty_the_stack();
	seg = rr_statseg_get(true);
	cr_assert_str_eq(seg->exe, exe);
}

/* As another process sees it. */
static int seen_by_a_child(int fd)
{
	int status;
	pid_t p = fork();

	if (!p)
		_exit(rr_segment_holder(fd) == getppid() ? 0 : rr_segment_holder(fd) < 0 ? 1 : 2);
	waitpid(p, &status, 0);
	return WEXITSTATUS(status);
}

Test(statseg, its_descriptor_is_high_held_and_does_not_survive_exec)
{
	int fd;

	cr_assert(rr_rundir_use(dir));
	seg_of(dir);
	fd = own_fd();
	cr_assert_geq(fd, rr_ownfd_floor(0));
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(seen_by_a_child(fd), 0);
}

Test(statseg, its_descriptor_moves_out_of_the_way_and_stays_held)
{
	int fd, before;

	cr_assert(rr_rundir_use(dir));
	seg_of(dir);
	fd = own_fd();
	before = fds();
	cr_assert_not(rr_statseg_move_fd(fd + 1));
	cr_assert_not(rr_statseg_move_fd(-1));
	cr_assert(rr_statseg_move_fd(fd));
	cr_assert_lt(fcntl(fd, F_GETFD), 0);
	cr_assert_geq(own_fd(), rr_ownfd_floor(0));
	cr_assert_neq(own_fd(), fd);
	cr_assert_eq(fds(), before);
	cr_assert_eq(seen_by_a_child(own_fd()), 0);
}

Test(statseg, what_took_over_its_number_unseen_is_not_closed)
{
	int fd, status;
	pid_t p;

	cr_assert(rr_rundir_use(dir));
	seg_of(dir);
	fd = own_fd();
	cr_assert_eq(dup2(0, fd), fd);
	p = fork();
	if (!p) {
		rr_statseg_fork_child();
		_exit(fcntl(fd, F_GETFD) < 0);
	}
	waitpid(p, &status, 0);
	cr_assert_eq(status, 0);
}

Test(statseg, where_few_descriptors_are_allowed_low_numbers_stay_the_apps)
{
	struct rlimit lim = { 20, 20 };
	int fd;

	cr_assert(rr_rundir_use(dir));
	fd = dup(0);
	close(fd);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	seg_of(dir);
	cr_assert_eq(dup(0), fd);
	cr_assert_geq(own_fd(), 15);
}

Test(statseg, without_a_directory_the_segment_is_a_memfd_named_after_it)
{
	struct rr_stat_seg *seg;
	char name[200];

	set_up("", "/run/somewhere");
	seg = rr_statseg_get(true);
	cr_assert(seg);
	cr_assert_eq(seg->pid, getpid());
	rr_stats_release(seg, rr_stats_claim(seg, 1, false));
	link_of(own_fd(), name, sizeof(name));
	cr_assert_str_eq(name, "/memfd:" RR_RUN_MEMFD "/run/somewhere (deleted)");
	cr_assert_eq(seen_by_a_child(own_fd()), 0);
}

static volatile sig_atomic_t signals;

static void count_signal(int sig)
{
	signals += sig != 0;
}

Test(statseg, where_files_must_stay_small_the_segment_is_memory_and_there_is_no_signal)
{
	const rlim_t limits[] = { 0, 512, 100 << 10, RR_STAT_SIZE - 1 };

	signal(SIGXFSZ, count_signal);
	cr_assert(rr_rundir_use(dir));
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		struct rlimit lim = { limits[i], RLIM_INFINITY };

		cr_assert_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
		rr_statseg_fork_child();
		cr_assert(seg_of(dir));
		rr_stats_claim(rr_statseg_get(true), 1, false);
		cr_assert_eq(own_fd(), -1, "no descriptor for nothing");
		cr_assert_eq(entries(), 0);
	}
	cr_assert_eq(signals, 0);
}

/* From now on MADV_POPULATE_WRITE (23) is unknown, as to Linux before 5.14. */
static bool old_kernel(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 23, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(*f), f };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* Uses all of a segment's entries on a file system of so many KiB; the wait status. */
static int use_all(const char *options, bool old)
{
	struct rr_stat_seg *seg;
	int status;
	pid_t p = fork();

	if (!p) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", dir, "tmpfs", 0, options) || (old && !old_kernel()))
			_exit(77);
		seg = seg_of(dir);
		for (int i = 0; i < 5000; i++)
			rr_count(rr_stats_counters(rr_stats_claim(seg, i, false)), RR_C_calls_sent, 1);
		_exit(entries() != 1);
	}
	waitpid(p, &status, 0);
	return status;
}

Test(statseg, a_full_file_system_is_no_signal)
{
	cr_assert(rr_rundir_use(dir));
	if (geteuid() != 0 || use_all("size=1m", false) == 77 << 8)
		cr_skip("needs root and mount namespaces");
	cr_assert_eq(use_all("size=16k", false), 0);
	cr_assert_eq(use_all("size=1m", false), 0);
	cr_assert_eq(use_all("size=16k", true), 0, "on an old kernel");
	cr_assert_eq(use_all("size=1m", true), 0, "on an old kernel");
	cr_assert_eq(use_all("size=8m", true), 0, "on an old kernel");
}

Test(statseg, a_directory_that_went_away_is_no_error)
{
	char absent[96];

	snprintf(absent, sizeof(absent), "%s/absent/dir", top);
	cr_assert(seg_of(absent));
}

Test(statseg, a_name_that_is_taken_by_our_life_before_exec_is_retired)
{
	char name[40];

	cr_assert(rr_rundir_use(dir));
	own_name(name, sizeof(name));
	touch(name);
	cr_assert(seg_of(dir));
	cr_assert(retired(name));
	cr_assert(exists(name));
	cr_assert_eq(entries(), 2);
}

Test(statseg, a_name_that_a_living_process_of_another_namespace_has_is_left_to_it)
{
	char name[40], link[200];
	int p;

	cr_assert(rr_rundir_use(dir));
	own_name(name, sizeof(name));
	p = holder_of(name, false);
	cr_assert(seg_of(dir));
	cr_assert_eq(holder_seen(name), p);
	cr_assert_eq(entries(), 1);
	link_of(own_fd(), link, sizeof(link));
	cr_assert(!strncmp(link, "/memfd:", 7), "%s", link);
	end_holder(p);
}

Test(statseg, a_link_in_our_name_is_not_followed)
{
	char name[40], path[200];
	struct stat st;

	cr_assert(rr_rundir_use(dir));
	own_name(name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(symlink("../victim", path), 0);
	cr_assert(seg_of(dir));
	snprintf(path, sizeof(path), "%s/victim", top);
	cr_assert(access(path, F_OK), "nothing was made at its end");
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert(lstat(path, &st) == 0 && S_ISREG(st.st_mode));
}

Test(statseg, a_forked_child_gets_a_segment_of_its_own_at_first_use)
{
	struct rr_stat_seg *seg;
	int status, fd, before;
	pid_t p;

	cr_assert(rr_rundir_use(dir));
	seg = seg_of(dir);
	fd = own_fd();
	before = fds();
	p = fork();
	if (!p) {
		errno = EXDEV;
		rr_statseg_fork_child();
		if (errno != EXDEV || own_fd() >= 0 || fds() != before - 1)
			_exit(2);
		rr_stats_tcp(seg, RR_R_POLICY);	/* the parent's stays mapped */
		_exit(entries() == 1 && rr_statseg_get(true) != seg && entries() == 2 &&
		      rr_statseg_get(true)->pid == getpid() ? 0 : 1);
	}
	waitpid(p, &status, 0);
	cr_assert_eq(status, 0);
	cr_assert_eq(seen_by_a_child(fd), 0, "still held by the parent");
	cr_assert_eq(seg->reasons[RR_R_POLICY], 1);
}

Test(statseg, upgrades_are_stopped_by_root_in_the_hosts_directory_and_by_us_in_ours)
{
	char other[96], name[RR_RUN_NAME];

	snprintf(other, sizeof(other), "%s/e", top);
	cr_assert(rr_rundir_use(dir));
	set_up(other, dir);
	cr_assert_not(rr_statseg_stopped());
	if (geteuid() == 0) {
		touch("stop");
		cr_assert(rr_statseg_stopped());
		cr_assert_eq(seteuid(12345), 0);
		cr_assert_not(rr_statseg_stopped(), "which is closed to that user");
		cr_assert_eq(seteuid(0), 0);
		chmod(top, 0755);
		cr_assert_eq(seteuid(12345), 0);
		cr_assert(rr_statseg_stopped());
	} else {
		rr_rundir_stop_name(geteuid(), name);
		touch(name);
		set_up(dir, other);
		cr_assert(rr_statseg_stopped());
	}
}

static void hidden_name(char *name, size_t size)
{
	name[0] = '.';
	own_name(name + 1, size - 1);
}

/* Of a process of our pid that was killed in between, or of ourselves before an exec. */
Test(statseg, a_hidden_name_that_is_left_over_is_made_anew)
{
	char name[41];

	cr_assert(rr_rundir_use(dir));
	hidden_name(name, sizeof(name));
	touch(name);
	cr_assert(seg_of(dir));
	cr_assert_not(exists(name));
	cr_assert(exists(name + 1));
	cr_assert_eq(entries(), 1);
	cr_assert_eq(seen_by_a_child(own_fd()), 0);
}

static struct rr_stat_seg *within;
static int asked;

static const char *own_dir_within(void)
{
	asked++;
	within = rr_statseg_get(true);
	return "";
}

/* As a signal handler in the middle of its making does. */
Test(statseg, who_interrupts_its_maker_goes_without, .timeout = 60)
{
	struct rr_stat_seg *seg;

	rr_statseg_setup(own_dir_within, "");
	cr_assert_null(rr_statseg_get(false));
	cr_assert_eq(asked, 0, "nobody wants one");
	within = (struct rr_stat_seg *)top;
	seg = rr_statseg_get(true);
	cr_assert(seg && !within && asked == 1);
	cr_assert_eq(rr_statseg_get(false), seg);
	cr_assert_eq(rr_statseg_get(true), seg);
	cr_assert_eq(asked, 1);
}

/* The Makefile wraps mmap(). */
static bool no_memory;

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	return no_memory ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, off);
}

Test(statseg, who_has_got_none_may_get_one_later)
{
	dir_of_seg = "";
	rr_statseg_setup(own_dir, "");
	no_memory = true;
	cr_assert_null(rr_statseg_get(true));
	no_memory = false;
	cr_assert_not_null(rr_statseg_get(true));
}

Test(statseg, before_there_is_one_no_number_is_its)
{
	struct rlimit lim = { 0, RLIM_INFINITY };
	struct rr_stat_seg *seg;

	for (int fd = -1; fd < 4; fd++)
		cr_assert_not(rr_statseg_move_fd(fd), "%d", fd);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	seg = seg_of("");
	cr_assert(seg && seg->backed == RR_STAT_SIZE, "memory has no file of which to allocate more");
}
