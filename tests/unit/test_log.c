/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"

static char last[2048];
static unsigned last_len, last_at, lines;
static enum rr_log_level last_level;
static bool room = true;

static bool sink(enum rr_log_level level, const char *line, unsigned len, unsigned at)
{

	memcpy(last, line, len);
	last[len] = '\0';
	last_len = len;
	lines++;
	errno = EBADF;
	last_level = level;
	last_at = at;
	return room;
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wformat-truncation"
#endif

/* glibc is the oracle for the subset we know. */
#define SAME(...) do { \
	char ours[256], theirs[256]; \
	unsigned n = rr_fmt(ours, sizeof(ours), __VA_ARGS__); \
	snprintf(theirs, sizeof(theirs), __VA_ARGS__); \
	cr_assert_str_eq(ours, theirs); \
	cr_assert_eq(n, strlen(theirs)); \
} while (0)

Test(log, formats_numbers_as_printf_does)
{
	SAME("%d %i %d %d", 0, -1, INT_MAX, INT_MIN);
	SAME("%u %x %X", UINT_MAX, 0xabcdefu, 0xabcdefu);
	SAME("%ld %lu %lx", LONG_MIN, ULONG_MAX, 1ul << 31);
	SAME("%lld %llu %llx", LLONG_MIN, ULLONG_MAX, 1ull << 63);
	SAME("%zu %zx %zd", (size_t)-1, (size_t)4096, (ssize_t)-3);
	SAME("%5d|%05d|%5d|%05d|%1d", 42, 42, -42, -42, 12345);
	SAME("%08x|%8x|%02u", 0xbeefu, 0xbeefu, 7u);
}

Test(log, formats_text_as_printf_does)
{
	SAME("%s|%5s|%c|%%|%s", "abc", "ab", 'x', "");
	SAME("%.3s|%.*s|%.0s|", "abcdef", 2, "abcdef", "abc");
	SAME("no conversions");
	SAME("%p", (void *)0x1234);
}

Test(log, text_with_a_precision_need_not_be_terminated)
{
	char *raw = malloc(3), out[8];

	memcpy(raw, "abc", 3);
	rr_fmt(out, sizeof(out), "%.*s", 3, raw);
	cr_assert_str_eq(out, "abc");
	free(raw);
}

Test(log, null_text_is_printed_not_followed)
{
	char out[16];
	const char *volatile none = NULL;

	rr_fmt(out, sizeof(out), "%s", none);
	cr_assert_str_eq(out, "(null)");
}

Test(log, output_is_truncated_to_size_and_terminated)
{
	char *out = malloc(4);

	cr_assert_eq(rr_fmt(out, 4, "%s", "abcdefgh"), 3);
	cr_assert_str_eq(out, "abc");
	cr_assert_eq(rr_fmt(out, 1, "%d", 12), 0);
	cr_assert_str_eq(out, "");
	cr_assert_eq(rr_fmt(out, 0, "%d", 12), 0);
	free(out);
}

Test(log, a_line_has_time_pid_and_level)
{
	int y, mo, d, h, mi, s, us, pid;
	char level[16], text[16];

	rr_log_setup(RR_LOG_DEBUG, sink);
	rr_warn("n=%d", 5);
	cr_assert_eq(sscanf(last, "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ rdmarpc[%d] %15[a-z]: %15s",
			    &y, &mo, &d, &h, &mi, &s, &us, &pid, level, text), 10);
	cr_assert_eq(pid, getpid());
	cr_assert_str_eq(level, "warn");
	cr_assert_str_eq(text, "n=5");
	cr_assert_eq(last[last_len - 1], '\n');
}

Test(log, the_command_is_in_each_line_in_one_word)
{
	char want[64];

	rr_log_setup(RR_LOG_DEBUG, sink);
	rr_log_name("a b\n");
	rr_err("x");
	snprintf(want, sizeof(want), " rdmarpc[%d] a_b? error: x\n", getpid());
	cr_assert(strstr(last, want), "%s", last);
	cr_assert_str_eq(last + last_at, "a_b? error: x\n");
	cr_assert_eq(last_level, RR_LOG_ERROR);
	rr_log_name("exactly16letters");
	rr_err("x");
	cr_assert_str_eq(last + last_at, "exactly16letter error: x\n");
}

Test(log, the_level_changes_only_where_there_is_a_log)
{
	rr_log_setup(RR_LOG_DEBUG, NULL);
	rr_log_follow(1 + RR_LOG_DEBUG);
	cr_assert_eq(rr_log_level, RR_LOG_OFF);
	rr_log_setup(RR_LOG_OFF, sink);
	rr_warn("silent");
	rr_log_follow(1 + RR_LOG_INFO);
	rr_info("heard");
	cr_assert_eq(lines, 1);
	rr_log_follow(6);
	rr_log_follow(UINT32_MAX);
	rr_info("no level: nothing changes");
	cr_assert_eq(lines, 2);
	rr_log_follow(0);
	rr_err("as configured");
	cr_assert_eq(lines, 2);
}

Test(log, a_line_without_room_is_counted)
{
	rr_log_setup(RR_LOG_DEBUG, sink);
	room = false;
	rr_err("one");
	rr_err("two");
	room = true;
	rr_err("three");
	cr_assert(strstr(last, "[2 lines left out] three"), "%s", last);
}

Test(log, the_date_is_the_calendars)
{
	char want[16];
	time_t before = time(NULL), after;
	struct tm tm;

	rr_log_setup(RR_LOG_ERROR, sink);
	do {	/* not across midnight */
		before = time(NULL);
		rr_err("x");
		after = time(NULL);
	} while (before / 86400 != after / 86400);
	gmtime_r(&before, &tm);
	strftime(want, sizeof(want), "%Y-%m-%d", &tm);
	cr_assert_eq(strncmp(last, want, 10), 0, "%s", last);
}

Test(log, levels_above_the_threshold_are_silent)
{
	rr_log_setup(RR_LOG_WARN, sink);
	rr_info("no");
	rr_debug("no");
	cr_assert_eq(lines, 0);
	rr_warn("yes");
	rr_err("yes");
	cr_assert_eq(lines, 2);
	rr_log_setup(RR_LOG_OFF, sink);
	rr_err("no");
	cr_assert_eq(lines, 2);
	rr_log_setup(RR_LOG_DEBUG, NULL);
	rr_err("no sink");
	cr_assert_eq(lines, 2);
}

/* A peer that makes connections, each worth a line, must not fill a disk. */
Test(log, a_flood_is_cut_off_and_counted)
{
	unsigned first;

	rr_log_setup(RR_LOG_INFO, sink);
	for (int i = 0; i < 100000; i++)
		rr_info("offer");
	cr_assert(lines >= 100 && lines < 2000, "%u", lines);
	first = lines;
	usleep(120000);
	rr_err("after it");
	cr_assert_eq(lines, first + 1);
	cr_assert(strstr(last, " lines left out] after it"), "%s", last);
	usleep(120000);
	rr_err("and on");
	cr_assert_not(strstr(last, "left out"), "%s", last);
}

Test(log, who_wants_everything_gets_it)
{
	rr_log_setup(RR_LOG_DEBUG, sink);
	for (int i = 0; i < 5000; i++)
		rr_info("offer");
	cr_assert_eq(lines, 5000);
}

Test(log, errno_is_left_alone)
{
	rr_log_setup(RR_LOG_DEBUG, sink);
	errno = EXDEV;
	rr_err("x");
	cr_assert_eq(lines, 1);
	cr_assert_eq(errno, EXDEV);
}

Test(log, a_line_stays_one_line_whatever_is_in_it)
{
	char big[3000];

	rr_log_setup(RR_LOG_DEBUG, sink);
	rr_err("a%sb", "\n\r\033[31m\x7f");
	cr_assert(strstr(last, ": a???[31m?b\n"), "%s", last);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	rr_err("%s", big);
	cr_assert_leq(last_len, 1024);
	cr_assert_eq(strchr(last, '\n'), last + last_len - 1);
}
