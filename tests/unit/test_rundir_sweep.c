/* SPDX-License-Identifier: BSD-3-Clause */
/* What a starting process finds in the run directory: segments of the living are left alone,
 * those of the dead are kept for a while and then removed, and other files stay. */
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/un.h>

#include "tests/unit/segment_holder.h"

TestSuite(rundir_sweep, .init = make, .fini = clean);

/* The name of a process that was found dead so many seconds ago. */
static const char *dead(int pid, long age)
{
	static char name[4][48];
	static int n;

	n = (n + 1) % 4;
	snprintf(name[n], sizeof(name[n]), "%d.1.%ld", pid, (long)time(NULL) - age);
	return name[n];
}

Test(rundir_sweep, sweep_retires_the_dead_and_leaves_the_living_and_what_is_not_ours)
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
Test(rundir_sweep, of_processes_that_start_one_in_eight_sweeps)
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

Test(rundir_sweep, the_living_are_held_whatever_their_pid_is_here)
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

Test(rundir_sweep, in_another_pid_namespace_the_living_live_and_have_no_pid)
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

Test(rundir_sweep, a_reader_cannot_keep_the_dead_alive)
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

Test(rundir_sweep, a_pid_in_its_next_life_is_noticed_when_thorough)
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

Test(rundir_sweep, what_was_left_before_it_had_a_name_goes)
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

Test(rundir_sweep, a_start_looks_at_few_segments_whoever_put_them_there)
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

/* Nobody can hold it, so nobody does. */
Test(rundir_sweep, a_socket_with_a_segments_name_is_nobodys)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	cr_assert(rr_rundir_use(dir));
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%d.9", dir, getpid());
	cr_assert_eq(bind(s, (void *)&sa, sizeof(sa)), 0);
	close(s);
	rr_rundir_sweep(dir, true);
	cr_assert_eq(access(sa.sun_path, F_OK), -1);
}

Test(rundir_sweep, the_dead_go_after_an_hour)
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

Test(rundir_sweep, the_old_go_wherever_they_lie_among_the_recent)
{
	char name[24][48];

	cr_assert(rr_rundir_use(dir));
	for (int i = 0; i < 24; i++) {
		strcpy(name[i], dead(100 + i, i & 1 ? 3700 : 3500));
		touch(name[i]);
	}
	rr_rundir_sweep(dir, false);
	for (int i = 0; i < 24; i++)
		cr_assert_eq(exists(name[i]), !(i & 1), "%d", i);
}

Test(rundir_sweep, of_the_dead_the_newest_64_are_kept)
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

Test(rundir_sweep, more_dead_than_one_sweep_sees_go_by_and_by)
{
	cr_assert(rr_rundir_use(dir));
	for (int i = 0; i < 300; i++)
		touch(dead(1000 + i, 0));
	for (int i = 0; i < 5; i++)
		rr_rundir_sweep(dir, false);
	cr_assert_eq(entries(), 64);
}
