/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a waiter spins: what it has learned of its sleeps. */
#include <unistd.h>

#include "core/base/os.h"
#include "core/conn/conn_int.h"
#include "tests/unit/conn_pair.h"

enum { SPIN = 10 * RR_MSEC };	/* so long that a busy machine's pauses are short */

static void begin(void)
{
	rr_test_params.spin = SPIN;
	setup();
	carried();
}

TestSuite(conn_spin, .init = begin, .fini = teardown, .timeout = 60);

static rr_time budget(void)
{
	return rr_conn_spin(p.client.c);
}

/* The client's thread has slept for so long, as it finds. */
static void slept(rr_time t)
{
	p.client.c->share->armed_at = rr_now() - t;
	atomic_fetch_add(&p.client.c->sleepers, 1);
	rr_conn_disarm(p.client.c, p.client.fd);
}

static bool one_cpu(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN) == 1;
}

static uint32_t near_misses_until_it_tries(void)
{
	uint32_t n = 0;

	while (budget() <= SPIN && n < 10000) {
		slept(2 * SPIN);
		n++;
	}
	return n;
}

Test(conn_spin, long_sleeps_end_it_and_short_ones_bring_it_back)
{
	if (one_cpu())
		return;
	cr_assert_eq(budget(), SPIN);
	for (int i = 0; i < 40; i++)
		slept(RR_SEC);
	cr_assert_eq(budget(), 0);
	for (int i = 0; i < 40; i++)
		slept(0);
	cr_assert_eq(budget(), SPIN);
}

Test(conn_spin, ends_that_only_wait_for_each_others_wake_ups_try_without)
{
	int tries = 1;

	if (one_cpu())
		return;
	cr_assert_geq(near_misses_until_it_tries(), 32);
	while (budget() > SPIN)
		tries++;
	cr_assert_eq(tries, 16);	/* the first ended the loop above */
	cr_assert_eq(budget(), SPIN);
}

Test(conn_spin, what_was_no_use_is_tried_half_as_often)
{
	if (one_cpu())
		return;
	near_misses_until_it_tries();
	slept(2 * SPIN);	/* in spite of the try */
	cr_assert_leq(budget(), SPIN / 2);
	cr_assert_geq(near_misses_until_it_tries(), 63);
}

Test(conn_spin, long_sleeps_are_no_reason_to_try)
{
	for (int i = 0; i < 10000; i++)
		slept(RR_SEC);
	cr_assert_eq(budget(), 0);
}
