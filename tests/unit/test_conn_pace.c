/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that set up their devices in turns: how long each may take, and when it is whose turn. Of times only what
 * holds on a machine of any speed is judged. */
#include <criterion/criterion.h>
#include <errno.h>

#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/lib/connpair.h"

static int steps, result;
static rr_time takes;

static int establish(struct rr_qp *qp RR_UNUSED)
{
	rr_time end = rr_now() + takes;

	steps++;
	while (rr_now() < end)
		;
	return result;
}

static const struct rr_prov_ops device = { .id = 2, .establish = establish };
static const struct rr_prov_ops local = { .id = 1, .caps = RR_PROV_LOCAL, .establish = establish };

/* A connection that has offered by the one, or by both. */
static struct rr_qp qps[4];
static struct rr_share shares[4];

static struct rr_share *share(int i, const struct rr_prov_ops *ops, struct rr_share *next)
{
	qps[i].ops = ops;
	shares[i].qp = &qps[i];
	shares[i].next = next;
	return &shares[i];
}

static void begin(void)
{
	rr_test_params.upgrade_timeout = 3 * RR_SEC;
	rr_test_setup();
}

TestSuite(conn_pace, .init = begin, .timeout = 60);

Test(conn_pace, only_who_uses_a_device_may_take_long)
{
	struct rr_conn c = { .share = NULL };

	cr_assert_eq(rr_pace_patience(&c), 3 * RR_SEC);
	c.share = share(0, &local, NULL);
	cr_assert_eq(rr_pace_patience(&c), 3 * RR_SEC);
	c.share = share(1, &local, &shares[0]);
	cr_assert_eq(rr_pace_patience(&c), 3 * RR_SEC);
	c.share = share(2, &device, NULL);
	cr_assert_eq(rr_pace_patience(&c), 180 * RR_SEC);
	c.share = share(3, &device, &shares[0]);
	cr_assert_eq(rr_pace_patience(&c), 180 * RR_SEC);
	c.share = share(1, &local, &shares[2]);
	cr_assert_eq(rr_pace_patience(&c), 180 * RR_SEC);
}

Test(conn_pace, after_a_long_step_the_app_has_as_much_time_for_itself)
{
	struct rr_conn c = { .share = share(0, &device, NULL) }, other = { .share = share(1, &device, NULL) };
	rr_time before = rr_now(), after, turn;

	takes = RR_SEC / 4;
	result = -EAGAIN;
	cr_assert_eq(rr_pace_turn(&c), 0);
	cr_assert_eq(rr_pace_establish(&c), -EAGAIN);
	after = rr_now();
	turn = rr_pace_turn(&other);
	if (turn) {
		cr_assert_geq(turn, before + 2 * takes);
		cr_assert_leq(turn, after + (after - before));
	}
	cr_assert(turn || rr_now() >= before + 2 * takes);
	takes = 0;
	result = rr_pace_establish(&other);
	if (rr_now() < turn) {
		cr_assert_eq(result, RR_PACE_TURN);
		cr_assert_eq(steps, 1);
		cr_assert_eq(rr_pace_turn(&c), turn, "the other's attempt does not move it");
	}
	while (rr_now() < turn)
		;
	cr_assert_eq(rr_pace_turn(&other), 0);
	result = 0;
	steps = 0;
	cr_assert_eq(rr_pace_establish(&other), 0);
	cr_assert_eq(steps, 1);
}

Test(conn_pace, a_connection_without_a_device_has_no_turns)
{
	struct rr_conn c = { .share = share(0, &device, NULL) }, here = { .share = share(1, &local, NULL) }, none = { 0 };

	takes = RR_SEC / 4;
	cr_assert_eq(rr_pace_establish(&here), 0);
	cr_assert_eq(rr_pace_turn(&c), 0, "a step without a device costs nobody else his turn");
	cr_assert_eq(rr_pace_establish(&c), 0);
	takes = 0;
	cr_assert_eq(rr_pace_turn(&none), 0);
	cr_assert_eq(rr_pace_turn(&here), 0);
	result = -ECONNREFUSED;
	cr_assert_eq(rr_pace_establish(&here), -ECONNREFUSED);
	cr_assert_eq(steps, 3);
}

Test(conn_pace, who_has_answered_gives_the_client_that_long)
{
	struct rr_conn c[2] = { { .share = share(0, &local, NULL) }, { .share = share(1, &device, NULL) } };
	const rr_time most[2] = { 3 * RR_SEC, 180 * RR_SEC };

	for (int i = 0; i < 2; i++) {
		rr_time before = rr_now();

		rr_pace_expire(&c[i]);
		cr_assert_geq(c[i].deadline, before + most[i]);
		cr_assert_leq(c[i].deadline, rr_now() + most[i]);
		cr_assert_eq(c[i].half, i + 1, "a queue for each length of time");
		cr_assert_eq(rr_half_due(), c[0].deadline, "the earlier");
	}
	rr_half_leave(&c[0]);
	cr_assert_eq(rr_half_due(), c[1].deadline);
	rr_half_leave(&c[1]);
	cr_assert_eq(rr_half_due(), 0);
}
