/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of a poll() that come to rest and leave it: each with all that is counted of it. */
#include "tests/unit/poll_slots.h"

TestSuite(ready_slots, .init = begin_slots);

Test(ready_slots, each_is_in_the_list_of_those_awake_once)
{
	rr_slot_wakes(&w, &slots[0]);
	rr_slot_wakes(&w, &slots[1]);
	rr_slot_wakes(&w, &slots[0]);
	rr_slot_wakes(&w, &slots[1]);
	cr_assert(w.awake == &slots[1] && slots[1].next == &slots[0] && !slots[0].next);
}

Test(ready_slots, who_takes_the_set_counts_as_asleep_on_those_that_stand)
{
	uint32_t ceased;

	cr_assert(rr_pollrest_take(&w));
	ceased = w.ceased;
	stand(0);
	cr_assert(w.set && rr_standing_sleeps(c[0]));
	rr_standing_ceased(c[0]);
	struct rr_work other = { .ceased = 77 };
	cr_assert(!rr_pollrest_take(&other) && !other.set && other.ceased == 77);
	rr_pollrest_give(&w);
	cr_assert(!w.set && !rr_standing_sleeps(c[0]));
	cr_assert(rr_pollrest_take(&other) && other.ceased == ceased + 1);
}

/* --- coming to rest --- */

Test(ready_slots, without_the_set_it_lends_its_wake_up_fd)
{
	put_to_rest(0);
	cr_assert(slots[0].rests && !slots[0].standing && c[0]->sleepers == 1 && f[0]->refs == 2);
	assert_entry(slots[0].k, c[0]->wake, POLLIN);
	assert_counts(1, 0, 0);
	cr_assert_eq(container_of(f[0], struct rr_sock, f)->set, 0);
	/* One that had no entry gets one, whatever the number. */
	rr_file_hold(f[1]);
	rr_pollrest_put(&w, &slots[1], 0);
	assert_entry(slots[1].k, 0, POLLIN);
	assert_counts(2, 0, 0);
}

Test(ready_slots, with_the_set_it_stands_and_its_entry_is_empty)
{
	cr_assert(rr_pollrest_take(&w));
	put_to_rest(1);
	cr_assert(slots[1].rests && slots[1].standing && c[1]->sleepers == 0 && f[1]->refs == 1);
	assert_entry(slots[1].k, -1, POLLIN);
	assert_counts(1, 1, 0);
	cr_assert_eq(rr_standing_at(c[1]), 1);
	/* One without an entry needs none. */
	rr_file_hold(f[2]);
	c[2]->rests = true;
	rr_conn_sleeps(c[2]);
	rr_pollrest_put(&w, &slots[2], c[2]->wake);
	cr_assert(slots[2].standing && !slots[2].k && w.nk == 2);
	/* The set cannot have it; or it stands for another entry already. */
	join_fails = true;
	put_to_rest(3);
	cr_assert(!slots[3].standing && slots[3].rests && c[3]->sleepers == 1 && f[3]->refs == 2);
	assert_entry(slots[3].k, c[3]->wake, POLLIN);
	assert_counts(3, 2, 0);
	cr_assert_eq(rr_standing_at(c[3]), UINT32_MAX);
	join_fails = false;
	slots[0].file = f[1];
	slots[0].conn = c[1];
	rr_file_hold(f[1]);
	rr_pollrest_put(&w, &slots[0], c[1]->wake);
	cr_assert(!slots[0].standing && slots[0].rests && rr_standing_at(c[1]) == 1);
	assert_entry(slots[0].k, c[1]->wake, POLLIN);
}

Test(ready_slots, who_may_rest_as_far_as_the_call_goes)
{
	static const struct { short events; uint32_t flags; rr_time later; bool may; } t[] = {
		{ POLLIN, 0, 0, true }, { POLLRDNORM, 0, 0, true }, { POLLIN | POLLPRI, 0, 0, true },
		{ POLLIN | POLLOUT, 0, 0, false }, { POLLOUT, 0, 0, false }, { 0, 0, 0, false }, { POLLPRI, 0, 0, false },
		{ POLLIN, RR_SOCK_STDIO, 0, false }, { POLLIN, (uint32_t)~RR_SOCK_STDIO, 0, true },
		{ POLLIN, 0, REST_MOST, true }, { POLLIN, 0, REST_MOST + 1, false },
	};
	struct rr_sock *so = rr_slot_sock(&slots[0]);

	hold(0);
	c[0]->rests = true;
	for (size_t i = 0; i < rr_array_size(t); i++) {
		fds[1].events = t[i].events;
		so->flags = t[i].flags;
		so->verified = START;
		slots[0].rests = false;
		cr_assert_eq(rr_pollrest_finds(&w, &slots[0], START + t[i].later), t[i].may, "%zu", i);
		cr_assert_eq(slots[0].rests, t[i].may, "%zu", i);
		cr_assert_eq(c[0]->sleepers, t[i].may, "%zu", i);
		c[0]->sleepers = 0;
	}
}

Test(ready_slots, one_that_does_not_rest_is_not_found_at_rest)
{
	hold(0);
	cr_assert_not(rr_pollrest_finds(&w, &slots[0], now));
	assert_counts(0, 0, 0);
	assert_entry(slots[0].k, fds[1].fd, POLLIN);
	c[0]->rests = true;
	c[0]->wake = 0;
	cr_assert(rr_pollrest_finds(&w, &slots[0], now));
	assert_entry(slots[0].k, 0, POLLIN);
}

static void assert_does_not_stand(int i)
{
	struct rr_slot was = slots[i];

	cr_assert_not(rr_pollrest_stands(&w, &slots[i], now));
	cr_assert(!slots[i].standing && !slots[i].rests && slots[i].file == was.file);
	cr_assert_eq(rr_standing_at(c[i]), UINT32_MAX);
	assert_counts(0, 0, 0);
}

Test(ready_slots, who_stands_at_once)
{
	struct rr_sock *so = rr_slot_sock(&slots[0]);

	c[0]->rests = true;
	join_played(so, c[0]->wake);
	slots[0].conn = NULL;
	assert_does_not_stand(0);	/* without the set */
	cr_assert(rr_pollrest_take(&w));
	c[0]->rests = false;
	assert_does_not_stand(0);
	c[0]->rests = true;
	so->set_wake++;
	assert_does_not_stand(0);	/* not in this set */
	so->set_wake--;
	fds[1].events = POLLIN | POLLOUT;
	assert_does_not_stand(0);
	fds[1].events = POLLIN;
	so->flags = RR_SOCK_PLAIN;
	assert_does_not_stand(0);
	so->flags = 0;
	replace(0);
	assert_does_not_stand(0);	/* another file meanwhile */
	fds[1].fd = fds[2].fd;
	assert_does_not_stand(0);
	fds[1].fd = rr_fdt_fd_of(c[0]);
	turns = c[1];
	assert_does_not_stand(0);	/* another connection meanwhile */
	turns = NULL;
	so->conn = c[0];
	cr_assert(rr_pollrest_stands(&w, &slots[0], now));
	cr_assert(slots[0].standing && slots[0].rests && slots[0].conn == c[0] && rr_standing_at(c[0]) == 0);
	cr_assert(f[0]->refs == 1 && c[0]->sleepers == 0 && w.nk == 1);
	assert_counts(1, 1, 0);
	/* The same connection at another entry. */
	slots[1].file = f[0];
	fds[2].fd = fds[1].fd;
	cr_assert_not(rr_pollrest_stands(&w, &slots[1], now));
	cr_assert(rr_standing_at(c[0]) == 0 && !slots[1].standing);
	assert_counts(1, 1, 0);
}

/* --- leaving --- */

Test(ready_slots, one_that_rested_by_itself_is_asked)
{
	put_to_rest(0);
	put_to_rest(1);
	rr_pollrest_leaves(&w, &slots[1], false);
	assert_awake(1);
	assert_counts(1, 0, 0);
	cr_assert(c[1]->disarms == 0 && c[1]->rests && activated == 0);
	rr_pollrest_leaves(&w, &slots[0], true);
	assert_awake(0);
	assert_counts(0, 0, 0);
	cr_assert(c[0]->disarms == 1 && activated == 1);
	cr_assert(w.awake == &slots[0] && slots[0].next == &slots[1]);
}

Test(ready_slots, one_that_stood_is_asked)
{
	cr_assert(rr_pollrest_take(&w));
	stand(0);
	stand(1);
	stand(2);
	rr_pollrest_leaves(&w, &slots[1], false);
	assert_awake(1);
	assert_counts(2, 2, 0);
	cr_assert(c[1]->disarms == 0 && activated == 0);
	rr_pollrest_leaves(&w, &slots[0], true);
	assert_awake(0);
	assert_counts(1, 1, 0);
	cr_assert(c[0]->disarms == 1 && activated == 1);
}

/* That its number is another's is found when it leaves. */
Test(ready_slots, one_that_stood_and_whose_number_is_anothers_is_dropped)
{
	struct rr_file *other;

	cr_assert(rr_pollrest_take(&w));
	stand(0);
	stand(1);
	stand(2);
	other = replace(0);
	rr_pollrest_leaves(&w, &slots[0], true);
	assert_dropped(0, 1);
	assert_counts(2, 2, 1);
	cr_assert(other->refs == 1 && f[0]->refs == 1 && c[0]->sleepers == 0 && c[0]->disarms == 0 && !w.awake);
	/* The same file with another connection; a closed number; another file with what was this one's. */
	container_of(f[1], struct rr_sock, f)->conn = c[3];
	rr_pollrest_leaves(&w, &slots[1], false);
	assert_dropped(1, 2);
	cr_assert(f[1]->refs == 1 && !w.awake);
	fds[3].fd = 9999;
	rr_pollrest_leaves(&w, &slots[2], false);
	assert_dropped(2, 3);
	container_of(f[1], struct rr_sock, f)->conn = c[1];
	stand(3);
	other = replace(3);
	container_of(other, struct rr_sock, f)->conn = c[3];
	rr_pollrest_leaves(&w, &slots[3], false);
	assert_dropped(3, 4);
	assert_counts(0, 0, 4);
}

static void make_plain(int i)
{
	c[i]->face.state = RR_FAKE_NEW;
	c[i]->plain = true;
	cr_assert(rr_plainwait_add(&w.plainwait, c[i]));
	slots[i].plain = true;
	slots[i].k = rr_work_add(&w, slots[i].at, (uint32_t)i);
	w.plain++;
}

Test(ready_slots, one_of_which_the_kernel_has_spoken_is_asked)
{
	make_plain(0);
	make_plain(1);
	cr_assert(rr_plain_leaves(&w, &slots[0]));
	cr_assert(slots[0].file == f[0] && f[0]->refs == 2 && !slots[0].plain && slots[0].listed && w.awake == &slots[0]);
	cr_assert(w.plain == 1 && c[0]->sleepers == 0 && c[1]->sleepers == 1 && activated == 1);
	replace(1);
	cr_assert_not(rr_plain_leaves(&w, &slots[1]));
	assert_dropped(1, 1);
	cr_assert(w.plain == 0 && c[1]->sleepers == 0 && activated == 1 && f[1]->refs == 1 && w.awake == &slots[0]);
}

Test(ready_slots, one_that_is_dropped_leaves_nothing_behind)
{
	cr_assert(rr_pollrest_take(&w));
	stand(0);
	rr_slot_drop(&w, &slots[0]);
	assert_dropped(0, 1);
	assert_counts(0, 0, 1);
	cr_assert(rr_standing_at(c[0]) == UINT32_MAX && f[0]->refs == 1);
	rr_slot_drop(&w, &slots[0]);
	cr_assert_eq(w.others, 1, "once");
	rr_pollrest_give(&w);
	put_to_rest(1);
	put_to_rest(2);
	rr_slot_drop(&w, &slots[1]);
	assert_dropped(1, 2);
	assert_counts(1, 0, 2);
	cr_assert(c[1]->sleepers == 0 && f[1]->refs == 1);
	hold(3);
	slots[3].kernel = true;
	kern[slots[3].k].fd = -1;
	kern[slots[3].k].revents = POLLIN;
	rr_slot_drop(&w, &slots[3]);
	assert_dropped(3, 3);
	cr_assert_eq(f[3]->refs, 1);
}

/* It may be another wait's member by now: its memory is another connection's. */
Test(ready_slots, a_connection_that_stands_by_another_number_stays)
{
	cr_assert(rr_pollrest_take(&w));
	stand(0);
	rr_standing_part(c[0]);
	cr_assert(rr_standing_join(c[0], 3));
	rr_slot_drop(&w, &slots[0]);
	assert_dropped(0, 1);
	cr_assert_eq(rr_standing_at(c[0]), 3);
}

Test(ready_slots, without_the_set_each_has_an_entry_or_is_asked)
{
	cr_assert(rr_pollrest_take(&w));
	for (int i = 0; i < M; i++)
		stand(i);
	w.nslots = M - 1;	/* the last one is none of this wait's */
	c[0]->wake = 0;
	c[1]->face.state = RR_FAKE_WAITING;	/* has no wake-up fd */
	replace(2);
	rr_pollrest_without(&w);
	assert_entry(slots[0].k, 0, POLLIN);
	cr_assert(slots[0].rests && !slots[0].standing && c[0]->sleepers == 1 && f[0]->refs == 2);
	assert_awake(1);
	assert_dropped(2, 1);
	cr_assert(slots[3].standing && f[3]->refs == 1 && !slots[3].k && rr_standing_at(c[3]) == 3);
	assert_counts(2, 1, 1);
	cr_assert(!w.set && !rr_standing_sleeps(c[3]) && rr_restset_take());
}

Test(ready_slots, without_the_set_those_that_did_not_stand_are_as_they_were)
{
	put_to_rest(0);
	hold(1);
	cr_assert(rr_pollrest_take(&w));
	rr_pollrest_without(&w);
	assert_entry(slots[0].k, c[0]->wake, POLLIN);
	assert_entry(slots[1].k, fds[2].fd, POLLIN);
	cr_assert(c[0]->sleepers == 1 && c[1]->sleepers == 0 && f[0]->refs == 2 && f[1]->refs == 2);
	assert_counts(1, 0, 0);
}
