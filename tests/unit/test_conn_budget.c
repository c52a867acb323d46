/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer that does not read costs, and that who is full goes on when it has read. */

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/pages.h"
#include "core/conn/enter.h"
#include "tests/lib/connpair.h"

#define PAIRS	12
#define LONG	120000u
#define LONG_CALL	300000u	/* fewer than there are credits */

static struct rr_pair pair[PAIRS], *p = &pair[0];
static uint8_t out[2 << 20], in[2 << 20];
static struct rr_conn_params defaults;

static void setup(void)
{
	rr_test_params.eng.max_msg = (1 << 20) + 64;
	rr_test_params.memory = 16 << 20;
	rr_test_setup();
	rr_pair_open(p);
	defaults = rr_test_params;
}

static void teardown(void)
{
	rr_pair_close(p);
	rr_test_params = defaults;
}

TestSuite(conn_budget, .init = setup, .fini = teardown, .timeout = 60);

static void pass(struct rr_end *from, struct rr_end *to, size_t n)
{
	cr_assert_eq(rr_end_send(from, to, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(to, from, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

static void carried(struct rr_pair *q)
{
	pass(&q->client, &q->server, rr_test_call(out, 1, 10, 1));
	pass(&q->server, &q->client, rr_test_reply(out, 1, 10, 1));
	cr_assert(rr_conn_is_carried(q->client.c) && rr_conn_is_carried(q->server.c));
}

/* Bytes of chunk memory that an end has in use. */
static size_t held(const struct rr_end *e)
{
	return (size_t)e->c->share->pool.used * RR_POOL_PAGE;
}

static size_t put(bool call, uint32_t n, size_t len)
{
	return (call ? rr_test_call : rr_test_reply)(out, 100 + n, len, n);
}

/* Records of len bytes until the end is full: how many. */
static uint32_t fill(struct rr_end *e, size_t len, bool calls)
{
	for (uint32_t n = 0;; n++) {
		size_t size = put(calls, n, len);
		ssize_t rc = rr_end_try_send(e, out, size);

		if (rc == -EAGAIN)
			return n;
		cr_assert_eq(rc, (ssize_t)size, "record %u: %zd", n, rc);
		cr_assert_lt(n, 10000);
	}
}

/* The n-th of those. */
static void expect(struct rr_end *e, size_t len, uint32_t n, bool calls)
{
	size_t size = put(calls, n, len);

	cr_assert_eq(rr_end_recv(e, NULL, in, size), (ssize_t)size, "record %u", n);
	cr_assert_eq(memcmp(in, out, size), 0, "record %u", n);
}

Test(conn_budget, replies_that_nobody_reads_fill_a_connection)
{
	uint32_t n;

	carried(p);
	n = fill(&p->server, LONG, false);
	cr_assert_geq(held(&p->server), rr_test_params.budget);
	cr_assert_leq(held(&p->server), rr_test_params.budget + LONG + RR_POOL_PAGE);
	cr_assert_eq(rr_end_poll(&p->server, POLLOUT), 0);
	expect(&p->client, LONG, 0, false);
	cr_assert_eq(rr_end_poll(&p->server, POLLOUT), POLLOUT, "one was read");
	for (uint32_t i = 1; i < n; i++)
		expect(&p->client, LONG, i, false);
	cr_assert_eq(fill(&p->server, LONG, false), n);
}

Test(conn_budget, calls_that_nobody_reads_fill_a_connection)
{
	uint32_t n;

	carried(p);
	n = fill(&p->client, LONG_CALL, true);
	cr_assert_leq(held(&p->client), rr_test_params.budget + LONG_CALL + RR_POOL_PAGE);
	cr_assert_eq(rr_end_poll(&p->client, POLLOUT), 0);
	for (uint32_t i = 0; i < n; i++)
		expect(&p->server, LONG_CALL, i, true);
	cr_assert_eq(rr_end_poll(&p->client, POLLOUT), POLLOUT, "all were read, and none answered");
	cr_assert_eq(fill(&p->client, LONG_CALL, true), n);
}

/* Nothing comes to who waits, since no call is answered, but receives that the reader gives back. */
Test(conn_budget, who_sleeps_full_of_calls_wakes_when_they_are_read)
{
	struct pollfd wake;
	int armed = 1;

	carried(p);
	fill(&p->client, LONG_CALL, true);
	for (int i = 0; i < 10 && armed; i++)
		armed = rr_conn_arm(p->client.c, p->client.fd, POLLOUT);
	cr_assert_eq(armed, 0, "it would not sleep");
	wake = (struct pollfd){ rr_conn_wake_fd(p->client.c), POLLIN, 0 };
	cr_assert_eq(poll(&wake, 1, 0), 0);
	expect(&p->server, LONG_CALL, 0, true);
	cr_assert_eq(poll(&wake, 1, 0), 1);
	rr_conn_disarm(p->client.c, p->client.fd);
	cr_assert_eq(rr_end_poll(&p->client, POLLOUT), POLLOUT);
}

Test(conn_budget, a_short_message_passes_a_full_connection)
{
	size_t n;

	carried(p);
	fill(&p->server, LONG, false);
	n = rr_test_reply(out, 99999, 100, 5);
	cr_assert_eq(rr_end_try_send(&p->server, out, n), (ssize_t)n);
}

Test(conn_budget, the_longest_message_passes_however_small_the_budgets)
{
	rr_test_params.budget = 65536;
	rr_test_params.process_budget = 0;
	carried(p);
	for (uint32_t i = 0; i < 20; i++) {
		pass(&p->client, &p->server, rr_test_call(out, i, 1 << 20, i));
		pass(&p->server, &p->client, rr_test_reply(out, i, 1 << 20, i));
	}
	cr_assert(rr_conn_is_carried(p->client.c) && rr_conn_is_carried(p->server.c));
}

/* Both ends are in this process, but what is sent is in the sender's memory only. */
Test(conn_budget, the_process_has_one_budget_and_each_connection_a_part)
{
	size_t all = 0, most;

	rr_test_params.process_budget = 8 << 20;
	carried(p);
	for (int i = 1; i < PAIRS; i++) {
		rr_pair_open(&pair[i]);
		carried(&pair[i]);
		cr_assert_geq(fill(&pair[i].server, LONG, false), 1);
		all += held(&pair[i].server);
	}
	most = rr_test_params.process_budget + rr_test_params.budget;
	most += PAIRS * (65536 + LONG + RR_POOL_PAGE);
	cr_assert_leq(all, most, "%zu bytes, of %zu", all, most);
	for (uint32_t i = 0; i < 10; i++) {
		pass(&p->client, &p->server, rr_test_call(out, i, 1 << 20, i));
		pass(&p->server, &p->client, rr_test_reply(out, i, 1 << 20, i));
	}
	for (int i = 1; i < PAIRS; i++)
		rr_pair_close(&pair[i]);
	fill(&p->server, LONG, false);
	cr_assert_geq(held(&p->server), rr_test_params.budget, "what the others had has come back");
}

/* Pages of an end's chunk memory that exist. */
static size_t resident(const struct rr_end *e)
{
	const struct rr_qp *qp = e->c->share->qp;
	size_t n = qp->mem_size / RR_PAGE, there = 0;
	static unsigned char vec[8192];

	cr_assert_leq(n, sizeof(vec));
	cr_assert_eq(mincore(qp->mem, qp->mem_size, vec), 0);
	for (size_t i = 0; i < n; i++)
		there += vec[i] & 1;
	return there;
}

/* As long as one message is not read, and others come and go, it is neither idle nor empty. */
Test(conn_budget, memory_that_was_used_once_counts_until_it_is_given_back)
{
	size_t n;

	carried(p);
	pass(&p->server, &p->client, rr_test_reply(out, 1, 1 << 20, 1));
	n = rr_test_reply(out, 2, 20000, 2);
	cr_assert_eq(rr_end_send(&p->server, &p->client, out, n), (ssize_t)n);
	cr_assert_geq(resident(&p->server), (1 << 20) / RR_PAGE);
	rr_test_params.process_budget = 1 << 20;
	rr_end_poll(&p->server, POLLIN);
	cr_assert_leq(resident(&p->server), 16 + 20000 / RR_PAGE + 1);
}

/* In a child the account is what its own connections hold, whatever becomes of it. */
Test(conn_budget, a_child_neither_keeps_nor_gives_back_its_parents)
{
	rr_test_params.process_budget = 8 << 20;
	carried(p);
	for (int i = 1; i < 3; i++) {
		rr_pair_open(&pair[i]);
		carried(&pair[i]);
		fill(&pair[i].server, LONG, false);
	}
	for (int i = 0; i < 4; i++) {
		int status;
		pid_t pid;

		rr_conn_fork_prepare();
		for (int k = 0; k < 3; k++) {
			rr_conn_forked(pair[k].client.c);
			rr_conn_forked(pair[k].server.c);
		}
		pid = fork();
		if (!pid) {
			rr_conn_fork_child();
			for (int k = 1; k < 3 && i != 3; k++)
				rr_pair_close(&pair[k]);
			_exit(i == 3 || fill(&p->server, LONG, false) * LONG > 3u << 20 ? 0 : 1);
		}
		rr_conn_fork_parent();
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0, "child %d: %x", i, status);
		for (uint32_t n = 0; p->client.c->share->rx.bytes || rr_end_poll(&p->client, POLLIN); n++)
			expect(&p->client, LONG, n, false);
		rr_end_poll(&p->server, POLLIN);
	}
	cr_assert_leq(fill(&p->server, LONG, false), 1, "nothing has come back");
	for (int i = 1; i < 3; i++)
		rr_pair_close(&pair[i]);
	fill(&p->server, LONG, false);
	cr_assert_geq(held(&p->server), rr_test_params.budget);
}

Test(conn_budget, what_comes_ahead_of_the_app_is_counted_too)
{
	size_t n;

	rr_test_params.process_budget = 0;
	carried(p);
	n = rr_test_call(out, 7, 3000, 7);
	while (rr_end_try_send(&p->client, out, n) == (ssize_t)n)
		rr_end_poll(&p->server, POLLOUT);
	cr_assert_leq(p->server.c->share->rx.stash, 65536);
	cr_assert_gt(p->server.c->share->rx.stash, 0);
}

Test(conn_budget, many_connections_have_fewer_receives_each)
{
	uint32_t usual, few;

	carried(p);
	usual = p->server.c->share->qp->recvs;
	rr_test_params.process_budget = 4 << 20;
	for (int i = 1; i < PAIRS; i++) {
		rr_pair_open(&pair[i]);
		carried(&pair[i]);
	}
	few = pair[PAIRS - 1].server.c->share->qp->recvs;
	cr_assert_lt(few, usual);
	cr_assert_eq(few, RR_PROV_FEW);
	for (int i = 1; i < PAIRS; i++)
		rr_pair_close(&pair[i]);
	rr_test_params.process_budget = 256 << 20;
	rr_pair_open(&pair[1]);
	carried(&pair[1]);
	cr_assert_eq(pair[1].server.c->share->qp->recvs, usual);
	rr_pair_close(&pair[1]);
}

Test(conn_budget, a_few_receives_of_the_largest_size_at_least)
{
	cr_assert_eq(rr_budget_recvs(100, 262144), RR_PROV_FEW);
	cr_assert_eq(rr_budget_recvs(10, 262144), 10);
	cr_assert_eq(rr_budget_recvs(4000, 1024), 4194304 / (4096 + 384));
}

/* A record of many fragments gets more memory while it is written: all of it counts as on its way out. */
Test(conn_budget, memory_that_a_record_gets_later_is_on_its_way_out_too)
{
	const struct rr_share *sh;
	size_t n;

	carried(p);
	sh = p->client.c->share;
	n = rr_test_call(out, 2, 100000, 2);
	for (size_t at = 4, len = 20000; at < n; at += len) {
		static uint8_t piece[4 + 20000];
		size_t take = rr_min(len, n - at);

		piece[0] = 0;	/* not the last */
		piece[1] = (uint8_t)(take >> 16);
		piece[2] = (uint8_t)(take >> 8);
		piece[3] = (uint8_t)take;
		memcpy(piece + 4, out + at, take);
		cr_assert_eq(rr_end_send(&p->client, &p->server, piece, 4 + take), (ssize_t)(4 + take));
		cr_assert(sh->pool.used * RR_POOL_PAGE >= at - 4 + take && sh->pool.out == sh->pool.used, "%u of %u",
			  sh->pool.out, sh->pool.used);
	}
	cr_assert_eq(rr_end_send(&p->client, &p->server, "\x80\0\0\0", 4), 4);
	cr_assert_eq(rr_end_recv_record(&p->server, &p->client, in, sizeof(in)), (ssize_t)n - 4);
	cr_assert_eq(memcmp(in, out + 4, n - 4), 0);
}
