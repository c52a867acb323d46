/* SPDX-License-Identifier: BSD-3-Clause */
/* How a wait of poll() arms its entries before a sleep, until when it sleeps, and what it asks while it spins. Epoll
 * sets and the time of idle connections are played. */
#include "core/base/os.h"
#include "preload/pollrest.h"

static RR_UNUSED rr_time idle_played(rr_time from);
static RR_UNUSED rr_time show_played(void);
static RR_UNUSED bool readable_played(struct rr_file *f, int epfd, rr_time *until);
static RR_UNUSED void awoken(struct rr_sock *so);
static RR_UNUSED void spin_played(const struct rr_conn *c, struct rr_spin *s);

#define rr_conn_idle idle_played
#define rr_ep_show_nested show_played
#define rr_ep_readable readable_played
#define rr_ep_activate awoken
#define rr_conn_spin spin_played
#include "preload/ready_poll.c"
#undef rr_conn_idle
#undef rr_ep_show_nested
#undef rr_ep_readable
#undef rr_ep_activate
#undef rr_conn_spin

#include "tests/unit/poll_slots.h"

static rr_time idle, nested, set_until;
static bool set_readable;
static int sets_asked, awakened, spins_asked;
static const struct rr_conn *enough;

static rr_time idle_played(rr_time from)
{
	cr_assert_eq(from, now);
	return idle;
}

static rr_time show_played(void)
{
	return nested;
}

static bool readable_played(struct rr_file *file, int epfd, rr_time *until)
{
	cr_assert(file == f[0] && epfd == fds[1].fd);
	sets_asked++;
	*until = set_until;
	return set_readable;
}

static void awoken(struct rr_sock *so)
{
	cr_assert_not_null(so);
	awakened++;
}

static void spin_played(const struct rr_conn *of, struct rr_spin *s)
{
	spins_asked++;
	s->want += (rr_time)of->inq;
	s->enough = of == enough;
}

/* All four have an entry, are awake, and do not come to rest. */
static void begin_arms(void)
{
	begin_slots();
	idle = nested = set_until = w.deadline = RR_TIME_NEVER;
	for (int i = M; i-- > 0;) {
		hold(i);
		rr_slot_wakes(&w, &slots[i]);
		c[i]->can_rest = false;
	}
}

TestSuite(ready_poll_arms, .init = begin_arms, .timeout = 60);

/* Behind the array. */
static void assert_extra(nfds_t i, int fd, short events)
{
	cr_assert_lt(i, w.extra);
	assert_entry((uint32_t)(w.nk + i), fd, events);
}

Test(ready_poll_arms, each_is_slept_for_by_what_tells_of_it)
{
	c[1]->face.state = RR_FAKE_NEW;
	slots[1].kernel = true;
	c[2]->face.state = RR_FAKE_WAITING;
	c[2]->until = now + 7 * RR_MSEC;
	slots[2].kernel = true;
	slots[3].deadlk = true;
	w.extra = 5;			/* of the sleep before */
	cr_assert_eq(arm_work(&w), 0);
	cr_assert_eq(w.extra, 3);
	assert_entry(slots[0].k, -1, POLLIN);
	assert_extra(0, fds[1].fd, POLLRDHUP);
	assert_extra(1, c[0]->wake, POLLIN);
	assert_entry(slots[1].k, fds[2].fd, POLLIN);
	assert_entry(slots[2].k, -1, POLLIN);
	assert_extra(2, c[2]->wake, POLLIN);
	cr_assert(slots[0].armed && slots[1].armed && slots[2].armed && !slots[3].armed && c[3]->arms == 0);
	cr_assert_eq(w.until, now + 7 * RR_MSEC);
	disarm_work(&w);
	for (int i = 0; i < M; i++)
		cr_assert(!slots[i].armed && c[i]->sleepers == 0 && c[i]->disarms == (i < 3), "%d", i);
	cr_assert_eq(awakened, 3);
	disarm_work(&w);
	cr_assert_eq(awakened, 3);
}

Test(ready_poll_arms, where_one_has_news_none_stays_armed)
{
	rr_slot_drop(&w, &slots[0]);
	c[3]->ready = POLLIN;
	cr_assert_eq(arm_work(&w), 1);
	for (int i = 0; i < M; i++)
		cr_assert(!slots[i].armed && c[i]->sleepers == 0, "%d", i);
	cr_assert(c[0]->arms == 0 && c[1]->arms == 1 && awakened == 2);
}

Test(ready_poll_arms, until_when_it_sleeps)
{
	cr_assert_eq(arm_work(&w), 0);
	cr_assert_eq(w.until, RR_TIME_NEVER);
	disarm_work(&w);
	idle = now + 900 * RR_MSEC;
	cr_assert_eq(arm_work(&w), 0);
	cr_assert_eq(w.until, idle);
	disarm_work(&w);
	w.deadline = now + 800 * RR_MSEC;
	cr_assert_eq(arm_work(&w), 0);
	cr_assert_eq(w.until, w.deadline);
	disarm_work(&w);
	fds[2].events = POLLOUT;
	cr_assert_eq(arm_work(&w), 0);
	cr_assert_eq(w.until, now + RR_SHUT_LOOK);
	cr_assert_eq(w.verify, 0);
}

Test(ready_poll_arms, those_that_come_to_rest_are_verified_later)
{
	c[1]->can_rest = c[2]->can_rest = true;
	cr_assert_eq(arm_work(&w), 0);
	cr_assert(slots[1].rests && slots[2].rests && !slots[1].armed && w.resting == 2 && w.extra == 4);
	assert_entry(slots[1].k, c[1]->wake, POLLIN);
	cr_assert(w.verify == now + RR_SEC && w.until == w.verify);
	disarm_work(&w);
	cr_assert(c[1]->sleepers == 1 && c[0]->sleepers == 0);
	/* That time stays; and a deadline before it counts. */
	w.awake = NULL;
	now += 5;
	cr_assert_eq(arm_work(&w), 0);
	cr_assert(w.verify == now - 5 + RR_SEC && w.until == w.verify && w.extra == 0);
	w.deadline = now + 1;
	cr_assert_eq(arm_work(&w), 0);
	cr_assert_eq(w.until, now + 1);
}

Test(ready_poll_arms, an_epoll_set_is_slept_for_by_its_own_number)
{
	slots[0].conn = NULL;
	kern[slots[0].k].fd = -1;
	nested = now + 300;
	set_until = now + 200;
	cr_assert_eq(arm_work(&w), 0);
	assert_entry(slots[0].k, fds[1].fd, POLLIN);
	cr_assert(w.until == now + 200 && sets_asked == 1 && !slots[0].armed);
	disarm_work(&w);
	nested = now + 100;
	fds[1].events = POLLRDNORM;
	cr_assert_eq(arm_work(&w), 0);
	cr_assert(w.until == now + 100 && sets_asked == 2);
	disarm_work(&w);
	set_readable = true;
	cr_assert_eq(arm_work(&w), 1);
	/* Nobody asks whether it can be read. */
	fds[1].events = POLLOUT | POLLHUP;
	cr_assert_eq(arm_work(&w), 0);
	cr_assert_eq(sets_asked, 3);
}

/* --- while it spins --- */

Test(ready_poll_arms, in_a_spin_only_those_are_asked_whose_memory_shows_something)
{
	struct rr_spin spin = { 0 };

	slots[3].conn = NULL;		/* a set */
	for (int i = 0; i <= M; i++)
		fds[i].revents = 9;
	cr_assert_not(peek_work(&w));
	cr_assert_eq(look_news(&w, &spin), 0);
	for (int i = 0; i <= M; i++)
		cr_assert_eq(fds[i].revents, i ? 0 : 9, "%d", i);
	c[1]->ready = POLLIN;
	c[2]->ready = POLLIN;
	c[2]->busy_from = 1;
	rr_slot_drop(&w, &slots[0]);
	cr_assert(peek_work(&w));
	cr_assert_eq(look_news(&w, &spin), 1);
	cr_assert(fds[2].revents == POLLIN && fds[1].revents == 0 && fds[3].revents == 0 && fds[4].revents == 0);
	cr_assert(c[0]->polls == 0 && c[1]->polls == 1 && c[2]->polls == 1 && c[3]->polls == 0);
	cr_assert_eq(c[1]->asked, 0);
}

Test(ready_poll_arms, those_awake_are_asked_for_how_long_until_one_wants_the_most)
{
	struct rr_spin spin = { .want = 99, .enough = true };

	for (int i = 0; i < M; i++)
		c[i]->inq = 1 << i;
	slots[0].conn = NULL;		/* a set */
	rr_slot_drop(&w, &slots[1]);
	spin_budget(&w, &spin);
	cr_assert(spin.want == 12 && spins_asked == 2 && !spin.enough);
	spins_asked = 0;
	enough = c[2];
	spin_budget(&w, &spin);
	cr_assert(spin.want == 4 && spins_asked == 1 && spin.enough);
}

/* --- when the kernel cannot be asked --- */

static int errors[4], nasked;

static int failing_poll(struct pollfd *p RR_UNUSED, nfds_t n RR_UNUSED, int timeout)
{
	cr_assert_eq(timeout, 0);
	errno = errors[nasked++];
	return errno ? -1 : 0;
}

static int look_with(int first, int second, int ready)
{
	nasked = 0;
	errors[0] = first;
	errors[1] = second;
	return look_theirs(&w, ready, false);
}

Test(ready_poll_arms, an_error_of_a_look)
{
	rr_real.poll = failing_poll;
	for (int i = 0; i < M; i++)
		fds[i + 1].revents = 0;
	cr_assert(look_with(EINTR, 0, 2) == 2 && nasked == 0, "nothing is the kernel's");
	slots[0].kernel = true;
	cr_assert(look_with(EINTR, 0, 2) == 2 && nasked == 1);
	cr_assert(look_with(EINTR, 0, 0) == -EINTR && nasked == 1);
	cr_assert(look_with(EINVAL, 0, 2) == -EINVAL && nasked == 1, "there is no set to go without");
	cr_assert(rr_pollrest_take(&w));
	cr_assert(look_with(ENOMEM, 0, 2) == -ENOMEM && nasked == 1 && w.set);
	cr_assert(look_with(EINVAL, EINTR, 2) == 2 && nasked == 2 && !w.set);
	cr_assert(rr_pollrest_take(&w));
	cr_assert(look_with(EINVAL, 0, 0) == 0 && nasked == 2 && !w.set);
}
