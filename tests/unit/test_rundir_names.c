/* SPDX-License-Identifier: BSD-3-Clause */
/* Which directory it is, what is wrong with it, and the names in it, at their bounds. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "tests/unit/rundir.h"

TestSuite(rundir_names, .init = make, .fini = clean);

Test(rundir_names, opening_tells_whether_others_can_make_names_there)
{
	bool shared = true;
	int fd;

	cr_assert(rr_rundir_use(dir));
	for (int mode = 0700; mode; mode = mode == 0700 ? 0755 : mode == 0755 ? 01777 : mode == 01777 ? 01720 : 0) {
		chmod(dir, (mode_t)mode);
		fd = rr_rundir_open(dir, &shared);
		cr_assert_geq(fd, 0);
		cr_assert_eq(shared, (mode & 022) != 0, "%o", (unsigned)mode);
		close(fd);
		fd = rr_rundir_open(dir, NULL);
		cr_assert_geq(fd, 0);
		cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		close(fd);
	}
	close(0);	/* the least descriptor is one as well */
	shared = true;
	cr_assert_eq(rr_rundir_open(dir, &shared), 0);
	cr_assert(shared);
	chmod(dir, 0700);
	close(0);
	cr_assert_eq(rr_rundir_open(dir, &shared), 0);
	cr_assert_not(shared);
	rmdir(dir);
	for (int was = 0; was < 2; was++) {
		shared = was;
		cr_assert_eq(rr_rundir_open(dir, &shared), -1);
		cr_assert_eq(shared, was);
	}
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* The umask makes no difference, nor does a standard input that is closed. */
Test(rundir_names, roots_is_for_all_to_look_into_and_a_users_for_the_user)
{
	umask(077);
	close(0);
	cr_assert(rr_rundir_use(dir));
	if (geteuid())
		cr_skip("needs root");
	cr_assert_eq(mode_of(dir), 0755);
	rmdir(dir);
	cr_assert_eq(chown(top, 12345, 12345), 0);
	umask(0);
	cr_assert_eq(seteuid(12345), 0);
	cr_assert(rr_rundir_use(dir));
	cr_assert_eq(mode_of(dir), 0700);
	cr_assert_eq(seteuid(0), 0);
}

Test(rundir_names, a_fifo_in_its_place_is_not_waited_for, .timeout = 60)
{
	cr_assert_eq(mkfifo(dir, 0700), 0);
	cr_assert_eq(rr_rundir_open(dir, NULL), -1);
	unlink(dir);
}

static const char *fault(const char *path)
{
	const char *f = rr_rundir_fault(path);

	return f ? f : "";
}

Test(rundir_names, what_is_wrong_with_a_directory_is_said)
{
	char path[120], name[300] = "/";

	cr_assert_str_eq(fault(dir), RR_RUNDIR_MISSING);
	cr_assert(rr_rundir_use(dir));
	cr_assert_str_eq(fault(dir), "");
	chmod(dir, 0777);
	cr_assert_str_eq(fault(dir), "others can write to it, and it is not sticky");
	chmod(dir, 01777);
	cr_assert_str_eq(fault(dir), "");
	chmod(top, 0777);
	cr_assert_str_eq(fault(dir), "others can rename it: the directory above is another user's, or not sticky");
	chmod(top, 0755);
	snprintf(path, sizeof(path), "%s/link", top);
	cr_assert_eq(symlink(dir, path), 0);
	cr_assert_str_eq(fault(path), "is a symbolic link, or not a directory");
	snprintf(path, sizeof(path), "%s/0123456789012345678901234567890123456789", top);
	cr_assert_eq(symlink(path, path), 0);
	snprintf(path + strlen(path), 3, "/x");
	cr_assert_str_eq(fault(path), "is a symbolic link");
	memset(name + 1, 'x', sizeof(name) - 2);
	cr_assert_str_eq(fault(name), "cannot be opened");
	if (geteuid())
		return;
	chmod(dir, 0755);
	cr_assert_eq(seteuid(12345), 0);
	cr_assert_str_eq(fault(dir), "you may not write to it");
	cr_assert_eq(seteuid(0) | chmod(dir, 0700) | seteuid(12345), 0);
	cr_assert_str_eq(fault(dir), "you may not look into it");
	cr_assert_eq(seteuid(0) | chown(dir, 12345, 12345), 0);
	cr_assert_str_eq(fault(dir), "belongs to another user");
	cr_assert_not(rr_rundir_use(dir));
	cr_assert_eq(chmod(dir, 0400) | seteuid(12345), 0);
	cr_assert_str_eq(fault(dir), "cannot be looked at", "what is above it");
	cr_assert_eq(seteuid(0), 0);
}

/* What is found is the first that can be used, and made if need be; else nothing. */
Test(rundir_names, what_is_found_can_be_used)
{
	char out[RR_RUN_PATH] = "x", path[120];

	cr_assert(rr_rundir_find(dir, NULL, out));
	cr_assert_str_eq(out, dir);
	cr_assert(exists("."));
	snprintf(path, sizeof(path), "%s/absent/d", top);
	cr_assert_not(rr_rundir_find(path, top, out));
	cr_assert_str_eq(out, "");
	memset(path, 'p', sizeof(path) - 1);
	path[0] = '/';
	path[RR_RUN_PATH - sizeof("/rdmarpc")] = '\0';
	cr_assert(rr_rundir_place(NULL, path, 7, 1, out), "as long as there is room for");
	cr_assert_str_eq(out + strlen(path), "/rdmarpc");
	path[RR_RUN_PATH - sizeof("/rdmarpc")] = 'p';
	path[RR_RUN_PATH - sizeof("/rdmarpc") + 1] = '\0';
	cr_assert_not(rr_rundir_place(NULL, path, 7, 1, out));
}

Test(rundir_names, processes_meet_in_the_configured_place_or_the_hosts)
{
	char out[RR_RUN_PATH];

	rr_rundir_meet("/a", "/b", out);
	cr_assert_str_eq(out, "/b", "the configured one is everybody's own");
	rr_rundir_meet(NULL, RR_RUN_DIR, out);
	cr_assert_str_eq(out, RR_RUN_DIR);
	if (geteuid() || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/run", "tmpfs", 0, "mode=755"))
		cr_skip("needs root and mount namespaces");
	rr_rundir_meet("", RR_RUN_DIR "/7", out);
	cr_assert_str_eq(out, "", "there is none");
	rr_rundir_meet("", "/x/rdmarpc", out);
	cr_assert_str_eq(out, "/x/rdmarpc", "but one of their own");
	cr_assert_eq(mkdir(RR_RUN_DIR, 0755), 0);
	rr_rundir_meet("", RR_RUN_DIR "/7", out);
	cr_assert_str_eq(out, RR_RUN_DIR);
	rr_rundir_meet("", "", out);
	cr_assert_str_eq(out, RR_RUN_DIR);
	rr_rundir_meet("", "/x/rdmarpc", out);
	cr_assert_str_eq(out, RR_RUN_DIR);
	cr_assert_eq(seteuid(12345), 0);
	rr_rundir_meet("", "/x/rdmarpc", out);
	cr_assert_str_eq(out, "/x/rdmarpc", "where we may write");
	rr_rundir_meet("", RR_RUN_DIR "/12345", out);
	cr_assert_str_eq(out, RR_RUN_DIR);
	cr_assert_eq(seteuid(0), 0);
}

Test(rundir_names, names_of_segments_have_bounds)
{
	static const struct { const char *name; bool good; } c[] = {
		{ "2147483647.1", true }, { "2147483648.1", false }, { "1.18446744073709551615", true }, { "1.18446744073709551616", false },
		{ "1.184467440737095516150", false }, { "1.0", true }, { "09.90", true }, { "1/2", false }, { "1:2", false }, { "1.2/", false },
		{ "1.2:", false }, { ".1", false }, { "", false }, { "1.2.3.4", false }, { "1.2.x", false }, { "18446744073709551617.1", false },
	};
	struct rr_segname s;

	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++)
		cr_assert_eq(rr_segname_parse(c[i].name, &s), c[i].good, "%s", c[i].name);
	cr_assert(rr_segname_parse("2147483647.18446744073709551615.18446744073709551615", &s));
	cr_assert(s.pid == INT32_MAX && s.ticks == UINT64_MAX && s.died == UINT64_MAX);
}

/* What cannot be a segment at all is dead; of what cannot be looked at nobody knows. */
Test(rundir_names, a_name_that_leads_to_no_file_is_retired)
{
	char path[200];

	cr_assert(rr_rundir_use(dir));
	snprintf(path, sizeof(path), "%s/77.1", dir);
	cr_assert_eq(symlink("/dev/null", path), 0);
	snprintf(path, sizeof(path), "%s/77.2", dir);
	cr_assert_eq(mkfifo(path, 0644), 0);
	touch("77.3");
	snprintf(path, sizeof(path), "%s/77.3", dir);
	cr_assert_eq(chmod(path, 0), 0);
	if (geteuid() == 0)
		cr_assert_eq(chown(dir, 12345, 12345) | chmod(top, 0755) | seteuid(12345), 0);
	rr_rundir_sweep(dir, true);
	cr_assert_eq(getuid() || !seteuid(0), 1);
	cr_assert(retired("77.1") && !exists("77.1"));
	cr_assert(retired("77.2") && !exists("77.2"), "a FIFO has no lock");
	cr_assert(exists("77.3"));
}

/* Its name and this second may be taken: by another life of the same pid. */
Test(rundir_names, what_is_retired_gets_a_name_of_its_own)
{
	long now = (long)time(NULL);
	char name[60], path[200];
	int fd;

	cr_assert(rr_rundir_use(dir));
	touch("77.1");
	for (long t = now; t < now + 10; t++) {
		snprintf(name, sizeof(name), "77.1.%ld", t);
		touch(name);
	}
	fd = rr_rundir_open(dir, NULL);
	cr_assert(rr_rundir_retire(fd, "77.1"));
	cr_assert_not(exists("77.1"));
	cr_assert_eq(entries(), 11);
	cr_assert_not(rr_rundir_retire(fd, "77.1"), "it is not there");
	touch("77.1");
	for (long t = now; t < now + 60; t++) {
		snprintf(name, sizeof(name), "77.1.%ld", t);
		if (!exists(name))
			touch(name);
	}
	cr_assert_not(rr_rundir_retire(fd, "77.1"), "after thirty seconds that are taken");
	cr_assert(exists("77.1"));
	for (long t = now + 29; t < now + 31; t++) {
		snprintf(path, sizeof(path), "%s/77.1.%ld", dir, t);
		unlink(path);
	}
	cr_assert(rr_rundir_retire(fd, "77.1"));
	close(fd);
}

static long seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec;
}

Test(rundir_names, what_is_retired_has_died_now)
{
	char name[60];
	long before;
	int fd;

	cr_assert(rr_rundir_use(dir));
	fd = rr_rundir_open(dir, NULL);
	do {
		touch("77.1");
		before = seconds();
		cr_assert(rr_rundir_retire(fd, "77.1"));
	} while (seconds() != before);
	snprintf(name, sizeof(name), "77.1.%ld", before);
	cr_assert(exists(name));
	close(fd);
}

/* Others may fill a directory that they can write to: of that one a start looks at some 256 names, of ours at all. */
Test(rundir_names, a_start_walks_over_few_names_where_others_can_make_them)
{
	char name[48], gone[40];
	bool all, some;

	for (int shared = 0; shared < 2; shared++) {
		cr_assert(rr_rundir_use(dir));
		chmod(dir, shared ? 01777 : 0755);
		snprintf(gone, sizeof(gone), "%d", dead_pid());
		/* before and behind the others, because some file systems list the newest first */
		for (int i = 0; i < 3030; i++) {
			if (i < 15 || i >= 3015)
				snprintf(name, sizeof(name), "%s.%d", gone, i % 3000);
			else
				snprintf(name, sizeof(name), "x%d", i);
			touch(name);
		}
		rr_rundir_sweep(dir, false);
		all = true;
		some = false;
		for (int i = 0; i < 30; i++) {
			snprintf(name, sizeof(name), "%s.%d", gone, i);
			all &= !exists(name);
			some |= exists(name);
		}
		cr_assert(shared ? some : all, "shared %d", shared);
		rr_rundir_sweep(dir, true);
		for (int i = 0; i < 30; i++) {
			snprintf(name, sizeof(name), "%s.%d", gone, i);
			cr_assert_not(exists(name));
		}
		clean();
		make();
	}
}

Test(rundir_names, a_directory_that_is_gone_is_not_swept)
{
	cr_assert(rr_rundir_use(dir));
	touch("77.1");
	chmod(dir, 0777);
	rr_rundir_sweep(dir, true);
	cr_assert(exists("77.1"), "others can tamper with it");
	chmod(dir, 0755);
	rr_rundir_sweep(dir, true);
	rr_rundir_sweep(dir, true);	/* nothing was left held */
	cr_assert_not(exists("77.1"));
}

/* Names of commands may hold anything. */
Test(rundir_names, the_ticks_are_found_behind_any_name)
{
	static const char *const names[] = { "a", "a) b (c", ")", "(", "a b c d e f g h", "\n" };
	uint64_t ticks = rr_proc_ticks(0);
	FILE *f = fopen("/proc/self/stat", "r");
	char comm[32], line[1024] = "";

	cr_assert(f && fgets(line, sizeof(line), f));
	fclose(f);
	char *at = strrchr(line, ')');
	for (int field = 2; field < 22; field++)
		at = strchr(at, ' ') + 1;
	cr_assert_eq(strtoull(at, NULL, 10), ticks);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		cr_assert_eq(prctl(PR_SET_NAME, names[i]), 0);
		cr_assert_eq(rr_proc_ticks(0), ticks, "%s", names[i]);
		cr_assert_eq(rr_proc_own(comm, sizeof(comm)), ticks, "%s", names[i]);
		cr_assert_str_eq(comm, names[i][0] == '\n' ? "" : names[i]);
		rr_proc_comm(0, comm, sizeof(comm));
		cr_assert_str_eq(comm, names[i][0] == '\n' ? "" : names[i]);
		rr_proc_comm(getpid(), comm, 4);
		cr_assert_eq(strlen(comm), names[i][0] == '\n' ? 0 : strlen(names[i]) < 3 ? strlen(names[i]) : 3);
	}
	rr_proc_comm(dead_pid(), comm, sizeof(comm));
	cr_assert_str_eq(comm, "");
}

/* What was read before is still on the stack. */
Test(rundir_names, without_a_descriptor_nothing_is_known_of_a_process)
{
	struct rlimit old, none;
	char comm[32] = "x", other[32] = "x";
	uint64_t own[2], ticks[2];

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ 0, old.rlim_max };
	setrlimit(RLIMIT_NOFILE, &old);
	ticks[0] = rr_proc_ticks(0);
	setrlimit(RLIMIT_NOFILE, &none);
	ticks[1] = rr_proc_ticks(0);
	setrlimit(RLIMIT_NOFILE, &old);
	own[0] = rr_proc_own(comm, sizeof(comm));
	setrlimit(RLIMIT_NOFILE, &none);
	own[1] = rr_proc_own(comm, sizeof(comm));
	rr_proc_comm(0, other, sizeof(other));
	setrlimit(RLIMIT_NOFILE, &old);
	cr_assert(ticks[0] && own[0] == ticks[0]);
	cr_assert(ticks[1] == 0 && own[1] == 0);
	cr_assert(comm[0] == 0 && other[0] == 0);
}
