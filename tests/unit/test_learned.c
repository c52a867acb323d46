/* SPDX-License-Identifier: BSD-3-Clause */
/* What earlier connections have taught about when an offer pays. */
#include <criterion/criterion.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/conn/upgrade/learned.c"
#include "core/conn/conn.h"
#include "tests/lib/connpair.h"

TestSuite(learned, .timeout = 60);

static struct sockaddr_in6 place(uint32_t i)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = 7 };

	a.sin6_addr.s6_addr32[3] = i;
	return a;
}

Test(learned, the_mean_of_calls_is_learned)
{
	struct sockaddr_in6 a = place(1);

	cr_assert_eq(rr_learned_usual(&a, 5).calls, 0);
	rr_learned_end(&a, 5, 0);
	rr_learned_end(&a, 0, 100);
	cr_assert(rr_learned_usual(&a, 5).calls == 0 && rr_learned_usual(&a, 0).calls == 0 && !rr_learned_is_ours(&a));
	rr_learned_end(&a, 5, 100);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 100);
	rr_learned_end(&a, 5, 100);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 100, "it stays there");
	rr_learned_end(&a, 5, 0);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 100, "who makes no call says nothing of those who do");
	rr_learned_end(&a, 5, 20);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 80);
	rr_learned_end(&a, 6, 90);
	rr_learned_ours(&a, true);
	cr_assert(rr_learned_is_ours(&a));
	cr_assert(rr_learned_usual(&a, 5).calls == 80 && rr_learned_usual(&a, 6).calls == 90 && rr_learned_most(&a).calls == 90);
	rr_learned_end(&a, 6, 70);
	cr_assert_eq(rr_learned_most(&a).calls, 85);
	a.sin6_port = 8;
	cr_assert(rr_learned_usual(&a, 5).calls == 0 && rr_learned_most(&a).calls == 0 && !rr_learned_is_ours(&a));
	rr_learned_end(&a, 5, 1 << 20);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 1 << 16, "at most");
	a = place(1);
	rr_learned_ours(&a, false);
	cr_assert(!rr_learned_is_ours(&a) && rr_learned_usual(&a, 5).calls == 80);
	a = place(2);
	rr_learned_ours(&a, true);
	cr_assert(rr_learned_is_ours(&a) && rr_learned_most(&a).calls == 0);
}

/* Whether to look again: soon, later, and then at each so many. */
Test(learned, what_is_known_is_looked_at_again_now_and_then)
{
	struct sockaddr_in6 a = place(1);

	cr_assert_not(rr_learned_usual(&a, 5).again);
	for (uint32_t n = 1; n <= 3 * AGAIN; n++) {
		rr_learned_end(&a, 5, 7);
		cr_assert_eq(rr_learned_usual(&a, 5).again, n == SOON || n == SOON + 1 || n == LATER || n % AGAIN == 0, "%u", n);
		cr_assert_eq(rr_learned_most(&a).again, rr_learned_usual(&a, 5).again);
	}
	a = place(2);
	rr_learned_end(&a, 5, 7);
	cr_assert_eq(rr_learned_usual(&a, 5).again, SOON == 1, "each is counted on its own");
}

Test(learned, a_mean_never_becomes_none)
{
	struct sockaddr_in6 a = place(1);

	rr_learned_end(&a, 5, 1);
	for (int i = 0; i < 50; i++)
		rr_learned_end(&a, 5, 1);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 1);
}

Test(learned, the_place_that_was_not_used_longest_is_forgotten)
{
	struct sockaddr_in6 a;

	for (uint32_t i = 0; i < 64; i++) {
		a = place(i);
		rr_learned_end(&a, 5, i + 1);
	}
	for (uint32_t i = 0; i < 64; i++) {
		a = place(i);
		if (i != 3 && i != 60)
			cr_assert_eq(rr_learned_usual(&a, 5).calls, i + 1);
	}
	a = place(100);
	rr_learned_end(&a, 5, 1000);
	for (uint32_t i = 0; i < 64; i++) {
		a = place(i);
		cr_assert_eq(rr_learned_most(&a).calls, i == 3 ? 0 : i + 1, "%u", i);
	}
	a = place(101);
	rr_learned_end(&a, 5, 1000);
	a = place(60);
	cr_assert_eq(rr_learned_most(&a).calls, 0);
	a = place(100);
	cr_assert_eq(rr_learned_most(&a).calls, 1000);
	a = place(63);
	cr_assert_eq(rr_learned_most(&a).calls, 64);
	a = place(0);
	cr_assert_eq(rr_learned_most(&a).calls, 1);
}

/* A thread that finds another one at it does without, and leaves it to it. */
Test(learned, nobody_waits_for_a_guess)
{
	struct sockaddr_in6 a = place(1), b = place(2);

	rr_learned_end(&a, 5, 100);
	rr_learned_ours(&a, true);
	cr_assert_eq(rr_lock_try(&lock), 0);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 0);
	cr_assert_eq(rr_learned_most(&a).calls, 0);
	cr_assert_not(rr_learned_is_ours(&a));
	rr_learned_end(&a, 5, 1000);
	rr_learned_end(&b, 5, 1000);
	rr_learned_ours(&a, false);
	cr_assert_neq(rr_lock_try(&lock), 0);
	rr_lock_drop(&lock);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 100);
	cr_assert_eq(rr_learned_most(&b).calls, 0);
	cr_assert(rr_learned_is_ours(&a));
}

/* The thread that held the lock is not in the child. */
Test(learned, after_a_fork_nobody_is_at_it)
{
	struct sockaddr_in6 a = place(1);

	rr_learned_end(&a, 5, 100);
	cr_assert_eq(rr_lock_try(&lock), 0);
	rr_learned_forked();
	cr_assert_eq(rr_learned_most(&a).calls, 100);
}

/* … which sees to that with all that it has of its parent's. */
Test(learned, a_child_goes_on_with_what_its_parent_knew)
{
	struct sockaddr_in6 a = place(1);
	int status = -1;
	pid_t pid;

	rr_test_setup();
	rr_learned_end(&a, 5, 100);
	rr_conn_fork_prepare();
	cr_assert_eq(rr_lock_try(&lock), 0);
	pid = fork();
	if (!pid) {
		rr_conn_fork_child();
		_exit(rr_learned_most(&a).calls == 100 ? 0 : 1);
	}
	rr_conn_fork_parent();
	cr_assert(waitpid(pid, &status, 0) == pid && status == 0, "%d", status);
	rr_lock_drop(&lock);
}
