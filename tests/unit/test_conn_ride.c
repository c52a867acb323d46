/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers that ride along with a call, and answers with its reply: where they may stand, that the app never sees a byte of
 * them, and what becomes of those that nobody takes up. */
#include <errno.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/base/state.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/unit/conn_rides.h"

TestSuite(conn_ride, .fini = leave, .timeout = 60);

Test(conn_ride, the_offer_goes_with_a_call_and_the_answer_with_its_reply)
{
	size_t n;

	open_after(1);
	n = answers();
	finds(&p.client, out, n, 0);
	cr_assert_gt(rr_price_sum(), 0, "what both sides have made is known");
	goes_on_until_carried();
}

/* The beginning of a call may be that of an offer, and is kept for a second. Half an offer that comes later has a second of
 * its own. */
Test(conn_ride, a_call_that_came_in_halves_takes_no_time_from_a_later_offer)
{
	size_t n = rr_test_call(out, 1, 100, 1);

	open_after(2);
	cr_assert_eq(send(p.client.fd, out, 12, 0), 12);
	arrived(&p.server, 12);
	cr_assert_eq(rr_end_try_recv(&p.server, in, sizeof(in), 0), -EAGAIN);
	cr_assert_neq(p.server.c->part_since, 0);
	cr_assert_eq(send(p.client.fd, out + 12, n - 12, 0), (ssize_t)n - 12);
	arrived(&p.server, n);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), POLLIN);
	cr_assert_eq(state(&p.server), RR_S_WATCH);
	cr_assert_eq(p.server.c->part_since, 0);
	cr_assert_eq(rr_end_try_recv(&p.server, in, sizeof(in), 0), (ssize_t)n);
}

/* Where nothing is known, an offer goes with the first call if that is long: its mark says so, of which a piece is written. */
Test(conn_ride, the_first_piece_of_a_long_call_takes_the_offer_along)
{
	open_after(RR_AFTER_AUTO);
	rr_test_call(out, 1, 20000, 1);
	sends(&p.client, out, 5000);
	cr_assert_eq(state(&p.client), RR_S_WATCH);
	leave();
	open_after(RR_AFTER_AUTO);
	rr_test_call(out, 1, 40000, 1);
	sends(&p.client, out, 5000);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	cr_assert_gt(arrived(&p.server, 5001), 5000);
}

/* Where an option says with which call, nobody asks what was learned: it is kept for whoever does, the oldest least. */
Test(conn_ride, what_was_learned_is_looked_up_where_it_decides)
{
	for (int i = 0; i < 2; i++) {
		open_after(i ? RR_AFTER_AUTO : 5);
		exchange(1);
		rr_learned_end(&p.client.c->peer, p.client.c->prog, 20);
		exchange(2);
		cr_assert(p.client.c->learned);
		cr_assert_eq(p.client.c->usual.calls, i ? 20 : 0);
		if (!i)
			leave();
	}
}

/* What an earlier connection left in the same memory is not told. */
Test(conn_ride, an_answer_has_only_what_this_offer_is_told)
{
	struct rr_hello other = { .version = RR_NEGO_VERSION + 1, .caps = RR_CAP_CROSSING }, none = { 0 };

	open_after(9);
	exchange(1);
	memset(&p.server.c->heard, 0xff, sizeof(p.server.c->heard));
	rr_ride_heard(p.server.c, &other, 5);
	cr_assert_eq(state(&p.server), RR_S_HEARD);
	cr_assert_eq(p.server.c->lack, RR_R_RELEASES);
	cr_assert_eq(p.server.c->heard.caps, RR_CAP_CROSSING);
	cr_assert_eq(memcmp(p.server.c->heard.prov, none.prov, sizeof(none.prov)), 0);
	cr_assert_eq(memcmp(p.server.c->heard.host, none.host, sizeof(none.host)), 0);
}

/* The answer to the first call that has crossed comes by memory: who waits for it may look there, and sleeps for nothing. */
Test(conn_ride, who_has_crossed_sees_the_reply_in_memory)
{
	const struct rr_share *sh;
	size_t n;

	open_after(1);
	for (uint32_t i = 1; i < 10 && !rr_conn_is_carried(p.client.c); i++)
		exchange(i);
	sh = p.client.c->share;
	cr_assert(rr_tx_is_early(sh) && rr_rx_is_early(sh));
	cr_assert_not(rr_conn_peek(p.client.c, POLLIN));
	one_way(&p.client, &p.server, rr_test_call(out, 50, 100, 50));
	cr_assert(!rr_tx_is_early(sh) && rr_rx_is_early(sh));
	cr_assert_not(rr_conn_peek(p.client.c, POLLIN));
	n = rr_test_reply(out, 50, 300, 50);
	sends(&p.server, out, n);
	cr_assert(rr_conn_peek(p.client.c, POLLIN));
	finds(&p.client, out, n, 0);
}

static const struct rr_os *real_os;
static int shut_at, looks;

static int poll_and_be_shut(struct pollfd *fds, nfds_t nfds, int ms)
{
	if (looks++ == shut_at)
		cr_assert_eq(shutdown(p.client.fd, SHUT_RDWR), 0);
	return real_os->poll(fds, nfds, ms);
}

/* Another thread's shutdown() reaches the kernel after us, before any one of the looks at the socket:
 * POLLHUP does not show without the rest. */
Test(conn_ride, an_end_shows_with_all_its_bits)
{
	const int all = POLLIN | POLLOUT | POLLRDHUP | POLLHUP;
	struct rr_os os;
	int got;

	for (shut_at = 0; !shut_at || looks >= shut_at; shut_at++) {
		if (shut_at)
			leave();
		open_after(1);
		for (uint32_t i = 1; i < 10 && !rr_conn_is_carried(p.client.c); i++)
			exchange(i);
		cr_assert(rr_rx_is_early(p.client.c->share));
		cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_RDWR), 0);
		looks = 0;
		real_os = rr_os;
		os = *rr_os;
		os.poll = poll_and_be_shut;
		rr_os = &os;
		got = rr_conn_poll(p.client.c, p.client.fd, POLLIN | POLLOUT | POLLRDHUP);
		rr_os = real_os;
		cr_assert(!(got & POLLHUP) || (got & all) == all, "look %d: %#x", shut_at, got);
	}
	cr_assert(shut_at == 2 && looks == 1, "the kernel is asked once");
}

Test(conn_ride, calls_before_it_go_by_as_they_are)
{
	open_after(4);
	for (uint32_t i = 1; i < 4; i++) {
		size_t n = rr_test_call(out, i, 100, i);

		sends(&p.client, out, n);
		cr_assert_eq(state(&p.client), RR_S_WATCH);
		cr_assert_eq(arrived(&p.server, n), n);
		finds(&p.server, out, n, 0);
		one_way(&p.server, &p.client, rr_test_reply(out, i, 10, i));
	}
	hears();
	goes_on_until_carried();
}

/* No offer can come on such a stream, and whoever looks on pays for each read. */
static void is_not_looked_on(const char *first, size_t n)
{
	open_after(2);
	sends(&p.client, (const uint8_t *)first, n);
	arrived(&p.server, n);
	finds(&p.server, (const uint8_t *)first, n, 0);
	cr_assert_eq(state(&p.server), RR_S_TCP);
}

/* How late a client offers is the client's option: another value at the server does not keep it from looking on. */
Test(conn_ride, a_server_looks_on_whatever_its_own_offers_do)
{
	size_t n;

	open_after(2);
	n = rr_test_call(out, 1, 100, 1);
	sends(&p.client, out, n);
	cr_assert_eq(arrived(&p.server, n), n);
	rr_test_params.offer_after = RR_AFTER_WAIT;
	finds(&p.server, out, n, 0);
	cr_assert_eq(state(&p.server), RR_S_WATCH);
	rr_test_params.offer_after = 2;
	one_way(&p.server, &p.client, rr_test_reply(out, 1, 100, 1));
	hears();
	goes_on_until_carried();
}

Test(conn_ride, a_stream_that_is_not_rpc_is_not_looked_on)
{
	is_not_looked_on("GET / HTTP/1.0\r\n\r\n", 18);
}

Test(conn_ride, a_stream_that_begins_with_a_few_bytes_is_not_looked_on)
{
	is_not_looked_on("\x80\0\0\x28\0\0\0\1\0\0\0\0\0\0\0", 15);
}

/* Three bytes of a mark are too few to say how long the call is: it goes without an offer, and so does its rest. */
Test(conn_ride, no_offer_stands_within_a_call)
{
	size_t n;

	open_after(2);
	exchange(1);
	n = rr_test_call(out, 2, 100, 2);
	sends(&p.client, out, 3);
	sends(&p.client, out + 3, n - 3);
	cr_assert_eq(state(&p.client), RR_S_WATCH);
	cr_assert_eq(arrived(&p.server, n), n);
	finds(&p.server, out, n, 0);
	hears();
}

Test(conn_ride, no_answer_stands_within_a_reply)
{
	static uint8_t reply[600];
	size_t n, m;

	open_after(2);
	one_way(&p.client, &p.server, rr_test_call(out, 1, 100, 1));
	n = rr_test_reply(reply, 1, 500, 1);
	sends(&p.server, reply, 100);
	hears();
	sends(&p.server, reply + 100, n - 100);
	cr_assert_eq(state(&p.server), RR_S_HEARD);
	cr_assert_eq(arrived(&p.client, n), n);
	finds(&p.client, reply, n, 0);
	m = rr_test_reply(out, 2, 10, 2);
	sends(&p.server, out, m);
	cr_assert_eq(state(&p.server), RR_S_SAID);
	arrived(&p.client, m + 1);
	finds(&p.client, out, m, 0);
	goes_on_until_carried();
}

/* The server has two calls in its queue, and an offer between them. */
static size_t two_calls(void)
{
	size_t n, m;

	open_after(2);
	n = rr_test_call(out, 1, 100, 1);
	sends(&p.client, out, n);
	m = rr_test_call(out + n, 2, 200, 2);
	sends(&p.client, out + n, m);
	cr_assert_eq(state(&p.client), RR_S_ASKED);
	arrived(&p.server, n + m + 1);
	return n + m;
}

Test(conn_ride, a_look_at_several_calls_passes_over_the_offer_between_them)
{
	size_t n = two_calls();
	struct iovec iov[2] = { { in, 100 }, { in + 100, 1000 } };

	finds(&p.server, out, n, MSG_PEEK);
	memset(in, 0, n);
	cr_assert_eq(rr_conn_recv(p.server.c, p.server.fd, iov, 2, MSG_PEEK), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 50, MSG_PEEK), 50);
	cr_assert_eq(memcmp(in, out, 50), 0);
	cr_assert_eq(rr_conn_inq(p.server.c, p.server.fd), (int)n);
	finds(&p.server, out, n, 0);
	goes_on_until_carried();
}

Test(conn_ride, one_read_takes_both_calls_and_not_the_offer)
{
	size_t n = two_calls();

	finds(&p.server, out, n, 0);
	cr_assert_eq(state(&p.server), RR_S_HEARD);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 10, 0), -EAGAIN);
	goes_on_until_carried();
}

Test(conn_ride, a_look_where_there_is_nothing_of_ours)
{
	size_t n, m;

	open_after(10);
	n = rr_test_call(out, 1, 100, 1);
	m = rr_test_call(out + n, 2, 200, 2);
	sends(&p.client, out, n + m);
	arrived(&p.server, n + m);
	finds(&p.server, out, n + m, MSG_PEEK);
	cr_assert_eq(rr_conn_inq(p.server.c, p.server.fd), (int)(n + m));
	finds(&p.server, out, n + m, 0);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 10, MSG_PEEK), -EAGAIN);
}

/* An app that waits for so many bytes is not woken for ours. */
Test(conn_ride, bytes_of_ours_are_none_of_those_that_the_app_waits_for)
{
	size_t n = two_calls();
	int low = (int)n + 1;

	rr_conn_setopt(p.server.c, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	cr_assert_gt(queued(&p.server), n);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	low--;
	rr_conn_setopt(p.server.c, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), POLLIN);
	finds(&p.server, out, n, 0);
	goes_on_until_carried();
}

/* --- who is no shim, or a slow one --- */

/* The offer is with a server that answers it as the test says. */
static void asks_somebody(void)
{
	open_after(1);
	rr_conn_close(p.server.c, p.server.fd);
	rr_conn_free(p.server.c);
	p.server.c = NULL;
	asks();
	cr_assert_gt(recv(p.server.fd, in, sizeof(in), 0), 0);
}

static void left(enum rr_conn_st st)
{
	cr_assert_eq(state(&p.client), st);
	cr_assert_null(p.client.c->share);
}

static void says(const uint8_t *buf, size_t n)
{
	cr_assert_eq(send(p.server.fd, buf, n, 0), (ssize_t)n);
}

/* A refusal, of which the client has not seen anything yet. */
static size_t refusal(uint8_t buf[RR_ANSWER_MAX])
{
	return rr_nego_put_refusal(RR_NEGO_DECLINED, p.client.c->xid, NULL, buf, RR_ANSWER_MAX);
}

/* ... and behind it a reply. */
static void is_answered(void)
{
	uint8_t buf[RR_ANSWER_MAX];
	size_t len = refusal(buf), n = rr_test_reply(out, 1, 500, 1);

	says(buf, len);
	says(out, n);
	arrived(&p.client, len + n);
	finds(&p.client, out, n, 0);
	left(RR_S_TCP);
	exchange(2);
}

Test(conn_ride, a_refusal_is_not_the_apps)
{
	asks_somebody();
	is_answered();
}

Test(conn_ride, an_answer_that_comes_too_late_is_not_the_apps_either)
{
	asks_somebody();
	p.client.c->deadline = 0;
	rr_end_poll(&p.client, POLLIN);
	left(RR_S_SWALLOW);
	is_answered();
}

/* The app hears of an answer of which half is there when the rest has come. */
Test(conn_ride, half_an_answer_wakes_nobody)
{
	uint8_t buf[RR_ANSWER_MAX];
	size_t len;

	asks_somebody();
	len = refusal(buf);
	says(buf, len / 2);
	arrived(&p.client, len / 2);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), 0);
	cr_assert_eq(rr_end_try_recv(&p.client, in, sizeof(in), 0), -EAGAIN);
	cr_assert_eq(rr_conn_inq(p.client.c, p.client.fd), 0);
	memcpy(out, buf + len / 2, len - len / 2);
	says(out, len - len / 2);
	arrived(&p.client, len);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), 0);
	left(RR_S_TCP);
	exchange(2);
}

/* ... but not for ever: after a second it is the app's. */
Test(conn_ride, what_is_never_whole_is_the_apps)
{
	uint8_t buf[RR_ANSWER_MAX];
	size_t len;

	asks_somebody();
	len = refusal(buf);
	says(buf, len / 2);
	arrived(&p.client, len / 2);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), 0);
	p.client.c->part_since = 1;
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), POLLIN);
	finds(&p.client, buf, len / 2, 0);
}

/* Another program than a shim's may answer to the offer with a reply of its own, however long: by its number it is ours. */
Test(conn_ride, a_long_answer_of_no_shims_is_read_away)
{
	size_t len, n;

	asks_somebody();
	len = rr_test_reply(out, p.client.c->xid, 3000, 1);
	says(out, 1000);
	arrived(&p.client, 1000);
	cr_assert_eq(rr_end_try_recv(&p.client, in, sizeof(in), 0), -EAGAIN);
	left(RR_S_SWALLOW);
	cr_assert_eq(queued(&p.client), 0);
	n = rr_test_reply(out + len, 1, 200, 2);
	says(out + 1000, len + n - 1000);
	arrived(&p.client, len + n - 1000);
	finds(&p.client, out + len, n, 0);
	left(RR_S_TCP);
	exchange(2);
}

/* Replies by the dozen and no answer: there is none to come. */
Test(conn_ride, after_64_replies_without_an_answer_it_is_given_up)
{
	asks_somebody();
	for (uint32_t i = 1; i <= 64; i++) {
		cr_assert_eq(state(&p.client), RR_S_ASKED);
		one_way(&p.server, &p.client, rr_test_reply(out, i, 10, i));
	}
	left(RR_S_SWALLOW);
	for (uint32_t i = 65; i <= 256; i++) {
		cr_assert_eq(state(&p.client), RR_S_SWALLOW);
		one_way(&p.server, &p.client, rr_test_reply(out, i, 10, i));
	}
	left(RR_S_TCP);
}

Test(conn_ride, after_64_calls_without_an_answer_it_is_given_up)
{
	asks_somebody();
	for (uint32_t i = 2; i <= 65; i++) {
		cr_assert_eq(state(&p.client), RR_S_ASKED);
		one_way(&p.client, &p.server, rr_test_call(out, i, 10, i));
	}
	left(RR_S_SWALLOW);
}

/* --- forks, and descriptors that the app wants --- */

/* It is nobody's: all who can do without theirs are asked. */
Test(conn_ride, an_offer_is_given_up_for_a_descriptor)
{
	int fd;

	open_after(1);
	hears();
	fd = rr_ownfd_dup(p.listener);
	cr_assert_not(rr_conn_move_fd(fd));
	rr_ownfd_close(fd);
	left(RR_S_SWALLOW);
	goes_on_by_tcp();
}

/* A signal handler that has interrupted who has it: that one goes on with it. */
Test(conn_ride, an_offer_that_this_thread_is_busy_with_is_not_given_up)
{
	struct rr_conn *c;
	int fd;

	open_after(1);
	hears();
	c = p.server.c;
	fd = rr_ownfd_dup(p.listener);
	cr_assert_eq(rr_lock_take(&c->lock), 0);
	cr_assert_not(rr_conn_move_fd(fd));
	cr_assert_eq(state(&p.server), RR_S_HEARD);
	rr_lock_drop(&c->lock);
	cr_assert_not(rr_conn_move_fd(fd));
	rr_ownfd_close(fd);
	left(RR_S_SWALLOW);
}

Test(conn_ride, an_answer_that_has_not_gone_does_not_go_before_a_fork)
{
	open_after(1);
	hears();
	rr_conn_fork_nears(p.server.c);
	cr_assert_eq(state(&p.server), RR_S_TCP);
	cr_assert_null(p.server.c->share);
	goes_on_by_tcp();
}

Test(conn_ride, no_offer_goes_any_more_once_it_has_forked)
{
	open_after(2);
	exchange(1);
	rr_conn_fork_nears(p.server.c);
	cr_assert_eq(state(&p.server), RR_S_WATCH, "the offer may come to either");
	rr_conn_fork_nears(p.client.c);
	cr_assert_eq(state(&p.client), RR_S_TCP);
	goes_on_by_tcp();
}

static bool is_never_readable(const struct iovec *iov, int n)
{
	(void)iov, (void)n;
	return false;
}

Test(conn_ride, a_first_call_without_an_offer_is_not_looked_at_before_the_kernel_has_read_it)
{
	rr_test_params.readable = is_never_readable;
	open_after(9);
	exchange(1);
	cr_assert_eq(state(&p.client), RR_S_WATCH);
	exchange(2);
}

Test(conn_ride, a_first_call_that_an_offer_may_go_with_is_refused_where_it_cannot_be_read)
{
	rr_test_params.readable = is_never_readable;
	open_after(1);
	cr_assert_eq(rr_end_try_send(&p.client, out, rr_test_call(out, 1, 100, 1)), -EFAULT);
}
