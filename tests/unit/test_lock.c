/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/lock.h"

TestSuite(lock, .timeout = 30);

static struct rr_lock *shared_lock(void)
{
	return mmap(NULL, RR_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

Test(lock, its_holder_is_told_instead_of_waiting)
{
	struct rr_lock l = { 0 };

	cr_assert_eq(rr_lock_take(&l), 0);
	cr_assert_eq(rr_lock_take(&l), -EDEADLK);
	cr_assert_eq(rr_lock_try(&l), -EDEADLK);
	rr_lock_drop(&l);
	cr_assert_eq(rr_lock_take(&l), 0);
}

/* A signal handler between the two stores of a taker or dropper. */
Test(lock, a_handler_that_interrupted_the_taking_is_told_too)
{
	struct rr_lock l = { 0 };

	rr_lock_take(&l);
	l.thread = 0;
	cr_assert_eq(rr_lock_take(&l), -EDEADLK);
}

/* Whether the thread says who it is a little later or has all along, it is not us. */
static void *be_late(void *l)
{
	usleep(100);
	((struct rr_lock *)l)->thread = (uintptr_t)pthread_self();
	return NULL;
}

Test(lock, another_thread_of_the_same_hash_is_waited_for)
{
	struct rr_lock l = { 0 };
	pthread_t t;

	rr_lock_take(&l);
	l.thread = 0;
	pthread_create(&t, NULL, be_late, &l);
	for (int rc = -EDEADLK, i = 0; rc == -EDEADLK; i++) {
		rc = rr_lock_try(&l);
		cr_assert(rc == -EBUSY || i < 20000);
		usleep(1000);
	}
	pthread_join(t, NULL);
	cr_assert_eq(rr_lock_try(&l), -EBUSY);
}

static void *try_it(void *l)
{
	return (void *)(intptr_t)rr_lock_try(l);
}

Test(lock, another_thread_is_busy)
{
	struct rr_lock l = { 0 };
	pthread_t t;
	void *rc;

	rr_lock_take(&l);
	pthread_create(&t, NULL, try_it, &l);
	pthread_join(t, &rc);
	cr_assert_eq((intptr_t)rc, -EBUSY);
}

static struct {
	struct rr_lock lock;
	long n;
} *sum;

static void *add(void *arg RR_UNUSED)
{
	for (int i = 0; i < 20000; i++) {
		while (rr_lock_take(&sum->lock) == -EBUSY)
			usleep(100);
		sum->n++;
		rr_lock_drop(&sum->lock);
	}
	return NULL;
}

Test(lock, threads_of_several_processes_exclude_each_other)
{
	pthread_t t[3];
	pid_t pid;

	sum = (void *)shared_lock();
	pid = fork();
	if (!pid)
		rr_lock_forked();
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, add, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	cr_assert_eq(sum->n, 120000);
	cr_assert_eq(sum->lock.word, 0);
}

/* Killed after it took the lock, before it could do anything else. */
/* A child has died with it, and stays a zombie: its parent may be the one that waits. */
static pid_t dies_with(struct rr_lock *l)
{
	siginfo_t si;
	pid_t pid = fork();

	if (!pid) {
		rr_lock_forked();
		rr_lock_take(l);
		l->thread = 0;
		_exit(0);
	}
	cr_assert_eq(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	return pid;
}

Test(lock, who_dies_with_it_leaves_it_to_one_that_waits)
{
	struct rr_lock *l = shared_lock();
	pid_t pid = dies_with(l);

	cr_assert_eq(rr_lock_take(l), -EOWNERDEAD);
	cr_assert_eq(rr_lock_take(l), -EDEADLK);
	rr_lock_drop(l);
	cr_assert_eq(rr_lock_take(l), 0);
	waitpid(pid, NULL, 0);
}

/* Nothing is left to look at a process with, and a zombie answers to kill(). */
Test(lock, so_does_a_child_where_no_descriptor_is_left)
{
	struct rr_lock *l = shared_lock();
	pid_t pid = dies_with(l);
	struct rlimit was, none;
	int next = dup(0);

	close(next);
	getrlimit(RLIMIT_NOFILE, &was);
	none = (struct rlimit){ (rlim_t)next, was.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	alarm(25);
	cr_assert_eq(rr_lock_take(l), -EOWNERDEAD);
	alarm(0);
	setrlimit(RLIMIT_NOFILE, &was);
	cr_assert_eq(waitpid(pid, NULL, 0), pid, "it was not reaped by the look");
}

/* --- a process that has it and does not go on ------------------------------------------- */

static long sleeps(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

/* A child has it, and is stopped. It gives it back when it goes on. */
static pid_t stops_with(struct rr_lock *l)
{
	pid_t pid = fork();

	if (!pid) {
		rr_lock_forked();
		rr_lock_take(l);
		raise(SIGSTOP);
		rr_lock_drop(l);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, NULL, WUNTRACED), pid);
	return pid;
}

static void goes_on(pid_t pid)
{
	kill(pid, SIGCONT);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* It may wait for a CPU: to be thought stuck takes more than that. One of several is enough, for the test may have to wait
 * for one as well. */
Test(lock, who_is_slow_with_it_is_waited_for)
{
	_Atomic bool *held;
	struct rr_lock *l = shared_lock();
	int rc = -EBUSY;

	held = (_Atomic bool *)(l + 1);
	for (int i = 0; i < 20 && rc; i++) {
		pid_t pid = fork();

		if (!pid) {
			rr_lock_forked();
			rr_lock_take(l);
			*held = true;
			usleep(30000);
			rr_lock_drop(l);
			_exit(0);
		}
		while (!*held)
			usleep(100);
		rc = rr_lock_take(l);
		if (!rc)
			rr_lock_drop(l);
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
		*held = false;
	}
	cr_assert_eq(rc, 0);
}

Test(lock, who_is_stopped_with_it_is_waited_for_once)
{
	struct rr_lock *l = shared_lock();
	pid_t pid = stops_with(l);
	long before;

	cr_assert_eq(rr_lock_take(l), -EBUSY);
	cr_assert(rr_lock_is_stuck(l));
	before = sleeps();
	for (int i = 0; i < 100; i++)
		cr_assert_eq(rr_lock_take(l), -EBUSY);
	cr_assert_eq(sleeps(), before);
	goes_on(pid);
	cr_assert(!rr_lock_is_stuck(l));
	cr_assert_eq(rr_lock_take(l), 0);
	rr_lock_drop(l);
	cr_assert_eq(l->word, 0);
}

Test(lock, who_is_stopped_and_killed_with_it_is_dead)
{
	struct rr_lock *l = shared_lock();
	pid_t pid = stops_with(l);

	cr_assert_eq(rr_lock_take(l), -EBUSY);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(rr_lock_take(l), -EOWNERDEAD);
	rr_lock_drop(l);
	cr_assert(!rr_lock_is_stuck(l));
	cr_assert_eq(rr_lock_take(l), 0);
}

/* As on kernels before 5.3. */
static void without_pidfds(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { rr_array_size(code), code };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	cr_assert_eq(syscall(SYS_pidfd_open, getpid(), 0), -1);
}

Test(lock, who_is_dead_is_known_without_pidfds)
{
	siginfo_t si;
	int in[2];
	pid_t pid;
	char c;

	without_pidfds();
	cr_assert_eq(pipe(in), 0);
	pid = fork();
	if (!pid) {
		_exit(read(in[0], &c, 1) != 1);
	}
	cr_assert_not(rr_pid_is_dead(getpid()));
	errno = 4711;
	cr_assert_not(rr_pid_is_dead(pid), "a child of ours that lives");
	cr_assert_not(rr_pid_is_dead(1), "nor of ours");
	cr_assert_eq(errno, 4711);
	cr_assert_eq(write(in[1], "x", 1), 1);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	cr_assert(rr_pid_is_dead(pid), "a zombie of ours");
	cr_assert_eq(errno, 4711);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert(rr_pid_is_dead(pid), "nobody");
}

/* A process in a PID namespace of its own; -1: that cannot be had here. */
static pid_t fork_apart(void)
{
	pid_t pid = fork();

	if (!pid) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWPID))
			_exit(77);
		pid = fork();
		if (pid) {
			int st;

			waitpid(pid, &st, 0);
			_exit(WIFEXITED(st) ? WEXITSTATUS(st) : 1);
		}
	}
	return pid;
}

/* There the holder's number is nobody's, or another's. */
Test(lock, a_holder_in_another_pid_namespace_is_not_taken_for_dead)
{
	struct rr_lock *l = shared_lock();
	int st, rc = rr_lock_take(l);
	pid_t pid = fork_apart();

	if (!pid) {
		if (!rr_lock_forked())
			_exit(1);
		rr_lock_mix(l);
		rc = rr_lock_take(l);
		_exit(rc == -EBUSY ? 0 : rc == -EOWNERDEAD ? 2 : rc == -EDEADLK ? 3 : 4);
	}
	waitpid(pid, &st, 0);
	cr_assert_eq(rc, 0);
	if (WEXITSTATUS(st) == 77)
		cr_skip_test("no PID namespace to be had");
	cr_assert_eq(WEXITSTATUS(st), 0);
	rr_lock_drop(l);
	cr_assert_eq(rr_lock_take(l), 0);
}
