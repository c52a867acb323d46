/* SPDX-License-Identifier: BSD-3-Clause */
/* What the app writes while offers and answers ride along, call by call. */
#include "tests/unit/ride_played.h"

TestSuite(ride, .init = begin, .timeout = 60);

/* --- the end --- */

Test(ride, calls_are_learned_at_the_end)
{
	rr_ride_end(&c);
	cr_assert_eq(k.ends, 0);
	c.called = true;
	c.prog = 100003;
	c.out.records = 5;
	sh.tx.before.records = 7;
	sh.tx.records = 8;
	rr_ride_end(&c);
	cr_assert(k.ends == 1 && k.end_prog == 100003 && k.end_calls == 5 && !c.called);
	rr_ride_end(&c);
	cr_assert_eq(k.ends, 1);
	c.called = true;
	c.face.state = RR_S_CARRIED;
	rr_ride_end(&c);
	cr_assert(k.ends == 2 && k.end_calls == 15);
}

/* --- the app's first write --- */

static uint8_t buf[8192];
static size_t call_len;
static struct iovec call[2];

/* A call in two pieces. */
static void a_call(enum rr_conn_st st)
{
	afresh(st, false);
	call_len = rr_test_call(buf, 0x01020304, 100, 1);
	call[0] = (struct iovec){ buf, 50 };
	call[1] = (struct iovec){ buf + 50, call_len - 50 };
	k.sends[0] = (int)call_len;
}

static ssize_t first(void)
{
	return rr_ride_first(&c, FD, call, 2, 7);
}

static void call_is_noted(void)
{
	struct rr_rpc rpc;

	rr_rpc_peek(buf + RR_RM_HDR, (uint32_t)call_len - RR_RM_HDR, &rpc);
	cr_assert(c.called && c.prog == rpc.prog && c.prog && c.xid == 0x01020304);
}

Test(ride, a_first_call_goes_and_is_noted)
{
	a_call(RR_S_NEW);
	c.xid = 0;
	cr_assert_eq(first(), (ssize_t)call_len);
	call_is_noted();
	cr_assert(rr_conn_st(&c) == RR_S_WATCH && k.becomes == 0 && c.out.bytes == call_len && c.out.records == 1);
	cr_assert(k.nsends == 1 && k.sent == call_len && k.offered == 0);
	a_call(RR_S_NEW);
	c.seg = (struct rr_stat_seg *)&sh;
	cr_assert_eq(first(), (ssize_t)call_len);
	cr_assert(k.becomes == 1 && rr_conn_st(&c) == RR_S_WATCH && k.why == RR_R_FEW_CALLS && c.out.records == 1);
}

Test(ride, no_bytes_are_the_kernels)
{
	afresh(RR_S_NEW, false);
	call[0].iov_len = call[1].iov_len = 0;
	cr_assert_eq(first(), RR_CONN_KERNEL);
	cr_assert_eq(k.nsends, 0);
}

Test(ride, what_does_not_go_is_not_looked_at)
{
	a_call(RR_S_NEW);
	k.sends[0] = -EAGAIN;
	cr_assert_eq(first(), -EAGAIN);
	k.sends[1] = 0;
	cr_assert_eq(first(), 0);
	cr_assert(rr_conn_st(&c) == RR_S_NEW && !c.called && c.out.bytes == 0 && c.xid == 0x55);
}

Test(ride, what_a_filter_refuses_the_app_does_itself)
{
	static const int some[] = { EPERM, EACCES, ENOSYS };

	for (size_t i = 0; i < rr_array_size(some); i++) {
		a_call(RR_S_NEW);
		k.sends[0] = k.sends[1] = -some[i];
		cr_assert_eq(first(), RR_CONN_KERNEL);
		cr_assert(rr_conn_st(&c) == RR_S_TCP && k.why == RR_R_KERNEL_ONLY);
	}
}

Test(ride, what_is_no_call_stays_on_tcp)
{
	a_call(RR_S_NEW);
	memset(buf, 'x', 200);
	cr_assert_eq(first(), (ssize_t)call_len);
	cr_assert(rr_conn_st(&c) == RR_S_TCP && k.why == RR_R_NOT_RPC && c.out.bytes == 0 && !c.called);
	a_call(RR_S_NEW);
	memset(buf, 'x', 200);
	k.may_pay = true;
	cr_assert_eq(first(), RR_CONN_KERNEL);
	cr_assert(rr_conn_st(&c) == RR_S_TCP && k.why == RR_R_NOT_RPC && k.nsends == 0);
}

Test(ride, of_a_short_write_what_went_is_noted)
{
	a_call(RR_S_NEW);
	k.sends[0] = 20;
	cr_assert_eq(first(), 20);
	cr_assert(c.xid == 0x01020304 && rr_conn_st(&c) == RR_S_WATCH && c.out.bytes == 20 && c.out.records == 0);
	cr_assert(!c.called && c.prog == 0, "its program is not there yet");
	a_call(RR_S_NEW);
	k.sends[0] = 1;
	cr_assert_eq(first(), 1);
	cr_assert_eq(rr_conn_st(&c), RR_S_TCP, "too little to tell what it is");
	for (int n = 16; n < (int)(RR_RM_HDR + RR_RPC_PEEK); n++) {
		a_call(RR_S_NEW);
		k.sends[0] = n;
		first();
		cr_assert(!c.called && c.prog == 0, "%d", n);
	}
	a_call(RR_S_NEW);
	k.sends[0] = (int)(RR_RM_HDR + RR_RPC_PEEK);
	first();
	call_is_noted();
}

static bool unreadable(const struct iovec *iov, int n)
{
	cr_assert(iov == call && n == 2);
	return false;
}

static bool looks_first(void)
{
	rr_test_params.readable = unreadable;
	return first() == -EFAULT && k.nsends == 0;
}

Test(ride, who_must_look_before_it_goes)
{
	a_call(RR_S_NEW);
	cr_assert_not(looks_first());
	a_call(RR_S_NEW);
	c.require = true;
	cr_assert(looks_first());
	a_call(RR_S_NEW);
	rr_test_params.require_call = true;
	cr_assert(looks_first());
	rr_test_params.require_call = false;
	a_call(RR_S_NEW);
	k.may_pay = true;
	cr_assert(looks_first());
	a_call(RR_S_NEW);
	rr_test_params.verbs = true;
	k.device = true;
	cr_assert(looks_first());
	a_call(RR_S_NEW);
	cr_assert_not(looks_first(), "there is no device");
	a_call(RR_S_NEW);
	k.device = true;
	k.loopback = true;
	cr_assert_not(looks_first());
	a_call(RR_S_NEW);
	k.loopback = true;
	call[0].iov_len = 15;
	call[1].iov_len = 0;
	cr_assert(looks_first(), "it may be the beginning of something large");
}

Test(ride, an_offer_goes_with_it_or_before_it_or_not)
{
	a_call(RR_S_NEW);
	k.may_pay = true;
	k.required = true;
	cr_assert_eq(first(), RR_RIDE_OVER);
	call_is_noted();
	a_call(RR_S_NEW);
	k.may_pay = true;
	k.must_ask = true;
	cr_assert_eq(first(), RR_RIDE_OVER);
	cr_assert_eq(k.offered, 0);
	a_call(RR_S_NEW);
	k.may_pay = true;
	k.offers = 33;
	cr_assert_eq(first(), 33);
	cr_assert(k.offered == 1 && k.nsends == 0);
	a_call(RR_S_NEW);
	k.may_pay = true;
	k.offer_st = RR_S_ASKED;
	cr_assert_eq(first(), (ssize_t)call_len);
	cr_assert(k.counts == 1 && rr_conn_st(&c) == RR_S_ASKED && c.out.records == 1);
	a_call(RR_S_NEW);
	k.may_pay = true;
	cr_assert_eq(first(), (ssize_t)call_len);
	cr_assert(k.counts == 0 && rr_conn_st(&c) == RR_S_WATCH);
	call_is_noted();
}

/* --- other writes --- */

Test(ride, a_write_is_counted)
{
	a_call(RR_S_ASKED);
	cr_assert_eq(rr_ride_send(&c, FD, call, 2, 7), (ssize_t)call_len);
	cr_assert(k.counts == 1 && c.out.records == 1);
	cr_assert_eq(rr_ride_send(&c, FD, call, 2, 7), 0);
	k.sends[2] = -EAGAIN;
	cr_assert_eq(rr_ride_send(&c, FD, call, 2, 7), -EAGAIN);
	cr_assert(k.counts == 1 && c.out.bytes == call_len);
	c.kept = ECONNRESET;
	cr_assert_eq(rr_ride_send(&c, FD, call, 2, 7), -ECONNRESET);
	cr_assert(c.kept == 0 && k.nsends == 3);
}

Test(ride, a_refused_write_is_the_apps_where_nothing_was_said)
{
	a_call(RR_S_ASKED);
	k.sends[0] = k.sends[1] = k.sends[2] = k.sends[3] = -EPERM;
	cr_assert_eq(rr_ride_send(&c, FD, call, 2, 7), -EPERM);
	cr_assert_eq(k.becomes, 0);
	c.face.state = RR_S_WATCH;
	cr_assert_eq(rr_ride_send(&c, FD, call, 2, 7), RR_CONN_KERNEL);
	cr_assert(rr_conn_st(&c) == RR_S_TCP && k.why == RR_R_KERNEL_ONLY);
}

Test(ride, at_a_boundary_ours_may_go_ahead)
{
	for (int server = 0; server < 2; server++) {
		ssize_t (*sends)(struct rr_conn *, int, const struct iovec *, int, int) = server ? rr_heard_send : rr_watch_send;
		unsigned *tried = server ? &k.answered : &k.offered;

		a_call(server ? RR_S_HEARD : RR_S_WATCH);
		c.face.server = server;
		cr_assert_eq(sends(&c, FD, call, 2, 7), (ssize_t)call_len);
		cr_assert(*tried == 1 && k.counts == 1);
		k.offers = k.answers = 5;
		cr_assert_eq(sends(&c, FD, call, 2, 7), 5);
		cr_assert(*tried == 2 && k.nsends == 1);
		c.kept = EPIPE;
		cr_assert_eq(sends(&c, FD, call, 2, 7), -EPIPE);
		cr_assert_eq(*tried, 2);
		c.out.rm.in_record = true;
		sends(&c, FD, call, 2, 7);
		cr_assert(*tried == 2 && k.nsends == 2);
	}
	a_call(RR_S_WATCH);
	c.face.server = true;
	rr_watch_send(&c, FD, call, 2, 7);
	cr_assert(k.offered == 0 && k.answered == 0, "a server offers nothing");
}
