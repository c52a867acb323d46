/* SPDX-License-Identifier: BSD-3-Clause */
/* A listener's second door for native peers, and who comes in by it. */
#include <netinet/tcp.h>

#include "tests/unit/log_said.h"
#include "tests/unit/native_doors.h"

TestSuite(conn_doors, .init = begin, .timeout = 60);

/* --- the door ----------------------------------------------------------------------------- */

Test(conn_doors, the_door_is_at_the_apps_address_and_the_rules_port)
{
	listens(AF_INET);
	cr_assert_eq(t.listens, 0, "not yet");
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(t.listens == 1 && !t.v6only && t.at.sin6_family == AF_INET && t.at.sin6_port == htons(PORT));
	cr_assert_eq(until, RR_TIME_NEVER);
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert_eq(t.listens, 1);
	cr_assert_eq(fds(POLLRDNORM), 2);
	cr_assert_eq(fds(POLLOUT), 1, "not who does not ask");
	cr_assert_not(rr_conn_any_early());
}

Test(conn_doors, a_v6_listener_may_be_for_v6_alone)
{
	int on = 1;

	listens(AF_INET6);
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(!t.v6only && t.at.sin6_family == AF_INET6);
	rr_native_close(l);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	own = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
	bind(fd, (struct sockaddr *)&own, sizeof(own));
	listen(fd, 1);
	l = rr_conn_listener(fd);
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(t.v6only);
}

Test(conn_doors, a_door_that_does_not_open_is_tried_again)
{
	static const struct { int rc; enum rr_reason why; } of[] = {
		{ -EADDRINUSE, RR_R_PORT_TAKEN }, { -EMFILE, RR_R_NO_FDS }, { -ENFILE, RR_R_NO_FDS },
		{ -ENOMEM, RR_R_NO_MEMORY }, { -ENODEV, RR_R_NO_DEVICE }, { -EADDRNOTAVAIL, RR_R_NO_DEVICE },
	};

	listens(AF_INET);
	for (unsigned i = 0; i < rr_array_size(of); i++) {
		rr_time after = i == 0 ? RR_SEC : 10 * RR_SEC;
		int was = t.listens;

		t.listen = of[i].rc;
		cr_assert_eq(fds(POLLIN), 1);
		cr_assert_eq(t.listens, was + 1);
		cr_assert_eq(told(), of[i].why, "%u: %u", i, told());
		cr_assert_eq(atomic_load(&l->st->state), RR_CS_TCP);
		cr_assert_eq(until, i == 0 ? now + after : RR_TIME_NEVER, "a port that is taken is awaited");
		cr_assert_eq(rr_native_poll(l, fd, POLLIN), RR_CONN_KERNEL);
		now += after - 1;
		cr_assert_eq(fds(POLLIN), 1);
		cr_assert_eq(t.listens, was + 1);
		now++;
	}
	t.native = NULL;
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(told(), RR_R_NO_DEVICE);
	t.native = &ops;
	t.no_spare = true;
	now += 10 * RR_SEC;
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(told(), RR_R_NO_FDS);
	t.no_spare = false;
	t.listen = 0;
	now += 10 * RR_SEC;
	l->face.changed = false;
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(l->face.changed && told() == RR_R_NONE);
	cr_assert_eq(atomic_load(&l->st->state), RR_CS_LISTENING);
}

Test(conn_doors, only_news_of_the_door_is_told)
{
	listens(AF_INET);
	t.listen = -ENODEV;
	fds(POLLIN);
	cr_assert(l->face.changed);
	l->face.changed = false;
	now += 10 * RR_SEC;
	fds(POLLIN);
	cr_assert(t.listens == 2 && !l->face.changed);
	now += 10 * RR_SEC;
	t.listen = -ENOMEM;
	fds(POLLIN);
	cr_assert(t.listens == 3 && l->face.changed);
}

/* --- who comes in --------------------------------------------------------------------------- */

Test(conn_doors, who_knocks_is_taken_and_waits_for_accept)
{
	struct rr_conn *c;
	int a, b;

	listens(AF_INET);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN), 0);
	cr_assert(t.tends == 1 && t.takes == 0);
	cr_assert_eq(accepts(&c), -EAGAIN);
	comes(2);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN | POLLOUT), POLLIN);
	cr_assert(t.takes == 2 && t.news == 2);
	cr_assert_eq(rr_native_poll(l, fd, POLLOUT), 0);
	a = accepts(&c);
	cr_assert_geq(a, 0);
	cr_assert(c->share == shares[0] && !shares[0]->next && rr_conn_st(c) == RR_S_TAKEN);
	cr_assert_eq(c->deadline, now + 20 * RR_SEC);
	cr_assert_eq(memcmp(c->name, shares[0]->name, sizeof(c->name)), 0);
	cr_assert_eq(atomic_load(&c->st->state), RR_CS_NEW);
	b = accepts(&c);
	cr_assert(b >= 0 && b != a && c->share == shares[1]);
	cr_assert_eq(accepts(&c), -EAGAIN);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN), 0);
}

Test(conn_doors, an_accepted_socket_is_as_its_listener)
{
	struct timeval tv = { .tv_sec = 7 };
	struct linger li = { .l_onoff = 1, .l_linger = 9 };
	struct rr_conn *c;
	socklen_t len = sizeof(tv);
	int on = 1, got = 0, a;

	listens(AF_INET);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	tv.tv_sec = 8;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &li, sizeof(li));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	comes(1);
	a = accepts(&c);
	cr_assert_geq(a, 0);
	getsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, &len);
	cr_assert_eq(tv.tv_sec, 7);
	getsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &tv, &len);
	cr_assert_eq(tv.tv_sec, 8);
	len = sizeof(li);
	li.l_linger = 0;
	getsockopt(a, SOL_SOCKET, SO_LINGER, &li, &len);
	cr_assert(li.l_onoff && li.l_linger == 9);
	len = sizeof(got);
	getsockopt(a, SOL_SOCKET, SO_KEEPALIVE, &got, &len);
	cr_assert(got);
	got = 0;
	getsockopt(a, IPPROTO_TCP, TCP_NODELAY, &got, &len);
	cr_assert(got);
}

Test(conn_doors, the_queue_has_its_length_and_a_look_its_end)
{
	struct rr_conn *c;

	listens(AF_INET);
	comes(20);
	rr_native_look(l, fd);
	cr_assert(t.takes == 8 && t.news == 8 && t.knocks == 12);
	rr_native_look(l, fd);
	cr_assert_eq(t.takes, 8, "the queue is full");
	cr_assert_eq(fds(POLLIN), 1, "the door is not watched");
	l->face.changed = false;
	cr_assert_geq(accepts(&c), 0);
	cr_assert(l->face.changed && c->share == shares[0]);
	cr_assert_eq(fds(POLLIN), 2);
	l->face.changed = false;
	t.knocks = 0;
	cr_assert_geq(accepts(&c), 0);
	cr_assert_not(l->face.changed);
	for (int i = 0; i < 6; i++) {
		cr_assert_geq(accepts(&c), 0);
		cr_assert_eq(c->share, shares[2 + i]);
	}
	comes(20);
	for (int i = 0; i < 20; i++)
		t.take[i] = -EPROTO;	/* is refused */
	rr_native_look(l, fd);
	cr_assert_eq(t.takes, 8);
	cr_assert_eq(t.knocks, 12);
	cr_assert_eq(accepts(&c), -EAGAIN);
}

/* One line at first, and another one after a while that has the number of those in between. */
Test(conn_doors, a_refused_peer_is_logged_now_and_then)
{
	rr_log_setup(RR_LOG_INFO, hear);
	listens(AF_INET);
	for (int i = 0; i < 4; i++) {
		comes(1);
		t.take[0] = -EPROTO;
		now += i == 3 ? 10 * RR_SEC : 0;
		said[0] = '\0';
		rr_native_look(l, fd);
		cr_assert_eq(t.takes, 1);
		cr_assert_eq(!!strstr(said, "refused a native peer: error 71 "), i == 0 || i == 3, "%d: %s", i, said);
		cr_assert(i < 3 || strstr(said, "(2 more since"), "%s", said);
	}
	comes(1);
	admits = false;
	now += 10 * RR_SEC;
	rr_native_look(l, fd);
	cr_assert(strstr(said, "refused a native peer by a rule (0 more since"), "%s", said);
}

/* Memory for the next one is made once. */
Test(conn_doors, without_a_request_there_is_a_share_to_spare)
{
	struct rr_conn *c;

	listens(AF_INET);
	comes(1);
	t.take[0] = t.take[1] = -EAGAIN;
	rr_native_look(l, fd);
	t.knocks = 1;
	rr_native_look(l, fd);
	cr_assert(t.takes == 2 && t.news == 1 && t.frees == 0);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	cr_assert(c->share == shares[0] && t.news == 1);
	comes(1);
	t.no_shares = true;
	rr_native_look(l, fd);
	cr_assert_eq(t.takes, 0);
	t.no_shares = false;
	t.no_params = true;
	t.knocks = 1;
	rr_native_look(l, fd);
	cr_assert(t.takes == 0 && t.news == 1);
	t.no_params = false;
	t.tend = -EIO;
	t.knocks = 1;
	rr_native_look(l, fd);
	cr_assert_eq(t.takes, 0);
	cr_assert_eq(t.unlistens, 0);
}

Test(conn_doors, a_device_that_goes_shuts_the_door)
{
	struct rr_conn *c;

	for (int i = 0; i < 2; i++) {
		listens(AF_INET);
		cr_assert_eq(fds(POLLIN), 2);
		t.unlistens = 0;
		comes(i);
		t.take[0] = -ESHUTDOWN;
		t.tend = i ? 0 : -ESHUTDOWN;
		l->face.changed = false;
		rr_native_look(l, fd);
		t.tend = 0;
		cr_assert(t.unlistens == 1 && told() == RR_R_NO_DEVICE && l->face.changed);
		t.listen = -ENODEV;
		cr_assert_eq(fds(POLLIN), 1);
		cr_assert_eq(until, now + RR_SEC, "it may come back");
		cr_assert_eq(accepts(&c), -EAGAIN);
		now += RR_SEC;
		cr_assert_eq(fds(POLLIN), 1);
		cr_assert_eq(until, now + 10 * RR_SEC);
		now += 10 * RR_SEC;
		t.listen = 0;
		cr_assert_eq(fds(POLLIN), 2);
		/* Where there never was one nobody waits for it. */
		rr_native_close(l);
	}
	listens(AF_INET);
	t.listen = -ENODEV;
	cr_assert_eq(accepts(&c), RR_CONN_KERNEL);
}

Test(conn_doors, rules_say_who_comes_in)
{
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(700) };
	struct rr_conn *c;

	cr_assert_eq(inet_pton(AF_INET6, "::ffff:10.0.0.2", &mapped.sin6_addr), 1);
	listens(AF_INET6);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	cr_assert_eq(memcmp(&c->name[1], &mapped, sizeof(mapped)), 0);
	cr_assert(c->name[0].sin6_family == AF_INET6 && c->name[0].sin6_port == own.sin6_port);
	cr_assert_eq(c->name[0].sin6_addr.s6_addr[15], 1);
	cr_assert_eq(memcmp(&asked_peer, &mapped, sizeof(mapped)), 0);
	for (int i = 0; i < 3; i++) {
		admits = i != 0;
		mode = i == 1 ? RR_MODE_TCP : RR_MODE_AUTO;
		stopped = i == 2;
		comes(1);
		t.frees = 0;
		cr_assert_eq(accepts(&c), -EAGAIN);
		cr_assert(t.takes == 1 && t.frees == 1, "%d", i);
	}
	stopped = false;
	mode = RR_MODE_REQUIRE;
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	rr_native_close(l);
	mode = RR_MODE_AUTO;
	listens(AF_INET);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	cr_assert_eq(memcmp(&c->name[1], &t.peer, sizeof(t.peer)), 0, "as they are");
	cr_assert_eq(c->name[0].sin6_port, own.sin6_port);
}

Test(conn_doors, where_there_is_no_room_it_is_looked_at_later)
{
	listens(AF_INET);
	comes(3);
	t.entering = 4;
	t.full = now + 5;
	l->face.changed = false;
	fds(POLLIN);
	l->face.changed = false;
	rr_native_look(l, fd);
	cr_assert(t.takes == 0 && t.knocks == 2 && t.unmet == 4 && l->face.changed);
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(until, now + 5);
	l->face.changed = false;
	now += 4;
	rr_native_look(l, fd);
	cr_assert(t.knocks == 2 && !l->face.changed, "not before");
	now++;
	t.full = now + 7;
	rr_native_look(l, fd);
	cr_assert(t.takes == 0 && t.knocks == 1 && !l->face.changed, "as before");
	now += 7;
	t.full = 0;
	rr_native_look(l, fd);
	cr_assert(t.takes == 1 && l->face.changed);
	cr_assert_eq(fds(POLLIN), 2);
	t.knocks = 1;
	rr_native_look(l, fd);
	cr_assert_eq(t.unmet, 5, "who waits for accept() counts");
}

Test(conn_doors, who_cannot_be_accepted_stays_first)
{
	struct rr_conn *c;

	listens(AF_INET);
	comes(2);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN), POLLIN);
	t.no_spare = true;
	cr_assert_eq(accepts(&c), -EMFILE);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN), POLLIN);
	t.no_spare = false;
	cr_assert_geq(accepts(&c), 0);
	cr_assert_eq(c->share, shares[0]);
	cr_assert_geq(accepts(&c), 0);
	cr_assert_eq(c->share, shares[1]);
	cr_assert_eq(accepts(&c), -EAGAIN);
}

/* --- families and the end --------------------------------------------------------------------- */

Test(conn_doors, after_a_fork_tcp_clients_are_left_to_others)
{
	struct rr_conn *c;

	listens(AF_INET);
	fds(POLLIN);
	cr_assert_not(rr_conn_defers(l));
	rr_native_forks(l);
	cr_assert(rr_conn_defers(l) && t.unlistens == 0);
	comes(2);
	rr_native_look(l, fd);
	rr_native_forked(l);
	cr_assert(t.unlistens == 1 && t.frees == 2);
	cr_assert_not(rr_conn_defers(l), "its own door is not open yet");
	t.knocks = 0;
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(rr_conn_defers(l) && t.listens == 2);
	cr_assert_eq(accepts(&c), -EAGAIN);
	rr_native_close(l);
	cr_assert_eq(fds(POLLIN), 1);
	now += 1000 * RR_SEC;
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(t.listens, 2, "never again");
	rr_native_close(l);
	cr_assert_eq(t.unlistens, 2);
}

Test(conn_doors, a_child_knows_nothing_of_its_parents_device)
{
	listens(AF_INET);
	fds(POLLIN);
	t.tend = -ESHUTDOWN;
	rr_native_look(l, fd);
	t.tend = 0;
	rr_native_forked(l);
	t.listen = -ENODEV;
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(t.listens, 2, "it tries at once");
	cr_assert_eq(until, RR_TIME_NEVER);
}

Test(conn_doors, a_reserved_port_is_opened_early_for_who_drops_privileges)
{
	listens(AF_INET);
	rr_conn_early(l);
	cr_assert_eq(t.listens, 0, "this port is not reserved");
	listens_at = 1023;
	listens(AF_INET);
	cr_assert(rr_conn_any_early());
	rr_conn_early(l);
	cr_assert_eq(t.listens, 1);
	rr_native_forks(l);
	cr_assert_eq(t.unlistens, 1, "perhaps the child accepts");
	cr_assert_eq(fds(POLLIN), 1);
	now += 10 * RR_SEC;
	rr_conn_early(l);
	rr_native_look(l, fd);
	rr_native_forks(l);
	cr_assert(t.listens == 2 && t.unlistens == 1, "this process has asked");
	rr_conn_early(l);
	rr_native_forks(l);
	cr_assert(t.listens == 2 && t.unlistens == 1);
	listens_at = 1024;
	listens(AF_INET);
	rr_conn_early(l);
	cr_assert_eq(t.listens, 2);
}

/* --- its connections --------------------------------------------------------------------------- */

Test(conn_doors, a_peer_has_some_time_to_be_established)
{
	struct rr_conn *c;
	uint64_t failures;
	int a;

	listens(AF_INET);
	for (int i = 0; i < 4; i++) {
		comes(1);
		a = accepts(&c);
		cr_assert_geq(a, 0);
		failures = counted(c, RR_C_upgrade_failures);
		t.carries = t.frees = t.ends = 0;
		t.establish = i == 0 ? 0 : i == 3 ? -ECONNREFUSED : -EAGAIN;
		now = c->deadline - (i < 2);
		rr_native_step(c);
		cr_assert_eq(t.carries, i == 0);
		if (i < 2) {
			cr_assert(rr_conn_st(c) == (i ? RR_S_TAKEN : RR_S_CARRIED) && t.frees == 0);
			continue;
		}
		cr_assert(rr_conn_st(c) == RR_S_TCP && !c->share && t.frees == 1 && t.ends == 1 && t.end_resets);
		cr_assert_eq(atomic_load(&c->st->reason), i == 2 ? RR_R_TIMEOUT : RR_R_PEER_DIED);
		cr_assert_eq(atomic_load(&c->st->state), RR_CS_DEAD);
		cr_assert_eq(counted(c, RR_C_upgrade_failures), failures + 1);
	}
}

static enum rr_dialect dialect;

static enum rr_dialect says_dialect(bool server, const struct sockaddr *o, const struct sockaddr *p, const uint32_t *prog)
{
	(void)server;
	(void)o;
	(void)p;
	cr_assert_null(prog);
	return dialect;
}

Test(conn_doors, the_rules_dialect_is_spoken_unless_it_is_known_not_to_be)
{
	struct rr_eng_params *ep;
	struct rr_conn *c;

	rr_test_params.dialect = says_dialect;
	dialect = RR_DIALECT_V2;
	listens(AF_INET);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	ep = &c->share->ep;
	c->peer = t.peer;
	rr_cache_add(&c->peer, RR_R_NO_DIALECT, now + RR_SEC);
	rr_native_carry(c);
	cr_assert(ep->dialect == RR_DIALECT_V2 && ep->caps == rr_eng_native_caps(RR_DIALECT_V2, rr_own_caps()));
	c->face.server = false;
	rr_native_carry(c);
	cr_assert(ep->dialect == RR_DIALECT_V1 && ep->caps == rr_eng_native_caps(RR_DIALECT_V1, rr_own_caps()));
	rr_cache_drop(&c->peer);
	rr_native_carry(c);
	cr_assert_eq(ep->dialect, RR_DIALECT_V2);
	cr_assert_eq(t.carries, 3);
}

Test(conn_doors, the_app_sees_the_addresses_of_the_peer)
{
	struct sockaddr_in6 got;
	struct rr_conn *c;
	socklen_t len;

	listens(AF_INET);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	for (int peer = 0; peer < 2; peer++)
		for (socklen_t room = 0; room <= sizeof(got); room++) {
			memset(&got, 0x55, sizeof(got));
			len = room;
			cr_assert(rr_conn_name(c, peer, (struct sockaddr *)&got, &len));
			cr_assert_eq(len, sizeof(struct sockaddr_in));
			cr_assert_eq(memcmp(&got, &c->name[peer], rr_min((size_t)room, sizeof(struct sockaddr_in))), 0);
			if (room < sizeof(struct sockaddr_in))
				cr_assert_eq(((uint8_t *)&got)[room], 0x55);
		}
	len = (socklen_t)-1;
	cr_assert_not(rr_conn_name(c, true, (struct sockaddr *)&got, &len));
	c->name[1].sin6_family = AF_INET6;
	len = 0;
	cr_assert(rr_conn_name(c, true, (struct sockaddr *)&got, &len));
	cr_assert_eq(len, sizeof(struct sockaddr_in6));
	c->name[1].sin6_family = 0;
	cr_assert_not(rr_conn_name(c, true, (struct sockaddr *)&got, &len));
	rr_conn_turn(c, RR_S_TCP);
	cr_assert_not(rr_conn_name(c, false, (struct sockaddr *)&got, &len));
}
