/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches where something is missing: memory, random numbers, a number of the socket's or of the set's; and events of
 * the kernel's for watches that it should know nothing of. */
#include <errno.h>
#include <sys/resource.h>

#include "core/base/ownfd.h"
#include "preload/epset.h"
#include "tests/unit/played_random.h"

#define rr_os_random random_played
#include "preload/epwatch.c"
#undef rr_os_random

#include "tests/unit/played_clock.h"
#include "tests/unit/ready_epoll.h"

TestSuite(ready_epoll_reach, .timeout = 60);

/* The newest watch of the socket. */
static struct rr_ep_watch *newest(const struct one *o)
{
	struct rr_sock *so = rr_fdt_sock(o->fd);

	rr_file_put(&so->f);
	return so->watches;
}

Test(ready_epoll_reach, there_is_a_most_number_of_watches)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct epoll_event ev = { .events = EPOLLIN };
	struct rr_ep_watch *w = newest(&o), *were = free_watches;
	uint32_t n = nchunks;

	free_watches = NULL;
	nchunks = CHUNKS;
	cr_assert_null(rr_ep_watch_new(w->set, w->so, o.fd, &ev));
	cr_assert(nchunks == CHUNKS && w->so->watches == w && w->set->all == w);
	nchunks = CHUNKS - 1;
	cr_assert_not_null(rr_ep_watch_new(w->set, w->so, o.fd, &ev));
	cr_assert_eq(nchunks, CHUNKS);
	nchunks = n;
	free_watches = were;
}

/* Without random numbers the clock must do. */
Test(ready_epoll_reach, keys_of_another_moment_are_other_keys)
{
	uint64_t first;

	now = START;
	no_random = true;
	cr_assert(more_watches());
	first = prefix;
	cr_assert(first >> 63 && first << 1);
	cr_assert_eq(free_watches->key, (first & ~UINT64_C(0xfffff)));
	/* The prefix is one for the process. */
	now++;
	cr_assert(more_watches());
	cr_assert_eq(prefix, first);
	cr_assert_eq(free_watches->key, (first & ~UINT64_C(0xfffff)) | CHUNK);
	prefix = 0;
	cr_assert(more_watches());
	cr_assert(prefix >> 63 && prefix != first);
	cr_assert_neq(prefix >> INDEX_BITS, first >> INDEX_BITS);
	cr_assert_eq(random_asked, 2);
	for (int i = 0; i < 10; i++) {
		now++;
		prefix = 0;
		cr_assert(more_watches());
		cr_assert(prefix >> 63, "no pointer or small number is one");
	}
	random_asked = 2;
	no_random = false;
	prefix = 0;
	cr_assert(more_watches());
	cr_assert(random_asked == 3 && prefix >> 63);
	cr_assert_neq(prefix, (now * UINT64_C(0x9e3779b97f4a7c15)) | UINT64_C(1) << 63);
}

Test(ready_epoll_reach, a_socket_without_a_number_has_nothing_to_tell)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = newest(&o);
	struct rr_file *f;
	bool last;

	o.c->ready = POLLIN;
	cr_assert(rr_ep_any_due(w->set));
	cr_assert_not(rr_ep_arm(w));
	cr_assert_eq(rr_ep_other_fd(w), o.fd);
	f = rr_fdt_take(o.fd, &last);
	cr_assert_eq(rr_ep_other_fd(w), -1);
	cr_assert_eq(rr_ep_watch_fd(w), -1);
	o.c->polls = o.c->arms = 0;
	cr_assert_not(rr_ep_any_due(w->set));
	cr_assert_eq(rr_ep_ask(w), RR_CONN_KERNEL);
	cr_assert(rr_ep_arm(w));
	cr_assert(!o.c->polls && !o.c->arms);
	rr_fdt_give(o.fd, f);
	/* Nor has one without a connection. */
	o.c->face.state = RR_FAKE_TCP;
	cr_assert_not(rr_ep_any_due(w->set));
	cr_assert_eq(rr_ep_ask(w), RR_CONN_KERNEL);
	cr_assert(rr_ep_arm(w));
	cr_assert(!o.c->polls && !o.c->arms);
}

Test(ready_epoll_reach, a_socket_at_the_number_0_has_something_to_tell)
{
	struct one o = { .ep = rr_wrap_epoll_create1(0) };
	struct rr_ep_watch *w;
	int fd = tcp(&o.peer);

	cr_assert_eq(dup2(fd, 0), 0);
	o.c = rr_fake_conn(0, RR_FAKE_CARRIED);
	ctl(o.ep, EPOLL_CTL_ADD, 0, EPOLLIN);
	w = newest(&o);
	o.c->ready = POLLIN;
	cr_assert(rr_ep_any_due(w->set));
	cr_assert_eq(rr_ep_ask(w), POLLIN);
	cr_assert_not(rr_ep_arm(w));
	cr_assert(rr_ep_other_fd(w) == 0 && rr_ep_watch_fd(w) == 0);
}

Test(ready_epoll_reach, another_watch_may_have_something_where_one_has_no_connection)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), p = { .ep = o.ep, .fd = tcp(&p.peer) };
	struct rr_ep_set *s = newest(&o)->set;

	p.c = rr_fake_conn(p.fd, RR_FAKE_CARRIED);
	ctl(o.ep, EPOLL_CTL_ADD, p.fd, EPOLLIN);
	cr_assert(s->first == newest(&o) && s->first->next == newest(&p));
	o.c->face.state = RR_FAKE_TCP;
	p.c->ready = POLLIN;
	cr_assert(rr_ep_any_due(s));
	p.c->ready = 0;
	cr_assert_not(rr_ep_any_due(s));
}

/* An offer that nobody has taken in makes the kernel's set readable, too, and is left to those who wait. */
Test(ready_epoll_reach, what_one_has_is_enough_for_a_set_in_poll)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN), p = { .ep = o.ep, .fd = tcp(&p.peer) };
	struct pollfd k = { o.ep, POLLIN, 0 }, app = k;

	p.c = rr_fake_conn(p.fd, RR_FAKE_NEW);
	p.c->offer = true;
	ctl(o.ep, EPOLL_CTL_ADD, p.fd, EPOLLIN);
	cr_assert_eq(write(p.peer, "x", 1), 1);
	cr_assert_eq(poll(&k, 1, 10000), 1);
	o.c->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(&app, 1, 0), 1);
	cr_assert_eq(p.c->swallowed, 0);
	o.c->ready = 0;
	cr_assert_eq(rr_wrap_poll(&app, 1, 0), 0);
	cr_assert_eq(p.c->swallowed, 1);
}

/* The app has closed the number by which it used the set last, and others got it. */
Test(ready_epoll_reach, a_set_is_found_among_others_which_stay_as_they_are)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = newest(&o)->set, *other[2];
	int high = fcntl(o.ep, F_DUPFD, 500), eps[2];

	cr_assert_eq(high, 500);
	rr_sock_dup(o.ep, high);
	eps[1] = rr_wrap_epoll_create1(0);
	cr_assert_eq(rr_wrap_close(o.ep), 0);
	eps[0] = rr_wrap_epoll_create1(0);
	cr_assert_eq(eps[0], o.ep);
	for (int i = 0; i < 2; i++) {
		other[i] = rr_ep_at(eps[i]);
		rr_file_put(&other[i]->f);
	}
	cr_assert_eq(s->epfd, o.ep);
	cr_assert(have_epfd(s));
	cr_assert_eq(s->epfd, high);
	cr_assert(s->f.refs == 1 && other[0]->f.refs == 1 && other[1]->f.refs == 1);
	cr_assert(have_epfd(s));
	cr_assert_eq(s->f.refs, 1);
}

Test(ready_epoll_reach, a_set_may_be_made_at_the_number_0)
{
	close(0);
	cr_assert_eq(rr_wrap_epoll_create1(0), 0);
	cr_assert(rr_fdt_has(0));
	cr_assert_eq(rr_wrap_close(0), 0);
	cr_assert_eq(rr_wrap_epoll_create(1), 0);
	cr_assert(rr_fdt_has(0));
}

Test(ready_epoll_reach, a_set_may_have_the_number_0)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = newest(&o)->set;

	cr_assert_eq(rr_wrap_dup2(o.ep, 0), 0);
	cr_assert_eq(rr_wrap_close(o.ep), 0);
	cr_assert(have_epfd(s));
	cr_assert(s->epfd == 0 && s->f.refs == 1);
}

/* The kernel had an event under way when the watch took its form. */
Test(ready_epoll_reach, an_event_for_a_watch_that_is_managed_makes_it_active)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = newest(&o);
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = w->key };

	cr_assert_eq(look(&o, 1), 0);
	cr_assert(!w->active && !w->news);
	w->set->pass++;
	cr_assert_eq(rr_ep_sift(w->set, &ev, 1, 0), 0);
	cr_assert(w->active && w->news && w->form == RR_EP_MANAGED);
	/* Of one that has fired nobody wants to hear: the kernel is told so. */
	rr_ep_deactivate(w);
	w->fired = true;
	w->news = false;
	ev.data.u64 = w->key;
	cr_assert_eq(rr_ep_sift(w->set, &ev, 1, 0), 0);
	cr_assert(!w->active && !w->news && w->form == RR_EP_HUSHED);
	/* Nor of what was told in this round, or is another set's. */
	w->fired = false;
	w->form = RR_EP_MANAGED;
	w->told = w->set->pass;
	ev.data.u64 = w->key;
	cr_assert_eq(rr_ep_sift(w->set, &ev, 1, 0), 0);
	cr_assert_not(w->active);
}

Test(ready_epoll_reach, a_number_that_a_file_has_again_is_watched_once)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = newest(&o);
	int fd = rr_wrap_dup(o.fd);

	/* Closed unseen, and given back to the same file: the kernel knows it no more. */
	cr_assert_eq(epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	ctl(o.ep, EPOLL_CTL_ADD, o.fd, EPOLLIN | EPOLLOUT);
	w = newest(&o);
	cr_assert(w->app.events == (EPOLLIN | EPOLLOUT) && !w->so_next && w->set->all == w && !w->set_next);
	rr_wrap_close(fd);
}

static int refused_op;

static int refuse_op(int epfd, int op, int fd, struct epoll_event *ev)
{
	if (op != refused_op)
		return epoll_ctl(epfd, op, fd, ev);
	errno = EPERM;
	return -1;
}

Test(ready_epoll_reach, what_the_kernel_does_not_remove_stays)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_watch *w = newest(&o);

	rr_real.epoll_ctl = refuse_op;
	refused_op = EPOLL_CTL_DEL;
	cr_assert(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL) == -1 && errno == EPERM);
	cr_assert_eq(newest(&o), w);
	refused_op = -1;
	cr_assert_eq(epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0);
	cr_assert_eq(rr_wrap_epoll_ctl(o.ep, EPOLL_CTL_DEL, o.fd, NULL), 0, "it is gone already");
	cr_assert_null(newest(&o));
}

Test(ready_epoll_reach, a_bell_that_a_set_does_not_take_keeps_its_number)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = newest(&o)->set;
	int bell = -1, n = 0, open = 0;

	for (int fd = rr_ownfd_next(0); fd >= 0; fd = rr_ownfd_next(fd + 1)) {
		if (fd != s->inner)
			bell = fd;
		n++;
	}
	cr_assert(n == 2 && bell >= 0);
	rr_real.epoll_ctl = refuse_op;
	refused_op = EPOLL_CTL_ADD;
	cr_assert_not(rr_ep_move_fd(bell));
	for (int fd = rr_ownfd_next(0); fd >= 0; fd = rr_ownfd_next(fd + 1))
		open += fd == bell || fd == s->inner ? 1 : 100;
	cr_assert_eq(open, 2, "the new number is closed again");
	refused_op = -1;
	s->kicked = false;
	rr_ep_kick(s);
	cr_assert(s->kicked, "by the old one");
}

Test(ready_epoll_reach, without_memory_a_set_is_the_kernels)
{
	struct rlimit was, none;
	int ep;

	errno = EXDEV;
	cr_assert_eq(getrlimit(RLIMIT_AS, &was), 0);
	none = (struct rlimit){ 4096, was.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	ep = rr_wrap_epoll_create1(0);
	setrlimit(RLIMIT_AS, &was);
	cr_assert_geq(ep, 0);
	cr_assert_not(rr_fdt_has(ep));
	cr_assert_eq(errno, EXDEV);
	cr_assert(rr_ep_lock());
	rr_ep_unlock();
}
