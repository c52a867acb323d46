/* SPDX-License-Identifier: BSD-3-Clause */
/* What we ask of a provider and tell the other end, by the numbers: options, limits, addresses and the engine's wants are
 * played. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/lib/connpair.h"

static struct rr_conn c;
static struct rr_os os;
static const uint8_t token[RR_TOKEN_LEN] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

/* --- what is played (the Makefile wraps these) --- */

static struct {
	rlim_t limit;
	bool no_limit;
	int above;
	uint32_t wants[8];	/* receives, of each dialect */
	struct rr_eng_params ep[64];	/* what the engine was asked for */
	unsigned asks;
	uint32_t budget_of, budget_size;
} k;

int __wrap_getrlimit(__rlimit_resource_t what, struct rlimit *rl);
int __wrap_rr_ownfd_above(int fd);
uint32_t __wrap_rr_eng_recvs(const struct rr_eng_params *p);
uint32_t __wrap_rr_eng_native_caps(enum rr_dialect dialect, uint32_t caps);
uint32_t __wrap_rr_budget_recvs(uint32_t recvs, uint32_t size);

int __wrap_getrlimit(__rlimit_resource_t what, struct rlimit *rl)
{
	cr_assert_eq(what, RLIMIT_NOFILE);
	if (k.no_limit)
		return -1;
	*rl = (struct rlimit){ k.limit, RLIM_INFINITY };
	return 0;
}

int __wrap_rr_ownfd_above(int fd)
{
	cr_assert_geq(fd, 0);
	return k.above;
}

uint32_t __wrap_rr_eng_recvs(const struct rr_eng_params *p)
{
	k.ep[k.asks++ % rr_array_size(k.ep)] = *p;
	return k.wants[p->dialect] + p->credits + p->bc_credits;
}

uint32_t __wrap_rr_eng_native_caps(enum rr_dialect dialect, uint32_t caps)
{
	return caps << 8 | dialect;
}

uint32_t __wrap_rr_budget_recvs(uint32_t recvs, uint32_t size)
{
	k.budget_of = recvs;
	k.budget_size = size;
	return recvs - 1;
}

static const char *somewhere(void)
{
	return "/run/somewhere";
}

static const char *nowhere(void)
{
	return "";
}

static int named(int fd, struct sockaddr *sa, socklen_t *len)
{
	cr_assert(fd == 5 && *len == sizeof(struct sockaddr_in6));
	((struct sockaddr_in *)(void *)sa)->sin_family = AF_INET;
	((struct sockaddr_in *)(void *)sa)->sin_port = 99;
	return 0;
}

static int unnamed(int fd, struct sockaddr *sa, socklen_t *len)
{
	(void)fd;
	(void)len;
	sa->sa_family = 33;
	return -1;
}

static void begin(void)
{
	rr_test_params.run_dir = somewhere;
	rr_test_params.ack_timeout = 14;
	rr_test_params.device_inline = 16384;
	rr_test_setup();
	os = *rr_os;
	rr_os = &os;
	k.limit = 4000;
}

TestSuite(own_asks, .init = begin, .timeout = 60);

/* --- descriptors --- */

Test(own_asks, a_quarter_of_the_descriptors_is_the_apps)
{
	static const struct {
		rlim_t limit;
		int above, last;	/* the last fd with which there is one to spare */
	} rows[] = {
		{ 65, 0, 31 }, { 65, 20, 11 }, { 128, 0, 94 }, { 132, 0, 97 }, { 400, 0, 298 }, { 400, 5, 293 },
		{ 4096, 0, 3070 }, { 8000, 0, 6974 }, { 100000, 0, 98974 },
	};

	for (size_t i = 0; i < rr_array_size(rows); i++) {
		k.limit = rows[i].limit;
		k.above = rows[i].above;
		cr_assert(rr_own_spare(rows[i].last), "row %zu", i);
		cr_assert_not(rr_own_spare(rows[i].last + 1), "row %zu", i);
		cr_assert(rr_own_spare(-1));
	}
	k.limit = 65;
	k.above = 33;
	cr_assert_not(rr_own_spare(0));
	k.above = 0;
	k.limit = 64;
	cr_assert(!rr_own_spare(-1) && !rr_own_spare(0));
	k.no_limit = true;
	cr_assert(rr_own_spare(-1) && rr_own_spare(1 << 30));
}

/* --- what is told --- */

Test(own_asks, capabilities_are_those_of_the_options)
{
	for (int i = 0; i < 4; i++) {
		rr_test_params.reliable_replies = i & 1;
		rr_test_params.reverse_chunks = i & 2;
		cr_assert_eq(rr_own_caps(), RR_CAP_HATCH | RR_CAP_RING_CREDITS | RR_CAP_ADVANCES | (i & 1 ? RR_CAP_RELIABLE_REPLY : 0) |
					    (i & 2 ? RR_CAP_REVERSE_CHUNKS : 0));
	}
}

Test(own_asks, a_hello_says_what_the_options_say)
{
	struct rr_hello h, zero;

	memset(&h, 0xff, sizeof(h));
	k.wants[RR_DIALECT_V2] = 100;
	rr_own_hello(&h);
	cr_assert(h.version == RR_NEGO_VERSION && h.caps == rr_own_caps() && h.inline_size == rr_test_params.inline_size);
	cr_assert(h.credits == 32 && h.bc_credits == 8 && h.max_msg == rr_test_params.eng.max_msg);
	cr_assert_eq(h.recvs, 100 + 32 + 8 + 4, "%u", h.recvs);
	memset(&zero, 0, sizeof(zero));
	h.version = h.caps = h.inline_size = h.recvs = h.credits = h.bc_credits = h.max_msg = 0;
	cr_assert_eq(memcmp(&h, &zero, sizeof(h)), 0);
}

static const uint32_t some_program = 100003;

static enum rr_dialect v2_for(bool server, const struct sockaddr *local, const struct sockaddr *peer, const uint32_t *prog)
{
	cr_assert(server == c.face.server && prog == &some_program);
	cr_assert_eq(((const struct sockaddr_in *)(const void *)local)->sin_port, 1);
	cr_assert_eq(((const struct sockaddr_in *)(const void *)peer)->sin_port, 2);
	return RR_DIALECT_V2;
}

static struct sockaddr_in6 v4(const char *ip, uint16_t port)
{
	struct sockaddr_in6 a = { 0 };
	struct sockaddr_in *in = (void *)&a;

	in->sin_family = AF_INET;
	in->sin_port = port;
	in->sin_addr.s_addr = inet_addr(ip);
	return a;
}

static struct sockaddr_in6 v6(const char *ip)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6 };

	cr_assert_eq(inet_pton(AF_INET6, ip, &a.sin6_addr), 1);
	return a;
}

static void between(struct sockaddr_in6 own, struct sockaddr_in6 peer)
{
	c.end[0] = own;
	c.end[1] = peer;
	c.told[0] = c.told[1] = true;
}

Test(own_asks, a_rule_says_which_dialect)
{
	between(v4("10.0.0.1", 1), v4("10.0.0.2", 2));
	rr_test_params.dialect = NULL;
	cr_assert_eq(rr_own_dialect(&c, &some_program), RR_DIALECT_V1);
	rr_test_params.dialect = v2_for;
	for (int server = 0; server < 2; server++) {
		c.face.server = server;
		cr_assert_eq(rr_own_dialect(&c, &some_program), RR_DIALECT_V2);
	}
}

Test(own_asks, the_first_version_is_spoken_besides_unless_a_rule_requires_another)
{
	c.dialect = RR_DIALECT_V1;
	cr_assert_eq(rr_own_dialects(&c), (RR_DIALECT_V1 + 1u) << 24);
	c.dialect = RR_DIALECT_V2;
	cr_assert_eq(rr_own_dialects(&c), (RR_DIALECT_V2 + 1u) << 24 | (RR_DIALECT_V1 + 1u) << 16);
	c.require = true;
	cr_assert_eq(rr_own_dialects(&c), (RR_DIALECT_V2 + 1u) << 24);
}

Test(own_asks, ends_are_the_same_from_both_sides)
{
	struct rr_hello h = { 0 };

	memcpy(h.token, token, sizeof(token));
	between(v4("10.0.0.1", 1), v4("10.0.0.2", 2));
	rr_own_place(&h, &c);
	cr_assert(rr_own_host(&h));
	cr_assert_not(rr_own_ends(&h, &c), "its own end is the client's");
	between(v4("10.0.0.2", 2), v4("10.0.0.1", 1));
	cr_assert(rr_own_ends(&h, &c));
	between(v4("10.0.0.2", 2), v4("10.0.0.1", 3));
	cr_assert_not(rr_own_ends(&h, &c));
	between(v4("10.0.0.2", 3), v4("10.0.0.1", 1));
	cr_assert_not(rr_own_ends(&h, &c));
	h.host[RR_IDENT - 1] ^= 1;
	cr_assert_not(rr_own_host(&h));
}

Test(own_asks, ends_that_are_not_known_are_not_told)
{
	static const uint8_t none[RR_IDENT];
	struct rr_hello h = { 0 };

	memset(h.ends, 0xff, sizeof(h.ends));
	c.fd = -1;
	rr_own_place(&h, &c);
	cr_assert_eq(memcmp(h.ends, none, sizeof(none)), 0);
	cr_assert_not(rr_own_ends(&h, &c));
}

/* --- what a provider is asked for --- */

static struct rr_prov_params asked(bool ours)
{
	struct rr_prov_params p;

	k.asks = 0;
	memset(&p, 0xff, sizeof(p));
	cr_assert(rr_own_params(&p, &c, ours ? token : NULL, 5));
	return p;
}

Test(own_asks, between_two_of_ours)
{
	struct rr_prov_params p;
	unsigned n;

	between(v4("10.0.0.1", 1), v4("10.0.0.2", 2));
	k.wants[RR_DIALECT_V2] = 100;
	rr_test_params.dialects = 1u << RR_DIALECT_V1;	/* of native peers */
	p = asked(true);
	cr_assert(p.recv_size == rr_test_params.inline_size && p.few == RR_PROV_FEW && p.long_size == 16384 && p.ack_timeout == 14);
	cr_assert_eq(memcmp(p.token, token, sizeof(token)), 0);
	cr_assert(k.budget_of == 100 + 32 + 8 + 4 && k.budget_size == p.recv_size && p.recvs == k.budget_of - 1);
	cr_assert_eq(memcmp(&p.local, &c.end[0], sizeof(p.local)), 0);
	cr_assert(!p.near && !strcmp(p.run_dir, "/run/somewhere"));
	for (n = 0; rr_dialect_names[n]; n++)
		cr_assert(k.ep[n].dialect == n && k.ep[n].caps == RR_CAP_RELIABLE_REPLY && k.ep[n].credits == 32 && k.ep[n].bc_credits == 8);
	cr_assert_eq(k.asks, n);
	rr_test_params.run_dir = nowhere;
	cr_assert_null(asked(true).run_dir);
}

Test(own_asks, long_receives_are_fewer)
{
	between(v4("10.0.0.1", 1), v4("10.0.0.2", 2));
	rr_test_params.inline_size = 8192;
	k.wants[RR_DIALECT_V2] = 100;
	asked(true);
	cr_assert(k.budget_of == (100 + 32 + 8 + 4) / 2 && k.budget_size == 8192);
}

Test(own_asks, of_a_native_peer)
{
	struct rr_prov_params p;
	unsigned n;

	os.getsockname = named;
	rr_test_params.dialects = 0;
	k.wants[RR_DIALECT_V2] = 100;
	p = asked(false);
	cr_assert(p.recvs == 100 + 32 + 8 && p.few == 100 + 16 + 4 && p.long_size == 0 && !k.budget_of && !p.near && !p.run_dir);
	cr_assert(p.local.sin6_family == AF_INET && p.local.sin6_port == 99);
	for (n = 0; rr_dialect_names[n]; n++)
		cr_assert(k.ep[n].dialect == n && k.ep[n].caps == (rr_own_caps() << 8 | n));
	cr_assert_eq(k.asks, 2 * n);
	rr_test_params.eng.credits = 3;
	rr_test_params.eng.bc_credits = 2;
	p = asked(false);
	cr_assert(p.recvs == 100 + 3 + 2 && p.few == p.recvs);
	os.getsockname = unnamed;
	cr_assert_eq(asked(false).local.sin6_family, AF_UNSPEC);
}

Test(own_asks, of_a_native_peer_only_what_a_rule_may_say)
{
	os.getsockname = named;
	k.wants[RR_DIALECT_V2] = 100;
	k.wants[RR_DIALECT_V1] = 50;
	rr_test_params.dialects = 1u << RR_DIALECT_DRAFT02;
	cr_assert_eq(asked(false).recvs, 50 + 32 + 8, "and the first version, which is always possible");
	cr_assert_eq(k.asks, 4);
	rr_test_params.dialects = 1u << RR_DIALECT_V2;
	cr_assert_eq(asked(false).recvs, 100 + 32 + 8);
}

Test(own_asks, memory_for_what_may_have_to_be_fetched_is_set_aside)
{
	size_t most, usual;

	os.getsockname = named;
	rr_test_params.eng.max_msg = (1 << 20) - 5;
	usual = asked(false).mem_size;
	cr_assert_eq(usual, rr_own_memory());
	most = usual + (2 << 20);
	c.dialect = RR_DIALECT_V2;
	cr_assert_eq(asked(false).mem_size, most);
	c.dialect = RR_DIALECT_V1;
	rr_test_params.reverse_chunks = true;
	cr_assert_eq(asked(false).mem_size, most);
	rr_test_params.reverse_chunks = false;
	rr_test_params.eng.reply_chunks = RR_REPLY_CHUNKS_BOUNDED;
	cr_assert_eq(asked(false).mem_size, most);
}

Test(own_asks, where_descriptors_are_scarce_it_is_said)
{
	struct rr_prov_params p;

	os.getsockname = named;
	between(v4("10.0.0.1", 1), v4("10.0.0.2", 2));
	k.limit = 65;
	cr_assert_not(rr_own_params(&p, &c, token, 32));
	cr_assert(rr_own_params(&p, &c, token, 31));
	k.above = 40;
	cr_assert(rr_own_params(&p, NULL, NULL, 5), "its number is not looked at");
	k.limit = 64;
	cr_assert_not(rr_own_params(&p, NULL, NULL, 5));
}

Test(own_asks, who_is_near)
{
	static const struct {
		const char *own, *peer;
		bool near;
	} rows[] = {
		{ "10.0.0.1", "10.0.0.1", true }, { "10.0.0.1", "10.0.0.2", false }, { "127.0.0.1", "127.9.9.9", true },
		{ "127.0.0.1", "10.0.0.1", false }, { "10.0.0.1", "127.0.0.1", false }, { "126.0.0.1", "126.0.0.2", false },
	};
	struct sockaddr_in6 un = { .sin6_family = AF_UNIX };

	for (size_t i = 0; i < rr_array_size(rows); i++) {
		between(v4(rows[i].own, 1), v4(rows[i].peer, 2));
		cr_assert_eq(asked(true).near, rows[i].near, "row %zu", i);
		cr_assert_eq(asked(true).run_dir == NULL, rows[i].near, "row %zu", i);
	}
	between(v6("2001:db8::1"), v6("2001:db8::1"));
	cr_assert(asked(true).near);
	between(v6("2001:db8::1"), v6("2001:db8::2"));
	cr_assert_not(asked(true).near);
	between(v6("::"), v4("0.0.0.0", 0));
	cr_assert_not(asked(true).near);
	between(un, un);
	cr_assert_not(asked(true).near);
	between(v4("10.0.0.1", 1), v4("10.0.0.1", 2));
	rr_test_params.bypass_proxies = true;
	cr_assert_not(asked(true).near);
}
