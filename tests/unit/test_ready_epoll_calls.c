/* SPDX-License-Identifier: BSD-3-Clause */
/* The waiting calls of epoll: time, signals, cancellation, fork. */
#include "core/base/ownfd.h"
#include "tests/unit/ready_epoll.h"
#include "tests/unit/spin_ends.h"

Test(ready_epoll_calls, a_deadline_bounds_the_sleep)
{
	struct one o = begin(RR_FAKE_WAITING, EPOLLOUT);
	rr_time from = rr_now();

	o.c->until = from + 30 * RR_MSEC;
	expect(&o, EPOLLOUT);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
}

static void hold(struct later *l)
{
	struct rr_sock *so = rr_fdt_sock(l->fd);

	l->c->until = rr_now() + 20 * RR_MSEC;
	l->c->face.state = RR_FAKE_WAITING;
	rr_sock_dry(so, POLLOUT);
	rr_file_put(&so->f);
}

Test(ready_epoll_calls, a_send_that_was_held_back_elsewhere_gives_a_sleeper_its_deadline)
{
	struct one o = begin(RR_FAKE_NEW, EPOLLIN | EPOLLOUT | EPOLLET);
	struct later l = { .c = o.c, .fd = o.fd, .what = hold };

	expect(&o, EPOLLOUT);
	start(&l);
	expect(&o, EPOLLOUT);
	cr_assert(rr_conn_is_tcp(o.c));
	finish(&l);
}

Test(ready_epoll_calls, spinning_sees_ours_and_the_kernels)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .c = o.c, .add = POLLIN, .spins = true, .what = make_ready };
	struct later m = { .c = o.c, .spins = true, .what = write_pipe };
	int pp[2];

	cr_assert_eq(pipe(pp), 0);
	m.fd = pp[1];
	ctl(o.ep, EPOLL_CTL_ADD, pp[0], EPOLLIN);
	o.c->spin = 5 * RR_SEC;
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
	assert_spins(1, 1);
	o.c->ready = 0;
	start(&m);
	cr_assert_eq(look(&o, -1), 1);
	cr_assert_eq(o.ev[0].data.u64 >> 32, (uint64_t)pp[0]);
	finish(&m);
	cr_assert_eq(o.c->arms, 0);
	assert_spins(2, 2);
}

Test(ready_epoll_calls, a_spin_in_vain_has_not_paid)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	o.c->spin = RR_MSEC;
	cr_assert_eq(look(&o, 20), 0);
	cr_assert_geq(o.c->arms, 1);
	assert_spins(spin_ends, 0);
	cr_assert_eq(o.c->news_seen, 0);
}

Test(ready_epoll_calls, a_spin_that_is_over_may_go_on)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .c = o.c, .add = POLLIN, .spins = true, .what = make_ready_late };

	o.c->spin = RR_MSEC;
	o.c->longer = 5 * RR_SEC;
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
	cr_assert_eq(o.c->arms, 0);
}

static void on_signal(int sig RR_UNUSED)
{
}

Test(ready_epoll_calls, pwait_lets_a_pending_signal_in)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct timespec none = { 0, 0 };
	sigset_t block;

	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, NULL);
	sigemptyset(&block);
	raise(SIGUSR1);
	cr_assert_eq(rr_wrap_epoll_pwait(o.ep, o.ev, 8, 1000, &block), -1);
	cr_assert_eq(errno, EINTR);
	cr_assert_eq(rr_wrap_epoll_pwait(o.ep, o.ev, 8, 0, &block), 0);
	raise(SIGUSR1);
	/* Who does not wait is not interrupted: so the kernel does it. */
	cr_assert_eq(rr_wrap_epoll_pwait2(o.ep, o.ev, 8, &none, &block), 0);
	cr_assert_eq(rr_wrap_epoll_pwait2(o.ep, o.ev, 8, NULL, &block), -1);
	cr_assert_eq(errno, EINTR);
}

Test(ready_epoll_calls, pwait2_waits_at_least_its_nanoseconds)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct timespec ts = { 0, 1500000 }, bad = { 0, -1 };
	rr_time from = rr_now();

	cr_assert_eq(rr_wrap_epoll_pwait2(o.ep, o.ev, 8, &ts, NULL), 0);
	cr_assert_geq(rr_now() - from, 1500 * RR_USEC);
	cr_assert_eq(rr_wrap_epoll_pwait2(o.ep, o.ev, 8, &bad, NULL), -1);
	cr_assert_eq(errno, EINVAL);
}

static void *wait_for_ever(void *arg)
{
	look(arg, -1);
	return NULL;
}

Test(ready_epoll_calls, a_cancelled_sleeper_lets_go)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = rr_ep_at(o.ep);
	pthread_t t;
	void *how;

	pthread_create(&t, NULL, wait_for_ever, &o);
	while (!s->sleepers)
		usleep(1000);
	pthread_cancel(t);
	pthread_join(t, &how);
	cr_assert_eq(how, PTHREAD_CANCELED);
	cr_assert_eq(s->sleepers, 0);
	cr_assert_eq(s->f.refs, 2);
}

/* As close() does in a process that has no other number of it. */
static void give_up(const struct one *o)
{
	bool last;
	struct rr_file *f = rr_fdt_take(o->fd, &last);

	rr_ep_sock_gone(container_of(f, struct rr_sock, f), o->fd);
}

Test(ready_epoll_calls, a_child_that_closes_what_it_inherited_changes_nothing_for_its_parent)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };
	bool last;
	pid_t pid;

	cr_assert_eq(look(&o, 5), 0);
	pid = fork();
	if (!pid) {
		struct rr_file *f;

		give_up(&o);
		close(o.fd);
		f = rr_fdt_take(o.ep, &last);
		close(o.ep);
		rr_file_put(f);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	start(&l);
	expect(&o, EPOLLIN);
	finish(&l);
}

static bool kernel_has(int ep, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return !rr_real.epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev);
}

/* The set is one for both. */
Test(ready_epoll_calls, what_a_child_has_closed_its_parents_set_still_has)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	pid_t pid;

	cr_assert_eq(look(&o, 5), 0);
	pid = fork();
	if (!pid) {
		rr_ep_fork_child();
		give_up(&o);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	cr_assert(kernel_has(o.ep, o.fd));
}

Test(ready_epoll_calls, a_child_whose_parent_is_gone_takes_a_set_over)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	int status;
	pid_t pid;

	cr_assert_eq(look(&o, 5), 0);
	pid = fork();
	if (!pid) {
		struct later l = { .c = o.c, .add = POLLIN, .what = make_ready };

		start(&l);
		status = look(&o, -1) == 1 && o.ev[0].events == EPOLLIN ? 0 : 1;
		finish(&l);
		_exit(status);
	}
	waitpid(pid, &status, 0);
	cr_assert_eq(status, 0);
}

Test(ready_epoll_calls, success_leaves_errno_alone)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	errno = 4711;
	cr_assert_eq(look(&o, 5), 0);
	o.c->ready = POLLIN;
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN);
	expect(&o, EPOLLIN);
	cr_assert_eq(errno, 4711);
}

Test(ready_epoll_calls, our_own_fds_are_known_to_be_ours)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = rr_ep_at(o.ep);
	int inner = s->inner;

	cr_assert(rr_ownfd_is(inner));
	cr_assert(!rr_ownfd_is(o.ep));
	cr_assert_geq(inner, rr_ownfd_floor(o.ep));
	rr_file_put(&s->f);
	close(o.ep);
	rr_fdt_evict(o.ep);
	cr_assert(!rr_ownfd_is(inner));
}

/* It forks within a call of ours: what that holds it goes on to hold. */
Test(ready_epoll_calls, a_handler_that_forks_leaves_the_lock_to_who_has_it)
{
	cr_assert(rr_ep_lock());
	rr_ep_fork_prepare();
	rr_ep_fork_parent();
	cr_assert_not(rr_ep_lock(), "it was dropped");
	rr_ep_unlock();
}

/* What happens to a socket in a signal handler that has interrupted the holder of the lock. */
Test(ready_epoll_calls, a_handler_within_the_lock_leaves_it_to_the_holder)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_sock *so = rr_fdt_sock(o.fd);

	cr_assert(rr_ep_lock());
	rr_ep_activate(so);
	cr_assert_not(rr_ep_lock());
	rr_sock_is_dry(so, POLLIN);
	cr_assert_not(rr_ep_lock());
	rr_sock_sync(so);
	cr_assert_not(rr_ep_lock());
	rr_ep_unlock();
	rr_file_put(&so->f);
}

/* It can look at nothing, and does not wait for who cannot go on before it returns. */
Test(ready_epoll_calls, a_handler_that_waits_within_the_lock_is_told_that_it_was_interrupted)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);

	o.c->ready = POLLIN;
	cr_assert(rr_ep_lock());
	for (int ms = -1; ms < 2; ms++) {
		errno = 0;
		cr_assert(look(&o, ms) == -1 && errno == EINTR, "%d ms: errno %d", ms, errno);
		cr_assert_not(rr_ep_lock(), "%d ms", ms);
	}
	rr_ep_unlock();
	expect(&o, EPOLLIN);
}
