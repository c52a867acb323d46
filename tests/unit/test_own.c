/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "core/conn/enter.h"
#include "tests/lib/connpair.h"

/* What is asked of a provider for a connection from an address to another, both of this host. */
static struct rr_prov_params params(const char *from, const char *to)
{
	static const uint8_t token[RR_TOKEN_LEN];
	struct sockaddr_in a = { .sin_family = AF_INET }, b = a;
	socklen_t len = sizeof(b);
	struct rr_prov_params p;
	int l = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = inet_addr(from);
	b.sin_addr.s_addr = inet_addr(to);
	cr_assert_eq(bind(l, (void *)&b, sizeof(b)), 0);
	cr_assert_eq(listen(l, 1), 0);
	cr_assert_eq(getsockname(l, (void *)&b, &len), 0);
	cr_assert_eq(bind(fd, (void *)&a, sizeof(a)), 0);
	cr_assert_eq(connect(fd, (void *)&b, sizeof(b)), 0);
	cr_assert(rr_own_params(&p, &(struct rr_conn){ .fd = fd }, token, fd));
	close(fd);
	close(l);
	return p;
}

static void init(void)
{
	rr_test_setup();
	strcpy(rr_test_params.run_dir, "/run/somewhere");
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
