/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONN_PAIR_H
#define CONN_PAIR_H

/* For tests of a connection of which both ends are in this process: made for each test, and taken away. */

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>

#include "core/conn/base/price.h"
#include "tests/lib/connpair.h"

static struct rr_pair p;
static uint8_t out[3 << 20], in[3 << 20];

static void setup(void)
{
	rr_test_setup();
	rr_pair_open(&p);
}

static inline void teardown(void)
{
	rr_pair_close(&p);
}

static inline void one_way(struct rr_end *from, struct rr_end *to, size_t n)
{
	cr_assert_eq(rr_end_send(from, to, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(to, from, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

static inline void carried(void)
{
	one_way(&p.client, &p.server, rr_test_call(out, 1, 10, 1));
	one_way(&p.server, &p.client, rr_test_reply(out, 1, 10, 1));
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

static inline void client_calls(void)
{
	size_t n = rr_test_call(out, 2, 10, 1);

	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
}

/* As if calls by TCP took a second, so that one that is timed is noticed. */
static inline rr_time trip_is_long(void)
{
	for (int i = 0; i < 200; i++)
		rr_price_tripped(RR_SEC);
	cr_assert_eq(rr_price_trip(), RR_SEC);
	return RR_SEC;
}

/* Would a thread that sleeps on the connection's wake-up fd wake? */
static inline bool bell_rings(const struct rr_conn *c)
{
	struct pollfd w = { rr_conn_wake_fd(c), POLLIN, 0 };

	return poll(&w, 1, 0) > 0;
}

#endif
