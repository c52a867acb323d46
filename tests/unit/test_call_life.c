/* SPDX-License-Identifier: BSD-3-Clause */
/* An fd's life: how it enters the table, what its duplicates are, and what connect() makes. How it ends is
 * test_call_end.c's. */
#include <stdio.h>

#include "core/base/diag.h"
#include "core/base/ownfd.h"
#include "preload/epset.h"
#include "preload/guard.h"
#include "preload/init.h"
#include "preload/logsink.h"
#include "preload/statseg.h"
#include "tests/unit/call.h"

static int closes, vanishings;
static int closed_fd;

static void close_script(struct rr_conn *c, int fd)
{
	cr_assert_eq(c, at.c);
	closes++;
	closed_fd = fd;
	cr_assert_geq(fcntl(fd, F_GETFD), 0, "before the kernel's close()");
}

static void vanish_script(struct rr_conn *c)
{
	cr_assert_eq(c, at.c);
	vanishings++;
}

static void begin_life(void)
{
	rr_init_core();
	begin_call();
	rr_fake.close = close_script;
	rr_fake.vanished = vanish_script;
	errno = MINE;
}

TestSuite(call_life, .init = begin_life, .timeout = 60);

static struct rr_sock *sock_at(int fd)
{
	struct rr_sock *so = rr_fdt_sock(fd);

	if (so)
		rr_file_put(&so->f);
	return so;
}

static uint32_t flags_at(int fd)
{
	return atomic_load(&sock_at(fd)->flags);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* --- fds that come --- */

Test(call_life, tcp_sockets_are_known_and_no_others)
{
	static const struct { int domain, type, protocol; bool known; } c[] = {
		{ AF_INET, SOCK_STREAM, 0, true }, { AF_INET6, SOCK_STREAM, 0, true },
		{ AF_INET, SOCK_STREAM, IPPROTO_TCP, true }, { AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0, true },
		{ AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, true }, { AF_INET, SOCK_DGRAM, 0, false },
		{ AF_UNIX, SOCK_STREAM, 0, false }, { AF_INET, SOCK_STREAM, 262 /* MPTCP */, false },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		int fd = rr_wrap_socket(c[i].domain, c[i].type, c[i].protocol);

		if (fd < 0)
			continue;
		cr_assert_eq(rr_fdt_has(fd), c[i].known, "%zu", i);
		if (c[i].known)
			cr_assert(sock_at(fd)->f.refs == 1 && !flags_at(fd) && !sock_at(fd)->conn);
		cr_assert_eq(rr_wrap_close(fd), 0);
		cr_assert_not(rr_fdt_has(fd));
	}
	cr_assert_eq(rr_wrap_socket(AF_INET, SOCK_STREAM, 9999), -1);
	close(0);
	cr_assert_eq(rr_wrap_socket(AF_INET, SOCK_STREAM, 0), 0);
	cr_assert(rr_fdt_has(0));
	/* A number that was closed behind our back is another file's. */
	close(at.fd);
	cr_assert_eq(rr_wrap_socket(AF_UNIX, SOCK_STREAM, 0), at.fd);
	cr_assert_not(rr_fdt_has(at.fd));
}

Test(call_life, what_a_plugin_opens_is_not_the_apps)
{
	int fd;

	rr_guard_enter();
	rr_guard_enter();
	rr_guard_leave();
	cr_assert_eq(rr_guard_depth(), 1);
	fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_not(rr_fdt_has(fd));
	cr_assert_not(rr_may_track());
	rr_guard_leave();
	cr_assert_eq(rr_guard_depth(), 0);
	cr_assert(rr_may_track());
	close(fd);
	fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);
	cr_assert(rr_fdt_has(fd));
}

static struct rr_conn *listens_with;
static int serve_calls;

static struct rr_conn *listener_script(int fd RR_UNUSED)
{
	return listens_with;
}

static uint32_t serves_script(int fd RR_UNUSED)
{
	return (uint32_t)++serve_calls * 7;
}

static struct rr_conn *spare_conn(void)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_NEW);

	atomic_store(&sock_at(fd)->conn, NULL);
	return c;
}

Test(call_life, a_listener)
{
	int fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);

	rr_fake.serves = serves_script;
	rr_fake.listener = listener_script;
	errno = MINE;
	cr_assert_eq(rr_wrap_listen(fd, 1), 0);
	cr_assert_eq(errno, MINE);
	cr_assert_eq(flags_at(fd), RR_SOCK_LISTENER);
	cr_assert(sock_at(fd)->serves == 7 && !sock_at(fd)->conn && sock_at(fd)->f.refs == 1);
	listens_with = spare_conn();
	cr_assert_eq(rr_wrap_listen(fd, 2), 0);
	cr_assert(sock_at(fd)->serves == 7 && serve_calls == 1, "said once");
	cr_assert_eq(sock_at(fd)->conn, listens_with);
	cr_assert_eq(rr_wrap_listen(at.fd, 1), -1, "what is connected does not listen");
	cr_assert_not(flags_at(at.fd) & RR_SOCK_LISTENER);
	cr_assert_eq(rr_wrap_listen(99999, 1), -1);
}

static struct rr_conn *serves_with;

static struct rr_conn *server_script(int fd RR_UNUSED)
{
	return serves_with;
}

Test(call_life, what_was_inherited)
{
	int peer, fd = tcp(&peer), l = socket(AF_INET, SOCK_STREAM, 0), fresh = socket(AF_INET, SOCK_STREAM, 0);
	int udp = socket(AF_INET, SOCK_DGRAM, 0), p[2];

	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(listen(l, 1), 0);
	rr_fake.server = server_script;
	rr_fake.serves = serves_script;
	serves_with = spare_conn();
	errno = MINE;
	cr_assert(rr_sock_inherit(fd));
	cr_assert_eq(errno, MINE);
	cr_assert(flags_at(fd) == RR_SOCK_ACCEPTED && sock_at(fd)->conn == serves_with && sock_at(fd)->f.refs == 1);
	cr_assert(rr_sock_inherit(l));
	cr_assert(flags_at(l) == RR_SOCK_LISTENER && sock_at(l)->serves && sock_at(l)->f.refs == 1);
	cr_assert_not(rr_sock_inherit(fresh));
	cr_assert_not(rr_sock_inherit(udp));
	cr_assert_eq(connect(udp, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET, .sin_port = 9,
			     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, sizeof(struct sockaddr_in)), 0);
	cr_assert_not(rr_sock_inherit(udp), "whatever it is connected to");
	errno = MINE;
	cr_assert_not(rr_sock_inherit(p[0]));
	cr_assert_not(rr_sock_inherit(99999));
	cr_assert(!rr_fdt_has(fresh) && !rr_fdt_has(udp) && !rr_fdt_has(p[0]));
	cr_assert_eq(errno, MINE);
	cr_assert_not(rr_sock_inherit(-1));
	cr_assert(rr_speaks_tcp(fd) && rr_speaks_tcp(fresh) && !rr_speaks_tcp(udp) && !rr_speaks_tcp(p[0]));
}

Test(call_life, a_connection_that_comes_with_its_fd)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = spare_conn();

	rr_fake.server = server_script;
	cr_assert(rr_sock_adopt(fd, c));
	cr_assert(sock_at(fd)->conn == c && flags_at(fd) == RR_SOCK_ACCEPTED && sock_at(fd)->f.refs == 1);
	fd = tcp(&peer);
	cr_assert(rr_sock_adopt(fd, NULL));
	cr_assert_null(sock_at(fd)->conn);
}

/* --- connect() --- */

static struct { int calls, fd; struct rr_conn *makes; struct sockaddr_in to; } client;

static struct rr_conn *client_script(int fd, const struct sockaddr *peer, socklen_t len)
{
	client.calls++;
	client.fd = fd;
	memcpy(&client.to, peer, rr_min(len, (socklen_t)sizeof(client.to)));
	return client.makes;
}

static int listening(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cr_assert_eq(bind(l, (struct sockaddr *)a, len), 0);
	cr_assert_eq(listen(l, 8), 0);
	cr_assert_eq(getsockname(l, (struct sockaddr *)a, &len), 0);
	errno = MINE;
	return l;
}

static void ctl_add(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	cr_assert_eq(rr_wrap_epoll_ctl(at.set, EPOLL_CTL_ADD, fd, &ev), 0);
}

static enum rr_ep_form form_at(int fd)
{
	return ((struct rr_ep_watch *)sock_at(fd)->watches)->form;
}

static int connect_to(int fd, const struct sockaddr_in *a)
{
	errno = MINE;
	return rr_wrap_connect(fd, (const struct sockaddr *)a, sizeof(*a));
}

Test(call_life, a_client_connects_once)
{
	struct sockaddr_in a, none = { .sin_family = AF_UNSPEC };
	int fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0), plain = socket(AF_INET, SOCK_STREAM, 0), l = listening(&a);

	rr_fake.client = client_script;
	client.makes = spare_conn();
	ctl_add(fd);
	cr_assert(connect_to(fd, &a) == 0 && errno == MINE);
	cr_assert_eq(form_at(fd), RR_EP_PASS, "its sets know of the connection");
	cr_assert(client.calls == 1 && client.fd == fd && client.to.sin_port == a.sin_port);
	cr_assert(sock_at(fd)->conn == client.makes && flags_at(fd) == RR_SOCK_CONNECTING && sock_at(fd)->f.refs == 1);
	cr_assert(connect_to(fd, &a) == -1 && errno == EISCONN);
	cr_assert_eq(client.calls, 1);
	cr_assert(connect_to(plain, &a) == 0 && errno == MINE && client.calls == 1);
	/* AF_UNSPEC ends it. */
	at.c = client.makes;
	cr_assert(connect_to(fd, &none) == 0 && errno == MINE);
	cr_assert(flags_at(fd) & RR_SOCK_PLAIN && vanishings == 1 && client.calls == 1);
	cr_assert_null(rr_sock_conn(sock_at(fd)));
	cr_assert(connect_to(fd, &none) == 0 && vanishings == 1);
	cr_assert_eq(sock_at(fd)->f.refs, 1);
	close(l);
}

Test(call_life, a_connect_that_fails_makes_no_connection)
{
	struct sockaddr_in a;
	int fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0), l = listening(&a);

	close(l);
	rr_fake.client = client_script;
	cr_assert(connect_to(fd, &a) == -1 && errno == ECONNREFUSED);
	cr_assert(client.calls == 0 && flags_at(fd) == 0 && !vanishings);
	errno = MINE;
	cr_assert(rr_wrap_connect(fd, (struct sockaddr *)8, sizeof(a)) == -1 && errno == EFAULT);
	cr_assert_eq(client.calls, 0);
}

static int real_connect_says;

static int connect_script(int fd RR_UNUSED, const struct sockaddr *a RR_UNUSED, socklen_t len RR_UNUSED)
{
	errno = real_connect_says;
	return -1;
}

Test(call_life, a_connect_that_goes_on_in_the_kernel_is_one)
{
	static const struct { int err; bool made; } c[] = {
		{ EINPROGRESS, true }, { EINTR, true }, { EAGAIN, false }, { ENETUNREACH, false }, { EALREADY, false },
	};
	struct sockaddr_in a = { .sin_family = AF_INET };

	rr_fake.client = client_script;
	rr_real.connect = connect_script;
	for (size_t i = 0; i < rr_array_size(c); i++) {
		int fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);

		client.calls = 0;
		real_connect_says = c[i].err;
		cr_assert(connect_to(fd, &a) == -1 && errno == c[i].err, "%zu", i);
		cr_assert_eq(client.calls, c[i].made, "%zu", i);
	}
}

/* As connect() does in the kernel when it is asked again after EINPROGRESS. */
Test(call_life, a_connect_that_is_made_again_makes_no_second_connection)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0), l = listening(&a);

	rr_fake.client = client_script;
	client.makes = spare_conn();
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; connect_to(fd, &a) < 0; i++)
		cr_assert(i < 10 && (errno == EINPROGRESS || errno == EALREADY));
	cr_assert(client.calls == 1 && sock_at(fd)->conn == client.makes);
	real_connect_says = EINPROGRESS;
	rr_real.connect = connect_script;
	cr_assert(connect_to(fd, &a) == -1 && errno == EINPROGRESS);
	cr_assert(client.calls == 1 && sock_at(fd)->conn == client.makes);
	close(l);
}

/* --- connect() to a native peer --- */

static struct { int calls, fd; struct rr_conn *gives; } dialer;
static struct { int calls; bool wait; int says[4]; } dialing;
static int peer_connects;

static struct rr_conn *dial_script(int fd, const struct sockaddr *peer RR_UNUSED, socklen_t len RR_UNUSED)
{
	dialer.calls++;
	dialer.fd = fd;
	return dialer.gives;
}

static int dialed_script(struct rr_conn *c, int fd RR_UNUSED, bool wait)
{
	cr_assert_eq(c, dialer.gives);
	dialing.wait = wait;
	return dialing.says[rr_min(dialing.calls++, 3)];
}

/* Another thread's connect() is first. */
static struct rr_conn *late_script(int fd, const struct sockaddr *peer, socklen_t len)
{
	struct rr_conn *c = dial_script(fd, peer, len);

	dialer.gives = spare_conn();
	dialer.gives->face.state = RR_FAKE_WAITING;
	atomic_store(&sock_at(fd)->conn, dialer.gives);
	return c;
}

static int count_connects(int fd RR_UNUSED, const struct sockaddr *a RR_UNUSED, socklen_t len RR_UNUSED)
{
	peer_connects++;
	return 0;
}

/* A socket that is dialed for; its connection is one that waits, or has room at once. */
static int dial_from(int flags, int first, int second)
{
	int fd = rr_wrap_socket(AF_INET, SOCK_STREAM | flags, 0);

	rr_fake.dial = dial_script;
	rr_fake.dialed = dialed_script;
	rr_real.connect = count_connects;
	dialer.calls = dialing.calls = peer_connects = 0;
	dialer.gives = spare_conn();
	dialer.gives->face.state = RR_FAKE_WAITING;
	dialing.says[0] = first;
	dialing.says[1] = dialing.says[2] = dialing.says[3] = second;
	return fd;
}

static void assert_dials(int fd, int says)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int rc = connect_to(fd, &a);

	cr_assert_eq(rc, says ? -1 : 0, "%d", rc);
	cr_assert_eq(errno, says ? -says : MINE, "%d", errno);
	cr_assert_eq(sock_at(fd)->f.refs, 1);
}

Test(call_life, a_native_peer_is_dialed_and_the_kernel_is_not_asked)
{
	int fd = dial_from(0, 0, 0);

	ctl_add(fd);
	cr_assert_eq(form_at(fd), RR_EP_PLAIN);
	assert_dials(fd, 0);
	cr_assert_eq(form_at(fd), RR_EP_MANAGED, "its sets know of the connection");
	cr_assert(dialer.calls == 1 && dialer.fd == fd && dialing.calls == 1 && dialing.wait && !peer_connects);
	cr_assert(sock_at(fd)->conn == dialer.gives && flags_at(fd) == RR_SOCK_CONNECTING);
	dialing.says[1] = -EISCONN;
	assert_dials(fd, -EISCONN);
	cr_assert(dialer.calls == 1 && dialing.calls == 2);
	fd = dial_from(0, -ECONNREFUSED, 0);
	assert_dials(fd, -ECONNREFUSED);
	fd = dial_from(0, RR_CONN_KERNEL, 0);
	assert_dials(fd, 0);
	cr_assert_eq(peer_connects, 1);
	fd = dial_from(0, 0, 0);
	dialer.gives = NULL;
	assert_dials(fd, 0);
	cr_assert(peer_connects == 1 && dialing.calls == 0);
}

Test(call_life, of_two_threads_that_dial_one_has_the_connection)
{
	int fd = dial_from(0, 0, 0), wake = dialer.gives->wake;

	rr_fake.dial = late_script;
	assert_dials(fd, 0);
	cr_assert(sock_at(fd)->conn == dialer.gives && dialing.calls == 1);
	cr_assert_not(is_open(wake), "the other is freed");
}

Test(call_life, who_does_not_wait_is_told_that_dialing_goes_on)
{
	int fd = dial_from(SOCK_NONBLOCK, -EALREADY, -EALREADY);

	assert_dials(fd, -EINPROGRESS);
	cr_assert_not(dialing.wait);
	assert_dials(fd, -EALREADY);
	dialing.says[2] = 0;
	assert_dials(fd, 0);
	cr_assert(dialer.calls == 1 && !peer_connects);
}

Test(call_life, who_waits_is_told_how_dialing_ends)
{
	int fd = dial_from(0, -EALREADY, 0);

	dialer.gives->ready = POLLOUT;
	assert_dials(fd, 0);
	cr_assert_eq(dialing.calls, 2);
	fd = dial_from(0, -EALREADY, -ECONNREFUSED);
	dialer.gives->ready = POLLOUT;
	assert_dials(fd, -ECONNREFUSED);
}

Test(call_life, who_has_waited_long_enough_leaves_it_dialing)
{
	struct timeval tv = { 0, 20000 };
	int fd = dial_from(0, -EALREADY, -EALREADY);

	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), 0);
	assert_dials(fd, -EINPROGRESS);
	cr_assert_not(dialing.wait, "it looks a last time");
	fd = dial_from(0, -EALREADY, 0);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), 0);
	assert_dials(fd, 0);
}

static void on_usr1(int sig RR_UNUSED)
{
}

Test(call_life, who_is_interrupted_leaves_it_dialing)
{
	struct sigaction sa = { .sa_handler = on_usr1 };
	struct later l = { .what = interrupt };
	int fd = dial_from(0, -EALREADY, -EALREADY);

	sigaction(SIGUSR1, &sa, NULL);
	start(&l);
	assert_dials(fd, -EINTR);
	finish(&l);
}

/* --- duplicates --- */

Test(call_life, duplicates)
{
	int fd = rr_wrap_dup(at.fd), other = open("/dev/null", O_RDONLY), to = 700;

	cr_assert_eq(errno, MINE);
	cr_assert(sock_at(fd) == at.so && at.so->f.refs == 2);
	cr_assert_eq(rr_wrap_dup2(at.fd, to), to);
	cr_assert_eq(rr_wrap_dup3(at.fd, to + 1, O_CLOEXEC), to + 1);
	cr_assert_eq(fcntl(to, F_GETFD), 0);
	cr_assert_eq(fcntl(to + 1, F_GETFD), FD_CLOEXEC);
	cr_assert(sock_at(to) == at.so && sock_at(to + 1) == at.so && at.so->f.refs == 4 && at.so->f.fds == 4);
	cr_assert_eq(rr_wrap_dup2(at.fd, at.fd), at.fd);
	cr_assert_eq(at.so->f.refs, 4);
	cr_assert_eq(errno, MINE);
	/* Onto one of its numbers: that is closed, and the others stay. */
	cr_assert_eq(rr_wrap_dup2(other, to), to);
	cr_assert(!rr_fdt_has(to) && at.so->f.refs == 3 && !closes);
	cr_assert_eq(rr_wrap_dup2(at.fd, fd), fd);
	cr_assert_eq(at.so->f.refs, 3);
	/* The number 0 is one, too. */
	cr_assert_eq(rr_wrap_dup2(at.fd, 0), 0);
	cr_assert(sock_at(0) == at.so && at.so->f.refs == 4);
	cr_assert_eq(rr_wrap_close(0), 0);
	cr_assert_eq(rr_wrap_dup(at.fd), 0);
	cr_assert(sock_at(0) == at.so && at.so->f.refs == 4);
	cr_assert_eq(rr_wrap_dup(99999), -1);
	cr_assert_eq(errno, EBADF);
	/* What is no socket of ours at a number that was one. */
	close(to + 1);
	cr_assert_eq(fcntl(other, F_DUPFD, to + 1), to + 1);
	rr_sock_dup(other, to + 1);
	cr_assert_not(rr_fdt_has(to + 1));
}

Test(call_life, a_duplicate_that_fails_closes_nothing)
{
	int fd = at.fd;

	cr_assert(rr_wrap_dup2(99999, fd) == -1 && errno == EBADF);
	cr_assert(rr_wrap_dup3(at.peer, fd, O_NONBLOCK) == -1 && errno == EINVAL);
	cr_assert(rr_wrap_dup3(fd, fd, 0) == -1 && errno == EINVAL);
	cr_assert(rr_wrap_dup2(fd, -1) == -1 && errno == EBADF);
	cr_assert(sock_at(fd) == at.so && at.so->f.refs == 1 && !closes);
}

Test(call_life, a_duplicate_onto_the_last_number_closes_it)
{
	rr_file_hold(&at.so->f);
	cr_assert_eq(rr_wrap_dup2(at.peer, at.fd), at.fd);
	cr_assert_eq(errno, MINE);
	cr_assert(closes == 1 && closed_fd == at.fd && !rr_fdt_has(at.fd) && at.so->f.refs == 1);
	cr_assert_null(at.so->watches);
}

/* The app wants a number that the library has. */
Test(call_life, our_own_make_way)
{
	struct rr_ep_set *s = rr_ep_at(at.set);
	int inner, own = rr_ownfd_raise(open("/dev/null", O_RDONLY));

	cr_assert_eq(rr_wrap_epoll_wait(at.set, &(struct epoll_event){ 0 }, 1, 0), 0);
	inner = s->inner;
	cr_assert(inner >= 0 && rr_ownfd_is(inner) && rr_ownfd_is(own));
	errno = MINE;
	cr_assert(rr_wrap_close(inner) == -1 && errno == EBADF);
	cr_assert(is_open(inner));
	errno = MINE;
	cr_assert_eq(rr_wrap_dup2(at.fd, inner), inner);
	cr_assert_eq(errno, MINE);
	cr_assert(s->inner != inner && rr_ownfd_is(s->inner) && !rr_ownfd_is(inner) && sock_at(inner) == at.so);
	cr_assert(rr_wrap_dup2(at.fd, own) == -1 && errno == EBUSY);
	cr_assert(is_open(own) && rr_ownfd_is(own));
	rr_file_put(&s->f);
}

Test(call_life, what_a_stream_has_may_be_closed_unseen)
{
	FILE *f = rr_wrap_fdopen(at.fd, "r+");

	cr_assert_not_null(f);
	cr_assert_eq(errno, MINE);
	cr_assert(flags_at(at.fd) & RR_SOCK_STDIO);
	cr_assert_eq(at.so->f.refs, 1);
	cr_assert_null(rr_wrap_fdopen(99999, "r"));
	cr_assert_eq(errno, EBADF);
}

static int diags;

static void note_diag(const char *what RR_UNUSED, int fd)
{
	cr_assert_eq(fd, at.fd);
	diags++;
}

static bool frees_it(struct rr_conn *c)
{
	cr_assert_eq(c, at.c);
	return true;
}

Test(call_life, who_uses_a_stream_is_warned_if_it_is_carried)
{
	rr_diag_hook = note_diag;
	cr_assert_not_null(rr_wrap_fdopen(at.fd, "r+"));
	cr_assert_eq(diags, 1);
	rr_fake.let_go = frees_it;
	cr_assert_not_null(rr_wrap_fdopen(at.fd, "r+"));
	cr_assert_eq(diags, 1);
	rr_fake.let_go = NULL;
	rr_fake_become(at.c, at.fd, RR_FAKE_TCP);
	cr_assert_not_null(rr_wrap_fdopen(at.fd, "r+"));
	cr_assert_eq(diags, 1);
}

/* What core/conn has let go of is the kernel's in the app's sets as well. */
static bool goes(struct rr_conn *c)
{
	c->face.state = RR_FAKE_TCP;
	c->face.changed = true;
	return true;
}

Test(call_life, what_a_stream_has_is_the_kernels_in_its_sets)
{
	struct rr_ep_watch *w = at.so->watches;

	rr_fake.let_go = goes;
	cr_assert_eq(w->form, RR_EP_MANAGED);
	cr_assert_not_null(rr_wrap_fdopen(at.fd, "r+"));
	cr_assert_eq(w->form, RR_EP_PLAIN);
}

Test(call_life, what_a_stream_has_is_met_first)
{
	int peer, fd = tcp(&peer);
	struct rr_sock *so = rr_fake_unmet(fd);

	cr_assert_not_null(rr_wrap_fdopen(fd, "r+"));
	cr_assert(!rr_unmet_is(so) && rr_unmet_n == 0);
}

Test(call_life, one_that_is_the_kernels_for_ever_is_so_in_its_sets)
{
	struct rr_ep_watch *w = at.so->watches;

	cr_assert_eq(w->form, RR_EP_MANAGED);
	rr_sock_plain(at.so);
	cr_assert(at.so->flags & RR_SOCK_PLAIN && vanishings == 1 && w->form == RR_EP_PLAIN);
	rr_sock_plain(at.so);
	cr_assert_eq(vanishings, 1);
	atomic_store(&at.so->conn, NULL);
	atomic_store(&at.so->flags, 0);
	rr_sock_plain(at.so);
	cr_assert(vanishings == 1 && !at.so->flags);
}

static int moved_to, moved_from;

/* As core/conn does: the wake-up descriptor has another number from here on. */
static bool move_script(int fd)
{
	if (fd != at.c->wake)
		return false;
	moved_from = fd;
	moved_to = at.c->wake = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
	rr_ownfd_set(fd, false);
	rr_ownfd_set(moved_to, true);
	return true;
}

Test(call_life, a_wake_up_descriptor_makes_way)
{
	struct rr_ep_watch *w = at.so->watches;
	int wake = at.c->wake;

	rr_fake.move_fd = move_script;
	rr_ownfd_set(wake, true);
	cr_assert_eq(w->wake, wake);
	errno = MINE;
	cr_assert_eq(rr_wrap_dup2(at.peer, wake), wake);
	cr_assert_eq(errno, MINE);
	cr_assert(moved_from == wake && w->wake == moved_to, "the inner set has its new number");
	cr_assert(!rr_ownfd_is(wake) && rr_ownfd_is(moved_to));
}

static bool was_ours[70000];

static void note_ours(void)
{
	memset(was_ours, 0, sizeof(was_ours));
	for (int fd = rr_ownfd_next(0); fd >= 0; fd = rr_ownfd_next(fd + 1))
		was_ours[fd % 70000] = true;
}

/* The one descriptor that is ours since then. */
static int new_of_ours(void)
{
	int found = -1;

	for (int fd = rr_ownfd_next(0); fd >= 0; fd = rr_ownfd_next(fd + 1)) {
		if (was_ours[fd % 70000])
			continue;
		cr_assert_eq(found, -1);
		found = fd;
	}
	cr_assert_geq(found, 0);
	return found;
}

static void assert_makes_way(int fd)
{
	errno = MINE;
	cr_assert_eq(rr_wrap_dup2(at.fd, fd), fd);
	cr_assert_eq(errno, MINE);
	cr_assert(sock_at(fd) == at.so && !rr_ownfd_is(fd));
}

static const char *nowhere(void)
{
	return "";
}

Test(call_life, the_log_and_the_statistics_make_way)
{
	struct rr_stat_seg *seg;

	note_ours();
	rr_logsink_setup(RR_LOG_TO_FILE, "/dev/null", RR_LOG_WARN);
	assert_makes_way(new_of_ours());
	note_ours();
	rr_statseg_setup(nowhere, "");
	seg = rr_statseg_get(true);
	cr_assert_not_null(seg);
	assert_makes_way(new_of_ours());
	cr_assert_eq(rr_statseg_get(true), seg);
}
