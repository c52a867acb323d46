/* SPDX-License-Identifier: BSD-3-Clause */
/* The two short sleeps of poll(): one connection at rest, and an array about which the kernel has the first word. The
 * kernel and the clock are played. */
#include <errno.h>

#include "core/base/os.h"
#include "preload/ready.h"

static rr_time idle_played(rr_time from);
static void activate_played(struct rr_sock *so);
static bool spin_played(struct rr_conn *c, unsigned want, rr_time deadline);
static int rests_played(const struct rr_conn *c);
static bool add_played(struct rr_plainwait **w, const struct rr_conn *c);
static bool stays_played(struct rr_sock *so);

#define rr_conn_idle idle_played
#define rr_ep_activate activate_played
#define rr_wait_spin spin_played
#define rr_conn_rests rests_played
#define rr_plainwait_add add_played
#define rr_unmet_stays stays_played
#include "preload/pollnap.c"
#include "preload/ready_plain.c"
#undef rr_conn_idle
#undef rr_ep_activate
#undef rr_wait_spin
#undef rr_conn_rests
#undef rr_plainwait_add
#undef rr_unmet_stays

#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

static struct rr_conn *c;
static struct rr_sock *so;
static struct pollfd p[4];

static int activated;
static rr_time idle;
static bool spin_pays, rests_not;
static unsigned added;

static rr_time idle_played(rr_time from)
{
	cr_assert_eq(from, now);
	return idle;
}

static void activate_played(struct rr_sock *of)
{
	cr_assert_eq(of, so);
	activated++;
}

static bool spin_played(struct rr_conn *of, unsigned want, rr_time deadline)
{
	cr_assert(of == c && want == POLLIN && deadline);
	return spin_pays;
}

static int rests_played(const struct rr_conn *of)
{
	return rests_not ? -1 : rr_conn_rests(of);
}

static bool add_played(struct rr_plainwait **w, const struct rr_conn *of)
{
	added++;
	return rr_plainwait_add(w, of);
}

static bool stays_played(struct rr_sock *of)
{
	return now - of->unmet.since < RR_UNMET_MOST;
}

/* What the sleeps were, and what ends them. */
static struct {
	int sleeps, says;
	const struct pollfd *fds;
	nfds_t n;
	struct pollfd first;
	rr_time left;		/* RR_TIME_NEVER: for ever */
	const sigset_t *mask;
	void (*meanwhile)(void);
} nap_told;

static rr_time slept_for;

static int ppoll_played(struct pollfd *fds, nfds_t n, const struct timespec *left, const sigset_t *mask)
{
	nap_told.sleeps++;
	nap_told.fds = fds;
	nap_told.n = n;
	nap_told.first = fds[0];
	nap_told.left = left ? (rr_time)left->tv_sec * RR_SEC + (rr_time)left->tv_nsec : RR_TIME_NEVER;
	nap_told.mask = mask;
	now += slept_for;
	if (nap_told.says > 0 && fds != p)	/* a nap's own array */
		fds[0].revents = POLLIN;
	if (nap_told.meanwhile)
		nap_told.meanwhile();
	errno = nap_told.says < 0 ? -nap_told.says : ENOKEY;
	return nap_told.says < 0 ? -1 : nap_told.says;
}

static void begin_sleep(void)
{
	int peer, fd = tcp(&peer);

	now = START;
	c = conn_that_rests(fd);
	so = container_of(rr_fdt_peek(fd), struct rr_sock, f);
	rr_file_hold(&so->f);	/* it outlasts its number */
	so->verified = now;
	idle = RR_TIME_NEVER;
	p[0] = (struct pollfd){ fd, POLLIN, 9 };
	rr_real.ppoll = ppoll_played;
	errno = ESRCH;
}

TestSuite(ready_sleeps, .init = begin_sleep);

/* --- one connection at rest --- */

static int naps(rr_time deadline)
{
	int rc, was = nap_told.sleeps;

	p[0].revents = 9;
	rc = rr_poll_nap(p, 1, deadline);
	cr_assert_eq(errno, ESRCH);
	cr_assert(c->sleepers == 0 && so->f.refs == 2);
	cr_assert_leq(nap_told.sleeps, was + 1);
	return rc;
}

static void comes(void)
{
	c->ready = POLLIN;
}

Test(ready_sleeps, one_at_rest_is_slept_for_by_its_wake_up_fd_alone)
{
	nap_told.says = 1;
	nap_told.meanwhile = comes;
	cr_assert_eq(naps(RR_TIME_NEVER), 1);
	cr_assert(nap_told.sleeps == 1 && nap_told.n == 1 && nap_told.mask == NULL);
	cr_assert(nap_told.first.fd == c->wake && nap_told.first.events == POLLIN && nap_told.first.revents == 0);
	cr_assert(p[0].revents == POLLIN && c->polls == 1 && c->asked == 0 && c->disarms == 1 && activated == 1);
	cr_assert_eq(c->later, 1, "its bell may wait");
	/* The bell was for something else. */
	c->ready = 0;
	nap_told.meanwhile = NULL;
	cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
	cr_assert(p[0].revents == 0 && c->polls == 2);
}

Test(ready_sleeps, how_long_one_at_rest_is_slept_for)
{
	static const struct { rr_time deadline, idle, left; int rc; } t[] = {
		{ RR_TIME_NEVER, RR_TIME_NEVER, RR_NAP_LEAST, RR_POLL_ON }, { START + 5, RR_TIME_NEVER, 5, 0 },
		{ START + RR_NAP_LEAST, RR_TIME_NEVER, RR_NAP_LEAST, 0 }, { START + 4 * RR_NAP_LEAST + 1, RR_TIME_NEVER, 4 * RR_NAP_LEAST, RR_POLL_ON },
		{ RR_TIME_NEVER, START + 7, 7, RR_POLL_ON }, { START + 9, START + 7, 7, RR_POLL_ON }, { START + 7, START + 9, 7, 0 },
	};

	for (size_t i = 0; i < rr_array_size(t); i++) {
		idle = t[i].idle;
		cr_assert_eq(naps(t[i].deadline), t[i].rc, "%zu", i);
		cr_assert_eq(nap_told.left, t[i].left, "%zu", i);
		cr_assert(c->rests && p[0].revents == 0 && c->disarms == 0);
	}
	cr_assert_eq(c->arms, 1);
}

static rr_time comes_after;

static void comes_late(void)
{
	comes();
	now += comes_after;
}

Test(ready_sleeps, naps_in_vain_become_longer_until_there_is_news_soon)
{
	for (int i = 0; i < 9; i++) {
		cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
		cr_assert_eq(nap_told.left, RR_NAP_LEAST << rr_min(i, 7), "%d", i);
	}
	nap_told.says = 1;
	nap_told.meanwhile = comes_late;
	comes_after = RR_NAP_LEAST;
	for (int i = 0; i < 3; i++) {
		c->ready = 0;
		cr_assert_eq(naps(RR_TIME_NEVER), 1);
		cr_assert_eq(nap_told.left, RR_NAP_LEAST << 7);
		comes_after -= i;
	}
	c->ready = 0;
	naps(RR_TIME_NEVER);
	cr_assert_eq(nap_told.left, RR_NAP_LEAST);
}

static int polled_fd;
static nfds_t polled;

static int anchor_speaks(struct pollfd *q, nfds_t n, int ms)
{
	cr_assert(n == 1 && ms == 0 && q->events == (POLLIN | POLLRDHUP));
	polled += n;
	polled_fd = q->fd;
	return 1;
}

/* Neither would hear of it before the next nap is over, or ever if all its calls are shorter. */
Test(ready_sleeps, a_nap_that_has_missed_something_was_not_in_vain)
{
	static const struct { rr_time deadline; bool asks; } t[] = {
		{ RR_TIME_NEVER, true }, { START + RR_NAP_LEAST, true }, { START + RR_NAP_LEAST - 1, false },
	};

	naps(RR_TIME_NEVER);
	rr_real.poll = anchor_speaks;
	for (size_t i = 0; i < rr_array_size(t); i++) {
		polled = 0;
		c->rests = true;
		c->disarms = activated = 0;
		cr_assert_eq(naps(t[i].deadline), t[i].asks ? RR_POLL_ON : 0, "%zu", i);
		cr_assert(polled == t[i].asks && c->disarms == polled && activated == (int)polled, "%zu", i);
		cr_assert(!polled || polled_fd == p[0].fd);
	}
	c->rests = true;
	naps(RR_TIME_NEVER);
	cr_assert_eq(nap_told.left, RR_NAP_LEAST);
}

static void ends(void)
{
	now += nap_told.left;
	c->ready = nap_told.n == 2 ? POLLIN : 0;
}

/* Also if its time-out is over by then. */
Test(ready_sleeps, a_thread_whose_nap_has_missed_something_sleeps_on_the_anchor)
{
	nap_told.meanwhile = ends;
	for (int i = 0; i < 2; i++) {
		c->rests = true;
		c->ready = 0;
		rr_real.poll = poll;
		cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON, "in vain, so the next is twice as long");
		rr_real.poll = anchor_speaks;
		nap_told.sleeps = 0;
		cr_assert_eq(rr_wait_one(so, p[0].fd, POLLIN, i ? now + RR_NAP_LEAST : RR_TIME_NEVER), 0, "%d", i);
		cr_assert(nap_told.sleeps == 2 && (nap_told.left == 0 || !i), "%d", i);
	}
	cr_assert_eq(rr_nap_time(), RR_NAP_LEAST);
}

static rr_time lefts[2];

static void time_passes(void)
{
	lefts[(nap_told.sleeps + 1) % 2] = nap_told.left;
	now += nap_told.left;
}

/* The second sleep of a wait is on the anchor, too. */
Test(ready_sleeps, so_do_those_of_a_thread_that_waits_for_one_connection)
{
	nap_told.meanwhile = time_passes;
	for (int i = 0; i < 9; i++) {
		rr_time nap = RR_NAP_LEAST << rr_min(i, 7);

		nap_told.sleeps = 0;
		cr_assert_eq(rr_wait_one(so, p[0].fd, POLLIN, now + nap + RR_NAP_LEAST), -EAGAIN);
		cr_assert(nap_told.sleeps == 2 && lefts[0] == nap && lefts[1] == RR_NAP_LEAST, "%d", i);
	}
	nap_told.meanwhile = comes_late;
	for (int i = 0; i < 3; i++) {
		c->ready = 0;
		comes_after = RR_NAP_LEAST - (rr_time)rr_max(i - 1, 0);
		cr_assert_eq(rr_wait_one(so, p[0].fd, POLLIN, RR_TIME_NEVER), 0);
		cr_assert_eq(nap_told.left, RR_NAP_LEAST << 7, "%d", i);
	}
	c->ready = 0;
	c->later = 0;
	rr_wait_one(so, p[0].fd, POLLIN, RR_TIME_NEVER);
	cr_assert(nap_told.left == RR_NAP_LEAST && c->later == 1);
}

Test(ready_sleeps, a_signal_ends_it_and_another_error_is_the_long_ways)
{
	nap_told.says = -EINTR;
	cr_assert_eq(naps(START + 5), -EINTR);
	nap_told.says = -EINVAL;
	cr_assert_eq(naps(START + 5), RR_POLL_ON);
	cr_assert(p[0].revents == 0 && c->disarms == 0 && activated == 0);
}

static void closes(void)
{
	comes();
	cr_assert_eq(rr_wrap_close(p[0].fd), 0);
	rr_file_hold(&so->f);
}

static void is_replaced_unseen(void)
{
	int peer;

	comes();
	now++;
	cr_assert_eq(dup2(tcp(&peer), p[0].fd), p[0].fd);
	rr_file_hold(&so->f);
}

Test(ready_sleeps, what_has_its_number_by_then_is_the_long_ways)
{
	nap_told.says = 1;
	nap_told.meanwhile = closes;
	cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
	cr_assert_eq(p[0].revents, 0);
	begin_sleep();
	nap_told.meanwhile = is_replaced_unseen;
	cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
	cr_assert_eq(p[0].revents, 0);
}

Test(ready_sleeps, before_the_sleep_it_spins_and_arms_unless_it_rests_already)
{
	spin_pays = true;
	c->ready = POLLIN;
	cr_assert_eq(naps(RR_TIME_NEVER), 1);
	cr_assert(p[0].revents == POLLIN && c->arms == 0);
	spin_pays = false;
	cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
	cr_assert(p[0].revents == 0 && c->arms == 1 && nap_told.sleeps == 0);
	c->ready = 0;
	rests_not = true;
	cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
	cr_assert(c->arms == 2 && c->disarms == 1 && activated == 1 && nap_told.sleeps == 0);
	rests_not = false;
	c->can_rest = false;
	cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
	cr_assert(c->arms == 2 && nap_told.sleeps == 0 && p[0].revents == 0);
	c->can_rest = c->rests = true;
	c->wake = 0;		/* a number as any other */
	cr_assert_eq(naps(START + 1), 0);
	cr_assert(c->arms == 2 && nap_told.sleeps == 1 && nap_told.first.fd == 0);
	c->rests = false;
	cr_assert_eq(naps(START + 1), 0);
	cr_assert(c->arms == 3 && nap_told.sleeps == 2);
}

Test(ready_sleeps, what_asks_for_more_or_is_the_kernels_is_untouched)
{
	static const short events[] = { POLLIN | POLLOUT, POLLOUT, 0, POLLPRI, POLLIN | POLLRDHUP };

	for (size_t i = 0; i < rr_array_size(events); i++) {
		p[0].events = events[i];
		cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
		cr_assert_eq(p[0].revents, 9);
	}
	p[0].events = POLLIN;
	c->face.state = RR_FAKE_TCP;
	cr_assert_eq(naps(RR_TIME_NEVER), RR_POLL_ON);
	cr_assert(p[0].revents == 9 && nap_told.sleeps == 0 && c->arms == 0);
}

static void is_cancelled(void)
{
	comes();
	pthread_cancel(pthread_self());
}

static _Atomic int said;
static bool by_nap;

static void *sleep_cancelled(void *arg RR_UNUSED)
{
	int was;

	if (by_nap)
		said = rr_poll_nap(p, 1, RR_TIME_NEVER);
	else
		said = rr_poll_plain(p, 1, RR_TIME_NEVER, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was == PTHREAD_CANCEL_ENABLE ? NULL : &said;
}

static void cancelled_behind_its_sleep(void)
{
	pthread_t t;
	void *how;

	nap_told.says = 1;
	nap_told.meanwhile = is_cancelled;
	cr_assert_eq(pthread_create(&t, NULL, sleep_cancelled, NULL), 0);
	pthread_join(t, &how);
	cr_assert(how == NULL && said == 1, "it has returned, and may be cancelled");
	cr_assert(c->sleepers == 0 && so->f.refs == 2);
}

Test(ready_sleeps, a_thread_that_is_to_end_behind_its_nap_lets_go_first)
{
	by_nap = true;
	cancelled_behind_its_sleep();
}

/* --- the kernel has the first word --- */

static void begin_plain(void)
{
	begin_sleep();
	c->face.state = RR_FAKE_NEW;
	c->plain = true;
}

TestSuite(ready_sleeps_plain, .init = begin_plain);

static int sleeps_plain(nfds_t n, rr_time deadline)
{
	unsigned was = added;
	int rc = rr_poll_plain(p, n, deadline, NULL);

	cr_assert_eq(errno, ESRCH);
	cr_assert_eq(c->sleepers, 0);
	cr_assert_eq(so->f.refs, 2);
	cr_assert_leq(added, was + 1);
	return rc;
}

static void assert_long_way(nfds_t n)
{
	cr_assert_eq(sleeps_plain(n, 0), RR_POLL_ON);
	cr_assert_eq(nap_told.sleeps, 0);
}

static void assert_short_way(nfds_t n)
{
	cr_assert_eq(sleeps_plain(n, 0), 0);
	cr_assert_eq(nap_told.sleeps, 1);
	nap_told.sleeps = 0;
}

Test(ready_sleeps_plain, for_which_arrays_the_kernels_word_is_enough)
{
	int peer, fd = p[0].fd, set = rr_wrap_epoll_create1(0), tcp_fd = tcp(&peer);

	rr_fake_conn(tcp_fd, RR_FAKE_TCP);
	assert_short_way(1);
	p[1] = (struct pollfd){ -1, POLLIN, 0 };
	p[2] = (struct pollfd){ peer, POLLIN, 0 };
	p[3] = (struct pollfd){ tcp_fd, POLLIN, 0 };
	assert_short_way(4);
	p[2].fd = set;
	assert_long_way(4);
	assert_short_way(2);
	p[2].fd = tcp(&peer);
	rr_fake_conn(p[2].fd, RR_FAKE_CARRIED);
	assert_short_way(2);
	p[0].fd = -1;
	assert_short_way(2);	/* none has a connection of ours */
	p[0].fd = fd;
	cr_assert_eq(dup2(fd, 0), 0);
	rr_fdt_give(0, &so->f);
	rr_file_hold(&so->f);
	p[0].fd = 0;
	cr_assert_eq(rr_poll_plain(p, 1, 0, NULL), 0);
	cr_assert_eq(nap_told.sleeps, 1);
}

Test(ready_sleeps_plain, who_has_not_been_met_stays_so_for_a_while)
{
	int peer, fd = tcp(&peer);
	struct rr_sock *new = rr_sock_new(fd);

	rr_fdt_give(fd, &new->f);
	new->flags = RR_SOCK_UNMET;
	new->unmet.since = now;
	p[0].fd = fd;
	cr_assert_eq(rr_poll_plain(p, 1, RR_TIME_NEVER, NULL), RR_POLL_ON);
	cr_assert(nap_told.sleeps == 1 && nap_told.left == RR_UNMET_MOST && added == 0);
	cr_assert_eq(rr_poll_plain(p, 1, now + 5, NULL), RR_POLL_ON);
	cr_assert(nap_told.sleeps == 2 && nap_told.left == 5);
	now += RR_UNMET_MOST;
	cr_assert_eq(rr_poll_plain(p, 1, RR_TIME_NEVER, NULL), RR_POLL_ON);
	cr_assert_eq(nap_told.sleeps, 2, "it is met first");
}

Test(ready_sleeps_plain, the_kernel_sleeps_on_the_apps_array)
{
	static const struct { rr_time deadline, idle, left, slept; int rc; } t[] = {
		{ RR_TIME_NEVER, RR_TIME_NEVER, RR_TIME_NEVER, 1, RR_POLL_ON }, { 0, RR_TIME_NEVER, 0, 0, 0 },
		{ START + 5, RR_TIME_NEVER, 5, 5, 0 }, { START + 5, RR_TIME_NEVER, 5, 6, 0 }, { START + 5, RR_TIME_NEVER, 5, 4, RR_POLL_ON },
		{ START + 5, START + 3, 3, 3, RR_POLL_ON }, { START + 5, START + 3, 3, 9, RR_POLL_ON }, { START + 5, START + 5, 5, 5, 0 },
	};
	sigset_t mask;

	for (size_t i = 0; i < rr_array_size(t); i++) {
		now = START;
		idle = t[i].idle;
		slept_for = t[i].slept;
		cr_assert_eq(rr_poll_plain(p, 2, t[i].deadline, &mask), t[i].rc, "%zu", i);
		cr_assert(nap_told.left == t[i].left && nap_told.fds == p && nap_told.n == 2 && nap_told.mask == &mask, "%zu", i);
		cr_assert_eq(c->sleepers, 0);
	}
}

Test(ready_sleeps_plain, an_upgrade_that_looked_meanwhile_has_the_array_asked_again)
{
	int peer;

	cr_assert_eq(rr_poll_plain(p, 1, 0, NULL), 0);
	cr_assert_eq(added, 1);
	rr_fake_unsure(c);
	cr_assert_eq(rr_poll_plain(p, 1, 0, NULL), RR_POLL_ON);
	cr_assert(added == 3 && nap_told.sleeps == 1 && c->sleepers == 0);
	/* Another than those in the array. */
	c->plain = true;
	rr_fake_unsure(rr_fake_conn(tcp(&peer), RR_FAKE_NEW));
	cr_assert_eq(rr_poll_plain(p, 1, 0, NULL), 0);
	cr_assert(added == 5 && nap_told.sleeps == 2 && c->sleepers == 0);
}

Test(ready_sleeps_plain, a_signal_or_another_error_is_the_apps)
{
	nap_told.says = -EINTR;
	cr_assert_eq(sleeps_plain(1, RR_TIME_NEVER), -EINTR);
	nap_told.says = -ENOMEM;
	cr_assert_eq(sleeps_plain(1, RR_TIME_NEVER), -ENOMEM);
	cr_assert_eq(c->polls, 0);
}

static short reports[4];

static void reports_come(void)
{
	for (int i = 0; i < 4; i++)
		p[i].revents = reports[i];
}

/* The kernel reports so many, and of what it reports of the first entry the app is told this. */
static void assert_reported(int says, int rc, short told)
{
	nap_told.says = says;
	nap_told.meanwhile = reports_come;
	activated = 0;
	cr_assert_eq(rr_poll_plain(p, 3, 0, NULL), rc);
	cr_assert_eq(p[0].revents, told);
	cr_assert(c->sleepers == 0 && so->f.refs == 2);
}

Test(ready_sleeps_plain, what_the_kernel_reports_is_asked_of_the_connection)
{
	p[0].events = POLLIN | POLLPRI;
	p[1] = (struct pollfd){ -1, POLLIN, 0 };
	p[2] = (struct pollfd){ 0, POLLIN, 0 };
	reports[0] = POLLIN | POLLPRI;
	assert_reported(1, 1, POLLIN | POLLPRI);
	cr_assert(c->asked == RR_ASK_TOLD && c->polls == 1 && activated == 1);
	reports[0] = 0;
	reports[2] = POLLIN;
	assert_reported(1, 1, 0);
	cr_assert(p[2].revents == POLLIN && c->polls == 1 && activated == 0);
	reports[0] = POLLIN;
	assert_reported(2, 2, POLLIN);
	cr_assert(p[2].revents == POLLIN && c->polls == 2);
	/* It has been upgraded meanwhile: its memory is what counts. */
	c->face.state = RR_FAKE_NEW;
	reports[0] = POLLIN | POLLHUP;
	c->busy_from = 1;
	assert_reported(2, 1, 0);
	cr_assert_eq(p[2].revents, POLLIN);
	c->busy_from = 0;
}

static void is_upgraded(void)
{
	reports_come();
	c->face.state = RR_FAKE_CARRIED;
}

static void assert_upgraded(unsigned ready, int rc, short told)
{
	c->face.state = RR_FAKE_NEW;
	c->ready = ready;
	reports[0] = POLLPRI;
	nap_told.says = 1;
	nap_told.meanwhile = is_upgraded;
	cr_assert_eq(rr_poll_plain(p, 1, 0, NULL), rc);
	cr_assert_eq(p[0].revents, told);
}

Test(ready_sleeps_plain, of_one_that_was_upgraded_meanwhile_its_memory_counts)
{
	p[0].events = POLLIN | POLLRDNORM;
	assert_upgraded(0, 0, 0);
	assert_upgraded(POLLIN, 1, POLLIN | POLLRDNORM);
	assert_upgraded(POLLHUP, 1, POLLHUP);
}

/* There the kernel's word is the last one. */
static void is_closed(void)
{
	reports_come();
	cr_assert_eq(rr_wrap_close(p[0].fd), 0);
}

Test(ready_sleeps_plain, of_one_that_was_closed_meanwhile_the_kernels_word_stands)
{
	reports[0] = POLLNVAL;
	nap_told.says = 1;
	nap_told.meanwhile = is_closed;
	cr_assert_eq(rr_poll_plain(p, 1, RR_TIME_NEVER, NULL), 1);
	cr_assert(p[0].revents == POLLNVAL && c->polls == 0);
}

static void becomes_tcp(void)
{
	reports_come();
	c->face.state = RR_FAKE_TCP;
}

Test(ready_sleeps_plain, of_one_that_became_the_kernels_meanwhile_its_word_stands)
{
	reports[0] = POLLIN;
	nap_told.says = 1;
	nap_told.meanwhile = becomes_tcp;
	cr_assert_eq(sleeps_plain(1, RR_TIME_NEVER), 1);
	cr_assert(p[0].revents == POLLIN && c->polls == 0 && activated == 0);
}

/* Another thread of the app writes into the array meanwhile. */
Test(ready_sleeps_plain, no_more_are_asked_than_the_kernel_reported_nor_than_there_are)
{
	struct rr_conn *d;
	int peer;

	p[1] = (struct pollfd){ tcp(&peer), POLLIN, 0 };
	d = rr_fake_conn(p[1].fd, RR_FAKE_NEW);
	d->plain = true;
	p[2] = (struct pollfd){ -1, POLLIN, 0 };
	reports[0] = reports[1] = POLLIN;
	assert_reported(1, 1, POLLIN);
	cr_assert(c->polls == 1 && d->polls == 0);
	so = container_of(rr_fdt_peek(p[1].fd), struct rr_sock, f);
	reports[0] = 0;
	nap_told.says = 1;
	cr_assert_eq(rr_poll_plain(p, 3, 0, NULL), 1);
	cr_assert(p[1].revents == POLLIN && c->polls == 1 && d->polls == 1, "the second one");
	so = container_of(rr_fdt_peek(p[0].fd), struct rr_sock, f);
	reports[0] = POLLIN;
	nap_told.says = 3;
	cr_assert_eq(rr_poll_plain(p, 1, 0, NULL), 3);
	cr_assert(c->polls == 2 && d->polls == 1);
}

static void offer_is_taken(void)
{
	reports_come();
	c->face.state = RR_FAKE_WAITING;
}

/* What the kernel reported was not for the app, and there is time left, or none. */
Test(ready_sleeps_plain, after_a_report_that_was_none_it_goes_on_while_there_is_time)
{
	static const struct { rr_time deadline; int rc; } t[] = {
		{ 0, 0 }, { START + 3, 0 }, { START + 4, 0 }, { START + 5, RR_POLL_ON }, { RR_TIME_NEVER, RR_POLL_ON },
	};

	reports[0] = POLLIN;
	nap_told.says = 1;
	nap_told.meanwhile = offer_is_taken;
	slept_for = 4;
	for (size_t i = 0; i < rr_array_size(t); i++) {
		now = START;
		c->face.state = RR_FAKE_NEW;
		cr_assert_eq(rr_poll_plain(p, 1, t[i].deadline, NULL), t[i].rc, "%zu", i);
		cr_assert(p[0].revents == 0 && c->sleepers == 0);
	}
}

Test(ready_sleeps_plain, a_thread_that_is_to_end_behind_its_sleep_lets_go_first)
{
	c->offer = true;	/* whose bytes are read in a call that may be ended */
	cancelled_behind_its_sleep();
}

Test(ready_sleeps_plain, whether_the_thread_may_be_cancelled_is_the_apps)
{
	int was;

	for (int i = 0; i < 2; i++) {
		pthread_setcancelstate(i ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE, &was);
		cr_assert_eq(sleeps_plain(1, START), 0);
		c->face.state = RR_FAKE_CARRIED;
		cr_assert_eq(naps(START), 0);
		cr_assert_eq(sleeps_plain(1, START), RR_POLL_ON);
		c->face.state = RR_FAKE_NEW;
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
		cr_assert_eq(was, i ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE);
	}
}
