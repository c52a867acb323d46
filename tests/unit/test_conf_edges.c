/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration at its edges: the last value that is one and the first that is none, the shortest and the longest text,
 * and what a listener hears. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/conf_text.h"

TestSuite(conf_edges, .init = defaults);

static struct rr_text text_of(const char *s)
{
	return (struct rr_text){ s, (uint32_t)strlen(s) };
}

/* --- values --- */

Test(conf_edges, numbers_are_decimal_or_hexadecimal)
{
	static const struct { const char *text; bool good; uint64_t v; } c[] = {
		{ "0", true, 0 }, { "0x0", true, 0 }, { "0xaf09AF", true, 0xaf09af }, { "0Xb", true, 11 }, { "019", true, 19 },
		{ "18446744073709551615", true, UINT64_MAX }, { "0xffffffffffffffff", true, UINT64_MAX },
		{ "18446744073709551616", false, 0 }, { "0x10000000000000000", false, 0 }, { "184467440737095516160", false, 0 },
		{ "", false, 0 }, { "0x", false, 0 }, { "1x5", false, 0 }, { "1a", false, 0 }, { "1:", false, 0 }, { "1/", false, 0 },
		{ "0x1g", false, 0 }, { "0x1`", false, 0 }, { "0x1@", false, 0 }, { "5 ", false, 0 },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		uint64_t v = 0;

		cr_assert_eq(rr_value_number(text_of(c[i].text), &v), c[i].good, "%s", c[i].text);
		if (c[i].good)
			cr_assert_eq(v, c[i].v, "%s", c[i].text);
	}
}

static const struct rr_option *option(const char *name)
{
	const struct rr_option *o = rr_option_find(text_of(name));

	cr_assert(o, "%s", name);
	return o;
}

/* What is set reads back in the form in which it is told. */
Test(conf_edges, values_of_every_type_are_told_as_they_would_be_written)
{
	static const char *const c[][3] = {
		{ "enabled", "off", "off" }, { "enabled", "ON", "on" }, { "enabled", "no", "off" }, { "enabled", "yes", "on" },
		{ "enabled", "false", "off" }, { "enabled", "true", "on" }, { "enabled", "0", "off" }, { "enabled", "1", "on" },
		{ "mode", "AUTO", "auto" }, { "mode", "require", "require" }, { "dialect", "slides", "slides" },
		{ "profile", "thrift", "thrift" }, { "reply_chunks", "bounded", "bounded" }, { "log_level", "debug", "debug" },
		{ "log_to", "journal", "journal" }, { "run_dir", "/x", "/x" }, { "run_dir", "", "" }, { "log_file", "stderr", "stderr" },
		{ "program", "0x20000000", "0x20000000" }, { "credits", "0x10", "16" }, { "native_silent", "65536", "65536" },
		{ "offer_after", "Auto", "auto" }, { "offer_after", "32", "32" }, { "offer_after", "0", "0" },
		{ "memory", "512m", "512m" }, { "memory", "512k", "512k" }, { "msgp_align", "512", "512" }, { "msgp_align", "1025", "1025" },
		{ "process_budget", "1g", "1g" }, { "process_budget", "1048577k", NULL },
		{ "spin_us", "0", "0" }, { "spin_us", "999ns", "999ns" }, { "spin_us", "1000", "1ms" }, { "spin_us", "1001 us", "1001us" },
		{ "upgrade_timeout_ms", "2S", "2s" }, { "upgrade_timeout_ms", "1500", "1500ms" }, { "negative_cache_s", "500ms", "500ms" },
		{ "spin_us", "18446744073709552", NULL },	/* ns would wrap to 384 */
	};
	char buf[120];

	for (size_t i = 0; i < rr_array_size(c); i++) {
		const char *wrong = rr_option_set(&conf, option(c[i][0]), text_of(c[i][1]));

		cr_assert_eq(!wrong, !!c[i][2], "%s = %s: %s", c[i][0], c[i][1], wrong);
		if (!wrong)
			cr_assert_str_eq(rr_option_text(&conf, option(c[i][0]), buf, sizeof(buf)), c[i][2], "%s = %s: %s", c[i][0],
					 c[i][1], buf);
	}
	cr_assert(!rr_option_set(&conf, option("offer_after"), text_of("auto")) && conf.offer_after == UINT32_MAX);
}

Test(conf_edges, what_is_allowed_is_told_for_every_type)
{
	parse_bad("upgrade_timeout_ms = 0", "f:1:22: option 'upgrade_timeout_ms': '0' is not in range (allowed: 1..60000 ms); "
		  "using default '1000'");
	parse_bad("negative_cache_s = 86401", "f:1:20: option 'negative_cache_s': '86401' is not in range (allowed: 0..86400 s); "
		  "using default '60'");
	parse_bad("offer_after = 33", "f:1:15: option 'offer_after': '33' is not in range (allowed: auto, 0..32); "
		  "using default 'auto'");
	parse_bad("offer_after = soon", "f:1:15: option 'offer_after': 'soon' is not a number (allowed: auto, 0..32); "
		  "using default 'auto'");
	parse_bad("profile = fast", "f:1:11: option 'profile': 'fast' is not a profile (allowed: balanced, latency, thrift); "
		  "using default 'balanced'");
	parse_bad("log_to = tty", "f:1:10: option 'log_to': 'tty' is not a place (allowed: file, syslog, journal); "
		  "using default 'file'");
	parse_bad("credits = auto", "f:1:11: option 'credits': 'auto' is not a number (allowed: 1..1024); using default '64'");
	parse_bad("run_dir = stderr", "f:1:11: option 'run_dir': 'stderr' is not an absolute path (allowed: a path from /, of at "
		  "most 107 bytes); using default ''");
	parse_bad("process_budget = 2g", "f:1:18: option 'process_budget': '2g' is not in range (allowed: 0..1g); "
		  "using default '256m'");
}

/* --- the name that was meant --- */

Test(conf_edges, the_nearest_name_is_near_enough_and_the_first_of_equals)
{
	static const struct { const char *text, *names[3], *near; } c[] = {
		{ "abc", { "abc" }, "abc" }, { "ABC", { "abc" }, "abc" }, { "abx", { "abc" }, "abc" }, { "ab", { "abc" }, "abc" },
		{ "xabc", { "abc" }, "abc" }, { "axbc", { "abc" }, "abc" }, { "acb", { "abc" }, "abc" }, { "axy", { "abc" }, "abc" },
		{ "xyz", { "abc" }, NULL }, { "", { "a" }, "a" }, { "", { "ab" }, NULL }, { "a", { "" }, "" },
		{ "abcdef", { "abcxyz" }, "abcxyz" }, { "abcdef", { "abwxyz" }, NULL }, { "abcde", { "abcxy" }, "abcxy" },
		{ "abcde", { "abwxy" }, NULL }, { "abc", { "abd", "abe" }, "abd" }, { "abc", { "abde", "abd" }, "abd" },
		{ "abcdefghijklmnopqrstuvwxyzabcdef", { "abcdefghijklmnopqrstuvwxyzabcdef" }, "abcdefghijklmnopqrstuvwxyzabcdef" },
		{ "abcdefghijklmnopqrstuvwxyzabcdefg", { "abcdefghijklmnopqrstuvwxyzabcdef" }, NULL },
		{ "abcdefghijklmnopqrstuvwxyzabcdef", { "abcdefghijklmnopqrstuvwxyzabcdefg" }, NULL },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		const char *near = rr_nearest(text_of(c[i].text), c[i].names);

		cr_assert(c[i].near ? near && !strcmp(near, c[i].near) : !near, "%s: %s", c[i].text, near);
	}
	cr_assert_str_eq(rr_option_nearest(text_of("crexxs")), "credits", "three letters of six");
	cr_assert_null(rr_option_nearest(text_of("crxxxs")));
	cr_assert_str_eq(rr_option_nearest(text_of("cedts")), "credits", "two of five");
	cr_assert_null(rr_option_nearest(text_of("cedxs")));
}

/* --- lines --- */

Test(conf_edges, what_stands_at_the_end_of_a_line)
{
	parse_bad("credits = # x", "f:1:10: option 'credits': '' is not a number (allowed: 1..1024); using default '64'");
	parse_bad("[ ]", "f:1:1: unknown section [] (allowed: [rule]); ignored");
	parse_bad("log_file = \"", "f:1:12: option 'log_file': '\"' is not an absolute path (allowed: a path from /, of at most "
		  "107 bytes, or stderr); using default ''");
	defaults();
	parse_ok("spin_us = 5 # five\nrun_dir = /a]\nlog_file = /x\"\n");
	cr_assert_eq(conf.spin_us, 5 * RR_USEC);
	cr_assert_str_eq(conf.run_dir, "/a]");
	cr_assert_str_eq(conf.log_file, "/x\"");
	parse_bad("log_file = \"/a\"/b", "f:1:12: option 'log_file': '\"/a\"/b' is not an absolute path (allowed: a path from /, of "
		  "at most 107 bytes, or stderr); using default ''");
}

Test(conf_edges, a_line_of_1024_bytes_counts_and_no_byte_more)
{
	char text[1100] = "credits = 7 #";

	memset(text + 13, 'x', 1024 - 13);
	parse_ok(text);
	cr_assert_eq(conf.credits, 7);
	text[1024] = 'x';
	parse_bad(text, "f:1:1: line longer than 1024 bytes; ignored");
	cr_assert_eq(conf.credits, 64);
}

/* Of a text that is wrong, 64 bytes are told. */
Test(conf_edges, long_mistakes_are_cut)
{
	static const struct { const char *before, *after, *said; } c[] = {
		{ "credits = ", "", "f:1:11: option 'credits': '%.64s' is not a number (allowed: 1..1024); using default '64'" },
		{ "", " = 1", "f:1:1: unknown option '%.64s'; ignored" },
		{ "", "", "f:1:1: '%.64s' is neither 'key = value' nor '[rule]'; ignored" },
		{ "[", "]", "f:1:1: unknown section [%.64s] (allowed: [rule]); ignored" },
		{ "[rule]\n", " = 1", "f:2:1: unknown key '%.64s' (allowed: role, port, address, program, command, mode, dialect, "
		  "native); rule ignored" },
		{ "[rule]\nrole = ", "", "f:2:8: key 'role': '%.64s' is not a role (allowed: client, server); rule ignored" },
	};
	char x[80], text[200], said[400];

	memset(x, 'x', sizeof(x));
	x[70] = '\0';
	for (size_t i = 0; i < rr_array_size(c); i++) {
		snprintf(text, sizeof(text), "%s%s%s", c[i].before, x, c[i].after);
		snprintf(said, sizeof(said), c[i].said, x);
		parse_bad(text, said);
	}
	defaults();
	rr_conf_rules(&conf, "R", x, 70);
	snprintf(said, sizeof(said), "R:1:1: '%.64s' is not 'key=value'; rule ignored\n", x);
	cr_assert_str_eq(conf.problems, said);
	defaults();
	snprintf(text, sizeof(text), "RDMARPC_%s=1", x);
	rr_conf_environ(&conf, (char *[]){ text, NULL });
	snprintf(said, sizeof(said), "environment: unknown RDMARPC_%.64s; ignored\n", x);
	cr_assert_str_eq(conf.problems, said);
}

/* --- rules --- */

/* How many rules come of keys, with one problem where none does. */
static unsigned rules_of(const char *keys)
{
	char text[4000];

	defaults();
	snprintf(text, sizeof(text), "[rule]\n%s\n", keys);
	parse(text);
	cr_assert_eq(conf.nproblems, !conf.nrules, "%s: %s", keys, conf.problems);
	return conf.nrules;
}

Test(conf_edges, keys_of_rules_have_bounds)
{
	static const char *const good[] = { "mode = tcp\nport = 1", "mode = tcp\nport = 65535", "mode = tcp\nport = 1-65535",
		"mode = tcp\nport = 5-5", "mode = tcp\nprogram = 0xffffffff", "mode = tcp\nprogram = 0", "mode = tcp\nrole = CLIENT",
		"mode = tcp\nrole = Server", "port = 5\nnative = 65535", "port = 5-6\nnative = ON" };
	static const char *const bad[] = { "mode = tcp\nport = 65536", "mode = tcp\nport = 0-5", "mode = tcp\nport = 5-",
		"mode = tcp\nport = -5", "mode = tcp\nport = 1-2-3", "mode = tcp\nprogram = 4294967296", "port = 5\nnative = 65536",
		"port = 5\nnative = 0", "mode = tcp\nzzzzzzzz = 1" };
	char name[100] = "mode = tcp\ncommand = ", *end = name + strlen(name);

	for (size_t i = 0; i < rr_array_size(good); i++)
		cr_assert_eq(rules_of(good[i]), 1, "%s", good[i]);
	for (size_t i = 0; i < rr_array_size(bad); i++)
		cr_assert_eq(rules_of(bad[i]), 0, "%s", bad[i]);
	memset(end, 'c', 64);
	cr_assert_eq(rules_of(name), 1);
	end[64] = 'c';
	cr_assert_eq(rules_of(name), 0);
}

Test(conf_edges, addresses_are_what_inet_pton_says)
{
	static const char *const c[] = { "0.0.0.0", "255.255.255.255", "1.22.133.4", "01.2.3.4", "1.2.3.00", "1.2.3.0x4", "1.2.3.0X4",
		"1.2.3.1000", "0000.0.0.0", "0X1.2.3.4", "1.2.3", "1.2.3.", "abcd:ef01:2345:6789:ABCD:EF01:aA:fF", "G::", "@::", "`::",
		"1:2:3:4:5:6:7:8", "1::3:4:5:6:7:8", "::", ":", "1:2:3:4:5:6:7::", "1::3:4:5:6:7:1.2.3.4", "1:2:3:4:5::1.2.3.4", "1:", "1:2:3:4:5:6:7:8:", "::1:" };
	char text[2100], net[60];
	uint8_t want[16];

	for (size_t i = 0; i < rr_array_size(c); i++) {
		int family = strchr(c[i], ':') ? 6 : 4;
		bool good = inet_pton(family == 6 ? AF_INET6 : AF_INET, c[i], want) == 1;

		for (int bits = -1; bits <= 32; bits += 11) {
			snprintf(net, sizeof(net), bits < 0 ? "%s" : "%s/%d", c[i], bits);
			snprintf(text, sizeof(text), "mode = tcp\naddress = %s", net);
			cr_assert_eq(rules_of(text), good, "%s", net);
			if (!good)
				continue;
			cr_assert_eq(conf.rules[0].family, family, "%s", net);
			cr_assert_eq(conf.rules[0].prefix, bits >= 0 ? bits : family == 6 ? 128 : 32, "%s", net);
			cr_assert_eq(memcmp(conf.rules[0].address, want, family == 6 ? 16 : 4), 0, "%s", net);
		}
	}
	cr_assert_eq(rules_of("mode = tcp\naddress = ::1/128"), 1);
	/* A line ends where it ends, whatever stood there before; and one of very many groups is refused as any other. */
	defaults();
	parse("[rule]\nmode = tcp\naddress = ::\n[rule]\nmode = tcp\naddress = :\n");
	cr_assert_eq(conf.nrules * 10 + conf.nproblems, 11);
	strcpy(text, "mode = tcp\naddress = 1");
	for (int i = 0; i < 400; i++)
		strcat(text, ":1");
	cr_assert_eq(rules_of(text), 0);
	cr_assert(!strncmp(conf.problems, "f:3:11: key 'address': '1:1:", 28), "%s", conf.problems);
}

Test(conf_edges, each_rule_begins_with_nothing_of_the_one_before)
{
	parse("[rule]\nport = x\nmode = tcp\n[rule]\nmode = auto\nrole = server\n[rule]\nport = 9\n");
	cr_assert_str_eq(conf.problems, "f:2:8: key 'port': 'x' is not a port (allowed: 1..65535, or a range as 600-1023); rule "
			 "ignored\nf:7:1: rule without 'mode'; rule ignored\n");
	cr_assert_eq(conf.nrules, 1);
	cr_assert(!conf.rules[0].has_port && conf.rules[0].role == 's');
	defaults();
	rr_conf_rules(&conf, "R", "mode=tcp;  port=5", 17);
	cr_assert_str_eq(conf.problems, "R:1:12: rule without 'mode'; rule ignored\n");
	cr_assert_eq(conf.nrules, 1);
}

/* --- a network's last bits --- */

static enum rr_mode from(const char *peer)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	inet_pton(AF_INET, peer, &a.sin_addr);
	return rr_conf_mode(&conf, false, NULL, (struct sockaddr *)&a);
}

Test(conf_edges, of_a_network_every_bit_of_the_prefix_counts_and_none_behind_it)
{
	static const struct { const char *net, *in, *out; } c[] = {
		{ "10.192.0.0/10", "10.224.0.1", "10.128.0.1" }, { "10.192.0.0/10", "10.255.255.255", "10.64.0.0" },
		{ "10.192.0.0/10", "10.192.0.1", "11.192.0.1" }, { "255.0.0.0/1", "128.0.0.0", "127.255.255.255" },
		{ "10.1.2.3/31", "10.1.2.2", "10.1.2.1" }, { "10.1.2.0/24", "10.1.2.255", "10.1.3.0" }, { "10.1.2.3", "10.1.2.3", "10.1.2.2" },
	};
	char text[100];

	for (size_t i = 0; i < rr_array_size(c); i++) {
		snprintf(text, sizeof(text), "mode = tcp\naddress = %s", c[i].net);
		cr_assert_eq(rules_of(text), 1);
		cr_assert_eq(from(c[i].in), RR_MODE_TCP, "%s %s", c[i].net, c[i].in);
		cr_assert_eq(from(c[i].out), RR_MODE_AUTO, "%s %s", c[i].net, c[i].out);
	}
}

/* --- problems --- */

Test(conf_edges, the_text_of_problems_is_filled_to_its_last_byte_with_whole_lines)
{
	static char line[sizeof(conf.problems)];
	unsigned room;

	memset(line, 'x', sizeof(line) - 1);
	rr_conf_problem(&conf, &(struct rr_where){ 0 }, "%s", "two\nlines");
	cr_assert_str_eq(conf.problems, "two?lines\n");
	room = (unsigned)sizeof(conf.problems) - conf.problems_len;
	rr_conf_problem(&conf, &(struct rr_where){ 0 }, "%.*s", (int)room - 1, line);
	cr_assert_str_eq(conf.problems, "two?lines\n", "one byte too long");
	rr_conf_problem(&conf, &(struct rr_where){ 0 }, "%.*s", (int)room - 2, line);
	cr_assert_eq(strlen(conf.problems), sizeof(conf.problems) - 1);
	cr_assert_eq(conf.problems_len, sizeof(conf.problems) - 1);
	cr_assert_eq(conf.problems[sizeof(conf.problems) - 2], '\n');
	cr_assert_eq(conf.nproblems, 3);
}

static char logged[8192];

static bool sink(enum rr_log_level level, const char *line, unsigned len, unsigned at)
{
	(void)level, (void)at;
	strncat(logged, line, len);
	return true;
}

Test(conf_edges, the_log_counts_what_it_does_not_show)
{
	rr_log_setup(RR_LOG_ERROR, sink);
	parse("banana = 1\n");
	rr_conf_log_problems(&conf);
	cr_assert(strstr(logged, "unknown option 'banana'") && !strstr(logged, "more problems"), "%s", logged);
	conf.nproblems += 3;
	rr_conf_log_problems(&conf);
	cr_assert(strstr(logged, "configuration: 3 more problems\n"), "%s", logged);
}

/* --- files and the environment --- */

static void load(char *conf_var, char *a, char *b)
{
	rr_conf_load(&conf, (char *[]){ conf_var, a, b, NULL });
}

Test(conf_edges, a_file_counts_to_its_256_kib)
{
	char path[] = "/tmp/rr-conf-XXXXXX", said[120];
	FILE *f = fdopen(mkstemp(path), "w");

	fputs("spin_us = 9\n", f);
	for (int at = 12; at < 262144; at++)
		fputc(at % 64 == 63 ? '\n' : at % 64 ? 'x' : '#', f);
	fputs("credits = 9\n", f);
	fclose(f);
	defaults();
	rr_conf_file(&conf, path, true);
	unlink(path);
	snprintf(said, sizeof(said), "%s: longer than 262144 bytes; the rest is ignored\n", path);
	cr_assert(strstr(conf.problems, said), "%s", conf.problems);
	cr_assert_eq(conf.spin_us, 9 * RR_USEC);
	cr_assert_eq(conf.credits, 64);
}

Test(conf_edges, a_file_that_may_not_be_read_is_named)
{
	char path[] = "/tmp/rr-conf-XXXXXX", said[100];

	close(mkstemp(path));
	cr_assert_eq(chmod(path, 0), 0);
	snprintf(said, sizeof(said), "%s: permission denied; using defaults\n", path);
	cr_assert(geteuid() || !seteuid(65534));
	rr_conf_file(&conf, path, false);
	cr_assert_str_eq(conf.problems, said);
	cr_assert(getuid() || !seteuid(0));
	unlink(path);
}

Test(conf_edges, names_of_variables_are_whole)
{
	static char no_file[] = "RDMARPC_CONF=";

	load(no_file, (char[]){ "RDMARPC_RULESX=mode=tcp" }, (char[]){ "RDMARPC_FAMILY=x" });
	cr_assert_eq(conf.nrules, 0);
	cr_assert_eq(conf.nproblems, 1, "%s", conf.problems);
	load(no_file, (char[]){ "RDMARPC_TEST_=1" }, (char[]){ "RDMARPC_TEST_A=1" });
	cr_assert_eq(strncmp(conf.problems, "environment: unknown RDMARPC_TEST_", 34), 0, "%s", conf.problems);
	cr_assert_eq(conf.nproblems, 1);
	load(no_file, (char[]){ "RDMARPC_ENABLE=1" }, (char[]){ "RDMARPC_ENABLED=0" });
	cr_assert_str_eq(conf.problems, "environment: unknown RDMARPC_ENABLE, did you mean RDMARPC_ENABLED?; ignored\n");
	cr_assert_not(conf.enabled);
	load(no_file, (char[]){ "RDMARPC_OFFER_AFTR=1" }, (char[]){ "RDMARPC_ENABLED=0" });
	cr_assert_str_eq(conf.problems, "environment: unknown RDMARPC_OFFER_AFTR, did you mean RDMARPC_OFFER_AFTER?; ignored\n");
	load(no_file, (char[]){ "RDMARPCXENABLED=0" }, (char[]){ "XRDMARPC_ENABLED=0" });
	cr_assert(conf.enabled && !conf.nproblems, "%s", conf.problems);
}

Test(conf_edges, chunks_of_replies_are_no_larger_than_messages)
{
	load((char[]){ "RDMARPC_CONF=" }, (char[]){ "RDMARPC_MAX_MESSAGE=64k" }, NULL);
	cr_assert_str_eq(conf.problems, "");
	cr_assert_eq(conf.reply_chunk_max, 65536);
	cr_assert_eq(conf.reply_chunk, 65536);
}

/* --- a listener --- */

static char heard[4000];

static void hear_option(const struct rr_where *at, const char *name, const struct rr_option *o)
{
	snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "%u: %s %s\n", at->line, name, o->name);
}

static void hear_rule(const struct rr_where *at, const struct rr_rule *r, struct rr_text command)
{
	snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "%u: rule %d '%.*s'\n", at->line, r->mode, (int)command.len,
		 command.p);
}

static void hear_problem(const char *line, unsigned len)
{
	snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "%.*s\n", (int)len, line);
}

static const struct rr_conf_listener listener = { hear_option, hear_rule, hear_problem };

static void listen_to(const char *text)
{
	defaults();
	heard[0] = '\0';
	rr_conf_listener = &listener;
	parse(text);
	cr_assert_str_eq(conf.problems, "", "told, not kept");
}

Test(conf_edges, a_listener_hears_what_counts_and_what_is_said_twice)
{
	listen_to("credits = 5\ncredits = x\ncredits = 6\n"
		  "[rule]\ncommand = a*\nport = 1\nmode = tcp\n[rule]\nport = 1\nport = 2\nmode = require\n");
	cr_assert_str_eq(heard, "1: credits credits\n"
			 "f:2:1: option 'credits' again, after line 1; this one counts\n"
			 "f:2:11: option 'credits': 'x' is not a number (allowed: 1..1024); using default '64'\n"
			 "f:3:1: option 'credits' again, after line 2; this one counts\n3: credits credits\n"
			 "4: rule 1 'a*'\nf:10:1: key 'port' again, after line 9; this one counts\n8: rule 2 ''\n", "%s", heard);
}

Test(conf_edges, a_rule_that_another_covers_never_counts)
{
	static const struct { const char *first, *second; bool covered; } c[] = {
		{ "", "", true }, { "role = client", "role = client", true }, { "role = client", "role = server", false },
		{ "role = client", "", false }, { "", "role = client", true },
		{ "port = 5-9", "port = 5-9", true }, { "port = 5-9", "port = 4-9", false }, { "port = 5-9", "port = 5-10", false },
		{ "port = 5-9", "port = 6-8", true }, { "port = 5-9", "", false }, { "", "port = 5", true },
		{ "program = 5", "program = 5", true }, { "program = 5", "program = 6", false }, { "program = 5", "", false },
		{ "program = 0", "", false }, { "", "program = 5", true },
		{ "address = 10.0.0.0/8", "address = 10.0.0.0/8", true }, { "address = 10.0.0.0/8", "address = 10.1.2.3", true },
		{ "address = 10.0.0.0/8", "address = 10.0.0.0/7", false }, { "address = 10.0.0.0/8", "address = 11.0.0.0/8", false },
		{ "address = 0.0.0.0/0", "address = ::/0", false }, { "address = ::/0", "address = 1.2.3.4", false },
		{ "address = 10.0.0.0/8", "", false }, { "", "address = 10.0.0.0/8", true }, { "command = *", "", false },
		{ "", "command = *", true }, { "role = client\nport = 5\nprogram = 6", "role = client\nport = 5\nprogram = 6\naddress = ::", true },
	};

	for (size_t i = 0; i < rr_array_size(c); i++) {
		char text[300];

		snprintf(text, sizeof(text), "[rule]\nmode = tcp\nrole = server\nport = 77\n[rule]\nmode = tcp\n%s\n[rule]\nmode = auto\n%s\n",
			 c[i].first, c[i].second);
		listen_to(text);
		cr_assert_eq(!!strstr(heard, ": rule never counts: the one at line 5 comes first and applies to all that this one does\n"),
			     c[i].covered, "%s | %s: %s", c[i].first, c[i].second, heard);
		cr_assert_eq(conf.nrules, 3);
	}
	/* What the environment says may stand before the file's on purpose. */
	defaults();
	heard[0] = '\0';
	rr_conf_rules(&conf, "R", "mode=tcp", 8);
	parse("[rule]\nmode = auto\n");
	cr_assert_null(strstr(heard, "never"), "%s", heard);
	cr_assert_eq(conf.nrules, 2);
}
