/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's steps of an upgrade whose offer goes along with a call. */
#include "tests/unit/conn_steps.h"

TestSuite(conn_steps_along, .init = begin, .timeout = 60);

Test(conn_steps_along, an_answer_that_rode_along_leads_to_the_provider_or_nowhere)
{
	struct rr_hello h;

	begin_in(RR_S_ASKED, false);
	h = good_answer();
	h.caps |= RR_CAP_CROSSING;
	t.establish = -EAGAIN;
	c->in.ours = 3;
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), RR_RIDE_OVER);
	is(RR_S_MEETING, RR_R_NONE);
	cr_assert(t.consumed_len == 60 && c->in.ours == 63 && rr_learned_is_ours(&c->peer));
	for (int i = 0; i < 5; i++) {
		begin_in(RR_S_ASKED, false);
		c->meanwhile = i == 1;
		t.not_seen_all = i == 2;
		t.join = i == 3 ? -EIO : 0;
		t.not_consumed = i == 4;
		h = good_answer();
		h.caps |= i ? RR_CAP_CROSSING : RR_CAP_MEANWHILE;
		cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), RR_RIDE_OVER);
		failed(i < 2 ? RR_R_DECLINED : i == 2 ? RR_R_KERNEL_ONLY : i == 3 ? RR_R_NO_PROVIDER : RR_R_INTERNAL);
	}
	c->meanwhile = false;
	begin_in(RR_S_ASKED, false);
	c->meanwhile = true;
	h = good_answer();
	h.caps |= RR_CAP_MEANWHILE;
	t.establish = -EAGAIN;
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), RR_RIDE_OVER);
	is(RR_S_MEETING, RR_R_NONE);
	begin_in(RR_S_ASKED, false);
	c->sleepers = 1;
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), -EAGAIN);
	cr_assert_eq(t.consumed, 0);
	c->sleepers = 0;
}

Test(conn_steps_along, a_refusal_that_rode_along_is_one)
{
	struct rr_hello h = { .nlack = 0 };

	begin_in(RR_S_ASKED, false);
	rr_learned_ours(&c->peer, false);
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_DECLINED, &h, 60), RR_RIDE_OVER);
	failed(RR_R_DECLINED);
	cr_assert(rr_learned_is_ours(&c->peer));
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NEGATIVE_CACHE);
	begin_in(RR_S_ASKED, false);
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_NO, &h, 60), RR_RIDE_OVER);
	failed(RR_R_NO_SHIM);
	cr_assert_not(rr_learned_is_ours(&c->peer));
	/* Too late to be used. */
	begin_in(RR_S_SWALLOW, false);
	rr_cache_add(&c->peer, RR_R_TIMEOUT, rr_now() + RR_SEC * 100);
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_NO, &h, 60), RR_RIDE_OVER);
	is(RR_S_TCP, RR_R_TIMEOUT);
	cr_assert_not(rr_learned_is_ours(&c->peer));
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_TIMEOUT);
	rr_conn_turn(c, RR_S_SWALLOW);
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), RR_RIDE_OVER);
	is(RR_S_TCP, RR_R_TIMEOUT);
	cr_assert(rr_learned_is_ours(&c->peer));
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NONE, "it may be offered to again");
}

Test(conn_steps_along, who_must_be_asked_first)
{
	begin_in(RR_S_NEW, false);
	rr_test_params.verbs = true;
	t.second = &far;
	rr_learned_ours(&c->peer, false);
	cr_assert_not(rr_ride_must_ask(c, fd, 0), "by loopback");
	((struct sockaddr_in *)(void *)&c->peer)->sin_addr.s_addr = htonl(0x0a000001);
	cr_assert(rr_ride_must_ask(c, fd, 0));
	cr_assert_not(rr_ride_must_ask(c, fd, MSG_DONTWAIT));
	t.evidence = true;
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	t.evidence = false;
	t.second = NULL;
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	t.second = &far;
	rr_test_params.verbs = false;
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	rr_test_params.verbs = true;
	rr_cache_add(&c->peer, RR_R_NO_SHIM, rr_now() + RR_SEC * 100);
	cr_assert(rr_ride_must_ask(c, fd, 0));
	rr_cache_add(&c->peer, RR_R_TIMEOUT, rr_now() + RR_SEC * 100);
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	rr_cache_drop(&c->peer);
	rr_learned_ours(&c->peer, true);
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	rr_learned_ours(&c->peer, false);
	cr_assert(rr_ride_must_ask(c, fd, 0));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	cr_assert_not(rr_ride_must_ask(c, -1, 0));
}

/* --- an offer that goes along ----------------------------------------------------------------- */

static ssize_t sent;
static int send_errno;

/* All, or so many bytes, of what is there. */
static ssize_t sending(int at, const struct msghdr *m, int flags)
{
	ssize_t n = 0;

	cr_assert(at == fd && flags == (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE));
	if (send_errno) {
		errno = send_errno;
		return -1;
	}
	for (size_t i = 0; i < m->msg_iovlen; i++)
		n += (ssize_t)m->msg_iov[i].iov_len;
	return sent ? sent : n;
}

static void peer_is(uint32_t addr)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = 7, .sin_addr.s_addr = htonl(addr) };

	memset(&c->name, 0, sizeof(c->name));
	memset(&c->end, 0, sizeof(c->end));
	memcpy(&c->end[0], &a, sizeof(a));
	memcpy(&c->end[1], &a, sizeof(a));
	c->told[0] = c->told[1] = true;
	rr_offer_peer(c);
	rr_cache_drop(&c->peer);
	rr_learned_ours(&c->peer, true);
}

/* A connection that rides, with a server on another host that is known to have the library, and a device by which that
 * could be reached. */
static void begin_ride(void)
{
	begin_in(RR_S_WATCH, false);
	play_os();
	play_socket(0);
	os.sendmsg = sending;
	c->share = NULL;
	c->learned = c->require = false;
	c->deadline = 0;
	peer_is(0x0a000001);
	rr_test_params.offer_after = 1;
	rr_test_params.verbs = true;
	t.second = &far;
	sent = 0;
	send_errno = 0;
}

static ssize_t offers(size_t n)
{
	return rr_ride_offer(c, fd, &(struct iovec){ out, n }, 1, MSG_MORE);
}

static void goes_not(enum rr_reason why)
{
	cr_assert_eq(offers(44), RR_CONN_KERNEL);
	is(RR_S_TCP, why);
	cr_assert_eq(t.offers, 0);
}

Test(conn_steps_along, an_offer_goes_to_whom_it_may)
{
	begin_ride();
	cr_assert_eq(offers(44), 44);
	cr_assert_eq(t.room_asked, RR_OFFER_MAX + 44);
	is(RR_S_ASKED, RR_R_NONE);
	cr_assert(t.offers && c->share && c->deadline > rr_now());
	begin_ride();
	rr_learned_ours(&c->peer, false);
	goes_not(RR_R_NOT_ASKED);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NOT_ASKED);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now() + RR_SEC + RR_MSEC), RR_R_NONE);
	begin_ride();
	rr_test_params.verbs = false;
	goes_not(RR_R_NOT_ASKED);
	begin_ride();
	t.second = NULL;
	goes_not(RR_R_NOT_ASKED);
	begin_ride();
	t.evidence = true;
	t.second = NULL;
	rr_learned_ours(&c->peer, false);
	cr_assert_eq(offers(44), 44);
	is(RR_S_ASKED, RR_R_NONE);
	/* At a loopback address it would have been seen. */
	begin_ride();
	peer_is(INADDR_LOOPBACK);
	goes_not(RR_R_NO_SHIM);
}

Test(conn_steps_along, an_offer_goes_when_it_may)
{
	begin_ride();
	cr_assert_eq(offers(3), 0, "no record mark");
	rr_test_params.offer_after = 2;
	cr_assert_eq(offers(44), 0, "it does not pay yet");
	rr_test_params.offer_after = 1;
	rr_cache_add(&c->peer, RR_R_TIMEOUT, rr_now() + 100 * RR_SEC);
	cr_assert_eq(offers(44), 0, "another one waits for its answer");
	is(RR_S_WATCH, RR_R_NONE);
	cr_assert_eq(t.offers, 0);
	rr_cache_add(&c->peer, RR_R_DECLINED, rr_now() + 100 * RR_SEC);
	goes_not(RR_R_DECLINED);
	begin_ride();
	bits = POLLRDHUP;
	goes_not(RR_R_CLOSED);
	begin_ride();
	t.not_seen_all = true;
	goes_not(RR_R_KERNEL_ONLY);
	begin_ride();
	t.offer_why = RR_R_NO_FDS;
	goes_not(RR_R_NO_FDS);
}

Test(conn_steps_along, of_an_offer_that_does_not_go_nothing_is_left)
{
	uint64_t said;

	begin_ride();
	rr_report_adopt(c);
	said = counted(RR_C_offers_sent);
	send_errno = EAGAIN;
	cr_assert_eq(offers(44), 0, "the app's bytes may go nevertheless");
	is(RR_S_WATCH, RR_R_NONE);
	cr_assert(!c->share && t.frees == 1);
	send_errno = ECONNRESET;
	cr_assert_eq(offers(44), -ECONNRESET);
	is(RR_S_WATCH, RR_R_NONE);
	cr_assert(!c->share && t.frees == 2 && resets == 0);
	send_errno = 0;
	sent = 10;	/* of the offer */
	cr_assert_eq(offers(44), -ECONNRESET);
	is(RR_S_TCP, RR_R_INTERNAL);
	cr_assert(!c->share && resets == 1);
	cr_assert_eq(counted(RR_C_offers_sent), said);
	begin_ride();
	cr_assert_eq(offers(44), 44);
	cr_assert_eq(counted(RR_C_offers_sent), said + 1);
	cr_assert(c->asked_in == c->in.records && c->asked_out == c->out.records && c->most == 0);
}
