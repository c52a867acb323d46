/* SPDX-License-Identifier: BSD-3-Clause */
/* How many native guests may be silent, and which one makes room. */
#include <sys/resource.h>

#include "tests/unit/native_doors.h"

TestSuite(conn_guests, .init = begin, .timeout = 60);

static struct rr_conn *guest[4];

static void with_guests(int n)
{
	real_guests = true;
	listens(AF_INET);
	for (int i = 0; i < n; i++) {
		comes(1);
		cr_assert_geq(accepts(&guest[i]), 0);
		guest[i]->share->st = guest[i]->st;
		guest[i]->share->seg = guest[i]->seg;
		guest[i]->deadline = now + RR_SEC * (rr_time)(i + 1);
		rr_guests_comes(guest[i]);
		rr_slab_carried(guest[i]);
	}
}

/* As if it had not spoken yet. */
static void is_silent_again(struct rr_conn *c)
{
	c->share->heard = false;
	rr_guests_comes(c);
}

Test(conn_guests, guests_are_silent_up_to_a_number)
{
	rr_test_params.native_silent = 3;
	with_guests(2);
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert_eq(rr_guests_full(1, now), guest[0]->deadline, "the one that is silent longest has some time yet");
	guest[0]->share->heard = true;
	cr_assert_eq(rr_guests_full(1, now), 0);
	cr_assert_eq(rr_guests_full(2, now), guest[1]->deadline);
	guest[1]->share->heard = true;
	cr_assert_eq(rr_guests_full(2, now), 0);
	cr_assert_eq(rr_guests_full(3, now), now + RR_SEC, "there is nobody to show out");
	is_silent_again(guest[0]);
	is_silent_again(guest[1]);
	guest[0]->share->link = RR_LINK_LOST;
	cr_assert_eq(rr_guests_full(1, now), 0, "who is gone is no guest that is silent");
	guest[0]->share->link = RR_LINK_UP;
	guest[0]->face.server = false;
	cr_assert_eq(rr_guests_full(1, now), 0, "who was dialled is no guest");
	guest[0]->face.server = true;
	guest[0]->share->qp->native = false;
	cr_assert_eq(rr_guests_full(1, now), 0);
}

Test(conn_guests, a_guest_that_another_thread_has_is_counted_and_stays)
{
	with_guests(2);
	guest[0]->share->lock.word = 12345;
	cr_assert_eq(rr_guests_full(1, now), guest[1]->deadline);
	guest[1]->share->lock.word = 12345;
	cr_assert_eq(rr_guests_full(1, now), now + RR_SEC, "nobody can go");
	guest[1]->share->lock.word = 0;
	guest[0]->share->heard = true;
	cr_assert_eq(rr_guests_full(1, now), 0);
	guest[0]->share->lock.word = 0;
	cr_assert_eq(rr_lock_try(&guest[0]->share->lock), 0, "nobody else's was dropped, and none is kept");
	cr_assert_eq(rr_lock_try(&guest[1]->share->lock), 0);
}

Test(conn_guests, the_guest_that_is_silent_longest_makes_room)
{
	int far[2];

	with_guests(3);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, far), 0);
	guest[0]->share->far = far[0];
	now = guest[0]->deadline;
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert(t.fails == 1 && t.failed == guest[0]->share && t.progresses == 1);
	cr_assert_eq(recv(far[1], &(char){ 0 }, 1, MSG_DONTWAIT), 0, "and who sleeps on it wakes");
	cr_assert_eq(rr_lock_try(&guest[0]->share->lock), 0);
	rr_lock_drop(&guest[0]->share->lock);
	/* It speaks just then. */
	guest[0]->share->link = RR_LINK_UP;
	guest[0]->share->far = -1;
	t.speaks = true;
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert(t.fails == 1 && t.progresses == 2 && guest[0]->share->heard);
	is_silent_again(guest[0]);
	/* It does not go, and is not asked for ever. */
	t.speaks = false;
	t.stays = true;
	t.fails = 0;
	cr_assert_eq(rr_guests_full(0, now), now + RR_SEC / 10);
	cr_assert(t.fails == 8 && t.failed == guest[0]->share);
	t.busy = true;
	cr_assert_eq(rr_guests_full(0, now), now + RR_SEC / 10, "who cannot be counted now is counted soon");
	cr_assert_eq(t.fails, 8);
}

Test(conn_guests, descriptors_are_left_to_others)
{
	struct rlimit rl = { 0, 0 };

	with_guests(2);
	guest[0]->share->heard = guest[1]->share->heard = true;
	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = 27;	/* 27 / 4 * 3 / 5 is 3 */
	setrlimit(RLIMIT_NOFILE, &rl);
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert_eq(rr_guests_full(1, now), now + RR_SEC);
	rl.rlim_cur = 28;	/* ... and 4 */
	setrlimit(RLIMIT_NOFILE, &rl);
	cr_assert_eq(rr_guests_full(1, now), 0);
	cr_assert_eq(rr_guests_full(2, now), now + RR_SEC);
}

/* A server may have thousands, and they are counted for each one that comes. */
Test(conn_guests, who_has_spoken_is_not_looked_at_again)
{
	rr_test_params.native_silent = 4;
	with_guests(3);
	rr_test_params.native_silent = 2;
	guest[0]->share->heard = guest[1]->share->heard = true;
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert_eq(mprotect(guest[0]->share, sizeof(*guest[0]->share), PROT_NONE), 0);
	cr_assert_eq(mprotect(guest[1]->share, sizeof(*guest[1]->share), PROT_NONE), 0);
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert_eq(rr_guests_full(1, now), guest[2]->deadline);
}

/* It keeps its descriptors until the app has closed it. */
Test(conn_guests, who_has_spoken_still_counts)
{
	struct rlimit rl = { 0, 0 };

	with_guests(3);
	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = 20;	/* 20 / 4 * 3 / 5 is 3 */
	setrlimit(RLIMIT_NOFILE, &rl);
	for (int i = 0; i < 3; i++)
		guest[i]->share->heard = true;
	cr_assert_eq(rr_guests_full(0, now), now + RR_SEC);
	cr_assert_eq(rr_guests_full(0, now), now + RR_SEC);
	rr_slab_end(guest[1]);
	cr_assert_eq(rr_guests_full(0, now), 0);
	rr_conn_fork_child();
	cr_assert_eq(rr_guests_full(2, now), 0, "a child has none");
}
