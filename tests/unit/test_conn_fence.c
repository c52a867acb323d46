/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that says that it copies from or to our memory, which is being taken back, and goes on saying so: by a
 * word in the memory that both share. Nothing waits for that word. */

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/enter.h"
#include "tests/unit/copies.h"

TestSuite(conn_fence, .init = setup, .fini = teardown, .timeout = 60);

static long sleeps(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

/* A thread that waits for e looks again in time, though nothing will wake it. */
static void looks_again(const struct rr_end *e)
{
	struct pollfd fds[2];
	rr_time until, now = rr_now();

	cr_assert_eq(rr_conn_arm(e->c, e->fd, POLLIN), 0);
	rr_conn_fds(e->c, e->fd, POLLIN, fds, &until);
	cr_assert_leq(until, now + 100 * RR_MSEC);
	rr_conn_disarm(e->c, e->fd);
}

/* And sleeps in peace, if there is nothing to look for. */
static void sleeps_on(const struct rr_end *e)
{
	struct pollfd fds[2];
	rr_time until;

	cr_assert_eq(rr_conn_arm(e->c, e->fd, POLLIN), 0);
	rr_conn_fds(e->c, e->fd, POLLIN, fds, &until);
	cr_assert_geq(until, rr_now() + RR_SEC);
	rr_conn_disarm(e->c, e->fd);
}

/* --- the server's reply, which the client is to pull ------------------------------------- */

/* The client has pulled a long reply, said so, and claims that it still copies. */
static void pulled_and_held(void)
{
	carried();
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 1));
	is_held(&p.server, &p.client, rr_test_reply(out, 2, 200000, 2));
}

Test(conn_fence, a_server_does_not_wait_for_a_client_that_copies_a_reply)
{
	const struct rr_share *sh;
	long before;
	uint32_t was;

	pulled_and_held();
	sh = p.server.c->share;
	was = sh->pool.used;
	cr_assert_neq(was, 0);
	before = sleeps();
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert_eq(sleeps(), before);
	cr_assert_eq(shm_of(&p.server)->key_live, 0);
	cr_assert_eq(sh->pool.used, was, "nobody else may have the memory");
	looks_again(&p.server);

	copies(&p.server, 0);
	cr_assert(rr_conn_peek(p.server.c, POLLIN));
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert_eq(sh->pool.used, 0);
	sleeps_on(&p.server);
	one_way(&p.client, &p.server, rr_test_call(out, 3, 10, 1));
	one_way(&p.server, &p.client, rr_test_reply(out, 3, 200000, 1));
}

/* What it keeps from us it has itself to do without. */
Test(conn_fence, a_server_serves_on_while_a_client_copies_a_reply)
{
	const struct rr_share *sh;
	uint32_t used;

	pulled_and_held();
	sh = p.server.c->share;
	used = sh->pool.used;
	for (uint32_t xid = 3; xid < 300; xid++) {
		one_way(&p.client, &p.server, rr_test_call(out, xid, 10, 1));
		one_way(&p.server, &p.client, rr_test_reply(out, xid, 100, 1));
	}
	cr_assert_eq(sh->pool.used, used);
}

Test(conn_fence, a_client_that_copies_for_ever_loses_its_connection)
{
	pulled_and_held();
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	shm_of(&p.server)->fence_end = rr_now_coarse();	/* half a second later */
	cr_assert_eq(rr_end_poll(&p.server, POLLIN) & (POLLIN | POLLERR), POLLIN | POLLERR);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -ECONNRESET);
}

Test(conn_fence, a_client_that_copies_and_is_gone_keeps_nothing)
{
	pulled_and_held();
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert_eq(p.server.c->share->fences, 1);
	rr_end_close(&p.client);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, 1), 0);
	cr_assert_eq(p.server.c->share->fences, 0);
	cr_assert_eq(p.server.c->share->pool.used, 0);
}

/* --- the client's arguments, which the server reads ---------------------------------------- */

/* The server answers a long call, and claims that it still copies its arguments. */
static size_t answered_and_held(void)
{
	size_t n;

	call_is_held();
	n = rr_test_reply(out, 2, 100, 3);
	cr_assert_eq(rr_end_send(&p.server, NULL, out, n), (ssize_t)n);
	return n;
}

/* RFC 8166 §8.1.3: no byte for the app before the peer's access has ended. */
/* req: rfc8166 4.5.4 #1 */
Test(conn_fence, a_reply_comes_when_the_copy_of_its_call_has_ended)
{
	size_t n = answered_and_held();
	long before = sleeps();

	cr_assert_eq(rr_end_try_recv(&p.client, in, n, 0), -EAGAIN);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), 0);
	cr_assert_eq(sleeps(), before);
	looks_again(&p.client);
	copies(&p.client, 0);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), POLLIN);
	cr_assert_eq(rr_end_try_recv(&p.client, in, sizeof(in), 0), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	sleeps_on(&p.client);
}

/* They are in receives, which were looked at when they came. */
Test(conn_fence, replies_behind_it_come_in_order)
{
	size_t n, total = answered_and_held();

	for (uint32_t xid = 3; xid < 20; xid++) {
		n = rr_test_call(in, xid, 10, xid);
		cr_assert_eq(rr_end_send(&p.client, NULL, in, n), (ssize_t)n);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
		n = rr_test_reply(out + total, xid, 50 * xid, xid);
		cr_assert_eq(rr_end_send(&p.server, NULL, out + total, n), (ssize_t)n);
		cr_assert_eq(rr_end_try_recv(&p.client, in, sizeof(in), 0), -EAGAIN);
		total += n;
	}
	copies(&p.client, 0);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, total), (ssize_t)total);
	cr_assert_eq(memcmp(in, out, total), 0);
}

static size_t long_reply(uint32_t xid, size_t at)
{
	size_t n = rr_test_reply(out + at, xid, 60000, xid);

	cr_assert_eq(rr_end_send(&p.server, NULL, out + at, n), (ssize_t)n);
	return n;
}

/* The client is told of their pieces: of those of the next one, too, while the first one waits. */
Test(conn_fence, so_do_long_ones)
{
	size_t total = 0;

	call_is_held();
	for (uint32_t xid = 3; xid < 6; xid++)
		one_way(&p.client, &p.server, rr_test_call(out, xid, 10, xid));
	for (uint32_t xid = 2; xid < 6; xid++) {
		total += long_reply(xid, total);
		rr_drv_progress(p.client.c->share);
	}
	cr_assert_gt(p.server.c->share->qp->count->v[RR_C_advances_sent], 4);
	copies(&p.client, 0);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, total), (ssize_t)total);
	cr_assert_eq(memcmp(in, out, total), 0);
}

Test(conn_fence, of_a_server_that_copies_for_ever_no_reply_comes)
{
	size_t n = answered_and_held();

	cr_assert_eq(rr_end_try_recv(&p.client, in, n, 0), -EAGAIN);
	shm_of(&p.client)->fence_end = rr_now_coarse();
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), -ECONNRESET);
}
