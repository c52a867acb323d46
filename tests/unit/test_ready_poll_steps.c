/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a wait of poll(): what is asked of an entry before a sleep and after it, and what is told. */
#include "preload/ready_poll.c"

#include "tests/unit/poll_slots.h"

TestSuite(ready_poll_steps, .init = begin_slots, .timeout = 60);

enum { OLD = 9 };	/* left in revents by the app */

/* The kernel has the first word about it. */
static void make_plain(int i)
{
	struct rr_slot *s = &slots[i];

	c[i]->face.state = RR_FAKE_NEW;
	c[i]->plain = true;
	s->k = rr_work_add(&w, s->at, (uint32_t)i);
	cr_assert(rr_plainwait_add(&w.plainwait, c[i]));
	s->plain = true;
	w.plain++;
}

/* The kernel has reported bits for its entry. */
static void tell(int i, short bits)
{
	kern[slots[i].k].revents = bits;
	fds[slots[i].at].revents = OLD;
}

static short told_of(int i)
{
	return fds[slots[i].at].revents;
}

/* It outlasts its slot, as the memory of connections does. */
static void keep_file(int i)
{
	rr_file_hold(f[i]);
}

/* Another file has its number, which the fd table has not seen. */
static void replace_unseen(int i)
{
	int other = socket(AF_INET, SOCK_STREAM, 0);

	keep_file(i);
	cr_assert_eq(dup2(other, fds[i + 1].fd), fds[i + 1].fd);
	close(other);
	now += RR_SEC;
}

/* --- what has changed meanwhile --- */

Test(ready_poll_steps, only_those_that_do_not_stay_plain_are_asked)
{
	make_plain(0);
	make_plain(1);
	hold(2);
	rr_fake_unsure(c[0]);
	confirm_plain(&w);
	cr_assert(w.plain == 1 && w.awake == &slots[0] && !slots[0].next);
	cr_assert(!slots[0].plain && f[0]->refs == 2 && c[0]->sleepers == 0);
	cr_assert(slots[1].plain && f[1]->refs == 1 && c[1]->sleepers == 1);
	cr_assert(f[2]->refs == 2 && !slots[2].listed);
	rr_plainwait_end(w.plainwait);
}

/* There is no struct rr_plainwait. */
Test(ready_poll_steps, where_none_is_plain_nobody_is_asked_whether_they_stay_so)
{
	hold(0);
	c[0]->plain = true;
	rr_fake_unsure(c[0]);
	confirm_plain(&w);
	cr_assert(c[0]->plain && !slots[0].listed);
}

/* Entry 0 is the set's, and the arrays are longer than what a wait uses of them. */
static void put_around(struct rr_slot s)
{
	slots[M] = s;
	places[0] = places[w.nk] = (struct rr_place){ 4, M };
	fds[4].revents = OLD;
}

Test(ready_poll_steps, what_is_before_the_first_entry_and_behind_the_last_is_left_alone)
{
	make_plain(0);
	put_around(slots[0]);
	rr_fake_unsure(c[0]);
	confirm_plain(&w);
	cr_assert(!slots[0].plain && slots[M].plain && w.plain == 0);
	hold(1);
	put_around((struct rr_slot){ .file = f[3], .conn = c[3], .at = 1, .standing = true });
	w.standing = 1;
	recheck_all(&w);
	cr_assert(w.rechecked == rr_fdt_changes() && w.rechecked != 0);
	cr_assert(slots[M].file == f[3] && w.standing == 1 && w.others == 0);
	put_around((struct rr_slot){ .file = f[3], .conn = c[3], .at = 4 });
	cr_assert_eq(look_ours(&w, false), 0);
	cr_assert(c[1]->polls == 1 && c[3]->polls == 0 && !slots[M].listed);
	cr_assert_eq(look_kernel(&w), 0);
	put_around((struct rr_slot){ .at = 4 });
	none_of_the_kernels(&w);
	cr_assert_eq(fds[4].revents, OLD);
}

Test(ready_poll_steps, after_a_sleep_those_awake_are_looked_up)
{
	for (int i = 0; i < M; i++) {
		hold(i);
		rr_slot_wakes(&w, &slots[i]);
	}
	put_to_rest(3);		/* when it was armed */
	c[1]->face.state = RR_FAKE_TCP;
	rr_fdt_evict(fds[3].fd);
	rr_fake_conn(fds[3].fd, RR_FAKE_CARRIED);
	rr_fdt_evict(fds[4].fd);
	recheck_awake(&w);
	cr_assert(slots[0].file == f[0] && f[0]->refs == 2);
	assert_dropped(1, 2);
	assert_dropped(2, 2);
	cr_assert(slots[3].file == f[3] && slots[3].rests && w.resting == 1);
	recheck_all(&w);
	assert_dropped(3, 3);
	cr_assert_eq(w.resting, 0);
}

Test(ready_poll_steps, those_that_stand_are_looked_up_after_a_change_of_the_table)
{
	cr_assert(rr_pollrest_take(&w));
	for (int i = 0; i < 2; i++) {
		keep_file(i);
		stand(i);
	}
	w.rechecked = rr_fdt_changes();
	c[1]->face.state = RR_FAKE_TCP;
	recheck_all(&w);
	assert_counts(2, 2, 0);
	rr_fdt_evict(fds[1].fd);
	recheck_all(&w);
	cr_assert_eq(w.rechecked, rr_fdt_changes());
	assert_counts(0, 0, 2);
	assert_dropped(0, 2);
	assert_dropped(1, 2);
}

/* --- what is asked in a look --- */

static void assert_look(int i, bool told, bool ready, unsigned polls)
{
	slots[i].listed = true;		/* in the list that is gone */
	w.awake = NULL;
	c[i]->polls = 0;
	cr_assert_eq(look_slot(&w, &slots[i], told), ready, "%d", i);
	cr_assert_eq(c[i]->polls, polls, "%d", i);
	cr_assert_eq(told_of(i) != 0, ready, "%d: %x", i, told_of(i));
	cr_assert_eq(slots[i].listed, w.awake == &slots[i], "%d", i);
}

Test(ready_poll_steps, who_is_asked_in_a_look)
{
	hold(0);
	hold(1);
	put_to_rest(2);
	make_plain(3);
	c[1]->face.state = RR_FAKE_NEW;
	tell(0, 0);
	assert_look(0, false, false, 1);
	cr_assert(slots[0].listed && !slots[0].kernel && c[0]->asked == RR_ASK_FIRST);
	assert_entry(slots[0].k, -1, POLLIN);
	c[0]->ready = POLLIN;
	tell(0, POLLIN);		/* of its bell: that is not its own entry */
	assert_look(0, true, true, 1);
	cr_assert(slots[0].listed && told_of(0) == POLLIN);
	/* One of which the kernel tells. */
	tell(1, 0);
	assert_look(1, false, false, 1);
	cr_assert(slots[1].listed && slots[1].kernel);
	assert_entry(slots[1].k, fds[2].fd, POLLIN);
	tell(1, POLLIN);
	assert_look(1, true, false, 0);
	cr_assert(slots[1].listed && slots[1].kernel);
	tell(1, 0);
	assert_look(1, true, false, 1);
	tell(1, POLLIN);
	assert_look(1, false, false, 1);
	/* Nor those that rest, are plain, or are not ours any more. */
	for (int i = 2; i < M; i++) {
		tell(i, 0);
		fds[i + 1].revents = 0;
		assert_look(i, false, false, 0);
		cr_assert_not(slots[i].listed);
	}
	rr_slot_drop(&w, &slots[1]);
	fds[2].revents = 0;
	assert_look(1, false, false, 0);
	cr_assert_not(slots[1].listed);
	rr_plainwait_end(w.plainwait);
}

Test(ready_poll_steps, what_a_look_finds_out)
{
	for (int i = 0; i < M; i++)
		hold(i);
	/* Nothing for a while: it is put to rest; but not if it has something. */
	c[0]->quiet = c[1]->quiet = true;
	c[1]->ready = POLLIN;
	assert_look(0, false, false, 1);
	cr_assert(slots[0].rests && !slots[0].listed && w.resting == 1);
	assert_look(1, false, true, 1);
	cr_assert(!slots[1].rests && slots[1].listed && c[1]->arms == 0);
	/* A handler has interrupted its call. */
	c[2]->busy_from = 1;
	assert_look(2, false, false, 1);
	cr_assert(slots[2].deadlk && slots[2].listed && !slots[2].kernel);
	c[2]->busy_from = 0;
	assert_look(2, false, false, 1);
	cr_assert_not(slots[2].deadlk);
	/* Its number is another file's. */
	replace_unseen(3);
	c[3]->ready = POLLIN;
	assert_look(3, false, false, 1);
	cr_assert_not(slots[3].listed);
	assert_dropped(3, 1);
}

/* --- what the kernel has told --- */

static void assert_taken(int i, bool ready, short revents, unsigned polls)
{
	c[i]->polls = 0;
	cr_assert_eq(take_kernel(&w, &slots[i]), ready, "%d", i);
	cr_assert_eq(told_of(i), revents, "%d: %x", i, told_of(i));
	cr_assert_eq(c[i]->polls, polls, "%d", i);
}

Test(ready_poll_steps, of_one_at_rest_its_bell_tells)
{
	put_to_rest(0);
	tell(0, 0);
	assert_taken(0, false, 0, 0);
	cr_assert(slots[0].rests && !slots[0].listed && activated == 0);
	c[0]->ready = POLLIN;
	tell(0, POLLIN);
	assert_taken(0, true, POLLIN, 1);
	cr_assert_eq(activated, 1);
	cr_assert_eq(c[0]->asked, 0);
	assert_awake(0);
	/* It has become the kernel's since, whose word was about the bell; or a handler has interrupted its call. */
	for (int busy = 0; busy < 2; busy++) {
		c[0]->face.state = RR_FAKE_CARRIED;
		c[0]->ready = 0;
		rr_conn_arm(c[0], fds[1].fd, POLLIN);
		rr_pollrest_put(&w, &slots[0], c[0]->wake);
		c[0]->face.state = RR_FAKE_NEW;
		c[0]->busy_from = (unsigned)busy;
		tell(0, POLLIN);
		assert_taken(0, false, 0, 1);
		cr_assert(!slots[0].kernel && !slots[0].deadlk && !slots[0].rests);
	}
}

Test(ready_poll_steps, of_a_plain_one_the_kernel_tells_and_it_may_know_better)
{
	make_plain(0);
	tell(0, 0);
	assert_taken(0, false, 0, 0);
	cr_assert(slots[0].plain && !slots[0].listed);
	tell(0, POLLIN | POLLHUP);
	assert_taken(0, true, POLLIN | POLLHUP, 1);
	cr_assert(!slots[0].plain && slots[0].listed && slots[0].kernel && w.plain == 0 && activated == 1);
	cr_assert_eq(c[0]->asked, rr_ask_told(POLLIN | POLLHUP));
	/* It is carried by then, what came was for the library, and it is asked from now on. */
	c[0]->face.state = RR_FAKE_CARRIED;
	tell(0, POLLIN);
	assert_taken(0, false, 0, 1);
	cr_assert_not(slots[0].kernel);
	tell(0, POLLIN);
	assert_taken(0, true, OLD, 0);
	/* One whose number went: the kernel's word stands. */
	make_plain(1);
	rr_fdt_evict(fds[2].fd);
	tell(1, POLLNVAL);
	assert_taken(1, true, POLLNVAL, 0);
	assert_dropped(1, 1);
	cr_assert_eq(w.plain, 0);
}

Test(ready_poll_steps, of_one_that_is_the_kernels_it_tells)
{
	hold(0);
	hold(1);
	c[0]->face.state = RR_FAKE_NEW;
	slots[0].kernel = true;
	tell(0, 0);
	assert_taken(0, true, OLD, 0);
	fds[1].revents = 0;
	assert_taken(0, false, 0, 0);
	tell(0, POLLIN);
	assert_taken(0, true, POLLIN, 1);
	cr_assert(slots[0].kernel && c[0]->asked == rr_ask_told(POLLIN));
	/* TCP by now: the report may have been for what was read. */
	c[0]->face.state = RR_FAKE_TCP;
	tell(0, POLLIN);
	assert_taken(0, false, 0, 1);
	/* A handler has interrupted its call. */
	c[0]->busy_from = 1;
	tell(0, POLLIN);
	assert_taken(0, false, 0, 1);
	cr_assert(slots[0].kernel && slots[0].deadlk);
	c[0]->busy_from = 0;
	/* It is carried by now, and its number is another file's. */
	slots[1].kernel = true;
	replace_unseen(1);
	c[1]->ready = POLLIN;
	tell(1, POLLIN);
	fds[2].revents = 0;
	assert_taken(1, false, 0, 1);
	assert_dropped(1, 1);
}

/* With the number 0, and with none. */
Test(ready_poll_steps, entries_that_are_the_kernels_alone)
{
	uint32_t k[3];

	hold(1);
	for (int i = 0; i < 3; i++) {
		fds[i == 1 ? 0 : i == 2 ? 3 : 4] = (struct pollfd){ i - 1, POLLIN, OLD };
		k[i] = rr_work_add(&w, i == 1 ? 0 : i == 2 ? 3 : 4, RR_NO_SLOT);
		kern[k[i]].revents = POLLIN;
	}
	slots[1].kernel = true;
	rr_slot_drop(&w, &slots[1]);
	kern[slots[1].k].revents = POLLHUP;
	cr_assert_eq(look_kernel(&w), 3);
	cr_assert(fds[4].revents == 0 && fds[0].revents == POLLIN && fds[3].revents == POLLIN && told_of(1) == POLLHUP);
	kern[k[1]].revents = 0;
	cr_assert_eq(look_kernel(&w), 2);
	cr_assert_eq(fds[0].revents, 0);
}

/* --- whether the kernel is asked at all --- */

Test(ready_poll_steps, who_needs_the_kernel)
{
	nfds_t *any[] = { &w.others, &w.resting, &w.plain };

	hold(0);
	hold(1);
	rr_slot_wakes(&w, &slots[0]);
	rr_slot_wakes(&w, &slots[1]);
	cr_assert_not(any_kernel(&w));
	for (size_t i = 0; i < rr_array_size(any); i++) {
		*any[i] = 1;
		cr_assert(any_kernel(&w), "%zu", i);
		*any[i] = 0;
	}
	slots[0].kernel = true;
	cr_assert(any_kernel(&w));
}

Test(ready_poll_steps, where_it_is_not_asked_nothing_is_told_of_its_entries)
{
	hold(0);
	put_to_rest(1);
	make_plain(2);
	hold(3);
	rr_slot_drop(&w, &slots[3]);
	rr_work_add(&w, 0, RR_NO_SLOT);
	for (int i = 0; i <= M; i++)
		fds[i].revents = OLD;
	none_of_the_kernels(&w);
	for (int i = 0; i <= M; i++)
		cr_assert_eq(fds[i].revents, i == 1 ? OLD : 0, "%d", i);
	rr_plainwait_end(w.plainwait);
}
