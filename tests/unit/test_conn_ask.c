/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers to who is not known, on another host: the first call waits for the answer and for nothing else, an answer that is
 * late is taken all the same, and others go on by TCP until then. */
#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/conn/enter.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/unit/conn_pair.h"

static void begin(void)
{
	rr_test_params.offer_after = 1;
	rr_test_params.upgrade_timeout = 60 * RR_SEC;
	setup();
}

TestSuite(conn_ask, .init = begin, .fini = teardown, .timeout = 60);

static enum rr_conn_st state(const struct rr_end *e)
{
	return rr_conn_st(e->c);
}

/* As to a server of another host: the call is held, and its offer is out. How long the call is. */
static size_t ask(void)
{
	size_t n = rr_test_call(out, 1, 100, 1);
	struct iovec iov = { out, n };
	struct rr_lock *l;

	cr_assert_eq(rr_conn_hold(p.client.c, &l), RR_S_NEW);
	cr_assert_eq(rr_upgrade_first_write(p.client.c, p.client.fd, &iov, 1), 0);
	rr_lock_drop(l);
	cr_assert_eq(state(&p.client), RR_S_OFFERED);
	return n;
}

static size_t ask_in_vain(void)
{
	size_t n;

	rr_test_params.upgrade_timeout = RR_MSEC;
	n = ask();
	rr_test_params.upgrade_timeout = 60 * RR_SEC;
	rr_os_nap(2 * RR_MSEC);
	return n;
}

static void answers(void)
{
	for (int i = 0; i < 5000 && state(&p.server) == RR_S_NEW; i++) {
		rr_end_poll(&p.server, POLLIN);
		rr_os_nap(RR_MSEC);
	}
	cr_assert_eq(state(&p.server), RR_S_SAID);
	cr_assert_gt(p.server.c->deadline, rr_now());
	cr_assert_neq(rr_half_due(), 0, "it does not wait for ever");
}

static void sends(size_t n)
{
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
}

/* What was sent, from one end to the other, where it was not read yet. */
static void finds(struct rr_end *to, struct rr_end *from, size_t n)
{
	cr_assert_eq(rr_end_recv(to, from, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

static void goes_on(bool carried)
{
	for (uint32_t i = 100; i < 110; i++) {
		one_way(&p.client, &p.server, rr_test_call(out, i, 100, i));
		one_way(&p.server, &p.client, rr_test_reply(out, i, 300, i));
	}
	cr_assert_eq(rr_conn_is_carried(p.client.c), carried);
	cr_assert_eq(rr_conn_is_carried(p.server.c), carried);
	if (carried) {
		cr_assert_not(rr_tx_is_early(p.client.c->share) || rr_rx_is_early(p.client.c->share));
		/* without statistics all connections have the same counters */
		cr_assert_eq(p.client.c->share->qp->count->v[RR_C_crossings], 2, "each direction once");
		cr_assert_eq(p.client.c->share->qp->count->v[RR_C_memory_stalls], 0);
	}
}

static enum rr_reason known(void)
{
	return rr_cache_look(&p.client.c->peer, rr_now());
}

Test(conn_ask, the_call_goes_by_tcp_as_soon_as_there_is_an_answer)
{
	size_t n = ask();

	cr_assert_eq(rr_end_try_send(&p.client, out, n), -EAGAIN, "it waits for that");
	answers();
	sends(n);
	finds(&p.server, &p.client, n);
	cr_assert(rr_learned_is_ours(&p.client.c->peer), "others need not ask");
	goes_on(true);
}

Test(conn_ask, an_answer_that_is_late_is_taken)
{
	size_t n = ask_in_vain();

	sends(n);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	cr_assert_eq(known(), RR_R_TIMEOUT);
	answers();
	finds(&p.server, &p.client, n);
	goes_on(true);
	cr_assert_eq(known(), RR_R_NONE, "what was believed of a busy server is taken back");
}

Test(conn_ask, an_answer_that_is_late_and_no_shims_is_not_seen)
{
	static const uint8_t accepted[20] = { [3] = 1, [19] = 1 };	/* PROG_UNAVAIL */
	size_t n = ask_in_vain(), len;
	uint32_t xid = htonl(p.client.c->xid), mark = htonl(UINT32_C(0x80000000) | 24);

	sends(n);
	cr_assert_eq(rr_os->send(p.server.fd, &mark, 4, 0), 4);
	cr_assert_eq(rr_os->send(p.server.fd, &xid, 4, 0), 4);
	cr_assert_eq(rr_os->send(p.server.fd, accepted, 20, 0), 20);
	len = rr_test_reply(out, 1, 300, 1);
	cr_assert_eq(rr_os->send(p.server.fd, out, len, 0), (ssize_t)len);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, len), (ssize_t)len);
	cr_assert_eq(memcmp(in, out, len), 0);
	cr_assert(rr_conn_is_tcp(p.client.c));
	cr_assert_eq(known(), RR_R_NEGATIVE_CACHE);
}

Test(conn_ask, while_an_answer_is_late_others_go_on_and_offer_later)
{
	size_t n = rr_test_call(out, 1, 100, 1);
	uint32_t served = rr_conn_serves(p.listener);

	rr_cache_add(&p.client.c->peer, RR_R_TIMEOUT, rr_now() + 60 * RR_SEC);
	sends(n);
	cr_assert_eq(state(&p.client), RR_S_WATCH);
	finds(&p.server, &p.client, n);
	rr_cache_drop(&p.client.c->peer);
	n = rr_test_call(out, 2, 100, 2);
	sends(n);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	finds(&p.server, &p.client, n);
	goes_on(true);
	rr_conn_serves_not(served);
}

Test(conn_ask, a_server_that_ends_in_place_of_an_answer_is_asked_first_the_next_time)
{
	size_t n = rr_test_call(out, 1, 100, 1);
	uint32_t served = rr_conn_serves(p.listener);

	rr_learned_ours(&p.client.c->peer, true);
	sends(n);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	finds(&p.server, &p.client, n);
	rr_end_close(&p.server);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, 1), 0);
	cr_assert_not(rr_learned_is_ours(&p.client.c->peer));
	rr_conn_serves_not(served);
}

Test(conn_ask, who_waits_as_a_rule_says_is_carried_before_its_call)
{
	rr_test_params.offer_after = RR_AFTER_WAIT;
	one_way(&p.client, &p.server, rr_test_call(out, 1, 100, 1));
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
	cr_assert_not(p.client.c->meanwhile);
}

Test(conn_ask, a_part_of_a_set_up_that_takes_long_is_followed_by_as_much_time)
{
	cr_assert_eq(rr_when_next(RR_SEC, RR_SEC + 20 * RR_MSEC), RR_SEC + 40 * RR_MSEC);
	cr_assert_eq(rr_when_next(RR_SEC, RR_SEC + 100 * RR_USEC), RR_SEC + 200 * RR_USEC);
	cr_assert_eq(rr_when_next(RR_SEC, RR_SEC + 99 * RR_USEC), 0, "nothing was set up");
}

/* Nor is it passed by on the way to the end of the queue: as many may stand there as strangers like. */
Test(conn_ask, who_has_longer_keeps_nobody_from_ending)
{
	struct rr_conn *astray = (struct rr_conn *)1;
	rr_time now = rr_now();
	struct rr_pair q;

	ask();
	answers();
	rr_half_leave(p.server.c);
	p.server.c->deadline = now + 3600 * RR_SEC;
	rr_half_add(p.server.c, true);
	p.server.c->half_prev = astray;
	rr_pair_open(&q);
	rr_half_leave(q.server.c);
	q.server.c->deadline = now + RR_SEC;
	rr_half_add(q.server.c, false);
	cr_assert_eq(rr_half_due(), now + RR_SEC);
	rr_half_leave(q.server.c);
	p.server.c->half_prev = NULL;
	cr_assert_eq(rr_half_due(), now + 3600 * RR_SEC);
	rr_pair_close(&q);
}

/* A peer that has crossed and ends: between two hosts the mark may come before the word that it crosses. */
Test(conn_ask, an_end_mark_is_not_for_the_app_though_nobody_has_heard_of_a_crossing)
{
	uint8_t mark[RR_MARK_LEN] = { 0 };
	size_t n = ask();
	struct rr_share *sh;

	answers();
	sends(n);
	finds(&p.server, &p.client, n);
	cr_assert(rr_conn_is_carried(p.client.c));
	sh = p.client.c->share;
	cr_assert(rr_rx_is_early(sh), "the server has yet to reply");
	memcpy(mark, sh->token, RR_TOKEN_LEN);
	cr_assert_eq(write(p.server.fd, mark, sizeof(mark)), (ssize_t)sizeof(mark));
	for (int i = 0; i < 3; i++)
		cr_assert_eq(rr_end_try_recv(&p.client, in, 100, 0), -EAGAIN);
	cr_assert_eq(rr_queue_bytes(p.client.fd), sizeof(mark), "it is there still");
}
