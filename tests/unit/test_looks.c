/* SPDX-License-Identifier: BSD-3-Clause */
/* When the kernel is asked again about an array of poll(). */
#include <criterion/criterion.h>

#include "core/base/os.h"
#include "preload/looks.h"
#include "preload/pollrest.h"
#include "tests/unit/played_clock.h"

static struct pollfd fds[8];

/* A listener and a connection of ours that is always asked. */
static struct rr_work listener_and_ours(void)
{
	return (struct rr_work){ .fds = fds, .n = 2, .others = 1, .listeners = 1 };
}

/* Is a look remembered? */
static bool noted(const struct rr_work *w)
{
	rr_looks_forget();
	rr_looks_note(w);
	return rr_looks_last(w);
}

Test(looks, a_look_at_a_listener_is_remembered_for_this_array_alone)
{
	struct rr_work w = listener_and_ours(), other = w;

	other.fds = &fds[4];
	cr_assert_eq(rr_looks_last(&w), 0);
	cr_assert(noted(&w));
	cr_assert_leq(rr_looks_last(&w), rr_now());
	cr_assert_eq(rr_looks_last(&other), 0);
}

/* Times are kept in microseconds. */
Test(looks, it_is_recent_until_the_gap_is_over)
{
	struct rr_work w = listener_and_ours();

	now = START + 7 * RR_USEC;
	cr_assert_not(rr_looks_recent(&w));
	rr_looks_note(&w);
	cr_assert_eq(rr_looks_last(&w), START + 7 * RR_USEC);
	cr_assert_eq(rr_looks_gap(&w), 20 * RR_USEC);
	now = START + 27 * RR_USEC - 1;
	cr_assert(rr_looks_recent(&w));
	now++;
	cr_assert_not(rr_looks_recent(&w));
}

Test(looks, the_same_entries_are_another_array_if_there_are_more)
{
	struct rr_work w = listener_and_ours(), more = w;

	more.n++;
	cr_assert(noted(&w));
	cr_assert_eq(rr_looks_last(&more), 0);
}

Test(looks, a_socket_that_this_process_connects_makes_it_forget)
{
	struct rr_work w = listener_and_ours();

	rr_looks_note(&w);
	rr_looks_forget();
	cr_assert_eq(rr_looks_last(&w), 0);
	cr_assert_not(rr_looks_recent(&w));
}

Test(looks, it_forgets_all_arrays)
{
	enum { N = 500 };
	static struct pollfd many[N][2];
	struct rr_work w = listener_and_ours();

	for (int i = 0; i < N; i++) {
		w.fds = many[i];
		rr_looks_note(&w);
		cr_assert_gt(rr_looks_last(&w), 0, "%d", i);
	}
	rr_looks_forget();
	for (int i = 0; i < N; i++) {
		w.fds = many[i];
		cr_assert_eq(rr_looks_last(&w), 0, "%d", i);
	}
}

/* With the set, which tells of some of them, and without it. */
Test(looks, connections_at_rest_are_no_more_urgent_than_listeners)
{
	struct rr_work w = listener_and_ours();

	w.resting = 1;
	cr_assert(noted(&w) && rr_looks_gap(&w) == 20 * RR_USEC);
	w.listeners = w.others = 0;
	cr_assert(noted(&w), "a client's");
	w.set = true;
	w.standing = 1;
	cr_assert(noted(&w));
	w.resting = 2;
	cr_assert(noted(&w));
	w = listener_and_ours();
	w.resting = 62;
	cr_assert_eq(rr_looks_gap(&w), 20 * RR_USEC);
	w.resting = 63;
	cr_assert_eq(rr_looks_gap(&w), 20 * RR_USEC);
	w.resting = 64;
	cr_assert_eq(rr_looks_gap(&w), 4000 + 250 * 65, "one look takes longer");
}

Test(looks, each_call_asks_where_the_array_has_anything_that_is_urgent)
{
	struct rr_slot s = { .kernel = true };
	struct rr_work w = listener_and_ours();

	w.others = 2;	/* a pipe, say */
	cr_assert_not(noted(&w));
	w = listener_and_ours();
	w.plain = 1;
	cr_assert_not(noted(&w));
	w = listener_and_ours();
	w.awake = &s;	/* a connection about which the kernel's answer counts */
	cr_assert_not(noted(&w));
	s.kernel = false;
	cr_assert(noted(&w));
	w.listeners = w.others = 0;
	cr_assert_not(noted(&w));
	/* What was noted of it before does not count either. */
	w = listener_and_ours();
	cr_assert(noted(&w));
	w.plain = 1;
	cr_assert_eq(rr_looks_last(&w), 0);
}

Test(looks, a_long_array_has_its_pause_whatever_it_has)
{
	struct rr_work w = { .fds = fds, .n = 100, .others = 64 };
	rr_time gap = rr_looks_gap(&w);

	cr_assert(noted(&w));
	w.others++;
	cr_assert_gt(rr_looks_gap(&w), gap);
	w.others = 63;
	cr_assert_not(noted(&w));
}

Test(looks, the_pause_is_longer_for_each_that_the_kernel_looks_at)
{
	struct rr_work w = { .fds = fds, .n = 100, .others = 40, .plain = 7, .resting = 5 };

	cr_assert_eq(rr_looks_gap(&w), 4000 + 250 * 52);
	w.standing = 3;		/* the set has these */
	w.set = true;
	cr_assert_eq(rr_looks_gap(&w), 4000 + 250 * 50);
}
