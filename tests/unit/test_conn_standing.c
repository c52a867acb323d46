/* SPDX-License-Identifier: BSD-3-Clause */
/* The standing wait: who is a member, who learns of what, and that a bell is not swallowed while its thread sleeps. */
#include "core/conn/standing.h"

#include <poll.h>

#include "core/conn/base/base.h"
#include "tests/unit/conn_pair.h"

static struct rr_conn *resting(void)
{
	struct rr_conn *c = rr_slab_get(true, 3);

	cr_assert_not_null(c);
	c->rest = 8;
	return c;
}

/* What rr_rest_end() does. */
static void ends_its_rest(struct rr_conn *c)
{
	c->rest = 0;
	rr_standing_ceased(c);
}

Test(conn_standing, who_rests_is_a_member_by_its_number_until_it_parts)
{
	struct rr_conn *a = resting(), *b = resting(), *awake = resting();

	awake->rest = 0;
	cr_assert_eq(rr_standing_at(a), UINT32_MAX);
	cr_assert(rr_conn_stands(a, 0));
	cr_assert(rr_conn_stands(b, UINT32_MAX - 1));
	cr_assert(!rr_conn_stands(awake, 5));
	cr_assert_eq(rr_standing_at(awake), UINT32_MAX);
	cr_assert(!rr_conn_stands(a, 7), "twice in an array");
	cr_assert_eq(rr_standing_at(a), 0);
	cr_assert_eq(rr_standing_at(b), UINT32_MAX - 1);
	rr_standing_part(a);
	cr_assert_eq(rr_standing_at(a), UINT32_MAX);
	cr_assert(rr_conn_stands(a, 7));
	cr_assert_eq(rr_standing_at(a), 7);
}

Test(conn_standing, only_rests_of_members_that_end_are_counted)
{
	struct rr_conn *a = resting(), *b = resting();
	uint32_t before = rr_standing_begin();

	cr_assert(rr_conn_stands(a, 1));
	ends_its_rest(b);
	rr_standing_end();
	cr_assert_eq(rr_standing_begin(), before);
	rr_standing_end();
	ends_its_rest(a);
	cr_assert_eq(rr_standing_begin(), before + 1);
	rr_standing_part(a);
	ends_its_rest(a);
	cr_assert_eq(rr_standing_begin(), before + 1);
}

Test(conn_standing, its_thread_sleeps_on_members_alone_and_from_begin_to_end)
{
	struct rr_conn *a = resting(), *b = resting();

	cr_assert(rr_conn_stands(a, 1));
	cr_assert(!rr_standing_sleeps(a));
	rr_standing_begin();
	cr_assert(rr_standing_sleeps(a));
	cr_assert(!rr_standing_sleeps(b));
	cr_assert(rr_conn_is_slept_on(a));
	cr_assert(!rr_conn_is_slept_on(b));
	rr_conn_sleeps(b);
	cr_assert(rr_conn_is_slept_on(b));
	rr_conn_rested(b);
	rr_standing_part(a);
	cr_assert(!rr_standing_sleeps(a));
	cr_assert(rr_conn_stands(a, 1));
	rr_standing_end();
	cr_assert(!rr_standing_sleeps(a));
	cr_assert(!rr_conn_is_slept_on(a));
	cr_assert_eq(rr_standing_at(a), 1, "and goes on being one");
}

Test(conn_standing, when_it_is_dissolved_nobody_is_a_member)
{
	struct rr_conn *a = resting(), *b = resting();

	rr_standing_begin();
	cr_assert(rr_conn_stands(a, 1));
	cr_assert(rr_conn_stands(b, 2));
	rr_standing_dissolve();
	cr_assert_eq(rr_standing_at(a), UINT32_MAX);
	cr_assert(!rr_standing_sleeps(b));
	cr_assert(rr_conn_stands(b, 1));
	cr_assert_eq(rr_standing_at(b), 1);
	cr_assert(rr_standing_sleeps(b));
}

Test(conn_standing, a_forked_child_has_no_members_and_nobody_who_sleeps)
{
	struct rr_conn *a = resting();

	rr_standing_begin();
	cr_assert(rr_conn_stands(a, 1));
	rr_conn_fork_child();
	cr_assert_eq(rr_standing_at(a), UINT32_MAX);
	a->rest = 8;
	cr_assert(rr_conn_stands(a, 1));
	cr_assert(!rr_standing_sleeps(a));
}

Test(conn_standing, a_connection_in_the_memory_of_another_is_no_member)
{
	struct rr_conn *a = resting();

	cr_assert(rr_conn_stands(a, 1));
	rr_slab_put(a);
	cr_assert_eq(resting(), a);
	cr_assert_eq(rr_standing_at(a), UINT32_MAX);
}

/* --- a connection that is carried --- */

static struct rr_conn *c;

static void stands(void)
{
	c = p.server.c;
	for (int n = 0; rr_conn_arm(c, p.server.fd, POLLIN) && n < 10; n++)
		cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), 0);
	cr_assert(rr_conn_stands(c, 3));
	rr_conn_rested(c);
}

/* Whoever takes the connection ends its rest, and the thread of the standing wait learns of it. */
Test(conn_standing, whoever_takes_a_member_is_counted, .init = setup, .fini = teardown)
{
	uint32_t before;

	carried();
	before = rr_standing_begin();
	rr_standing_end();
	stands();
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), 0);
	cr_assert_eq(rr_standing_begin(), before + 1);
	rr_standing_end();
	rr_standing_part(c);
	stands();
	rr_conn_fork_prepare();
	rr_conn_forked(c);
	rr_conn_fork_parent();
	cr_assert_eq(rr_standing_begin(), before + 2);
}

Test(conn_standing, a_bell_stays_until_its_thread_is_awake, .init = setup, .fini = teardown)
{
	carried();
	stands();
	rr_standing_begin();
	client_calls();
	cr_assert_eq(rr_conn_arm(c, p.server.fd, POLLIN), 1, "another thread finds the call");
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), POLLIN);
	rr_conn_sleeps(c);
	rr_conn_disarm(c, p.server.fd);
	cr_assert(bell_rings(c));
	rr_conn_sleeps(c);	/* the thread wakes, and parts from it */
	rr_standing_part(c);
	rr_conn_disarm(c, p.server.fd);
	cr_assert(!bell_rings(c));
}

Test(conn_standing, no_bell_is_kept_for_a_thread_that_does_not_sleep, .init = setup, .fini = teardown)
{
	carried();
	stands();
	client_calls();
	cr_assert(bell_rings(c));
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), POLLIN);
	rr_conn_sleeps(c);
	rr_conn_disarm(c, p.server.fd);
	cr_assert(!bell_rings(c));
}

/* Another thread of this process shuts it. */
Test(conn_standing, what_the_app_shuts_itself_rings_where_the_thread_sleeps, .init = setup, .fini = teardown)
{
	carried();
	stands();
	rr_standing_begin();
	cr_assert_eq(rr_conn_shutdown(c, p.server.fd, SHUT_RD), 0);
	cr_assert(bell_rings(c));
}

/* A child has the connections, and no thread that sleeps on them. */
Test(conn_standing, a_child_has_no_standing_wait)
{
	struct rr_conn *a = resting();

	cr_assert(rr_conn_stands(a, 1));
	rr_standing_begin();
	cr_assert(rr_standing_sleeps(a));
	rr_conn_fork_child();
	cr_assert_eq(rr_standing_at(a), UINT32_MAX);
	a->rest = 8;
	cr_assert(rr_conn_stands(a, 1));
	cr_assert_not(rr_standing_sleeps(a));
}
