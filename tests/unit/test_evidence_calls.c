/* SPDX-License-Identifier: BSD-3-Clause */
/* Evidence of servers, call by call: their names, who looks for them, and what others may do meanwhile. */
#include "tests/unit/evidence_played.h"

TestSuite(evidence_calls, .init = begin, .timeout = 60);

/* --- a server's names --- */

Test(evidence_calls, a_server_has_two_names)
{
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert(k.n == 2 && !strcmp(k.names[0], "@" NAME) && !strcmp(k.names[1], "/run/x/" NAME));
	cr_assert(k.raises == 2 && k.shuts == 2 && k.chmods == 1 && k.closes == 0 && k.connects == 0 && k.unlinks == 0);
	rr_conn_serves_not(1);
	cr_assert(k.own_closes == 2 && k.own_closed[0] == 1100 && k.own_closed[1] == 1101 && k.unlinks == 1);
	cr_assert_str_eq(k.unlinked, "/run/x/" NAME);
}

Test(evidence_calls, names_of_all_addresses_and_of_v6)
{
	at = v4("0.0.0.0", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert_str_eq(k.names[0], "@" ANY);
	at = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(65535) };
	inet_pton(AF_INET6, "2001:db8::1:2", &at.sin6_addr);
	cr_assert_eq(rr_conn_serves(SERVER), 2);
	cr_assert_str_eq(k.names[2], "@rdmarpc-on-65535-20010db8.0.0.10002");
}

Test(evidence_calls, without_a_directory_that_fits_there_is_one)
{
	char dir[60];

	run_dir = "";
	rr_conn_serves(SERVER);
	cr_assert(k.n == 1 && k.binds == 1 && k.sockets == 1 && k.chmods == 0);
	rr_conn_serves_not(1);
	cr_assert(k.unlinks == 0 && k.own_closed[0] == 1100 && k.own_closed[1] == -1);
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[51] = 0;
	afresh();
	run_dir = dir;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.n, 1);
	rr_conn_serves_not(1);
	afresh();
	dir[50] = 0;
	run_dir = dir;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.n, 2);
}

Test(evidence_calls, where_no_socket_can_be_had_there_is_none)
{
	k.no_socket = true;
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	rr_conn_serves_not(1);
	cr_assert(k.binds == 0 && k.own_closes == 2 && k.own_closed[0] == -1 && k.own_closed[1] == -1 && k.unlinks == 0);
}

Test(evidence_calls, a_name_that_cannot_be_had_is_given_up)
{
	k.bind_errno = k.bind_again = EACCES;
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert(k.binds == 2 && k.closes == 1 && k.closed == 101 && k.raises == 1 && k.connects == 0 && k.unlinks == 0);
	rr_conn_serves_not(1);
	cr_assert(k.own_closed[0] == 1100 && k.own_closed[1] == -1);
}

Test(evidence_calls, a_file_that_a_dead_process_left_is_replaced)
{
	k.bind_errno = EADDRINUSE;
	rr_conn_serves(SERVER);
	cr_assert(k.binds == 3 && k.connects == 1 && k.unlinks == 1 && k.n == 2 && k.closes == 0 && k.chmods == 1);
	cr_assert_str_eq(k.unlinked, "/run/x/" NAME);
	rr_conn_serves_not(1);
	afresh();
	k.bind_errno = EADDRINUSE;
	k.bind_again = EACCES;
	rr_conn_serves(SERVER);
	cr_assert(k.binds == 3 && k.n == 1 && k.closes == 1);
}

Test(evidence_calls, that_of_a_live_one_is_not)
{
	static const int alive[] = { 0, EPERM };

	for (size_t i = 0; i < rr_array_size(alive); i++) {
		afresh();
		k.bind_errno = k.bind_again = EADDRINUSE;
		k.connect_errno = alive[i];
		rr_conn_serves(SERVER);
		cr_assert(k.binds == 2 && k.connects == 1 && k.unlinks == 0 && k.closes == 1 && k.n == 1);
		rr_conn_serves_not(1);
	}
}

/* Nothing can be removed there. */
Test(evidence_calls, an_abstract_name_that_is_taken_is_not_asked_for)
{
	strcpy(k.names[k.n++], "@" NAME);
	rr_conn_serves(SERVER);
	cr_assert(k.connects == 0 && k.unlinks == 0 && k.closes == 1 && k.n == 2 && k.raises == 1);
}

Test(evidence_calls, who_is_not_shown)
{
	k.floor = -1;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	k.floor = 0;
	k.no_name = true;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	k.no_name = false;
	k.mode = RR_MODE_TCP;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	k.mode = RR_MODE_REQUIRE;
	at.sin6_family = AF_UNIX;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	at.sin6_family = AF_INET;
	rr_test_params.offer_after = RR_AFTER_WAIT;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	cr_assert(k.n == 0 && k.sockets == 0);
	rr_test_params.offer_after = 2;
	cr_assert_eq(rr_conn_serves(SERVER), 1);
}

Test(evidence_early, before_there_are_options_nobody_is_shown)
{
	cr_assert_eq(rr_conn_serves(SERVER), 0);
}

Test(evidence_calls, listeners_at_one_place_share_its_names)
{
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	at = v4("127.0.0.2", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 2);
	at = v4("127.0.0.2", 2050);
	cr_assert_eq(rr_conn_serves(SERVER), 3);
	at = v4("127.0.0.1", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert_eq(k.n, 6);
	rr_conn_serves_not(1);
	cr_assert_eq(k.own_closes, 0);
	rr_conn_serves_not(1);
	cr_assert_eq(k.own_closes, 2);
	rr_conn_serves_not(1);
	cr_assert_eq(k.own_closes, 2);
	at = v4("127.0.0.3", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 1, "the first that is free");
}

Test(evidence_calls, there_is_room_for_32)
{
	for (uint16_t i = 0; i < 32; i++) {
		at = v4("127.0.0.1", (uint16_t)(3000 + i));
		cr_assert_eq(rr_conn_serves(SERVER), 1u + i);
	}
	at = v4("127.0.0.1", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	cr_assert_eq(k.n, 64);
	cr_assert(rr_evidence_move(1100 + 63));
	rr_conn_serves_not(32);
	cr_assert_eq(rr_conn_serves(SERVER), 32);
}

Test(evidence_calls, a_child_leaves_the_file)
{
	rr_conn_serves(SERVER);
	k.pid++;
	rr_conn_serves_not(1);
	cr_assert(k.unlinks == 0 && k.own_closes == 2);
}

Test(evidence_calls, a_name_goes_on_under_another_number)
{
	rr_conn_serves(SERVER);
	cr_assert_not(rr_evidence_move(1099));
	cr_assert_not(rr_evidence_move(0));
	cr_assert(rr_evidence_move(1100));
	cr_assert(k.moved == 1100 && k.unsets == 1);
	cr_assert_not(rr_evidence_move(1100));
	k.dup = -1;
	cr_assert(rr_evidence_move(1101));
	rr_conn_serves_not(1);
	cr_assert(k.own_closed[0] == 555 && k.own_closed[1] == -1 && k.unlinks == 0, "the other was given up");
	cr_assert_not(rr_evidence_move(555));
}

/* As where the app has closed its standard input. */
Test(evidence_calls, a_socket_may_have_number_0)
{
	struct sockaddr_in6 a = v4("127.0.0.1", 2050);

	k.first_fd = k.next_fd = 0;
	rr_conn_serves(SERVER);
	cr_assert(k.n == 2 && k.raises == 2);
	k.next_fd = 0;
	k.connect_errno = 0;
	cr_assert(rr_evidence_look(&a));
	cr_assert(k.closes == 1 && k.closed == 0);
	rr_conn_serves_not(1);
	afresh();
	k.first_fd = 0;
	k.next_fd = -1;		/* the first name has none */
	k.stays = true;
	rr_conn_serves_not(rr_conn_serves(SERVER));
	cr_assert(k.unlinks == 1 && k.own_closed[1] == 0);
}

/* --- who is there --- */

static bool looks(const char *ip, uint16_t port)
{
	struct sockaddr_in6 a = v4(ip, port);

	k.connects = k.sockets = k.closes = 0;
	return rr_evidence_look(&a);
}

Test(evidence_calls, each_place_is_looked_for_under_four_names)
{
	static const char *const name[] = { "@" ANY, "@" NAME, "/run/x/" ANY, "/run/x/" NAME };

	cr_assert_not(looks("127.0.0.1", 2049));
	cr_assert(k.connects == 4 && k.sockets == 1 && k.closes == 1 && k.closed == 100);
	for (int i = 0; i < 4; i++)
		cr_assert_str_eq(k.asked[i], name[i]);
	for (int i = 0; i < 4; i++) {
		afresh();
		now += RR_SEC;
		strcpy(k.names[k.n++], name[i]);
		cr_assert(looks("127.0.0.1", 2049));
		cr_assert(k.connects == i + 1 && k.closes == 1);
	}
	now += RR_SEC;
	afresh();
	run_dir = "";
	cr_assert_not(looks("127.0.0.1", 2049));
	cr_assert_eq(k.connects, 2);
	k.connect_errno = EPERM;
	cr_assert(looks("127.0.0.1", 2049));
	now += RR_SEC;
	k.no_socket = true;
	cr_assert_not(looks("127.0.0.1", 2049));
	cr_assert_eq(k.closes, 0);
}

/* Of the 16 bytes of an IPv4 address and port the last 8 say nothing. */
Test(evidence_calls, what_lies_behind_an_address_is_no_part_of_it)
{
	struct sockaddr_in6 a = v4("127.0.0.1", 2049);

	memset(&a.sin6_addr, 0xaa, sizeof(a.sin6_addr));
	rr_evidence_look(&a);
	cr_assert(!strcmp(k.asked[0], "@" ANY) && !strcmp(k.asked[1], "@" NAME));
}

Test(evidence_calls, who_was_found_is_there_for_100_ms)
{
	k.connect_errno = 0;
	cr_assert(looks("127.0.0.1", 2049));
	k.connect_errno = ECONNREFUSED;
	cr_assert_not(looks("127.0.0.1", 2050));
	cr_assert_not(looks("127.0.0.2", 2049));
	now += 100 * RR_MSEC - 1;
	cr_assert(looks("127.0.0.1", 2049));
	cr_assert_eq(k.sockets, 0);
	now++;
	cr_assert_not(looks("127.0.0.1", 2049));
	cr_assert_eq(k.sockets, 1);
}

Test(evidence_calls, eight_are_kept_in_mind)
{
	k.connect_errno = 0;
	for (uint16_t i = 0; i < 8; i++)
		cr_assert(looks("127.0.0.1", 10 + i));
	for (uint16_t i = 0; i < 8; i++) {
		looks("127.0.0.1", 10 + i);
		cr_assert_eq(k.sockets, 0);
	}
	looks("127.0.0.1", 18);
	cr_assert_eq(k.sockets, 1);
	k.connect_errno = ECONNREFUSED;
	cr_assert_not(looks("127.0.0.1", 10), "in the place of the first");
	for (uint16_t i = 1; i < 9; i++)
		cr_assert(looks("127.0.0.1", 10 + i));
}

/* --- a signal handler inside, and a fork --- */

static int inside;

static void all_calls(void)
{
	inside++;
	at = v4("127.0.0.1", 2050);
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	rr_conn_serves_not(1);
	k.connect_errno = 0;
	cr_assert(looks("127.0.0.1", 2050));
	cr_assert(looks("127.0.0.1", 2050));
	cr_assert_eq(k.sockets, 1, "it asks each time");
	cr_assert(looks("127.0.0.1", 2050));
	k.connect_errno = ECONNREFUSED;
}

Test(evidence_calls, a_handler_inside_changes_nothing)
{
	k.in_bind = all_calls;
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert(inside == 1 && k.n == 2 && k.own_closes == 0);
	cr_assert_not(looks("127.0.0.1", 2050), "it is not kept in mind");
	at = v4("127.0.0.1", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 1);
}

static void in_child(void)
{
	inside++;
	rr_conn_fork_child();
	k.connect_errno = 0;
	cr_assert(looks("127.0.0.1", 2050));
	k.connect_errno = ECONNREFUSED;
	cr_assert(looks("127.0.0.1", 2050));
	cr_assert_eq(k.sockets, 0);
}

Test(evidence_calls, in_a_child_nobody_is_inside)
{
	k.in_bind = in_child;
	rr_conn_serves(SERVER);
	cr_assert_eq(inside, 1);
}
