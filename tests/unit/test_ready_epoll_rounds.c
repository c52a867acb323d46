/* SPDX-License-Identifier: BSD-3-Clause */
/* The rounds of a wait on an epoll set: what is done after a sleep that brought nothing, and where the lock is not to
 * be had. The clock, the kernel's sleep, the pauses and the sets within sets are played. */
#include <errno.h>

#include "preload/epset.h"
#include "preload/real.h"

static RR_UNUSED rr_time show_played(void);
static RR_UNUSED void pause_played(const struct rr_fruitless *f);
static RR_UNUSED bool round_played(struct rr_spin *spin);

#define rr_ep_show_nested show_played
#define rr_fruitless_pause pause_played
#define rr_spin_on round_played
#include "preload/epwait.c"
#undef rr_ep_show_nested
#undef rr_fruitless_pause
#undef rr_spin_on

#include "tests/unit/played_clock.h"
#include "tests/unit/ready_epoll.h"

static struct one o;
static rr_time shows_until[4];
static int shows, pauses, sleeps, ready_at;
static int timeouts[8];

static rr_time show_played(void)
{
	return shows < (int)rr_array_size(shows_until) ? shows_until[shows++] : RR_TIME_NEVER;
}

static bool at_once;
static typeof(rr_real.epoll_wait) next_wait;

/* It is told of each sleep that ended at once. */
static void pause_played(const struct rr_fruitless *f)
{
	pauses++;
	cr_assert_eq(f->n, at_once ? (unsigned)sleeps : 0);
}

static rr_time round_takes;	/* 0: it takes as long as it takes */
static int rounds, news_in;

/* A round of a spin. */
static bool round_played(struct rr_spin *spin)
{
	if (!round_takes)
		return rr_spin_on(spin);
	spin->now += round_takes;
	if (++rounds == news_in)
		rr_fake_ready(o.c, POLLIN, 0);
	return rounds < 20;
}

/* It ends by its time, or at once. */
static int sleep_played(int epfd, struct epoll_event *evs, int max, int timeout, const sigset_t *mask RR_UNUSED)
{
	cr_assert(epfd == o.ep && max == 8);
	cr_assert_lt(sleeps, (int)rr_array_size(timeouts));
	timeouts[sleeps++] = timeout;
	if (!at_once)
		now += (rr_time)timeout * RR_MSEC;
	if (sleeps == ready_at)
		rr_fake_ready(o.c, POLLIN, 0);
	return next_wait(epfd, evs, max, 0);
}

static void begin_rounds(void)
{
	now = START;
	for (size_t i = 0; i < rr_array_size(shows_until); i++)
		shows_until[i] = RR_TIME_NEVER;
	o = begin(RR_FAKE_CARRIED, EPOLLIN);
	next_wait = epoll_wait;
	rr_real.epoll_pwait = sleep_played;
}

TestSuite(ready_epoll_rounds, .init = begin_rounds, .timeout = 60);

/* Not a moment later. */
Test(ready_epoll_rounds, sets_within_sets_are_shown_as_soon_as_they_are_due)
{
	shows_until[0] = START + 5 * RR_MSEC;
	cr_assert_eq(look(&o, 20), 0);
	cr_assert_eq(sleeps, 2);
	cr_assert_eq(timeouts[0], 5);
	cr_assert_eq(timeouts[1], 15);
	cr_assert_eq(shows, 2);
}

Test(ready_epoll_rounds, sleeps_that_end_for_nothing_are_each_followed_by_a_pause)
{
	at_once = true;
	ready_at = 5;
	expect(&o, EPOLLIN);
	cr_assert_eq(sleeps, 5);
	cr_assert_eq(pauses, 4);
}

/* Of a level all of it is news, of an edge what was not told or has been used up since. */
Test(ready_epoll_rounds, what_memory_shows_is_news)
{
	struct rr_sock *so = rr_fdt_sock(o.fd);
	struct rr_ep_watch *w = so->watches;

	o.c->ready = POLLIN;
	for (int edge = 0; edge < 2; edge++) {
		w->app.events = edge ? EPOLLIN | EPOLLET : EPOLLIN;
		w->seen = w->dry = 0;
		cr_assert(rr_ep_peek(w, o.c));
		w->seen = POLLIN;
		cr_assert_eq(rr_ep_peek(w, o.c), !edge);
		w->dry = POLLIN;
		cr_assert(rr_ep_peek(w, o.c));
	}
	rr_file_put(&so->f);
}

/* Who does not wait asks it before the kernel and after it: each time that brings nothing counts (MISSES), and then it is
 * armed instead. */
Test(ready_epoll_rounds, one_that_has_nothing_is_armed_after_as_many_questions)
{
	int pipes[2], looks = 0;

	cr_assert_eq(pipe(pipes), 0);
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	ctl(o.ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN);
	while (!o.c->arms) {
		cr_assert_eq(look(&o, 0), 1);
		cr_assert_lt(looks++, 100);
	}
	cr_assert_eq(looks, 16);
	cr_assert_eq(o.c->polls, 32);
}

static int asked, asked_first;

static int counted_wait(int epfd, struct epoll_event *evs, int max, int timeout)
{
	asked += epfd == o.ep;
	return next_wait(epfd, evs, max, timeout);
}

static int first_sleep(int epfd, struct epoll_event *evs, int max, int timeout, const sigset_t *mask)
{
	asked_first = asked;
	return sleep_played(epfd, evs, max, timeout, mask);
}

/* Of a watch for edges memory does not tell, so it is asked; the kernel is asked by the sleep. */
Test(ready_epoll_rounds, the_kernel_is_not_asked_twice_where_nothing_of_ours_is_there)
{
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLET);
	rr_real.epoll_wait = counted_wait;
	rr_real.epoll_pwait = first_sleep;
	cr_assert_eq(look(&o, 20), 0);
	cr_assert_gt(o.c->polls, 0);
	cr_assert_eq(asked_first, 0);
	cr_assert_eq(sleeps, 1);
}

/* The lock is this thread's when the kernel has been asked, as if a handler had come in between that never returned. */
static int wait_and_lock(int epfd, struct epoll_event *evs, int max, int timeout)
{
	int n = next_wait(epfd, evs, max, timeout);

	if (epfd == o.ep)
		cr_assert(rr_ep_lock());
	return n;
}

Test(ready_epoll_rounds, what_was_found_is_told_though_the_lock_cannot_be_had_again)
{
	rr_real.epoll_wait = wait_and_lock;
	for (int ready = 0; ready < 2; ready++) {
		rr_fake_ready(o.c, ready ? POLLIN : 0, 0);
		errno = 0;
		cr_assert_eq(look(&o, 0), ready ? 1 : -1, "%d", ready);
		cr_assert_eq(errno, ready ? 0 : EINTR, "%d", ready);
		rr_ep_unlock();
	}
	cr_assert(o.ev[0].events == EPOLLIN && o.ev[0].data.u64 == ((uint64_t)o.fd << 32 | 7));
}

/* --- what a wait does without the lock --- */

static struct rr_ep_set *the_set(void)
{
	struct rr_file *f = rr_fdt_peek(o.ep);

	return container_of(f, struct rr_ep_set, f);
}

Test(ready_epoll_rounds, who_cannot_have_the_lock_sees_nothing_and_does_not_spin)
{
	struct rr_ep_set *s = the_set();
	struct rr_spin spin = { .now = START };

	o.c->ready = POLLIN;
	o.c->spin = RR_MSEC;
	cr_assert(rr_ep_lock());
	cr_assert_not(peek_spinning(s, &spin));
	cr_assert_eq(o.c->news_seen, 0);
	ask_spin(s, &spin);
	cr_assert_eq(spin.want, 0);
	cr_assert_not(rr_ep_lock(), "it is still the holder's");
	rr_ep_unlock();
	cr_assert(peek_spinning(s, &spin));
	cr_assert_eq(o.c->news_seen, 1);
	ask_spin(s, &spin);
	cr_assert_eq(spin.want, RR_MSEC);
}

Test(ready_epoll_rounds, who_cannot_have_the_lock_does_not_sleep)
{
	struct rr_ep_set *s = the_set();
	struct wait x = { .s = s, .epfd = o.ep, .evs = o.ev, .max = 8, .deadline = START + RR_SEC, .nested = RR_TIME_NEVER };

	cr_assert(rr_ep_lock());
	cr_assert_eq(epwait_sleep_once(&x), -EINTR);
	cr_assert(!sleeps && !s->sleepers);
	cr_assert_not(rr_ep_lock());
	rr_ep_unlock();
}

static int sleep_and_lock(int epfd, struct epoll_event *evs, int max, int timeout, const sigset_t *mask)
{
	int n = sleep_played(epfd, evs, max, timeout, mask);

	cr_assert(rr_ep_lock());
	return n;
}

Test(ready_epoll_rounds, who_cannot_have_the_lock_after_its_sleep_was_interrupted)
{
	rr_real.epoll_pwait = sleep_and_lock;
	errno = 0;
	cr_assert_eq(look(&o, 20), -1);
	cr_assert_eq(errno, EINTR);
	cr_assert(sleeps == 1 && !the_set()->sleepers);
	cr_assert_not(rr_ep_lock());
	rr_ep_unlock();
}

/* --- where no watch is ours --- */

static void be_plain(void)
{
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert_eq(the_set()->tagged, 0);
}

Test(ready_epoll_rounds, the_kernels_sleep_ends_when_sets_within_sets_are_due)
{
	be_plain();
	shows_until[0] = START + 5 * RR_MSEC;
	cr_assert_eq(look(&o, 20), 0);
	cr_assert(sleeps == 2 && timeouts[0] == 5 && timeouts[1] == 15);
	cr_assert_eq(shows, 2);
}

Test(ready_epoll_rounds, the_kernels_sleep_is_one_where_none_is_due)
{
	be_plain();
	cr_assert_eq(look(&o, 20), 0);
	cr_assert(sleeps == 1 && timeouts[0] == 20 && shows == 1);
	cr_assert_eq(the_set()->sleepers, 0);
}

/* One was tagged after the wait had looked whether any was. */
Test(ready_epoll_rounds, one_that_becomes_ours_before_the_sleep_is_waited_for)
{
	struct rr_ep_set *s = the_set();
	struct wait x = { .s = s, .epfd = o.ep, .evs = o.ev, .max = 8, .deadline = START + RR_SEC, .nested = RR_TIME_NEVER };
	int n;

	cr_assert_eq(s->tagged, 1);
	cr_assert_not(wait_plain(&x, &n));
	cr_assert(!sleeps && !s->sleepers);
}

/* --- spinning --- */

Test(ready_epoll_rounds, what_the_kernel_has_before_a_spin_is_told_at_once)
{
	int pipes[2];

	cr_assert_eq(pipe(pipes), 0);
	ctl(o.ep, EPOLL_CTL_ADD, pipes[0], EPOLLIN);
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	o.c->spin = RR_MSEC;
	rr_real.epoll_wait = counted_wait;
	cr_assert_eq(look(&o, 20), 1);
	cr_assert(asked == 1 && !sleeps);
}

/* How often the kernel is asked in a spin whose rounds take so long, and in one of which there is news. */
static int asked_in_spin(rr_time takes, int in, int max)
{
	struct wait x = { .s = the_set(), .epfd = o.ep, .evs = o.ev, .max = max, .deadline = RR_TIME_NEVER };
	struct rr_spin spin = { .now = START };

	rr_fake_ready(o.c, 0, POLLIN);
	rr_real.epoll_wait = counted_wait;
	round_takes = takes;
	rounds = asked = 0;
	news_in = in;
	cr_assert_eq(epwait_spin_until(&x, &spin), 1);
	cr_assert(rounds == in && o.ev[0].events == EPOLLIN);
	return asked;
}

/* It was asked before the spin, and had nothing. */
Test(ready_epoll_rounds, what_comes_soon_is_told_without_the_kernel)
{
	cr_assert_eq(asked_in_spin(1000, 4, 8), 0);
	cr_assert_eq(asked_in_spin(1000, 5, 8), 1, "with it, when its time has come");
	cr_assert_eq(asked_in_spin(1000, 6, 8), 1, "that was a moment ago");
	cr_assert_eq(asked_in_spin(1000, 10, 8), 2);
	cr_assert_eq(asked_in_spin(4001, 1, 8), 1);
}

/* A call of this connection is under way, which this thread's handler has interrupted. */
Test(ready_epoll_rounds, the_kernel_is_asked_in_time_though_memory_shows_what_is_not_told)
{
	struct wait x = { .s = the_set(), .epfd = o.ep, .evs = o.ev, .max = 8, .deadline = RR_TIME_NEVER };
	struct rr_spin spin = { .now = START };

	o.c->ready = POLLIN;
	o.c->busy_from = 1;
	rr_real.epoll_wait = counted_wait;
	round_takes = 1000;
	cr_assert_eq(epwait_spin_until(&x, &spin), 0);
	cr_assert(o.c->polls > 3 && asked == 3, "%d", asked);
}

/* There was no room for what it may have had. */
Test(ready_epoll_rounds, the_kernel_has_its_turn_in_a_spin_too)
{
	cr_assert_eq(asked_in_spin(1000, 2, 1), 0);
	cr_assert(the_set()->kernel_first);
	cr_assert_eq(asked_in_spin(1000, 2, 8), 1);
	cr_assert_not(the_set()->kernel_first);
}

/* A thread that sleeps on the set looks after what this one has not asked. */
Test(ready_epoll_rounds, what_is_told_without_the_kernel_leaves_the_rest_to_who_sleeps)
{
	struct one p = { .ep = o.ep, .fd = tcp(&p.peer) };

	p.c = rr_fake_conn(p.fd, RR_FAKE_CARRIED);
	ctl(o.ep, EPOLL_CTL_ADD, p.fd, EPOLLIN);
	atomic_store(&the_set()->sleepers, 1);
	cr_assert_eq(asked_in_spin(1000, 1, 8), 0);
	cr_assert(p.c->arms == 1 || the_set()->kicked);
	atomic_store(&the_set()->sleepers, 0);
}

/* Its connection has gone meanwhile. */
Test(ready_epoll_rounds, a_watch_without_a_connection_is_passed_over)
{
	struct one p = { .ep = o.ep, .fd = tcp(&p.peer) };
	struct rr_ep_set *s = the_set();

	p.c = rr_fake_conn(p.fd, RR_FAKE_CARRIED);
	ctl(o.ep, EPOLL_CTL_ADD, p.fd, EPOLLIN);
	cr_assert(s->first && s->first->next && s->first->next->so->conn == p.c);
	p.c->ready = POLLIN;
	o.c->ready = POLLIN;
	cr_assert_eq(peek_active(s, NULL), o.c);
	o.c->face.state = RR_FAKE_TCP;
	cr_assert_eq(peek_active(s, NULL), p.c);
	o.c->face.state = RR_FAKE_CARRIED;
}

/* The first answer is forgotten. */
Test(ready_epoll_rounds, when_a_spin_is_over_all_are_asked_anew_for_how_long)
{
	struct wait x = { .s = the_set(), .epfd = o.ep, .evs = o.ev, .max = 8, .deadline = RR_TIME_NEVER };
	struct rr_spin spin = { .now = START, .began = START, .want = RR_SEC, .enough = true };

	o.c->longer = RR_MSEC;
	epwait_spin_longer(&x, &spin);
	cr_assert(spin.want == RR_MSEC && !spin.enough);
}

Test(ready_epoll_rounds, who_knows_enough_asks_no_more)
{
	struct rr_spin spin = { .now = START, .enough = true };

	o.c->spin = RR_MSEC;
	cr_assert_null(peek_active(the_set(), &spin));
	cr_assert_eq(spin.want, 0);
	spin.enough = false;
	cr_assert_null(peek_active(the_set(), &spin));
	cr_assert_eq(spin.want, RR_MSEC);
}

Test(ready_epoll_rounds, whose_time_is_over_does_not_spin)
{
	struct wait x = { .s = the_set(), .epfd = o.ep, .evs = o.ev, .max = 8, .deadline = 1 };
	struct rr_spin spin = { .now = START, .want = RR_MSEC };

	cr_assert_eq(epwait_spin(&x, &spin), 0);
	cr_assert_eq(rr_fake_spun.calls, 0);
}

/* --- beside other threads --- */

static struct rr_ep_watch *the_watch(void)
{
	return the_set()->all;
}

/* While this thread sleeps another one is told what there is, and a third one still sleeps. */
static int told_another(int epfd, struct epoll_event *evs, int max, int timeout, const sigset_t *mask RR_UNUSED)
{
	sleeps++;
	the_watch()->told = the_set()->pass;
	if (o.c->face.state == RR_FAKE_CARRIED)
		rr_fake_ready(o.c, POLLIN, 0);
	return next_wait(epfd, evs, max, timeout ? 10000 : 0);
}

Test(ready_epoll_rounds, a_level_that_another_was_told_of_is_told_again_and_left_to_the_next)
{
	struct rr_ep_set *s = the_set();
	struct wait x = { .s = s, .epfd = o.ep, .evs = o.ev, .max = 8, .deadline = START + RR_SEC, .nested = RR_TIME_NEVER };

	atomic_store(&s->sleepers, 1);
	s->epfd = -1;
	rr_real.epoll_pwait = told_another;
	cr_assert_eq(epwait_sleep_once(&x), 1);
	cr_assert(sleeps == 1 && o.ev[0].events == EPOLLIN);
	cr_assert_eq(s->epfd, o.ep, "it is the number of this call");
	cr_assert(s->kicked && s->sleepers == 1);
	atomic_store(&s->sleepers, 0);
}

/* The same where the set seemed to have nothing of ours. */
Test(ready_epoll_rounds, what_the_kernel_has_for_another_is_told_again)
{
	struct rr_ep_set *s = the_set();
	struct wait x = { .s = s, .epfd = o.ep, .evs = o.ev, .max = 8, .deadline = START + RR_SEC, .nested = RR_TIME_NEVER };
	int n = 0;

	rr_fake_become(o.c, o.fd, RR_FAKE_NEW);
	cr_assert(the_watch()->form == RR_EP_PASS && s->keyed && s->tagged == 1);
	cr_assert_eq(write(o.peer, "x", 1), 1);
	uint64_t pass = s->pass;

	atomic_store(&s->tagged, 0);
	rr_real.epoll_pwait = told_another;
	cr_assert(wait_plain(&x, &n));
	cr_assert_eq(s->pass, pass + 1);
	cr_assert(n == 1 && sleeps == 1 && o.ev[0].events == EPOLLIN && o.ev[0].data.u64 == ((uint64_t)o.fd << 32 | 7));
	atomic_store(&s->tagged, 1);
}
