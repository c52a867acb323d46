/* SPDX-License-Identifier: BSD-3-Clause */
/* What rules say of a connection. */
#include <arpa/inet.h>

#include "tests/unit/conf_text.h"

TestSuite(policy, .init = defaults);

/* --- rules --- */

static enum rr_mode mode6(bool server, const char *local, unsigned lport, const char *peer,
			  unsigned pport, const uint32_t *program)
{
	struct sockaddr_in6 l = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)lport) };
	struct sockaddr_in6 p = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)pport) };

	inet_pton(AF_INET6, local, &l.sin6_addr);
	inet_pton(AF_INET6, peer, &p.sin6_addr);
	if (program)
		return rr_conf_mode_call(&conf, (struct sockaddr *)&l, (struct sockaddr *)&p, *program);
	return rr_conf_mode(&conf, server, (struct sockaddr *)&l, (struct sockaddr *)&p);
}

static enum rr_mode mode4(bool server, const char *local, unsigned lport, const char *peer,
			  unsigned pport)
{
	struct sockaddr_in l = { .sin_family = AF_INET, .sin_port = htons((uint16_t)lport) };
	struct sockaddr_in p = { .sin_family = AF_INET, .sin_port = htons((uint16_t)pport) };

	inet_pton(AF_INET, local, &l.sin_addr);
	inet_pton(AF_INET, peer, &p.sin_addr);
	return rr_conf_mode(&conf, server, (struct sockaddr *)&l, (struct sockaddr *)&p);
}

Test(policy, the_first_rule_that_matches_wins)
{
	parse_ok("mode = require\n[rule]\nport = 111\nmode = tcp\n[ rule ]\nport = 100-200\n"
		 "mode = auto\n");
	cr_assert_eq(mode4(false, "10.0.0.1", 900, "10.0.0.2", 111), RR_MODE_TCP);
	cr_assert_eq(mode4(false, "10.0.0.1", 900, "10.0.0.2", 100), RR_MODE_AUTO);
	cr_assert_eq(mode4(false, "10.0.0.1", 900, "10.0.0.2", 200), RR_MODE_AUTO);
	cr_assert_eq(mode4(false, "10.0.0.1", 900, "10.0.0.2", 201), RR_MODE_REQUIRE);
}

Test(policy, port_is_the_servers_on_both_ends)
{
	parse_ok("[rule]\nport = 111\nmode = tcp\n");
	cr_assert_eq(mode4(true, "10.0.0.1", 111, "10.0.0.2", 900), RR_MODE_TCP);
	cr_assert_eq(mode4(true, "10.0.0.1", 900, "10.0.0.2", 111), RR_MODE_AUTO);
	cr_assert_eq(mode4(false, "10.0.0.1", 111, "10.0.0.2", 900), RR_MODE_AUTO);
}

Test(policy, role_limits_a_rule_to_one_end)
{
	parse_ok("[rule]\nrole = server\nmode = tcp\n");
	cr_assert_eq(mode4(true, "10.0.0.1", 111, "10.0.0.2", 900), RR_MODE_TCP);
	cr_assert_eq(mode4(false, "10.0.0.1", 900, "10.0.0.2", 111), RR_MODE_AUTO);
}

Test(policy, address_is_the_peers_network)
{
	parse_ok("[rule]\naddress = 10.1.0.0/15\nmode = tcp\n");
	cr_assert_eq(mode4(false, "1.1.1.1", 1, "10.0.255.255", 111), RR_MODE_TCP);
	cr_assert_eq(mode4(false, "1.1.1.1", 1, "10.1.0.1", 111), RR_MODE_TCP);
	cr_assert_eq(mode4(false, "10.1.0.1", 1, "10.2.0.0", 111), RR_MODE_AUTO);
	cr_assert_eq(mode6(false, "::1", 1, "::ffff:10.1.2.3", 111, NULL), RR_MODE_TCP);
	cr_assert_eq(mode6(false, "::1", 1, "a01::", 111, NULL), RR_MODE_AUTO);
}

Test(policy, of_an_ipv4_address_in_an_ipv6_socket_all_bytes_count)
{
	parse_ok("[rule]\naddress = 10.1.2.3\nmode = tcp\n");
	cr_assert_eq(mode6(false, "::1", 1, "::ffff:10.1.2.3", 111, NULL), RR_MODE_TCP);
	cr_assert_eq(mode6(false, "::1", 1, "::ffff:10.1.2.2", 111, NULL), RR_MODE_AUTO);
	cr_assert_eq(mode6(false, "::1", 1, "::ffff:10.1.2.0", 111, NULL), RR_MODE_AUTO);
}

Test(policy, a_network_of_zero_bits_is_its_whole_family)
{
	parse_ok("[rule]\naddress = ::/0\nmode = tcp\n");
	cr_assert_eq(mode6(false, "::1", 1, "2001:db8::1", 111, NULL), RR_MODE_TCP);
	cr_assert_eq(mode4(false, "1.1.1.1", 1, "10.0.0.1", 111), RR_MODE_AUTO);
}

Test(policy, ipv6_addresses_have_all_their_forms)
{
	static const char *const form[] = { "::", "::1", "1::", "2001:db8::1", "1:2:3:4:5:6:7:8",
		"1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "fe80::1:0:0:1", "::FFFF", "64:ff9b::192.0.2.33",
		"1:2:3:4:5:6:1.2.3.4" };

	for (size_t i = 0; i < rr_array_size(form); i++) {
		char text[100];
		uint8_t want[16];

		defaults();
		snprintf(text, sizeof(text), "[rule]\nmode = tcp\naddress = %s", form[i]);
		parse_ok(text);
		inet_pton(AF_INET6, form[i], want);
		cr_assert_eq(conf.rules[0].family, 6);
		cr_assert_eq(memcmp(conf.rules[0].address, want, 16), 0, "%s", form[i]);
		cr_assert_eq(mode6(false, "::1", 1, form[i], 1, NULL), RR_MODE_TCP);
	}
}

Test(policy, what_inet_pton_refuses_as_address_so_do_we)
{
	static const char *const bad[] = { "", ".", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1..2.3",
		"1.2.3.4 ", "a.b.c.d", ":", ":1", "1:", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
		"1::2::3", ":::", "12345::", "g::", "1:2:3:4:5:6:7:1.2.3.4", "::1.2.3", "::1.2.3.4:5",
		"1:2:3:4:5:6:7:8::", "0x1.2.3.4" };
	uint8_t a[16];

	for (size_t i = 0; i < rr_array_size(bad); i++) {
		char text[100], want[300];

		cr_assert_neq(inet_pton(AF_INET6, bad[i], a) | inet_pton(AF_INET, bad[i], a), 1);
		snprintf(text, sizeof(text), "[rule]\naddress = \"%s\"\nmode = tcp\n", bad[i]);
		snprintf(want, sizeof(want), "f:2:12: key 'address': '%s' is not an address (allowed: "
			 "IPv4 or IPv6, with /prefix for a network); rule ignored", bad[i]);
		parse_bad(text, want);
		cr_assert_eq(conf.nrules, 0);
	}
}

Test(policy, wrong_prefixes_are_refused)
{
	static const char *const bad[] = { "1.2.3.4/33", "::/129", "1.2.3.4/", "1.2.3.4/-1", "::/x" };

	for (size_t i = 0; i < rr_array_size(bad); i++) {
		char text[100];

		defaults();
		snprintf(text, sizeof(text), "[rule]\naddress = %s\nmode = tcp\n", bad[i]);
		parse(text);
		cr_assert_eq(conf.nproblems, 1, "%s", bad[i]);
		cr_assert_eq(conf.nrules, 0);
	}
}

Test(policy, a_rule_on_the_program_waits_for_the_first_call)
{
	uint32_t nfs = 100003, nis = 100004;

	parse_ok("mode = require\n[rule]\nprogram = 100003\nmode = tcp\n");
	cr_assert_eq(mode6(false, "::1", 1, "::2", 9, NULL), RR_MODE_AUTO, "not decided yet");
	cr_assert_eq(mode6(false, "::1", 1, "::2", 9, &nfs), RR_MODE_TCP);
	cr_assert_eq(mode6(false, "::1", 1, "::2", 9, &nis), RR_MODE_REQUIRE);
	cr_assert_eq(mode6(true, "::1", 1, "::2", 9, NULL), RR_MODE_REQUIRE, "a server never knows");
}

Test(policy, a_rule_before_the_one_on_the_program_decides_at_once)
{
	uint32_t nfs = 100003;

	parse_ok("[rule]\nport = 9\nmode = tcp\n[rule]\nprogram = 100003\nmode = require\n");
	cr_assert_eq(mode6(false, "::1", 1, "::2", 9, NULL), RR_MODE_TCP);
	cr_assert_eq(mode6(false, "::1", 1, "::2", 9, &nfs), RR_MODE_TCP);
	cr_assert_eq(mode6(false, "::1", 1, "::2", 8, &nfs), RR_MODE_REQUIRE);
}

Test(policy, rules_on_unknown_addresses_do_not_match)
{
	parse_ok("[rule]\nport = 9\nmode = tcp\n[rule]\naddress = ::/0\nmode = tcp\n"
		 "[rule]\naddress = 0.0.0.0/0\nmode = tcp\n");
	cr_assert_eq(rr_conf_mode(&conf, false, NULL, NULL), RR_MODE_AUTO);
	cr_assert_eq(rr_conf_mode(&conf, true, NULL, NULL), RR_MODE_AUTO);
}

Test(policy, disabled_beats_every_rule)
{
	uint32_t nfs = 100003;

	parse_ok("enabled = off\n[rule]\nmode = require\n");
	cr_assert_eq(rr_conf_mode(&conf, false, NULL, NULL), RR_MODE_TCP);
	cr_assert_eq(mode6(false, "::1", 1, "::2", 9, &nfs), RR_MODE_TCP);
}

Test(policy, command_is_matched_exactly_or_by_wildcards)
{
	char text[100];

	snprintf(text, sizeof(text), "[rule]\ncommand = %s\nmode = tcp\n", program_invocation_short_name);
	parse_ok(text);
	cr_assert_not(conf.rules[0].other);
	cr_assert_eq(rr_conf_mode(&conf, false, NULL, NULL), RR_MODE_TCP);
	defaults();
	parse_ok("[rule]\ncommand = ypserv\nmode = tcp\n");
	cr_assert(conf.rules[0].other);
	cr_assert_eq(rr_conf_mode(&conf, false, NULL, NULL), RR_MODE_AUTO);
	defaults();
	parse_ok("[rule]\ncommand = test_p*\nmode = tcp\n");
	cr_assert_not(conf.rules[0].other);
}

Test(policy, wildcards)
{
	static const struct { const char *pattern, *name; bool match; } c[] = {
		{ "", "", true }, { "", "a", false }, { "*", "", true }, { "*", "abc", true },
		{ "a*c", "abc", true }, { "a*c", "ac", true }, { "a*c", "ab", false },
		{ "?", "", false }, { "?b?", "abc", true }, { "*a*a*", "banana", true },
		{ "*nan", "banana", false }, { "ypserv", "ypserv2", false }, { "yp", "ypserv", false },
		{ "*.d", "a.d.d", true }, { "**", "x", true },
	};

	for (size_t i = 0; i < rr_array_size(c); i++)
		cr_assert_eq(rr_glob(c[i].pattern, c[i].pattern + strlen(c[i].pattern), c[i].name),
			     c[i].match, "%s %s", c[i].pattern, c[i].name);
}

/* It is a word of a line, which goes on behind it. */
Test(policy, a_pattern_ends_where_its_word_does)
{
	static const char line[] = "yp* *";

	cr_assert(rr_glob(line, line + 2, "yp"));
	cr_assert_not(rr_glob(line, line + 2, "yp* *"));
	cr_assert_not(rr_glob(line, line + 2, "yp*"));
	cr_assert_not(rr_glob(line, line + 1, "yp"));
	cr_assert(rr_glob(line, line + 3, "ypbind"));
}

Test(policy, every_mistake_in_a_rule_is_named_and_the_rule_left_out)
{
	static const char *const c[][2] = {
		{ "role = peer", "f:2:8: key 'role': 'peer' is not a role (allowed: client, server); "
		  "rule ignored" },
		{ "port = 0", "f:2:8: key 'port': '0' is not a port (allowed: 1..65535, or a range as "
		  "600-1023); rule ignored" },
		{ "port = 70000", "f:2:8: key 'port': '70000' is not a port (allowed: 1..65535, or a "
		  "range as 600-1023); rule ignored" },
		{ "port = 9-3", "f:2:8: key 'port': '9-3' is not a port (allowed: 1..65535, or a range "
		  "as 600-1023); rule ignored" },
		{ "program = nfs", "f:2:11: key 'program': 'nfs' is not an RPC program number "
		  "(allowed: 0..0xffffffff); rule ignored" },
		{ "command =", "f:2:10: key 'command': '' is not a command name (allowed: 1..64 bytes, "
		  "* and ? match any); rule ignored" },
		{ "prt = 5", "f:2:1: unknown key 'prt', did you mean 'port'? (allowed: role, port, "
		  "address, program, command, mode, dialect, native); rule ignored" },
		{ "dialect = v3", "f:2:11: key 'dialect': 'v3' is not a dialect (allowed: v1, v2, draft02, "
		  "slides); rule ignored" },
		{ "credits = 5", "f:2:1: option 'credits' inside a rule: options stand before the "
		  "first [rule]; rule ignored" },
		{ "mode = off", "f:2:8: key 'mode': 'off' is not a mode (allowed: auto, tcp, require); "
		  "rule ignored" },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		char text[200];

		snprintf(text, sizeof(text), "[rule]\n%s\n%s", c[i][0],
			 strncmp(c[i][0], "mode", 4) ? "mode = tcp\n" : "");
		parse_bad(text, c[i][1]);
		cr_assert_eq(conf.nrules, 0);
	}
	parse_bad("\n[rule]\nport = 1\n", "f:2:1: rule without 'mode'; rule ignored");
	parse_bad("[rule]\nrole = server\nprogram = 5\nmode = tcp\n", "f:1:1: rule with 'program' "
		  "for role 'server': only the client knows the program in time; rule ignored");
}

Test(policy, the_rule_that_is_one_too_many_is_named)
{
	char text[2000] = "";

	for (int i = 0; i < 65; i++)
		strcat(text, "[rule]\nmode = tcp\n");
	parse_bad(text, "f:129:1: more than 64 rules; rule ignored");
	cr_assert_eq(conf.nrules, 64);
}

/* --- dialect --- */

static enum rr_dialect dialect(bool server, uint16_t port, const uint32_t *program)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in b = { .sin_family = AF_INET, .sin_port = htons(900) };

	return rr_conf_dialect(&conf, server, (void *)(server ? &a : &b), (void *)(server ? &b : &a),
			       program);
}

Test(policy, the_dialect_is_v1_unless_something_else_is_said)
{
	parse_ok("[rule]\nmode = auto\n");
	cr_assert_eq(dialect(true, 111, NULL), RR_DIALECT_V1);
}

Test(policy, the_dialect_is_that_of_the_rule_that_decides_else_the_options)
{
	parse_ok("dialect = V2\n[rule]\nport = 111\ndialect = slides\n[rule]\nport = 112\nmode = require\n"
		 "[rule]\nport = 112\ndialect = draft02\n");
	cr_assert_eq(conf.dialect, RR_DIALECT_V2);
	cr_assert_eq(rr_conf_dialects(&conf),
		     1u << RR_DIALECT_V2 | 1u << RR_DIALECT_SLIDES | 1u << RR_DIALECT_DRAFT02);
	for (int server = 0; server < 2; server++) {
		cr_assert_eq(dialect(server, 111, NULL), RR_DIALECT_SLIDES);
		cr_assert_eq(dialect(server, 112, NULL), RR_DIALECT_V2);
		cr_assert_eq(dialect(server, 113, NULL), RR_DIALECT_V2);
	}
	/* what stands behind the last rule is none */
	conf.rules[conf.nrules] = (struct rr_rule){ .has_dialect = true, .dialect = RR_DIALECT_V1 };
	cr_assert_eq(rr_conf_dialects(&conf),
		     1u << RR_DIALECT_V2 | 1u << RR_DIALECT_SLIDES | 1u << RR_DIALECT_DRAFT02);
}

Test(policy, a_rule_with_a_dialect_needs_no_mode)
{
	parse_ok("mode = tcp\n[rule]\nport = 111\ndialect = v2\n");
	cr_assert_eq(mode4(true, "10.0.0.1", 111, "10.0.0.2", 900), RR_MODE_AUTO);
	cr_assert_eq(mode4(true, "10.0.0.1", 112, "10.0.0.2", 900), RR_MODE_TCP);
}

Test(policy, a_dialect_for_a_program_counts_once_it_is_known)
{
	const uint32_t nfs = 100003, other = 100005;

	parse_ok("[rule]\nprogram = 100003\ndialect = v2\n[rule]\ndialect = draft02\n");
	cr_assert_eq(dialect(false, 2049, &nfs), RR_DIALECT_V2);
	cr_assert_eq(dialect(false, 2049, &other), RR_DIALECT_DRAFT02);
	cr_assert_eq(dialect(false, 2049, NULL), RR_DIALECT_DRAFT02);
	cr_assert_eq(dialect(true, 2049, NULL), RR_DIALECT_DRAFT02);
}

/* --- native --- */

/* The RDMA CM port for a listener on, or a connect() to, addr. */
static unsigned native(bool server, const char *addr, uint16_t port, const char *peer)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in b = { .sin_family = AF_INET, .sin_port = htons(7) };

	inet_pton(AF_INET, addr, &a.sin_addr);
	if (peer)
		inet_pton(AF_INET, peer, &b.sin_addr);
	return server ? rr_conf_native(&conf, true, (void *)&a, peer ? (void *)&b : NULL)
		      : rr_conf_native(&conf, false, NULL, (void *)&a);
}

Test(policy, a_native_rule_names_the_rdma_cm_port)
{
	parse_ok("[rule]\nrole = server\nport = 600\nnative = 601\n");
	cr_assert_eq(native(true, "0.0.0.0", 600, NULL), 601);
	cr_assert_eq(native(true, "0.0.0.0", 600, "10.0.0.1"), 601);
	cr_assert_eq(native(true, "0.0.0.0", 602, NULL), 0);
	cr_assert_eq(native(false, "10.0.0.1", 600, NULL), 0);
	cr_assert_eq(conf.rules[0].mode, RR_MODE_AUTO);
}

Test(policy, native_on_is_nfs_own_port_or_else_the_same_number)
{
	parse_ok("[rule]\nnative = on\n\n[rule]\nport = 100-200\nnative = on\n");
	cr_assert_eq(native(true, "0.0.0.0", 2049, NULL), 20049);
	cr_assert_eq(native(false, "10.0.0.1", 2049, NULL), 20049);
	cr_assert_eq(native(false, "10.0.0.1", 111, NULL), 111);
	cr_assert_eq(native(false, "10.0.0.1", 112, NULL), 112);
	cr_assert_eq(native(false, "10.0.0.1", 80, NULL), 0);
}

Test(policy, a_native_rule_on_an_address_makes_a_listener_and_judges_who_comes)
{
	parse_ok("[rule]\naddress = 10.0.0.1\nport = 2049\nmode = tcp\n"
		 "[rule]\naddress = 10.0.0.0/24\nnative = on\n");
	cr_assert_eq(native(true, "0.0.0.0", 2049, NULL), 20049);
	cr_assert_eq(native(true, "0.0.0.0", 2049, "10.0.0.2"), 20049);
	cr_assert_eq(native(true, "0.0.0.0", 2049, "10.0.0.1"), 0);
	cr_assert_eq(native(true, "0.0.0.0", 2049, "10.0.1.2"), 0);
}

Test(policy, the_first_rule_that_matches_decides_whether_native_or_not)
{
	parse_ok("[rule]\nport = 2049\nmode = tcp\n[rule]\nnative = on\n");
	cr_assert_eq(native(true, "0.0.0.0", 2049, NULL), 0);
	conf.nrules = 0;
	parse_ok("[rule]\nnative = on\n");
	conf.enabled = false;
	cr_assert_eq(native(true, "0.0.0.0", 2049, NULL), 0);
}

/* When a listener is made or connect() is called the program is not known. */
Test(policy, rules_on_a_program_do_not_keep_others_from_being_native)
{
	parse_ok("[rule]\nport = 2049\nprogram = 100003\nmode = tcp\n[rule]\nnative = on\n");
	cr_assert_eq(native(true, "0.0.0.0", 2049, NULL), 20049);
	cr_assert_eq(native(false, "10.0.0.1", 2049, NULL), 20049);
}

Test(policy, native_rules_that_cannot_be_are_left_out)
{
	parse_bad("[rule]\nnative = maybe\n", "f:2:10: key 'native': 'maybe' is not a port "
		  "(allowed: 1..65535, or on for the usual one); rule ignored");
	parse_bad("[rule]\nport = 1-2\nnative = 3\n", "f:1:1: rule with 'native' for several ports: "
		  "only 'native = on' can be; rule ignored");
	parse_bad("[rule]\nnative = on\nmode = tcp\n", "f:1:1: rule with 'native' and mode 'tcp'; "
		  "rule ignored");
	parse_bad("[rule]\nnative = on\nprogram = 3\n", "f:1:1: rule with 'native' and 'program': the "
		  "first call comes too late for it; rule ignored");
	cr_assert_eq(conf.nrules, 0);
}
