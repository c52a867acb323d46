/* SPDX-License-Identifier: BSD-3-Clause */
/* What two ends compare: digests that are right, and equal where they should be, and only there. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/ident.h"
#include "core/base/os.h"

static const struct rr_os files = { .close = close };

/* Of the reference implementation (https://github.com/veorq/SipHash), with the key 00 01 .. 0f, of 00 01 .. */
Test(siphash, has_the_references_vectors)
{
	static const struct {
		size_t len;
		const char *hex;
	} v[] = {
		{ 0, "a3817f04ba25a8e66df67214c7550293" }, { 1, "da87c1d86b99af44347659119b22fc45" },
		{ 2, "8177228da4a45dc7fca38bdef60affe4" }, { 7, "a1f1ebbed8dbc153c0b84aa61ff08239" },
		{ 8, "3b62a9ba6258f5610f83e264f31497b4" }, { 9, "264499060ad9baabc47f8b02bb6d71ed" },
		{ 15, "5493e99933b0a8117e08ec0f97cfc3d9" }, { 16, "6ee2a4ca67b054bbfd3315bf85230577" },
		{ 37, "0d62bf01e6fc0e1a0d3c4751c5d3692b" }, { 63, "5150d1772f50834a503e069a973fbd7c" },
	};
	uint8_t in[64], out[RR_SIPHASH_LEN];
	char hex[33];

	for (unsigned i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		rr_siphash(out, in, in, v[i].len);
		for (unsigned k = 0; k < sizeof(out); k++)
			snprintf(hex + 2 * k, 3, "%02x", out[k]);
		cr_assert_str_eq(hex, v[i].hex, "%zu bytes", v[i].len);
	}
}

Test(ident, of_a_host_is_the_same_under_one_token_only)
{
	static const uint8_t token[2][16] = { { 1 }, { 2 } };
	uint8_t a[RR_IDENT_LEN], b[RR_IDENT_LEN], c[RR_IDENT_LEN];

	rr_os = &files;
	rr_host_id(token[0], a);
	rr_host_id(token[0], b);
	rr_host_id(token[1], c);
	cr_assert(rr_ident_known(a) && rr_ident_same(a, b));
	cr_assert_not(rr_ident_same(a, c));
}

Test(ident, unknown_is_like_nothing)
{
	static const uint8_t none[RR_IDENT_LEN];

	cr_assert_not(rr_ident_known(none));
	cr_assert_not(rr_ident_same(none, none));
}

static struct sockaddr_storage address(const char *text, in_port_t port)
{
	struct sockaddr_storage sa = { 0 };
	struct sockaddr_in *v4 = (void *)&sa;
	struct sockaddr_in6 *v6 = (void *)&sa;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		sa.ss_family = AF_INET;
		v4->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		sa.ss_family = AF_INET6;
		v6->sin6_port = htons(port);
	}
	return sa;
}

/* Is what two ends say the same? Each has a pair of names, the client's first. */
static bool same(const char *c1, in_port_t cp1, const char *s1, in_port_t sp1,
		 const char *c2, in_port_t cp2, const char *s2, in_port_t sp2)
{
	static const uint8_t token[16] = { 7 };
	struct sockaddr_storage a[4] = { address(c1, cp1), address(s1, sp1), address(c2, cp2), address(s2, sp2) };
	uint8_t one[RR_IDENT_LEN], other[RR_IDENT_LEN];

	rr_ends_id(token, (void *)&a[0], (void *)&a[1], one);
	rr_ends_id(token, (void *)&a[2], (void *)&a[3], other);
	return rr_ident_same(one, other);
}

Test(ident, of_a_connection_is_its_two_addresses)
{
	cr_assert(same("10.0.0.1", 700, "10.0.0.2", 2049, "10.0.0.1", 700, "10.0.0.2", 2049));
	cr_assert(same("fe80::1", 700, "fe80::2", 2049, "fe80::1", 700, "fe80::2", 2049));
	cr_assert_not(same("10.0.0.1", 700, "10.0.0.2", 2049, "10.0.0.1", 701, "10.0.0.2", 2049));
	cr_assert_not(same("10.0.0.1", 700, "10.0.0.2", 2049, "10.0.0.1", 700, "10.0.0.2", 2050));
	cr_assert_not(same("10.0.0.1", 700, "10.0.0.2", 2049, "10.0.0.3", 700, "10.0.0.2", 2049));
	cr_assert_not(same("127.0.0.1", 700, "127.0.0.1", 2049, "127.0.0.1", 700, "127.0.0.2", 2049));
	cr_assert_not(same("10.0.0.1", 700, "10.0.0.2", 2049, "10.0.0.2", 2049, "10.0.0.1", 700), "which end is which");
	cr_assert_not(same("::1", 700, "::1", 2049, "127.0.0.1", 700, "127.0.0.1", 2049));
}

/* A server that listens on :: sees so what its client sees as AF_INET. */
Test(ident, of_a_connection_is_the_same_when_one_end_is_mapped)
{
	cr_assert(same("10.0.0.1", 700, "10.0.0.2", 2049, "::ffff:10.0.0.1", 700, "::ffff:10.0.0.2", 2049));
	cr_assert(same("::ffff:10.0.0.1", 700, "10.0.0.2", 2049, "10.0.0.1", 700, "::ffff:10.0.0.2", 2049));
}

Test(ident, of_a_connection_without_scopes)
{
	static const uint8_t token[16] = { 7 };
	struct sockaddr_storage a = address("fe80::1", 1), b = address("fe80::2", 2), c = b;
	uint8_t one[RR_IDENT_LEN], other[RR_IDENT_LEN];

	((struct sockaddr_in6 *)(void *)&b)->sin6_scope_id = 3;
	((struct sockaddr_in6 *)(void *)&c)->sin6_scope_id = 5;
	rr_ends_id(token, (void *)&a, (void *)&b, one);
	rr_ends_id(token, (void *)&a, (void *)&c, other);
	cr_assert(rr_ident_same(one, other));
}

Test(ident, of_what_is_no_ip_is_unknown)
{
	static const uint8_t token[16] = { 7 };
	struct sockaddr_storage a = address("10.0.0.1", 1), none = { .ss_family = AF_UNIX };
	uint8_t id[RR_IDENT_LEN];

	rr_ends_id(token, (void *)&a, (void *)&none, id);
	cr_assert_not(rr_ident_known(id));
	rr_ends_id(token, (void *)&none, (void *)&a, id);
	cr_assert_not(rr_ident_known(id));
}
