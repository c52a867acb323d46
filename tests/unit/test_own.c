/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "core/conn/enter.h"
#include "tests/lib/connpair.h"

/* What is asked of a provider for a connection between two addresses of this host, both of len bytes. */
static struct rr_prov_params asked_for(const void *from, const void *to, socklen_t len)
{
	static const uint8_t token[RR_TOKEN_LEN];
	sa_family_t family = ((const struct sockaddr *)from)->sa_family;
	int l = socket(family, SOCK_STREAM, 0), fd = socket(family, SOCK_STREAM, 0);
	struct sockaddr_storage at;
	struct rr_prov_params p;

	cr_assert_eq(bind(l, to, len), 0);
	cr_assert_eq(listen(l, 1), 0);
	cr_assert_eq(getsockname(l, (void *)&at, &len), 0);
	cr_assert_eq(bind(fd, from, len), 0);
	cr_assert_eq(connect(fd, (void *)&at, len), 0);
	cr_assert(rr_own_params(&p, &(struct rr_conn){ .fd = fd }, token, fd));
	close(fd);
	close(l);
	return p;
}

static struct rr_prov_params params(const char *from, const char *to)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr(from) };
	struct sockaddr_in b = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr(to) };

	return asked_for(&a, &b, sizeof(a));
}

static const char *somewhere(void)
{
	return "/run/somewhere";
}

static void init(void)
{
	rr_test_setup();
	rr_test_params.run_dir = somewhere;
}

Test(own, ends_in_one_network_namespace_need_no_socket_file, .init = init)
{
	cr_assert_null(params("127.0.0.1", "127.0.0.1").run_dir);
	cr_assert_null(params("127.0.0.2", "127.0.0.1").run_dir);
}

Test(own, where_addresses_may_be_translated_there_is_one, .init = init)
{
	rr_test_params.bypass_proxies = true;
	cr_assert_str_eq(params("127.0.0.1", "127.0.0.1").run_dir, "/run/somewhere");
}

/* A native peer has no offer: there are receives for whatever a rule may say, and for nothing else. */
Test(own, native_peers_have_receives_for_the_dialects_of_the_rules, .init = init)
{
	const uint32_t only = 1u << RR_DIALECT_V1;
	struct rr_prov_params p;
	uint32_t any;

	rr_test_params.dialects = 0;
	cr_assert(rr_own_params(&p, NULL, NULL, -1));
	any = p.recvs;
	rr_test_params.dialects = only | 1u << RR_DIALECT_V2 | 1u << RR_DIALECT_SLIDES | 1u << RR_DIALECT_DRAFT02;
	cr_assert(rr_own_params(&p, NULL, NULL, -1));
	cr_assert_eq(p.recvs, any);
	rr_test_params.dialects = only;
	cr_assert(rr_own_params(&p, NULL, NULL, -1));
	cr_assert_lt(p.recvs, any);
	cr_assert_geq(p.recvs, rr_test_params.eng.credits + rr_test_params.eng.bc_credits);
}

static bool near(const char *from, const char *to)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6 }, b = a;

	cr_assert_eq(inet_pton(AF_INET6, from, &a.sin6_addr) & inet_pton(AF_INET6, to, &b.sin6_addr), 1);
	return asked_for(&a, &b, sizeof(a)).near;
}

Test(own, ends_with_one_v6_address_are_in_one_namespace, .init = init)
{
	cr_assert(near("::ffff:127.0.0.1", "::ffff:127.0.0.1"));
	cr_assert_not(near("::ffff:127.0.0.2", "::ffff:127.0.0.1"));
}
