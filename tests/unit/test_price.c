/* SPDX-License-Identifier: BSD-3-Clause */
/* What an upgrade and a call cost: about the least that was seen lately. */
#include <criterion/criterion.h>

#include "core/conn/base/price.h"

Test(price, nothing_is_known_at_first)
{
	cr_assert_eq(rr_price_sum(), 0);
	cr_assert_eq(rr_price_trip(), RR_PRICE_TRIP, "is assumed");
}

/* The first ones of a process are the slowest. */
Test(price, a_few_long_calls_are_not_believed)
{
	for (int i = 0; i < 3; i++)
		rr_price_tripped(RR_MSEC);
	cr_assert_lt(rr_price_trip(), 2 * RR_PRICE_TRIP);
	for (int i = 0; i < 100; i++)
		rr_price_tripped(RR_MSEC);
	cr_assert_eq(rr_price_trip(), RR_MSEC);
	rr_price_tripped(0);
	cr_assert_eq(rr_price_trip(), 1, "something is divided by it");
}

Test(price, the_sum_has_each_part_once)
{
	rr_price_paid(RR_PRICE_MAKE, 1);
	rr_price_paid(RR_PRICE_JOIN, 10);
	rr_price_paid(RR_PRICE_ESTABLISH, 100);
	rr_price_paid(RR_PRICE_FREE, 1000);
	cr_assert_eq(rr_price_sum(), 1111);
	cr_assert_eq(rr_price_trip(), RR_PRICE_TRIP);
	rr_price_tripped(7);
	cr_assert_eq(rr_price_sum(), 1111);
	cr_assert_eq(rr_price_trip(), 7);
}

Test(price, less_counts_at_once_and_more_by_and_by)
{
	rr_price_tripped(800);
	rr_price_tripped(5000);
	cr_assert_eq(rr_price_trip(), 901, "an eighth more");
	rr_price_tripped(5000);
	cr_assert_eq(rr_price_trip(), 901 + 112 + 1);
	rr_price_tripped(1015);
	cr_assert_eq(rr_price_trip(), 1015, "no more than it took");
	rr_price_tripped(300);
	cr_assert_eq(rr_price_trip(), 300);
	rr_price_tripped(300);
	cr_assert_eq(rr_price_trip(), 300);
	rr_price_tripped(1);
	cr_assert_eq(rr_price_trip(), 1);
	rr_price_tripped(5000);
	cr_assert_eq(rr_price_trip(), 2, "however little is kept, it can grow");
}
