/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP connection that the app is given in place of the one that a native peer never made: a
 * connection to ourselves. This way options, flags, dup and the end of the connection work in
 * the kernel, as for any other socket. No payload passes through it. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/base/base.h"

#define STRANGERS	8	/* others that may connect to the port while it is open */
/* Time for all of it, whoever connects in between; loopback itself takes none. */
#define PAIR_MS		1000
#define ADDRESSES	64u	/* at which we listen, from 127.0.0.1 on */
#define IN_A_ROW	4096u	/* connections at one, before the next one's turn comes */

union addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static int new_tcp_socket(sa_family_t family)
{
	int fd = rr_os->socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return rr_ownfd_raise(fd);
}

/* An IPv4 loopback address for sockets of either family, because IPv6 may be switched off on
 * it; any port. */
static socklen_t loopback(union addr *a, sa_family_t family)
{
	static const uint8_t mapped[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

	memset(a, 0, sizeof(*a));
	a->sa.sa_family = family;
	if (family == AF_INET)
		a->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		memcpy(&a->in6.sin6_addr, mapped, sizeof(mapped));
	return family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

/* A listener for one connection, with any free port; *at becomes its address. -errno. */
static int listen_once(union addr *at, socklen_t len)
{
	sa_family_t family = at->sa.sa_family;
	int fd = new_tcp_socket(family), off = 0, rc;

	if (fd < 0)
		return fd;
	if (family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&at->in6.sin6_addr))
		rr_os->setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (!rr_os->bind(fd, &at->sa, len) && !rr_os->listen(fd, STRANGERS) &&
	    !rr_os->getsockname(fd, &at->sa, &len))
		return fd;
	rc = -errno;
	rr_ownfd_close(fd);
	return rc;
}

/* The nth of the loopback addresses that we use, where a is 127.0.0.1 in either family. */
static void move_on(union addr *a, uint32_t n)
{
	uint32_t at = htonl(INADDR_LOOPBACK + n % ADDRESSES);

	if (a->sa.sa_family == AF_INET)
		a->in.sin_addr.s_addr = at;
	else
		memcpy(a->in6.sin6_addr.s6_addr + 12, &at, sizeof(at));
}

/* listen_once() at a loopback address. The accepted end keeps the listener's port, which no
 * other listener can have at that address meanwhile. An address has 28,232 ports by default, so
 * several addresses take turns. Where the host has no other than 127.0.0.1, all are there. */
static int listen_near(union addr *at, socklen_t len)
{
	static _Atomic uint32_t turns;
	uint32_t n = atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed) / IN_A_ROW;
	int fd;

	move_on(at, n);
	fd = listen_once(at, len);
	for (uint32_t i = 1; fd == -EADDRINUSE && i < ADDRESSES; i++) {
		atomic_fetch_add_explicit(&turns, IN_A_ROW, memory_order_relaxed);
		move_on(at, ++n);
		fd = listen_once(at, len);
	}
	if (fd == -EADDRNOTAVAIL) {
		move_on(at, 0);
		fd = listen_once(at, len);
	}
	return fd;
}

static bool same_end(const union addr *a, const union addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family || a->in.sin_port != b->in.sin_port)
		return false;
	return a->sa.sa_family == AF_INET ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr :
		!memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

/* Accepts the connection whose other end is fd and closes all others, since anybody may
 * connect. Returns the new descriptor or -errno. */
static int accept_ours(int listener, int fd, int flags)
{
	struct pollfd p = { listener, POLLIN, 0 };
	union addr mine, peer;
	socklen_t len = sizeof(mine);
	rr_time end = rr_now() + PAIR_MS * RR_MSEC;

	if (rr_os->getsockname(fd, &mine.sa, &len))
		return -errno;
	for (int i = 0; i < STRANGERS; i++) {
		int got;

		rr_time now = rr_min(rr_now(), end);

		if (rr_os->poll(&p, 1, (int)((end - now) / RR_MSEC)) <= 0)
			return -ETIMEDOUT;
		len = sizeof(peer);
		got = rr_os->accept4(listener, &peer.sa, &len, flags);
		if (got < 0)
			return -errno;
		if (same_end(&mine, &peer))
			return got;
		rr_os->close(got);
	}
	return -ECONNABORTED;
}

int rr_loopback_new(sa_family_t family, int flags, int *far)
{
	union addr at;
	socklen_t len = loopback(&at, family);
	int listener = listen_near(&at, len), rc;

	if (listener < 0)
		return listener;
	*far = rc = new_tcp_socket(family);
	if (rc >= 0) {
		if (rr_os->connect(*far, &at.sa, len) && errno != EINPROGRESS)
			rc = -errno;
		else
			rc = accept_ours(listener, *far, flags);
		if (rc < 0)
			rr_loopback_end(far, false);
	}
	rr_ownfd_close(listener);
	return rc;
}

/* Listens at an address that the app's socket can connect to, *a with length *size: the app's
 * own, if the socket is bound to an address of this host, else a loopback address of its
 * family. */
static int listen_within_reach(int fd, union addr *a, socklen_t *size)
{
	socklen_t len = sizeof(*a);
	int only6 = 0;
	bool bound;

	memset(a, 0, sizeof(*a));
	if (rr_os->getsockname(fd, &a->sa, &len))
		return -EBADF;
	a->in.sin_port = 0;
	if (a->sa.sa_family == AF_INET) {
		bound = a->in.sin_addr.s_addr != htonl(INADDR_ANY);
	} else {
		bound = !IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
		len = sizeof(only6);
		rr_os->getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only6, &len);
	}
	*size = a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
	if (!bound && !only6) {
		loopback(a, a->sa.sa_family);
		return listen_near(a, *size);
	}
	if (!bound)
		a->in6.sin6_addr = (struct in6_addr)IN6ADDR_LOOPBACK_INIT;
	return listen_once(a, *size);
}

/* connect() to a port of ours. It is complete on return, even if the socket is non-blocking. */
static int connect_now(int fd, const union addr *to, socklen_t len)
{
	struct pollfd p = { fd, POLLOUT, 0 };
	int err = 0;

	if (!rr_os->connect(fd, &to->sa, len))
		return 0;
	if (errno != EINPROGRESS && errno != EINTR)
		return -errno;
	len = sizeof(err);
	if (rr_os->poll(&p, 1, PAIR_MS) != 1 ||
	    rr_os->getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -ETIMEDOUT;
	return -err;
}

void rr_loopback_reset(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	rr_os->connect(fd, &none, sizeof(none));
}

int rr_loopback_connect(int fd, int *far)
{
	union addr at;
	socklen_t len;
	int listener = listen_within_reach(fd, &at, &len), rc;

	if (listener < 0)
		return listener;
	rc = connect_now(fd, &at, len);
	if (!rc)
		rc = accept_ours(listener, fd, SOCK_CLOEXEC | SOCK_NONBLOCK);
	rr_ownfd_close(listener);
	if (rc < 0) {
		rr_loopback_reset(fd);
		return rc;
	}
	*far = rr_ownfd_raise(rc);
	return 0;
}

void rr_loopback_end(int *far, bool reset)
{
	if (*far < 0)
		return;
	if (reset)
		rr_anchor_reset(*far);
	rr_ownfd_close(*far);
	*far = -1;
}
