/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/rundir.h"
#include "core/base/ownfd.h"
#include "core/base/stats_abi.h"
#include "preload/statseg.h"

TestSuite(rundir, .init = make, .fini = clean);

/* The name of a process that was found dead so many seconds ago. */
static const char *dead(int pid, long age)
{
	static char name[4][48];
	static int n;

	n = (n + 1) % 4;
	snprintf(name[n], sizeof(name[n]), "%d.1.%ld", pid, (long)time(NULL) - age);
	return name[n];
}

Test(rundir, places_are_the_configured_one_or_those_that_no_other_user_can_write)
{
	char out[RR_RUN_PATH];

	cr_assert(rr_rundir_place("/a", "/x", 7, 0, out));
	cr_assert_str_eq(out, "/a");
	cr_assert_not(rr_rundir_place("/a", "/x", 7, 1, out));
	cr_assert(rr_rundir_place("", "/x", 0, 0, out));
	cr_assert_str_eq(out, "/run/rdmarpc");
	cr_assert(rr_rundir_place("", "/x", 7, 0, out));
	cr_assert_str_eq(out, "/run/rdmarpc/7");
	cr_assert(rr_rundir_place(NULL, "/x", 7, 1, out));
	cr_assert_str_eq(out, "/x/rdmarpc");
	cr_assert_not(rr_rundir_place(NULL, "/x", 7, 2, out));
	cr_assert_not(rr_rundir_place(NULL, NULL, 7, 1, out));
	cr_assert_not(rr_rundir_place(NULL, "relative", 7, 1, out));
}

Test(rundir, a_place_too_long_is_none)
{
	char xdg[200] = "/", out[RR_RUN_PATH];

	memset(xdg + 1, 'x', sizeof(xdg) - 2);
	cr_assert_not(rr_rundir_place(NULL, xdg, 7, 1, out));
}

Test(rundir, a_missing_directory_is_made_so_that_nobody_else_can_write)
{
	struct stat st;

	umask(0);
	cr_assert(rr_rundir_use(dir));
	cr_assert_eq(lstat(dir, &st), 0);
	cr_assert_eq(st.st_mode & 07777, geteuid() ? 0700 : 0755);
	rmdir(dir);
	umask(077);
	cr_assert(rr_rundir_use(dir));
	cr_assert_eq(lstat(dir, &st), 0);
	cr_assert_eq(st.st_mode & 07777, geteuid() ? 0700 : 0755);
}

Test(rundir, directories_that_others_could_tamper_with_are_not_used)
{
	char link[96], absent[96];

	cr_assert_eq(mkdir(dir, 0755), 0);
	cr_assert(rr_rundir_use(dir));
	chmod(dir, 0777);
	cr_assert_not(rr_rundir_use(dir), "writable by all and not sticky");
	chmod(dir, 0775);
	cr_assert_not(rr_rundir_use(dir));
	chmod(dir, 01777);
	cr_assert(rr_rundir_use(dir));
	snprintf(link, sizeof(link), "%s/l", top);
	cr_assert_eq(symlink(dir, link), 0);
	cr_assert_not(rr_rundir_use(link), "a link");
	chmod(top, 0777);
	cr_assert_not(rr_rundir_use(dir), "others can put another directory in its place");
	chmod(top, 0700);
	cr_assert(rr_rundir_use(dir));
	if (geteuid() == 0) {
		cr_assert_eq(chown(dir, 12345, 12345), 0);
		cr_assert_not(rr_rundir_use(dir), "somebody else's");
	}
	cr_assert_not(rr_rundir_use("/dev/null"));
	snprintf(absent, sizeof(absent), "%s/absent/a/b", top);
	cr_assert_not(rr_rundir_use(absent));
}

Test(rundir, stop_is_a_file_that_its_user_made_for_this)
{
	uid_t me = geteuid();
	char name[RR_RUN_NAME], path[200], link_to[200];

	rr_rundir_stop_name(0, name);
	cr_assert_str_eq(name, "stop");
	rr_rundir_stop_name(7, name);
	cr_assert_str_eq(name, "stop.7");
	rr_rundir_stop_name(me, name);
	cr_assert(rr_rundir_use(dir));
	cr_assert_not(rr_rundir_stopped(dir, me));
	cr_assert_not(rr_rundir_stopped("", me));
	touch(name);
	cr_assert(rr_rundir_stopped(dir, me));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(link_to, sizeof(link_to), "%s/x", dir);
	cr_assert_eq(link(path, link_to), 0);
	cr_assert_not(rr_rundir_stopped(dir, me), "somebody linked to another file of the user's");
	unlink(path);
	cr_assert_eq(symlink(link_to, path), 0);
	cr_assert_not(rr_rundir_stopped(dir, me));
	unlink(path);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_not(rr_rundir_stopped(dir, me));
	rmdir(path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_not(rr_rundir_stopped(dir, me));
	unlink(path);
	touch(name);
	if (me == 0) {
		cr_assert_eq(chown(path, 12345, 12345), 0);
		cr_assert_not(rr_rundir_stopped(dir, me), "anybody may make files there");
		cr_assert_not(rr_rundir_stopped(dir, 12345), "of that name root's only");
	}
}

Test(rundir, names_of_segments)
{
	struct rr_segname s;

	cr_assert(rr_segname_parse("12.345", &s));
	cr_assert(s.pid == 12 && s.ticks == 345 && !s.died);
	cr_assert(rr_segname_parse("12.345.9", &s));
	cr_assert_eq(s.died, 9);
	cr_assert_not(rr_segname_parse("12.345.0", &s));
	cr_assert_not(rr_segname_parse("stop", &s));
	cr_assert_not(rr_segname_parse("12", &s));
	cr_assert_not(rr_segname_parse("12.", &s));
	cr_assert_not(rr_segname_parse("0.5", &s));
	cr_assert_not(rr_segname_parse("-1.5", &s));
	cr_assert_not(rr_segname_parse("12.345.", &s));
	cr_assert_not(rr_segname_parse("12.345.1x", &s));
	cr_assert_not(rr_segname_parse("4294967297.1", &s));
	cr_assert_not(rr_segname_parse("1.99999999999999999999", &s));
}

/* A process that holds file name of dir, as a living one does; killed by its caller. in_space: in a PID
 * namespace of its own. */
static int holder_of(const char *name, bool in_space)
{
	char path[200], c;
	int ready[2];
	pid_t p;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(pipe(ready), 0);
	p = fork();
	if (!p) {
		int fd = open(path, O_RDWR | O_CREAT, 0644);

		if (in_space && (unshare(CLONE_NEWPID) || (p = fork()) != 0)) {
			close(ready[1]);
			waitpid(p, NULL, 0);
			_exit(0);
		}
		if (in_space)	/* end_holder() ends the one between */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (rr_segment_hold(fd))
			(void)!write(ready[1], "", 1);
		close(ready[1]);
		pause();
		_exit(0);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &c, 1), 1, "not held");
	close(ready[0]);
	return p;
}

static void end_holder(int p)
{
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
}

static int holder_seen(const char *name)
{
	char path[200];
	int fd, holder;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY);
	cr_assert_geq(fd, 0);
	holder = rr_segment_holder(fd);
	close(fd);
	return holder;
}

Test(rundir, sweep_retires_the_dead_and_leaves_the_living_and_what_is_not_ours)
{
	char gone[40];
	int p;

	cr_assert(rr_rundir_use(dir));
	snprintf(gone, sizeof(gone), "%d.5", dead_pid());
	p = holder_of("77.1", false);
	touch(gone);
	touch("stop");
	touch("shm.sock");
	rr_rundir_sweep(dir, true);
	cr_assert(exists("77.1"));
	cr_assert_eq(holder_seen("77.1"), p);
	cr_assert(exists("stop"));
	cr_assert(exists("shm.sock"));
	cr_assert_not(exists(gone));
	cr_assert(retired(gone), "kept: its hour begins now");
	cr_assert_eq(entries(), 4);
	end_holder(p);
	cr_assert_eq(holder_seen("77.1"), -1);
	rr_rundir_sweep(dir, true);
	cr_assert(retired("77.1"));
}

/* On tmpfs, where the number of names can be known. */
Test(rundir, of_processes_that_start_one_in_eight_sweeps)
{
	struct rr_rundir d;
	struct statfs fs;
	unsigned sweeps = 0;
	char name[20];

	clean();
	strcpy(top, "/dev/shm/rr-run-XXXXXX");
	cr_assert(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/d", top);
	cr_assert(rr_rundir_use(dir));
	for (int i = 1; i <= 64; i++) {
		snprintf(name, sizeof(name), "%d.1", 100000 + i);
		touch(name);
		rr_rundir_enter(dir, &d);
		sweeps += !d.swept;
		close(d.fd);
	}
	cr_assert(!statfs(dir, &fs));
	cr_assert(fs.f_type != TMPFS_MAGIC || sweeps == 8, "%u sweeps", sweeps);
}

Test(rundir, the_living_are_held_whatever_their_pid_is_here)
{
	char gone[40];
	int p;

	cr_assert(rr_rundir_use(dir));
	snprintf(gone, sizeof(gone), "%d.5", dead_pid());
	p = holder_of(gone, false);	/* as one of another PID namespace looks */
	rr_rundir_sweep(dir, false);
	rr_rundir_sweep(dir, true);
	cr_assert(exists(gone));
	end_holder(p);
	rr_rundir_sweep(dir, false);
	cr_assert_not(exists(gone));
}

static int space_sees(const char *name)
{
	int status;
	pid_t p = fork();

	if (!p) {
		if (unshare(CLONE_NEWPID))
			_exit(77);
		p = fork();
		if (!p) {
			rr_rundir_sweep(dir, true);
			_exit(exists(name) ? holder_seen(name) : 99);
		}
		waitpid(p, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	waitpid(p, &status, 0);
	return WEXITSTATUS(status);
}

Test(rundir, in_another_pid_namespace_the_living_live_and_have_no_pid)
{
	int p;

	if (geteuid() != 0)
		cr_skip("needs root");
	cr_assert(rr_rundir_use(dir));
	p = holder_of("77.1", false);
	cr_assert_eq(space_sees("77.1"), 0);
	end_holder(p);
	p = holder_of("1.5", true);
	cr_assert_gt(holder_seen("1.5"), 1, "its pid is ours, not its own");
	rr_rundir_sweep(dir, true);
	cr_assert(exists("1.5"));
	end_holder(p);
}

Test(rundir, a_reader_cannot_keep_the_dead_alive)
{
	char path[200];
	struct flock l = { .l_type = F_RDLCK };
	int status;
	pid_t p;

	cr_assert(rr_rundir_use(dir));
	touch("77.1");
	snprintf(path, sizeof(path), "%s/77.1", dir);
	p = fork();
	if (!p) {
		int fd = open(path, O_RDONLY);

		l.l_whence = SEEK_SET;
		if (fcntl(fd, F_SETLK, &l))
			_exit(77);
		p = fork();
		if (!p)
			_exit(holder_seen("77.1") != -1);
		waitpid(p, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	waitpid(p, &status, 0);
	cr_assert_eq(status, 0);
}

Test(rundir, a_pid_in_its_next_life_is_noticed_when_thorough)
{
	char old[40];

	cr_assert(rr_rundir_use(dir));
	snprintf(old, sizeof(old), "%d.1", getpid());
	touch(old);
	rr_rundir_sweep(dir, false);
	cr_assert(exists(old));
	rr_rundir_sweep(dir, true);
	cr_assert_not(exists(old));
	cr_assert(retired(old));
}

Test(rundir, what_was_left_before_it_had_a_name_goes)
{
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char path[200];

	cr_assert(rr_rundir_use(dir));
	touch(".77.1");
	touch(".77.2");
	snprintf(path, sizeof(path), "%s/.77.2", dir);
	cr_assert_eq(utimensat(AT_FDCWD, path, old, 0), 0);
	rr_rundir_sweep(dir, true);
	cr_assert(exists(".77.1"), "it may get its name yet");
	cr_assert_not(exists(".77.2"));
}

Test(rundir, a_start_looks_at_few_segments_whoever_put_them_there)
{
	unsigned left = 0;
	int gone = dead_pid();
	char name[48];

	cr_assert(rr_rundir_use(dir));
	chmod(dir, 01777);
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "%d.%d", gone, i);
		touch(name);
	}
	rr_rundir_sweep(dir, false);
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "%d.%d", gone, i);
		left += exists(name);
	}
	cr_assert_eq(left, 400 - 32);
}

Test(rundir, the_dead_go_after_an_hour)
{
	const char *old = dead(5, 3700), *recent = dead(6, 3500), *future = dead(7, -3700);

	cr_assert(rr_rundir_use(dir));
	touch(old);
	touch(recent);
	touch(future);
	rr_rundir_sweep(dir, false);
	cr_assert_not(exists(old));
	cr_assert(exists(recent));
	cr_assert_not(exists(future));
}

Test(rundir, of_the_dead_the_newest_64_are_kept)
{
	long now = (long)time(NULL);
	char name[48];

	cr_assert(rr_rundir_use(dir));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%d.1.%ld", 1000 + i, now - 1000 + i);
		touch(name);
	}
	rr_rundir_sweep(dir, false);
	cr_assert_eq(entries(), 64);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%d.1.%ld", 1000 + i, now - 1000 + i);
		cr_assert_eq(exists(name), i >= 36, "%d", i);
	}
}

Test(rundir, more_dead_than_one_sweep_sees_go_by_and_by)
{
	cr_assert(rr_rundir_use(dir));
	for (int i = 0; i < 300; i++)
		touch(dead(1000 + i, 0));
	for (int i = 0; i < 5; i++)
		rr_rundir_sweep(dir, false);
	cr_assert_eq(entries(), 64);
}

Test(rundir, start_ticks_tell_processes_apart)
{
	cr_assert_gt(rr_proc_ticks(0), 0);
	cr_assert_eq(rr_proc_ticks(0), rr_proc_ticks(getpid()));
	cr_assert_eq(rr_proc_ticks(dead_pid()), 0);
}
/* --- the segment of this process --- */

static struct rr_stat_seg *seg_of(const char *d)
{
	rr_statseg_setup(d, "");
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

Test(rundir, the_segment_is_a_sparse_file_that_everybody_may_read)
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

Test(rundir, its_descriptor_is_high_held_and_does_not_survive_exec)
{
	int fd;

	cr_assert(rr_rundir_use(dir));
	seg_of(dir);
	fd = own_fd();
	cr_assert_geq(fd, rr_ownfd_floor(0));
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(seen_by_a_child(fd), 0);
}

Test(rundir, its_descriptor_moves_out_of_the_way_and_stays_held)
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

Test(rundir, what_took_over_its_number_unseen_is_not_closed)
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

Test(rundir, where_few_descriptors_are_allowed_low_numbers_stay_the_apps)
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

Test(rundir, without_a_directory_the_segment_is_a_memfd_named_after_it)
{
	struct rr_stat_seg *seg;
	char name[200];

	rr_statseg_setup("", "/run/somewhere");
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

Test(rundir, where_files_must_stay_small_the_segment_is_memory_and_there_is_no_signal)
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

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
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

Test(rundir, a_full_file_system_is_no_signal)
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

Test(rundir, a_directory_that_went_away_is_no_error)
{
	char absent[96];

	snprintf(absent, sizeof(absent), "%s/absent/dir", top);
	cr_assert(seg_of(absent));
}

Test(rundir, a_name_that_is_taken_by_our_life_before_exec_is_retired)
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

Test(rundir, a_name_that_a_living_process_of_another_namespace_has_is_left_to_it)
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

Test(rundir, a_link_in_our_name_is_not_followed)
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

Test(rundir, a_forked_child_gets_a_segment_of_its_own_at_first_use)
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

Test(rundir, upgrades_are_stopped_by_root_in_the_hosts_directory_and_by_us_in_ours)
{
	char other[96], name[RR_RUN_NAME];

	snprintf(other, sizeof(other), "%s/e", top);
	cr_assert(rr_rundir_use(dir));
	rr_statseg_setup(other, dir);
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
		rr_statseg_setup(dir, other);
		cr_assert(rr_statseg_stopped());
	}
}
