/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets and descriptors: dup and close of what is in a set and of the set, sets in sets, in poll
 * and in select, fork. */

#include "tests/preload/ep.h"

static void a_dup_is_a_registration_of_its_own(void)
{
	struct epoll_event ev[4];
	int s[2], ep, d;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	d = dup(s[1]);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, d, EPOLLIN), 0);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(epoll_wait(ep, ev, 4, -1), 2);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_DEL, s[1], NULL), 0);
	CHECK_EQ(event(ep, d, -1), EPOLLIN);
}

/* epoll(7), question 6: the registration lives as long as the open file. */
static void a_closed_number_is_told_while_a_dup_lives(void)
{
	int s[2], ep, d;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	d = dup(s[1]);
	CHECK_EQ(close(s[1]), 0);
	put(s[0]);
	CHECK(p_readable(d, SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	get(d);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	CHECK_EQ(close(d), 0);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	CHECK_ERR(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN), EBADF);
}

/* Of a connection whose upgrade comes to nothing, too. */
static void so_is_one_that_stays_on_tcp(void)
{
	int s[2], ep, d;

	rpc_new_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLOUT | EPOLLWRNORM);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLOUT | EPOLLWRNORM);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN | EPOLLOUT | EPOLLWRNORM);
	d = dup(s[1]);
	CHECK_EQ(close(s[1]), 0);
	/* All numbers that are free for the app, and so those of an upgrade under way, which ends. */
	for (int n = 3; n < 1200; n++)
		if (n != s[0] && n != d && n != ep && dup2(d, n) == n)
			close(n);
	get(d);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLOUT | EPOLLWRNORM);
	put(s[0]);
	CHECK(p_readable(d, SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN | EPOLLOUT | EPOLLWRNORM);
	get(d);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLOUT | EPOLLWRNORM);
}

static void a_closed_number_can_be_added_again(void)
{
	int s[2], t[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_EQ(close(s[1]), 0);
	CHECK_EQ(close(s[0]), 0);
	rpc_pair(t);
	CHECK_EQ(event(ep, t[1], 0), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, t[1], EPOLLIN), 0);
	put(t[0]);
	CHECK_EQ(event(ep, t[1], SOON), EPOLLIN);
	CHECK_EQ(dup2(t[0], 100), 100);
	CHECK_EQ(dup2(ep, 101), 101);
	CHECK_EQ(event(101, t[1], SOON), EPOLLIN);
	CHECK_EQ(close(ep), 0);
	CHECK_EQ(event(101, t[1], SOON), EPOLLIN);
}

static void closing_the_set_leaves_the_connection(void)
{
	int s[2], ep, fds;

	rpc_pair(s);
	close(new_set(s[1], EPOLLIN));
	fds = p_open_fds();
	for (int i = 0; i < 5; i++) {
		ep = new_set(s[1], EPOLLIN);
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		CHECK_EQ(close(ep), 0);
		get(s[1]);
	}
	CHECK_EQ(p_open_fds(), fds);
}

/* A number of ours that the app wants is given another one: the set must not keep the old one, which nothing could take
 * out again. */
static void a_set_that_is_empty_again_has_nothing(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	for (int n = 3; n < 1200; n++)
		if (n != s[0] && n != s[1] && n != ep && dup2(s[0], n) == n)
			close(n);
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	CHECK_EQ(ctl(ep, EPOLL_CTL_DEL, s[1], 0), 0);
	CHECK(!p_readable(ep, 0));
}

/* Of a set in another one only the kernel is asked. */
static void a_set_in_a_set_has_nothing_until_something_comes(void)
{
	int s[2], ep, outer, empty;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	empty = new_set(s[0], EPOLLIN);
	CHECK_EQ(ctl(empty, EPOLL_CTL_DEL, s[0], 0), 0);
	outer = new_set(ep, EPOLLIN);
	CHECK_EQ(ctl(outer, EPOLL_CTL_ADD, empty, EPOLLIN), 0);
	CHECK_EQ(event(outer, ep, NOT), 0);
	CHECK(!p_readable(outer, 0));
	put(s[0]);
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
	get(s[1]);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	CHECK_EQ(event(outer, ep, NOT), 0);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(close(outer), 0);
	outer = new_set(ep, EPOLLIN);	/* in which it is put when something is there */
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLPRI), 0);
	CHECK_EQ(event(outer, ep, NOT), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLONESHOT), 0);
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
	CHECK(p_readable(outer, 0));
	get(s[1]);	/* of which the set is not asked */
	CHECK(!p_readable(outer, 0));
	CHECK_EQ(event(outer, ep, NOT), 0);
	put(s[0]);
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
}

/* The peer has gone, of which a registration without bits does not tell. The connection has to be looked at again
 * and again, but the set has nothing to report meanwhile. */
static void a_set_in_a_set_has_nothing_while_only_time_may_tell(void)
{
	int s[2], ep, outer;

	rpc_pair(s);
	put(s[0]);
	get(s[1]);
	ep = new_set(s[1], 0);
	outer = new_set(ep, EPOLLIN);
	CHECK_EQ(close(s[0]), 0);
	CHECK(p_readable(s[1], SOON));
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(event(outer, ep, 0), 0);
		CHECK_EQ(event(outer, ep, 100), 0);
		CHECK(!p_readable(outer, 100));
	}
	CHECK_EQ(shutdown(s[1], SHUT_WR), 0);	/* both directions have ended */
	CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
	CHECK(p_readable(outer, SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLHUP);
}

static void a_set_can_be_polled(void)
{
	int s[2], ep, outer;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	outer = new_set(ep, EPOLLIN);
	for (int i = 0; i < 3; i++) {
		CHECK(!p_readable(ep, NOT));
		CHECK_EQ(event(outer, ep, NOT), 0);
		put(s[0]);
		CHECK(p_readable(ep, SOON));
		CHECK_EQ(v_select(ep, POLLIN, SOON), 1);
		CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
		CHECK_EQ(event(ep, s[1], 0), EPOLLIN);
		get(s[1]);
	}
	CHECK(!p_readable(ep, NOT));
	CHECK_EQ(event(outer, ep, NOT), 0);
}

static void *late_put(void *arg)
{
	usleep(30000);
	put(*(int *)arg);
	return NULL;
}

static void who_sleeps_for_a_set_wakes(void)
{
	int s[2], ep, outer;
	pthread_t t;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	outer = new_set(ep, EPOLLIN);
	for (int i = 0; i < 3; i++) {
		pthread_create(&t, NULL, late_put, &s[0]);
		if (i == 0)
			CHECK_EQ(event(outer, ep, SOON), EPOLLIN);
		else
			CHECK_EQ(i == 1 ? v_poll(ep, POLLIN, SOON) : v_select(ep, POLLIN, SOON), 1);
		pthread_join(t, NULL);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		get(s[1]);
	}
}

static void a_forked_child_takes_its_set_over(void)
{
	int s[2], ep, status;
	pid_t pid;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_EQ(event(ep, s[1], 0), 0);
	pid = fork();
	if (!pid) {	/* as after daemon(): the parent only waits */
		CHECK_EQ(event(ep, s[1], NOT), 0);
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		get(s[1]);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static const struct p_case cases[] = {
	{ "a_dup_is_a_registration_of_its_own", a_dup_is_a_registration_of_its_own },
	{ "a_closed_number_is_told_while_a_dup_lives",
	  a_closed_number_is_told_while_a_dup_lives },
	{ "so_is_one_that_stays_on_tcp", so_is_one_that_stays_on_tcp },
	{ "a_set_that_is_empty_again_has_nothing", a_set_that_is_empty_again_has_nothing },
	{ "a_set_in_a_set_has_nothing_while_only_time_may_tell",
	  a_set_in_a_set_has_nothing_while_only_time_may_tell },
	{ "a_set_in_a_set_has_nothing_until_something_comes",
	  a_set_in_a_set_has_nothing_until_something_comes },
	{ "a_closed_number_can_be_added_again", a_closed_number_can_be_added_again },
	{ "closing_the_set_leaves_the_connection", closing_the_set_leaves_the_connection },
	{ "a_set_can_be_polled", a_set_can_be_polled },
	{ "who_sleeps_for_a_set_wakes", who_sleeps_for_a_set_wakes },
	{ "a_forked_child_takes_its_set_over", a_forked_child_takes_its_set_over },
};

P_MAIN(cases)
