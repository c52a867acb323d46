/* SPDX-License-Identifier: BSD-3-Clause */
/* Which directory is the run directory, and who may write to it; the file that stops
 * upgrades; what the names of segments say. Its bounds are test_rundir_names.c's. */
#include <sys/stat.h>
#include <sys/types.h>

#include "core/base/compiler.h"
#include "tests/unit/rundir.h"

TestSuite(rundir, .init = make, .fini = clean);

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

/* Another process may come first. The Makefile wraps mkdir(). */
static bool comes_first;

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);

int __wrap_mkdir(const char *path, mode_t mode)
{
	if (comes_first)
		__real_mkdir(path, 0711);
	return __real_mkdir(path, mode);
}

Test(rundir, a_directory_that_somebody_else_has_made_meanwhile_stays_as_it_is)
{
	struct stat st;

	umask(0);
	comes_first = true;
	cr_assert(rr_rundir_use(dir));
	cr_assert_eq(lstat(dir, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0711);
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

/* What root may do in spite of the directory's mode nobody else may. */
Test(rundir, a_directory_is_used_by_who_may_write_in_it)
{
	static const struct { mode_t mode; uid_t owner; bool used; } c[] = {
		{ 0700, 12345, true }, { 0500, 12345, false }, { 0600, 12345, false }, { 0755, 0, false }, { 01777, 0, true },
	};
	int st;

	if (geteuid())
		cr_skip("needs root");
	cr_assert_eq(chmod(top, 0711), 0);
	cr_assert_eq(mkdir(dir, 0755), 0);
	for (size_t i = 0; i < rr_array_size(c); i++) {
		cr_assert_eq(chown(dir, c[i].owner, c[i].owner), 0);
		cr_assert_eq(chmod(dir, c[i].mode), 0);
		if (fork() == 0)
			_exit(setresgid(12345, 12345, 12345) || setresuid(12345, 12345, 12345) ? 2 : rr_rundir_use(dir));
		cr_assert_gt(wait(&st), 0);
		cr_assert_eq(st, c[i].used << 8, "%zu: %x", i, (unsigned)st);
	}
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

Test(rundir, start_ticks_tell_processes_apart)
{
	cr_assert_gt(rr_proc_ticks(0), 0);
	cr_assert_eq(rr_proc_ticks(0), rr_proc_ticks(getpid()));
	cr_assert_eq(rr_proc_ticks(dead_pid()), 0);
}
