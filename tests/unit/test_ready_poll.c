/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() over scripted connections beside real fds. */
#include <sys/resource.h>
#include <sys/syscall.h>

#include "preload/pollrest.h"
#include "preload/unmet.h"
#include "tests/lib/ready_test.h"
#include "tests/unit/spin_ends.h"

Test(ready_poll, what_a_carried_connection_has_is_reported_without_sleeping)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, POLLIN | POLLRDNORM | POLLRDBAND, 0 };

	c->ready = POLLIN | POLLOUT;
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN | POLLRDNORM);
	p.events = POLLOUT | POLLWRNORM | POLLWRBAND;
	cr_assert_eq(rr_wrap_poll(&p, 1, 0), 1);
	cr_assert_eq(p.revents, POLLOUT | POLLWRNORM);
	cr_assert_eq(c->arms, 0);
}

Test(ready_poll, bytes_on_the_anchor_of_a_carried_connection_are_not_the_apps)
{
	int peer, fd = tcp(&peer);
	struct pollfd p = { fd, POLLIN, 0 };

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	cr_assert_eq(write(peer, "mark", 4), 4);
	cr_assert_eq(rr_wrap_poll(&p, 1, 20), 0);
	cr_assert_eq(p.revents, 0);
}

Test(ready_poll, error_and_hangup_are_reported_unasked)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, 0, 0 };

	c->ready = POLLHUP | POLLIN;
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLHUP);
}

Test(ready_poll, after_a_sleep_a_connection_is_asked_once)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_NEW);
	struct pollfd p = { fd, POLLIN, 0 };

	cr_assert_eq(write(peer, "call", 4), 4);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	cr_assert_leq(c->polls, 2, "before it and after it");
}

Test(ready_poll, after_a_sleep_one_that_a_handler_has_interrupted_ends_the_call)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_NEW);
	struct pollfd p = { fd, POLLIN, 0 };

	alarm(20);	/* else it waits for ever */
	c->busy_from = 2;
	cr_assert_eq(write(peer, "call", 4), 4);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), -1);
	cr_assert_eq(errno, EINTR);
}

Test(ready_poll, others_in_the_array_are_reported_together_with_ours)
{
	int peer, fd = tcp(&peer), pp[2];
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);

	cr_assert_eq(pipe(pp), 0);
	cr_assert_eq(write(pp[1], "x", 1), 1);
	c->ready = POLLIN;

	struct pollfd p[5] = { { -1, POLLIN, 9 }, { pp[0], POLLIN, 9 }, { fd, POLLIN, 9 },
			       { 999, POLLIN, 9 }, { pp[1], POLLIN, 9 } };

	cr_assert_eq(rr_wrap_poll(p, 5, -1), 3);
	cr_assert_eq(p[0].revents, 0);
	cr_assert_eq(p[1].revents, POLLIN);
	cr_assert_eq(p[2].revents, POLLIN);
	cr_assert_eq(p[3].revents, POLLNVAL);
	cr_assert_eq(p[4].revents, 0);
}

Test(ready_poll, a_doorbell_wakes_a_sleeper_and_it_disarms)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, POLLIN, 0 };
	struct later l = { .c = c, .add = POLLIN, .what = make_ready };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	cr_assert_eq(c->sleepers, 0);
	cr_assert_geq(c->arms, 1);
	finish(&l);
}

Test(ready_poll, a_doorbell_for_something_else_lets_it_sleep_on)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, POLLIN, 0 };
	struct later l = { .c = c, .add = POLLOUT, .what = make_ready };
	rr_time from = rr_now();

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, 60), 0);
	cr_assert_geq(rr_now() - from, 60 * RR_MSEC);
	cr_assert_leq(c->polls, 20);
	finish(&l);
}

/* A peer may see to that. */
Test(ready_poll, what_is_never_for_the_app_does_not_outlast_the_deadline, .timeout = 10)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, POLLIN, 0 };

	c->restless = true;
	cr_assert_eq(rr_wrap_poll(&p, 1, 20), 0);
}

Test(ready_poll, a_plain_fd_wakes_a_sleeper)
{
	int peer, fd = tcp(&peer), pp[2];
	struct later l = { .what = write_pipe };

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	cr_assert_eq(pipe(pp), 0);
	l.fd = pp[1];

	struct pollfd p[2] = { { fd, POLLIN, 0 }, { pp[0], POLLIN, 0 } };

	start(&l);
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[0].revents, 0);
	cr_assert_eq(p[1].revents, POLLIN);
	finish(&l);
}

Test(ready_poll, an_offer_that_was_taken_in_does_not_count_and_waiting_goes_on)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_NEW);
	struct pollfd p = { fd, POLLIN, 0 };
	struct later l = { .fd = peer, .what = write_pipe };
	rr_time from = rr_now();

	c->offer = true;
	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, 60), 0);
	cr_assert_geq(rr_now() - from, 60 * RR_MSEC);
	finish(&l);
	if (!c->swallowed)	/* a busy machine: it came after the time-out */
		cr_assert_eq(rr_wrap_poll(&p, 1, 60), 0);
	cr_assert_eq(c->swallowed, 1);
}

Test(ready_poll, a_new_connection_is_the_kernels)
{
	int peer, fd = tcp(&peer);
	struct pollfd p = { fd, POLLIN | POLLRDNORM | POLLOUT | POLLWRBAND, 0 };

	rr_fake_conn(fd, RR_FAKE_NEW);
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);

	struct pollfd k = p;

	cr_assert_eq(poll(&k, 1, 0), 1);
	cr_assert_eq(p.revents, k.revents);
}

Test(ready_poll, a_deadline_of_a_negotiation_ends_in_the_kernels_answer)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_WAITING);
	struct pollfd p = { fd, POLLOUT, 0 };
	rr_time from = rr_now();

	c->until = from + 30 * RR_MSEC;
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLOUT);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
}

static void become_tcp(struct later *l)
{
	l->c->face.state = RR_FAKE_TCP;
	cr_assert_eq(write(l->fd, "x", 1), 1);
	rr_fake_ready(l->c, 0, 0);
}

Test(ready_poll, a_connection_that_goes_back_to_tcp_in_mid_sleep_is_the_kernels)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, POLLIN, 0 };
	struct later l = { .c = c, .fd = peer, .what = become_tcp };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	finish(&l);
}

static void close_it(struct later *l)
{
	bool last;
	struct rr_file *f = rr_fdt_take(l->fd, &last);

	close(l->fd);
	rr_file_put(f);
	rr_fake_ready(l->c, POLLIN, 0);
}

Test(ready_poll, an_fd_closed_in_mid_sleep_is_invalid_after_a_wake_up)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, POLLIN, 0 };
	struct later l = { .c = c, .fd = fd, .what = close_it };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLNVAL);
	finish(&l);
}

static void on_signal(int sig RR_UNUSED)
{
}

Test(ready_poll, a_handler_ends_poll_even_with_sa_restart)
{
	int peer, fd = tcp(&peer);
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct pollfd p = { fd, POLLIN, 7 };
	struct later l = { .what = interrupt };

	sigaction(SIGUSR1, &sa, NULL);
	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), -1);
	cr_assert_eq(errno, EINTR);
	finish(&l);
}

Test(ready_poll, ppoll_lets_a_pending_signal_in_only_when_nothing_is_ready)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct sigaction sa = { .sa_handler = on_signal };
	struct timespec none = { 0, 0 };
	struct pollfd p = { fd, POLLIN, 0 };
	sigset_t block, pend;

	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, NULL);
	raise(SIGUSR1);
	sigemptyset(&block);
	c->ready = POLLIN;
	cr_assert_eq(rr_wrap_ppoll(&p, 1, &none, &block), 1);
	sigpending(&pend);
	cr_assert_eq(sigismember(&pend, SIGUSR1), 1);
	c->ready = 0;
	cr_assert_eq(rr_wrap_ppoll(&p, 1, &none, &block), -1);
	cr_assert_eq(errno, EINTR);
	cr_assert_eq(rr_wrap_ppoll(&p, 1, &none, &block), 0);
}

/* A server of many clients takes one more: whether the others are still there is not asked again. */
Test(ready_poll, of_many_only_those_that_are_not_met_are_looked_up)
{
	int peer, fd = tcp(&peer), other, unmet = tcp(&other);
	struct rr_sock *new = rr_fake_unmet(unmet), *so;
	struct pollfd p[2 * RR_POLL_MANY];
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_NEW);

	c->plain = true;
	so = rr_fdt_sock(fd);
	for (size_t i = 0; i < rr_array_size(p); i++)
		p[i] = (struct pollfd){ i % 2 ? -1 : fd, POLLIN, 0 };
	p[1].fd = unmet;
	so->verified = 1;
	cr_assert_eq(rr_wrap_poll(p, rr_array_size(p), 20), 0);
	cr_assert(!rr_unmet_is(new) && rr_unmet_n == 0, "it cannot stay so");
	cr_assert_eq(so->verified, 1);
	/* The array of the last wait has another one in its place. */
	unmet = tcp(&other);
	new = rr_fake_unmet(unmet);
	p[1].fd = unmet;
	cr_assert_eq(rr_wrap_poll(p, rr_array_size(p), 0), 0);
	cr_assert(!rr_unmet_is(new) && rr_unmet_n == 0);
	rr_file_put(&so->f);
}

static int fake_error;

static int fails(struct pollfd *p, nfds_t n, int timeout)
{
	(void)p;
	(void)n;
	(void)timeout;
	errno = fake_error;
	return -1;
}

/* What is ready is not lost by a signal; another error is the app's. */
Test(ready_poll, an_error_of_the_kernels_beside_ours)
{
	int peer, fd = tcp(&peer), two[2];
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p[2] = { { fd, POLLIN, 0 }, { -1, POLLIN, 0 } };

	cr_assert_eq(pipe(two), 0);
	p[1].fd = two[0];
	rr_real.poll = fails;
	for (int ready = 0; ready < 2; ready++) {
		c->ready = ready ? POLLIN : 0;
		fake_error = EINTR;
		cr_assert_eq(rr_wrap_poll(p, 2, 0), ready ? 1 : -1, "%d", ready);
		cr_assert(ready || errno == EINTR);
		fake_error = ENOMEM;
		cr_assert_eq(rr_wrap_poll(p, 2, 0), -1);
		cr_assert_eq(errno, ENOMEM);
	}
}

/* NULL, a second and some, a nanosecond: only {0, 0} does not wait. */
Test(ready_poll, ppoll_waits_as_long_as_it_is_told)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct later l = { .c = c, .add = POLLIN, .what = make_ready };
	struct timespec some = { 30, 0 }, little = { 0, 30000000 };
	struct pollfd p = { fd, POLLIN, 0 };
	rr_time from = rr_now();

	cr_assert_eq(rr_wrap_ppoll(&p, 1, &little, NULL), 0);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
	for (int i = 0; i < 2; i++) {
		start(&l);
		cr_assert_eq(rr_wrap_ppoll(&p, 1, i ? &some : NULL, NULL), 1);
		finish(&l);
		rr_fake_ready(c, 0, POLLIN);
	}
}

Test(ready_poll, arguments_are_judged_by_the_kernel)
{
	int peer, fd = tcp(&peer);
	struct pollfd p = { fd, POLLIN, 0 };
	struct timespec bad = { 0, -1 };

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	cr_assert_eq(rr_wrap_ppoll(&p, 1, &bad, NULL), -1);
	cr_assert_eq(errno, EINVAL);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)	/* they judge them first */
	cr_assert_eq(rr_wrap_poll(&p, (nfds_t)-1, 0), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(rr_wrap_poll((struct pollfd *)-1, 1, 0), -1);
	cr_assert_eq(errno, EFAULT);
#endif
	cr_assert_eq(rr_wrap_poll(NULL, 0, 0), 0);
}

Test(ready_poll, an_array_as_long_as_the_limit_still_sleeps_on_the_doorbell)
{
	enum { N = 64 };
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct rlimit lim = { N, N };
	struct pollfd p[N];
	struct later l = { .c = c, .add = POLLIN, .what = make_ready };

	for (int i = 0; i < N; i++)
		p[i] = (struct pollfd){ i == 7 || i == 50 ? fd : -1, POLLIN, 0 };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	start(&l);
	cr_assert_eq(rr_wrap_poll(p, N, -1), 2);
	cr_assert_eq(p[7].revents, POLLIN);
	cr_assert_eq(p[50].revents, POLLIN);
	finish(&l);
}

Test(ready_poll, large_arrays_work)
{
	enum { N = 150 };
	static struct pollfd p[N];
	int peer, sock = tcp(&peer);
	struct rr_conn *c[N];

	for (int i = 0; i < N; i++) {
		int fd = dup(sock);

		c[i] = rr_fake_conn(fd, RR_FAKE_CARRIED);
		p[i] = (struct pollfd){ fd, POLLIN, 0 };
		if (i % 3 == 0)
			p[i].events = 0;
	}
	c[1]->ready = c[149]->ready = c[120]->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(p, N, -1), 2);
	cr_assert_eq(p[149].revents, POLLIN);
	cr_assert_eq(p[1].revents, POLLIN);
	cr_assert_eq(p[120].revents, 0);
}

/* The anchor of one of two may have ended while its peer lives. */
Test(ready_poll, a_long_wait_asks_those_at_rest_whose_anchor_says_something)
{
	int peer[2], fd[2] = { tcp(&peer[0]), tcp(&peer[1]) };
	struct pollfd p[2] = { { fd[0], POLLIN, 0 }, { fd[1], POLLIN, 0 } };
	struct rr_conn *c[2];

	for (int i = 0; i < 2; i++) {
		c[i] = rr_fake_conn(fd[i], RR_FAKE_CARRIED);
		c[i]->can_rest = true;
	}
	cr_assert_eq(rr_wrap_poll(p, 2, 1), 0);
	cr_assert(c[0]->rests && c[1]->rests);
	c[0]->polls = c[1]->polls = 0;
	cr_assert_eq(write(peer[0], "mark", 4), 4);
	cr_assert_eq(rr_wrap_poll(p, 2, 1500), 0);
	cr_assert_gt(c[0]->polls, 0);
	cr_assert_eq(c[1]->polls, 0);
	cr_assert(c[0]->rests && c[1]->rests);
	cr_assert_eq(c[0]->sleepers, 0);
	cr_assert_eq(c[1]->sleepers, 0);
}

Test(ready_poll, spinning_sees_ours_and_the_kernels)
{
	int peer, fd = tcp(&peer), pp[2];
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct later l = { .c = c, .spins = true, .what = write_pipe };
	struct later m = { .c = c, .add = POLLIN, .spins = true, .what = make_ready };

	cr_assert_eq(pipe(pp), 0);
	l.fd = pp[1];
	c->spin = 5 * RR_SEC;

	struct pollfd p[2] = { { fd, POLLIN, 0 }, { pp[0], POLLIN, 0 } };

	start(&l);
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[1].revents, POLLIN);
	finish(&l);
	assert_spins(1, 1);
	start(&m);
	p[1].fd = -1;
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[0].revents, POLLIN);
	cr_assert_eq(c->arms, 0);
	finish(&m);
	assert_spins(2, 2);
}

Test(ready_poll, a_spin_in_vain_has_not_paid)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p[2] = { { fd, POLLIN, 0 }, { -1, POLLIN, 0 } };

	c->spin = RR_MSEC;
	cr_assert_eq(rr_wrap_poll(p, 2, 20), 0);
	cr_assert_geq(c->arms, 1);
	assert_spins(spin_ends, 0);
	cr_assert_eq(c->news_seen, 0);
}

Test(ready_poll, one_at_the_number_0_is_ours)
{
	int peer, fd = tcp(&peer), pp[2];
	struct rr_conn *c;

	cr_assert_eq(pipe(pp), 0);
	cr_assert_eq(dup2(fd, 0), 0);
	c = rr_fake_conn(0, RR_FAKE_CARRIED);
	c->ready = POLLIN;
	for (int ms = 0; ms < 2; ms++) {
		struct pollfd p[2] = { { pp[0], POLLIN, 0 }, { 0, POLLIN, 0 } };

		cr_assert_eq(rr_wrap_poll(p, 2, ms), 1);
		cr_assert(!p[0].revents && p[1].revents == POLLIN);
		cr_assert_eq(rr_wrap_poll(&p[1], 1, ms), 1);
	}
}

Test(ready_poll, a_spin_that_is_over_may_go_on)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct later l = { .c = c, .add = POLLIN, .spins = true, .what = make_ready_late };
	struct pollfd p = { fd, POLLIN, 0 };

	c->spin = RR_MSEC;
	c->longer = 5 * RR_SEC;
	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	finish(&l);
	cr_assert_eq(c->arms, 0);
}

Test(ready_poll, success_leaves_errno_alone)
{
	int peer, fd = tcp(&peer);
	struct pollfd p = { fd, POLLIN, 0 };

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	errno = 4711;
	cr_assert_eq(rr_wrap_poll(&p, 1, 5), 0);
	cr_assert_eq(errno, 4711);
}

static void *poll_for_ever(void *arg)
{
	rr_wrap_poll(arg, 1, -1);
	return NULL;
}

Test(ready_poll, a_cancelled_sleeper_disarms_and_lets_go)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, POLLIN, 0 };
	struct rr_sock *so = rr_fdt_sock(fd);
	pthread_t t;

	pthread_create(&t, NULL, poll_for_ever, &p);
	cancel_asleep(t, &c->sleepers);
	cr_assert_eq(so->f.refs, 2);
}

static int kernel_looks;

static int counted_poll(struct pollfd *fds, nfds_t n, int ms)
{
	kernel_looks++;
	return (int)syscall(SYS_poll, fds, n, ms);
}

/* A listening TCP socket, and where it listens. */
static int listener(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cr_assert_eq(bind(fd, (struct sockaddr *)a, len), 0);
	cr_assert_eq(rr_wrap_listen(fd, 8), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
}

/* How often the kernel is asked in 1,000 calls about other and a connection that always has
 * news. */
static int looks_beside(int other)
{
	int peer, fd = tcp(&peer);
	struct pollfd p[2] = { { other, POLLIN, 0 }, { fd, POLLIN, 0 } };

	rr_fake_conn(fd, RR_FAKE_CARRIED)->ready = POLLIN;
	rr_real.poll = counted_poll;
	kernel_looks = 0;
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
		cr_assert_eq(p[0].revents, 0);
	}
	return kernel_looks;
}

Test(ready_poll, a_listener_is_not_looked_at_in_each_call_that_finds_news_of_ours)
{
	struct sockaddr_in a;
	int looks = looks_beside(listener(&a));

	cr_assert_lt(looks, 1000);
	cr_assert_gt(looks, 0);
}

Test(ready_poll, any_other_fd_is_looked_at_in_each_call)
{
	int pp[2];

	cr_assert_eq(pipe(pp), 0);
	cr_assert_eq(looks_beside(pp[0]), 1000);
}

Test(ready_poll, a_listener_is_looked_at_while_ours_have_news_for_ever)
{
	struct sockaddr_in a;
	int peer, fd = tcp(&peer), l = listener(&a);
	struct pollfd p[2] = { { l, POLLIN, 0 }, { fd, POLLIN, 0 } };

	alarm(20);
	rr_fake_conn(fd, RR_FAKE_CARRIED)->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	/* as another process would, of which the library knows nothing */
	cr_assert_eq(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(a)), 0);
	while (!p[0].revents)
		cr_assert_geq(rr_wrap_poll(p, 2, -1), 1);
	cr_assert_eq(p[0].revents, POLLIN);
}

static int connected(int fd, const struct sockaddr *a, socklen_t len)
{
	(void)fd, (void)a, (void)len;
	return 0;
}

Test(ready_poll, a_call_after_this_process_has_connected_looks_at_its_listener)
{
	struct sockaddr_in a;
	int peer, fd = tcp(&peer), s = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);
	struct pollfd p[2] = { { listener(&a), POLLIN, 0 }, { fd, POLLIN, 0 } };

	rr_fake_conn(fd, RR_FAKE_CARRIED)->ready = POLLIN;
	rr_real.poll = counted_poll;
	rr_real.connect = connected;	/* faster than the pause is long */
	kernel_looks = 0;
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(rr_wrap_connect(s, (struct sockaddr *)&a, sizeof(a)), 0);
		cr_assert_eq(rr_wrap_poll(p, 2, -1), 1);
	}
	cr_assert_eq(kernel_looks, 1000);
}
