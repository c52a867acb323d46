/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() over connections at rest, whose wake-up fd stands in place of the app's. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/ownfd.h"
#include "core/conn/standing.h"
#include "preload/looks.h"
#include "preload/pollrest.h"
#include "preload/restset.h"
#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

static struct rr_conn *at_rest(int fd)
{
	struct rr_conn *c = conn_that_rests(fd);
	struct pollfd p = { fd, POLLIN, 0 };

	cr_assert_eq(rr_wrap_poll(&p, 1, 1), 0);
	cr_assert(c->rests);
	return c;
}

Test(ready_rest, one_that_has_rung_for_nothing_is_slept_for_again, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = at_rest(fd);
	struct pollfd p = { fd, POLLIN, 0 };
	struct later l = { .c = c, .what = ring_twice };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	finish(&l);
	cr_assert_eq(c->sleepers, 0);
}

static int poll_of(int fd, short events, int ms)
{
	struct pollfd p[2] = { { fd, events, 9 }, { -1, POLLIN, 9 } };
	int n = rr_wrap_poll(p, 2, ms);

	cr_assert_eq(!!p[0].revents, n == 1);
	return n;
}

/* One that has had nothing is put to rest by a look at it; what else is asked for, or might be told, keeps it awake. */
Test(ready_rest, who_is_put_to_rest_by_a_look)
{
	static const struct { short events; bool quiet, restless, rests; unsigned arms; enum rr_fake_state state; } c[] = {
		{ POLLIN, true, false, true, 1, RR_FAKE_CARRIED }, { POLLIN | POLLRDNORM, true, false, true, 1, RR_FAKE_CARRIED },
		{ POLLIN, false, false, false, 0, RR_FAKE_CARRIED }, { POLLIN | POLLOUT, true, false, false, 0, RR_FAKE_CARRIED },
		{ POLLOUT, true, false, false, 0, RR_FAKE_CARRIED }, { 0, true, false, false, 0, RR_FAKE_CARRIED },
		{ POLLIN, true, true, false, 1, RR_FAKE_CARRIED }, { POLLIN, true, false, false, 1, RR_FAKE_WAITING },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		int peer, fd = tcp(&peer);
		struct rr_conn *conn = rr_fake_conn(fd, c[i].state);

		conn->can_rest = true;
		conn->quiet = c[i].quiet;
		conn->restless = c[i].restless;
		cr_assert_eq(poll_of(fd, c[i].events, 0), 0);
		cr_assert_eq(conn->rests, c[i].rests, "%zu", i);
		cr_assert_eq(conn->arms, c[i].arms, "%zu", i);
		cr_assert_eq(conn->sleepers, 0, "%zu", i);
	}
}

/* Before it is asked, it is looked for at rest, unless it is asked for more, or its number may be another's by now. */
Test(ready_rest, who_rests_is_asked_only_for_what_does_not_rest)
{
	static const struct { short events; bool stdio, old; unsigned polls; } c[] = {
		{ POLLIN, false, false, 0 }, { POLLIN | POLLRDNORM, false, false, 0 }, { POLLIN | POLLOUT, false, false, 1 },
		{ POLLOUT, false, false, 1 }, { 0, false, false, 1 }, { POLLIN, true, false, 1 }, { POLLIN, false, true, 1 },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		int peer, fd = tcp(&peer);
		struct rr_conn *conn = at_rest(fd);
		struct rr_sock *so = rr_fdt_sock(fd);

		if (c[i].stdio)
			so->flags |= RR_SOCK_STDIO;
		if (c[i].old)
			so->verified = rr_now_coarse() - 61 * RR_SEC;
		conn->polls = 0;
		cr_assert_eq(poll_of(fd, c[i].events, 0), 0);
		cr_assert_eq(conn->polls, c[i].polls, "%zu", i);
		cr_assert_eq(conn->sleepers, 0, "%zu", i);
		conn->ready = POLLIN | POLLHUP;
		rr_fake_ready(conn, 0, 0);
		cr_assert_eq(poll_of(fd, POLLIN, -1), 1, "%zu", i);
		cr_assert_eq(conn->sleepers, 0, "%zu", i);
		cr_assert_eq(so->f.refs, 2, "%zu", i);
		rr_file_put(&so->f);
	}
}

/* --- so many that one entry of the kernel's array stands for all --- */

enum { N = 70 };
static struct rr_conn *conns[N];
static struct pollfd many[N];

static void make_many(void)
{
	int peer, sock = tcp(&peer);

	for (int i = 0; i < N; i++) {
		int fd = dup(sock);

		conns[i] = rr_fake_conn(fd, RR_FAKE_CARRIED);
		conns[i]->can_rest = conns[i]->quiet = true;
		many[i] = (struct pollfd){ fd, POLLIN, 9 };
	}
	cr_assert_eq(rr_wrap_poll(many, N, 1), 0);
	for (int i = 0; i < N; i++) {
		cr_assert(conns[i]->rests && !conns[i]->sleepers, "%d", i);
		conns[i]->polls = 0;
	}
}

/* Exactly these are told of, and of those at rest nobody else was asked. */
static void expect_many(nfds_t n, int ms, int a, int b)
{
	int want = (a >= 0) + (b >= 0);

	cr_assert_eq(rr_wrap_poll(many, n, ms), want);
	for (int i = 0; i < (int)n; i++) {
		cr_assert_eq(many[i].revents, i == a || i == b ? POLLIN : 0, "%d", i);
		cr_assert_eq(conns[i]->sleepers, 0, "%d", i);
	}
}

static void quieten(int i)
{
	rr_fake_ready(conns[i], 0, POLLIN);
	conns[i]->polls = 0;
}

static void swap(int i, int k)
{
	struct pollfd p = many[i];
	struct rr_conn *c = conns[i];

	many[i] = many[k];
	conns[i] = conns[k];
	many[k] = p;
	conns[k] = c;
}

Test(ready_rest, of_many_those_that_ring_are_found_wherever_they_stand, .timeout = 20)
{
	struct later l = { .add = POLLIN, .what = make_ready };

	make_many();
	rr_fake_ready(conns[42], POLLIN, 0);
	expect_many(N, 0, 42, -1);
	rr_fake_ready(conns[0], POLLIN, 0);
	rr_looks_forget();	/* some time later */
	expect_many(N, -1, 42, 0);
	for (int i = 1; i < N; i++)
		cr_assert_eq(conns[i]->polls != 0, i == 42, "%d", i);
	quieten(42);
	quieten(0);
	expect_many(N, 1, -1, -1);
	/* In another order, and while it sleeps. */
	for (int i = 0; i < N / 2; i++)
		swap(i, N - 1 - i);
	expect_many(N, 0, -1, -1);
	l.c = conns[5];
	start(&l);
	expect_many(N, -1, 5, -1);
	finish(&l);
	quieten(5);
	expect_many(N, 1, -1, -1);
	for (int i = 0; i < 40; i++)	/* more than are looked at in one go */
		rr_fake_ready(conns[i], POLLIN, 0);
	cr_assert_eq(rr_wrap_poll(many, N, 0), 40);
	for (int i = 0; i < N; i++)
		cr_assert_eq(many[i].revents, i < 40 ? POLLIN : 0, "%d", i);
}

/* One that rang and is not waited for keeps nobody awake, and is told to who waits for it. */
Test(ready_rest, of_many_one_that_is_not_in_the_array_is_nobodys_business, .timeout = 20)
{
	make_many();
	swap(3, N - 1);
	rr_fake_ready(conns[N - 1], POLLIN, 0);
	expect_many(N - 1, 20, -1, -1);
	for (int i = 0; i < N - 1; i++)
		cr_assert_eq(conns[i]->polls, 0, "%d", i);
	rr_fake_ready(conns[7], POLLIN, 0);
	expect_many(N - 1, -1, 7, -1);
	expect_many(N, -1, 7, N - 1);
}

/* Its descriptor was closed unseen, and its number is another file's. */
Test(ready_rest, of_many_the_set_can_be_lost, .timeout = 20)
{
	make_many();
	for (int fd = many[N - 1].fd + 1; fd < 70000; fd++)
		if (rr_ownfd_is(fd))
			cr_assert_eq(dup2(many[0].fd, fd), fd);
	rr_fake_ready(conns[42], POLLIN, 0);
	expect_many(N, -1, 42, -1);
	quieten(42);
	rr_fake_ready(conns[1], POLLIN, 0);
	expect_many(N, -1, 1, -1);
}

/* A forked child has a set of its own. */
Test(ready_rest, of_many_a_forked_child_is_told_and_so_is_its_parent, .timeout = 20)
{
	int status;
	pid_t p;

	make_many();
	p = fork();
	if (!p) {
		rr_restset_fork_child();
		rr_fake_ready(conns[42], POLLIN, 0);
		expect_many(N, -1, 42, -1);
		quieten(42);
		expect_many(N, 1, -1, -1);
		_exit(0);
	}
	cr_assert_eq(waitpid(p, &status, 0), p);
	cr_assert_eq(status, 0);
	rr_fake_ready(conns[9], POLLIN, 0);
	expect_many(N, -1, 9, -1);
}

Test(ready_rest, the_set_is_one_threads_and_moves_when_asked, .timeout = 20)
{
	int fd;

	make_many();
	cr_assert(rr_restset_take());
	cr_assert_not(rr_restset_take(), "a handler that interrupted it does without");
	expect_many(N, 1, -1, -1);
	rr_fake_ready(conns[2], POLLIN, 0);
	expect_many(N, -1, 2, -1);
	quieten(2);
	rr_restset_give();
	fd = rr_restset_fd();
	cr_assert(rr_ownfd_is(fd));
	cr_assert_not(rr_restset_move(fd + 1));
	cr_assert(rr_restset_move(fd));
	cr_assert(rr_restset_fd() != fd && rr_ownfd_is(rr_restset_fd()) && !rr_ownfd_is(fd));
	close(fd);
	expect_many(N, 1, -1, -1);
	rr_fake_ready(conns[69], POLLIN, 0);
	expect_many(N, -1, 69, -1);
}

Test(ready_rest, of_many_each_is_a_member_and_who_has_left_joins_again)
{
	struct rr_sock *so;
	uint32_t id;
	int wake;

	make_many();
	so = rr_fdt_sock(many[3].fd);
	id = so->set;
	wake = rr_conn_wake_fd(conns[3]);
	for (int i = 0; i < N; i++) {
		struct rr_sock *each = rr_fdt_sock(many[i].fd);

		cr_assert(id && each->set == id && each->set_wake == rr_conn_wake_fd(conns[i]), "%d", i);
		rr_file_put(&each->f);
	}
	cr_assert(rr_restset_take());
	cr_assert(rr_restset_leave(so) && !so->set);
	errno = ENOENT;
	cr_assert(rr_restset_join(so, wake) && so->set == id);
	so->set = 0;
	cr_assert(rr_restset_join(so, wake) && so->set == id, "the kernel has it already");
	so->set = 0;
	cr_assert(!rr_restset_join(so, -1) && !so->set);
	rr_restset_give();
	rr_file_put(&so->f);
}

/* --- the same array again --- */

/* Nobody who stood is looked up again, nor asked whether it rests. */
static void expect_as_before(int ms, int a, int b)
{
	rr_fake_rests_asked = 0;
	expect_many(N, ms, a, b);
	cr_assert_leq(rr_fake_rests_asked, 2);
}

static void expect_anew(int ms, int a, int b)
{
	rr_fake_rests_asked = 0;
	expect_many(N, ms, a, b);
	cr_assert_geq(rr_fake_rests_asked, N - 2u);
}

Test(ready_rest, of_the_same_array_nobody_is_looked_up_again, .timeout = 20)
{
	struct later l = { .add = POLLIN, .what = make_ready };

	make_many();
	expect_as_before(0, -1, -1);
	for (int i = 0; i < N; i++)
		many[i].revents = -1;	/* whatever stood there */
	expect_as_before(1, -1, -1);
	rr_fake_ready(conns[42], POLLIN, 0);
	expect_as_before(0, 42, -1);
	expect_as_before(-1, 42, -1);	/* it is still there */
	l.c = conns[3];
	quieten(42);
	expect_many(N, 1, -1, -1);	/* and at rest again */
	start(&l);
	expect_as_before(-1, 3, -1);
	finish(&l);
}

/* From so many on an array is kept. */
Test(ready_rest, the_shortest_array_of_many_is_kept_too, .timeout = 20)
{
	make_many();
	expect_many(RR_POLL_MANY, 0, -1, -1);
	rr_fake_rests_asked = 0;
	expect_many(RR_POLL_MANY, 0, -1, -1);
	cr_assert_eq(rr_fake_rests_asked, 0);
	many[4].events = POLLIN | POLLOUT;	/* one that is asked each time */
	expect_many(RR_POLL_MANY, 0, -1, -1);
	errno = ESRCH;
	expect_many(RR_POLL_MANY, 0, -1, -1);
	cr_assert_eq(errno, ESRCH);
	many[4].events = POLLIN;
	expect_many(RR_POLL_MANY - 1, 0, -1, -1);
	expect_many(RR_POLL_MANY - 1, 0, -1, -1);
	cr_assert_geq(rr_fake_rests_asked, 2 * (RR_POLL_MANY - 1));
}

Test(ready_rest, an_array_with_other_entries_is_another_one, .timeout = 20)
{
	struct pollfd was;

	make_many();
	many[7].events |= POLLOUT;
	rr_fake_ready(conns[7], POLLOUT, 0);
	cr_assert_eq(rr_wrap_poll(many, N, -1), 1);
	cr_assert_eq(many[7].revents, POLLOUT);
	many[7].events = POLLIN;
	rr_fake_ready(conns[7], 0, POLLOUT);
	expect_anew(0, -1, -1);
	was = many[69];
	many[69].fd = -1;
	rr_fake_ready(conns[69], POLLIN, 0);
	cr_assert_eq(rr_wrap_poll(many, N, 0), 0);
	many[69] = was;
	expect_anew(-1, 69, -1);
	rr_fake_ready(conns[3], POLLIN, 0);
	expect_many(N - 1, -1, 3, -1);	/* shorter */
	expect_many(N, -1, 3, 69);
	many[69].fd = many[3].fd;	/* twice */
	cr_assert_eq(rr_wrap_poll(many, N, -1), 2);
	cr_assert(many[3].revents == POLLIN && many[69].revents == POLLIN);
	quieten(3);
	cr_assert_eq(rr_wrap_poll(many, N, 1), 0);
	rr_fake_ready(conns[3], POLLIN, 0);
	cr_assert_eq(rr_wrap_poll(many, N, -1), 2);
	cr_assert(many[3].revents == POLLIN && many[69].revents == POLLIN);
}

/* What the table, or a connection, is no longer is found although the array is the same. */
Test(ready_rest, the_same_array_of_other_files_is_another_one, .timeout = 20)
{
	int peer, fd = many[5].fd;
	struct rr_conn *c;

	make_many();
	expect_as_before(0, -1, -1);
	fd = many[5].fd;
	cr_assert_eq(rr_wrap_close(fd), 0);
	cr_assert_eq(rr_wrap_poll(many, N, 0), 1);
	cr_assert_eq(many[5].revents, POLLNVAL);
	cr_assert_eq(dup2(tcp(&peer), fd), fd);
	c = conns[5] = rr_fake_conn(fd, RR_FAKE_CARRIED);
	c->can_rest = c->quiet = true;
	expect_anew(1, -1, -1);
	expect_as_before(0, -1, -1);
	rr_fake_ready(c, POLLIN, 0);
	expect_as_before(-1, 5, -1);
	quieten(5);
	expect_many(N, 1, -1, -1);
	rr_fdt_change();
	expect_anew(0, -1, -1);
	/* Another thread has asked it, and will not hear a bell for it. */
	cr_assert_eq(rr_conn_poll(conns[9], many[9].fd, POLLIN), 0);
	rr_fake_ready(conns[9], POLLIN, 0);
	expect_anew(-1, 9, -1);
	/* It is the kernel's from now on, while its entry stands. */
	quieten(9);
	expect_many(N, 1, -1, -1);
	rr_fake_become(conns[9], many[9].fd, RR_FAKE_TCP);
	rr_standing_ceased(conns[9]);
	expect_many(N, 0, -1, -1);
}

/* One that has news and is closed before anybody waits again leaves nothing behind. */
Test(ready_rest, one_that_rings_and_is_closed_is_the_kernels_to_refuse, .timeout = 20)
{
	struct rr_sock *so;

	make_many();
	so = rr_fdt_sock(many[8].fd);
	cr_assert_eq(so->f.refs, 2, "who stands is not held");
	rr_file_put(&so->f);
	rr_fake_ready(conns[8], POLLIN, 0);
	cr_assert_eq(rr_wrap_close(many[8].fd), 0);
	cr_assert_eq(so->f.refs, 0);
	cr_assert_eq(rr_wrap_poll(many, N, -1), 1);
	cr_assert_eq(many[8].revents, POLLNVAL);
}

static rr_time slept;

/* A sleep takes no time, and the clock goes on by it. */
static int time_flies(struct pollfd *fds, nfds_t n, const struct timespec *left, const sigset_t *mask)
{
	int r = ppoll(fds, n, &(struct timespec){ 0 }, mask);
	rr_time took;

	cr_assert(r || left, "nobody would wake it");
	if (r)
		return r;
	took = (rr_time)left->tv_sec * RR_SEC + (rr_time)left->tv_nsec;
	slept += took;
	now += took;
	return 0;
}

/* A number that was closed unseen is found, however many there are: some are looked at each 30 seconds. */
Test(ready_rest, of_more_than_are_verified_in_one_go_each_is, .timeout = 20)
{
	static struct pollfd fds[600];
	int peer, sock = tcp(&peer), p[2];

	now = START;
	rr_real.ppoll = time_flies;
	for (int i = 0; i < 600; i++) {
		struct rr_conn *c = rr_fake_conn(dup(sock), RR_FAKE_CARRIED);

		c->can_rest = c->quiet = true;
		fds[i] = (struct pollfd){ rr_fdt_fd_of(c), POLLIN, 0 };
	}
	cr_assert_eq(rr_wrap_poll(fds, 600, 1), 0);
	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(write(p[1], "x", 1), 1);
	cr_assert_eq(dup2(p[0], fds[590].fd), fds[590].fd);
	cr_assert_eq(rr_wrap_poll(fds, 600, -1), 1);
	cr_assert_eq(fds[590].revents, POLLIN);
	cr_assert(slept >= 60 * RR_SEC && slept < 61 * RR_SEC);
	cr_assert_eq(dup2(p[0], fds[2].fd), fds[2].fd);
	fds[590].fd = -1;
	slept = 0;
	now = START;	/* after a minute each would be looked at before the wait */
	cr_assert_eq(rr_wrap_poll(fds, 600, -1), 1);
	cr_assert_eq(fds[2].revents, POLLIN);
	cr_assert(slept >= 30 * RR_SEC && slept < 31 * RR_SEC);
}

/* Where nothing rests there is no set, however long the array: it would be one descriptor more. */
Test(ready_rest, who_waits_for_the_kernels_alone_has_no_set)
{
	int peer, sock = tcp(&peer);

	for (int i = 0; i < N; i++) {
		conns[i] = rr_fake_conn(dup(sock), RR_FAKE_NEW);
		conns[i]->plain = i < 64;	/* as many as the fake counts */
		many[i] = (struct pollfd){ i < 64 ? rr_fdt_fd_of(conns[i]) : peer, POLLIN, 9 };
	}
	cr_assert_eq(rr_wrap_poll(many, N, 1), 0);
	cr_assert_eq(rr_wrap_poll(many, N, 0), 0);
	cr_assert_eq(rr_restset_fd(), -1);
}

Test(ready_rest, whether_the_thread_may_be_cancelled_is_the_apps_in_a_wait_of_many)
{
	int was;

	make_many();
	for (int i = 0; i < 2; i++) {
		pthread_setcancelstate(i ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE, &was);
		expect_many(N, 0, -1, -1);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
		cr_assert_eq(was, i ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE);
	}
}

/* --- without memory --- */

Test(ready_rest, without_memory_many_cannot_be_polled)
{
	enum { MANY = 2000 };
	static struct pollfd p[MANY];
	int peer, fd = tcp(&peer), rc, err, state;
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct rlimit files, was, none;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_max < MANY)
		cr_skip("needs more files");
	files.rlim_cur = files.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	for (int i = 0; i < MANY; i++)
		p[i] = (struct pollfd){ i % 2 ? fd : -1, POLLIN, 0 };
	c->ready = POLLIN;
	cr_assert_eq(getrlimit(RLIMIT_AS, &was), 0);
	none = (struct rlimit){ 4096, was.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	rc = rr_wrap_poll(p, MANY, 0);
	err = errno;
	setrlimit(RLIMIT_AS, &was);
	cr_assert(rc == -1 && err == ENOMEM, "%d %d", rc, err);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	cr_assert_eq(state, PTHREAD_CANCEL_ENABLE);
	errno = EXDEV;
	cr_assert_eq(rr_wrap_poll(p, MANY, 0), MANY / 2);
	cr_assert_eq(errno, EXDEV);
	cr_assert_eq(rr_fdt_peek(fd)->refs, 1);
}
