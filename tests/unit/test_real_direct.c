/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the C library has not got a call, the kernel is called as the library would call it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "preload/next.h"
#include "preload/real.h"
#include "tests/unit/played_sleeps.h"

/* The C library has nothing. */
void *rr_next(const char *name)
{
	(void)name;
	return NULL;
}

static int two[2];

static void setup(void)
{
	cr_assert_eq(pipe(two), 0);
}

TestSuite(real_direct, .init = setup, .timeout = 60);

static void ready(void)
{
	cr_assert_eq(write(two[1], "x", 1), 1);
}

Test(real_direct, poll_and_ppoll_wait_as_long_as_they_are_told)
{
	struct pollfd p = { two[0], POLLIN, 0 };
	struct timespec some = { 0, 20000000 };
	rr_time from = rr_now();

	cr_assert_eq(rr_real.poll(&p, 1, 0), 0);
	cr_assert_eq(rr_real.poll(&p, 1, 20), 0);
	cr_assert_geq(rr_now() - from, 20 * RR_MSEC);
	from = rr_now();
	cr_assert_eq(rr_real.ppoll(&p, 1, &some, NULL), 0);
	cr_assert_geq(rr_now() - from, 20 * RR_MSEC);
	cr_assert(some.tv_sec == 0 && some.tv_nsec == 20000000, "the time is the caller's");
	from = rr_now();
	cr_assert_eq(rr_real.poll(&p, 1, 1010), 0);
	cr_assert_geq(rr_now() - from, 1010 * RR_MSEC);
	ready();
	cr_assert_eq(rr_real.poll(&p, 1, -1), 1);
	p.revents = 0;
	cr_assert_eq(rr_real.ppoll(&p, 1, NULL, NULL), 1);
	cr_assert_eq(p.revents, POLLIN);
}

Test(real_direct, what_has_room_is_read_and_looked_at)
{
	struct pollfd p = { two[0], POLLIN, 0 };
	char buf[2] = "";

	ready();
	cr_assert_eq(rr_real.__poll_chk(&p, 1, 0, sizeof(p)), 1);
	cr_assert_eq(rr_real.__ppoll_chk(&p, 1, NULL, NULL, sizeof(p)), 1);
	cr_assert_eq(rr_real.__read_chk(two[0], buf, 1, 2), 1);
	ready();
	cr_assert_eq(rr_real.__read_chk(two[0], buf, 2, 2), 1);
	cr_assert_str_eq(buf, "x");
}

/* As with the C library's own, but without a message. */
Test(real_direct, what_has_none_ends_the_program)
{
	struct pollfd p = { two[0], POLLIN, 0 };
	int status;

	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (!pid) {
			if (i)
				rr_real.__poll_chk(&p, 1, 0, sizeof(p) - 1);
			else
				rr_real.__read_chk(two[0], &(char){ 0 }, 2, 1);
			_exit(0);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
}

Test(real_direct, select_tells_the_time_that_is_left)
{
	struct timeval tv = { 0, 20000 };
	struct timespec ts = { 0, 20000000 };
	rr_time from = rr_now();
	fd_set r;

	FD_ZERO(&r);
	FD_SET(two[0], &r);
	cr_assert_eq(rr_real.select(two[0] + 1, &r, NULL, NULL, &tv), 0);
	cr_assert_geq(rr_now() - from, 20 * RR_MSEC);
	cr_assert(tv.tv_sec == 0 && tv.tv_usec == 0);
	from = rr_now();
	FD_SET(two[0], &r);
	cr_assert_eq(rr_real.pselect(two[0] + 1, &r, NULL, NULL, &ts, NULL), 0);
	cr_assert_geq(rr_now() - from, 20 * RR_MSEC);
	cr_assert_eq(ts.tv_nsec, 20000000);
	ready();
	for (int i = 0; i < 3; i++) {
		tv = (struct timeval){ 500, 999999 };
		FD_SET(two[0], &r);
		cr_assert_eq(i == 0 ? rr_real.select(two[0] + 1, &r, NULL, NULL, &tv) :
			     i == 1 ? rr_real.select(two[0] + 1, &r, NULL, NULL, NULL) :
				      rr_real.pselect(two[0] + 1, &r, NULL, NULL, NULL, NULL), 1);
		cr_assert(FD_ISSET(two[0], &r));
	}
	for (int i = 0; i < 20; i++) {
		tv = (struct timeval){ 500, 999999 };
		cr_assert_eq(rr_real.select(two[0] + 1, &r, NULL, NULL, &tv), 1);
		cr_assert(tv.tv_sec <= 500 && tv.tv_sec > 0 && tv.tv_usec <= 999999);
	}
}

Test(real_direct, epoll_waits_as_long_as_it_is_told)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };
	struct timespec some = { 0, 20000000 };
	int ep = epoll_create1(0);
	rr_time from = rr_now();

	cr_assert_eq(epoll_ctl(ep, EPOLL_CTL_ADD, two[0], &ev), 0);
	cr_assert_eq(rr_real.epoll_wait(ep, &ev, 1, 20), 0);
	cr_assert_geq(rr_now() - from, 20 * RR_MSEC);
	from = rr_now();
	cr_assert_eq(rr_real.epoll_pwait2(ep, &ev, 1, &some, NULL), 0);
	cr_assert_geq(rr_now() - from, 20 * RR_MSEC);
	ready();
	cr_assert_eq(rr_real.epoll_pwait2(ep, &ev, 1, NULL, NULL), 1);
	cr_assert_eq(rr_real.epoll_wait(ep, &ev, 1, -1), 1);
	cr_assert(ev.events == EPOLLIN && ev.data.u64 == 7);
}

Test(real_direct, dup2_onto_itself_only_asks_whether_there_is_one)
{
	cr_assert_eq(rr_real.dup2(two[0], two[0]), two[0]);
	cr_assert_eq(rr_real.dup2(two[0], two[1]), two[1]);
	close(two[0]);
	errno = 0;
	cr_assert_eq(rr_real.dup2(two[0], two[0]), -1);
	cr_assert_eq(errno, EBADF);
}

/* A mask has the kernel's size. */
Test(real_direct, masks_are_the_kernels)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p = { two[0], POLLIN, 0 };
	struct timespec some = { 100, 0 };
	int ep = epoll_create1(0);
	sigset_t none;
	fd_set r;

	sigemptyset(&none);
	ready();
	cr_assert_eq(epoll_ctl(ep, EPOLL_CTL_ADD, two[0], &ev), 0);
	FD_ZERO(&r);
	FD_SET(two[0], &r);
	cr_assert_eq(rr_real.ppoll(&p, 1, &some, &none), 1);
	cr_assert_eq(rr_real.pselect(two[0] + 1, &r, NULL, NULL, &some, &none), 1);
	cr_assert_eq(rr_real.epoll_pwait2(ep, &ev, 1, &some, &none), 1);
}

/* Beyond 4 GiB. */
Test(real_direct, offsets_are_whole)
{
	const off64_t far = (INT64_C(5) << 32) + 3;
	char buf[4] = "";
	struct iovec out = { (char[]){ "xyz" }, 3 }, in = { buf, 3 };
	FILE *f = tmpfile();
	struct rlimit lim;
	int fd = fileno(f);

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &lim), 0);
	lim.rlim_cur = lim.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	cr_assert_eq(rr_real.pwritev64v2(fd, &out, 1, far, 0), 3);
	cr_assert_eq(lseek(fd, 0, SEEK_END), far + 3);
	cr_assert_eq(rr_real.preadv64v2(fd, &in, 1, far, 0), 3);
	cr_assert_str_eq(buf, "xyz");
	cr_assert_eq(rr_real.preadv64v2(fd, &in, 1, far, 1 << 30), -1, "no such flag");
	cr_assert_eq(rr_real.lseek64(fd, far, SEEK_SET), far);
	cr_assert_eq(rr_real.lseek64(fd, 3, SEEK_END), far + 6);
	cr_assert_eq(rr_real.lseek64(fd, -1, SEEK_SET), -1);
	fclose(f);
}

/* What is no system call. */
Test(real_direct, what_the_library_alone_could_do_is_refused)
{
	errno = 0;
	cr_assert_eq(rr_real.bindresvport(two[0], NULL), -1);
	cr_assert_eq(errno, EAGAIN);
	errno = 0;
	cr_assert_eq(rr_real.fork(), -1);
	cr_assert_eq(errno, EAGAIN);
	errno = 0;
	cr_assert_eq(rr_real.daemon(1, 1), -1);
	cr_assert_eq(errno, EAGAIN);
	errno = 0;
	cr_assert_null(rr_real.fdopen(two[0], "r"));
	cr_assert_eq(errno, ENOMEM);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && __SIZEOF_LONG__ == 8
Test(real_direct, times_are_converted_exactly)
{
	static const int ms[] = { 0, 1, 999, 1000, 1001, 2500, INT_MAX };
	struct timespec t = { 5, 123456789 };
	struct timeval tv;

	rr_real.poll(NULL, 0, 0);
	sleeping.played = true;
	for (size_t i = 0; i < sizeof(ms) / sizeof(*ms); i++) {
		cr_assert_eq(rr_real.poll(NULL, 0, ms[i]), 0);
		cr_assert(sleeping.has_time && sleeping.time.tv_sec == ms[i] / 1000 &&
			  sleeping.time.tv_nsec == ms[i] % 1000 * 1000000L, "%d", ms[i]);
	}
	cr_assert(rr_real.poll(NULL, 0, -1) == 0 && !sleeping.has_time);
	cr_assert(rr_real.ppoll(NULL, 0, NULL, NULL) == 0 && !sleeping.has_time);
	cr_assert_eq(rr_real.ppoll(NULL, 0, &t, NULL), 0);
	cr_assert(sleeping.has_time && sleeping.time.tv_sec == 5 && sleeping.time.tv_nsec == 123456789);
	sleeping.left = (struct timespec){ 3, 7654321 };
	tv = (struct timeval){ 4, 999999 };
	cr_assert_eq(rr_real.select(0, NULL, NULL, NULL, &tv), 0);
	cr_assert(sleeping.has_time && sleeping.time.tv_sec == 4 && sleeping.time.tv_nsec == 999999000);
	cr_assert(tv.tv_sec == 3 && tv.tv_usec == 7654);
	cr_assert(rr_real.select(0, NULL, NULL, NULL, NULL) == 0 && !sleeping.has_time);
	cr_assert_eq(rr_real.pselect(0, NULL, NULL, NULL, &t, NULL), 0);
	cr_assert(sleeping.has_time && sleeping.time.tv_sec == 5 && sleeping.time.tv_nsec == 123456789);
	cr_assert(t.tv_sec == 5 && t.tv_nsec == 123456789, "what is left is not told");
	cr_assert(rr_real.pselect(0, NULL, NULL, NULL, NULL, NULL) == 0 && !sleeping.has_time);
	cr_assert_eq(rr_real.epoll_pwait2(0, NULL, 1, &t, NULL), 0);
	cr_assert(sleeping.has_time && sleeping.time.tv_sec == 5 && sleeping.time.tv_nsec == 123456789);
	cr_assert(rr_real.epoll_pwait2(0, NULL, 1, NULL, NULL) == 0 && !sleeping.has_time);
	cr_assert_eq(sleeping.calls, 16);
	sleeping.played = false;
}
#endif

static int slept_ms;

static int forbidden_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	(void)fds, (void)n, (void)t, (void)mask;
	errno = EPERM;
	return -1;
}

static int noted_poll(struct pollfd *fds, nfds_t n, int ms)
{
	(void)fds, (void)n;
	slept_ms = ms;
	return 0;
}

/* A seccomp filter of old may know poll() only, which sleeps no shorter than it was asked to. */
Test(real_direct, where_ppoll_is_forbidden_the_time_is_rounded_up)
{
	static const struct { struct timespec t; int ms; } c[] = {
		{ { 0, 0 }, 0 }, { { 0, 1 }, 1 }, { { 0, 1000000 }, 1 }, { { 0, 999000001 }, 1000 }, { { 1, 0 }, 1000 },
		{ { 7, 5000001 }, 7006 }, { { INT_MAX / 1000 - 1, 0 }, INT_MAX / 1000 * 1000 - 1000 },
		{ { INT_MAX / 1000, 0 }, INT_MAX }, { { INT_MAX, 0 }, INT_MAX },
	};
	struct pollfd p = { two[0], POLLIN, 0 };

	rr_real.poll(&p, 1, 0);
	rr_real.ppoll = forbidden_ppoll;
	rr_real.poll = noted_poll;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		cr_assert_eq(rr_real_sleep(&p, 1, &c[i].t, NULL), 0);
		cr_assert_eq(slept_ms, c[i].ms, "%zu: %d", i, slept_ms);
	}
	cr_assert_eq(rr_real_sleep(&p, 1, NULL, NULL), 0);
	cr_assert_eq(slept_ms, -1);
	cr_assert_eq(rr_real_sleep(&p, 1, NULL, &(sigset_t){ 0 }), -1, "it would not be atomic");
	cr_assert_eq(errno, EPERM);
}
