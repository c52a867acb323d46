/* SPDX-License-Identifier: BSD-3-Clause */
/* The decision how long to spin: costs and observations in, nanoseconds out. */
#include <criterion/criterion.h>

#include "core/base/compiler.h"
#include "core/base/cpus.h"
#include "core/conn/base/spin.h"

/* A row is the quiet case, but for what it names. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define BOUND	(150 * RR_USEC)
#define WORTH	(50 * RR_USEC)
#define TRIAL	(4 * BOUND)

/* A peer that runs on another CPU, and nobody else who would want ours. */
#define QUIET	.bound = BOUND, .worth = WORTH, .learned = WORTH, .cpu = 1, .peer_cpu = 2, .cpus = 2, \
		.peer = RR_PEER_RUNS, .peer_spins = true

static const struct {
	const char *what;
	struct rr_spin_in in;
	rr_time spin;
	uint32_t yields;
} rows[] = {
	{ "nothing against it: what a sleep is worth", { QUIET }, WORTH, 0 },
	{ "nothing is known of the peer", { QUIET, .peer_cpu = 0, .peer = RR_PEER_UNKNOWN }, WORTH, 0 },
	{ "our CPU is not known", { QUIET, .cpu = 0, .peer_cpu = 0 }, WORTH, 0 },
	{ "the peer is on our CPU", { QUIET, .peer_cpu = 1 }, 0, 1 },
	{ "… and asleep", { QUIET, .peer_cpu = 1, .peer = RR_PEER_SLEEPS }, 0, 1 },
	{ "… and is on trial", { QUIET, .peer_cpu = 1, .learned = TRIAL }, 0, 1 },
	{ "… whatever the profile", { QUIET, .peer_cpu = 1, .worth = BOUND, .learned = BOUND }, 0, 1 },
	{ "another thread spins, there are CPUs", { QUIET, .spinners = 1 }, WORTH, 0 },
	{ "as many as there are CPUs spin", { QUIET, .spinners = 2 }, 0, 8 },
	{ "a thread of ours serves the peer, there are CPUs", { QUIET, .serving = 1 }, WORTH, 0 },
	{ "as many as there are CPUs serve it", { QUIET, .serving = 2 }, 0, 0 },
	{ "… or spin", { QUIET, .serving = 1, .spinners = 1 }, 0, 0 },
	{ "… while it is at work", { QUIET, .serving = 2, .spun = WORTH, .at_work = true }, 0, 0 },
	{ "a quota of less than a CPU", { QUIET, .cpus = 0 }, 0, 8 },
	{ "somebody took our CPU", { QUIET, .crowded = true }, 0, 1 },
	{ "… and kept it", { QUIET, .crowded = true, .hogged = true }, 0, 0 },
	{ "on the peer's CPU is somebody who keeps it", { QUIET, .peer_cpu = 1, .hogged = true }, 0, 0 },
	{ "… and the peer was woken", { QUIET, .peer_cpu = 1, .hogged = true, .peer = RR_PEER_SLEEPS }, 0, 1 },
	{ "… which has just been no good", { QUIET, .peer_cpu = 1, .hogged = true, .just_hogged = true,
		.peer = RR_PEER_SLEEPS }, 0, 0 },
	{ "waits were long lately", { QUIET, .learned = 0 }, 0, 0 },
	{ "… and the peer is on our CPU", { QUIET, .learned = 0, .peer_cpu = 1 }, 0, 0 },
	{ "the peer sleeps and will again", { QUIET, .peer = RR_PEER_SLEEPS, .peer_spins = false }, 0, 0 },
	{ "the peer sleeps for the last time", { QUIET, .peer = RR_PEER_SLEEPS }, WORTH, 0 },
	{ "… CPU time is free", { QUIET, .peer = RR_PEER_SLEEPS, .peer_spins = false, .worth = BOUND,
		.learned = BOUND }, BOUND, 0 },
	{ "a trial is longer than all", { QUIET, .learned = TRIAL }, TRIAL, 0 },
	{ "spinning is off", { .cpus = 2 }, 0, 0 },
	{ "the peer sleeps and will again: no longer than the bound", { QUIET, .peer = RR_PEER_SLEEPS, .peer_spins = false,
		.learned = BOUND }, 0, 0 },
	{ "… on trial", { QUIET, .peer = RR_PEER_SLEEPS, .peer_spins = false, .learned = BOUND + 1 }, BOUND + 1, 0 },
	{ "the peer runs and will sleep", { QUIET, .peer_spins = false }, WORTH, 0 },
	{ "the peer was woken on our CPU, waits were long lately", { QUIET, .peer_cpu = 1, .peer = RR_PEER_SLEEPS,
		.learned = 0 }, 0, 0 },
	{ "… time is over", { QUIET, .peer_cpu = 1, .peer = RR_PEER_SLEEPS, .spun = WORTH }, 0, 0 },
	{ "time is over", { QUIET, .spun = WORTH }, 0, 0 },
	{ "time is over, the peer is at work", { QUIET, .spun = WORTH, .at_work = true }, WORTH, 0 },
	{ "… up to the bound", { QUIET, .spun = BOUND - 10, .at_work = true }, 10, 0 },
	{ "… and no further", { QUIET, .spun = BOUND, .at_work = true }, 0, 0 },
	{ "… unless it is on our CPU by now", { QUIET, .spun = WORTH, .at_work = true, .peer_cpu = 1 }, 0, 0 },
};

Test(spin_time, the_table)
{
	for (size_t i = 0; i < rr_array_size(rows); i++) {
		cr_expect_eq(rr_spin_time(&rows[i].in), rows[i].spin, "%s: %lu", rows[i].what,
			     (unsigned long)rr_spin_time(&rows[i].in));
		cr_expect_eq(rr_spin_yields(&rows[i].in), rows[i].yields, "%s: %u times", rows[i].what,
			     rr_spin_yields(&rows[i].in));
	}
}

/* Whatever a peer says of itself, nobody spins for longer than its own bound. */
Test(spin_time, no_observation_goes_beyond_the_bound)
{
	for (uint32_t bits = 0; bits < 1 << 10; bits++) {
		struct rr_spin_in in = {
			.bound = BOUND, .worth = bits & 1 ? BOUND : WORTH, .learned = bits & 1 ? BOUND : WORTH,
			.cpu = 1, .peer_cpu = bits >> 1 & 3, .cpus = 1, .spinners = bits >> 3 & 1,
			.peer = (enum rr_peer_is)((bits >> 4 & 3) % 3), .peer_spins = bits >> 6 & 1,
			.at_work = bits >> 7 & 1, .crowded = bits >> 8 & 1,
		};

		for (in.spun = 0; in.spun < 10 * BOUND; in.spun += WORTH / 3)
			cr_assert_leq(rr_spin_time(&in), in.spun < BOUND ? BOUND - in.spun : 0);
	}
}

static rr_time learns(rr_time learned, rr_time took, rr_time wakes, bool at_work)
{
	struct rr_spin_in in = { QUIET };
	struct rr_spin_wait w = { took, wakes, at_work };

	in.learned = learned;
	return rr_spin_learn(&in, &w);
}

Test(spin_time, a_wait_that_a_spin_would_have_covered_brings_it_back_at_once)
{
	cr_assert_eq(learns(0, WORTH - 1, 0, false), WORTH);
	cr_assert_eq(learns(0, 4 * WORTH, 3 * WORTH + 1, false), WORTH, "all but the wake-ups");
	cr_assert_eq(learns(0, WORTH, 9 * WORTH, false), WORTH, "more wake-ups than time");
	cr_assert_eq(learns(0, BOUND - 1, 0, true), WORTH, "the peer was at work");
}

Test(spin_time, longer_waits_end_it_by_and_by)
{
	rr_time t = WORTH;
	int n = 0;

	cr_assert_eq(learns(0, BOUND, 0, true), 0);
	cr_assert_eq(learns(WORTH, WORTH, 0, false), WORTH / 2);
	cr_assert_eq(learns(TRIAL, WORTH, 0, false), WORTH / 2);
	cr_assert_eq(learns(2 * RR_USEC, WORTH, 0, false), RR_USEC);
	cr_assert_eq(learns(2 * RR_USEC - 1, WORTH, 0, false), 0);
	for (; t; n++)
		t = learns(t, WORTH, 0, false);
	cr_assert_leq(n, 7);
}

Test(spin_time, a_quota_counts_whole_cpus)
{
	cr_assert_eq(rr_cpus_of_quota("max 100000\n"), UINT32_MAX);
	cr_assert_eq(rr_cpus_of_quota("200000 100000\n"), 2);
	cr_assert_eq(rr_cpus_of_quota("150000 100000\n"), 1);
	cr_assert_eq(rr_cpus_of_quota("50000 100000\n"), 0);
	cr_assert_eq(rr_cpus_of_quota("-1\n100000\n"), UINT32_MAX, "version one, no limit");
	cr_assert_eq(rr_cpus_of_quota("300000\n100000\n"), 3, "version one");
	cr_assert_eq(rr_cpus_of_quota(""), UINT32_MAX);
	cr_assert_eq(rr_cpus_of_quota("100000"), UINT32_MAX);
	cr_assert_eq(rr_cpus_of_quota("100000 0"), UINT32_MAX);
	cr_assert_eq(rr_cpus_of_quota("99999999999999999999999999 1"), UINT32_MAX);
}

Test(spin_time, one_cpu_is_a_list_of_one_number)
{
	cr_assert(rr_cpus_are_one("0\n"));
	cr_assert(rr_cpus_are_one("12"));
	cr_assert_not(rr_cpus_are_one("0-1\n"));
	cr_assert_not(rr_cpus_are_one("0,2\n"));
	cr_assert_not(rr_cpus_are_one(""), "nobody knows");
	cr_assert_not(rr_cpus_are_one("\n"));
}
