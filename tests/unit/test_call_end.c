/* SPDX-License-Identifier: BSD-3-Clause */
/* How an fd's life ends: close(), shutdown(), whole ranges; and what a fork tells connections. */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/base/ownfd.h"
#include "preload/epset.h"
#include "preload/guard.h"
#include "preload/init.h"
#include "tests/unit/noted.h"
#include "tests/unit/call.h"

static struct { int closed, vanished, fd; } end;

static void note_close(struct rr_conn *c RR_UNUSED, int fd)
{
	end.closed++;
	end.fd = fd;
	cr_assert_geq(fcntl(fd, F_GETFD), 0, "before the kernel's close()");
}

static void note_vanish(struct rr_conn *c RR_UNUSED)
{
	end.vanished++;
}

static void begin_end(void)
{
	rr_process_init();
	begin_call();
	rr_fake.close = note_close;
	rr_fake.vanished = note_vanish;
	errno = MINE;
}

TestSuite(call_end, .init = begin_end, .timeout = 60);

static bool is_shut(int fd)
{
	int saved = errno;
	bool shut = fcntl(fd, F_GETFD) < 0;

	errno = saved;
	return shut;
}

static int to_high(int fd, int high)
{
	int to = fcntl(fd, F_DUPFD, high);

	cr_assert_eq(to, high);
	return to;
}

/* --- close() --- */

Test(call_end, the_last_number_ends_the_connection)
{
	int fd = rr_wrap_dup(at.fd);
	struct rr_file *f = &at.so->f;

	rr_file_hold(f);
	cr_assert_eq(rr_wrap_close(at.fd), 0);
	cr_assert(is_shut(at.fd) && !rr_fdt_has(at.fd) && !end.closed && f->refs == 2 && at.so->watches);
	cr_assert_eq(rr_wrap_close(fd), 0);
	cr_assert(is_shut(fd) && !rr_fdt_has(fd) && f->refs == 1);
	cr_assert(end.closed == 1 && end.fd == fd && !end.vanished && !at.so->watches);
	cr_assert_eq(errno, MINE);
	rr_file_put(f);
	cr_assert_eq(rr_wrap_close(fd), -1);
	cr_assert_eq(errno, EBADF);
}

Test(call_end, what_is_ended_is_looked_for_at_once)
{
	int fd = rr_wrap_dup(at.fd);

	is_noted();
	cr_assert_eq(rr_wrap_close(fd), 0);
	cr_assert(is_noted(), "not the last number");
	rr_wrap_shutdown(at.fd, SHUT_WR);
	cr_assert_not(is_noted());
	cr_assert_eq(rr_wrap_close(at.fd), 0);
	cr_assert_not(is_noted());
}

Test(call_end, one_that_is_tcp_is_ended_too)
{
	rr_fake_become(at.c, at.fd, RR_FAKE_TCP);
	errno = MINE;
	cr_assert_eq(rr_wrap_close(at.fd), 0);
	cr_assert(end.closed == 1 && errno == MINE);
}

Test(call_end, one_whose_number_is_another_files_has_vanished)
{
	int other = open("/dev/null", O_RDONLY);

	cr_assert_eq(dup2(other, at.fd), at.fd);
	cr_assert_eq(rr_wrap_close(at.fd), 0);
	cr_assert(!end.closed && end.vanished >= 1 && errno == MINE && is_shut(at.fd));
}

Test(call_end, what_is_no_connection)
{
	int p[2];

	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(rr_wrap_close(p[0]), 0);
	cr_assert(is_shut(p[0]));
	cr_assert_eq(rr_wrap_close(at.set), 0);
	cr_assert(is_shut(at.set) && !rr_fdt_has(at.set) && !end.closed && !at.so->watches);
	cr_assert_eq(errno, MINE);
	rr_ownfd_set(p[1], true);
	cr_assert(rr_wrap_close(p[1]) == -1 && errno == EBADF && !is_shut(p[1]));
	/* A plugin may close what it has opened. */
	rr_guard_enter();
	cr_assert(rr_wrap_close(p[1]) == 0 && is_shut(p[1]));
	rr_guard_leave();
}

/* AddressSanitizer does not follow a thread that is cancelled below a frame of the library's. */
#ifndef __SANITIZE_ADDRESS__
static void *closes_cancelled(void *fd)
{
	pthread_cancel(pthread_self());
	rr_wrap_close((int)(intptr_t)fd);
	return NULL;
}

Test(call_end, a_thread_that_is_cancelled_closes_nothing_by_halves)
{
	pthread_t t;
	void *how;

	cr_assert_eq(pthread_create(&t, NULL, closes_cancelled, (void *)(intptr_t)at.fd), 0);
	pthread_join(t, &how);
	cr_assert_eq(how, PTHREAD_CANCELED);
	cr_assert(!is_shut(at.fd) && rr_fdt_has(at.fd) && !end.closed && at.so->f.refs == 1);
}
#endif

Test(call_end, whether_a_thread_may_be_cancelled_is_the_apps)
{
	int was, now, peer;

	for (int i = 0; i < 2; i++) {
		int state = i ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE, fd = tcp(&peer);

		rr_fake_conn(fd, RR_FAKE_CARRIED);
		pthread_setcancelstate(state, &was);
		cr_assert_eq(rr_wrap_close(fd), 0);
		pthread_setcancelstate(state, &now);
		cr_assert_eq(now, state);
		cr_assert_eq(rr_wrap_close_range(900, 910, 0), 0);
		pthread_setcancelstate(state, &now);
		cr_assert_eq(now, state);
	}
}

/* --- shutdown() --- */

static struct { int calls, how, says; } shut;

static int shut_script(struct rr_conn *c, int fd, int how)
{
	cr_assert(c == at.c && fd == at.fd);
	shut.calls++;
	shut.how = how;
	return shut.says;
}

static bool peer_sees_end(void)
{
	struct pollfd p = { at.peer, POLLRDHUP, 0 };

	return poll(&p, 1, 0) > 0;
}

Test(call_end, a_shutdown_is_the_connections_first)
{
	rr_fake.shutdown = shut_script;
	for (int how = SHUT_RD; how <= SHUT_RDWR; how++) {
		shut.says = -ENOTCONN;
		assert_said(rr_wrap_shutdown(at.fd, how), -ENOTCONN);
		cr_assert_eq(shut.how, how);
		shut.says = -EDEADLK;
		assert_said(rr_wrap_shutdown(at.fd, how), -EINTR);
	}
	cr_assert_eq(shut.calls, 6);
	cr_assert_not(peer_sees_end());
	assert_said(rr_wrap_shutdown(at.fd, SHUT_RD - 1), -EINVAL);
	assert_said(rr_wrap_shutdown(at.fd, SHUT_RDWR + 1), -EINVAL);
	cr_assert_eq(shut.calls, 6);
}

Test(call_end, a_shutdown_ends_what_the_kernel_has)
{
	rr_fake.shutdown = shut_script;
	shut.says = 0;
	cr_assert_eq(rr_wrap_shutdown(at.fd, SHUT_WR), 0);
	cr_assert(peer_sees_end());
	/* Also if the connection says that all is done. */
	shut.says = 1;
	{
		int peer, fd = at.fd;

		at.fd = tcp(&peer);
		at.c = rr_fake_conn(at.fd, RR_FAKE_CARRIED);
		cr_assert_eq(rr_wrap_shutdown(at.fd, SHUT_WR), 0);
		struct pollfd p = { peer, POLLRDHUP, 0 };
		cr_assert_eq(poll(&p, 1, 10000), 1, "the kernel's end, too");
		at.fd = fd;
		at.c = at.so->conn;
	}
	/* Whatever the kernel says if it is the connection's alone. */
	shutdown(at.peer, SHUT_RDWR);
	shut.says = 1;
	errno = MINE;
	for (int i = 0; i < 2; i++)
		assert_said(rr_wrap_shutdown(at.fd, SHUT_RDWR), 0);
	shut.says = RR_CONN_KERNEL;
	cr_assert_eq(rr_wrap_shutdown(at.fd, SHUT_RDWR), -1);
	cr_assert_eq(errno, ENOTCONN);
	cr_assert_eq(at.so->f.refs, 1);
	cr_assert_eq(rr_wrap_shutdown(99999, SHUT_WR), -1);
	cr_assert_eq(errno, EBADF);
}

/* --- ranges --- */

enum { LOW = 600, HIGH = 620 };

/* A socket of ours, two files of the library's and some of the app's, from LOW on. */
static void fill_range(void)
{
	to_high(at.fd, LOW + 5);
	rr_sock_dup(at.fd, LOW + 5);
	cr_assert(rr_fdt_has(LOW + 5));
	for (int fd = LOW; fd <= HIGH; fd++)
		if (fd != LOW + 5)
			to_high(0, fd);
	rr_ownfd_set(LOW + 3, true);
	rr_ownfd_set(LOW + 8, true);
	errno = MINE;
}

static void assert_range(int first, int last)
{
	for (int fd = LOW; fd <= HIGH; fd++) {
		bool own = fd == LOW + 3 || fd == LOW + 8;

		cr_assert_eq(is_shut(fd), fd >= first && fd <= last && !own, "%d", fd - LOW);
	}
	cr_assert_eq(rr_fdt_has(LOW + 5), !(first <= LOW + 5 && last >= LOW + 5));
}

Test(call_end, ranges_are_closed_but_for_what_is_ours)
{
	static const int r[][2] = { { 0, 20 }, { 1, 4 }, { 3, 8 }, { 4, 7 }, { 3, 3 }, { 8, 8 }, { 5, 5 }, { 9, 20 }, { 2, 3 },
				    { 8, 9 }, { 5, 9 }, { 0, 5 } };

	for (size_t i = 0; i < rr_array_size(r); i++) {
		fill_range();
		cr_assert_eq(rr_wrap_close_range(LOW + (unsigned)r[i][0], LOW + (unsigned)r[i][1], 0), 0);
		cr_assert_eq(errno, MINE);
		assert_range(LOW + r[i][0], LOW + r[i][1]);
		cr_assert(rr_ownfd_is(LOW + 3) && rr_ownfd_is(LOW + 8));
		rr_ownfd_set(LOW + 3, false);
		rr_ownfd_set(LOW + 8, false);
		if (rr_fdt_has(LOW + 5))
			rr_wrap_close(LOW + 5);
		for (int fd = LOW; fd <= HIGH; fd++)
			close(fd);
	}
	cr_assert_eq(end.closed, 0, "it has another number");
}

Test(call_end, of_a_range_the_last_number_ends_a_connection)
{
	to_high(at.fd, LOW);
	rr_sock_dup(at.fd, LOW);
	rr_wrap_close(at.fd);
	errno = MINE;
	cr_assert_eq(rr_wrap_close_range(LOW, ~0u, 0), 0);
	cr_assert(end.closed == 1 && end.fd == LOW && errno == MINE);
}

Test(call_end, neighbours_are_closed_each)
{
	for (int fd = LOW; fd <= LOW + 4; fd++) {
		to_high(at.fd, fd);
		rr_sock_dup(at.fd, fd);
	}
	cr_assert_eq(at.so->f.refs, 6);
	cr_assert_eq(rr_wrap_close_range(LOW + 1, LOW + 3, 0), 0);
	cr_assert(at.so->f.refs == 3 && rr_fdt_has(LOW) && rr_fdt_has(LOW + 4));
	for (int fd = LOW + 1; fd <= LOW + 3; fd++)
		cr_assert(is_shut(fd) && !rr_fdt_has(fd));
}

Test(call_end, of_a_range_neighbours_of_ours_stay)
{
	fill_range();
	rr_ownfd_set(LOW + 9, true);
	rr_ownfd_set(LOW + 10, true);
	cr_assert_eq(rr_wrap_close_range(LOW, HIGH, 0), 0);
	for (int fd = LOW; fd <= HIGH; fd++)
		cr_assert_eq(is_shut(fd), !rr_ownfd_is(fd), "%d", fd - LOW);
	cr_assert(rr_ownfd_is(LOW + 8) && rr_ownfd_is(LOW + 9) && rr_ownfd_is(LOW + 10));
}

Test(call_end, ranges_that_are_the_kernels)
{
	fill_range();
	cr_assert_eq(rr_wrap_close_range(LOW + 5, LOW + 4, 0), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(rr_wrap_close_range(LOW, HIGH, 1u << 30), -1);
	cr_assert_eq(errno, EINVAL);
	assert_range(0, -1);
	cr_assert_eq(rr_wrap_close_range(LOW, HIGH, 1u << 2 /* CLOSE_RANGE_CLOEXEC */), 0);
	assert_range(0, -1);
	cr_assert_eq(fcntl(LOW + 5, F_GETFD), FD_CLOEXEC);
	cr_assert_eq(rr_wrap_close_range(1u << 31, ~0u, 0), 0);
	assert_range(0, -1);
	rr_guard_enter();
	cr_assert_eq(rr_wrap_close_range(LOW + 6, LOW + 8, 0), 0);
	rr_guard_leave();
	cr_assert(is_shut(LOW + 8) && is_shut(LOW + 6) && !is_shut(LOW + 5));
}

static int no_close_range(unsigned first RR_UNUSED, unsigned last RR_UNUSED, int flags RR_UNUSED)
{
	errno = ENOSYS;
	return -1;
}

Test(call_end, all_from_a_number_on)
{
	struct rlimit lim = { 1024, 1024 };

	fill_range();
	rr_wrap_closefrom(LOW + 4);
	cr_assert_eq(errno, MINE);
	assert_range(LOW + 4, HIGH);
	rr_wrap_closefrom(LOW + 1);
	assert_range(LOW + 1, HIGH);
	/* Without the kernel's help, one by one. */
	for (int fd = LOW; fd <= HIGH; fd++)
		if (!rr_ownfd_is(fd))
			close(fd);
	rr_ownfd_set(LOW + 3, false);
	rr_ownfd_set(LOW + 8, false);
	close(LOW + 3);
	close(LOW + 8);
	fill_range();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	rr_real.close_range = no_close_range;
	errno = MINE;
	rr_wrap_closefrom(LOW + 4);
	cr_assert_eq(errno, MINE);
	assert_range(LOW + 4, HIGH);
	cr_assert_eq(rr_wrap_close_range(LOW, LOW + 2, 0), -1);
	cr_assert_eq(errno, ENOSYS);
	cr_assert_eq(rr_wrap_close_range(LOW, HIGH, 0), -1, "before one of ours");
	cr_assert_eq(errno, ENOSYS);
}

/* As the kernel says, unless a test has another limit. */
static rlim_t limit_says;
static int limit_fails;

int getrlimit(__rlimit_resource_t what, struct rlimit *lim)
{
	long rc = syscall(SYS_prlimit64, 0, what, NULL, lim);

	if (limit_says)
		lim->rlim_max = limit_says;
	return limit_fails ? -1 : (int)rc;
}

static int highest;

static int note_highest(int fd)
{
	highest = rr_max(highest, fd);
	return 0;
}

Test(call_end, no_number_is_closed_that_none_can_have)
{
	static const struct { rlim_t limit; int fails, highest; } c[] = {
		{ 1000, 0, 999 }, { (1 << 20) - 1, 0, (1 << 20) - 2 }, { 1 << 20, 0, (1 << 20) - 1 },
		{ (1 << 20) + 1, 0, (1 << 20) - 1 }, { RLIM_INFINITY, 0, (1 << 20) - 1 }, { 1000, 1, (1 << 20) - 1 },
	};

	rr_real.close_range = no_close_range;
	rr_real.close = note_highest;
	for (size_t i = 0; i < rr_array_size(c); i++) {
		highest = 0;
		limit_says = c[i].limit;
		limit_fails = c[i].fails;
		rr_wrap_closefrom(900);
		cr_assert_eq(highest, c[i].highest, "%zu: %d", i, highest);
	}
}

Test(call_end, what_the_kernel_has_closed_is_not_closed_again)
{
	rr_real.close = note_highest;
	rr_wrap_closefrom(900);
	cr_assert_eq(highest, 0);
}

Test(call_end, of_a_range_one_that_is_closed_already_is_no_error)
{
	to_high(at.fd, LOW + 5);
	rr_sock_dup(at.fd, LOW + 5);
	close(LOW + 5);
	errno = MINE;
	cr_assert_eq(rr_wrap_close_range(LOW, HIGH, 0), 0);
	cr_assert_eq(errno, MINE);
	cr_assert_not(rr_fdt_has(LOW + 5));
}

Test(call_end, all_from_below_the_first)
{
	pid_t pid;
	int status = -1;

	rr_wrap_fcntl(at.fd, F_DUPFD, (void *)LOW);
	cr_assert_eq(rr_wrap_dup2(at.fd, 0), 0);
	pid = fork();
	if (!pid) {
		rr_wrap_closefrom(-5);
		_exit(is_shut(at.fd) && is_shut(LOW) && is_shut(0) && !rr_fdt_has(at.fd) ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	cr_assert_eq(status, 0);
}

/* --- fork() --- */

static struct { int nears, forked, failed; } forks;

static void note_fork(struct rr_conn *c, const char *when)
{
	cr_assert_eq(c, at.c);
	forks.nears += !strcmp(when, "nears");
	forks.forked += !strcmp(when, "forked");
	forks.failed += !strcmp(when, "failed");
}

Test(call_end, a_connection_is_told_of_a_fork_once)
{
	int status = -1, fd = rr_wrap_dup(at.fd);
	pid_t pid;

	rr_fake.fork = note_fork;
	atomic_fetch_or(&at.so->flags, RR_SOCK_ACCEPTING | RR_SOCK_STDIO);
	errno = MINE;
	pid = rr_wrap_fork();
	if (!pid) {
		bool kept = !(at.so->flags & RR_SOCK_ACCEPTING) && at.so->flags & RR_SOCK_STDIO;

		_exit(errno == MINE && kept && rr_may_track() && at.so->f.refs == 2 && rr_ep_lock() ? 0 : 1);
	}
	cr_assert_gt(pid, 0);
	cr_assert_eq(errno, MINE);
	cr_assert(forks.nears == 1 && forks.forked == 1 && !forks.failed);
	cr_assert(at.so->flags & RR_SOCK_ACCEPTING && at.so->f.refs == 2);
	waitpid(pid, &status, 0);
	cr_assert_eq(status, 0);
	cr_assert(rr_ep_lock(), "it is free");
	rr_ep_unlock();
	cr_assert_eq(rr_wrap_close(fd), 0);
}

/* Whatever else has a lower number. */
Test(call_end, a_connection_of_two_high_numbers_is_told_of_it_too)
{
	int fd = rr_wrap_dup(at.fd), other = rr_wrap_dup(at.fd);
	pid_t pid;

	cr_assert(at.set < fd && rr_fdt_has(at.set) && fd < other);
	cr_assert_eq(rr_wrap_close(at.fd), 0);
	rr_fake.fork = note_fork;
	pid = rr_wrap_fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	cr_assert(forks.nears == 1 && forks.forked == 1);
	rr_wrap_close(fd);
	rr_wrap_close(other);
}

static pid_t no_fork(void)
{
	errno = EAGAIN;
	return -1;
}

Test(call_end, a_connection_is_told_that_there_was_no_fork)
{
	rr_fake.fork = note_fork;
	rr_real.fork = no_fork;
	cr_assert_eq(rr_wrap_fork(), -1);
	cr_assert_eq(errno, EAGAIN);
	cr_assert(forks.failed == 1 && !forks.nears && at.so->f.refs == 1);
}

/* A child that shares the memory is not who the tables are of. */
Test(call_end, a_vfork_child_tracks_nothing)
{
	volatile bool may = true;
	pid_t pid;

	for (int i = 0; i < 20; i++)	/* by then no system call tells the pid */
		cr_assert(rr_may_track());
	rr_lends();
	pid = vfork();
	if (!pid) {
		may = rr_may_track();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	cr_assert_not(may);
	cr_assert(rr_may_track());
}

/* --- giving up root --- */

static int earlies;

static void note_early(struct rr_conn *c)
{
	cr_assert_eq(c, at.c);
	cr_assert_eq(geteuid(), 0);
	earlies++;
}

Test(call_end, what_needs_root_is_done_before_it_goes)
{
	int fd = rr_wrap_dup(at.fd);

	if (geteuid() != 0)
		return;
	errno = MINE;
	cr_assert(rr_wrap_seteuid(0) == 0 && errno == MINE && earlies == 0);
	rr_fake.early = note_early;
	cr_assert(rr_wrap_setuid(0) == 0 && errno == MINE && earlies == 1);
	cr_assert(rr_wrap_setreuid(0, 0) == 0 && errno == MINE && earlies == 2);
	cr_assert(rr_wrap_setresuid(0, 0, 0) == 0 && errno == MINE && earlies == 3);
	rr_guard_enter();
	cr_assert(rr_wrap_setresuid(0, 0, 0) == 0 && earlies == 3);
	rr_guard_leave();
	cr_assert(rr_wrap_seteuid(65534) == 0 && errno == MINE && earlies == 4 && geteuid() == 65534);
	cr_assert(rr_wrap_seteuid(0) == 0 && earlies == 4, "it has no root to lose");
	cr_assert(rr_wrap_setresuid(0, 65534, 0) == 0 && geteuid() == 65534 && earlies == 5);
	cr_assert(rr_wrap_setreuid(-1, 0) == 0 && geteuid() == 0);
	rr_wrap_close(fd);
}
