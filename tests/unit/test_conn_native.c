/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners for native peers: the two doors, who comes in and how the app sees them. The provider is
 * that of tests/native, the client is a connection of the same process. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "core/base/os.h"
#include "core/conn/enter.h"
#include "core/conn/native/native.h"
#include "tests/unit/conn_forks.h"

static uint16_t port;		/* of RDMA CM; 0: no rule */
static rr_time ahead;		/* of the real clock */
static bool admits, dials, stopped;
static int guests_asked;
static struct sockaddr_in guests_local, guests_peer;

int clock_gettime(clockid_t which, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, which, ts);

	if (ahead && which == CLOCK_MONOTONIC)
		ts->tv_sec += (time_t)(ahead / RR_SEC);
	return rc;
}

/* The rules: of a listener, of a peer of ours, and of whom we call. */
static uint16_t rule(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	if (server && peer) {
		guests_asked++;
		memcpy(&guests_local, local, sizeof(guests_local));
		memcpy(&guests_peer, peer, sizeof(guests_peer));
	}
	return server && peer && !admits ? 0 : server || dials ? port : 0;
}

static bool is_stopped(void)
{
	return stopped;
}

static void setup(void)
{
	port = (uint16_t)(20000 + getpid() % 30000);
	admits = dials = true;
	rr_test_params.native = rule;
	rr_test_params.stopped = is_stopped;
	rr_test_params.upgrade_timeout = 20 * RR_SEC;
	rr_test_params.native_silent = 64;
	rr_test_setup();
}

TestSuite(conn_native, .init = setup, .timeout = 60);

struct door {
	int fd;
	struct rr_conn *l;
	struct sockaddr_in6 at;	/* where clients connect, v4 */
	struct sockaddr_in6 own;
};

static int listening(sa_family_t family, struct sockaddr_in6 *own)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*own);

	memset(own, 0, sizeof(*own));
	own->sin6_family = family;
	cr_assert_eq(bind(fd, (struct sockaddr *)own, family == AF_INET ? sizeof(struct sockaddr_in) : len), 0);
	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)own, &len), 0);
	return fd;
}

static void open_door(struct door *d, sa_family_t family)
{
	struct sockaddr_in *at = (void *)&d->at;

	memset(d, 0, sizeof(*d));
	d->fd = listening(family, &d->own);
	d->l = rr_conn_listener(d->fd);
	cr_assert(d->l);
	at->sin_family = AF_INET;
	at->sin_port = d->own.sin6_port;
	at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static void close_door(struct door *d)
{
	rr_conn_close(d->l, d->fd);
	rr_conn_free(d->l);
	close(d->fd);
}

/* The door opens when it is first asked for; a client that comes before that is refused. */
static void call(struct rr_end *e, const struct door *d)
{
	rr_conn_poll(d->l, d->fd, 0);
	e->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	e->c = rr_conn_dial(e->fd, (const struct sockaddr *)&d->at, sizeof(struct sockaddr_in));
	cr_assert(e->c);
}

/* What the listener gives out, within a while. */
static int taken(struct door *d, struct rr_end *e)
{
	e->c = NULL;
	for (int i = 0; i < 3000; i++) {
		e->fd = rr_conn_accept(d->l, d->fd, SOCK_NONBLOCK | SOCK_CLOEXEC, &e->c);
		if (e->fd != -EAGAIN)
			return e->fd;
		usleep(1000);
	}
	return -EAGAIN;
}

static void call_and_take(struct door *d, struct rr_end *client, struct rr_end *server)
{
	call(client, d);
	cr_assert_geq(taken(d, server), 0);
}

static void meet(struct rr_end *client, struct rr_end *server)
{
	int rc = -EALREADY;

	for (int i = 0; i < 3000 && rc == -EALREADY; i++) {
		rr_end_poll(server, POLLIN);
		rc = rr_conn_dialed(client->c, client->fd, false);
		usleep(1000);
	}
	cr_assert_eq(rc, 0, "%d", rc);
	for (int i = 0; i < 3000 && !rr_conn_is_carried(server->c); i++) {
		rr_end_poll(server, POLLIN);
		usleep(1000);
	}
	cr_assert(rr_conn_is_carried(client->c) && rr_conn_is_carried(server->c));
}

Test(conn_native, only_a_listener_that_a_rule_names_is_one)
{
	struct sockaddr_in6 own;
	int fd = listening(AF_INET, &own);
	struct rr_conn *l;

	cr_assert_null(rr_conn_listener(-1));
	l = rr_conn_listener(fd);
	cr_assert(l);
	cr_assert_eq(l->listener_size > 0, true);
	cr_assert_not(rr_conn_any_early());
	rr_conn_close(l, fd);
	rr_conn_free(l);
	port = 0;
	cr_assert_null(rr_conn_listener(fd));
	rr_test_params.native = NULL;
	cr_assert_null(rr_conn_listener(fd));
	close(fd);
}

Test(conn_native, a_v6_listener_shows_v4_peers_as_mapped_addresses)
{
	struct sockaddr_in6 name, mapped = { .sin6_family = AF_INET6 };
	struct rr_end client, server;
	struct door d;
	socklen_t len;

	cr_assert_eq(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr), 1);
	open_door(&d, AF_INET6);
	call_and_take(&d, &client, &server);
	meet(&client, &server);
	for (int peer = 0; peer < 2; peer++) {
		len = sizeof(name);
		cr_assert(rr_conn_name(server.c, peer, (struct sockaddr *)&name, &len));
		cr_assert_eq(len, sizeof(name));
		mapped.sin6_port = peer ? htons(700) : d.own.sin6_port;
		cr_assert_eq(memcmp(&name, &mapped, sizeof(name)), 0, "peer %d", peer);
	}
	rr_end_close(&client);
	rr_end_close(&server);
	close_door(&d);
}

Test(conn_native, a_v4_listener_shows_them_as_they_are_and_a_name_is_cut_as_the_kernel_does)
{
	struct sockaddr_in6 name;
	struct sockaddr_in *v4 = (void *)&name;
	struct rr_end client, server;
	struct door d;
	socklen_t len = sizeof(name);

	open_door(&d, AF_INET);
	call_and_take(&d, &client, &server);
	meet(&client, &server);
	memset(&name, 0x5a, sizeof(name));
	cr_assert(rr_conn_name(server.c, true, (struct sockaddr *)&name, &len));
	cr_assert(len == sizeof(*v4) && v4->sin_family == AF_INET && v4->sin_port == htons(700) &&
		  v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	memset(&name, 0x5a, sizeof(name));
	len = 4;
	cr_assert(rr_conn_name(server.c, true, (struct sockaddr *)&name, &len));
	cr_assert_eq(len, sizeof(*v4));
	cr_assert_eq(v4->sin_addr.s_addr, 0x5a5a5a5a, "what there is no room for is not written");
	len = 0;
	cr_assert(rr_conn_name(server.c, true, (struct sockaddr *)&name, &len));
	len = (socklen_t)-1;
	cr_assert_not(rr_conn_name(server.c, true, (struct sockaddr *)&name, &len), "EINVAL is the kernel's to say");
	len = sizeof(name);
	cr_assert(rr_conn_name(client.c, true, (struct sockaddr *)&name, &len));
	cr_assert(v4->sin_port == d.own.sin6_port && v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	rr_end_close(&client);
	rr_end_close(&server);
	close_door(&d);
}

/* As far as apps look at them. */
Test(conn_native, an_accepted_socket_has_the_options_of_its_listener)
{
	struct timeval t = { 7, 0 }, seen;
	struct linger lin = { 1, 9 }, was;
	int one = 1, on = 0, off = 1;
	struct rr_end client, server;
	socklen_t len = sizeof(seen);
	struct door d;

	open_door(&d, AF_INET);
	setsockopt(d.fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	t.tv_sec = 8;
	setsockopt(d.fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	setsockopt(d.fd, SOL_SOCKET, SO_LINGER, &lin, sizeof(lin));
	setsockopt(d.fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(d.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	call_and_take(&d, &client, &server);
	getsockopt(server.fd, SOL_SOCKET, SO_RCVTIMEO, &seen, &len);
	cr_assert_eq(seen.tv_sec, 7);
	getsockopt(server.fd, SOL_SOCKET, SO_SNDTIMEO, &seen, &len);
	cr_assert_eq(seen.tv_sec, 8);
	len = sizeof(was);
	getsockopt(server.fd, SOL_SOCKET, SO_LINGER, &was, &len);
	cr_assert(was.l_onoff == 1 && was.l_linger == 9);
	len = sizeof(on);
	getsockopt(server.fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len);
	cr_assert_eq(on, 1);
	off = 0;
	getsockopt(server.fd, IPPROTO_TCP, TCP_NODELAY, &off, &len);
	cr_assert_eq(off, 1);
	cr_assert(fcntl(server.fd, F_GETFD) & FD_CLOEXEC);
	rr_end_close(&client);
	rr_end_close(&server);
	close_door(&d);
}

/* They come out as they came in, and the listener is readable as long as there is one. */
Test(conn_native, peers_queue_and_a_full_queue_is_not_waited_for)
{
	struct rr_end client[9], server[9];
	rr_time until = RR_TIME_NEVER;
	struct pollfd p[2];
	struct door d;

	open_door(&d, AF_INET);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), 0);
	cr_assert_eq(rr_conn_fds(d.l, d.fd, POLLIN, p, &until), 2);
	cr_assert(p[0].fd == d.fd && p[0].events == POLLIN && p[1].events == POLLIN && until == RR_TIME_NEVER);
	cr_assert_eq(rr_conn_fds(d.l, d.fd, POLLOUT, p, &until), 1);
	for (int i = 0; i < 9; i++)
		call(&client[i], &d);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), POLLIN);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLOUT), 0);
	cr_assert_eq(rr_conn_fds(d.l, d.fd, POLLIN, p, &until), 1, "eight are there, the ninth waits outside");
	atomic_store(&d.l->face.changed, false);
	for (int i = 0; i < 9; i++) {
		cr_assert_geq(taken(&d, &server[i]), 0, "%d", i);
		if (!i)
			cr_assert(atomic_load(&d.l->face.changed), "there is room again");
		meet(&client[i], &server[i]);
	}
	cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &server[0].c), -EAGAIN);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), 0);
	cr_assert_eq(rr_conn_fds(d.l, d.fd, POLLIN, p, &until), 2);
	close_door(&d);
}

/* shutdown() of a listener ends its listening, for what comes in only. */
Test(conn_native, a_listener_that_is_shut_down_has_no_door)
{
	struct rr_conn *came;
	struct door d;

	open_door(&d, AF_INET);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), 0);
	cr_assert_eq(rr_conn_shutdown(d.l, d.fd, SHUT_WR), 0);
	cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &came), -EAGAIN);
	cr_assert_eq(rr_conn_shutdown(d.l, d.fd, SHUT_RD), 0);
	cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &came), RR_CONN_KERNEL);
	close_door(&d);
}

Test(conn_native, a_peer_that_no_rule_admits_is_refused)
{
	struct rr_end client, server;
	struct door d;
	int rc = -EALREADY;

	open_door(&d, AF_INET);
	for (int round = 0; round < 2; round++) {
		admits = round != 0;
		stopped = round == 1;
		if (round == 1) {	/* nor is one dialled while everything is stopped */
			int fd = socket(AF_INET, SOCK_STREAM, 0);

			cr_assert_null(rr_conn_dial(fd, (struct sockaddr *)&d.at, sizeof(struct sockaddr_in)));
			close(fd);
			stopped = false;
			ahead = 20 * RR_SEC;	/* what failed is tried again */
		}
		call(&client, &d);
		stopped = round == 1;
		guests_asked = 0;
		cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &server.c), -EAGAIN);
		cr_assert_eq(guests_asked, 1);
		cr_assert_eq(guests_local.sin_port, d.own.sin6_port, "the app's own port, not the peer's");
		cr_assert_neq(guests_peer.sin_port, d.own.sin6_port);
		rc = -EALREADY;
		for (int i = 0; i < 3000 && rc == -EALREADY; i++) {
			rc = rr_conn_dialed(client.c, client.fd, true);
			usleep(1000);
		}
		cr_assert_eq(rc, RR_CONN_KERNEL, "%d", rc);
		rr_end_close(&client);
	}
	close_door(&d);
}

/* One line and one change for each reason, however often it is tried. */
Test(conn_native, a_port_that_is_taken_is_waited_for)
{
	rr_time until = RR_TIME_NEVER;
	struct door first, second;
	struct rr_conn *came;
	struct pollfd p[2];

	open_door(&first, AF_INET);
	open_door(&second, AF_INET);
	cr_assert_eq(rr_conn_poll(first.l, first.fd, POLLIN), 0);
	atomic_store(&second.l->face.changed, false);
	cr_assert_eq(rr_conn_poll(second.l, second.fd, POLLIN), RR_CONN_KERNEL);
	cr_assert(atomic_load(&second.l->face.changed));
	cr_assert_eq(rr_conn_fds(second.l, second.fd, POLLIN, p, &until), 1);
	cr_assert(until > rr_now() && until <= rr_now() + RR_SEC, "a thread that sleeps wakes up for it");
	cr_assert_eq(rr_conn_accept(second.l, second.fd, 0, &came), -EAGAIN);
	atomic_store(&second.l->face.changed, false);
	ahead = 2 * RR_SEC;
	cr_assert_eq(rr_conn_poll(second.l, second.fd, POLLIN), RR_CONN_KERNEL);
	cr_assert_not(atomic_load(&second.l->face.changed), "the same as before");
	rr_conn_close(first.l, first.fd);
	cr_assert_eq(rr_conn_poll(second.l, second.fd, POLLIN), RR_CONN_KERNEL, "not before a second has passed");
	ahead = 4 * RR_SEC;
	cr_assert_eq(rr_conn_poll(second.l, second.fd, POLLIN), 0);
	cr_assert(atomic_load(&second.l->face.changed));
	rr_conn_free(first.l);
	close(first.fd);
	close_door(&second);
}

Test(conn_native, without_a_device_nobody_waits)
{
	rr_time until = RR_TIME_NEVER;
	struct rr_conn *came;
	struct pollfd p[2];
	struct door d;

	setenv("RDMARPC_TEST_NO_DEVICE", "1", 1);
	open_door(&d, AF_INET);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_fds(d.l, d.fd, POLLIN, p, &until), 1);
	cr_assert_eq(until, RR_TIME_NEVER);
	cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &came), RR_CONN_KERNEL);
	unsetenv("RDMARPC_TEST_NO_DEVICE");
	ahead = 2 * RR_SEC;
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), RR_CONN_KERNEL, "not that soon");
	ahead = 11 * RR_SEC;
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), 0);
	close_door(&d);
}

/* One byte in place of a request is the device that goes. */
static void device_goes(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int n = snprintf(un.sun_path + 1, 40, "rdmarpc-test-%u", port);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	cr_assert_eq(connect(fd, (void *)&un, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)), 0);
	cr_assert_eq(send(fd, "", 1, 0), 1);
	close(fd);
}

Test(conn_native, a_device_that_went_away_is_waited_for_until_it_is_back)
{
	rr_time until = RR_TIME_NEVER;
	struct rr_conn *came;
	struct pollfd p[2];
	struct door d;

	port = (uint16_t)(1 + getpid() % 1000);
	open_door(&d, AF_INET);
	cr_assert(rr_conn_any_early());
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), 0);
	atomic_store(&d.l->face.changed, false);
	device_goes();
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), RR_CONN_KERNEL);
	cr_assert(atomic_load(&d.l->face.changed));
	cr_assert_eq(rr_conn_fds(d.l, d.fd, POLLIN, p, &until), 1);
	cr_assert(until > rr_now() && until <= rr_now() + RR_SEC);
	cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &came), -EAGAIN);
	ahead = 2 * RR_SEC;
	setenv("RDMARPC_TEST_NO_DEVICE", "1", 1);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &came), -EAGAIN, "still away");
	unsetenv("RDMARPC_TEST_NO_DEVICE");
	ahead = 13 * RR_SEC;
	rr_conn_early(d.l);
	rr_conn_fork_nears(d.l);	/* shut again, and what a device did before is over */
	cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &came), RR_CONN_KERNEL);
	close_door(&d);
}

/* Only reserved ports, of listeners that nobody has asked yet; a fork shuts the door again, until somebody asks. */
Test(conn_native, a_reserved_port_is_opened_before_privileges_go)
{
	struct rr_end client, server;
	struct door d;

	open_door(&d, AF_INET);
	rr_conn_early(d.l);
	setenv("RDMARPC_TEST_NO_DEVICE", "1", 1);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), RR_CONN_KERNEL, "it was not opened");
	close_door(&d);
	unsetenv("RDMARPC_TEST_NO_DEVICE");
	for (int forks = 0; forks < 3; forks++) {
		port = (uint16_t)(1 + getpid() % 1000);
		open_door(&d, AF_INET);
		cr_assert_not(rr_conn_defers(d.l));
		rr_conn_early(d.l);
		if (forks == 2)	/* somebody serves here */
			cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), 0);
		if (forks)
			rr_conn_fork_nears(d.l);
		cr_assert_eq(rr_conn_defers(d.l), forks == 2);
		setenv("RDMARPC_TEST_NO_DEVICE", "1", 1);
		cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), forks == 1 ? RR_CONN_KERNEL : 0, "%d", forks);
		unsetenv("RDMARPC_TEST_NO_DEVICE");
		if (!forks) {
			call_and_take(&d, &client, &server);
			meet(&client, &server);
			rr_conn_early(client.c);	/* no listener at all */
			rr_end_close(&client);
			rr_end_close(&server);
		}
		close_door(&d);
	}
}

/* A peer that does not come in time: the app's end of it is reset. */
Test(conn_native, a_peer_that_says_no_more_ends_in_a_reset)
{
	struct rr_end client, server;
	struct door d;
	char byte;

	open_door(&d, AF_INET);
	call_and_take(&d, &client, &server);
	rr_end_poll(&server, POLLIN);
	cr_assert_not(rr_conn_is_tcp(server.c));
	ahead = 30 * RR_SEC;
	rr_end_poll(&server, POLLIN);
	cr_assert(rr_conn_is_tcp(server.c));
	cr_assert_eq(recv(server.fd, &byte, 1, MSG_DONTWAIT), -1);
	cr_assert_eq(errno, ECONNRESET);
	rr_end_close(&client);
	rr_end_close(&server);
	close_door(&d);
}

/* Without a door of its own it may open one when the parent's is shut. */
Test(conn_native, a_child_begins_anew)
{
	struct rr_end client, server;
	struct door d;

	open_door(&d, AF_INET);
	call(&client, &d);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), POLLIN);
	rr_native_forked(d.l);
	cr_assert_eq(rr_conn_poll(d.l, d.fd, POLLIN), 0, "its own door, and nobody there");
	cr_assert(rr_conn_defers(d.l));
	cr_assert_eq(rr_conn_accept(d.l, d.fd, 0, &server.c), -EAGAIN);
	close_door(&d);
}

static unsigned stepped;

static void steps(struct rr_conn *c)
{
	(void)c;
	stepped++;
}

Test(conn_native, those_that_come_in_are_counted)
{
	struct rr_end client[3], server[3];
	struct door d;

	open_door(&d, AF_INET);
	for (unsigned i = 0; i < 3; i++) {
		call(&client[i], &d);
		cr_assert_geq(taken(&d, &server[i]), 0);
		stepped = 0;
		cr_assert_eq(rr_guests_each(steps), i + 1);
		cr_assert_eq(stepped, i + 1);
	}
	meet(&client[1], &server[1]);
	cr_assert_eq(rr_guests_each(steps), 2);
	for (unsigned i = 0; i < 3; i++) {
		rr_end_close(&client[i]);
		rr_end_close(&server[i]);
	}
	cr_assert_eq(rr_guests_each(steps), 0);
	close_door(&d);
}

/* The queue pair stays the parent's, which moves bytes between that and the socket that both have. */
static void served_by_a_child(bool leaves, bool before)
{
	struct rr_end client, server;
	struct door d;
	pid_t pid;

	open_door(&d, AF_INET);
	call_and_take(&d, &client, &server);
	meet(&client, &server);
	if (before) {	/* what the parent has been sent and has not read */
		size_t n = rr_test_call(out, 9, 900, 9);

		cr_assert_eq(rr_end_send(&client, &server, out, n), (ssize_t)n);
	}
	pid = child_serves(&client, &server, before ? 9 : 10, 60);
	if (leaves)
		rr_end_close(&server);
	if (before) {
		size_t n = rr_test_reply(out, 9, 1800, 9);

		cr_assert_eq(rr_end_recv(&client, NULL, in, n), (ssize_t)n);
	}
	calls(&client, 10, 60);
	cr_assert_eq(status(pid), 0);
	rr_end_close(&server);
	cr_assert_eq(rr_end_recv(&client, NULL, in, 1), 0, "nobody has it any more");
	rr_end_close(&client);
	close_door(&d);
}

Test(conn_native, a_child_serves_by_its_parents_queue_pair)
{
	served_by_a_child(false, false);
}

Test(conn_native, a_child_serves_on_when_its_parent_has_closed)
{
	served_by_a_child(true, false);
}

Test(conn_native, a_child_finds_what_its_parent_had_been_sent)
{
	served_by_a_child(true, true);
}

/* And what the peer had said before it. */
Test(conn_native, a_child_is_told_that_its_peer_has_left)
{
	struct rr_end client, server;
	struct door d;
	pid_t pid;

	open_door(&d, AF_INET);
	call_and_take(&d, &client, &server);
	meet(&client, &server);
	pid = forks(&client, &server);
	if (!pid) {
		serves(&server, 10, 12);
		holds(rr_end_recv(&server, NULL, in, 1) == 0);
		_exit(0);
	}
	rr_end_close(&server);
	calls(&client, 10, 12);
	rr_end_close(&client);
	cr_assert_eq(status(pid), 0);
	close_door(&d);
}

/* Three quarters of all descriptors, of which a native connection takes five. */
Test(conn_native, some_descriptors_are_left_to_others)
{
	struct rlimit rl = { 400, 400 };
	rr_time now = rr_now();

	rr_test_params.native_silent = 1000;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &rl), 0);
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert_eq(rr_guests_full(59, now), 0);
	cr_assert_eq(rr_guests_full(60, now), now + RR_SEC);
	rr_test_params.native_silent = 7;
	cr_assert_eq(rr_guests_full(6, now), 0);
	cr_assert_eq(rr_guests_full(7, now), now + RR_SEC, "those at the door may say nothing, too");
}

static unsigned long pages_mapped(void)
{
	unsigned long n = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	cr_assert(f && fscanf(f, "%lu", &n) == 1);
	fclose(f);
	return n;
}

/* First no page can be had for what it listens to, then no slab for its connection. */
Test(conn_native, without_memory_there_is_no_listener)
{
	struct rlimit old, few;
	struct sockaddr_in6 own;
	struct rr_conn *l, *last;
	int fd = listening(AF_INET, &own);
	unsigned long before;

	while (last = rr_slab_get(true, -1), last && last->index % 64 != 63)
		;
	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	for (int i = 0; i < 3; i++) {
		before = pages_mapped();
		few = (struct rlimit){ i ? (before + 1) * (unsigned long)getpagesize() : 4096, old.rlim_max };
		cr_assert_eq(setrlimit(RLIMIT_AS, &few), 0);
		if (i == 0)
			rr_slab_put(last);
		l = rr_conn_listener(fd);
		setrlimit(RLIMIT_AS, &old);
		if (i == 0)
			cr_assert_eq(rr_slab_get(true, -1), last, "it was left alone");
		cr_assert_null(l);
		cr_assert_eq(pages_mapped(), before, "what it had is given back");
	}
	l = rr_conn_listener(fd);
	cr_assert(l);
	rr_conn_close(l, fd);
	rr_conn_free(l);
	close(fd);
}
