/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread sleeps while another one makes its connection carried. What wakes it is left for it, and a connection goes on by
 * TCP if somebody sleeps who could only be woken by that. */
#include <errno.h>

#include "core/base/os.h"
#include "core/conn/kinds.h"
#include "tests/unit/conn_rides.h"

TestSuite(conn_bell, .fini = leave, .timeout = 60);

/* A thread goes to sleep on it, and is awake again. */
static void sleeps(struct rr_end *e)
{
	cr_assert_eq(rr_conn_arm(e->c, e->fd, POLLIN), 0);
}

static void wakes(struct rr_end *e)
{
	rr_conn_disarm(e->c, e->fd);
}

/* Would it wake? */
static bool has_news(const struct rr_end *e)
{
	struct pollfd w = { e->c->share->qp->wake_fd, POLLIN, 0 };

	return poll(&w, 1, 0) == 1;
}

/* Another thread looks. */
static int looks(struct rr_end *e)
{
	return rr_end_poll(e, POLLIN);
}

static void client_joins(void)
{
	finds(&p.client, out, rr_test_reply(out, 1, 100, 1), 0);
	cr_assert(rr_conn_is_carried(p.client.c));
	for (int i = 0; i < 5000 && !has_news(&p.server); i++)
		rr_os_nap(RR_MSEC);
}

Test(conn_bell, what_wakes_a_sleeper_is_left_until_it_is_awake)
{
	open_after(1);
	answers();
	sleeps(&p.server);
	cr_assert_eq(looks(&p.server), 0);
	cr_assert_eq(p.server.c->hold_until, 0, "nobody has come yet");
	client_joins();
	cr_assert_eq(looks(&p.server), 0);
	cr_assert_eq(state(&p.server), RR_S_SAID);
	cr_assert(has_news(&p.server) && p.server.c->hold_until);
	wakes(&p.server);
	cr_assert_eq(looks(&p.server), 0);
	cr_assert(rr_conn_is_carried(p.server.c));
	goes_on_until_carried();
}

Test(conn_bell, who_does_not_wake_in_time_is_woken_by_the_next_message)
{
	open_after(1);
	answers();
	sleeps(&p.server);
	client_joins();
	cr_assert_eq(looks(&p.server), 0);
	p.server.c->hold_until = 1;
	cr_assert_eq(looks(&p.server), 0);
	cr_assert(rr_conn_is_carried(p.server.c));
	cr_assert_not(has_news(&p.server));
	client_calls();
	cr_assert(has_news(&p.server));
	wakes(&p.server);
	cr_assert_eq(looks(&p.server), POLLIN);
}

/* The offer was in the queue when the sleeper should have woken. */
Test(conn_bell, an_offer_that_a_sleeper_has_not_seen_is_declined)
{
	size_t n;

	open_after(2);
	exchange(1);	/* its first bytes are not an offer */
	sleeps(&p.server);
	n = rr_test_call(out, 2, 100, 2);
	sends(&p.client, out, n);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	cr_assert_gt(arrived(&p.server, n + 1), n);
	cr_assert_eq(looks(&p.server), 0);
	cr_assert_eq(state(&p.server), RR_S_WATCH);
	p.server.c->hold_until = 1;
	finds(&p.server, out, n, 0);
	cr_assert_eq(state(&p.server), RR_S_HEARD);
	cr_assert(p.server.c->lack == RR_R_KERNEL_ONLY && !p.server.c->share);
	wakes(&p.server);
	n = rr_test_reply(out, 2, 100, 2);
	sends(&p.server, out, n);
	arrived(&p.client, n + 1);
	finds(&p.client, out, n, 0);
	goes_on_by_tcp();
}

Test(conn_bell, an_answer_that_a_sleeper_has_not_seen_is_not_taken_up)
{
	size_t n;

	open_after(1);
	hears();
	n = rr_test_reply(out, 1, 100, 1);
	sleeps(&p.client);
	sends(&p.server, out, n);
	cr_assert_gt(arrived(&p.client, n + 1), n);
	cr_assert_eq(looks(&p.client), 0);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	p.client.c->hold_until = 1;
	finds(&p.client, out, n, 0);
	cr_assert_eq(state(&p.client), RR_S_TCP);
	cr_assert_eq(atomic_load(&p.client.c->st->reason), RR_R_KERNEL_ONLY);
	wakes(&p.client);
	goes_on_by_tcp();
}

/* Wherever threads sleep on the wake-up fd and a step may consume what has made it readable. */
Test(conn_bell, each_state_that_connects_leaves_it)
{
	static const enum rr_conn_st those[] = { RR_S_JOINING, RR_S_ANSWERED, RR_S_TAKEN, RR_S_DIALING, RR_S_MEETING,
						 RR_S_SAID };
	int n = 0;

	open_after(1);
	for (int st = 0; st < RR_S_COUNT; st++)
		n += rr_kinds[st] && rr_kinds[st]->by_bell;
	cr_assert_eq(n, (int)rr_array_size(those));
	for (size_t i = 0; i < rr_array_size(those); i++)
		cr_assert(rr_kinds[those[i]]->by_bell && rr_kinds[those[i]]->step && rr_kinds[those[i]]->fds);
}
