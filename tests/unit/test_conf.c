/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/conf_text.h"

TestSuite(conf, .init = defaults);

/* --- the table --- */

Test(conf, every_default_is_an_allowed_value)
{
	for (uint32_t i = 0; i < rr_noptions; i++) {
		const struct rr_option *o = &rr_options[i];
		struct rr_text def = { o->def, (uint32_t)strlen(o->def) };

		cr_assert_null(rr_option_set(&conf, o, def), "%s", o->name);
	}
}

Test(conf, defaults_are_the_documented_ones)
{
	cr_assert(conf.enabled);
	cr_assert_eq(conf.mode, RR_MODE_AUTO);
	cr_assert_eq(conf.inline_threshold, 4096);
	cr_assert_eq(conf.credits, 64);
	cr_assert_eq(conf.max_message, 8u << 20);
	cr_assert_eq(conf.memory, 16u << 20);
	cr_assert_eq(conf.spin_us, 150 * RR_USEC);
	cr_assert_eq(conf.upgrade_timeout_ms, RR_SEC);
	cr_assert_eq(conf.negative_cache_s, 60 * RR_SEC);
	cr_assert(conf.reliable_replies);
	cr_assert_eq(conf.log_level, RR_LOG_WARN);
	cr_assert_str_eq(conf.log_file, "");
	cr_assert_not(conf.diagnostics);
}

/* req: rfc8166 3.3.3 #3 */
Test(conf, every_number_is_refused_just_outside_its_range_and_taken_at_its_ends)
{
	for (uint32_t i = 0; i < rr_noptions; i++) {
		const struct rr_option *o = &rr_options[i];
		char t[32];

		if (!o->max)
			continue;
		for (int side = -1; side <= 1; side += 2) {
			long v = side < 0 ? (long)o->min : (long)o->max;

			snprintf(t, sizeof(t), "%ld", v);
			cr_assert_null(rr_option_set(&conf, o, (struct rr_text){ t, (uint32_t)strlen(t) }),
				       "%s %s", o->name, t);
			snprintf(t, sizeof(t), "%ld", v + side);
			cr_assert(rr_option_set(&conf, o, (struct rr_text){ t, (uint32_t)strlen(t) }),
				  "%s %s", o->name, t);
		}
	}
}

/* --- values --- */

Test(conf, sizes_take_binary_suffixes_of_either_case)
{
	parse_ok("inline_threshold = 16k\nmax_message=1M\nmemory = 0x1000000\nwarm_memory = 1 g");
	cr_assert_eq(conf.inline_threshold, 16384);
	cr_assert_eq(conf.max_message, 1u << 20);
	cr_assert_eq(conf.memory, 1u << 24);
	cr_assert_eq(conf.warm_memory, 1u << 30);
}

Test(conf, times_take_the_unit_of_their_name_or_another)
{
	parse_ok("spin_us = 20\nupgrade_timeout_ms = 2s\nnegative_cache_s=500ms\nidle_trim_ms=100");
	cr_assert_eq(conf.spin_us, 20 * RR_USEC);
	cr_assert_eq(conf.upgrade_timeout_ms, 2 * RR_SEC);
	cr_assert_eq(conf.negative_cache_s, 500 * RR_MSEC);
	cr_assert_eq(conf.idle_trim_ms, 100 * RR_MSEC);
	parse_ok("spin_us = 1500ns");
	cr_assert_eq(conf.spin_us, 1500);
}

Test(conf, words_have_synonyms_and_any_case)
{
	parse_ok("enabled = NO\nreliable_replies = false\ndiagnostics = 1\nmode = Require\n"
		 "log_level = DEBUG");
	cr_assert_not(conf.enabled);
	cr_assert_not(conf.reliable_replies);
	cr_assert(conf.diagnostics);
	cr_assert_eq(conf.mode, RR_MODE_REQUIRE);
	cr_assert_eq(conf.log_level, RR_LOG_DEBUG);
}

Test(conf, the_last_of_equal_options_counts)
{
	parse_ok("credits = 1\ncredits = 2\n");
	cr_assert_eq(conf.credits, 2);
}

/* --- lines --- */

Test(conf, comments_blank_lines_spaces_and_carriage_returns_mean_nothing)
{
	parse_ok("# comment\n\n   \t\n\tcredits\t=\t7 # seven\r\n#\nlog_file = /a#b\r\n");
	cr_assert_eq(conf.credits, 7);
	cr_assert_str_eq(conf.log_file, "/a#b");
}

Test(conf, quotes_keep_spaces_and_hashes)
{
	parse_ok("log_file = \"/tmp/a # b \" # x");
	cr_assert_str_eq(conf.log_file, "/tmp/a # b ");
	parse_ok("log_file = \"\"");
	cr_assert_str_eq(conf.log_file, "");
}

Test(conf, the_last_line_needs_no_newline)
{
	parse_ok("credits = 9");
	cr_assert_eq(conf.credits, 9);
}

Test(conf, a_file_may_come_in_any_pieces)
{
	static const char text[] = "credits = 9\n[rule]\nport = 111\nmode = tcp\n";
	char path[] = "/tmp/rr-conf-XXXXXX";
	FILE *f = fdopen(mkstemp(path), "w");

	for (int i = 0; i < 4095; i++)	/* the read buffer ends inside "credits" */
		fputc(i % 100 == 99 ? '\n' : i % 100 ? 'x' : '#', f);
	fputc('\n', f);
	fputs(text, f);
	fclose(f);
	rr_conf_file(&conf, path, true);
	unlink(path);
	cr_assert_str_eq(conf.problems, "");
	cr_assert_eq(conf.credits, 9);
	cr_assert_eq(conf.nrules, 1);
}

/* --- every message --- */

Test(conf, a_wrong_value_is_named_with_place_and_choice_and_the_default_used)
{
	parse_bad("\n\n  credits =   many\n", "f:3:15: option 'credits': 'many' is not a number "
		  "(allowed: 1..1024); using default '64'");
	cr_assert_eq(conf.credits, 64);
	parse_bad("credits = 5\ncredits = 0", "f:2:11: option 'credits': '0' is not in range "
		  "(allowed: 1..1024); using default '64'");
	cr_assert_eq(conf.credits, 64);
	parse_bad("credits =", "f:1:10: option 'credits': '' is not a number (allowed: 1..1024); "
		  "using default '64'");
	parse_bad("inline_threshold=1x", "f:1:18: option 'inline_threshold': '1x' is not a size "
		  "(allowed: 1k..256k); using default '4k'");
	parse_bad("inline_threshold = 512k", "f:1:20: option 'inline_threshold': '512k' is not in "
		  "range (allowed: 1k..256k); using default '4k'");
	parse_bad("spin_us = 1 hour", "f:1:11: option 'spin_us': '1 hour' is not a time "
		  "(allowed: 0..10000 us); using default '150'");
	parse_bad("spin_us = us", "f:1:11: option 'spin_us': 'us' is not a time (allowed: 0..10000 us); using default '150'");
	parse_bad("enabled = maybe", "f:1:11: option 'enabled': 'maybe' is not on or off "
		  "(allowed: on, off); using default 'on'");
	parse_bad("mode = rdma", "f:1:8: option 'mode': 'rdma' is not a mode "
		  "(allowed: auto, tcp, require); using default 'auto'");
	parse_bad("dialect = 2", "f:1:11: option 'dialect': '2' is not a dialect "
		  "(allowed: v1, v2, draft02, slides); using default 'v1'");
	parse_bad("reply_chunks = on", "f:1:16: option 'reply_chunks': 'on' is not a policy "
		  "(allowed: auto, never, bounded); using default 'auto'");
	parse_bad("log_level = loud", "f:1:13: option 'log_level': 'loud' is not a level "
		  "(allowed: off, error, warn, info, debug); using default 'warn'");
	parse_bad("run_dir = here", "f:1:11: option 'run_dir': 'here' is not an absolute path "
		  "(allowed: a path from /, of at most 107 bytes); using default ''");
	parse_bad("log_file = x", "f:1:12: option 'log_file': 'x' is not an absolute path "
		  "(allowed: a path from /, of at most 107 bytes, or stderr); using default ''");
	parse_bad("program = 100003", "f:1:11: option 'program': '100003' is not in range "
		  "(allowed: 0x20000000..0x5fffffff); using default '0x2052444d'");
}

Test(conf, a_path_fits_or_is_refused)
{
	char text[200] = "run_dir = /", *end = text + strlen(text);

	memset(end, 'p', 106);
	parse_ok(text);
	cr_assert_eq(strlen(conf.run_dir), 107);
	end[106] = 'p';
	parse(text);
	cr_assert(strstr(conf.problems, "is not short enough (allowed: a path from /, of at most "
			 "107 bytes)"), "%s", conf.problems);
	cr_assert_str_eq(conf.run_dir, "");
}

Test(conf, numbers_past_64_bits_do_not_wrap)
{
	parse_bad("credits = 18446744073709551617", "f:1:11: option 'credits': "
		  "'18446744073709551617' is not a number (allowed: 1..1024); using default '64'");
	parse_bad("memory = 17179869185g", "f:1:10: option 'memory': '17179869185g' is not a size "
		  "(allowed: 256k..512m); using default '16m'");
}

Test(conf, an_unknown_option_is_named_with_the_nearest)
{
	parse_bad("credit = 5", "f:1:1: unknown option 'credit', did you mean 'credits'?; ignored");
	parse_bad(" inline-threshold = 5", "f:1:2: unknown option 'inline-threshold', did you mean "
		  "'inline_threshold'?; ignored");
	parse_bad("colour = blue", "f:1:1: unknown option 'colour'; ignored");
}

Test(conf, lines_of_no_form_are_named)
{
	parse_bad("credits 5", "f:1:1: 'credits 5' is neither 'key = value' nor '[rule]'; ignored");
	parse_bad("\n = 5", "f:2:2: '= 5' is neither 'key = value' nor '[rule]'; ignored");
	parse_bad("[rule", "f:1:1: '[rule' is neither 'key = value' nor '[rule]'; ignored");
	parse_bad("[server]\nport = 1\nbanana = 2\n", "f:1:1: unknown section [server] (allowed: "
		  "[rule]); ignored");
}

Test(conf, a_line_too_long_is_one_problem_and_the_next_line_counts)
{
	char text[3000];

	memset(text, 'x', 2000);
	strcpy(text + 2000, "\ncredits = 3\n");
	parse_bad(text, "f:1:1: line longer than 1024 bytes; ignored");
	cr_assert_eq(conf.credits, 3);
}

Test(conf, zero_bytes_are_ordinary_wrong_bytes)
{
	static const char text[] = "credits = 5\0\nrun_dir = /a\0b\n\0\0\0";

	rr_conf_bytes(&conf, "f", text, sizeof(text) - 1);
	cr_assert_eq(conf.nproblems, 3);
	cr_assert_eq(conf.credits, 64);
	cr_assert_str_eq(conf.run_dir, "");
}

Test(conf, many_problems_are_all_counted_and_whole_lines_kept)
{
	for (int i = 0; i < 200; i++)
		parse("credits = many\n");
	cr_assert_eq(conf.nproblems, 200);
	cr_assert_eq(conf.problems[conf.problems_len - 1], '\n');
	cr_assert_eq(strlen(conf.problems), conf.problems_len);
}

/* --- environment and files --- */

static char none[] = "RDMARPC_CONF=/dev/null/none";

static void load(char *a, char *b, char *c)
{
	char *envp[] = { (char[]){ "HOME=/" }, a, b, c, NULL };

	rr_conf_load(&conf, envp);
}

static char empty_conf[] = "/tmp/rr-empty-XXXXXX";
static char empty_env[64];

static void load_with_empty_file(char *a, char *b)
{
	int fd = mkstemp(empty_conf);

	close(fd);
	snprintf(empty_env, sizeof(empty_env), "RDMARPC_CONF=%s", empty_conf);
	load(empty_env, a, b);
	unlink(empty_conf);
}

Test(conf, every_option_has_a_variable)
{
	for (uint32_t i = 0; i < rr_noptions; i++) {
		char var[64], *v = var + sprintf(var, "RDMARPC_");

		for (const char *s = rr_options[i].name; *s; s++)
			*v++ = (char)(*s >= 'a' && *s <= 'z' ? *s - 32 : *s);
		strcpy(v, "=!");
		memset(&conf, 0, sizeof(conf));
		rr_conf_environ(&conf, (char *[]){ var, NULL });
		cr_assert_eq(conf.nproblems, 1);
		cr_assert_eq(strncmp(conf.problems, "option 'RDMARPC_", 16), 0, "%s", conf.problems);
	}
}

/* As if it were not set: the host's file, which need not be there. */
Test(conf, an_empty_name_of_a_file_is_none)
{
	rr_conf_load(&conf, (char *[]){ (char[]){ "RDMARPC_CONF=" }, NULL });
	cr_assert_str_eq(conf.problems, "");
}

Test(conf, sizes_are_told_in_the_largest_unit_that_divides_them)
{
	static const struct { uint32_t bytes; const char *text; } c[] = {
		{ 0, "0" }, { 1023, "1023" }, { 1024, "1k" }, { 1025, "1025" }, { 3u << 20, "3m" }, { 1u << 30, "1g" },
		{ (1u << 30) + 1024, "1048577k" },
	};
	char text[64];

	for (uint32_t i = 0; i < rr_noptions; i++) {
		const struct rr_option *o = &rr_options[i];

		for (size_t k = 0; o->type == RR_OPT_SIZE && k < rr_array_size(c); k++) {
			memcpy((char *)&conf + o->offset, &c[k].bytes, sizeof(c[k].bytes));
			cr_assert_str_eq(rr_option_text(&conf, o, text, sizeof(text)), c[k].text, "%s", text);
		}
	}
}

Test(conf, the_environment_overrides_the_file)
{
	char path[] = "/tmp/rr-conf-XXXXXX", var[64];
	FILE *f = fdopen(mkstemp(path), "w");

	fputs("credits = 5\nspin_us = 7\n", f);
	fclose(f);
	snprintf(var, sizeof(var), "RDMARPC_CONF=%s", path);
	load((char[]){ "RDMARPC_CREDITS=6" }, var, (char[]){ "RDMARPC_RUN_DIR=/x" });
	unlink(path);
	cr_assert_str_eq(conf.problems, "");
	cr_assert_eq(conf.credits, 6);
	cr_assert_eq(conf.spin_us, 7 * RR_USEC);
	cr_assert_str_eq(conf.run_dir, "/x");
}

Test(conf, a_wrong_variable_is_named)
{
	load_with_empty_file((char[]){ "RDMARPC_CREDITS=x" }, NULL);
	cr_assert_str_eq(conf.problems, "option 'RDMARPC_CREDITS': 'x' is not a number (allowed: "
			 "1..1024); using default '64'\n");
	cr_assert_eq(conf.credits, 64);
}

Test(conf, an_unknown_variable_is_named_with_the_nearest)
{
	load_with_empty_file((char[]){ "RDMARPC_CREDIT=5" }, (char[]){ "RDMARPC_TEST_X=1" });
	cr_assert_str_eq(conf.problems, "environment: unknown RDMARPC_CREDIT, did you mean "
			 "RDMARPC_CREDITS?; ignored\n");
	load_with_empty_file((char[]){ "RDMARPC_ZZZZZZZZ=5" }, (char[]){ "RDMARPC_" });
}

static void rules(const char *text)
{
	size_t n = strlen(text);
	char *copy = malloc(n);

	defaults();
	memcpy(copy, text, n);
	rr_conf_rules(&conf, "R", copy, n);
	free(copy);
}

Test(conf, rules_in_the_environment_are_as_in_a_file)
{
	const struct rr_rule *r = conf.rules;

	rules(" ;role=client  port=600-1023\taddress=10.0.0.0/8 mode=tcp ;; mode=require;\nprogram=0x5 mode=auto");
	cr_assert_str_eq(conf.problems, "");
	cr_assert_eq(conf.nrules, 3);
	cr_assert_eq(r[0].role, 'c');
	cr_assert_eq(r[0].port_lo, 600);
	cr_assert_eq(r[0].port_hi, 1023);
	cr_assert_eq(r[0].prefix, 8);
	cr_assert_eq(r[0].mode, RR_MODE_TCP);
	cr_assert_eq(r[1].mode, RR_MODE_REQUIRE);
	cr_assert_not(r[1].has_port);
	cr_assert_eq(r[2].program, 5);
	rules("");
	cr_assert_eq(conf.nrules + conf.nproblems, 0);
}

Test(conf, a_mistake_in_a_rule_of_the_environment_costs_that_rule)
{
	rules("mode=tcp; port=x mode=tcp; mode=auto");
	cr_assert_str_eq(conf.problems, "R:1:16: key 'port': 'x' is not a port (allowed: 1..65535, or a "
			 "range as 600-1023); rule ignored\n");
	cr_assert_eq(conf.nrules, 2);
	rules("port=5;mode=tcp");
	cr_assert_str_eq(conf.problems, "R:1:1: rule without 'mode'; rule ignored\n");
	rules("mode=tcp port 5");
	cr_assert_eq(conf.nrules, 0);
	cr_assert_eq(conf.nproblems, 2);
	rules("mode=tcp =5");
	cr_assert_str_eq(conf.problems, "R:1:10: '=5' is not 'key=value'; rule ignored\n");
	rules("role= mode=tcp");
	cr_assert_str_eq(conf.problems, "R:1:6: key 'role': '' is not a role (allowed: client, server); "
			 "rule ignored\n");
}

Test(conf, the_environments_rules_stand_around_the_files)
{
	char path[] = "/tmp/rr-conf-XXXXXX", var[64];
	FILE *f = fdopen(mkstemp(path), "w");

	fputs("credits = 5\n[rule]\nmode = tcp\n", f);
	fclose(f);
	snprintf(var, sizeof(var), "RDMARPC_CONF=%s", path);
	load((char[]){ "RDMARPC_RULES=mode=require" }, var, (char[]){ "RDMARPC_LAST_RULES=mode=auto" });
	unlink(path);
	cr_assert_str_eq(conf.problems, "");
	cr_assert_eq(conf.credits, 5);
	cr_assert_eq(conf.nrules, 3);
	cr_assert_eq(conf.rules[0].mode, RR_MODE_REQUIRE);
	cr_assert_eq(conf.rules[1].mode, RR_MODE_TCP);
	cr_assert_eq(conf.rules[2].mode, RR_MODE_AUTO);
}

Test(conf, a_missing_file_that_was_asked_for_is_a_problem)
{
	char dir[] = "/tmp/rr-none-XXXXXX", file[64], var[96], said[128];

	cr_assert(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/c", dir);
	snprintf(var, sizeof(var), "RDMARPC_CONF=%s", file);
	snprintf(said, sizeof(said), "%s: no such file; using defaults\n", file);
	load(var, NULL, NULL);
	cr_assert_str_eq(conf.problems, said);
	load(none, NULL, NULL);
	cr_assert_str_eq(conf.problems, "/dev/null/none: cannot be opened; using defaults\n");
	memset(&conf, 0, sizeof(conf));
	rr_conf_file(&conf, file, false);
	cr_assert_eq(conf.nproblems, 0);
	rmdir(dir);
}

/* Nothing is at the beginning of a process's memory. */
Test(conf, a_file_that_cannot_be_read_is_a_problem)
{
	memset(&conf, 0, sizeof(conf));
	rr_conf_file(&conf, "/proc/self/mem", false);
	cr_assert_str_eq(conf.problems, "/proc/self/mem: cannot be read (error 5)\n");
}

Test(conf, what_is_no_regular_file_is_not_read)
{
	char dir[] = "/tmp/rr-fifo-XXXXXX", fifo[64];

	rr_conf_file(&conf, "/dev/zero", true);
	cr_assert_str_eq(conf.problems, "/dev/zero: not a regular file; using defaults\n");
	cr_assert(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	rr_conf_file(&conf, fifo, false);	/* does not block */
	unlink(fifo);
	rmdir(dir);
	cr_assert_eq(conf.nproblems, 2);
	rr_conf_file(&conf, "/tmp", false);
	cr_assert_eq(conf.nproblems, 3);
}

Test(conf, a_huge_file_is_cut_off)
{
	char path[] = "/tmp/rr-conf-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_eq(ftruncate(fd, 1 << 30), 0);
	close(fd);
	rr_conf_file(&conf, path, true);
	unlink(path);
	cr_assert(strstr(conf.problems, ": longer than 262144 bytes; the rest is ignored\n"));
}

Test(conf, options_that_bound_each_other_are_brought_into_line)
{
	load_with_empty_file((char[]){ "RDMARPC_MEMORY=2m" }, NULL);
	cr_assert_str_eq(conf.problems, "option 'max_message': 8388608 is more than half of option "
			 "'memory'; using 1048576\n");
	cr_assert_eq(conf.max_message, 1u << 20);
	cr_assert_eq(conf.reply_chunk_max, 1u << 20);
}

Test(conf, loading_leaves_errno_and_descriptors_alone)
{
	int fd = dup(0);

	close(fd);
	errno = EXDEV;
	load(none, NULL, NULL);
	load_with_empty_file(NULL, NULL);
	errno = EXDEV;
	rr_conf_load(&conf, NULL);
	cr_assert_eq(errno, EXDEV);
	cr_assert_eq(dup(0), fd);
}

static char logged[8192];

static bool sink(enum rr_log_level level, const char *line, unsigned len, unsigned at)
{
	(void)level;
	(void)at;
	strncat(logged, line, len);
	return true;
}

Test(conf, problems_are_logged_a_line_each_and_the_rest_counted)
{
	rr_log_setup(RR_LOG_ERROR, sink);
	for (int i = 0; i < 60; i++)
		parse("credits = many\nbanana = 1\n");
	rr_conf_log_problems(&conf);
	cr_assert(strstr(logged, " error: f:1:11: option 'credits': 'many' is not a number "
			 "(allowed: 1..1024); using default '64'\n"));
	cr_assert(strstr(logged, " error: f:2:1: unknown option 'banana'; ignored\n"));
	cr_assert(strstr(logged, " more problems\n"));
}
