/* SPDX-License-Identifier: BSD-3-Clause */
/* The queues of answers that nobody has taken up yet, against lists that are searched from end to end. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/conn/conn.h"
#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"

#define MANY	12

static struct rr_conn c[MANY];
static int queue[MANY];		/* 0: in none; else 1 + whether it is patient */
static uint32_t entered[MANY], n_entered;

static void add(int i, rr_time deadline, bool patient)
{
	c[i].deadline = deadline;
	rr_half_add(&c[i], patient);
	queue[i] = 1 + patient;
	entered[i] = ++n_entered;
}

/* The earliest of those in a queue; of equals the one that came first, and before that the one that is not patient. */
static int earliest(unsigned passed)
{
	int best = -1;

	for (int i = 0; i < MANY; i++) {
		if (!queue[i] || passed >> i & 1)
			continue;
		if (best < 0 || c[i].deadline < c[best].deadline ||
		    (c[i].deadline == c[best].deadline &&
		     (queue[i] < queue[best] || (queue[i] == queue[best] && entered[i] < entered[best]))))
			best = i;
	}
	return best;
}

static unsigned refused, asked;	/* bits */
static struct rr_conn *order[MANY];
static int norder, answer;

static int take(struct rr_conn *it)
{
	int i = (int)(it - c);

	cr_assert(i >= 0 && i < MANY && !(asked >> i & 1));
	asked |= 1u << i;
	order[norder++] = it;
	return refused >> i & 1 ? -ESRCH : answer;
}

static int pick(rr_time until, rr_time now, struct rr_conn **out)
{
	asked = 0;
	norder = 0;
	*out = NULL;
	return rr_half_pick(until, now, take, out);
}

static rr_time first_deadline(void)
{
	int i = earliest(0);

	return i < 0 ? 0 : c[i].deadline;
}

Test(half, in_whatever_order_they_come_and_go)
{
	srand(3);
	for (int step = 0; step < 4000; step++) {
		int i = rand() % MANY, first, rc;
		struct rr_conn *got;
		rr_time until;

		switch (rand() % 3) {
		case 0:
			if (!queue[i])
				add(i, 1000 + (rr_time)rand() % 20, rand() & 1);
			break;
		case 1:
			rr_half_leave(&c[i]);
			queue[i] = 0;
			break;
		default:
			refused = (unsigned)rand() & (unsigned)rand() & 0xfff;
			until = 1000 + (rr_time)rand() % 20;
			answer = 0;
			rc = pick(until, until, &got);
			asked = 0;
			for (int k = 0; (first = earliest(asked)) >= 0 && c[first].deadline <= until; k++) {
				cr_assert(k < norder && order[k] == &c[first], "step %d", step);
				asked |= 1u << first;
				if (!(refused >> first & 1))
					break;
			}
			if (first >= 0 && c[first].deadline <= until) {
				cr_assert(rc == 0 && got == &c[first], "step %d", step);
				queue[first] = 0;
			} else {
				cr_assert_eq(rc, -ESRCH, "step %d", step);
			}
		}
		cr_assert_eq(rr_half_due(), first_deadline(), "step %d", step);
		for (int k = 0; k < MANY; k++)
			cr_assert_eq(c[k].half, queue[k]);
	}
}

Test(half, one_that_cannot_be_taken_now_is_tried_again_a_little_later)
{
	struct rr_conn *got;

	add(0, 100, false);
	add(1, 200, true);
	answer = -EAGAIN;
	cr_assert_eq(pick(150, 1000, &got), -EAGAIN);
	cr_assert(norder == 1 && got == &c[0] && c[0].half == 1);
	cr_assert_eq(rr_half_due(), 1000 + RR_MSEC);
	refused = 1;
	cr_assert_eq(pick(250, 2000, &got), -EAGAIN);
	cr_assert(norder == 2 && got == &c[1] && c[1].half == 2);
	cr_assert_eq(rr_half_due(), 2000 + RR_MSEC);
	cr_assert_eq(pick(150, 3000, &got), -ESRCH);
	cr_assert_eq(rr_half_due(), 2000 + RR_MSEC, "nothing has changed");
	rr_half_leave(&c[0]);
	cr_assert_eq(rr_half_due(), 200);
	answer = -EAGAIN;
	cr_assert_eq(pick(500, 0, &got), -EAGAIN);
	cr_assert_eq(rr_half_due(), RR_MSEC);
	c[1].deadline = 2 * RR_MSEC;
	cr_assert_eq(pick(3 * RR_MSEC, 0, &got), -EAGAIN);
	cr_assert_eq(rr_half_due(), 2 * RR_MSEC, "not before its time");
}

static int holds_them(struct rr_conn *it)
{
	struct rr_conn *got;

	cr_assert_eq(rr_half_pick(1000, 1000, take, &got), -EAGAIN, "a handler inside");
	rr_half_add(&c[5], false);
	cr_assert_eq(c[5].half, 0);
	rr_half_leave(it);
	cr_assert_eq(it->half, 1);
	return -EBUSY;
}

Test(half, a_handler_inside_changes_nothing)
{
	struct rr_conn *got;

	add(0, 100, false);
	cr_assert_eq(rr_half_pick(1000, 1000, holds_them, &got), -EBUSY);
	cr_assert(c[0].half == 1 && c[5].half == 0);
	add(5, 50, false);
	cr_assert_eq(rr_half_due(), 50);
	rr_half_leave(&c[5]);
	rr_half_leave(&c[5]);
	cr_assert_eq(rr_half_due(), 100, "it is let go each time");
}

static int forks_inside(struct rr_conn *it RR_UNUSED)
{
	int st;

	if (!fork()) {
		rr_conn_fork_child();
		rr_half_add(&c[5], false);
		_exit(c[5].half == 1 && rr_half_due() == c[5].deadline ? 0 : 1);
	}
	wait(&st);
	cr_assert_eq(st, 0);
	return -EBUSY;
}

Test(half, in_a_child_no_other_thread_is_inside)
{
	struct rr_conn *got;

	c[5].deadline = 50;
	add(0, 100, false);
	cr_assert_eq(rr_half_pick(1000, 1000, forks_inside, &got), -EBUSY);
}

Test(half, a_child_has_none)
{
	struct rr_conn *got;

	add(0, 100, false);
	add(1, 100, true);
	rr_conn_fork_child();
	cr_assert_eq(rr_half_due(), 0);
	cr_assert_eq(pick(1000, 1000, &got), -ESRCH);
	cr_assert_eq(norder, 0);
	add(2, 70, false);
	cr_assert_eq(rr_half_due(), 70);
}
