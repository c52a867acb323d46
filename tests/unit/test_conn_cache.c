/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are not asked for a while. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

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
