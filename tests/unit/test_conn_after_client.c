/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's connection that is made when its first call has gone by: it knows what has, and is upgraded as another.
 * Also where it may be made so late, and what is learned from one that never was. */
#include <sys/un.h>

#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/price.h"
#include "core/conn/base/state.h"
#include "core/conn/first.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/unit/conn_pair.h"

static uint32_t served;
static struct sockaddr_in at;
static struct rr_conn_passed f;

static void begin(void)
{
	socklen_t len = sizeof(at);

	rr_test_params.offer_after = 2;
	rr_test_params.alike = true;
	setup();
	served = rr_conn_serves(p.listener);
	cr_assert(served);
	cr_assert_eq(getsockname(p.listener, (struct sockaddr *)&at, &len), 0);
	cr_assert(rr_conn_may_wait(&f, false, (struct sockaddr *)&at, sizeof(at)));
	rr_conn_free(p.client.c);
	p.client.c = NULL;
}

static void leave(void)
{
	rr_conn_serves_not(served);
	teardown();
}

TestSuite(conn_after_client, .init = begin, .fini = leave, .timeout = 60);

/* The kernel's own call, as long as the client has no connection. */
static void kernel_sends(const uint8_t *from, size_t n)
{
	cr_assert_eq(send(p.client.fd, from, n, 0), (ssize_t)n);
}

static size_t calls(void)
{
	size_t n = rr_test_call(out, 1, 100, 1);

	kernel_sends(out, n);
	cr_assert(rr_conn_first_went(&f, out, n));
	cr_assert(f.out == n && f.nout == 1 && f.called && f.xid == 1 && f.prog == 0x20005244 && f.asked);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
	return n;
}

static size_t kernel_takes_reply(size_t most)
{
	size_t n = rr_test_reply(out, 1, 300, 1);

	cr_assert_eq(rr_end_send(&p.server, NULL, out, n), (ssize_t)n);
	n = rr_min(n, most);
	cr_assert_eq(recv(p.client.fd, in, n, MSG_WAITALL), (ssize_t)n);
	return n;
}

static void is_made(void)
{
	p.client.c = rr_conn_after(p.client.fd, &f);
	cr_assert_not_null(p.client.c);
	cr_assert_eq(memcmp(&p.client.c->peer, &at, sizeof(at)), 0);
	cr_assert_eq(p.client.c->peer_len, sizeof(at));
}

static void goes_on_until_carried(void)
{
	for (uint32_t i = 100; i < 110; i++) {
		one_way(&p.client, &p.server, rr_test_call(out, i, 100, i));
		one_way(&p.server, &p.client, rr_test_reply(out, i, 300, i));
	}
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

Test(conn_after_client, behind_a_call_and_its_reply)
{
	size_t n = calls();

	trip_is_long();
	rr_os_nap(20 * RR_MSEC);
	cr_assert(rr_conn_first_came(&f, in, kernel_takes_reply(SIZE_MAX)));
	cr_assert(f.in == rr_test_reply(out, 1, 300, 1) && f.nin == 1 && f.asked == 0);
	cr_assert_geq(rr_price_trip(), 20 * RR_MSEC);
	cr_assert_lt(rr_price_trip(), RR_SEC);
	is_made();
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_WATCH);
	cr_assert(p.client.c->out.bytes == n && p.client.c->out.records == 1);
	cr_assert(p.client.c->in.bytes == f.in && p.client.c->in.records == 1);
	cr_assert(p.client.c->called && p.client.c->prog == f.prog && p.client.c->xid == 1 && !p.client.c->alone_since);
	cr_assert(!p.client.c->told[0] && !p.client.c->told[1], "what connect() was given may be another name");
	cr_assert(rr_ride_seen_all(p.client.c, p.client.fd));
	goes_on_until_carried();
}

Test(conn_after_client, behind_several_calls)
{
	size_t first = calls(), n;

	cr_assert(rr_conn_first_came(&f, in, kernel_takes_reply(SIZE_MAX)));
	n = rr_test_call(out, 2, 9, 1);
	kernel_sends(out, n);
	f.xid = 77;
	cr_assert(rr_conn_first_went(&f, out, n));
	cr_assert(f.out == first + n && f.nout == 2 && f.xid == 77 && f.asked, "the first has said what is called");
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
	is_made();
	cr_assert(p.client.c->out.records == 2 && p.client.c->out.bytes == first + n && p.client.c->in.records == 1);
	one_way(&p.server, &p.client, rr_test_reply(out, 2, 300, 1));
	cr_assert_eq(p.client.c->in.records, 2);
	goes_on_until_carried();
}

Test(conn_after_client, behind_a_call_that_is_under_way)
{
	size_t n = calls();

	trip_is_long();
	is_made();
	cr_assert(p.client.c->out.records == 1 && p.client.c->in.records == 0 && p.client.c->alone_since == f.asked);
	n = rr_test_reply(out, 1, 300, 1);
	one_way(&p.server, &p.client, n);
	cr_assert_lt(rr_price_trip(), RR_SEC);
	goes_on_until_carried();
}

Test(conn_after_client, behind_a_part_of_the_reply)
{
	size_t half, n = rr_test_reply(out, 1, 300, 1);
	struct iovec iov = { in, n };

	trip_is_long();
	calls();
	half = kernel_takes_reply(n / 2);
	cr_assert_not(rr_conn_first_came(&f, in, half));
	cr_assert(f.in == 0 && f.asked != 0 && rr_price_trip() == RR_SEC);
	is_made();
	rr_conn_came_in(p.client.c, &iov, 1, half);
	cr_assert(p.client.c->in.bytes == half && p.client.c->in.records == 0);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n - half), (ssize_t)(n - half));
	cr_assert(p.client.c->in.records == 1 && rr_price_trip() < RR_SEC);
	goes_on_until_carried();
}

Test(conn_after_client, behind_a_part_of_the_call)
{
	size_t n = rr_test_call(out, 1, 100, 1), half = n / 2;
	struct iovec iov = { out, n };

	kernel_sends(out, half);
	cr_assert_not(rr_conn_first_went(&f, out, half));
	cr_assert(!f.out && !f.asked);
	is_made();
	rr_conn_went_out(p.client.c, &iov, 1, half);
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_WATCH);
	cr_assert(p.client.c->out.bytes == half && p.client.c->out.records == 0 && p.client.c->called);
	cr_assert_eq(rr_end_send(&p.client, NULL, out + half, n - half), (ssize_t)(n - half));
	cr_assert_eq(p.client.c->out.records, 1);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
	one_way(&p.server, &p.client, rr_test_reply(out, 1, 300, 1));
	goes_on_until_carried();
}

Test(conn_after_client, behind_what_is_not_rpc)
{
	struct iovec iov = { out, 30 };

	memset(out, 'x', 30);
	kernel_sends(out, 30);
	cr_assert_not(rr_conn_first_went(&f, out, 30));
	is_made();
	rr_conn_went_out(p.client.c, &iov, 1, 30);
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_TCP);
	cr_assert_eq(p.client.c->st->reason, RR_R_NOT_RPC);
}

/* A record that is a reply, or too short to tell. */
Test(conn_after_client, a_record_that_is_no_call_is_not_noted)
{
	size_t n = rr_test_reply(out, 1, 40, 1);

	cr_assert_not(rr_conn_first_went(&f, out, n));
	cr_assert_not(rr_conn_first_went(&f, (uint8_t[]){ 0x80, 0, 0, 1, 9 }, 5));
	cr_assert(!f.out && !f.asked && !f.called);
	cr_assert(rr_conn_first_went(&f, out, rr_test_call(out, 7, 5, 1)));
	cr_assert(f.xid == 7);
}

Test(conn_after_client, before_anything_has_gone_by)
{
	is_made();
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_NEW);
	goes_on_until_carried();
}

Test(conn_after_client, an_address_that_the_kernel_has_told_is_not_asked_for)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = 8 };

	calls();
	f.given = false;
	memcpy(&f.end[0], &own, sizeof(own));
	f.len[0] = sizeof(own);
	is_made();
	cr_assert(p.client.c->told[0] && p.client.c->told[1]);
	cr_assert_eq(memcmp(rr_ends_own(p.client.c), &own, sizeof(own)), 0);
	cr_assert_eq(memcmp(rr_ends_peer(p.client.c), &at, sizeof(at)), 0);
}

static enum rr_mode mode;

static enum rr_mode mode_played(bool server, const struct sockaddr *local, const struct sockaddr *remote)
{
	cr_assert(!server && !local && !remote);
	return mode;
}

static bool may_wait(void)
{
	memset(&f, 5, sizeof(f));
	if (!rr_conn_may_wait(&f, false, (struct sockaddr *)&at, sizeof(at)))
		return false;
	cr_assert(!f.server && f.given && f.len[1] == sizeof(at) && !f.len[0] && !f.nin && !f.nout && !f.called && !f.asked);
	return !memcmp(&f.end[1], &at, sizeof(at));
}

Test(conn_after_client, where_each_is_wanted_at_once)
{
	rr_test_params.mode = mode_played;
	mode = RR_MODE_AUTO;
	cr_assert(may_wait());
	mode = RR_MODE_REQUIRE;
	cr_assert_not(may_wait());
	mode = RR_MODE_AUTO;
	rr_test_params.alike = false;
	cr_assert_not(may_wait());
	rr_test_params.alike = true;
	rr_test_params.require_call = true;
	cr_assert_not(may_wait());
	rr_test_params.require_call = false;
	atomic_store(&rr_log_level, RR_LOG_INFO);
	cr_assert_not(may_wait());
	atomic_store(&rr_log_level, RR_LOG_OFF);
	cr_assert(may_wait());
}

Test(conn_after_client, where_an_offer_may_go_before_the_first_call_or_with_it)
{
	rr_test_params.offer_after = RR_AFTER_WAIT;
	cr_assert_not(may_wait());
	rr_test_params.offer_after = 1;
	cr_assert_not(may_wait());
	rr_test_params.offer_after = 7;
	cr_assert(may_wait() && f.offers == 7);
	rr_test_params.offer_after = RR_AFTER_AUTO;
	cr_assert(may_wait() && f.offers == 48, "this process has upgraded none");
	rr_price_paid(RR_PRICE_MAKE, 30 * RR_USEC);
	cr_assert(may_wait() && f.offers == 2);
	rr_learned_end((struct sockaddr_in6 *)&(union { struct sockaddr_in in; struct sockaddr_in6 in6; }){ at }, 9, 3);
	cr_assert(may_wait() && f.offers == 4);
	for (int i = 0; i < 40; i++)
		rr_learned_end((struct sockaddr_in6 *)&(union { struct sockaddr_in in; struct sockaddr_in6 in6; }){ at }, 9, 100);
	cr_assert_not(may_wait(), "such connections make many calls");
	at.sin_port++;
	cr_assert(may_wait());
	rr_test_params.verbs = true;
	at.sin_addr.s_addr = htonl(0x0a000001);
	cr_assert(may_wait(), "on another host, but there is no device");
	rr_test_params.verbs = false;
}

Test(conn_after_client, where_the_address_is_not_of_tcp)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = 5 };

	cr_assert_not(rr_conn_may_wait(&f, false, (struct sockaddr *)&un, sizeof(un)));
	cr_assert_not(rr_conn_may_wait(&f, false, (struct sockaddr *)&at, sizeof(at) - 1));
	cr_assert_not(rr_conn_may_wait(&f, false, NULL, sizeof(at)));
	cr_assert(rr_conn_may_wait(&f, false, (struct sockaddr *)&in6, sizeof(in6)));
	cr_assert(f.len[1] == sizeof(in6) && !memcmp(&f.end[1], &in6, sizeof(in6)));
}

Test(conn_after_client, from_one_that_was_never_made_it_is_learned_that_it_was_short)
{
	cr_assert_eq(rr_learned_usual(&f.end[1], 0x20005244).calls, 0);
	rr_conn_never(&f);
	cr_assert_eq(rr_learned_most(&f.end[1]).calls, 0, "it has made no call");
	calls();
	rr_conn_never(&f);
	cr_assert_eq(rr_learned_usual(&f.end[1], 0x20005244).calls, 1);
	f.nout = 40;
	rr_conn_never(&f);
	cr_assert_gt(rr_learned_usual(&f.end[1], 0x20005244).calls, 9);
}
