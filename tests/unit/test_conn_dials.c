/* SPDX-License-Identifier: BSD-3-Clause */
/* How a native peer is dialled, and the kernel's connect() behind it. */
#include "tests/unit/native_doors.h"

TestSuite(conn_dials, .init = begin, .timeout = 60);

static struct sockaddr_in to;
static int s;

static struct rr_conn *dials(void)
{
	s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(2049), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return rr_conn_dial(s, (struct sockaddr *)&to, sizeof(to));
}

Test(conn_dials, who_is_dialled_and_who_is_not)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(2049), .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in6 rdma = { 0 };
	struct rr_conn *c = dials();

	cr_assert(c && t.calls == 1 && rr_conn_st(c) == RR_S_DIALING && c->dial && c->dial_wait);
	cr_assert_eq(c->deadline, now + 20 * RR_SEC);
	cr_assert(t.to.sin6_port == htons(PORT) && t.to.sin6_family == AF_INET && t.from_null);
	cr_assert_eq(((struct sockaddr_in *)(void *)&t.to)->sin_addr.s_addr, to.sin_addr.s_addr);
	cr_assert_null(rr_conn_dial(s, NULL, sizeof(to)));
	cr_assert_null(rr_conn_dial(s, (struct sockaddr *)&to, sizeof(to) - 1));
	cr_assert_null(rr_conn_dial(s, (struct sockaddr *)&v6, sizeof(v6) - 1));
	cr_assert_null(rr_conn_dial(s, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_UNIX }, sizeof(to)));
	s = socket(AF_INET6, SOCK_STREAM, 0);
	cr_assert(rr_conn_dial(s, (struct sockaddr *)&v6, sizeof(v6)));
	cr_assert(t.to.sin6_family == AF_INET6 && t.from_null && t.to.sin6_port == htons(PORT));
	v6.sin6_port = 0;
	bind(s, (struct sockaddr *)&v6, sizeof(v6));
	v6.sin6_port = htons(2049);
	cr_assert(rr_conn_dial(s, (struct sockaddr *)&v6, sizeof(v6)));
	cr_assert(!t.from_null && t.from.sin6_port == 0 && IN6_IS_ADDR_LOOPBACK(&t.from.sin6_addr));
	dials_at = 0;
	cr_assert_null(dials());
	dials_at = PORT;
	/* What is known of this peer. */
	memcpy(&rdma, &to, sizeof(to));
	rdma.sin6_port = htons(PORT);
	rr_cache_add(&rdma, RR_R_NO_NATIVE, now + RR_SEC);
	cr_assert_null(dials());
	mode = RR_MODE_REQUIRE;
	cr_assert(dials());
	mode = RR_MODE_AUTO;
	rr_cache_add(&rdma, RR_R_NO_SHIM, now + RR_SEC);
	cr_assert(dials());
	rr_cache_drop(&rdma);
	rdma.sin6_port = htons(2049);
	rr_cache_add(&rdma, RR_R_SIZE_KNOWN, now + RR_SEC);
	cr_assert_null(dials());
	rr_cache_add(&rdma, RR_R_NO_SHIM, now + RR_SEC);
	cr_assert(dials());
	stopped = true;
	cr_assert_null(dials());
	rr_test_params.native = NULL;
	stopped = false;
	cr_assert_null(dials());
}

/* The kernel's connect(), or its failure where TCP is forbidden. */
Test(conn_dials, a_call_that_fails_goes_on_by_tcp)
{
	static const struct { int rc; enum rr_reason why; bool kept; int err; } of[] = {
		{ -ENODEV, RR_R_NO_DEVICE, true, ECONNREFUSED }, { -EDQUOT, RR_R_CGROUP, false, ECONNREFUSED },
		{ -ENOMEM, RR_R_MEMLOCK, false, ECONNREFUSED }, { -EMFILE, RR_R_NO_FDS, false, ECONNREFUSED },
		{ -ENFILE, RR_R_NO_FDS, true, ECONNREFUSED }, { -ENETUNREACH, RR_R_NO_ROUTE, true, ENETUNREACH },
		{ -EHOSTUNREACH, RR_R_NO_ROUTE, true, EHOSTUNREACH }, { -ETIMEDOUT, RR_R_NO_ROUTE, true, ETIMEDOUT },
		{ -ENETDOWN, RR_R_DEVICE, false, ECONNREFUSED }, { -EIO, RR_R_DEVICE, true, ECONNREFUSED },
		{ -ECONNREFUSED, RR_R_NO_NATIVE, true, ECONNREFUSED }, { -EPROTO, RR_R_NO_NATIVE, true, ECONNREFUSED },
	};
	struct sockaddr_in6 rdma = { 0 };

	rr_test_params.ask_peer = true;
	dials();
	memcpy(&rdma, &to, sizeof(to));
	rdma.sin6_port = htons(PORT);
	for (unsigned i = 0; i < rr_array_size(of); i++)
		for (int required = 0; required < 2; required++) {
			struct rr_conn *c;
			uint64_t failures;

			rr_cache_drop(&rdma);
			t.call = 0;
			t.frees = 0;
			t.establish = of[i].rc;
			c = dials();
			cr_assert(c);
			c->require = required;
			failures = counted(c, RR_C_upgrade_failures);
			rr_dial_step(c, s);
			cr_assert(!c->share && t.frees == 1);
			cr_assert_eq(counted(c, RR_C_upgrade_failures), failures + 1);
			cr_assert_eq(c->seg->told.here[RR_TOLD_NATIVE], of[i].why, "%u", i);
			cr_assert_eq(c->seg->told.offered[RR_TOLD_NATIVE], 1);
			if (required) {
				cr_assert(rr_conn_st(c) == RR_S_REFUSED && c->dial_err == of[i].err, "%u: %d", i, c->dial_err);
				cr_assert_eq(atomic_load(&c->st->reason), of[i].why);
				cr_assert_eq(atomic_load(&c->st->state), RR_CS_DEAD);
				cr_assert_eq(rr_dial_again(c, s), -of[i].err);
				cr_assert_eq(c->dial_err, 0);
				cr_assert_eq(rr_cache_look(&rdma, now), RR_R_NONE);
				continue;
			}
			cr_assert(rr_conn_st(c) == RR_S_NEW && c->dial_err == 0);
			cr_assert_eq(rr_cache_look(&rdma, now), of[i].kept ? RR_R_NO_NATIVE : RR_R_NONE, "%u", i);
			if (of[i].kept) {
				cr_assert_eq(rr_cache_look(&rdma, now + 100 * RR_SEC - 1), RR_R_NO_NATIVE);
				cr_assert_eq(rr_cache_look(&rdma, now + 100 * RR_SEC + 1), RR_R_NONE);
			}
		}
}

static struct rr_os os;
static int connects, connect_errno;

static int connecting(int at, const struct sockaddr *a, socklen_t len)
{
	cr_assert(at == s && len == sizeof(to) && !memcmp(a, &to, sizeof(to)));
	connects++;
	errno = connect_errno;
	return connect_errno ? -1 : 0;
}

Test(conn_dials, the_kernels_connect_follows_for_who_does_not_wait)
{
	struct rr_conn *c;

	os = *rr_os;
	os.connect = connecting;
	rr_os = &os;
	for (int i = 0; i < 4; i++) {
		now += 200 * RR_SEC;
		c = dials();
		c->dial_wait = i == 3;
		connect_errno = i == 1 ? EINPROGRESS : i >= 2 ? EACCES : 0;
		connects = 0;
		t.establish = -ECONNREFUSED;
		rr_dial_step(c, s);
		cr_assert_eq(connects, i < 3);
		cr_assert_eq(rr_conn_st(c), i == 2 ? RR_S_REFUSED : RR_S_NEW);
		cr_assert_eq(c->dial_err, i == 2 ? EACCES : 0);
		if (i == 2)
			cr_assert_eq(atomic_load(&c->st->reason), RR_R_NO_ROUTE);
	}
}

Test(conn_dials, what_cannot_even_be_called)
{
	struct sockaddr_in6 rdma = { 0 };

	for (int i = 0; i < 4; i++) {
		struct rr_conn *c;

		t.native = i == 0 ? NULL : &ops;
		t.no_params = i == 1;
		t.no_shares = i == 2;
		t.call = i == 3 ? -ECONNREFUSED : 0;
		rr_test_params.ask_peer = true;
		c = dials();
		memcpy(&rdma, &to, sizeof(to));
		rdma.sin6_port = htons(PORT);
		rr_cache_drop(&rdma);
		cr_assert(c && rr_conn_st(c) == RR_S_NEW && t.calls == (i == 3) && c->dial_wait);
		cr_assert_eq(c->seg->told.here[RR_TOLD_NATIVE], i == 0 ? RR_R_NO_DEVICE : i == 1 ? RR_R_NO_FDS :
			     i == 2 ? RR_R_MEMLOCK : RR_R_NO_NATIVE);
	}
}

Test(conn_dials, a_call_has_its_deadline_and_then_its_addresses)
{
	struct rr_conn *c = dials();
	struct sockaddr_in *name = (void *)&c->name[0], bound = { 0 };
	socklen_t len;

	t.establish = -EAGAIN;
	now = c->deadline - 1;
	rr_dial_step(c, s);
	cr_assert(rr_conn_st(c) == RR_S_DIALING && t.loops == 0);
	now++;
	rr_dial_step(c, s);
	cr_assert_eq(rr_conn_st(c), RR_S_NEW);
	now += 200 * RR_SEC;
	c = dials();
	name = (void *)&c->name[0];
	t.establish = 0;
	rr_dial_step(c, s);
	cr_assert(t.loops == 1 && t.carries == 1 && c->share->far == 77);
	cr_assert_eq(memcmp(&c->name[1], &to, sizeof(to)), 0);
	cr_assert(name->sin_family == AF_INET && name->sin_addr.s_addr == htonl(INADDR_LOOPBACK), "as TCP would come from");
	len = sizeof(bound);
	getsockname(s, (struct sockaddr *)&bound, &len);
	cr_assert_eq(name->sin_port, bound.sin_port, "that of the kernel's connection");
	c = dials();
	((struct sockaddr_in *)(void *)&to)->sin_port = 0;
	bind(s, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000005) }, sizeof(to));
	rr_dial_step(c, s);
	cr_assert_eq(((struct sockaddr_in *)(void *)&c->name[0])->sin_addr.s_addr, htonl(0x7f000005), "as it is bound");
	cr_assert_neq(((struct sockaddr_in *)(void *)&c->name[0])->sin_port, 0);
	for (int i = 0; i < 2; i++) {
		now += 200 * RR_SEC;
		c = dials();
		t.no_spare = i == 0;
		t.loopback = -ENOBUFS;
		t.loops = t.carries = 0;
		rr_dial_step(c, s);
		cr_assert(t.loops == i && t.carries == 0 && rr_conn_st(c) == RR_S_NEW);
		t.no_spare = false;
	}
}

Test(conn_dials, who_was_told_of_a_failure_may_call_again)
{
	struct rr_conn *c = dials();

	rr_conn_turn(c, RR_S_REFUSED);
	c->dial_err = 0;
	t.calls = 0;
	cr_assert_eq(rr_dial_again(c, s), RR_RIDE_OVER);
	cr_assert(t.calls == 1 && rr_conn_st(c) == RR_S_DIALING);
	rr_conn_turn(c, RR_S_REFUSED);
	dials_at = 0;
	cr_assert_eq(rr_dial_again(c, s), RR_RIDE_OVER);
	cr_assert(t.calls == 1 && rr_conn_st(c) == RR_S_REFUSED);
}
