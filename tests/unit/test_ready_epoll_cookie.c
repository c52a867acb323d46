/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers that no app's epoll data is likely to be. */
#include "tests/unit/played_random.h"
#include "tests/unit/ready_epoll.h"

#define rr_os_random random_played
#include "preload/epset.c"
#undef rr_os_random

/* The first outputs of splitmix64 (Vigna's reference code) for the seed 1234567. */
Test(ready_epoll_cookie, numbers_are_those_of_splitmix64)
{
	static const uint64_t of_seed[] = {
		UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
		UINT64_C(4593380528125082431), UINT64_C(16408922859458223821),
	};

	random_state = 1234567;
	for (size_t i = 0; i < rr_array_size(of_seed); i++)
		cr_assert_eq(random64(), of_seed[i], "%zu", i);
}

Test(ready_epoll_cookie, the_seed_is_random)
{
	uint64_t first;

	random_state = 0;
	first = random64();
	cr_assert_neq(random_state, 0);
	random_state = 0;
	cr_assert_neq(random64(), first);
	cr_assert_eq(random_asked, 2);
	random64();
	cr_assert_eq(random_asked, 2, "once is enough");
}

/* The clock then has to do. */
Test(ready_epoll_cookie, without_a_random_seed_each_moment_has_its_numbers)
{
	uint64_t first;

	no_random = true;
	random_state = 0;
	first = random64();
	cr_assert_neq(random_state, UINT64_C(0x9e3779b97f4a7c15), "of no seed");
	random_state = 0;
	cr_assert_neq(random64(), first);
}

/* Sets are made in lots, and used again when they are gone. */
Test(ready_epoll_cookie, sets_are_used_again_and_begin_anew)
{
	enum { N = 40 };
	struct rr_ep_set *s[N], *was = sets;
	int fd[N];

	for (int i = 0; i < N; i++) {
		fd[i] = (int)epoll_create1(0);
		s[i] = rr_ep_new(fd[i]);
		cr_assert_not_null(s[i]);
		cr_assert(s[i]->epfd == fd[i] && s[i]->inner == -1 && s[i]->f.kind == RR_KIND_EPOLL && s[i]->f.refs == 1 &&
			  s[i]->f.fds == 1);
		cr_assert(rr_ep_next(NULL) == s[i] && rr_ep_next(s[i]) == (i ? s[i - 1] : was));
		for (int k = 0; k < i; k++)
			cr_assert(s[k] != s[i] && s[k]->cookie != s[i]->cookie);
	}
	s[7]->foreign = s[7]->nested = s[7]->in_set = s[7]->kicked = s[7]->kernel_first = true;
	s[7]->pass = s[7]->round = 9;
	atomic_store(&s[7]->keyed, true);
	atomic_store(&s[7]->sleepers, 3);
	atomic_store(&s[7]->tagged, 3);
	struct stat st;

	cr_assert_eq(fstat(fd[7], &st), 0);
	cr_assert_eq(s[7]->f.ino, st.st_ino);
	uint64_t cookie = s[7]->cookie;
	cr_assert_eq(rr_wrap_close(fd[7]), 0);
	cr_assert_eq(rr_ep_next(s[8]), s[6], "it is on no list");
	cr_assert_eq(free_sets, s[7]);
	s[7]->f.fds = 5;
	s[7]->f.ino = 0;
	fd[7] = (int)epoll_create1(0);
	cr_assert_eq(rr_ep_new(fd[7]), s[7]);
	cr_assert(s[7]->f.fds == 1 && s[7]->f.ino == st.st_ino && s[7]->f.refs == 1);
	cr_assert(!s[7]->foreign && !s[7]->nested && !s[7]->in_set && !s[7]->kicked && !s[7]->kernel_first);
	cr_assert(!s[7]->pass && !s[7]->round && !s[7]->keyed && !s[7]->sleepers && !s[7]->tagged);
	cr_assert_neq(s[7]->cookie, cookie);
	for (int i = 0; i < N; i++)
		cr_assert_eq(rr_wrap_close(fd[i]), 0);
	cr_assert_eq(rr_ep_next(NULL), was);
	cr_assert_null(rr_ep_new(-1), "no file");
}

/* What a child of a fork finds: all sets are the parent's until it uses them. */
Test(ready_epoll_cookie, a_child_takes_nothing_over_but_what_it_uses)
{
	struct one o = begin(RR_FAKE_CARRIED, EPOLLIN);
	struct rr_ep_set *s = sets;
	struct rr_ep_watch *w = s->all;
	int inner = s->inner;

	cr_assert_eq(look(&o, 1), 0);
	cr_assert(w->wake == o.c->wake && !w->active && inner >= 0);
	atomic_store(&s->sleepers, 2);
	rr_ep_fork_prepare();
	cr_assert_not(rr_ep_lock(), "it is held over the fork");
	rr_ep_fork_child();
	cr_assert(s->foreign && s->inner == -1 && w->wake == -1 && s->sleepers == 0);
	cr_assert_lt(fcntl(inner, F_GETFD), 0, "the child has no use for the parent's");
	cr_assert(rr_ep_lock());
	rr_ep_use(s, o.ep);
	rr_ep_unlock();
	cr_assert(!s->foreign && s->inner >= 0 && w->wake == o.c->wake && w->active && w->news);
	rr_ep_fork_prepare();
	rr_ep_fork_parent();
	cr_assert(rr_ep_lock());
	rr_ep_unlock();
}
