/* SPDX-License-Identifier: BSD-3-Clause */
/* The rounds of a wait of poll(): when the kernel is asked before the thread spins, for how long it sleeps, and what is
 * told after a sleep. The kernel, the clock, and what a connection wants of a spin are played. */
#include <errno.h>

#include "core/base/os.h"
#include "preload/looks.h"
#include "preload/pollrest.h"
#include "preload/restset.h"

static RR_UNUSED void spin_played(const struct rr_conn *c, struct rr_spin *s);
static RR_UNUSED bool spin_begins(struct rr_spin *s, rr_time deadline);

static RR_UNUSED bool spin_goes_on(struct rr_spin *s);
static RR_UNUSED bool spins_longer(struct rr_spin *s, rr_time deadline);
static RR_UNUSED bool recent_played(const struct rr_work *w);
static RR_UNUSED rr_time last_played(const struct rr_work *w);
static RR_UNUSED rr_time gap_played(const struct rr_work *w);
static RR_UNUSED void pause_played(const struct rr_fruitless *f);
static RR_UNUSED void reset_played(void);
static RR_UNUSED int nap_played(struct pollfd *fds, nfds_t n, rr_time deadline);
static RR_UNUSED bool find_played(struct rr_work *w, nfds_t ours, void *stack);

#define rr_conn_spin spin_played
#define rr_spin_begin spin_begins
#define rr_spin_on spin_goes_on
#define rr_spin_longer spins_longer
#define rr_looks_recent recent_played
#define rr_looks_last last_played
#define rr_looks_gap gap_played
#define rr_fruitless_pause pause_played
#define rr_restset_reset reset_played
#define rr_poll_nap nap_played
#define rr_pollfind find_played
#include "preload/ready_poll.c"
#undef rr_conn_spin
#undef rr_spin_begin
#undef rr_spin_on
#undef rr_spin_longer
#undef rr_looks_recent
#undef rr_looks_last
#undef rr_looks_gap
#undef rr_fruitless_pause
#undef rr_restset_reset
#undef rr_poll_nap
#undef rr_pollfind

#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

static char order[32];		/* what was done, one letter each: Look, spiN, Sleep */
static unsigned norder;
static rr_time want, left[16];
static uint32_t yields;
static short kernel_says;	/* of the array's last entry, in a look */
static void (*in_sleep)(struct pollfd *fds, nfds_t n);

static void note(char what)
{
	cr_assert_lt(norder + 1, sizeof(order));
	order[norder++] = what;
}

static unsigned sleeps(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < norder; i++)
		n += order[i] == 'S';
	return n;
}

static void spin_played(const struct rr_conn *c RR_UNUSED, struct rr_spin *s)
{
	s->want = want;
	s->yields = yields;
}

static bool spin_pays, recent;
static rr_time last_look;
static int pauses, longer;
static void (*in_spin)(unsigned round);
enum { STEP = 60, GAP = 100, ROUNDS = 6 };

static bool spin_begins(struct rr_spin *s, rr_time deadline)
{
	cr_assert(s->want == want && s->yields == yields && deadline);
	if (s->want || s->yields)
		note('N');
	s->now = s->began = START;
	return spin_pays;
}

static bool spin_goes_on(struct rr_spin *s)
{
	s->now += STEP;
	if (in_spin)
		in_spin((unsigned)((s->now - START) / STEP));
	return s->now <= START + ROUNDS * STEP;
}

static bool spins_longer(struct rr_spin *s, rr_time deadline)
{
	cr_assert(s->want == want && deadline);
	return longer-- > 0;
}

static bool recent_played(const struct rr_work *w RR_UNUSED)
{
	return recent;
}

static rr_time last_played(const struct rr_work *w RR_UNUSED)
{
	return last_look;
}

static rr_time gap_played(const struct rr_work *w RR_UNUSED)
{
	return GAP;
}

static void pause_played(const struct rr_fruitless *f)
{
	pauses = (int)f->n;
}

static int look_played(struct pollfd *fds, nfds_t n, int timeout)
{
	cr_assert_eq(timeout, 0);
	note('L');
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = 0;
	fds[n - 1].revents = kernel_says;
	return kernel_says != 0;
}

static int sleep_played(struct pollfd *fds, nfds_t n, const struct timespec *ts, const sigset_t *mask RR_UNUSED)
{
	int ready = 0;

	cr_assert_lt(sleeps(), rr_array_size(left));
	left[sleeps()] = ts ? (rr_time)ts->tv_sec * RR_SEC + (rr_time)ts->tv_nsec : RR_TIME_NEVER;
	note('S');
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = 0;
	if (in_sleep)
		in_sleep(fds, n);
	for (nfds_t i = 0; i < n; i++)
		ready += fds[i].revents != 0;
	if (!ready && ts)
		now += left[sleeps() - 1];
	return ready;
}

static int fd, peer, pipes[2];
static struct rr_conn *c;
static struct pollfd p[5];

static void begin_rounds(void)
{
	now = START;
	fd = tcp(&peer);
	c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	cr_assert_eq(pipe(pipes), 0);
	p[0] = (struct pollfd){ fd, POLLIN, 9 };
	p[1] = (struct pollfd){ pipes[0], POLLIN, 9 };
	rr_real.poll = look_played;
	rr_real.ppoll = sleep_played;
}

TestSuite(ready_poll_rounds, .init = begin_rounds, .timeout = 60);

static int wait_with(rr_time spin, uint32_t yield)
{
	norder = 0;
	memset(order, 0, sizeof(order));
	want = spin;
	yields = yield;
	return rr_wrap_poll(p, 2, 50);
}

/* Few are armed without: the sleep asks the kernel. */
Test(ready_poll_rounds, the_kernel_is_asked_before_a_spin_and_before_it_yields)
{
	cr_assert_eq(wait_with(0, 0), 0);
	cr_assert(!strcmp(order, "SL"), "%s", order);
	cr_assert_eq(wait_with(1, 0), 0);
	cr_assert(!strcmp(order, "LNSL"), "%s", order);
	cr_assert_eq(wait_with(0, 1), 0);
	cr_assert(!strcmp(order, "LNSL"), "%s", order);
	kernel_says = POLLIN;
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(wait_with(!i, (uint32_t)i), 1);
		cr_assert(!strcmp(order, "L"), "%s", order);
		cr_assert(p[0].revents == 0 && p[1].revents == POLLIN);
	}
}

static void wakes_in_vain(struct pollfd *fds, nfds_t n)
{
	if (sleeps() < 3)
		fds[n - 1].revents = POLLIN;	/* the bell, or the anchor */
	else
		c->ready = POLLHUP;
}

/* No descriptor tells of another thread's SHUT_WR on a connection that is carried. */
Test(ready_poll_rounds, who_waits_to_write_on_one_that_is_carried_looks_now_and_then)
{
	static const struct { short events; bool looks; } t[] = {
		{ POLLIN, false }, { POLLPRI, false }, { 0, false }, { POLLOUT, true }, { POLLWRNORM, true },
		{ POLLIN | POLLOUT, true }, { POLLRDNORM | POLLWRNORM, true }, { POLLWRBAND, false },
	};

	in_sleep = wakes_in_vain;
	for (size_t i = 0; i < rr_array_size(t); i++) {
		norder = 0;
		c->ready = 0;
		p[0].events = t[i].events;
		cr_assert_eq(rr_wrap_poll(p, 1, -1), 1, "%zu", i);
		cr_assert_eq(left[0], t[i].looks ? RR_SHUT_LOOK : RR_TIME_NEVER, "%zu: %lu", i, (unsigned long)left[0]);
		cr_assert_eq(p[0].revents, POLLHUP);
	}
	/* Of one that is TCP still the kernel tells. */
	c->face.state = RR_FAKE_NEW;
	c->ready = 0;
	in_sleep = NULL;
	norder = 0;
	p[0].events = POLLOUT;
	cr_assert_eq(rr_wrap_poll(p, 1, 100), 0);
	cr_assert_eq(left[0], 100 * RR_MSEC);
}

/* The app closes the number, and another file has it by the time that the kernel looks. */
static void number_goes(struct pollfd *fds, nfds_t n)
{
	cr_assert(n >= 2 && fds[0].fd == fd);
	if (sleeps() > 1)
		return;
	cr_assert_eq(rr_wrap_close(fd), 0);
	cr_assert_eq(dup2(pipes[0], fd), fd);
	fds[0].revents = POLLIN | POLLHUP;
}

Test(ready_poll_rounds, the_kernels_word_of_a_number_that_went_is_told_as_it_is)
{
	int other = tcp(&peer);

	c->face.state = RR_FAKE_NEW;
	c->plain = true;
	rr_fake_conn(other, RR_FAKE_CARRIED);
	p[1].fd = other;
	in_sleep = number_goes;
	cr_assert_eq(wait_with(0, 0), 1);
	cr_assert_eq(sleeps(), 1);
	cr_assert(p[0].revents == (POLLIN | POLLHUP) && p[1].revents == 0, "%x %x", p[0].revents, p[1].revents);
}

/* --- looks --- */

static void assert_order(const char *o, int line)
{
	cr_assert(!strcmp(order, o), "line %d: %s", line, order);
}

#define ORDER(o)	assert_order((o), __LINE__)

/* Of an array about which the kernel was asked a moment ago. */
Test(ready_poll_rounds, a_look_is_not_repeated_too_soon)
{
	recent = true;
	cr_assert_eq(wait_with(1, 0), 0);
	ORDER("NSL");
	c->ready = POLLIN;
	kernel_says = POLLIN;
	cr_assert_eq(wait_with(1, 0), 1);
	ORDER("");
	cr_assert(p[0].revents == POLLIN && p[1].revents == 0);
	norder = 0;
	cr_assert_eq(rr_wrap_poll(p, 2, 0), 2);
	ORDER("L");
	recent = false;
	cr_assert_eq(wait_with(1, 0), 2);
	ORDER("L");
	cr_assert(p[0].revents == POLLIN && p[1].revents == POLLIN);
}

static void both(struct pollfd *fds, nfds_t n)
{
	cr_assert(n == 4 && fds[1].fd == pipes[0] && fds[3].fd == c->wake);
	fds[1].revents = fds[3].revents = POLLIN;
	c->ready = POLLIN;
}

/* The sleep was the look. */
Test(ready_poll_rounds, what_the_kernel_told_when_the_sleep_ended_counts)
{
	in_sleep = both;
	for (int i = 0; i < 2; i++) {
		c->ready = 0;
		recent = i;
		cr_assert_eq(wait_with(0, 0), 2);
		ORDER("S");
		cr_assert(p[0].revents == POLLIN && p[1].revents == POLLIN);
	}
}

static void busy_news(unsigned round RR_UNUSED)
{
	c->ready = POLLIN;
	c->busy_from = 1;
}

static void want_more(unsigned round)
{
	want = 1 + (round > ROUNDS);
}

static void news_at_five(unsigned round)
{
	if (round == 5)
		c->ready = POLLIN;
}

static void news_at_seven(unsigned round)
{
	if (round == ROUNDS + 1)
		c->ready = POLLIN;
}

Test(ready_poll_rounds, a_spin_that_is_over_goes_on_if_that_is_wanted)
{
	spin_pays = true;
	longer = 1;
	in_spin = news_at_seven;
	cr_assert_eq(wait_with(1, 0), 1);
	ORDER("LNLLL");			/* after 120, 240 and 360; then memory shows it */
	cr_assert(p[0].revents == POLLIN && c->news_seen == 1 && longer == 0);
}

Test(ready_poll_rounds, a_spin_looks_at_the_kernel_now_and_then)
{
	spin_pays = true;
	cr_assert_eq(wait_with(1, 0), 0);
	ORDER("LNLLLSL");		/* after 120, 240 and 360 */
	last_look = START - 50;
	norder = 0;
	cr_assert_eq(wait_with(1, 0), 0);
	ORDER("LNLLLSL");		/* 60, 180 and 300 */
	last_look = START - GAP - 1;
	in_spin = news_at_five;
	cr_assert_eq(wait_with(1, 0), 1);
	ORDER("LNLLL");			/* 0, 120 and 240 */
	cr_assert_eq(p[0].revents, POLLIN);
	cr_assert_eq(c->news_seen, 1);
	/* When it is over they are asked anew for how long. */
	c->ready = 0;
	in_spin = want_more;
	cr_assert_eq(wait_with(1, 0), 0);
	cr_assert_eq(want, 2);
	/* Also while memory shows what cannot be had. */
	last_look = 0;
	c->ready = 0;
	in_spin = busy_news;
	cr_assert(wait_with(1, 0) == -1 && errno == EINTR);
	ORDER("LNLLL");
}

/* --- few and many, masks, errors --- */

/* One that rests, and one that is plain, need not be armed. */
Test(ready_poll_rounds, the_kernel_is_asked_before_many_are_armed)
{
	static const struct { int n; bool rests, plain, asked; } t[] = {
		{ FEW, false, false, false }, { FEW + 1, false, false, true }, { FEW + 1, true, false, false },
		{ FEW + 1, false, true, false }, { FEW + 2, true, false, true }, { FEW + 2, false, true, true },
		{ FEW + 2, true, true, false },
	};
	struct pollfd q[FEW + 3] = { { pipes[0], POLLIN, 0 } };
	struct rr_conn *d[FEW + 3];

	for (int i = 1; i < FEW + 3; i++) {
		int end;

		q[i] = (struct pollfd){ tcp(&end), POLLIN, 0 };
		d[i] = rr_fake_conn(q[i].fd, RR_FAKE_CARRIED);
	}
	for (size_t i = 0; i < rr_array_size(t); i++) {
		d[1]->rests = t[i].rests;
		container_of(rr_fdt_peek(q[1].fd), struct rr_sock, f)->verified = now;
		d[2]->plain = t[i].plain;
		d[2]->face.state = t[i].plain ? RR_FAKE_NEW : RR_FAKE_CARRIED;
		norder = 0;
		cr_assert_eq(rr_wrap_poll(q, (nfds_t)t[i].n + 1, 1), 0);
		cr_assert_eq(order[0], t[i].asked ? 'L' : 'S', "%zu: %c", i, order[0]);
	}
}

Test(ready_poll_rounds, with_a_mask_the_kernel_is_asked_first_and_slept_in_without_time)
{
	struct timespec none = { 0, 0 }, some = { 0, 1000000 };
	sigset_t mask;

	sigemptyset(&mask);
	cr_assert_eq(rr_wrap_ppoll(p, 2, &some, &mask), 0);
	ORDER("LSL");
	norder = 0;
	memset(order, 0, sizeof(order));
	cr_assert_eq(rr_wrap_ppoll(p, 2, &none, &mask), 0);
	cr_assert_eq(sleeps(), 1);
	cr_assert_eq(left[0], 0);
	norder = 0;
	memset(order, 0, sizeof(order));
	cr_assert_eq(rr_wrap_ppoll(p, 2, &none, NULL), 0);
	ORDER("L");
}

static void in_vain(struct pollfd *fds, nfds_t n)
{
	if (sleeps() < 5)
		fds[n - 1].revents = POLLIN;
}

Test(ready_poll_rounds, sleeps_that_end_for_nothing_are_counted)
{
	in_sleep = in_vain;
	cr_assert_eq(wait_with(0, 0), 0);
	cr_assert_eq(sleeps(), 5);
	cr_assert_eq(pauses, 4);
	/* The kernel was asked by each. */
	cr_assert_eq(wait_with(0, 1), 0);
	ORDER("LNSNSNSNSNSL");
}

static int resets, with_set;

static void reset_played(void)
{
	resets++;
}

/* The set of those at rest is readable, though none of them has rung. */
static void set_in_vain(struct pollfd *fds, nfds_t n)
{
	cr_assert_geq(n, 1);
	if (fds[0].fd != rr_restset_fd())
		return;
	with_set++;
	fds[0].revents = POLLIN;
}

Test(ready_poll_rounds, a_set_that_wakes_for_nothing_again_and_again_is_given_up)
{
	struct pollfd q[RR_POLL_MANY];

	for (int i = 0; i < RR_POLL_MANY; i++) {
		int end;

		q[i] = (struct pollfd){ tcp(&end), POLLIN, 0 };
		conn_that_rests(q[i].fd);
		container_of(rr_fdt_peek(q[i].fd), struct rr_sock, f)->verified = now;
	}
	in_sleep = set_in_vain;
	cr_assert_eq(rr_wrap_poll(q, RR_POLL_MANY, 500), 0);
	cr_assert_eq(with_set, SUSPECT);
	cr_assert_eq(sleeps(), SUSPECT + 1);
	cr_assert_eq(resets, 1);
}

static int failing_sleep(struct pollfd *fds RR_UNUSED, nfds_t n RR_UNUSED, const struct timespec *ts RR_UNUSED,
			 const sigset_t *mask RR_UNUSED)
{
	note('S');
	errno = ENOMEM;
	return -1;
}

Test(ready_poll_rounds, an_error_of_the_sleeps_is_the_apps_and_nothing_is_told)
{
	rr_real.ppoll = failing_sleep;
	p[0].revents = p[1].revents = 9;
	cr_assert(wait_with(0, 0) == -1 && errno == ENOMEM);
	ORDER("S");
	cr_assert(p[0].revents == 0 && p[1].revents == 0 && c->sleepers == 0);
	/* A handler has interrupted its call, and does not wait for it. */
	c->busy_from = 1;
	cr_assert(wait_with(0, 0) == -1 && errno == EINTR);
	ORDER("");
}

/* An earlier answer is no reason not to ask. */
Test(ready_poll_rounds, those_that_are_awake_are_asked_for_how_long_each_time)
{
	struct rr_slot slot = { .file = rr_fdt_peek(p[0].fd), .conn = c }, gone = { .next = &slot, .conn = c };
	struct rr_work w = { .awake = &gone };
	struct rr_spin spin = { .want = RR_SEC, .enough = true };

	cr_assert_not_null(slot.file);
	want = RR_MSEC;
	spin_budget(&w, &spin);
	cr_assert(spin.want == RR_MSEC && !spin.enough);
	w.awake = NULL;
	spin_budget(&w, &spin);
	cr_assert_eq(spin.want, 0);
}

/* --- few --- */

static int naps, nap_says = RR_POLL_ON;
static nfds_t nap_for;
static rr_time nap_until;

static int nap_played(struct pollfd *fds, nfds_t n, rr_time deadline)
{
	cr_assert_eq(fds, p);
	naps++;
	nap_for = n;
	nap_until = deadline;
	return nap_says;
}

/* It is the short way for few, and for a call that may sleep, as poll() does. */
Test(ready_poll_rounds, who_naps)
{
	sigset_t none;

	sigemptyset(&none);
	c->ready = POLLIN;
	nap_says = 4711;
	cr_assert_eq(rr_poll_wait(p, 1, START + RR_SEC, NULL), 4711);
	cr_assert(naps == 1 && nap_for == 1 && nap_until == START + RR_SEC);
	cr_assert_eq(rr_poll_wait(p, 4, START + RR_SEC, NULL), 4711);
	cr_assert(naps == 2 && nap_for == 4);
	naps = 1;
	cr_assert_eq(rr_poll_wait(p, 1, 0, NULL), 1);
	cr_assert_eq(rr_poll_wait(p, 1, START + RR_SEC, &none), 1);
	for (int i = 1; i < 5; i++)
		p[i].fd = -1;
	cr_assert_eq(rr_poll_wait(p, 5, START + RR_SEC, NULL), 1);
	cr_assert_eq(naps, 1);
	nap_says = RR_POLL_ON;
	cr_assert_eq(rr_poll_wait(p, 1, START + RR_SEC, NULL), 1);
	cr_assert_eq(naps, 2);
}

/* --- where the arrays lie --- */

static bool on_stack;

static bool find_played(struct rr_work *w, nfds_t ours, void *stack)
{
	on_stack = stack != NULL;
	return rr_pollfind(w, ours, stack);
}

Test(ready_poll_rounds, small_arrays_lie_on_the_stack)
{
	struct pollfd many[RR_STACK / sizeof(struct pollfd)];

	c->ready = POLLIN;
	for (nfds_t n = 1; n < rr_array_size(many); n++) {
		for (nfds_t i = 0; i < n; i++)
			many[i] = (struct pollfd){ i ? -1 : fd, POLLIN, 0 };
		cr_assert_eq(rr_poll_wait(many, n, 0, NULL), 1);
		cr_assert_eq(on_stack, rr_pollfind_size(n, 1) <= RR_STACK, "%d", (int)n);
	}
	cr_assert_not(on_stack, "the last ones are larger");
}
