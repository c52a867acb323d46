/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/rundir.h"
#include "core/base/stats_abi.h"
#include "preload/statseg.h"

static char top[64], dir[96];

static void make(void)
{
	strcpy(top, "/tmp/rr-run-XXXXXX");
	cr_assert(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/d", top);
}

static void clean(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", top);
	cr_assert_eq(system(cmd), 0);
}

TestSuite(rundir, .init = make, .fini = clean);

static void touch(const char *name)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY, 0644);
	cr_assert_geq(fd, 0);
	close(fd);
}

/* The name of a process that was found dead so many seconds ago. */
static const char *dead(int pid, long age)
{
	static char name[4][48];
	static int n;

	n = (n + 1) % 4;
	snprintf(name[n], sizeof(name[n]), "%d.1.%ld", pid, (long)time(NULL) - age);
	return name[n];
}

static bool exists(const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

static unsigned entries(void)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* A pid that was ours and is nobody's. */
static int dead_pid(void)
{
	pid_t p = fork();

	if (!p)
		_exit(0);
	waitpid(p, NULL, 0);
	return p;
}

Test(rundir, places_are_the_configured_one_or_the_usual_ones)
{
	char out[RR_RUN_PATH];

	cr_assert(rr_rundir_place("/a", "/x", 0, out));
	cr_assert_str_eq(out, "/a");
	cr_assert_not(rr_rundir_place("/a", "/x", 1, out));
	cr_assert(rr_rundir_place("", "/x", 0, out));
	cr_assert_str_eq(out, "/run/rdmarpc");
	cr_assert(rr_rundir_place(NULL, "/x", 1, out));
	cr_assert_str_eq(out, "/x/rdmarpc");
	cr_assert_not(rr_rundir_place(NULL, "/x", 2, out));
	cr_assert_not(rr_rundir_place(NULL, NULL, 1, out));
	cr_assert_not(rr_rundir_place(NULL, "relative", 1, out));
}

Test(rundir, a_place_too_long_is_none)
{
	char xdg[200] = "/", out[RR_RUN_PATH];

	memset(xdg + 1, 'x', sizeof(xdg) - 2);
	cr_assert_not(rr_rundir_place(NULL, xdg, 1, out));
}

Test(rundir, a_missing_directory_is_made_sticky_by_root_and_private_by_others)
{
	struct stat st;

	umask(077);
	cr_assert(rr_rundir_use(dir));
	cr_assert_eq(lstat(dir, &st), 0);
	cr_assert_eq(st.st_mode & 07777, geteuid() ? 0700 : 01777);
}

Test(rundir, directories_that_others_could_tamper_with_are_not_used)
{
	char link[96];

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
	if (geteuid() == 0) {
		cr_assert_eq(chown(dir, 12345, 12345), 0);
		cr_assert_not(rr_rundir_use(dir), "somebody else's");
	}
	cr_assert_not(rr_rundir_use("/dev/null"));
	cr_assert_not(rr_rundir_use("/nonexistent/a/b"));
}

Test(rundir, stop_counts_if_it_is_roots_or_ours)
{
	cr_assert(rr_rundir_use(dir));
	cr_assert_not(rr_rundir_stopped(dir));
	cr_assert_not(rr_rundir_stopped(""));
	touch("stop");
	cr_assert(rr_rundir_stopped(dir));
	if (geteuid() == 0) {
		char path[200];

		snprintf(path, sizeof(path), "%s/stop", dir);
		cr_assert_eq(chown(path, 12345, 12345), 0);
		cr_assert_not(rr_rundir_stopped(dir), "anybody may make files there");
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

/* Is there a file of name with a time behind it? */
static bool retired(const char *name)
{
	DIR *d = opendir(dir);
	struct rr_segname s;
	struct dirent *e;
	bool found = false;

	while ((e = readdir(d)))
		if (!strncmp(e->d_name, name, strlen(name)) && rr_segname_parse(e->d_name, &s))
			found |= s.died + 60 > (uint64_t)time(NULL);
	closedir(d);
	return found;
}

Test(rundir, sweep_retires_the_dead_and_leaves_the_living_and_what_is_not_ours)
{
	char alive[40], gone[40];

	cr_assert(rr_rundir_use(dir));
	snprintf(alive, sizeof(alive), "%d.%llu", getpid(), (unsigned long long)rr_proc_ticks(0));
	snprintf(gone, sizeof(gone), "%d.5", dead_pid());
	touch(alive);
	touch(gone);
	touch("stop");
	touch("shm.sock");
	rr_rundir_sweep(dir, true);
	cr_assert(exists(alive));
	cr_assert(exists("stop"));
	cr_assert(exists("shm.sock"));
	cr_assert_not(exists(gone));
	cr_assert(retired(gone), "kept: its hour begins now");
	cr_assert_eq(entries(), 4);
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
	return rr_statseg_get();
}

static void own_name(char *name, size_t size)
{
	snprintf(name, size, "%d.%llu", getpid(), (unsigned long long)rr_proc_ticks(0));
}

Test(rundir, the_segment_is_a_sparse_file_that_everybody_may_read)
{
	char name[40], path[200];
	struct rr_stat_seg *seg;
	struct stat st;
	int fd;

	umask(077);
	cr_assert(rr_rundir_use(dir));
	fd = dup(0);
	close(fd);
	errno = EXDEV;
	seg = seg_of(dir);
	cr_assert_eq(errno, EXDEV);
	cr_assert_eq(dup(0), fd, "no descriptor stays");
	cr_assert_eq(rr_statseg_get(), seg);
	own_name(name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(lstat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0644);
	cr_assert_eq(st.st_size, RR_STAT_SIZE);
	cr_assert_leq(st.st_blocks * 512, 65536);
	cr_assert_eq(seg->pid, getpid());
	cr_assert_eq(seg->magic, RR_STAT_MAGIC);
	for (int i = 0; i < 50; i++)
		rr_count(rr_stats_counters(rr_stats_claim(seg, i, false)), RR_C_calls_sent, 1);
	cr_assert_geq(seg->backed, sizeof(*seg) + 50 * sizeof(struct rr_stat_conn));
}

Test(rundir, without_a_directory_the_segment_is_memory)
{
	struct rr_stat_seg *seg = seg_of("");

	cr_assert(seg);
	cr_assert_eq(seg->pid, getpid());
	rr_stats_release(seg, rr_stats_claim(seg, 1, false));
}

Test(rundir, a_directory_that_went_away_is_no_error)
{
	cr_assert(seg_of("/nonexistent/dir"));
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
	int status;
	pid_t p;

	cr_assert(rr_rundir_use(dir));
	seg = seg_of(dir);
	p = fork();
	if (!p) {
		rr_statseg_fork_child();
		rr_stats_tcp(seg, RR_R_POLICY);	/* the parent's stays mapped */
		_exit(entries() == 1 && rr_statseg_get() != seg && entries() == 2 &&
		      rr_statseg_get()->pid == getpid() ? 0 : 1);
	}
	waitpid(p, &status, 0);
	cr_assert_eq(status, 0);
	cr_assert_eq(seg->reasons[RR_R_POLICY], 1);
}

Test(rundir, upgrades_are_stopped_by_the_host_or_by_our_directory)
{
	char other[96];

	snprintf(other, sizeof(other), "%s/e", top);
	cr_assert(rr_rundir_use(dir));
	rr_statseg_setup(other, dir);
	cr_assert_not(rr_statseg_stopped());
	touch("stop");
	cr_assert(rr_statseg_stopped());
	rr_statseg_setup(dir, "");
	cr_assert(rr_statseg_stopped());
}
