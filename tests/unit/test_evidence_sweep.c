/* SPDX-License-Identifier: BSD-3-Clause */
/* Files in the run directory whose servers were killed: when somebody looks for them, and which go. */
#include "tests/unit/evidence_played.h"

TestSuite(evidence_sweep, .init = begin, .timeout = 60);

static struct entry *left(const char *name)
{
	struct entry *e = &k.entry[k.entries++];

	cr_assert_lt(k.entries, ENTRIES);
	*e = (struct entry){ .uid = 1000, .age = 61, .ino = 5, .ino_then = 5, .connect = ECONNREFUSED };
	snprintf(e->name, sizeof(e->name), "%s", name);
	return e;
}

static void sweeps(void)
{
	now += 100 * RR_SEC;
	k.opens = 0;
	rr_conn_serves_not(rr_conn_serves(SERVER));
	cr_assert_eq(k.opens, 1);
}

Test(evidence_sweep, once_a_minute_somebody_sweeps)
{
	now = 7 * RR_SEC;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 1);
	now += 60 * RR_SEC - 1;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 1);
	now++;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 2);
	now += 60 * RR_SEC;
	run_dir = "";
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 2);
	run_dir = "/run/x";
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 2, "it is done");
}

Test(evidence_sweep, a_file_without_an_owner_is_removed)
{
	left(".");
	left("rdmarpc-on-1-0.0.0.0");
	sweeps();
	cr_assert(k.unlinkats == 1 && !strcmp(k.gone[0], "rdmarpc-on-1-0.0.0.0"));
	cr_assert_eq(k.closed, k.dir);
	cr_assert_eq(k.closes, 2);
	cr_assert_str_eq(k.asked[0], "/run/x/rdmarpc-on-1-0.0.0.0");
	k.no_socket = true;
	sweeps();
	cr_assert(k.unlinkats == 1 && k.closes == 3, "without a socket nobody can be asked");
	k.no_socket = false;
	k.first_fd = 0;
	k.next_fd = -2;		/* the names', and then 0 */
	sweeps();
	cr_assert(k.unlinkats == 2 && k.closes == 5);
	k.dir = 0;
	sweeps();
	cr_assert(k.unlinkats == 3 && k.closed == 0);
}

static void is_kept(struct entry e)
{
	afresh();
	*left("rdmarpc-on-1-0.0.0.0") = e;
	sweeps();
	cr_assert_eq(k.unlinkats, 0);
}

Test(evidence_sweep, any_other_is_left_alone)
{
	struct entry good = *left("rdmarpc-on-1-0.0.0.0"), e;

	e = good, e.is_file = true, is_kept(e);
	e = good, e.uid = 1001, is_kept(e);
	e = good, e.age = 60, is_kept(e);
	e = good, e.ino_then = 6, is_kept(e);
	e = good, e.connect = 0, is_kept(e);
	e = good, e.connect = EACCES, is_kept(e);
	e = good, strcpy(e.name, "rdmarpc-ox-1-0.0.0.0"), is_kept(e);
	e = good, strcpy(e.name, "rdmarpc-on-1-0.0.0.g"), is_kept(e);
	e = good, strcpy(e.name, "rdmarpc-on"), is_kept(e);
	cr_assert_eq(k.stats, 0);
	afresh();
	left("rdmarpc-on-1-0.0.0.0")->uid = 1001;
	k.uid = 0;
	sweeps();
	cr_assert_eq(k.unlinkats, 1, "root may");
}

Test(evidence_sweep, a_path_that_is_too_long_is_none)
{
	char dir[200];

	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	for (size_t len = 86; len < 90; len++) {
		dir[len] = 0;
		afresh();
		run_dir = dir;
		left("rdmarpc-on-1-0.0.0.0");
		sweeps();
		cr_assert_eq(k.unlinkats, len + 1 + 20 < 108, "%zu", len);
		dir[len] = 'd';
	}
}

/* So that others cannot keep this thread busy. */
Test(evidence_sweep, no_more_than_64_are_asked_for_in_a_sweep)
{
	char name[40];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "rdmarpc-on-%d-0.0.0.0", i);
		left(name);
	}
	sweeps();
	cr_assert_eq(k.unlinkats, 64);
}

Test(evidence_sweep, nor_are_more_than_512_looked_at)
{
	for (int i = 0; i < 1100; i++)
		left("other");
	sweeps();
	cr_assert_eq(k.given, 512);
}
