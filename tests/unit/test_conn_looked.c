/* SPDX-License-Identifier: BSD-3-Clause */
/* A server that still looks for an offer notes what it has seen of the kernel's bytes, and of their end. */
#include "tests/unit/conn_rides.h"

TestSuite(conn_looked, .fini = leave, .timeout = 60);

static const struct rr_os *real_os;
static int looks;

/* The kernel says that there is something, and a look finds what. The tick in which that was may end at any moment. */
static void sees(struct rr_end *e)
{
	for (int i = 0; i < 1000 && !rr_conn_has_seen(e->c); i++)
		cr_assert_eq(rr_conn_poll(e->c, e->fd, POLLIN | RR_ASK_TOLD), RR_CONN_KERNEL);
	cr_assert(rr_conn_has_seen(e->c));
}

Test(conn_looked, what_was_seen_is_there_until_it_is_read)
{
	size_t n;

	open_after(9);
	exchange(1);
	cr_assert_eq(state(&p.server), RR_S_WATCH);
	n = rr_test_call(out, 2, 100, 2);
	sends(&p.client, out, n);
	arrived(&p.server, n);
	cr_assert_not(rr_conn_has_seen(p.server.c), "nobody has looked");
	sees(&p.server);
	finds(&p.server, out, n, 0);
	cr_assert_not(rr_conn_has_seen(p.server.c), "it was read");
	shutdown(p.client.fd, SHUT_WR);
	while (!(rr_anchor_poll(p.server.fd, POLLRDHUP) & POLLRDHUP))
		rr_os_nap(RR_MSEC);
	sees(&p.server);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), 0, "the end");
}

static ssize_t recv_and_count(int fd, void *buf, size_t n, int flags)
{
	looks++;
	return real_os->recv(fd, buf, n, flags);
}

/* No byte follows a peer's end, and the kernel reports no error behind it either. */
Test(conn_looked, an_end_that_was_seen_is_not_asked_for_again)
{
	struct rr_os os;

	open_after(9);
	exchange(1);
	cr_assert_eq(state(&p.server), RR_S_WATCH);
	shutdown(p.client.fd, SHUT_WR);
	while (!(rr_anchor_poll(p.server.fd, POLLRDHUP) & POLLRDHUP))
		rr_os_nap(RR_MSEC);
	os = *(real_os = rr_os);
	os.recv = recv_and_count;
	rr_os = &os;
	looks = 0;
	cr_assert_eq(rr_end_try_recv(&p.server, in, 9, 0), 0);
	cr_assert_eq(looks, 1, "%d", looks);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 9, 0), 0);
	cr_assert_eq(looks, 1, "%d", looks);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 9, MSG_PEEK), 0);
	rr_os = real_os;
}

/* What comes after shutdown(SHUT_RD) of its own is still read. */
Test(conn_looked, an_own_end_is_none)
{
	size_t n;

	open_after(9);
	exchange(1);
	cr_assert_eq(rr_conn_shutdown(p.server.c, p.server.fd, SHUT_RD), 0);
	cr_assert_eq(shutdown(p.server.fd, SHUT_RD), 0);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 9, 0), 0);
	n = rr_test_call(out, 2, 100, 2);
	sends(&p.client, out, n);
	arrived(&p.server, n);
	finds(&p.server, out, n, 0);
}

Test(conn_looked, what_was_seen_long_ago_or_before_a_fork_may_have_been_read)
{
	size_t n;

	open_after(9);
	exchange(1);
	n = rr_test_call(out, 2, 100, 2);
	sends(&p.client, out, n);
	arrived(&p.server, n);
	sees(&p.server);
	rr_os_nap(20 * RR_MSEC);	/* more than a tick */
	cr_assert_not(rr_conn_has_seen(p.server.c));
	sees(&p.server);
	rr_conn_fork_nears(p.server.c);
	cr_assert_not(rr_conn_has_seen(p.server.c));
}
