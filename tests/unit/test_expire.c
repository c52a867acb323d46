/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that nobody takes up in time: which are withdrawn, when, and what becomes of their connections. */
#include "tests/unit/late_played.h"

static struct rr_conn others[100];

TestSuite(expire, .init = begin, .timeout = 60);

static int turns, turned_fd;

static void turned(struct rr_conn *it, int fd)
{
	turns++;
	turned_fd = fd;
	cr_assert(it->share == &sh && !it->lock.word && k.releases == 0, "it may still be slept on");
}

static int fd_of(const struct rr_conn *it)
{
	(void)it;
	return FD + 7;
}

static void waits_in(enum rr_conn_st st)
{
	afresh();
	rr_conn_turn(&c, st);
	c.share = &sh;
	k.half[0] = &c;
	k.halves = 1;
	k.due = START;
	turns = 0;
}

static void is_turned_over(int fd)
{
	cr_assert(rr_conn_st(&c) == RR_S_TCP && k.why == RR_R_ABANDONED && !c.share && !c.lock.word);
	cr_assert(k.withdraws == 1 && k.releases == 1 && k.frees == 1 && c.refs == 1 && c.fd == fd && c.half == 0);
}

Test(expire, an_answer_that_is_due_is_withdrawn)
{
	static const enum rr_conn_st some[] = { RR_S_ANSWERED, RR_S_HEARD, RR_S_SAID };

	rr_test_params.turned = turned;
	for (size_t i = 0; i < rr_array_size(some); i++) {
		waits_in(some[i]);
		cr_assert_eq(rr_half_expire(START), RR_TIME_NEVER);
		is_turned_over(FD);
		cr_assert(turns == 1 && turned_fd == FD && k.until == START && k.now_given == START);
	}
	rr_test_params.fd_of = fd_of;
	waits_in(RR_S_ANSWERED);
	rr_half_expire(START);
	is_turned_over(FD + 7);
	cr_assert_eq(turned_fd, FD + 7);
	rr_test_params.turned = NULL;
	waits_in(RR_S_ANSWERED);
	rr_half_expire(START);
	is_turned_over(FD + 7);
}

static void takes_lock(struct rr_conn *it, int fd)
{
	(void)fd;
	cr_assert_eq(rr_lock_take(&it->lock), 0);
}

/* As where a handler interrupts who has the connection. */
Test(expire, what_this_thread_has_is_freed_with_the_connection)
{
	rr_test_params.turned = takes_lock;
	waits_in(RR_S_ANSWERED);
	rr_half_expire(START);
	cr_assert(rr_conn_st(&c) == RR_S_TCP && c.share == &sh && k.releases == 0 && c.lock.word && k.frees == 1);
}

Test(expire, before_it_is_due_nothing_happens)
{
	waits_in(RR_S_ANSWERED);
	k.due = START + 1;
	cr_assert_eq(rr_half_expire(START), START + 1);
	cr_assert_eq(k.picked, 0);
	k.due = 0;
	cr_assert_eq(rr_half_expire(START), RR_TIME_NEVER);
	cr_assert_eq(k.picked, 0);
	k.due = START;
	k.due_then = START + 55;
	cr_assert_eq(rr_half_expire(START), START + 55);
	cr_assert_eq(k.picked, 1);
}

static void is_left_alone(void)
{
	cr_assert(k.becomes == 0 && c.share == &sh && k.releases == 0 && turns == 0 && c.refs == 1 && !c.lock.word);
}

Test(expire, what_has_been_taken_up_or_is_something_else_is_left_alone)
{
	rr_test_params.turned = turned;
	waits_in(RR_S_ANSWERED);
	k.not_withdrawn = true;
	rr_half_expire(START);
	is_left_alone();
	cr_assert(k.withdraws == 1 && k.frees == 1);
	for (int st = 0; st < RR_S_COUNT; st++) {
		if (st == RR_S_ANSWERED || st == RR_S_HEARD || st == RR_S_SAID)
			continue;
		waits_in((enum rr_conn_st)st);
		rr_half_expire(START);
		is_left_alone();
		cr_assert(k.withdraws == 0 && k.frees == 1);
	}
}

Test(expire, one_that_is_ending_is_passed_over)
{
	waits_in(RR_S_ANSWERED);
	c.refs = 0;
	rr_half_expire(START);
	cr_assert(c.refs == 0 && k.frees == 0 && k.becomes == 0 && !c.lock.word);
}

/* The reference that was taken for a look at it is given back. */
Test(expire, one_that_another_thread_has_is_let_go)
{
	waits_in(RR_S_ANSWERED);
	c.lock.word = 12345u << 10;
	k.due_then = START + 5;
	cr_assert_eq(rr_half_expire(START), START + 5);
	c.lock.word = 0;
	is_left_alone();
	cr_assert(k.frees == 1 && k.withdraws == 0);
	waits_in(RR_S_ANSWERED);
	k.pick_rc = -EAGAIN;
	rr_half_expire(START);
	is_left_alone();
	cr_assert_eq(k.frees, 0);
}

static void many(void)
{
	afresh();
	memset(others, 0, sizeof(others));
	for (int i = 0; i < 100; i++) {
		others[i].refs = 1;
		rr_conn_turn(&others[i], RR_S_ANSWERED);
		k.half[i] = &others[i];
	}
	k.halves = 100;
	k.due = k.due_then = START;
}

Test(expire, no_more_than_64_in_one_look)
{
	many();
	rr_half_expire(START);
	cr_assert(k.becomes == 64 && k.frees == 64);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(rr_conn_st(&others[i]), i < 64 ? RR_S_TCP : RR_S_ANSWERED);
}

Test(expire, one_that_has_been_taken_up_is_none_of_those_that_were_had)
{
	many();
	k.taken_up = 5;
	k.halves = 5;
	cr_assert(rr_conn_scarce());
	cr_assert(k.becomes == 4 && k.frees == 5);
}

Test(expire, an_app_that_is_short_of_descriptors_gets_them_all)
{
	waits_in(RR_S_ANSWERED);
	errno = 77;
	k.spare_errno = 3;
	cr_assert(rr_conn_scarce());
	cr_assert(k.until == RR_TIME_NEVER - 1 && k.now_given == START && k.spared == 1 && errno == 77);
	is_turned_over(FD);
	cr_assert_not(rr_conn_scarce());
	k.spares = true;
	cr_assert(rr_conn_scarce());
	waits_in(RR_S_ANSWERED);
	k.not_withdrawn = true;
	cr_assert_not(rr_conn_scarce());
}

Test(expire, who_sleeps_wakes_for_the_first_of_both)
{
	k.idle = START + 7;
	k.due = START + 9;
	cr_assert_eq(rr_conn_idle(START), START + 7);
	k.idle = START + 11;
	cr_assert_eq(rr_conn_idle(START), START + 9);
	k.due = 0;
	cr_assert_eq(rr_conn_idle(START), START + 11);
}
