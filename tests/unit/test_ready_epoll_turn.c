/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets whose connections become carried, or TCP. */
#include "tests/unit/ready_epoll.h"

Test(ready_epoll_turn, a_new_connection_behaves_as_in_the_kernel)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN | EPOLLET);

	cr_assert_eq(look(&o, 0), 0);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 10), 0);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLONESHOT);
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 10), 0);
}

Test(ready_epoll_turn, an_offer_is_taken_in_and_the_oneshot_stays_armed)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN | EPOLLONESHOT);
	struct later l = { .fd = o.peer, .what = write_pipe };

	o.c->offer = true;
	start(&l);
	cr_assert_eq(look(&o, 60), 0);
	finish(&l);
	if (!o.c->swallowed)	/* a busy machine: it came after the time-out */
		cr_assert_eq(look(&o, 60), 0);
	cr_assert_eq(o.c->swallowed, 1);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	expect(&o, EPOLLIN);
}

static struct one *turning;

/* Its sleeper goes back to sleep. */
static void turn(struct later *l, enum rr_fake_state state)
{
	rr_fake_become(turning->c, turning->fd, state);
	await_asleep(l->waiter);
}

static void become_carried(struct later *l)
{
	turn(l, RR_FAKE_CARRIED);
	rr_fake_ready(turning->c, POLLIN, 0);
}

static void become_tcp(struct later *l)
{
	turn(l, RR_FAKE_TCP);
	cr_assert_eq(write(turning->peer, "x", 1), 1);
}

Test(ready_epoll_turn, a_connection_becomes_carried_while_a_thread_sleeps_in_its_set)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN);
	struct later l = { .what = become_carried };

	turning = &o;
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
}

Test(ready_epoll_turn, a_connection_goes_back_to_tcp_while_a_thread_sleeps_in_its_set)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .what = become_tcp };

	turning = &o;
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
	/* The kernel has the app's own data again. */
	cr_assert_eq(epoll_wait(o.ep, o.ev, 8, 0), 1);
	cr_assert_eq(o.ev[0].data.u64, (uint64_t)o.fd << 32 | 7);
}

Test(ready_epoll_turn, a_fired_oneshot_stays_quiet_when_its_connection_becomes_tcp)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN | EPOLLONESHOT);

	o.c->ready = POLLIN;
	expect(&o, EPOLLIN);
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(look(&o, 20), 0);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLONESHOT);
	expect(&o, EPOLLIN);
	cr_assert_eq(look(&o, 0), 0);
}

Test(ready_epoll_turn, watches_that_leave_when_another_is_asked_are_not_waited_for)
{
	struct one o = begin(RR_FAKE_WAITING, EPOLLIN);
	int peer, other = tcp(&peer), same;

	o.c->until = rr_now() + 5 * RR_MSEC;
	rr_fake_conn(other, RR_FAKE_WAITING)->until = rr_now() + 60 * RR_SEC;
	ctl(o.ep, EPOLL_CTL_ADD, other, EPOLLIN);
	same = rr_wrap_dup(o.fd);
	ctl(o.ep, EPOLL_CTL_ADD, same, EPOLLIN);
	usleep(10000);
	cr_assert_eq(look(&o, 0), 0);	/* asks o.fd, which is TCP now; so is the last, same */
	cr_assert_eq(write(o.peer, "x", 1), 1);
	cr_assert_eq(look(&o, -1), 2);
}
