/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's steps of an upgrade whose offer goes along with a call, and what an offer from this host is told that no
 * provider can be used for. */
#include <stdarg.h>

#include "tests/unit/conn_steps.h"

TestSuite(conn_steps_server, .init = begin, .timeout = 60);

static void begin_server(enum rr_conn_st st)
{
	if (c && c->half)
		rr_half_leave(c);
	begin_in(st, true);
	c->sleepers = 0;
	c->lowat = 1;
}

/* --- which ends it has ------------------------------------------------------------------------- */

/* The connection is one between two addresses, which differ in their last byte if at all. */
static void lies_between(sa_family_t family, uint8_t own, uint8_t peer)
{
	struct rr_conn *const of[] = { p.server.c, p.client.c };

	for (int i = 0; i < 4; i++) {
		struct sockaddr_in6 *a = &of[i / 2]->end[i % 2];
		uint8_t last = i == 0 || i == 3 ? own : peer;

		memset(a, 0, sizeof(*a));
		a->sin6_family = family;
		a->sin6_port = i == 0 || i == 3 ? 7 : 8;
		if (family == AF_INET6)
			a->sin6_addr.s6_addr[15] = last;
		else
			((struct sockaddr_in *)(void *)a)->sin_addr.s_addr = htonl(0x0a000000 + last);
		of[i / 2]->told[i % 2] = true;
		memset(of[i / 2]->name, 0, sizeof(of[i / 2]->name));
	}
}

static enum rr_reason lacks(const struct rr_hello *h, uint32_t i)
{
	enum rr_reason why = RR_R_NO_ROUTE;
	struct rr_hello a;

	cr_assert_not(rr_answer_accept(c, fd, h, &a, &why));
	cr_assert(a.nlack == h->nprov && a.nprov == 0);
	cr_assert_eq(a.lack[i].id, h->prov[i].id);
	return (enum rr_reason)a.lack[i].why;
}

/* Other addresses on one host are another network namespace, whose sockets are not to be reached. */
Test(conn_steps_server, an_offer_from_another_namespace_of_this_host_is_told_so)
{
	static const sa_family_t family[] = { AF_INET, AF_INET6 };

	begin_server(RR_S_NEW);
	for (int i = 0; i < 4; i++) {
		struct rr_hello h = { .version = RR_NEGO_VERSION, .nprov = 1, .prov = { { .id = RR_PROV_ID_SHM } } };
		bool same = i & 1;

		lies_between(family[i / 2], 1, same ? 1 : 2);
		rr_own_place(&h, p.client.c);
		cr_assert_eq(lacks(&h, 0), same ? RR_R_NO_ROUTE : RR_R_ONE_HOST, "%d", i);
		cr_assert_eq(rr_answer_why_not(c, &h), same ? RR_R_NO_ROUTE : RR_R_ONE_HOST, "%d", i);
		if (same)
			continue;
		t.answer_why = RR_R_NO_MEMORY;
		cr_assert_eq(lacks(&h, 0), RR_R_NO_MEMORY, "what was tried has shown more");
		t.answer_why = RR_R_NONE;
		h.nprov = 2;
		h.prov[1].id = RR_PROV_ID_SHM;
		cr_assert_eq(lacks(&h, 1), RR_R_ONE_HOST);
		cr_assert_eq(rr_answer_why_not(c, &h), RR_R_ONE_HOST);
		h.prov[1].id = far.id;
		cr_assert_eq(lacks(&h, 1), RR_R_DISABLED);
		cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE, "a device might have reached it");
		h.nprov = 0;
		cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE);
		h.nprov = 1;
		h.host[0] ^= 1;
		cr_assert_eq(lacks(&h, 0), RR_R_OTHER_HOST);
		cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE);
	}
}

static int unnamed(int at, struct sockaddr *a, socklen_t *len)
{
	(void)a;
	(void)len;
	errno = at >= 0 ? ENOTCONN : EBADF;
	return -1;
}

Test(conn_steps_server, of_ends_that_are_not_known_nothing_is_said)
{
	struct rr_hello h = { .version = RR_NEGO_VERSION, .nprov = 1, .prov = { { .id = RR_PROV_ID_SHM } } };

	rr_test_params.bypass_proxies = true;
	begin_server(RR_S_NEW);
	lies_between(AF_INET, 1, 2);
	play_os();
	os.getpeername = os.getsockname = unnamed;
	rr_ends_changed(c);
	rr_ends_changed(p.client.c);
	rr_own_place(&h, p.client.c);
	cr_assert_eq(lacks(&h, 0), RR_R_NO_ROUTE);
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE);
}

/* --- an offer in front of a call --------------------------------------------------------------- */

Test(conn_steps_server, what_the_next_read_may_take_is_one_record)
{
	uint8_t head[RR_OFFER_MAX + 60];

	for (int begins = 0; begins < 2; begins++) {
		void (*next)(struct rr_conn *, const uint8_t *, size_t) = begins ? rr_ride_begin : rr_ride_next;

		begin_server(RR_S_WATCH);
		c->part_since = 5;
		(void)rr_test_call(head, 1, 60, 1);
		size_t n = 4 + (size_t)(head[2] << 8 | head[3]);

		cr_assert_lt(n, RR_OFFER_MAX);
		next(c, head, n);
		cr_assert(c->most == n && c->whole);
		cr_assert_eq(c->part_since, begins ? 0 : 5);
		is(RR_S_WATCH, begins ? RR_R_NO_OFFER : RR_R_NONE);
		rr_conn_turn(c, RR_S_WATCH);
		next(c, head, n - 1);
		cr_assert(c->most == n && !c->whole);
		next(c, head, n + 1);
		cr_assert(c->most == n && !c->whole);
		c->lowat = 2;
		next(c, head, n);
		cr_assert(c->most == n && !c->whole, "who waits for more is woken by more");
		c->lowat = 1;
		for (uint32_t len = RR_OFFER_MAX - 1; len <= RR_OFFER_MAX; len++) {
			head[2] = (uint8_t)((len - 4) >> 8);
			head[3] = (uint8_t)(len - 4);
			next(c, head, len);
			cr_assert(c->most == len && c->whole == (len < RR_OFFER_MAX));
		}
	}
}

static struct rr_hello good_offer(void)
{
	struct rr_hello h = { .version = RR_NEGO_VERSION, .nprov = 1, .prov = { { .id = RR_PROV_ID_SHM } }, .credits = 4,
			      .bc_credits = 4, .max_msg = 1 << 20, .caps = RR_CAP_HATCH };

	h.token[3] = 77;
	rr_own_place(&h, p.client.c);
	return h;
}

Test(conn_steps_server, an_offer_in_front_of_a_call_is_taken_out)
{
	struct rr_hello h;
	uint64_t offers;
	rr_time now;

	begin_server(RR_S_WATCH);
	h = good_offer();
	c->sleepers = 1;
	cr_assert_eq(rr_ride_take_offer(c, fd, &h, 9, 333), -EAGAIN, "others are to see it first");
	is(RR_S_WATCH, RR_R_NONE);
	cr_assert_eq(t.consumed, 0);
	begin_server(RR_S_WATCH);
	t.not_consumed = true;
	cr_assert_eq(rr_ride_take_offer(c, fd, &h, 9, 333), RR_RIDE_OVER);
	is(RR_S_TCP, RR_R_INTERNAL);
	cr_assert(t.consumed == 1 && c->in.ours == 0);
	begin_server(RR_S_WATCH);
	offers = counted(RR_C_offers_received);
	t.answers = 1;
	c->lack = RR_R_POLICY;
	c->most = 5;
	now = rr_now();
	cr_assert_eq(rr_ride_take_offer(c, fd, &h, 9, 333), RR_RIDE_OVER);
	is(RR_S_HEARD, RR_R_NONE);
	cr_assert(t.consumed == 1 && t.consumed_len == 333 && c->in.ours == 333);
	cr_assert(c->xid == 9 && c->lack == RR_R_NONE && c->most == 0 && c->share == &share);
	cr_assert_eq(counted(RR_C_offers_received), offers + 1);
	cr_assert_eq(c->heard.caps, RR_CAP_HATCH | RR_CAP_CROSSING);
	cr_assert(c->heard.nprov == 1 && c->heard.token[3] == 77);
	cr_assert(c->half, "its client may not come");
	cr_assert(c->deadline >= now + rr_cp->upgrade_timeout && c->deadline <= rr_now() + rr_cp->upgrade_timeout);
}

Test(conn_steps_server, an_offer_that_cannot_be_accepted_has_its_reason_noted)
{
	rr_time now;

	for (int i = 0; i < 4; i++) {
		struct rr_hello h;

		begin_server(RR_S_WATCH);
		lies_between(AF_INET, 1, i == 1 ? 2 : 1);
		h = good_offer();
		c->share = NULL;
		memset(&c->heard, 0xff, sizeof(c->heard));
		h.version += i == 0;
		if (i == 3)
			t.answer_why = RR_R_NO_MEMORY;
		h.asks = i == 2;
		rr_test_params.tell_peer = true;
		now = rr_now();
		cr_assert_eq(rr_ride_take_offer(c, fd, &h, 9, 333), RR_RIDE_OVER);
		is(RR_S_HEARD, RR_R_NONE);
		cr_assert_eq(c->lack, i == 0 ? RR_R_RELEASES : i == 1 ? RR_R_ONE_HOST : i == 2 ? RR_R_NO_ROUTE : RR_R_NO_MEMORY,
			     "%d: %u", i, c->lack);
		cr_assert_eq(c->heard.release[0] != 0, i == 2, "who asks is told");
		cr_assert_eq(c->heard.caps & RR_CAP_CROSSING, RR_CAP_CROSSING);
		cr_assert(!c->share && !c->half, "nothing is held ready");
		cr_assert(c->deadline >= now + rr_cp->upgrade_timeout && c->deadline <= rr_now() + rr_cp->upgrade_timeout);
	}
}

/* --- the answer in front of a reply ------------------------------------------------------------ */

static uint8_t went[2000];
static size_t went_len;
static ssize_t takes;		/* how much of it the kernel takes; 0: all */
static int send_errno, queued;

static ssize_t sending(int at, const struct msghdr *m, int flags)
{
	cr_assert(at == fd && flags & MSG_MORE);
	went_len = 0;
	for (size_t i = 0; i < m->msg_iovlen; went_len += m->msg_iov[i].iov_len, i++)
		memcpy(went + went_len, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
	if (send_errno) {
		errno = send_errno;
		return -1;
	}
	return takes ? takes : (ssize_t)went_len;
}

static int in_queue(int at, unsigned long what, ...)
{
	va_list args;

	cr_assert_eq(at, fd);
	va_start(args, what);
	*va_arg(args, int *) = queued;
	va_end(args);
	return 0;
}

static void begin_heard(void)
{
	begin_server(RR_S_HEARD);
	play_os();
	play_socket(0);
	os.sendmsg = sending;
	os.ioctl = in_queue;
	send_errno = queued = 0;
	went_len = 0;
	takes = 0;
	c->xid = 9;
	c->lack = RR_R_NONE;
	c->heard = (struct rr_hello){ .version = RR_NEGO_VERSION, .nprov = 1, .prov = { { .id = RR_PROV_ID_SHM } },
				      .caps = RR_CAP_CROSSING };
}

static ssize_t replies(size_t n)
{
	return rr_ride_answer(c, fd, &(struct iovec){ out, n }, 1, MSG_MORE);
}

/* What went, in front of so many bytes of the app. */
static void said(enum rr_nego what, size_t apps)
{
	struct rr_hello h;
	uint32_t need;

	cr_assert_gt(went_len, apps);
	cr_assert_eq(rr_nego_get_answer(went, went_len - apps, 9, &h, &need), what);
	cr_assert_eq(need, went_len - apps);
	cr_assert_eq(memcmp(went + need, out, apps), 0);
	cr_assert_eq(c->out.ours, need);
}

Test(conn_steps_server, an_answer_goes_in_front_of_a_reply)
{
	size_t n = rr_test_reply(out, 1, 40, 1);
	rr_time now;

	begin_heard();
	cr_assert_eq(replies(0), 0, "not in front of nothing");
	queued = 1 << 30;
	cr_assert_eq(replies(n), 0, "nor where there may be no room for both");
	cr_assert_eq(t.room_asked, RR_ANSWER_MAX + n);
	queued = 0;
	send_errno = EAGAIN;
	cr_assert_eq(replies(n), 0);
	is(RR_S_HEARD, RR_R_NONE);
	cr_assert(c->share == &share && t.frees == 0 && c->out.ours == 0);
	send_errno = EPIPE;
	cr_assert_eq(replies(n), -EPIPE);
	is(RR_S_HEARD, RR_R_NONE);
	send_errno = 0;
	now = rr_now();
	c->deadline = 1;
	cr_assert_eq(replies(n), (ssize_t)n);
	said(RR_NEGO_OURS, n);
	is(RR_S_SAID, RR_R_NONE);
	cr_assert(c->share == &share && t.frees == 0 && c->half && c->out.records == 1);
	cr_assert(c->deadline >= now + rr_cp->upgrade_timeout && c->deadline <= rr_now() + rr_cp->upgrade_timeout);
	begin_heard();
	begin_heard();
	takes = 40;	/* a part of it */
	cr_assert_eq(replies(n), -ECONNRESET);
	is(RR_S_TCP, RR_R_INTERNAL);
	cr_assert_eq(resets, 1);
}

Test(conn_steps_server, a_refusal_goes_in_front_of_a_reply)
{
	static const struct { enum rr_reason why; enum rr_nego how; } of[] = {
		{ RR_R_ADDRESSES, RR_NEGO_ELSEWHERE }, { RR_R_ONE_HOST, RR_NEGO_ONE_HOST }, { RR_R_NO_FDS, RR_NEGO_DECLINED },
		{ RR_R_KERNEL_ONLY, RR_NEGO_DECLINED },
	};
	size_t n = rr_test_reply(out, 1, 40, 1), alone;

	for (unsigned i = 0; i < rr_array_size(of); i++) {
		begin_heard();
		if (of[i].why == RR_R_KERNEL_ONLY)	/* somebody else has written or read */
			t.not_seen_all = true;
		else
			c->lack = (uint8_t)of[i].why;
		cr_assert_eq(replies(n), (ssize_t)n);
		said(of[i].how, n);
		failed(of[i].why);
		/* The kernel took no more than that: the app's bytes go by the usual way. */
		alone = went_len - n;
		begin_heard();
		c->lack = (uint8_t)(i == 3 ? RR_R_NO_FDS : of[i].why);
		takes = (ssize_t)alone;
		cr_assert_eq(replies(n), RR_CONN_KERNEL);
		is(RR_S_TCP, RR_R_NONE);
	}
	begin_heard();
	t.not_seen_all = true;
	c->lack = RR_R_ADDRESSES;
	cr_assert_eq(replies(n), (ssize_t)n);
	failed(RR_R_ADDRESSES);
}
