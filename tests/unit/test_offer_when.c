/* SPDX-License-Identifier: BSD-3-Clause */
/* With which call an offer goes, and where the records of a stream end that it rides along with. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "core/conn/base/price.h"
#include "core/conn/base/track.h"
#include "core/conn/upgrade/when.h"

/* Where this process knows that an upgrade costs little. */
static bool pays(uint32_t after, uint32_t record, uint32_t len, uint32_t usual)
{
	return rr_when_pays(&(struct rr_when){ after, record, len, { usual, false }, 30 * RR_USEC, RR_PRICE_TRIP });
}

/* Does the first call of such a connection bring the offer? */
static bool at_once(uint32_t usual, rr_time price)
{
	return rr_when_pays(&(struct rr_when){ RR_AFTER_AUTO, 1, 100, { usual, false }, price, RR_PRICE_TRIP });
}

/* The same where a call takes so long by TCP. */
static bool at_once_by(rr_time trip, uint32_t usual, rr_time price)
{
	return rr_when_pays(&(struct rr_when){ RR_AFTER_AUTO, 1, 100, { usual, false }, price, trip });
}

Test(offer_when, where_nothing_is_known_of_others_the_second_call)
{
	cr_assert(!pays(RR_AFTER_AUTO, 1, 100, 0));
	cr_assert(pays(RR_AFTER_AUTO, 2, 100, 0));
}

Test(offer_when, a_long_first_call_is_enough)
{
	cr_assert(pays(RR_AFTER_AUTO, 1, 32768, 0));
	cr_assert(!pays(RR_AFTER_AUTO, 1, 32767, 0));
}

Test(offer_when, where_connections_make_many_calls_at_once)
{
	cr_assert(pays(RR_AFTER_AUTO, 1, 100, 4));
	cr_assert(!pays(RR_AFTER_AUTO, 1, 100, 3));
}

Test(offer_when, where_they_end_after_a_few_not_before_those)
{
	cr_assert(!pays(RR_AFTER_AUTO, 2, 100, 3));
	cr_assert(!pays(RR_AFTER_AUTO, 3, 100, 3));
	cr_assert(pays(RR_AFTER_AUTO, 4, 100, 3));
	cr_assert(pays(RR_AFTER_AUTO, 2, 100, 1));
}

/* Records are numbered from 1. */
Test(offer_when, the_first_is_the_earliest)
{
	struct rr_when w = { RR_AFTER_AUTO, 1, 100, { 64, false }, RR_SEC, RR_PRICE_TRIP };

	cr_assert_eq(rr_when_record(&w), 1);
	w.usual.calls = 0;
	cr_assert_eq(rr_when_record(&w), 2);
	w.len = 32768;
	cr_assert_eq(rr_when_record(&w), 1);
}

Test(offer_when, many_is_what_saves_the_price_of_an_upgrade)
{
	cr_assert(at_once(4, 40 * RR_USEC));
	cr_assert(!at_once(4, 60 * RR_USEC));
	cr_assert(at_once(16, 200 * RR_USEC));
	cr_assert(!at_once(15, 200 * RR_USEC));
	cr_assert(!at_once(3, 1), "however cheap it is");
	cr_assert(at_once(64, RR_SEC), "however dear it is");
	cr_assert(!at_once(63, RR_SEC));
}

Test(offer_when, a_call_that_takes_longer_by_tcp_saves_more)
{
	cr_assert(at_once_by(36 * RR_USEC, 16, 200 * RR_USEC));
	cr_assert(!at_once_by(36 * RR_USEC, 15, 200 * RR_USEC));
	cr_assert(at_once_by(120 * RR_USEC, 5, 200 * RR_USEC));
	cr_assert(!at_once_by(120 * RR_USEC, 4, 200 * RR_USEC));
	cr_assert(at_once_by(18 * RR_USEC, 33, 200 * RR_USEC));
	cr_assert(!at_once_by(18 * RR_USEC, 32, 200 * RR_USEC));
	cr_assert(at_once_by(RR_SEC, 4, 200 * RR_USEC), "a server that works");
	cr_assert(!at_once_by(RR_SEC, 11, 600 * RR_USEC), "… is none that TCP holds up");
	cr_assert(!at_once_by(1, 63, RR_USEC), "nothing to save");
}

Test(offer_when, the_trip_is_the_least_time_of_a_call)
{
	cr_assert_eq(rr_price_trip(), RR_PRICE_TRIP);
	rr_price_tripped(20 * RR_USEC);
	cr_assert_eq(rr_price_trip(), 20 * RR_USEC);
	for (int i = 0; i < 30; i++)
		rr_price_tripped(120 * RR_USEC);
	rr_price_tripped(RR_SEC);
	cr_assert_gt(rr_price_trip(), 120 * RR_USEC);
	cr_assert_lt(rr_price_trip(), 150 * RR_USEC);
	rr_price_tripped(100 * RR_USEC);
	cr_assert_eq(rr_price_trip(), 100 * RR_USEC);
}

Test(offer_when, a_connection_of_a_few_calls_is_asked_when_it_makes_more)
{
	struct rr_when w = { RR_AFTER_AUTO, 20, 100, { 20, false }, RR_SEC, RR_PRICE_TRIP };

	cr_assert(!rr_when_pays(&w));
	w.record++;
	cr_assert(rr_when_pays(&w));
}

/* Of a process that has upgraded no connection yet. */
static uint32_t untried(uint32_t usual, bool again, rr_time trip)
{
	return rr_when_record(&(struct rr_when){ RR_AFTER_AUTO, 1, 100, { usual, again }, 0, trip });
}

Test(offer_when, a_process_tries_after_as_many_calls_as_may_save_what_it_costs)
{
	cr_assert_eq(untried(0, false, 44 * RR_USEC), 47);
	cr_assert_eq(untried(0, false, 72 * RR_USEC), 29);
	cr_assert_eq(untried(0, false, RR_SEC), 14);
	cr_assert_eq(untried(0, false, 43 * RR_USEC), 48);
	cr_assert_eq(untried(0, false, 1), 48, "servers look for offers in 64 records");
	cr_assert_eq(untried(58, false, 36 * RR_USEC), 1);
	cr_assert_eq(untried(57, false, 36 * RR_USEC), 48);
	cr_assert_eq(untried(1, false, 36 * RR_USEC), 48);
	cr_assert(!rr_when_pays(&(struct rr_when){ RR_AFTER_AUTO, 47, 100, { 0 }, 0, 36 * RR_USEC }));
	cr_assert(rr_when_pays(&(struct rr_when){ RR_AFTER_AUTO, 48, 100, { 0 }, 0, 36 * RR_USEC }));
	cr_assert(rr_when_pays(&(struct rr_when){ RR_AFTER_AUTO, 1, 32768, { 0 }, 0, 36 * RR_USEC }));
}

/* Eight such connections have made as many calls together. */
Test(offer_when, connections_of_a_few_calls_are_tried_if_they_are_many)
{
	cr_assert_eq(untried(8, true, 36 * RR_USEC), 2);
	cr_assert_eq(untried(7, true, 36 * RR_USEC), 48);
	cr_assert_eq(untried(3, true, RR_SEC), 14);
}

static uint32_t shows(uint32_t usual, rr_time price)
{
	return rr_when_record(&(struct rr_when){ RR_AFTER_AUTO, 1, 100, { usual, true }, price, RR_PRICE_TRIP });
}

/* As if nothing was known: its first call goes by TCP, and then it is upgraded. */
Test(offer_when, one_that_is_to_show_what_both_cost_offers_with_its_second_call)
{
	cr_assert_eq(shows(16, 200 * RR_USEC), 2);
	cr_assert_eq(shows(15, 200 * RR_USEC), 2);
	cr_assert_eq(shows(5, 400 * RR_USEC), 2);
	cr_assert_eq(shows(4, 400 * RR_USEC), 5, "that will never pay");
	cr_assert_eq(shows(4, 30 * RR_USEC), 2);
	cr_assert_eq(shows(3, 30 * RR_USEC), 4, "nor so few");
	cr_assert_eq(rr_when_record(&(struct rr_when){ RR_AFTER_AUTO, 1, 32768, { 20, true }, RR_SEC, 1 }), 1);
	cr_assert_eq(rr_when_record(&(struct rr_when){ 7, 1, 100, { 20, true }, RR_SEC, 1 }), 7);
}

Test(offer_when, the_price_is_the_least_time_of_each_part)
{
	cr_assert_eq(rr_price_sum(), 0);
	rr_price_paid(RR_PRICE_MAKE, 100 * RR_USEC);
	rr_price_paid(RR_PRICE_FREE, 50 * RR_USEC);
	cr_assert_eq(rr_price_sum(), 150 * RR_USEC);
	rr_price_paid(RR_PRICE_MAKE, 80 * RR_USEC);
	cr_assert_eq(rr_price_sum(), 130 * RR_USEC);
	rr_price_paid(RR_PRICE_MAKE, RR_SEC);	/* another thread had the processor */
	cr_assert_gt(rr_price_sum(), 130 * RR_USEC);
	cr_assert_lt(rr_price_sum(), 145 * RR_USEC);
	for (int i = 0; i < 100; i++)
		rr_price_paid(RR_PRICE_MAKE, RR_MSEC);
	cr_assert_eq(rr_price_sum(), RR_MSEC + 50 * RR_USEC, "it has become dearer");
}

Test(offer_when, a_number_is_that_call_and_no_earlier_one)
{
	cr_assert(pays(1, 1, 100, 0));
	cr_assert(!pays(5, 4, 1 << 20, 100));
	cr_assert(pays(5, 5, 100, 0));
	cr_assert(pays(5, 6, 100, 0), "there was no room with the fifth");
}

static struct sockaddr_in6 at(uint16_t port)
{
	return (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
}

Test(offer_when, calls_are_learned_by_place_and_program)
{
	struct sockaddr_in6 a = at(1), b = at(2);

	cr_assert_eq(rr_learned_usual(&a, 7).calls, 0);
	rr_learned_end(&a, 7, 20);
	cr_assert_eq(rr_learned_usual(&a, 7).calls, 20);
	cr_assert_eq(rr_learned_usual(&a, 8).calls, 0);
	cr_assert_eq(rr_learned_usual(&b, 7).calls, 0);
	rr_learned_end(&a, 9, 30);
	rr_learned_ours(&a, true);
	cr_assert_eq(rr_learned_most(&a).calls, 30, "of any program there");
	cr_assert_eq(rr_learned_most(&b).calls, 0);
	for (int i = 0; i < 30; i++)
		rr_learned_end(&a, 7, 5);
	cr_assert_eq(rr_learned_usual(&a, 7).calls, 5, "the last ones count");
	for (int i = 0; i < 30; i++)
		rr_learned_end(&a, 7, 1);
	cr_assert_eq(rr_learned_usual(&a, 7).calls, 1);
	for (int i = 0; i < 30; i++)
		rr_learned_end(&a, 7, 5);
	cr_assert_eq(rr_learned_usual(&a, 7).calls, 5);
}

/* The eighth and ninth, the 32nd, and each 512th connection that comes after as many. */
Test(offer_when, now_and_then_a_connection_shows_what_an_upgrade_costs)
{
	struct sockaddr_in6 a = at(1), b;

	cr_assert_not(rr_learned_usual(&a, 7).again);
	for (int n = 1; n <= 1030; n++) {
		bool again = n == 8 || n == 9 || n == 32 || n == 512 || n == 1024;

		rr_learned_end(&a, 7, 20);
		cr_assert_eq(rr_learned_usual(&a, 7).again, again, "%d", n);
		cr_assert_eq(rr_learned_most(&a).again, again, "%d", n);
	}
	rr_learned_end(&a, 8, 30);
	cr_assert(rr_learned_most(&a).calls == 30 && !rr_learned_most(&a).again, "that program's");
	for (uint16_t i = 0; i < 64; i++) {
		b = at((uint16_t)(100 + i));
		rr_learned_end(&b, 7, 3);
	}
	for (int n = 1; n < 8; n++)
		rr_learned_end(&a, 7, 20);
	cr_assert_not(rr_learned_usual(&a, 7).again, "counted anew");
	rr_learned_end(&a, 7, 20);
	cr_assert(rr_learned_usual(&a, 7).again);
}

Test(offer_when, of_many_places_the_one_used_last_stays)
{
	struct sockaddr_in6 kept = at(1), p;

	rr_learned_end(&kept, 7, 20);
	for (uint16_t i = 0; i < 1000; i++) {
		p = at((uint16_t)(100 + i));
		rr_learned_end(&p, 7, 3);
		cr_assert_eq(rr_learned_usual(&kept, 7).calls, 20);
	}
	p = at(100);
	cr_assert_eq(rr_learned_usual(&p, 7).calls, 0, "the table has an end");
}

Test(offer_when, whether_there_is_one_of_ours_is_learned_and_unlearned)
{
	struct sockaddr_in6 a = at(1);

	cr_assert(!rr_learned_is_ours(&a));
	rr_learned_ours(&a, true);
	cr_assert(rr_learned_is_ours(&a));
	cr_assert_eq(rr_learned_usual(&a, 0).calls, 0, "that is no program's");
	rr_learned_ours(&a, false);
	cr_assert(!rr_learned_is_ours(&a));
}

/* Two records: one of two fragments, of which the last is empty; and one of one. */
static uint8_t stream[] = {
	0, 0, 0, 2, 'a', 'b', 0x80, 0, 0, 0,
	0x80, 0, 0, 3, 'c', 'd', 'e',
};

Test(offer_when, records_are_counted_in_any_split)
{
	for (size_t cut = 1; cut < sizeof(stream); cut++) {
		struct rr_track t = { 0 };
		struct iovec iov[2] = { { stream, cut }, { stream + cut, sizeof(stream) - cut } };

		rr_track_over(&t, iov, 2, sizeof(stream));
		cr_assert_eq(t.records, 2, "cut at %zu", cut);
		cr_assert(rr_track_at_boundary(&t));
		cr_assert_eq(t.bytes, sizeof(stream));
	}
}

Test(offer_when, only_what_the_kernel_took_counts)
{
	struct rr_track t = { 0 };
	struct iovec iov = { stream, sizeof(stream) };

	rr_track_over(&t, &iov, 1, 10);
	cr_assert_eq(t.records, 1);
	cr_assert_eq(rr_track_most(&t, stream + 10, 7), 7);
	cr_assert_eq(rr_track_most(&t, stream + 10, 2), 2, "no more of the mark is known");
}
