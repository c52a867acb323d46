/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong while a connection comes about, or when it has ended: an offer that may not be made or cannot be written,
 * an answer that cannot, a provider that is lost, an error that is asked for again. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/os.h"
#include "core/conn/base/price.h"
#include "core/conn/base/state.h"
#include "core/conn/carried/carried.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/unit/conn_rides.h"

static struct rr_os os;

TestSuite(conn_wrong, .fini = leave, .timeout = 60);

static struct rr_os *own_os(void)
{
	os = *rr_os;
	rr_os = &os;
	return &os;
}

/* --- the offer --- */

Test(conn_wrong, where_nobody_shows_that_it_is_ours_no_offer_goes)
{
	size_t n = rr_test_call(out, 1, 100, 1);

	open_after(1);
	serves_no_more();
	one_way(&p.client, &p.server, n);
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_TCP);
}

static ssize_t forbidden_sendmsg(int fd, const struct msghdr *m, int flags)
{
	(void)fd;
	(void)m;
	(void)flags;
	errno = ENOSYS;
	return -1;
}

static ssize_t forbidden_send(int fd, const void *buf, size_t n, int flags)
{
	(void)buf;
	(void)n;
	return forbidden_sendmsg(fd, NULL, flags);
}

/* ... by a filter of system calls: the app's own call may be allowed. */
Test(conn_wrong, a_first_call_that_may_not_be_sent_our_way_is_the_kernels)
{
	size_t n = rr_test_call(out, 1, 100, 1);
	struct iovec iov = { out, n };

	open_after(5);
	own_os()->sendmsg = forbidden_sendmsg;
	os.send = forbidden_send;
	cr_assert_eq(rr_conn_send(p.client.c, p.client.fd, &iov, 1, 0), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_TCP);
}

/* The state after the first call, where connections for its program usually make so many. */
static enum rr_conn_st after_one_where_usual_is(uint32_t calls, int connections)
{
	size_t n = rr_test_call(out, 1, 100, 1);
	struct sockaddr_in6 at = { 0 };
	socklen_t len = sizeof(at);
	uint32_t prog;

	open_after(RR_AFTER_AUTO);
	cr_assert_eq(getsockname(p.listener, (struct sockaddr *)&at, &len), 0);
	memcpy(&prog, out + 16, sizeof(prog));
	for (int i = 0; i < connections; i++)
		rr_learned_end(&at, ntohl(prog), calls);
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	return rr_conn_st(p.client.c);
}

/* What connections for this program made before decides. */
Test(conn_wrong, where_connections_make_many_calls_the_first_has_the_offer)
{
	cr_assert_eq(after_one_where_usual_is(1000, 10), RR_S_ASKED);
}

Test(conn_wrong, after_a_few_the_next_shows_what_a_call_takes_by_tcp)
{
	cr_assert_eq(after_one_where_usual_is(1000, 8), RR_S_WATCH);
	cr_assert_eq(rr_end_try_send(&p.client, out, rr_test_call(out, 2, 100, 2)), (ssize_t)rr_test_call(out, 2, 100, 2));
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_ASKED);
}

Test(conn_wrong, how_many_those_must_be_is_a_matter_of_the_price)
{
	rr_price_paid(RR_PRICE_FREE, RR_MSEC);
	cr_assert_eq(after_one_where_usual_is(40, 10), RR_S_WATCH);
}

Test(conn_wrong, at_a_low_price_they_are_few)
{
	rr_price_paid(RR_PRICE_FREE, RR_USEC);
	cr_assert_eq(after_one_where_usual_is(40, 10), RR_S_ASKED);
}

Test(conn_wrong, where_nothing_is_known_the_first_call_has_none)
{
	size_t n = rr_test_call(out, 1, 100, 1);

	open_after(RR_AFTER_AUTO);
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_WATCH);
}

/* --- the answer --- */

static ssize_t half_send(int fd, const void *buf, size_t len, int flags)
{
	return send(fd, buf, len / 2, flags);
}

/* Reads what there is away. */
static bool is_over(const struct rr_end *e)
{
	ssize_t n;

	while ((n = recv(e->fd, in, sizeof(in), MSG_DONTWAIT)) > 0)
		;
	return n == 0 || errno != EAGAIN;
}

/* What has half gone cannot be taken back, and the client may not take it for an answer. */
Test(conn_wrong, an_answer_that_goes_half_ends_the_connection)
{
	size_t n = rr_test_call(out, 1, 10, 1);

	setup();
	cr_assert_eq(rr_end_try_send(&p.client, out, n), -EAGAIN);
	own_os()->send = half_send;
	for (int i = 0; i < 5000 && !rr_conn_is_tcp(p.server.c); i++) {
		rr_end_poll(&p.server, POLLIN);
		rr_os_nap(RR_MSEC);
	}
	cr_assert(rr_conn_is_tcp(p.server.c));
	for (int i = 0; i < 5000 && !is_over(&p.client); i++)
		rr_os_nap(RR_MSEC);
	cr_assert(is_over(&p.client));
}

/* --- the provider --- */

/* Both have crossed with calls of theirs, and the client waits for a reply on the way that it does not see yet. */
static struct rr_share *half_way(void)
{
	open_after(1);
	for (uint32_t i = 1; i < 10 && !rr_conn_is_carried(p.client.c); i++) {
		one_way(&p.client, &p.server, rr_test_call(out, i, 100, i));
		one_way(&p.server, &p.client, rr_test_reply(out, i, 300, i));
	}
	cr_assert(rr_conn_is_carried(p.client.c));
	return p.client.c->share;
}

/* TCP may yet say how the peer has ended; after a while it has only lost us. */
Test(conn_wrong, who_has_crossed_to_a_provider_that_is_lost_is_patient)
{
	struct rr_share *sh = half_way();
	rr_time lost;

	one_way(&p.client, &p.server, rr_test_call(out, 50, 100, 50));
	cr_assert(rr_rx_is_early(sh));
	shutdown(p.server.c->share->qp->wake_fd, SHUT_RDWR);
	rr_conn_drain(p.client.c);
	cr_assert(rr_link_is_lost(sh));
	lost = sh->lost_at;
	rr_cross_check(sh, p.client.fd, lost + 100 * RR_MSEC);
	cr_assert_eq(sh->err, 0);
	rr_cross_check(sh, p.client.fd, lost + 101 * RR_MSEC);
	cr_assert_eq(sh->err, ECONNRESET);
}

/* Who has not crossed yet never will, and goes on by TCP however long that takes. */
Test(conn_wrong, who_has_not_crossed_to_a_provider_that_is_lost_stays_on_tcp)
{
	struct rr_share *sh = half_way();

	shutdown(p.server.c->share->qp->wake_fd, SHUT_RDWR);
	rr_conn_drain(p.client.c);
	rr_cross_check(sh, p.client.fd, sh->lost_at + 10 * RR_SEC);
	cr_assert_eq(sh->err, 0);
	one_way(&p.client, &p.server, rr_test_call(out, 50, 100, 50));
	one_way(&p.server, &p.client, rr_test_reply(out, 50, 300, 50));
}

/* --- the end --- */

/* SO_ERROR takes it, and what the kernel knows beside it is our doing. */
Test(conn_wrong, an_error_is_told_once_and_the_kernels_own_never)
{
	setup();
	carried();
	cr_assert_eq(send(p.client.fd, "bytes that are neither a call nor a mark", 40, 0), 40);
	for (int i = 0; i < 5000 && !(rr_end_poll(&p.server, POLLIN) & POLLERR); i++)
		rr_os_nap(RR_MSEC);
	cr_assert_neq(rr_conn_take_error(p.server.c, p.server.fd), 0);
	cr_assert_eq(rr_conn_take_error(p.server.c, p.server.fd), 0);
}

/* --- streams --- */

/* The mark alone ends the record: nothing comes behind it by which that could be seen. */
Test(conn_wrong, a_record_whose_last_fragment_is_empty_is_sent)
{
	static const uint8_t empty[] = { 0x80, 0, 0, 0 };
	size_t n;

	setup();
	carried();
	n = rr_test_call(out, 2, 100, 2);
	out[0] &= 0x7f;		/* there are more fragments */
	memcpy(out + n, empty, sizeof(empty));
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_try_recv(&p.server, in, sizeof(in), 0), -EAGAIN);
	cr_assert_eq(rr_end_try_send(&p.client, out + n, sizeof(empty)), sizeof(empty));
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in + 4, out + 4, n - 4), 0);
}

/* --- memory --- */

Test(conn_wrong, no_address_space_is_no_share_and_no_fault)
{
	const struct rr_prov_params params = { .recv_size = 4096, .recvs = 8, .mem_size = 1 << 20 };
	struct rlimit was, none;

	setup();
	getrlimit(RLIMIT_AS, &was);
	none = was;
	none.rlim_cur = 1 << 20;
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	cr_expect_null(rr_share_new(&params, 4096));
	setrlimit(RLIMIT_AS, &was);
}
