/* SPDX-License-Identifier: BSD-3-Clause */
/* What a signal handler does with epoll sets that has interrupted the holder of their lock: it changes nothing, and the
 * holder finds the lock as it was. */
#include <errno.h>

#include "core/base/ownfd.h"
#include "tests/unit/ready_epoll.h"

static struct one o;
static struct rr_ep_watch *w;
static struct rr_ep_set *s;

static void begin_held(void)
{
	struct rr_sock *so;

	o = begin(RR_FAKE_CARRIED, EPOLLIN);
	so = rr_fdt_sock(o.fd);
	w = so->watches;
	s = w->set;
	rr_file_put(&so->f);
	cr_assert_eq(look(&o, 1), 0);
	cr_assert(!w->active && w->form == RR_EP_MANAGED && w->wake == o.c->wake && s->inner >= 0);
	cr_assert(rr_ep_lock());
}

TestSuite(ready_epoll_lock, .init = begin_held, .timeout = 60);

/* It is still the holder's, who lets go of it. */
static void let_go(void)
{
	cr_assert_not(rr_ep_lock());
	rr_ep_unlock();
	cr_assert(rr_ep_lock());
	rr_ep_unlock();
}

Test(ready_epoll_lock, a_set_that_goes_stays_as_it_is)
{
	bool last;
	struct rr_file *f = rr_fdt_take(o.ep, &last);

	cr_assert(last && f->refs == 1);
	rr_file_put(f);
	cr_assert(s->all == w && w->set == s && rr_ownfd_is(s->inner));
	let_go();
}

Test(ready_epoll_lock, a_set_that_is_made_is_the_kernels)
{
	int ep = rr_wrap_epoll_create1(0);

	cr_assert_geq(ep, 0);
	cr_assert_not(rr_fdt_has(ep));
	let_go();
	cr_assert(rr_fdt_has(rr_wrap_epoll_create1(0)));
}

Test(ready_epoll_lock, numbers_of_ours_do_not_move)
{
	int inner = s->inner;

	cr_assert_not(rr_ep_move_fd(inner));
	cr_assert(s->inner == inner && rr_ownfd_is(inner));
	let_go();
	cr_assert(rr_ep_move_fd(inner));
	cr_assert_neq(s->inner, inner);
}

Test(ready_epoll_lock, what_a_connection_has_become_is_not_looked_at)
{
	struct rr_sock *so = w->so;

	o.c->face.state = RR_FAKE_TCP;
	o.c->ready = POLLIN;
	rr_ep_wake_moved(o.c->wake);
	rr_sock_sync(so);
	rr_sock_is_dry(so, POLLIN);
	rr_ep_activate(so);
	cr_assert(w->form == RR_EP_MANAGED && !w->dry && !w->news && !w->active);
	let_go();
	rr_ep_wake_moved(o.c->wake + 1);
	cr_assert_eq(w->form, RR_EP_MANAGED, "another's");
	rr_ep_wake_moved(o.c->wake);
	cr_assert(w->form == RR_EP_PLAIN && w->wake == -1);
}

Test(ready_epoll_lock, a_socket_that_goes_leaves_its_watches)
{
	rr_ep_sock_gone(w->so, o.fd);
	cr_assert(w->so->watches == w && w->set == s);
	let_go();
	errno = EXDEV;
	rr_ep_sock_gone(w->so, o.fd);
	cr_assert(!w->set && errno == EXDEV);
}

Test(ready_epoll_lock, a_set_in_a_set_shows_nothing)
{
	rr_time until = 0;
	int outer;

	o.c->ready = POLLIN;
	rr_ep_activate_one(w, true);
	s->in_set = true;
	cr_assert_eq(rr_ep_show_all_nested(), RR_TIME_NEVER);
	cr_assert_not(s->kicked);
	cr_assert_not(rr_ep_readable(&s->f, o.ep, &until));
	cr_assert(until == RR_TIME_NEVER && !s->kicked && !s->nested);
	s->in_set = false;
	outer = epoll_create1(0);
	ctl(outer, EPOLL_CTL_ADD, o.ep, EPOLLIN);
	cr_assert(!s->nested && !s->in_set && !s->kicked);
	let_go();
	s->in_set = true;
	rr_ep_show_all_nested();
	cr_assert(s->kicked);
	s->kicked = false;
	cr_assert(rr_ep_readable(&s->f, o.ep, &until));
	cr_assert(s->kicked && s->nested);
}

Test(ready_epoll_lock, a_registration_is_the_kernels)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT };

	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_ADD, o.fd, &ev), -1);
	cr_assert_eq(errno, EEXIST);
	cr_assert_eq(w->app.events, EPOLLIN);
	let_go();
	cr_assert_eq(s->f.refs, 1);
	cr_assert_eq(w->so->f.refs, 1);
}
