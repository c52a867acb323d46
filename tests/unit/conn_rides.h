/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONN_RIDES_H
#define CONN_RIDES_H

/* For tests of a connection whose offer goes with one of its calls. */

#include <sys/ioctl.h>

#include "core/base/os.h"
#include "core/conn/base/state.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/unit/conn_pair.h"

static uint32_t served;

/* The offer goes with that call. */
static inline void open_after(uint32_t after)
{
	rr_test_params.offer_after = after;
	setup();
	served = rr_conn_serves(p.listener);
	cr_assert(served);
}

static inline void serves_no_more(void)
{
	rr_conn_serves_not(served);
	served = 0;
}

static inline void leave(void)
{
	if (served)
		serves_no_more();
	teardown();
}

static inline enum rr_conn_st state(const struct rr_end *e)
{
	return rr_conn_st(e->c);
}

static inline size_t queued(const struct rr_end *e)
{
	int n = 0;

	ioctl(e->fd, FIONREAD, &n);
	return (size_t)n;
}

/* Bytes in the kernel, ours among them: as soon as there are so many. */
static inline size_t arrived(const struct rr_end *e, size_t n)
{
	for (int i = 0; i < 5000 && queued(e) < n; i++)
		rr_os_nap(RR_MSEC);
	cr_assert(queued(e) >= n);
	return queued(e);
}

static inline void sends(struct rr_end *e, const uint8_t *buf, size_t n)
{
	cr_assert_eq(rr_end_try_send(e, buf, n), (ssize_t)n);
}

/* One recv() finds these bytes of the app's and no others. */
static inline void finds(struct rr_end *e, const uint8_t *buf, size_t n, int flags)
{
	ssize_t got = rr_end_try_recv(e, in, sizeof(in), flags);

	cr_assert_eq(got, (ssize_t)n, "%zd of %zu", got, n);
	cr_assert_eq(memcmp(in, buf, n), 0);
}

static inline void exchange(uint32_t xid)
{
	one_way(&p.client, &p.server, rr_test_call(out, xid, 100, xid));
	one_way(&p.server, &p.client, rr_test_reply(out, xid, 300, xid));
}

static inline void goes_on_until_carried(void)
{
	for (uint32_t i = 100; i < 110; i++)
		exchange(i);
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
	cr_assert_not(rr_tx_is_early(p.client.c->share) || rr_rx_is_early(p.client.c->share));
}

static inline void goes_on_by_tcp(void)
{
	for (uint32_t i = 100; i < 104; i++)
		exchange(i);
	cr_assert_not(rr_conn_is_carried(p.client.c) || rr_conn_is_carried(p.server.c));
}

/* The first call, with the offer, is in the server's hands. */
static inline size_t asks(void)
{
	size_t n = rr_test_call(out, 1, 100, 1);

	sends(&p.client, out, n);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	cr_assert_gt(arrived(&p.server, n + 1), n);
	return n;
}

static inline void hears(void)
{
	finds(&p.server, out, asks(), 0);
	cr_assert_eq(state(&p.server), RR_S_HEARD);
}

/* Its reply, of so many bytes, is on its way to the client, and the answer with it. */
static inline size_t answers(void)
{
	size_t n;

	hears();
	n = rr_test_reply(out, 1, 100, 1);
	sends(&p.server, out, n);
	cr_assert_eq(state(&p.server), RR_S_SAID);
	cr_assert_gt(arrived(&p.client, n + 1), n);
	return n;
}

#endif
