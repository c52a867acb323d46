/* SPDX-License-Identifier: BSD-3-Clause */
/* When a client is worth a statistics segment: not for its first call, and what went by unseen is counted later. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/stats_abi.h"
#include "core/conn/first.h"
#include "core/conn/upgrade/when.h"
#include "tests/lib/connpair.h"

static struct rr_stat_seg *seg;
static struct sockaddr_in at;
static int listener;
static uint8_t out[256];

static struct rr_stat_seg *stats(bool make)
{
	if (make)
		seg = rr_test_segment(true);
	return seg;
}

static void begin(void)
{
	rr_test_params.stats = stats;
	rr_test_params.offer_after = RR_AFTER_AUTO;
	rr_test_setup();
	listener = rr_test_listen(&at);
}

TestSuite(conn_seen, .init = begin, .timeout = 60);

/* A client of a server without us. */
static struct rr_end begin_client(void)
{
	struct rr_end e = { .fd = socket(AF_INET, SOCK_STREAM, 0) };

	cr_assert_eq(connect(e.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	e.c = rr_conn_client(e.fd, (struct sockaddr *)&at, sizeof(at));
	cr_assert(e.c);
	return e;
}

static void call(struct rr_end *e, uint32_t xid)
{
	size_t n = rr_test_call(out, xid, 10, 1);

	cr_assert_eq(rr_end_try_send(e, out, n), (ssize_t)n);
}

static void one_call(void)
{
	struct rr_end e = begin_client();

	call(&e, 1);
	rr_end_close(&e);
}

Test(conn_seen, the_first_call_of_a_client_is_not_worth_a_segment)
{
	struct rr_end e = begin_client();
	char there[RR_STAT_ADDR], told[RR_STAT_ADDR];

	rr_test_params.offer_after = 10;
	rr_addr_text((struct sockaddr *)&at, there, sizeof(there));
	call(&e, 1);
	cr_assert_null(seg);
	call(&e, 2);
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 0);	/* it may still be carried */
	cr_assert_eq(seg->conn[0].state, RR_CS_NEW);
	cr_assert_eq(seg->conn[0].carrier, RR_CARRIER_TCP);
	rr_stats_addr_read(seg->conn[0].peer, told);
	cr_assert_str_eq(told, there);
	rr_end_close(&e);
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 1);
}

static enum rr_mode none(bool server RR_UNUSED, const struct sockaddr *local RR_UNUSED,
			 const struct sockaddr *peer RR_UNUSED)
{
	return RR_MODE_TCP;
}

static struct sockaddr_in shown[2];

static enum rr_mode by_address(bool server RR_UNUSED, const struct sockaddr *local, const struct sockaddr *peer)
{
	memcpy(&shown[0], local, sizeof(shown[0]));
	memcpy(&shown[1], peer, sizeof(shown[1]));
	return RR_MODE_TCP;
}

static void by_rule(bool server)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_null(server ? rr_conn_server(fd) :
				rr_conn_client(fd, (struct sockaddr *)&at, sizeof(at)));
	close(fd);
}

Test(conn_seen, clients_that_a_rule_leaves_to_tcp_are_not_worth_a_segment_either)
{
	rr_test_params.mode = none;
	for (int i = 0; i < 3; i++)
		by_rule(false);
	cr_assert_null(seg);
	by_rule(false);
	cr_assert_eq(seg->reasons[RR_R_POLICY], 4);
	by_rule(false);
	cr_assert_eq(seg->reasons[RR_R_POLICY], 5);
}

Test(conn_seen, a_server_that_a_rule_leaves_to_tcp_is_seen)
{
	one_call();
	rr_test_params.mode = none;
	by_rule(false);
	cr_assert_null(seg);
	by_rule(true);
	cr_assert_eq(seg->reasons[RR_R_POLICY], 2);
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 1);
}

/* A rule may be about either end: it sees both as the kernel has them, of a client and of a server. */
Test(conn_seen, a_rule_sees_both_addresses)
{
	struct sockaddr_in own;
	socklen_t len = sizeof(own);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	rr_test_params.mode = by_address;
	cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	for (int server = 0; server < 2; server++) {
		memset(shown, 0, sizeof(shown));
		cr_assert_null(server ? rr_conn_server(fd) : rr_conn_client(fd, (struct sockaddr *)&at, sizeof(at)));
		cr_assert_eq(memcmp(&shown[0], &own, sizeof(own)), 0, "%d", server);
		cr_assert_eq(memcmp(&shown[1], &at, sizeof(at)), 0, "%d", server);
	}
	close(fd);
}

/* Such a client has never been made. */
Test(conn_seen, so_are_connections_that_were_never_made)
{
	const struct rr_conn_passed f = { .out = 44 };

	for (int i = 0; i < 3; i++)
		rr_conn_never(&f);
	cr_assert_null(seg);
	rr_conn_never(&f);
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 4);
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 4);
	one_call();
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 5);
}

Test(conn_seen, who_makes_one_call_after_the_other_is_seen_with_the_fourth)
{
	for (int i = 0; i < 3; i++)
		one_call();
	cr_assert_null(seg);
	one_call();
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 4);
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 4);
	one_call();
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 5);
}

Test(conn_seen, a_child_does_not_count_what_its_parent_did)
{
	for (int i = 0; i < 3; i++)
		one_call();
	rr_conn_fork_prepare();
	rr_conn_fork_child();
	one_call();
	cr_assert_null(seg);
}

Test(conn_seen, anything_else_is_seen_at_once)
{
	struct rr_end e = begin_client();

	cr_assert_eq(rr_end_try_send(&e, "GET / HTTP/1.0\r\n\r\n", 18), 18);
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 1);
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 0);
	rr_end_close(&e);
}

Test(conn_seen, who_accepts_is_seen_at_once)
{
	struct rr_end e = { .fd = socket(AF_INET, SOCK_STREAM, 0) };

	cr_assert_eq(connect(e.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert(rr_conn_server(accept(listener, NULL, NULL)));
	cr_assert(seg);
}

static bool to_nowhere(enum rr_log_level level RR_UNUSED, const char *line RR_UNUSED, unsigned len RR_UNUSED,
		       unsigned at_byte RR_UNUSED)
{
	return true;
}

Test(conn_seen, a_log_is_told_of_the_first_call_too)
{
	rr_log_setup(RR_LOG_INFO, to_nowhere);
	one_call();
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 1);
}

Test(conn_seen, a_client_has_an_address_that_is_long_enough_and_of_ip)
{
	struct sockaddr_in local = { .sin_family = AF_UNIX };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_null(rr_conn_client(fd, NULL, sizeof(at)));
	cr_assert_null(rr_conn_client(fd, NULL, 0));
	cr_assert_null(rr_conn_client(fd, (struct sockaddr *)&at, sizeof(at) - 1));
	cr_assert_null(rr_conn_client(fd, (struct sockaddr *)&local, sizeof(local)));
	cr_assert(rr_conn_client(fd, (struct sockaddr *)&at, sizeof(at)));
	close(fd);
}
