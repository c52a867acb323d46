/* SPDX-License-Identifier: BSD-3-Clause */
/* The set of connections at rest: whose it is, who is in it, and when another one takes its place. */
#include "core/base/ownfd.h"

static int dup_played(int fd);

#define rr_ownfd_dup dup_played
#include "preload/restset.c"
#undef rr_ownfd_dup

#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

/* --- whose it is --- */

static void *take_there(void *arg)
{
	*(bool *)arg = rr_restset_take();
	return NULL;
}

static bool another_takes(void)
{
	pthread_t t;
	bool got = false;

	cr_assert_eq(pthread_create(&t, NULL, take_there, &got), 0);
	pthread_join(t, NULL);
	return got;
}

Test(ready_set, it_is_one_threads_until_that_has_not_used_it_for_a_second)
{
	now = START;
	cr_assert(rr_restset_take());
	cr_assert_not(rr_restset_take(), "a handler that interrupted it does without");
	now += 2 * RR_SEC;
	cr_assert_not(another_takes(), "it is in use");
	rr_restset_give();
	now = START + RR_SEC;
	cr_assert_not(another_takes());
	cr_assert(rr_restset_take());
	rr_restset_give();
	now += RR_SEC;
	cr_assert_not(another_takes());
	now++;
	cr_assert(another_takes());
	rr_restset_give();
	cr_assert_not(rr_restset_take(), "now it is the other's");
	now += RR_SEC + 1;
	cr_assert(rr_restset_take());
	cr_assert_eq(now, the_set.used);
}

static int created, create_says;

static int create_played(int flags)
{
	created++;
	cr_assert_eq(flags, EPOLL_CLOEXEC);
	errno = EMFILE;
	return create_says ? create_says : dup(0);
}

Test(ready_set, it_is_made_once_and_where_it_cannot_be_made_it_is_not_taken)
{
	now = START;
	rr_real.epoll_create1 = create_played;
	create_says = -1;
	errno = ENOKEY;
	for (int i = 1; i < 3; i++) {
		cr_assert_not(rr_restset_take());
		cr_assert_eq(errno, ENOKEY);
		cr_assert_eq(rr_restset_fd(), -1);
		cr_assert_eq(created, i);
		now += 2 * RR_SEC;
	}
	create_says = 0;
	for (int i = 0; i < 2; i++) {
		cr_assert(rr_restset_take());
		cr_assert_eq(errno, ENOKEY);
		cr_assert_eq(created, 3);
		cr_assert(rr_ownfd_is(rr_restset_fd()));
		rr_restset_give();
	}
	the_set.fd = 0;		/* the lowest number is one, too */
	cr_assert(rr_restset_take());
	cr_assert_eq(created, 3);
}

/* In the child any thread may have it at once, whoever held it at the fork. */
Test(ready_set, a_forked_child_begins_with_none)
{
	uint32_t id;
	int fd;

	now = START;
	cr_assert(rr_restset_take());
	fd = rr_restset_fd();
	id = rr_restset_life();
	rr_restset_fork_child();
	cr_assert_eq(rr_restset_fd(), -1);
	cr_assert_not(rr_ownfd_is(fd));
	cr_assert_eq(fcntl(fd, F_GETFD), -1, "and it is closed");
	cr_assert_eq(rr_restset_life(), id + 1);
	cr_assert(rr_restset_take());
	cr_assert(rr_ownfd_is(rr_restset_fd()));
	the_set.id = UINT32_MAX;	/* 0 says that a socket is in no set */
	rr_restset_fork_child();
	cr_assert_eq(rr_restset_life(), 1);
}

/* --- who is in it --- */

static struct rr_conn *c;
static struct rr_sock *so;
static int conn_fd;

/* What the kernel is told, and what it says. */
static struct { int ep, op, fd; struct epoll_event ev; } told[4];
static int ntold, says[4];

static int ctl_played(int ep, int op, int fd, struct epoll_event *ev)
{
	cr_assert_lt(ntold, 4);
	told[ntold].ep = ep;
	told[ntold].op = op;
	told[ntold].fd = fd;
	told[ntold].ev = ev ? *ev : (struct epoll_event){ 0 };
	errno = says[ntold];
	return says[ntold++] ? -1 : 0;
}

static void begin_set(void)
{
	int peer;

	conn_fd = tcp(&peer);
	c = conn_that_rests(conn_fd);
	so = rr_fdt_sock(conn_fd);
	rr_file_put(&so->f);
	cr_assert(rr_restset_take());
	rr_real.epoll_ctl = ctl_played;
}

TestSuite(ready_set_members, .init = begin_set);

static void expect_told(int at, int op, int fd, const struct rr_sock *of)
{
	cr_assert_eq(told[at].ep, rr_restset_fd());
	cr_assert_eq(told[at].op, op);
	cr_assert_eq(told[at].fd, fd);
	cr_assert(told[at].ev.data.ptr == of && told[at].ev.events == (of ? EPOLLIN : 0));
}

Test(ready_set_members, one_joins_by_its_wake_up_fd_and_is_in_by_that_alone)
{
	cr_assert_not(rr_restset_has(so, 77));
	cr_assert(rr_restset_join(so, 77));
	expect_told(0, EPOLL_CTL_ADD, 77, so);
	cr_assert(rr_restset_has(so, 77) && !rr_restset_has(so, 78) && so->set == rr_restset_life());
	cr_assert(rr_restset_join(so, 77));
	cr_assert_eq(ntold, 1);
	cr_assert(rr_restset_join(so, 78));
	cr_assert_eq(ntold, 2);
	expect_told(1, EPOLL_CTL_ADD, 78, so);
	cr_assert(rr_restset_has(so, 78) && !rr_restset_has(so, 77));
	rr_restset_reset();
	cr_assert_not(rr_restset_has(so, 78), "it was in another set");
}

Test(ready_set_members, one_that_the_kernel_has_already_is_told_of_as_this_one)
{
	says[0] = EEXIST;
	cr_assert(rr_restset_join(so, 77));
	cr_assert_eq(ntold, 2);
	expect_told(1, EPOLL_CTL_MOD, 77, so);
	cr_assert(rr_restset_has(so, 77));
}

Test(ready_set_members, one_that_the_kernel_refuses_is_not_in)
{
	says[0] = EEXIST;
	says[1] = ENOENT;
	cr_assert_not(rr_restset_join(so, 77));
	cr_assert_eq(ntold, 2);
	says[2] = ENOSPC;
	cr_assert_not(rr_restset_join(so, 77));
	cr_assert_eq(ntold, 3, "and is not changed");
	cr_assert_eq(so->set, 0);
}

/* Takes it out. Is the set the one that it was? */
static bool leaves_and_set_stays(bool out)
{
	uint32_t id = rr_restset_life(), refs = so->f.refs;
	int fd = rr_restset_fd();

	cr_assert_eq(rr_restset_leave(so), out);
	cr_assert_eq(so->f.refs, refs);
	cr_assert(rr_ownfd_is(rr_restset_fd()));
	if (rr_restset_life() == id)
		return rr_restset_fd() == fd;
	cr_assert_eq(rr_restset_life(), id + 1);
	return false;
}

Test(ready_set_members, one_that_leaves_is_taken_out_by_its_present_wake_up_fd)
{
	int wake = c->wake;

	so->set = rr_restset_life();
	cr_assert(leaves_and_set_stays(true));
	expect_told(0, EPOLL_CTL_DEL, wake, NULL);
	cr_assert_eq(so->set, 0);
	c->wake = 0;
	cr_assert(leaves_and_set_stays(true));
	expect_told(1, EPOLL_CTL_DEL, 0, NULL);
	c->wake = wake;
	so->set = rr_restset_life();
	says[2] = ENOENT;
	cr_assert_not(leaves_and_set_stays(false), "the kernel has another file there");
	cr_assert_eq(so->set, 0);
	cr_assert_eq(ntold, 3);
}

/* Nobody knows its number in the set: only another set is without it. */
Test(ready_set_members, of_one_without_a_wake_up_fd_only_another_set_is_free)
{
	c->face.state = RR_FAKE_WAITING;
	cr_assert_not(leaves_and_set_stays(false));
	c->face.state = RR_FAKE_TCP;
	cr_assert_not(leaves_and_set_stays(false));
	c->face.state = RR_FAKE_CARRIED;
	so->set = 7;
	cr_assert_eq(rr_wrap_close(conn_fd), 0);
	cr_assert_eq(so->f.refs, 0);
	cr_assert_not(leaves_and_set_stays(false));
	cr_assert_eq(so->set, 7, "the memory is another's");
	cr_assert_eq(ntold, 0);
}

/* --- who has rung --- */

static int wait_fd, wait_max, wait_says;
static struct rr_sock *rang[3] = { (void *)8, (void *)16, (void *)24 };

static int wait_played(int ep, struct epoll_event *evs, int max, int ms)
{
	wait_fd = ep;
	wait_max = max;
	cr_assert_eq(ms, 0);
	for (int i = 0; i < wait_says; i++)
		evs[i].data.ptr = rang[i];
	errno = -wait_says;
	return wait_says < 0 ? -1 : wait_says;
}

Test(ready_set_members, who_has_rung_is_told_in_the_kernels_order)
{
	struct rr_sock *who[100] = { 0 };

	rr_real.epoll_wait = wait_played;
	cr_assert_eq(rr_restset_rang(who, 5), 0);
	cr_assert(wait_fd == rr_restset_fd() && wait_max == 5 && !who[0]);
	wait_says = 3;
	cr_assert_eq(rr_restset_rang(who, 100), 3);
	cr_assert_eq(wait_max, BATCH);
	cr_assert(who[0] == rang[0] && who[1] == rang[1] && who[2] == rang[2] && !who[3]);
}

Test(ready_set_members, a_set_that_was_lost_is_followed_by_another)
{
	uint32_t id = rr_restset_life();
	struct rr_sock *who[2];
	int fd = rr_restset_fd();

	rr_real.epoll_wait = wait_played;
	wait_says = -EINTR;
	cr_assert_eq(rr_restset_rang(who, 2), -1);
	cr_assert(rr_restset_fd() == fd && rr_restset_life() == id, "nothing is lost");
	errno = EBADF;
	wait_says = 0;
	cr_assert_eq(rr_restset_rang(who, 2), 0);
	cr_assert(rr_restset_fd() == fd && rr_restset_life() == id);
	wait_says = -EBADF;
	cr_assert_eq(rr_restset_rang(who, 2), -1);
	cr_assert(rr_restset_fd() != fd && rr_ownfd_is(rr_restset_fd()) && rr_restset_life() == id + 1);
	cr_assert_not(rr_ownfd_is(fd));
	cr_assert_neq(fcntl(fd, F_GETFD), -1, "the number is another's, who closes it");
	cr_assert(fcntl(0, F_GETFD) != -1 && fcntl(1, F_GETFD) != -1);
}

Test(ready_set_members, another_set_has_a_number_that_none_had)
{
	int other = dup(0);

	rr_restset_reset();
	cr_assert(rr_ownfd_is(rr_restset_fd()));
	rr_ownfd_close(rr_restset_fd());
	the_set.fd = other;
	rr_ownfd_set(other, true);
	the_set.id = UINT32_MAX - 1;
	rr_restset_reset();
	cr_assert_eq(rr_restset_life(), UINT32_MAX);
	cr_assert(!rr_ownfd_is(other) && fcntl(other, F_GETFD) == -1, "the one before is closed");
	rr_restset_reset();
	cr_assert_eq(rr_restset_life(), 1, "0 says that a socket is in no set");
}

/* --- the app wants its number --- */

static int dup_says;
static bool lost_meanwhile;

static int dup_played(int fd)
{
	int to = dup_says < 0 ? dup_says : (rr_ownfd_dup)(fd);

	if (lost_meanwhile)
		the_set.fd = (rr_ownfd_dup)(0);
	return to;
}

Test(ready_set_members, it_moves_away_from_the_number_that_the_app_wants)
{
	int fd = rr_restset_fd(), other = (rr_ownfd_dup)(0);

	cr_assert_not(rr_restset_move(other));
	cr_assert(rr_restset_fd() == fd && rr_ownfd_is(other), "it is not the set's");
	dup_says = -1;
	cr_assert_not(rr_restset_move(fd));
	cr_assert(rr_restset_fd() == fd && rr_ownfd_is(fd));
	dup_says = 0;
	cr_assert(rr_restset_move(fd));
	cr_assert(rr_restset_fd() != fd && rr_ownfd_is(rr_restset_fd()) && !rr_ownfd_is(fd));
	cr_assert_neq(fcntl(fd, F_GETFD), -1, "who wants it closes it");
}

/* How many descriptors are ours. */
static int owned_fds(void)
{
	return rr_ownfd_above(-1);
}

Test(ready_set_members, one_that_another_set_has_replaced_meanwhile_is_not_kept)
{
	int fd = rr_restset_fd(), before = owned_fds();

	lost_meanwhile = true;
	cr_assert(rr_restset_move(fd));
	cr_assert(rr_restset_fd() != fd && rr_ownfd_is(rr_restset_fd()) && !rr_ownfd_is(fd));
	cr_assert_eq(owned_fds(), before);
}
