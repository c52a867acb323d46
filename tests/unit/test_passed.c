/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes by on TCP is counted, and a call that is alone under way is timed. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/os.h"
#include "core/conn/base/price.h"
#include "core/conn/first.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/unit/played_clock.h"

#define LONG	(70 * RR_MSEC)

static struct rr_conn c;
static uint8_t record[44] = { 0x80, 0, 0, 40 };

/* A connection of which the app reads and writes the socket itself; calls are known to take as long. */
static void begin(void)
{
	memset(&c, 0, sizeof(c));
	rr_conn_turn(&c, RR_S_WATCH);
	now = START;
	while (rr_price_trip() != LONG)
		rr_price_tripped(LONG);
}

TestSuite(passed, .init = begin, .timeout = 60);

static void goes(size_t n)
{
	rr_passed_out(&c, &(struct iovec){ record, sizeof(record) }, 1, n);
}

static void comes(size_t n)
{
	rr_passed_in(&c, &(struct iovec){ record, sizeof(record) }, 1, 0, n);
}

static void takes(rr_time took)
{
	cr_assert_eq(rr_price_trip(), took);
	begin();
}

Test(passed, a_call_takes_from_its_last_byte_to_its_replys_last_byte)
{
	goes(20);
	cr_assert_eq(c.alone_since, 0, "it is not out yet");
	now += 100;
	rr_passed_out(&c, &(struct iovec){ record + 20, 24 }, 1, 24);
	cr_assert(c.alone_since == START + 100 && c.out.records == 1 && c.out.bytes == 44);
	now += 1000;
	comes(30);
	cr_assert(c.alone_since == START + 100 && c.in.bytes == 30);
	now += 1000;
	/* Behind what the app had before: at an offset of 30. */
	rr_passed_in(&c, &(struct iovec){ record, sizeof(record) }, 1, 30, 14);
	cr_assert(c.alone_since == 0 && c.in.records == 1 && c.in.bytes == 44 && !c.in.rm.in_record);
	takes(2000);
}

Test(passed, what_comes_then_is_no_reply_to_it)
{
	goes(44);
	now += 50;
	comes(44);
	cr_assert_eq(rr_price_trip(), 50);
	now += 3;
	comes(0);	/* as at the end of the stream */
	cr_assert_eq(rr_price_trip(), 50);
	goes(44);
	cr_assert_eq(c.alone_since, START + 53);
	now += 7;
	comes(44);
	takes(7);
}

Test(passed, calls_that_are_under_way_together_are_not_timed)
{
	goes(44);
	now += 5;
	goes(44);
	cr_assert_eq(c.alone_since, 0);
	comes(44);
	comes(44);
	takes(LONG);
	goes(44);
	comes(44);
	comes(44);	/* a record that nobody has asked for */
	goes(44);
	cr_assert_eq(c.alone_since, 0);
	begin();
	/* The second one is alone once the first has its reply, but its time was not noted. */
	goes(44);
	goes(44);
	comes(44);
	now += 9;
	comes(44);
	takes(LONG);
}

Test(passed, a_server_times_nothing)
{
	c.face.server = true;
	c.in.records = 5;
	c.out.records = 4;
	goes(44);
	cr_assert(c.alone_since == 0 && c.out.records == 5);
	c.out.records = 5;
	goes(44);
	cr_assert_eq(c.alone_since, 0);
	takes(LONG);
}

/* The peer does more then than to answer. */
Test(passed, with_an_offer_under_way_a_call_is_not_timed)
{
	rr_conn_turn(&c, RR_S_ASKED);
	goes(44);
	cr_assert_eq(c.alone_since, START);
	now += 5;
	comes(44);
	cr_assert_eq(c.alone_since, 0);
	takes(LONG);
}

/* The first bytes make of a client's connection one that is looked at; what goes later changes nothing but the counts. */
Test(passed, what_goes_later_is_only_counted)
{
	struct iovec v = { record, sizeof(record) };

	for (int server = 0; server < 2; server++) {
		begin();
		c.face.server = server;
		c.out.records = !server;
		rr_conn_turn(&c, RR_S_ASKED);
		rr_conn_went_out(&c, &v, 1, 44);
		cr_assert(rr_conn_st(&c) == RR_S_ASKED && !c.called);
		cr_assert(c.out.records == 1 + !server && c.out.bytes == 44 && c.in.bytes == 0);
		rr_conn_came_in(&c, &v, 1, 44);
		cr_assert(c.in.records == 1 && c.in.bytes == 44);
	}
}
