/* SPDX-License-Identifier: BSD-3-Clause */
/* The relay of a native connection that has forked, call by call. */
#include "tests/unit/relay_played.h"

TestSuite(relay, .init = begin, .timeout = 60);

/* --- whether there is one --- */

Test(relay, native_connections_whose_queue_pair_is_one_process_have_one)
{
	for (int st = 0; st < RR_S_COUNT; st++) {
		c.face.state = (uint32_t)st;
		cr_assert_eq(rr_relay_may(&c), st == RR_S_TAKEN || st == RR_S_CARRIED, "%d", st);
	}
	c.face.state = RR_S_CARRIED;
	ops.caps = RR_PROV_FAMILY;
	cr_assert_not(rr_relay_may(&c));
	ops.caps = 0;
	qp.native = false;
	cr_assert_not(rr_relay_may(&c));
	cr_assert_not(rr_relay_forks(&c));
	cr_assert_not(rr_relay_forked(&c));
	cr_assert_not(rr_relay_take_over(&c));
	cr_assert(!k.run && !c.relay && !k.lingers && c.share && c.refs == 1 && !sh.relayed && !c.face.relayed);
}

Test(relay, of_several_forks_the_first_makes_it)
{
	cr_assert(rr_relay_forks(&c));
	cr_assert(k.run && c.relay && k.lingers == 1 && c.refs == 2);
	k.run = NULL;
	cr_assert(rr_relay_forks(&c));
	cr_assert(!k.run && k.lingers == 1 && c.refs == 2);
}

static int fd_of(const struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	c.fd = 44;
	return 44;
}

Test(relay, the_descriptor_is_one_that_the_app_has_now)
{
	rr_test_params.fd_of = fd_of;
	cr_assert(rr_relay_forks(&c));
	cr_assert_eq(c.fd, 44);
}

Test(relay, without_memory_there_is_none)
{
	k.no_memory = true;
	cr_assert(rr_relay_forks(&c));
	k.no_memory = false;
	cr_assert(!c.relay && !k.run && c.refs == 1 && !k.lingers);
}

Test(relay, without_a_thread_the_connection_is_reset)
{
	k.no_thread = true;
	cr_assert(rr_relay_forks(&c));
	cr_assert(k.resets == 1 && k.frees == 1 && k.munmaps == 1 && c.refs == 1);
}

/* --- in the child, and in the parent --- */

Test(relay, a_child_has_nothing_of_it_but_the_socket)
{
	c.refs = 5;
	cr_assert(rr_relay_forked(&c));
	cr_assert(c.face.relayed && c.refs == 1 && rr_conn_st(&c) == RR_S_RELAYED && k.carrier_frees == 1 && !c.share);
}

Test(relay, a_child_asks_once)
{
	rr_relay_ask(&c, APP);
	cr_assert(!k.oobs && !c.relay_asked);
	c.face.state = RR_S_RELAYED;
	rr_relay_ask(&c, APP);
	rr_relay_ask(&c, APP);
	cr_assert(k.oobs == 1 && c.relay_asked);
}

Test(relay, who_takes_over_says_so)
{
	cr_assert(rr_relay_take_over(&c));
	cr_assert(sh.relayed && c.face.relayed && c.face.changed);
}

Test(relay, the_parent_takes_over_where_a_child_was_first)
{
	rr_relay_look(&c);
	cr_assert(!sh.relayed && !sh.lock.word);
	k.gone = POLLPRI;
	sh.far = -1;
	rr_relay_look(&c);
	cr_assert_not(sh.relayed);
	sh.far = FAR;
	k.hold_rc = -EDEADLK;
	rr_relay_look(&c);
	cr_assert_not(sh.relayed);
	k.hold_rc = 0;
	c.share = NULL;
	rr_relay_look(&c);
	c.share = &sh;
	rr_relay_look(&c);
	cr_assert(sh.relayed && !sh.lock.word);
	sh.relayed = false;
	rr_relay_look(&c);
	cr_assert_not(sh.relayed, "it is the relay's already");
}

Test(relay, the_parents_close_is_told_by_an_urgent_byte)
{
	cr_assert_not(rr_relay_takes(&c, APP));
	c.relay = true;
	c.face.state = RR_S_TCP;
	cr_assert_not(rr_relay_takes(&c, APP));
	cr_assert(!k.oobs && !c.face.relayed);
	c.face.state = RR_S_CARRIED;
	cr_assert(rr_relay_takes(&c, APP));
	cr_assert(k.oobs == 1 && c.face.relayed);
	cr_assert(rr_relay_takes(&c, APP));
	cr_assert_eq(k.oobs, 1);
	c.relay = false;
	cr_assert(rr_relay_takes(&c, APP));
}

/* --- waiting until it is wanted --- */

Test(relay, a_signal_does_not_end_the_wait)
{
	k.waits = 3;
	k.wait_errno = EINTR;
	runs();
	cr_assert(k.polls == 4 && k.sleeps == 1 && sh.relayed && k.resets == 1);
}

Test(relay, what_has_no_queue_pair_any_more_is_not_reset)
{
	k.share_goes = true;
	runs();
	cr_assert(k.sleeps == 1 && k.resets == 0);
}

Test(relay, an_error_does)
{
	k.waits = 3;
	k.wait_errno = ENOMEM;
	runs();
	cr_assert(k.polls == 1 && sh.relayed);
}

Test(relay, what_is_not_relayed_after_all_is_no_loss)
{
	k.hold_rc = -EDEADLK;
	runs();
	cr_assert(!sh.relayed && k.sleeps == 0 && k.resets == 0);
	afresh();
	cr_assert(rr_relay_forks(&c));
	c.face.state = RR_S_TCP;
	k.run(k.arg);
	cr_assert(!sh.relayed && k.sleeps == 0 && k.resets == 0 && k.frees == 1 && k.munmaps == 1);
}

/* --- the peer's bytes --- */

Test(relay, what_comes_goes_to_the_app_in_its_order)
{
	ROWS(in, 100, CHUNK, 5, -ECONNRESET);
	ROWS(to_app, 60, 40, CHUNK, 5);
	runs();
	cr_assert(k.in.at == 100 + CHUNK + 5 && k.to_app.at == k.in.at && k.in.calls == 4 && k.sleeps == 0);
	cr_assert(k.resets == 1 && k.from_app.calls == 0);
}

Test(relay, a_socket_that_is_full_is_waited_for)
{
	ROWS(in, 100);
	ROWS(to_app, 60, -EAGAIN);
	runs();
	cr_assert(k.sleeps == 1 && k.in.at == 100 && k.want == 0);
	cr_assert(k.slept_n == 2 && k.slept[0].fd == FAR && k.slept[0].events == (POLLIN | POLLOUT) && k.slept_ms == -1);
	cr_assert_eq(k.resets, 1);
}

Test(relay, what_was_left_goes_first_after_a_sleep)
{
	ROWS(in, 100, -EAGAIN);
	ROWS(to_app, 60, -EAGAIN, 40);
	k.at_most = 2;
	runs();
	cr_assert(k.sleeps == 2 && k.to_app.at == 100 && k.in.at == 100 && k.want == POLLIN);
	cr_assert_eq(k.slept[0].events, POLLIN);
}

Test(relay, an_app_that_reads_no_more_is_not_written_to)
{
	ROWS(in, 100);
	ROWS(to_app, -EPIPE);
	k.at_most = 2;
	runs();
	cr_assert(k.sleeps == 2 && k.in.calls == 1 && k.to_app.calls == 1 && k.want == 0);
	cr_assert(k.slept[0].fd == FAR && k.slept[0].events == POLLIN);
	cr_assert_eq(k.resets, 1, "what it writes is still taken");
}

Test(relay, the_peers_end_is_told_once)
{
	ROWS(in, 100, 0);
	ROWS(to_app, 60, -EAGAIN, 40);
	k.at_most = 3;
	runs();
	cr_assert(k.shuts == 1 && k.in.calls == 2 && k.to_app.at == 100);
	cr_assert(k.arms == 1 && k.disarms == 1 && k.fds == 1 && k.sleeps == 3);
	cr_assert(k.slept_n == 1 && k.slept_ms == -1 && k.slept[0].events == POLLIN);
}

/* So that what the app writes is not forgotten over a peer that never stops. */
Test(relay, after_16_pieces_it_is_the_other_directions_turn)
{
	int lots[40], n = 0;

	for (; n < 40; n++)
		lots[n] = 10;
	k.in = k.to_app = (struct stream){ .rc = lots, .n = 40 };
	ROWS(from_app, -ECONNRESET);
	runs();
	cr_assert(k.in.calls == TURNS && k.to_app.calls == TURNS && k.from_app.calls == 1);
	afresh();
	k.from_app = k.out = (struct stream){ .rc = lots, .n = 40 };
	runs();
	cr_assert(k.from_app.at == TURNS * 10 && k.out.at == TURNS * 10 && k.sleeps == 1 && k.quickacks == TURNS);
}

/* --- the app's bytes --- */

Test(relay, what_the_app_writes_goes_to_the_peer_in_its_order)
{
	ROWS(from_app, 100, CHUNK, 5);
	ROWS(out, 60, 0, 40, CHUNK, 5);
	runs();
	cr_assert(k.from_app.at == 100 + CHUNK + 5 && k.out.at == k.from_app.at && k.quickacks == 3);
	cr_assert(k.sleeps == 1 && k.want == POLLIN && k.slept[0].events == POLLIN && k.slept[0].fd == FAR && k.slept_ms == -1);
}

/* The app may have gone meanwhile, which does not matter before its bytes have gone. */
Test(relay, a_peer_that_takes_no_more_is_waited_for)
{
	ROWS(from_app, 100);
	ROWS(out, 60, -EAGAIN);
	runs();
	cr_assert(k.sleeps == 1 && k.want == (POLLIN | POLLOUT) && k.slept_ms == 50);
	cr_assert(k.slept_n == 2 && k.slept[0].fd == -1 && k.slept[0].events == 0 && k.slept[1].fd == WAKE);
	cr_assert(k.arms == 1 && k.disarms == 1 && k.resets == 1);
}

Test(relay, what_was_held_goes_first_after_a_sleep)
{
	ROWS(from_app, 100);
	ROWS(out, 60, -EAGAIN, 40);
	k.at_most = 2;
	runs();
	cr_assert(k.out.at == 100 && k.want == POLLIN && k.sleeps == 2);
}

Test(relay, where_both_are_full_both_are_waited_for)
{
	ROWS(in, 100);
	ROWS(to_app, -EAGAIN);
	ROWS(from_app, 100);
	ROWS(out, -EAGAIN);
	runs();
	cr_assert(k.want == POLLOUT && k.slept[0].fd == FAR && k.slept[0].events == POLLOUT && k.slept_ms == 50);
}

Test(relay, an_app_that_writes_no_more_is_told_to_nobody_before_it_has_gone)
{
	ROWS(from_app, 100, 0);
	ROWS(out, 100);
	k.at_most = 2;
	k.gone = POLLIN;	/* that is no end */
	runs();
	cr_assert(k.from_app.calls == 2 && k.sleeps == 2 && k.quickacks == 1);
	cr_assert(k.slept[0].fd == FAR && k.slept[0].events == 0 && k.slept_ms == -1);
}

Test(relay, when_it_has_gone_it_is_over)
{
	ROWS(from_app, 100, 0);
	ROWS(out, 100);
	k.gone = POLLHUP;
	runs();
	cr_assert(k.out.at == 100 && k.sleeps == 0 && k.resets == 0);
}

Test(relay, an_error_of_either_socket_is_a_loss)
{
	ROWS(from_app, -EPIPE);
	runs();
	cr_assert(k.sleeps == 0 && k.resets == 1);
	afresh();
	ROWS(from_app, 10);
	ROWS(out, -EPIPE);
	runs();
	cr_assert(k.sleeps == 0 && k.resets == 1);
}

Test(relay, behind_the_peers_end_the_apps_bytes_are_dropped)
{
	ROWS(in, 0);
	ROWS(from_app, 100, 200);
	runs();
	cr_assert(k.out.calls == 0 && k.from_app.at == 300 && k.arms == 0 && k.disarms == 0 && k.slept_n == 1 && k.sleeps == 1);
}

/* --- how long it sleeps --- */

static int sleeps_until(rr_time until, bool held)
{
	afresh();
	k.until = until;
	if (held) {
		ROWS(from_app, 100);
		ROWS(out, -EAGAIN);
	}
	runs();
	cr_assert(k.sleeps == 1 && k.slept_n == 2);
	return k.slept_ms;
}

Test(relay, it_sleeps_until_there_is_something_to_do)
{
	cr_assert_eq(sleeps_until(RR_TIME_NEVER, false), -1);
	cr_assert_eq(sleeps_until(START - 1, false), 0);
	cr_assert_eq(sleeps_until(START, false), 0);
	cr_assert_eq(sleeps_until(START + 1, false), 1);
	cr_assert_eq(sleeps_until(START + 7 * RR_MSEC, false), 8);
	cr_assert_eq(sleeps_until(START + 59998 * RR_MSEC, false), 59999);
	cr_assert_eq(sleeps_until(START + 100 * RR_SEC, false), 60000);
	cr_assert_eq(sleeps_until(START + 30 * RR_MSEC, true), 31);
	cr_assert_eq(sleeps_until(START + 49 * RR_MSEC, true), 50);
	cr_assert_eq(sleeps_until(START + 80 * RR_MSEC, true), 50);
	cr_assert_eq(sleeps_until(START, true), 0);
}

Test(relay, both_of_its_descriptors_are_slept_on)
{
	k.nfds = 2;
	runs();
	cr_assert(k.slept_n == 3 && k.slept[1].fd == WAKE && k.slept[2].fd == WAKE + 1);
}

Test(relay, where_there_is_something_already_it_does_not_sleep)
{
	k.arm_rc = 1;
	ROWS(in, -EAGAIN, -ECONNRESET);
	runs();
	cr_assert(k.sleeps == 0 && k.arms == 1 && k.disarms == 0 && k.fds == 0 && k.in.calls == 2);
}
