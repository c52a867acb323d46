/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets: errors, triggers, ONESHOT, EXCLUSIVE, MOD. */

#include <sys/resource.h>

#include "tests/preload/ep.h"

static void errors_are_the_kernels(void)
{
	volatile int below = -1;	/* not a constant: the compiler would know better */
	struct epoll_event ev[2];
	int s[2], ep, other;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_ERR(ctl(ep, EPOLL_CTL_ADD, s[1], EPOLLIN), EEXIST);
	CHECK_ERR(ctl(ep, EPOLL_CTL_MOD, s[0], EPOLLIN), ENOENT);
	CHECK_ERR(ctl(ep, EPOLL_CTL_DEL, s[0], EPOLLIN), ENOENT);
	CHECK_ERR(ctl(ep, EPOLL_CTL_ADD, 900, EPOLLIN), EBADF);
	CHECK_ERR(ctl(900, EPOLL_CTL_ADD, s[1], EPOLLIN), EBADF);
	CHECK_ERR(ctl(s[0], EPOLL_CTL_ADD, s[1], EPOLLIN), EINVAL);
	CHECK_ERR(ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN), EINVAL);
	CHECK_ERR(ctl(ep, 77, s[1], EPOLLIN), EINVAL);
	CHECK_ERR(epoll_ctl(ep, EPOLL_CTL_MOD, s[1], NULL), EFAULT);
	CHECK_ERR(epoll_wait(ep, ev, 0, 0), EINVAL);
	CHECK_ERR(epoll_wait(ep, ev, below, 0), EINVAL);
	CHECK_ERR(epoll_wait(s[0], ev, 2, 0), EINVAL);
	CHECK_ERR(epoll_wait(900, ev, 2, 0), EBADF);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_DEL, s[1], NULL), 0);
	CHECK_ERR(epoll_ctl(ep, EPOLL_CTL_DEL, s[1], NULL), ENOENT);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, s[1], EPOLLIN), 0);
	CHECK_ERR(epoll_create(0), EINVAL);
	other = epoll_create(1);
	CHECK(other >= 0 && fcntl(other, F_GETFD) == 0);
	CHECK_EQ(fcntl(epoll_create1(EPOLL_CLOEXEC), F_GETFD), FD_CLOEXEC);
	CHECK_ERR(epoll_create1(0x777), EINVAL);
	CHECK_ERR(epoll_pwait2(ep, ev, 2, &(struct timespec){ 0, -1 }, NULL), EINVAL);
}

static void level_triggered_as_long_as_it_holds(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	CHECK_EQ(event(ep, s[1], 0), 0);
	put(s[0]);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	CHECK_EQ(event(ep, s[1], 0), EPOLLIN);
	p_read_all(s[1], rec, 10);
	CHECK_EQ(event(ep, s[1], -1), EPOLLIN);
	p_read_all(s[1], rec, SIZE - 10);
	CHECK_EQ(event(ep, s[1], 0), 0);
	CHECK_EQ(event(ep, s[1], NOT), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLOUT | EPOLLRDHUP), 0);
	CHECK_EQ(event(ep, s[1], -1), EPOLLOUT);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(event(ep, s[1], -1), EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

static void edge_triggered_when_it_comes(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLET);
	for (int i = 0; i < 3; i++) {
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		/* not twice, though nothing was read; but where the carrier changes meanwhile */
		CHECK(!event(ep, s[1], NOT) || p_leg("crossing"));
		get(s[1]);
		CHECK_EQ(event(ep, s[1], NOT), 0);
	}
	put(s[0]);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	put(s[0]);	/* more has come: an edge */
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLET), 0);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);	/* MOD looks anew */
	get(s[1]);
	get(s[1]);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
}

static void *late_sender(void *fd)
{
	usleep(20000);
	put(*(int *)fd);
	return NULL;
}

/* What woke the thread is no second edge, if the set asks for edges only later. */
static void edges_are_those_after_the_sleep(void)
{
	pthread_t t;
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN), 0);
		CHECK_EQ(event(ep, s[1], NOT), 0);
		pthread_create(&t, NULL, late_sender, &s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		pthread_join(t, NULL);
		CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLET), 0);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		CHECK(!event(ep, s[1], NOT) || p_leg("crossing"));
		get(s[1]);
	}
}

/* What was told has been read, as many bytes as there were: what comes then is an edge, though it is the
 * same bit again, and the end as well. */
static void an_edge_after_all_was_read(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLET);
	for (int i = 0; i < 5; i++) {
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		get(s[1]);
	}
	for (int i = 0; i < 5; i++) {
		put(s[0]);
		put(s[0]);
		CHECK(p_readable(s[1], SOON));
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		get(s[1]);
		get(s[1]);
	}
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
}

/* The way of every edge-triggered server: read until EAGAIN, wait. */
static void *sender(void *arg)
{
	for (int i = 0; i < 500; i++) {
		unsigned char mine[SIZE];

		p_write_all(*(int *)arg, mine, rpc_call(mine, 5, SIZE - RPC_CALL_HEAD));
		if (i % 50 == 0)
			usleep(1000);
	}
	return NULL;
}

static void no_edge_is_lost(void)
{
	size_t got = 0;
	pthread_t t;
	int s[2], ep;
	ssize_t r;

	rpc_pair(s);
	p_nonblock(s[1], true);
	ep = new_set(s[1], EPOLLIN | EPOLLOUT | EPOLLET);
	pthread_create(&t, NULL, sender, &s[0]);
	while (got < 500 * SIZE) {
		CHECK(event(ep, s[1], SOON) & (EPOLLIN | EPOLLOUT));
		while ((r = read(s[1], rec, 777)) > 0)
			got += (size_t)r;
		CHECK_EQ(errno, EAGAIN);
	}
	pthread_join(t, NULL);
	CHECK_EQ(got, 500 * SIZE);
}

static void edge_of_room_after_eagain(void)
{
	static unsigned char big[30000];
	size_t n = rpc_call(big, 9, sizeof(big) - RPC_CALL_HEAD), at = 0;
	int s[2], ep, vain = 0;
	ssize_t r;

	rpc_pair(s);
	p_nonblock(s[0], true);
	p_nonblock(s[1], true);
	ep = new_set(s[0], EPOLLOUT | EPOLLET);
	CHECK_EQ(event(ep, s[0], SOON), EPOLLOUT);
	CHECK_EQ(event(ep, s[0], NOT), 0);
	while (vain < 2) {	/* an acknowledgement may be late */
		r = write(s[0], big + at % n, n - at % n);
		at += r > 0 ? (size_t)r : 0;
		vain = r > 0 ? 0 : vain + 1;
		if (r < 0)
			rpc_tcp_settles(s[0]);
	}
	while (read(s[1], big, sizeof(big)) > 0 || p_readable(s[1], 50))
		;
	CHECK_EQ(event(ep, s[0], SOON), EPOLLOUT);
}

static void oneshot_fires_once(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLONESHOT);
	for (int i = 0; i < 3; i++) {
		put(s[0]);
		CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
		put(s[0]);
		CHECK_EQ(event(ep, s[1], NOT), 0);
		CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLONESHOT), 0);
		CHECK_EQ(event(ep, s[1], -1), EPOLLIN);
		get(s[1]);
		get(s[1]);
		CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLONESHOT), 0);
		CHECK_EQ(event(ep, s[1], NOT), 0);
	}
	CHECK_ERR(ctl(ep, EPOLL_CTL_ADD, s[1], EPOLLIN), EEXIST);
	CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, s[1], EPOLLOUT | EPOLLONESHOT | EPOLLET), 0);
	CHECK_EQ(event(ep, s[1], -1), EPOLLOUT);
	CHECK_EQ(event(ep, s[1], NOT), 0);
}

/* Others that wait for the connection, and swallow its doorbells, change nothing. */
static void a_fired_oneshot_stays_quiet(void)
{
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], EPOLLIN | EPOLLONESHOT);
	put(s[0]);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLIN);
	get(s[1]);
	for (int i = 0; i < 3; i++) {
		CHECK(!p_readable(s[1], NOT));
		put(s[0]);
		CHECK(p_readable(s[1], SOON));
		CHECK_EQ(event(ep, s[1], NOT), 0);
		get(s[1]);
	}
}

static void a_reset_and_the_end_are_told_unasked(void)
{
	struct linger l = { 1, 0 };
	int s[2], ep;

	rpc_pair(s);
	ep = new_set(s[1], 0);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLERR | EPOLLHUP);
	CHECK_ERR(read(s[1], rec, 1), ECONNRESET);
	CHECK_EQ(event(ep, s[1], SOON), EPOLLHUP);
}

static void exclusive_sets_hear_all_the_same(void)
{
	int s[2], a, b;

	rpc_pair(s);
	a = new_set(s[1], EPOLLIN | EPOLLEXCLUSIVE);
	b = new_set(s[1], EPOLLIN | EPOLLEXCLUSIVE);
	CHECK_ERR(ctl(a, EPOLL_CTL_MOD, s[1], EPOLLIN), EINVAL);
	CHECK_ERR(ctl(a, EPOLL_CTL_MOD, s[1], EPOLLIN | EPOLLEXCLUSIVE), EINVAL);
	put(s[0]);
	while (!(event(a, s[1], NOT) | event(b, s[1], NOT)))
		;
	get(s[1]);
	CHECK_EQ(event(a, s[1], NOT) | event(b, s[1], NOT), 0);
	close(a);
	put(s[0]);
	CHECK_EQ(event(b, s[1], SOON), EPOLLIN);
}

static void adding_one_that_is_ready(void)
{
	struct epoll_event ev;
	int s[2], ep = epoll_create1(0);

	rpc_pair(s);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(epoll_wait(ep, &ev, 1, 0), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, s[0], EPOLLIN), 0);
	CHECK_EQ(event(ep, s[0], NOT), 0);
	CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, s[1], EPOLLIN), 0);
	CHECK_EQ(event(ep, s[1], -1), EPOLLIN);
}

/* Later the kernel would wake it by EPOLLIN alone. */
static void a_set_that_is_ready_when_it_is_put_into_another_one(void)
{
	struct epoll_event ev;
	int s[2], inner, outer = epoll_create1(0);

	rpc_pair(s);
	inner = new_set(s[1], EPOLLOUT);
	CHECK_EQ(ctl(outer, EPOLL_CTL_ADD, inner, EPOLLRDNORM), 0);
	CHECK_EQ(event(outer, inner, 0), EPOLLRDNORM);
	CHECK_EQ(ctl(inner, EPOLL_CTL_MOD, s[1], EPOLLIN), 0);
	CHECK_EQ(epoll_wait(outer, &ev, 1, 0), 0);
	put(s[0]);
	CHECK(p_readable(s[1], SOON));
	CHECK_EQ(ctl(outer, EPOLL_CTL_MOD, inner, EPOLLRDNORM), 0);
	CHECK_EQ(event(outer, inner, 0), EPOLLRDNORM);
}

/* How often this thread has gone to sleep. */
static long naps(void)
{
	struct rusage u;

	CHECK_EQ(getrusage(RUSAGE_THREAD, &u), 0);
	return u.ru_nvcsw;
}

/* The app wants to hear of a reset only: a record, the peer's end and its own make nothing readable, and wake nobody. */
static void what_is_not_wanted_is_not_told(void)
{
	enum { RECORD, END, OWN_END, WAYS };

	for (int way = RECORD; way < WAYS; way++)
		for (int first = 0; first < 2; first++) {
			int s[2], ep;
			long before;

			rpc_pair(s);
			ep = new_set(s[1], 0);
			if (first)
				CHECK_EQ(event(ep, s[1], 10), 0);
			if (way == RECORD)
				put(s[0]);
			else
				CHECK_EQ(shutdown(s[way == OWN_END], way == OWN_END ? SHUT_RD : SHUT_WR), 0);
			usleep(20000);
			CHECK(!p_readable(ep, 0));
			before = naps();
			CHECK_EQ(event(ep, s[1], NOT), 0);
			CHECK(naps() - before < 30);
			CHECK(!p_readable(ep, 0));
			close(ep);
			close(s[0]);
			close(s[1]);
		}
}

static const struct p_case cases[] = {
	{ "errors_are_the_kernels", errors_are_the_kernels },
	{ "level_triggered_as_long_as_it_holds", level_triggered_as_long_as_it_holds },
	{ "edge_triggered_when_it_comes", edge_triggered_when_it_comes },
	{ "edges_are_those_after_the_sleep", edges_are_those_after_the_sleep },
	{ "an_edge_after_all_was_read", an_edge_after_all_was_read },
	{ "no_edge_is_lost", no_edge_is_lost },
	{ "edge_of_room_after_eagain", edge_of_room_after_eagain },
	{ "oneshot_fires_once", oneshot_fires_once },
	{ "a_fired_oneshot_stays_quiet", a_fired_oneshot_stays_quiet },
	{ "a_reset_and_the_end_are_told_unasked", a_reset_and_the_end_are_told_unasked },
	{ "exclusive_sets_hear_all_the_same", exclusive_sets_hear_all_the_same },
	{ "adding_one_that_is_ready", adding_one_that_is_ready },
	{ "a_set_that_is_ready_when_it_is_put_into_another_one", a_set_that_is_ready_when_it_is_put_into_another_one },
	{ "what_is_not_wanted_is_not_told", what_is_not_wanted_is_not_told },
};

P_MAIN(cases)
