/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/run/procfs.h"

#include <criterion/criterion.h>
#include <string.h>

/* proc(5): pid (name) state, then numbers: parent, group, session, … */
#define FIELDS(state, parent, session, threads, ticks, rest) \
	state " " parent " 33 " session " 34821 44 4194304 1 2 3 4 5 6 7 8 20 0 " threads " 0 " ticks rest

Test(procfs, a_process_is_what_its_stat_says)
{
	struct rr_procfs_stat st;

	cr_assert(rr_procfs_stat("77 (a) b (c) " FIELDS("S", "41", "42", "3", "18446744073709551615",
							 " 10 20 30 40 50 140736000000000 60\n"), &st));
	cr_assert(st.parent == 41 && st.session == 42 && st.ticks == UINT64_MAX && st.stack == 140736000000000 && !st.over);
	cr_assert(rr_procfs_stat("77 (x) " FIELDS("R", "2147483647", "2147483647", "1", "9", "\n"), &st));
	cr_assert(st.parent == INT32_MAX && st.session == INT32_MAX && st.ticks == 9);
	cr_assert_eq(st.stack, 0, "who may not know");
}

Test(procfs, it_is_over_when_all_of_its_threads_have_ended)
{
	static const struct { const char *text; bool over; } c[] = {
		{ "1 (x) " FIELDS("X", "1", "1", "9", "1", ""), true }, { "1 (x) " FIELDS("Z", "1", "1", "1", "1", ""), true },
		{ "1 (x) " FIELDS("Z", "1", "1", "0", "1", ""), true }, { "1 (x) " FIELDS("Z", "1", "1", "2", "1", ""), false },
		{ "1 (x) " FIELDS("S", "1", "1", "1", "1", ""), false }, { "1 (x) " FIELDS("S", "1", "1", "0", "1", ""), false },
	};
	struct rr_procfs_stat st;

	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		cr_assert(rr_procfs_stat(c[i].text, &st), "%zu", i);
		cr_assert_eq(st.over, c[i].over, "%zu", i);
	}
}

Test(procfs, a_stat_that_is_none_is_refused)
{
	static const char *const bad[] = {
		"", "77", "77 (x", "77 (x)", "77 (x) ", "77 (x) S", "77 (x) S 1 2", "77 (x) S 1 2 3 4 5",
		"1 (x) " FIELDS("S", "2147483648", "1", "1", "1", ""), "1 (x) " FIELDS("S", "1", "2147483648", "1", "1", ""),
		"1 (x) " FIELDS("S", "1", "1", "2147483648", "1", ""),
		"1 (x) " FIELDS("S", "1", "1", "1", "18446744073709551616", ""),
		"1 (x) " FIELDS("S", "1", "1", "1", "18446744073709551620", ""),
		"1 (x) " FIELDS("S", "1", "1", "1", "x", ""), "1 (x) " FIELDS("S", "-1", "1", "1", "1", ""),
		"1 (x) " FIELDS("S", "1", "x", "1", "1", ""), "1 (x) " FIELDS("S", "1", "1", "x", "1", ""),
		"1 (x) " FIELDS("S", "1", "1", "1", "", ""),
	};
	struct rr_procfs_stat st;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_not(rr_procfs_stat(bad[i], &st), "%zu: %s", i, bad[i]);
}

Test(procfs, users_are_the_three_of_its_status)
{
	uid_t uid[3] = { 9, 9, 9 };

	cr_assert(rr_procfs_uids("Name:\tx\nUid:\t1\t2\t4294967295\t4\nGid:\t5\t6\t7\t8\n", uid));
	cr_assert(uid[0] == 1 && uid[1] == 2 && uid[2] == UINT32_MAX);
	cr_assert_not(rr_procfs_uids("Name:\tx\nGid:\t5\t6\t7\t8\n", uid));
	cr_assert_not(rr_procfs_uids("Name:\tx\nUid:\t1\t2\n", uid));
	cr_assert_not(rr_procfs_uids("Name:\tx\nUid:\t1\t2\t4294967296\n", uid));
	cr_assert_not(rr_procfs_uids("Uid:\t1\t2\t3\t4\n", uid), "the name is in the first line");
}

Test(procfs, a_line_of_sockets_has_hex_ports)
{
	struct rr_procfs_tcp t;

	cr_assert(rr_procfs_tcp("  0: 0100007F:aBCf 00000000:0000 0A 00000000:00000000 00:00000000 00000000 "
				"4294967295        0 18446744073709551615 1 0 100\n", &t));
	cr_assert(t.port == 0xabcf && t.listening && t.maker == UINT32_MAX && t.inode == UINT64_MAX);
	cr_assert(rr_procfs_tcp("10: 00000000000000000000000000000000:0801 0:0 0a 0 0 0 7 0 8\n", &t));
	cr_assert(t.port == 2049 && t.listening && t.maker == 7 && t.inode == 8);
	cr_assert(rr_procfs_tcp("10: 0:FFFF 0:0 01 0 0 0 0 0 0\n", &t));
	cr_assert(t.port == 0xffff && !t.listening && !t.maker && !t.inode);
}

Test(procfs, what_is_no_line_of_sockets_is_refused)
{
	static const char *const bad[] = {
		"", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
		"1:", "1: 0:1", "1: 0:1 0:0", "1: 0:1 0:0 0A 0 0 0 7 0", "1: 0:1 0:0 0A 0 0 0", "1: 0:10000 0:0 0A 0 0 0 7 0 8",
		"1: 01 00 0A 0 0 0 7 0 8", "1: 0:x 0:0 0A 0 0 0 7 0 8", "1: 0:1 0:0 x 0 0 0 7 0 8", "1: 0:1 0:0 0A 0 0 0 x 0 8",
		"1: 0:1 0:0 0A 0 0 0 4294967296 0 8", "1: 0:1 0:0 0A 0 0 0 7 0 x", "1: 0:1 0:0 0A 0 0 0 7 0 18446744073709551616",
		"1: 0:1 0:0 g 0 0 0 7 0 8", "1: 0:G 0:0 0A 0 0 0 7 0 8", "1: 0:1 0:0 0A 0 0 0 a 0 8", "1: 0:/ 0:0 0A 0 0 0 7 0 8",
		"1: 0:@ 0:0 0A 0 0 0 7 0 8", "1: 0:` 0:0 0A 0 0 0 7 0 8",
	};
	struct rr_procfs_tcp t;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_not(rr_procfs_tcp(bad[i], &t), "%zu: %s", i, bad[i]);
}

Test(procfs, an_entry_of_an_environment_is_a_whole_string)
{
	static const char env[] = "A=1\0LONG=value\0\0B=2\0last=x";
	static const char *const there[] = { "A=1", "LONG=value", "", "B=2", "last=x" };
	static const char *const not[] = { "A=", "A=12", "A=2", "LONG=valuf", "ONG=value", "1", "last=", "last=y" };

	for (size_t i = 0; i < sizeof(there) / sizeof(*there); i++)
		cr_assert(rr_procfs_environ_has(env, sizeof(env) - 1, there[i]), "%s", there[i]);
	for (size_t i = 0; i < sizeof(not) / sizeof(*not); i++)
		cr_assert_not(rr_procfs_environ_has(env, sizeof(env) - 1, not[i]), "%s", not[i]);
	cr_assert_not(rr_procfs_environ_has(env, 0, "A=1"));
	cr_assert_not(rr_procfs_environ_has(env, 0, ""));
	cr_assert_not(rr_procfs_environ_has(env, sizeof(env) - 2, "last=x"), "its end is cut off");
	cr_assert(rr_procfs_environ_has(env, sizeof(env), "last=x"));
}
