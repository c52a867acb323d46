/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connection may still use, by the numbers: at each bound, and one step to either side of it. */
#include <criterion/criterion.h>

#include "core/conn/base/base.h"
#include "tests/lib/connpair.h"

#define MIB	(1u << 20)
#define LEAST	65536u		/* each connection may always have so much */
#define GRAIN	65536u		/* the account changes by so much */
#define PAGES(n)	((n) / RR_POOL_PAGE)

static struct rr_qp qp;
static struct rr_share sh = { .qp = &qp }, hoard = { .qp = &qp };
static struct rr_conn hoarder = { .share = &hoard };

static void begin(void)
{
	rr_test_params.budget = MIB;
	rr_test_params.process_budget = 4 * MIB;
	rr_test_params.max_stash = 2 * MIB;
	rr_test_setup();
}

TestSuite(budget_rules, .init = begin, .timeout = 30);

/* Another connection of the process has used so many bytes. */
static void others_use(uint32_t bytes)
{
	hoard.pool.used = hoard.pool.peak = PAGES(bytes);
	rr_budget_recount(&hoarder);
}

static bool may_send(uint32_t has)
{
	sh.pool.used = sh.pool.out = PAGES(has);
	return rr_budget_room(&sh);
}

/* May a connection that holds so many bytes, some of them ahead of the app, hold len more? */
static bool may_stash(uint32_t has, uint32_t ahead, uint32_t len)
{
	sh.pool.out = 7;	/* the others' share of the pool does not count */
	sh.pool.used = 7 + PAGES(has);
	sh.rx.stash = ahead;
	return rr_budget_stash(&sh, len);
}

Test(budget_rules, a_connection_is_full_when_its_budget_is_out)
{
	cr_assert(may_send(0) && may_send(LEAST - RR_POOL_PAGE) && may_send(LEAST));
	cr_assert(may_send(MIB - RR_POOL_PAGE));
	cr_assert(!may_send(MIB));
	qp.native = true;
	cr_assert(may_send(MIB), "what native peers leave unread is bounded by credits");
}

Test(budget_rules, a_small_budget_is_less_than_what_all_have)
{
	rr_test_params.budget = 2 * RR_POOL_PAGE;
	rr_test_setup();
	cr_assert(may_send(RR_POOL_PAGE));
	cr_assert(!may_send(2 * RR_POOL_PAGE));
}

Test(budget_rules, when_the_process_has_used_all_each_has_the_least)
{
	others_use(4 * MIB - GRAIN);
	cr_assert(!rr_budget_all_used() && may_send(LEAST));
	others_use(4 * MIB);
	cr_assert(rr_budget_all_used());
	cr_assert(may_send(0) && may_send(LEAST - RR_POOL_PAGE));
	cr_assert(!may_send(LEAST));
	qp.native = true;
	cr_assert(!may_send(LEAST));
	others_use(0);
	cr_assert(!rr_budget_all_used() && may_send(LEAST));
}

Test(budget_rules, the_account_goes_in_grains)
{
	others_use(RR_POOL_PAGE);
	cr_assert_eq(hoarder.charged, GRAIN);
	others_use(GRAIN);
	cr_assert_eq(hoarder.charged, GRAIN);
	others_use(GRAIN + RR_POOL_PAGE);
	cr_assert_eq(hoarder.charged, 2 * GRAIN);
	hoard.pool.used = 1;
	rr_budget_recount(&hoarder);
	cr_assert_eq(hoarder.charged, 2 * GRAIN, "the peak is what is allocated");
	others_use(4 * MIB);
	rr_budget_end(&hoarder);
	cr_assert_eq(hoarder.charged, 0);
	cr_assert(!rr_budget_all_used());
}

Test(budget_rules, what_comes_ahead_of_the_app)
{
	cr_assert(may_stash(0, 0, 2 * MIB));
	cr_assert(!may_stash(0, 0, 2 * MIB + 1));
	cr_assert(may_stash(0, MIB, MIB));
	cr_assert(!may_stash(0, MIB + 1, MIB));
	others_use(4 * MIB);
	cr_assert(may_stash(0, 0, LEAST));
	cr_assert(!may_stash(0, 0, LEAST + 1));
	cr_assert(may_stash(LEAST - RR_POOL_PAGE, 0, RR_POOL_PAGE));
	cr_assert(!may_stash(LEAST, 0, 1));
}

Test(budget_rules, receives_take_half_of_the_process_s_budget)
{
	const uint64_t slot = 4096 + 384;
	struct rr_conn c = { .share = &sh };

	cr_assert_eq(rr_budget_recvs(1000, 4096), 2 * MIB / 16 / slot);
	cr_assert_eq(rr_budget_recvs(1000, 1024), 2 * MIB / 16 / slot, "shorter ones count as much");
	cr_assert_eq(rr_budget_recvs(28, 4096), 28);
	cr_assert_eq(rr_budget_recvs(1000, 5000), RR_PROV_FEW);
	qp.recvs = 200;
	qp.recv_size = 4096;
	rr_budget_carry(&c);
	cr_assert_eq(c.ring, 200 * slot);
	cr_assert_eq(rr_budget_recvs(1000, 4096), rr_max((2 * MIB - 200 * slot) / 16 / slot, (uint64_t)RR_PROV_FEW));
	rr_budget_end(&c);
	cr_assert_eq(c.ring, 0);
	cr_assert_eq(rr_budget_recvs(1000, 4096), 2 * MIB / 16 / slot);
	rr_test_params.process_budget = 4096 * MIB - 1;
	rr_test_setup();
	cr_assert_eq(rr_budget_recvs(1000, 4096), MIB / slot, "no more than the connection's own budget");
}
