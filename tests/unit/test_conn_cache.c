/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are not asked for a while. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "core/conn/conn.h"
#include "core/conn/base/cache.c"
#include "core/conn/enter.h"

static struct sockaddr_in6 peer(uint32_t host, uint16_t port)
{
	struct sockaddr_in6 sa;
	struct sockaddr_in *in = (void *)&sa;

	memset(&sa, 0, sizeof(sa));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(host);
	in->sin_port = htons(port);
	return sa;
}

static void add(uint32_t host, uint16_t port, rr_time until)
{
	struct sockaddr_in6 sa = peer(host, port);

	rr_cache_add(&sa, RR_R_NEGATIVE_CACHE, until);
}

static bool known(uint32_t host, uint16_t port, rr_time now)
{
	struct sockaddr_in6 sa = peer(host, port);

	return rr_cache_look(&sa, now) == RR_R_NEGATIVE_CACHE;
}

Test(conn_cache, forgets_in_time_and_is_of_an_address_and_port)
{
	add(1, 10, 100);
	cr_assert(known(1, 10, 99));
	cr_assert_not(known(1, 10, 100));
	cr_assert_not(known(1, 11, 99));
	cr_assert_not(known(2, 10, 99));
	add(1, 10, 200);
	cr_assert(known(1, 10, 150));
}

Test(conn_cache, a_host_of_many_ports_does_not_drive_out_the_others)
{
	for (uint32_t i = 1; i <= 40; i++)
		add(i, 111, 1000000);
	for (uint16_t port = 1; port < 5000; port++)
		add(99, port, 1000u + port);
	for (uint32_t i = 1; i <= 40; i++)
		cr_assert(known(i, 111, 999999), "%u", i);
	cr_assert(known(99, 4999, 1000), "the latest of its own");
}

Test(conn_cache, the_oldest_makes_room)
{
	for (uint32_t i = 1; i <= 65; i++)
		add(i, 111, 1000);
	cr_assert(known(65, 111, 1));
	cr_assert_not(known(1, 111, 1));
	cr_assert(known(2, 111, 1));
}

static struct sockaddr_in6 peer6(uint8_t host, uint16_t port, uint32_t scope)
{
	struct sockaddr_in6 sa;

	memset(&sa, 0, sizeof(sa));
	sa.sin6_family = AF_INET6;
	sa.sin6_port = htons(port);
	sa.sin6_scope_id = scope;
	sa.sin6_addr.s6_addr[15] = host;
	return sa;
}

/* Whatever else is in the structure. */
Test(conn_cache, an_address_is_its_family_port_and_number)
{
	struct sockaddr_in6 a = peer(1, 10), b = a, c = peer6(1, 10, 3), d = c;

	b.sin6_scope_id = 77;
	b.sin6_addr.s6_addr[15] = 5;
	cr_assert(rr_peeraddr_same(&a, &b));
	b = peer(2, 10);
	cr_assert_not(rr_peeraddr_same(&a, &b));
	b = peer(1, 11);
	cr_assert_not(rr_peeraddr_same(&a, &b));
	cr_assert_not(rr_peeraddr_same(&a, &c));
	d.sin6_flowinfo = 9;
	cr_assert(rr_peeraddr_same(&c, &d));
	d = peer6(2, 10, 3);
	cr_assert_not(rr_peeraddr_same(&c, &d));
	d = peer6(1, 11, 3);
	cr_assert_not(rr_peeraddr_same(&c, &d));
	d = peer6(1, 10, 4);
	cr_assert_not(rr_peeraddr_same(&c, &d));
	d = a;
	d.sin6_family = AF_INET6;
	cr_assert_not(rr_peeraddr_same(&a, &d));
	cr_assert_not(rr_peeraddr_same(&d, &a));
}

Test(conn_cache, a_peer_has_one_reason_and_may_be_forgotten)
{
	struct sockaddr_in6 a = peer6(1, 10, 0), b = peer6(1, 11, 0), c = peer6(2, 10, 0);

	rr_cache_add(&a, RR_R_DECLINED, 100);
	rr_cache_add(&b, RR_R_TIMEOUT, 100);
	rr_cache_add(&c, RR_R_NO_SHIM, 100);
	cr_assert_eq(rr_cache_look(&a, 50), RR_R_DECLINED);
	cr_assert_eq(rr_cache_look(&b, 50), RR_R_TIMEOUT);
	cr_assert_eq(rr_cache_look(&c, 50), RR_R_NO_SHIM);
	rr_cache_add(&a, RR_R_SIZE_KNOWN, 70);
	cr_assert_eq(rr_cache_look(&a, 69), RR_R_SIZE_KNOWN);
	cr_assert_eq(rr_cache_look(&a, 70), RR_R_NONE);
	cr_assert_eq(rr_cache_look(&a, 80), RR_R_NONE, "not the one before, either");
	rr_cache_drop(&b);
	cr_assert_eq(rr_cache_look(&b, 50), RR_R_NONE);
	cr_assert_eq(rr_cache_look(&a, 50), RR_R_SIZE_KNOWN);
	cr_assert_eq(rr_cache_look(&c, 50), RR_R_NO_SHIM);
}

/* Of the one host the slot goes whose time is over first, wherever it lies. */
Test(conn_cache, a_host_has_so_many_slots)
{
	add(2, 1, 1);
	for (uint16_t port = 1; port <= 16; port++)
		add(1, port, port == 9 ? 50 : 100u + port);
	for (uint16_t port = 1; port <= 16; port++)
		cr_assert(known(1, port, 49));
	add(1, 17, 200);
	cr_assert(!known(1, 9, 49) && known(1, 17, 49) && known(2, 1, 0));
	for (uint16_t port = 1; port <= 16; port++)
		cr_assert(port == 9 || known(1, port, 49));
	add(1, 18, 200);
	cr_assert(!known(1, 1, 49) && known(1, 2, 49) && known(1, 18, 49));
	add(1, 5, 300);
	cr_assert(known(1, 5, 299) && known(1, 2, 49) && known(1, 18, 49), "its own slot");
}

Test(conn_cache, a_child_may_look_whoever_was_inside)
{
	add(1, 10, 100);
	cr_assert_eq(rr_lock_try(&lock), 0);
	rr_conn_fork_child();
	cr_assert(known(1, 10, 50));
}

/* A signal handler that interrupts its own thread in here finds nothing and changes nothing. */
Test(conn_cache, who_is_inside_already_does_without)
{
	struct sockaddr_in6 at = peer(1, 10);

	add(1, 10, 100);
	cr_assert_eq(rr_lock_take(&lock), 0);
	cr_assert_not(known(1, 10, 99));
	add(2, 10, 100);
	rr_cache_drop(&at);
	cr_assert_eq(rr_lock_take(&lock), -EDEADLK, "it is still held");
	rr_lock_drop(&lock);
	cr_assert(known(1, 10, 99));
	cr_assert_not(known(2, 10, 99));
}
