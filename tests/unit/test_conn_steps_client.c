/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's steps of an upgrade whose offer goes alone, before its first call. */
#include "core/base/log.h"
#include "tests/unit/conn_steps.h"
#include "tests/unit/log_said.h"

TestSuite(conn_steps_client, .init = begin, .timeout = 60);

/* --- the client's decisions --------------------------------------------------------------------- */

Test(conn_steps_client, loopback_is_where_it_is)
{
	struct sockaddr_in *v4;
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	begin_in(RR_S_NEW, false);
	v4 = (void *)&c->peer;
	v4->sin_family = AF_INET;
	v4->sin_addr.s_addr = htonl(0x7f010203);
	cr_assert(rr_offer_by_loopback(&c->peer));
	v4->sin_addr.s_addr = htonl(0x7e010203);
	cr_assert_not(rr_offer_by_loopback(&c->peer));
	v4->sin_addr.s_addr = htonl(0x80010203);
	cr_assert_not(rr_offer_by_loopback(&c->peer));
	c->peer = v6;
	cr_assert_not(rr_offer_by_loopback(&c->peer));
	c->peer.sin6_addr = in6addr_loopback;
	cr_assert(rr_offer_by_loopback(&c->peer));
	c->peer.sin6_addr.s6_addr[15] = 2;
	cr_assert_not(rr_offer_by_loopback(&c->peer));
	c->peer.sin6_addr = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };
	cr_assert(rr_offer_by_loopback(&c->peer));
	c->peer.sin6_addr.s6_addr[12] = 10;
	cr_assert_not(rr_offer_by_loopback(&c->peer));
}

Test(conn_steps_client, a_refusal_has_the_reason_that_says_most)
{
	begin_in(RR_S_OFFERED, false);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_NO), RR_R_NO_SHIM);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_ELSEWHERE), RR_R_ADDRESSES);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_ONE_HOST), RR_R_ONE_HOST);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED);
	c->lack = RR_R_NO_FDS;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_ONE_HOST), RR_R_NO_FDS);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_ELSEWHERE), RR_R_ADDRESSES);
	c->lack = 0;
	rr_test_params.verbs = true;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED, "no device leads to loopback");
	((struct sockaddr_in *)(void *)&c->peer)->sin_addr.s_addr = htonl(0x0a000001);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_NO_DEVICE);
	qp.ops = &far;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED, "there is one");
	qp.ops = &local;
	share.next = &(struct rr_share){ .qp = &(struct rr_qp){ .ops = &far } };
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED);
	share.next = NULL;
	c->share = NULL;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_NO_DEVICE);
	rr_test_params.verbs = false;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED);
}

static enum rr_mode says_mode;
static uint32_t asked_prog;

static enum rr_mode mode_call(const struct sockaddr *own, const struct sockaddr *peer, uint32_t prog)
{
	cr_assert(own && peer == (struct sockaddr *)&c->peer);
	asked_prog = prog;
	return says_mode;
}

Test(conn_steps_client, rules_come_first_and_then_what_is_known)
{
	uint32_t prog = 77;

	begin_in(RR_S_NEW, false);
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	cr_assert_not(c->require);
	c->require = true;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	cr_assert(c->require && rr_offer_required(c));
	c->require = false;
	cr_assert_not(rr_offer_required(c));
	rr_test_params.mode_call = mode_call;
	says_mode = RR_MODE_TCP;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_POLICY);
	cr_assert_eq(asked_prog, 77);
	cr_assert_eq(rr_offer_may(c, NULL), RR_R_NONE, "no program, no rule");
	says_mode = RR_MODE_REQUIRE;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	cr_assert(c->require);
	c->require = false;
	c->prog = 78;
	c->called = true;
	cr_assert_not(rr_offer_required(c), "not by the program");
	rr_test_params.require_call = true;
	cr_assert(rr_offer_required(c));
	cr_assert_eq(asked_prog, 78);
	c->called = false;
	cr_assert_not(rr_offer_required(c));
	c->called = true;
	says_mode = RR_MODE_AUTO;
	cr_assert_not(rr_offer_required(c));
	rr_cache_add(&c->peer, RR_R_NO_NATIVE, rr_now() + RR_SEC);
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	rr_cache_add(&c->peer, RR_R_NO_SHIM, rr_now() + 100 * RR_SEC);
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NO_SHIM);
	rr_cache_drop(&c->peer);
	rr_test_params.stopped = stopped;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	may_not = true;
	a_tick_passes();
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_STOPPED);
}

Test(conn_steps_client, what_does_not_begin_a_call_gets_no_offer)
{
	static const uint8_t tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a client hello";
	size_t n = rr_test_call(out, 1, 10, 1);

	cr_assert_eq(rr_offer_sniff(out, n), RR_R_NONE);
	cr_assert_eq(rr_offer_sniff(out, 15), RR_R_SHORT_WRITE);
	cr_assert_eq(rr_offer_sniff(tls, sizeof(tls)), RR_R_NOT_RPC);
	out[31] = 7;	/* flavour AUTH_TLS */
	out[4 + 27] = 7;
	cr_assert_eq(rr_offer_sniff(out, n), RR_R_TLS);
}

Test(conn_steps_client, a_provider_is_joined_or_there_is_a_reason)
{
	struct rr_hello h;

	begin_in(RR_S_OFFERED, false);
	share.token[0] = 5;
	share.ep.credits = 9;
	h = good_answer();
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_NONE);
	cr_assert(share.ep.credits == 4 && share.ep.dialect == RR_DIALECT_V1 && share.ep.no_fallback);
	h.version--;
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_RELEASES);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_RELEASES);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now() + rr_cp->negative_time + 1), RR_R_NONE);
	rr_cache_drop(&c->peer);
	for (int i = 0; i < 4; i++) {
		h = good_answer();
		if (i == 0)
			h.nprov = 0;
		else if (i == 1)
			h.nprov = 2;
		else if (i == 2)
			h.prov[0].id++;
		else
			h.token[RR_TOKEN_LEN - 1] ^= 1;
		cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_NO_PROVIDER, "%d", i);
	}
	h = good_answer();
	h.dialects = rr_dialects_add(0, RR_DIALECT_V2);
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_DIALECT);
	h = good_answer();
	t.join = -ECANCELED;
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_ABANDONED);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NONE);
	t.join = -EIO;
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_NO_PROVIDER);
	t.join = -EPROTONOSUPPORT;
	rr_test_params.ask_peer = true;
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_RELEASES);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_RELEASES);
	cr_assert_eq(c->seg->told.here[RR_PROV_ID_SHM], RR_R_RELEASES);
}

Test(conn_steps_client, a_provider_connects_or_does_not)
{
	uint64_t failures;

	begin_in(RR_S_JOINING, false);
	failures = counted(RR_C_upgrade_failures);
	rr_offer_join(c);
	cr_assert_eq(t.carries, 1);
	t.establish = -EAGAIN;
	rr_offer_join(c);
	is(RR_S_JOINING, RR_R_NONE);
	c->deadline = 1;
	rr_test_params.ask_peer = true;
	rr_offer_join(c);
	failed(RR_R_TIMEOUT);
	cr_assert_eq(c->seg->told.here[RR_PROV_ID_SHM], RR_R_TIMEOUT);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 1);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NONE, "of this host nothing is remembered");
	begin_in(RR_S_JOINING, false);
	qp.ops = &far;
	t.establish = -EHOSTUNREACH;
	rr_offer_join(c);
	failed(RR_R_NO_ROUTE);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NO_ROUTE);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now() + rr_cp->negative_time + 1), RR_R_NONE);
	qp.ops = &local;
	/* Other connections come first, however late it is. */
	begin_in(RR_S_MEETING, false);
	t.not_our_turn = true;
	c->deadline = 1;
	rr_offer_join(c);
	is(RR_S_MEETING, RR_R_NONE);
	begin_in(RR_S_SAID, true);
	t.not_our_turn = true;
	c->deadline = 1;
	rr_answer_rides(c);
	is(RR_S_SAID, RR_R_NONE);
	cr_assert_eq(t.withdraws, 0);
	begin_in(RR_S_JOINING, false);
	t.not_our_turn = true;
	rr_offer_join(c);
	cr_assert_eq(t.carries, 1, "who is waited for has no turn");
}

/* --- the answer to an offer that went alone -------------------------------------------------------- */

static void answered(enum rr_nego how, uint32_t caps)
{
	struct rr_hello h = good_answer();

	h.caps |= caps;
	c->xid = 5;
	heard = how == RR_NEGO_OURS ? rr_nego_put_answer(&h, 5, heard_bytes, sizeof(heard_bytes))
				    : rr_nego_put_refusal(how, 5, NULL, heard_bytes, sizeof(heard_bytes));
	heard_errno = 0;
}

Test(conn_steps_client, an_answer_is_waited_for_and_what_comes_instead_is_the_end_of_it)
{
	begin_in(RR_S_OFFERED, false);
	play_os();
	heard_errno = EAGAIN;
	rr_offer_hear(c, fd);
	is(RR_S_OFFERED, RR_R_NONE);
	heard_errno = EINTR;
	rr_offer_hear(c, fd);
	is(RR_S_OFFERED, RR_R_NONE);
	answered(RR_NEGO_OURS, 0);
	heard = 10;		/* of it */
	rr_offer_hear(c, fd);
	is(RR_S_OFFERED, RR_R_NONE);
	c->deadline = 1;
	c->meanwhile = false;
	c->in.records = 9;
	rr_offer_hear(c, fd);
	is(RR_S_SWALLOW, RR_R_TIMEOUT);
	cr_assert(!c->share && t.frees == 1 && c->in.records == 0);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NEGATIVE_CACHE);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now() + rr_cp->negative_time + 1), RR_R_NONE);
	begin_in(RR_S_OFFERED, false);
	c->deadline = 1;
	c->meanwhile = true;
	rr_offer_hear(c, fd);
	is(RR_S_ASKED, RR_R_NONE);
	cr_assert(c->share && c->deadline > rr_now());
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_TIMEOUT);
	/* The app itself has shut it. */
	begin_in(RR_S_OFFERED, false);
	heard = 0;
	c->shut_rd = true;
	rr_offer_hear(c, fd);
	is(RR_S_SWALLOW, RR_R_CLOSED);
	/* Bytes that are no answer. */
	begin_in(RR_S_OFFERED, false);
	heard = 40;
	memset(heard_bytes, 0x33, 40);
	rr_offer_hear(c, fd);
	is(RR_S_SWALLOW, RR_R_NO_SHIM);
	cr_assert_eq(t.consumed, 0);
}

/* --- an offer that goes alone --------------------------------------------------------------------- */

static uint8_t sent[600];
static ssize_t sent_len;
static int send_errno, sends;

static ssize_t sending(int at, const void *buf, size_t len, int flags)
{
	cr_assert(at == fd && flags == (MSG_DONTWAIT | MSG_NOSIGNAL) && len <= sizeof(sent));
	sends++;
	errno = send_errno;
	if (send_errno)
		return -1;
	memcpy(sent, buf, len);
	if (!sent_len)
		sent_len = (ssize_t)len;
	return sent_len;
}

static void begin_new(void)
{
	begin_in(RR_S_NEW, false);
	c->share = NULL;
	c->require = false;
	c->meanwhile = false;
	play_os();
	play_socket(POLLOUT);
	os.send = sending;
	sent_len = 0;
	send_errno = sends = 0;
}

static int first(size_t n)
{
	return rr_upgrade_first_write(c, fd, &(struct iovec){ out, n }, 1);
}

static bool unreadable(const struct iovec *iov, int n)
{
	return !iov || !n;
}

Test(conn_steps_client, everything_is_looked_at_before_an_offer_goes)
{
	size_t n = rr_test_call(out, 7, 10, 1);

	begin_new();
	bits = 0;
	cr_assert_eq(first(n), -EAGAIN);
	is(RR_S_NEW, RR_R_NONE);
	cr_assert_eq(first(0), 0);
	is(RR_S_NEW, RR_R_NONE);
	rr_test_params.readable = unreadable;
	cr_assert_eq(first(n), -EFAULT);
	rr_test_params.readable = NULL;
	bits = POLLOUT | POLLIN;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_SERVER_SPOKE_FIRST);
	begin_new();
	bits = POLLOUT | POLLIN | POLLHUP;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_CLOSED);
	begin_new();
	bits = POLLOUT | POLLERR;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_CLOSED);
	cr_assert_eq(c->prog, 0x20005244);
	begin_new();
	bits = POLLOUT | POLLERR;
	cr_assert_eq(first(10), 0);
	is(RR_S_TCP, RR_R_SHORT_WRITE);
	cr_assert_eq(c->prog, 0);
	begin_new();
	t.spoken = true;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_KERNEL_ONLY);
	cr_assert_eq(sends, 0);
	begin_new();
	rr_test_params.mode_call = mode_call;
	says_mode = RR_MODE_TCP;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_POLICY);
	cr_assert_eq(asked_prog, 0x20005244);
	rr_test_params.mode_call = NULL;
	begin_in(RR_S_NEW, true);
	cr_assert_eq(rr_upgrade_first_write(c, fd, &(struct iovec){ out, n }, 1), 0);
	is(RR_S_TCP, RR_R_SERVER_SPOKE_FIRST);
}

Test(conn_steps_client, an_offer_says_who_makes_it)
{
	size_t n = rr_test_call(out, 7, 10, 1);
	struct rr_hello h;
	uint32_t xid = 0, need;
	uint64_t before;
	rr_time now;

	begin_new();
	before = counted(RR_C_offers_sent);
	rr_test_params.offer_after = RR_AFTER_WAIT;
	rr_test_params.ask_peer = true;
	c->seg->told.here[3] = 9;
	t.second = &far;
	now = rr_now();
	cr_assert_eq(first(n), 0);
	is(RR_S_OFFERED, RR_R_NONE);
	cr_assert_eq(counted(RR_C_offers_sent), before + 1);
	cr_assert(c->deadline >= now + rr_cp->upgrade_timeout && c->deadline <= rr_now() + rr_cp->upgrade_timeout);
	cr_assert_eq(c->out.ours, (uint32_t)sent_len);
	cr_assert_eq(rr_nego_get_offer(sent, (size_t)sent_len, rr_cp->program, &xid, &h, &need), RR_NEGO_OURS);
	cr_assert(xid == c->xid && xid == (7 ^ (0x08060402 | 1)), "%x", xid);
	cr_assert(h.nprov == 1 && h.prov[0].id == RR_PROV_ID_SHM && t.offers == 1, "no device leads to loopback");
	cr_assert(c->share == &offered[0] && c->lack == RR_R_NONE);
	cr_assert_eq(h.caps, rr_own_caps());
	cr_assert(!c->meanwhile && h.asks);
	cr_assert(h.token[0] == 10 && h.token[15] == 40 && rr_own_host(&h) && rr_own_ends(&h, p.server.c));
	cr_assert(c->seg->told.here[3] == 0 && c->seg->told.offered[RR_PROV_ID_SHM] == 1);
	begin_new();
	rr_test_params.offer_after = 1;
	cr_assert_eq(first(n), 0);
	rr_nego_get_offer(sent, (size_t)sent_len, rr_cp->program, &xid, &h, &need);
	cr_assert(h.caps == (rr_own_caps() | RR_CAP_MEANWHILE) && c->meanwhile);
	begin_new();
	c->require = true;
	cr_assert_eq(first(n), 0);
	rr_nego_get_offer(sent, (size_t)sent_len, rr_cp->program, &xid, &h, &need);
	cr_assert(h.caps == rr_own_caps() && !c->meanwhile);
	c->require = false;
}

Test(conn_steps_client, all_providers_are_offered_to_another_host)
{
	struct rr_hello h = { .nprov = 0 };

	begin_new();
	((struct sockaddr_in *)(void *)&c->peer)->sin_addr.s_addr = htonl(0x0a000001);
	t.second = &far;
	cr_assert_eq(rr_offer_make(c, fd, &h), RR_R_NONE);
	cr_assert(h.nprov == 2 && h.prov[0].id == RR_PROV_ID_SHM && h.prov[1].id == RR_PROV_ID_VERBS);
	cr_assert(c->share == &offered[0] && offered[0].next == &offered[1] && !offered[1].next);
	c->share = NULL;
	t.offer_why = RR_R_NO_MEMORY;
	rr_test_params.ask_peer = true;
	cr_assert_eq(rr_offer_make(c, fd, &h), RR_R_NO_MEMORY);
	cr_assert(h.nprov == 0 && !c->share && c->lack == RR_R_NO_MEMORY);
	cr_assert(c->seg->told.here[RR_PROV_ID_SHM] == RR_R_NO_MEMORY && c->seg->told.here[RR_PROV_ID_VERBS] == RR_R_NO_MEMORY);
	t.no_random = true;
	t.offer_why = RR_R_NONE;
	cr_assert_eq(rr_offer_make(c, fd, &h), RR_R_NO_MEMORY);
	cr_assert_eq(t.offers, 2);
}

Test(conn_steps_client, an_offer_that_does_not_go_is_none)
{
	size_t n = rr_test_call(out, 7, 10, 1);

	begin_new();
	send_errno = EAGAIN;
	cr_assert_eq(first(n), -EAGAIN);
	is(RR_S_NEW, RR_R_NONE);
	cr_assert(!c->share && t.frees == 1);
	send_errno = EPIPE;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_CLOSED);
	cr_assert(!c->share && t.frees == 2 && resets == 0);
	begin_new();
	sent_len = 5;	/* half an offer cannot be taken back */
	cr_assert_eq(first(n), 0);
	failed(RR_R_INTERNAL);
	cr_assert_eq(resets, 1);
	begin_new();
	t.no_random = true;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_NO_MEMORY);
	cr_assert_eq(sends, 0);
}

Test(conn_steps_client, who_reads_first_may_find_what_is_not_for_us)
{
	begin_new();
	cr_assert_eq(rr_upgrade_first_read(c, fd), -EAGAIN);
	bits = 0;
	cr_assert_eq(rr_upgrade_first_read(c, fd), -EAGAIN);
	is(RR_S_NEW, RR_R_NONE);
	bits = POLLIN;
	cr_assert_eq(rr_upgrade_first_read(c, fd), RR_CONN_KERNEL);
	is(RR_S_TCP, RR_R_SERVER_SPOKE_FIRST);
	begin_new();
	bits = POLLHUP | POLLOUT;
	cr_assert_eq(rr_upgrade_first_read(c, fd), RR_CONN_KERNEL);
	begin_in(RR_S_NEW, true);
	cr_assert_eq(rr_upgrade_first_read(c, fd), -EAGAIN);
}

static int connects, connect_fails, connect_errno = EINPROGRESS;
static struct sockaddr_in connected[2];

static int connecting(int at, const struct sockaddr *a, socklen_t len)
{
	cr_assert_eq(at, fd);
	memcpy(&connected[connects], a, rr_min((size_t)len, sizeof(connected[0])));
	errno = connect_errno;
	return connects++ == connect_fails ? -1 : 0;
}

/* A connection that is being made is none that has failed. */
Test(conn_steps_client, whether_it_could_be_connected_to_again_is_logged)
{
	static const struct { int fails, with; bool said; } of[] = {
		{ -1, EINPROGRESS, false }, { -1, ECONNREFUSED, false }, { 1, EINPROGRESS, false }, { 1, ECONNREFUSED, true },
		{ 0, EINPROGRESS, true },
	};

	rr_log_setup(RR_LOG_INFO, hear);
	for (unsigned i = 0; i < rr_array_size(of); i++) {
		begin_in(RR_S_OFFERED, false);
		play_os();
		os.connect = connecting;
		connects = 0;
		connect_fails = of[i].fails;
		connect_errno = of[i].with;
		heard_errno = ECONNRESET;
		said[0] = '\0';
		rr_offer_hear(c, fd);
		failed(RR_R_CLOSED_ON_OFFER);
		cr_assert_eq(!!strstr(said, "connecting again failed"), of[i].said, "%u", i);
	}
}

Test(conn_steps_client, a_server_that_closes_on_the_offer_is_connected_to_again)
{
	for (int i = 0; i < 3; i++) {
		begin_in(RR_S_OFFERED, false);
		play_os();
		os.connect = connecting;
		connects = 0;
		connect_fails = i == 2 ? 1 : -1;
		heard_errno = i ? ECONNRESET : 0;
		c->told[0] = c->told[1] = true;
		c->end[0].sin6_port = 1;
		rr_offer_hear(c, fd);
		cr_assert(!c->told[0] || c->end[0].sin6_port != 1, "its address may be another");
		cr_assert(connects == 2 && connected[0].sin_family == AF_UNSPEC);
		cr_assert_eq(memcmp(&connected[1], &c->peer, sizeof(connected[1])), 0);
		failed(RR_R_CLOSED_ON_OFFER);
		cr_assert_eq(rr_cache_look(&c->peer, rr_now() + 10 * rr_cp->negative_time - RR_SEC), RR_R_NEGATIVE_CACHE);
		cr_assert_eq(rr_cache_look(&c->peer, rr_now() + 10 * rr_cp->negative_time + 1), RR_R_NONE);
	}
	begin_in(RR_S_OFFERED, false);
	connects = connect_fails = 0;
	rr_offer_hear(c, fd);
	cr_assert_eq(connects, 1, "what is connected still is not connected again");
	failed(RR_R_CLOSED_ON_OFFER);
}

Test(conn_steps_client, an_answer_leads_to_the_provider)
{
	uint64_t failures;

	begin_in(RR_S_OFFERED, false);
	play_os();
	c->meanwhile = false;
	answered(RR_NEGO_OURS, RR_CAP_MEANWHILE);
	t.establish = -EAGAIN;
	rr_offer_hear(c, fd);
	is(RR_S_JOINING, RR_R_NONE);
	cr_assert(t.consumed == 1 && t.consumed_len == (uint32_t)heard && c->in.ours == (uint32_t)heard);
	cr_assert(rr_learned_is_ours(&c->peer));
	begin_in(RR_S_OFFERED, false);
	c->meanwhile = true;
	t.establish = -EAGAIN;
	rr_offer_hear(c, fd);
	is(RR_S_MEETING, RR_R_NONE);
	begin_in(RR_S_OFFERED, false);
	c->meanwhile = true;
	answered(RR_NEGO_OURS, 0);
	t.establish = -EAGAIN;
	rr_offer_hear(c, fd);
	is(RR_S_JOINING, RR_R_NONE);
	begin_in(RR_S_OFFERED, false);
	t.not_consumed = true;
	rr_offer_hear(c, fd);
	failed(RR_R_INTERNAL);
	begin_in(RR_S_OFFERED, false);
	t.join = -EIO;
	failures = counted(RR_C_upgrade_failures);
	rr_offer_hear(c, fd);
	failed(RR_R_NO_PROVIDER);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 1);
	begin_in(RR_S_OFFERED, false);
	c->meanwhile = true;
	answered(RR_NEGO_OURS, RR_CAP_MEANWHILE);
	t.join = -EIO;
	rr_offer_hear(c, fd);
	failed(RR_R_NO_PROVIDER);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 2);
	/* Somebody sleeps who does not wake. */
	begin_in(RR_S_OFFERED, false);
	c->meanwhile = false;
	c->sleepers = 1;
	rr_offer_hear(c, fd);
	is(RR_S_OFFERED, RR_R_NONE);
	c->hold_until = 1;
	rr_offer_hear(c, fd);
	failed(RR_R_KERNEL_ONLY);
	c->sleepers = 0;
}

Test(conn_steps_client, a_refusal_is_remembered)
{
	static const struct { enum rr_nego how; enum rr_reason why; } of[] = {
		{ RR_NEGO_DECLINED, RR_R_DECLINED }, { RR_NEGO_ELSEWHERE, RR_R_ADDRESSES }, { RR_NEGO_ONE_HOST, RR_R_ONE_HOST },
	};

	for (unsigned i = 0; i < rr_array_size(of); i++) {
		begin_in(RR_S_OFFERED, false);
		play_os();
		rr_learned_ours(&c->peer, false);
		answered(of[i].how, 0);
		rr_offer_hear(c, fd);
		failed(of[i].why);
		cr_assert(t.consumed == 1 && t.consumed_len == (uint32_t)heard);
		cr_assert(rr_learned_is_ours(&c->peer));
		cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NEGATIVE_CACHE);
	}
	begin_in(RR_S_OFFERED, false);	/* PROG_UNAVAIL */
	c->xid = 5;
	heard = (ssize_t)rr_test_reply(heard_bytes, 5, 0, 1);
	heard_bytes[27] = 1;
	rr_offer_hear(c, fd);
	failed(RR_R_NO_SHIM);
	cr_assert_eq(t.consumed, 1);
	cr_assert_not(rr_learned_is_ours(&c->peer));
}
