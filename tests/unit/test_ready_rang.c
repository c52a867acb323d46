/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of a poll() that rest: what is made of the bells, who is put to rest, and how they are verified. */
#include "tests/unit/poll_slots.h"

TestSuite(ready_rang, .init = begin_slots);

/* --- the set has rung --- */

static void rings_of(int at, int n, const int *who)
{
	rings[at].n = n;
	for (int i = 0; i < n; i++)
		rings[at].who[i] = container_of(f[who[i]], struct rr_sock, f);
}

static void begin_standing(void)
{
	begin_slots();
	cr_assert(rr_pollrest_take(&w));
	for (int i = 0; i < M; i++)
		stand(i);
}

TestSuite(ready_rang_standing, .init = begin_standing);

static void spread_and_keep_the_set(int times)
{
	nrings = 0;
	kern[0] = (struct pollfd){ 9, 9, POLLIN };
	rr_pollrest_spread(&w);
	cr_assert(nrings == times && rings_max == SPREAD);
	cr_assert(w.set && kern[0].fd == rr_restset_fd() && kern[0].events == POLLIN && kern[0].revents == 0);
}

Test(ready_rang_standing, those_that_rang_are_marked)
{
	rings_of(0, 2, (int[]){ 3, 1 });
	spread_and_keep_the_set(1);
	cr_assert(w.nk == 3 && nleft == 0 && !slots[0].k && !slots[2].k);
	for (int i = 1; i < M; i += 2)
		cr_assert(kern[slots[i].k].fd == -1 && kern[slots[i].k].revents == POLLIN && slots[i].standing);
	rings[0].n = 0;
	spread_and_keep_the_set(1);
	cr_assert_eq(nleft, 0);
}

Test(ready_rang_standing, as_long_as_a_handful_brings_new_ones_another_is_asked_for)
{
	int who[SPREAD] = { 0 };

	who[0] = 1;	/* all others are one */
	rings_of(0, SPREAD, who);
	rings_of(1, SPREAD, who);
	spread_and_keep_the_set(2);
	who[0] = 2;
	rings_of(0, SPREAD, who);
	rings_of(1, SPREAD - 1, who);
	spread_and_keep_the_set(2);
	who[0] = 3;
	rings_of(0, SPREAD - 1, who);
	spread_and_keep_the_set(1);
}

Test(ready_rang_standing, members_that_are_not_in_the_array_are_taken_out)
{
	slots[0].standing = false;		/* asked for by itself */
	c[1]->face.state = RR_FAKE_TCP;
	w.nslots = M - 1;			/* of another array, the last one */
	slots[2].file = f[1];			/* its number there is another's */
	rings_of(0, 4, (int[]){ 0, 1, 3, 2 });
	spread_and_keep_the_set(1);
	cr_assert_eq(nleft, 4);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(left[i], rings[0].who[i]);
	cr_assert_eq(w.nk, 1, "nobody is marked");
}

static void assert_set_is_lost(void)
{
	kern[0] = (struct pollfd){ 9, 9, POLLIN };
	rr_pollrest_spread(&w);
	cr_assert(nrings == 1 && !w.set && kern[0].fd == -1 && kern[0].revents == 0);
	for (int i = 0; i < M; i++)
		cr_assert(!slots[i].standing && (slots[i].rests || slots[i].listed || !slots[i].file), "%d", i);
	cr_assert_eq(w.standing, 0);
}

Test(ready_rang_standing, where_one_cannot_be_taken_out_the_wait_goes_on_without_the_set)
{
	int who[SPREAD];

	rr_standing_part(c[0]);
	rr_standing_part(c[1]);
	leave_fails = true;
	for (int i = 0; i < SPREAD; i++)
		who[i] = rr_min(i, 2);	/* a whole handful, with a new one */
	rings_of(0, SPREAD, who);
	assert_set_is_lost();
	cr_assert_eq(nleft, 1, "the other set is empty");
}

Test(ready_rang_standing, where_the_set_is_lost_the_wait_goes_on_without_it)
{
	rings[0].n = -1;
	assert_set_is_lost();
	for (int i = 0; i < M; i++)
		assert_entry(slots[i].k, c[i]->wake, POLLIN);
}

Test(ready_rang_standing, a_set_that_has_not_rung_is_not_asked)
{
	kern[0] = (struct pollfd){ 9, 9, 0 };
	rr_pollrest_spread(&w);
	kern[0].revents = POLLIN;
	w.set = false;
	rr_pollrest_spread(&w);
	cr_assert(nrings == 0 && kern[0].fd == 9 && kern[0].revents == POLLIN);
}

/* --- getting tired --- */

Test(ready_rang, who_is_put_to_rest)
{
	static const struct { short events; bool conn, quiet, restless; unsigned arms, disarms; bool rests; int state; } t[] = {
		{ POLLIN, true, true, false, 1, 0, true, RR_FAKE_CARRIED }, { POLLIN, false, true, false, 0, 0, false, RR_FAKE_CARRIED },
		{ POLLIN | POLLOUT, true, true, false, 0, 0, false, RR_FAKE_CARRIED },
		{ POLLOUT, true, true, false, 0, 0, false, RR_FAKE_CARRIED }, { POLLPRI, true, true, false, 0, 0, false, RR_FAKE_CARRIED },
		{ POLLIN, true, false, false, 0, 0, false, RR_FAKE_CARRIED }, { POLLIN, true, true, true, 1, 0, false, RR_FAKE_CARRIED },
		{ POLLIN, true, true, false, 1, 1, false, RR_FAKE_WAITING },
	};

	hold(0);
	for (size_t i = 0; i < rr_array_size(t); i++) {
		slots[0].conn = t[i].conn ? c[0] : NULL;
		slots[0].rests = false;
		fds[1].events = t[i].events;
		c[0]->quiet = t[i].quiet;
		c[0]->restless = t[i].restless;
		c[0]->face.state = (uint32_t)t[i].state;
		c[0]->arms = c[0]->disarms = 0;
		activated = 0;
		rr_pollrest_tires(&w, &slots[0]);
		cr_assert(c[0]->arms == t[i].arms && c[0]->disarms == t[i].disarms && slots[0].rests == t[i].rests, "%zu", i);
		cr_assert(c[0]->sleepers == t[i].rests && activated == (int)t[i].disarms, "%zu", i);
		c[0]->sleepers = 0;
	}
	c[0]->face.state = RR_FAKE_CARRIED;
	c[0]->wake = 0;
	rr_pollrest_tires(&w, &slots[0]);
	cr_assert(slots[0].rests && c[0]->sleepers == 1);
	assert_entry(slots[0].k, 0, POLLIN);
}

/* --- verifying --- */

static struct pollfd *asked;
static nfds_t nasked;
static short anchor[ROOM];	/* what the kernel says of each that it is asked about */
static bool poll_fails;

static rr_time look_takes;

static int poll_played(struct pollfd *p, nfds_t n, int ms)
{
	int ready = 0;

	cr_assert_eq(ms, 0);
	asked = p;
	nasked = n;
	now += look_takes;
	if (poll_fails)
		return -1;
	for (nfds_t i = 0; i < n; i++) {
		p[i].revents = anchor[i];
		ready += anchor[i] != 0;
	}
	return ready;
}

static void verify(nfds_t n, rr_time next)
{
	rr_real.poll = poll_played;
	rr_pollrest_verify(&w);
	cr_assert_eq(nasked, n);
	cr_assert_eq(w.verify, next);
}

Test(ready_rang, those_at_rest_are_verified_and_rest_on)
{
	nfds_t nk;

	hold(0);
	put_to_rest(1);
	put_to_rest(3);
	slots[2].file = NULL;
	nk = w.nk;
	verify(2, RR_TIME_NEVER);
	cr_assert_eq(asked, kern + nk + M);
	cr_assert(asked[0].fd == fds[2].fd && asked[1].fd == fds[4].fd && asked[0].events == POLLIN);
	cr_assert(slots[1].rests && slots[3].rests && !w.awake && w.verified == 0 && nrings == 0);
	assert_counts(2, 0, 0);
}

Test(ready_rang, one_whose_anchor_says_something_is_asked)
{
	put_to_rest(0);
	put_to_rest(1);
	put_to_rest(2);
	anchor[1] = POLLRDHUP;
	verify(3, RR_TIME_NEVER);
	assert_awake(1);
	cr_assert(slots[0].rests && slots[2].rests && w.awake == &slots[1] && !slots[1].next);
	cr_assert(c[1]->disarms == 1 && activated == 1, "so its anchor is looked at");
	assert_counts(2, 0, 0);
}

Test(ready_rang, where_the_kernel_does_not_say_all_are_asked)
{
	put_to_rest(0);
	put_to_rest(1);
	poll_fails = true;
	verify(2, RR_TIME_NEVER);
	assert_awake(0);
	assert_awake(1);
	cr_assert(c[0]->disarms == 1 && c[1]->disarms == 1);
	assert_counts(0, 0, 0);
}

Test(ready_rang, one_whose_number_is_anothers_is_dropped)
{
	put_to_rest(0);
	put_to_rest(1);
	rr_file_hold(f[0]);	/* what is looked at below is still there */
	cr_assert_eq(dup2(fds[3].fd, fds[1].fd), fds[1].fd);
	verify(2, RR_TIME_NEVER);
	assert_dropped(0, 1);
	assert_counts(1, 0, 1);
	cr_assert(slots[1].rests && c[0]->sleepers == 0 && c[0]->disarms == 0 && activated == 0);
}

/* All slots are those of one connection. */
static void begin_lots(nfds_t n)
{
	put_to_rest(0);
	for (uint32_t i = 1; i < n; i++) {
		fds[i + 1] = fds[1];
		slots[i] = slots[0];
		slots[i].at = i + 1;
	}
	w.n = n + 1;
	w.nslots = n;
}

Test(ready_rang, the_first_look_is_soon_if_one_look_sees_all)
{
	w.resting = LOOK_MOST;
	cr_assert_eq(rr_pollrest_look(&w, 7), 7 + LOOK_SOON);
	w.resting++;
	cr_assert_eq(rr_pollrest_look(&w, 7), 7 + LOOK_NEXT);
}

Test(ready_rang, looks_that_find_nothing_become_seldom)
{
	static const rr_time times[] = { RR_SEC, 2 * RR_SEC, 4 * RR_SEC, 8 * RR_SEC, 16 * RR_SEC, 30 * RR_SEC, 30 * RR_SEC };

	put_to_rest(0);
	for (size_t i = 0; i < rr_array_size(times); i++) {
		cr_assert_eq(rr_pollrest_look(&w, 7), 7 + times[i], "%zu", i);
		verify(1, RR_TIME_NEVER);
	}
	anchor[0] = POLLHUP;
	verify(1, RR_TIME_NEVER);
	cr_assert_eq(rr_pollrest_look(&w, 7), 7 + RR_SEC, "there was something");
}

Test(ready_rang, of_lots_some_are_verified_at_a_time)
{
	begin_lots(LOOK_MOST + 88);
	verify(LOOK_MOST, START + LOOK_NEXT);
	cr_assert_eq(w.verified, LOOK_MOST);
	cr_assert_eq(asked, kern + w.nk + LOOK_MOST);
	now += 5;
	verify(88, RR_TIME_NEVER);
	cr_assert_eq(w.verified, 0);
	verify(LOOK_MOST, now + LOOK_NEXT);
}

Test(ready_rang, the_pause_begins_when_a_look_ends)
{
	begin_lots(LOOK_MOST + 1);
	look_takes = 6 * RR_MSEC;
	verify(LOOK_MOST, START + 6 * RR_MSEC + 30 * RR_SEC);
}

Test(ready_rang, as_many_as_are_verified_at_a_time_are_one_round)
{
	begin_lots(LOOK_MOST);
	slots[LOOK_MOST] = slots[0];	/* none of this wait's */
	verify(LOOK_MOST, RR_TIME_NEVER);
	cr_assert_eq(w.verified, 0);
	w.nslots = 3;
	verify(3, RR_TIME_NEVER);
	cr_assert(slots[0].rests && !w.awake);
}

Test(ready_rang_standing, whether_the_set_is_there_still_is_verified_as_well)
{
	verify(M, RR_TIME_NEVER);
	cr_assert(nrings == 1 && rings_max == 1 && w.set && w.standing == M);
	rings[1].n = 1;
	verify(M, RR_TIME_NEVER);
	cr_assert(nrings == 2 && w.set && w.standing == M);
	rings[2].n = -1;
	verify(M, RR_TIME_NEVER);
	cr_assert(!w.set && w.standing == 0 && w.resting == M);
	for (int i = 0; i < M; i++)
		assert_entry(slots[i].k, c[i]->wake, POLLIN);
	verify(M, RR_TIME_NEVER);	/* there is none to be asked */
	cr_assert_eq(nrings, 3);
}
