/* SPDX-License-Identifier: BSD-3-Clause */
/* What an epoll call is about: which numbers are sets, which registrations are reached, and which arguments are the
 * kernel's to refuse. */
#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>

#include "tests/unit/ready_epoll.h"

TestSuite(ready_epoll_ctl, .timeout = 60);

Test(ready_epoll_ctl, a_socket_is_no_set)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_file *f = rr_fdt_peek(o.fd);
	uint32_t refs = f->refs;
	struct rr_ep_set *s;

	cr_assert_null(rr_ep_at(o.fd));
	cr_assert_eq(f->refs, refs);
	s = rr_ep_at(o.ep);
	cr_assert(s && s->epfd == o.ep && s->f.refs == 2);
	rr_file_put(&s->f);
}

/* Another program's library, or an earlier call of ours, has put the set into the other one. */
Test(ready_epoll_ctl, only_who_is_added_to_a_set_is_within_a_set)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct epoll_event ev = { .events = EPOLLIN };
	int outer = rr_wrap_epoll_create1(0);
	struct rr_ep_set *s = rr_ep_at(o.ep);

	cr_assert_eq(rr_real.epoll_ctl(outer, EPOLL_CTL_ADD, o.ep, &ev), 0);
	ctl(outer, EPOLL_CTL_MOD, o.ep, EPOLLIN | EPOLLOUT);
	cr_assert(!s->in_set && !s->nested && !rr_ep_nests);
	ctl(outer, EPOLL_CTL_DEL, o.ep, 0);
	cr_assert(!s->in_set && !s->nested && !rr_ep_nests);
	cr_assert(rr_wrap_epoll_ctl(outer, EPOLL_CTL_MOD, o.ep, &ev) == -1 && errno == ENOENT);
	cr_assert_eq(rr_real.epoll_ctl(outer, EPOLL_CTL_ADD, o.ep, &ev), 0);
	cr_assert(rr_wrap_epoll_ctl(outer, EPOLL_CTL_ADD, o.ep, &ev) == -1 && errno == EEXIST);
	cr_assert(!s->in_set && !s->nested && !rr_ep_nests);
	ctl(outer, EPOLL_CTL_DEL, o.ep, 0);
	ctl(outer, EPOLL_CTL_ADD, o.ep, EPOLLIN);
	cr_assert(s->in_set && s->nested && rr_ep_nests);
	rr_file_put(&s->f);
}

Test(ready_epoll_ctl, a_socket_that_is_not_met_is_met_when_it_is_put_into_a_set)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	int peer, fd = tcp(&peer);
	struct rr_sock *so = rr_fake_unmet(fd);

	ctl(o.ep, EPOLL_CTL_ADD, fd, EPOLLIN);
	cr_assert(!rr_unmet_is(so) && rr_unmet_n == 0);
}

/* The newest watch of the socket at fd. */
static struct rr_ep_watch *watch_of(int fd)
{
	struct rr_sock *so = rr_fdt_sock(fd);

	rr_file_put(&so->f);
	return so->watches;
}

/* The app closes one of its numbers, and another socket gets it and is put into the same set. */
Test(ready_epoll_ctl, a_registration_by_a_number_that_is_anothers_now_is_left_to_that)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 4711 };
	int peer, other = tcp(&peer), fd = rr_wrap_dup(o.fd);

	cr_assert_eq(rr_wrap_close(o.fd), 0);
	cr_assert_eq(dup2(other, o.fd), o.fd);
	close(other);
	cr_assert_eq(rr_real.epoll_ctl(o.ep, EPOLL_CTL_ADD, o.fd, &ev), 0);
	rr_fake_become(o.c, fd, RR_FAKE_TCP);
	cr_assert_eq(watch_of(fd)->form, RR_EP_PASS);
	cr_assert_eq(write(peer, "x", 1), 1);
	cr_assert_eq(look(&o, 1000), 1);
	cr_assert(o.ev[0].events == EPOLLIN && o.ev[0].data.u64 == 4711);
}

static typeof(rr_real.epoll_ctl) next_ctl;
static unsigned nctl;

static int counted_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	nctl++;
	return next_ctl(epfd, op, fd, ev);
}

Test(ready_epoll_ctl, a_forked_child_leaves_its_parents_registrations_as_they_are)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = watch_of(o.fd);

	next_ctl = epoll_ctl;
	rr_real.epoll_ctl = counted_ctl;
	w->set->foreign = true;
	rr_fake_become(o.c, o.fd, RR_FAKE_TCP);
	cr_assert(w->form == RR_EP_PASS && w->kmask == EPOLLRDHUP);
	cr_assert_eq(nctl, 0);
	w->set->foreign = false;
	rr_sock_sync(w->so);
	cr_assert(w->form == RR_EP_PLAIN && w->kmask == EPOLLIN && nctl > 0);
}

Test(ready_epoll_ctl, a_set_is_whose_who_calls_and_has_the_number_of_the_call)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = watch_of(o.fd)->set;
	int ep = rr_wrap_dup(o.ep);

	ctl(ep, EPOLL_CTL_MOD, o.fd, EPOLLIN | EPOLLOUT);
	cr_assert_eq(s->epfd, ep);
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLIN);
	cr_assert_eq(s->epfd, o.ep);
	s->foreign = true;
	ctl(o.ep, EPOLL_CTL_MOD, o.fd, EPOLLOUT);
	cr_assert_not(s->foreign);
}

/* As one that another process has passed: whether it holds anything, and whatever has failed before. */
Test(ready_epoll_ctl, a_set_that_was_made_elsewhere_is_one_when_it_gets_a_connection)
{
	static const int before[] = { 0, EINVAL, EFAULT };
	struct epoll_event ev = { .events = EPOLLOUT };
	int peer, fd = tcp(&peer);

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	for (unsigned i = 0; i < 2 * rr_array_size(before); i++) {
		int ep = (int)syscall(SYS_epoll_create1, 0);

		if (i % 2)
			cr_assert_eq(rr_real.epoll_ctl(ep, EPOLL_CTL_ADD, peer, &ev), 0);
		cr_assert_not(rr_fdt_has(ep));
		errno = before[i / 2];
		ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN);
		cr_assert(rr_fdt_has(ep) && errno == before[i / 2], "%u", i);
	}
	ev.events = EPOLLIN;
	errno = EFAULT;
	cr_assert(rr_wrap_epoll_ctl(peer, EPOLL_CTL_ADD, fd, &ev) == -1 && errno == EINVAL);
	cr_assert_not(rr_fdt_has(peer));
}

static int refusing_ctl(int epfd RR_UNUSED, int op RR_UNUSED, int fd RR_UNUSED, struct epoll_event *ev RR_UNUSED)
{
	nctl++;
	errno = ENOENT;
	return -1;
}

Test(ready_epoll_ctl, a_set_that_goes_leaves_errno_alone)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	bool last;
	struct rr_file *f = rr_fdt_take(o.ep, &last);

	cr_assert(last && f->refs == 1);
	rr_real.epoll_ctl = refusing_ctl;
	errno = EXDEV;
	rr_file_put(f);
	cr_assert_eq(errno, EXDEV);
	cr_assert(nctl > 0 && !watch_of(o.fd));
}

/* --- arguments --- */

/* As the kernel takes them: a sanitizer would look at them first. */
static int raw_pwait(int epfd, struct epoll_event *evs, int max, int timeout, const sigset_t *mask)
{
	return (int)syscall(SYS_epoll_pwait, epfd, evs, max, timeout, mask, 8);
}

static int raw_wait(int epfd, struct epoll_event *evs, int max, int timeout)
{
	return raw_pwait(epfd, evs, max, timeout, NULL);
}

static void refused(int rc, int err, int line)
{
	cr_assert(rc == -1 && errno == err, "line %d: %d, errno %d", line, rc, errno);
}

#define REFUSED(call, err)	refused((call), (err), __LINE__)

/* Though one of ours has news. */
Test(ready_epoll_ctl, arguments_of_a_wait_are_the_kernels_to_refuse)
{
	enum { MOST = INT_MAX / sizeof(struct epoll_event) };
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct epoll_event *bad = (struct epoll_event *)-8;
	const sigset_t *bad_mask = (const sigset_t *)-8;
	sigset_t none;

	sigemptyset(&none);
	rr_real.epoll_wait = raw_wait;
	rr_real.epoll_pwait = raw_pwait;
	cr_assert_eq(write(o.peer, "x", 1), 1);
	o.c->ready = POLLIN;
	for (int ms = 0; ms < 2; ms++) {
		REFUSED(rr_wrap_epoll_wait(o.ep, o.ev, 0, ms), EINVAL);
		REFUSED(rr_wrap_epoll_wait(o.ep, o.ev, -1, ms), EINVAL);
		REFUSED(rr_wrap_epoll_wait(o.ep, o.ev, MOST + 1, ms), EINVAL);
		REFUSED(rr_wrap_epoll_wait(o.ep, bad, 8, ms), EFAULT);
		REFUSED(rr_wrap_epoll_wait(o.fd, o.ev, 8, ms), EINVAL);
		REFUSED(rr_wrap_epoll_pwait(o.ep, o.ev, 8, ms, bad_mask), EFAULT);
		REFUSED(rr_wrap_epoll_pwait(o.ep, o.ev, 0, ms, &none), EINVAL);
		REFUSED(rr_wrap_epoll_pwait(o.ep, bad, 8, ms, &none), EFAULT);
		cr_assert_eq(rr_wrap_epoll_pwait(o.ep, o.ev, 1, ms, &none), 1);
		cr_assert_eq(rr_wrap_epoll_wait(o.ep, o.ev, MOST, ms), 1);
	}
}
