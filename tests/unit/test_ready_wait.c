/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread that waits for one connection: how long, by which call, and what a signal does to it. */
#include <errno.h>

#include "core/base/outdated.h"
#include "preload/epset.h"
#include "tests/lib/ready_test.h"
#include "tests/unit/spin_ends.h"

static int fd, peer;
static struct rr_conn *c;
static struct rr_sock *so;

/* What the sleeps are: the first `eintr` of them end by a signal, the next one finds news. */
static struct {
	int ppolls, recvs, eintr, recv_says, recv_fd, recv_flags;
	nfds_t n;
	struct pollfd p[2];
	bool forever;
	struct timespec left;
	unsigned news;
	int vain;		/* so many end at once, with nothing */
} nap;

static int sleep_script(struct pollfd *p, nfds_t n, const struct timespec *left, const sigset_t *mask)
{
	cr_assert_null(mask);
	nap.ppolls++;
	nap.n = n;
	memcpy(nap.p, p, rr_min(n, (nfds_t)2) * sizeof(*p));
	nap.forever = !left;
	if (left)
		nap.left = *left;
	if (nap.eintr > 0) {
		nap.eintr--;
		errno = EINTR;
		return -1;
	}
	if (nap.vain > 0) {
		nap.vain--;
		return 0;
	}
	c->ready |= nap.news;
	return nap.news ? 1 : 0;
}

static ssize_t recv_script(int at, void *buf RR_UNUSED, size_t n, int flags)
{
	cr_assert_eq(n, 1);
	nap.recvs++;
	nap.recv_fd = at;
	nap.recv_flags = flags;
	if (nap.recv_says < 0)
		errno = -nap.recv_says;
	else
		c->ready |= nap.news;
	return nap.recv_says < 0 ? -1 : nap.recv_says;
}

static void begin_wait(void)
{
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	fd = tcp(&peer);
	c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	so = rr_fdt_sock(fd);
	rr_file_put(&so->f);
	rr_real.ppoll = sleep_script;
	rr_real.recv = recv_script;
	nap.news = POLLIN;
	errno = 4711;
}

TestSuite(ready_wait, .init = begin_wait, .timeout = 60);

static void on_sig(int sig RR_UNUSED)
{
}

static void on_info(int sig RR_UNUSED, siginfo_t *info RR_UNUSED, void *arg RR_UNUSED)
{
}

static void handle(int sig, int flags)
{
	struct sigaction sa = { .sa_flags = flags };

	if (flags & SA_SIGINFO)
		sa.sa_sigaction = on_info;
	else
		sa.sa_handler = on_sig;
	cr_assert_eq(sigaction(sig, &sa, NULL), 0);
}

static void assert_waits(int rc, unsigned want, rr_time deadline)
{
	int r = rr_wait_one(so, fd, want, deadline);

	cr_assert_eq(r, rc, "%d", r);
	cr_assert(so->f.refs == 1 && c->sleepers == 0 && c->arms == c->disarms);
}

/* --- small ones --- */

Test(ready_wait, times)
{
	struct timespec t, *none = NULL;
	static const struct { struct timespec t; bool ok; } c_ok[] = {
		{ { 0, 0 }, true }, { { 0, 999999999 }, true }, { { 5, 1 }, true }, { { 0, 1000000000 }, false },
		{ { 0, -1 }, false }, { { -1, 0 }, false }, { { -1, 5 }, false },
	};
	rr_time from, d;

	for (size_t i = 0; i < rr_array_size(c_ok); i++)
		cr_assert_eq(rr_timespec_ok(&c_ok[i].t), c_ok[i].ok, "%zu", i);
	cr_assert_eq(rr_deadline(none), RR_TIME_NEVER);
	t = (struct timespec){ (time_t)UINT32_MAX + 1, 0 };
	cr_assert_eq(rr_deadline(&t), RR_TIME_NEVER);
	t.tv_sec--;
	cr_assert_neq(rr_deadline(&t), RR_TIME_NEVER);
	t = (struct timespec){ 3, 7 };
	from = rr_now();
	d = rr_deadline(&t);
	cr_assert(d >= from + 3 * RR_SEC + 7 && d <= rr_now() + 3 * RR_SEC + 7);
	cr_assert_null(rr_left(&t, 5, RR_TIME_NEVER));
	cr_assert_eq(rr_left(&t, 5, 5), &t);
	cr_assert(!t.tv_sec && !t.tv_nsec);
	rr_left(&t, 6, 5);
	cr_assert(!t.tv_sec && !t.tv_nsec);
	rr_left(&t, 5, 5 + 2 * RR_SEC + 3);
	cr_assert(t.tv_sec == 2 && t.tv_nsec == 3);
}

Test(ready_wait, what_a_socket_says_of_waiting)
{
	struct timeval tv = { 2, 500000 }, us = { 0, 300000 };
	rr_time from, d;

	cr_assert(rr_wait_allowed(fd));
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	cr_assert_not(rr_wait_allowed(fd));
	cr_assert_not(rr_wait_allowed(9999));
	cr_assert_eq(rr_wait_deadline(fd, SO_RCVTIMEO), RR_TIME_NEVER);
	cr_assert_eq(rr_wait_deadline(9999, SO_RCVTIMEO), RR_TIME_NEVER);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &us, sizeof(us)), 0);
	from = rr_now();
	d = rr_wait_deadline(fd, SO_RCVTIMEO);
	cr_assert(d >= from + 2500 * RR_MSEC && d <= rr_now() + 2500 * RR_MSEC);
	from = rr_now();
	d = rr_wait_deadline(fd, SO_SNDTIMEO);
	cr_assert(d >= from + 299 * RR_MSEC && d <= rr_now() + 305 * RR_MSEC, "the kernel counts in jiffies");
}

Test(ready_wait, what_was_told_of_one_that_is_tcp_is_asked_anew)
{
	struct pollfd p = { fd, POLLIN, 0 };

	cr_assert_eq(rr_still_told(c, &p, POLLIN), POLLIN);
	c->face.state = RR_FAKE_TCP;
	cr_assert_eq(rr_still_told(c, &p, POLLIN), 0);
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(rr_still_told(c, &p, POLLIN | POLLOUT), POLLIN);
}

/* A pause of which only the least is known. */
static rr_time pause_after(unsigned n)
{
	struct rr_fruitless f = { n };
	rr_time from = rr_now();

	rr_fruitless_pause(&f);
	return rr_now() - from;
}

Test(ready_wait, sleeps_that_bring_nothing_are_followed_by_pauses)
{
	struct rr_fruitless f = { 0 };

	for (unsigned i = 1; i < 4; i++) {
		rr_fruitless_slept(&f, 100, 100 + RR_MSEC - 1);
		cr_assert_eq(f.n, i);
	}
	rr_fruitless_slept(&f, 100, 100 + RR_MSEC);
	cr_assert_eq(f.n, 0);
	cr_assert_geq(pause_after(3), 20 * RR_USEC);
	cr_assert_geq(pause_after(4), 40 * RR_USEC);
	cr_assert_geq(pause_after(6), 160 * RR_USEC);
	cr_assert_geq(pause_after(7), 200 * RR_USEC);
	cr_assert_geq(pause_after(4000), 200 * RR_USEC);
}

/* The Makefile wraps it. */
static rr_time napped;
static int naps;

void __real_rr_os_nap(rr_time t);
void __wrap_rr_os_nap(rr_time t);

void __wrap_rr_os_nap(rr_time t)
{
	napped = t;
	naps++;
	__real_rr_os_nap(t);
}

Test(ready_wait, pauses_begin_with_the_third_and_double_up_to_the_longest)
{
	static const struct { unsigned n, us; } p[] = {
		{ 0, 0 }, { 1, 0 }, { 2, 0 }, { 3, 20 }, { 4, 40 }, { 5, 80 }, { 6, 160 }, { 7, 200 }, { 12, 200 }, { 13, 200 },
		{ 4000, 200 },
	};

	for (size_t i = 0; i < rr_array_size(p); i++) {
		napped = 0;
		rr_fruitless_pause(&(struct rr_fruitless){ .n = p[i].n });
		cr_assert_eq(napped, p[i].us * RR_USEC, "%u", p[i].n);
	}
}

/* One of them may have taken longer. */
Test(ready_wait, a_wait_that_is_woken_for_nothing_pauses)
{
	nap.vain = 20;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert_eq(nap.ppolls, 21);
	cr_assert_gt(naps, 0);
}

/* --- the sleep --- */

Test(ready_wait, a_carried_connection_is_waited_for_by_its_bell_and_its_anchor)
{
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert(nap.ppolls == 1 && nap.recvs == 0 && nap.n == 2 && nap.forever);
	cr_assert(nap.p[1].fd == c->wake && nap.p[1].events == POLLIN && nap.p[0].fd == fd && nap.p[0].events == POLLRDHUP);
	c->ready = 0;
	assert_waits(0, POLLIN, rr_now() + 100 * RR_SEC);
	cr_assert(!nap.forever && nap.left.tv_sec <= 100 && nap.left.tv_sec > 90);
	/* What there is ends it before it begins. */
	nap.ppolls = 0;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert_eq(nap.ppolls, 0);
}

/* Nothing says that another thread has ended the sending. */
Test(ready_wait, who_waits_to_write_looks_now_and_then)
{
	nap.news = POLLOUT;
	assert_waits(0, POLLOUT, RR_TIME_NEVER);
	cr_assert(!nap.forever && nap.left.tv_sec == 0 && nap.left.tv_nsec <= 50000000 && nap.left.tv_nsec > 40000000);
}

Test(ready_wait, a_wait_ends_with_its_time)
{
	nap.news = 0;
	assert_waits(-EAGAIN, POLLIN, 1);
	cr_assert(nap.ppolls == 1 && !nap.left.tv_sec && !nap.left.tv_nsec);
	/* The connection's own time is news for who called. */
	c->face.state = RR_FAKE_WAITING;
	c->until = rr_now() - 1;
	c->ready = 0;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert(nap.p[0].fd == c->wake && nap.n == 1);
}

Test(ready_wait, there_is_nothing_to_wait_for_where_the_connection_is_gone)
{
	c->face.state = RR_FAKE_TCP;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	atomic_store(&so->conn, NULL);
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert_eq(nap.ppolls + nap.recvs, 0);
	atomic_store(&so->conn, c);
	c->face.state = RR_FAKE_CARRIED;
	cr_assert_eq(rr_wait_one(so, peer, POLLIN, RR_TIME_NEVER), -EBADF);
	cr_assert_eq(nap.ppolls + nap.recvs + c->arms, 0);
}

/* The kernel's own rules hold in its own call. */
Test(ready_wait, one_that_is_the_kernels_is_waited_for_by_a_receive)
{
	c->face.state = RR_FAKE_NEW;
	nap.recv_says = 1;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert(nap.recvs == 1 && nap.recv_fd == fd && nap.recv_flags == MSG_PEEK && nap.ppolls == 0);
	nap.recv_says = 0;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	nap.recv_says = -EINTR;
	assert_waits(-EINTR, POLLIN, RR_TIME_NEVER);
	nap.recv_says = -ECONNRESET;
	assert_waits(-ECONNRESET, POLLIN, RR_TIME_NEVER);
	cr_assert_eq(nap.ppolls, 0);
	/* The app has made it non-blocking meanwhile, or has another time. */
	nap.recv_says = -EAGAIN;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert_eq(nap.ppolls, 1);
	nap.recvs = 0;
	assert_waits(0, POLLIN, rr_now() + 100 * RR_SEC);
	cr_assert(nap.recvs == 0 && nap.ppolls == 2);
	/* A listener has none, nor has who waits to write. */
	atomic_fetch_or(&so->flags, RR_SOCK_LISTENER);
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	atomic_fetch_and(&so->flags, ~(uint32_t)RR_SOCK_LISTENER);
	assert_waits(0, POLLOUT, RR_TIME_NEVER);
	cr_assert(nap.recvs == 0 && nap.ppolls == 4);
}

Test(ready_wait, sets_are_told_that_a_bell_may_be_swallowed)
{
	int ep = rr_wrap_epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN };
	struct rr_ep_watch *w;

	cr_assert_eq(rr_wrap_epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
	w = so->watches;
	c->arms = c->disarms = 0;
	w->news = false;
	errno = 4711;
	cr_assert_eq(rr_wait_one(so, fd, POLLIN, RR_TIME_NEVER), 0);
	cr_assert(w->news);
}

static int cancelled_sleep(struct pollfd *p RR_UNUSED, nfds_t n RR_UNUSED, const struct timespec *left RR_UNUSED,
			   const sigset_t *mask RR_UNUSED)
{
	pthread_cancel(pthread_self());
	c->ready |= POLLIN;
	return 1;
}

static _Atomic int waited;

static void *wait_cancelled_late(void *arg RR_UNUSED)
{
	waited = 1 + rr_wait_one(so, fd, POLLIN, RR_TIME_NEVER);
	pthread_testcancel();
	return NULL;
}

/* Told to end when its sleep is over, it takes its arm back first. */
Test(ready_wait, a_thread_that_is_cancelled_after_its_sleep_ends_when_it_has_let_go)
{
	pthread_t t;
	void *how;

	rr_real.ppoll = cancelled_sleep;
	cr_assert_eq(pthread_create(&t, NULL, wait_cancelled_late, NULL), 0);
	pthread_join(t, &how);
	cr_assert_eq(how, PTHREAD_CANCELED);
	cr_assert(waited == 1 && so->f.refs == 1 && c->sleepers == 0 && c->arms == 1 && c->disarms == 1);
}

/* Told to end before it waits, it gives back the reference that it was called with. */
#ifndef __SANITIZE_ADDRESS__	/* which does not follow a thread that is cancelled below a frame of the library's */
static void *wait_cancelled_first(void *arg RR_UNUSED)
{
	pthread_cancel(pthread_self());
	waited = 1 + rr_wait_one(so, fd, POLLIN, RR_TIME_NEVER);
	return NULL;
}

Test(ready_wait, a_thread_that_is_cancelled_before_its_wait_gives_its_reference_back)
{
	pthread_t t;
	void *how;

	rr_file_hold(&so->f);
	cr_assert_eq(pthread_create(&t, NULL, wait_cancelled_first, NULL), 0);
	pthread_join(t, &how);
	cr_assert_eq(how, PTHREAD_CANCELED);
	cr_assert(!waited && so->f.refs == 1 && !c->arms && !nap.ppolls);
}
#endif

Test(ready_wait, what_cannot_be_armed_is_not_waited_for)
{
	c->arm_fails = -EDEADLK;
	assert_waits(-EDEADLK, POLLIN, RR_TIME_NEVER);
	cr_assert(!nap.ppolls && !nap.recvs);
}

/* It is looked at again when it says so, whatever for. */
Test(ready_wait, a_wait_ends_when_its_connection_is_to_be_looked_at)
{
	nap.news = 0;
	c->look_at = rr_now() + RR_MSEC;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert(rr_now() >= c->look_at && nap.ppolls > 0 && !nap.forever);
	assert_waits(0, POLLIN, rr_now() + 60 * RR_SEC);
	cr_assert_lt(nap.left.tv_sec, 1);
}

static int failures;

static int failing_sleep(struct pollfd *p, nfds_t n, const struct timespec *left, const sigset_t *mask)
{
	if (failures-- > 0) {
		errno = ENOMEM;
		return -1;
	}
	return sleep_script(p, n, left, mask);
}

Test(ready_wait, another_error_of_a_sleep_is_not_the_apps)
{
	rr_real.ppoll = failing_sleep;
	handle(SIGUSR1, 0);
	failures = 2;
	assert_waits(0, POLLIN, rr_now() + 60 * RR_SEC);
	cr_assert_eq(nap.ppolls, 1);
	c->ready = 0;
	failures = 2;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert_eq(nap.ppolls, 2);
}

/* --- signals --- */

static void assert_signalled(int rc, int sleeps, rr_time deadline)
{
	nap.eintr = 1;
	nap.ppolls = 0;
	c->ready = 0;
	assert_waits(rc, POLLIN, deadline);
	cr_assert_eq(nap.ppolls, sleeps);
}

Test(ready_wait, without_handlers_a_wait_goes_on)
{
	assert_signalled(0, 2, RR_TIME_NEVER);
	signal(SIGUSR1, SIG_IGN);
	assert_signalled(0, 2, RR_TIME_NEVER);
	cr_assert_eq(nap.recvs, 0);
}

Test(ready_wait, with_handlers_that_restart_a_wait_goes_on_unless_it_has_a_time)
{
	handle(SIGUSR1, SA_RESTART);
	handle(SIGRTMAX, SA_RESTART | SA_SIGINFO);
	assert_signalled(0, 2, RR_TIME_NEVER);
	assert_signalled(-EINTR, 1, rr_now() + 100 * RR_SEC);
}

Test(ready_wait, with_handlers_that_do_not_restart_a_wait_ends)
{
	handle(SIGUSR1, 0);
	assert_signalled(-EINTR, 1, RR_TIME_NEVER);
	handle(SIGUSR1, SA_SIGINFO);
	assert_signalled(-EINTR, 1, RR_TIME_NEVER);
}

Test(ready_wait, handlers_that_cannot_run_in_a_sleep_do_not_count)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	sigset_t block;

	for (size_t i = 0; i < rr_array_size(faults); i++)
		handle(faults[i], 0);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	handle(SIGUSR2, 0);
	assert_signalled(0, 2, RR_TIME_NEVER);
	handle(SIGHUP, 0);
	assert_signalled(-EINTR, 1, RR_TIME_NEVER);
}

/* poll() could not tell which kind has run: a receive on the bell can. */
Test(ready_wait, with_handlers_of_both_kinds_the_kernel_decides)
{
	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
	nap.recv_says = 1;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert(nap.recvs == 1 && nap.recv_fd == c->wake && nap.recv_flags == MSG_PEEK && nap.ppolls == 0);
	c->ready = 0;
	nap.recv_says = -EINTR;
	assert_waits(-EINTR, POLLIN, RR_TIME_NEVER);
	/* With a time it is known that it ends the call. */
	nap.recvs = 0;
	assert_waits(0, POLLIN, rr_now() + 100 * RR_SEC);
	cr_assert(nap.recvs == 0 && nap.ppolls == 1);
	/* What the anchor has already must be looked at first. */
	c->ready = 0;
	shutdown(peer, SHUT_WR);
	for (struct pollfd p = { fd, POLLRDHUP, 0 }; !poll(&p, 1, 1000);)
		;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert(nap.recvs == 0 && nap.ppolls == 2);
}

Test(ready_wait, a_bell_that_no_receive_can_wait_for_is_changed_before)
{
	unsigned int waits = 0;

	handle(SIGUSR1, SA_RESTART);
	c->piped = true;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert(c->louds == 0 && nap.recvs == 0, "one kind of handlers");
	c->ready = 0;
	rr_os_nap(RR_SEC + 10 * RR_MSEC);	/* what was seen of handlers serves some more waits */
	handle(SIGUSR2, 0);
	nap.recv_says = 1;
	for (; !nap.recvs && waits <= RR_STALE_USES; waits++) {
		c->ready = 0;
		assert_waits(0, POLLIN, RR_TIME_NEVER);
	}
	cr_assert_gt(waits, 2);
	cr_assert(c->louds == 1 && nap.recvs == 1);
}

Test(ready_wait, bytes_on_the_anchor_that_are_the_apps_are_not_slept_over)
{
	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
	c->face.state = RR_FAKE_WAITING;
	c->until = RR_TIME_NEVER;
	nap.recv_says = 1;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert(nap.recvs == 1 && nap.recv_fd == c->wake, "its one descriptor");
}

/* --- naps --- */

Test(ready_wait, a_nap_ends_soon)
{
	nap.news = 0;
	cr_assert_eq(rr_wait_nap(so, fd, POLLIN, SO_RCVTIMEO), -EAGAIN);
	cr_assert(nap.ppolls >= 1 && !nap.forever && nap.left.tv_sec == 0 && nap.left.tv_nsec <= 1000000);
	nap.news = POLLIN;
	cr_assert_eq(rr_wait_nap(so, fd, POLLIN, SO_RCVTIMEO), 0);
	cr_assert(so->f.refs == 1 && c->sleepers == 0);
}

Test(ready_wait, a_signal_in_a_nap_counts_as_in_the_whole_wait)
{
	struct timeval tv = { 5, 0 };

	int r;

	handle(SIGUSR1, SA_RESTART);
	/* It goes on after the signal, unless its time has passed meanwhile. */
	do {
		nap.eintr = 1;
		r = rr_wait_nap(so, fd, POLLIN, SO_RCVTIMEO);
	} while (r == -EAGAIN);
	cr_assert_eq(r, 0);
	c->ready = 0;
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	nap.eintr = 1;
	cr_assert_eq(rr_wait_nap(so, fd, POLLIN, SO_RCVTIMEO), -EINTR);
}

Test(ready_wait, there_is_no_nap_with_handlers_of_both_kinds)
{
	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
	cr_assert_eq(rr_wait_nap(so, fd, POLLIN, SO_RCVTIMEO), -EAGAIN);
	cr_assert(nap.ppolls == 0 && nap.recvs == 0 && c->sleepers == 0);
	/* One that is the kernel's sleeps in its own call, which sees to the time as well. */
	c->face.state = RR_FAKE_NEW;
	nap.recv_says = 1;
	cr_assert_eq(rr_wait_nap(so, fd, POLLIN, SO_RCVTIMEO), 0);
	cr_assert(nap.recvs == 1 && nap.recv_fd == fd);
}

/* --- spinning --- */

Test(ready_wait, a_spin_finds_news_without_a_sleep)
{
	struct later l = { .c = c, .add = POLLIN, .spins = true, .what = make_ready };

	c->spin = 20 * RR_SEC;
	start(&l);
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	finish(&l);
	cr_assert(nap.ppolls == 0 && c->arms == 0);
	assert_spins(1, 1);
	cr_assert_eq(c->news_seen, 1);
}

Test(ready_wait, a_spin_in_vain_is_followed_by_a_sleep)
{
	c->spin = 2 * RR_MSEC;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	cr_assert_eq(nap.ppolls, 1);
	assert_spins(spin_ends, 0);
	cr_assert_eq(c->news_seen, 0);
	/* What is there already needs none, and who reads looks at it itself. */
	spin_ends = rr_fake_spun.calls = 0;
	c->polls = 0;
	assert_waits(0, POLLIN, RR_TIME_NEVER);
	assert_spins(0, 0);
	cr_assert_eq(c->polls, 0);
}

Test(ready_wait, who_waits_to_write_asks_about_what_a_spin_has_found)
{
	c->ready = POLLHUP;	/* shows in memory */
	nap.news = POLLOUT;
	assert_waits(0, POLLOUT, RR_TIME_NEVER);
	cr_assert(nap.ppolls == 0 && c->polls >= 1);
	c->ready = 0;
	c->spin = 2 * RR_MSEC;
	assert_waits(0, POLLOUT, RR_TIME_NEVER);
	cr_assert_eq(nap.ppolls, 1);
	cr_assert_not(rr_wait_spin(c, POLLIN, 1), "its time is over");
	c->ready = POLLIN;
	cr_assert(rr_wait_spin(c, POLLIN, 1));
}

/* Whether the app's thread may be cancelled is as it was. */
static void assert_cancel_state(int state)
{
	int was;

	pthread_setcancelstate(state, &was);
	cr_assert_eq(was, state);
}

Test(ready_wait, whether_a_thread_may_be_cancelled_is_the_apps)
{
	static const int states[] = { PTHREAD_CANCEL_DISABLE, PTHREAD_CANCEL_ENABLE };
	int ep = rr_wrap_epoll_create1(0), was;
	struct epoll_event ev = { .events = EPOLLIN }, evs[2];
	struct pollfd p = { fd, POLLIN, 0 };
	struct timeval tv = { 0, 0 };
	fd_set r;

	cr_assert_eq(rr_wrap_epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
	for (int i = 0; i < 2; i++) {
		pthread_setcancelstate(states[i], &was);
		for (int ready = 0; ready < 2; ready++) {
			c->ready = ready ? POLLIN : 0;
			nap.news = 0;
			rr_wait_one(so, fd, POLLIN, 1);
			assert_cancel_state(states[i]);
			rr_wait_nap(so, fd, POLLIN, SO_RCVTIMEO);
			assert_cancel_state(states[i]);
			cr_assert_eq(rr_wrap_poll(&p, 1, 1), ready);
			assert_cancel_state(states[i]);
			cr_assert_eq(rr_wrap_poll(&p, 1, 0), ready);
			assert_cancel_state(states[i]);
			rr_fake_ready(c, 0, 0);
			cr_assert_eq(rr_wrap_epoll_wait(ep, evs, 2, 1), ready);
			assert_cancel_state(states[i]);
			cr_assert_eq(rr_wrap_epoll_wait(ep, evs, 2, 0), ready);
			assert_cancel_state(states[i]);
			FD_ZERO(&r);
			FD_SET(fd, &r);
			cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), ready);
			assert_cancel_state(states[i]);
		}
	}
}
