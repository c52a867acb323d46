/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of a connection's two ends, and what else the kernel is asked about its socket. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/os.h"
#include "core/conn/base/base.h"

static int own_rc, peer_rc, own_asked, peer_asked;
static sa_family_t family = AF_INET6;
static struct linger lingered;
static int linger_fd = -1, shut_fd = -1, shut_how, poll_rc;
static short poll_events, poll_revents;

static void answer(struct sockaddr *sa, socklen_t *len, uint16_t port)
{
	struct sockaddr_in6 in = { .sin6_family = family, .sin6_port = htons(port) };

	cr_assert_eq(*len, sizeof(in));
	cr_assert_eq(sa->sa_family, AF_UNSPEC);
	memcpy(sa, &in, sizeof(in));
}

static int fake_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	cr_assert_eq(fd, 9);
	own_asked++;
	if (!own_rc)
		answer(sa, len, 1);
	return own_rc;
}

static int fake_getpeername(int fd, struct sockaddr *sa, socklen_t *len)
{
	cr_assert_eq(fd, 9);
	peer_asked++;
	if (!peer_rc)
		answer(sa, len, 2);
	return peer_rc;
}

static int fake_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	cr_assert(level == SOL_SOCKET && name == SO_LINGER && len == sizeof(lingered));
	memcpy(&lingered, val, len);
	linger_fd = fd;
	return 0;
}

static int fake_shutdown(int fd, int how)
{
	shut_fd = fd;
	shut_how = how;
	return 0;
}

static int fake_poll(struct pollfd *p, nfds_t n, int ms)
{
	cr_assert(n == 1 && ms == 0 && p->fd == 9 && p->revents == 0);
	poll_events = p->events;
	p->revents = poll_revents;
	return poll_rc;
}

static const struct rr_os fakes = {
	.getsockname = fake_getsockname, .getpeername = fake_getpeername, .setsockopt = fake_setsockopt,
	.shutdown = fake_shutdown, .poll = fake_poll,
};
static struct rr_conn c = { .fd = 9 };

static void begin(void)
{
	rr_os = &fakes;
	atomic_store(&c.face.state, RR_S_NEW);
	c.end[0].sin6_family = c.end[1].sin6_family = 77;	/* of a connection of before */
}

TestSuite(ends, .init = begin);

static uint16_t port(const struct sockaddr *sa)
{
	return ntohs(((const struct sockaddr_in6 *)(const void *)sa)->sin6_port);
}

Test(ends, the_kernel_is_asked_once)
{
	cr_assert(port(rr_ends_own(&c)) == 1 && port(rr_ends_peer(&c)) == 2);
	cr_assert(rr_ends_own(&c) == (void *)&c.end[0] && rr_ends_peer(&c) == (void *)&c.end[1]);
	cr_assert(rr_ends_known(&c));
	cr_assert(own_asked == 1 && peer_asked == 1);
}

Test(ends, of_the_peer_it_is_asked_first)
{
	cr_assert(port(rr_ends_peer(&c)) == 2 && port(rr_ends_own(&c)) == 1);
	cr_assert(own_asked == 1 && peer_asked == 1);
}

Test(ends, what_is_not_known_is_asked_again)
{
	own_rc = -1;
	cr_assert_not(rr_ends_known(&c));
	cr_assert_eq(rr_ends_own(&c)->sa_family, AF_UNSPEC);
	cr_assert(c.told[1] && !c.told[0] && peer_asked == 1 && own_asked == 2);
	own_rc = 0;
	cr_assert(rr_ends_known(&c));
	cr_assert(peer_asked == 1 && own_asked == 3);
}

/* connect() may change it yet. */
Test(ends, its_own_does_not_count_before_it_is_connected)
{
	peer_rc = -1;
	cr_assert_not(rr_ends_known(&c));
	cr_assert(!c.told[0] && !c.told[1]);
	cr_assert_eq(port(rr_ends_own(&c)), 1, "as it is now");
	cr_assert_eq(rr_ends_peer(&c)->sa_family, AF_UNSPEC);
	peer_rc = 0;
	cr_assert(rr_ends_known(&c) && c.told[0] && c.told[1]);
}

Test(ends, a_socket_that_is_connected_anew_has_others)
{
	rr_ends_known(&c);
	rr_ends_changed(&c);
	cr_assert(!c.told[0] && !c.told[1]);
	cr_assert(rr_ends_known(&c));
	cr_assert(own_asked == 2 && peer_asked == 2);
}

Test(ends, a_native_connection_has_names)
{
	c.name[0] = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(3) };
	c.name[1] = (struct sockaddr_in6){ .sin6_port = htons(4) };	/* the first decides */
	cr_assert(rr_ends_known(&c));
	cr_assert(port(rr_ends_own(&c)) == 3 && port(rr_ends_peer(&c)) == 4);
	cr_assert(own_asked == 0 && peer_asked == 0);
}

static void named(bool peer, uint16_t at)
{
	struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_port = htons(at) };

	rr_conn_named(&c, peer, (struct sockaddr *)&in, sizeof(in));
}

Test(ends, what_the_app_was_told_is_not_asked)
{
	named(true, 20);
	cr_assert(c.told[1] && !c.told[0]);
	named(false, 10);
	cr_assert(c.told[0]);
	cr_assert(port(rr_ends_own(&c)) == 10 && port(rr_ends_peer(&c)) == 20);
	cr_assert(own_asked == 0 && peer_asked == 0);
	named(false, 11);
	named(true, 21);
	cr_assert(port(rr_ends_own(&c)) == 10 && port(rr_ends_peer(&c)) == 20, "the first word counts");
}

Test(ends, a_clients_own_may_change_until_its_peer_is_known)
{
	named(false, 10);
	cr_assert(!c.told[0] && !c.told[1]);
	c.face.server = true;
	named(false, 10);
	cr_assert(c.told[0] && !c.told[1]);
	cr_assert_eq(port((struct sockaddr *)&c.end[0]), 10);
	cr_assert(rr_ends_known(&c));
	cr_assert(c.told[1] && own_asked == 0 && peer_asked == 1);
}

Test(ends, only_of_what_is_the_kernels_and_fits)
{
	struct sockaddr_storage big = { .ss_family = AF_INET6 };

	rr_conn_named(&c, true, (struct sockaddr *)&big, sizeof(struct sockaddr_in6) + 1);
	cr_assert_not(c.told[1]);
	atomic_store(&c.face.state, RR_S_CARRIED);
	named(true, 20);
	cr_assert_not(c.told[1]);
	atomic_store(&c.face.state, RR_S_WATCH);
	cr_assert_eq(rr_lock_take(&c.lock), 0);
	named(true, 20);
	cr_assert_not(c.told[1], "another thread has it");
	rr_lock_drop(&c.lock);
	named(true, 20);
	cr_assert(c.told[1]);
	cr_assert_eq(rr_lock_try(&c.lock), 0, "it is let go");
}

/* --- socket.c -------------------------------------------------------------------------------------------------- */

Test(ends, what_poll_says_is_told)
{
	poll_rc = 1;
	poll_revents = (short)0x8001;
	cr_assert_eq(rr_anchor_poll(9, POLLOUT), 0x8001);
	cr_assert_eq(poll_events, POLLOUT);
	poll_rc = 0;
	cr_assert_eq(rr_anchor_poll(9, POLLOUT), 0);
	poll_rc = -1;
	cr_assert_eq(rr_anchor_poll(9, POLLOUT), 0);
}

Test(ends, a_reset_is_a_close_without_lingering)
{
	rr_anchor_reset(9);
	cr_assert(linger_fd == 9 && lingered.l_onoff == 1 && lingered.l_linger == 0);
	cr_assert_eq(shut_fd, -1);
	linger_fd = -1;
	rr_anchor_break(9);
	cr_assert(linger_fd == 9 && lingered.l_onoff == 1 && lingered.l_linger == 0);
	cr_assert(shut_fd == 9 && shut_how == SHUT_RDWR);
}
