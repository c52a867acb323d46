/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/select.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/ownfd.h"

Test(ownfd, the_next_one_is_found_across_words)
{
	static const int fd[] = { 0, 63, 64, 700, 65535, (1 << 20) - 1 };

	cr_assert_eq(rr_ownfd_next(0), -1);
	for (unsigned i = 0; i < 6; i++)
		rr_ownfd_set(fd[i], true);
	for (unsigned i = 0; i < 6; i++) {
		cr_assert_eq(rr_ownfd_next(i ? fd[i - 1] + 1 : -5), fd[i]);
		cr_assert(rr_ownfd_is(fd[i]));
	}
	cr_assert_eq(rr_ownfd_next(1 << 20), -1);
	rr_ownfd_set(64, false);
	cr_assert_eq(rr_ownfd_next(64), 700);
	cr_assert(!rr_ownfd_is(64));
}

Test(ownfd, numbers_out_of_range_are_nobodys)
{
	rr_ownfd_set(-1, true);
	rr_ownfd_set(1 << 20, true);
	cr_assert(!rr_ownfd_is(-1));
	cr_assert(!rr_ownfd_is(1 << 20));
	cr_assert_eq(rr_ownfd_next(0), -1);
}

/* --- where they are --- */

Test(ownfd, one_thread_puts_them_out_of_the_way)
{
	cr_assert_eq(rr_ownfd_place(1024, true, 3), 512);
	cr_assert_eq(rr_ownfd_place(256, true, 200), 128);
	/* who uses select() has all numbers that it bears */
	cr_assert_eq(rr_ownfd_place(2048, true, 3), FD_SETSIZE);
	cr_assert_eq(rr_ownfd_place(1 << 20, true, 3), FD_SETSIZE);
	cr_assert_eq(rr_ownfd_place(RLIM_INFINITY, true, 3), FD_SETSIZE);
	cr_assert_eq(rr_ownfd_place(64, true, 3), 48);
	cr_assert_eq(rr_ownfd_place(0, true, 3), 0);
}

/* 64 entries at first, then a power of two, of 128 at least. */
Test(ownfd, with_threads_they_are_in_the_table_that_there_is)
{
	static const struct { int fd, table; } is[] = {
		{ 0, 64 }, { 63, 64 }, { 64, 128 }, { 127, 128 }, { 128, 256 }, { 300, 512 }, { 700, 1024 },
	};

	for (unsigned i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
		int at = rr_ownfd_place(1 << 20, false, is[i].fd);

		cr_assert_lt(at, is[i].table);
		cr_assert_gt(at, is[i].table / 2);
	}
	cr_assert_eq(rr_ownfd_place(1 << 20, false, 1 << 19), FD_SETSIZE);
	cr_assert_eq(rr_ownfd_place(40, false, 3), 30);
}

static void limit_to(rlim_t n)
{
	struct rlimit lim;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = n;
	setrlimit(RLIMIT_NOFILE, &lim);
}

/* In a process of its own, since Criterion's cannot do without descriptors. Returns what went wrong, by a number. */
static int in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int st = -1;

	if (pid == 0)
		_exit(fn());
	waitpid(pid, &st, 0);
	return st;
}

static int a_file(void)
{
	return open("/dev/null", O_RDWR);
}

static int raised(void)
{
	int low = a_file(), fd;

	limit_to(200);
	__libc_single_threaded = 1;
	fd = rr_ownfd_raise(low);
	if (fd != 100 || !rr_ownfd_is(fd))
		return 1;
	if (fcntl(fd, F_GETFD) != FD_CLOEXEC || fcntl(low, F_GETFD) != -1)
		return 2;
	rr_ownfd_close(fd);
	if (rr_ownfd_is(fd) || fcntl(fd, F_GETFD) != -1)
		return 3;
	errno = EMFILE;
	rr_ownfd_close(-1);
	return rr_ownfd_raise(-1) == -EMFILE ? 0 : 4;
}

Test(ownfd, a_raised_one_is_ours_and_goes_with_exec)
{
	cr_assert_eq(in_child(raised), 0);
}

static int low_limits(void)
{
	int fd, last = -1, file = a_file();

	__libc_single_threaded = 1;
	limit_to(200);
	while (fcntl(file, F_DUPFD, 100) >= 0)
		;
	fd = rr_ownfd_raise(a_file());	/* half as high, then */
	if (fd < 50 || fd >= 100)
		return 1;
	limit_to(32);
	fd = rr_ownfd_raise(a_file());
	if (fd < 24 || fd >= 32)
		return 2;
	while ((fd = dup(file)) >= 0)
		last = fd;
	close(last);
	return rr_ownfd_raise(a_file()) == last ? 0 : 3;	/* the only one */
}

Test(ownfd, a_limit_that_was_lowered_since_holds)
{
	cr_assert_eq(in_child(low_limits), 0);
}

/* A program that has closed its stderr will not find it there: not even where nothing else is left. */
static int only_stderr_is_left(void)
{
	__libc_single_threaded = 1;
	limit_to(11);	/* of which 8, 4, 2 are tried */
	while (dup(0) >= 0)
		;
	close(2);
	return rr_ownfd_dup(0) == -1 && fcntl(2, F_GETFD) == -1 ? 0 : 1;
}

Test(ownfd, the_standard_ones_are_never_taken)
{
	cr_assert_eq(in_child(only_stderr_is_left), 0);
}

static void *raise_one(void *out)
{
	*(int *)out = rr_ownfd_raise(a_file());
	return NULL;
}

static int by_thread(void)
{
	int fd = -1, other;
	pthread_t t;

	limit_to(1000);
	if (pthread_create(&t, NULL, raise_one, &fd) || pthread_join(t, NULL))
		return 1;
	other = rr_ownfd_dup(fd);
	return fd < 40 || fd >= 64 || other != fd + 1 || !rr_ownfd_is(other);
}

/* What the kernel does not have to enlarge its table for, which takes it some 10 ms. */
Test(ownfd, a_thread_stays_low)
{
	cr_assert_eq(in_child(by_thread), 0);
}

/* A server's connections: a descriptor of the app's and four of ours each. */
static void *raise_many(void *out)
{
	for (int i = 0; i < 200; i++) {
		*(int *)out = a_file();
		for (int j = 0; j < 4; j++)
			if (rr_ownfd_raise(a_file()) < 0)
				*(int *)out = -1;
	}
	return NULL;
}

static int many_by_thread(void)
{
	pthread_t t;
	int fd = -1;

	limit_to(10000);
	if (pthread_create(&t, NULL, raise_many, &fd) || pthread_join(t, NULL))
		return 1;
	/* until the table grew, at the app's 40th, ours were behind these */
	return fd < 200 || fd > 200 + 4 * 40 + 5;
}

Test(ownfd, the_app_of_a_process_with_threads_has_its_numbers_too)
{
	cr_assert_eq(in_child(many_by_thread), 0);
}

Test(ownfd, those_above_a_number_are_counted)
{
	rr_ownfd_set(40, true);
	rr_ownfd_set(63, true);
	rr_ownfd_set(64, true);
	rr_ownfd_set(700, true);
	rr_ownfd_set(700, true);
	cr_assert_eq(rr_ownfd_above(-1), 4);
	cr_assert_eq(rr_ownfd_above(39), 4);
	cr_assert_eq(rr_ownfd_above(40), 3);
	cr_assert_eq(rr_ownfd_above(62), 3);
	cr_assert_eq(rr_ownfd_above(63), 2);
	cr_assert_eq(rr_ownfd_above(64), 1);
	cr_assert_eq(rr_ownfd_above(700), 0);
	cr_assert_eq(rr_ownfd_above(5000), 0);
	rr_ownfd_set(63, false);
	cr_assert_eq(rr_ownfd_above(-1), 3);
}

static int closes_zero(void)
{
	close(0);
	if (dup(1) != 0)
		return 1;
	rr_ownfd_close(0);
	return fcntl(0, F_GETFD) == -1 ? 0 : 2;
}

/* Where no number above was to be had, ours may be low. */
Test(ownfd, the_lowest_one_is_closed_too)
{
	cr_assert_eq(in_child(closes_zero), 0);
}
