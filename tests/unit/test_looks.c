/* SPDX-License-Identifier: BSD-3-Clause */
/* When the kernel is asked again about an array of poll(). */
#include <criterion/criterion.h>

#include "core/base/os.h"
#include "preload/looks.h"
#include "preload/pollrest.h"

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

Test(looks, it_is_recent_until_the_gap_is_over)
{
	struct rr_work w = listener_and_ours();
	bool recent = false;

	for (int i = 0; i < 1000 && !recent; i++) {	/* the thread may lose its CPU */
		rr_looks_note(&w);
		recent = rr_looks_recent(&w);
	}
	cr_assert(recent);
	while (rr_now() < rr_looks_last(&w) + rr_looks_gap(&w))
		;
	cr_assert_not(rr_looks_recent(&w));
}

Test(looks, a_socket_that_this_process_connects_makes_it_forget)
{
	struct rr_work w = listener_and_ours();

	rr_looks_note(&w);
	rr_looks_forget();
	cr_assert_eq(rr_looks_last(&w), 0);
	cr_assert_not(rr_looks_recent(&w));
}

Test(looks, each_call_asks_where_the_array_has_anything_but_listeners)
{
	struct rr_slot s = { .kernel = true };
	struct rr_work w = listener_and_ours();

	w.others = 2;	/* a pipe, say */
	cr_assert_not(noted(&w));
	w = listener_and_ours();
	w.plain = 1;
	cr_assert_not(noted(&w));
	w = listener_and_ours();
	w.resting = 1;
	cr_assert_not(noted(&w));
	w.set = true;
	w.standing = 1;		/* the set tells of it */
	cr_assert(noted(&w));
	w.resting = 2;
	cr_assert_not(noted(&w));
	w = listener_and_ours();
	w.awake = &s;	/* a connection about which the kernel's answer counts */
	cr_assert_not(noted(&w));
	s.kernel = false;
	cr_assert(noted(&w));
	w.listeners = w.others = 0;
	cr_assert_not(noted(&w));
}

Test(looks, a_long_array_has_its_pause_whatever_it_has)
{
	struct rr_work w = { .fds = fds, .n = 100, .others = RR_POLL_MANY };
	rr_time gap = rr_looks_gap(&w);

	cr_assert(noted(&w));
	w.others++;
	cr_assert_gt(rr_looks_gap(&w), gap);
	w.others = RR_POLL_MANY - 1;
	cr_assert_not(noted(&w));
}
