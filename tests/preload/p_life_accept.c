/* SPDX-License-Identifier: BSD-3-Clause */
/* accept, connect and what else makes sockets: flags, errors, what must stay untouched. */

#include <netinet/tcp.h>
#include <sys/un.h>

#include "tests/preload/calls.h"

static unsigned char buf[4096];

static void accept4_sets_the_flags_it_was_given(void)
{
	static const int flags[] = { 0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC };
	struct sockaddr_in at;
	int l = p_listen(&at);

	for (int i = 0; i < 4; i++) {
		int c = p_connect(&at), a = accept4(l, NULL, NULL, flags[i]);

		CHECK(a >= 0);
		CHECK_EQ(!!(fcntl(a, F_GETFL) & O_NONBLOCK), !!(flags[i] & SOCK_NONBLOCK));
		CHECK_EQ(fcntl(a, F_GETFD), flags[i] & SOCK_CLOEXEC ? FD_CLOEXEC : 0);
		close(c);
		close(a);
	}
	CHECK_ERR(accept4(l, NULL, NULL, 0x7f), EINVAL);
}

static void accept_names_the_peer(void)
{
	struct sockaddr_in at, peer = { 0 }, mine;
	socklen_t len = sizeof(peer), mlen = sizeof(mine);
	int l = p_listen(&at), c = p_connect(&at), a;

	a = accept(l, (struct sockaddr *)&peer, &len);
	CHECK(a >= 0);
	CHECK_EQ(len, sizeof(peer));
	CHECK_EQ(getsockname(c, (struct sockaddr *)&mine, &mlen), 0);
	CHECK_EQ(mine.sin_port, peer.sin_port);
	CHECK_EQ(getpeername(a, (struct sockaddr *)&mine, &mlen), 0);
	CHECK_EQ(mine.sin_port, peer.sin_port);
}

static void accept_fails_as_the_kernel_says(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at), c = p_connect(&at);

	CHECK_ERR(accept(-1, NULL, NULL), EBADF);
	CHECK_ERR(accept(0, NULL, NULL), ENOTSOCK);
	CHECK_ERR(accept(c, NULL, NULL), EINVAL);
	close(accept(l, NULL, NULL));
	p_nonblock(l, true);
	CHECK_ERR(accept(l, NULL, NULL), EAGAIN);
}

static void on_signal(int sig P_UNUSED)
{
}

static void *poker(void *arg)
{
	p_asleep(getpid());	/* the main thread */
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

static void a_handler_interrupts_accept(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct sockaddr_in at;
	pthread_t t, me = pthread_self();
	int l = p_listen(&at);

	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&t, NULL, poker, &me);
	CHECK_ERR(accept(l, NULL, NULL), EINTR);
	pthread_join(t, NULL);
}

static void connecting_without_blocking(void)
{
	struct sockaddr_in at;
	struct pollfd p = { .events = POLLOUT };
	socklen_t len = sizeof(int);
	int l = p_listen(&at), err = -1, a;
	pthread_t t;

	p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect(p.fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		CHECK_EQ(errno, EINPROGRESS);
	CHECK_EQ(poll(&p, 1, P_SOON), 1);
	CHECK_EQ(p.revents, POLLOUT);
	CHECK_EQ(getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	CHECK_EQ(err, 0);
	/* Linux: the first call after it has come about says so, the next that it is. */
	CHECK_EQ(connect(p.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_ERR(connect(p.fd, (struct sockaddr *)&at, sizeof(at)), EISCONN);
	a = accept(l, NULL, NULL);
	p_nonblock(p.fd, false);
	pthread_create(&t, NULL, rpc_null_server, &a);
	rpc_null(p.fd, 1);
	pthread_join(t, NULL);
}

static void a_refused_connect_can_be_tried_again(void)
{
	struct sockaddr_in at;
	int l = p_listen(&at), fd = socket(AF_INET, SOCK_STREAM, 0), a;
	pthread_t t;

	close(l);
	CHECK_ERR(connect(fd, (struct sockaddr *)&at, sizeof(at)), ECONNREFUSED);
	l = p_listen(&at);
	CHECK_EQ(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	a = accept(l, NULL, NULL);
	pthread_create(&t, NULL, rpc_null_server, &a);
	rpc_null(fd, 1);
	pthread_join(t, NULL);
}

static void af_unspec_takes_a_connection_apart(void)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_in at;
	int l = p_listen(&at), fd = p_connect(&at), a = accept(l, NULL, NULL);
	pthread_t t;

	CHECK_EQ(connect(fd, &none, sizeof(none)), 0);
	close(a);
	CHECK_ERR(getpeername(fd, &none, &(socklen_t){ sizeof(none) }), ENOTCONN);
	CHECK_EQ(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	a = accept(l, NULL, NULL);
	pthread_create(&t, NULL, rpc_null_server, &a);
	rpc_null(fd, 1);
	pthread_join(t, NULL);
}

static void af_unspec_resets_a_connection_in_use(void)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_in at;
	int l = p_listen(&at), s[2], a;
	pthread_t t;

	rpc_pair(s);
	CHECK_EQ(connect(s[0], &none, sizeof(none)), 0);
	CHECK_ERR(read(s[1], buf, 1), ECONNRESET);
	CHECK_ERR(read(s[0], buf, 1), ECONNRESET);
	CHECK_ERR(read(s[0], buf, 1), ENOTCONN);
	CHECK_ERR(send(s[0], buf, 1, MSG_NOSIGNAL), EPIPE);
	CHECK_EQ(connect(s[0], (struct sockaddr *)&at, sizeof(at)), 0);
	a = accept(l, NULL, NULL);
	pthread_create(&t, NULL, rpc_null_server, &a);
	rpc_null(s[0], 1);
	pthread_join(t, NULL);
}

static void ipv6_takes_both_families(void)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6 };
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	int l = socket(AF_INET6, SOCK_STREAM, 0), off = 0, c, a;
	socklen_t len = sizeof(at);
	pthread_t t;

	if (l < 0)
		exit(77);
	setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(l, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(l, 4) < 0)
		exit(77);
	CHECK_EQ(getsockname(l, (struct sockaddr *)&at, &len), 0);
	v4.sin_port = at.sin6_port;
	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c = p_connect(&v4);
	a = accept(l, NULL, NULL);
	pthread_create(&t, NULL, rpc_null_server, &a);
	rpc_null(c, 1);
	pthread_join(t, NULL);
}

static void other_kinds_of_sockets_are_untouched(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int u = socket(AF_INET, SOCK_DGRAM, 0), sp[2], l, c, a;

	CHECK(u >= 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(bind(u, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(getsockname(u, (struct sockaddr *)&at, &len), 0);
	CHECK_EQ(connect(u, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(send(u, "x", 1, 0), 1);
	CHECK_EQ(recv(u, buf, sizeof(buf), 0), 1);
	CHECK_EQ(close(u), 0);

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sp), 0);
	CHECK_EQ(send(sp[0], "abc", 3, 0), 3);
	CHECK_EQ(recv(sp[1], buf, sizeof(buf), 0), 3);

	/* An abstract name of this process's own. */
	snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "p_life_accept.%d", getpid());
	l = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQ(bind(l, (struct sockaddr *)&un, sizeof(un)), 0);
	CHECK_EQ(listen(l, 1), 0);
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQ(connect(c, (struct sockaddr *)&un, sizeof(un)), 0);
	a = accept(l, NULL, NULL);
	CHECK_EQ(write(c, "abc", 3), 3);
	CHECK_EQ(read(a, buf, sizeof(buf)), 3);
}

static void socket_refuses_what_the_kernel_refuses(void)
{
	CHECK_ERR(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
	CHECK_ERR(socket(9999, SOCK_STREAM, 0), EAFNOSUPPORT);
	CHECK_ERR(listen(-1, 1), EBADF);
	CHECK_ERR(shutdown(socket(AF_INET, SOCK_STREAM, 0), SHUT_WR), ENOTCONN);
}

static const struct p_case cases[] = {
	{ "accept4_sets_the_flags_it_was_given", accept4_sets_the_flags_it_was_given },
	{ "accept_names_the_peer", accept_names_the_peer },
	{ "accept_fails_as_the_kernel_says", accept_fails_as_the_kernel_says },
	{ "a_handler_interrupts_accept", a_handler_interrupts_accept },
	{ "connecting_without_blocking", connecting_without_blocking },
	{ "a_refused_connect_can_be_tried_again", a_refused_connect_can_be_tried_again },
	{ "af_unspec_takes_a_connection_apart", af_unspec_takes_a_connection_apart },
	{ "af_unspec_resets_a_connection_in_use", af_unspec_resets_a_connection_in_use },
	{ "ipv6_takes_both_families", ipv6_takes_both_families },
	{ "other_kinds_of_sockets_are_untouched", other_kinds_of_sockets_are_untouched },
	{ "socket_refuses_what_the_kernel_refuses", socket_refuses_what_the_kernel_refuses },
};

P_MAIN(cases)
