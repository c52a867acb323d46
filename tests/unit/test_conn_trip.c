/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a call takes by TCP, which an upgrade is held against: which calls are timed, and which are not. */
#include "core/conn/base/price.h"
#include "tests/unit/conn_rides.h"

TestSuite(conn_trip, .fini = leave, .timeout = 60);

/* What a call takes by TCP: of one alone, between its last byte and its reply's. */
Test(conn_trip, a_call_alone_is_timed)
{
	rr_time trip = trip_is_long();
	size_t n;

	open_after(5);
	n = rr_test_call(out, 1, 100, 1);
	one_way(&p.client, &p.server, n);
	rr_os_nap(20 * RR_MSEC);
	n = rr_test_reply(out, 1, 100, 1);
	sends(&p.server, out, n);
	cr_assert_eq(rr_end_try_recv(&p.client, in, n / 2, 0), (ssize_t)(n / 2));
	cr_assert_eq(rr_price_trip(), trip, "half a reply");
	finds(&p.client, out + n / 2, n - n / 2, 0);
	cr_assert_geq(rr_price_trip(), 20 * RR_MSEC);
	cr_assert_lt(rr_price_trip(), trip);
}

Test(conn_trip, calls_that_overlap_are_not_timed)
{
	rr_time trip = trip_is_long();

	open_after(9);
	for (uint32_t i = 1; i <= 2; i++)
		one_way(&p.client, &p.server, rr_test_call(out, i, 100, i));
	for (uint32_t i = 1; i <= 2; i++)
		one_way(&p.server, &p.client, rr_test_reply(out, i, 100, i));
	cr_assert_eq(rr_price_trip(), trip);
	exchange(3);
	cr_assert_lt(rr_price_trip(), trip);
}

/* … nor is one that the offer's call comes after, as long as there is no answer. */
Test(conn_trip, a_call_that_the_offer_comes_after_is_not_timed)
{
	rr_time trip = trip_is_long();
	size_t n = 0;

	open_after(2);
	for (uint32_t i = 1; i <= 2; i++)
		n += rr_test_call(out + n, i, 100, i);
	sends(&p.client, out, n / 2);
	sends(&p.client, out + n / 2, n / 2);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	for (uint32_t i = 1; i <= 2; i++) {
		n = rr_test_reply(out, i, 100, i);
		cr_assert_eq(send(p.server.fd, out, n, 0), (ssize_t)n);
		arrived(&p.client, n);
		finds(&p.client, out, n, 0);
	}
	cr_assert_eq(rr_price_trip(), trip);
}

/* The server may be making its side of the upgrade meanwhile. */
static void not_timed_from(uint32_t call)
{
	rr_time trip;

	open_after(call);
	for (uint32_t i = 1; i < call; i++)
		exchange(i);
	trip = trip_is_long();
	for (uint32_t i = call; i < call + 3; i++) {
		size_t n = rr_test_call(out, i, 100, i);

		sends(&p.client, out, n);
		cr_assert_eq(state(&p.client), RR_S_ASKED);
		n = rr_test_reply(out, i, 100, i);
		cr_assert_eq(send(p.server.fd, out, n, 0), (ssize_t)n);
		arrived(&p.client, n);
		finds(&p.client, out, n, 0);
		cr_assert_eq(rr_price_trip(), trip, "%u", i);
	}
}

Test(conn_trip, nor_is_the_offers_own_call_nor_those_behind_it)
{
	not_timed_from(1);
}

Test(conn_trip, nor_if_others_went_before_it)
{
	not_timed_from(2);
}
