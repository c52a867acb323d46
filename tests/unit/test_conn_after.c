/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's connection that is made when its first call has gone by: it knows what has, and is upgraded as another.
 * Also which first bytes it may be made so late for. */
#include <errno.h>

#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/state.h"
#include "core/conn/first.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/unit/conn_pair.h"

static uint32_t served;

static void begin(void)
{
	rr_test_params.offer_after = 2;
	setup();
	served = rr_conn_serves(p.listener);
	cr_assert(served);
}

static void leave(void)
{
	rr_conn_serves_not(served);
	teardown();
}

TestSuite(conn_after, .init = begin, .fini = leave, .timeout = 60);

/* The kernel's own calls, as long as the server has no connection. */
static void kernel_takes(size_t n)
{
	cr_assert_eq(recv(p.server.fd, in, n, MSG_WAITALL), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

static size_t kernel_sends(size_t n)
{
	cr_assert_eq(send(p.server.fd, out, n, 0), (ssize_t)n);
	return n;
}

static void is_made(const struct rr_conn_passed *passed)
{
	rr_conn_free(p.server.c);
	p.server.c = rr_conn_after(p.server.fd, passed);
	cr_assert_not_null(p.server.c);
}

static void goes_on_until_carried(void)
{
	for (uint32_t i = 100; i < 110; i++) {
		one_way(&p.client, &p.server, rr_test_call(out, i, 100, i));
		one_way(&p.server, &p.client, rr_test_reply(out, i, 300, i));
	}
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

Test(conn_after, behind_a_call_and_its_reply)
{
	struct sockaddr_in peer = { .sin_family = AF_INET }, own = peer;
	struct rr_conn_passed passed = { .server = true };
	size_t n = rr_test_call(out, 1, 100, 1);

	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	kernel_takes(n);
	passed.in = n;
	passed.nin = 1;
	n = rr_test_reply(out, 1, 300, 1);
	kernel_sends(n);
	cr_assert(rr_conn_first_went(&passed, out, n));
	cr_assert(passed.out == n && passed.nout == 1 && !passed.called && !passed.asked);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), (ssize_t)n);
	passed.next = 5;
	passed.alone = true;
	peer.sin_port = 7;
	own.sin_port = 8;
	memcpy(&passed.end[1], &peer, sizeof(peer));
	memcpy(&passed.end[0], &own, sizeof(own));
	passed.len[0] = passed.len[1] = sizeof(own);
	is_made(&passed);
	cr_assert(p.server.c->whole && p.server.c->told[0] && p.server.c->told[1]);
	cr_assert_eq(memcmp(rr_ends_peer(p.server.c), &peer, sizeof(peer)), 0);
	cr_assert_eq(memcmp(rr_ends_own(p.server.c), &own, sizeof(own)), 0);
	rr_ends_changed(p.server.c);
	cr_assert_eq(rr_conn_st(p.server.c), RR_S_WATCH);
	cr_assert_eq(p.server.c->most, 5);
	p.server.c->most = 0;
	p.server.c->whole = false;
	cr_assert(p.server.c->in.bytes == passed.in && p.server.c->in.records == 1);
	cr_assert(p.server.c->out.bytes == passed.out && p.server.c->out.records == 1);
	cr_assert(rr_ride_seen_all(p.server.c, p.server.fd));
	cr_assert_eq(p.server.c->st->state, RR_CS_NEW);
	cr_assert_eq(p.server.c->st->reason, RR_R_NO_OFFER);
	goes_on_until_carried();
}

Test(conn_after, behind_a_call_and_a_part_of_its_reply)
{
	struct rr_conn_passed passed = { .server = true };
	size_t n = rr_test_call(out, 1, 100, 1), half;
	struct iovec iov[2];

	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	kernel_takes(n);
	passed.in = n;
	passed.nin = 1;
	n = rr_test_reply(out, 1, 300, 1);
	half = kernel_sends(n / 2);
	is_made(&passed);
	cr_assert(p.server.c->out.bytes == 0 && p.server.c->out.records == 0);
	iov[0] = (struct iovec){ out, 3 };
	iov[1] = (struct iovec){ out + 3, n };
	rr_conn_went_out(p.server.c, iov, 2, half);
	cr_assert(p.server.c->out.bytes == half && p.server.c->out.records == 0);
	cr_assert_eq(rr_end_send(&p.server, NULL, out + half, n - half), (ssize_t)(n - half));
	cr_assert(p.server.c->out.bytes == n && p.server.c->out.records == 1);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), (ssize_t)n);
	goes_on_until_carried();
}

Test(conn_after, before_anything_has_gone_by)
{
	is_made(&(struct rr_conn_passed){ .server = true });
	cr_assert_eq(rr_conn_st(p.server.c), RR_S_NEW);
	goes_on_until_carried();
}

Test(conn_after, with_an_error_that_is_yet_to_be_told)
{
	is_made(&(struct rr_conn_passed){ .server = true, .nin = 1, .in = 44, .err = ECONNRESET });
	cr_assert_eq(rr_end_try_recv(&p.server, in, 9, 0), -ECONNRESET);
	cr_assert_neq(rr_end_try_recv(&p.server, in, 9, 0), -ECONNRESET);
}

Test(conn_after, which_first_bytes_are_the_apps_call)
{
	uint8_t buf[RR_OFFER_MAX];
	struct rr_hello h = { .version = RR_NEGO_VERSION };
	size_t n = rr_test_call(buf, 7, 100, 7);
	struct rr_conn_passed f = { .server = true };
	uint32_t len;

	cr_assert_eq(rr_conn_first_call(&f, buf, n), n);
	cr_assert_eq(rr_conn_first_call(&f, buf, n + 9), n, "more is behind it");
	cr_assert_eq(rr_conn_first_call(&f, buf, n - 1), 0, "not whole");
	cr_assert_eq(rr_conn_first_call(&f, buf, 3), 0);
	cr_assert_eq(rr_conn_first_call(&f, buf, 0), 0);
	buf[0] &= 0x7f;
	cr_assert_eq(rr_conn_first_call(&f, buf, n), 0, "a fragment");
	cr_assert_eq(f.why, RR_R_NONE);
	buf[0] |= 0x80;
	buf[11] = 1;
	cr_assert_eq(rr_conn_first_call(&f, buf, n), 0, "a reply");
	buf[11] = 0;
	cr_assert_eq(rr_conn_first_call(&f, buf, n), n);
	memset(h.token, 5, sizeof(h.token));
	len = rr_nego_put_offer(&h, rr_test_params.program, 9, buf, sizeof(buf));
	cr_assert(len > 0);
	f.why = RR_R_NONE;
	cr_assert_eq(rr_conn_first_call(&f, buf, len), 0, "an offer");
	cr_assert_eq(rr_conn_first_call(&f, buf, 20), 0, "a part of one");
	cr_assert_eq(f.why, RR_R_NONE);
}

Test(conn_after, behind_what_is_not_rpc)
{
	struct rr_conn_passed f = { .server = true, .nin = 1 };

	memset(out, 'x', 100);
	cr_assert_eq(rr_conn_first_call(&f, out, 100), 0);
	cr_assert_eq(f.why, RR_R_NONE, "behind a call");
	f.nin = 0;
	cr_assert_eq(rr_conn_first_call(&f, out, 100), 0);
	cr_assert_eq(f.why, RR_R_NOT_RPC);
	is_made(&f);
	cr_assert_eq(rr_conn_st(p.server.c), RR_S_TCP);
	cr_assert_eq(p.server.c->st->reason, RR_R_NOT_RPC);
}

static enum rr_mode mode;

static enum rr_mode mode_played(bool server, const struct sockaddr *local, const struct sockaddr *remote)
{
	cr_assert(server && !local && !remote);
	return mode;
}

static bool may_wait(void)
{
	struct rr_conn_passed f;

	memset(&f, 5, sizeof(f));
	if (!rr_conn_may_wait(&f, true, NULL, 0))
		return false;
	cr_assert(f.server && !f.given && !f.in && !f.out && !f.next && !f.err && !f.len[0] && !f.len[1] && !f.asked);
	return true;
}

Test(conn_after, where_each_is_wanted_at_once)
{
	const bool alike = rr_test_params.alike;

	rr_test_params.mode = mode_played;
	rr_test_params.alike = true;
	mode = RR_MODE_AUTO;
	cr_assert(may_wait());
	mode = RR_MODE_REQUIRE;
	cr_assert_not(may_wait());
	mode = RR_MODE_TCP;
	cr_assert_not(may_wait());
	mode = RR_MODE_AUTO;
	rr_test_params.alike = false;
	cr_assert_not(may_wait());
	rr_test_params.alike = true;
	atomic_store(&rr_log_level, RR_LOG_INFO);
	cr_assert_not(may_wait());
	atomic_store(&rr_log_level, RR_LOG_WARN);
	cr_assert(may_wait());
	atomic_store(&rr_log_level, RR_LOG_OFF);
	rr_test_params.alike = alike;
}

Test(conn_after, one_that_was_never_made_is_counted)
{
	struct rr_stat_seg *seg;

	rr_test_params.stats = rr_test_segment;
	seg = rr_test_segment(true);
	rr_conn_never(&(struct rr_conn_passed){ .server = true });
	cr_assert(seg->carriers[RR_CARRIER_TCP] == 1 && seg->reasons[RR_R_NO_OFFER] == 1);
}
