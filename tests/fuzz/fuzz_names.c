/* SPDX-License-Identifier: BSD-3-Clause */
/* Names in the run directory and text of /proc, whatever users put there: what is taken is
 * within its bounds, a name that is taken means what it says, and an environment has an entry
 * if and only if a plain search finds it. */
#include <inttypes.h>
#include <string.h>

#include "config/rundir.h"
#include "tests/fuzz/fuzz.h"
#include "tools/run/procfs.h"

/* Numbers may have zeroes before them; nothing else is left open. */
static void check_name(const char *text)
{
	struct rr_segname n, again;
	char back[128];

	if (!rr_segname_parse(text, &n))
		return;
	fuzz_check(n.pid > 0);
	if (n.died)
		snprintf(back, sizeof(back), "%d.%" PRIu64 ".%" PRIu64, n.pid, n.ticks, n.died);
	else
		snprintf(back, sizeof(back), "%d.%" PRIu64, n.pid, n.ticks);
	fuzz_check(rr_segname_parse(back, &again));
	fuzz_check(again.pid == n.pid && again.ticks == n.ticks && again.died == n.died);
	fuzz_check(strspn(text, "0123456789.") == strlen(text));
}

static void check_stat(const char *text)
{
	struct rr_procfs_stat st;

	if (rr_procfs_stat(text, &st))
		fuzz_check(st.parent >= 0 && st.session >= 0);
}

/* A name that looks like the rest of the line changes nothing. */
static void check_name_in_stat(const char *name)
{
	static const char rest[] = ") S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9 9 9 9 1234 9\n";
	struct rr_procfs_stat st;
	char *line = malloc(strlen(name) + sizeof(rest) + 8);

	fuzz_check(line);
	sprintf(line, "42 (%s%s", name, rest);
	fuzz_check(rr_procfs_stat(line, &st));
	fuzz_check(st.parent == 7 && st.session == 9 && st.ticks == 4711 && st.stack == 1234 && !st.over);
	free(line);
}

static void check_environ(const char *bytes, size_t n)
{
	static const char *const entries[] = { "RDMARPC_FAMILY=0123", "A=", "", "A" };

	for (unsigned i = 0; i < 4; i++) {
		size_t len = strlen(entries[i]);
		bool found = false;

		for (size_t at = 0; at + len <= n && !found; at++)
			found = at < n && (!at || !bytes[at - 1]) && !memcmp(bytes + at, entries[i], len) &&
				(at + len == n || !bytes[at + len]);
		fuzz_check(rr_procfs_environ_has(bytes, n, entries[i]) == found);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = malloc(len + 1), *bytes = (char *)tight(data, len);
	struct rr_procfs_tcp tcp;
	uid_t uid[3];

	fuzz_check(text);
	memcpy(text, data, len);
	text[len] = '\0';
	check_name(text);
	check_stat(text);
	check_name_in_stat(text);
	rr_procfs_uids(text, uid);
	rr_procfs_tcp(text, &tcp);
	check_environ(bytes, len);
	free(bytes);
	free(text);
	return 0;
}
