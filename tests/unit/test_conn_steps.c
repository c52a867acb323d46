/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of an upgrade, one function at a time: what each does at both sides of its bounds, and what a connection
 * has become then. What time and records do to it, and the server's steps; the client's are in test_conn_steps_client.c
 * and test_conn_steps_along.c. */
#include "tests/unit/conn_steps.h"

TestSuite(conn_steps, .init = begin, .timeout = 60);

/* --- time and records go by ------------------------------------------------------------------ */

Test(conn_steps, an_offer_is_waited_for_until_its_deadline)
{
	begin_in(RR_S_ASKED, false);
	rr_asked_step(c, fd);
	is(RR_S_ASKED, RR_R_NONE);
	c->deadline = 1;
	rr_asked_step(c, fd);
	is(RR_S_SWALLOW, RR_R_TIMEOUT);
	cr_assert(!c->share && t.frees == 1);
	begin_in(RR_S_HEARD, true);
	rr_heard_step(c, fd);
	is(RR_S_HEARD, RR_R_NONE);
	c->deadline = 1;
	rr_heard_step(c, fd);
	failed(RR_R_ABANDONED);
}

Test(conn_steps, so_many_records_may_go_by)
{
	for (int server = 0; server < 2; server++) {
		begin_in(RR_S_WATCH, server);
		c->in.records = server ? 63 : 1000;
		c->out.records = server ? 1000 : 63;
		rr_ride_count(c);
		is(RR_S_WATCH, RR_R_NONE);
		if (server)
			c->in.records = 64;
		else
			c->out.records = 64;
		rr_ride_count(c);
		is(RR_S_TCP, server ? RR_R_NO_OFFER : RR_R_FEW_CALLS);
	}
	for (int i = 0; i < 2; i++) {
		begin_in(RR_S_ASKED, false);
		c->asked_in = 10;
		c->asked_out = 20;
		c->in.records = 10 + 63;
		c->out.records = 20 + 63;
		rr_ride_count(c);
		is(RR_S_ASKED, RR_R_NONE);
		*(i ? &c->in.records : &c->out.records) += 1;
		rr_ride_count(c);
		is(RR_S_SWALLOW, RR_R_NOT_ANSWERED);
		cr_assert(!c->share && t.frees == 1);
	}
	begin_in(RR_S_SWALLOW, false);
	c->asked_in = 10;
	c->in.records = 10 + 255;
	c->out.records = 1000;
	rr_ride_count(c);
	is(RR_S_SWALLOW, RR_R_NONE);
	c->in.records++;
	c->in.rm.in_record = true;
	rr_ride_count(c);
	is(RR_S_SWALLOW, RR_R_NONE);
	c->in.rm.in_record = false;
	rr_ride_count(c);
	is(RR_S_TCP, RR_R_TIMEOUT);
	begin_in(RR_S_SAID, true);
	c->in.records = c->out.records = 100000;
	rr_ride_count(c);
	is(RR_S_SAID, RR_R_NONE);
}

Test(conn_steps, a_second_call_is_reported)
{
	begin_in(RR_S_WATCH, false);
	c->seg = NULL;
	c->out.records = 1;
	rr_ride_count(c);
	cr_assert_null(c->seg);
	c->out.records = 2;
	rr_ride_count(c);
	cr_assert(c->seg);
	is(RR_S_WATCH, RR_R_FEW_CALLS);
	c->face.changed = false;
	c->out.records = 3;
	rr_ride_count(c);
	cr_assert_not(c->face.changed, "once");
}

Test(conn_steps, a_fork_and_a_want_of_numbers_end_what_has_not_been_said)
{
	begin_in(RR_S_WATCH, false);
	c->looked = 5;
	rr_watch_forks(c);
	failed(RR_R_FORKED);
	cr_assert_eq(c->looked, 0);
	begin_in(RR_S_WATCH, true);
	c->looked = 5;
	rr_watch_forks(c);
	is(RR_S_WATCH, RR_R_NONE);
	cr_assert(c->looked == 0 && t.frees == 0);
	begin_in(RR_S_HEARD, true);
	rr_heard_forks(c);
	failed(RR_R_FORKED);
	begin_in(RR_S_HEARD, true);
	rr_heard_yield(c);
	failed(RR_R_NO_FDS);
	begin_in(RR_S_ASKED, false);
	rr_asked_yield(c);
	is(RR_S_SWALLOW, RR_R_NO_FDS);
	cr_assert(!c->share && t.frees == 1);
	for (int i = 0; i < 2; i++) {
		begin_in(RR_S_SAID, true);
		t.withdrawn = true;
		(i ? rr_said_forks : rr_said_yield)(c);
		failed(i ? RR_R_FORKED : RR_R_NO_FDS);
		cr_assert(t.withdraws == 1 && t.establishes == 0);
		begin_in(RR_S_SAID, true);
		(i ? rr_said_forks : rr_said_yield)(c);
		cr_assert(t.withdraws == 1 && t.establishes == 1 && t.carries == 1 && t.frees == 0);
		cr_assert_eq(c->share, &share);
	}
}

Test(conn_steps, only_who_negotiates_looks_whether_the_client_has_joined)
{
	begin_in(RR_S_SAID, true);
	c->owner++;
	cr_assert_not(rr_said_joined(c));
	cr_assert_eq(t.establishes, 0);
	c->owner--;
	t.establish = -EAGAIN;
	cr_assert_not(rr_said_joined(c));
	cr_assert_eq(t.establishes, 1);
	rr_conn_turn(c, RR_S_CARRIED);
	cr_assert(rr_said_joined(c));
	rr_conn_turn(c, RR_S_SAID);
	rr_said_step(c, fd);
	cr_assert(t.establishes == 3 && t.carries == 0);
}

Test(conn_steps, in_a_child_the_upgrade_is_its_parents)
{
	begin_in(RR_S_ASKED, false);
	cr_assert_eq(rr_ride_orphan(c), 0);
	is(RR_S_TCP, RR_R_FORKED);
	cr_assert(!c->share && t.unmaps == 1 && t.frees == 0);
	begin_in(RR_S_MEETING, false);
	rr_meeting_step(c, fd);
	cr_assert(t.establishes == 1 && t.carries == 1);
}

/* --- the server's wait ------------------------------------------------------------------------ */

Test(conn_steps, an_answer_that_rode_along_is_taken_up_or_not)
{
	uint64_t failures;

	begin_in(RR_S_SAID, true);
	failures = counted(RR_C_upgrade_failures);
	rr_answer_rides(c);
	cr_assert_eq(t.carries, 1);
	t.establish = -EAGAIN;
	rr_answer_rides(c);
	cr_assert(t.carries == 1 && t.withdraws == 0);
	is(RR_S_SAID, RR_R_NONE);
	c->deadline = 1;	/* the client is on its way */
	rr_answer_rides(c);
	cr_assert(t.withdraws == 1 && c->deadline > rr_now() && c->deadline <= rr_now() + rr_cp->upgrade_timeout);
	is(RR_S_SAID, RR_R_NONE);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures);
	c->deadline = 1;
	t.withdrawn = true;
	rr_answer_rides(c);
	failed(RR_R_ABANDONED);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 1);
	begin_in(RR_S_SAID, true);
	t.establish = -ECONNRESET;
	rr_answer_rides(c);
	failed(RR_R_PEER_CHOSE_TCP);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 2);
}

Test(conn_steps, a_client_decides_by_its_first_bytes)
{
	uint64_t failures;

	begin_in(RR_S_ANSWERED, true);
	play_os();
	failures = counted(RR_C_upgrade_failures);
	heard_errno = EAGAIN;
	rr_answer_wait(c, fd);
	cr_assert_eq(t.carries, 1);
	t.establish = -EAGAIN;
	rr_answer_wait(c, fd);
	is(RR_S_ANSWERED, RR_R_NONE);
	heard_errno = EINTR;
	rr_answer_wait(c, fd);
	is(RR_S_ANSWERED, RR_R_NONE);
	heard_errno = 0;
	c->shut_rd = true;
	c->deadline = 1;
	t.withdrawn = true;
	rr_answer_wait(c, fd);
	is(RR_S_ANSWERED, RR_R_NONE);
	cr_assert_eq(t.withdraws, 0);
	heard_errno = EAGAIN;
	rr_answer_wait(c, fd);
	failed(RR_R_ABANDONED);
	for (int i = 0; i < 3; i++) {
		begin_in(RR_S_ANSWERED, true);
		t.establish = -EAGAIN;
		heard = i == 0;
		heard_errno = i == 2 ? ECONNRESET : 0;
		rr_answer_wait(c, fd);
		failed(RR_R_PEER_CHOSE_TCP);
		cr_assert_eq(t.withdraws, 0);
		cr_assert_eq(counted(RR_C_upgrade_failures), failures + 2 + (uint64_t)i);
	}
}

Test(conn_steps, sleepers_have_a_moment_to_wake_up)
{
	rr_time now;

	begin_in(RR_S_ASKED, false);
	c->hold_until = 7;
	cr_assert_not(rr_upgrade_waits(c));
	cr_assert_eq(c->hold_until, 0);
	cr_assert_not(rr_upgrade_unseen(c));
	c->sleepers = 1;
	cr_assert_not(rr_upgrade_unseen(c), "it has come since, met the lock and looks again");
	now = rr_now();
	cr_assert(rr_upgrade_waits(c));
	cr_assert(rr_upgrade_unseen(c));
	cr_assert(c->hold_until >= now + 100 * RR_MSEC && c->hold_until <= rr_now() + 100 * RR_MSEC);
	c->hold_until = now;
	cr_assert_not(rr_upgrade_waits(c));
	cr_assert_eq(c->hold_until, now);
	c->sleepers = 0;
}

Test(conn_steps, upgrades_may_be_stopped)
{
	rr_time tick;

	cr_assert_not(rr_upgrade_stopped());
	rr_test_params.stopped = stopped;
	do {
		tick = rr_now_coarse();
		stops_asked = 0;
		cr_assert_not(rr_upgrade_stopped());
		cr_assert_not(rr_upgrade_stopped());
	} while (rr_now_coarse() != tick);
	cr_assert_leq(stops_asked, 1, "a tick of the clock has one look");
	may_not = true;
	a_tick_passes();
	cr_assert(rr_upgrade_stopped());
	may_not = false;
	cr_assert_not(rr_upgrade_stopped(), "that they are is not kept");
}

Test(conn_steps, of_each_limit_the_smaller_one_counts)
{
	struct rr_hello h = { .caps = ~0u, .credits = 7, .bc_credits = 3, .max_msg = 5000 };
	struct rr_eng_params *ep = &share.ep;

	begin_in(RR_S_OFFERED, false);
	local.caps |= RR_PROV_RING | RR_PROV_DIRECT;
	*ep = (struct rr_eng_params){ .credits = 10, .bc_credits = 10, .max_msg = 10000 };
	rr_upgrade_agree(&share, &h, RR_DIALECT_V2);
	cr_assert(ep->dialect == RR_DIALECT_V2 && ep->credits == 7 && ep->bc_credits == 3 && ep->max_msg == 5000);
	cr_assert_eq(ep->caps, RR_CAP_HATCH | RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY | RR_CAP_REVERSE_CHUNKS |
			       RR_CAP_ADVANCES);
	cr_assert(ep->no_fallback && ep->patient);
	h = (struct rr_hello){ .caps = RR_CAP_HATCH | RR_CAP_RING_CREDITS | RR_CAP_ADVANCES, .credits = 100, .bc_credits = 100, .max_msg = 99999 };
	*ep = (struct rr_eng_params){ .credits = 10, .bc_credits = 11, .max_msg = 10000 };
	local.caps &= ~(uint32_t)(RR_PROV_RING | RR_PROV_DIRECT);
	rr_upgrade_agree(&share, &h, RR_DIALECT_V1);
	cr_assert(ep->credits == 10 && ep->bc_credits == 11 && ep->max_msg == 10000 && ep->caps == RR_CAP_HATCH);
	h = (struct rr_hello){ .caps = 0 };
	rr_upgrade_agree(&share, &h, RR_DIALECT_V1);
	cr_assert(ep->credits == 1 && ep->bc_credits == 1 && ep->max_msg == 1024 && ep->caps == 0 && !ep->patient);
}

/* --- what a client that asks is told ----------------------------------------------------------- */

Test(conn_steps, only_who_asks_is_told_and_only_if_that_is_allowed)
{
	struct rr_hello h = { .asks = 1, .nprov = 2, .prov = { { .id = 9 }, { .id = 4 } } }, a = { .release = "x" };

	h.token[3] = 77;
	rr_test_params.tell_peer = false;
	rr_answer_tell(&a, &h, RR_R_POLICY);
	cr_assert(a.release[0] == 0 && a.nlack == 0);
	rr_test_params.tell_peer = true;
	h.asks = 0;
	rr_answer_tell(&a, &h, RR_R_POLICY);
	cr_assert(a.release[0] == 0 && a.nlack == 0);
	h.asks = 1;
	rr_answer_tell(&a, &h, RR_R_NONE);
	cr_assert(a.nlack == 0 && !memcmp(a.release, rr_release, sizeof(a.release)) && a.token[3] == 77);
	rr_answer_tell(&a, &h, RR_R_POLICY);
	cr_assert(a.nlack == 2 && a.lack[0].id == 9 && a.lack[1].id == 4 && a.lack[0].why == RR_R_POLICY &&
		  a.lack[1].why == RR_R_POLICY);
	a.nlack = 1;
	rr_answer_tell(&a, &h, RR_R_NO_FDS);
	cr_assert(a.nlack == 1 && a.lack[0].why == RR_R_POLICY, "what was tried is said already");
	cr_assert_eq(rr_answer_refusal(RR_R_ADDRESSES), RR_NEGO_ELSEWHERE);
	cr_assert_eq(rr_answer_refusal(RR_R_ONE_HOST), RR_NEGO_ONE_HOST);
	cr_assert_eq(rr_answer_refusal(RR_R_POLICY), RR_NEGO_DECLINED);
}

Test(conn_steps, an_offer_is_accepted_or_there_is_a_reason)
{
	struct rr_hello h = { .version = RR_NEGO_VERSION, .nprov = 1, .prov = { { .id = RR_PROV_ID_SHM } } }, a;
	enum rr_reason why = RR_R_NO_ROUTE;

	begin_in(RR_S_NEW, true);
	rr_own_place(&h, p.client.c);
	t.answers = 9;
	h.version++;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(why == RR_R_RELEASES && a.nlack == 0);
	h.version--;
	h.ends[0] ^= 1;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert_eq(why, RR_R_ADDRESSES);
	h.ends[0] ^= 1;
	h.dialects = rr_dialects_add(0, RR_DIALECT_V2);
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert_eq(why, RR_R_DIALECT);
	cr_assert_eq(t.answers, 9, "nobody was asked");
	t.answers = 0;
	h.prov[0].id = 200;
	h.dialects = 0;
	h.caps = RR_CAP_HATCH | RR_CAP_CROSSING;
	h.token[1] = 9;
	rr_own_place(&h, p.client.c);
	why = RR_R_NO_ROUTE;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(why == RR_R_NO_ROUTE && a.nlack == 1 && a.lack[0].id == 200 && a.lack[0].why == RR_R_DISABLED);
	cr_assert(a.caps == RR_CAP_HATCH && a.token[1] == 9 && a.inline_size == 0 && a.recvs == 0 && a.nprov == 0);
	cr_assert_eq(a.dialects, rr_dialects_add(0, RR_DIALECT_V1));
	rr_test_params.verbs = true;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(a.nlack == 1 && a.lack[0].why == RR_R_NO_DEVICE);
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_DEVICE);
	h.nprov = 2;
	h.prov[1].id = RR_PROV_ID_SHM;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_DEVICE);
	h.nprov = 1;
	h.prov[0].id = RR_PROV_ID_SHM;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE, "there was none to be needed");
	h.prov[0].id = 200;
	t.second = &far;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE);
	rr_test_params.verbs = false;
	t.second = NULL;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE);
	/* By memory of another host. */
	h.prov[0].id = RR_PROV_ID_SHM;
	h.host[0] ^= 1;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(a.nlack == 1 && a.lack[0].why == RR_R_OTHER_HOST);
	h.host[0] ^= 1;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE, "within one namespace");
	h.nprov = 0;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert_eq(a.nlack, 0);
	/* Each of several has its own. */
	h.nprov = 2;
	h.prov[1].id = 200;
	t.answer_why = RR_R_NO_MEMORY;
	why = RR_R_NO_ROUTE;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(a.nlack == 2 && a.lack[0].id == RR_PROV_ID_SHM && a.lack[0].why == RR_R_NO_MEMORY && a.lack[1].id == 200);
	cr_assert(a.lack[1].why == RR_R_DISABLED && why == RR_R_NO_MEMORY);
	t.answers = 1;
	t.answer_why = RR_R_NONE;
	h.credits = 2;
	share.ep.credits = 9;
	h.prov[0].id = 200;
	h.prov[1].id = RR_PROV_ID_SHM;
	cr_assert(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(c->share == &share && a.nprov == 1 && a.prov[0].id == RR_PROV_ID_SHM && share.ep.credits == 2);
}

Test(conn_steps, what_was_shown_of_each_provider_is_noted_for_who_asked)
{
	struct rr_hello a = { .release = "9.9", .nlack = 3,
			      .lack = { { 255, RR_R_POLICY }, { 2, RR_R_NO_DEVICE }, { 1, RR_R_ONE_HOST }, { 3, RR_R_POLICY } } };
	struct rr_stat_told *told;

	begin_in(RR_S_OFFERED, false);
	told = &c->seg->told;
	rr_told_begin(c);
	rr_told_offered(c, 1);
	rr_told_here(c, 2, RR_R_NO_FDS);
	rr_told_there(c, &a);
	cr_assert(!told->offered[1] && !told->here[2] && !told->there[2] && !told->release[0], "nobody has asked");
	rr_test_params.ask_peer = true;
	rr_told_offered(c, 1);
	rr_told_offered(c, RR_TOLD_NATIVE);
	rr_told_offered(c, 200);
	rr_told_here(c, 2, RR_R_NO_FDS);
	rr_told_here(c, RR_STAT_PROVS - 1, RR_R_POLICY);
	rr_told_there(c, &a);
	cr_assert(told->offered[1] == 1 && told->offered[2] == 0 && told->here[2] == RR_R_NO_FDS && told->here[1] == 0);
	cr_assert(told->here[RR_STAT_PROVS - 1] == RR_R_POLICY);
	cr_assert(told->there[1] == RR_R_ONE_HOST && told->there[3] == 0);
	rr_told_offered(c, RR_STAT_PROVS);
	cr_assert_eq(told->here[0], 0);
	cr_assert(told->there[2] == RR_R_NO_DEVICE && !strcmp(told->release, "9.9"));
	rr_told_begin(c);
	cr_assert(told->offered[RR_TOLD_NATIVE] == 1, "a native peer is dialled before");
	for (int i = 0; i < (int)RR_STAT_PROVS; i++)
		cr_assert(i == RR_TOLD_NATIVE || (!told->offered[i] && !told->here[i] && !told->there[i]), "%d", i);
	for (size_t i = 0; i < sizeof(told->release); i++)
		cr_assert_eq(told->release[i], 0);
	c->seg = NULL;
	rr_told_begin(c);
	rr_told_offered(c, 1);
	rr_told_here(c, 1, RR_R_POLICY);
	rr_told_there(c, &a);
	cr_assert(told->offered[1] == 0 && told->here[1] == 0 && told->there[2] == 0);
}
