/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket in the run directory, by which a shm connection is made where the abstract name
 * does not reach: when it is there, who may use it, and which of those that were left behind
 * are removed. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "core/prov/shm/shm_int.h"
#include "tests/unit/shm_setup.h"

#define ops (&rr_prov_shm)

TestSuite(shm_rundir, .init = init, .fini = fini, .timeout = 60);

static bool keeps_modes;	/* whoever asks */

int fchmodat(int at, const char *path, mode_t mode, int flags)
{
	if (!keeps_modes && !flags)
		return (int)syscall(SYS_fchmodat, at, path, mode);
	errno = EPERM;
	return -1;
}

/* Drops the abstract name from the offer, as if the peer were in another network namespace. */
static void only_file(void)
{
	cr_assert_eq(p.offer.bytes[1], 3, "no file was offered");
	p.offer.bytes[1] = 2;
}

Test(shm_rundir, the_run_directory_reaches_where_the_abstract_name_does_not)
{
	mode_t before = umask(077);
	struct stat st;

	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	umask(before);
	cr_assert_eq(files_in(dir), 1);
	cr_assert_eq(stat(container_of(p.c, struct rr_shm, qp)->path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0666, "for other users, too");
	only_file();
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(files_in(dir), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert_eq(open_fds(), fds + 2);
}

/* The directory of the sockets is number 0 then. */
Test(shm_rundir, a_process_without_standard_input_comes_by_the_run_directory_too)
{
	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(close(0), 0);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert_eq(open("/dev/null", O_RDONLY), 0, "nor is it used up");
}

/* A socket's path has 107 characters at most. */
Test(shm_rundir, a_run_directory_with_a_long_name_is_not_used)
{
	char deep[128];

	snprintf(deep, sizeof(deep), "%s/%048d", dir, 0);
	cr_assert_eq(mkdir(deep, 0755), 0);
	p.cp.run_dir = deep;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(deep), 0);
	cr_assert_eq(p.offer.bytes[1], 1, "by its abstract name alone");
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(rmdir(deep), 0);
	deep[strlen(deep) - 1] = '\0';	/* and this one just so */
	cr_assert_eq(mkdir(deep, 0755), 0);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(deep), 1);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(rmdir(deep), 0);
}

Test(shm_rundir, the_file_goes_when_the_attempt_is_over)
{
	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(dir), 1);
	cr_assert_eq(ops->join(p.c, &p.answer), -ECONNREFUSED);
	cr_assert_eq(files_in(dir), 0);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(dir), 1);
}

Test(shm_rundir, a_run_directory_that_others_could_tamper_with_is_not_used)
{
	chmod(dir, 0777);
	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(p.offer.bytes[1], 1);
	cr_assert_eq(files_in(dir), 0);
	chmod(dir, 01777);
	ops->close(p.c);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	chmod(dir, 0777);
	cr_assert_lt(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
}

/* Whoever it is could put other sockets in place of those that are there. */
Test(shm_rundir, a_run_directory_of_another_user_is_not_used)
{
	if (geteuid())
		cr_skip("needs root");
	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	cr_assert_eq(chown(dir, 65534, 65534), 0);
	cr_assert_lt(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	ops->close(p.c);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(p.offer.bytes[1], 1, "by its abstract name alone");
	cr_assert_eq(files_in(dir), 0);
}

Test(shm_rundir, files_of_killed_processes_are_swept)
{
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char path[256];
	pid_t pid = fork();
	int st;

	p.cp.run_dir = dir;
	if (pid == 0) {
		ops->prepare(p.c, &p.cp, &p.offer);
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, &st, 0);
	cr_assert_eq(files_in(dir), 1);
	snprintf(path, sizeof(path), "%s", container_of(p.c, struct rr_shm, qp)->path);
	cr_assert_eq(utimensat(AT_FDCWD, path, old, 0), 0);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(dir), 1);
	cr_assert_eq(access(path, F_OK), -1);
}

Test(shm_rundir, a_process_sweeps_once_a_minute)
{
	static const char name[] = "rdmarpc-0123456789abcdef0123456789abcdef";
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", dir, name);
	cr_assert_eq(bind(s, (void *)&sa, sizeof(sa)), 0);
	close(s);
	cr_assert_eq(utimensat(AT_FDCWD, sa.sun_path, old, 0), 0);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(unlink(sa.sun_path), 0, "it was just done");
}

/* Whoever the process that was killed belonged to. */
Test(shm_rundir, root_sweeps_for_others)
{
	static const char name[] = "rdmarpc-0123456789abcdef0123456789abcdef";
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	if (geteuid())
		cr_skip("needs root");
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", dir, name);
	cr_assert_eq(bind(s, (void *)&sa, sizeof(sa)), 0);
	close(s);
	cr_assert_eq(chown(sa.sun_path, 65534, 65534), 0);
	cr_assert_eq(utimensat(AT_FDCWD, sa.sun_path, old, 0), 0);
	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(access(sa.sun_path, F_OK), -1);
}

Test(shm_rundir, a_file_that_others_could_not_use_is_taken_away)
{
	keeps_modes = true;
	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(p.offer.bytes[1], 1, "by its abstract name alone");
	cr_assert_eq(files_in(dir), 0);
}

Test(shm_rundir, a_file_that_is_gone_leads_nowhere)
{
	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	cr_assert_eq(unlink(container_of(p.c, struct rr_shm, qp)->path), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), -ECONNREFUSED);
}

/* Nor does it if that is the listener itself. */
Test(shm_rundir, a_link_in_place_of_the_file_is_not_followed)
{
	char away[128];
	const char *path;

	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	path = container_of(p.c, struct rr_shm, qp)->path;
	snprintf(away, sizeof(away), "%s/away", dir);
	cr_assert_eq(rename(path, away), 0);
	cr_assert_eq(symlink(away, path), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), -ECONNREFUSED);
	cr_assert_eq(rename(away, path), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
}

Test(shm_rundir, young_and_foreign_files_are_not_swept)
{
	static const char *const names[] = { "rdmarpc-0123456789abcdef0123456789abcdef",
					     "other",
					     "rdmarpc-conf-of-somebody-else-that-is-40" };
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	for (int i = 0; i < 3; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", dir, names[i]);
		cr_assert_eq(bind(fd, (void *)&sa, sizeof(sa)), 0);
		close(fd);
		if (i)
			cr_assert_eq(utimensat(AT_FDCWD, sa.sun_path, old, 0), 0);
	}
	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(dir), 4);
	for (int i = 0; i < 3; i++) {
		snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", dir, names[i]);
		unlink(sa.sun_path);
	}
}

/* A file in dir of a name that ours have, so many seconds old: a socket, or an ordinary
 * file. */
static void a_file(char digit, mode_t type, time_t age, uid_t owner)
{
	struct timespec ts[2];
	char path[128];

	snprintf(path, sizeof(path), "%s/rdmarpc-%c123456789abcdef0123456789abcdef", dir, digit);
	cr_assert_eq(mknod(path, type | 0600, 0), 0);
	cr_assert_eq(lchown(path, owner, owner), 0);
	clock_gettime(CLOCK_REALTIME, &ts[0]);
	ts[0].tv_sec -= age;
	ts[1] = ts[0];
	cr_assert_eq(utimensat(AT_FDCWD, path, ts, AT_SYMLINK_NOFOLLOW), 0);
}

static bool is_there(char digit)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/rdmarpc-%c123456789abcdef0123456789abcdef", dir, digit);
	return access(path, F_OK) == 0;
}

/* Who is not root and may remove what lies in the directory, since it is its own, removes of
 * that no more than old sockets of its own. */
Test(shm_rundir, only_old_sockets_of_ones_own_are_swept)
{
	const uid_t me = 12345;
	char path[128];
	int st;

	if (geteuid() != 0)
		cr_skip("needs root");
	a_file('0', S_IFSOCK, 1000, me);
	a_file('1', S_IFSOCK, 1000, 0);
	a_file('2', S_IFREG, 1000, me);
	a_file('3', S_IFSOCK, 40, me);	/* a minute makes it old */
	a_file('4', S_IFSOCK, 62, me);
	cr_assert_eq(chown(dir, me, me), 0);
	cr_assert_eq(chmod(dir, 0755), 0);
	p.cp.run_dir = dir;
	if (fork() == 0) {
		if (setgid(me) || setuid(me))
			_exit(1);
		_exit(ops->prepare(p.c, &p.cp, &p.offer) ? 2 : (ops->close(p.c), 0));
	}
	wait(&st);
	cr_assert_eq(st, 0, "%x", st);
	cr_assert_not(is_there('0'));
	cr_assert(is_there('1'), "another's");
	cr_assert(is_there('2'), "no socket");
	cr_assert(is_there('3'), "young");
	cr_assert_not(is_there('4'));
	for (char d = '1'; d <= '3'; d++) {
		snprintf(path, sizeof(path), "%s/rdmarpc-%c123456789abcdef0123456789abcdef", dir, d);
		cr_assert_eq(unlink(path), 0);
	}
}

/* The owner of what is there may be root, who may remove anything. */
Test(shm_rundir, what_is_no_socket_is_not_swept)
{
	char path[128];

	a_file('2', S_IFREG, 1000, geteuid());
	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert(is_there('2'));
	snprintf(path, sizeof(path), "%s/rdmarpc-2123456789abcdef0123456789abcdef", dir);
	cr_assert_eq(unlink(path), 0);
}

/* A pipe is not waited for, either. */
Test(shm_rundir, a_link_to_a_directory_and_a_pipe_are_none)
{
	char path[128];

	p.cp.run_dir = path;
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%d", dir, i);
		cr_assert_eq(i ? mkfifo(path, 0600) : symlink(dir, path), 0);
		cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
		cr_assert_eq(p.offer.bytes[1], 1, "by its abstract name alone");
		ops->close(p.c);
		memset(p.c, 0, ops->qp_size(&p.cp));
		cr_assert_eq(unlink(path), 0);
	}
	cr_assert_eq(files_in(dir), 0);
}

static int other_user(void)
{
	return setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);
}

static int other_netns(void)
{
	return unshare(CLONE_NEWNET);
}

/* A child that changes itself, then answers p.offer by the file alone and sends 42. */
static void answered_by_a_child(int (*change)(void))
{
	struct rr_wc wc;
	pid_t pid;
	int st, answered[2];
	char c;

	if (geteuid() != 0)
		cr_skip("needs root");
	cr_assert_eq(pipe(answered), 0);
	p.cp.run_dir = p.sp.run_dir = dir;
	umask(077);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	pid = fork();
	if (pid == 0) {
		if (change())
			_exit(77);
		if (ops->answer(p.s, &p.sp, &p.offer, &p.answer) ||
		    write(answered[1], "", 1) != 1)
			_exit(2);
		for (int i = 0; ops->establish(p.s) == -EAGAIN && i < 1000; i++)
			usleep(10000);
		_exit(ops->send_imm(p.s, 42, 0) == 1 ? 0 : 3);
	}
	close(answered[1]);
	if (read(answered[0], &c, 1) == 1)
		cr_assert_eq(ops->join(p.c, &p.answer), 0);
	close(answered[0]);
	waitpid(pid, &st, 0);
	memset(p.s, 0, ops->qp_size(&p.sp));	/* the child's */
	if (WIFEXITED(st) && WEXITSTATUS(st) == 77)
		cr_skip("not possible here");
	cr_assert_eq(st, 0, "%x", st);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	cr_assert_eq(wc.imm, 42);
}

Test(shm_rundir, users_need_no_permission_on_each_others_things)
{
	answered_by_a_child(other_user);
}

Test(shm_rundir, another_network_namespace_is_reached_through_the_run_directory)
{
	answered_by_a_child(other_netns);
}
